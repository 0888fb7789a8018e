"""Lab 03's checks on right answers, none, and the mistakes that people make."""

from __future__ import annotations

import pytest
import torch
from labtable import RIGHT, Case, Table, ids
from torch import nn
from torch.nn.functional import cross_entropy

from helpers.labs.judge import judge
from helpers.labs.tasks import Outcome
from helpers.tf import tensorflow

tf = tensorflow()
table = Table("03")
answer = table.answer


@answer("batch_losses", RIGHT, "Each batch's loss comes back")
def _losses(means, sizes):
    losses, before, samples = [], 0.0, 0
    for mean, size in zip(means, sizes, strict=True):
        samples += size
        losses.append((mean * samples - before) / size)
        before = mean * samples
    return losses


@answer("batch_losses", "the means again", "still the means")
def _means(means, sizes):
    return means


@answer("batch_losses", "differences of means", "turn them into sums first")
def _differences(means, sizes):
    return [b - a for a, b in zip([0.0, *means], means, strict=False)]


@answer("batch_losses", "by batches", "Multiply by samples, not by steps")
def _by_batches(means, sizes):
    sums = [mean * (i + 1) for i, mean in enumerate(means)]
    return [b - a for a, b in zip([0.0, *sums], sums, strict=False)]


@answer("batch_losses", "sums", "divide by its samples")
def _sums(means, sizes):
    return [loss * size for loss, size in zip(_losses(means, sizes), sizes, strict=True)]


@answer("batch_losses", "one too few", "one loss for each batch")
def _short(means, sizes):
    return _losses(means, sizes)[1:]


@answer("batch_losses", "something else", "not the losses that the means are made of")
def _else(means, sizes):
    return [mean * 1.5 for mean in means]


@answer("custom_step", RIGHT, "equals those of `fit`")
def _step(model, optimizer, loss_fn, images, labels):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(images, training=True)) + sum(model.losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


@answer("custom_step", "not in training mode", "Batch normalisation never saw a batch")
def _inference(model, optimizer, loss_fn, images, labels):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(images)) + sum(model.losses)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


@answer("custom_step", "no penalty", "the loss of the data alone")
def _no_penalty(model, optimizer, loss_fn, images, labels):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(images, training=True))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


@answer("custom_step", "penalty followed but not returned", "not the one that Keras reports")
def _unreported(model, optimizer, loss_fn, images, labels):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(images, training=True))
        whole = loss + sum(model.losses)
    optimizer.apply(tape.gradient(whole, model.trainable_variables), model.trainable_variables)
    return loss


@answer("custom_step", "nothing applied", "never given to the optimizer")
def _not_applied(model, optimizer, loss_fn, images, labels):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(images, training=True)) + sum(model.losses)
    tape.gradient(loss, model.trainable_variables)
    return loss


@answer("custom_step", "applied twice", "applied once")
def _twice(model, optimizer, loss_fn, images, labels):
    _step(model, optimizer, loss_fn, images, labels)
    return _step(model, optimizer, loss_fn, images, labels)


@answer("custom_step", "nothing returned", "Return the loss too")
def _silent(model, optimizer, loss_fn, images, labels):
    _step(model, optimizer, loss_fn, images, labels)


def _loop(step, dataset, epochs):
    history = []
    for _ in range(epochs):
        total, samples = 0.0, 0
        for images, labels in dataset:
            total += step(images, labels) * len(labels)
            samples += len(labels)
        history.append(float(total / samples))
    return history


@answer("custom_fit", RIGHT, "traced once")
def _fit(step, dataset, epochs):
    return _loop(tf.function(step, input_signature=dataset.element_spec), dataset, epochs)


@answer("custom_fit", "eager", "line by line in Python")
def _eager(step, dataset, epochs):
    return _loop(step, dataset, epochs)


@answer("custom_fit", "no signature", "traced more than once")
def _retraced(step, dataset, epochs):
    return _loop(tf.function(step), dataset, epochs)


@answer("custom_fit", "mean over batches", "mean over batches")
def _by_batch(step, dataset, epochs):
    graph = tf.function(step, input_signature=dataset.element_spec)
    return [float(sum(graph(x, y) for x, y in dataset) / len(dataset)) for _ in range(epochs)]


@answer("custom_fit", "sums carried over", "must start from zero again")
def _carried(step, dataset, epochs):
    graph = tf.function(step, input_signature=dataset.element_spec)
    history, total, samples = [], 0.0, 0
    for _ in range(epochs):
        for images, labels in dataset:
            total += graph(images, labels) * len(labels)
            samples += len(labels)
        history.append(float(total / samples))
    return history


