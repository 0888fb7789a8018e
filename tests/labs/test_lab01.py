"""Lab 01's checks on right answers, none, and the mistakes that people make."""

from __future__ import annotations

import pytest
import torch
import torchvision
from labtable import RIGHT, Case, Table, ids

from helpers.labs.judge import judge
from helpers.labs.tasks import Outcome
from helpers.tf import tensorflow

table = Table("01")
answer = table.answer


@answer("train_step", RIGHT, "every parameter equals the reference")
def _step(model, x, y, optimizer, loss_fn):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


@answer("train_step", "forgot zero_grad", "add up: `optimizer.zero_grad()` is missing")
def _no_zero(model, x, y, optimizer, loss_fn):
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


@answer("train_step", "forgot step", "no parameter moves: `optimizer.step()` is missing")
def _no_step(model, x, y, optimizer, loss_fn):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    return loss.detach()


@answer("train_step", "forgot backward", "`loss.backward()` is missing")
def _no_backward(model, x, y, optimizer, loss_fn):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    optimizer.step()
    return loss.detach()


@answer("train_step", "step before backward", "steps before the gradients of this batch exist")
def _step_first(model, x, y, optimizer, loss_fn):
    loss = loss_fn(model(x), y)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.detach()


@answer("train_step", "cleared too late", "cleared after `backward` and before `step`")
def _late_zero(model, x, y, optimizer, loss_fn):
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.detach()


@answer("train_step", "summed loss", "a step 8 times as long")
def _summed(model, x, y, optimizer, loss_fn):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    (loss * len(y)).backward()
    optimizer.step()
    return loss.detach()


@answer("train_step", "own loss", "does not come from `loss_fn`")
def _own_loss(model, x, y, optimizer, loss_fn):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


@answer("train_step", "forgot return", "the loss is not returned")
def _no_return(model, x, y, optimizer, loss_fn):
    _step(model, x, y, optimizer, loss_fn)


@answer("train_step", "item", "comes back as a Python value")
def _item(model, x, y, optimizer, loss_fn):
    return _step(model, x, y, optimizer, loss_fn).item()


@answer("train_step", "graph kept", "still holds its graph")
def _graph(model, x, y, optimizer, loss_fn):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@answer("train_step", "loss after the step", "not the loss of the batch before the step")
def _loss_after(model, x, y, optimizer, loss_fn):
    _step(model, x, y, optimizer, loss_fn)
    return loss_fn(model(x), y).detach()


@answer("train_step", "raises", "`AttributeError`")
def _typo(model, x, y, optimizer, loss_fn):
    loss = loss_fn(model(x), y)
    loss.backwards()


@answer("train_epoch", RIGHT, "weighted by samples")
def _epoch(step, batches):
    total, samples = 0.0, 0
    for x, y in batches:
        total = total + step(x, y) * len(y)
        samples += len(y)
    return float(total) / samples


@answer("train_epoch", "mean of batches", "average over batches")
def _mean(step, batches):
    losses = [step(x, y) for x, y in batches]
    return float(sum(losses) / len(losses))


@answer("train_epoch", "sum of batches", "sum of the batch losses")
def _sum(step, batches):
    return float(sum(step(x, y) for x, y in batches))


@answer("train_epoch", "not divided", "sum over samples. Divide")
def _undivided(step, batches):
    return float(sum(step(x, y) * len(y) for x, y in batches))


@answer("train_epoch", "divided by batches", "divided by the number of batches")
def _by_batches(step, batches):
    return float(sum(step(x, y) * len(y) for x, y in batches) / len(batches))


@answer("train_epoch", "last batch", "last batch alone")
def _last(step, batches):
    for x, y in batches:
        loss = step(x, y)
    return float(loss)


@answer("train_epoch", "item per step", "it is read at every step")
def _item_per_step(step, batches):
    total = sum(step(x, y).item() * len(y) for x, y in batches)
    return total / sum(len(y) for _, y in batches)


