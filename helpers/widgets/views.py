"""One function, three ways to run it: eager, traced and compiled, drawn as who is at work when, Python or a kernel.

Each picture has two lanes. Python is above, the kernels that do the arithmetic are below, and the line that joins them
goes through the call in the order in which things happened. What is drawn comes from a profile of a real call.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import ipywidgets
import torch

from helpers import plotting
from helpers.graph.count import quiet_compiler
from helpers.graph.dispatch import Step, StepKind, steps
from helpers.widgets.frames import Frame, frames

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

_PYTHON, _KERNELS = 1.0, 0.0
"""Heights of the two lanes."""
_COLUMNS = 10
"""The width of every picture in columns, so that fewer steps also look fewer; more are added where needed."""


class View(StrEnum):
    """A way to run the function."""

    EAGER = "eager"
    """As it is written."""
    TRACED = "traced"
    """Recorded once by ``torch.jit.trace``, which is deprecated, and replayed."""
    COMPILED = "compiled"
    """Through ``torch.compile``."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One box of the picture."""

    column: int
    label: str
    lane: float
    colour: str


def prepare(function: Callable[..., Any], args: Sequence[object], view: View | str) -> Callable[..., Any]:
    """Return the function in the form of a view, called until it is warm.

    Args:
        function: A function or module of tensors that returns a tensor.
        args: Its arguments; tracing records what happens with these.
        view: Which form.

    Returns:
        Something to call with such arguments. Compiling takes seconds the first time.

    Raises:
        ValueError: If there is no such view.
    """
    ready = function
    if View(view) is View.TRACED:
        with warnings.catch_warnings():  # the chapter shows both warnings where it explains tracing
            warnings.simplefilter("ignore")
            ready = torch.jit.trace(function, tuple(args))  # type: ignore[no-untyped-call]
    elif View(view) is View.COMPILED:
        ready = torch.compile(function, options={"cpp.enable_kernel_profile": True})
    with quiet_compiler():
        for _ in range(3):
            ready(*args)
    return ready


def view_steps(function: Callable[..., Any], args: Sequence[object], view: View | str) -> tuple[Step, ...]:
    """Return what one warm call does in that view, as the profiler saw it; see :func:`helpers.graph.steps`."""
    return steps(prepare(function, args, view), *args)


def view_figure(function: Callable[..., Any], args: Sequence[object], view: View | str) -> Figure:
    """Draw one view of a function.

    Args:
        function: A function or module of tensors.
        args: Its arguments.
        view: ``"eager"``, ``"traced"`` or ``"compiled"``.

    Returns:
        The figure, in the house style. The widget and the static page both come from here.
    """
    return _figure(view_steps(function, args, view), View(view))


def view_switch(function: Callable[..., Any], args: Sequence[object]) -> ipywidgets.Widget:
    """Build the widget that switches between the three views of a function.

    All three are prepared now, so that the buttons work without a kernel.
    """
    made = []
    for view in View:
        found = view_steps(function, args, view)
        made.append(Frame(label=str(view), picture=plotting.png(_figure(found, view)), alt=describe(found, view)))
    return frames(made, control="buttons", description="View")


def describe(found: Sequence[Step], view: View) -> str:
    """Say in a sentence what a view does; the title and the alternative text of its picture."""
    kernels = [step for step in found if step.kind is StepKind.KERNEL]
    reads = sum(step.kind is StepKind.READ for step in found)
    turns = sum(block.lane == _PYTHON for block in blocks(found, view))
    words = [_count(len(kernels), "kernel"), f"Python has {_count(turns, 'turn')}"]
    return f"{view}: {', '.join(words)}, {_count(reads, 'value')} read back"


def blocks(found: Sequence[Step], view: View) -> tuple[Block, ...]:
    """Place the steps in columns, with a turn of Python wherever it runs."""
    placed: list[Block] = []
    column = 0
    if view is View.TRACED:
        placed.append(Block(column=0, label="one\ncall", lane=_PYTHON, colour="sky"))
        column = 1
    for step in found:
        if step.kind is StepKind.KERNEL:
            if view is View.EAGER:
                placed.append(Block(column=column, label="line", lane=_PYTHON, colour="sky"))
            colour = "green" if step.fused else "grey"
            placed.append(Block(column=column, label=_short(step), lane=_KERNELS, colour=colour))
        elif step.kind is StepKind.READ:
            placed.append(Block(column=column, label="value\nread", lane=_PYTHON, colour="vermillion"))
        else:
            placed.append(Block(column=column, label="guards", lane=_PYTHON, colour="sky"))
        column += 1
    return tuple(placed)


def _short(step: Step) -> str:
    """Return an operator's bare name, or the operators inside a kernel that the compiler made."""
    if not step.fused:
        return step.name.removeprefix("aten::")
    inside = re.sub(r"^.*?_fused_|_\d+$", "", step.name).strip("_").split("_")
    return "\n".join(part for part in inside if part) or "fused"


def sheet(found: Mapping[View, Sequence[Step]]) -> Figure:
    """Draw several views below each other, for paper and for readers who cannot use the widget.

    Args:
        found: What :func:`view_steps` returned for each view.
    """
    figure, axes = plotting.figure(7.5, 2.5 * len(found), rows=len(found))
    for place, (view, steps_) in zip(axes, found.items(), strict=True):
        _draw(place, steps_, view)
    return figure


def _figure(found: Sequence[Step], view: View) -> Figure:
    figure, axes = plotting.figure(7.5, 2.7)
    _draw(axes, found, view)
    return figure


def _draw(axes: Axes, found: Sequence[Step], view: View) -> None:
    """Draw one view: the lanes, the boxes, and the line through them in the order of events."""
    placed = blocks(found, view)
    axes.set_title(describe(found, view))
    for lane in (_PYTHON, _KERNELS):
        axes.axhspan(lane - 0.42, lane + 0.42, color="#F4F5F7", zorder=0)
    boxes = [_box(axes, block) for block in placed]
    for (before, start), (after, end) in itertools.pairwise(zip(placed, boxes, strict=True)):
        arrow = {"arrowstyle": "-|>", "color": plotting.PALETTE["ink"], "lw": 1.0, "patchA": start, "patchB": end}
        axes.annotate("", (after.column, after.lane), (before.column, before.lane), arrowprops=arrow, zorder=1)
    columns = max(_COLUMNS, *(block.column + 1 for block in placed))
    axes.set(xlim=(-0.6, columns - 0.4), ylim=(-0.5, 1.5), xticks=[], xlabel="order of events →")
    axes.set_yticks([_KERNELS, _PYTHON], ["kernels", "Python"])
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def _box(axes: Axes, block: Block) -> FancyBboxPatch | None:
    """Draw a box that grows with the lines of its label; a kernel that the compiler made has a thick frame."""
    style = {
        "boxstyle": "round,pad=0.3",
        "facecolor": "white",
        "edgecolor": plotting.PALETTE[block.colour],
        "linewidth": 2.2 if block.colour == "green" else 1.0,
    }
    text = axes.text(block.column, block.lane, block.label, ha="center", va="center", fontsize=8, bbox=style, zorder=2)
    return text.get_bbox_patch()


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
