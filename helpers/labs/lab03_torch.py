"""The checks of lab 03 in PyTorch: the job's model and its losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from helpers import data, models
from helpers.labs.judge import shown
from helpers.labs.lab03_job import keras_job
from helpers.labs.tasks import Verdict, correct, incorrect

_BATCH, _SAMPLES, _EPOCHS = 32, 116, 2
"""Three whole batches and a short one, twice."""
_SIDE = 4
"""Of the square test model's images: with equal sizes everywhere, a kernel that is not transposed fits all the same."""
_RTOL = 1e-3
_LR, _MOMENTUM, _PENALTY = 0.05, 0.9, 1e-3


def to_torch(answer: Callable[..., Any]) -> Verdict:
    """Check ``to_torch(keras_model)`` on a model whose layers are square, and on the job's."""
    width = _SIDE * _SIDE
    square = keras_job((_SIDE, _SIDE, 1), hidden=width, classes=width)
    for keras_model, side in ((square, _SIDE), (keras_job(), 28)):
        rng = np.random.default_rng(0)
        weights = [rng.normal(0, 0.3, array.shape).astype(np.float32) for array in keras_model.get_weights()]
        keras_model.set_weights(weights)
        model = answer(keras_model)
        if not isinstance(model, nn.Module):
            return incorrect("Return the PyTorch model.", saw=shown(model), expected="a `torch.nn.Module`")
        images = torch.from_numpy(rng.normal(size=(5, 1, side, side)).astype(np.float32))
        found = model(images).detach().numpy()
        wanted = keras_model(images.permute(0, 2, 3, 1).numpy()).numpy()
        if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=1e-3, atol=1e-4):
            return _model_mistake(found, wanted, weights, images.flatten(1).numpy())
    return correct("Both models give the same logits for the same images, for layers of any width.")


def _model_mistake(found: Any, wanted: Any, weights: Sequence[Any], pixels: Any) -> Verdict:
    """Name the mistake of a model with other outputs, by making each likely mistake and comparing."""
    first, bias, second, last = weights
    expected = f"logits {_row(wanted)}"

    def outputs(kernel: Any, kernel2: Any, *, biased: bool = True, relu: bool = True) -> Any:
        inner = pixels @ kernel + biased * bias
        return (np.maximum(inner, 0) if relu else inner) @ kernel2 + biased * last

    mistakes: dict[str, Callable[[], Any]] = {
        "The kernels are copied as they are. Keras stores them as `[in, out]`, PyTorch as `[out, in]`.": (
            lambda: outputs(first.T, second.T)
        ),
        "The kernels are right, the biases are not copied.": lambda: outputs(first, second, biased=False),
        "The weights are right, but between the two layers the ReLU is missing: in Keras it hides in "
        '`activation="relu"`.': lambda: outputs(first, second, relu=False),
    }
    square = first.shape == first.T.shape and second.shape == second.T.shape
    for number, (message, mistaken) in enumerate(mistakes.items()):
        if (number > 0 or square) and found.shape == wanted.shape and np.allclose(found, mistaken(), atol=1e-3):
            return incorrect(message, saw=f"logits {_row(found)}", expected=expected)
    return incorrect(
        "The logits differ from Keras's for the same images: are all four arrays of `get_weights()` copied, each to "
        "its layer?",
        saw=f"logits {_row(found)} of shape {list(found.shape)}",
        expected=f"{expected} of shape {list(wanted.shape)}",
    )


def torch_fit(answer: Callable[..., Any]) -> Verdict:
    """Check ``torch_fit(model, batches, epochs)``: the losses of every step, against Keras's own ``fit``."""
    split = data.load("digits").train.first(_SAMPLES)
    start = _start_model()
    model = _start_model()
    models.same_weights(model, start)
    found = answer(model, split.batches(_BATCH), _EPOCHS)
    right = _keras_losses(start, split)
    if not isinstance(found, list | tuple) or len(found) != len(right):
        return incorrect(
            "Return the loss of every step, in order.", saw=shown(found), expected=f"a list of {len(right)} numbers"
        )
    losses = [float(loss) for loss in found]
    if np.allclose(losses, right, rtol=_RTOL):
        return correct(f"All {len(right)} losses agree with Keras's `fit` within {_RTOL:g} relative.")
    return _fit_mistake(losses, right, start, split)


