"""The pictures of PyTorch's graphs show the functions, parameters and shapes that are really there."""

import pytest
import torch
from torch import nn

from helpers.errors import CourseError
from helpers.graph import draw_autograd, draw_export
from helpers.graph.layout import Kind


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def labels(drawing, kind):
    return [node.label for node in drawing.diagram.nodes if node.kind is kind]


def test_autograd_shows_every_parameter_with_its_name_and_shape(model):
    drawing = draw_autograd(model(torch.ones(3, 4)).sum(), names=model)
    expected = {f"{name}.grad\n{list(p.shape)}" for name, p in model.named_parameters()}
    assert set(labels(drawing, Kind.PARAMETER)) == expected
    assert "lead to 4 leaves" in drawing.alt


def test_autograd_names_backward_functions_as_pytorch_does(model):
    names = labels(draw_autograd(model(torch.ones(3, 4)).sum()), Kind.OPERATION)
    assert names[0] == "SumBackward0"
    assert names.count("AddmmBackward0") == 2


def test_autograd_draws_a_shared_tensor_once():
    w = torch.ones(2, requires_grad=True)
    drawing = draw_autograd((w * w + w).sum(), names={"w": w})
    assert labels(drawing, Kind.PARAMETER) == ["w.grad\n[2]"]
    ends = [edge.end for edge in drawing.diagram.edges]
    leaf = next(node.key for node in drawing.diagram.nodes if node.kind is Kind.PARAMETER)
    assert ends.count(leaf) == 2  # from the product and from the sum; parallel arrows are drawn once


def test_autograd_is_the_same_for_two_equal_calls(model):
    x = torch.ones(3, 4)
    first, second = (draw_autograd(model(x).sum(), names=model).svg for _ in range(2))
    assert first == second


def test_autograd_of_a_deep_graph_is_folded_and_does_not_recurse():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(5000):
        y = y + 1
    drawing = draw_autograd(y)
    assert len(drawing.diagram.nodes) == 60
    assert "5000 backward functions" in drawing.alt


def test_autograd_without_a_graph_says_why():
    with pytest.raises(CourseError, match=r"shape \[2\].*requires_grad is False"):
        draw_autograd(torch.ones(2))


def test_export_tells_inputs_from_parameters(model):
    program = torch.export.export(model, (torch.ones(3, 4),))
    drawing = draw_export(program)
    assert labels(drawing, Kind.INPUT) == ["input\n[3, 4]"]
    assert set(labels(drawing, Kind.PARAMETER)) == {
        "0.weight\n[8, 4]",
        "0.bias\n[8]",
        "2.weight\n[2, 8]",
        "2.bias\n[2]",
    }
    assert "3 operations" in drawing.alt


def test_export_leaves_open_sizes_open(model):
    program = torch.export.export(model, (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    assert labels(draw_export(program), Kind.INPUT) == ["input\n[?, 4]"]


def test_export_shows_a_branch_as_control():
    class Branch(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    drawing = draw_export(torch.export.export(Branch(), (torch.ones(2),)))
    assert labels(drawing, Kind.CONTROL) == ["cond"]


def test_any_fx_graph_can_be_drawn(model):
    drawing = draw_export(torch.fx.symbolic_trace(model))
    assert labels(drawing, Kind.OPERATION) == ["0", "1", "2"]
