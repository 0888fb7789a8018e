"""The compiled step: the same run as the eager one, in one graph, with the same errors."""

import copy
import shutil

import pytest
import torch
from torch import Tensor, nn

from helpers import models
from helpers.config import ConfigError, TrainConfig
from helpers.data import Split
from helpers.explain import BatchError
from helpers.nonfinite import NonFiniteLoss
from helpers.seeding import seed_all
from helpers.train import fit

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("g++", "clang++")), reason="compiling needs a C++ compiler: install g++"
)


def quiet(**settings: object) -> TrainConfig:
    return TrainConfig(**{"epochs": 2, "progress": False, "device": "cpu", "lr": 0.02, **settings})


@pytest.fixture(scope="module")
def split() -> Split:
    generator = torch.Generator().manual_seed(0)
    return Split(torch.randn(44, 1, 4, 4, generator=generator), torch.arange(44) % 3)


class Unused(nn.Module):
    """Has a layer that the forward pass does not touch, and batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@pytest.mark.slow
def test_every_option_compiled_equals_the_eager_run(split: Split):
    """One test for all, so that the compiler starts once. Batches of 8 leave a short one, of 4 samples."""
    cases = {
        "plain": (models.mlp(16, 8, 3), {}),
        "accumulated, clipped": (models.mlp(16, 8, 3), {"accumulate": 2, "clip_norm": 0.5}),
        "adamw, bf16": (models.mlp(16, 8, 3), {"optimizer": "adamw", "lr": 0.002, "precision": "bf16"}),
        "fp16": (models.mlp(16, 8, 3), {"precision": "fp16", "schedule": "cosine"}),
        "normalised, unused": (Unused(), {}),
    }
    whole = list(split.batches(8))
    batches = [whole[0], whole[1], whole[5], *whole[2:]]  # a full batch follows a short one within a window
    for name, (compiled, settings) in cases.items():
        eager = copy.deepcopy(compiled)
        history = fit(compiled, batches, quiet(compile=True, **settings), evaluate_on=split.batches(8))
        expected = fit(eager, batches, quiet(**settings), evaluate_on=split.batches(8))
        tolerance = 1e-5 if quiet(**settings).precision == "fp32" else 2e-2
        assert history.step_losses == pytest.approx(expected.step_losses, rel=tolerance), name
        for key, value in eager.state_dict().items():
            assert torch.allclose(compiled.state_dict()[key], value, rtol=tolerance, atol=tolerance), (name, key)


@pytest.mark.slow
def test_equal_models_share_a_graph_and_errors_are_those_of_the_eager_step(split: Split):
    from torch._dynamo.utils import counters

    def graphs() -> int:
        return counters["stats"]["unique_graphs"]

    net = models.mlp(16, 9, 3)  # a size that no other test compiles
    before = graphs()
    fit(net, split.batches(8), quiet(compile=True))
    assert graphs() == before + 1, "the short last batch has none"
    for again in (net, models.mlp(16, 9, 3)):
        fit(again, split.batches(8), quiet(compile=True))
    assert graphs() == before + 1, "neither a second run nor another model of that shape compiles anew"

    bad = Split(split.images, split.labels.clone())
    bad.labels[9] = 7
    with pytest.raises(BatchError, match="label 7 is out of range"):
        fit(copy.deepcopy(net), bad.batches(8), quiet(compile=True))
    with pytest.raises(BatchError, match=r"cannot take images of shape \[8, 1, 4, 3\]"):
        fit(copy.deepcopy(net), Split(split.images[..., :3], split.labels).batches(8), quiet(compile=True))
    nan = Split(split.images.clone(), split.labels)
    nan.images[9, 0, 0] = float("nan")
    with pytest.raises(NonFiniteLoss, match="the inputs of step 2"):
        fit(copy.deepcopy(net), nan.batches(8), quiet(compile=True))


class Printing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        if float(x.sum()) > 0:
            torch._dynamo.graph_break()
        return self.linear(x.flatten(1))


def test_a_model_that_does_not_become_one_graph_is_said_so(split: Split):
    with pytest.raises(ConfigError, match=r"compile=True: this model .* Set compile=False"):
        fit(Printing(), split.batches(8), quiet(compile=True))


def test_dropout_in_a_compiled_step_drops(split: Split):
    seed_all(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.Dropout(0.9))
    losses = fit(net, [(split.images, split.labels)], quiet(compile=True, lr=0.0, epochs=3)).step_losses
    assert len(set(losses)) == 3, "each step drops anew"
