"""What a lab is made of: tasks, and the verdict that a check returns."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import EllipsisType
from typing import Any

from helpers.errors import CourseError

_SHORTEST_MIN, _LONGEST_MIN = 5, 20
_FEWEST_HINTS = 2


class Outcome(StrEnum):
    """What a check says. *Not attempted* is not a failure: the learner has not been there yet."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    NOT_ATTEMPTED = "not attempted"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer of a check. All fields are plain text; ``code`` between backticks is set as code."""

    outcome: Outcome
    message: str
    """What it means, in a sentence or two, addressed to the learner."""
    saw: str | None = None
    """What the check saw."""
    expected: str | None = None
    """What it expected to see."""


def correct(message: str) -> Verdict:
    """Return the verdict on a right answer; the message says what was shown to hold."""
    return Verdict(outcome=Outcome.CORRECT, message=message)


def incorrect(message: str, *, saw: str, expected: str) -> Verdict:
    """Return the verdict on a wrong answer: the likely mistake, what was seen and what was expected."""
    return Verdict(outcome=Outcome.INCORRECT, message=message, saw=saw, expected=expected)


def as_code(text: str) -> str:
    """Set a text as code in a verdict's message."""
    return "`" + text.replace("`", "'") + "`"


def not_attempted(message: str) -> Verdict:
    """Return the verdict on an answer that has not been written yet."""
    return Verdict(outcome=Outcome.NOT_ATTEMPTED, message=message)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task of a lab: five to twenty minutes of work, checked by what the answer does."""

    name: str
    """The function or class to write; also what ``lab.check`` and nbgrader call the task."""
    title: str
    minutes: int
    points: int
    """What nbgrader gives for it."""
    check: str
    """The check as ``package.module:function``, imported when it is needed: it takes what the learner
    hands in and returns a :class:`Verdict`."""
    hints: tuple[str, ...]
    """The ladder, from a nudge to nearly the answer."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise CourseError(f"a task is named after the function or class to write; got {self.name!r}.")
        if not _SHORTEST_MIN <= self.minutes <= _LONGEST_MIN:
            raise CourseError(
                f"task {self.name!r} is said to take {self.minutes} minutes; {_SHORTEST_MIN} to {_LONGEST_MIN} "
                "are meant. Split or join tasks."
            )
        if self.points < 1:
            raise CourseError(f"task {self.name!r} gives {self.points} points; it must give at least 1.")
        if len(self.hints) < _FEWEST_HINTS:
            raise CourseError(f"task {self.name!r} has {len(self.hints)} hints; a ladder has {_FEWEST_HINTS} or more.")

    def function(self) -> Callable[..., Verdict]:
        """Import and return the check."""
        found: Callable[..., Verdict] = pkgutil.resolve_name(self.check)
        return found


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A lab as its module declares it in ``LAB``."""

    number: str
    title: str
    tasks: tuple[Task, ...]

    def task(self, name: str) -> Task:
        """Return the task of that name.

        Raises:
            CourseError: If the lab has no such task.
        """
        for task in self.tasks:
            if task.name == name:
                return task
        known = ", ".join(repr(task.name) for task in self.tasks)
        raise CourseError(f"lab {self.number} has no task {name!r}; its tasks are {known}.")


def numbers() -> list[str]:
    """Return the numbers of the labs there are, for example ``["01", "02"]``."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(match[1] for name in names if (match := re.fullmatch(r"lab(\d\d)", name)))


def plan(number: str) -> Plan:
    """Return the lab of that number, as ``helpers.labs.labNN`` declares it.

    Raises:
        CourseError: If there is no such lab.
    """
    if number not in numbers():
        raise CourseError(f"there is no lab {number!r}; the labs are {', '.join(map(repr, numbers()))}.")
    declared: Plan = importlib.import_module(f"helpers.labs.lab{number}").LAB
    return declared


def is_blank(answer: Any) -> bool:
    """Tell whether an answer is still the empty one that the learner's notebook came with.

    Blank are ``...``, ``None``, a function whose body does nothing but ``...``, ``pass`` or a docstring, and a class
    with such a method.
    """
    if isinstance(answer, type):
        return any(is_blank(member) for name, member in vars(answer).items() if hasattr(member, "__code__"))
    if answer is None or isinstance(answer, EllipsisType):
        return True
    code = getattr(answer, "__code__", None)
    if code is None:
        return False
    idle = set(code.co_consts) <= {answer.__doc__, None, ...}
    return idle and not code.co_names and code.co_code in _blank_bodies()


def _blank_bodies() -> list[bytes]:
    """Return the bytecode of functions that do nothing, as this interpreter compiles them."""

    def dots() -> None: ...

    def documented() -> None:
        """Do nothing."""

    def returned() -> Any:
        return ...

    return [function.__code__.co_code for function in (dots, documented, returned)]