def _keras_losses(start: nn.Module, split: data.Split) -> list[float]:
    """Train the job with Keras's ``fit`` from the same weights and return the loss of every step."""
    from helpers.tf import data as tf_data
    from helpers.tf import models as tf_models
    from helpers.tf.keras import LoggedLosses, undo_running_mean

    job, logged = keras_job(), LoggedLosses()
    tf_models.copy_weights(start, job)
    dataset = tf_data.batches(split, _BATCH)
    job.fit(dataset, epochs=_EPOCHS, shuffle=False, verbose=0, callbacks=[logged])
    steps = len(dataset)
    sizes = [min(_BATCH, len(split) - _BATCH * step) for step in range(steps)]
    parts = (logged.values[at : at + steps] for at in range(0, len(logged.values), steps))
    return [loss for part in parts for loss in undo_running_mean(part, sizes)]


def _start_model() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return models.mlp(hidden=32)


def _fit_mistake(losses: list[float], right: Sequence[float], start: nn.Module, split: data.Split) -> Verdict:
    """Name the mistake of a loop with other losses, by making each likely mistake and comparing."""
    mistakes: dict[str, dict[str, Any]] = {
        "The first layer's L2 penalty is missing: Keras adds it to the loss.": {"penalty": 0.0},
        "The penalty is only followed, not counted (`weight_decay` does that), and it reaches the biases too. Add it "
        "to the loss, for the kernel of the first layer.": {"penalty": 0.0, "weight_decay": _PENALTY},
        "`weight_decay` with twice the factor follows the penalty for every weight and bias, and leaves it out of the "
        "loss. Add it to the loss, for the kernel of the first layer.": {"penalty": 0.0, "weight_decay": 2 * _PENALTY},
        "The penalty takes all weights. In the job only the first layer has a `kernel_regularizer`.": {"all": True},
        "The optimizer has no momentum; the job's has 0.9.": {"momentum": 0.0},
        "Gradients of earlier steps add up: `optimizer.zero_grad()` is missing.": {"zero": False},
    }
    saw, expected = _listed(losses), _listed(right)
    for message, settings in mistakes.items():
        if np.allclose(losses, _torch_losses(start, split, **settings), rtol=_RTOL / 10):
            return incorrect(message, saw=saw, expected=expected)
    if np.isclose(losses[0], right[0], rtol=_RTOL):
        return incorrect(
            "The first loss agrees, the update after it does not: compare learning rate and momentum with `compile`, "
            "and look whether every step clears, computes and applies its gradients.",
            saw=saw,
            expected=expected,
        )
    return incorrect(
        "Already the first loss differs: it is the cross-entropy of the batch plus the penalty of the first layer.",
        saw=saw,
        expected=expected,
    )


def _torch_losses(
    start: nn.Module,
    split: data.Split,
    *,
    penalty: float = _PENALTY,
    weight_decay: float = 0.0,
    momentum: float = _MOMENTUM,
    **faults: bool,
) -> list[float]:
    """Run the loop with these settings; ``all`` penalises every weight, ``zero=False`` forgets ``zero_grad``."""
    model = _start_model()
    models.same_weights(model, start)
    optimizer = torch.optim.SGD(model.parameters(), lr=_LR, momentum=momentum, weight_decay=weight_decay)
    penalised = list(model.parameters()) if faults.get("all") else [next(model.parameters())]
    losses = []
    for _ in range(_EPOCHS):
        for images, labels in split.batches(_BATCH):
            if faults.get("zero", True):
                optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels) + penalty * sum(p.square().sum() for p in penalised)
            torch.autograd.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return losses


def _row(logits: Any) -> str:
    return ", ".join(f"{value:.3f}" for value in np.ravel(logits)[:3]) + ", …"


def _listed(losses: Sequence[float]) -> str:
    return "losses " + ", ".join(f"{loss:.4f}" for loss in losses[:4]) + ", …"
