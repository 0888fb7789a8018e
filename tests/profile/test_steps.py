"""Where steps begin and end."""

from helpers.profile import steps
from helpers.profile.steps import Origin
from helpers.profile.trace import read
from tests.profile.made import content, span, step


def find(*spans):
    return steps.find(read(content(list(spans))))


def optimizer(start, end, kind="SGD"):
    return span(f"Optimizer.step#{kind}.step", start, end, "user_annotation")


def test_the_profilers_ranges_come_first_in_order_and_the_devices_copies_of_them_do_not_count():
    found = find(step(8, 10, 20), step(7, 0, 10), optimizer(8, 9), span("ProfilerStep#7", 3, 30, "gpu_user_annotation"))
    assert found.origin is Origin.PROFILER and found.number.tolist() == [7, 8]
    assert (found.start_us.tolist(), found.end_us.tolist()) == ([0, 10], [10, 20])


def test_overlapping_ranges_end_where_the_next_begins():
    found = find(step(1, 0, 15), step(2, 10, 20))
    assert found.end_us.tolist() == [10, 20]


def test_without_them_a_step_ends_with_the_optimizers():
    found = find(span("aten::mm", 0, 1), optimizer(8, 10), optimizer(18, 21), optimizer(28, 30))
    assert found.origin is Origin.OPTIMIZER
    assert (found.start_us.tolist(), found.end_us.tolist()) == ([10, 21], [21, 30])


def test_of_two_optimizers_the_rarer_counts():
    found = find(*[optimizer(10 * i, 10 * i + 1, "Adam") for i in range(6)], optimizer(5, 6), optimizer(35, 36))
    assert (found.start_us.tolist(), found.end_us.tolist()) == ([6], [36])


def test_a_trace_without_either_says_so():
    found = find(span("aten::mm", 0, 1), optimizer(2, 3))
    assert found.origin is Origin.NONE and len(found) == 0
    assert "no ProfilerStep range and 1 optimizer step" in found.why


def test_a_number_of_a_thousand_digits_is_no_step():
    assert find(step(int("9" * 1000), 0, 1)).origin is Origin.NONE
