"""A clone of this checkout in which `make lab` runs, as a newcomer has it.

JupyterLab saves into the notebooks that are open in it, so the tests never start it in the checkout itself.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = re.compile(r"http://\S+?[?&]token=\w+")
PROMPT = re.compile("Shut down this Jupyter server")
"""What the server asks after the first Ctrl-C."""


def copy_checkout(target: Path) -> None:
    """Copy what a commit of everything would hold: files that git tracks, and new ones that it does not ignore.

    Raises:
        RuntimeError: If this is no git checkout.
    """
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise RuntimeError(f"git cannot list the files of {ROOT}: {listed.stderr.strip()}")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():  # one that was deleted and not yet committed is listed too
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def environment_is_ready() -> bool:
    """Say whether `make` would take this environment as it is, and so install nothing into it."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import environment
    finally:
        sys.path.pop(0)
    extras = re.search(r"^extras := (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return environment.is_ready(environment.Wanted(ROOT, Path(sys.prefix), frozenset(extras[1].split(",")), ""))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MakeLab:
    """`make lab`, running in a clone.

    Args:
        clone: A copy of the checkout.
        own: A folder for Jupyter's settings and run files, in place of the user's.
    """

    def __init__(self, clone: Path, own: Path) -> None:
        own.mkdir()
        self.clone = clone
        self.port = free_port()
        self._terminal, theirs = pty.openpty()
        make = ["make", "lab", f"VENV={sys.prefix}", f"PORT={self.port}", f"PYTHON={sys.executable}"]
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *make],  # a session of its own at the new terminal, which turns Ctrl-C into a signal
            cwd=clone,
            env=_environment_of_a_newcomer(own),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self._said = ""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def address(self, timeout_s: float = 240) -> str:
        """Wait for the address and return it, with its token."""
        return self._wait_for(ADDRESS, timeout_s)

    def log(self, characters: int = 3000) -> str:
        """Return the end of what was printed."""
        with self._news:
            return self._said[-characters:]

    def stop(self, timeout_s: float = 60) -> list[str]:
        """Press Ctrl-C twice, as `make lab` says, and return the processes that this did not end; they are killed."""
        family: list[psutil.Process] = []
        if self._process.poll() is None:
            make = psutil.Process(self._process.pid)
            family = [make, *make.children(recursive=True)]
            self._press_ctrl_c()
            with contextlib.suppress(TimeoutError):
                self._wait_for(PROMPT, timeout_s)
                self._press_ctrl_c()
        _, alive = psutil.wait_procs(family, timeout=timeout_s)
        left = [_describe(process) for process in alive]
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._reader.join(timeout_s)
        os.close(self._terminal)
        return left

    def port_is_free(self) -> bool:
        """Say whether nothing listens on the port any more."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) != 0

    def _press_ctrl_c(self) -> None:
        os.write(self._terminal, b"\x03")

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # how a terminal says that nobody is left at its other end
            while data := os.read(self._terminal, 4096):
                with self._news:
                    self._said += data.decode(errors="replace").replace("\r\n", "\n")
                    self._news.notify_all()

    def _wait_for(self, pattern: re.Pattern[str], timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        with self._news:
            while not (found := pattern.search(self._said)):
                left_s = deadline - time.monotonic()
                if self._process.poll() is not None or left_s < 0:
                    ended = self._process.returncode
                    why = f"ended with {ended}" if ended is not None else f"did not within {timeout_s:.0f} s"
                    raise TimeoutError(f"`make lab` should print {pattern.pattern!r} and {why}:\n{self._said[-3000:]}")
                self._news.wait(min(left_s, 1))
        return found[0]


def _environment_of_a_newcomer(own: Path) -> dict[str, str]:
    """Return this process's environment without a display, without this make's choices and the user's settings."""
    dropped = {"DISPLAY", "WAYLAND_DISPLAY", "PYTHONPATH", "LOOP_SCRATCH", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    dropped |= {"VENV", "PORT", "PYTHON", "TORCH", "ADDRESS", "STAGES", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
    }
    return kept | {name: str(own / folder) for name, folder in folders.items()}


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return str(process.pid)
