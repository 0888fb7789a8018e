"""The checks of lab 03 in TensorFlow: each compares with what Keras's own ``fit`` would have done."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from helpers import tf as helpers_tf
from helpers.labs.judge import shown
from helpers.labs.tasks import Verdict, correct, incorrect

_MEANS_SIZES = (8, 8, 8, 3)
_TRUE_LOSSES = (2.0, 1.0, 1.5, 0.5)
_RTOL = 1e-4
_STEPS = 3
_EPOCHS = 2


def batch_losses(answer: Callable[..., Any]) -> Verdict:
    """Check ``batch_losses(means, sizes)`` on an epoch with a short last batch."""
    sizes, losses = np.array(_MEANS_SIZES), np.array(_TRUE_LOSSES)
    means = np.cumsum(losses * sizes) / np.cumsum(sizes)
    found = answer(means.tolist(), sizes.tolist())
    wanted = _listed(losses)
    if found is None or isinstance(found, int | float) or len(found) != len(losses):
        return incorrect(
            "There must be one loss for each batch.", saw=shown(found), expected=f"a list of {len(losses)} numbers"
        )
    values = [float(value) for value in found]
    if np.allclose(values, losses, rtol=_RTOL):
        return correct("Each batch's loss comes back, that of the short last batch included.")
    steps = np.arange(1, len(losses) + 1)
    mistakes = {
        "These are still the means over the epoch so far.": means,
        "Neighbouring means are subtracted as they are; turn them into sums first.": np.diff(means, prepend=0.0),
        "Every batch counts the same here, but the last one has fewer samples. Multiply by samples, not by steps.": (
            np.diff(means * steps, prepend=0.0)
        ),
        "These are the sums over each batch; divide by its samples.": losses * sizes,
    }
    for message, mistaken in mistakes.items():
        if np.allclose(values, mistaken, rtol=_RTOL):
            return incorrect(message, saw=_listed(values), expected=wanted)
    return incorrect("These are not the losses that the means are made of.", saw=_listed(values), expected=wanted)


def custom_step(answer: Callable[..., Any]) -> Verdict:
    """Check ``custom_step(model, optimizer, loss_fn, images, labels)`` against the step of ``fit``."""
    images, labels = _samples()
    model, reference = _regularised_model(), _regularised_model()
    reference.set_weights(model.get_weights())
    returned = [_call_step(answer, model, images, labels) for _ in range(_STEPS)]
    right = [_call_step(_right_step, reference, images, labels) for _ in range(_STEPS)]
    if same_weights(model, reference):
        return _returned_loss(returned, right)
    return _step_mistake(model, images, labels)


def _step_mistake(model: Any, images: Any, labels: Any) -> Verdict:
    """Name the mistake of a step that leaves other weights than ``fit``."""
    moving = model.layers[2].moving_mean.numpy()
    fresh = _regularised_model()
    if all(np.array_equal(now, then) for now, then in zip(_trained(model), _trained(fresh), strict=True)):
        return incorrect(
            "No variable moved: the gradients were never given to the optimizer.",
            saw="the weights of the start",
            expected="`optimizer.apply(gradients, model.trainable_variables)` once a step",
        )
    if not moving.any():
        return incorrect(
            "Batch normalisation never saw a batch: its moving mean did not move. `fit` calls the model with "
            "`training=True`.",
            saw="a moving mean of zeros",
            expected="about the mean of the activations",
        )
    for _ in range(_STEPS):
        _call_step(_step_without_penalty, fresh, images, labels)
    if same_weights(model, fresh):
        return incorrect(
            "The step follows the loss of the data alone. `fit` also follows what the layers add: the L2 penalty of "
            "the first layer, in `model.losses`.",
            saw="the weights of a run without the penalty",
            expected="those of a run with it",
        )
    return incorrect(
        "The weights differ from those after the same steps of `fit`: is the gradient that of the whole loss, and "
        "applied once?",
        saw=f"a first kernel with norm {np.linalg.norm(model.get_weights()[0]):.4f}",
        expected="the norm after the steps of `fit`",
    )


def _returned_loss(returned: Sequence[Any], right: Sequence[Any]) -> Verdict:
    """Check what the step returns, given that it moves the weights rightly."""
    wanted = _listed([float(value) for value in right])
    if any(value is None or getattr(value, "shape", None) != () for value in returned):
        return incorrect(
            "The weights move rightly. Return the loss too, as a tensor of one number.",
            saw=shown(returned[0]),
            expected=wanted,
        )
    found = [float(value) for value in returned]
    if not np.allclose(found, [float(value) for value in right], rtol=_RTOL):
        return incorrect(
            "The weights move rightly, but the loss is not the one that Keras reports, which includes the penalty.",
            saw=_listed(found),
            expected=wanted,
        )
    return correct(f"After {_STEPS} steps every weight, moving average and loss equals those of `fit`.")


def custom_fit(answer: Callable[..., Any]) -> Verdict:
    """Check ``custom_fit(step, dataset, epochs)``: the epochs' losses, and how often the step was traced."""
    tf = helpers_tf.tensorflow()
    losses, sizes = [2.0, 1.0, 1.5, 0.5], [8, 8, 8, 3]
    first = np.repeat(np.arange(len(sizes)), sizes)
    dataset = tf.data.Dataset.from_tensor_slices((first.astype(np.float32), first)).batch(sizes[0])
    table, taken, pythons = tf.constant(losses), tf.Variable(0), []

    def step(images: Any, labels: Any) -> Any:
        pythons.append(images.shape)
        epoch = tf.cast(taken // len(sizes), tf.float32)
        taken.assign_add(1)
        return tf.gather(table, labels[0]) / (1.0 + epoch)  # the second epoch's losses are half the first's

    found = answer(step, dataset, _EPOCHS)
    right = [float(np.average(losses, weights=sizes)) / (1 + epoch) for epoch in range(_EPOCHS)]
    verdict = _epoch_losses(found, right, losses, sizes)
    if int(taken) != _EPOCHS * len(sizes):
        return incorrect(
            "Every batch of every epoch must get exactly one step.",
            saw=f"{int(taken)} steps",
            expected=f"{_EPOCHS * len(sizes)}: {_EPOCHS} epochs of {len(sizes)} batches",
        )
    return verdict or _traces(len(pythons), _EPOCHS * len(sizes))


def _epoch_losses(found: Any, right: Sequence[float], losses: Sequence[float], sizes: Sequence[int]) -> Verdict | None:
    """Return the verdict on wrong losses of the epochs, or None."""
    if not isinstance(found, list | tuple) or len(found) != _EPOCHS:
        return incorrect("Return one loss for each epoch.", saw=shown(found), expected=f"a list of {_EPOCHS} numbers")
    values = [float(value) for value in found]
    if np.allclose(values, right, rtol=_RTOL):
        return None
    saw, expected = _listed(values), _listed(right)
    if math.isclose(values[0], float(np.mean(losses)), rel_tol=_RTOL):
        return incorrect(
            "This is the mean over batches. Keras takes the mean over samples, so the short last batch counts for "
            "less.",
            saw=saw,
            expected=expected,
        )
    if math.isclose(values[0], right[0], rel_tol=_RTOL):
        return incorrect(
            "The first epoch is right and the second is not: its sums must start from zero again.",
            saw=saw,
            expected=expected,
        )
    return incorrect(
        "These are not the mean losses per sample that Keras reports at the end of an epoch.",
        saw=saw,
        expected=expected,
    )


def _traces(pythons: int, steps: int) -> Verdict:
    """Judge how often the step ran as Python: once is a trace, as often as there are steps is eager."""
    if pythons == 1:
        return correct("The epochs' losses are Keras's, and the step was traced once for batches of every size.")
    if pythons >= steps:
        return incorrect(
            "The losses are right, but the step runs line by line in Python. Keras runs it as a graph: wrap it in "
            "`tf.function` once, before the loops.",
            saw=f"{pythons} runs in Python for {steps} steps",
            expected="1: the trace",
        )
    return incorrect(
        "The losses are right, but the step is traced more than once: the short last batch, or a new `tf.function` in "
        "each epoch, costs a trace. Give an `input_signature` that leaves the batch size open.",
        saw=f"{pythons} traces",
        expected="1",
    )


def same_weights(model: Any, other: Any) -> bool:
    """Return whether two Keras models hold the same weights, moving averages included, to float32's accuracy."""
    pairs = zip(model.get_weights(), other.get_weights(), strict=True)
    return all(np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in pairs)


def _trained(model: Any) -> list[Any]:
    return [variable.numpy() for variable in model.trainable_variables]


def _samples() -> tuple[Any, Any]:
    tf, rng = helpers_tf.tensorflow(), np.random.default_rng(0)
    images = rng.normal(1.0, 1.0, (16, 6)).astype(np.float32)
    return tf.constant(images), tf.constant(rng.integers(0, 3, 16))


def _regularised_model() -> Any:
    """Return a model with everything that a step can forget: a penalty and batch normalisation. Always the same."""
    keras = helpers_tf.tensorflow().keras
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(5, kernel_regularizer=keras.regularizers.L2(0.1)),
            layers.ReLU(),
            layers.BatchNormalization(),
            layers.Dense(3),
        ]
    )
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0.0, 0.5, variable.shape).astype(np.float32))
    return model


def _call_step(step: Callable[..., Any], model: Any, images: Any, labels: Any) -> Any:
    """Call a step; the optimizer stays with the model from step to step."""
    keras = helpers_tf.tensorflow().keras
    if not hasattr(model, "lab_optimizer"):
        model.lab_optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    return step(
        model, model.lab_optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), images, labels
    )


def _right_step(model: Any, optimizer: Any, loss_fn: Any, images: Any, labels: Any, *, penalised: bool = True) -> Any:
    with helpers_tf.tensorflow().GradientTape() as tape:
        loss = loss_fn(labels, model(images, training=True))
        if penalised:
            loss += sum(model.losses)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


def _step_without_penalty(*arguments: Any) -> Any:
    return _right_step(*arguments, penalised=False)


def _listed(losses: Any) -> str:
    return "losses " + ", ".join(f"{loss:.4f}" for loss in losses)
