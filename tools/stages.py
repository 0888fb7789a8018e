"""Run the stages of ``make test`` one after the other, and say at the end which passed.

Every stage is a pytest run with its own summary line. A stage that finds no test has failed: pytest's
exit status 5 counts like any other.
"""

from __future__ import annotations

import subprocess
import sys
import time

OWN_STAGES = ("tests/book", "tests/browser")
MEASUREMENTS = "tests/benchmarks"  # `make bench` runs these

STAGES = {
    "unit": ["tests", *(f"--ignore={folder}" for folder in (*OWN_STAGES, MEASUREMENTS))],
    "notebooks": [
        "--nbval",
        "--nbval-current-env",  # this environment's kernel, whatever else is installed under its name
        "--nbval-sanitize-with=tests/nbval_sanitize.cfg",
        "--nbval-cell-timeout=300",
        "-p",
        "no:cacheprovider",
        "chapters",
        "labs",
    ],
    "book": ["tests/book"],
    "browser": ["tests/browser"],
}

_OPTIONS = ["--no-header", *([] if sys.stdout.isatty() else ["--color=no"])]  # nbval colours a log file too


def main(names: list[str]) -> int:
    """Run the named stages, all by default; the status is 1 when any of them fails."""
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"There is no stage {unknown[0]!r}; the stages are: {', '.join(STAGES)}.", file=sys.stderr)
        return 2
    lines = []
    failed = False
    for name in names or STAGES:
        print(f"\n=== {name}: pytest {' '.join(STAGES[name])}", flush=True)
        started = time.monotonic()
        status = subprocess.run([sys.executable, "-m", "pytest", *_OPTIONS, *STAGES[name]], check=False).returncode
        failed = failed or status != 0
        verdict = "passed" if status == 0 else f"failed (pytest's exit status {status})"
        lines.append(f"{name:<10} {verdict}, {time.monotonic() - started:.0f} s")
    print("\n" + "\n".join(lines), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
