"""Where a NaN came from: the right step and the right place, in every kind of run."""

import copy
import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from helpers import nonfinite, train
from helpers.config import TrainConfig
from helpers.data import Split
from helpers.nonfinite import Limits, NonFiniteLoss, ReplayPoint
from helpers.optim import TrainState
from helpers.train import fit
from tests import runs
from tests.runs import one_thread

NAN = float("nan")


@pytest.fixture(autouse=True, scope="module")
def alone() -> Iterator[None]:
    with one_thread():
        yield


def quiet(**settings: object) -> TrainConfig:
    return runs.quiet(**{"epochs": 1, **settings})


def sound(samples: int = 40) -> Split:
    generator = torch.Generator().manual_seed(0)
    return Split(torch.randn(samples, 5, generator=generator), torch.arange(samples) % 3)


def spoilt(at: int, samples: int = 40) -> Split:
    """A split whose sample ``at`` holds a NaN."""
    split = sound(samples)
    split.images[at, 2] = NAN
    return split


class Switch(nn.Module):
    """A model that goes wrong in its call number ``at``, in the way that a subclass says."""

    def __init__(self, at: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.at = nn.Linear(5, 4), nn.Linear(4, 3), at
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))  # a buffer, so that a replay counts again

    def forward(self, x: Tensor) -> Tensor:
        now = int(self.calls) == self.at
        self.calls += 1
        return self.last(self.between(self.first(x), now))

    def between(self, x: Tensor, now: bool) -> Tensor:
        return x


class InActivation(Switch):
    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.log = Log()

    def between(self, x: Tensor, now: bool) -> Tensor:
        return self.log(x) if now else x


class Log(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(-x.abs() - 1)


class InForward(Switch):
    """Its NaN appears between modules, in the model's own forward."""

    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        return logits * NAN if int(self.calls) == self.at + 1 else logits


class NaNBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * NAN


class InGradient(Switch):
    def between(self, x: Tensor, now: bool) -> Tensor:
        return NaNBackward.apply(x) if now else x


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))


def bad_weights() -> nn.Module:
    net = model()
    with torch.no_grad():
        net[2].bias[1] = NAN
    return net


def log_of_zero(logits: Tensor, labels: Tensor) -> Tensor:
    """A loss of one's own that is infinite once a label is 2."""
    return functional.cross_entropy(logits, labels) - torch.log((labels != 2).float()).mean()


def caught(net: nn.Module, batches, config: TrainConfig | None = None, **kwargs: object) -> NonFiniteLoss:
    with pytest.raises(NonFiniteLoss) as error:
        fit(net, batches, config or quiet(), **kwargs)
    return error.value


PLACES = {
    "inputs": (lambda: model(), spoilt(17), {}, 4, "the inputs of step 5: 1 of 20 values of 'images'. Look at"),
    "activations": (
        lambda: InActivation(3), sound(), {}, 3, "the activations of step 4: 16 of 16 values of 'log (Log)'. Lower the",
    ),
    "activations between modules": (
        lambda: InForward(3), sound(), {}, 3, "the activations of step 4: 12 of 12 values of 'the model (InForward)'.",
    ),
    "gradients": (lambda: InGradient(3), sound(), {}, 4, "the gradients of step 4: 20 of 20 values of 'first.weight'."),
    "loss": (
        lambda: model(), [(sound().images[:2], torch.tensor([0, n])) for n in (0, 1, 2)], {"loss_fn": log_of_zero}, 2,
        "the loss of step 3: it is inf. The logits were finite: look at the loss function",
    ),
    "parameters": (bad_weights, sound(), {}, 0, "the parameters of step 1: 1 of 3 values of '2.bias'. They were so"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "data", "kwargs", "step", "message"), PLACES.values(), ids=PLACES)
def test_the_place_and_the_step_are_found(build, data, kwargs: dict, step: int, message: str, request):
    batches = data.batches(4) if isinstance(data, Split) else data
    error = caught(build(), batches, **kwargs)
    assert error.place == request.node.callspec.id.split()[0]
    assert error.step == step, "the first step whose loss is not finite"
    assert message in str(error)
    assert f"at step {step + 1} of epoch 1" in str(error)


def steep(logits: Tensor, labels: Tensor) -> Tensor:
    return 1_000 * functional.cross_entropy(logits, labels)


def test_a_step_size_that_overflows_is_blamed_on_the_update():
    error = caught(model(), sound().batches(4), quiet(lr=1e38, momentum=0), loss_fn=steep)
    assert (error.place, error.step) == ("update", 1)
    assert "The gradients were finite and the optimizer's step was too large" in str(error)


@pytest.mark.parametrize("settings", [{}, {"accumulate": 4}], ids=["each step", "a window that the epoch cuts"])
def test_a_nan_made_by_the_last_step_is_found_in_its_own_epoch(settings: dict):
    error = caught(InGradient(9), sound().batches(4), quiet(epochs=3, **settings))
    assert (error.place, error.step) == ("gradients", 9)
    assert "the loss is finite, but the parameters are not after step 10, the last of epoch 1" in str(error)


def test_a_last_update_that_overflows_is_found():
    error = caught(model(), sound(4).batches(4), quiet(lr=1e38, momentum=0, accumulate=3), loss_fn=steep)
    assert (error.place, error.step) == ("update", 0)


def test_under_accumulation_the_batch_is_named_and_not_the_update():
    error = caught(InGradient(5), sound().batches(4), quiet(accumulate=4))
    assert error.place == "gradients"
    assert "the gradients of step 6" in str(error)
    assert error.step == 8, "the window ended with step 8"


