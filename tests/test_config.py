"""The settings: checked when they are made, by name, value and what was expected."""

import dataclasses

import pytest

from helpers.config import ConfigError, TrainConfig

REFUSED = [
    ("optimizer", "adam", "one of 'sgd', 'adamw'"),
    ("optimizer", ["sgd"], "one of 'sgd', 'adamw'"),
    ("precision", "fp8", "one of 'fp32', 'bf16', 'fp16'"),
    ("precision", None, "one of 'fp32'"),
    ("schedule", "step", "one of 'constant', 'linear', 'cosine'"),
    ("epochs", 0, "a whole number from 1"),
    ("epochs", 2.0, "a whole number from 1"),
    ("epochs", True, "a whole number from 1"),
    ("epochs", "3", "a whole number from 1"),
    ("accumulate", 0, "a whole number from 1"),
    ("warmup_steps", -1, "a whole number from 0"),
    ("warmup_steps", 0.5, "a whole number from 0"),
    ("lr", -0.1, "a finite number from 0"),
    ("lr", float("nan"), "a finite number from 0"),
    ("lr", float("inf"), "a finite number from 0"),
    ("lr", "0.1", "a finite number from 0"),
    ("lr", True, "a finite number from 0"),
    ("momentum", 1.0, "a number below 1"),
    ("momentum", -0.5, "a finite number from 0"),
    ("weight_decay", -1e-9, "a finite number from 0"),
    ("clip_norm", 0, "above 0, or None"),
    ("clip_norm", -1.0, "above 0, or None"),
    ("clip_norm", float("inf"), "above 0, or None"),
    ("clip_norm", "1", "above 0, or None"),
    ("compile", "yes", "True or False"),
    ("compile", 1, "True or False"),
    ("progress", None, "True or False"),
    ("log_every", 0, "a count of steps, or None"),
    ("log_every", 1.5, "a count of steps, or None"),
    ("device", 0, "a device's name such as 'cpu', or 'auto'"),
]


@pytest.mark.parametrize(("name", "value", "expected"), REFUSED, ids=lambda value: str(value))
def test_a_bad_value_is_refused_by_name_value_and_expectation(name: str, value: object, expected: str):
    with pytest.raises(ConfigError) as caught:
        TrainConfig(**{name: value})
    assert f"TrainConfig({name}={value!r}): expected {expected}" in str(caught.value)


ACCEPTED = [
    ("epochs", 1), ("lr", 0), ("lr", 1), ("momentum", 0.0), ("warmup_steps", 0), ("clip_norm", 1), ("clip_norm", None),
    ("log_every", 1), ("device", "cuda:1"), ("optimizer", "adamw"), ("schedule", "linear"), ("precision", "fp16"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_values_at_the_edge_are_accepted(name: str, value: object):
    assert getattr(TrainConfig(**{name: value}), name) == value


def test_a_log_in_a_hidden_bar_contradicts_itself():
    with pytest.raises(ConfigError, match=r"log_every=5 .*progress=False hides the bar.*Set progress=True"):
        TrainConfig(log_every=5, progress=False)


def test_changing_a_setting_checks_again():
    with pytest.raises(ConfigError, match="epochs=0"):
        dataclasses.replace(TrainConfig(), epochs=0)


def test_settings_cannot_change_under_a_run():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig().lr = 1.0  # type: ignore[misc]
