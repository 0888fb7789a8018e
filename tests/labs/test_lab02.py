"""Lab 02's checks on right answers, none, and the mistakes that people make."""

from __future__ import annotations

import pytest
import torch
from labtable import RIGHT, Case, Table, ids
from torch import nn
from torch.nn import functional as F  # noqa: N812

from helpers.graph import count_recompiles
from helpers.labs.judge import judge
from helpers.labs.tasks import Outcome
from helpers.tf import tensorflow

table = Table("02")
answer = table.answer


@answer("clip", RIGHT, "1 graph, without a break. Both ways")
def _clip(grad, limit):
    return grad * torch.clamp(limit / grad.norm(), max=1.0)


@answer("clip", "still a branch", "2 graphs, because of `if grad.norm() > limit:`: a branch on the value")
def _branch(grad, limit):
    if grad.norm() > limit:
        grad = grad * (limit / grad.norm())
    return grad


@answer("clip", "item", "graph still breaks")
def _clip_item(grad, limit):
    return grad * min(1.0, limit / max(grad.norm().item(), 1e-9))


@answer("clip", "always scaled", "shorter than the limit comes out wrong")
def _always(grad, limit):
    return grad * (limit / grad.norm())


@answer("clip", "each value clamped", "longer than the limit comes out wrong")
def _each(grad, limit):
    return grad.clamp(-limit, limit)


@answer("clip", "nan at zero", "exactly zero comes out wrong")
def _nan(grad, limit):
    return grad / grad.norm() * torch.clamp(grad.norm(), max=limit)


@answer("clip", "in place", "was changed. Return a new tensor")
def _in_place(grad, limit):
    return grad.mul_(torch.clamp(limit / grad.norm(), max=1.0))


@answer("masked_mean", RIGHT, "is known before the data")
def _masked(x, mask):
    return torch.where(mask, x, 0.0).sum() / mask.sum()


@answer("masked_mean", "indexing", "because of `return x[mask].mean()`")
def _indexed(x, mask):
    return x[mask].mean()


@answer("masked_mean", "multiplied", "nan times 0 is nan")
def _multiplied(x, mask):
    return (x * mask).sum() / mask.sum()


@answer("masked_mean", "whole size", "divided by the size of the whole tensor")
def _whole(x, mask):
    return torch.where(mask, x, 0.0).mean()


@answer("masked_mean", "mean of rows", "not the mean of the values that the mask keeps")
def _rows(x, mask):
    return (torch.where(mask, x, 0.0).sum(dim=1) / mask.sum(dim=1)).mean()


@answer("masked_mean", "a number per row", "a torch tensor of shape 3,")
def _per_row(x, mask):
    return torch.where(mask, x, 0.0).sum(dim=1) / mask.sum(dim=1)


@answer("penalised", RIGHT, "The loss leaves as a tensor")
def _penalised(logits, labels):
    loss = F.cross_entropy(logits, labels)
    return loss + 0.1 * logits.square().mean(), loss.detach()


@answer("penalised", "still printed", "graph still breaks")
def _printed(logits, labels):
    total, loss = _penalised(logits, labels)
    print(f"loss {loss.item():.3f}")
    return total, loss


@answer("penalised", "log dropped", "The caller needs both numbers")
def _dropped(logits, labels):
    return _penalised(logits, labels)[0]


@answer("penalised", "item returned", "comes back as a Python number")
def _number(logits, labels):
    total, loss = _penalised(logits, labels)
    return total, loss.item()


@answer("penalised", "total logged", "The loss for the log is not what it was")
def _total_logged(logits, labels):
    total, _ = _penalised(logits, labels)
    return total, total.detach()


@answer("penalised", "penalty lost", "The total is not what it was")
def _penalty_lost(logits, labels):
    _, loss = _penalised(logits, labels)
    return loss, loss


@answer("penalised", "total detached", "No gradient flows")
def _detached(logits, labels):
    total, loss = _penalised(logits, labels)
    return total.detach(), loss