@pytest.mark.parametrize("settings", [{"precision": "bf16"}, {"optimizer": "adamw"}, {"clip_norm": 1.0}])
def test_every_option_finds_the_place(settings: dict):
    error = caught(InGradient(3), sound().batches(4), quiet(**settings))
    assert error.place == "gradients" and "step 4" in str(error)


def test_in_fp16_an_overflowing_gradient_is_the_scalers_business():
    assert fit(InGradient(3), sound().batches(4), quiet(precision="fp16")).epochs, "the scaler skips the step"


def test_in_fp16_an_overflowing_activation_is_found():
    huge = sound()
    huge.images[17] = 3e38  # finite in fp32
    error = caught(model(), huge.batches(4), quiet(precision="fp16"))
    assert error.place == "activations" and "step 5" in str(error)


def test_a_late_step_is_found_after_the_losses_were_packed(monkeypatch: pytest.MonkeyPatch):
    assert train._DRAIN_STEPS < 1_500
    error = caught(model(), spoilt(1_500, samples=1_510).batches(1))
    assert (error.place, error.step) == ("inputs", 1_500)


def test_a_later_epoch_is_replayed_from_its_own_start():
    error = caught(InGradient(23), sound().batches(4), quiet(epochs=4))
    assert (error.place, error.step) == ("gradients", 4)
    assert "of epoch 3" in str(error) and "the gradients of step 4" in str(error)


def test_the_model_is_left_as_it_was_before_that_place():
    net, other = InGradient(3), Switch(at=99)
    other.load_state_dict(net.state_dict())
    caught(net, sound().batches(4))
    fit(other, sound().first(12).batches(4), quiet())
    assert torch.equal(net.first.weight, other.first.weight)
    assert not any(module._forward_hooks for module in net.modules()), "nothing keeps watching"


SHUFFLED = {
    "batches": lambda split: split.batches(4, shuffle=True, seed=3),
    "a DataLoader": lambda split: DataLoader(split.dataset(), batch_size=4, shuffle=True),
    "a DataLoader with a generator": lambda split: DataLoader(
        split.dataset(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(7)
    ),
    "a sampler with a generator": lambda split: DataLoader(
        split.dataset(),
        batch_size=4,
        sampler=RandomSampler(split.dataset(), generator=torch.Generator().manual_seed(7)),
    ),
}


@pytest.mark.parametrize("loader", SHUFFLED.values(), ids=SHUFFLED)
def test_a_shuffled_epoch_is_replayed_in_the_same_order(loader):
    torch.manual_seed(0)
    error = caught(model(), loader(spoilt(17)), quiet(epochs=2))
    assert error.place == "inputs"
    assert f"the inputs of step {error.step + 1}:" in str(error), "the same batch came at the same step"


def test_an_epoch_that_began_at_an_offset_is_replayed_from_there():
    batches = spoilt(17).batches(4)
    batches.start_at(8)
    error = caught(model(), batches)
    assert (error.place, error.step) == ("inputs", 2)


@pytest.mark.parametrize("draw", [lambda: torch.rand(()).item(), random.random, np.random.rand])
def test_augmentation_by_chance_is_replayed(draw):
    class Noisy(TensorDataset):
        def __getitem__(self, index: int):
            image, label = super().__getitem__(index)
            return image * (NAN if draw() < 0.05 else 1), label

    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    split = sound()
    error = caught(model(), DataLoader(Noisy(split.images, split.labels), batch_size=4))
    assert error.place == "inputs"
    assert f"the inputs of step {error.step + 1}:" in str(error)


def test_a_loader_that_is_used_up_still_gives_the_step():
    error = caught(model(), iter(list(spoilt(17).batches(4))))
    assert (error.place, error.step) == (None, 4)
    assert "give fit a loader that can be iterated twice" in str(error)


def test_a_model_too_large_to_copy_still_gives_the_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nonfinite, "Limits", lambda: Limits(snapshot_bytes=10))
    error = caught(model(), spoilt(17).batches(4))
    assert (error.place, error.step) == (None, 4)
    assert "too large to look for the place" in str(error)


def test_the_copy_counts_the_optimizers_state_too():
    net, config = model(), quiet(optimizer="adamw")
    state = TrainState.create(net, config)
    weights = sum(value.nbytes for value in net.state_dict().values())
    limits = Limits(snapshot_bytes=2 * weights)
    assert ReplayPoint.take(net, state, [], limits) is not None
    fit(net, sound().batches(4), config, state=state)
    assert ReplayPoint.take(net, state, [], limits) is None, "AdamW keeps two numbers beside each weight"


def test_restoring_puts_everything_back():
    torch.manual_seed(0)
    net, config = model(), quiet(optimizer="adamw", epochs=2)
    state = TrainState.create(net, config)
    fit(net, sound().batches(4), quiet(optimizer="adamw"), state=state)
    replay = ReplayPoint.take(net, state, [])
    assert replay is not None
    before = copy.deepcopy((net.state_dict(), state.state_dict()["optimizer"]["state"][0]["exp_avg"]))
    numbers = torch.rand(2), random.random(), np.random.rand()
    fit(net, sound().batches(4), config, state=state)
    replay.restore(net, state)
    assert all(torch.equal(net.state_dict()[name], value) for name, value in before[0].items())
    assert torch.equal(state.state_dict()["optimizer"]["state"][0]["exp_avg"], before[1])
    assert (torch.rand(2).tolist(), random.random(), np.random.rand()) == (numbers[0].tolist(), *numbers[1:])


def test_finite_runs_leave_no_trace_of_the_watch():
    net = model()
    fit(net, sound().batches(4), quiet(epochs=2))
    assert not any(module._forward_hooks for module in net.modules())
