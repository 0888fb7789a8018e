"""Tables of answers: the right one, and mistakes with the message that each must get."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from helpers.labs.judge import judge
from helpers.labs.tasks import Outcome, Verdict, correct, plan

RIGHT = "right"
"""The name of the right answer in a table; every other name is a plausible mistake."""


@dataclass(frozen=True)
class Case:
    """An answer to a task, and a part of the message that it must get."""

    task: str
    name: str
    answer: Callable[..., Any]
    message: str


class Table:
    """The answers that test a lab's checks, collected by the decorator :meth:`answer`."""

    def __init__(self, lab: str) -> None:
        self.plan = plan(lab)
        self.cases: list[Case] = []

    def answer(self, task: str, name: str, message: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add the decorated function as an answer to a task."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.cases.append(Case(task, name, function, message))
            return function

        return add

    def verify(self, case: Case) -> None:
        """Judge an answer and compare outcome and message."""
        verdict = judge(self.plan.task(case.task), case.answer)
        wanted = Outcome.CORRECT if case.name == RIGHT else Outcome.INCORRECT
        assert verdict.outcome is wanted, verdict
        assert case.message in f"{verdict.message} | {verdict.saw}", verdict
        if wanted is Outcome.INCORRECT:
            assert verdict.saw and verdict.expected

    def verify_coverage(self) -> None:
        """Every task has the right answer and at least three mistakes, all with messages of their own."""
        for task in self.plan.tasks:
            mine = [case for case in self.cases if case.task == task.name]
            assert [case.name for case in mine].count(RIGHT) == 1, task.name
            assert len(mine) >= 4, task.name
            assert len({case.message for case in mine}) == len(mine), task.name


def ids(case: Case) -> str:
    """Return how pytest names a case."""
    return f"{case.task}-{case.name.replace(' ', '_')}"


def accept(answer: object) -> Verdict:
    """Call the answer and be content."""
    answer()  # type: ignore[operator]
    return correct("It ran.")


def digest(answer: object) -> Verdict:
    """Fail on what the answer gives back, inside code of ours."""
    return correct(json.dumps(answer()))  # type: ignore[operator]
