"""How much longer than a bare interpreter the package and its command take to start."""

from __future__ import annotations

import subprocess
import sys

from helpers.timing import Timings, compare

BARE = "python -c pass"
STARTS = {
    BARE: [sys.executable, "-c", "pass"],
    "import helpers": [sys.executable, "-c", "import helpers"],
    "course --help": [sys.executable, "-m", "helpers.cli", "--help"],
}


def measure(rounds: int) -> Timings:
    """Start each of them in turn."""
    return compare({name: lambda command=command: _run(command) for name, command in STARTS.items()}, repeats=rounds)


def extra_s(timings: Timings, name: str) -> float:
    """Return the quickest start beyond the quickest of a bare interpreter, in seconds.

    A start is short and only ever slowed down by others, so the minimum says more than the median.
    """
    return min(timings.seconds[name]) - min(timings.seconds[BARE])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
