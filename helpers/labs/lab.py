"""The handle a lab's notebook holds: ``lab = Lab("01")``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from helpers.claims import sentence
from helpers.errors import CourseError
from helpers.labs.judge import judge
from helpers.labs.progress import Record, stored
from helpers.labs.render import Box, Listing, hint_box, notice_box, progress_box, solution_text, verdict_box
from helpers.labs.tasks import Outcome, plan
from helpers.machine import checkout

_GRADING = "NBGRADER_EXECUTION" in os.environ
"""Set by nbgrader while it autogrades or validates. Read once, at import: a lab's first cell, which
nbgrader restores, imports this module before any code of the learner's runs."""

_outcomes: dict[str, dict[str, Outcome]] = {}
"""The last verdict of each task of each lab in this kernel."""


class CheckFailedError(Exception):
    """A check did not pass under nbgrader, where an error is what takes the task's points away."""

    def _render_traceback_(self) -> list[str]:
        """Show the message alone: IPython asks for this instead of a traceback."""
        return [f"CheckFailedError: {self}"]


class Lab:
    """The checks, hints, solutions and progress of one lab.

    Args:
        number: The lab's number as in its file name, for example ``"01"``.

    Raises:
        CourseError: If there is no such lab.
    """

    def __init__(self, number: str) -> None:
        self._plan = plan(number)
        self._record = _record(number)

    def __repr__(self) -> str:
        return f"Lab {self._plan.number}, {self._plan.title}: {', '.join(task.name for task in self._plan.tasks)}"

    def check(self, name: str, *answers: Any) -> None:
        """Check a task's answer and say what was seen and what was expected.

        Args:
            name: The task.
            *answers: The answer, usually the function you wrote.

        Raises:
            CourseError: If the lab has no such task.
            CheckFailedError: Under nbgrader only, if the answer is missing or wrong.
        """
        task = self._plan.task(name)
        verdict = judge(task, *answers)
        _outcomes.setdefault(self._plan.number, {})[name] = verdict.outcome
        self._record.note(name, verdict.outcome)
        _show(verdict_box(task, verdict))
        self._tell_problem()
        if _GRADING and verdict.outcome is not Outcome.CORRECT:
            raise CheckFailedError(f"{task.title}: {verdict.outcome}. {verdict.message}")

    def hint(self, name: str) -> None:
        """Show the next hint for a task; each call goes one rung further, also in a later session."""
        task = self._plan.task(name)
        _show(hint_box(task, self._record.climb(name, len(task.hints))))
        self._tell_problem()

    def solution(self, name: str) -> None:
        """Show one way to solve a task, from the lab's source where this copy of the course carries it."""
        task = self._plan.task(name)
        code = solution_code(self._plan.number, name)
        if code is None:
            _show(notice_box("No solutions here", "This copy of the course comes without `labs/solutions`."))
        else:
            _show(solution_text(task, code))

    def _tell_problem(self) -> None:
        """Say once that the progress is not kept."""
        if (problem := self._record.problem) is not None:
            self._record.problem = None
            message = f"Checks and hints work as before. {sentence(problem)}"
            _show(notice_box("Your progress is not kept beyond this kernel", message))

    def progress(self) -> None:
        """Show how each task stands in this kernel; ``course labs status`` counts earlier sessions too."""
        _show(progress_box(self._plan, _outcomes.get(self._plan.number, {})))


def solution_code(number: str, name: str, folder: Path | None = None) -> str | None:
    """Return the code of a task's solution cell without nbgrader's markers, None where there is no source.

    Args:
        number: The lab.
        name: The task.
        folder: Where the sources lie; ``labs/solutions`` of the checkout by default.
    """
    import nbformat

    for path in sorted((folder or checkout() / "labs" / "solutions").glob(f"{number}_*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == name:
                return re.sub(r"(?m)^\s*### (BEGIN|END) SOLUTION\n?", "", cell.source)
    return None


def _record(number: str) -> Record:
    """Return the learner's record; running a lab's solution or grading it is nobody's progress."""
    if _GRADING or Path.cwd().name == "solutions":
        return Record(path=None)
    try:
        return stored(number)
    except CourseError as error:
        return Record(path=None, problem=str(error))


def _show(box: Box | Listing) -> None:
    """Display a box in a notebook, print it elsewhere."""
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        print(box)
    else:
        display(box)
