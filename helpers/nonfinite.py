"""Where a NaN came from.

A loop that does not wait for the device learns of a NaN at the epoch's end, when the parameters are long
spoilt. So the epoch's start is remembered, and the epoch is run again from there, this time looking at
every input, activation and gradient, until the first one that is not finite.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from helpers import explain
from helpers.config import TrainConfig
from helpers.errors import CourseError
from helpers.optim import TrainState


class NonFiniteLoss(CourseError):  # noqa: N818 - named for what was seen
    """The loss became NaN or infinite.

    Attributes:
        step: The first such step of the epoch, from 0.
        place: ``parameters``, ``inputs``, ``activations``, ``loss`` or ``gradients``; None where it is unknown.
    """

    def __init__(self, message: str, *, step: int, place: str | None) -> None:
        super().__init__(message)
        self.step = step
        self.place = place


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What finding the place may cost."""

    snapshot_bytes: int = 512 * 2**20
    """A copy of model and optimizer above this is not kept: it would surprise a job that just fits in memory."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The first value that is not finite."""

    place: str
    what: str
    step: int
    advice: str


_ADVICE = {
    "parameters": "They were so before the epoch's first step: look at how the weights were made or loaded.",
    "inputs": "Look at the data and its normalisation (a division by zero, a missing value).",
    "activations": "Lower the learning rate, normalise the activations, or use precision='bf16' instead of 'fp16'.",
    "loss": "The logits were finite: look at the loss function (a log of zero, a division by zero).",
    "gradients": "Lower the learning rate, or set clip_norm=1.0.",
}


@dataclass(frozen=True, kw_only=True)
class ReplayPoint:
    """The run as it was at the start of an epoch."""

    model: dict[str, Tensor]
    state: dict[str, Any]
    rng: Tensor

    @classmethod
    def take(cls, model: nn.Module, state: TrainState, limits: Limits | None = None) -> ReplayPoint | None:
        """Copy the run, or return None where the copy would be too large."""
        limits = limits or Limits()
        slots = [value for row in state.optimizer.state.values() for value in row.values()]
        tensors = [*model.state_dict().values(), *(value for value in slots if isinstance(value, Tensor))]
        if sum(tensor.nbytes for tensor in tensors) > limits.snapshot_bytes:
            return None
        weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
        return cls(model=weights, state=copy.deepcopy(state.state_dict()), rng=torch.get_rng_state())

    def restore(self, model: nn.Module, state: TrainState) -> None:
        """Put model, optimizer and random numbers back."""
        model.load_state_dict(self.model)
        state.load_state_dict(copy.deepcopy(self.state))
        state.optimizer.zero_grad()
        torch.set_rng_state(self.rng)


def check(
    step_losses: Sequence[float],
    replay: ReplayPoint | None,
    *,
    model: nn.Module,
    batches: Iterable[Any],
    config: TrainConfig,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    state: TrainState,
) -> None:
    """Raise if an epoch's loss is not finite, after looking for the place where that began.

    The model is left as it was just before that place.

    Raises:
        NonFiniteLoss: If a loss is NaN or infinite.
    """
    step = next((index for index, loss in enumerate(step_losses) if not math.isfinite(loss)), None)
    if step is None:
        return
    seen = f"the loss is {step_losses[step]} at step {step + 1} of epoch {state.epoch + 1}"
    if replay is None:
        raise NonFiniteLoss(f"{seen}. The model is too large to look for the place.", step=step, place=None)
    replay.restore(model, state)
    finding = _Search(model=model, config=config, loss_fn=loss_fn, state=state).run(batches, until=step)
    if finding is None:
        raise NonFiniteLoss(
            f"{seen}. It did not come again when the epoch was repeated, so the place is unknown: give fit a loader "
            "that can be iterated twice with the same order.",
            step=step,
            place=None,
        )
    raise NonFiniteLoss(
        f"{seen}. The first value that is not finite is in the {finding.place} of step {finding.step + 1}: "
        f"{finding.what}. {finding.advice}",
        step=step,
        place=finding.place,
    )


@dataclass(kw_only=True)
class _Search:
    """Runs an epoch again and stops at the first value that is not finite."""

    model: nn.Module
    config: TrainConfig
    loss_fn: Callable[[Tensor, Tensor], Tensor]
    state: TrainState
    _seen: list[str] = field(default_factory=list)

    def run(self, batches: Iterable[Any], *, until: int) -> Finding | None:
        spoilt = _first_bad(self.model.state_dict().items())
        if spoilt:
            return self._finding("parameters", spoilt, 0)
        device = self.state.parameters[0].device
        with _watch_outputs(self.model, self._seen):
            for step, batch in enumerate(batches):
                if step > until:
                    return None
                images, labels = (part.to(device) for part in explain.pair(batch))
                found = self._step(images, labels, step)
                if found:
                    return found
        return None

    def _step(self, images: Tensor, labels: Tensor, step: int) -> Finding | None:
        spoilt = _first_bad([("images", images)])
        if spoilt:
            return self._finding("inputs", spoilt, step)
        weight = self.state.window.weigh(len(labels))
        with self.state.autocast():
            loss = self.loss_fn(self.model(images), labels)
        if self._seen:
            return self._finding("activations", self._seen[0], step)
        if not torch.isfinite(loss):
            return self._finding("loss", f"it is {loss.item()}", step)
        torch.autograd.backward(self.state.scaler.scale(loss * weight))
        if not self.state.scaler.is_enabled():  # the scaler looks for infinite gradients itself and skips the step
            named = ((name, p.grad) for name, p in self.model.named_parameters() if p.grad is not None)
            spoilt = _first_bad(named)
            if spoilt:
                return self._finding("gradients", spoilt, step)
        if self.state.window.full:
            self.state.update(self.model, self.config)
        return None

    @staticmethod
    def _finding(place: str, what: str, step: int) -> Finding:
        return Finding(place=place, what=what, step=step, advice=_ADVICE[place])


def _first_bad(named: Iterable[tuple[str, Tensor]]) -> str | None:
    """Return a description of the first tensor that holds a NaN or an infinity."""
    for name, tensor in named:
        if tensor.is_floating_point():
            bad = int((~torch.isfinite(tensor)).sum())
            if bad:
                return f"{bad:,} of {tensor.numel():,} values of {name!r}"
    return None


class _watch_outputs:  # noqa: N801 - used like a function
    """While open, note each leaf module whose output is not finite, in the order of the forward pass."""

    def __init__(self, model: nn.Module, seen: list[str]) -> None:
        self._leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
        self._seen = seen

    def __enter__(self) -> None:
        self._handles = [module.register_forward_hook(self._hook(name)) for name, module in self._leaves]

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                spoilt = _first_bad([(f"{name} ({type(module).__name__})", output.detach())])
                if spoilt:
                    self._seen.append(spoilt)

        return look
