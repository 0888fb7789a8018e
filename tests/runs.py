"""Small, quiet training runs for the tests of the loop."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from helpers import models
from helpers.config import TrainConfig
from helpers.data import Split, load
from helpers.seeding import seed_all

BATCH = 32


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine cost far more than these small models."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def quiet(**settings: object) -> TrainConfig:
    """Settings of two epochs on the CPU without a bar, but for what is given."""
    return TrainConfig(**{"epochs": 2, "progress": False, "device": "cpu", **settings})


def ten_batches() -> Split:
    """Digits for ten batches of ``BATCH``, the last one short."""
    return load("digits", samples=10 * BATCH - 12).train


def small_mlp() -> nn.Module:
    """A model for the digits, always with the same weights."""
    seed_all(0)
    return models.mlp(hidden=16)


def vector(model: nn.Module) -> Tensor:
    """Return a copy of all parameters in one row."""
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()
