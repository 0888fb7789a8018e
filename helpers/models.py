"""The course's models, small enough for two cores.

Weights come from PyTorch's global generator: call :func:`helpers.seeding.seed_all` first.
"""

from __future__ import annotations

import torch
from torch import nn


def mlp(inputs: int = 28 * 28, hidden: int = 128, classes: int = 10) -> nn.Sequential:
    """Return ``flatten → linear → ReLU → linear``.

    Input ``[B, …]`` with ``inputs`` numbers per sample; output logits ``[B, classes]``.
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def cnn(channels: int = 1, classes: int = 10, *, width: int = 16) -> nn.Sequential:
    """Return two convolution blocks with batch normalisation, pooled to one linear layer.

    Input ``[B, channels, H, W]``, any size from 4×4; output logits ``[B, classes]``.
    """
    return nn.Sequential(
        *_block(channels, width),
        nn.MaxPool2d(2),
        *_block(width, 2 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, classes),
    )


def _block(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()


def resnet18(classes: int) -> nn.Module:
    """Return torchvision's ResNet18 with fresh weights.

    Input ``[B, 3, H, W]`` from 32×32; output logits ``[B, classes]``.

    Source:
        K. He et al., "Deep Residual Learning for Image Recognition", 2015.
    """
    from torchvision.models import resnet18 as build

    model: nn.Module = build(weights=None, num_classes=classes)
    return model


def parameter_count(model: nn.Module) -> int:
    """Return how many numbers the optimizer moves."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def same_weights(model: nn.Module, other: nn.Module) -> None:
    """Copy the parameters and buffers of ``other`` into ``model``, so that both start equal."""
    with torch.no_grad():
        model.load_state_dict(other.state_dict())
