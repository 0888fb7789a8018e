"""How much memory training needs, as a multiple of the data set: each number from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil

_HIGH_WATER = "VmHWM:"
"""The line of ``/proc/self/status`` with the largest resident size so far, in KiB."""

WHAT = ("fit", "load", "load and fit")


def growth(what: str, root: Path) -> float:
    """Return the growth of the peak resident memory over what was there after the imports, per byte of data.

    Args:
        what: ``fit`` makes the data in place and trains; ``load`` reads the IDX files; the third does both.
        root: Where the IDX files lie.
    """
    command = [sys.executable, "-m", "tests.benchmarks.memory", what, str(root)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(json.loads(answer.splitlines()[-1]))


def _measure(what: str, root: Path) -> float:
    import torch

    from helpers import data, downloads, models, train
    from helpers.config import TrainConfig

    torch.set_num_threads(1)
    before = psutil.Process().memory_info().rss
    if what == "fit":
        samples = len(downloads.read_idx(root / "MNIST/raw/train-labels-idx1-ubyte", 1))
        split = data.Split(torch.rand(samples, 1, 28, 28), torch.randint(0, 10, (samples,)))
        splits = [split]
    else:
        loaded = data.load("mnist", root=root, download=False)
        split, splits = loaded.train, [loaded.train, loaded.test]
    if what != "load":
        train.fit(models.mlp(), split.batches(64, shuffle=True), TrainConfig(epochs=2, progress=False))
    return (_peak_bytes() - before) / sum(part.images.nbytes + part.labels.nbytes for part in splits)


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(_HIGH_WATER))


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], Path(sys.argv[2]))))
