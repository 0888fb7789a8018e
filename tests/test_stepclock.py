"""The clock in the data."""

import sys

import pytest

from helpers.data import load
from helpers.errors import CourseError
from helpers.stepclock import StepClock, compare_steps, python_calls_per_step


def test_it_ticks_once_for_every_batch():
    clock = StepClock()
    assert list(clock.over([1, 2, 3, 4])) == [1, 2, 3, 4]
    assert len(clock.moments) == 4


def test_what_the_batches_offer_stays_reachable():
    batches = load("digits").train.batches(100, shuffle=True)
    clocked = StepClock().over(batches)
    clocked.set_epoch(7)
    assert (batches.epoch, len(clocked), clocked.batch_size) == (7, 15, 100)


def test_slow_steps_do_not_count():
    clock = StepClock()
    clock.moments = [0.0, 4.0, 5.0, 12.0]
    assert clock.least() == 1.0


def test_the_timer_can_be_chosen():
    numbers = iter([3.0, 4.0, 6.0, 9.0])
    clock = StepClock(lambda: next(numbers))
    list(clock.over("abcd"))
    assert clock.moments == [3.0, 4.0, 6.0, 9.0]


def test_too_few_ticks_are_named():
    with pytest.raises(CourseError, match=r"ticked 2 times; expected at least 3.*clock\.over"):
        compare_steps({"short": lambda clock: list(clock.over("ab"))})


def test_candidates_take_turns_and_warmup_is_not_counted():
    order = []

    def run(name):
        def inner(clock):
            order.append(name)
            list(clock.over("abc"))

        return inner

    timings = compare_steps({"a": run("a"), "b": run("b")}, rounds=2, warmup=1)
    assert order == ["a", "b"] * 3
    assert [len(seconds) for seconds in timings.seconds.values()] == [2, 2]


def test_python_calls_are_counted_per_step():
    def nothing():
        pass

    def run(clock):
        for _ in clock.over(range(5)):
            for _ in range(10):
                nothing()

    idle = python_calls_per_step(lambda clock: list(clock.over(range(5))))
    assert python_calls_per_step(run) - idle == 10
    assert sys.getprofile() is None
