"""Make or mend the course's Python environment; do nothing when it is already right.

The Makefile calls this before every target. It needs only the standard library, since nothing is
installed yet. A record in the environment says what was installed from which inputs. It is marked
unfinished while pip works, so a set-up that was interrupted anywhere is seen and mended next time.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pip_progress import Pip

SUPPORTED = ((3, 11), (3, 12), (3, 13))
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of builds without CUDA. Their version is 2.x+cpu, which a pin on 2.x accepts and prefers."""
LOCK = ".loop-to-cluster.lock"
RECORD = ".loop-to-cluster.json"
MARKS = ("pyvenv.cfg", "conda-meta", RECORD)
"""One of these makes a folder an environment. A bin/python alone does not: /usr and many a home folder have one."""
OWN = {"bin", "include", "lib", "lib64", "share", "etc", "man", "setup.log", "pyvenv.cfg", ".gitignore", "CACHEDIR.TAG"}
"""What Python, pip, Jupyter and this tool put into an environment. Nothing else is ever removed."""
NEEDED_GB = {"plain": 14, "cpu": 6}
"""Measured: the environment takes 8.6 GB, 4.1 GB of them CUDA libraries that the CPU build leaves out; the rest is
for pip's downloads."""
PROBE = "import sys, pip, sysconfig; print(*sys.version_info[:2], sysconfig.get_path('purelib'))"


class SetupError(Exception):
    """The environment cannot be made; the message says what to do next."""


@dataclass(frozen=True)
class Wanted:
    """What a set-up is asked for."""

    root: Path
    venv: Path
    extras: frozenset[str]
    torch: str
    """``cpu``, ``plain``, or empty for what the environment has already."""

    def inputs(self) -> str:
        """Return a digest of the files that decide what gets installed."""
        import tomllib

        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
        project.pop("tool", None)
        text = json.dumps(project, sort_keys=True) + (self.root / "constraints.txt").read_text(encoding="utf-8")
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Python:
    """The environment's working interpreter."""

    executable: Path
    version: tuple[int, int]
    site: Path


def main() -> int:
    """Set the environment up and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--extras", default="", help="comma-separated extras of the course's package")
    parser.add_argument("--torch", choices=("", "plain", "cpu"), default="")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    supported_python_or_exec()
    extras = frozenset(filter(None, args.extras.split(",")))
    wanted = Wanted(args.root.resolve(), args.venv.expanduser().absolute(), extras, args.torch)
    try:
        if not is_ready(wanted):
            with locked(wanted.venv):
                if not is_ready(wanted):  # another clone may have done the work while this one waited
                    set_up(wanted)
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: stopped. Run the same command again: it goes on where it can.", file=sys.stderr)
        return 130
    return 0


def supported_python_or_exec() -> None:
    """Go on under a supported Python: this one, or the first that is found beside it."""
    if sys.version_info[:2] in SUPPORTED:
        return
    for major, minor in SUPPORTED:
        other = shutil.which(f"python{major}.{minor}")
        if other and subprocess.run([other, "-c", "import venv"], capture_output=True).returncode == 0:
            os.execv(other, [other, *sys.argv])
    sys.exit(
        f"set-up: this is Python {sys.version_info[0]}.{sys.version_info[1]}; the course needs 3.11, 3.12 or 3.13. "
        "Install one of them, then name it: make lab PYTHON=python3.12"
    )


def is_ready(wanted: Wanted) -> bool:
    """Say whether the environment holds what is wanted, from its record and a look at its interpreter."""
    record = read_record(wanted.venv)
    if not record.get("complete") or record.get("inputs") != wanted.inputs():
        return False
    if not wanted.extras <= set(record.get("extras", [])):
        return False
    python = probe(wanted.venv)
    return python is not None and list(python.version) == record.get("python") and flavour_fits(wanted, python, record)


def set_up(wanted: Wanted) -> None:
    """Make the interpreter if needed, remove what an interrupted pip left, install, and record it."""
    record = read_record(wanted.venv)
    python = interpreter(wanted.venv, record)
    if not flavour_fits(wanted, python, record):
        raise SetupError(
            f"{wanted.venv} already holds another build of PyTorch than TORCH={wanted.torch}. "
            f"Remove that folder first, or keep both: add VENV=.venv-{wanted.torch} to the command."
        )
    if record and not record.get("complete"):
        remove_broken_packages(python.site)
    flavour = wanted.torch or str(record.get("torch", "plain"))
    warn_about_space(wanted.venv, python, flavour)
    same_inputs = record.get("inputs") == wanted.inputs()
    extras = wanted.extras | (frozenset(record.get("extras", [])) if same_inputs else frozenset())
    done = {"inputs": wanted.inputs(), "extras": sorted(extras), "torch": flavour, "python": list(python.version)}
    write_record(wanted.venv, {**done, "complete": False})
    target = f"{wanted.root}[{','.join(sorted(extras))}]" if extras else str(wanted.root)
    index = ["--extra-index-url", CPU_INDEX] if flavour == "cpu" else []
    pip = Pip(python=python.executable, log=wanted.venv / "setup.log")
    failure = pip.install(["-c", str(wanted.root / "constraints.txt"), *index, "-e", target])
    if failure:
        raise SetupError(failure)
    write_record(wanted.venv, {**done, "complete": True})


def interpreter(venv: Path, record: dict[str, Any]) -> Python:
    """Return the environment's interpreter, made anew where there is none that works."""
    python = None if record.get("making") else probe(venv)
    if python is not None and record.get("python", list(python.version)) == list(python.version):
        if python.version in SUPPORTED:
            return python
        raise SetupError(
            f"{venv} holds Python {python.version[0]}.{python.version[1]}; the course needs 3.11, 3.12 or 3.13. "
            "Remove it, or choose another folder with VENV=…"
        )
    if (venv / "conda-meta").exists():
        raise SetupError(f"{venv} is a conda environment without a working python and pip. Make it again with conda.")
    clear(venv)
    print(f"Making {venv} with Python {sys.version.split()[0]}", flush=True)
    write_record(venv, {"making": True})  # a kill from here on leaves a pip that starts and is not whole
    made = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True)
    python = probe(venv)
    if made.returncode or python is None:
        raise SetupError(
            f"{sys.executable} could not make an environment:\n{(made.stdout + made.stderr).strip()}\n"
            "On Debian or Ubuntu install python3-venv; elsewhere name another Python: make lab PYTHON=python3.12"
        )
    return python


