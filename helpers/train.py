"""The training loop.

It reads like the loop of a textbook. What sets it apart is that it never waits for the device within an
epoch: losses and counts stay there and are read once (:meth:`Totals.read`). Precision, accumulation,
clipping, schedules and graph execution are options of this one loop.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm.auto import tqdm

from helpers import explain, graph_step, nonfinite
from helpers.config import TrainConfig
from helpers.errors import CourseError
from helpers.history import EpochRecord, History, Metrics
from helpers.optim import TrainState

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""Takes logits ``[B, classes]`` and labels ``[B]``; returns the mean loss over the batch, a scalar."""

Loader = Iterable[Any]
"""Yields ``(images [B, …], labels [B])``: :class:`helpers.data.Batches`, a ``DataLoader``, a list."""

_DRAIN_STEPS = 1_000
"""Steps after which the losses and hits kept on the device are packed together, so that long epochs stay small."""


class Totals:
    """Loss and correct answers of many batches, kept on the device until someone asks."""

    def __init__(self) -> None:
        self._losses: list[Tensor] = []
        self._hits: list[Tensor] = []
        self._packed: list[tuple[Tensor, Tensor]] = []
        self._samples: list[int] = []

    def add(self, loss: Tensor, hits: Tensor) -> None:
        """Count one batch. Nothing here waits for the device, and nothing is computed yet.

        Args:
            loss: Mean loss of the batch, a scalar.
            hits: Which samples were answered right, bool ``[B]``; see :func:`answered_right`.

        Raises:
            ValueError: If the loss is not one number.
        """
        if loss.ndim:
            raise ValueError(f"the loss has shape {list(loss.shape)}; expected one number, the batch's mean.")
        self._losses.append(loss)
        self._hits.append(hits)
        self._samples.append(len(hits))
        if len(self._losses) == _DRAIN_STEPS:
            self._pack()

    def read(self) -> tuple[Metrics, list[float]]:
        """Return the metrics and each batch's loss. This waits for the device: call it once an epoch.

        Raises:
            CourseError: If no batch was counted.
        """
        if not self._samples:
            raise CourseError("the loader yielded no batch; give it at least one full batch if drop_last=True.")
        self._pack()
        losses = torch.cat([losses for losses, _ in self._packed]).cpu().double()  # the one sync point
        correct = int(torch.stack([correct for _, correct in self._packed]).sum())
        samples = sum(self._samples)
        weights = torch.tensor(self._samples, dtype=torch.float64)
        mean = float((losses * weights).sum() / samples)  # by samples: a short last batch counts for less
        return Metrics(loss=mean, accuracy=correct / samples, samples=samples), losses.tolist()

    def latest(self) -> float:
        """Return the latest batch's loss. This waits for the device."""
        return float(self._losses[-1] if self._losses else self._packed[-1][0][-1])

    def _pack(self) -> None:
        if self._losses:
            self._packed.append((torch.stack(self._losses), torch.cat(self._hits).sum()))
            self._losses, self._hits = [], []


@dataclass(frozen=True, kw_only=True)
class EpochEnd:
    """What a callback sees when an epoch has ended."""

    model: nn.Module
    state: TrainState
    record: EpochRecord
    history: History

    def stop(self, reason: str) -> None:
        """End the run after this epoch; the reason is kept in :attr:`History.stopped`."""
        self.history.stopped = reason


Callback = Callable[[EpochEnd], object]


