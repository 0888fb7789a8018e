"""What a step's time went to: the names, the result and how it is shown."""

from __future__ import annotations

import html
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from helpers import plotting
from helpers.claims import measured, to_html
from helpers.profile.steps import Steps
from helpers.profile.trace import Floats
from helpers.timing import readable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN_STEPS = 12
"""Rows of the table per step; a trace may hold thousands of steps, a page does not."""
_SHOWN_SHARE = 0.04
"""From this share on a part of the bar is wide enough for its number."""


class Share(StrEnum):
    """What a microsecond of a step can go to; each goes to exactly one."""

    DATA = "data wait"
    COPY = "host-to-device copy"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    TRANSFER = "communication: transfer"
    RANK_WAIT = "communication: waiting for a slower rank"
    OVERLAPPED = "communication: overlapped"
    LOGGING = "logging and checkpointing"
    OTHER = "other host time"
    IDLE = "idle"


ORDER = tuple(Share)

_COLOURS = {
    Share.DATA: "vermillion",
    Share.COPY: "orange",
    Share.FORWARD: "blue",
    Share.BACKWARD: "sky",
    Share.OPTIMIZER: "green",
    Share.TRANSFER: "purple",
    Share.RANK_WAIT: "purple",
    Share.OVERLAPPED: "purple",
    Share.LOGGING: "yellow",
    Share.OTHER: "grey",
    Share.IDLE: "white",
}
_HATCHES = {Share.RANK_WAIT: "////", Share.OVERLAPPED: "....", Share.IDLE: "xx"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Breakdown:
    """Where the time of the steps went.

    Attributes:
        steps: The steps accounted for; with origin ``NONE`` there is one window, the whole trace.
        table_us: Float64 ``[steps, shares]``, microseconds, columns in the order of :class:`Share`.
        device_busy: Fraction of the steps' time in which a device ran anything; None where the trace shows none.
        notes: What the reader has to know about this trace, a sentence each.
    """

    steps: Steps
    table_us: Floats
    device_busy: float | None
    notes: tuple[str, ...]

    @property
    def total_us(self) -> float:
        """The steps' time together, in microseconds."""
        return float(self.table_us.sum())

    @property
    def shares(self) -> dict[Share, float]:
        """Each share as a fraction of the steps' time; together 1."""
        sums = self.table_us.sum(axis=0)
        return {share: float(part) for share, part in zip(ORDER, sums / sums.sum(), strict=True)}

    def __repr__(self) -> str:
        parts = ", ".join(f"{share} {_percent(part)}" for share, part in self._largest())
        return f"{len(self.table_us)} steps of {measured(*readable(self._step_s()))}: {parts}"

    def _repr_html_(self) -> str:
        rows = [f"<tr><td>{share}</td><td>{to_html(_percent(part))}</td></tr>" for share, part in self._largest()]
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        head = f"{len(self.table_us)} × {measured(*readable(self._step_s()))}"
        return (
            f'<div class="loop-breakdown"><table><tr><th>share of the step</th><th>{to_html(head)}</th></tr>'
            f"{''.join(rows)}</table>{self._steps_html()}<ul>{notes}</ul></div>"
        )

    def _steps_html(self) -> str:
        """Return the table per step, of the shares that occur."""
        used = [place for place, part in enumerate(self.shares.values()) if part > 0]
        head = "".join(f"<th>{ORDER[place]}</th>" for place in used)
        rows = [
            f"<tr><td>{int(number)}</td>"
            + "".join(f"<td>{to_html(measured(*readable(float(row[place]) / 1e6)))}</td>" for place in used)
            + "</tr>"
            for number, row in zip(self.steps.number[:_SHOWN_STEPS], self.table_us[:_SHOWN_STEPS], strict=True)
        ]
        more = len(self.table_us) - len(rows)
        tail = f"<p>… and {more:,} more steps</p>" if more else ""
        table = f"<table><tr><th>step</th>{head}</tr>{''.join(rows)}</table>"
        return f"<details><summary>each step</summary>{table}{tail}</details>"

    def _largest(self) -> list[tuple[Share, float]]:
        return sorted(((share, part) for share, part in self.shares.items() if part > 0), key=lambda pair: -pair[1])

    def _step_s(self) -> float:
        return float(np.median(self.table_us.sum(axis=1))) / 1e6

    def alt(self) -> str:
        """Return the bar in words."""
        return "Share of the steps' time: " + ", ".join(f"{share} {part:.0%}" for share, part in self._largest()) + "."

    def figure(self) -> Figure:
        """Draw the shares as one bar; show it with ``plotting.show(breakdown.figure(), alt=breakdown.alt())``."""
        made, axes = plotting.figure(height=2.6)
        left = 0.0
        for share, part in self.shares.items():
            if not part:
                continue
            colour = plotting.PALETTE.get(_COLOURS[share], _COLOURS[share])
            ink = plotting.PALETTE["ink"]
            axes.barh(0, 100 * part, left=left, color=colour, hatch=_HATCHES.get(share), edgecolor=ink, label=share)
            if part >= _SHOWN_SHARE:
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
                axes.text(left + 50 * part, 0, f"{part:.0%}", ha="center", va="center", fontsize=9, bbox=box)
            left += 100 * part
        axes.set(xlim=(0, 100), yticks=[], xlabel="share of the steps' time, %", title="Where a step's time goes")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, -1.35), ncols=3, fontsize=8)
        return made


def _percent(part: float) -> str:
    return measured(100 * part, "%")
