"""The control and the pictures are tied in the browser, and each picture carries its alternative text."""

import io

import ipywidgets
import pytest
from ipywidgets.embed import embed_data
from matplotlib.figure import Figure

from helpers.widgets import Frame, frames

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"></svg>'


def png() -> bytes:
    buffer = io.BytesIO()
    Figure(figsize=(1, 1)).savefig(buffer, format="png")
    return buffer.getvalue()


def pair(**changes):
    return [
        Frame(label="a", picture=SVG, alt="first"),
        Frame(**{"label": "b", "picture": png(), "alt": "second"} | changes),
    ]


@pytest.mark.parametrize(
    ("control", "kind"), [("slider", ipywidgets.SelectionSlider), ("buttons", ipywidgets.ToggleButtons)]
)
def test_the_control_names_the_pictures(control, kind):
    chooser, stack = frames(pair(), control=control, description="Step").children
    assert isinstance(chooser, kind)
    assert chooser.options == ("a", "b")
    assert chooser.description == "Step"
    assert len(stack.children) == 2


def test_the_link_travels_with_the_page_and_needs_no_kernel():
    widget = frames(pair())
    chooser, stack = widget.children
    models = embed_data(views=[widget])["manager_state"]["state"].values()
    links = [model["state"] for model in models if model["model_name"] == "LinkModel"]
    wanted = {
        "source": [f"IPY_MODEL_{chooser.model_id}", "index"],
        "target": [f"IPY_MODEL_{stack.model_id}", "selected_index"],
    }
    assert any(all(link[end] == value for end, value in wanted.items()) for link in links)


def test_pictures_carry_their_type_and_escaped_alternative_text():
    first, second = frames(pair(alt='5 < 6 & "so on"')).children[1].children
    assert "data:image/svg+xml;base64," in first.value
    assert "data:image/png;base64," in second.value
    assert 'alt="5 &lt; 6 &amp; &quot;so on&quot;"' in second.value


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: frames(pair()[:1]), r"got 1 picture"),
        (lambda: frames([]), r"got 0 picture"),
        (lambda: frames(pair(label="a")), r"each must be different"),
        (lambda: frames(pair(), control="dial"), r"control='dial'"),
        (lambda: pair(label=" "), r"Frame.label is empty"),
        (lambda: pair(alt=""), r"Frame.alt is empty"),
        (lambda: pair(picture=b"GIF89a"), r"must be PNG or SVG"),
        (lambda: pair(picture=b""), r"must be PNG or SVG"),
    ],
)
def test_errors_name_what_was_seen(build, message):
    with pytest.raises(ValueError, match=message):
        build()
