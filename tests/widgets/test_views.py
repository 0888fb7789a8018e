"""The three views of a function come from real calls; the widget holds exactly the static figures."""

import base64

import pytest
import torch

from helpers import plotting
from helpers.graph.dispatch import Step, StepKind
from helpers.widgets import views
from helpers.widgets.views import View


def gate(x, w):
    h = torch.relu(x @ w)
    if h.mean() > 1:
        h = h * 0.5
    return torch.sigmoid(h) * h


@pytest.fixture(scope="module", autouse=True)
def compiler_cache(tmp_path_factory):
    """Keep generated code out of the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


@pytest.fixture(scope="module")
def args():
    return torch.ones(8, 8), torch.eye(8) * 3


def kernels(steps):
    return [step.name.removeprefix("aten::") for step in steps if step.kind is StepKind.KERNEL]


def kinds(steps):
    return [step.kind for step in steps]


def test_eager_runs_every_operator_and_reads_the_condition(args):
    # the mean of relu(x @ w) is 3, so the branch is taken
    found = views.view_steps(gate, args, "eager")
    assert kernels(found) == ["mm", "relu", "mean", "gt", "mul", "sigmoid", "mul"]
    assert kinds(found).count(StepKind.READ) == 1


def test_the_traced_view_has_lost_the_condition(args):
    found = views.view_steps(gate, args, "traced")
    assert kernels(found) == ["mm", "relu", "mul", "sigmoid", "mul"]
    assert StepKind.READ not in kinds(found)


@pytest.mark.slow
def test_the_compiled_view_fuses_and_keeps_the_condition(args):
    found = views.view_steps(gate, args, "compiled")
    assert kernels(found)[0] == "mm"
    assert [step.fused for step in found if step.kind is StepKind.KERNEL] == [False, True, True]
    assert kinds(found).count(StepKind.READ) == 1
    assert kinds(found).count(StepKind.REGION) == 2


@pytest.mark.slow
def test_the_widget_holds_the_static_figures(args):
    _, stack = views.view_switch(gate, args).children
    for view, child in zip(View, stack.children, strict=True):
        expected = base64.b64encode(plotting.png(views.view_figure(gate, args, view))).decode()
        assert expected in child.value, view


def step(kind, name):
    return Step(kind=kind, name=name)


MADE = (
    step(StepKind.REGION, "Torch-Compiled Region: 0/0"),
    step(StepKind.KERNEL, "aten::mm"),
    step(StepKind.KERNEL, "graph_0_cpp_fused_add_relu_0"),
    step(StepKind.READ, "aten::_local_scalar_dense"),
)


def test_python_has_a_turn_before_each_eager_kernel_and_one_for_a_trace():
    eager = [block for block in views.blocks(MADE[1:], View.EAGER) if block.lane == 1.0]
    assert [block.label for block in eager] == ["line", "line", "value\nread"]
    traced = [block for block in views.blocks(MADE[1:3], View.TRACED) if block.lane == 1.0]
    assert [block.label for block in traced] == ["one\ncall"]


def test_a_fused_kernel_lists_its_operators():
    labels = [block.label for block in views.blocks(MADE, View.COMPILED)]
    assert labels == ["guards", "mm", "add\nrelu", "value\nread"]


def test_the_description_counts():
    assert views.describe(MADE, View.COMPILED) == "compiled: 2 kernels, Python has 2 turns, 1 value read back"


def test_a_sheet_has_a_panel_for_each_view():
    figure = views.sheet({View.COMPILED: MADE, View.EAGER: MADE[1:]})
    assert len(figure.axes) == 2


def test_an_unknown_view_is_named():
    with pytest.raises(ValueError, match="sideways"):
        views.view_figure(gate, (), "sideways")
