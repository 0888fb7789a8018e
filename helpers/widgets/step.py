"""Walk through one training step: batch, activations, loss, gradients, parameters.

:func:`step_figure` draws one stage of a recorded step. The widget shows the same figures one after the
other; the static page shows one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from helpers import plotting
from helpers.anatomy import Held, StepTrace
from helpers.widgets.frames import Frame, frames

if TYPE_CHECKING:
    from ipywidgets import Widget
    from matplotlib.figure import Figure

Stage = Literal["batch", "activations", "loss", "gradients", "parameters"]
STAGES: tuple[Stage, ...] = get_args(Stage)

_SHOWN = 8
"""Samples, and units of the first layer, that are drawn."""

_SAYS: dict[Stage, str] = {
    "batch": "A batch arrives: images and labels",
    "activations": "Forward: every layer keeps its output for later",
    "loss": "Loss: one number says how wrong the batch was",
    "gradients": "Backward: which way each weight makes it worse",
    "parameters": "Optimizer: every weight moves against its gradient",
}


def step_widget(trace: StepTrace) -> Widget:
    """Return a slider over the five stages of the step."""
    pictures = [
        Frame(f"{number} {stage}", plotting.png(step_figure(trace, stage)), describe(trace, stage))
        for number, stage in enumerate(STAGES, 1)
    ]
    return frames(pictures, description="stage")


def step_figure(trace: StepTrace, stage: Stage) -> Figure:
    """Draw one stage, beside what is in memory at that moment.

    Args:
        trace: A step of a model whose first weight matrix takes whole grey images.
        stage: One of :data:`STAGES`.

    Raises:
        ValueError: If there is no such stage.
    """
    if stage not in STAGES:
        raise ValueError(f"there is no stage {stage!r}; expected one of {', '.join(STAGES)}.")
    figure, _ = plotting.figure(8.2, 3.1, columns=1)
    figure.clear()
    figure.suptitle(f"{STAGES.index(stage) + 1}  {_SAYS[stage]}", x=0.01, ha="left", weight="bold")
    left, right = figure.subfigures(1, 2, width_ratios=[3, 1.6], squeeze=False)[0]
    _DRAW[stage](left, trace)
    _draw_memory(right.subplots(), trace, stage)
    return figure


def describe(trace: StepTrace, stage: Stage) -> str:
    """Return the stage in words, for those who cannot see the picture."""
    moved = max(float((trace.after[name] - trace.before[name]).abs().max()) for name in trace.after)
    details = {
        "batch": f"{len(trace.labels)} images; the first labels are {trace.labels[:_SHOWN].tolist()}.",
        "activations": f"Outputs of {', '.join(trace.activations)} as a map of units and samples.",
        "loss": f"Probabilities of the first image's classes; the batch's loss is {trace.loss.item():.2f}.",
        "gradients": f"Gradients of {_SHOWN} hidden units as images: where more weight would raise the loss.",
        "parameters": f"The moves of the same units' weights, against the gradients; the largest is {moved:.3f}.",
    }
    return f"{_SAYS[stage]}. {details[stage]}"


def _draw_batch(area: Any, trace: StepTrace) -> None:
    titles = [str(label) for label in trace.labels[:_SHOWN].tolist()]
    _tiles(area, trace.images[:_SHOWN, 0], titles, "gray", None)


def _draw_activations(area: Any, trace: StepTrace) -> None:
    layers = {name: value for name, value in trace.activations.items() if not name.endswith("Flatten")}
    axes = area.subplots(1, len(layers), width_ratios=[max(v.shape[1], 25) for v in layers.values()])
    for axis, (name, value) in zip(axes, layers.items(), strict=True):
        reach = float(value.abs().max())
        axis.imshow(value.cpu().numpy(), aspect="auto", cmap="PuOr", vmin=-reach, vmax=reach, interpolation="nearest")
        _bare(axis)
        axis.set_title(name.split()[1], size=9)
        axis.set_xlabel(f"{value.shape[1]} units", size=8)
    axes[0].set_ylabel(f"{len(trace.labels)} samples", size=8)


def _draw_loss(area: Any, trace: StepTrace) -> None:
    logits = list(trace.activations.values())[-1]
    probabilities = torch.softmax(logits[0].float(), 0).tolist()
    right_class = int(trace.labels[0])
    axis = area.subplots()
    colours = [plotting.PALETTE["orange" if c == right_class else "sky"] for c in range(len(probabilities))]
    axis.bar(range(len(probabilities)), probabilities, color=colours)
    axis.set(xticks=range(len(probabilities)), xlabel="class (orange: the label)", ylabel="probability", ylim=(0, 1))
    first = -torch.log_softmax(logits[0].float(), 0)[right_class]
    axis.set_title(f"first image: −log p = {first:.2f};  mean over the batch: {trace.loss:.2f}", size=9)


def _draw_gradients(area: Any, trace: StepTrace) -> None:
    _tiles(
        area,
        _as_images(_first_matrix(trace.gradients), trace),
        _units(),
        "PuOr",
        "purple: more weight here raises the loss; orange: lowers it",
    )


def _draw_parameters(area: Any, trace: StepTrace) -> None:
    moved = _first_matrix(trace.after) - _first_matrix(trace.before)
    share = float(moved.norm() / _first_matrix(trace.before).norm())
    note = f"the moves of these weights; the first layer moved by {share:.1%} of its length"
    _tiles(area, _as_images(moved, trace), _units(), "PuOr", note)


_DRAW = {
    "batch": _draw_batch,
    "activations": _draw_activations,
    "loss": _draw_loss,
    "gradients": _draw_gradients,
    "parameters": _draw_parameters,
}


def _first_matrix(named: dict[str, Tensor]) -> Tensor:
    return next(value for value in named.values() if value.ndim == 2).detach()


def _as_images(matrix: Tensor, trace: StepTrace) -> Tensor:
    return matrix[:_SHOWN].reshape(-1, *trace.images.shape[-2:])


def _units() -> list[str]:
    return [f"unit {number}" for number in range(_SHOWN)]


def _tiles(area: Any, pictures: Tensor, titles: list[str], colours: str, note: str | None) -> None:
    reach = float(pictures.abs().max())
    limits = {} if colours == "gray" else {"vmin": -reach, "vmax": reach}
    axes = area.subplots(2, _SHOWN // 2)
    for axis, picture, title in zip(axes.flat, pictures.cpu().numpy(), titles, strict=False):
        axis.imshow(picture, cmap=colours, **limits)
        axis.set_title(title, size=8, loc="center")
    for axis in axes.flat:
        _bare(axis)
        axis.axis("off")
    if note:
        area.supxlabel(note, size=8)


def _bare(axis: Any) -> None:
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)


_MEMORY = (
    ("parameters", "blue"),
    ("optimizer_state", "green"),
    ("activations", "orange"),
    ("gradients", "purple"),
)


def _draw_memory(axis: Any, trace: StepTrace, stage: Stage) -> None:
    """Draw the bytes held now, on a scale that is the same for every stage."""
    held: Held = trace.held[stage]
    names = [name.replace("_", "\n") for name, _ in _MEMORY]
    kilobytes = [getattr(held, name) / 1000 for name, _ in _MEMORY]
    bars = axis.barh(names, kilobytes, color=[plotting.PALETTE[colour] for _, colour in _MEMORY], height=0.6)
    axis.bar_label(bars, [f" {value:,.0f}" if value else " –" for value in kilobytes], size=8)
    most = max(getattr(row, name) for row in trace.held.values() for name, _ in _MEMORY) / 1000
    axis.set(xlim=(0, 1.3 * most), xlabel="kB held now")
    axis.set_title("in memory", size=9)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.tick_params(labelsize=8)
