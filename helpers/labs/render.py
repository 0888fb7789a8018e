"""How a lab talks: boxes for verdicts, hints, solutions and progress, as text and as HTML.

Everything a learner can put into a box (values, error messages, lines of code) is escaped first.
Colour is never the only sign: each state has its own mark and its own words. Text takes the
notebook's own ink, so the boxes read well on light and dark themes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from helpers.claims import to_html
from helpers.labs.tasks import Outcome, Plan, Task, Verdict
from helpers.plotting import PALETTE

_COLOURS = {
    Outcome.CORRECT: PALETTE["green"],
    Outcome.INCORRECT: PALETTE["vermillion"],
    Outcome.NOT_ATTEMPTED: PALETTE["grey"],
}
_MARKS = {Outcome.CORRECT: "✓", Outcome.INCORRECT: "✗", Outcome.NOT_ATTEMPTED: "○"}
_WORDS = {
    Outcome.CORRECT: "Correct",
    Outcome.INCORRECT: "Not right yet",
    Outcome.NOT_ATTEMPTED: "Not attempted yet",
}


@dataclass(frozen=True, kw_only=True)
class Box:
    """Something to display, as plain text and as HTML."""

    text: str
    page: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.page


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A heading and Python code."""

    head: str
    code: str

    def __repr__(self) -> str:
        return f"{self.head}\n\n{self.code}"

    def _repr_markdown_(self) -> str:
        return f"**{self.head}**\n\n```python\n{self.code}\n```"


def verdict_box(task: Task, verdict: Verdict) -> Box:
    """Return the box of a check's verdict."""
    head = f"{_MARKS[verdict.outcome]} {_WORDS[verdict.outcome]}: {task.title}"
    message = _visible(verdict.message)
    rows = [(name, _visible(text)) for name, text in (("saw", verdict.saw), ("expected", verdict.expected)) if text]
    lines = [head, f"  {message}", *(f"  {name + ':':<9} {text}" for name, text in rows)]
    body = f"<div>{_prose(message)}</div>"
    if rows:
        body += _grid("max-content 1fr", [cell for name, text in rows for cell in (_faint(name), _prose(text))])
    if verdict.outcome is Outcome.INCORRECT:
        body += f"<div>{_faint('Stuck? ' + _prose(f'`lab.hint({_quoted(task.name)})`'))}</div>"
    coloured = f"{_mark(verdict.outcome)} {_prose(f'{_WORDS[verdict.outcome]}: {task.title}')}"
    return Box(text="\n".join(lines), page=_frame(_COLOURS[verdict.outcome], coloured, body))


def hint_box(task: Task, rung: int) -> Box:
    """Return the box of one rung of the hint ladder, counted from 1."""
    last = rung == len(task.hints)
    head = f"Hint {rung} of {len(task.hints)}: {task.title}"
    after = f"That was the last hint. `lab.solution({_quoted(task.name)})` shows one way to do it." if last else ""
    text = "\n".join(filter(None, [head, f"  {task.hints[rung - 1]}", after and f"  {after}"]))
    page = f"<div>{_prose(task.hints[rung - 1])}</div>"
    page += f"<div>{_faint(_prose(after))}</div>" if after else ""
    return Box(text=text, page=_frame(PALETTE["blue"], _prose(head), page))


def notice_box(head: str, message: str) -> Box:
    """Return a box that says something about the lab itself."""
    return Box(text=f"{head}\n  {message}", page=_frame(PALETTE["blue"], _prose(head), f"<div>{_prose(message)}</div>"))


def solution_text(task: Task, code: str) -> Listing:
    """Return a task's solution, as Markdown that the notebook highlights in its own theme."""
    return Listing(head=f"One way to do it: {task.title}", code=code.strip())


def progress_box(lab: Plan, outcomes: Mapping[str, Outcome]) -> Box:
    """Return the table of a lab's tasks and how each stands.

    Args:
        lab: The lab.
        outcomes: The last verdict of each task that was checked.
    """
    rows = [(task, outcomes.get(task.name, Outcome.NOT_ATTEMPTED)) for task in lab.tasks]
    solved = sum(outcome is Outcome.CORRECT for _, outcome in rows)
    left = sum(task.minutes for task, outcome in rows if outcome is not Outcome.CORRECT)
    head = f"Lab {lab.number}, {lab.title}: {solved} of {len(rows)} tasks solved"
    foot = f"About {left} minutes of work are left." if left else "All done."
    lines = [f"  {_MARKS[o]} {task.title} ({task.minutes} min): {_WORDS[o].lower()}" for task, o in rows]
    page = _grid(
        "1.2em max-content max-content 1fr",
        [
            cell
            for task, o in rows
            for cell in (_mark(o), _prose(task.title), f"{task.minutes} min", _faint(_WORDS[o].lower()))
        ],
    )
    colour = _COLOURS[Outcome.CORRECT if solved == len(rows) else Outcome.NOT_ATTEMPTED]
    return Box(
        text="\n".join([head, *lines, f"  {foot}"]), page=_frame(colour, _prose(head), f"{page}<div>{foot}</div>")
    )


def _frame(colour: str, head: str, body: str) -> str:
    """Return a box with a coloured edge; heading and body are finished HTML."""
    return (
        f'<div class="loop-lab" style="border-left:0.4em solid {colour};padding:0.5em 1em;margin:0.5em 0">'
        f'<div style="font-weight:bold;margin-bottom:0.3em">{head}</div>{body}</div>'
    )


def _grid(columns: str, cells: list[str]) -> str:
    """Lay finished HTML out in columns. Themes put stripes and their own alignment on a table, so it is none."""
    style = f"display:grid;grid-template-columns:{columns};gap:0.15em 1em;margin:0.4em 0"
    return f'<div style="{style}">' + "".join(f"<div>{cell}</div>" for cell in cells) + "</div>"


def _mark(outcome: Outcome) -> str:
    return f'<span style="color:{_COLOURS[outcome]};font-weight:bold">{_MARKS[outcome]}</span>'


def _faint(page: str) -> str:
    return f'<span style="opacity:0.75">{page}</span>'


def _prose(text: str) -> str:
    return to_html(text).replace("\n", "<br>")


_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control codes and lone surrogates: a terminal would obey the first, and a page cannot hold the second."""


def _visible(text: str) -> str:
    return _UNSEEN.sub("�", text)


def _quoted(name: str) -> str:
    return f'"{name}"'
