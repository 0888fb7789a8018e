"""Every lab's notebook and module agree, and the learner's notebook is what the source makes."""

from __future__ import annotations

import re

import nbformat
import pytest

from helpers.labs.build import Pair, is_current, pairs, strays
from helpers.labs.tasks import numbers, plan

PAIRS = pairs()


def _cells(pair: Pair, kind: str) -> dict[str, nbformat.NotebookNode]:
    """Return the cells of one kind by nbgrader's id: ``solution``, ``grade`` or ``locked``."""
    return {
        cell.metadata.nbgrader.grade_id: cell
        for cell in nbformat.read(pair.source, as_version=4).cells
        if cell.metadata.get("nbgrader", {}).get(kind)
    }


def _name(pair: Pair) -> str:
    return pair.source.stem


def test_every_lab_has_a_module_and_a_source() -> None:
    assert [pair.source.name[:2] for pair in PAIRS] == numbers()
    assert strays(PAIRS) == []


@pytest.mark.parametrize("pair", PAIRS, ids=_name)
def test_the_learners_notebook_has_not_drifted(pair: Pair) -> None:
    assert is_current(pair), "run 'course labs build'"


@pytest.mark.parametrize("pair", PAIRS, ids=_name)
def test_each_task_has_a_solution_and_a_locked_check_with_its_points(pair: Pair) -> None:
    lab = plan(pair.source.name[:2])
    assert list(_cells(pair, "solution")) == [task.name for task in lab.tasks]
    checks = _cells(pair, "grade")
    assert list(checks) == [f"check_{task.name}" for task in lab.tasks]
    for task in lab.tasks:
        cell = checks[f"check_{task.name}"]
        assert cell.metadata.nbgrader.points == task.points
        assert cell.metadata.nbgrader.locked
        assert cell.source == f'from helpers.labs import Lab\nLab("{lab.number}").check("{task.name}", {task.name})'


@pytest.mark.parametrize("pair", PAIRS, ids=_name)
def test_the_text_states_each_tasks_minutes_and_points(pair: Pair) -> None:
    lab = plan(pair.source.name[:2])
    texts = [cell.source for cell in nbformat.read(pair.source, as_version=4).cells if cell.cell_type == "markdown"]
    headings = re.findall(r"(?m)^## (Task .*)$", "\n".join(texts))
    assert headings == [
        f"Task {n}: {task.title} ({task.minutes} minutes, {task.points} points)" for n, task in enumerate(lab.tasks, 1)
    ]


@pytest.mark.parametrize("pair", PAIRS, ids=_name)
def test_the_first_code_cell_is_locked(pair: Pair) -> None:
    assert "setup" in _cells(pair, "locked")


@pytest.mark.parametrize("pair", PAIRS, ids=_name)
def test_stored_outputs_are_all_correct_or_all_blank(pair: Pair) -> None:
    for path, mark in ((pair.source, "✓ Correct"), (pair.learner, "○ Not attempted yet")):
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        first = [cell.outputs[0] for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]
        assert first, path.name
        for output in first:
            assert output.data["text/plain"].startswith(mark), (path.name, output.data["text/plain"])


@pytest.mark.parametrize("pair", PAIRS, ids=_name)
def test_the_learner_cannot_read_the_solution_in_the_notebook(pair: Pair) -> None:
    text = pair.learner.read_text(encoding="utf-8")
    assert "SOLUTION" not in text
    for cell in nbformat.read(pair.learner, as_version=4).cells:
        if cell.metadata.get("nbgrader", {}).get("locked"):
            assert cell.metadata.editable is False
            assert cell.metadata.deletable is False


@pytest.mark.parametrize("number", numbers())
def test_hints_are_not_twice_the_same(number: str) -> None:
    hints = [hint for task in plan(number).tasks for hint in task.hints]
    assert len(set(hints)) == len(hints)
    assert 30 <= sum(task.minutes for task in plan(number).tasks) <= 60
