"""Images and labels in the shape of MNIST, as real IDX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers.downloads import write_idx

CLASSES = 10
SIDE = 28
WRONG_LABELS = 0.1
"""Share of labels chosen at random, so that the loss does not approach zero within a few epochs."""


def write_mnist(root: Path, *, train: int, test: int, seed: int = 0) -> None:
    """Write both splits where torchvision and :func:`helpers.data.load` look for MNIST."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    prototypes = np.kron(rng.random((CLASSES, 7, 7)) < 0.3, np.ones((4, 4), bool))
    for split, samples in (("train", train), ("t10k", test)):
        labels = rng.integers(0, CLASSES, samples, dtype=np.uint8)
        images = rng.integers(0, 64, (samples, SIDE, SIDE), dtype=np.uint8)
        images[prototypes[labels]] += 128
        wrong = rng.random(samples) < WRONG_LABELS
        labels[wrong] = rng.integers(0, CLASSES, int(wrong.sum()), dtype=np.uint8)
        write_idx(raw / f"{split}-images-idx3-ubyte", images)
        write_idx(raw / f"{split}-labels-idx1-ubyte", labels)
