"""Loops that train the same model on the same data.

Each function prepares one and returns what runs it: a function of the number of epochs that starts from the
same weights every time and returns the loss and accuracy of each epoch. Frameworks are imported inside, so
that a process holds no more than it needs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from helpers import data, models, seeding

Scores = list[tuple[float, float]]
"""Loss and accuracy of each epoch."""

Run = Callable[[int], Scores]

BATCH = 64
LR = 0.05
MOMENTUM = 0.9


def fresh_model() -> tuple[nn.Module, dict[str, Any]]:
    """Return the MLP and a copy of its weights."""
    seeding.seed_all(0)
    model = models.mlp()
    return model, copy.deepcopy(model.state_dict())


def fused_sgd(model: nn.Module) -> torch.optim.Optimizer:
    """Return what ``fit`` uses too: one kernel for all parameters."""
    return torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, fused=True)


def fit(split: data.Split, root: Path) -> Run:
    """The course's loop."""
    return _fit(split, compile_step=False)


def fit_compiled(split: data.Split, root: Path) -> Run:
    """The course's loop with ``TrainConfig(compile=True)``."""
    return _fit(split, compile_step=True)


def _fit(split: data.Split, *, compile_step: bool) -> Run:
    from helpers import train
    from helpers.config import TrainConfig

    model, weights = fresh_model()

    def run(epochs: int) -> Scores:
        model.load_state_dict(weights)
        config = TrainConfig(epochs=epochs, lr=LR, momentum=MOMENTUM, compile=compile_step, progress=False)
        history = train.fit(model, split.batches(BATCH, shuffle=True), config)
        return [(record.train.loss, record.train.accuracy) for record in history.epochs]

    return run


def stripped(split: data.Split, root: Path) -> Run:
    """The least that trains: no scores, no options, no checks. The practical limit of eager execution."""
    model, weights = fresh_model()
    images, labels = split.images, split.labels

    def run(epochs: int) -> Scores:
        model.load_state_dict(weights)
        optimizer = fused_sgd(model)
        for _ in range(epochs):
            order = torch.randperm(len(labels))
            for at in range(0, len(labels), BATCH):
                chosen = order[at : at + BATCH]
                logits = model(images.index_select(0, chosen))
                functional.cross_entropy(logits, labels.index_select(0, chosen)).backward()
                optimizer.step()
                optimizer.zero_grad()
        return []

    return run


def products(split: data.Split, root: Path) -> Run:
    """The step's five matrix products alone, on whole batches, into memory that is already there."""
    hidden, classes = 128, 10
    images = split.images.flatten(1)
    w1, w2 = torch.randn(hidden, images.shape[1]), torch.randn(classes, hidden)
    activations, d_logits, d_hidden = (torch.randn(BATCH, width) for width in (hidden, classes, hidden))
    out_hidden, out_logits, out_d_hidden = (torch.empty(BATCH, width) for width in (hidden, classes, hidden))
    d_w1, d_w2 = torch.empty_like(w1), torch.empty_like(w2)

    def run(epochs: int) -> Scores:
        for _ in range(epochs):
            for at in range(0, len(images) - BATCH + 1, BATCH):
                batch = images[at : at + BATCH]
                torch.mm(batch, w1.t(), out=out_hidden)
                torch.mm(activations, w2.t(), out=out_logits)
                torch.mm(d_logits.t(), activations, out=d_w2)
                torch.mm(d_logits, w2, out=out_d_hidden)
                torch.mm(d_hidden.t(), batch, out=d_w1)
        return []

    return run


def textbook(split: data.Split, root: Path) -> Run:
    """What most tutorials show: a dataset of single images, two loader workers, ``.item()`` twice per step."""
    from torchvision import datasets, transforms

    normalise = transforms.Compose([transforms.ToTensor(), transforms.Normalize((data.MNIST_MEAN,), (data.MNIST_STD,))])
    dataset = datasets.MNIST(str(root), train=True, transform=normalise)
    # The trial run that warms up may be shorter than the files.
    dataset = torch.utils.data.Subset(dataset, range(len(split)))
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=2)
    model, weights = fresh_model()

    def run(epochs: int) -> Scores:
        model.load_state_dict(weights)
        optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
        scores = []
        for _ in range(epochs):
            loss_sum, correct = 0.0, 0
            for images, labels in loader:
                optimizer.zero_grad()
                logits = model(images)
                loss = functional.cross_entropy(logits, labels)
                loss.backward()
                optimizer.step()
                loss_sum += loss.item() * len(labels)
                correct += (logits.argmax(1) == labels).sum().item()
            scores.append((loss_sum / len(dataset), correct / len(dataset)))
        return scores

    return run


