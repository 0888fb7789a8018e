"""The page of claims, made from the outputs that the notebooks hold."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

from course_book.myst import claim_label, escape, prose, table, title_of
from helpers.claims import Claim, Verdict, collect, sentence

MARKS = {Verdict.HOLDS: "✓", Verdict.DOES_NOT_HOLD: "✗", Verdict.DEPENDS: "≈"}

INTRODUCTION = """\
# Claims, measured

People say these things about training jobs. Each was measured by a cell of the course, and you can measure
it again where you sit: open the chapter and run it. Numbers in ⟨brackets⟩ were measured on the machine of
the [status page](status.md); yours will differ, and the verdicts should not.
"""


def render(root: Path) -> str:
    """Return the page.

    Args:
        root: The folder that holds ``chapters/`` and ``labs/solutions/``.
    """
    notebooks = sorted(root.glob("chapters/*.ipynb")) + sorted(root.glob("labs/solutions/*.ipynb"))
    found = list(collect(notebooks))
    if not found:
        return INTRODUCTION + "\nNo notebook has been executed yet, so there is no claim to show.\n"
    counts = Counter(claim.verdict for _, _, claim in found)
    verdicts = [verdict for verdict in Verdict if counts[verdict]]
    summary = table(
        ["Verdict", "Claims"],
        [[f"{MARKS[verdict]} {verdict}", str(counts[verdict])] for verdict in verdicts],
        right=frozenset({1}),
    )
    sections = [
        _section(path, [each[1:] for each in group]) for path, group in groupby(found, key=lambda each: each[0])
    ]
    return "\n".join([INTRODUCTION, summary, *sections])


def _section(path: Path, claims: list[tuple[str, Claim]]) -> str:
    boxes = [_box(claim_label(path, cell), claim) for cell, claim in claims]
    return "\n".join([f"## {escape(title_of(path))}\n", *boxes])


def _box(label: str, claim: Claim) -> str:
    tail = f" on {prose(claim.depends_on)}" if claim.depends_on else ""
    return f"""\
:::{{container}} claim claim-{claim.verdict.name.lower().replace("_", "-")}
**“{prose(claim.statement)}”**

[{MARKS[claim.verdict]} {claim.verdict}{tail}]{{.verdict}} · [see the measurement](#{label})

{prose(sentence(claim.because))}
:::
"""