def fit(
    model: nn.Module,
    train: Loader,
    config: TrainConfig | None = None,
    *,
    evaluate_on: Loader | None = None,
    loss_fn: LossFunction = functional.cross_entropy,
    state: TrainState | None = None,
    callbacks: Sequence[Callback] = (),
) -> History:
    """Train a classifier in place.

    Args:
        model: Takes ``[B, …]``, returns logits ``[B, classes]``. It is moved to the device.
        train: Batches to learn from. If it has ``set_epoch``, that is called before each epoch.
        config: Settings; the defaults train the course's MLP.
        evaluate_on: Batches to score after each epoch.
        loss_fn: Mean loss of a batch.
        state: Optimizer, scheduler, scaler and epoch to continue from; made from the config if None.
        callbacks: Called in order after each epoch.

    Returns:
        One record per epoch run here.

    Raises:
        BatchError: If a batch does not fit the model, or a label is not one of its classes.
        NonFiniteLoss: If the loss is NaN or infinite; says at which step, and where it came from.
        CourseError: If a loader yields nothing, or can be read once only and is needed more often.
        ConfigError: If a setting cannot be honoured here, or the state belongs to another model or config.
    """
    config = config or TrainConfig()
    device = pick_device(config.device)
    model.to(device)
    state = state or TrainState.create(model, config, steps_per_epoch=_length(train))
    state.check_belongs(model, config)
    for name, batches in (("train", train), ("evaluate_on", evaluate_on)):
        _check_repeatable(name, batches, config.epochs - state.epoch)
    history = History()
    with graph_step.enabled(config.compile):
        while state.epoch < config.epochs and history.stopped is None:
            record, step_losses = _fit_epoch(model, train, config, device, loss_fn, state, evaluate_on)
            history.epochs.append(record)
            history.step_losses.extend(step_losses)
            state.epoch += 1
            for callback in callbacks:
                callback(EpochEnd(model=model, state=state, record=record, history=history))
    return history


def _fit_epoch(
    model: nn.Module,
    train: Loader,
    config: TrainConfig,
    device: torch.device,
    loss_fn: LossFunction,
    state: TrainState,
    evaluate_on: Loader | None,
) -> tuple[EpochRecord, list[float]]:
    """Run one epoch and score it."""
    set_epoch(train, state.epoch)
    replay = nonfinite.ReplayPoint.take(model, state, train)
    start = time.perf_counter()
    totals = train_epoch(model, train, state, config, loss_fn=loss_fn, device=device)
    metrics, step_losses = totals.read()
    seconds = time.perf_counter() - start
    nonfinite.check(step_losses, replay, model=model, batches=train, config=config, loss_fn=loss_fn, state=state)
    scored = evaluate(model, evaluate_on, loss_fn=loss_fn, device=device) if evaluate_on is not None else None
    return EpochRecord(epoch=state.epoch, train=metrics, evaluation=scored, seconds=seconds), step_losses


def train_epoch(
    model: nn.Module,
    batches: Loader,
    state: TrainState,
    config: TrainConfig,
    *,
    loss_fn: LossFunction = functional.cross_entropy,
    device: torch.device,
) -> Totals:
    """Train on every batch once and return the sums, still on the device.

    A model in evaluation mode is switched to training. One in training mode is left as it is, so that
    single modules in evaluation mode, such as a frozen batch normalisation, stay so.
    """
    if not model.training:
        model.train()
    state.drop_gradients()  # what an interrupted run or a call of backward() by hand has left
    totals = Totals()
    forward_backward = graph_step.compiled(forward_backward_eager) if config.compile else forward_backward_eager
    with contextlib.closing(_progress(batches, state, config, totals)) as pairs:
        for images, labels in pairs:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            weight = state.window.weigh(len(labels))
            try:
                totals.add(*forward_backward(model, images, labels, loss_fn, state, weight))
            except explain.CAUSES as error:
                explain.fail(error, model, images, labels, loss_fn)
            if state.window.full:
                state.update(config)
    if not state.window.empty:  # the epoch ended within an accumulation window
        state.update(config)
    return totals


def forward_backward_eager(
    model: nn.Module, images: Tensor, labels: Tensor, loss_fn: LossFunction, state: TrainState, weight: float
) -> tuple[Tensor, Tensor]:
    """Add this batch's gradients to the parameters; return its loss, detached, and which answers were right."""
    with state.autocast():
        logits = model(images)
        loss = loss_fn(logits, labels)
    torch.autograd.backward(state.scaler.scale(loss * weight if weight != 1 else loss))
    return loss.detach(), answered_right(logits, labels)


