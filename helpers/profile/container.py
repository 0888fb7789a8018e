"""The bytes of a trace file, plain or gzipped, never more of them than agreed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import CourseError

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
"""zlib's way to say: 32 KiB of window, with gzip's header."""
_CHUNK = 1 << 20


class TraceError(CourseError):
    """A trace could not be used: damaged, hostile, too large, or without what was asked for."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What reading a trace may cost. A trace comes from elsewhere, so nothing that it announces is believed."""

    file_bytes: int = 2 << 30
    """Uncompressed. A gigabyte holds some three million events, more than a bounded recording of steps ever has."""
    ratio: int = 300
    """Times that gzip may shrink a trace. Real ones shrink 10 to 40 times; a bomb shrinks 1,000 times."""
    ratio_from_bytes: int = 64 << 20
    """The ratio is looked at above this size: a small file of repeated events may well shrink a lot."""
    block_bytes: int = 128 << 10
    """Read at a time. It bounds the objects alive at once: the smallest event (``{},``) makes one 50 times as large."""
    event_bytes: int = 1 << 20
    """Of one event. The longest real ones list the shapes of a few hundred tensors, or the ranks of a large group."""
    labels: int = 100_000
    """Distinct names. Traces with Python stacks have some ten thousand; each name costs about 200 bytes."""
    label_chars: int = 2_000
    """Of one name. Template kernels of C++ reach about a thousand; what is beyond is cut off."""
    metadata_bytes: int = 256 << 10
    """Of the device properties. Sixteen devices take about ten kilobytes."""
    time_us: float = 2.0**53
    """Where float64 stops to count single microseconds; as a date, the year 2255. Spans beyond are dropped, counted."""


def load(source: Path | bytes, limits: Limits) -> bytes:
    """Return the JSON text of a trace.

    Args:
        source: A file, ``.json`` or ``.json.gz`` (told by its first bytes, not its name), or such bytes.
        limits: What it may cost.

    Raises:
        TraceError: If there is no such file, it is damaged, or it is larger than the limits allow.
    """
    data = source if isinstance(source, bytes) else _read(source, limits)
    if data[:2] == _GZIP:
        return _decompress(data, limits)
    _check_size(len(data), limits)
    return data


def _read(path: Path, limits: Limits) -> bytes:
    if not path.is_file():
        raise TraceError(
            f"{str(path)!r} is not a file; expected a trace written by torch.profiler (.json or .json.gz). "
            "Give the path that export_chrome_trace or tensorboard_trace_handler wrote to."
        )
    try:
        with path.open("rb") as file:
            data = file.read(limits.file_bytes + 1)
    except OSError as error:
        raise TraceError(f"{str(path)!r} cannot be read: {error}. Check its permissions.") from error
    return data


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.file_bytes:
        raise TraceError(
            f"the trace is larger than {limits.file_bytes:,} bytes, the most that is read. "
            "Record fewer steps (schedule(active=…)), or leave out with_stack and record_shapes."
        )


def _decompress(data: bytes, limits: Limits) -> bytes:
    """Unpack gzip piece by piece, so that a bomb is seen when it has grown by one piece too much."""
    out = bytearray()
    rest, view = b"", memoryview(data)
    unpack = zlib.decompressobj(_GZIP_WINDOW)
    position = 0
    try:
        while not unpack.eof:
            if not rest:
                rest = bytes(view[position : position + _CHUNK])
                position += len(rest)
            if not rest:
                raise TraceError(
                    f"the gzip file ends in the middle, after {len(data):,} bytes ({len(out):,} unpacked). "
                    "Copy it again, or let the job that writes it end before you read it."
                )
            out += unpack.decompress(rest, _CHUNK)
            rest = unpack.unconsumed_tail
            _check_growth(len(out), len(data), limits)
    except zlib.error as error:
        raise TraceError(f"the gzip file is damaged ({error}). Copy it again, or record again.") from error
    return bytes(out)


def _check_growth(unpacked: int, packed: int, limits: Limits) -> None:
    _check_size(unpacked, limits)
    if unpacked > limits.ratio_from_bytes and unpacked > limits.ratio * packed:
        raise TraceError(
            f"{packed:,} bytes of gzip have become {unpacked:,} and there is more; a real trace shrinks at most "
            f"{limits.ratio} times. If you trust the file, unpack it with gunzip and give the .json."
        )
