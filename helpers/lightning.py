# mypy: disable-error-code="misc"
"""The course's models under Lightning, with a trainer that prints nothing and leaves nothing behind.

Only chapter 03 and its like need this module; it imports Lightning, which takes seconds, so nothing else here does.
Lightning is untyped to mypy here, hence the line above.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers import machine

_LOGGER = "lightning.pytorch"
"""Under this name Lightning announces devices and tips at level INFO."""


class Classifier(lightning.LightningModule):
    """A classifier in Lightning's terms: what a step computes, and with which optimizer.

    Everything else of the loop (devices, ``zero_grad``, ``backward``, ``step``, train and eval mode) is Lightning's.
    """

    def __init__(self, model: nn.Module, *, lr: float = 0.1, momentum: float = 0.9) -> None:
        """Wrap ``model``, which maps inputs to logits ``[N, classes]``."""
        super().__init__()
        self.model = model
        self.lr, self.momentum = lr, momentum

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """Return the loss of one batch; Lightning calls ``backward`` on it."""
        inputs, labels = batch
        logits = self.model(inputs)
        loss = functional.cross_entropy(logits, labels)
        accuracy = (logits.argmax(dim=1) == labels).float().mean()
        self.log_dict({"loss": loss, "accuracy": accuracy}, on_step=False, on_epoch=True, batch_size=len(labels))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer that Lightning is to step."""
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=self.momentum)


class EpochLoader:
    """Training batches in a form in which Lightning tells them the epoch.

    Lightning announces the epoch to a loader's ``sampler`` only, and asks for the first epoch's iterator before it
    does so. So this loader is its own sampler, and begins a pass when its first batch is asked for.
    """

    def __init__(self, batches: Any) -> None:
        """Wrap ``batches``, which have ``set_epoch`` and a length (:class:`helpers.data.Batches`)."""
        self._batches = batches
        self.sampler = self

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass; called by Lightning."""
        self._batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        yield from self._batches  # a generator: nothing happens until the first batch is wanted


class StepLosses(lightning.Callback):
    """Keep the loss of every step.

    The losses stay tensors on their device until ``values`` is read, so that recording makes no step wait.
    """

    def __init__(self) -> None:
        """Start with no losses."""
        self._losses: list[Tensor] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Record what ``training_step`` returned."""
        self._losses.append(outputs["loss"].detach())

    @property
    def values(self) -> list[float]:
        """The losses so far, one per step."""
        return torch.stack(self._losses).tolist() if self._losses else []


def trainer(**options: Any) -> Any:
    """Return a ``lightning.Trainer`` for one process without logger, checkpoints, progress bar or summary.

    Args:
        **options: Passed to ``lightning.Trainer``; they win over what is set here.

    What Lightning still writes goes to the ``lightning`` folder under :func:`helpers.machine.scratch`.
    """
    logging.getLogger(_LOGGER).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=r"`isinstance\(treespec, LeafSpec\)`")  # Lightning 2.6 with torch 2.14
    quiet: dict[str, Any] = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "devices": 1,
        "default_root_dir": machine.scratch("lightning"),
    }
    return lightning.Trainer(**(quiet | options))
