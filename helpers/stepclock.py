"""Time single training steps inside loops that are not ours.

A framework's ``fit`` sets up for a while before its first step, so timing the whole call says little about a step.
Every loop, though, must ask for its next batch: a clock in the data sees when. Between two such moments lies one
whole step, whatever the framework does in it.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

from helpers.errors import CourseError
from helpers.timing import Timings

Timer = Callable[[], float]
"""Returns a growing number, usually seconds: ``time.perf_counter``, or ``time.process_time`` on a shared machine."""

Run = Callable[["StepClock"], object]
"""Trains for some steps and ticks the clock once in each."""


class StepClock:
    """Notes the moments at which steps begin."""

    def __init__(self, timer: Timer = time.perf_counter) -> None:
        self.moments: list[float] = []
        self._timer = timer

    def tick(self) -> None:
        """Note that a step begins."""
        self.moments.append(self._timer())

    def over(self, batches: Iterable[Any]) -> ClockedBatches:
        """Return the batches with this clock in them: it ticks whenever one is asked for."""
        return ClockedBatches(batches, self)

    def least(self) -> float:
        """Return the shortest time between two ticks: that of a step which nothing else disturbed.

        Raises:
            CourseError: If fewer than three steps were seen.

        Source:
            The documentation of Python's ``timeit``: longer times are mostly other processes taking the core.
        """
        if len(self.moments) < 3:
            raise CourseError(
                f"the clock ticked {len(self.moments)} times; expected at least 3. "
                "Train on clock.over(batches), or call clock.tick() in every step."
            )
        return min(after - before for before, after in itertools.pairwise(self.moments))


class ClockedBatches:
    """Batches whose every request is noted. Anything else they offer (``len``, ``set_epoch``) stays reachable."""

    def __init__(self, batches: Iterable[Any], clock: StepClock) -> None:
        self._batches = batches
        self._clock = clock

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            self._clock.tick()
            yield batch

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]  # a loader without a length raises, as it would itself

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


def compare_steps(
    runs: Mapping[str, Run], *, rounds: int = 5, warmup: int = 1, timer: Timer = time.perf_counter
) -> Timings:
    """Time a step of each candidate; the candidates take turns, as in :func:`helpers.timing.compare`.

    Args:
        runs: Name to a function that trains for at least three steps with the clock that it is given.
        rounds: Counted rounds.
        warmup: Rounds not counted, first.
        timer: What to measure. The processor time of this process, ``time.process_time``, leaves out the time in
            which other processes have the cores; it knows nothing of a GPU.

    Returns:
        For each candidate and round, the least seconds of a step.

    Raises:
        CourseError: If a run ticks its clock fewer than three times.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(warmup + rounds):
        for name, run in runs.items():
            clock = StepClock(timer)
            run(clock)
            if round_ >= warmup:
                seconds[name].append(clock.least())
    return Timings(seconds={name: tuple(values) for name, values in seconds.items()})


def python_calls_per_step(run: Run) -> int:
    """Return how many Python functions are called in a step, in the thread that trains.

    The run is slower than usual, and the hook of a debugger or profiler is off meanwhile.

    Args:
        run: Trains for at least three steps with the clock that it is given.
    """
    calls = 0

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    clock = StepClock(lambda: calls)
    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        run(clock)
    finally:
        sys.setprofile(before)
    return int(clock.least())
