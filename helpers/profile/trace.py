"""A trace of ``torch.profiler`` as columns of numbers.

Accepted are the Chrome traces that PyTorch has written since 2021: ``.json`` and ``.json.gz``, of the CPU alone, of
CUDA and of ROCm, with the old category names (``Operator``, ``Kernel``) and the new (``cpu_op``, ``kernel``).
Only complete events (``ph`` X) become rows; memory and time grow with the file, not faster.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helpers.profile import container, events
from helpers.profile.container import Limits, TraceError
from helpers.profile.events import NO_ARGS, Device, Event, Scalar

__all__ = ["Device", "Limits", "Trace", "TraceError", "read"]

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]

NONE = -1
"""Stands in a column of whole numbers where the event says nothing."""
_INT64 = 1 << 63
_MAX_DIGITS = 18

_CATEGORIES = {
    "Operator": "cpu_op",
    "Kernel": "kernel",
    "Runtime": "cuda_runtime",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
}
"""The names of 2021 and what they are called since."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Spans, one row each, in the file's order. All columns have the same length.

    Attributes:
        source: Where it came from, for messages.
        labels: Every text once; the columns ``name``, ``category``, ``process``, ``thread`` and ``collective`` hold
            indices into it.
        origin_us: The file's time of 0 µs here. Today float64 keeps such times to 0.25 µs, durations exactly.
        start_us: Float64, microseconds after the first span's start.
        duration_us: Float64, microseconds, finite and not negative.
        name: Int32, what ran.
        category: Int32, in the present names (``cpu_op``, ``kernel``, …) whatever the file's age.
        process: Int32, text of ``pid``; for spans on a device, the device.
        thread: Int32, text of ``tid``; for spans on a device, the stream.
        collective: Int32, the collective's name; -1 where there is none.
        stream: Int64, -1 where there is none; as the next four.
        correlation: Int64, shared by a kernel and the call that launched it.
        external: Int64, External id: shared by an operator and the calls it made.
        bytes: Int64, of a copy.
        sequence: Int64, shared by a forward operator and its backward.
        dropped: Why how many complete events are no rows.
        schema: The format's version, where the file says it.
        rank: The process in its group; None outside one, as world_size.
        world_size: Processes in the group.
        devices: Accelerators that the file describes.
    """

    source: str
    labels: tuple[str, ...]
    origin_us: float
    start_us: Floats
    duration_us: Floats
    name: Ints
    category: Ints
    process: Ints
    thread: Ints
    collective: Ints
    stream: Ints
    correlation: Ints
    external: Ints
    bytes: Ints
    sequence: Ints
    dropped: dict[str, int] = field(default_factory=dict)
    schema: int | None = None
    rank: int | None = None
    world_size: int | None = None
    devices: tuple[Device, ...] = ()

    def __len__(self) -> int:
        return len(self.start_us)

    def __repr__(self) -> str:
        return f"Trace({self.source!r}, {len(self):,} spans, rank {self.rank}, {len(self.devices)} devices)"

    @property
    def end_us(self) -> Floats:
        """Where each span ends, in microseconds after the first one's start."""
        return self.start_us + self.duration_us

    def label_id(self, label: str) -> int:
        """Return a text's index in ``labels``, or -2, which no column holds, where the trace has no such text."""
        try:
            return self.labels.index(label)
        except ValueError:
            return -2

    def of(self, *categories: str) -> NDArray[np.bool_]:
        """Return which spans have one of these categories."""
        return np.isin(self.category, [self.label_id(category) for category in categories])


def read(source: str | Path | bytes, *, limits: Limits | None = None) -> Trace:
    """Read a trace.

    Args:
        source: The file, plain or gzipped, or its content.
        limits: What reading may cost.

    Returns:
        Its complete events. Those without a usable time are left out and counted in ``dropped``.

    Raises:
        TraceError: If it is not a trace, is damaged, or would cost more than the limits allow.
    """
    limits = limits or Limits()
    where = f"{len(source):,} bytes" if isinstance(source, bytes) else str(source)
    data = container.load(source if isinstance(source, bytes) else Path(source), limits)
    header, found = events.split(data, limits)
    rows = _Rows(limits)
    for block in events.blocks(found, limits):
        rows.add(block)
    columns, origin, dropped = _usable(rows.columns(), limits)
    return Trace(
        source=where,
        labels=tuple(rows.labels),
        origin_us=origin,
        dropped=dropped,
        schema=header.schema,
        rank=header.distributed.rank,
        world_size=header.distributed.world_size,
        devices=header.devices,
        **columns,
    )


