"""Claims: statements that people repeat, measured where the learner sits.

A claim cell ends in :func:`claim`. It shows a box with the verdict and keeps the claim in the
output's metadata, from which the book's page of claims is made (:func:`collect`).

Measured numbers differ from machine to machine, verdicts must not. :func:`measured` marks a number
so that the test of the notebooks leaves it out of the comparison and compares the rest.
"""

from __future__ import annotations

import dataclasses
import html
import json
import numbers
import re
import reprlib
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from helpers.errors import CourseError

METADATA_KEY = "loop_claim"
"""Where a claim lies in its output's metadata."""

_OPEN, _CLOSE = "⟨", "⟩"
"""Brackets around measured numbers; ``tests/nbval_sanitize.cfg`` looks for them."""

_MARK = '<span class="measured" title="measured on this machine" style="text-decoration:underline dotted">'
_MEASURED = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_CODE = re.compile("`([^`<]+)`")
"""Looked for in escaped text, where ``<`` begins an element: code never reaches across one."""


class Verdict(StrEnum):
    """What the measurement says of the statement."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    DEPENDS = "depends"


_COLOURS = {Verdict.HOLDS: "#009E73", Verdict.DOES_NOT_HOLD: "#D55E00", Verdict.DEPENDS: "#0072B2"}
_MARKS = {Verdict.HOLDS: "✓", Verdict.DOES_NOT_HOLD: "✗", Verdict.DEPENDS: "≈"}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement, the verdict on it, and the measurement behind the verdict."""

    statement: str
    verdict: Verdict
    because: str
    depends_on: str | None = None

    def __repr__(self) -> str:
        tail = f", on {self.depends_on}" if self.depends_on else ""
        return f"“{self.statement}” {self.verdict}{tail}: {self.because}"

    def _repr_html_(self) -> str:
        colour, mark = _COLOURS[self.verdict], _MARKS[self.verdict]
        verdict = to_html(self.verdict + (f" on {self.depends_on}" if self.depends_on else ""))
        return (
            f'<div class="loop-claim" style="border-left:0.4em solid {colour};padding:0.5em 1em;margin:0.5em 0">'
            f"<div>“{to_html(self.statement)}”</div>"
            f'<div style="color:{colour};font-weight:bold">{mark} {verdict}</div>'
            f"<div>{to_html(sentence(self.because))}</div></div>"
        )

    def _ipython_display_(self) -> None:
        """Show the box, unless :func:`claim` has just shown it in the cell whose value this is."""
        if _shown_in_cell.get(self) != _cell_number():
            _display(self)


_shown_in_cell: weakref.WeakKeyDictionary[Claim, int | None] = weakref.WeakKeyDictionary()
"""The number of the execution in which a claim was shown last."""


def claim(statement: str, *, holds: bool, because: str, depends_on: str | None = None) -> Claim:
    """Show a measured verdict on a statement and keep it with the notebook.

    Args:
        statement: What people say, in their words, without a full stop.
        holds: What the measurement says. With ``depends_on`` it says whether the dependence was seen.
        because: The evidence in a sentence. Wrap numbers that differ between machines in :func:`measured`.
        depends_on: What decides, where the statement is true in some cases only.

    Returns:
        The claim, already displayed where a notebook is running.

    Raises:
        CourseError: If a dependence is stated that the measurement did not show.
    """
    if depends_on is not None and not holds:
        raise CourseError(
            f"the verdict “depends on {depends_on}” was written for “{statement}”, but the measurement did not "
            f"show it: {because} Run the cell again on a quiet machine; if it stays, the text is wrong here."
        )
    verdict = Verdict.DEPENDS if depends_on else Verdict.HOLDS if holds else Verdict.DOES_NOT_HOLD
    made = Claim(statement=statement, verdict=verdict, because=because, depends_on=depends_on)
    _display(made)
    return made


def _display(made: Claim) -> None:
    """Show the box and keep the claim in the output's metadata, where a notebook is running."""
    from IPython.display import display

    number = _cell_number()
    if number is None:
        return
    _shown_in_cell[made] = number
    data = {"text/plain": repr(made), "text/html": made._repr_html_()}
    display(data, raw=True, metadata={METADATA_KEY: dataclasses.asdict(made)})


def _cell_number() -> int | None:
    """Return how many cells have run, or None where no notebook is running."""
    from IPython import get_ipython

    shell = get_ipython()
    return None if shell is None else int(shell.execution_count)


def measured(value: object, unit: str = "", *, digits: int = 3) -> str:
    """Mark a number as measured here: it is shown in brackets and not compared between machines.

    Args:
        value: A number, or ready-made text.
        unit: What it counts, for example ``"ms"`` or ``"×"``.
        digits: Significant digits shown of a fraction; a whole number is shown as it is.
    """
    fraction = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
    text = _significant(float(value), digits) if fraction else str(value)  # type: ignore[arg-type]
    return f"{_OPEN}{text}{' ' + unit if unit else ''}{_CLOSE}"


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop: in the box it stands alone."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def to_html(text: str) -> str:
    """Return text for a page: escaped, what stands in backticks as code, measured numbers of class ``measured``."""
    marked = _MEASURED.sub(rf"{_MARK}\1</span>", html.escape(text))
    return _CODE.sub(r"<code>\1</code>", marked)


def _significant(value: float, digits: int) -> str:
    """Return the value with so many significant digits, without an exponent where it stays readable."""
    shown = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in shown and abs(value) < 1e9 else shown


def collect(paths: Iterable[Path]) -> Iterator[tuple[Path, str, Claim]]:
    """Yield each claim that executed notebooks hold, in order.

    Args:
        paths: Notebook files.

    Yields:
        The file, the id of the cell, and the claim.

    Raises:
        CourseError: If a file is not a notebook, or a stored claim lacks a field or has an unknown verdict.
    """
    for path in paths:
        for cell_id, stored in _stored(path):
            yield path, cell_id, _restore(path, stored)


def _stored(path: Path) -> list[tuple[str, object]]:
    """Return the id of the cell and the stored form of each claim in a notebook."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [(str(cell.get("id", "")), output) for cell in cells for output in cell.get("outputs", [])]
        found = [(cell_id, output.get("metadata", {}).get(METADATA_KEY)) for cell_id, output in outputs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CourseError(f"{path} is not a notebook ({error!r}). Give the path of an executed .ipynb file.") from error
    return [(cell_id, stored) for cell_id, stored in found if stored is not None]


def _restore(path: Path, stored: object) -> Claim:
    try:
        fields = dict(stored)  # type: ignore[call-overload]
        made = Claim(**{**fields, "verdict": Verdict(fields["verdict"])})
        if not all(isinstance(text, str) for text in (made.statement, made.because, made.depends_on or "")):
            raise TypeError("statement, because and depends_on are texts")
    except (TypeError, ValueError, KeyError) as error:
        raise CourseError(
            f"{path} holds a claim that cannot be read: {reprlib.repr(stored)} ({error!r}). "
            "Run the notebook again to store it anew."
        ) from error
    return made
