"""From the JSON text of a trace to its events, a block at a time.

Decoding all events at once costs a Python object each, many times the size of a hostile file. So the text is cut
where an event of the array ends, which NumPy finds by counting brackets outside strings, and each block is decoded,
used and forgotten. The blocks begin and end between events, so no state is carried from one to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from helpers.profile.container import Limits, TraceError

_ABSENT = Raw(b"null")
_SPECIAL = np.zeros(256, dtype=bool)
_SPECIAL[list(b'"{}[]')] = True
_DEPTH = np.zeros(256, dtype=np.int8)
_DEPTH[list(b"{[")] = 1
_DEPTH[list(b"}]")] = -1
_BETWEEN = b" \t\r\n,"

Scalar = int | float | str | None


class Args(Struct, gc=False, rename={"external": "External id", "external_old": "external id"}):
    """What an event says about itself, as far as it matters here; everything else is skipped unread."""

    external: Scalar = None
    external_old: Scalar = None
    correlation: Scalar = None
    stream: Scalar = None
    bytes: Scalar = None
    collective: Scalar = msgspec.field(default=None, name="Collective name")
    sequence: Scalar = msgspec.field(default=None, name="Sequence number")


NO_ARGS = Args()


class Event(Struct, gc=False):
    """One entry of ``traceEvents``; times in microseconds.

    Source:
        "Trace Event Format", Google, 2016: complete events have ``ph`` X, ``ts`` and ``dur``.
    """

    ph: str | None = ""
    name: Scalar = ""
    cat: str | None = ""
    ts: float | None = None
    dur: float | None = 0.0
    pid: Scalar = None
    tid: Scalar = None
    args: Args | None = None


class _Top(Struct):
    events: Raw = msgspec.field(default=_ABSENT, name="traceEvents")
    distributed: Raw = msgspec.field(default=_ABSENT, name="distributedInfo")
    devices: Raw = msgspec.field(default=_ABSENT, name="deviceProperties")
    schema: Raw = msgspec.field(default=_ABSENT, name="schemaVersion")


class Distributed(Struct, frozen=True):
    """Which process of how many wrote the trace."""

    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None


class Device(Struct, frozen=True):
    """One accelerator, as the trace describes it."""

    id: int | None = None
    name: str = ""
    memory_bytes: int | None = msgspec.field(default=None, name="totalGlobalMem")


class Header(Struct, frozen=True):
    """What a trace says besides its events."""

    schema: int | None = None
    distributed: Distributed = Distributed()
    devices: tuple[Device, ...] = ()


def decode(data: Any, kind: Any, what: str) -> Any:
    """Decode JSON to a type.

    Raises:
        TraceError: If it is not such JSON; the message says where.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError as error:
        raise TraceError(f"{what} is nested too deeply to be a trace. Record it again with torch.profiler.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{what} cannot be read: {error}. Expected the JSON that torch.profiler's export_chrome_trace writes; "
            "a file cut short by a killed job has to be recorded again."
        ) from error


def split(data: bytes, limits: Limits) -> tuple[Header, Raw]:
    """Return what stands beside the events, and the array of events, undecoded (a view of ``data``).

    Raises:
        TraceError: If the text is no JSON, or holds no array of events.
    """
    if data[: limits.block_bytes].lstrip()[:1] == b"[":  # the older of the two shapes that Chrome reads
        return Header(), decode(data, Raw, "the trace")
    top: _Top = decode(data, _Top, "the trace")
    seen = bytes(memoryview(top.events)[:40])
    if seen[:1] != b"[":
        raise TraceError(
            f"the trace's traceEvents is {seen!r}; expected an array of events. "
            "Give a file written by torch.profiler's export_chrome_trace."
        )
    size = len(memoryview(top.devices))
    if size > limits.metadata_bytes:
        raise TraceError(
            f"the trace describes its devices in {size:,} bytes; expected at most {limits.metadata_bytes:,}. "
            "Remove deviceProperties from the file."
        )
    return Header(
        schema=decode(top.schema, int | None, "schemaVersion"),
        distributed=decode(top.distributed, Distributed | None, "distributedInfo") or Distributed(),
        devices=decode(top.devices, tuple[Device, ...] | None, "deviceProperties") or (),
    ), top.events


def blocks(array: Raw, limits: Limits) -> Iterator[list[Event]]:
    """Yield the events of a JSON array, block by block.

    Raises:
        TraceError: If an event has a field of a wrong type.
    """
    text = memoryview(array)[1:-1]  # without the outer brackets
    decoder = msgspec.json.Decoder(list[Event])
    position, size, seen = 0, limits.block_bytes, 0
    while position < len(text):
        block = text[position : position + size]
        whole = position + size >= len(text)
        end = len(block) if whole else _last_end(block)
        if not end:  # one event is longer than the block
            size = _longer(size, limits)
            continue
        events = _decode_block(decoder, bytes(block[:end]), seen)
        seen += len(events)
        yield events
        position, size = position + end, limits.block_bytes


def _longer(size: int, limits: Limits) -> int:
    if size >= limits.event_bytes:
        raise TraceError(
            f"an event of the trace is longer than {limits.event_bytes:,} bytes; real ones take a few thousand. "
            "Record again without record_shapes, or leave that event out."
        )
    return 2 * size


def _decode_block(decoder: msgspec.json.Decoder[list[Event]], text: bytes, seen: int) -> list[Event]:
    try:
        return decoder.decode(b"[" + text.strip(_BETWEEN) + b"]")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(
            f"an event of the trace cannot be read (counted from event {seen:,}: {error}). Expected what "
            "torch.profiler writes: times and durations as numbers, names as text. Record the trace again."
        ) from error


def _last_end(block: memoryview) -> int:
    """Return the offset behind the last whole event in a block that begins between events; 0 if there is none."""
    plain = bytes(block).replace(rb"\\", b"__").replace(rb"\"", b"__")  # what is escaped ends no string
    text = np.frombuffer(plain, dtype=np.uint8)
    places = np.flatnonzero(_SPECIAL[text])
    kinds = text[places]
    outside = (np.cumsum(kinds == ord('"'), dtype=np.int32) & 1) == 0  # in a string, brackets are text
    steps = np.where(outside, _DEPTH[kinds], np.int8(0))
    ends = np.flatnonzero((np.cumsum(steps, dtype=np.int32) == 0) & (steps == -1))
    return int(places[ends[-1]]) + 1 if len(ends) else 0
