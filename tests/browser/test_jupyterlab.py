"""The course in JupyterLab as `make lab` starts it: the map, a chapter run to its end, and a lab solved by typing."""

from __future__ import annotations

import sys

import pytest
from course_clone import ROOT

from helpers.labs.lab import solution_code

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

CHAPTER = "chapters/01_anatomy_of_a_training_loop.ipynb"
LAB = "labs/01_write_the_loop.ipynb"
TASK = "train_step"


def index_of(notebook: dict, grade_id: str) -> int:
    """Return the number of the cell that nbgrader knows by a name."""
    names = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in notebook["cells"]]
    return names.index(grade_id)


def test_opens_at_the_map_and_a_link_opens_its_chapter(jupyter, make_lab):
    page = jupyter.page
    page.goto(make_lab.address())
    preview = page.locator(".jp-MarkdownViewer:visible")
    expect(preview.get_by_role("heading", name="Loop to Cluster")).to_be_visible()
    expect(preview.locator("table").first).to_be_visible()
    preview.get_by_role("link", name="Anatomy of a training loop").click()
    expect(jupyter.notebook.locator("h1").first).to_contain_text("Anatomy of a training loop")


def test_chapter_runs_to_its_end_and_its_widget_works(jupyter):
    jupyter.open(CHAPTER)
    jupyter.wait_for_kernel()
    jupyter.run_all()
    saved = jupyter.save(CHAPTER)
    code = [cell for cell in saved["cells"] if cell["cell_type"] == "code"]
    errors = [
        f"cell {cell['id']}: {output['ename']}: {output['evalue']}"
        for cell in code
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]
    assert errors == []
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))

    handle = jupyter.notebook.locator(".jupyter-widgets .noUi-handle").first
    handle.scroll_into_view_if_needed()
    picture = jupyter.notebook.locator(".jp-OutputArea-output .jupyter-widgets img:visible")
    expect(picture).to_have_count(1)
    before = picture.get_attribute("src")
    handle.focus()
    jupyter.page.keyboard.press("ArrowRight")
    expect(picture).not_to_have_attribute("src", before)
    expect(jupyter.notebook.locator(".jupyter-widgets .widget-readout:visible").first).to_have_text("2 activations")


def test_lab_task_is_solved_by_typing_in_this_environment(jupyter, make_lab):
    jupyter.open(LAB)
    jupyter.wait_for_kernel()
    jupyter.menu("Edit", "Clear Outputs of All Cells")  # the lab comes with what its checks say of a blank
    untouched = jupyter.save(LAB)
    jupyter.run_cell(index_of(untouched, "setup"))
    task, check = index_of(untouched, TASK), index_of(untouched, f"check_{TASK}")

    jupyter.run_cell(task)
    box = jupyter.run_cell(check).locator(".loop-lab")
    expect(box).to_contain_text("Not attempted yet")

    solution = solution_code("01", TASK, ROOT / "labs/solutions").strip()
    jupyter.type_over(task, solution)
    assert jupyter.code(task) == solution
    jupyter.run_cell(task)
    jupyter.run_cell(check)
    expect(box).to_contain_text("✓ Correct")

    jupyter.type_over(check + 1, "import helpers, sys; print(helpers.__file__, sys.prefix)")
    output = jupyter.run_cell(check + 1).locator(".jp-OutputArea-output")
    expect(output).to_have_text(f"{make_lab.clone / 'helpers/__init__.py'} {sys.prefix}")
