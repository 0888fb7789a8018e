"""Small pieces of MyST Markdown, safe for any text put into them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

_PUNCTUATION = re.compile(r"""([!-/:-@\[-`{-~])""")
_CODE = re.compile(r"`([^`]+)`")


def escape(text: object) -> str:
    """Return text that Markdown shows as it is: every ASCII punctuation character gets a backslash.

    Source:
        CommonMark 0.31, section 2.4: any ASCII punctuation character may be backslash-escaped.
    """
    return escape_inline(" ".join(str(text).split()))


def escape_inline(text: str) -> str:
    """Return a piece of a line with its outer spaces kept; see :func:`escape`."""
    return _PUNCTUATION.sub(r"\\\1", text)


def prose(text: str) -> str:
    """Return a sentence as Markdown: pieces between backticks become code, all else is shown as it is."""
    pieces = _CODE.split(" ".join(text.split()))
    return "".join(f"`{piece}`" if number % 2 else escape_inline(piece) for number, piece in enumerate(pieces))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: frozenset[int] = frozenset()) -> str:
    """Return a table of ready-made Markdown cells; the columns in ``right`` are set flush right."""
    rule = ["---:" if column in right else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *rows]) + "\n"


def title_of(notebook: Path) -> str:
    """Return a notebook's title, which is its first level-one heading, or its name where it has none."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        found = re.search(r"^# (.+)$", "".join(cell["source"]), re.MULTILINE)
        if cell["cell_type"] == "markdown" and found:
            return found[1].strip()
    return notebook.stem


def claim_label(notebook: Path, cell: str) -> str:
    """Return the label of a claim's cell, which :mod:`sources` sets and the page of claims links to."""
    return re.sub(r"[^a-z0-9-]+", "-", f"claim-{notebook.parent.name}-{notebook.stem}-{cell}".lower())
