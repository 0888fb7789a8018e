"""What a span of a trace says about the step, told by its name and category.

Names are looked at once each, not once for each span.
"""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from helpers.profile.trace import Trace


class Role(IntEnum):
    """What a span stands for."""

    NOTHING = 0
    """The profiler's own marks, and copies of host ranges on a device's lane."""
    DATA = 1
    LOG = 2
    BACKWARD = 3
    OPTIMIZER = 4
    OPERATOR = 5
    """An operator that computes on the host, or launches what computes."""
    WRAPPER = 6
    """An operator that holds others, or only waits."""
    SLEEP = 7
    NAMED_FORWARD = 8
    NAMED_BACKWARD = 9
    HOST_COLLECTIVE = 10
    RUNNING = 11
    """Anything else that the host does: calls of the runtime, Python functions, ranges of the user's."""
    KERNEL = 12
    """Computes, fills or copies on a device."""
    COPY = 13
    """From the host to a device."""
    DEVICE_COLLECTIVE = 14


_LOADER = re.compile(r"enumerate\(DataLoader\)")
_OPTIMIZER = re.compile(r"Optimizer\.(step|zero_grad)#")
_BACKWARD = re.compile(r"autograd::engine::|torch::autograd::|\w*Backward\d*$|torch\.?:*distributed.*reducer::")
_WRAPPER = re.compile(r"autograd::engine::|torch::autograd::|c10d::|nccl:|record_param_comms|ProfilerStep#")
_HOST_COLLECTIVE = re.compile(r"(gloo|mpi|ucc)[:_]")
_DEVICE_COLLECTIVE = re.compile(r"(void )?[nr]ccl")
"""NCCL's kernels: ``ncclKernel_…`` until 2.18, ``ncclDevKernel_…`` since; RCCL keeps NCCL's names, mostly."""
_TO_DEVICE = re.compile(r"HtoD|HostToDevice", re.IGNORECASE)

_NAMED = (
    (re.compile(r"\b(data_?load\w*|load_data|load_batch|next_batch|get_batch|fetch_data)\b", re.IGNORECASE), Role.DATA),
    (re.compile(r"\b(logging|log_\w+|save|save_\w+|checkpoint(ing)?)\b", re.IGNORECASE), Role.LOG),
    (re.compile(r"\bbackward\b", re.IGNORECASE), Role.NAMED_BACKWARD),
    (re.compile(r"\bforward\b", re.IGNORECASE), Role.NAMED_FORWARD),
    (re.compile(r"\boptimi[sz]er(_step)?\b", re.IGNORECASE), Role.OPTIMIZER),
)
"""What people call the ranges that they mark with ``record_function``."""

_PYTHON = (
    (re.compile(r"<built-in (function|method) (sleep|poll|select|acquire)\b"), Role.SLEEP),
    (re.compile(r"<built-in (function|method) print\b|(^|/)(logging/__init__|tqdm/std)\.py\("), Role.LOG),
    (re.compile(r"torch/serialization\.py\(\d+\): _?(legacy_)?save|torch/distributed/checkpoint/"), Role.LOG),
    (re.compile(r"(^|/)(tensorboardX?|wandb|mlflow)/"), Role.LOG),
)
"""Frames of a trace with Python stacks (``with_stack=True``)."""

_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
_UNUSED = {"gpu_user_annotation", "cuda_sync", "overhead", "Trace", ""}
_HOST_OPERATOR = {"cpu_op", "user_annotation"}


def of(trace: Trace) -> NDArray[np.int8]:
    """Return each span's :class:`Role`, int8 ``[spans]``."""
    if not len(trace):
        return np.zeros(0, dtype=np.int8)
    pairs = trace.name.astype(np.int64) * len(trace.labels) + trace.category
    distinct, place = np.unique(pairs, return_inverse=True)
    names, categories = np.divmod(distinct, len(trace.labels))
    table = [role(trace.labels[n], trace.labels[c]) for n, c in zip(names.tolist(), categories.tolist(), strict=True)]
    return np.array(table, dtype=np.int8)[place]


def role(name: str, category: str) -> Role:
    """Return what a span of this name and (present) category stands for."""
    if category in _UNUSED or name.startswith("ProfilerStep#"):
        return Role.NOTHING
    if category in _DEVICE:
        return _on_device(name, category)
    if category in _HOST_OPERATOR:
        return _on_host(name, category)
    if category == "python_function":
        return next((role for pattern, role in _PYTHON if pattern.search(name)), Role.RUNNING)
    return Role.RUNNING


def _on_device(name: str, category: str) -> Role:
    if category == "kernel":
        return Role.DEVICE_COLLECTIVE if _DEVICE_COLLECTIVE.match(name) else Role.KERNEL
    return Role.COPY if category == "gpu_memcpy" and _TO_DEVICE.search(name) else Role.KERNEL


def _on_host(name: str, category: str) -> Role:
    """Tell operators and ranges; in 2021 both had one category, so that the names of ranges are tried first."""
    for pattern, found in (
        (_LOADER, Role.DATA),
        (_OPTIMIZER, Role.OPTIMIZER),
        (_HOST_COLLECTIVE, Role.HOST_COLLECTIVE),
    ):
        if pattern.match(name):
            return found
    if category == "user_annotation":
        return next((role for pattern, role in _NAMED if pattern.search(name)), Role.RUNNING)
    if _BACKWARD.match(name):
        return Role.BACKWARD
    return Role.WRAPPER if _WRAPPER.match(name) else Role.OPERATOR
