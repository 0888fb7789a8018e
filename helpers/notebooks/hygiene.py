"""What a stored notebook must keep to, so that readers, tests and the book can rely on it.

Each rule is a generator of findings over one notebook. A finding says what was seen, what is
expected, and what to do about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.notebooks.execute import read
from helpers.notebooks.normalise import IMAGE_TYPES, KERNELSPEC, STABLE_WIDGET_ID, WIDGET_STATE, WIDGET_VIEW
from helpers.notebooks.places import Kind, kind_of, shown_path
from helpers.notebooks.private import private_text

if TYPE_CHECKING:
    from nbformat import NotebookNode


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The bounds of the rules, each with its reason."""

    code_cells: tuple[int, int] = (15, 30)
    """Of a chapter: fewer is a lecture, more does not fit into 45 minutes."""
    cell_lines: int = 15
    """Of a code cell: what is longer belongs into ``helpers``, with a test."""
    ignored_share: float = 0.5
    """Of code cells that nbval does not compare: above it, the test of the notebook says too little."""
    output_bytes: int = 400_000
    """Of one cell's outputs: a figure in the house style has 20 to 80 kB."""
    notebook_bytes: int = 3_000_000
    """Of the file: git keeps every version of it, and JupyterLab and review tools get slow."""


LIMITS = Limits()
IGNORE_TAGS = {"nbval-ignore-output", "nbval-skip"}
RUN_AGAIN = "run `course notebooks run` on it"

