"""Random numbers that depend on a seed and on nothing else.

One seed gives many independent streams: :func:`derive` hashes the seed together with any numbers
that name the stream (the epoch, the rank, the worker), so that stream ``(seed, 3)`` can be made
without drawing streams 0 to 2 first. That is what makes an exact resume possible.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

_LEGACY_SEED_LIMIT = 2**32
"""NumPy's legacy generator, which libraries still share, takes 32 bits."""

_SEED_LIMIT = 2**64
"""PyTorch's generators take 64 bits."""


def derive(seed: int, *stream: int) -> int:
    """Return a 63-bit seed for one named stream of random numbers.

    Args:
        seed: The run's seed, not negative.
        *stream: Numbers that name the stream, for example the epoch and the rank.

    Raises:
        ValueError: If the seed or a stream number is negative.

    Source:
        NumPy's ``SeedSequence``, built for this: nearby seeds give unrelated streams.
    """
    if seed < 0 or any(number < 0 for number in stream):
        raise ValueError(f"seeds and stream numbers start at 0; got seed={seed}, stream={stream}. Use abs() or a hash.")
    state = np.random.SeedSequence(entropy=seed, spawn_key=stream).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def generator(seed: int, *stream: int) -> torch.Generator:
    """Return a PyTorch CPU generator for one named stream (see :func:`derive`)."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *stream))


def seed_all(seed: int) -> None:
    """Seed Python, NumPy and each framework that this process has already imported.

    A framework that is not loaded is left alone: seeding must not cost the seconds of an import.
    Call this again after importing one.

    Raises:
        ValueError: If the seed is negative, or has more than 64 bits.
    """
    if seed >= _SEED_LIMIT:
        raise ValueError(f"seeds have at most 64 bits; got {seed}. Use a smaller number.")
    legacy = derive(seed) % _LEGACY_SEED_LIMIT
    random.seed(seed)
    np.random.seed(legacy)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].random.set_seed(legacy)
