"""The models: shapes, sizes, and weights that the seed decides."""

import pytest
import torch
from torch import nn

from helpers import models
from helpers.seeding import seed_all

BUILDERS = {
    "mlp": (lambda: models.mlp(), (1, 28, 28), 10),
    "mlp of other sizes": (lambda: models.mlp(inputs=12, hidden=5, classes=3), (3, 2, 2), 3),
    "cnn": (lambda: models.cnn(), (1, 28, 28), 10),
    "cnn on the smallest images": (lambda: models.cnn(3, 4, width=2), (3, 4, 4), 4),
    "resnet18": (lambda: models.resnet18(6), (3, 32, 32), 6),
}


@pytest.mark.parametrize(("build", "shape", "classes"), BUILDERS.values(), ids=BUILDERS)
def test_a_batch_gives_logits(build, shape: tuple[int, ...], classes: int):
    assert build()(torch.randn(2, *shape)).shape == (2, classes)


@pytest.mark.parametrize(("build", "shape", "classes"), BUILDERS.values(), ids=BUILDERS)
def test_the_seed_decides_the_weights(build, shape: tuple[int, ...], classes: int):
    def weights(seed: int) -> torch.Tensor:
        seed_all(seed)
        return nn.utils.parameters_to_vector(build().parameters())

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_parameters_are_counted_once_and_only_if_they_learn():
    model = models.mlp()
    assert models.parameter_count(model) == 784 * 128 + 128 + 128 * 10 + 10
    model[1].weight.requires_grad_(False)
    assert models.parameter_count(model) == 128 + 128 * 10 + 10
    model[3].weight = nn.Parameter(torch.zeros(10, 128))
    shared = nn.Sequential(model[3], model[3])
    assert models.parameter_count(shared) == 10 * 128 + 10


def test_same_weights_copies_parameters_and_buffers_and_shares_neither():
    one, other = models.cnn(), models.cnn()
    other(torch.randn(4, 1, 8, 8))  # moves the running statistics
    models.same_weights(one, other)
    for name, value in other.state_dict().items():
        assert torch.equal(one.state_dict()[name], value), name
    with torch.no_grad():
        other[0].weight.zero_()
    assert one[0].weight.abs().sum() > 0


def test_same_weights_refuses_another_architecture():
    with pytest.raises(RuntimeError, match="size mismatch"):
        models.same_weights(models.mlp(hidden=4), models.mlp(hidden=8))
