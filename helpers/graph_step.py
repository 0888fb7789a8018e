"""Forward and backward as one compiled graph.

``torch.compile`` alone compiles the forward pass and hands its backward to the autograd engine, which
calls it like any other. Tracing the call of ``torch.autograd.grad`` as well gives one graph for both:
one Python call per step, with the loss, its gradient and the activation's gradient fused around the
matrix products. The optimizer stays outside as one fused kernel, so that its hooks still run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from helpers import explain
from helpers.config import ConfigError

if TYPE_CHECKING:
    from helpers.optim import TrainState

    ForwardBackward = Callable[..., tuple[Tensor, Tensor]]

_RECOMPILE_LIMIT = 64
"""Graphs kept for one function. PyTorch's 8 is too few for a notebook that trains many models."""


@contextlib.contextmanager
def enabled(compile_step: bool) -> Iterator[None]:
    """Let Dynamo trace ``autograd.grad``, and fail loudly instead of falling back to eager execution."""
    if not compile_step:
        yield
        return
    import torch._dynamo.config as dynamo

    with dynamo.patch(trace_autograd_ops=True, recompile_limit=_RECOMPILE_LIMIT, fail_on_recompile_limit_hit=True):
        yield


def compiled(eager: ForwardBackward) -> ForwardBackward:
    """Return a drop-in for ``eager`` that runs full batches as one graph.

    A batch of another size than the first, usually the short last one, takes the eager way: a second
    graph, and the dynamic shapes that PyTorch would switch to, cost more than they bring.
    """
    from torch._dynamo.exc import TorchDynamoException

    full: list[torch.Size] = []

    def forward_backward(
        model: nn.Module, images: Tensor, labels: Tensor, loss_fn: Any, state: TrainState, weight: float
    ) -> tuple[Tensor, Tensor]:
        if not full:
            full.append(images.shape)
        if images.shape != full[0]:
            return eager(model, images, labels, loss_fn, state, weight)
        scale = state.scaler.scale(torch.ones((), device=images.device)) if state.scaler.is_enabled() else None
        try:
            loss, hits, gradients = _graph()(model, images, labels, loss_fn, state, scale)
        except TorchDynamoException as error:
            raise _explained(error, model, images, labels, loss_fn) from error
        _add_gradients(state.parameters, gradients, weight)
        return loss, hits

    return forward_backward


def _explained(error: Exception, model: nn.Module, images: Tensor, labels: Tensor, loss_fn: Any) -> Exception:
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return explain.batch_error(error, model, images, labels, loss_fn) or ConfigError(
        f"compile=True: this model and loss do not become one graph ({reason}). Set compile=False, or find the "
        "place with helpers.graph.count_graph_breaks; `course check` says whether there is a C++ compiler."
    )


@cache
def _graph() -> Callable[..., tuple[Tensor, Tensor, tuple[Tensor | None, ...]]]:
    return torch.compile(_loss_and_gradients, fullgraph=True, dynamic=False)


def _loss_and_gradients(
    model: nn.Module, images: Tensor, labels: Tensor, loss_fn: Any, state: TrainState, scale: Tensor | None
) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
    with state.autocast():
        logits = model(images)
        loss = loss_fn(logits, labels)
    gradients = torch.autograd.grad(loss if scale is None else loss * scale, state.parameters, allow_unused=True)
    return loss.detach(), logits.argmax(1) == labels, gradients


def _add_gradients(parameters: list[nn.Parameter], gradients: Any, weight: float) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        if weight != 1:
            gradient.mul_(weight)
        parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
