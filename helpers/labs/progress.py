"""What a learner has solved, kept between sessions in one small JSON file per lab."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from helpers.labs.tasks import Outcome
from helpers.machine import scratch


@dataclass(frozen=True, kw_only=True)
class TaskProgress:
    """How far a learner is with one task."""

    solved: bool = False
    """Once solved stays solved, also when the notebook is run again from its untouched state."""
    tries: int = 0
    """Checks of an answer, right or wrong; blank ones do not count."""
    hints: int = 0
    """Rungs of the hint ladder that were shown."""

    def state(self) -> Outcome:
        """Return the state in the words of the checks."""
        if self.solved:
            return Outcome.CORRECT
        return Outcome.INCORRECT if self.tries else Outcome.NOT_ATTEMPTED


@dataclass(kw_only=True)
class Record:
    """The progress of one lab. With ``path`` None it is kept in memory only."""

    path: Path | None
    problem: str | None = None
    """Why it is kept in memory although it should be in a file."""
    tasks: dict[str, TaskProgress] = field(default_factory=dict)

    def of(self, name: str) -> TaskProgress:
        """Return the progress with one task."""
        return self.tasks.get(name, TaskProgress())

    def note(self, name: str, outcome: Outcome) -> None:
        """Note the verdict of a check."""
        if outcome is not Outcome.NOT_ATTEMPTED:
            now = self.of(name)
            self._put(name, replace(now, tries=now.tries + 1, solved=now.solved or outcome is Outcome.CORRECT))

    def climb(self, name: str, rungs: int) -> int:
        """Step one rung up a ladder of so many hints and return the rung, counted from 1; the last one stays."""
        rung = min(self.of(name).hints + 1, rungs)
        self._put(name, replace(self.of(name), hints=rung))
        return rung

    def _put(self, name: str, now: TaskProgress) -> None:
        self.tasks[name] = now
        if self.path is None:
            return
        # Written beside and renamed, so that a kernel killed here leaves the old file whole.
        fresh = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            fresh.write_text(json.dumps({task: asdict(value) for task, value in self.tasks.items()}, indent=1))
            fresh.replace(self.path)
        except OSError as error:  # a full disk must not keep anybody from a check or a hint
            with contextlib.suppress(OSError):
                fresh.unlink()
            advice = "Set LOOP_SCRATCH to a folder that you can write to."
            self.problem = f"{self.path} cannot be written ({error.strerror}). {advice}"
            self.path = None


def stored(number: str) -> Record:
    """Return the progress of a lab from the course's scratch folder; a damaged file counts as empty.

    Raises:
        CourseError: If the scratch folder cannot be made.
    """
    path = scratch("labs") / f"{number}.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        tasks = {str(name): _restore(value) for name, value in raw.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        tasks = {}
    return Record(path=path, tasks=tasks)


def _restore(value: Any) -> TaskProgress:
    solved, counts = value["solved"], (value["tries"], value["hints"])
    if not isinstance(solved, bool) or not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError(f"expected solved to be true or false and two counts; got {value!r}")
    return TaskProgress(solved=solved, tries=counts[0], hints=counts[1])
