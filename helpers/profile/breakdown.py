"""Where the time of the steps went, every microsecond once.

A trace is many spans at once: nested ranges, several threads, several streams. A step's wall time is one line, so at
each moment one share has to be chosen. The boundaries of all spans are sorted, and between two of them the first of
these that is active gets the time:

1. *communication, overlapped*: a collective is under way while something computes. It costs the step nothing.
2. *backward, forward, optimizer* on a device: a kernel runs. It belongs to the phase in which the host launched it,
   found through the correlation id. While a device computes, what the host does meanwhile is hidden.
3. *communication* on a device, exposed: waiting for a slower rank first, then transfer.
4. *host-to-device copy*, on a device or while the host is held in the call.
5. *data wait*, then *logging and checkpointing*, on the host, with the devices idle.
6. *communication* on the host (gloo), nothing computing.
7. *backward*, *forward*, *optimizer* on the host: it computes there, or gets work ready for an idle device.
8. *other host time*: a span shows the loop's thread at work, or it is a short gap between spans.
9. *idle*: nothing that the trace shows.

How long the devices were busy at all stands beside the shares (``device_busy``), not among them.

Source:
    The priority of exposed communication under computation follows Holistic Trace Analysis' temporal breakdown
    (Meta, 2022), which knows only devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from helpers.profile import collectives, host, roles, steps
from helpers.profile.host import Host, Rules
from helpers.profile.intervals import Times, both, edges, first_of, join, union
from helpers.profile.roles import Role
from helpers.profile.shares import ORDER, Breakdown, Share
from helpers.profile.steps import Origin, Steps
from helpers.profile.trace import Trace, TraceError

__all__ = ["Breakdown", "Rules", "Share", "breakdown"]

_Layers = list[tuple[Share, Times]]
_LAUNCHED = (Share.BACKWARD, Share.FORWARD, Share.OPTIMIZER, Share.DATA, Share.LOGGING)
"""The phases that a kernel can belong to."""


def breakdown(trace: Trace, *, peers: Sequence[Trace] = (), rules: Rules | None = None) -> Breakdown:
    """Account for every microsecond of every step.

    Args:
        trace: One process's spans.
        peers: The other ranks' traces of the same steps: they tell waiting for a slower rank from transfer.
        rules: Numbers behind the accounting.

    Returns:
        The shares; where the trace shows no steps, those of the whole trace, with a note.

    Raises:
        TraceError: If the trace holds no span that takes time.
    """
    found = steps.find(trace)
    role = roles.of(trace)
    notes = [found.why + "."] if found.origin is not Origin.PROFILER else []
    if found.origin is Origin.NONE or not len(found):
        found = _whole(trace, role)
        notes = [f"{found.why} The shares are those of the whole trace."]
    notes += [f"{count:,} spans were left out: {why}." for why, count in trace.dropped.items()]
    waits, said = collectives.waiting(trace, found, role, peers)
    at_host = host.account(trace, role, (found.process, found.thread), rules or Rules())
    layers, busy = _layers(trace, role, at_host, waits)
    table = _sweep(layers, found)
    return Breakdown(
        steps=found,
        table_us=table,
        device_busy=_busy(busy, found) if (role >= Role.KERNEL).any() else None,
        notes=(*notes, *said),
    )


def _whole(trace: Trace, role: NDArray[np.int8]) -> Steps:
    """Return one window from the first span that counts to the end of the last one."""
    rows = np.flatnonzero((role != Role.NOTHING) & (trace.duration_us > 0))
    if not len(rows):
        raise TraceError(
            f"{trace.source} has {len(trace):,} spans and none of them takes time; expected operators or kernels. "
            "Record with torch.profiler around at least one training step."
        )
    operators = rows[np.isin(role[rows], (Role.OPERATOR, Role.BACKWARD))]
    lanes = operators if len(operators) else rows
    lane = steps.busiest_thread(trace, lanes)
    return replace(
        steps.find(trace),
        number=np.zeros(1, dtype=np.int64),
        start_us=trace.start_us[rows].min(keepdims=True),
        end_us=trace.end_us[rows].max(keepdims=True),
        process=lane[0],
        thread=lane[1],
    )


def _layers(trace: Trace, role: NDArray[np.int8], at_host: Host, waits: Times) -> tuple[_Layers, Times]:
    """Return the shares' times in order of priority, and the times at which a device is busy."""

    def pick(wanted: Role) -> Times:
        rows = np.flatnonzero(role == wanted)
        return union(trace.start_us[rows], trace.end_us[rows])

    kernels, copies = pick(Role.KERNEL), pick(Role.COPY)
    on_device, on_host = pick(Role.DEVICE_COLLECTIVE), pick(Role.HOST_COLLECTIVE)
    hidden = join(both(on_device, kernels), both(on_host, join(at_host.computing, kernels)))
    of = at_host.times
    layers = [
        (Share.OVERLAPPED, hidden),
        *_kernels_by_phase(trace, role, at_host),
        (Share.RANK_WAIT, both(waits, on_device)),
        (Share.TRANSFER, on_device),
        (Share.COPY, copies),
        *[(share, of[share]) for share in (Share.DATA, Share.LOGGING) if share in of],
        (Share.RANK_WAIT, both(waits, on_host)),
        (Share.TRANSFER, on_host),
        *[(share, times) for share, times in of.items() if share not in (Share.DATA, Share.LOGGING, Share.OTHER)],
        (Share.OTHER, of[Share.OTHER]),
    ]
    return layers, join(kernels, copies, on_device)


