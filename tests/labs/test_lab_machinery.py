"""The labs' machinery: blank answers, learners' errors, what is shown, what is kept."""

from __future__ import annotations

import argparse
import html
import json
import logging
import re
import subprocess
import sys
import warnings
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.errors import CourseError
from helpers.labs import Lab, commands
from helpers.labs import build as build_module
from helpers.labs import lab as lab_module
from helpers.labs.build import CODE_STUB, learner_notebook, pairs
from helpers.labs.judge import judge, shown
from helpers.labs.progress import TaskProgress, stored
from helpers.labs.render import hint_box, progress_box, verdict_box
from helpers.labs.tasks import Outcome, Plan, Task, Verdict, correct, incorrect, is_blank


def _task(check: str = "accept", **changes: object) -> Task:
    fields = {"name": "shout", "title": "Shout", "minutes": 5, "points": 2, "hints": ("Louder.", "Call `print`.")}
    return Task(**{**fields, "check": f"labtable:{check}", **changes})  # type: ignore[arg-type]


def _blank_with_docstring(x, y=1):
    """Do it."""
    # YOUR CODE HERE
    ...


def _passes():
    pass


class _HalfBlank:
    def __init__(self) -> None:
        self.a = 1

    def forward(self): ...


@pytest.mark.parametrize("answer", [..., None, _blank_with_docstring, _passes, lambda x: ..., lambda: None, _HalfBlank])
def test_blank_answers_are_not_attempted(answer: object) -> None:
    assert judge(_task(), answer).outcome is Outcome.NOT_ATTEMPTED


def test_no_answer_at_all_is_not_attempted() -> None:
    assert judge(_task()).outcome is Outcome.NOT_ATTEMPTED


@pytest.mark.parametrize("answer", [lambda: 0, lambda x: x, print, 0, "", False, type("C", (), {})])
def test_answers_that_do_something_are_not_blank(answer: object) -> None:
    assert not is_blank(answer)


def _raises(x=0):
    colour = "red"
    raise ValueError(f"cannot be <b>{colour}</b>")


def test_an_error_names_type_message_and_the_learners_line() -> None:
    verdict = judge(_task(), _raises)
    assert verdict.outcome is Outcome.INCORRECT
    assert 'raise ValueError(f"cannot be' in verdict.message
    assert verdict.saw == "`ValueError`: cannot be <b>red</b>"
    assert "test_lab_machinery" not in verdict.message


def test_an_error_inside_a_library_names_the_learners_call() -> None:
    verdict = judge(_task(), lambda: json.loads("{"))
    assert 'json.loads("{")' in verdict.message
    assert "JSONDecodeError" in str(verdict.saw)


def test_an_answer_that_our_code_cannot_digest_is_wrong_not_a_crash() -> None:
    verdict = judge(_task("digest"), lambda: {1, 2})
    assert verdict.outcome is Outcome.INCORRECT
    assert "could not use what it gave back" in verdict.message
    assert "TypeError" in str(verdict.saw)


def test_leaving_python_is_a_wrong_answer() -> None:
    assert judge(_task(), lambda: sys.exit(3)).outcome is Outcome.INCORRECT


def test_an_interrupt_passes() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(_task(), interrupted)


def test_long_messages_are_cut() -> None:
    def verbose() -> None:
        raise RuntimeError("x" * 5000)

    assert len(str(judge(_task(), verbose).saw)) < 300


@pytest.mark.filterwarnings("ignore:beware")
def test_nothing_reaches_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    """Nbgrader takes a test that wrote to standard error for a failed one."""

    def noisy() -> None:
        warnings.warn("beware", stacklevel=1)
        print("on stderr", file=sys.stderr)
        logging.getLogger("loud").warning("logged")
        subprocess.run(["sh", "-c", "echo native >&2"], check=True)

    assert judge(_task(), noisy).outcome is Outcome.CORRECT
    out, err = capfd.readouterr()
    assert err == ""
    assert "on stderr" in out


def test_a_learners_values_are_escaped() -> None:
    evil = '<img src=x onerror="alert(1)">'
    for verdict in (incorrect(evil, saw=evil, expected=f"`{evil}`"), judge(_task(), _raises), correct(evil)):
        page = verdict_box(_task(), verdict)._repr_html_()
        assert "<img" not in page
        assert "<b>" not in page
    assert html.escape(evil) in page


_MEASURED = (
    '<span class="measured" title="measured on this machine" style="text-decoration:underline dotted">',
    "</span>",
)


@given(st.text(alphabet="⟨⟩<>&\"'`ab/\n", max_size=40))
def test_no_tag_gets_through(text: str) -> None:
    """Whatever a learner's value holds, the page has the tags of an empty box and ``<code>`` and ``<br>``."""
    page = verdict_box(_task(), incorrect(text, saw=text, expected=text))._repr_html_()
    empty = verdict_box(_task(), incorrect("", saw="x", expected="x"))._repr_html_()
    tags = set(re.findall(r"<[^>]*>", page)) - set(re.findall(r"<[^>]*>", empty))
    assert tags <= {"<code>", "</code>", "<br>", *_MEASURED}


