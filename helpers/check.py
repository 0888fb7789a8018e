"""``course check``: can this machine run the course, and what to do where it cannot.

Every check returns findings and never raises: a machine without ``/dev/shm``, a compiler or a font
is an answer. The frameworks are imported in processes of their own, side by side, since TensorFlow
takes seconds to load and a broken installation can end the process that imports it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import util
from pathlib import Path

from packaging.requirements import Requirement

from helpers import machine, versions
from helpers.probe import TENSORFLOW, TORCH, Answer, Probe

GB = 1e9
MB = 1e6
FONT_FOLDERS = (
    Path("/usr/share/fonts"),
    Path("/usr/local/share/fonts"),
    Path(os.environ.get("HOME", "."), ".local/share/fonts"),
)
"""Where fontconfig looks on Linux."""


class Status(StrEnum):
    """How a check ended."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a warning or a failure begins, and why there."""

    cores: float = 2
    """The chapters' run times are measured on two cores; on one, loaders and ranks share it and timings mislead."""
    shared_memory_bytes: float = 256 * MB
    """A container's default is 64 MB, which a few DataLoader workers fill: they then die with a bus error."""
    disk_warn_bytes: float = 2 * GB
    """CIFAR-10 with its archive takes 0.4 GB, compiled kernels and checkpoints of all chapters about 1 GB."""
    disk_fail_bytes: float = 0.3 * GB
    """Less does not hold one chapter's scratch files beside a compile cache."""
    import_s: float = 90
    """A cold import of TensorFlow from a network disk takes about half a minute; three times that is a hang."""
    port: int = 8888
    """JupyterLab's default."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report."""

    name: str
    status: Status
    detail: str
    fix: str | None = None
    """What to do; given whenever the status is not OK."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options to a parser."""
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def run(args: argparse.Namespace) -> int:
    """Print the report; the status is 1 when something fails.

    Args:
        args: What a parser prepared by :func:`add_arguments` returned.
    """
    found: list[Finding] = []
    for finding in findings(Limits()):
        found.append(finding)
        if not args.json:
            print(as_text(finding), flush=True)
    failed = sum(finding.status is Status.FAIL for finding in found)
    warned = sum(finding.status is Status.WARN for finding in found)
    if args.json:
        facts = {"ok": not failed, "machine": machine.describe().as_dict()}
        print(json.dumps({**facts, "checks": [dataclasses.asdict(finding) for finding in found]}, indent=1))
    else:
        print(f"{len(found)} checks: {failed} failed, {warned} with a warning")
    return 1 if failed else 0


def as_text(finding: Finding) -> str:
    """Return a finding as its line of the report, with its fix on a line below."""
    line = f"[{finding.status:^4}] {finding.name}: {finding.detail}"
    return line if finding.status is Status.OK else f"{line}\n       fix: {finding.fix}"


def findings(limits: Limits) -> Iterator[Finding]:
    """Yield the findings in the report's order; slow ones work while the first are shown."""
    torch, tensorflow = Probe(TORCH), Probe(TENSORFLOW)
    checks: list[Callable[[], Iterator[Finding]]] = [
        python,
        packages,
        sources,
        lambda: shared_memory(limits),
        lambda: disk(limits),
        compiler,
        fonts,
        lambda: ports(limits),
        kernel,
        lambda: frameworks(torch, tensorflow, limits),
    ]
    for check in checks:
        yield from check()


def python() -> Iterator[Finding]:
    """Compare the interpreter's version with the range in the package's metadata."""
    allowed, here = versions.python_range(), machine.describe().python
    if allowed is None or allowed.contains(here):
        yield Finding(name="Python", status=Status.OK, detail=f"{here} in {sys.prefix}")
        return
    fix = "make the environment with a supported one: make lab PYTHON=python3.11"
    yield Finding(name="Python", status=Status.FAIL, detail=f"{here}; the course needs {allowed}", fix=fix)


def packages() -> Iterator[Finding]:
    """Compare the installed versions with the tested ones: a line per package in use, one for all others."""
    tested = versions.tested()
    direct = versions.direct_requirements()
    if not direct:
        yield Finding(name="packages", status=Status.FAIL, detail="the course is not installed here", fix="make setup")
        return
    if not tested:
        detail = "constraints.txt is not here; compared with the package's own ranges instead"
        fix = "run this in a clone of the course"
        yield Finding(name="tested versions", status=Status.WARN, detail=detail, fix=fix)
    for requirement in direct:
        yield _package(requirement.name, tested.get(versions.canonical(requirement.name)), requirement)
    others = set(tested) - {versions.canonical(requirement.name) for requirement in direct}
    differing = [
        f"{name} {here} (tested: {tested[name]})"
        for name in sorted(others)
        if (here := versions.installed(name)) is not None and not versions.same(here, tested[name])
    ]
    if differing:
        detail = f"{len(differing)} differ from the tested versions: {', '.join(differing[:5])}"
        fix = "make setup in a fresh environment, for example VENV=.venv-fresh"
        yield Finding(name="other packages", status=Status.WARN, detail=detail, fix=fix)
    elif tested:
        yield Finding(name="other packages", status=Status.OK, detail="all that are installed are the tested versions")


