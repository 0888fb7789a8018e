"""The course's models in Keras, and a way to give a PyTorch and a Keras model the same weights.

The two frameworks store the same numbers in different layouts:

===================  ============================  ============================
layer                PyTorch                       Keras
===================  ============================  ============================
dense (``Linear``)   ``[out, in]``                 ``[in, out]``
convolution          ``[out, in, rows, columns]``  ``[rows, columns, in, out]``
images               ``[N, C, H, W]``              ``[N, H, W, C]``
===================  ============================  ============================

:func:`copy_weights` transposes on the way. So that a dense layer behind a ``Flatten`` means the same pixels in both,
the Keras models here flatten in PyTorch's order (channels first).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from helpers.errors import CourseError
from helpers.tf import tensorflow

Array = NDArray[np.float32]


class WeightsMismatchError(CourseError):
    """Two models whose weights cannot be copied, because their layers differ."""


def mlp(image: tuple[int, int, int] = (28, 28, 1), *, hidden: int = 128, classes: int = 10) -> Any:
    """Return the course's two-layer network as a Keras model, in the shape of :func:`helpers.models.mlp`.

    Args:
        image: Height, width and channels of one image.
        hidden: Width of the hidden layer.
        classes: Number of logits.

    Returns:
        A built ``keras.Sequential`` from images ``[N, H, W, C]`` to logits ``[N, classes]``.
    """
    layers = tensorflow().keras.layers
    return _sequential(
        image,
        *_flatten(image[-1]),
        layers.Dense(hidden, activation="relu"),
        layers.Dense(classes),
    )


def cnn(image: tuple[int, int, int] = (28, 28, 1), *, classes: int = 10, width: int = 16) -> Any:
    """Return the course's small convolutional network as a Keras model, in the shape of :func:`helpers.models.cnn`.

    Batch normalisation has PyTorch's settings (epsilon 1e-5, a tenth of each batch). The moving variances still differ
    a little in training: PyTorch's are those of a sample (divided by n - 1), Keras's those of a population.

    Args:
        image: Height, width and channels of one image.
        classes: Number of logits.
        width: Channels of the first block; the second has twice as many.

    Returns:
        A built ``keras.Sequential`` from images ``[N, H, W, C]`` to logits ``[N, classes]``.
    """
    layers = tensorflow().keras.layers
    return _sequential(
        image,
        *_block(width),
        layers.MaxPooling2D(2),
        *_block(2 * width),
        layers.GlobalAveragePooling2D(),
        layers.Dense(classes),
    )


def _block(outputs: int) -> Iterator[Any]:
    layers = tensorflow().keras.layers
    yield layers.Conv2D(outputs, 3, padding="same", use_bias=False)
    yield layers.BatchNormalization(momentum=0.9, epsilon=1e-5)  # Keras's momentum is what stays, PyTorch's what comes
    yield layers.ReLU()


def _sequential(image: tuple[int, int, int], *layers: Any) -> Any:
    keras = tensorflow().keras
    return keras.Sequential([keras.Input(image), *layers])


def _flatten(channels: int) -> Iterator[Any]:
    """Flatten images channels first; with a single channel both orders are the same."""
    layers = tensorflow().keras.layers
    if channels > 1:
        yield layers.Permute((3, 1, 2))
    yield layers.Flatten()


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How one kind of layer stores its tensors in each framework."""

    keras: str
    """The Keras class of the same layer."""
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    """In Keras's order: the PyTorch name, and the axes of the PyTorch tensor in Keras's layout."""


_NORM = (("weight", (0,)), ("bias", (0,)), ("running_mean", (0,)), ("running_var", (0,)))
_LAYOUTS: dict[type[nn.Module], _Layout] = {
    nn.Linear: _Layout(keras="Dense", tensors=(("weight", (1, 0)), ("bias", (0,)))),
    nn.Conv2d: _Layout(keras="Conv2D", tensors=(("weight", (2, 3, 1, 0)), ("bias", (0,)))),
    nn.BatchNorm1d: _Layout(keras="BatchNormalization", tensors=_NORM),
    nn.BatchNorm2d: _Layout(keras="BatchNormalization", tensors=_NORM),
}


