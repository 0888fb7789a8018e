"""Comparing times: candidates take turns, ratios are taken round by round."""

import pytest

from helpers import timing
from helpers.timing import Timings, compare, readable


def test_candidates_take_turns():
    calls: list[str] = []
    compare({name: lambda name=name: calls.append(name) for name in "ABC"}, repeats=3, warmup=0)
    assert "".join(calls) == "ABC" * 3


def test_warm_up_rounds_run_and_are_not_counted():
    calls: list[int] = []
    timings = compare({"a": lambda: calls.append(1)}, repeats=2, warmup=3)
    assert len(calls) == 5
    assert len(timings.seconds["a"]) == 2


def test_each_round_counts_its_own_time(monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 1.0, 10.0, 13.0, 20.0, 22.0, 30.0, 37.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    timings = compare({"a": int, "b": int}, repeats=2, warmup=0)
    assert timings.seconds == {"a": (1.0, 2.0), "b": (3.0, 7.0)}


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    # Two noisy rounds slow both down. The ratio of the medians would be 50 / 10 = 5.
    timings = Timings(seconds={"slow": (2.0, 50.0, 200.0), "fast": (1.0, 25.0, 10.0)})
    assert timings.ratio("slow", "fast") == 2.0


def test_the_table_relates_to_the_first_candidate_and_marks_its_numbers():
    timings = Timings(seconds={"base": (0.001,), "other": (0.004,)})
    assert repr(timings).splitlines()[1] == "other: ⟨4 ms⟩, ⟨4 ×⟩ the time of the first"
    assert '<td>other</td><td><span class="measured"' in timings._repr_html_()


def test_names_are_escaped_in_the_table():
    assert "<script>" not in Timings(seconds={"<script>x</script>": (1.0,)})._repr_html_()


@pytest.mark.parametrize(
    ("seconds", "shown"), [(2.0, (2.0, "s")), (1.0, (1.0, "s")), (0.25, (250.0, "ms")), (0.001, (1.0, "ms"))]
)
def test_times_read_best_in_their_unit(seconds: float, shown: tuple[float, str]):
    assert readable(seconds) == shown


def test_short_times_are_shown_in_microseconds():
    assert readable(2e-6) == (pytest.approx(2.0), "µs")


@pytest.mark.parametrize(("candidates", "repeats"), [({}, 7), ({"a": int}, 0)])
def test_nothing_to_compare_is_refused(candidates: dict, repeats: int):
    with pytest.raises(ValueError, match=f"got {len(candidates)} and repeats={repeats}"):
        compare(candidates, repeats=repeats)


def test_an_error_in_a_candidate_comes_through():
    with pytest.raises(ZeroDivisionError):
        compare({"bad": lambda: 1 / 0})