def clear(venv: Path) -> None:
    """Empty the folder of a broken environment, and touch nothing if anything else lies in it."""
    children = [child for child in venv.iterdir() if child.name != LOCK]
    others = sorted(child.name for child in children if child.name not in {*OWN, RECORD, RECORD + ".new"})
    if others:
        raise SetupError(
            f"the environment in {venv} does not work and would be made again, but other files lie there too: "
            f"{', '.join(others[:5])}{' …' if len(others) > 5 else ''}. Move them away, or choose another VENV."
        )
    if children:
        print(f"The environment in {venv} is broken or half-made: making it again.", flush=True)
    for child in children:
        shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()


def probe(venv: Path) -> Python | None:
    """Return the environment's interpreter, or None where it or its pip does not start."""
    executable = venv / "bin" / "python"
    try:
        answer = subprocess.run([str(executable), "-I", "-c", PROBE], capture_output=True, text=True, timeout=60)
        major, minor, site = answer.stdout.strip().split(" ", 2)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Python(executable, (int(major), int(minor)), Path(site))


def flavour_fits(wanted: Wanted, python: Python, record: dict[str, Any]) -> bool:
    """Say whether the PyTorch that is there, if any, is the build that is wanted."""
    installed = next(python.site.glob("torch-*.dist-info"), None)
    if not wanted.torch or installed is None:
        return True
    # On a Mac the CPU index serves the plain wheel, so the record speaks first where there is one.
    return str(record.get("torch", "cpu" if "+cpu" in installed.name else "plain")) == wanted.torch


def remove_broken_packages(site: Path) -> None:
    """Remove the metadata of packages that an interrupted pip left incomplete, so that pip installs them again.

    pip takes a package for installed once its metadata is there. A kill can leave metadata without
    the list of files, or files that are missing or short.
    """
    for leftover in site.glob("~*"):  # pip's name for a package that it was replacing
        shutil.rmtree(leftover, ignore_errors=True)
    for metadata in site.glob("*.dist-info"):
        if not is_whole(metadata):
            print(f"{metadata.name} is incomplete: it will be installed again.", flush=True)
            shutil.rmtree(metadata)


def is_whole(metadata: Path) -> bool:
    """Say whether every file of a package is there with its size. Source: the RECORD file of PEP 376 and PEP 427."""
    try:
        lines = (metadata / "RECORD").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    for line in lines:
        name, _, size = line.rpartition(",")
        name = name.rpartition(",")[0].strip('"')
        try:
            if size and (metadata.parent / name).stat().st_size != int(size):
                return False
        except (OSError, ValueError):
            return False
    return bool(lines)


def warn_about_space(venv: Path, python: Python, flavour: str) -> None:
    """Say so before a long download when the disk looks too small for it."""
    free_gb = shutil.disk_usage(venv).free / 1e9
    if free_gb < NEEDED_GB[flavour] and next(python.site.glob("torch-*.dist-info"), None) is None:
        print(
            f"Only {free_gb:.1f} GB are free in {venv}; the set-up needs about {NEEDED_GB[flavour]} GB. "
            "VENV=… puts it on another disk, and TORCH=cpu saves 4 GB or more.",
            flush=True,
        )


@contextlib.contextmanager
def locked(venv: Path) -> Iterator[None]:
    """Hold the environment's lock, so that two clones never install into it at once."""
    try:
        strangers = venv.is_dir() and any(venv.iterdir()) and not (venv / LOCK).exists()
        if strangers and not any((venv / mark).exists() for mark in MARKS):
            raise SetupError(f"{venv} is a folder with other files in it, not an environment. Choose another VENV.")
        venv.mkdir(parents=True, exist_ok=True)
        lock = (venv / LOCK).open("w")
    except OSError as error:
        raise SetupError(f"{venv} cannot be written: {error.strerror}. Choose another folder with VENV=…") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print(f"Another set-up is working in {venv}: waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_record(venv: Path) -> dict[str, Any]:
    """Return what the last set-up wrote; empty where there is none or it cannot be read."""
    try:
        record = json.loads((venv / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def write_record(venv: Path, record: dict[str, Any]) -> None:
    """Replace the record in one step, so that it is never half-written."""
    new = venv / (RECORD + ".new")
    new.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    new.replace(venv / RECORD)


if __name__ == "__main__":
    raise SystemExit(main())
