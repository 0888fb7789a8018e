"""The training loop of :mod:`helpers.train`, in TensorFlow: the same settings, the same history, the same rules.

Losses stay on the device and are read once per epoch; the epoch's loss is weighted by samples. With ``graph=True``
the step is a ``tf.function`` with a fixed input signature, so that a short last batch does not trace it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.config import ConfigError, TrainConfig
from helpers.errors import CourseError
from helpers.history import EpochRecord, History, Metrics
from helpers.tf import tensorflow

if TYPE_CHECKING:
    from numpy.typing import NDArray

Step = Callable[[Any, Any], tuple[Any, Any]]
"""From images and labels to the batch's mean loss and its number of right answers, both still on the device."""


class TrainError(CourseError):
    """Data and model do not fit each other, or the loss is no longer a number."""


def fit(
    model: Any,
    train: Any,
    config: TrainConfig | None = None,
    *,
    evaluate_on: Any = None,
    optimizer: Any = None,
    graph: bool = True,
) -> History:
    """Train a Keras model with a ``GradientTape`` loop and return what happened.

    Args:
        model: A built Keras model from images ``[N, H, W, C]`` to logits ``[N, classes]``. Trained in place.
        train: A ``tf.data.Dataset`` of ``(images, labels)`` batches, such as :func:`helpers.tf.data.batches` makes.
        config: The same settings as PyTorch's loop; see :func:`check_config` for the few that it alone has.
        evaluate_on: A dataset to evaluate on after each epoch.
        optimizer: A Keras optimizer to go on with; made from the settings by default.
        graph: Whether to run the step as a ``tf.function`` or line by line.

    Returns:
        One record per epoch, and the loss of every step.

    Raises:
        ConfigError: A setting is not available in this loop.
        TrainError: The dataset is empty, its batches do not fit the model, or a loss is NaN or infinite.
    """
    config = check_config(config or TrainConfig())
    _check_first_batch(model, train)
    optimizer = optimizer or make_optimizer(config)
    step = make_step(model, optimizer, config, train.element_spec if graph else None)
    history = History()
    with _placed(config.device):
        for epoch in range(config.epochs):
            set_epoch = getattr(train, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(epoch)
            start = time.perf_counter()
            losses, metrics = _train_epoch(
                step, _with_progress(train, epoch, config), first_step=len(history.step_losses)
            )
            seconds = time.perf_counter() - start
            history.step_losses += losses
            evaluation = None if evaluate_on is None else evaluate(model, evaluate_on)
            history.epochs.append(EpochRecord(epoch=epoch, train=metrics, evaluation=evaluation, seconds=seconds))
    return history


def train_step(
    model: Any, optimizer: Any, images: Any, labels: Any, *, clip_norm: float | None = None
) -> tuple[Any, Any]:
    """Take one step: forward, loss, gradients, update.

    Args:
        model: A Keras model.
        optimizer: A Keras optimizer, built for the model's variables.
        images: ``[B, H, W, C]``.
        labels: Class numbers ``[B]``.
        clip_norm: Largest allowed norm of all gradients together.

    Returns:
        The batch's mean loss before the update and its number of right answers, as tensors.
    """
    tf = tensorflow()
    with tf.GradientTape() as tape:  # records the forward pass; PyTorch records always, and needs zero_grad
        logits = model(images, training=True)
        loss = tf.reduce_mean(_losses(labels, logits))
    gradients = tape.gradient(loss, model.trainable_variables)
    if clip_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
    optimizer.apply(gradients, model.trainable_variables)
    return loss, _correct(labels, logits)


def make_step(model: Any, optimizer: Any, config: TrainConfig, element_spec: Any = None) -> Step:
    """Return :func:`train_step` bound to a model and an optimizer.

    Args:
        model: A Keras model.
        optimizer: A Keras optimizer; its variables are made here, since a graph must not make any.
        config: Clipping, and ``compile`` for XLA.
        element_spec: The dataset's ``element_spec`` to trace the step as a ``tf.function``; None to run it eagerly.
    """
    tf = tensorflow()
    optimizer.build(model.trainable_variables)

    def step(images: Any, labels: Any) -> tuple[Any, Any]:
        return train_step(model, optimizer, images, labels, clip_norm=config.clip_norm)

    if element_spec is None:
        return step
    signature = [tf.TensorSpec([None, *spec.shape[1:]], spec.dtype) for spec in element_spec]
    traced: Step = tf.function(step, input_signature=signature, jit_compile=config.compile or None)
    return traced


def make_optimizer(config: TrainConfig) -> Any:
    """Return the Keras optimizer that moves parameters as PyTorch's does under the same settings."""
    optimizers = tensorflow().keras.optimizers
    if config.optimizer == "adamw":
        return optimizers.AdamW(config.lr, weight_decay=config.weight_decay, epsilon=1e-8)  # Keras's own is 1e-7
    return optimizers.SGD(config.lr, momentum=config.momentum)


def evaluate(model: Any, dataset: Any) -> Metrics:
    """Return loss and accuracy in inference mode, each sample counted once.

    Raises:
        TrainError: The dataset is empty.
    """
    tf = tensorflow()
    loss, correct, samples = tf.constant(0.0), tf.constant(0, tf.int64), 0
    for images, labels in dataset:
        logits = model(images, training=False)
        loss += tf.reduce_sum(_losses(labels, logits))
        correct += _correct(labels, logits)
        samples += len(labels)
    if samples == 0:
        raise TrainError("the dataset to evaluate on has no batches; expected at least one. Look at its len().")
    return Metrics(loss=float(loss) / samples, accuracy=int(correct) / samples, samples=samples)


def check_config(config: TrainConfig) -> TrainConfig:
    """Return the settings if this loop can honour them all.

    Raises:
        ConfigError: A setting is PyTorch's alone here: another precision than fp32, accumulation, a schedule or
            warm-up (Keras's momentum carries the learning rate, so the two would part), L2 decay under ``sgd``.
    """
    only: dict[str, object] = {"precision": "fp32", "accumulate": 1, "schedule": "constant", "warmup_steps": 0}
    if config.optimizer == "sgd":
        only["weight_decay"] = 0.0
    for name, value in only.items():
        if getattr(config, name) != value:
            raise ConfigError(
                f"TrainConfig({name}={getattr(config, name)!r}): the TensorFlow loop has {name}={value!r} only. "
                "Use helpers.train.fit, or pass a Keras optimizer that does it as optimizer=."
            )
    return config


def _train_epoch(step: Step, dataset: Iterable[Any], first_step: int) -> tuple[list[float], Metrics]:
    """Run one epoch and read its losses once, at the end."""
    records = [(*step(images, labels), len(labels)) for images, labels in dataset]
    losses: NDArray[np.float64] = np.array([loss.numpy() for loss, _, _ in records], np.float64)
    _check_finite(losses, first_step)
    sizes = np.array([size for _, _, size in records])
    correct = sum(int(right) for _, right, _ in records)
    samples = int(sizes.sum())
    return losses.tolist(), Metrics(loss=float(losses @ sizes) / samples, accuracy=correct / samples, samples=samples)


def _losses(labels: Any, logits: Any) -> Any:
    """Return the cross-entropy of each sample, ``[B]``."""
    return tensorflow().nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def _correct(labels: Any, logits: Any) -> Any:
    tf = tensorflow()
    return tf.math.count_nonzero(tf.argmax(logits, axis=1, output_type=labels.dtype) == labels)


def _with_progress(dataset: Any, epoch: int, config: TrainConfig) -> Iterable[Any]:
    from tqdm.auto import tqdm

    return tqdm(
        dataset, desc=f"epoch {epoch + 1}/{config.epochs}", unit="step", leave=False, disable=not config.progress
    )


def _placed(device: str) -> AbstractContextManager[None]:
    """Return TensorFlow's device scope for one of PyTorch's device names."""
    kind, _, number = device.partition(":")
    name = {"auto": None, "cpu": "/CPU:0", "cuda": f"/GPU:{number or 0}"}.get(kind, device)
    scope: AbstractContextManager[None] = tensorflow().device(name)
    return scope


def _check_first_batch(model: Any, dataset: Any) -> None:
    """Raise unless the first batch fits the model, before anything is traced or moved."""
    tf = tensorflow()
    if not isinstance(dataset, tf.data.Dataset):
        raise TrainError(
            f"the data is a {type(dataset).__name__}; expected a tf.data.Dataset of (images, labels). "
            "Make one with helpers.tf.data.batches(split, batch_size)."
        )
    batch = next(iter(dataset.take(1)), None)
    if batch is None:
        raise TrainError("the dataset has no batches; expected at least one. With drop_last, is the batch too large?")
    images, labels = batch
    wanted = tuple(model.input_shape)
    if tuple(images.shape[1:]) != wanted[1:]:
        raise TrainError(
            f"the images have shape {tuple(images.shape)}; the model expects {wanted} (samples, height, width, "
            "channels). Build the model for these images, or move PyTorch's channels to the end."
        )
    _check_labels(labels.numpy(), len(images), classes=model.output_shape[-1])


def _check_labels(labels: NDArray[Any], samples: int, *, classes: int) -> None:
    if labels.shape != (samples,) or not np.issubdtype(labels.dtype, np.integer):
        raise TrainError(
            f"the labels have shape {labels.shape} and type {labels.dtype}; expected one class number per image, "
            f"({samples},) of integers. One-hot labels need argmax(axis=1) first."
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise TrainError(
            f"labels run from {labels.min()} to {labels.max()}; a model with {classes} logits expects 0 to "
            f"{classes - 1}. Give the model more classes, or let the labels start at 0."
        )


def _check_finite(losses: NDArray[np.float64], first_step: int) -> None:
    wrong = np.flatnonzero(~np.isfinite(losses))
    if wrong.size:
        raise TrainError(
            f"the loss is {losses[wrong[0]]} at step {first_step + wrong[0]} (counted from 0); expected a finite "
            "number. Lower lr or set clip_norm; tf.debugging.enable_check_numerics() names the operation."
        )
