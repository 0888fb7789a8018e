"""The widget shows exactly the figures that the pure function draws, one for each stage of the step."""

import base64

import pytest
import torch

from helpers import data, models, plotting, seeding
from helpers.anatomy import trace_step
from helpers.widgets.step import STAGES, describe, step_figure, step_widget


@pytest.fixture(scope="module")
def trace():
    seeding.seed_all(0)
    model = models.mlp()
    images, labels = next(iter(data.load("digits").train.batches(64)))
    return trace_step(model, images, labels, torch.optim.SGD(model.parameters(), lr=0.1))


def test_every_stage_has_a_picture_of_its_own(trace):
    pictures = {plotting.png(step_figure(trace, stage)) for stage in STAGES}
    assert len(pictures) == len(STAGES)


def test_the_widget_holds_the_static_figures(trace):
    _, stack = step_widget(trace).children
    for stage, child in zip(STAGES, stack.children, strict=True):
        expected = base64.b64encode(plotting.png(step_figure(trace, stage))).decode()
        assert expected in child.value, stage


def test_every_stage_is_described_in_words(trace):
    words = [describe(trace, stage) for stage in STAGES]
    assert len(set(words)) == len(STAGES)
    assert f"{trace.loss.item():.2f}" in describe(trace, "loss")


def test_an_unknown_stage_is_named(trace):
    with pytest.raises(ValueError, match="no stage 'sideways'"):
        step_figure(trace, "sideways")