class _Rows:
    """Columns that grow. ``array`` grows in place, so that no list of objects is ever as long as the file."""

    def __init__(self, limits: Limits) -> None:
        self.labels: dict[str, int] = {}
        self._limits = limits
        self._floats = {name: array("d") for name in ("start_us", "duration_us")}
        self._labels = {name: array("i") for name in ("name", "category", "process", "thread", "collective")}
        self._whole = {name: array("q") for name in ("stream", "correlation", "external", "bytes", "sequence")}

    def add(self, block: Iterable[Event]) -> None:
        spans = [event for event in block if event.ph == "X"]
        args = [span.args or NO_ARGS for span in spans]
        nan = float("nan")
        self._floats["start_us"].extend([nan if span.ts is None else span.ts for span in spans])
        self._floats["duration_us"].extend([nan if span.dur is None else span.dur for span in spans])
        label, whole = self._label, _whole
        self._labels["name"].extend([label(span.name) for span in spans])
        self._labels["category"].extend([label(_CATEGORIES.get(span.cat or "", span.cat)) for span in spans])
        self._labels["process"].extend([label(span.pid) for span in spans])
        self._labels["thread"].extend([label(span.tid) for span in spans])
        self._labels["collective"].extend([NONE if a.collective is None else label(a.collective) for a in args])
        self._whole["stream"].extend([whole(a.stream) for a in args])
        self._whole["correlation"].extend([whole(a.correlation) for a in args])
        self._whole["external"].extend([whole(a.external_old if a.external is None else a.external) for a in args])
        self._whole["bytes"].extend([whole(a.bytes) for a in args])
        self._whole["sequence"].extend([whole(a.sequence) for a in args])

    def columns(self) -> dict[str, NDArray[Any]]:
        floats = {name: np.frombuffer(column, dtype=np.float64) for name, column in self._floats.items()}
        labels = {name: np.frombuffer(column, dtype=np.int32) for name, column in self._labels.items()}
        whole = {name: np.frombuffer(column, dtype=np.int64) for name, column in self._whole.items()}
        return {**floats, **labels, **whole}

    def _label(self, value: Scalar) -> int:
        text = value if isinstance(value, str) else "" if value is None else str(value)
        known = self.labels.get(text)
        return self._new_label(text) if known is None else known

    def _new_label(self, text: str) -> int:
        text = text[: self._limits.label_chars]
        if len(self.labels) >= self._limits.labels and text not in self.labels:
            raise TraceError(
                f"the trace has more than {self._limits.labels:,} different names; real ones have some ten thousand. "
                "Name ranges by what they do, not by step or sample (record_function), and record again."
            )
        return self.labels.setdefault(text, len(self.labels))


def _whole(value: Scalar) -> int:
    if value is None:
        return NONE
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else NONE
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else NONE


def _usable(columns: dict[str, NDArray[Any]], limits: Limits) -> tuple[dict[str, NDArray[Any]], float, dict[str, int]]:
    """Drop spans without usable times and let time begin at the first one's start."""
    start, duration = columns["start_us"], columns["duration_us"]
    negative = duration < 0
    beyond = ~((np.abs(start) <= limits.time_us) & (np.abs(duration) <= limits.time_us))  # true for NaN too
    counts = {"no time, or one out of range": int(beyond.sum()), "a negative duration": int((negative & ~beyond).sum())}
    keep = ~(negative | beyond)
    if not keep.all():
        for name in list(columns):
            columns[name] = columns[name][keep]
    origin = float(columns["start_us"].min()) if keep.any() else 0.0
    columns["start_us"] = columns["start_us"] - origin
    return columns, origin, {why: count for why, count in counts.items() if count}
