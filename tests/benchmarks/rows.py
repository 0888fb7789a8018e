"""What is measured against which bound, and how it is shown and kept."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from helpers import machine, versions

PACKAGES = (
    "accelerate",
    "keras",
    "lightning",
    "numpy",
    "pytorch-ignite",
    "tensorflow",
    "torch",
    "torchvision",
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison."""

    name: str
    ratio: float
    """In the unit of ``unit``."""
    bound: float
    relation: Literal["at most", "less than"]
    unit: Literal["×", "s"] = "×"
    stretch: bool = False
    """Whether a miss is reported and does not fail the run."""
    ratios: tuple[float, ...] = ()
    """The ratio of every round, of which ``ratio`` is the median."""
    us_per_step: float | None = None
    """Of the course's loop in this comparison, where it has steps."""
    seconds_per_epoch: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bound is kept."""
        return self.ratio <= self.bound if self.relation == "at most" else self.ratio < self.bound

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without what does not apply."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, "", ())}
        return values | {"holds": self.holds}


def table(rows: Sequence[Row]) -> str:
    """Return the rows as aligned text."""
    head = ("comparison", "measured", "lowest to highest", "bound", "")
    body = [
        (row.name, f"{row.ratio:.3g} {row.unit}", _spread(row), f"{row.relation} {row.bound:g}", _verdict(row))
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *body)]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _spread(row: Row) -> str:
    return f"{min(row.ratios):.3g} to {max(row.ratios):.3g}" if row.ratios else ""


def _verdict(row: Row) -> str:
    verdict = "holds" if row.holds else "DOES NOT HOLD"
    return f"{verdict} (stretch)" if row.stretch else verdict


def write(path: Path, rows: Sequence[Row], facts: dict[str, Any]) -> None:
    """Write what the book's status page shows.

    Args:
        path: The file, replaced as a whole.
        rows: The comparisons.
        facts: What else is worth keeping about the run; plain values.
    """
    described = machine.describe().as_dict()
    described.pop("disk_free_bytes", None)
    described["load_average"] = round(os.getloadavg()[0], 1)
    content = {
        "date": datetime.date.today().isoformat(),
        "machine": described,
        "versions": {name: versions.installed(name) for name in PACKAGES},
        "rows": [row.as_dict() for row in rows],
        **facts,
    }
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
