"""Where the time of a compiled step goes: parts are added one at a time, from the bare products upward."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.timing import compare

_STEPS = 40
_ROUNDS = 80

PARTS = (
    "the five matrix products",
    "calling the compiled graph: guards, dispatch, bias, ReLU, loss, memory for the gradients",
    "shuffling: gathering the batch",
    "the optimizer's fused step",
    "schedule, scaler, accumulation window",
    "loss and accuracy",
    "checks of the batch, progress, device moves",
)


def microseconds(root: Path) -> dict[str, float]:
    """Return the microseconds that each part adds to a step, with one thread, in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.breakdown", str(root)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(answer.splitlines()[-1]))


def _measure(root: Path) -> dict[str, float]:
    import torch

    from helpers import data, graph_step

    from .contenders import BATCH, products

    torch.set_num_threads(1)
    split = data.load("mnist", root=root, download=False).train.first(BATCH * 200)
    few = split.first(BATCH * _STEPS)
    run_products = products(few, root)
    candidates: dict[str, Callable[[], object]] = {PARTS[0]: lambda: run_products(1)}
    with graph_step.enabled(True):
        for number, name in enumerate(PARTS[1:], start=1):
            candidates[name] = _steps(split, number)
        timings = compare(candidates, repeats=_ROUNDS, warmup=3)
    # A quiet round is what each part costs; the lower quartile is steadier than the minimum.
    quiet = {name: sorted(seconds)[len(seconds) // 4] / _STEPS * 1e6 for name, seconds in timings.seconds.items()}
    totals = [quiet[name] for name in PARTS]
    return {name: upper - lower for name, upper, lower in zip(PARTS, totals, [0.0, *totals], strict=False)}


def _steps(split: Any, parts: int) -> Callable[[], None]:
    """Return a function that takes a few compiled steps with so many of the parts."""
    import torch
    from torch.nn import functional

    from helpers import graph_step, train
    from helpers.config import TrainConfig
    from helpers.optim import TrainState

    from .contenders import BATCH, LR, fresh_model

    config = TrainConfig(lr=LR, compile=True, progress=False)
    model, _ = fresh_model()
    state = TrainState.create(model, config)
    forward_backward = graph_step.compiled(train.forward_backward_eager)
    batches = split.batches(BATCH, shuffle=parts >= 2)

    def run() -> None:
        pairs = itertools.islice(batches, _STEPS)
        if parts == len(PARTS) - 1:
            train.train_epoch(model, pairs, state, config, device=torch.device("cpu")).read()
            return
        totals = train.Totals()
        for images, labels in pairs:
            answer = forward_backward(model, images, labels, functional.cross_entropy, state, 1.0)
            if parts >= 5:
                totals.add(*answer)
            if parts >= 4:
                state.window.weigh(len(labels))
                state.update(config)
            elif parts == 3:
                state.optimizer.step()
            state.optimizer.zero_grad()
        if parts >= 5:
            totals.read()

    return run


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]))))