def test_verdicts_differ_in_more_than_colour() -> None:
    pages = {
        outcome: repr(verdict_box(_task(), Verdict(outcome=outcome, message="Same."))).splitlines()[0]
        for outcome in Outcome
    }
    assert pages == {
        Outcome.CORRECT: "✓ Correct: Shout",
        Outcome.INCORRECT: "✗ Not right yet: Shout",
        Outcome.NOT_ATTEMPTED: "○ Not attempted yet: Shout",
    }


def test_values_are_shown_short() -> None:
    import numpy as np
    import torch

    assert shown(torch.zeros(2, 3)) == "a torch tensor of shape 2×3, torch.float32"
    assert shown(np.float32(1)).startswith("a numpy tensor of shape one number")
    assert shown(None) == "nothing (`None`)"
    assert len(shown("x" * 1000)) < 100
    assert shown("a`b") == '`"a\'b"`' or "`" not in shown("a`b")[1:-1]


def test_the_last_hint_points_to_the_solution() -> None:
    assert "lab.solution" not in repr(hint_box(_task(), 1))
    assert 'lab.solution("shout")' in repr(hint_box(_task(), 2))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"name": "Bad Name"}, "named after the function or class"),
        ({"minutes": 40}, "40 minutes"),
        ({"points": 0}, "0 points"),
        ({"hints": ()}, "0 hints"),
    ],
)
def test_a_task_says_what_is_wrong_with_it(change: dict[str, object], part: str) -> None:
    with pytest.raises(CourseError, match=part):
        _task(**change)


def test_unknown_labs_and_tasks_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CourseError, match="there is no lab '77'; the labs are '01'"):
        Lab("77")
    with pytest.raises(CourseError, match="no task 'nope'; its tasks are 'train_step'"):
        Lab("01").check("nope", ...)


def test_hints_climb_one_rung_a_call_and_remember(capsys: pytest.CaptureFixture[str]) -> None:
    Lab("01").hint("train_step")
    Lab("01").hint("train_step")
    assert stored("01").of("train_step").hints == 2
    for _ in range(3):
        Lab("01").hint("train_step")
    shown_heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Hint")]
    assert [head.split(":")[0] for head in shown_heads] == [f"Hint {n} of 3" for n in (1, 2, 3, 3, 3)]


def test_solved_stays_solved_and_blank_runs_change_nothing() -> None:
    record = stored("01")
    record.note("fit", Outcome.INCORRECT)
    record.note("fit", Outcome.CORRECT)
    record.note("fit", Outcome.NOT_ATTEMPTED)
    record.note("fit", Outcome.INCORRECT)
    assert stored("01").of("fit") == TaskProgress(solved=True, tries=3)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fit": 3}', '{"fit": {"solved": true}}'])
def test_a_damaged_record_counts_as_empty(text: str) -> None:
    record = stored("01")
    assert record.path is not None
    record.path.write_text(text)
    assert stored("01").tasks == {}


def test_solutions_are_nobodys_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "solutions"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Lab("01").hint("fit")
    assert stored("01").tasks == {}


def test_progress_counts_what_this_kernel_checked() -> None:
    lab = Plan(number="09", title="shouting", tasks=(_task(), _task(name="whisper", title="Whisper")))
    text = repr(progress_box(lab, {"shout": Outcome.CORRECT}))
    assert "1 of 2 tasks solved" in text
    assert "About 5 minutes" in text
    assert "All done" in repr(progress_box(lab, dict.fromkeys(("shout", "whisper"), Outcome.CORRECT)))


def test_status_lists_every_lab(capsys: pytest.CaptureFixture[str]) -> None:
    stored("01").note("fit", Outcome.CORRECT)
    assert _labs("status") == 0
    out = capsys.readouterr().out
    assert "Lab 01, write the loop: 1 of 6 tasks solved" in out
    assert "✓ solved         The loop, put together (6 min)  1 tries, 0 of 3 hints" in out


def test_a_copy_without_solutions_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(lab_module, "checkout", lambda: tmp_path)
    Lab("01").solution("fit")
    assert "comes without `labs/solutions`" in capsys.readouterr().out
    with pytest.raises(CourseError, match="no lab sources"):
        pairs(tmp_path / "labs")


def test_the_solution_comes_without_markers(capsys: pytest.CaptureFixture[str]) -> None:
    Lab("01").solution("train_step")
    out = capsys.readouterr().out
    assert "optimizer.zero_grad()\n" in out
    assert "SOLUTION" not in out


def test_nbgrader_fails_a_check_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_module, "_GRADING", True)
    with pytest.raises(lab_module.CheckFailedError, match="One training step in PyTorch: not attempted") as raised:
        Lab("01").check("train_step", ...)
    assert len(raised.value._render_traceback_()) == 1


def _source(tmp_path: Path, text: str, metadata: dict[str, object]) -> Path:
    cell = nbformat.v4.new_code_cell(text, metadata=metadata)
    notebook = nbformat.v4.new_notebook(
        cells=[cell], metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    )
    path = tmp_path / "01_x.ipynb"
    nbformat.write(notebook, path)
    return path