@answer("custom_fit", "last loss of each epoch", "not the mean losses per sample")
def _last(step, dataset, epochs):
    graph = tf.function(step, input_signature=dataset.element_spec)
    return [[float(graph(x, y)) for x, y in dataset][-1] for _ in range(epochs)]


@answer("custom_fit", "one number", "one loss for each epoch")
def _one(step, dataset, epochs):
    return _fit(step, dataset, epochs)[-1]


@answer("custom_fit", "twice over the data", "exactly one step")
def _double(step, dataset, epochs):
    history = _fit(step, dataset, epochs)
    for images, labels in dataset:
        step(images, labels)
    return history


def _build(keras_model, *, transpose=True, biased=True, relu=True, bare=False):
    first, bias, second, last = keras_model.get_weights()
    layers = [nn.Linear(*first.shape), nn.Linear(*second.shape)]
    with torch.no_grad():
        for layer, kernel, shift in zip(layers, (first, second), (bias, last), strict=True):
            layer.weight.copy_(torch.from_numpy(kernel.T if transpose else kernel))
            layer.bias.copy_(torch.from_numpy(shift) if biased else torch.zeros(len(shift)))
    return nn.Sequential(nn.Flatten(), layers[0], *([nn.ReLU()] if relu else []), layers[1])


@answer("to_torch", RIGHT, "the same logits")
def _ported(keras_model):
    return _build(keras_model)


@answer("to_torch", "not transposed", "copied as they are")
def _untransposed(keras_model):
    return _build(keras_model, transpose=False)


@answer("to_torch", "no biases", "the biases are not copied")
def _unbiased(keras_model):
    return _build(keras_model, biased=False)


@answer("to_torch", "no relu", "the ReLU is missing")
def _linear(keras_model):
    return _build(keras_model, relu=False)


@answer("to_torch", "fresh weights", "are all four arrays")
def _fresh(keras_model):
    torch.manual_seed(0)
    first, _, second, _ = keras_model.get_weights()
    return nn.Sequential(nn.Flatten(), nn.Linear(*first.shape), nn.ReLU(), nn.Linear(*second.shape))


@answer("to_torch", "the state", "Return the PyTorch model")
def _state(keras_model):
    return _build(keras_model).state_dict()


def _train(model, batches, epochs, *, penalty=1e-3, decay=0.0, momentum=0.9, lr=0.05, zero=True, every=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum, weight_decay=decay)
    losses = []
    for _ in range(epochs):
        for images, labels in batches:
            if zero:
                optimizer.zero_grad()
            weights = list(model.parameters()) if every else [model[1].weight]
            loss = cross_entropy(model(images), labels) + penalty * sum(weight.square().sum() for weight in weights)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@answer("torch_fit", RIGHT, "agree with Keras's `fit`")
def _trained(model, batches, epochs):
    return _train(model, batches, epochs)


@answer("torch_fit", "no penalty", "L2 penalty is missing")
def _torch_no_penalty(model, batches, epochs):
    return _train(model, batches, epochs, penalty=0.0)


@answer("torch_fit", "weight decay", "only followed, not counted")
def _decay(model, batches, epochs):
    return _train(model, batches, epochs, penalty=0.0, decay=1e-3)


@answer("torch_fit", "twice the weight decay", "with twice the factor")
def _double_decay(model, batches, epochs):
    return _train(model, batches, epochs, penalty=0.0, decay=2e-3)


@answer("torch_fit", "penalty on everything", "The penalty takes all weights")
def _every(model, batches, epochs):
    return _train(model, batches, epochs, every=True)


@answer("torch_fit", "no momentum", "no momentum")
def _no_momentum(model, batches, epochs):
    return _train(model, batches, epochs, momentum=0.0)


@answer("torch_fit", "forgot zero_grad", "`optimizer.zero_grad()` is missing")
def _no_zero(model, batches, epochs):
    return _train(model, batches, epochs, zero=False)


@answer("torch_fit", "another learning rate", "compare learning rate and momentum")
def _lr(model, batches, epochs):
    return _train(model, batches, epochs, lr=0.1)


@answer("torch_fit", "summed loss", "Already the first loss differs")
def _torch_sum(model, batches, epochs):
    return [32 * loss for loss in _train(model, batches, epochs)]


@answer("torch_fit", "epochs instead of steps", "the loss of every step")
def _torch_epochs(model, batches, epochs):
    return _train(model, batches, epochs)[-epochs:]


@pytest.mark.parametrize("case", table.cases, ids=ids)
def test_verdict(case: Case) -> None:
    table.verify(case)


def test_every_task_has_enough_answers() -> None:
    table.verify_coverage()


@pytest.mark.parametrize("task", table.plan.tasks, ids=lambda task: task.name)
def test_no_answer_is_not_attempted(task) -> None:
    assert judge(task, None).outcome is Outcome.NOT_ATTEMPTED