def _kernels_by_phase(trace: Trace, role: NDArray[np.int8], at_host: Host) -> _Layers:
    """Return the kernels' times by the phase in which the host launched them; without a launch, as forward."""
    kernels = np.flatnonzero(role == Role.KERNEL)
    if not len(kernels):
        return []
    calls = np.flatnonzero((role == Role.RUNNING) & (trace.correlation >= 0))
    calls = calls[np.lexsort((trace.start_us[calls], trace.correlation[calls]))]
    phases = list(at_host.times)
    phase = np.full(len(kernels), _LAUNCHED.index(Share.FORWARD))
    if len(calls):
        place = np.searchsorted(trace.correlation[calls], trace.correlation[kernels]).clip(max=len(calls) - 1)
        known = trace.correlation[calls[place]] == trace.correlation[kernels]
        share = at_host.at(trace.start_us[calls[place]])
        names = [_LAUNCHED.index(each if each in _LAUNCHED else Share.FORWARD) for each in [*phases, Share.FORWARD]]
        phase = np.where(known, np.array(names)[share], phase)
    rows = [kernels[phase == index] for index in range(len(_LAUNCHED))]
    return [(share, union(trace.start_us[r], trace.end_us[r])) for share, r in zip(_LAUNCHED, rows, strict=True)]


def _sweep(layers: _Layers, found: Steps) -> NDArray[np.float64]:
    """Return microseconds ``[steps, shares]``."""
    sets = [times for _, times in layers]
    cuts = edges(sets, found.start_us, found.end_us)
    left, length = cuts[:-1], np.diff(cuts)
    step = np.searchsorted(found.start_us, left, side="right") - 1
    inside = (step >= 0) & (left < found.end_us[step])
    column = np.array([ORDER.index(share) for share, _ in layers] + [ORDER.index(Share.IDLE)])
    cell = step * len(ORDER) + column[first_of(sets, left)]
    sums = np.zeros(len(found) * len(ORDER))
    np.add.at(sums, cell[inside], length[inside])
    return sums.reshape(len(found), len(ORDER))


def _busy(busy: Times, found: Steps) -> float:
    inside = both(busy, union(found.start_us, found.end_us))
    return inside.total_us / float((found.end_us - found.start_us).sum())
