"""The training loop of :mod:`helpers.train`, in TensorFlow: the same settings, the same history, the same rules.

Losses stay on the device and are read once per epoch; the epoch's loss is weighted by samples. With ``graph=True``
the step is a ``tf.function`` with a fixed input signature, so that a short last batch does not trace it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.config import ConfigError, TrainConfig
from helpers.errors import CourseError
from helpers.explain import BatchError
from helpers.history import EpochRecord, History, Metrics
from helpers.nonfinite import NonFiniteLoss
from helpers.tf import tensorflow
from helpers.train import Callback, EpochEnd, set_epoch

if TYPE_CHECKING:
    from numpy.typing import NDArray

Step = Callable[[Any, Any], tuple[Any, Any]]
"""From images and labels to the batch's mean loss and its number of right answers, both still on the device."""


@dataclass(kw_only=True)
class TrainState:
    """What a run carries from epoch to epoch besides the model."""

    optimizer: Any
    """A Keras optimizer. ``tf.train.Checkpoint(model=model, optimizer=state.optimizer)`` saves both."""
    epoch: int = 0
    """Epochs that have ended."""

    @classmethod
    def create(cls, model: Any, config: TrainConfig) -> TrainState:
        """Make the state of a run that begins. The optimizer's variables exist already, ready to be restored."""
        optimizer = make_optimizer(config)
        optimizer.build(model.trainable_variables)
        return cls(optimizer=optimizer)


def fit(
    model: Any,
    train: Any,
    config: TrainConfig | None = None,
    *,
    evaluate_on: Any = None,
    state: TrainState | None = None,
    callbacks: Sequence[Callback] = (),
    graph: bool = True,
) -> History:
    """Train a Keras model in place with a ``GradientTape`` loop.

    Args:
        model: A built Keras model from images ``[N, H, W, C]`` to logits ``[N, classes]``.
        train: A ``tf.data.Dataset`` of ``(images, labels)`` batches, such as :func:`helpers.tf.data.batches` makes.
        config: The same settings as PyTorch's loop; :func:`check_config` names the few that it alone has.
        evaluate_on: A dataset to score after each epoch.
        state: Optimizer and epoch to continue from; made from the config if None.
        callbacks: Called in order after each epoch with a :class:`helpers.train.EpochEnd`.
        graph: Whether to run the step as a ``tf.function`` or line by line.

    Returns:
        One record per epoch run here, and the loss of every step.

    Raises:
        BatchError: The data is no dataset, or its first batch does not fit the model.
        ConfigError: A setting is not available in this loop.
        CourseError: The dataset is empty.
        NonFiniteLoss: A loss or a weight is NaN or infinite.
    """
    config = check_config(config or TrainConfig())
    _check_first_batch(model, train)
    state = state or TrainState.create(model, config)
    step = make_step(model, state.optimizer, config, train.element_spec if graph else None)
    history = History()
    with _placed(config.device):
        while state.epoch < config.epochs and history.stopped is None:
            record, step_losses = _fit_epoch(model, step, train, config, state, evaluate_on)
            history.epochs.append(record)
            history.step_losses.extend(step_losses)
            state.epoch += 1
            mirrored: Any = state  # EpochEnd is typed for PyTorch's state
            for callback in callbacks:
                callback(EpochEnd(model=model, state=mirrored, record=record, history=history))
    return history


def _fit_epoch(
    model: Any, step: Step, train: Any, config: TrainConfig, state: TrainState, evaluate_on: Any
) -> tuple[EpochRecord, list[float]]:
    """Run one epoch and score it."""
    set_epoch(train, state.epoch)
    start = time.perf_counter()
    metrics, losses = train_epoch(step, _with_progress(train, state, config))
    seconds = time.perf_counter() - start
    _check_finite(model, losses)
    scored = None if evaluate_on is None else evaluate(model, evaluate_on)
    return EpochRecord(epoch=state.epoch, train=metrics, evaluation=scored, seconds=seconds), losses


