"""One process for each contender, and turns between them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from helpers.timing import Timings, compare

from .contenders import BATCH, CONTENDERS, Scores

WARM_UP_STEPS = 20


class Worker:
    """A contender in its own process, asleep until it has the turn."""

    def __init__(self, name: str, root: Path, *, threads: int | None) -> None:
        """Start it and wait until it has warmed up.

        Args:
            name: One of :data:`.contenders.CONTENDERS`.
            root: Where the IDX files lie.
            threads: PyTorch's threads; None leaves its own choice.
        """
        self.name = name
        self.scores: Scores = []
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in close()
        command = [sys.executable, "-m", "tests.benchmarks.turns", name, str(root), str(threads or 0)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answer()

    def run(self, epochs: int) -> None:
        """Let it train."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{epochs}\n")
        self._process.stdin.flush()
        self.scores = self._answer()

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._errors.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(
                f"the contender {self.name!r} ended with status {self._process.returncode}. "
                f"It wrote:\n{self._errors.read()[-3000:]}"
            )
        return json.loads(line)


def take_turns(
    names: Sequence[str], root: Path, *, epochs: int, rounds: int, threads: int | None = 1
) -> tuple[Timings, dict[str, Scores]]:
    """Let contenders train in turn.

    Returns:
        The seconds of every round, and each contender's scores in the last one.
    """
    with contextlib.ExitStack() as stack:
        workers = []
        for name in names:
            worker = Worker(name, root, threads=threads)
            stack.callback(worker.close)
            workers.append(worker)
        turns = {worker.name: lambda worker=worker: worker.run(epochs) for worker in workers}
        timings = compare(turns, repeats=rounds, warmup=0)  # each has warmed up by itself
        return timings, {worker.name: worker.scores for worker in workers}


def main(name: str, root: Path, threads: int) -> None:
    """Be a worker: prepare, then train for as many epochs as each line of the input says."""
    answers = _own_answers()
    import torch

    from helpers import data

    if threads:
        torch.set_num_threads(threads)
    split = data.load("mnist", root=root, download=False).train
    prepare = CONTENDERS[name]
    prepare(split.first(BATCH * WARM_UP_STEPS), root)(2)
    run = prepare(split, root)
    if name == "keras":  # it traces a function for each model
        run(1)
    _send(answers, [])
    for line in sys.stdin:
        _send(answers, run(int(line)))


def _own_answers() -> IO[str]:
    """Return a file for the answers; what libraries print to standard output goes to standard error instead."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _send(answers: IO[str], value: Any) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
