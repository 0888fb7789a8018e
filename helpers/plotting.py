"""The look of every picture in the course, and the one way to show one.

Colours are the Okabe-Ito set, which people with any common colour blindness can tell apart.

Source:
    M. Okabe and K. Ito, "Color Universal Design", 2008.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "grey": "#8A8F98",
    "ink": "#22272E",
}
"""Named colours; ``ink`` is for text and lines, ``grey`` for what should step back."""

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": PALETTE["grey"],
    "axes.labelcolor": PALETTE["ink"],
    "text.color": PALETTE["ink"],
    "xtick.color": PALETTE["ink"],
    "ytick.color": PALETTE["ink"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E8EB",
    "legend.frameon": False,
    "figure.facecolor": "white",
    "figure.dpi": 100,
}
"""DejaVu Sans comes with matplotlib, so that pictures look the same everywhere."""

_DPI = 110


def figure(width: float = 7.5, height: float = 3.0, *, columns: int = 1, rows: int = 1) -> tuple[Figure, Any]:
    """Make a figure in the house style, which is set for the rest of the process.

    Args:
        width: Inches.
        height: Inches.
        columns: Panels side by side.
        rows: Panels above each other.

    Returns:
        The figure and its axes: one ``Axes``, or an array of them where there are several panels.
    """
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    colours = [PALETTE[name] for name in ("blue", "orange", "green", "vermillion", "purple", "sky")]
    mpl.rcParams.update({**_STYLE, "axes.prop_cycle": cycler(color=colours)})
    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(rows, columns)


def png(figure: Figure) -> bytes:
    """Return the figure as PNG bytes, without the metadata that would differ from run to run."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def show(figure: Figure, *, alt: str) -> None:
    """Show a figure in a notebook.

    Args:
        figure: The figure; it stays usable afterwards.
        alt: What the picture shows, in a sentence, for those who cannot see it.

    Raises:
        ValueError: If the alternative text is empty.
    """
    _display("image/png", png(figure), alt)


def show_svg(svg: str, *, alt: str) -> None:
    """Show an SVG picture in a notebook (see :func:`show`)."""
    _display("image/svg+xml", svg, alt)


def _display(mime: str, data: bytes | str, alt: str) -> None:
    from IPython.display import display

    if not alt.strip():
        raise ValueError(f"the alternative text is {alt!r}; say in a sentence what the picture shows.")
    display({mime: data, "text/plain": alt}, raw=True, metadata={mime: {"alt": alt}})
