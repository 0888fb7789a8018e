"""The loop against the textbook's: the same numbers, with every option, and no waiting for the device."""

import copy
import io
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import models, train
from helpers.config import ConfigError
from helpers.data import Split, load
from helpers.errors import CourseError
from helpers.explain import BatchError
from helpers.optim import TrainState
from helpers.seeding import seed_all
from helpers.train import EpochEnd, Totals, evaluate, fit, train_epoch, train_step
from tests.runs import BATCH, one_thread, quiet, small_mlp, ten_batches, vector

CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def alone() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def split() -> Split:
    return ten_batches()


@pytest.fixture
def model() -> nn.Module:
    return small_mlp()


def shuffled(split: Split, batch_size: int = BATCH):
    return split.batches(batch_size, shuffle=True, seed=5)


def textbook(model: nn.Module, batches, optimizer, epochs: int, clip_norm: float | None = None) -> list[float]:
    """The loop that every tutorial shows; no line of it is shared with what is tested."""
    losses = []
    for epoch in range(epochs):
        batches.set_epoch(epoch)
        for images, labels in batches:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            if clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            losses.append(loss.item())
    return losses


OPTIMIZERS = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True), {}),
    "sgd with weight decay": (
        lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, fused=True),
        {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.01},
    ),
    "adamw": (
        lambda p: torch.optim.AdamW(p, lr=0.002, weight_decay=0.1, fused=True),
        {"optimizer": "adamw", "lr": 0.002, "weight_decay": 0.1},
    ),
    "clipped": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True), {"clip_norm": 0.3}),
}