def copy_weights(source: Any, target: Any) -> None:
    """Copy the weights of a PyTorch model into a Keras model with the same layers, or the other way round.

    Layers are paired in order. Nothing is written unless all of them fit.

    Args:
        source: A ``torch.nn.Module`` or a built Keras model.
        target: A model of the other framework. Its weights are overwritten in place.

    Raises:
        WeightsMismatchError: The models differ in number, kind or shape of layers, or a layer is of a kind that this
            function does not know.
        TypeError: The two models are not one of each framework.
    """
    match (isinstance(source, nn.Module), isinstance(target, nn.Module)):
        case (True, False):
            for pair in list(_pairs(source, target)):
                pair.keras_layer.set_weights(pair.to_keras())
        case (False, True):
            for pair in list(_pairs(target, source)):
                pair.load(pair.keras_layer.get_weights())
        case both_torch, _:
            seen = "two PyTorch models" if both_torch else f"{type(source).__name__} and {type(target).__name__}"
            raise TypeError(
                f"copy_weights goes between the frameworks: one torch.nn.Module and one Keras model; got {seen}. "
                "Between two models of one framework use load_state_dict or set_weights."
            )


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """One layer in both frameworks."""

    torch_layer: nn.Module
    keras_layer: Any
    layout: _Layout

    def tensors(self) -> list[tuple[torch.Tensor, tuple[int, ...]]]:
        """Return the PyTorch tensors in Keras's order, each with its axes in Keras's layout."""
        named = ((getattr(self.torch_layer, name), axes) for name, axes in self.layout.tensors)
        return [(tensor, axes) for tensor, axes in named if tensor is not None]

    def to_keras(self) -> list[Array]:
        """Return the PyTorch weights in Keras's layout."""
        return [tensor.detach().cpu().numpy().transpose(axes) for tensor, axes in self.tensors()]

    @torch.no_grad()
    def load(self, weights: Sequence[Array]) -> None:
        """Write Keras's arrays into the PyTorch layer."""
        for (tensor, axes), array in zip(self.tensors(), weights, strict=True):
            tensor.copy_(torch.from_numpy(array.transpose(np.argsort(axes)).copy()))

    def check(self) -> None:
        """Raise unless both layers are of one kind and shape."""
        ours, theirs = _describe(self.torch_layer), f"{self.keras_layer.__class__.__name__} {self.keras_layer.name!r}"
        if self.keras_layer.__class__.__name__ != self.layout.keras:
            raise WeightsMismatchError(
                f"PyTorch's {ours} meets Keras's {theirs}, and {self.layout.keras} was expected. "
                "Build both models with the same layers in the same order."
            )
        wanted = [array.shape for array in self.to_keras()]
        found = [tuple(variable.shape) for variable in self.keras_layer.weights]
        if wanted != found:
            raise WeightsMismatchError(
                f"PyTorch's {ours} needs Keras weights of shapes {wanted}; {theirs} has {found}. "
                "Give both models the same input shape and widths."
            )


def _pairs(torch_model: nn.Module, keras_model: Any) -> Iterator[_Pair]:
    """Pair the layers that hold weights, in order, and check each pair."""
    if not keras_model.built:
        raise WeightsMismatchError(
            f"the Keras model {keras_model.name!r} has no weights yet; call it on one batch, or give it a keras.Input."
        )
    ours = [module for module in torch_model.modules() if _holds_weights(module)]
    theirs = list(_keras_layers(keras_model))
    if len(ours) != len(theirs):
        raise WeightsMismatchError(
            f"the PyTorch model has {len(ours)} layers with weights ({', '.join(map(_describe, ours))}) and the Keras "
            f"model {len(theirs)} ({', '.join(layer.name for layer in theirs)}). Build both with the same layers."
        )
    for module, layer in zip(ours, theirs, strict=True):
        pair = _Pair(torch_layer=module, keras_layer=layer, layout=_layout(module))
        pair.check()
        yield pair


def _holds_weights(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False)) or any(True for _ in module.buffers(recurse=False))


def _keras_layers(layer: Any) -> Iterator[Any]:
    """Yield the innermost layers that hold weights, in order."""
    nested = getattr(layer, "layers", None)
    if nested is None:
        if layer.weights:
            yield layer
        return
    for inner in nested:
        yield from _keras_layers(inner)


def _layout(module: nn.Module) -> _Layout:
    try:
        return _LAYOUTS[type(module)]
    except KeyError:
        known = ", ".join(kind.__name__ for kind in _LAYOUTS)
        raise WeightsMismatchError(
            f"copy_weights does not know the layer {_describe(module)}; it knows {known}. "
            "Copy this layer's tensors by hand."
        ) from None


def _describe(module: nn.Module) -> str:
    shapes = ", ".join(str(list(parameter.shape)) for parameter in module.parameters(recurse=False))
    return f"{type(module).__name__} {shapes}"
