"""How a lab talks: boxes for verdicts, hints, solutions and progress, as text and as HTML.

Everything a learner can put into a box (values, error messages, lines of code) is escaped first.
Colour is never the only sign: each state has its own mark and its own words. Text takes the
notebook's own ink, so the boxes read well on light and dark themes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

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
    rows = [("saw", verdict.saw), ("expected", verdict.expected)]
    lines = [head, f"  {verdict.message}", *(f"  {name + ':':<9} {value}" for name, value in rows if value)]
    body = f"<div>{_prose(verdict.message)}</div>" + _table(rows)
    if verdict.outcome is Outcome.INCORRECT:
        body += f'<div style="opacity:0.75">Stuck? {_prose(f"`lab.hint({_quoted(task.name)})`")}</div>'
    return Box(text="\n".join(lines), page=_frame(_COLOURS[verdict.outcome], head, body))


def hint_box(task: Task, rung: int) -> Box:
    """Return the box of one rung of the hint ladder, counted from 1."""
    last = rung == len(task.hints)
    head = f"Hint {rung} of {len(task.hints)}: {task.title}"
    after = f"That was the last hint. `lab.solution({_quoted(task.name)})` shows one way to do it." if last else ""
    text = "\n".join(filter(None, [head, f"  {task.hints[rung - 1]}", after and f"  {after}"]))
    page = f"<div>{_prose(task.hints[rung - 1])}</div>"
    page += f'<div style="opacity:0.75">{_prose(after)}</div>' if after else ""
    return Box(text=text, page=_frame(PALETTE["blue"], head, page))


def notice_box(head: str, message: str) -> Box:
    """Return a box that says something about the lab itself."""
    return Box(text=f"{head}\n  {message}", page=_frame(PALETTE["blue"], head, f"<div>{_prose(message)}</div>"))


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
    lines = [f"  {_MARKS[o]} {task.title} ({task.minutes} min): {o}" for task, o in rows]
    page = "".join(
        f'<tr><td style="color:{_COLOURS[o]};font-weight:bold">{_MARKS[o]}</td>'
        f'<td style="text-align:left">{_prose(task.title)}</td>'
        f'<td style="text-align:right">{task.minutes} min</td><td style="text-align:left">{o}</td></tr>'
        for task, o in rows
    )
    colour = _COLOURS[Outcome.CORRECT if solved == len(rows) else Outcome.NOT_ATTEMPTED]
    table = f'<table style="margin:0.4em 0"><tbody>{page}</tbody></table><div>{foot}</div>'
    return Box(text="\n".join([head, *lines, f"  {foot}"]), page=_frame(colour, head, table))


def _frame(colour: str, head: str, body: str) -> str:
    """Return a box with a coloured edge, a heading and a body of finished HTML."""
    return (
        f'<div class="loop-lab" style="border-left:0.4em solid {colour};padding:0.5em 1em;margin:0.5em 0">'
        f'<div style="font-weight:bold;margin-bottom:0.3em">{_prose(head)}</div>{body}</div>'
    )


def _table(rows: list[tuple[str, str | None]]) -> str:
    """Return what was seen and what was expected, one under the other."""
    cells = "".join(
        f'<tr><td style="text-align:left;vertical-align:top;opacity:0.75">{name}</td>'
        f'<td style="text-align:left;white-space:normal">{_prose(value)}</td></tr>'
        for name, value in rows
        if value
    )
    return f'<table style="margin:0.4em 0"><tbody>{cells}</tbody></table>' if cells else ""


def _prose(text: str) -> str:
    """Escape a text for HTML, then set what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text)).replace("\n", "<br>")


def _quoted(name: str) -> str:
    return f'"{name}"'
