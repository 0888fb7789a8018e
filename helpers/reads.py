"""Count how often Python asks for a tensor's value.

On a GPU each such read waits until the device has done everything queued before it. A loop that reads
twice a step keeps the queue empty; a loop that reads once an epoch never waits in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

_PROTOCOLS = ("float", "int", "bool", "index", "array", "format", "repr")
_READS = {"item", "tolist", "numpy", "cpu", *(f"__{name}__" for name in _PROTOCOLS)}
"""Tensor methods that bring a value to Python."""


class _ReadCounter(TorchFunctionMode):
    """Count the tensor methods in ``_READS`` while the mode is on."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        self.reads += name in _READS or (name == "to" and "cpu" in args)
        return func(*args, **(kwargs or {}))


def count_reads(run: Callable[[], Any]) -> tuple[Any, int]:
    """Call a function and count how often it brings a tensor's value to Python (``item``, ``float``, ``if loss > …``).

    Returns:
        What the function returned, and the count.
    """
    with _ReadCounter() as counter:
        value = run()
    return value, counter.reads
