"""A row of prepared pictures and one control that chooses which of them is shown.

The control is tied to the pictures in the browser (``jslink``), not in Python. The choice therefore
still works where no kernel runs: on a published page, or after a notebook is reopened.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import ipywidgets

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Frame:
    """One picture that the control can bring up.

    Attributes:
        label: What the control calls it, for example ``"3 loss"``. Unique within one widget.
        picture: The bytes of a PNG or of an SVG document.
        alt: What a reader who cannot see the picture should be told.

    Raises:
        ValueError: If the label or the alt text is empty, or the bytes are neither PNG nor SVG.
    """

    label: str
    picture: bytes
    alt: str

    def __post_init__(self) -> None:
        for name, value in (("label", self.label), ("alt", self.alt)):
            if not value.strip():
                raise ValueError(f"Frame.{name} is empty; say in a few words what the picture shows.")
        _media_type(self.picture)

    def as_html(self) -> str:
        """Return an ``<img>`` element with the picture inside it, as wide as its column at most."""
        data = base64.b64encode(self.picture).decode("ascii")
        return (
            f'<img src="data:{_media_type(self.picture)};base64,{data}" '
            f'alt="{html.escape(self.alt)}" style="max-width: 100%; height: auto">'
        )


def frames(
    figures: Sequence[Frame],
    *,
    control: Literal["slider", "buttons"] = "slider",
    description: str = "",
) -> ipywidgets.Widget:
    """Build a widget that shows one of several pictures at a time.

    Args:
        figures: The pictures, in the order in which the control goes through them; at least two.
        control: ``"slider"`` for an ordered walk, ``"buttons"`` for a choice among equals.
        description: The words beside the control.

    Returns:
        A box with two children: the control (its ``index`` is the picture shown) and the stack of pictures.

    Raises:
        ValueError: If there are fewer than two pictures, two share a label, or the control is unknown.
    """
    labels = [figure.label for figure in figures]
    if len(labels) < 2:
        raise ValueError(f"frames() got {len(labels)} picture(s); a choice needs at least 2.")
    if len(set(labels)) < len(labels):
        raise ValueError(f"frames() got the labels {labels}; each must be different so that the control can name them.")
    chooser = _control(control, labels, description)
    pictures = [ipywidgets.HTML(value=figure.as_html()) for figure in figures]
    stack = ipywidgets.Stack(pictures, selected_index=0)
    ipywidgets.jslink((chooser, "index"), (stack, "selected_index"))
    return ipywidgets.VBox([chooser, stack])


def _control(control: str, labels: list[str], description: str) -> ipywidgets.Widget:
    """Return the slider or the row of buttons, at the first label."""
    style = {"description_width": "initial"}
    if control == "slider":
        layout = ipywidgets.Layout(width="100%", max_width="40em")
        return ipywidgets.SelectionSlider(
            options=labels, index=0, description=description, style=style, layout=layout, continuous_update=True
        )
    if control == "buttons":
        return ipywidgets.ToggleButtons(options=labels, index=0, description=description, style=style)
    raise ValueError(f"frames() got control={control!r}; expected 'slider' or 'buttons'.")


def _media_type(picture: bytes) -> str:
    """Return the media type of the bytes, or say what they look like instead."""
    if picture.startswith(PNG_MAGIC):
        return "image/png"
    if b"<svg" in picture[:1000]:
        return "image/svg+xml"
    raise ValueError(f"A frame's picture must be PNG or SVG bytes; these begin with {picture[:12]!r}.")
