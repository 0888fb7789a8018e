"""Executing real notebooks with a real kernel: what is stored, and what happens on failure."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from helpers.errors import CourseError
from helpers.notebooks import records
from helpers.notebooks.execute import execute, read
from helpers.notebooks.normalise import KERNELSPEC, WIDGET_STATE, WIDGET_VIEW

WIDGETS = """\
import ipywidgets as w
from tqdm.auto import tqdm
for _ in tqdm(range(3)):
    pass
unseen = w.Text("never shown")
stack = w.Stack([w.HTML("one"), w.HTML("two")], selected_index=0)
slider = w.IntSlider(max=1)
w.jslink((slider, "value"), (stack, "selected_index"))
w.VBox([slider, stack])"""
FIGURE = """\
from helpers.plotting import figure, show
drawn, axes = figure(2, 1)
show(drawn, alt="An empty plot.")"""


def notebook(path: Path, *sources: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [nbformat.v4.new_code_cell(source, id=f"c{n}") for n, source in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, bytes]:
    """One notebook with everything that needs normalising, run twice: its file after each run."""
    path = notebook(
        tmp_path_factory.mktemp("n") / "all.ipynb",
        "import sys\nprint('a', flush=True)\nprint('b', flush=True)\nprint('c', file=sys.stderr)",
        "from pathlib import Path; Path('here.txt').write_text('x')",
        FIGURE,
        WIDGETS,
    )
    execute(path)
    first = path.read_bytes()
    execute(path)
    return path, first, path.read_bytes()


def test_a_second_run_changes_nothing(stored):
    assert stored[1] == stored[2]


def test_runs_in_the_notebooks_own_folder(stored):
    assert (stored[0].parent / "here.txt").exists()


def test_metadata_names_no_environment_and_no_time(stored):
    content = read(stored[0])
    assert content.metadata.kernelspec == KERNELSPEC
    assert content.metadata.language_info == {"name": "python"}
    assert all("execution" not in cell.metadata for cell in content.cells)
    assert [cell.execution_count for cell in content.cells] == [1, 2, 3, 4]


def test_neighbouring_pieces_of_a_stream_are_one_output(stored):
    outputs = read(stored[0]).cells[0].outputs
    assert [(output.name, output.text) for output in outputs] == [("stdout", "a\nb\n"), ("stderr", "c\n")]


def test_alternative_text_reaches_the_cell(stored):
    assert read(stored[0]).cells[2].metadata.mystnb == {"image": {"alt": "An empty plot."}}


def test_widgets_keep_their_state_under_stable_ids(stored):
    content = read(stored[0])
    state = content.metadata.widgets[WIDGET_STATE]["state"]
    views = [output.data[WIDGET_VIEW].model_id for output in content.cells[3].outputs if WIDGET_VIEW in output.data]
    assert views == ["widget-0001", "widget-0002"]
    names = [model["model_name"] for model in state.values()]
    assert "LinkModel" in names and "StackModel" in names
    assert "TextModel" not in names, "a widget that no output shows need not be stored"
    text = json.dumps(state)
    assert "it/s" not in text and "IPY_MODEL_widget-" in text


def test_failure_names_the_cell_and_leaves_the_file(tmp_path):
    path = notebook(tmp_path / "bad.ipynb", "x = 1", "x / 0")
    before = path.read_bytes()
    with pytest.raises(CourseError, match=r"bad.ipynb, cell 2: ZeroDivisionError: division by zero\n    x / 0"):
        execute(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["bad.ipynb"]


def test_a_kernel_that_dies_is_named(tmp_path):
    path = notebook(tmp_path / "dead.ipynb", "import os; os._exit(3)")
    with pytest.raises(CourseError, match="cell 1: ended its kernel"):
        execute(path)


def test_a_cell_that_takes_too_long_is_named(tmp_path):
    path = notebook(tmp_path / "slow.ipynb", "import time; time.sleep(60)")
    with pytest.raises(CourseError, match="took longer than 1 s"):
        execute(path, timeout_s=1)


def test_a_file_that_is_no_notebook(tmp_path):
    (tmp_path / "x.ipynb").write_text("{")
    with pytest.raises(CourseError, match="cannot be read as a notebook"):
        execute(tmp_path / "x.ipynb")


def test_runs_are_recorded_for_the_course_only(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "checkout", lambda: tmp_path)
    notebook(tmp_path / "chapters" / "01_a.ipynb", "1")
    records.record_run("chapters/01_a.ipynb", 1.25)
    records.record_run("elsewhere/02_b.ipynb", 1.25)
    runs = records.read_runs(records.records_path())
    assert list(runs) == ["chapters/01_a.ipynb"]
    assert runs["chapters/01_a.ipynb"]["run_s"] == 1.2
    assert runs["chapters/01_a.ipynb"]["machine"]["cores"] > 0
    assert "torch" in runs["chapters/01_a.ipynb"]["versions"]
    (tmp_path / "chapters" / "01_a.ipynb").rename(tmp_path / "chapters" / "02_a.ipynb")
    records.record_run("chapters/02_a.ipynb", 2)
    assert list(records.read_runs(records.records_path())) == ["chapters/02_a.ipynb"]


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "runs.json").write_text("{")
    with pytest.raises(CourseError, match="is not JSON"):
        records.read_runs(tmp_path / "runs.json")
