"""The checks of lab 01: each looks at what the learner's function does to a model, never at its text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from helpers import data, models, seeding
from helpers.claims import measured
from helpers.labs.judge import shown
from helpers.labs.probes import Diary, diary
from helpers.labs.tasks import Verdict, correct, incorrect
from helpers.reads import count_reads

Batch = tuple[Tensor, Tensor]

_SIZES = (8, 8, 8, 3)
"""Batch sizes with a short last one, so that averages over batches and over samples differ."""
_EPOCHS, _GOOD = 3, 0.85
"""Epochs of training on the digits, and the least test accuracy after them."""
_RIGHT_ORDER = "`zero_grad` → `forward` → `loss` → `backward` → `step`"


def train_step(answer: Callable[..., Any]) -> Verdict:
    """Check ``train_step(model, x, y, optimizer, loss_fn)`` against a reference over several steps."""
    batches = _batches(features=6, classes=3)
    losses, positions = _reference_run(batches)
    model, optimizer = _model_and_optimizer()
    returned = []
    with diary(model, optimizer) as book:

        def loss_fn(prediction: Tensor, target: Tensor) -> Tensor:
            book.note("loss")
            return F.cross_entropy(prediction, target)

        for (x, y), before, after in zip(batches, positions, positions[1:], strict=False):
            book.events.clear()
            returned.append(answer(model, x, y, optimizer, loss_fn))
            if not torch.allclose(_flat(model), after, atol=1e-6):  # at the first wrong step: later ones may raise
                factor = float((_flat(model) - before).norm() / (after - before).norm())
                return _step_mistake(book, factor)
    return _step_result(returned, losses)


def _step_mistake(book: Diary, factor: float) -> Verdict:
    """Name the mistake of a step that moves the parameters wrongly.

    Args:
        book: The calls that it made, in order.
        factor: How far it moved the parameters, as a multiple of the right distance.
    """
    order = book.order()

    def wrong(message: str) -> Verdict:
        return incorrect(message, saw=book.text(), expected=_RIGHT_ORDER)

    if "backward" not in order:
        return wrong("No gradient reached the parameters: `loss.backward()` is missing.")
    if "step" not in order:
        return wrong("The gradients are computed but no parameter moves: `optimizer.step()` is missing.")
    if order.index("step") < order.index("backward"):
        return wrong("The optimizer steps before the gradients of this batch exist: it uses none, or the last batch's.")
    between = order[order.index("backward") : order.index("step")]
    if "zero_grad" in between:
        return wrong("The gradients are cleared after `backward` and before `step`, so the optimizer finds nothing.")
    if "zero_grad" not in order:
        return wrong("Gradients of earlier batches are still there and add up: `optimizer.zero_grad()` is missing.")
    if "loss" not in order:
        return wrong("The loss that is followed backwards does not come from `loss_fn`: call the one you are given.")
    return incorrect(
        "The calls are in order, but the parameters move by the wrong amount: is the loss scaled, or `backward` or "
        "`step` called twice?",
        saw=f"a step {factor:.3g} times as long as it should be",
        expected="1 time: the step along the gradient of `loss_fn(model(x), y)` as it is",
    )


def _step_result(returned: Sequence[Any], losses: Sequence[float]) -> Verdict:
    """Check what a step returns, given that it moves the parameters rightly."""
    value = returned[-1]
    wanted = "the batch's loss as a tensor of one number, detached from the graph"
    if value is None:
        return incorrect("The parameters move rightly, but the loss is not returned.", saw=shown(None), expected=wanted)
    if not isinstance(value, Tensor):
        return incorrect(
            "The parameters move rightly, but the loss comes back as a Python value: reading it at every step "
            "makes the host wait for the device.",
            saw=shown(value),
            expected=wanted,
        )
    if value.requires_grad:
        return incorrect(
            "The parameters move rightly, but the loss still holds its graph: who adds such losses up keeps the "
            "activations of every step in memory. Return `loss.detach()`.",
            saw="a tensor with `requires_grad=True`",
            expected=wanted,
        )
    if value.numel() != 1 or not all(
        math.isclose(float(a), b, rel_tol=1e-4) for a, b in zip(returned, losses, strict=True)
    ):
        return incorrect(
            "The parameters move rightly, but what is returned is not the loss of the batch before the step.",
            saw=shown(value) if value.numel() != 1 else f"a last loss of {float(value):.4g}",
            expected=f"{losses[-1]:.4g}" if value.numel() == 1 else wanted,
        )
    return correct(f"After {len(losses)} steps every parameter equals the reference, and each step returns its loss.")


def train_epoch(answer: Callable[..., Any]) -> Verdict:
    """Check ``train_epoch(step, batches)``: weighted by samples, one read of the device per epoch."""
    losses = [1.0, 0.8, 0.6, 3.0]
    calls: list[int] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        calls.append(len(y))
        return torch.tensor(losses[(len(calls) - 1) % len(losses)])

    batches = _batches(features=2, classes=2)
    value, reads = count_reads(lambda: answer(step, batches))
    seen = len(calls)
    _, reads_of_twice = count_reads(lambda: answer(step, [*batches, *batches]))
    if seen != len(batches):
        return incorrect(
            "Each batch must go through `step` exactly once.",
            saw=f"{seen} calls of `step`",
            expected=f"{len(batches)} calls for {len(batches)} batches",
        )
    if not isinstance(value, float):
        return incorrect("Return the epoch's loss as a Python float.", saw=shown(value), expected="a `float`")
    right = sum(loss * size for loss, size in zip(losses, _SIZES, strict=True)) / sum(_SIZES)
    if not math.isclose(value, right, rel_tol=1e-5):
        return _epoch_mistake(value, right, losses)
    if reads_of_twice > reads:
        return incorrect(
            "The loss is right, but it is read at every step: on a GPU each read stops the host until the device "
            "has caught up. Add tensors up and read once, after the loop.",
            saw=f"{reads} reads for {len(batches)} batches, {reads_of_twice} for {2 * len(batches)}",
            expected="the same number for both, such as 1",
        )
    return correct("The loss is weighted by samples, and the host reads the device no more often in a longer epoch.")


def _epoch_mistake(value: float, right: float, losses: Sequence[float]) -> Verdict:
    """Name the mistake that gives this wrong epoch loss."""
    weighted = [loss * size for loss, size in zip(losses, _SIZES, strict=True)]
    mistakes = {
        sum(losses) / len(losses): "This is the average over batches. The last batch has fewer samples than the "
        "others and must count for less.",
        sum(losses): "This is the sum of the batch losses. Weight each by its samples and divide by all samples.",
        sum(weighted): "This is the sum over samples. Divide it by the number of samples.",
        sum(weighted) / len(losses): "The sum over samples was divided by the number of batches. Divide it by the "
        "number of samples.",
        losses[-1]: "This is the loss of the last batch alone. Add up all of them.",
    }
    for wrong, message in mistakes.items():
        if math.isclose(value, wrong, rel_tol=1e-5):
            return incorrect(message, saw=f"{value:.4g}", expected=f"{right:.4g}")
    return incorrect("The epoch's loss is not the mean over samples.", saw=f"{value:.4g}", expected=f"{right:.4g}")


class _Watched(nn.Module):
    """A small classifier with batch norm that remembers in which state it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.out = nn.Linear(6, 3)
        self.training_seen: list[bool] = []
        self.grad_seen: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[N, 3]`` for features ``[N, 6]``."""
        self.training_seen.append(self.training)
        self.grad_seen.append(torch.is_grad_enabled())
        out: Tensor = self.out(self.norm(x))
        return out


def evaluate(answer: Callable[..., Any]) -> Verdict:
    """Check ``evaluate(model, batches)``: mode, gradients, mode given back, and the accuracy."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _Watched()
    batches = _labelled_by(model, _batches(features=6, classes=3))
    model.training_seen.clear()
    model.grad_seen.clear()
    found = {}
    for before in (True, False):
        model.train(before)
        value = answer(model, batches)
        found[before] = model.training
    if any(model.training_seen):
        return incorrect(
            "The model ran in training mode: dropout stays on, and the test data change batch norm's statistics.",
            saw="`model.training` was True during the forward passes",
            expected="`model.eval()` before the loop",
        )
    if any(model.grad_seen):
        return incorrect(
            "Gradients were recorded: every activation is kept for a backward pass that never comes.",
            saw="gradient recording was on during the forward passes",
            expected="the loop under `torch.no_grad()` or `torch.inference_mode()`",
        )
    if (wrong := _mode_mistake(found)) is not None:
        return wrong
    return _accuracy_verdict(value)


