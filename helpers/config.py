"""What a training run is told: one frozen object, checked when it is made.

Both frameworks' loops take it, so it imports neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from helpers.errors import CourseError

Optimizer = Literal["sgd", "adamw"]
Precision = Literal["fp32", "bf16", "fp16"]
Schedule = Literal["constant", "linear", "cosine"]


class ConfigError(CourseError):
    """A setting has a value that the loop cannot honour."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of :func:`helpers.train.fit` and of its mirror in :mod:`helpers.tf.train`.

    Raises:
        ConfigError: If a value is unknown, out of range, or contradicts another.
    """

    epochs: int = 3
    """Passes over the training data."""
    optimizer: Optimizer = "sgd"
    """``sgd`` with momentum, or ``adamw``."""
    lr: float = 0.05
    """Peak learning rate, after the warm-up."""
    momentum: float = 0.9
    """Momentum of ``sgd``; ``adamw`` has its own (betas 0.9 and 0.999)."""
    weight_decay: float = 0.0
    """L2 penalty of ``sgd``, decoupled weight decay of ``adamw``."""
    schedule: Schedule = "constant"
    """How the learning rate goes from its peak to zero: not at all, along a line, along half a cosine."""
    warmup_steps: int = 0
    """Optimizer steps over which the learning rate rises from zero to its peak."""
    accumulate: int = 1
    """Batches whose gradients are summed before one optimizer step."""
    clip_norm: float | None = None
    """Largest allowed norm of all gradients together; None leaves them as they are."""
    precision: Precision = "fp32"
    """Number format of the forward pass; weights stay in fp32 (automatic mixed precision)."""
    compile: bool = False
    """Run forward and backward as one compiled graph. The first step then takes seconds to minutes."""
    device: str = "auto"
    """``auto`` (an accelerator if there is one), or a PyTorch device such as ``cpu`` or ``cuda:1``."""
    log_every: int | None = None
    """Show the loss in the progress bar every so many steps. Each time waits for the device once."""
    progress: bool = True
    """Show a progress bar."""

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_ranges()
        self._check_combinations()

    def _check_choices(self) -> None:
        for name, choices in (("optimizer", Optimizer), ("precision", Precision), ("schedule", Schedule)):
            _require(name, getattr(self, name), getattr(self, name) in get_args(choices), one_of(get_args(choices)))

    def _check_ranges(self) -> None:
        for name, least in (("epochs", 1), ("accumulate", 1), ("warmup_steps", 0)):
            value = getattr(self, name)
            _require(name, value, _is_count(value) and value >= least, f"a whole number from {least}")
        for name in ("lr", "momentum", "weight_decay"):
            value = getattr(self, name)
            _require(name, value, _is_number(value) and 0 <= value < float("inf"), "a finite number from 0")
        _require("momentum", self.momentum, self.momentum < 1, "a number below 1, usually 0.9")
        _require(
            "clip_norm", self.clip_norm, self.clip_norm is None or _is_positive(self.clip_norm), "above 0, or None"
        )
        for name in ("compile", "progress"):
            value = getattr(self, name)
            _require(name, value, isinstance(value, bool), "True or False")
        every = self.log_every
        _require("log_every", every, every is None or (_is_count(every) and every >= 1), "a count of steps, or None")
        _require("device", self.device, isinstance(self.device, str), "a device's name such as 'cpu', or 'auto'")

    def _check_combinations(self) -> None:
        if self.log_every is not None and not self.progress:
            raise ConfigError(
                f"log_every={self.log_every} shows the loss in the progress bar, but progress=False hides the bar. "
                "Set progress=True, or leave log_every out."
            )


def one_of(choices: Iterable[str]) -> str:
    """Return the choices as words for an error message."""
    return "one of " + ", ".join(repr(choice) for choice in choices)


def _require(name: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise ConfigError(f"TrainConfig({name}={value!r}): expected {expected}.")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < float("inf")
