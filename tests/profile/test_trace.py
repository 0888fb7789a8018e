"""Reading: what becomes a column, and what a damaged or hostile file may do."""

import gzip
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.errors import CourseError
from helpers.profile.trace import Limits, TraceError, read
from tests.profile.made import HOST, content, span

MB = 1_000_000
FIXED_BYTES = 12 * MB
"""What reading takes whatever the file's size: the objects of one block."""


def test_columns_hold_what_the_events_say():
    events = [
        span("aten::mm", 10.5, 12, **{"External id": 3, "Sequence number": 7}),
        span("Memcpy HtoD", 13, 14, "gpu_memcpy", correlation=9, stream=7, bytes=4096),
        span("ncclDevKernel_X", 14, 15, "kernel", **{"Collective name": "allreduce"}),
        {"ph": "i", "name": "an instant", "ts": 1},
    ]
    info = {"distributedInfo": {"rank": 1, "world_size": 2}, "deviceProperties": [{"name": "A100", "id": 0}]}
    trace = read(content(events, **info))
    assert [trace.labels[n] for n in trace.name] == ["aten::mm", "Memcpy HtoD", "ncclDevKernel_X"]
    assert trace.start_us.tolist() == [0, 2.5, 3.5] and trace.origin_us == 10.5
    assert trace.duration_us.tolist() == [1.5, 1, 1]
    assert (trace.external.tolist(), trace.sequence.tolist()) == ([3, -1, -1], [7, -1, -1])
    assert (trace.correlation.tolist(), trace.bytes.tolist()) == ([-1, 9, -1], [-1, 4096, -1])
    assert trace.labels[trace.collective[2]] == "allreduce" and trace.collective[0] == -1
    assert (trace.rank, trace.world_size, trace.schema, trace.devices[0].name) == (1, 2, 1, "A100")


def test_the_format_of_2021_reads_like_todays():
    lane = {"pid": 100, "tid": "100"}
    old = read(content([span("aten::mm", 0, 1, "Operator", lane, **{"external id": 4}), span("k", 1, 2, "Kernel")]))
    new = read(content([span("aten::mm", 0, 1, "cpu_op", HOST, **{"External id": 4}), span("k", 1, 2, "kernel")]))
    for column in ("name", "category", "process", "thread", "external"):
        assert getattr(old, column).tolist() == getattr(new, column).tolist()


def test_files_plain_and_gzipped_and_the_bare_array_give_the_same(tmp_path):
    text = content([span("aten::mm", 0, 1)])
    (tmp_path / "a.json").write_bytes(text)
    (tmp_path / "b.json").write_bytes(gzip.compress(text))  # told by its bytes, not by its name
    bare = text[text.index(b"[") : text.rindex(b"]") + 1]
    for trace in (read(tmp_path / "a.json"), read(str(tmp_path / "b.json")), read(bare)):
        assert len(trace) == 1 and trace.duration_us[0] == 1


@pytest.mark.parametrize("name", ['}{][",', "\\", '\\"', '"', '\\\\"}', "é中🙂", "<script>"])
def test_blocks_end_between_events_whatever_names_hold(name):
    events = [span(f"{name}{i % 50}", i, i + 1, shapes=[[i, {"x": []}], name]) for i in range(400)]
    small = read(content(events), limits=Limits(block_bytes=300))
    assert small.start_us.tolist() == list(range(400))
    assert {small.labels[n] for n in small.name} == {f"{name}{i}" for i in range(50)}


def test_spans_without_a_usable_time_are_left_out_and_counted():
    bad = [span("a", 1, 0), span("b", 0, 1e308), span("c", 1e300, 1e300), {"ph": "X", "name": "no time"}]
    trace = read(content([*bad, span("good", 5, 6)]))
    assert [trace.labels[n] for n in trace.name] == ["good"] and trace.start_us.tolist() == [0]
    assert trace.dropped == {"no time, or one out of range": 3, "a negative duration": 1}


def events(text: bytes) -> bytes:
    return b'{"traceEvents":[' + text + b"]}"