def _mode_mistake(found: dict[bool, bool]) -> Verdict | None:
    """Return the verdict on a mode that was not given back; ``found`` maps the mode before to the mode after."""
    if not found[True]:
        return incorrect(
            "The model is left in evaluation mode: the next epoch trains without dropout and with frozen batch norm.",
            saw="`model.training` was True before and is False after",
            expected="the mode in which the model came",
        )
    if found[False]:
        return incorrect(
            "The model always ends in training mode, also when it came in evaluation mode.",
            saw="`model.training` was False before and is True after",
            expected="the mode in which the model came",
        )
    return None


_HITS = (8, 4, 2, 0)
"""How many samples of each batch are labelled as the model predicts them."""


def _labelled_by(model: nn.Module, batches: Sequence[Batch]) -> list[Batch]:
    """Label batches so that the model gets ``_HITS`` of them right."""
    model.eval()
    labelled = []
    with torch.no_grad():
        for hits, (x, _) in zip(_HITS, batches, strict=True):
            y = model(x).argmax(dim=1)
            y[hits:] = (y[hits:] + 1) % 3
            labelled.append((x, y))
    return labelled


def _accuracy_verdict(value: Any) -> Verdict:
    """Check the accuracy that an evaluation returned."""
    right = sum(_HITS) / sum(_SIZES)
    if not isinstance(value, float):
        return incorrect("Return the accuracy as a Python float.", saw=shown(value), expected="a `float` from 0 to 1")
    if math.isclose(value, right, rel_tol=1e-5):
        return correct("Evaluation mode, no gradients, the mode given back, and the accuracy is over samples.")
    shares = [hits / size for hits, size in zip(_HITS, _SIZES, strict=True)]
    mistakes = {
        sum(shares) / len(shares): "This is the average over batches, in which the short last batch counts too much.",
        float(sum(_HITS)): "This is the number of hits. Divide it by the number of samples.",
        100 * right: "This is a percentage. Return a fraction from 0 to 1.",
        sum(_HITS)
        / len(_HITS): "The hits were divided by the number of batches. Divide them by the number of samples.",
        shares[-1]: "This is the accuracy of the last batch alone.",
    }
    message = next((text for wrong, text in mistakes.items() if math.isclose(value, wrong, rel_tol=1e-5)), None)
    return incorrect(
        message or "The accuracy is not the share of samples whose largest output is their label.",
        saw=f"{value:.4g}",
        expected=f"{right:.4g}",
    )