def _package(name: str, tested: str | None, requirement: Requirement) -> Finding:
    here = versions.installed(name)
    if here is None:
        wanted = f"tested: {tested}" if tested else f"needed: {requirement}"
        return Finding(name=name, status=Status.FAIL, detail=f"not installed ({wanted})", fix="make setup")
    if tested is None:
        fits = requirement.specifier.contains(here, prereleases=True)
        wanted = str(requirement.specifier) or "any version"
    else:
        fits = versions.same(here, tested)
        wanted = f"tested: {tested}"
    if fits:
        return Finding(name=name, status=Status.OK, detail=here)
    fix = f'pip install "{name}=={tested}"' if tested else f'pip install "{requirement}"'
    return Finding(name=name, status=Status.WARN, detail=f"{here} ({wanted})", fix=fix)


def sources() -> Iterator[Finding]:
    """Say which clone's code runs; a shared environment can hold another clone's."""
    code, folder = Path(__file__).resolve().parent.parent, Path.cwd().resolve()
    here = next((place for place in (folder, *folder.parents) if (place / "helpers" / "check.py").is_file()), code)
    if here == code:
        yield Finding(name="helpers", status=Status.OK, detail=f"the code in {code}")
        return
    fix = f"use make's targets, which run each clone's own code, or: export PYTHONPATH={shlex.quote(str(here))}"
    yield Finding(name="helpers", status=Status.WARN, detail=f"the code in {code}, not this clone's", fix=fix)


def shared_memory(limits: Limits) -> Iterator[Finding]:
    """Look at the size of ``/dev/shm``."""
    size = machine.shared_memory_bytes()
    if size is None:
        linux = sys.platform == "linux"
        detail = "there is none" if linux else "not used on this system"
        fix = "mount a tmpfs at /dev/shm, or keep num_workers at 0" if linux else None
        yield Finding(name="/dev/shm", status=Status.WARN if linux else Status.OK, detail=detail, fix=fix)
    elif size < limits.shared_memory_bytes:
        detail = f"{size / MB:.0f} MB; DataLoader workers need {limits.shared_memory_bytes / MB:.0f} MB"
        fix = "docker run --shm-size=1g; in Kubernetes an emptyDir with medium: Memory at /dev/shm"
        yield Finding(name="/dev/shm", status=Status.WARN, detail=detail, fix=fix)
    else:
        yield Finding(name="/dev/shm", status=Status.OK, detail=f"{size / GB:.1f} GB")


def disk(limits: Limits) -> Iterator[Finding]:
    """Look at the free space where notebooks write and where compilers keep their files."""
    for name, place in (("disk", machine.checkout()), ("disk for temporary files", _temporary())):
        try:
            free = shutil.disk_usage(place).free
        except OSError as error:
            detail = f"{place} cannot be read: {error.strerror}"
            yield Finding(name=name, status=Status.FAIL, detail=detail, fix="point LOOP_SCRATCH and TMPDIR elsewhere")
            continue
        detail = f"{free / GB:.1f} GB free in {place}"
        if free >= limits.disk_warn_bytes:
            yield Finding(name=name, status=Status.OK, detail=detail)
            continue
        status = Status.FAIL if free < limits.disk_fail_bytes else Status.WARN
        fix = f"free up to {limits.disk_warn_bytes / GB:.0f} GB, or point LOOP_SCRATCH and TMPDIR to another disk"
        yield Finding(name=name, status=status, detail=detail, fix=fix)


def _temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError:  # no folder can be written
        return Path(os.environ.get("TMPDIR", "/tmp"))