_SECTIONS = {
    "what you will be able to do": r"what you will be able to do",
    "prerequisites": r"prerequisites?\b",
    "the time it takes": r"\b\d+ minutes",
    "a quiz": r"(?m)^#+ .*(quiz|check yourself)",
    "on your cluster": r"on your cluster",
    "take-away": r"(?m)^#+ .*take-?aways?",
    "to go further": r"to go further",
}
_MARKDOWN_IMAGE = re.compile(r"!\[\s*\]\(")
_HTML_PICTURE = re.compile(r"<(?:img|svg)\b[^>]*>", re.IGNORECASE)
_HTML_ALT = re.compile(r"""(?:alt|aria-label|aria-labelledby)\s*=\s*["'][^"']""", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing to mend in a notebook."""

    path: str
    cell: int | None
    """Number of the cell, counted from one; None where the whole notebook is meant."""
    seen: str
    expected: str
    action: str

    def __str__(self) -> str:
        where = self.path if self.cell is None else f"{self.path}, cell {self.cell}"
        return f"{where}: {self.seen}; expected {self.expected}. To mend it, {self.action}."


@dataclass(frozen=True, kw_only=True)
class _Notebook:
    """A notebook with what the rules need to know about it."""

    path: Path
    kind: Kind
    content: NotebookNode

    def cells(self, cell_type: str = "code") -> Iterator[tuple[int, Any]]:
        """Yield the number and content of each cell of a type that is not empty."""
        for number, cell in enumerate(self.content.cells, start=1):
            if cell.cell_type == cell_type and cell.source.strip():
                yield number, cell

    def finding(self, cell: int | None, seen: str, expected: str, action: str) -> Finding:
        return Finding(path=shown_path(self.path), cell=cell, seen=seen, expected=expected, action=action)


def _tags(cell: Any) -> set[str]:
    return set(cell.metadata.get("tags", []))


def check(path: Path) -> list[Finding]:
    """Return what is to be mended in a notebook; empty when nothing is.

    Args:
        path: The notebook. What is expected of it depends on its folder, see :class:`~helpers.notebooks.places.Kind`.

    Raises:
        CourseError: If the file is not a notebook.
    """
    notebook = _Notebook(path=path, kind=kind_of(path), content=read(path))
    found = list(_invalid(notebook))
    try:
        found += [finding for rule in _RULES for finding in rule(notebook)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # of a wrong format, or open metadata
        seen = f"metadata of another type than Jupyter writes ({type(error).__name__}: {error})"
        expected = "tags, alt texts and widget states as Jupyter writes them"
        found = found or [notebook.finding(None, seen, expected, RUN_AGAIN)]
    return found


def _invalid(notebook: _Notebook) -> Iterator[Finding]:
    import nbformat

    for problem in nbformat.validator.iter_validate(_raw(notebook)):
        seen = f"invalid format: {str(problem).splitlines()[0][:200]}"
        yield notebook.finding(None, seen, "nbformat 4.5", RUN_AGAIN)


def _raw(notebook: _Notebook) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(notebook.path.read_text(encoding="utf-8"))
    return raw


def _format(notebook: _Notebook) -> Iterator[Finding]:
    raw = _raw(notebook)
    ids = [cell.get("id") for cell in raw["cells"]]
    if None in ids or len(set(ids)) < len(ids):
        yield notebook.finding(None, "cells without an id or with the same one", "a unique id each", "give them ids")
    if raw["metadata"].get("kernelspec") != KERNELSPEC:
        seen = f"kernelspec {raw['metadata'].get('kernelspec')}"
        yield notebook.finding(None, seen, f"{KERNELSPEC}", RUN_AGAIN)


def _executed(notebook: _Notebook) -> Iterator[Finding]:
    cells = [(number, cell) for number, cell in notebook.cells() if "skip-execution" not in _tags(cell)]
    untouched = all(cell.execution_count is None and not cell.outputs for _, cell in cells)
    if notebook.kind is Kind.LAB and untouched:
        return  # nbval runs such a notebook and has nothing to compare, which is what an untouched lab is for
    for expected, (number, cell) in enumerate(cells, start=1):
        if cell.execution_count != expected:
            seen = f"execution count {cell.execution_count}"
            yield notebook.finding(number, seen, f"{expected}: every cell run once, in order", RUN_AGAIN)
            return


def _errors(notebook: _Notebook) -> Iterator[Finding]:
    for number, cell in notebook.cells():
        allowed = "raises-exception" in _tags(cell)
        for output in cell.outputs:
            if output.output_type == "error" and not allowed:
                seen = f"a stored {output.ename}"
                yield notebook.finding(number, seen, "no error", "mend the cell, or tag it raises-exception if meant")


def _alt_texts(notebook: _Notebook) -> Iterator[Finding]:
    action = "show it with helpers.plotting.show(figure, alt=…)"
    for number, cell in notebook.cells():
        alts = set()
        for output in cell.outputs:
            for mime in IMAGE_TYPES:
                if mime in output.get("data", {}):
                    alts.add(output.metadata.get(mime, {}).get("alt", "").strip())
            for picture in _HTML_PICTURE.findall("".join(output.get("data", {}).get("text/html", ""))):
                if not _HTML_ALT.search(picture) and 'aria-hidden="true"' not in picture:
                    seen = f"{picture[:60]} without alternative text"
                    yield notebook.finding(number, seen, "alt or aria-label", action)
        if "" in alts:
            yield notebook.finding(number, "a figure without alternative text", "one sentence on what it shows", action)
        if len(alts) > 1:
            yield notebook.finding(number, "figures with different texts", "one figure a cell", "split the cell")
    for number, cell in notebook.cells("markdown"):
        if _MARKDOWN_IMAGE.search(cell.source):
            yield notebook.finding(number, "an image without alternative text", "![text](file)", "write the text")


def _ignored(notebook: _Notebook) -> Iterator[Finding]:
    cells = list(notebook.cells())
    ignored = [number for number, cell in cells if IGNORE_TAGS & _tags(cell)]
    if notebook.kind is not Kind.LAB and len(ignored) > LIMITS.ignored_share * len(cells):
        seen = f"{len(ignored)} of {len(cells)} code cells are not compared by nbval"
        action = "print verdicts that do not depend on the machine, and remove the tag there"
        yield notebook.finding(None, seen, f"at most {LIMITS.ignored_share:.0%}", action)


def _lengths(notebook: _Notebook) -> Iterator[Finding]:
    if notebook.kind is Kind.SOLUTION:
        return
    for number, cell in notebook.cells():
        lines = len(cell.source.strip().splitlines())
        if lines > LIMITS.cell_lines:
            action = "split it, or move code into helpers"
            yield notebook.finding(number, f"{lines} lines of code", f"at most {LIMITS.cell_lines}", action)


def _shape(notebook: _Notebook) -> Iterator[Finding]:
    if notebook.kind is not Kind.CHAPTER:
        return
    text = "\n\n".join(cell.source for _, cell in notebook.cells("markdown"))
    if not re.match(r"# \S", text):
        yield notebook.finding(1, "no title", "a first cell that begins with '# '", "write it")
    for name, pattern in _SECTIONS.items():
        if not re.search(pattern, text, re.IGNORECASE):
            yield notebook.finding(None, f"nothing on “{name}”", "the shape every chapter has", "add the section")
    fewest, most = LIMITS.code_cells
    count = len(list(notebook.cells()))
    if not fewest <= count <= most:
        yield notebook.finding(None, f"{count} code cells", f"{fewest} to {most}", "split or join cells")


def _private(notebook: _Notebook) -> Iterator[Finding]:
    for number, cell in notebook.cells():
        for output in cell.outputs:
            for what, found in private_text(output):
                seen = f"{what} in the output: {found!r}"
                yield notebook.finding(number, seen, "nothing of the machine", "print less, or a relative path")


def _widgets(notebook: _Notebook) -> Iterator[Finding]:
    state = notebook.content.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    for number, cell in notebook.cells():
        for output in cell.outputs:
            model = output.get("data", {}).get(WIDGET_VIEW, {}).get("model_id")
            if model is not None and (model not in state or not STABLE_WIDGET_ID.fullmatch(model)):
                seen = f"widget {model} without a stored state"
                yield notebook.finding(number, seen, "a stable id and its state", RUN_AGAIN)


def _sizes(notebook: _Notebook) -> Iterator[Finding]:
    for number, cell in notebook.cells():
        size = len(json.dumps(cell.outputs))
        if size > LIMITS.output_bytes:
            action = "show fewer rows or a smaller figure"
            yield notebook.finding(number, f"{size:,} bytes of output", f"at most {LIMITS.output_bytes:,}", action)
    size = notebook.path.stat().st_size
    if size > LIMITS.notebook_bytes:
        yield notebook.finding(None, f"{size:,} bytes", f"at most {LIMITS.notebook_bytes:,}", "store less output")


_RULES: tuple[Callable[[_Notebook], Iterator[Finding]], ...] = (
    _format,
    _executed,
    _errors,
    _alt_texts,
    _ignored,
    _lengths,
    _shape,
    _private,
    _widgets,
    _sizes,
)
