"""The PyTorch checks of lab 02: the same values as before, and counts of graphs and compilations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from helpers import seeding
from helpers.graph import count_graph_breaks, count_recompiles
from helpers.labs.judge import shown
from helpers.labs.tasks import Verdict, as_code, correct, incorrect

_CALLS = 6


def clip(answer: Callable[..., Any]) -> Verdict:
    """Check ``clip(grad, limit)``: right above and below the limit, in one graph."""
    large, small = torch.full((4,), 3.0), torch.full((4,), 0.1)
    limit = 1.0
    cases = {
        "longer than the limit": (large, large / large.norm()),
        "shorter than the limit": (small, small),
        "exactly zero": (torch.zeros(4), torch.zeros(4)),
    }
    for name, (grad, wanted) in cases.items():
        given = grad.clone()
        value = answer(given, limit)
        if not torch.equal(given, grad):
            return incorrect(
                "The gradient that came in was changed. Return a new tensor.",
                saw="an argument changed in place",
                expected="an argument left alone",
            )
        if (wrong := _value_mistake(value, wanted, f"A gradient that is {name} comes out wrong.")) is not None:
            return wrong
    return _one_graph(answer, (large, limit), "Both ways of the old `if` are in one graph now.")


def masked_mean(answer: Callable[..., Any]) -> Verdict:
    """Check ``masked_mean(x, mask)``: the mean of what the mask keeps, whatever the rest holds, in one graph."""
    x = torch.arange(12.0).view(3, 4)
    mask = torch.tensor([[True, True, False, False], [True, False, False, False], [True, True, True, False]])
    wanted = x[mask].mean()
    value = answer(x, mask)
    if isinstance(value, Tensor) and value.numel() == 1 and torch.isclose(value, (x * mask).mean()):
        return incorrect(
            "The sum is divided by the size of the whole tensor, padding included.",
            saw=f"{float(value):.4g}",
            expected=f"{float(wanted):.4g}, the sum divided by the number of True values",
        )
    if (wrong := _value_mistake(value, wanted, "This is not the mean of the values that the mask keeps.")) is not None:
        return wrong
    padded = torch.where(mask, x, torch.nan)
    if not torch.allclose(answer(padded, mask), wanted):
        return incorrect(
            "What the mask hides gets through: padding may hold anything, and nan times 0 is nan.",
            saw=f"{float(answer(padded, mask)):.4g} when the padding is nan",
            expected=f"{float(wanted):.4g} all the same",
        )
    return _one_graph(answer, (x, mask), "The size of every intermediate result is known before the data.")


def penalised(answer: Callable[..., Any]) -> Verdict:
    """Check ``penalised(logits, labels)``: total and loss as tensors, in one graph."""
    draw = seeding.generator(3)
    logits = torch.randn(5, 3, generator=draw, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 0, 1])
    loss = F.cross_entropy(logits, labels)
    total = loss + 0.1 * logits.square().mean()
    value = answer(logits, labels)
    if not isinstance(value, tuple | list) or len(value) != 2:
        return incorrect(
            "The caller needs both numbers: the total for the gradient, the loss for the log.",
            saw=shown(value),
            expected="a pair `(total, loss)`",
        )
    if not isinstance(value[1], Tensor):
        return incorrect(
            "The loss for the log comes back as a Python number: reading it breaks the graph. The caller can do that.",
            saw=shown(value[1]),
            expected="a tensor of one number",
        )
    for got, wanted, name in zip(value, (total, loss), ("total", "loss for the log"), strict=True):
        if (wrong := _value_mistake(got, wanted, f"The {name} is not what it was before.")) is not None:
            return wrong
    if not value[0].requires_grad:
        return incorrect(
            "No gradient flows through the total any more.",
            saw="`total.requires_grad` is False",
            expected="a total that can be followed back to `logits`",
        )
    return _one_graph(answer, (logits, labels), "The loss leaves as a tensor, and the caller decides when to read it.")


def call_average(answer: Callable[..., Any]) -> Verdict:
    """Check the module ``CallAverage(features)``: the count goes on, is saved, and compiles once."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        module, fresh = answer(3), answer(3)
    x = torch.ones(2, 3)
    linear = getattr(module, "linear", None)
    if not isinstance(module, nn.Module) or not isinstance(linear, nn.Linear):
        return incorrect(
            "The class must stay a module with a layer `linear`.",
            saw=shown(module if linear is None else linear),
            expected="a `torch.nn.Module` whose `linear` is a `torch.nn.Linear`",
        )
    for call in (1, 2, 3):
        value = module(x)
        if (wrong := _value_mistake(value, linear(x) / call, f"Call {call} gives a wrong result.")) is not None:
            return wrong
    counted = count_recompiles(fresh, [(x,)] * _CALLS)
    if counted.compilations > 1:
        guard = counted.recompiles[0].guard if counted.recompiles else "a graph break: part of it is compiled apart"
        return incorrect(
            "The values are right, but the module is compiled again and again.",
            saw=f"{counted.compilations} compilations in {_CALLS} calls; the first reason: {as_code(guard)}",
            expected="1 compilation",
        )
    if not any(value.numel() == 1 and value.item() == 3 for value in dict(module.named_buffers()).values()):
        return incorrect(
            "It compiles once, but the count is a bare tensor: `module.to(device)` leaves it behind, and so does a "
            "checkpoint.",
            saw=f"buffers: {', '.join(dict(module.named_buffers())) or 'none'}",
            expected="the count among the module's buffers",
        )
    return correct(f"{_CALLS} calls, one compilation, and the count is saved with the module.")


def _value_mistake(value: Any, wanted: Tensor, message: str) -> Verdict | None:
    """Return the verdict on a value that differs from the one the old code gave."""
    if not isinstance(value, Tensor) or value.shape != wanted.shape:
        return incorrect(message, saw=shown(value), expected=shown(wanted))
    if not torch.allclose(value, wanted, atol=1e-6):
        return incorrect(message, saw=_numbers(value), expected=_numbers(wanted))
    return None


def _numbers(value: Tensor) -> str:
    """Return a small tensor's values with four digits."""
    return ", ".join(f"{number:.4g}" for number in value.detach().flatten().tolist())


def _one_graph(answer: Callable[..., Any], arguments: Sequence[object], message: str) -> Verdict:
    """Count the graphs of one call and pass if there is one."""
    counted = count_graph_breaks(answer, *arguments)
    if counted.breaks:
        first = counted.breaks[0]
        return incorrect(
            "The values are right, but the graph still breaks.",
            saw=f"{counted.graphs} graphs, because of {as_code(first.source)}: {first.reason}",
            expected="1 graph",
        )
    if counted.graphs != 1:
        return incorrect(
            "The compiler found no tensor operation to put into a graph.",
            saw=f"{counted.graphs} graphs",
            expected="1 graph",
        )
    return correct(f"The same values from 1 graph, without a break. {message}")
