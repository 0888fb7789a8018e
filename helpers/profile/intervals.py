"""Sets of times: unions, intersections, and who comes first where several overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Times:
    """A set of times as sorted intervals ``[start, end)`` that neither overlap nor touch; microseconds."""

    start: Floats
    end: Floats

    def holds(self, points: Floats) -> NDArray[np.bool_]:
        """Return which points lie in the set."""
        begun = np.searchsorted(self.start, points, side="right")
        ended = np.searchsorted(self.end, points, side="right")
        return np.asarray(begun > ended)

    @property
    def total_us(self) -> float:
        """How long the set is, in microseconds."""
        return float((self.end - self.start).sum())


def union(start: Floats, end: Floats) -> Times:
    """Return the times that at least one span covers; spans of no length cover none."""
    lasting = end > start
    start, end = start[lasting], end[lasting]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] > reach[:-1])
    return Times(start=start[first], end=reach[np.append(first[1:], True)])


def join(*sets: Times) -> Times:
    """Return the times that are in at least one of the sets."""
    return union(np.concatenate([each.start for each in sets]), np.concatenate([each.end for each in sets]))


def edges(sets: Sequence[Times], *more: Floats) -> Floats:
    """Return every time at which one of the sets begins or ends, and the given ones, sorted, each once."""
    return np.unique(np.concatenate([*(each.start for each in sets), *(each.end for each in sets), *more, np.zeros(0)]))


def first_of(sets: Sequence[Times], points: Floats) -> NDArray[np.int8]:
    """Return for each point the place of the first set that holds it; -1 where none does."""
    winner = np.full(len(points), -1, dtype=np.int8)
    for place in reversed(range(len(sets))):
        winner[sets[place].holds(points)] = place
    return winner


def both(one: Times, other: Times) -> Times:
    """Return the times that are in both sets."""
    cuts = edges([one, other])
    if len(cuts) < 2:
        return EMPTY
    inside = one.holds(cuts[:-1]) & other.holds(cuts[:-1])
    return union(cuts[:-1][inside], cuts[1:][inside])


EMPTY = Times(start=np.zeros(0), end=np.zeros(0))
"""No time at all."""
