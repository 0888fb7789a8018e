"""Measure, print the table, write ``book/_data/bench.json``; the status is 1 when a bound is missed."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from helpers import machine
from helpers.timing import Timings

from . import breakdown, files, memory, startup
from .contenders import BATCH, Scores
from .rows import Row, table, write
from .turns import take_turns

PEERS = ("ignite", "accelerate", "lightning", "keras")
SAME_LOSS = 0.05
"""Largest relative difference of the last epoch's loss that still counts as the same work."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured."""

    train: int = 60_000
    test: int = 10_000
    epochs: int = 3
    rounds: int = 7
    peer_rounds: int = 3


QUICK = Size(train=6_000, test=1_000, rounds=3, peer_rounds=2)


class Bench:
    """The comparisons, each a method that returns its rows."""

    def __init__(self, size: Size, root: Path) -> None:
        self.size = size
        self.root = root
        self.steps = math.ceil(size.train / BATCH)
        self.scores: dict[str, Scores] = {}
        self.parts_us: dict[str, float] = {}

    def practical_limit(self) -> Iterator[Row]:
        """``fit`` beside a loop with nothing in it that is not needed."""
        timings = self._turns(("stripped", "fit"), rounds=self.size.rounds)
        yield self._row("fit beside the hand-stripped loop", timings, "fit", "stripped", bound=1.10)

    def textbook(self) -> Iterator[Row]:
        """``fit`` beside what tutorials show, one epoch in each round, as both run by default.

        With one thread the ratio repeats better from run to run, and the stripped loop shows how far any eager
        loop over this data could go: that row is reported and has no part in the verdict.
        """
        names = ("fit", "textbook")
        own = self._turns(names, rounds=3, epochs=1, threads=None)
        note = f"One epoch in each round; the textbook loop took {own.median_s('textbook'):.1f} s."
        yield self._row("fit beside the textbook loop", own, *names, bound=0.1, epochs=1, note=note)
        one = self._turns((*names, "stripped"), rounds=3, epochs=1)
        note = (
            f"The textbook loop took {one.median_s('textbook'):.1f} s. The hand-stripped loop, the limit of an eager "
            f"loop, is at {one.ratio('stripped', 'textbook'):.3g} of it: the time of the model's arithmetic."
        )
        yield self._row(
            "fit beside the textbook loop, one thread", one, *names, bound=0.1, epochs=1, stretch=True, note=note
        )

    def peers(self) -> Iterator[Row]:
        """``fit`` beside the libraries that offer the same."""
        timings = self._turns(("fit", *PEERS), rounds=self.size.peer_rounds)
        for peer in PEERS:
            us = timings.median_s(peer) / self.size.epochs / self.steps * 1e6
            note = f"{peer.capitalize()} took {us:.0f} µs per step."
            yield self._row(
                f"fit beside {peer.capitalize()}", timings, "fit", peer, bound=1, relation="less than", note=note
            )

    def compiled(self) -> Iterator[Row]:
        """Graph execution beside the least that the arithmetic costs."""
        self.parts_us = breakdown.microseconds(self.root)
        parts = ", ".join(f"{name} {us:.0f}" for name, us in self.parts_us.items())
        note = f"Of a step's {sum(self.parts_us.values()):.0f} µs, in microseconds: {parts}."
        single = self._turns(("products", "fit_compiled"), rounds=self.size.peer_rounds + 2)
        yield self._beside_products("one thread", single, self.size.epochs, note)
        own = self._turns(("products", "fit_compiled"), rounds=3, epochs=1, threads=None)
        yield self._beside_products("PyTorch's own choice of threads", own, 1, "One epoch in each round.")

    def _beside_products(self, threads: str, timings: Timings, epochs: int, note: str) -> Row:
        name = f"compiled fit beside its matrix products, {threads}"
        return self._row(name, timings, "fit_compiled", "products", epochs=epochs, bound=2, stretch=True, note=note)

    def memory(self) -> Iterator[Row]:
        """Peak resident memory."""
        for what in memory.WHAT:
            ratio = memory.growth(what, self.root)
            yield Row(name=f"memory of {what}, per byte of data", ratio=ratio, bound=1.5, relation="at most")

    def startup(self) -> Iterator[Row]:
        """Imports."""
        timings = startup.measure(rounds=15)
        for name in ("import helpers", "course --help"):
            extra = startup.extra_s(timings, name)
            yield Row(name=f"{name}, beyond a bare Python", ratio=extra, bound=0.15, relation="at most", unit="s")

    def different_losses(self) -> list[str]:
        """Return the contenders whose last loss is not that of ``fit`` (or of the first, where ``fit`` did not run)."""
        last = {name: scores[-1][0] for name, scores in self.scores.items() if scores}
        expected = last.get("fit") or next(iter(last.values()), 0.0)
        return [name for name, loss in last.items() if abs(loss - expected) > SAME_LOSS * expected]

    def _turns(
        self, names: tuple[str, ...], *, rounds: int, epochs: int | None = None, threads: int | None = 1
    ) -> Timings:
        timings, scores = take_turns(
            names, self.root, epochs=epochs or self.size.epochs, rounds=rounds, threads=threads
        )
        if epochs is None:
            self.scores |= scores
        return timings

    def _row(
        self, name: str, timings: Timings, ours: str, theirs: str, *, epochs: int | None = None, **rest: object
    ) -> Row:
        epoch_s = timings.median_s(ours) / (epochs or self.size.epochs)
        return Row(
            name=name,
            ratio=timings.ratio(ours, theirs),
            ratios=tuple(a / b for a, b in zip(timings.seconds[ours], timings.seconds[theirs], strict=True)),
            us_per_step=round(epoch_s / self.steps * 1e6, 1),
            seconds_per_epoch=round(epoch_s, 3),
            **({"relation": "at most"} | rest),  # type: ignore[arg-type]
        )


