"""TensorFlow's loop beside PyTorch's: the same losses and weights, one trace, clear errors."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from helpers import models
from helpers.config import ConfigError, TrainConfig
from helpers.data import Split, load
from helpers.errors import CourseError
from helpers.explain import BatchError
from helpers.nonfinite import NonFiniteLoss
from helpers.seeding import seed_all
from helpers.tf import tensorflow
from helpers.tf.data import batches
from helpers.tf.models import copy_weights, mlp
from helpers.tf.train import TrainState, evaluate, fit, make_optimizer, make_step

tf = tensorflow()
QUIET = TrainConfig(epochs=1, lr=0.05, progress=False)


@pytest.fixture(scope="module")
def split() -> Split:
    return load("digits", samples=20 * 32 - 12).train  # 20 batches of 32, the last one short


@pytest.fixture
def pair():
    """A PyTorch model and a Keras model with equal weights."""
    seed_all(0)
    ours, theirs = models.mlp(), mlp()
    copy_weights(ours, theirs)
    return ours, theirs


def torch_losses(model, split: Split, optimizer: torch.optim.Optimizer) -> list[float]:
    """The loop of a textbook, so that this test leans on no loop of ours."""
    losses = []
    for images, labels in split.batches(32, shuffle=True, seed=3):
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


OPTIMIZERS = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.001, weight_decay=0.01),
}
CONFIGS = {
    "sgd": QUIET,
    "adamw": TrainConfig(epochs=1, optimizer="adamw", lr=0.001, weight_decay=0.01, progress=False),
}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("graph", [True, False])
def test_twenty_losses_and_the_weights_equal_pytorch(pair, split: Split, optimizer: str, graph: bool):
    ours, theirs = pair
    expected = torch_losses(ours, split, OPTIMIZERS[optimizer](ours))
    history = fit(theirs, batches(split, 32, shuffle=True, seed=3), CONFIGS[optimizer], graph=graph)
    assert len(history.step_losses) == 20
    if optimizer == "adamw":  # divides by gradients near zero, where the last bits of float32 differ
        np.testing.assert_allclose(history.step_losses, expected, rtol=5e-3)
        return
    np.testing.assert_allclose(history.step_losses, expected, rtol=1e-4)
    back = models.mlp()
    copy_weights(theirs, back)
    for name, tensor in ours.state_dict().items():
        torch.testing.assert_close(back.state_dict()[name], tensor, rtol=1e-3, atol=1e-5)


def test_epoch_loss_is_weighted_by_samples(pair, split: Split):
    history = fit(pair[1], batches(split, 32), QUIET)
    sizes = [32] * 19 + [20]
    assert history.last.train.samples == sum(sizes)
    assert history.last.train.loss == pytest.approx(np.average(history.step_losses, weights=sizes))


def test_the_step_is_traced_once(pair, split: Split):
    dataset = batches(split, 32)
    step = make_step(pair[1], make_optimizer(QUIET), QUIET, dataset.element_spec)
    for images, labels in dataset:
        step(images, labels)
    step(images[:3], labels[:3])
    assert step.experimental_get_tracing_count() == 1


def test_every_epoch_has_its_own_order(pair, split: Split):
    config = TrainConfig(epochs=2, lr=0.0, progress=False)
    losses = fit(pair[1], batches(split, 32, shuffle=True), config).step_losses
    assert losses[:20] != pytest.approx(losses[20:])


def test_clipping_keeps_the_update_small(pair, split: Split):
    before = [weight.numpy() for weight in pair[1].trainable_variables]
    config = TrainConfig(epochs=1, lr=1.0, momentum=0.0, clip_norm=1e-3, progress=False)
    fit(pair[1], batches(split, 32).take(1), config)
    moved = [
        np.sum((weight.numpy() - old) ** 2) for weight, old in zip(pair[1].trainable_variables, before, strict=True)
    ]
    assert np.sqrt(np.sum(moved)) == pytest.approx(1e-3, rel=1e-3)


def test_xla_computes_the_same(pair, split: Split):
    plain = mlp()
    copy_weights(pair[0], plain)
    expected = fit(plain, batches(split, 32).take(3), QUIET).step_losses
    compiled = TrainConfig(epochs=1, lr=0.05, progress=False, compile=True)
    np.testing.assert_allclose(fit(pair[1], batches(split, 32).take(3), compiled).step_losses, expected, rtol=1e-4)


def test_a_resumed_run_equals_an_unbroken_one(pair, split: Split, tmp_path):
    ours, theirs = pair
    once, resumed, two = mlp(), mlp(), TrainConfig(epochs=2, lr=0.05, progress=False)
    copy_weights(ours, once)
    data = batches(split, 32, shuffle=True)
    whole = fit(once, data, two).step_losses

    state = TrainState.create(theirs, QUIET)
    first = fit(theirs, data, QUIET, state=state).step_losses
    saved = tf.train.Checkpoint(model=theirs, optimizer=state.optimizer).write(str(tmp_path / "saved"))
    state = TrainState.create(resumed, two)
    state.epoch = 1
    tf.train.Checkpoint(model=resumed, optimizer=state.optimizer).read(saved).assert_consumed()
    second = fit(resumed, data, two, state=state)
    assert second.epochs[0].epoch == 1
    np.testing.assert_allclose(first + second.step_losses, whole, rtol=1e-5)


def test_a_callback_can_stop_the_run(pair, split: Split):
    config = TrainConfig(epochs=3, progress=False)
    history = fit(pair[1], batches(split, 32), config, callbacks=[lambda end: end.stop("enough")])
    assert (len(history.epochs), history.stopped) == (1, "enough")


def test_evaluation_counts_each_sample_once(pair, split: Split):
    metrics = evaluate(pair[1], batches(split, 32))
    logits = pair[0](split.images)
    assert metrics.samples == len(split)
    assert metrics.loss == pytest.approx(cross_entropy(logits, split.labels).item(), rel=1e-4)
    assert metrics.accuracy == pytest.approx((logits.argmax(1) == split.labels).float().mean().item())


def test_history_carries_the_evaluation(pair, split: Split):
    history = fit(pair[1], batches(split, 32), QUIET, evaluate_on=batches(split, 100))
    assert history.last.evaluation is not None
    assert history.last.evaluation.accuracy > 0.7


@pytest.mark.parametrize(
    "options",
    [{"precision": "bf16"}, {"accumulate": 2}, {"schedule": "cosine"}, {"warmup_steps": 5}, {"weight_decay": 0.1}],
)
def test_settings_of_pytorch_alone_are_refused(pair, split: Split, options: dict):
    with pytest.raises(ConfigError, match=rf"TrainConfig\({next(iter(options))}="):
        fit(pair[1], batches(split, 32), TrainConfig(**options))


def test_an_empty_dataset_is_refused(pair, split: Split):
    with pytest.raises(CourseError, match="no batch"):
        fit(pair[1], batches(split, 1000, drop_last=True), QUIET)
    with pytest.raises(CourseError, match="no batch"):
        evaluate(pair[1], batches(split, 1000, drop_last=True))


def test_pytorch_batches_are_refused(pair, split: Split):
    with pytest.raises(BatchError, match=r"is a Batches.*helpers\.tf\.data\.batches"):
        fit(pair[1], split.batches(32), QUIET)


def test_images_in_another_layout_are_refused(pair):
    shapes = load("shapes", samples=8).train
    with pytest.raises(BatchError, match=r"\(8, 32, 32, 3\).*\(None, 28, 28, 1\)"):
        fit(pair[1], batches(shapes, 8), QUIET)


def test_labels_out_of_range_are_refused(pair, split: Split):
    with pytest.raises(BatchError, match="label 10 is out of range: the model has 10 outputs"):
        fit(pair[1], batches(Split(split.images, split.labels + 1), 628), QUIET)


def test_one_hot_labels_are_refused(pair, split: Split):
    one_hot = Split(split.images, torch.nn.functional.one_hot(split.labels))
    with pytest.raises(BatchError, match="argmax"):
        fit(pair[1], batches(one_hot, 32), QUIET)


@pytest.fixture
def spoilt(split: Split) -> Split:
    images = split.images.clone()
    images[32 * 4] = float("nan")
    return Split(images, split.labels)


def test_a_nan_loss_names_its_step(pair, spoilt: Split):
    with pytest.raises(NonFiniteLoss, match="nan at step 4"):
        fit(pair[1], batches(spoilt, 32), QUIET, graph=False)


def test_a_nan_that_the_graph_hides_is_found_in_the_weights(pair, spoilt: Split):
    with pytest.raises(NonFiniteLoss, match=r"at step 4|weights .* not finite"):
        fit(pair[1], batches(spoilt, 32), QUIET)