@answer("train_epoch", "tensor", "as a Python float")
def _tensor(step, batches):
    return sum(step(x, y) * len(y) for x, y in batches) / sum(len(y) for _, y in batches)


@answer("train_epoch", "step twice", "exactly once")
def _twice(step, batches):
    for x, y in batches:
        step(x, y)
    return _epoch(step, batches)


@answer("train_epoch", "other number", "not the mean over samples")
def _other(step, batches):
    return _epoch(step, batches) + 1


def _hits(model, batches):
    return sum(float((model(x).argmax(dim=1) == y).sum()) for x, y in batches)


def _samples(batches):
    return sum(len(y) for _, y in batches)


def _evaluated(model, batches, result):
    """Evaluate rightly but for what ``result`` makes of it."""
    before = model.training
    model.eval()
    with torch.no_grad():
        value = result()
    model.train(before)
    return value


@answer("evaluate", RIGHT, "the mode given back")
def _evaluate(model, batches):
    return _evaluated(model, batches, lambda: _hits(model, batches) / _samples(batches))


@answer("evaluate", "training mode", "ran in training mode")
def _training(model, batches):
    with torch.no_grad():
        return _hits(model, batches) / _samples(batches)


@answer("evaluate", "gradients", "Gradients were recorded")
def _gradients(model, batches):
    before = model.training
    model.eval()
    value = _hits(model, batches) / _samples(batches)
    model.train(before)
    return value


@answer("evaluate", "left in eval", "is left in evaluation mode")
@torch.no_grad()
def _left(model, batches):
    model.eval()
    return _hits(model, batches) / _samples(batches)


@answer("evaluate", "always train", "always ends in training mode")
@torch.no_grad()
def _always(model, batches):
    model.eval()
    value = _hits(model, batches) / _samples(batches)
    model.train()
    return value


@answer("evaluate", "mean of batches", "average over batches")
def _batch_mean(model, batches):
    return _evaluated(model, batches, lambda: sum(_hits(model, [b]) / len(b[1]) for b in batches) / len(batches))


@answer("evaluate", "number of hits", "number of hits. Divide")
def _count(model, batches):
    return _evaluated(model, batches, lambda: _hits(model, batches))


@answer("evaluate", "percentage", "is a percentage")
def _percent(model, batches):
    return _evaluated(model, batches, lambda: 100 * _hits(model, batches) / _samples(batches))


@answer("evaluate", "divided by batches", "divided by the number of batches")
def _hits_by_batches(model, batches):
    return _evaluated(model, batches, lambda: _hits(model, batches) / len(batches))


@answer("evaluate", "tensor", "accuracy as a Python float")
def _accuracy_tensor(model, batches):
    return torch.tensor(_evaluate(model, batches))


@answer("evaluate", "wrong axis", "not the share of samples")
def _axis(model, batches):
    return _evaluate(model, batches) / 2


def _looped(model, train, test, optimizer, loss_fn, epochs, step=_step):
    return [
        (_epoch(lambda x, y: step(model, x, y, optimizer, loss_fn), train), _evaluate(model, list(test)))
        for _ in range(epochs)
    ]


@answer("fit", RIGHT, "3 epochs on the digits")
def _fit(model, train, test, optimizer, loss_fn, epochs):
    return _looped(model, train, test, optimizer, loss_fn, epochs)


@answer("fit", "one epoch", "one pair of training loss and test accuracy")
def _one_epoch(model, train, test, optimizer, loss_fn, epochs):
    return _looped(model, train, test, optimizer, loss_fn, 1)


@answer("fit", "evaluated on train", "6 passes over `train` and 0 over `test`")
def _on_train(model, train, test, optimizer, loss_fn, epochs):
    return _looped(model, train, train, optimizer, loss_fn, epochs)


@answer("fit", "never steps", "does not learn the digits")
def _never(model, train, test, optimizer, loss_fn, epochs):
    return _looped(model, train, test, optimizer, loss_fn, epochs, step=_no_step)


