"""Boxes and arrows become the same bytes each time, whatever the labels hold and however many there are."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.errors import CourseError
from helpers.graph.layout import Diagram, Edge, Kind, Node, arrows, draw, fold

SVG = "{http://www.w3.org/2000/svg}"


def chain(length: int) -> Diagram:
    nodes = tuple(Node(key=f"k{index}", label=f"step {index}") for index in range(length))
    return Diagram(nodes=nodes, edges=arrows([(f"k{index}", f"k{index + 1}") for index in range(length - 1)]))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_the_same_diagram_gives_the_same_bytes():
    assert draw(chain(5), alt="a chain").svg == draw(chain(5), alt="a chain").svg


def test_the_names_of_keys_leave_no_trace_in_the_picture():
    renamed = Diagram(nodes=(Node(key="x 7f3a", label="a"),))
    assert draw(renamed, alt="one").svg == draw(Diagram(nodes=(Node(key="y", label="a"),)), alt="one").svg


@pytest.mark.parametrize(
    "label",
    [
        '"; rankdir=LR; "',
        "<b>bold</b> & <script>alert(1)</script>",
        "&lt; stays as written",
        "back\\slash \\N \\G",
        "line one\nline two",
        "ünïcode 漢字 🙂",
        "]]> --> <!--",
    ],
)
def test_hostile_labels_arrive_as_text(label):
    svg = draw(Diagram(nodes=(Node(key="n", label=label),)), alt="one box").svg
    assert "\n".join(texts(svg)) == label


@given(st.text(max_size=80))
@settings(max_examples=60, deadline=None)
def test_any_label_gives_well_formed_svg(label):
    drawing = draw(Diagram(nodes=(Node(key="n", label=label),)), alt="one box")
    ElementTree.fromstring(drawing.svg)


@pytest.mark.parametrize(("letters", "wide_pt"), [(1, (0, 200)), (35, (599, 601)), (58, (602, 2000))])
def test_picture_fits_its_column_unless_it_would_get_too_small(letters, wide_pt):
    nodes = tuple(Node(key=str(number), label="m" * letters) for number in range(2))
    root = ElementTree.fromstring(draw(Diagram(nodes=nodes), alt="two boxes").svg)
    width, height = (float(root.get(name).removesuffix("pt")) for name in ("width", "height"))
    assert wide_pt[0] <= width <= wide_pt[1]
    *_, drawn_width, drawn_height = map(float, root.get("viewBox").split())
    assert width / height == pytest.approx(drawn_width / drawn_height, rel=0.05)


def test_any_alternative_text_gives_well_formed_svg():
    root = ElementTree.fromstring(draw(chain(2), alt='5 < 6 & "so on"').svg)
    assert root.get("aria-label") == '5 < 6 & "so on"'
    assert root.get("role") == "img"


def test_a_long_label_is_cut():
    (text,) = texts(draw(Diagram(nodes=(Node(key="n", label="x" * 500),)), alt="one box").svg)
    assert len(text) == 60
    assert text.endswith("…")


def test_a_large_graph_is_folded_and_says_how_much():
    drawing = draw(chain(200), alt="a long chain", max_nodes=10)
    assert len(drawing.diagram.nodes) == 10
    assert drawing.diagram.nodes[-1].kind is Kind.FOLDED
    assert "… 191 more" in texts(drawing.svg)


def test_folding_keeps_the_arrows_that_cross_the_fold_and_no_other():
    folded = fold(chain(6), 3)
    assert [(edge.start, edge.end) for edge in folded.edges] == [("k0", "k1"), ("k1", folded.nodes[-1].key)]


def test_a_small_graph_is_not_folded():
    assert fold(chain(6), 6) == chain(6)


def test_a_real_key_called_folded_is_not_confused_with_the_fold():
    nodes = (Node(key="folded", label="mine"), *chain(5).nodes)
    drawing = draw(Diagram(nodes=nodes), alt="six boxes", max_nodes=3)
    assert "mine" in texts(drawing.svg)
    assert "… 4 more" in texts(drawing.svg)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Diagram(nodes=()), "nothing to draw"),
        (lambda: Diagram(nodes=(Node(key="a", label=""), Node(key="a", label=""))), "2 nodes share 1 keys"),
        (lambda: Diagram(nodes=(Node(key="a", label=""),), edges=(Edge(start="a", end="b"),)), "'a' to 'b'"),
        (lambda: fold(chain(3), 1), "max_nodes is 1"),
        (lambda: draw(chain(3), alt="  "), "alternative text"),
    ],
)
def test_errors_name_what_was_seen(build, message):
    with pytest.raises(CourseError, match=message):
        build()


def test_every_kind_can_be_drawn():
    nodes = tuple(Node(key=kind, label=kind) for kind in Kind)
    assert set(texts(draw(Diagram(nodes=nodes), alt="all kinds").svg)) == set(Kind)


def test_a_drawing_shows_itself_in_a_notebook():
    drawing = draw(chain(2), alt="two boxes")
    assert drawing._repr_svg_().startswith("<svg")
    assert repr(drawing) == "two boxes"
