"""Write ``constraints.txt``: the exact versions of everything the course needs, as installed and tested here.

Run it as ``make constraints`` in an environment that has all extras. It follows the requirements of
the course's package and of what they require in turn, so stray packages of the environment stay out.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

COURSE = "loop-to-cluster"
HEADER = """\
# The exact versions that the course was tested with, all extras included.
# Made by `make constraints`; change a range in pyproject.toml, install, test, then make it again.
"""


def closure(name: str, extras: frozenset[str]) -> dict[str, str]:
    """Return the installed version of each package that a package needs, by canonical name.

    Args:
        name: The distribution to start from; it is not part of the result.
        extras: Its extras to follow.

    Raises:
        SystemExit: If something that is needed is not installed.
    """
    versions: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(name, extra) for extra in ("", *extras)]
    while waiting:
        package, extra = key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        try:
            found = distribution(package)
        except PackageNotFoundError:
            raise SystemExit(
                f"{package} is needed and not installed: run `make bench-setup`, then try again."
            ) from None
        if package != name:
            versions[package] = Version(found.version).public  # torch's CPU build is 2.x+cpu: pin what both share
        for line in found.requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(requirement.name), inner) for inner in ("", *requirement.extras)]
    return versions


def main() -> None:
    """Write the file named by the first argument."""
    extras = distribution(COURSE).metadata.get_all("Provides-Extra") or []
    versions = closure(COURSE, frozenset(extras))
    lines = [f"{name}=={version}\n" for name, version in sorted(versions.items())]
    Path(sys.argv[1]).write_text(HEADER + "".join(lines))
    print(f"{len(lines)} versions written to {sys.argv[1]}")


if __name__ == "__main__":
    main()
