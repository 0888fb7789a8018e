"""What counts as asking a tensor for its value."""

import pytest
import torch

from helpers.reads import count_reads

CASES = {
    "item": (lambda t: t.item(), 1),
    "float": (lambda t: float(t), 1),
    "a condition": (lambda t: "yes" if t > 0 else "no", 1),
    "a formatted string": (lambda t: f"{t:.2f}", 1),
    "tolist": (lambda t: t.tolist(), 1),
    "to cpu": (lambda t: t.to("cpu"), 1),
    "arithmetic": (lambda t: t * 2 + 1, 0),
    "a shape": (lambda t: t.shape, 0),
    "detach": (lambda t: t.detach(), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_reads_are_counted(name):
    function, expected = CASES[name]
    _, reads = count_reads(lambda: function(torch.tensor(1.0)))
    assert reads >= 1 if expected else reads == 0


def test_the_value_comes_back():
    value, reads = count_reads(lambda: [torch.tensor(float(i)).item() for i in range(5)])
    assert value == [0, 1, 2, 3, 4]
    assert reads == 5