def ignite(split: data.Split, root: Path) -> Run:
    """Ignite's supervised trainer with its ``Average`` of the loss and its ``Accuracy``."""
    from ignite.engine import Events, create_supervised_trainer
    from ignite.metrics import Accuracy, Average

    model, weights = fresh_model()
    batches = split.batches(BATCH, shuffle=True)

    def run(epochs: int) -> Scores:
        model.load_state_dict(weights)
        trainer = create_supervised_trainer(
            model,
            fused_sgd(model),
            functional.cross_entropy,
            output_transform=lambda images, labels, logits, loss: (loss, logits, labels),  # no .item()
        )
        Average(output_transform=lambda output: output[0].detach()).attach(trainer, "loss")
        Accuracy(output_transform=lambda output: (output[1].detach(), output[2])).attach(trainer, "accuracy")
        scores: Scores = []
        trainer.add_event_handler(Events.EPOCH_STARTED, lambda engine: batches.set_epoch(engine.state.epoch - 1))
        trainer.add_event_handler(
            Events.EPOCH_COMPLETED,
            lambda engine: scores.append((float(engine.state.metrics["loss"]), engine.state.metrics["accuracy"])),
        )
        trainer.run(batches, max_epochs=epochs)
        return scores

    return run


def accelerate(split: data.Split, root: Path) -> Run:
    """Accelerate around a loop that adds its scores up in tensors, as its own examples do with the loss."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    bare, weights = fresh_model()
    batches = split.batches(BATCH, shuffle=True)

    def run(epochs: int) -> Scores:
        bare.load_state_dict(weights)
        model, optimizer = accelerator.prepare(bare, fused_sgd(bare))
        scores = []
        for epoch in range(epochs):
            batches.set_epoch(epoch)
            model.train()
            loss_sum, correct = torch.zeros(()), torch.zeros((), dtype=torch.int64)
            for images, labels in batches:
                optimizer.zero_grad()
                logits = model(images)
                loss = functional.cross_entropy(logits, labels)
                accelerator.backward(loss)
                optimizer.step()
                loss_sum += loss.detach() * len(labels)
                correct += (logits.argmax(1) == labels).sum()
            scores.append((float(loss_sum) / len(split), int(correct) / len(split)))
        accelerator.free_memory()
        return scores

    return run


def lightning(split: data.Split, root: Path) -> Run:
    """Lightning's trainer; loss and accuracy are logged per epoch, everything else is off."""
    from lightning import Callback

    from helpers.lightning import Classifier, trainer

    class Fused(Classifier):
        def configure_optimizers(self) -> torch.optim.Optimizer:
            return fused_sgd(self)

    class Keep(Callback):
        def __init__(self) -> None:
            self.scores: Scores = []

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            metrics = trainer.callback_metrics
            self.scores.append((float(metrics["loss"]), float(metrics["accuracy"])))

    model, weights = fresh_model()

    def run(epochs: int) -> Scores:
        model.load_state_dict(weights)
        keep = Keep()
        trainer(max_epochs=epochs, accelerator="cpu", callbacks=[keep]).fit(
            Fused(model), split.batches(BATCH, shuffle=True)
        )
        return keep.scores

    return run


def keras(split: data.Split, root: Path) -> Run:
    """Keras ``fit`` on NumPy arrays, its fastest ordinary way here (``tf.data`` from tensors was slower)."""
    from helpers.tf import models as tf_models
    from helpers.tf import tensorflow
    from helpers.tf.data import to_nhwc

    api = tensorflow().keras
    model = tf_models.mlp()
    tf_models.copy_weights(fresh_model()[0], model)
    weights = model.get_weights()
    images, labels = to_nhwc(split.images), split.labels.numpy()
    model.compile(
        optimizer=api.optimizers.SGD(LR, momentum=MOMENTUM),
        loss=api.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

    def run(epochs: int) -> Scores:
        model.set_weights(weights)
        for variable in model.optimizer.variables:
            if variable.path.endswith("_momentum"):
                variable.assign(variable * 0)
        history = model.fit(images, labels, batch_size=BATCH, epochs=epochs, shuffle=True, verbose=0).history
        return list(zip(history["loss"], history["accuracy"], strict=True))

    return run


CONTENDERS: dict[str, Callable[[data.Split, Path], Run]] = {
    function.__name__: function
    for function in (fit, fit_compiled, stripped, products, textbook, ignite, accelerate, lightning, keras)
}
