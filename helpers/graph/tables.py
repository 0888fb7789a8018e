"""Plain HTML tables for results that a notebook shows."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with its cells escaped and set to the left."""
    top = "".join(f"<th style='text-align:left'>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left;overflow-wrap:anywhere'>{html.escape(str(cell))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"
