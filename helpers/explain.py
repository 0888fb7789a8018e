"""Say what is wrong with a batch, in the words of the person who made it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from helpers.errors import CourseError


class BatchError(CourseError):
    """A batch does not have the form that the loop or the model needs."""


def pair(batch: Any) -> tuple[Tensor, Tensor]:
    """Return a batch as images and labels.

    Raises:
        BatchError: If it is not a pair of tensors of the same length.
    """
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise BatchError(f"the loader yielded {_form(batch)}; expected a pair (images, labels).")
    images, labels = batch
    if not isinstance(images, Tensor) or not isinstance(labels, Tensor):
        raise BatchError(
            f"the loader yielded ({_form(images)}, {_form(labels)}); expected two tensors. "
            "Convert in the dataset, for example with torch.as_tensor."
        )
    if labels.ndim == 0 or images.ndim == 0 or len(images) != len(labels):
        raise BatchError(
            f"images {list(images.shape)} and labels {list(labels.shape)} do not pair up; "
            "their first sizes, the batch's samples, must be equal."
        )
    return images, labels


def batch_error(error: Exception, model: nn.Module, images: Tensor, labels: Tensor) -> Exception:
    """Return a :class:`BatchError` that explains why a step failed, or the error itself where nothing is wrong."""
    logits = _logits(model, images)
    if logits is None:
        return BatchError(
            f"the model cannot take images of shape {list(images.shape)} and type {_dtype(images)}: {error} "
            f"Its first layer with weights is {_first_layer(model)}."
        )
    if logits.ndim != 2 or len(logits) != len(labels):
        return BatchError(
            f"the model returned {list(logits.shape)} for {len(labels)} labels; expected logits [batch, classes]."
        )
    if labels.dtype != torch.int64 or labels.ndim != 1:
        return BatchError(
            f"labels have type {_dtype(labels)} and shape {list(labels.shape)}; expected int64 and [batch]. "
            "Use labels.long(), and class numbers instead of one-hot rows."
        )
    classes = logits.shape[1]
    wrong = labels[(labels < 0) | (labels >= classes)]
    if len(wrong):
        return BatchError(
            f"label {int(wrong[0])} is out of range: the model has {classes} outputs, so labels run "
            f"from 0 to {classes - 1}. Give the model more classes, or fix the labels."
        )
    return error


def _logits(model: nn.Module, images: Tensor) -> Tensor | None:
    """Return the model's output, or None where the model itself fails."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        with torch.no_grad():
            logits = model.eval()(images)
        return logits if isinstance(logits, Tensor) else None
    except (RuntimeError, ValueError, IndexError, TypeError):
        return None
    finally:
        for module, training in modes:
            module.training = training


def _first_layer(model: nn.Module) -> str:
    for name, module in model.named_modules():
        if any(True for _ in module.parameters(recurse=False)):
            return f"{name or 'the model itself'}: {module}"
    return "none"


def _form(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
