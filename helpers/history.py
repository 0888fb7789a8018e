"""What a training run leaves behind: one record per epoch, the loss of every step, a picture, a table."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers import plotting
from helpers.claims import measured, to_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Loss and accuracy over a number of samples, each sample counted once."""

    loss: float
    """Mean loss per sample."""
    accuracy: float
    """Share of samples whose highest score is the right class, 0 to 1."""
    samples: int


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One pass over the training data."""

    epoch: int
    """Counted from 0."""
    train: Metrics
    """Taken while the parameters move: each batch is scored by the model as it was then."""
    evaluation: Metrics | None
    """Taken after the epoch, where there was something to evaluate on."""
    seconds: float
    """Time of the training pass, without the evaluation."""

    @property
    def samples_per_s(self) -> float:
        """Training throughput."""
        return self.train.samples / self.seconds


@dataclass(kw_only=True)
class History:
    """The records of a run, in order. In a notebook it shows itself as a table."""

    epochs: list[EpochRecord] = field(default_factory=list)
    step_losses: list[float] = field(default_factory=list)
    """The loss of every batch, in order."""
    stopped: str | None = None
    """Why the run ended before its last epoch, if it did."""

    @property
    def last(self) -> EpochRecord:
        """The latest epoch.

        Raises:
            IndexError: If no epoch has ended yet.
        """
        return self.epochs[-1]

    def plot(self) -> Figure:
        """Draw the loss of every step beside the accuracy of every epoch.

        Returns:
            The figure; ``helpers.plotting.show(history.plot(), alt=...)`` shows it.
        """
        figure, (left, right) = plotting.figure(columns=2)
        left.plot(range(1, len(self.step_losses) + 1), self.step_losses, lw=0.8, color=plotting.PALETTE["sky"])
        ends = [round((i + 1) * len(self.step_losses) / len(self.epochs)) for i in range(len(self.epochs))]
        left.plot(ends, [e.train.loss for e in self.epochs], "o-", color=plotting.PALETTE["blue"], label="epoch's mean")
        left.set(title="Training loss", xlabel="step", ylabel="loss", ylim=(0, None))
        left.legend()
        numbers = [record.epoch + 1 for record in self.epochs]
        right.plot(numbers, [100 * record.train.accuracy for record in self.epochs], "o-", label="training")
        evaluated = [(r.epoch + 1, 100 * r.evaluation.accuracy) for r in self.epochs if r.evaluation]
        if evaluated:
            right.plot(*zip(*evaluated, strict=True), "s--", label="evaluation")
        right.set(title="Accuracy", xlabel="epoch", ylabel="%", xticks=numbers)
        right.legend()
        return figure

    def __repr__(self) -> str:
        head, *rows = self._rows()
        return "\n".join(", ".join(f"{name} {cell}" for name, cell in zip(head, row, strict=True)) for row in rows)

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        body = "".join("<tr>" + "".join(f"<td>{to_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        note = f"<p>Stopped early: {html.escape(self.stopped)}</p>" if self.stopped else ""
        return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{body}</table>{note}"

    def _rows(self) -> list[list[str]]:
        evaluated = any(record.evaluation for record in self.epochs)
        head = ["epoch", "loss", "accuracy", *(["evaluation loss", "evaluation accuracy"] if evaluated else []), "time"]
        return [head, *(self._row(record, evaluated) for record in self.epochs)]

    def _row(self, record: EpochRecord, evaluated: bool) -> list[str]:
        cells = [str(record.epoch + 1), *_cells(record.train)]
        if evaluated:
            cells += _cells(record.evaluation) if record.evaluation else ["", ""]
        return [*cells, measured(record.seconds, "s")]


def _cells(metrics: Metrics) -> list[str]:
    return [measured(metrics.loss), measured(f"{metrics.accuracy:.1%}")]