@pytest.mark.parametrize(("make", "settings"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_losses_and_weights_equal_the_textbook_loops_bit_for_bit(model, split: Split, make, settings: dict):
    other = copy.deepcopy(model)
    expected = textbook(other, shuffled(split), make(other.parameters()), 2, settings.get("clip_norm"))
    history = fit(model, shuffled(split), quiet(**settings))
    assert history.step_losses == expected
    assert torch.equal(vector(model), vector(other))


def test_the_training_accuracy_is_that_of_the_model_before_each_step(model, split: Split):
    other, correct = copy.deepcopy(model), 0
    optimizer = torch.optim.SGD(other.parameters(), lr=0.05, momentum=0.9)
    for images, labels in split.batches(BATCH):
        logits = other(images)
        correct += int((logits.argmax(1) == labels).sum())
        optimizer.zero_grad()
        functional.cross_entropy(logits, labels).backward()
        optimizer.step()
    (epoch,) = fit(model, split.batches(BATCH), quiet(epochs=1)).epochs
    assert (epoch.train.accuracy, epoch.train.samples) == (correct / len(split), len(split))


def test_the_epochs_loss_counts_each_sample_once(model, split: Split):
    history = fit(model, split.batches(BATCH), quiet(epochs=1, lr=0))
    whole = functional.cross_entropy(model(split.images), split.labels).item()
    assert history.last.train.loss == pytest.approx(whole, rel=1e-6)
    by_batch = sum(history.step_losses) / len(history.step_losses)
    assert abs(by_batch - whole) > 1e-4, "the short last batch makes a difference that this test can see"


def test_evaluation_counts_each_sample_once(model, split: Split):
    metrics = evaluate(model, split.batches(BATCH), device="cpu")
    logits = model(split.images)
    assert metrics.loss == pytest.approx(functional.cross_entropy(logits, split.labels).item(), rel=1e-6)
    assert metrics.accuracy == (logits.argmax(1) == split.labels).double().mean().item()
    assert metrics.samples == len(split)


ACCUMULATIONS = [(8, 4), (8, 3), (7, 5), (32, 64)]
"""Batch size and window; among them windows that the epoch's end cuts short, and short last batches."""


@pytest.mark.parametrize(("size", "window"), ACCUMULATIONS)
def test_accumulation_equals_the_large_batch(model, split: Split, size: int, window: int):
    small, large = model.double(), copy.deepcopy(model)
    twice = Split(split.images.double(), split.labels)
    fit(small, twice.batches(size), quiet(accumulate=window))
    fit(large, twice.batches(size * window), quiet())
    assert torch.allclose(vector(small), vector(large), rtol=1e-9, atol=1e-12)


def test_gradients_from_before_the_run_do_not_count(model, split: Split):
    other = copy.deepcopy(model)
    functional.cross_entropy(model(split.images), split.labels).backward()  # by hand, as a reader of chapter 01 does
    fit(model, split.batches(BATCH), quiet())
    fit(other, split.batches(BATCH), quiet())
    assert torch.equal(vector(model), vector(other))


def test_a_run_after_an_interrupted_window_begins_anew(model, split: Split):
    def interrupted() -> Iterator[tuple[Tensor, Tensor]]:
        yield split.images[:8], split.labels[:8]
        raise KeyboardInterrupt

    config = quiet(accumulate=2, epochs=1)
    state = TrainState.create(model, config)
    other = copy.deepcopy(model)
    with pytest.raises(KeyboardInterrupt):
        fit(model, interrupted(), config, state=state)
    fit(model, split.batches(BATCH), config, state=state)
    fit(other, split.batches(BATCH), config)
    assert torch.equal(vector(model), vector(other))


@pytest.mark.parametrize(("precision", "tolerance"), [("bf16", 0.02), ("fp16", 0.005)])
def test_half_precision_trains_nearly_the_same(model, split: Split, precision: str, tolerance: float):
    other = copy.deepcopy(model)
    half = fit(model, split.batches(BATCH), quiet(precision=precision, lr=0.01))
    full = fit(other, split.batches(BATCH), quiet(lr=0.01))
    assert half.step_losses == pytest.approx(full.step_losses, rel=tolerance)
    assert half.step_losses != full.step_losses, "the precision had an effect"
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


def test_fp16_accumulates_and_clips_what_it_has_unscaled(model, split: Split):
    other = copy.deepcopy(model)
    settings = {"accumulate": 3, "clip_norm": 0.2}
    fit(model, split.batches(8), quiet(precision="fp16", **settings))
    fit(other, split.batches(8), quiet(**settings))
    assert torch.allclose(vector(model), vector(other), atol=2e-3)


class HostReads(TorchDispatchMode):
    """Counts the operations that make the host wait for a value on the device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
        return function(*args, **(kwargs or {}))


OPTIONS = {
    "plain": {},
    "adamw": {"optimizer": "adamw", "lr": 0.001},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "fp16 clipped": {"precision": "fp16", "clip_norm": 1.0},
    "clipped": {"clip_norm": 1.0},
    "accumulated": {"accumulate": 2},
    "scheduled": {"schedule": "cosine", "warmup_steps": 1},
}


@pytest.mark.parametrize("settings", OPTIONS.values(), ids=OPTIONS)
def test_the_host_waits_for_the_device_equally_often_however_many_steps(settings: dict):
    def reads(steps: int) -> int:
        seed_all(0)
        split = Split(torch.randn(4 * steps, 5), torch.randint(0, 3, (4 * steps,)))
        with HostReads() as counter:
            fit(models.mlp(5, 4, 3), split.batches(4), quiet(epochs=1, **settings), evaluate_on=split.batches(4))
        return counter.count

    assert 0 < reads(6) == reads(24)


def test_the_counter_sees_a_loop_that_waits(model, split: Split):
    with HostReads() as counter:
        textbook(model, split.batches(BATCH), torch.optim.SGD(model.parameters(), lr=0.1), 1)
    assert counter.count >= 10


def test_totals_of_many_steps_are_packed_and_complete(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(train, "_DRAIN_STEPS", 4)
    totals, losses = Totals(), [float(step) for step in range(10)]
    for loss in losses:
        totals.add(torch.tensor(loss), torch.tensor([True, False]))
        assert totals.latest() == loss
        assert len(totals._losses) < 4
    metrics, steps = totals.read()
    assert (steps, metrics.samples, metrics.accuracy, metrics.loss) == (losses, 20, 0.5, 4.5)


class Watched(nn.Module):
    """Notes the mode of every forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.modes = nn.Linear(784, 10), nn.BatchNorm1d(10), []

    def forward(self, x: Tensor) -> Tensor:
        self.modes.append((self.training, self.norm.training))
        return self.norm(self.linear(x.flatten(1)))


def test_a_model_in_evaluation_mode_is_trained_in_training_mode(split: Split):
    model = Watched().eval()
    fit(model, split.batches(200), quiet(), evaluate_on=split.batches(400))
    assert model.modes == [(True, True), (True, True), (False, False)] * 2
    assert model.training and model.norm.training


def test_a_frozen_normalisation_stays_frozen(split: Split):
    model = Watched()
    model.norm.eval()
    mean = model.norm.running_mean.clone()
    fit(model, split.batches(200), quiet(), evaluate_on=split.batches(400))
    assert model.modes == [(True, False), (True, False), (False, False)] * 2
    assert torch.equal(model.norm.running_mean, mean)
    assert not model.norm.training


def test_evaluation_puts_the_modes_back_when_it_fails(split: Split):
    model = Watched()
    model.norm.eval()
    with pytest.raises(BatchError):
        evaluate(model, [(split.images[:2, :, 1:], split.labels[:2])], device="cpu")
    assert (model.training, model.norm.training) == (True, False)


def test_evaluation_changes_nothing(split: Split):
    seed_all(0)
    model = nn.Sequential(models.cnn(width=4), nn.Dropout(0.5))
    before = copy.deepcopy(model.state_dict())
    first, second = (evaluate(model, split.batches(50), device="cpu") for _ in range(2))
    assert first == second, "dropout is off"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_callbacks_see_each_epoch_and_can_stop_the_run(model, split: Split):
    seen = []

    def stop_after_two(end: EpochEnd) -> None:
        seen.append((end.record.epoch, end.state.epoch, len(end.history.epochs)))
        if end.record.epoch == 1:
            end.stop("enough")

    history = fit(model, split.batches(BATCH), quiet(epochs=9), callbacks=[stop_after_two])
    assert seen == [(0, 1, 1), (1, 2, 2)]
    assert (len(history.epochs), history.stopped) == (2, "enough")


RESUMED = {
    "sgd": {},
    "adamw, cosine": {"optimizer": "adamw", "lr": 0.002, "schedule": "cosine", "warmup_steps": 3},
    "fp16, accumulated": {"precision": "fp16", "accumulate": 3, "schedule": "linear"},
}


@pytest.mark.parametrize("settings", RESUMED.values(), ids=RESUMED)
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(model, split: Split, settings: dict):
    other, config = copy.deepcopy(model), quiet(epochs=4, **settings)
    whole = fit(other, shuffled(split), config)

    state = TrainState.create(model, config, steps_per_epoch=len(shuffled(split)))
    stop = [lambda end: end.stop("half") if end.record.epoch == 1 else None]
    first = fit(model, shuffled(split), config, state=state, callbacks=stop)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "state": state.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    fresh = models.mlp(hidden=16)
    fresh.load_state_dict(saved["model"])
    state = TrainState.create(fresh, config, steps_per_epoch=len(shuffled(split)))
    state.load_state_dict(saved["state"])
    second = fit(fresh, shuffled(split), config, state=state)

    assert first.step_losses + second.step_losses == whole.step_losses
    assert [record.epoch for record in second.epochs] == [2, 3]
    assert torch.equal(vector(fresh), vector(other))


def test_a_finished_run_is_not_run_again(model, split: Split):
    config = quiet()
    state = TrainState.create(model, config)
    fit(model, split.batches(BATCH), config, state=state)
    before = vector(model)
    assert fit(model, split.batches(BATCH), config, state=state).epochs == []
    assert torch.equal(vector(model), before)


def test_a_state_of_another_model_is_refused_before_a_step(model, split: Split):
    state = TrainState.create(models.mlp(hidden=16), quiet())
    with pytest.raises(ConfigError, match="another model"):
        fit(model, split.batches(BATCH), quiet(), state=state)


def test_single_steps_equal_the_loop(model, split: Split):
    other, config = copy.deepcopy(model), quiet(epochs=1)
    state = TrainState.create(model, config)
    losses = [train_step(model, *batch, state, config).item() for batch in split.batches(BATCH)]
    assert losses == fit(other, split.batches(BATCH), config).step_losses
    with pytest.raises(BatchError, match="label 99 is out of range"):
        train_step(model, split.images[:2], torch.tensor([0, 99]), state, config)


def test_one_epoch_alone_keeps_its_sums(model, split: Split):
    config = quiet()
    state = TrainState.create(model, config)
    metrics, losses = train_epoch(model, split.batches(BATCH), state, config, device=CPU).read()
    assert (metrics.samples, len(losses)) == (len(split), 10)


def test_an_own_optimizer_trains_only_what_it_holds(model, split: Split):
    config = quiet()
    before = copy.deepcopy(model.state_dict())
    state = TrainState.create(model, config, optimizer=torch.optim.SGD(model[3].parameters(), lr=0.1))
    fit(model, split.batches(BATCH), config, state=state)
    assert torch.equal(model[1].weight, before["1.weight"])
    assert not torch.equal(model[3].weight, before["3.weight"])


def test_images_that_are_not_contiguous_train_the_same(model, split: Split):
    other = copy.deepcopy(model)
    turned = Split(split.images.transpose(2, 3).contiguous().transpose(2, 3), split.labels)
    assert not turned.images.is_contiguous()
    expected = fit(other, split.batches(BATCH), quiet()).step_losses
    assert fit(model, turned.batches(BATCH), quiet()).step_losses == expected


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "", "cpu:x"])
def test_a_device_that_is_not_there_is_named(model, split: Split, device: str):
    with pytest.raises(CourseError, match=rf"device '{device}' cannot be used here .*Use 'auto' or 'cpu'"):
        fit(model, split.batches(BATCH), quiet(device=device))


def test_nothing_of_the_run_warns(model, split: Split, recwarn: pytest.WarningsRecorder):
    fit(model, split.batches(BATCH), quiet(precision="fp16", schedule="cosine"), evaluate_on=split.batches(BATCH))
    assert Counter(str(warning.message) for warning in recwarn) == {}


def test_training_learns(split: Split):
    seed_all(0)
    digits = load("digits")
    config = quiet(epochs=3, schedule="cosine")
    history = fit(models.mlp(), digits.train.batches(32, shuffle=True), config, evaluate_on=digits.test.batches(360))
    assert history.last.evaluation is not None and history.last.evaluation.accuracy > 0.9
