"""Every microsecond goes to one share, and to the right one."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.profile.breakdown import Share, breakdown
from helpers.profile.trace import TraceError, read
from tests.profile.made import HOST, content, launch, span, step

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
AUTOGRAD = {"pid": 100, "tid": 200}


def account(*spans, **options):
    return breakdown(read(content(list(spans))), **options)


def us(found):
    """Return the microseconds of the shares that occur."""
    return {share: round(part * found.total_us, 6) for share, part in found.shares.items() if part > 0}


def test_a_step_on_the_cpu():
    found = account(
        step(3, 0, 1000),
        span(LOADER, 0, 300, "user_annotation"),
        span("aten::stack", 100, 250),  # collating belongs to loading
        span("aten::linear", 320, 400, **{"Sequence number": 1}),
        span("aten::relu", 410, 450, **{"Sequence number": 2}),
        span("autograd::engine::evaluate_function: MmBackward0", 460, 700),
        span("aten::mm", 500, 600),
        span("Optimizer.step#SGD.step", 700, 800, "user_annotation"),
        span("aten::add_", 710, 790),
    )
    assert us(found) == {
        Share.DATA: 300,
        Share.FORWARD: 130,  # with the gap between its operators
        Share.BACKWARD: 240,
        Share.OPTIMIZER: 100,
        Share.OTHER: 30,  # the two short gaps between phases
        Share.IDLE: 200,
    }
    assert found.device_busy is None


def test_a_closure_in_the_optimizer_step_is_not_the_optimizer():
    found = account(
        step(1, 0, 100),
        span("Optimizer.step#SGD.step", 0, 100, "user_annotation"),
        span("aten::linear", 0, 30, **{"Sequence number": 1}),
        span("MmBackward0", 30, 70),
        span("aten::add_", 70, 100),
    )
    assert us(found) == {Share.FORWARD: 30, Share.BACKWARD: 40, Share.OPTIMIZER: 30}


def test_kernels_belong_to_the_phase_that_launched_them_and_hide_the_host():
    found = account(
        step(1, 0, 1000),
        span("aten::linear", 0, 100),
        *launch("gemm", (10, 20), (50, 400), 1),
        span("MmBackward0", 100, 200, lane=AUTOGRAD),
        span("cudaLaunchKernel", 110, 120, "cuda_runtime", AUTOGRAD, correlation=2),
        span("gemm", 400, 600, "kernel", correlation=2),
        span("Optimizer.step#SGD.step", 200, 300, "user_annotation"),
        *launch("add", (210, 220), (600, 650), 3),
        span("cudaDeviceSynchronize", 300, 650, "cuda_runtime"),
        span(LOADER, 650, 1000, "user_annotation"),
    )
    assert us(found) == {Share.FORWARD: 400, Share.BACKWARD: 200, Share.OPTIMIZER: 50, Share.DATA: 350}
    assert found.device_busy == pytest.approx(0.6)


@pytest.mark.parametrize("name", ["Memcpy HtoD (Pageable -> Device)", "CopyHostToDevice"])
def test_a_copy_counts_where_no_kernel_hides_it_also_while_the_host_waits_in_the_call(name):
    found = account(
        step(1, 0, 100),
        span("cudaMemcpyAsync", 0, 40, "cuda_runtime", correlation=1),
        span(name, 20, 50, "gpu_memcpy", correlation=1, bytes=1024),
        *launch("gemm", (41, 42), (45, 100), 2),
    )
    assert us(found) == {Share.COPY: 45, Share.FORWARD: 55}


@pytest.mark.parametrize("name", ["ncclKernel_AllReduce_RING_LL_Sum_float", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"])
def test_collectives_under_a_kernel_are_overlapped_and_alone_are_exposed(name):
    found = account(
        step(1, 0, 100),
        span("MmBackward0", 0, 10),
        *launch("gemm", (1, 2), (10, 60), 1),
        span(name, 40, 90, "kernel", {"pid": 0, "tid": 20}),
    )
    parts = us(found)
    assert (parts[Share.OVERLAPPED], parts[Share.TRANSFER], parts[Share.BACKWARD]) == (20, 30, 40)
    assert "transfer" in found.notes[-1]


def gloo_rank(wait):
    """Return a rank that is ready ``wait`` µs before the slowest; its clock is its own."""
    lane = {"pid": 100, "tid": 300}
    return [
        step(4, 0, 1000),
        span("MmBackward0", 0, 500 - wait),
        span("gloo:all_reduce", 500 - wait, 900, "user_annotation", lane),
        span("Optimizer.step#SGD.step", 900, 1000, "user_annotation"),
    ]


@pytest.mark.parametrize(("world_size", "said"), [(2, False), (128, True)])
def test_waiting_is_called_a_lower_bound_where_ranks_are_missing(world_size, said):
    info = {"distributedInfo": {"rank": 0, "world_size": world_size}}
    spans = [step(1, 0, 100), span("gloo:all_reduce", 10, 50, "user_annotation")]
    zero, one = (read(content(spans, **info)) for _ in range(2))
    notes = breakdown(zero, peers=[one]).notes
    assert any("2 of 128 ranks' traces were given" in note for note in notes) is said


def test_another_ranks_trace_tells_waiting_from_transfer():
    early, late = (read(content(gloo_rank(wait))) for wait in (300, 0))
    found = us(breakdown(early, peers=[late]))
    assert (found[Share.RANK_WAIT], found[Share.TRANSFER]) == (300, 400)
    assert us(breakdown(late, peers=[early]))[Share.TRANSFER] == 400
    assert us(breakdown(early))[Share.TRANSFER] == 700


def test_collectives_without_a_partner_count_as_transfer_and_are_told():
    alone = breakdown(read(content(gloo_rank(300))), peers=[read(content([step(4, 0, 9), span("aten::mm", 0, 9)]))])
    assert us(alone)[Share.TRANSFER] == 700 and "1 collectives have no partner" in alone.notes[-1]


def test_logging_and_checkpointing_show_in_python_frames_and_named_ranges():
    found = account(
        step(1, 0, 100),
        span("torch/serialization.py(900): save", 0, 30, "python_function"),
        span("save_checkpoint", 30, 50, "user_annotation"),
        span("<built-in function sleep>", 50, 80, "python_function"),
        span("train.py(3): step", 0, 100, "python_function"),
    )
    assert us(found) == {Share.LOGGING: 50, Share.IDLE: 30, Share.OTHER: 20}


def test_without_steps_the_whole_trace_is_one_window_and_the_notes_say_so():
    found = account(span("aten::mm", 10, 20), span("<script>", 20, 30, "user_annotation"))
    assert us(found) == {Share.FORWARD: 10, Share.OTHER: 10}
    assert "whole trace" in found.notes[0]


def test_a_trace_without_time_is_refused():
    for spans in ([], [span("aten::mm", 1, 1)], [span("a", 0, 9, "overhead")]):
        with pytest.raises(TraceError, match="none of them takes time"):
            account(*spans)


def test_the_displays_escape_and_the_bar_draws():
    found = account(step(1, 0, 100), span("<script>", 0, 60), span("<b>", 60, 90, "user_annotation"))
    page = found._repr_html_()
    assert "<script>" not in page and "measured" in page and "forward ⟨60 %⟩" in repr(found)
    assert found.alt().startswith("Share of the steps' time: forward 60%")
    assert found.figure().axes[0].patches


NAMES = [
    (LOADER, "user_annotation"),
    ("aten::mm", "cpu_op"),
    ("MmBackward0", "cpu_op"),
    ("Optimizer.step#SGD.step", "user_annotation"),
    ("gloo:all_reduce", "user_annotation"),
    ("cudaLaunchKernel", "cuda_runtime"),
    ("gemm", "kernel"),
    ("ncclDevKernel_AllReduce", "kernel"),
    ("Memcpy HtoD", "gpu_memcpy"),
    ("print", "python_function"),
    ("ProfilerStep#1", "user_annotation"),
    ("ProfilerStep#2", "user_annotation"),
    ("save", "user_annotation"),
]
TIME = st.integers(0, 4000)
LANES = st.sampled_from([HOST, AUTOGRAD, {"pid": 0, "tid": 7}, {"pid": 0, "tid": 20}])
SPANS = st.lists(st.tuples(st.sampled_from(NAMES), TIME, TIME, LANES, st.integers(0, 3)), min_size=1, max_size=30)


@settings(max_examples=150, deadline=None)
@given(SPANS, st.randoms(use_true_random=False), st.integers(-(10**9), 10**9))
def test_shares_of_any_spans_sum_to_one_and_depend_on_neither_order_nor_clock(drawn, shuffler: random.Random, shift):
    spans = [span(name, a, a + b, kind, lane, correlation=link) for (name, kind), a, b, lane, link in drawn]
    try:
        found = account(*spans)
    except TraceError:
        return
    assert (found.table_us >= 0).all() and abs(sum(found.shares.values()) - 1) <= 0.001
    lengths = found.steps.end_us - found.steps.start_us
    np.testing.assert_allclose(found.table_us.sum(axis=1), lengths, rtol=1e-9)
    shuffler.shuffle(spans)
    moved = account(*[{**each, "ts": each["ts"] + shift} for each in spans])
    np.testing.assert_allclose(moved.table_us, found.table_us, atol=1e-6)
