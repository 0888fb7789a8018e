"""A cold start is measured with an empty cache, which is gone afterwards, and pays back after so many calls."""

import math
import os

import pytest
import torch

from helpers.graph import ColdStart, compile_cold


def test_the_compiled_function_is_right_and_warm():
    x = torch.randn(100)
    cold = compile_cold(lambda x: torch.relu(x) * 2, x, backend="eager")
    assert torch.equal(cold.function(x), torch.relu(x) * 2)
    assert cold.first_call_s > 0


def test_the_cache_is_a_folder_of_its_own_and_is_removed(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOP_SCRATCH", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "usual"))
    used = []

    def backend(module, _inputs):
        used.append(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        return module.forward

    compile_cold(lambda x: x + 1, torch.ones(2), backend=backend)
    assert used[0].startswith(str(tmp_path / "compile"))
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "usual")
    assert list((tmp_path / "compile").iterdir()) == []


def test_breaking_even():
    cold = ColdStart(function=abs, first_call_s=6.0)
    assert cold.breaks_even_after(eager_s=0.03, compiled_s=0.01) == pytest.approx(300)
    assert math.isinf(cold.breaks_even_after(eager_s=0.01, compiled_s=0.02))