def compiler() -> Iterator[Finding]:
    """Let the C++ compiler that ``torch.compile`` would take read Python's header."""
    command = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    fix = (
        "Debian: apt install g++ python3-dev; Fedora: dnf install gcc-c++ python3-devel; macOS: xcode-select --install"
    )
    arguments = [*command.split(), f"-I{sysconfig.get_path('include')}", "-fsyntax-only", "-x", "c++", "-"]
    try:
        answer = subprocess.run(arguments, input="#include <Python.h>\n", capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        detail = f"{command} does not start; torch.compile needs it in chapter 02"
        yield Finding(name="g++", status=Status.WARN, detail=detail, fix=fix)
        return
    if answer.returncode == 0:
        detail = f"{shutil.which(command.split()[0])} compiles against Python's headers"
        yield Finding(name="g++", status=Status.OK, detail=detail)
        return
    said = next((line for line in answer.stderr.splitlines() if "error" in line), "no message")
    yield Finding(name="g++", status=Status.WARN, detail=f"{command} cannot compile: {said}", fix=fix)


def fonts() -> Iterator[Finding]:
    """Look for the figures' font, and for any font of the system where a browser is installed."""
    found = util.find_spec("matplotlib")
    bundled = Path(found.origin or "").parent / "mpl-data/fonts/ttf/DejaVuSans.ttf" if found else Path()
    if not bundled.is_file():
        fix = "pip install --force-reinstall --no-deps matplotlib"
        yield Finding(name="fonts", status=Status.FAIL, detail="matplotlib's own DejaVu Sans is missing", fix=fix)
        return
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "firefox"))), None)
    some = any(file.suffix in {".ttf", ".otf"} for folder in FONT_FOLDERS for file in folder.rglob("*"))
    if sys.platform == "linux" and browser and not some:
        detail = f"{browser} has no font to write text with"
        yield Finding(name="fonts", status=Status.WARN, detail=detail, fix="Debian: apt install fonts-dejavu-core")
        return
    yield Finding(name="fonts", status=Status.OK, detail="DejaVu Sans, which comes with matplotlib")


def ports(limits: Limits) -> Iterator[Finding]:
    """See whether a local port can be opened at all, and whether JupyterLab's is free."""
    error = _bind(0)
    if error is not None:
        fix = "allow connections to 127.0.0.1 in the sandbox or firewall; Jupyter and torch.distributed need them"
        yield Finding(name="ports", status=Status.FAIL, detail=f"no local port can be opened: {error}", fix=fix)
        return
    if _bind(limits.port) is not None:
        detail = f"{limits.port} is in use; JupyterLab takes the next free one"
        yield Finding(name="ports", status=Status.WARN, detail=detail, fix="to choose one yourself: make lab PORT=9999")
        return
    yield Finding(name="ports", status=Status.OK, detail=f"{limits.port} is free for JupyterLab")


def _bind(port: int) -> OSError | None:
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
            listener.bind(("127.0.0.1", port))
            listener.listen()
    except OSError as error:
        return error
    return None


def kernel() -> Iterator[Finding]:
    """Look up which interpreter Jupyter starts for the notebooks' kernel, python3."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager

        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except Exception as error:  # missing, broken or half-installed: each has errors of its own
        detail = f"Jupyter finds no python3 kernel: {error}"
        yield Finding(name="Jupyter's kernel", status=Status.FAIL, detail=detail, fix="make setup")
        return
    # A bare name stands for the interpreter that Jupyter itself runs in. Environments are told apart by the folder:
    # their interpreters are links to one and the same file.
    starts = Path(sys.executable) if Path(command).name == command else Path(command)
    if starts.absolute().parent == Path(sys.executable).absolute().parent:
        yield Finding(name="Jupyter's kernel", status=Status.OK, detail=f"this environment's, {starts}")
        return
    detail = f"{starts}, not this environment's {sys.executable}"
    fix = "export JUPYTER_PREFER_ENV_PATH=1, or remove the other: jupyter kernelspec remove python3"
    yield Finding(name="Jupyter's kernel", status=Status.FAIL, detail=detail, fix=fix)


def frameworks(torch: Probe, tensorflow: Probe, limits: Limits) -> Iterator[Finding]:
    """Take the frameworks' answers: cores beside threads, then the devices of each."""
    answer = torch.answer(limits.import_s)
    yield cores(answer.threads, limits)
    yield devices("PyTorch", "torch", answer)
    yield devices("TensorFlow", "tensorflow", tensorflow.answer(limits.import_s))


def cores(threads: int | None, limits: Limits) -> Finding:
    """Compare the cores that this process may use with the limit and with PyTorch's threads."""
    usable = machine.usable_cores()
    detail = f"{usable:g} usable" + (f", {threads} threads for one PyTorch operation" if threads else "")
    if usable < limits.cores:
        fix = "give the container or the virtual machine two cores; everything runs on one, only slower"
        return Finding(name="cores", status=Status.WARN, detail=detail, fix=fix)
    if threads and threads > usable:
        fix = f"export OMP_NUM_THREADS={max(1, int(usable))}; more threads than cores wait for each other"
        return Finding(name="cores", status=Status.WARN, detail=detail, fix=fix)
    return Finding(name="cores", status=Status.OK, detail=detail)


def devices(framework: str, package: str, answer: Answer) -> Finding:
    """Say which accelerators a framework sees; none is fine, a framework that does not import is not."""
    name = f"{framework}'s devices"
    if answer.error is not None:
        fix = f"pip install --force-reinstall --no-deps {package} -c constraints.txt"
        return Finding(name=name, status=Status.FAIL, detail=f"it does not import: {answer.error}", fix=fix)
    return Finding(name=name, status=Status.OK, detail=", ".join(("cpu", *answer.devices)))
