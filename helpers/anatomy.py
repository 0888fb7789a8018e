"""One training step, taken apart: what each part computes, what it holds in memory, how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers import plotting
from helpers.claims import measured, to_html
from helpers.graph.layout import Diagram, Drawing, Kind, Node, arrows, draw
from helpers.optim import TrainState
from helpers.timing import readable

PHASES = ("data", "forward", "backward", "optimizer")
"""The parts of a step, in order."""


_WORK = {
    "next batch": "disk, CPU, network",
    "forward": "keeps activations",
    "loss": "one number",
    "backward": "fills gradients",
    "optimizer step": "moves parameters",
    "zero_grad": "drops gradients",
}
"""The parts of the loop in order, and what each touches."""


def draw_loop() -> Drawing:
    """Return a picture of the loop: its parts in order, and back to the first."""
    kinds = {"next batch": Kind.INPUT}
    nodes = tuple(
        Node(key=part, label=f"{part}\n{what}", kind=kinds.get(part, Kind.OPERATION)) for part, what in _WORK.items()
    )
    circle = arrows(list(pairwise([*_WORK, "next batch"])))
    alt = f"The loop: {', '.join(_WORK)}, and back to the next batch."
    return draw(Diagram(nodes=nodes, edges=circle), alt=alt, direction="right")


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes that a step has in memory, by what they are for."""

    parameters: int
    gradients: int
    optimizer_state: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.gradients + self.optimizer_state + self.activations


@dataclass(frozen=True, kw_only=True)
class StepTrace:
    """Everything that one step computed."""

    images: Tensor
    """``[B, C, H, W]``."""
    labels: Tensor
    """``[B]``."""
    activations: dict[str, Tensor]
    """Output of each layer by name, in the order of the forward pass."""
    loss: Tensor
    """Mean loss of the batch, a scalar."""
    gradients: dict[str, Tensor]
    """By parameter name, each of its parameter's shape."""
    before: dict[str, Tensor]
    """Parameters before the step."""
    after: dict[str, Tensor]
    """Parameters after it."""
    held: dict[str, Held]
    """What is in memory when each of ``batch``, ``activations``, ``loss``, ``gradients``, ``parameters`` is there."""


def trace_step(model: nn.Module, images: Tensor, labels: Tensor, optimizer: torch.optim.Optimizer) -> StepTrace:
    """Take one step and keep what it computed. The model is changed, as by any step.

    Args:
        model: Takes ``[B, …]``, returns logits ``[B, classes]``.
        images: One batch, on the model's device.
        labels: int64 ``[B]``.
        optimizer: Of the model's parameters.
    """
    parameters = dict(model.named_parameters())
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    optimizer.zero_grad()
    held = {"batch": _held(model, optimizer, 0)}
    with _layer_outputs(model) as activations, _saved_bytes(parameters.values()) as saved:
        logits = model(images)
        held["activations"] = _held(model, optimizer, sum(saved.values()))
        loss = functional.cross_entropy(logits, labels)
        held["loss"] = _held(model, optimizer, sum(saved.values()))
    torch.autograd.backward(loss)
    held["gradients"] = _held(model, optimizer, 0)  # backward frees what forward had saved, as it goes
    gradients = {name: p.grad.clone() for name, p in parameters.items() if p.grad is not None}
    optimizer.step()
    held["parameters"] = _held(model, optimizer, 0)
    after = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    return StepTrace(
        images=images,
        labels=labels,
        activations=activations,
        loss=loss.detach(),
        gradients=gradients,
        before=before,
        after=after,
        held=held,
    )


def _held(model: nn.Module, optimizer: torch.optim.Optimizer, activations: int) -> Held:
    parameters = list(model.parameters())
    slots = [value for row in optimizer.state.values() for value in row.values() if isinstance(value, Tensor)]
    return Held(
        parameters=sum(parameter.nbytes for parameter in parameters),
        gradients=sum(parameter.grad.nbytes for parameter in parameters if parameter.grad is not None),
        optimizer_state=sum(slot.nbytes for slot in slots),
        activations=activations,
    )


@contextmanager
def _layer_outputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collect each leaf module's output while open."""
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            outputs[name] = output.detach()

        return hook

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(keep(f"{name} {type(module).__name__}")) for name, module in leaves]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _saved_bytes(parameters: Iterable[Tensor]) -> Iterator[dict[int, int]]:
    """Collect the bytes of each tensor that autograd saves for backward, parameters left out."""
    weights = {parameter.data_ptr() for parameter in parameters}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            saved[tensor.data_ptr()] = max(tensor.nbytes, saved.get(tensor.data_ptr(), 0))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved


@dataclass(frozen=True, kw_only=True)
class PhaseTimes:
    """Median seconds of each part of a step."""

    seconds: dict[str, float]

    def share(self, phase: str) -> float:
        """Return the phase's part of the step, 0 to 1."""
        return self.seconds[phase] / sum(self.seconds.values())

    def figure(self) -> Any:
        """Draw one bar per phase. Returns the figure."""
        figure, axes = plotting.figure(height=2.2)
        names = list(self.seconds)[::-1]
        microseconds = [1e6 * self.seconds[name] for name in names]
        bars = axes.barh(names, microseconds, color=plotting.PALETTE["blue"], height=0.6)
        axes.bar_label(bars, [f" {self.share(name):.0%}" for name in names])
        axes.set(title="Where the time of one step goes", xlabel="microseconds (median)")
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.1)
        return figure

    def __repr__(self) -> str:
        return ", ".join(f"{name} {measured(*readable(value))}" for name, value in self.seconds.items())

    def _repr_html_(self) -> str:
        return to_html(repr(self))


def time_phases(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], state: TrainState, *, warmup: int = 5
) -> PhaseTimes:
    """Train on each batch once and time the parts of every step.

    The device is waited for after each part, which an ordinary loop would not do: the parts are right, their
    sum is an upper bound of a step.

    Args:
        model: On its device.
        batches: On the same device. More than ``warmup`` of them.
        state: Of the model.
        warmup: Steps not counted, first.

    Raises:
        ValueError: If there are too few batches.
    """
    wait = torch.accelerator.synchronize if state.device_type != "cpu" else lambda: None
    rows: list[tuple[float, ...]] = []
    clock = _Clock(wait)
    for images, labels in batches:
        data_s = clock.lap()
        loss = functional.cross_entropy(model(images), labels)
        forward_s = clock.lap()
        torch.autograd.backward(loss)
        backward_s = clock.lap()
        state.optimizer.step()
        state.optimizer.zero_grad()
        rows.append((data_s, forward_s, backward_s, clock.lap()))
    if len(rows) <= warmup:
        raise ValueError(f"there were {len(rows)} batches and the first {warmup} are not counted; give more batches.")
    columns = zip(*rows[warmup:], strict=True)
    return PhaseTimes(seconds={name: median(column) for name, column in zip(PHASES, columns, strict=True)})


class _Clock:
    """A stopwatch that waits for the device before it reads the time."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self._wait = wait
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        self._wait()
        now = time.perf_counter()
        took, self._last = now - self._last, now
        return took