class _Counted:
    """Batches of real data that count how often they were gone through."""

    def __init__(self, batches: data.Batches) -> None:
        self._batches = batches
        self.passes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        self.passes += 1
        return iter(self._batches)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, which decides the order."""
        self._batches.set_epoch(epoch)


def fit(answer: Callable[..., Any]) -> Verdict:
    """Check ``fit(model, train, test, optimizer, loss_fn, epochs)`` by training on the embedded digits."""
    digits = data.load("digits")
    train, test = _Counted(digits.train.batches(64, shuffle=True)), _Counted(digits.test.batches(128))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = models.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    history = answer(model, train, test, optimizer, F.cross_entropy, _EPOCHS)
    if not _is_history(history):
        return incorrect(
            "Return a list with one pair of training loss and test accuracy for each epoch.",
            saw=shown(history),
            expected=f"a list of {_EPOCHS} pairs of floats",
        )
    if (train.passes, test.passes) != (_EPOCHS, _EPOCHS):
        return incorrect(
            "Each epoch goes through the training batches once and through the test batches once.",
            saw=f"{train.passes} passes over `train` and {test.passes} over `test` in {_EPOCHS} epochs",
            expected=f"{_EPOCHS} and {_EPOCHS}",
        )
    return _learned(model, digits.test, history)


def _is_history(history: Any) -> bool:
    """Tell whether this is a list of one pair of floats per epoch."""
    return (
        isinstance(history, list)
        and len(history) == _EPOCHS
        and all(
            isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(n, float) for n in pair)
            for pair in history
        )
    )


def _learned(model: nn.Module, test: data.Split, history: Sequence[tuple[float, float]]) -> Verdict:
    """Check that training on the digits worked and that the last accuracy is the trained model's."""
    model.eval()
    with torch.no_grad():
        right = float((model(test.images).argmax(dim=1) == test.labels).float().mean())
    (first, _), (last, accuracy) = history[0], history[-1]
    if right < _GOOD or last >= first:
        return incorrect(
            "The loop runs, but the model does not learn the digits. Is each batch given to `train_step`?",
            saw=f"a test accuracy of {right:.2f}, losses from {first:.3g} to {last:.3g}",
            expected=f"at least {_GOOD:.2f}, and falling losses",
        )
    if not math.isclose(accuracy, right, abs_tol=1e-6):
        return incorrect(
            "The last pair does not hold the trained model's accuracy on `test`. Evaluate after the epoch, on `test`.",
            saw=f"{accuracy:.4f}",
            expected=f"{right:.4f}",
        )
    share = measured(100 * right, "%")
    return correct(f"{_EPOCHS} epochs on the digits: the loss falls, and {share} of the test set is right.")


def _batches(*, features: int, classes: int) -> list[Batch]:
    """Return seeded random batches of the sizes in ``_SIZES``."""
    draw = seeding.generator(1)
    return [
        (torch.randn(size, features, generator=draw), torch.randint(classes, (size,), generator=draw))
        for size in _SIZES
    ]


def _model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the same small network each time, and its optimizer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _reference_run(batches: Iterable[Batch]) -> tuple[list[float], list[Tensor]]:
    """Train the small network over the batches; return the losses, and its parameters before and after each step."""
    model, optimizer = _model_and_optimizer()
    losses, positions = [], [_flat(model)]
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
        positions.append(_flat(model))
    return losses, positions


def _flat(model: nn.Module) -> Tensor:
    """Return all parameters as one vector, copied."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
