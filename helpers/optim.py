"""What a run carries from step to step besides the model: optimizer, schedule, loss scaler, epoch."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from helpers.config import ConfigError, TrainConfig

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(kw_only=True)
class Window:
    """The batches whose gradients are summed before one optimizer step.

    Each batch's mean loss counts by its samples, so that the sum equals the gradient of one large batch
    even where the last batch is short. Weights relate to the window's first batch and are 1 for equal
    batches, which keeps them out of the way of half precision.
    """

    size: int
    batches: int = 0
    weight: float = 0.0
    _first: int = 0

    def weigh(self, samples: int) -> float:
        """Add a batch to the window and return the factor of its loss."""
        if self.batches == 0:
            self._first = samples
        weight = samples / self._first
        self.batches += 1
        self.weight += weight
        return weight

    @property
    def full(self) -> bool:
        """Whether it is time for the optimizer."""
        return self.batches >= self.size

    @property
    def empty(self) -> bool:
        """Whether no gradient waits."""
        return self.batches == 0

    def clear(self) -> None:
        """Begin anew."""
        self.batches, self.weight = 0, 0.0


@dataclass(kw_only=True)
class TrainState:
    """The moving parts of a run. ``state_dict`` holds plain containers and tensors only."""

    optimizer: torch.optim.Optimizer
    scheduler: LambdaLR
    scaler: torch.amp.GradScaler
    device_type: str
    precision: str
    window: Window
    epoch: int = 0
    """Epochs that have ended."""
    parameters: list[nn.Parameter] = field(default_factory=list, repr=False)

    @classmethod
    def create(
        cls,
        model: nn.Module,
        config: TrainConfig,
        *,
        steps_per_epoch: int | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> TrainState:
        """Make the state for a model that is already on its device.

        Args:
            model: The model whose parameters move.
            config: Settings of optimizer, schedule and precision.
            steps_per_epoch: Batches in an epoch; needed by schedules that end at zero.
            optimizer: One of your own instead of the config's; only its parameters are trained.

        Raises:
            ConfigError: If nothing can be trained, or a schedule does not know its length.
        """
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if optimizer is not None:
            chosen = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
            parameters = [parameter for parameter in parameters if id(parameter) in chosen]
        if not parameters:
            whose = (
                "the model has no parameter" if optimizer is None else "the optimizer holds no parameter of the model"
            )
            raise ConfigError(
                f"{whose} with requires_grad=True; there is nothing to train. "
                "Unfreeze a layer, and make the optimizer after the model."
            )
        device_type = parameters[0].device.type
        optimizer = optimizer or make_optimizer(parameters, config)
        return cls(
            optimizer=optimizer,
            scheduler=LambdaLR(optimizer, _Factor(config, _total_steps(config, steps_per_epoch))),
            scaler=torch.amp.GradScaler(device_type, enabled=config.precision == "fp16"),
            device_type=device_type,
            precision=config.precision,
            window=Window(size=config.accumulate),
            parameters=parameters,
        )

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context of the forward pass."""
        if self.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device_type, dtype=_DTYPES[self.precision])

    def check_belongs(self, model: nn.Module, config: TrainConfig) -> None:
        """Make sure that this state moves this model, as this config says.

        Raises:
            ConfigError: If it was made for another model, or with another precision or accumulation.
        """
        own = {id(parameter) for parameter in model.parameters()}
        if not all(id(parameter) in own for parameter in self.parameters):
            raise ConfigError(
                "the state holds parameters of another model, so this one would not learn. "
                "Make it anew with TrainState.create(model, config)."
            )
        for name, mine in (("precision", self.precision), ("accumulate", self.window.size)):
            asked = getattr(config, name)
            if mine != asked:
                raise ConfigError(
                    f"the state was made with {name}={mine!r}, but the config says {asked!r}. "
                    "Make the state anew, or keep the setting."
                )

    def drop_gradients(self) -> None:
        """Forget gradients that no update has used."""
        self.optimizer.zero_grad()
        self.window.clear()

    def update(self, config: TrainConfig) -> None:
        """Let the optimizer use the gradients that were gathered, then drop them."""
        if self.window.weight != 1:
            torch._foreach_div_([p.grad for p in self.parameters if p.grad is not None], self.window.weight)
        if config.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.parameters, config.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.optimizer.zero_grad()  # sets them to None, the default since PyTorch 2.0
        self.window.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to continue, loadable with ``weights_only=True``."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scheduler": {"last_epoch": self.scheduler.last_epoch},
            "scaler": self.scaler.state_dict(),
            "epoch": self.epoch,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        self.scheduler.last_epoch = saved["scheduler"]["last_epoch"]
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scaler.load_state_dict(saved["scaler"])
        self.epoch = saved["epoch"]
        self.window.clear()


def make_optimizer(parameters: list[nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """Return the config's optimizer with one fused kernel for all parameters, where the device has it."""
    fused = all(parameter.device.type in {"cpu", "cuda"} and parameter.is_floating_point() for parameter in parameters)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=config.lr, weight_decay=config.weight_decay, fused=fused)
    return torch.optim.SGD(
        parameters, lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay, fused=fused
    )


def _total_steps(config: TrainConfig, batches: int | None) -> int | None:
    if config.schedule == "constant":
        return None
    if not batches:
        raise ConfigError(
            f"schedule={config.schedule!r} ends with the last step, but the loader has "
            f"{'no length' if batches is None else 'length 0'}. Use schedule='constant', or a loader with batches "
            "and __len__."
        )
    return config.epochs * math.ceil(batches / config.accumulate)


@dataclass(frozen=True)
class _Factor:
    """The learning rate of an optimizer step, relative to its peak."""

    config: TrainConfig
    total: int | None

    def __post_init__(self) -> None:
        if self.total is not None and self.config.warmup_steps >= self.total:
            raise ConfigError(
                f"warmup_steps={self.config.warmup_steps}, but the run has {self.total} optimizer steps. "
                "Warm up for a tenth of them or less."
            )

    def __call__(self, step: int) -> float:
        warmup = self.config.warmup_steps
        if step < warmup:
            return (step + 1) / warmup
        if self.total is None:
            return 1.0
        done = min((step - warmup) / (self.total - warmup), 1.0)
        return 1 - done if self.config.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
