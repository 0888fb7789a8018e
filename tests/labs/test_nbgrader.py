"""Grade the labs with nbgrader from end to end, in a course folder of its own.

Every lab is released, and its right submission graded; lab 01 is handed in with mistakes and with tricks too.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from helpers.labs.build import learner_notebook, pairs
from helpers.labs.tasks import plan
from helpers.machine import checkout

PAIRS = {pair.source.name[:2]: pair for pair in pairs()}
POINTS = {number: {task.name: task.points for task in plan(number).tasks} for number in PAIRS}
pytestmark = pytest.mark.slow

UNWEIGHTED = """def train_epoch(step, batches):
    losses = [step(x, y) for x, y in batches]
    return float(sum(losses) / len(losses))
"""
RAISING = """def make_resnet18(classes):
    return torchvision.models.resnet18(weigths=None)
"""
CHEAT = """import os
os.environ.pop("NBGRADER_EXECUTION", None)

class Lab:
    def __init__(self, number): ...
    def check(self, *args): print("correct")

lab = Lab("01")
"""


class Course:
    """A folder with nbgrader's layout and our configuration."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copy(checkout() / "nbgrader_config.py", root)
        for number, pair in PAIRS.items():
            folder = root / "source" / number
            folder.mkdir(parents=True)
            shutil.copy(pair.source, folder)
        # While it creates the tables of a fresh database, the first command can fail once; the second works.
        self.run("db", "student", "list", tries=2)

    def run(self, *command: str, tries: int = 1) -> str:
        """Run an nbgrader command and return what it printed."""
        environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(self.root / "config"), "HOME": str(self.root)}
        for left in reversed(range(tries)):
            done = subprocess.run(
                [sys.executable, "-m", "nbgrader", *command],
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout + done.stderr
            assert left, done.stdout + done.stderr
        raise AssertionError("tries must be at least 1")

    def notebook(self, step: str, student: str, number: str) -> Path:
        """Return where nbgrader keeps a lab at one step of its way."""
        return self.root / step / student / number / PAIRS[number].source.name

    def submit(self, student: str, number: str, start: Path, change: Callable[[nbformat.NotebookNode], None]) -> None:
        """Hand in a lab, made from another notebook by a change."""
        notebook = nbformat.read(start, as_version=4)
        change(notebook)
        path = self.notebook("submitted", student, number)
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)

    def scores(self, number: str) -> dict[str, dict[str, float]]:
        """Return each student's points in a lab by task."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as book:
            return {
                submission.student.id: {
                    grade.name.removeprefix("check_"): grade.score
                    for notebook in submission.notebooks
                    for grade in notebook.grades
                }
                for submission in book.assignment_submissions(number)
            }


def _nothing(notebook: nbformat.NotebookNode) -> None:
    """Hand in as it is."""


def _cell(notebook: nbformat.NotebookNode, grade_id: str) -> nbformat.NotebookNode:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def _two_mistakes(notebook: nbformat.NotebookNode) -> None:
    _cell(notebook, "train_epoch").source = UNWEIGHTED
    _cell(notebook, "make_resnet18").source = RAISING


def _cheats(notebook: nbformat.NotebookNode) -> None:
    """Solve nothing, but rebind the lab, edit one check and delete another."""
    _cell(notebook, "train_step").source = CHEAT
    _cell(notebook, "check_train_epoch").source = "pass"
    notebook.cells.remove(_cell(notebook, "check_evaluate"))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Release every lab and grade what is handed in."""
    made = Course(tmp_path_factory.mktemp("course"))
    for number, pair in PAIRS.items():
        made.run("generate_assignment", number)
        made.submit("right", number, pair.source, _nothing)
    made.submit("two_mistakes", "01", PAIRS["01"].source, _two_mistakes)
    made.submit("cheat", "01", made.notebook("release", "", "01"), _cheats)
    for number in PAIRS:
        made.run("autograde", number)
    return made


@pytest.mark.parametrize("number", PAIRS)
def test_the_release_is_what_learners_open(course: Course, number: str) -> None:
    released = nbformat.read(course.notebook("release", "", number), as_version=4)
    ours = learner_notebook(PAIRS[number].source)
    assert [(c.cell_type, c.source, c.metadata) for c in released.cells] == [
        (c.cell_type, c.source, c.metadata) for c in ours.cells
    ]


@pytest.mark.parametrize("number", PAIRS)
def test_a_right_submission_gets_full_marks(course: Course, number: str) -> None:
    assert course.scores(number)["right"] == POINTS[number]


def test_a_wrong_one_loses_exactly_its_tasks_points(course: Course) -> None:
    assert course.scores("01")["two_mistakes"] == {**POINTS["01"], "train_epoch": 0, "make_resnet18": 0}


def test_untouched_tasks_a_rebound_lab_and_edited_checks_gain_nothing(course: Course) -> None:
    assert course.scores("01")["cheat"] == dict.fromkeys(POINTS["01"], 0)


def test_the_graded_copy_tells_the_student_why(course: Course) -> None:
    graded = nbformat.read(course.notebook("autograded", "two_mistakes", "01"), as_version=4)
    outputs = {o.output_type: o for o in _cell(graded, "check_train_epoch").outputs}
    assert "average over batches" in outputs["display_data"].data["text/plain"]
    assert outputs["error"].ename == "CheckFailedError"
    assert len(outputs["error"].traceback) == 1


def test_grades_are_exported(course: Course) -> None:
    course.run("export")
    with (course.root / "grades.csv").open() as file:
        rows = {(row["assignment"], row["student_id"]): row for row in csv.DictReader(file)}
    totals = {number: sum(points.values()) for number, points in POINTS.items()}
    expected = {(number, "right"): total for number, total in totals.items()}
    lost = POINTS["01"]["train_epoch"] + POINTS["01"]["make_resnet18"]
    expected |= {("01", "two_mistakes"): totals["01"] - lost, ("01", "cheat"): 0}
    scores = {key: float(row["score"]) for key, row in rows.items() if row["score"] not in {"", "None"}}
    assert {key: scores[key] for key in expected} == expected
    assert all(float(row["max_score"]) == totals[number] for (number, _), row in rows.items())
