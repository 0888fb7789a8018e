"""Run a check on what the learner hands in, and turn whatever happens into a verdict.

The learner's code runs inside the check. It may print, warn, raise anything, or return something
that our code cannot digest; none of that may reach the learner as a bare traceback, and nothing may
reach standard error, which nbgrader counts as a failed test.
"""

from __future__ import annotations

import contextlib
import linecache
import logging
import re
import reprlib
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from helpers.labs.surroundings import usual_surroundings
from helpers.labs.tasks import Task, Verdict, as_code, incorrect, is_blank, not_attempted
from helpers.quiet import quiet_stderr

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_LONGEST_MESSAGE = 240
_WRONG_CALL = re.compile(r"[\w>]\(\) (takes|missing|got an unexpected|got multiple)|is not callable$")
"""How Python says that something cannot be called, or not with these arguments."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def judge(task: Task, *answers: Any) -> Verdict:
    """Return the verdict on a task's answers; never raises for what the learner wrote.

    Args:
        task: The task.
        *answers: What the learner hands in, as the task's check takes it.
    """
    check = task.function()
    try:
        if not answers or any(is_blank(answer) for answer in answers):
            return not_attempted("Fill in the cell above, run it, then run this one again.")
        with _quiet(), usual_surroundings():
            return check(*answers)
    except KeyboardInterrupt:  # the learner's way out of an endless loop
        raise
    except BaseException as error:  # SystemExit, and exceptions that the learner derives from BaseException
        return _raised(error, check.__code__.co_filename)


def shown(value: Any) -> str:
    """Describe a value in one short line: tensors and arrays by type, shape and dtype, the rest by its repr."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return "nothing (`None`)" if value is None else as_code(_SHORT.repr(value))
    kind = type(value).__module__.partition(".")[0]
    dims = "×".join(str(size) for size in shape) or "one number"
    return f"a {kind} tensor of shape {dims}, {getattr(dtype, 'name', dtype)}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send Python's standard error to standard output, and hold back log records and native messages."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(sys.stdout), quiet_stderr():
            yield
    finally:
        logging.disable(before)


def _raised(error: BaseException, ours: str) -> Verdict:
    """Return the verdict on an answer that raised: the error's type, its message and the learner's own line.

    Args:
        error: What was raised.
        ours: The file of the check, whose lines are not the learner's.
    """
    message = _message(error)
    seen = f"`{type(error).__name__}`: {message}"
    place = _learners_line(error.__traceback__, ours)
    if place is None and isinstance(error, TypeError) and _WRONG_CALL.search(message):
        return incorrect(
            "The check could not call your code: it must be a function or class that takes the arguments which the "
            "cell came with.",
            saw=seen,
            expected="the name and the arguments of the cell's first line, as they were",
        )
    if place is None:
        return incorrect(
            "Your code ran, but the check could not use what it gave back.",
            saw=seen,
            expected="values of the types that the task describes",
        )
    number, line = place
    return incorrect(
        f"Your code raised an error in line {number} of its cell: {as_code(line)}",
        saw=seen,
        expected="a run without an error",
    )


def _message(error: BaseException) -> str:
    """Return the error's message in one line; TensorFlow and Dynamo put the point at one end of a long text."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception:  # an exception class of the learner's can fail to say what it is
        return "(its message cannot be read)"
    if not lines:
        return "(no message)"
    text = lines[-1] if lines[0].startswith("in user code") else lines[0]
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


def _learners_line(trace: TracebackType | None, ours: str) -> tuple[int, str] | None:
    """Return number and text of the deepest line of the learner's in a traceback, None where there is none."""
    found = None
    for frame, number in traceback.walk_tb(trace):
        name = frame.f_code.co_filename
        if not name.startswith((ours, _PACKAGE, *_LIBRARIES)) and (line := linecache.getline(name, number).strip()):
            found = (number, line)
    return found