DAMAGED = {
    "nothing": b"",
    "no object": b"null",
    "no events": b"{}",
    "events of a wrong type": b'{"traceEvents":7}',
    "cut short": events(b'{"ph":"X"}')[:-1],
    "deep arrays": b"[" * 200_000,
    "deep arguments": events(b'{"ph":"X","args":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"),
    "numbers for events": events(b"1," * 1_000_000 + b"1"),
    "NaN": events(b'{"ph":"X","ts":NaN}'),
    "a time as text": events(b'{"ph":"X","ts":"now"}'),
    "a number beyond float64": events(b'{"ph":"X","ts":1e400}'),
    "a million digits": events(b'{"ph":"X","ts":1,"args":{"stream":' + b"9" * 1_000_000 + b"}}"),
    "one endless event": events(b'{"ph":"X","ts":1,"name":"' + b"a" * 3_000_000 + b'"}'),
    "backslashes": events(b'{"name":"' + b"\\\\" * 1_500_000 + b'"}'),
    "no UTF-8": events(b'{"ph":"X","ts":1,"name":"\xff\xfe"}'),
    "half a surrogate": events(b'{"ph":"X","ts":1,"name":"\\ud800"}'),
    "a rank in words": b'{"distributedInfo":{"rank":"first"},"traceEvents":[]}',
    "many devices": b'{"deviceProperties":[' + b"{}," * 300_000 + b'{}],"traceEvents":[]}',
    "a new name each": events(b",".join(b'{"ph":"X","ts":1,"name":"%x"}' % i for i in range(110_000))),
    "a gzip bomb": gzip.compress(b'{"traceEvents":[' + b" " * 100 * MB),
    "gzip cut short": gzip.compress(events(b"{}"))[:-9],
    "damaged gzip": gzip.compress(events(b"{}"))[:12] + b"\xff" * 20,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_or_hostile_file_is_refused_in_a_sentence(name):
    with pytest.raises(TraceError) as refused:
        read(DAMAGED[name])
    assert isinstance(refused.value, CourseError) and 40 < len(str(refused.value)) < 500


def test_what_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(TraceError, match="is not a file"):
            read(path)


def test_a_file_above_the_limit_is_refused(tmp_path):
    text = content([span("aten::mm", 0, 1)])
    (tmp_path / "a.json").write_bytes(text)
    for source in (text, gzip.compress(text), tmp_path / "a.json"):
        with pytest.raises(TraceError, match="larger than 50 bytes"):
            read(source, limits=Limits(file_bytes=50))


def test_the_last_of_duplicate_keys_counts():
    trace = read(b'{"traceEvents":1,"traceEvents":[{"ph":"X","ts":1,"dur":1,"dur":3}]}')
    assert trace.duration_us.tolist() == [3]


@pytest.mark.parametrize(
    "text",
    [
        b"{}," * 1_000_000 + b"{}",
        b'{"ph":"X","ts":1,"dur":1},' * 115_000 + b"{}",
        b'{"ph":"X","args":{}},' * 140_000 + b"{}",
    ],
    ids=["empty events", "shortest spans", "spans without a time"],
)
def test_memory_stays_below_six_times_the_size(text):
    data = events(text)
    tracemalloc.start()
    read(data)
    peak = tracemalloc.get_traced_memory()[1]  # without the data themselves, which were there before
    tracemalloc.stop()
    assert peak + len(data) < 6 * len(data) + FIXED_BYTES


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["ph", "name", "cat", "ts", "dur", "pid", "tid", "args", "x"])
EVENT = st.dictionaries(KEYS, JSON | st.sampled_from(["X", "kernel"]), max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENT, max_size=5), st.integers(0, 60), st.binary(max_size=3))
def test_any_events_and_any_damage_give_columns_or_a_typed_error(made, at, noise):
    text = content(made)
    place = len(text) * at // 60
    for data in (text, text[:place] + noise + text[place + 1 :], text[:place]):
        try:
            trace = read(data, limits=Limits(block_bytes=64))
        except TraceError:
            continue
        assert np.isfinite(trace.start_us).all() and (trace.duration_us >= 0).all()
