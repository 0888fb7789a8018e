"""The Keras job that lab 03 ports."""

from __future__ import annotations

from typing import Any

from helpers import tf as helpers_tf


def keras_job(image: tuple[int, int, int] = (28, 28, 1), *, hidden: int = 32, classes: int = 10) -> Any:
    """Build and compile the model of the job that was handed over.

    Args:
        image: Height, width and channels.
        hidden: Width of the hidden layer.
        classes: Number of logits.
    """
    keras = helpers_tf.tensorflow().keras
    model = keras.Sequential(
        [
            keras.Input(image),
            keras.layers.Flatten(),
            keras.layers.Dense(hidden, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-3)),
            keras.layers.Dense(classes),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate=0.05, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model
