"""What the first call of a compiled function costs, measured without yesterday's caches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.utils import fresh_cache

from helpers import machine
from helpers.graph.count import quiet_compiler


@dataclass(frozen=True, kw_only=True)
class ColdStart:
    """A compiled function and what it cost to get it."""

    function: Callable[..., Any]
    """The compiled function, warm for the arguments that it was given."""
    first_call_s: float
    """Seconds of the first call, compilation included."""

    def breaks_even_after(self, *, eager_s: float, compiled_s: float) -> float:
        """Return how many calls it takes until compiling has paid for itself.

        Args:
            eager_s: Seconds of one eager call.
            compiled_s: Seconds of one warm compiled call.

        Returns:
            A number of calls; infinite where the compiled call is not faster.
        """
        gain = eager_s - compiled_s
        return self.first_call_s / gain if gain > 0 else float("inf")


def compile_cold(function: Callable[..., Any], *args: object, **options: Any) -> ColdStart:
    """Compile a function for these arguments as a new pod would: with an empty cache.

    ``torch.compile`` keeps generated code on disk (``TORCHINDUCTOR_CACHE_DIR``), so a second run on the same machine is
    quicker than the first. Here the cache is an empty folder, which is removed afterwards.

    Args:
        function: A function or module that is not yet compiled.
        *args: Its arguments.
        **options: Passed on to ``torch.compile``.

    Returns:
        The compiled function and the seconds of its first call.
    """
    torch._dynamo.reset()
    compiled = torch.compile(function, **options)
    with fresh_cache(dir=str(machine.scratch("compile"))), quiet_compiler():
        start = time.perf_counter()
        compiled(*args)
        return ColdStart(function=compiled, first_call_s=time.perf_counter() - start)
