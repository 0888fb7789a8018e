"""Where the steps of a trace begin and end."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from helpers.profile.trace import Floats, Trace

_PROFILER = re.compile(r"ProfilerStep#(\d{1,18})")
_OPTIMIZER = re.compile(r"Optimizer\.step#.*")


class Origin(StrEnum):
    """What says where steps begin."""

    PROFILER = "ProfilerStep ranges"
    OPTIMIZER = "ends of optimizer steps"
    NONE = "none found"


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The steps of a trace, in order, none overlapping the next.

    Attributes:
        origin: What they rest on; with ``NONE`` the arrays are empty.
        why: A sentence on how they were found, or why not.
        number: Int64 ``[steps]``, as the profiler counts them, or from 0.
        start_us: Float64 ``[steps]``, on the trace's clock.
        end_us: Float64 ``[steps]``.
        process: Label of the process that runs the loop; -1 without steps.
        thread: Label of the thread that runs the loop; -1 without steps.
    """

    origin: Origin
    why: str
    number: NDArray[np.int64]
    start_us: Floats
    end_us: Floats
    process: int = -1
    thread: int = -1

    def __len__(self) -> int:
        return len(self.start_us)


def find(trace: Trace) -> Steps:
    """Find the steps of a trace.

    ``ProfilerStep#N`` ranges are taken where there are any, though only those of the host: a device has ranges of the
    same names that cover its kernels. Otherwise a step goes from the end of one optimizer step to the end of the
    next, so that ``n`` of them make ``n - 1`` steps; what lies before the first is not known whole. Where a loop has
    several optimizers, the one that steps least often counts.

    Raises:
        Nothing: a trace without steps is a finding, told by ``origin`` and ``why``.
    """
    host = ~trace.of("gpu_user_annotation", "kernel", "gpu_memcpy", "gpu_memset")
    marked = _matching(trace, _PROFILER) & host & (trace.duration_us > 0)
    if marked.any():
        return _from_profiler(trace, marked)
    stepped = _matching(trace, _OPTIMIZER) & host
    if stepped.sum() >= 2:
        return _from_optimizer(trace, stepped)
    empty = np.zeros(0)
    why = (
        f"the trace has no ProfilerStep range and {int(stepped.sum())} optimizer step(s); expected one ProfilerStep or "
        "two optimizer steps. Call profiler.step() after each step, or record more steps."
    )
    return Steps(origin=Origin.NONE, why=why, number=empty.astype(np.int64), start_us=empty, end_us=empty)


def _matching(trace: Trace, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """Return which spans have a name that matches as a whole."""
    table = np.fromiter((bool(pattern.fullmatch(label)) for label in trace.labels), bool, len(trace.labels))
    return np.asarray(table[trace.name]) if len(trace) else np.zeros(0, dtype=bool)


def busiest_thread(trace: Trace, rows: NDArray[np.intp]) -> tuple[int, int]:
    """Return the process and thread with the most of these spans; of equal ones the first by name."""
    lanes = Counter(zip(trace.process[rows].tolist(), trace.thread[rows].tolist(), strict=True))
    return min(lanes, key=lambda lane: (-lanes[lane], trace.labels[lane[0]], trace.labels[lane[1]]))


def _on(trace: Trace, rows: NDArray[np.intp], lane: tuple[int, int]) -> NDArray[np.intp]:
    return np.asarray(rows[(trace.process[rows] == lane[0]) & (trace.thread[rows] == lane[1])], dtype=np.intp)


def _from_profiler(trace: Trace, marked: NDArray[np.bool_]) -> Steps:
    rows = np.flatnonzero(marked)
    lane = busiest_thread(trace, rows)
    rows = _on(trace, rows, lane)
    numbers = np.array([int(trace.labels[name].partition("#")[2]) for name in trace.name[rows]], dtype=np.int64)
    start, end = trace.start_us[rows], trace.end_us[rows]
    order = np.lexsort((numbers, end, start))
    return _apart(Origin.PROFILER, numbers[order], start[order], end[order], lane)


def _from_optimizer(trace: Trace, stepped: NDArray[np.bool_]) -> Steps:
    rows = np.flatnonzero(stepped)
    lane = busiest_thread(trace, rows)
    rows = _on(trace, rows, lane)
    counts = Counter(trace.name[rows].tolist())
    often = {name: count for name, count in counts.items() if count >= 2} or counts
    name = min(often, key=lambda name: (often[name], trace.labels[name]))
    ends = np.sort(trace.end_us[rows[trace.name[rows] == name]])
    return _apart(Origin.OPTIMIZER, np.arange(len(ends) - 1, dtype=np.int64), ends[:-1], ends[1:], lane)


def _apart(origin: Origin, number: NDArray[np.int64], start: Floats, end: Floats, lane: tuple[int, int]) -> Steps:
    """Let each step end where the next begins at the latest, and leave out those of no length."""
    if len(start) > 1:
        end = np.minimum(end, np.append(start[1:], np.inf))
    keep = end > start
    return Steps(
        origin=origin,
        why=f"{int(keep.sum())} steps from {origin.value}",
        number=number[keep],
        start_us=start[keep],
        end_us=end[keep],
        process=lane[0],
        thread=lane[1],
    )
