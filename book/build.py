"""Build the book: ``python book/build.py``. A warning fails the build, after all of them were shown."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(root: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """Build the pages of the course in a folder.

    Args:
        root: The folder that holds ``book/``, ``chapters/`` and ``labs/``.
        output: Where ``_build/html`` is made.

    Returns:
        The finished command: its exit status, and what it printed.
    """
    settings = ["--config", str(root / "book/_config.yml"), "--toc", str(root / "book/_toc.yml")]
    strict = ["-W", "-n", "--keep-going", "-q", "--all"]  # a page that is not read again hides its warnings
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(root), *settings]
    return subprocess.run(
        [*command, "--path-output", str(output), *strict],
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def main() -> int:
    """Build into ``book/_build`` and say where the pages are, or what is wrong."""
    begin = time.perf_counter()
    done = build(ROOT, ROOT / "book")
    if done.returncode != 0:
        print(done.stdout)
        return done.returncode
    print(f"The book is in book/_build/html ({time.perf_counter() - begin:.0f} s). To read it in a browser:")
    print("  python3 -m http.server --directory book/_build/html")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
