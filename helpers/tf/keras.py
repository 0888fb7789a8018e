# mypy: disable-error-code="misc, name-defined"
"""Keras's ``fit`` beside our own loops: a model whose step is a tape, and callbacks that look inside ``fit``.

Importing this module imports TensorFlow, since its classes derive from Keras's. mypy sees no types in either, hence the
line above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.config import TrainConfig
from helpers.tf import tensorflow
from helpers.tf.train import check_config, make_optimizer

if TYPE_CHECKING:
    from helpers.stepclock import StepClock

tf = tensorflow()
keras = tf.keras


@keras.utils.register_keras_serializable(package="loop_to_cluster")
class TapeModel(keras.Model):
    """A model for ``compile`` and ``fit`` whose step is written out.

    Make one from any functional model: ``TapeModel(inputs=model.inputs, outputs=model.outputs)``.
    """

    def train_step(self, data: tuple[Any, Any]) -> dict[str, Any]:
        """Take one step and return what ``fit`` is to log: here the loss of this batch, not a running mean."""
        images, labels = data
        with tf.GradientTape() as tape:
            logits = self(images, training=True)
            loss = self.compute_loss(x=images, y=labels, y_pred=logits)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=tf.shape(labels)[0])  # so that a short batch counts for less
            else:
                metric.update_state(labels, logits)
        logs: dict[str, Any] = self.get_metrics_result() | {"loss": loss}
        return logs


def compiled(model: Any, config: TrainConfig, *, metrics: tuple[Any, ...] = ()) -> Any:
    """Compile a model with the settings of the course's loops and return it.

    Args:
        model: A Keras model that ends in logits.
        config: Optimizer and learning rate; see :func:`helpers.tf.train.check_config`.
        metrics: Metrics besides the accuracy.

    Raises:
        ConfigError: A setting is not available in TensorFlow.
    """
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(make_optimizer(check_config(config)), loss=loss, metrics=["accuracy", *metrics])
    return model


class LoggedLosses(keras.callbacks.Callback):
    """Keep what ``fit`` logs as the loss after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Record the logged loss."""
        self.values.append(float((logs or {})["loss"]))


class SetEpoch(keras.callbacks.Callback):
    """Tell the data which epoch begins, so that each has its own order. Keras itself never does."""

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self._dataset = dataset

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the epoch before Keras asks for its first batch."""
        self._dataset.set_epoch(epoch)


class Tick(keras.callbacks.Callback):
    """Tick a clock when a step begins."""

    def __init__(self, clock: StepClock) -> None:
        super().__init__()
        self._clock = clock

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Note the moment."""
        self._clock.tick()


def undo_running_mean(means: list[float], sizes: list[int]) -> list[float]:
    """Recover each batch's loss from the mean over the epoch so far, which is what Keras logs.

    Args:
        means: The logged loss after each step of one epoch.
        sizes: The samples of each batch.

    Raises:
        ValueError: If the two differ in length.
    """
    losses, sum_before, samples = [], 0.0, 0
    for mean, size in zip(means, sizes, strict=True):
        samples += size
        losses.append((mean * samples - sum_before) / size)
        sum_before = mean * samples
    return losses