class _Average(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.set_up()

    def set_up(self):
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.linear(x) / self.calls


@answer("CallAverage", RIGHT, "one compilation")
class _Right(_Average):
    pass


@answer("CallAverage", "Python number", "`self.calls == 0`")
class _PythonNumber(_Average):
    def set_up(self):
        self.calls = 0


@answer("CallAverage", "bare tensor", "the count is a bare tensor")
class _Bare(_Average):
    def set_up(self):
        self.calls = torch.zeros(())


@answer("CallAverage", "read with item", "3 compilations in 6 calls")
class _Read(_Average):
    def forward(self, x):
        self.calls += 1
        return self.linear(x) / self.calls.item()


@answer("CallAverage", "counted after", "Call 1 gives a wrong result")
class _After(_Average):
    def forward(self, x):
        out = self.linear(x) / self.calls
        self.calls += 1
        return out


@answer("CallAverage", "not counted", "Call 2 gives a wrong result")
class _Uncounted(_Average):
    def forward(self, x):
        return self.linear(x)


@answer("CallAverage", "no layer", "must stay a module with a layer `linear`")
class _NoLayer(nn.Module):
    def __init__(self, features):
        super().__init__()

    def forward(self, x):
        return x


def _scaled_by(**options):
    return tensorflow().function(lambda x, factor: x * factor, **options)


def _spec(*shape):
    tf = tensorflow()
    return tf.TensorSpec(list(shape), tf.float32)


@answer("make_scaled", RIGHT, "4 calls with other sizes and factors, 1 trace")
def _scaled():
    return _scaled_by(input_signature=[_spec(None), _spec()])


@answer("make_scaled", "no signature", "4 traces in 4 calls; the last for Tensor float32 [5], Python float 0.4")
def _unsigned():
    return _scaled_by()


@answer("make_scaled", "fixed size", "refuses arguments that the old function took")
def _fixed_size():
    return _scaled_by(input_signature=[_spec(3), _spec()])


@answer("make_scaled", "eager", "runs eagerly, operation by operation")
def _eager():
    return lambda x, factor: x * factor


@answer("make_scaled", "frozen factor", "may be frozen in the trace")
def _frozen():
    return tensorflow().function(lambda x, factor: x * 0.1, input_signature=[_spec(None), _spec()])


def _double(x):
    return 2 * x


@answer("make_counted", RIGHT, "counted by the graph itself")
def _counted():
    tf = tensorflow()
    calls = tf.Variable(0)

    @tf.function
    def doubled(x):
        calls.assign_add(1)
        return 2 * x

    return doubled, calls


@answer("make_counted", "Python number", "The counter is a Python value")
def _python_count():
    return tensorflow().function(_double), 1


@answer("make_counted", "not incremented inside", "does not count calls")
def _idle():
    return tensorflow().function(_double), tensorflow().Variable(0)


@answer("make_counted", "eager", "it runs eagerly")
def _eager_count():
    return _double, tensorflow().Variable(5)


@answer("make_counted", "function only", "Return the function and the counter")
def _function_only():
    return tensorflow().function(_double)


@answer("make_counted", "variable inside", "only supports singleton tf.Variables")
def _inside():
    tf = tensorflow()

    @tf.function
    def doubled(x):
        tf.Variable(0).assign_add(1)
        return 2 * x

    return doubled, tf.Variable(0)


@answer("make_counted", "forgot to double", "must still double")
def _not_doubled():
    tf = tensorflow()
    calls = tf.Variable(0)

    @tf.function
    def same(x):
        calls.assign_add(1)
        return x

    return same, calls


@pytest.mark.parametrize("case", table.cases, ids=ids)
def test_answer(case: Case) -> None:
    table.verify(case)


def test_every_task_is_covered() -> None:
    table.verify_coverage()


@pytest.mark.parametrize("task", table.plan.tasks, ids=lambda task: task.name)
def test_no_answer_is_not_a_wrong_one(task) -> None:
    assert judge(task, ...).outcome is Outcome.NOT_ATTEMPTED


def test_the_compiler_gives_up_as_the_lab_says() -> None:
    """The text of task 4 says that after eight versions the module runs eagerly."""
    counted = count_recompiles(_PythonNumber(3), [(torch.ones(2, 3),)] * 10)
    assert counted.compilations == 8
    assert counted.gave_up
