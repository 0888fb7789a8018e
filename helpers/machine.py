"""What this machine gives a training job: cores, memory, shared memory, disk and devices.

A container often sees fewer cores than ``os.cpu_count()`` says. What counts is the smaller of the
CPU affinity mask and the cgroup quota, which is how Kubernetes enforces ``resources.limits.cpu``.
"""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from helpers.errors import CourseError

_CGROUP_V2_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_CGROUP_V1_QUOTA = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_CGROUP_V1_PERIOD = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The facts that explain a measurement made here."""

    system: str
    """Operating system and architecture, for example ``Linux x86_64``."""
    processor: str
    """The processor's model name, or ``unknown``."""
    python: str
    """Version of this interpreter."""
    cores: float
    """Cores this process may use: affinity and cgroup quota taken into account."""
    memory_bytes: int
    """Physical memory."""
    shared_memory_bytes: int | None
    """Size of ``/dev/shm``, which DataLoader workers pass batches through; None where there is none."""
    disk_free_bytes: int
    """Free space where the course writes."""

    def as_dict(self) -> dict[str, object]:
        """Return the facts as plain values for JSON."""
        return dataclasses.asdict(self)


def describe() -> Machine:
    """Return the facts of the machine this process runs on. Imports no framework."""
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        processor=processor_name(),
        python=platform.python_version(),
        cores=usable_cores(),
        memory_bytes=psutil.virtual_memory().total,
        shared_memory_bytes=shared_memory_bytes(),
        disk_free_bytes=shutil.disk_usage(checkout()).free,
    )


def processor_name() -> str:
    """Return the processor's model name, or ``unknown``."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def usable_cores() -> float:
    """Return how many cores this process may use, for example 1.5 under a quota of 150 ms per 100 ms.

    Source:
        Linux kernel documentation, "Control Group v2", file ``cpu.max``; version 1's
        ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us``.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return min(float(allowed), _cgroup_cores())


def _cgroup_cores() -> float:
    """Return the cgroup's CPU quota in cores, infinite where none is set."""
    try:
        if _CGROUP_V2_QUOTA.exists():
            quota, period = _CGROUP_V2_QUOTA.read_text().split()
        else:
            quota, period = _CGROUP_V1_QUOTA.read_text().strip(), _CGROUP_V1_PERIOD.read_text().strip()
        return int(quota) / int(period) if quota not in {"max", "-1"} else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def shared_memory_bytes() -> int | None:
    """Return the size of ``/dev/shm`` in bytes, or None where there is none."""
    try:
        return shutil.disk_usage(_SHARED_MEMORY).total
    except OSError:
        return None


def checkout() -> Path:
    """Return the root of the course's checkout, or the working folder where only the package is installed."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "pyproject.toml").is_file() else Path.cwd()


def scratch(name: str = "") -> Path:
    """Return a folder that notebooks may write to; it is made if missing, and git ignores it.

    Args:
        name: A name below the scratch folder, usually the chapter's.

    The folder is ``$LOOP_SCRATCH`` where that is set, and ``.scratch`` in the checkout otherwise.

    Raises:
        ValueError: If the name would leave the scratch folder, or no folder can have it.
        CourseError: If the folder cannot be made.
    """
    return _folder(Path(os.environ.get("LOOP_SCRATCH") or checkout() / ".scratch"), name)


def _folder(base: Path, name: str) -> Path:
    if "\0" in name or not (path := (base / name).resolve()).is_relative_to(base.resolve()):
        raise ValueError(f"the name must stay below {base}; got {name!r}. Use a plain name such as 'chapter01'.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CourseError(
            f"the folder {path} cannot be made ({error.strerror}). Set LOOP_SCRATCH to a folder that you can write to."
        ) from error
    return path
