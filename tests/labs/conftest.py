"""What the tests of the labs share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what the tests solve out of the reader's own progress."""
    folder = tmp_path / "scratch"
    monkeypatch.setenv("LOOP_SCRATCH", str(folder))
    return folder
