"""What a run carries from step to step: the accumulation window, the schedule, the state that is saved."""

import io

import pytest
import torch
from torch import nn

from helpers.config import ConfigError, TrainConfig
from helpers.optim import TrainState, Window, make_optimizer


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def test_a_window_weighs_batches_by_their_samples():
    window = Window(size=3)
    assert [window.weigh(samples) for samples in (8, 8, 2)] == [1, 1, 0.25]
    assert window.full and window.weight == 2.25


def test_a_cleared_window_begins_anew():
    window = Window(size=2)
    window.weigh(8)
    window.clear()
    assert window.empty and window.weight == 0
    assert window.weigh(2) == 1, "weights relate to the window's own first batch"


def rates(config: TrainConfig, *, batches: int) -> list[float]:
    """Return the learning rate of each optimizer step of a run."""
    net = model()
    state = TrainState.create(net, config, steps_per_epoch=batches)
    used = []
    state.optimizer.register_step_pre_hook(lambda optimizer, *_: used.append(optimizer.param_groups[0]["lr"]))
    for _ in range(config.epochs * -(-batches // config.accumulate)):
        net(torch.ones(1, 3)).sum().backward()
        state.window.weigh(1)
        state.update(config)
    return used


SCHEDULES = {
    "constant": (TrainConfig(lr=1, epochs=1), 4, [1, 1, 1, 1]),
    "constant after a warm-up": (TrainConfig(lr=1, epochs=1, warmup_steps=2), 4, [0.5, 1, 1, 1]),
    "linear": (TrainConfig(lr=1, epochs=1, schedule="linear"), 4, [1, 0.75, 0.5, 0.25]),
    "linear after a warm-up": (
        TrainConfig(lr=2, epochs=1, schedule="linear", warmup_steps=2), 6, [1, 2, 2, 1.5, 1, 0.5],
    ),
    "cosine": (TrainConfig(lr=1, epochs=1, schedule="cosine"), 4, [1, 0.853553, 0.5, 0.146447]),
    "over all epochs": (TrainConfig(lr=1, epochs=2, schedule="linear"), 2, [1, 0.75, 0.5, 0.25]),
    "in optimizer steps": (TrainConfig(lr=1, epochs=1, schedule="linear", accumulate=3), 4, [1, 0.5]),
}  # fmt: skip


@pytest.mark.parametrize(("config", "batches", "expected"), SCHEDULES.values(), ids=SCHEDULES)
def test_the_learning_rate_follows_the_schedule(config: TrainConfig, batches: int, expected: list[float]):
    assert rates(config, batches=batches) == pytest.approx(expected, abs=1e-6)


REFUSED = {
    "a schedule without a length": ({"schedule": "cosine"}, None, "schedule='cosine' ends .*has no length"),
    "a schedule over nothing": ({"schedule": "linear"}, 0, "schedule='linear' ends .*has length 0"),
    "a warm-up as long as the run": (
        {"schedule": "linear", "epochs": 2, "warmup_steps": 8}, 4, "warmup_steps=8, but the run has 8 optimizer steps",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "batches", "message"), REFUSED.values(), ids=REFUSED)
def test_a_schedule_that_cannot_be_kept_is_refused(settings: dict, batches: int | None, message: str):
    with pytest.raises(ConfigError, match=message):
        TrainState.create(model(), TrainConfig(**settings), steps_per_epoch=batches)


def test_a_frozen_model_has_nothing_to_train():
    net = model().requires_grad_(False)
    with pytest.raises(ConfigError, match=r"the model has no parameter with requires_grad=True; .*Unfreeze"):
        TrainState.create(net, TrainConfig())


def test_an_optimizer_of_another_model_is_refused():
    stale = torch.optim.SGD(model().parameters(), lr=1)
    with pytest.raises(ConfigError, match=r"the optimizer holds no parameter of the model .*after the model"):
        TrainState.create(model(), TrainConfig(), optimizer=stale)


def test_only_the_own_optimizers_parameters_are_trained():
    net = model()
    state = TrainState.create(net, TrainConfig(), optimizer=torch.optim.SGD([net.bias], lr=1))
    assert [id(parameter) for parameter in state.parameters] == [id(net.bias)]


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_the_optimizer_is_the_configs_and_fused(optimizer: str):
    config = TrainConfig(optimizer=optimizer, lr=0.3, momentum=0.7, weight_decay=0.2)
    (group,) = make_optimizer(list(model().parameters()), config).param_groups
    assert (group["lr"], group["weight_decay"], group["fused"]) == (0.3, 0.2, True)
    assert group.get("momentum", 0.7) == 0.7


def test_an_update_takes_the_mean_over_the_window_and_drops_the_gradients():
    net, config = model(), TrainConfig(lr=1, momentum=0, accumulate=2)
    state = TrainState.create(net, config)
    before = net.weight.detach().clone()
    for samples in (4, 2):
        weight = state.window.weigh(samples)
        (net.weight.sum() * weight).backward()
    state.update(config)
    assert torch.allclose(net.weight, before - 1), "the mean of equal gradients is one of them"
    assert net.weight.grad is None and state.window.empty


def test_gradients_are_clipped_to_the_norm_after_averaging():
    net, config = model(), TrainConfig(lr=1, momentum=0, clip_norm=0.5)
    state = TrainState.create(net, config)
    before = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    state.window.weigh(1)
    (100 * net(torch.ones(1, 3)).sum()).backward()
    state.update(config)
    moved = nn.utils.parameters_to_vector(net.parameters()) - before
    assert moved.norm().item() == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_state_is_saved_as_plain_values_and_tensors(precision: str):
    net, config = model(), TrainConfig(optimizer="adamw", schedule="cosine", precision=precision)
    state = TrainState.create(net, config, steps_per_epoch=5)
    state.window.weigh(1)
    state.scaler.scale(net(torch.ones(1, 3)).sum()).backward()
    state.update(config)
    state.epoch = 1
    file = io.BytesIO()
    torch.save(state.state_dict(), file)
    file.seek(0)
    fresh = TrainState.create(net, config, steps_per_epoch=5)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert fresh.epoch == 1
    assert fresh.optimizer.param_groups[0]["lr"] == state.optimizer.param_groups[0]["lr"]
    assert fresh.scaler.state_dict() == state.scaler.state_dict()
    moments = [state.optimizer.state[net.weight]["exp_avg"], fresh.optimizer.state[net.weight]["exp_avg"]]
    assert torch.equal(*moments)


MISFITS = {
    "another precision": ({"precision": "bf16"}, "made with precision='fp32', but the config says 'bf16'"),
    "another window": ({"accumulate": 4}, "made with accumulate=1, but the config says 4"),
}


@pytest.mark.parametrize(("settings", "message"), MISFITS.values(), ids=MISFITS)
def test_a_state_made_for_other_settings_is_refused(settings: dict, message: str):
    net = model()
    with pytest.raises(ConfigError, match=message):
        TrainState.create(net, TrainConfig()).check_belongs(net, TrainConfig(**settings))


def test_a_state_of_another_model_is_refused():
    with pytest.raises(ConfigError, match="parameters of another model, so this one would not learn"):
        TrainState.create(model(), TrainConfig()).check_belongs(model(), TrainConfig())
