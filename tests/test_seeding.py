"""Seeds: reproducible, independent streams, and no framework imported for their sake."""

import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.seeding import derive, generator, seed_all

words = st.integers(0, 2**32 - 1)
streams = st.lists(words, max_size=3).map(tuple)


@settings(deadline=None)  # times mean nothing on a busy machine
@given(words, streams)
def test_a_stream_depends_on_its_name_alone(seed: int, stream: tuple[int, ...]):
    assert derive(seed, *stream) == derive(seed, *stream)


@settings(deadline=None)  # times mean nothing on a busy machine
@given(words, streams, words, streams)
def test_different_names_give_different_seeds(seed, stream, other_seed, other_stream):
    if (seed, stream) != (other_seed, other_stream):
        assert derive(seed, *stream) != derive(other_seed, *other_stream)


def test_the_derived_seed_is_fixed_for_ever():
    assert (derive(0), derive(0, 1), derive(1, 2, 3)) == (7896617691693857887, 2440950710608614359, 5464283449182725445)


@settings(deadline=None)  # times mean nothing on a busy machine
@given(words, streams)
def test_a_derived_seed_fits_a_signed_64_bit_integer(seed: int, stream: tuple[int, ...]):
    assert 0 <= derive(seed, *stream) < 2**63


def test_streams_of_neighbouring_seeds_are_unrelated():
    draws = torch.stack([torch.randn(2_000, generator=generator(seed, s)) for seed in range(3) for s in range(3)])
    correlations = torch.corrcoef(draws) - torch.eye(len(draws))
    assert correlations.abs().max() < 0.1


@pytest.mark.parametrize(("seed", "stream"), [(-1, ()), (0, (-3,)), (0, (1, -1))])
def test_a_negative_number_is_refused_by_name(seed: int, stream: tuple[int, ...]):
    with pytest.raises(ValueError, match=rf"seed={seed}, stream=.*abs\(\)"):
        derive(seed, *stream)


def test_seed_all_seeds_python_numpy_and_torch():
    def draw():
        seed_all(7)
        return random.random(), np.random.rand(), torch.rand(1).item()

    first = draw()
    assert draw() == first
    seed_all(8)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) != first


def test_seed_all_gives_torch_the_seed_itself():
    seed_all(3)
    ours = torch.rand(4)
    torch.manual_seed(3)
    assert torch.equal(ours, torch.rand(4))


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_all_refuses_what_a_framework_could_not_take(seed: int):
    before = random.getstate()
    with pytest.raises(ValueError, match=str(seed)):
        seed_all(seed)
    assert random.getstate() == before, "nothing is half seeded"


def test_seed_all_imports_no_framework():
    code = (
        "import sys; from helpers.seeding import seed_all; seed_all(0); print({'torch', 'tensorflow'} & {*sys.modules})"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
