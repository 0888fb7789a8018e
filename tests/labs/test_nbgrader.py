"""Grade lab 01 with nbgrader from end to end, in a course folder of its own."""

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

PAIR = pairs()[0]
LAB = plan("01")
POINTS = {task.name: task.points for task in LAB.tasks}
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
        self.source = root / "source" / "01"
        self.source.mkdir(parents=True)
        shutil.copy(checkout() / "nbgrader_config.py", root)
        shutil.copy(PAIR.source, self.source)
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

    def submit(self, student: str, change: Callable[[nbformat.NotebookNode], None], start: Path) -> None:
        """Hand in a notebook made from another one."""
        notebook = nbformat.read(start, as_version=4)
        change(notebook)
        folder = self.root / "submitted" / student / "01"
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / PAIR.source.name)

    def scores(self) -> dict[str, dict[str, float]]:
        """Return each student's points by task."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as book:
            return {
                submission.student.id: {
                    grade.name.removeprefix("check_"): grade.score
                    for notebook in submission.notebooks
                    for grade in notebook.grades
                }
                for submission in book.assignment_submissions("01")
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
    """Release the lab and grade three students at once."""
    made = Course(tmp_path_factory.mktemp("course"))
    made.run("generate_assignment", "01")
    made.submit("right", _nothing, PAIR.source)
    made.submit("two_mistakes", _two_mistakes, PAIR.source)
    released = made.root / "release" / "01" / PAIR.source.name
    made.submit("cheat", _cheats, released)
    made.run("autograde", "01")
    return made


def test_the_release_is_what_learners_open(course: Course) -> None:
    released = nbformat.read(course.root / "release" / "01" / PAIR.source.name, as_version=4)
    ours = learner_notebook(PAIR.source)
    assert [(c.cell_type, c.source, c.metadata) for c in released.cells] == [
        (c.cell_type, c.source, c.metadata) for c in ours.cells
    ]


def test_a_right_submission_gets_full_marks(course: Course) -> None:
    assert course.scores()["right"] == POINTS


def test_a_wrong_one_loses_exactly_its_tasks_points(course: Course) -> None:
    assert course.scores()["two_mistakes"] == {**POINTS, "train_epoch": 0, "make_resnet18": 0}


def test_untouched_tasks_a_rebound_lab_and_edited_checks_gain_nothing(course: Course) -> None:
    assert course.scores()["cheat"] == dict.fromkeys(POINTS, 0)


def test_the_graded_copy_tells_the_student_why(course: Course) -> None:
    graded = nbformat.read(course.root / "autograded" / "two_mistakes" / "01" / PAIR.source.name, as_version=4)
    outputs = {o.output_type: o for o in _cell(graded, "check_train_epoch").outputs}
    assert "average over batches" in outputs["display_data"].data["text/plain"]
    assert outputs["error"].ename == "CheckFailedError"
    assert len(outputs["error"].traceback) == 1


def test_grades_are_exported(course: Course) -> None:
    course.run("export")
    with (course.root / "grades.csv").open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    total = sum(POINTS.values())
    assert {name: float(row["score"]) for name, row in rows.items()} == {
        "right": total,
        "two_mistakes": total - POINTS["train_epoch"] - POINTS["make_resnet18"],
        "cheat": 0,
    }
    assert {float(row["max_score"]) for row in rows.values()} == {float(total)}
