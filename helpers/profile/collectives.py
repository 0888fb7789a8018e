"""What a collective's time is: the transfer, or waiting for a rank that came later.

The ranks' clocks are not compared. Each rank's span of one collective ends when the transfer does, and begins when
that rank is ready; the shortest is that of the rank that came last, which did not wait. So what a span is longer than
the shortest was waiting, at its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from helpers.profile import roles as role_of
from helpers.profile import steps as step_of
from helpers.profile.intervals import EMPTY, Times, union
from helpers.profile.roles import Role
from helpers.profile.steps import Steps
from helpers.profile.trace import Trace

_Key = tuple[int, str]


def waiting(
    trace: Trace, steps: Steps, roles: NDArray[np.int8], peers: Sequence[Trace]
) -> tuple[Times, tuple[str, ...]]:
    """Return when this rank waited in collectives for another, and what could not be told.

    Collectives are matched by the step's number, their name and their order in it.

    Args:
        trace: This rank's.
        steps: Its steps.
        roles: Of its spans.
        peers: The other ranks' traces, of the same steps.
    """
    own = _by_step(trace, steps, roles)
    if not own:
        return EMPTY, ()
    if not peers:
        return EMPTY, (
            "One rank's trace does not tell transfer from waiting for a slower rank: both count as transfer.",
        )
    others = [_durations(peer) for peer in peers]
    starts, lengths, unmatched = [], [], 0
    for key, rows in own.items():
        found = [other.get(key) for other in others]
        known = [each for each in found if each is not None and len(each) == len(rows)]
        if len(known) < len(others):
            unmatched += len(rows)
            continue
        duration = trace.duration_us[rows]
        starts.append(trace.start_us[rows])
        lengths.append(duration - np.minimum.reduce([duration, *known]))
    notes = _missing_ranks(trace, len(peers) + 1)
    if unmatched:
        notes += (f"{unmatched} collectives have no partner in the other ranks' traces: they count as transfer.",)
    if not starts:
        return EMPTY, notes
    start = np.concatenate(starts)
    return union(start, start + np.concatenate(lengths)), notes


def _missing_ranks(trace: Trace, present: int) -> tuple[str, ...]:
    """Say so where the slowest rank may be one whose trace is not here."""
    if trace.world_size is None or trace.world_size <= present:
        return ()
    return (f"{present} of {trace.world_size} ranks' traces were given: waiting for a slower rank is a lower bound.",)


def _durations(peer: Trace) -> dict[_Key, NDArray[np.float64]]:
    rows = _by_step(peer, step_of.find(peer), role_of.of(peer))
    return {key: peer.duration_us[each] for key, each in rows.items()}


def _by_step(trace: Trace, steps: Steps, roles: NDArray[np.int8]) -> dict[_Key, NDArray[np.intp]]:
    """Return the rows of the collectives that start in a step, in order, by step number and name."""
    rows = np.flatnonzero(np.isin(roles, (Role.DEVICE_COLLECTIVE, Role.HOST_COLLECTIVE)))
    rows = rows[np.lexsort((trace.duration_us[rows], trace.start_us[rows]))]
    step = np.searchsorted(steps.start_us, trace.start_us[rows], side="right") - 1
    inside = (step >= 0) & (trace.start_us[rows] < np.append(steps.end_us, -1.0)[step])
    found: dict[_Key, list[int]] = defaultdict(list)
    for row, place in zip(rows[inside].tolist(), step[inside].tolist(), strict=True):
        found[int(steps.number[place]), trace.labels[trace.name[row]]].append(row)
    return {key: np.array(each, dtype=np.intp) for key, each in found.items()}
