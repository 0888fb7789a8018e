"""Run ``pip install`` quietly: one moving line of progress, the full log in a file, and advice when it fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

LARGE_MB = 100
"""Without a terminal only downloads of at least this size get a line: there are about a dozen."""
SHOWN_LINES = 12
STEP = re.compile(r"(Downloading|Using cached|Building wheel for|Installing collected packages|Collecting) ?(\S*)(.*)")
SIZE = re.compile(r"\(([\d.]+) (MB|GB)\)")

ADVICE = (
    (
        re.compile("No space left on device|Errno 28"),
        "The disk is full. Free some space, put the environment elsewhere with VENV=…, or use TORCH=cpu, then run the "
        "same command again.",
    ),
    (
        re.compile("Temporary failure in name resolution|NewConnectionError|Max retries|ReadTimeout|ConnectionError"),
        "The package index could not be reached. Check the network and pip's proxy settings (HTTPS_PROXY, PIP_CERT), "
        "then run the same command again: what is already downloaded is kept.",
    ),
    (
        re.compile("No matching distribution found|Could not find a version|ResolutionImpossible"),
        "The index has no package that fits this Python and this processor. The course is tested on Linux with "
        "Python 3.11; `pip download` of the package named above shows what is offered.",
    ),
    (
        re.compile("gcc|g\\+\\+|Python\\.h|error: command"),
        "A package had to be built and that failed. Install a C++ compiler and Python's headers (Debian: g++ and "
        "python3-dev), or use Python 3.11, for which every package comes ready-made.",
    ),
    (
        re.compile("Permission denied|Errno 13"),
        "The environment cannot be written by this user. Choose a folder of your own with VENV=…",
    ),
)


@dataclass(frozen=True)
class Pip:
    """pip of one environment, and the file that keeps all that it says."""

    python: Path
    log: Path

    def install(self, arguments: list[str]) -> str | None:
        """Install, and return None, or what went wrong with what to do about it."""
        command = [str(self.python), "-m", "pip", "install", "--no-input", "--progress-bar", "off", *arguments]
        tail: deque[str] = deque(maxlen=SHOWN_LINES)
        status = ProgressLine(started=time.monotonic())
        with self.log.open("w", encoding="utf-8", errors="replace") as log:
            pip = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=_environment(),
            )
            assert pip.stdout is not None
            for line in pip.stdout:
                log.write(line)
                if line.strip():
                    tail.append(line.rstrip())
                status.show(line)
            pip.wait()
        status.end("Packages are in place" if pip.returncode == 0 else "pip stopped")
        if pip.returncode == 0:
            return None
        said = "\n".join(tail)
        return f"pip failed (exit status {pip.returncode}):\n{said}\n\n{advice(said)}\nEverything pip said: {self.log}"


@dataclass
class ProgressLine:
    """What pip is doing now: one line rewritten on a terminal, a line per large step elsewhere."""

    started: float
    packages: int = 0

    def show(self, line: str) -> None:
        """Show a line of pip's output if it names a step."""
        step = STEP.match(line.strip())
        if step is None:
            return
        doing, subject, rest = step.groups()
        self.packages += doing == "Collecting"
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        if doing == "Installing collected packages":
            text = f"  {minutes}:{seconds:02d}  installing {self.packages or 'the'} packages"
        else:
            text = f"  {minutes}:{seconds:02d}  {doing.lower()} {subject}{rest}"
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            print("\r" + text[:width].ljust(width), end="", flush=True)
        elif doing.startswith("Installing") or _megabytes(rest) >= LARGE_MB:
            print(text[:150], flush=True)

    def end(self, text: str) -> None:
        """Finish with a line of its own."""
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        width = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else 0
        print(("\r" if width else "") + f"  {minutes}:{seconds:02d}  {text}.".ljust(width), flush=True)


def advice(said: str) -> str:
    """Return what to do about the last lines of a pip that failed."""
    for pattern, text in ADVICE:
        if pattern.search(said):
            return text
    return "Run the same command again; if it fails in the same way, remove the environment's folder and start afresh."


def _megabytes(text: str) -> float:
    size = SIZE.search(text)
    return float(size[1]) * (1000 if size[2] == "GB" else 1) if size else 0.0


def _environment() -> dict[str, str]:
    """Return the variables for pip, less those that would install elsewhere or import something else."""
    removed = {"PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"}
    return {key: value for key, value in os.environ.items() if key not in removed}
