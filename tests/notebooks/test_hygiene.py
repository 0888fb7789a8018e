"""Each rule of the hygiene check: silent on a good chapter, and speaking on one planted fault."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from helpers.errors import CourseError
from helpers.notebooks.execute import execute
from helpers.notebooks.hygiene import LIMITS, check
from helpers.notebooks.normalise import KERNELSPEC, WIDGET_VIEW

TEXT = """\
# A chapter

What you will be able to do: **read** this. Prerequisites: none. 45 minutes.

## On your cluster
## Quiz
## Take-away
## To go further
"""
PNG = {"image/png": "iVBORw0KGgo="}


def chapter(cells: int = 16) -> nbformat.NotebookNode:
    """A chapter without a fault."""
    made = nbformat.v4.new_notebook(metadata={"kernelspec": dict(KERNELSPEC), "language_info": {"name": "python"}})
    made.cells = [nbformat.v4.new_markdown_cell(TEXT, id="c00")]
    for number in range(1, cells + 1):
        outputs = [nbformat.v4.new_output("stream", text="2\n")]
        cell = nbformat.v4.new_code_cell("print(2)", id=f"c{number:02d}", execution_count=number, outputs=outputs)
        made.cells.append(cell)
    return made


def findings(folder: Path, content: nbformat.NotebookNode, place: str = "chapters") -> list[str]:
    path = folder / place / "01_a.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(content, path)
    return [str(finding) for finding in check(path)]


def show(cell: nbformat.NotebookNode, data: dict[str, object], **metadata: object) -> None:
    cell.outputs = [nbformat.v4.new_output("display_data", data=data, metadata=metadata)]


def test_a_good_chapter_has_no_findings(tmp_path):
    assert findings(tmp_path, chapter()) == []


def error(content):
    content.cells[3].outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="x", traceback=[])]


def two_figures(content):
    content.cells[3].outputs = [
        nbformat.v4.new_output("display_data", data=PNG, metadata={"image/png": {"alt": alt}}) for alt in ("one", "two")
    ]


def printed(text: str) -> Callable[[nbformat.NotebookNode], None]:
    def plant(content):
        content.cells[3].outputs = [nbformat.v4.new_output("stream", text=text)]

    return plant


FAULTS: dict[str, tuple[Callable[[nbformat.NotebookNode], object], str]] = {
    "not run": (lambda c: c.cells[2].update(execution_count=None), "execution count None; expected 2"),
    "out of order": (lambda c: c.cells[2].update(execution_count=9), "execution count 9; expected 2"),
    "error": (error, "a stored ValueError"),
    "figure": (lambda c: show(c.cells[3], PNG), "a figure without alternative text"),
    "two figures": (two_figures, "one figure a cell"),
    "svg in html": (lambda c: show(c.cells[3], {"text/html": "<svg width='1'></svg>"}), "without alternative text"),
    "markdown image": (lambda c: c.cells[0].update(source=TEXT + "![](x.png)"), "an image without alternative text"),
    "ignored": (lambda c: [x.metadata.update(tags=["nbval-skip"]) for x in c.cells[1:11]], "10 of 16 code cells"),
    "long": (lambda c: c.cells[3].update(source="1\n" * 16), "16 lines of code"),
    "no title": (lambda c: c.cells[0].update(source=TEXT[2:]), "no title"),
    "no quiz": (lambda c: c.cells[0].update(source=TEXT.replace("## Quiz", "")), "nothing on “a quiz”"),
    "few cells": (lambda c: c.update(cells=c.cells[:15]), "14 code cells"),
    "home": (printed("/home/ada/.cache/x"), "'/home/ada/.cache/x'"),
    "kernel": (printed("ipykernel_123/4.py:1: UserWarning"), "a kernel's temporary name"),
    "address": (printed("listening on 10.1.2.3:80"), "a network address in the output: '10.1.2.3'"),
    "progress": (printed("10%\r20%\r"), "a carriage return"),
    "colour": (printed("\x1b[31mred"), "colour code"),
    "widget": (lambda c: show(c.cells[3], {WIDGET_VIEW: {"model_id": "ab12"}}), "widget ab12 without a stored state"),
    "large": (printed("x" * LIMITS.output_bytes), "bytes of output"),
    "kernelspec": (lambda c: c.metadata.update(kernelspec={"name": "my-env"}), "kernelspec {'name': 'my-env'}"),
    "same id": (lambda c: c.cells[2].update(id="c01"), "with the same one"),
    "invalid": (lambda c: c.cells[2].update(execution_count="x"), "invalid format"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found(tmp_path, name):
    plant, expected = FAULTS[name]
    content = chapter()
    plant(content)
    if name in {"same id", "invalid"}:  # nbformat would mend the one and refuse the other
        path = tmp_path / "chapters" / "01_a.ipynb"
        path.parent.mkdir()
        path.write_text(nbformat.v4.writes(content), encoding="utf-8")
        found = [str(finding) for finding in check(path)]
    else:
        found = findings(tmp_path, content)
    assert any(expected in finding for finding in found), found
    assert all("To mend it, " in finding for finding in found)


@pytest.mark.parametrize(
    "text", ["127.0.0.1:8888", "0.0.0.0", "version 2.14.1", "192.0.2.7", "a/home/b", "see /dev/shm"]
)
def test_text_that_tells_nothing_is_left_alone(tmp_path, text):
    content = chapter()
    printed(text)(content)
    assert findings(tmp_path, content) == []


def test_an_error_that_is_meant_is_allowed(tmp_path):
    content = chapter()
    error(content)
    content.cells[3].metadata["tags"] = ["raises-exception"]
    assert findings(tmp_path, content) == []


def test_a_lab_may_be_untouched_and_a_solution_may_not(tmp_path):
    content = chapter(3)
    for cell in content.cells[1:]:
        cell.update(execution_count=None, outputs=[])
    assert findings(tmp_path, content, "labs") == []
    assert "execution count None" in findings(tmp_path, content, "labs/solutions")[0]


def test_command_line(tmp_path):
    content = chapter()
    error(content)
    findings(tmp_path, content)
    command = [sys.executable, "-m", "helpers.cli", "notebooks"]
    bad = subprocess.run([*command, "check", str(tmp_path / "chapters")], capture_output=True, text=True, check=False)
    assert bad.returncode == 1
    assert "01_a.ipynb, cell 4: a stored ValueError" in bad.stdout
    missing = subprocess.run([*command, "run", "nowhere.ipynb"], capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "neither a notebook nor a folder" in missing.stderr


def figure_with_alt(alt: object) -> dict[str, object]:
    return {"output_type": "display_data", "data": PNG, "metadata": {"image/png": {"alt": alt}}}


BROKEN: dict[str, Callable[[dict], object]] = {
    "source": lambda c: c["cells"][1].update(source=3),
    "tags": lambda c: c["cells"][1]["metadata"].update(tags=3),
    "alt": lambda c: c["cells"][1].update(outputs=[figure_with_alt(3)]),
    "widgets": lambda c: c["metadata"].update(widgets=3),
    "traceback": lambda c: c["cells"][1].update(outputs=[{"output_type": "error", "traceback": 3}]),
    "cells": lambda c: c.update(cells={}),
    "old": lambda c: (c.update(nbformat=3, nbformat_minor=0, worksheets=[]), c.pop("cells")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_structure_is_a_finding_or_an_error_of_ours(tmp_path, name):
    content = json.loads(nbformat.writes(chapter()))
    BROKEN[name](content)
    path = tmp_path / "01_a.ipynb"
    path.write_text(json.dumps(content), encoding="utf-8")
    try:
        assert check(path)
    except CourseError as error:
        assert path.name in str(error)


@pytest.mark.parametrize("name", ["source", "cells"])
def test_a_broken_structure_is_not_run(tmp_path, name):
    content = json.loads(nbformat.writes(chapter()))
    BROKEN[name](content)
    path = tmp_path / "01_a.ipynb"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CourseError, match="01_a"):
        execute(path, record=False)
    assert json.loads(path.read_text(encoding="utf-8")) == content
