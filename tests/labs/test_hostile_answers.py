"""Answers that are hostile or careless: each gets a verdict in words, and the next check works as before."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.labs.judge import judge
from helpers.labs.render import verdict_box
from helpers.labs.tasks import Outcome, Verdict, plan


class _Ended(BaseException):
    """No Exception, so that ``except Exception`` misses it."""


class _MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class _BadRepr:
    def __repr__(self) -> str:
        raise _Ended("repr")


class _BadAttributes:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class _Page:
    def __repr__(self) -> str:
        return "<script>alert(1)</script>"

    _repr_html_ = __html__ = __repr__


def _raising(error: BaseException) -> Any:
    def answer(*_: Any) -> Any:
        raise error

    return answer


def _endless(*_: Any) -> Any:
    return _endless()


def _deep(*_: Any) -> Any:
    value: list[Any] = []
    for _ in range(50_000):
        value = [value]
    return value


def _giving(value: Any) -> Any:
    return lambda *_: value


ANSWERS = {
    "recursion": _endless,
    "exit": _raising(SystemExit("bye")),
    "no exception": _raising(_Ended("x")),
    "generator exit": _raising(GeneratorExit()),
    "mute error": _raising(_MuteError()),
    "error with a tag": _raising(ValueError("<script>\x1b[31m\x00\ud800")),
    "no arguments": lambda: 1,
    "not callable": 3,
    "evil object": _BadAttributes(),
    "evil repr": _giving(_BadRepr()),
    "evil attributes": _giving(_BadAttributes()),
    "page": _giving(_Page()),
    "deep": _giving(_deep()),
    "long": _giving("x" * 1_000_000),
    "generator": lambda *_: (n for n in (1,)),
    "nan": _giving(float("nan")),
    "another library's": _giving(__import__("numpy").ones(3)),
}


@pytest.mark.parametrize("task", ["train_step", "train_epoch", "evaluate"])
@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_gets_a_verdict_in_words(task: str, name: str) -> None:
    verdict = judge(plan("01").task(task), ANSWERS[name])
    box = verdict_box(plan("01").task(task), verdict)
    assert verdict.outcome is Outcome.INCORRECT
    assert verdict.saw and verdict.expected
    assert len(repr(box)) < 1000
    assert "<script" not in box._repr_html_()
    for text in (repr(box), box._repr_html_()):
        assert not set(text) & {"\x1b", "\x00", "\ud800"}


@pytest.mark.parametrize("answer", [lambda: 1, lambda *, loud: loud, 3, "text", torch.ones(2), len])
def test_what_cannot_be_called_is_told_from_what_gives_the_wrong_thing(answer: object) -> None:
    verdict = judge(plan("01").task("train_epoch"), answer)
    assert "could not call your code" in verdict.message
    assert "arguments of the cell's first line" in str(verdict.expected)


def _settings() -> dict[str, Any]:
    return {
        "dtype": torch.get_default_dtype(),
        "grad": torch.is_grad_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "deterministic": torch.get_deterministic_debug_mode(),
        "threads": torch.get_num_threads(),
        "device": torch.get_default_device(),
        "folder": Path.cwd(),
        "recursion": sys.getrecursionlimit(),
        "stdout": sys.stdout,
        "stderr": sys.stderr,
        "logging": logging.root.manager.disable,
        "warnings": list(warnings.filters),
    }


def _vandal(*_: Any) -> int:
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.autograd.set_detect_anomaly(True)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(torch.get_num_threads() + 3)
    torch.set_default_device("meta")
    os.chdir("/")
    sys.setrecursionlimit(5000)
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("error")
    return 1


def test_an_answer_that_changes_the_process_changes_it_for_itself_alone() -> None:
    before = _settings()
    judge(plan("01").task("train_epoch"), _vandal)
    assert _settings() == before


def _right_evaluate(model: Any, batches: Any) -> float:
    before = model.training
    model.eval()
    hits, samples = 0, 0
    with torch.no_grad():
        for x, y in batches:
            hits += (model(x).argmax(dim=1) == y).sum()
            samples += len(y)
    model.train(before)
    return float(hits) / samples


def test_a_right_answer_is_right_after_a_cell_that_changed_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _settings()
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_default_device("meta")
        verdict: Verdict = judge(plan("01").task("evaluate"), _right_evaluate)
        assert torch.get_default_dtype() is torch.float64, "the learner's own choice stays"
        assert torch.get_default_device() == torch.device("meta")
    finally:
        torch.set_default_dtype(before["dtype"])
        torch.set_grad_enabled(True)
        torch.set_default_device(None)
    assert verdict.outcome is Outcome.CORRECT, verdict
