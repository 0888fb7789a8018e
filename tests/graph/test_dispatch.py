"""The dispatcher's tables, the route of a call, and the kernels that a profile really shows."""

import pytest
import torch
from torch import nn

from helpers.errors import CourseError
from helpers.graph import registered_kernels, route, steps
from helpers.graph.dispatch import StepKind


def names(function, *args):
    return [step.name.removeprefix("aten::") for step in steps(function, *args)]


def test_a_table_has_the_keys_that_were_asked_for_in_order():
    table = registered_kernels("mm", keys=["Meta", "CPU"])
    assert [(kernel.key, kernel.how) for kernel in table] == [("Meta", "kernel"), ("CPU", "kernel")]


def test_a_table_names_files_without_paths_and_shards():
    files = {kernel.file for kernel in registered_kernels("mm", keys=None)}
    assert "RegisterCPU.cpp" in files
    assert not any("/" in file for file in files)


def test_a_composed_operator_is_a_math_kernel_everywhere():
    assert {kernel.how for kernel in registered_kernels("matmul", keys=["CPU", "Meta"])} == {"math kernel"}


@pytest.mark.parametrize("operator", ["no_such_operator", "", "aten::", "mm; drop table"])
def test_an_unknown_operator_is_named(operator):
    with pytest.raises(CourseError, match="no operator"):
        registered_kernels(operator)


def test_keys_that_are_not_in_the_table_are_named():
    with pytest.raises(CourseError, match="NoSuchKey"):
        registered_kernels("mm", keys=["NoSuchKey"])


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize(
    ("convert", "expected"),
    [
        (lambda t: t, ["AutogradCPU", "CPU"]),
        (lambda t: t.to_sparse_csr(), ["AutogradCPU", "SparseCsrCPU"]),
        (lambda t: t.to_sparse(), ["AutogradCPU", "SparseCPU"]),
        (lambda t: t.to("meta"), ["AutogradMeta", "Meta"]),
    ],
)
def test_layout_and_device_choose_the_route(convert, expected):
    tensor = convert(torch.ones(3, 3))
    found = route("mm", tensor, tensor)
    assert [kernel.key for kernel in found] == expected
    assert found.path == " → ".join(expected)


def test_autocast_and_inference_mode_change_the_route():
    a = torch.ones(2, 2)
    with torch.autocast("cpu"):
        assert route("mm", a, a)[0].key == "AutocastCPU"
    with torch.inference_mode():
        b = torch.ones(2, 2)
        assert [kernel.key for kernel in route("mm", b, b)] == ["CPU"]


def test_the_route_of_a_composed_operator_ends_where_it_hands_over():
    a = torch.ones(2, 2)
    assert route("matmul", a, a).chosen.how == "math kernel"


def test_a_route_needs_a_tensor():
    with pytest.raises(CourseError, match="at least one tensor"):
        route("mm")


@pytest.mark.parametrize(("shape", "kernel"), [((3, 3), "mm"), ((2, 3, 3), "bmm"), ((3,), "dot")])
def test_matmul_runs_the_kernel_for_its_shapes(shape, kernel):
    a = torch.ones(shape)
    assert names(torch.matmul, a, a) == [kernel]


def test_views_and_allocations_are_no_kernels():
    assert names(lambda x: x.t().reshape(-1)[1:].view(-1, 1), torch.ones(2, 2).t()) == []
    assert names(lambda: torch.empty(3)) == []


def test_what_a_kernel_calls_inside_is_not_counted_again():
    assert names(lambda x: (x * 2).sum(), torch.ones(3)) == ["mul", "sum"]


def test_reading_a_value_is_a_step_of_its_own():
    kinds = [step.kind for step in steps(lambda x: x.sum().item(), torch.ones(3))]
    assert kinds == [StepKind.KERNEL, StepKind.READ]


def test_forward_and_backward_of_a_layer():
    layer = nn.Linear(3, 2)
    found = names(lambda: layer(torch.ones(4, 3)).sum().backward())
    assert "addmm" in found
    assert found.index("addmm") < found.index("mm")  # the weight's gradient is a product of its own


def test_an_error_of_the_function_passes():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        steps(torch.mm, torch.ones(2, 3), torch.ones(2, 3))


def test_tables_escape_what_they_show():
    html = registered_kernels("mm")._repr_html_()
    assert html.count("<tr>") == 8
    assert "<th style='text-align:left'>aten::mm: dispatch key</th>" in html
