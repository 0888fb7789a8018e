"""What the host was doing at each time of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helpers.profile.intervals import EMPTY, Times, edges, first_of, join, union
from helpers.profile.roles import Role
from helpers.profile.shares import Share
from helpers.profile.trace import Trace

_PHASES = (Share.FORWARD, Share.BACKWARD, Share.OPTIMIZER)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Numbers behind the accounting."""

    gap_us: float = 500.0
    """A longer gap between recorded spans is no longer the Python between two operators, which takes 10 to 200 µs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Host:
    """The host's time, each moment in at most one set.

    Attributes:
        times: Share to its times.
        computing: Times in which an operator computes, whatever the share.
    """

    times: dict[Share, Times]
    computing: Times

    def at(self, points: NDArray[np.float64]) -> NDArray[np.int8]:
        """Return for each time the place of the host's share in ``tuple(times)``; -1 where it has none."""
        return first_of(list(self.times.values()), points)


def account(trace: Trace, roles: NDArray[np.int8], lane: tuple[int, int], rules: Rules) -> Host:
    """Give the host's time to shares.

    Only the loop's own thread counts, and for backward also the process's threads on which autograd runs. Where spans
    nest or overlap, the first of these wins: loading, logging, backward, an operator of the forward pass (one that
    takes part in autograd counts even inside ``Optimizer.step``, which may be given a closure), a copy to the device
    that the host waits for, the optimizer, another operator, sleep, and what the user's own ranges are called. Gaps
    of at most ``gap_us`` between two spans of one phase belong to it: that is Python. Other gaps are other host time
    where they are short or a span shows the host at work, and are left open otherwise.

    Args:
        trace: The spans.
        roles: Of each span.
        lane: Process and thread of the loop.
        rules: Numbers.
    """
    process = trace.process == lane[0]
    own = process & (trace.thread == lane[1])
    autograd = np.unique(trace.thread[process & (roles == Role.BACKWARD)])
    training = own | (process & np.isin(trace.thread, autograd))
    copies = np.isin(trace.correlation, trace.correlation[(roles == Role.COPY) & (trace.correlation >= 0)])

    def pick(mask: NDArray[np.bool_], *wanted: Role) -> Times:
        rows = np.flatnonzero(mask & np.isin(roles, wanted)) if wanted else np.flatnonzero(mask)
        return union(trace.start_us[rows], trace.end_us[rows])

    computing = pick(training & ~_wraps(trace), Role.OPERATOR, Role.BACKWARD)
    layers = [
        (Share.DATA, pick(own, Role.DATA)),
        (Share.LOGGING, pick(own, Role.LOG)),
        (Share.BACKWARD, pick(training, Role.BACKWARD)),
        (Share.FORWARD, pick(own & (trace.sequence >= 0), Role.OPERATOR)),
        (Share.COPY, pick(own & copies, Role.RUNNING)),
        (Share.OPTIMIZER, pick(own, Role.OPTIMIZER)),
        (Share.FORWARD, pick(own, Role.OPERATOR)),
        (Share.IDLE, pick(own, Role.SLEEP)),
        (Share.FORWARD, pick(own, Role.NAMED_FORWARD)),
        (Share.BACKWARD, pick(own, Role.NAMED_BACKWARD)),
    ]
    running = pick(training, Role.RUNNING, Role.WRAPPER)
    return Host(times=_fill(layers, running, rules), computing=computing)


def _wraps(trace: Trace) -> NDArray[np.bool_]:
    """Return which spans hold or await other work; a collective may run meanwhile without anything computing."""
    starts = ("autograd::engine::", "torch::autograd::")
    table = np.fromiter((label.startswith(starts) for label in trace.labels), bool, len(trace.labels))
    return np.asarray(table[trace.name])


def _fill(layers: list[tuple[Share, Times]], running: Times, rules: Rules) -> dict[Share, Times]:
    """Return each share's times after the gaps have been given away."""
    order = list(dict.fromkeys([*(share for share, _ in layers), Share.OTHER]))
    cuts = edges([times for _, times in layers])
    if len(cuts) < 2:
        return {Share.OTHER: running}
    won = first_of([times for _, times in layers], cuts[:-1])
    place = np.array([order.index(share) for share, _ in layers] + [-1], dtype=np.int8)[won]
    before, after = place[:-2], place[2:]
    gap = np.flatnonzero((place[1:-1] < 0) & (cuts[2:-1] - cuts[1:-2] <= rules.gap_us)) + 1
    same = (before[gap - 1] == after[gap - 1]) & np.isin(before[gap - 1], [order.index(phase) for phase in _PHASES])
    place[gap] = np.where(same, before[gap - 1], order.index(Share.OTHER))
    made = {share: _where(cuts, place == index) for index, share in enumerate(order)}
    made[Share.OTHER] = join(made[Share.OTHER], running)  # overlaps the others, which are asked first
    return made


def _where(cuts: NDArray[np.float64], chosen: NDArray[np.bool_]) -> Times:
    return union(cuts[:-1][chosen], cuts[1:][chosen]) if chosen.any() else EMPTY
