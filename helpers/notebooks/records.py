"""The record of the last run of each notebook, from which the book's status page is made."""

from __future__ import annotations

import datetime
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from helpers.errors import CourseError
from helpers.machine import checkout, describe

VERSIONS_OF = ("torch", "torchvision", "tensorflow", "keras", "lightning", "numpy", "ipywidgets", "jupyterlab")
"""Packages whose versions explain a run time or a changed output."""

_NOT_RECORDED = {"disk_free_bytes"}
"""Differs with every run and explains nothing about one."""


def records_path() -> Path:
    """Return the file of records."""
    return checkout() / "book" / "_data" / "runs.json"


def read_runs(path: Path) -> dict[str, dict[str, Any]]:
    """Return the records by notebook; empty where no run was recorded yet.

    Raises:
        CourseError: If the file is damaged.
    """
    try:
        runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise CourseError(f"{path} is not JSON ({error}). Delete it and run `course notebooks run`.") from error
    if not isinstance(runs, dict):
        raise CourseError(f"{path} holds a {type(runs).__name__}, expected an object. Delete it and run again.")
    return runs


def record_run(notebook: str, run_s: float) -> None:
    """Replace a notebook's record by one of a run that ended now; those of files that are gone are dropped.

    Args:
        notebook: Path of the notebook from the checkout's root.
        run_s: Seconds it took.
    """
    if not (checkout() / notebook).is_file() or Path(notebook).is_absolute():
        return  # not one of the course's
    path = records_path()
    runs = read_runs(path)
    machine = {name: value for name, value in describe().as_dict().items() if name not in _NOT_RECORDED}
    runs[notebook] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine,
        "run_s": round(run_s, 1),
        "versions": _versions(),
    }
    kept = {name: runs[name] for name in runs if (checkout() / name).is_file()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)


def _versions() -> dict[str, str]:
    """Return the versions of the packages that matter, without importing them."""
    found: dict[str, str] = {}
    for name in VERSIONS_OF:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