def train_epoch(step: Step, batches: Iterable[Any]) -> tuple[Metrics, list[float]]:
    """Take a step on every batch once; read the losses once, at the end."""
    taken = [(*step(images, labels), len(labels)) for images, labels in batches]
    losses = np.array([loss.numpy() for loss, _, _ in taken], np.float64)
    correct = sum(int(right) for _, right, _ in taken)
    sizes = np.array([size for _, _, size in taken])
    samples = int(sizes.sum())
    mean = float(losses @ sizes) / samples  # by samples: a short last batch counts for less
    return Metrics(loss=mean, accuracy=correct / samples, samples=samples), losses.tolist()


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
    """Score a model in inference mode, each sample counted once.

    Raises:
        CourseError: The dataset is empty.
    """
    tf = tensorflow()
    loss, correct, samples = tf.constant(0.0), tf.constant(0, tf.int64), 0
    for images, labels in dataset:
        logits = model(images, training=False)
        loss += tf.reduce_sum(_losses(labels, logits))
        correct += _correct(labels, logits)
        samples += len(labels)
    if samples == 0:
        raise CourseError("the dataset yielded no batch; give it at least one sample, and check drop_last.")
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
                "Use helpers.train.fit, or a TrainState with a Keras optimizer that does it."
            )
    return config


def _losses(labels: Any, logits: Any) -> Any:
    """Return the cross-entropy of each sample, ``[B]``."""
    return tensorflow().nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def _correct(labels: Any, logits: Any) -> Any:
    tf = tensorflow()
    return tf.math.count_nonzero(tf.argmax(logits, axis=1, output_type=labels.dtype) == labels)


def _with_progress(dataset: Any, state: TrainState, config: TrainConfig) -> Iterable[Any]:
    from tqdm.auto import tqdm

    title = f"epoch {state.epoch + 1}/{config.epochs}"
    return tqdm(dataset, desc=title, unit="batch", leave=False, disable=not config.progress)


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
        raise BatchError(
            f"the data is a {type(dataset).__name__}; expected a tf.data.Dataset of (images, labels). "
            "Make one with helpers.tf.data.batches(split, batch_size)."
        )
    batch = next(iter(dataset.take(1)), None)
    if batch is None:
        raise CourseError("the dataset yielded no batch; give it at least one sample, and check drop_last.")
    images, labels = batch
    wanted = tuple(model.input_shape)
    if tuple(images.shape[1:]) != wanted[1:]:
        raise BatchError(
            f"the images have shape {tuple(images.shape)}; the model expects {wanted} (samples, height, width, "
            "channels). Build the model for these images, or move PyTorch's channels to the end."
        )
    _check_labels(labels.numpy(), len(images), classes=model.output_shape[-1])


def _check_labels(labels: NDArray[Any], samples: int, *, classes: int) -> None:
    if labels.shape != (samples,) or not np.issubdtype(labels.dtype, np.integer):
        raise BatchError(
            f"the labels have shape {labels.shape} and type {labels.dtype}; expected one class number per image, "
            f"({samples},) of integers. One-hot labels need argmax(axis=1) first."
        )
    wrong = labels[(labels < 0) | (labels >= classes)]
    if wrong.size:
        raise BatchError(
            f"label {wrong[0]} is out of range: the model has {classes} outputs, so labels run from 0 to "
            f"{classes - 1}. Give the model more classes, or fix the labels."
        )


def _check_finite(model: Any, losses: list[float]) -> None:
    """Raise if a loss or a weight is NaN or infinite.

    The weights must be looked at too: in a graph on a CPU, oneDNN's fused ReLU turns a NaN into 0, so that a NaN in
    the inputs spoils the weights while the loss stays finite (seen with TensorFlow 2.21).
    """
    wrong = np.flatnonzero(~np.isfinite(losses))
    if wrong.size:
        step = int(wrong[0])
        raise NonFiniteLoss(
            f"the loss is {losses[step]} at step {step} of the epoch (counted from 0); expected a finite number. "
            "Lower lr or set clip_norm; tf.debugging.enable_check_numerics() names the operation.",
            step=step,
            place=None,
        )
    for weight in model.trainable_variables:
        if not np.isfinite(weight.numpy()).all():
            raise NonFiniteLoss(
                f"the weights {weight.path} are not finite after this epoch, though every loss was: a graph's ReLU can "
                "turn NaN into 0. Look for NaN in the inputs; with graph=False the loss shows the step.",
                step=len(losses) - 1,
                place="parameters",
            )