def answered_right(logits: Tensor, labels: Tensor) -> Tensor:
    """Return which samples got their highest score for the right class, bool ``[B]``."""
    return logits.argmax(1) == labels


def train_step(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    state: TrainState,
    config: TrainConfig,
    *,
    loss_fn: LossFunction = functional.cross_entropy,
) -> Tensor:
    """Take one step on one batch that is already on the device; return the loss, detached.

    Raises:
        BatchError: If the batch does not fit the model.
    """
    images, labels = explain.pair((images, labels))
    if state.window.empty:
        state.drop_gradients()
    weight = state.window.weigh(len(labels))
    try:
        loss, _ = forward_backward_eager(model, images, labels, loss_fn, state, weight)
    except explain.CAUSES as error:
        explain.fail(error, model, images, labels, loss_fn)
    if state.window.full:
        state.update(config)
    return loss


def evaluate(
    model: nn.Module,
    batches: Loader,
    *,
    loss_fn: LossFunction = functional.cross_entropy,
    device: torch.device | str = "auto",
) -> Metrics:
    """Score a model without changing it: no gradients, dropout off, running statistics left alone.

    Args:
        model: Takes ``[B, …]``, returns logits ``[B, classes]``; its mode is as before when this returns.
        batches: What to score.
        loss_fn: Mean loss of a batch.
        device: Where to compute.

    Raises:
        BatchError: If a batch does not fit the model.
        CourseError: If there is no batch.
    """
    device = pick_device(device) if isinstance(device, str) else device
    model.to(device)
    totals = Totals()
    with evaluation_mode(model), torch.inference_mode():
        for batch in batches:
            images, labels = explain.pair(batch)
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            try:
                logits = model(images)
                totals.add(loss_fn(logits, labels), answered_right(logits, labels))
            except explain.CAUSES as error:
                explain.fail(error, model, images, labels, loss_fn)
    return totals.read()[0]


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch every module to evaluation, and each back to the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def pick_device(name: str = "auto") -> torch.device:
    """Return the device of that name; ``auto`` is the accelerator where there is one.

    Raises:
        CourseError: If PyTorch knows no such device, or it is not there.
    """
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise CourseError(f"device {name!r} cannot be used here ({error}). Use 'auto' or 'cpu'.") from error
    return device


def set_epoch(batches: Loader, epoch: int) -> None:
    """Tell the loader, or its sampler, which epoch begins, if it wants to know."""
    batch_sampler = getattr(batches, "batch_sampler", None)
    parts = (batches, getattr(batches, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None))
    for part in {id(part): part for part in parts}.values():
        if callable(announce := getattr(part, "set_epoch", None)):
            announce(epoch)


def _length(batches: Loader) -> int | None:
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:  # no __len__, or a DataLoader over a dataset that has none
        return None


def _check_repeatable(name: str, batches: Loader | None, passes: int) -> None:
    if isinstance(batches, Iterator) and passes > 1:
        raise CourseError(
            f"{name} is a {type(batches).__name__}, which can be read once, but {passes} epochs are to be run. "
            "Give a list, a DataLoader or helpers.data.Batches, or set epochs=1."
        )


def _progress(
    batches: Loader, state: TrainState, config: TrainConfig, totals: Totals
) -> Generator[tuple[Tensor, Tensor], None, None]:
    """Yield the batches, checking their form, behind a progress bar."""
    title = f"epoch {state.epoch + 1}/{config.epochs}"
    # An iterator, not the loader: tqdm.auto calls iter() twice, which would start a DataLoader's workers twice.
    once, total = iter(batches), _length(batches)
    with tqdm(once, total=total, desc=title, unit="batch", leave=False, disable=not config.progress) as bar:
        for step, batch in enumerate(bar):
            yield explain.pair(batch)
            if config.log_every and (step + 1) % config.log_every == 0:
                bar.set_postfix(loss=f"{totals.latest():.4f}")  # a sync point, asked for
