"""Errors of a batch: what was seen, what was expected, what to do."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from helpers.explain import BatchError, batch_error, pair
from helpers.train import TrainConfig, evaluate, fit

QUIET = TrainConfig(epochs=1, progress=False, device="cpu")
X = torch.zeros(6, 4)
Y = torch.tensor([0, 1, 2, 0, 1, 2])


class Returns(nn.Module):
    """A model that returns what a function makes of its logits."""

    def __init__(self, change) -> None:
        super().__init__()
        self.linear, self.change = nn.Linear(4, 3), change

    def forward(self, x):
        return self.change(self.linear(x))


def linear() -> nn.Module:
    return nn.Linear(4, 3)


def normalising() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


NOT_PAIRS = {
    "a tensor": (X, r"yielded a tensor of shape \[6, 4\]; expected a pair"),
    "a dictionary": ({"images": X}, "yielded a dict; expected a pair"),
    "three parts": ((X, Y, Y), "yielded a tuple of 3; expected a pair"),
    "nothing": (None, "yielded a NoneType"),
    "arrays": ((X.numpy(), Y), r"yielded \(a ndarray, a tensor of shape \[6\]\); .*torch.as_tensor"),
    "lists": (([1], [2]), r"\(a list of 1, a list of 1\); expected two tensors"),
    "other lengths": ((X, Y[:5]), r"images \[6, 4\] and labels \[5\] do not pair up"),
    "a single label": ((X, torch.tensor(1)), r"images \[6, 4\] and labels \[\] do not pair up"),
    "a single image": ((torch.tensor(1.0), Y), r"images \[\] and labels \[6\] do not pair up"),
    "no samples": ((X[:0], Y[:0]), r"no samples: images \[0, 4\]\. Leave empty batches out"),
    "one-hot rows": ((X, functional.one_hot(Y)), r"type int64 and shape \[6, 3\]; .*class numbers instead of one-hot"),
    "soft rows": ((X[:3], torch.eye(3)), r"type float32 and shape \[3, 3\]; expected int64 and \[batch\]"),
}


@pytest.mark.parametrize(("batch", "message"), NOT_PAIRS.values(), ids=NOT_PAIRS)
@pytest.mark.parametrize("use", [fit, evaluate])
def test_what_is_no_pair_is_named(use, batch: object, message: str):
    arguments = {"config": QUIET} if use is fit else {"device": "cpu"}
    with pytest.raises(BatchError, match=message):
        use(linear(), [batch], **arguments)


def test_a_pair_comes_through_as_it_is():
    images, labels = pair([X, Y])
    assert images is X and labels is Y


def none(logits, labels):
    return functional.cross_entropy(logits, labels, reduction="none")


MISFITS = {
    "a label too large": (linear, X, Y + 1, None, "label 3 is out of range: the model has 3 outputs, .*from 0 to 2"),
    "a negative label": (linear, X, Y - 1, None, "label -1 is out of range"),
    "int32 labels": (linear, X, Y.int(), None, r"labels have type int32 and shape \[6\]; .*Use labels.long\(\)"),
    "float labels": (linear, X, Y.float(), None, "labels have type float32"),
    "another size": (linear, X[:, :3], Y, None, r"cannot take images of shape \[6, 3\] and type float32: .*Linear\(in"),
    "uint8 images": (linear, X.byte(), Y, None, r"and type uint8: .*of type float32; make the images fit"),
    "float64 images": (linear, X.double(), Y, None, "type float64"),
    "a tuple": (lambda: Returns(lambda x: (x, x)), X, Y, None, "the model returned a tuple of 2; .*Wrap the model"),
    "a dictionary": (lambda: Returns(lambda x: {"a": x}), X, Y, None, "the model returned a dict"),
    "one score": (lambda: Returns(lambda x: x[:, 0]), X, Y, None, r"returned \[6\] for 6 labels; expected logits"),
    "a map of scores": (
        lambda: Returns(lambda x: x[..., None]), X, Y, None, r"returned \[6, 3, 1\] .*one output per class",
    ),
    "fewer rows": (lambda: Returns(lambda x: x[:3]), X, Y, None, r"returned \[3, 3\] for 6 labels"),
    "one loss in brackets": (linear, X[:1], Y[:1], none, r"loss function returned a tensor of shape \[1\]"),
    "losses not averaged": (linear, X, Y, none, r"loss function returned a tensor of shape \[6\]; expected one number"),
    "a loss that is no tensor": (linear, X, Y, lambda x, y: 1.0, "loss function returned a float"),
    "one sample to normalise": (normalising, X[:1], Y[:1], None, "a batch of 1 sample cannot .*drop_last=True"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "images", "labels", "loss_fn", "message"), MISFITS.values(), ids=MISFITS)
def test_a_batch_that_does_not_fit_is_explained(build, images, labels, loss_fn, message: str):
    with pytest.raises(BatchError, match=message) as caught:
        fit(build(), [(images, labels)], QUIET, loss_fn=loss_fn or functional.cross_entropy)
    assert caught.value.__cause__ is not None, "PyTorch's own error stays at hand"


@pytest.mark.parametrize("name", ["a label too large", "another size", "a tuple", "losses not averaged"])
def test_evaluation_explains_as_training_does(name: str):
    build, images, labels, loss_fn, message = MISFITS[name]
    with pytest.raises(BatchError, match=message):
        evaluate(build(), [(images, labels)], loss_fn=loss_fn or functional.cross_entropy, device="cpu")


def test_an_error_that_is_not_the_batchs_fault_comes_through_unchanged():
    def broken(logits, labels):
        raise RuntimeError("the loss is closed today")

    with pytest.raises(RuntimeError, match=r"^the loss is closed today$") as caught:
        fit(linear(), [(X, Y)], QUIET, loss_fn=broken)
    assert type(caught.value) is RuntimeError and caught.value.__cause__ is None


def test_running_out_of_memory_is_not_blamed_on_the_batch():
    error = torch.OutOfMemoryError("CUDA out of memory")
    assert batch_error(error, linear(), X[:, :3], Y, functional.cross_entropy) is None


def test_looking_for_the_cause_leaves_every_modules_mode_and_statistics_alone():
    model = normalising()
    model[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch_error(RuntimeError("x"), model, X, Y + 9, functional.cross_entropy)
    assert [module.training for module in model] == [False, True, True]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_the_ignored_label_of_cross_entropy_is_no_mistake():
    labels = Y.clone()
    labels[0] = -100
    assert fit(linear(), [(X, labels)], QUIET).epochs
