"""Keras's fit, plain and with a tape for a step, equals our loop."""

import numpy as np
import pytest

from helpers.config import ConfigError, TrainConfig
from helpers.data import Split, load
from helpers.stepclock import StepClock
from helpers.tf import tensorflow
from helpers.tf.data import batches
from helpers.tf.keras import LoggedLosses, SetEpoch, TapeModel, Tick, compiled, undo_running_mean
from helpers.tf.models import mlp
from helpers.tf.train import fit

tf = tensorflow()
CONFIG = TrainConfig(epochs=2, progress=False)


@pytest.fixture(scope="module")
def split() -> Split:
    return load("digits", samples=100).train  # batches of 32, 32, 32 and 4


@pytest.fixture(scope="module")
def reference(split: Split):
    tf.keras.utils.set_random_seed(0)
    model = mlp()
    initial = model.get_weights()
    return initial, fit(model, batches(split, 32, shuffle=True), CONFIG)


def fresh(weights, tape: bool):
    model = mlp()
    model.set_weights(weights)
    return TapeModel(inputs=model.inputs, outputs=model.outputs) if tape else model


def run(model, split: Split, *callbacks):
    data = batches(split, 32, shuffle=True)
    return model.fit(data, epochs=2, shuffle=False, verbose=0, callbacks=[SetEpoch(data), *callbacks])


def test_plain_fit_logs_running_means(split: Split, reference):
    initial, ours = reference
    logged = LoggedLosses()
    kept = run(compiled(fresh(initial, tape=False), CONFIG), split, logged)
    sizes = [32, 32, 32, 4]
    recovered = undo_running_mean(logged.values[:4], sizes) + undo_running_mean(logged.values[4:], sizes)
    np.testing.assert_allclose(recovered, ours.step_losses, rtol=1e-4)
    assert kept.history["loss"] == pytest.approx([epoch.train.loss for epoch in ours.epochs], rel=1e-4)


def test_tape_model_logs_the_batch_and_keeps_the_weighted_mean(split: Split, reference):
    initial, ours = reference
    logged = LoggedLosses()
    kept = run(compiled(fresh(initial, tape=True), CONFIG), split, logged)
    np.testing.assert_allclose(logged.values, ours.step_losses, rtol=1e-4)
    assert kept.history["loss"] == pytest.approx([epoch.train.loss for epoch in ours.epochs], rel=1e-4)
    assert kept.history["accuracy"] == pytest.approx([epoch.train.accuracy for epoch in ours.epochs])


def test_a_saved_tape_model_comes_back_with_its_optimizer(split: Split, reference, tmp_path):
    model = compiled(fresh(reference[0], tape=True), CONFIG)
    run(model, split)
    model.save(tmp_path / "model.keras")
    back = tf.keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(back, TapeModel)
    assert int(back.optimizer.iterations) == 8


def test_tick_sees_every_step(split: Split, reference):
    clock = StepClock()
    run(compiled(fresh(reference[0], tape=False), CONFIG), split, Tick(clock))
    assert len(clock.moments) == 8


def test_settings_of_pytorch_alone_are_refused():
    with pytest.raises(ConfigError, match="precision"):
        compiled(mlp(), TrainConfig(precision="bf16"))


def test_undoing_a_mean_weighs_by_samples():
    assert undo_running_mean([1.0, 1.5, 2.0], [4, 4, 2]) == pytest.approx([1.0, 2.0, 4.0])
    with pytest.raises(ValueError, match="shorter"):
        undo_running_mean([1.0, 2.0], [4])
