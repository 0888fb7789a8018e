"""Where a NaN came from.

A loop that does not wait for the device learns of a NaN at the epoch's end, when the parameters are long
spoilt. So the epoch's start is remembered, and the epoch is run again from there, this time looking at
every input, activation and gradient, until the first one that is not finite.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from helpers import explain
from helpers.config import TrainConfig
from helpers.data import Batches
from helpers.errors import CourseError
from helpers.optim import TrainState


class NonFiniteLoss(CourseError):  # noqa: N818 - named for what was seen
    """The loss became NaN or infinite, or would have with the next step.

    Attributes:
        step: The first such step of the epoch, from 0.
        place: ``parameters``, ``inputs``, ``activations``, ``loss``, ``gradients`` or ``update``; None where it is
            unknown.
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
    "update": "The gradients were finite and the optimizer's step was too large: lower the learning rate.",
}


@dataclass(frozen=True, kw_only=True)
class ReplayPoint:
    """The run as it was at the start of an epoch."""

    model: dict[str, Tensor]
    state: dict[str, Any]
    rewind: Callable[[], None]

    @classmethod
    def take(
        cls, model: nn.Module, state: TrainState, batches: Iterable[Any], limits: Limits | None = None
    ) -> ReplayPoint | None:
        """Copy the run, or return None where the copy would be too large."""
        limits = limits or Limits()
        slots = [value for row in state.optimizer.state.values() for value in row.values()]
        tensors = [*model.state_dict().values(), *(value for value in slots if isinstance(value, Tensor))]
        if sum(tensor.nbytes for tensor in tensors) > limits.snapshot_bytes:
            return None
        weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
        rewind = _remember_chance(batches, state.device_type)
        return cls(model=weights, state=copy.deepcopy(state.state_dict()), rewind=rewind)

    def restore(self, model: nn.Module, state: TrainState) -> None:
        """Put model, optimizer, random numbers and the loader's place back."""
        model.load_state_dict(self.model)
        state.load_state_dict(copy.deepcopy(self.state))
        state.drop_gradients()
        self.rewind()


def _remember_chance(batches: Iterable[Any], device_type: str) -> Callable[[], None]:
    """Return a function that puts back what decides the epoch's order and its random numbers."""
    undo: list[Callable[[], object]] = []
    parts = (batches, getattr(batches, "sampler", None))
    for generator in {id(part): getattr(part, "generator", None) for part in parts}.values():
        if isinstance(generator, torch.Generator):
            undo.append(partial(generator.set_state, generator.get_state()))
    if isinstance(batches, Batches):
        undo.append(partial(batches.start_at, batches.offset))
    if device_type != "cpu":
        module = torch.get_device_module(device_type)
        undo.append(partial(module.set_rng_state, module.get_rng_state()))
    undo.append(partial(torch.set_rng_state, torch.get_rng_state()))
    undo.append(partial(random.setstate, random.getstate()))
    undo.append(partial(np.random.set_state, np.random.get_state()))

    def rewind() -> None:
        for step in undo:
            step()

    return rewind


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
    """Raise if an epoch's loss or its outcome is not finite, after looking for the place where that began.

    The model is left as it was just before that place.

    Raises:
        NonFiniteLoss: If a loss is NaN or infinite, or the last step has left parameters that are.
    """
    step = next((index for index, loss in enumerate(step_losses) if not math.isfinite(loss)), None)
    if step is not None:
        seen = f"the loss is {step_losses[step]} at step {step + 1} of epoch {state.epoch + 1}"
    elif not _all_finite(state.parameters):
        step = len(step_losses) - 1
        seen = (
            f"the loss is finite, but the parameters are not after step {step + 1}, the last of epoch {state.epoch + 1}"
        )
    else:
        return
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
        return None if self.state.window.empty else self._update(until)

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
        return self._update(step) if self.state.window.full else None

    def _update(self, step: int) -> Finding | None:
        self.state.update(self.config)
        spoilt = _first_bad(self.model.named_parameters())
        return self._finding("update", spoilt, step) if spoilt else None

    @staticmethod
    def _finding(place: str, what: str, step: int) -> Finding:
        return Finding(place=place, what=what, step=step, advice=_ADVICE[place])


def _all_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no tensor holds a NaN or an infinity. This waits for the device once."""
    largest = torch._foreach_norm([tensor.detach() for tensor in tensors if tensor.numel()], math.inf)
    return bool(torch.isfinite(torch.stack([norm.float() for norm in largest])).all())


def _first_bad(named: Iterable[tuple[str, Tensor]]) -> str | None:
    """Return a description of the first tensor that holds a NaN or an infinity."""
    for name, tensor in named:
        if tensor.is_floating_point():
            bad = int((~torch.isfinite(tensor)).sum())
            if bad:
                return f"{bad:,} of {tensor.numel():,} values of {name!r}"
    return None


class _watch_outputs:  # noqa: N801 - used like a function
    """While open, note each module whose output is not finite, inner modules first, as the forward pass ends them."""

    def __init__(self, model: nn.Module, seen: list[str]) -> None:
        self._modules = list(model.named_modules())
        self._seen = seen

    def __enter__(self) -> None:
        self._handles = [module.register_forward_hook(self._hook(name)) for name, module in self._modules]

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, _inputs: Any, output: Any) -> None:
            label = f"{name or 'the model'} ({type(module).__name__})"
            tensors = [leaf.detach() for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
            spoilt = _first_bad((label, tensor) for tensor in tensors)
            if spoilt:
                self._seen.append(spoilt)

        return look
