"""One step taken apart must be the step that an ordinary loop takes, and its bytes must be the arithmetic's."""

import copy

import pytest
import torch

from helpers import data, models, seeding
from helpers.anatomy import PHASES, draw_loop, time_phases, trace_step
from helpers.config import TrainConfig
from helpers.optim import TrainState


@pytest.fixture
def batch():
    return next(iter(data.load("digits").train.batches(32)))


@pytest.fixture
def model():
    seeding.seed_all(0)
    return models.mlp()


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def test_it_takes_the_same_step_as_an_ordinary_loop(model, batch):
    twin = copy.deepcopy(model)
    trace = trace_step(model, *batch, make_optimizer(model))
    optimizer = make_optimizer(twin)
    torch.nn.functional.cross_entropy(twin(batch[0]), batch[1]).backward()
    optimizer.step()
    for name, parameter in twin.named_parameters():
        assert torch.equal(trace.after[name], parameter), name
        assert torch.equal(trace.gradients[name], parameter.grad), name
        assert not torch.equal(trace.before[name], parameter), name


def test_layers_appear_in_the_order_of_the_forward_pass(model, batch):
    trace = trace_step(model, *batch, make_optimizer(model))
    assert [name.split()[1] for name in trace.activations] == ["Flatten", "Linear", "ReLU", "Linear"]
    assert trace.activations["3 Linear"].shape == (32, 10)


def test_bytes_held_are_what_the_arithmetic_says(model, batch):
    weights = 4 * models.parameter_count(model)
    held = trace_step(model, *batch, make_optimizer(model)).held
    assert held["batch"].total == weights
    # kept for backward: the batch (for the first layer's weights) and the ReLU's output
    assert held["activations"].activations == 4 * 32 * (784 + 128)
    assert held["gradients"].gradients == weights
    assert held["gradients"].activations == 0
    assert held["parameters"].total == 3 * weights


def test_activations_grow_with_the_batch_and_nothing_else_does(model):
    split = data.load("digits").train
    optimizer = make_optimizer(model)
    small, large = (
        trace_step(model, *next(iter(split.batches(size))), optimizer).held["activations"] for size in (16, 64)
    )
    assert large.activations == 4 * small.activations
    assert large.parameters == small.parameters


def test_no_hook_stays_on_the_model(model, batch):
    trace_step(model, *batch, make_optimizer(model))
    assert not any(module._forward_hooks for module in model.modules())


def test_no_hook_stays_when_the_model_fails(model, batch):
    with pytest.raises(RuntimeError):
        trace_step(model, batch[0][:, :, :5], batch[1], make_optimizer(model))
    assert not any(module._forward_hooks for module in model.modules())


def test_phases_cover_the_step_and_train_the_model(model):
    before = copy.deepcopy(model.state_dict())
    state = TrainState.create(model, TrainConfig())
    times = time_phases(model, data.load("digits").train.batches(64), state)
    assert tuple(times.seconds) == PHASES
    assert all(value > 0 for value in times.seconds.values())
    assert sum(times.share(phase) for phase in PHASES) == pytest.approx(1)
    assert not torch.equal(before["1.weight"], model.state_dict()["1.weight"])


def test_too_few_batches_to_time_are_refused(model, batch):
    state = TrainState.create(model, TrainConfig())
    with pytest.raises(ValueError, match="there were 5 batches"):
        time_phases(model, [batch] * 5, state)


def test_the_loop_is_drawn_as_a_circle():
    diagram = draw_loop().diagram
    starts, ends = ([getattr(edge, name) for edge in diagram.edges] for name in ("start", "end"))
    assert starts == [node.key for node in diagram.nodes]
    assert ends == [*starts[1:], starts[0]]
