"""Say what is wrong with a batch, in the words of the person who made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from helpers.errors import CourseError

CAUSES = (RuntimeError, ValueError, IndexError, TypeError, AttributeError)
"""What PyTorch and a model's own code raise when a batch does not fit them."""

_IGNORED_LABEL = -100
"""PyTorch's ``cross_entropy`` leaves samples with this label out."""


class BatchError(CourseError):
    """A batch does not have the form that the loop or the model needs."""


def pair(batch: Any) -> tuple[Tensor, Tensor]:
    """Return a batch as images and labels.

    Raises:
        BatchError: If it is not a pair of tensors of the same length, one label per image.
    """
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise BatchError(f"the loader yielded {_form(batch)}; expected a pair (images, labels).")
    images, labels = batch
    if not isinstance(images, Tensor) or not isinstance(labels, Tensor):
        raise BatchError(
            f"the loader yielded ({_form(images)}, {_form(labels)}); expected two tensors. "
            "Convert in the dataset, for example with torch.as_tensor."
        )
    if labels.ndim != 1 or images.ndim == 0 or len(images) != len(labels) or not len(labels):
        raise _unpaired(images, labels)
    return images, labels


def _unpaired(images: Tensor, labels: Tensor) -> BatchError:
    if labels.ndim == 0 or images.ndim == 0 or len(images) != len(labels):
        return BatchError(
            f"images {list(images.shape)} and labels {list(labels.shape)} do not pair up; "
            "their first sizes, the batch's samples, must be equal."
        )
    if labels.ndim != 1:
        return _wrong_labels(labels)
    return BatchError(
        f"a batch has no samples: images {list(images.shape)}. Leave empty batches out of the loader, "
        "for example by filtering in the dataset instead of in collate_fn."
    )


def fail(
    error: Exception, model: nn.Module, images: Tensor, labels: Tensor, loss_fn: Callable[[Tensor, Tensor], Tensor]
) -> NoReturn:
    """Raise what explains the error of a step on this batch, or the error itself where the batch is sound.

    Raises:
        BatchError: If the batch, the model and the loss function do not fit together.
    """
    explained = batch_error(error, model, images, labels, loss_fn)
    if explained is None:
        raise error
    raise explained from error


def batch_error(
    error: Exception, model: nn.Module, images: Tensor, labels: Tensor, loss_fn: Callable[[Tensor, Tensor], Tensor]
) -> BatchError | None:
    """Return a :class:`BatchError` that explains why a step failed, or None where nothing is wrong with the batch."""
    if isinstance(error, torch.OutOfMemoryError):
        return None
    output = _output(model, images)
    if isinstance(output, Exception):
        return BatchError(
            f"the model cannot take images of shape {list(images.shape)} and type {_dtype(images)}: "
            f"{str(error).rstrip('.')}. "
            f"Its first layer with weights is {_first_layer(model)}; make the images fit it, or change it."
        )
    return (
        _wrong_output(output, labels)
        or _wrong_range(output, labels)
        or _wrong_loss(loss_fn, output, labels)
        or _single_sample(error, model, labels)
    )


def _wrong_output(output: Any, labels: Tensor) -> BatchError | None:
    if not isinstance(output, Tensor):
        return BatchError(
            f"the model returned {_form(output)}; expected one tensor of logits [batch, classes]. "
            "Wrap the model in a module that returns only that."
        )
    if output.ndim != 2 or len(output) != len(labels):
        return BatchError(
            f"the model returned {list(output.shape)} for {len(labels)} labels; expected logits [batch, classes]. "
            "End the model in a layer with one output per class."
        )
    return None


def _wrong_range(logits: Tensor, labels: Tensor) -> BatchError | None:
    if labels.dtype != torch.int64:
        return _wrong_labels(labels)
    classes = logits.shape[1]
    wrong = labels[((labels < 0) & (labels != _IGNORED_LABEL)) | (labels >= classes)]
    if not len(wrong):
        return None
    return BatchError(
        f"label {int(wrong[0])} is out of range: the model has {classes} outputs, so labels run "
        f"from 0 to {classes - 1}. Give the model more classes, or fix the labels."
    )


def _wrong_labels(labels: Tensor) -> BatchError:
    return BatchError(
        f"labels have type {_dtype(labels)} and shape {list(labels.shape)}; expected int64 and [batch]. "
        "Use labels.long(), and class numbers instead of one-hot rows."
    )


def _wrong_loss(loss_fn: Callable[[Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor) -> BatchError | None:
    try:
        loss = loss_fn(logits, labels)
    except CAUSES:
        return None  # the loss function's own error says more
    if isinstance(loss, Tensor) and loss.ndim == 0:
        return None
    return BatchError(
        f"the loss function returned {_form(loss)}; expected one number, a tensor of shape []. "
        "Let it average over the batch (reduction='mean')."
    )


def _single_sample(error: Exception, model: nn.Module, labels: Tensor) -> BatchError | None:
    if len(labels) > 1 or not any(isinstance(module, _BatchNorm) and module.training for module in model.modules()):
        return None
    return BatchError(
        f"a batch of 1 sample cannot train batch normalisation, which needs a spread: {error}. "
        "Leave the short last batch out (drop_last=True), or choose another batch size."
    )


def _output(model: nn.Module, images: Tensor) -> Any:
    """Return the model's output, or the error where the model itself fails."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        with torch.no_grad():
            return model.eval()(images)
    except CAUSES as error:
        return error
    finally:
        for module, training in modes:
            module.training = training


def _first_layer(model: nn.Module) -> str:
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            return f"{name or 'the model itself'}: {module} of type {_dtype(parameter)}"
    return "none"


def _form(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
