"""Prepare pages for the book as Sphinx reads them; the files stay as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from course_book.myst import claim_label
from helpers.claims import METADATA_KEY

_SOLUTION = "BEGIN SOLUTION"
"""nbgrader's mark of what it takes out of the learner's notebook."""

_TO_LAB = re.compile(r"(\]\((?:\.\./)+labs/)(?=\d)")
"""A link to a learner's notebook. In JupyterLab it opens that; in the book a lab's page has its solutions folded."""


def prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """Lead links to labs to their pages, fold the solutions, and set the targets that the page of claims links to."""
    path = Path(app.env.doc2path(docname))
    source[0] = _TO_LAB.sub(r"\1solutions/", source[0])
    if path.suffix != ".ipynb":
        return
    notebook = json.loads(source[0])
    cells: list[dict[str, Any]] = []
    for cell in notebook["cells"]:
        if _has_claim(cell):
            cells.append(_target(claim_label(path, str(cell["id"]))))
        if _SOLUTION in "".join(cell["source"]):
            _fold(cell)
        cells.append(cell)
    notebook["cells"] = cells
    source[0] = json.dumps(notebook)


def _has_claim(cell: dict[str, Any]) -> bool:
    return any(METADATA_KEY in output.get("metadata", {}) for output in cell.get("outputs", []))


def _target(label: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": label[-64:], "metadata": {}, "source": f"({label})="}


def _fold(cell: dict[str, Any]) -> None:
    """Hide the code behind a button; the output stays."""
    tags = cell["metadata"].setdefault("tags", [])
    if cell["cell_type"] == "code" and "hide-input" not in tags:
        tags.append("hide-input")
    settings = cell["metadata"].setdefault("mystnb", {})
    settings.setdefault("code_prompt_show", "Show the solution")
    settings.setdefault("code_prompt_hide", "Hide the solution")
