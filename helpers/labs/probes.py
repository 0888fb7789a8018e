"""Instruments that checks hold to a learner's PyTorch code: which calls it made, and what it made the host wait for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch


@dataclass(kw_only=True)
class Diary:
    """The order of the calls of a training step."""

    events: list[str] = field(default_factory=list)

    def note(self, event: str) -> None:
        """Write down a call."""
        self.events.append(event)

    def order(self) -> list[str]:
        """Return the calls in order, repetitions in a row as one."""
        return [event for event, _ in groupby(self.events)]

    def text(self) -> str:
        """Return the order as ``forward → loss → backward``."""
        return " → ".join(f"`{event}`" for event in self.order()) or "none of the five calls"


@contextmanager
def diary(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Diary]:
    """Write down ``forward``, ``backward``, ``step`` and ``zero_grad`` while the block runs.

    Args:
        model: Its forward passes, and the gradients that reach its last parameter.
        optimizer: Its steps, and the clearing of gradients through it or through the model.
    """
    book = Diary()
    last = list(model.parameters())[-1]
    handles = [
        model.register_forward_pre_hook(lambda *_: book.note("forward")),
        last.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda *_: book.note("backward")
        ),
        optimizer.register_step_pre_hook(lambda *_: book.note("step")),
    ]
    for thing in (model, optimizer):
        _announce(thing, "zero_grad", book)
    try:
        yield book
    finally:
        for handle in handles:
            handle.remove()
        for thing in (model, optimizer):
            vars(thing).pop("zero_grad")


def _announce(thing: Any, name: str, book: Diary) -> None:
    """Let this one object write down the calls of a method."""
    method = getattr(thing, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        book.note(name)
        return method(*args, **kwargs)

    vars(thing)[name] = noted
