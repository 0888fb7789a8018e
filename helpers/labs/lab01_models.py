"""The checks of lab 01 that need another framework or another network: the step in TensorFlow, and ResNet18."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from helpers import data, models
from helpers import tf as helpers_tf
from helpers.labs.judge import shown
from helpers.labs.tasks import Verdict, correct, incorrect

_STEPS, _BATCH = 5, 64
_RTOL = 1e-4
"""How closely the losses of the two frameworks must agree; float32 sums in another order differ by less."""
_LR = 0.1
_FEATURES = 512
"""Numbers per image that reach ResNet18's last layer."""


@dataclass(kw_only=True)
class _Applied:
    """What the learner's step handed to the optimizer."""

    calls: int = 0
    missing: list[str] = field(default_factory=list)

    def watch(self, optimizer: Any) -> None:
        """Note each call of ``apply`` (``apply_gradients`` ends there too) and keep missing gradients from raising."""
        inner = optimizer.apply

        def apply(grads: Any, trainable_variables: Any = None) -> None:
            variables = list(trainable_variables or optimizer._trainable_variables)
            self.calls += 1
            self.missing += [v.path for gradient, v in zip(grads, variables, strict=True) if gradient is None]
            if not self.missing:
                inner(grads, variables)

        optimizer.apply = apply


def tf_train_step(answer: Callable[..., Any]) -> Verdict:
    """Check ``tf_train_step(model, x, y, optimizer, loss_fn)`` against the same steps in PyTorch."""
    from helpers.tf import models as tf_models

    tf = helpers_tf.tensorflow()
    digits = data.load("digits").train.first(_STEPS * _BATCH)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reference = models.mlp()
    twin = tf_models.mlp()
    tf_models.copy_weights(reference, twin)
    right = _torch_losses(reference, digits)
    optimizer = tf.keras.optimizers.SGD(_LR)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    applied = _Applied()
    applied.watch(optimizer)
    returned = [
        answer(twin, tf.constant(x.permute(0, 2, 3, 1).numpy()), tf.constant(y.numpy()), optimizer, loss_fn)
        for x, y in digits.batches(_BATCH)
    ]
    if applied.missing:
        return incorrect(
            "The tape did not see how the loss comes from the variables: the forward pass and the loss belong inside "
            "`with tf.GradientTape() as tape:`.",
            saw=f"no gradient (`None`) for {len(set(applied.missing))} of {len(twin.trainable_variables)} variables",
            expected="a gradient for each",
        )
    return _tf_losses(returned, right, applied.calls)


def _torch_losses(model: nn.Module, split: data.Split) -> list[float]:
    """Train with plain SGD over the split once and return the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=_LR)
    losses = []
    for x, y in split.batches(_BATCH):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def _tf_losses(returned: Sequence[Any], right: Sequence[float], applied: int) -> Verdict:
    """Compare the losses that the learner's step returned with PyTorch's."""
    if any(value is None or getattr(value, "shape", ()) != () for value in returned):
        return incorrect(
            "Return the loss of the batch, one number.", saw=shown(returned[0]), expected="a tensor of one number"
        )
    losses = [float(value) for value in returned]
    wrong = [i for i, (a, b) in enumerate(zip(losses, right, strict=True)) if not math.isclose(a, b, rel_tol=_RTOL)]
    seen, wanted = _listed(losses), _listed(right)
    if not wrong:
        return correct(f"The first {_STEPS} losses agree with PyTorch's within {_RTOL:g} relative.")
    if wrong[0] == 0:
        return incorrect(
            "Already the first loss differs, before any update: is it `loss_fn(y, model(x))`, labels first, on logits?",
            saw=seen,
            expected=wanted,
        )
    if not applied:
        return incorrect(
            "The first loss agrees and then no variable moves: the gradients are never given to the optimizer.",
            saw=seen,
            expected=wanted,
        )
    return incorrect(
        "The first loss agrees, the update after it does not: are the gradients those of this loss, applied once?",
        saw=seen,
        expected=wanted,
    )


def _listed(losses: Sequence[float]) -> str:
    return "losses " + ", ".join(f"{loss:.4f}" for loss in losses)


def make_resnet18(answer: Callable[..., Any]) -> Verdict:
    """Check ``make_resnet18(classes)``: the right network, the right outputs, and all of it learns."""
    for classes in (6, 11):
        model = answer(classes)
        if (wrong := _architecture_mistake(model)) or (wrong := _output_mistake(model, classes)):
            return wrong
    return correct("ResNet18 with one output per class, fresh weights, and a gradient for every parameter.")


def _architecture_mistake(model: Any) -> Verdict | None:
    """Return the verdict on something that is not a ResNet18 with a fitting last layer."""
    if not isinstance(model, nn.Module):
        return incorrect("Return the model.", saw=shown(model), expected="a `torch.nn.Module`")
    convolutions = sum(isinstance(part, nn.Conv2d) for part in model.modules())
    wanted = sum(isinstance(part, nn.Conv2d) for part in models.resnet18(2).modules())
    if convolutions != wanted:
        return incorrect(
            "This is another network than ResNet18.",
            saw=f"{convolutions} convolutions",
            expected=f"{wanted} convolutions, as in `torchvision.models.resnet18`",
        )
    features = getattr(getattr(model, "fc", None), "in_features", _FEATURES)
    if features != _FEATURES:
        return incorrect(
            "The new last layer does not fit what comes before it. The old one knows the size: `model.fc.in_features`.",
            saw=f"`in_features={features}`",
            expected=f"`in_features={_FEATURES}`",
        )
    return None


def _output_mistake(model: nn.Module, classes: int) -> Verdict | None:
    """Return the verdict on outputs of the wrong number or kind, and on parameters that cannot learn."""
    images = data.load("shapes", samples=8).train.first(4).images
    output = model(images)
    if tuple(output.shape) != (len(images), classes):
        return incorrect(
            f"The network must have one output per class, also when it is asked for {classes}.",
            saw=f"{tuple(output.shape)[-1]} outputs for {classes} classes",
            expected=f"{classes} outputs",
        )
    if torch.allclose(output.sum(dim=1), torch.ones(len(images)), atol=1e-4):
        return incorrect(
            "The outputs are probabilities. `cross_entropy` takes logits and applies the softmax itself.",
            saw="outputs that sum to 1 for each image",
            expected="logits, straight from the last `Linear`",
        )
    torch.autograd.backward(F.cross_entropy(output, torch.zeros(len(images), dtype=torch.int64)))
    frozen = sum(parameter.grad is None for parameter in model.parameters())
    if frozen:
        return incorrect(
            "Part of the network is frozen and keeps its random weights for ever.",
            saw=f"{frozen} of {sum(1 for _ in model.parameters())} parameters without a gradient",
            expected="a gradient for every parameter",
        )
    return None
