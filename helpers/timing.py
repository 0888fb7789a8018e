"""Compare how long pieces of code take, in one run, on a noisy machine.

Absolute times drift when others use the machine. So the candidates take turns, A B C A B C …, and a
ratio is taken round by round: what slows one round slows all of its candidates. The median of those
ratios is what a claim may rest on.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from helpers.claims import measured, to_html


@dataclass(frozen=True, kw_only=True)
class Timings:
    """Seconds of every round for each candidate."""

    seconds: Mapping[str, tuple[float, ...]]

    def median_s(self, name: str) -> float:
        """Return the candidate's median time in seconds."""
        return statistics.median(self.seconds[name])

    def ratio(self, slow: str, fast: str) -> float:
        """Return how many times as long ``slow`` took as ``fast``: the median over the rounds' ratios."""
        return statistics.median(a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True))

    def __repr__(self) -> str:
        rows = (f"{name}: {time_}, {ratio} the time of the first" for name, time_, ratio in self._rows())
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        rows = ("".join(f"<td>{to_html(cell)}</td>" for cell in row) for row in self._rows())
        head = "".join(f"<th>{name}</th>" for name in ("code", "median time", "relative to the first"))
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def _rows(self) -> list[tuple[str, str, str]]:
        first = next(iter(self.seconds))
        return [
            (name, measured(*readable(self.median_s(name))), measured(self.ratio(name, first), "×"))
            for name in self.seconds
        ]


def readable(seconds: float) -> tuple[float, str]:
    """Return a time as a number and the unit in which it reads best: s, ms or µs."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return seconds / size, unit
    return seconds * 1e6, "µs"


def compare(candidates: Mapping[str, Callable[[], object]], *, repeats: int = 7, warmup: int = 1) -> Timings:
    """Time the candidates in turn.

    Args:
        candidates: Name to a function without arguments. The first is what the table relates to.
        repeats: Counted rounds.
        warmup: Rounds not counted, first: they pay for allocations, caches and compilation.

    Raises:
        ValueError: If there is no candidate or no round.
    """
    if not candidates or repeats < 1:
        raise ValueError(f"give at least one candidate and one round; got {len(candidates)} and repeats={repeats}.")
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for round_ in range(warmup + repeats):
        for name, function in candidates.items():
            start = time.perf_counter()
            function()
            if round_ >= warmup:
                seconds[name].append(time.perf_counter() - start)
    return Timings(seconds={name: tuple(values) for name, values in seconds.items()})