_SOLUTION = {"grade": False, "grade_id": "f", "locked": False, "schema_version": 3, "solution": True, "task": False}


def test_the_stub_takes_the_solutions_place(tmp_path: Path) -> None:
    path = _source(
        tmp_path, "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION", {"nbgrader": _SOLUTION}
    )
    made = learner_notebook(path).cells[0]
    assert made.source.splitlines()[1:] == [f"    {line}" for line in CODE_STUB.splitlines()]
    space: dict[str, object] = {}
    exec(made.source, space)
    assert is_blank(space["f"])


@pytest.fixture
def small_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one small lab in it; returns its folder ``labs``."""
    solutions = tmp_path / "labs" / "solutions"
    solutions.mkdir(parents=True)
    text = "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n\nf()"
    _source(solutions, text, {"nbgrader": _SOLUTION})
    monkeypatch.setattr(build_module, "checkout", lambda: tmp_path)
    return tmp_path / "labs"


def _labs(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    commands.add_arguments(parser)
    return commands.run(parser.parse_args(arguments))


def test_build_writes_runs_and_notices_drift(small_lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _labs("build", "--check") == 1
    assert _labs("build") == 0
    assert _labs("build", "--check") == 0
    made = nbformat.read(small_lab / "01_x.ipynb", as_version=4)
    assert made.cells[0].execution_count == 1
    assert made.cells[0].outputs == []

    _source(small_lab / "solutions", "def g():\n    return 1", {"nbgrader": _SOLUTION})
    (small_lab / "02_stray.ipynb").write_text("{}")
    capsys.readouterr()
    assert _labs("build", "--check") == 1
    out = capsys.readouterr().out
    assert "labs/01_x.ipynb is not what labs/solutions/01_x.ipynb makes" in out
    assert "labs/02_stray.ipynb has no source" in out


def test_build_keeps_a_learners_answers(small_lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _labs("build") == 0
    path = small_lab / "01_x.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source = "def f():\n    return 7"
    nbformat.write(notebook, path)
    assert _labs("build") == 1
    assert "it has answers in f" in capsys.readouterr().out
    assert "return 7" in path.read_text()
    assert _labs("build", "--discard-answers") == 0
    assert "return 7" not in path.read_text()


@pytest.mark.parametrize(
    ("text", "metadata", "part"),
    [
        ("### BEGIN SOLUTION\n1", {"nbgrader": _SOLUTION}, "no end solution"),
        ("### BEGIN SOLUTION\n1\n### END SOLUTION", {}, "not marked|non-solution cell"),
    ],
)
def test_a_broken_source_is_named(tmp_path: Path, text: str, metadata: dict[str, object], part: str) -> None:
    with pytest.raises(CourseError, match=part):
        learner_notebook(_source(tmp_path, text, metadata))


def test_the_command_needs_no_framework() -> None:
    code = "import sys, helpers.labs.commands, helpers.labs.tasks as t; [t.plan(n) for n in t.numbers()]; "
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'tensorflow', 'nbformat', 'IPython')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("number", ["true", '"no"', "-1", "1.5", "1e400", '"7"', "null", "[[" * 5000 + "]]" * 5000])
@pytest.mark.parametrize("field", ["solved", "tries", "hints"])
def test_a_record_with_impossible_values_counts_as_empty(field: str, number: str) -> None:
    fields = {"solved": "false", "tries": "1", "hints": "1", field: number}
    if (field, number) == ("solved", "true"):
        fields["tries"] = "true"
    record = stored("01")
    assert record.path is not None
    task = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    record.path.write_text(f'{{"fit": {{{task}}}}}')
    assert stored("01").tasks == {}
    Lab("01").hint("fit")
    assert stored("01").of("fit").hints == 1


def _no_folder(scratch: Path) -> None:
    scratch.write_text("a file")


def _a_folder_in_the_records_place(scratch: Path) -> None:
    (scratch / "labs" / "01.json" / "full").mkdir(parents=True)


@pytest.mark.parametrize("spoil", [_no_folder, _a_folder_in_the_records_place])
def test_a_lab_works_where_progress_cannot_be_kept(spoil, own_progress: Path, capsys) -> None:
    spoil(own_progress)
    lab = Lab("01")
    for _ in range(2):
        lab.hint("fit")
    out = capsys.readouterr().out
    assert [f"Hint {n} of 3" in out for n in (1, 2)] == [True, True], "the ladder is climbed in memory"
    assert out.count("Your progress is not kept beyond this kernel") == 1
    assert "Set LOOP_SCRATCH to a folder that you can write to" in out
    assert not list(own_progress.rglob("*.tmp"))


def test_status_names_a_scratch_folder_that_cannot_be_made(own_progress: Path, capsys) -> None:
    own_progress.write_text("a file")
    assert _labs("status") == 1
    assert "Set LOOP_SCRATCH" in capsys.readouterr().err