@answer("fit", "evaluated before", "Evaluate after the epoch, on `test`")
def _before(model, train, test, optimizer, loss_fn, epochs):
    history = []
    for _ in range(epochs):
        accuracy = _evaluate(model, list(test))
        history.append((_epoch(lambda x, y: _step(model, x, y, optimizer, loss_fn), train), accuracy))
    return history


@answer("tf_train_step", RIGHT, "losses agree with PyTorch's")
def _tf(model, x, y, optimizer, loss_fn):
    with tensorflow().GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@answer("tf_train_step", "forward outside the tape", "belong inside")
def _outside(model, x, y, optimizer, loss_fn):
    prediction = model(x, training=True)
    with tensorflow().GradientTape() as tape:
        loss = loss_fn(y, prediction)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


@answer("tf_train_step", "not applied", "never given to the optimizer")
def _unapplied(model, x, y, optimizer, loss_fn):
    with tensorflow().GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    tape.gradient(loss, model.trainable_variables)
    return loss


@answer("tf_train_step", "applied twice", "the update after it does not")
def _applied_twice(model, x, y, optimizer, loss_fn):
    with tensorflow().GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


@answer("tf_train_step", "softmax first", "Already the first loss differs")
def _softmax(model, x, y, optimizer, loss_fn):
    tf = tensorflow()
    with tf.GradientTape() as tape:
        loss = loss_fn(y, tf.nn.softmax(model(x, training=True)))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


@answer("tf_train_step", "forgot return", "Return the loss of the batch")
def _tf_no_return(model, x, y, optimizer, loss_fn):
    _tf(model, x, y, optimizer, loss_fn)


@answer("make_resnet18", RIGHT, "one output per class")
def _resnet(classes):
    model = torchvision.models.resnet18(weights=None)
    model.fc = torch.nn.Linear(model.fc.in_features, classes)
    return model


@answer("make_resnet18", "1000 classes", "1000 outputs for 6 classes")
def _imagenet(classes):
    return torchvision.models.resnet18(weights=None)


@answer("make_resnet18", "fixed classes", "6 outputs for 11 classes")
def _fixed(classes):
    return torchvision.models.resnet18(num_classes=6)


@answer("make_resnet18", "softmax", "outputs are probabilities")
def _probabilities(classes):
    return torch.nn.Sequential(_resnet(classes), torch.nn.Softmax(dim=1))


@answer("make_resnet18", "frozen", "is frozen and keeps its random weights")
def _frozen(classes):
    model = torchvision.models.resnet18().requires_grad_(False)
    model.fc = torch.nn.Linear(512, classes)
    return model


@answer("make_resnet18", "wrong width", "does not fit what comes before it")
def _width(classes):
    model = torchvision.models.resnet18()
    model.fc = torch.nn.Linear(2048, classes)
    return model


@answer("make_resnet18", "resnet34", "another network")
def _deeper(classes):
    return torchvision.models.resnet34(num_classes=classes)


@answer("make_resnet18", "a class", "Return the model")
def _no_model(classes):
    return torchvision.models.resnet18


@pytest.mark.parametrize("case", table.cases, ids=ids)
def test_answer(case: Case) -> None:
    table.verify(case)


def test_every_task_is_covered() -> None:
    table.verify_coverage()


@pytest.mark.parametrize("task", table.plan.tasks, ids=lambda task: task.name)
def test_no_answer_is_not_a_wrong_one(task) -> None:
    assert judge(task, ...).outcome is Outcome.NOT_ATTEMPTED


def test_checks_leave_the_learners_random_numbers_alone() -> None:
    torch.manual_seed(7)
    state = torch.get_rng_state()
    for name, function in (("train_step", _step), ("evaluate", _evaluate), ("fit", _fit)):
        judge(table.plan.task(name), function)
    assert torch.equal(state, torch.get_rng_state())