def main(arguments: list[str]) -> int:
    """Run the comparisons that were asked for; keep them when all were."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    stages = ("practical_limit", "textbook", "peers", "compiled", "memory", "startup")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(stages)}; all by default")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, few rounds; nothing is written")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.stages if name not in stages]
    if unknown:
        parser.error(f"there is no stage {unknown[0]!r}; the stages are: {', '.join(stages)}")
    size = QUICK if options.quick else Size()
    _warn_if_busy()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        files.write_mnist(Path(folder), train=size.train, test=size.test)
        bench = Bench(size, Path(folder))
        for name in options.stages or stages:
            rows += _timed(name, getattr(bench, name))
    print("\n" + table(rows) + "\n")
    print("\n".join(f"{row.name}: {row.note}" for row in rows if row.note))
    different = bench.different_losses()
    if different:
        print(f"\nAnother loss than fit's, so not the same work: {', '.join(different)}.")
    if not (options.quick or options.stages):
        facts = {"parts_us": {name: round(us, 1) for name, us in bench.parts_us.items()}, "scores": bench.scores}
        write(machine.checkout() / "book/_data/bench.json", rows, facts)
    return 1 if different or any(not row.holds and not row.stretch for row in rows) else 0


def _warn_if_busy() -> None:
    load, cores = os.getloadavg()[0], machine.usable_cores()
    if load > cores / 4:
        print(
            f"Others keep {load:.1f} of {cores:g} cores busy (load average). Ratios then lean towards whoever has "
            "more threads and processes, and PyTorch's spinning threads stall: repeat it when the machine is quiet."
        )


def _timed(name: str, stage: Callable[[], Iterator[Row]]) -> list[Row]:
    start = time.monotonic()
    print(f"{name.replace('_', ' ')} …", end=" ", flush=True)
    rows = list(stage())
    print(f"{time.monotonic() - start:.0f} s", flush=True)
    return rows


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
