"""What the machine has: cores under a quota, and a scratch folder that cannot be left."""

import json
import math
import os
from pathlib import Path

import pytest

from helpers import machine
from helpers.errors import CourseError


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the cgroup file system."""
    monkeypatch.setattr(machine, "_CGROUP_V2_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(machine, "_CGROUP_V1_QUOTA", tmp_path / "cpu.cfs_quota_us")
    monkeypatch.setattr(machine, "_CGROUP_V1_PERIOD", tmp_path / "cpu.cfs_period_us")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    return tmp_path


V2 = {
    "150000 100000\n": 1.5,
    "50000 100000": 0.5,
    "max 100000\n": 8,
    "1600000 100000": 8,  # a quota above the affinity mask
    "max": 8,
    "": 8,
    "nonsense here": 8,
    "100000 0": 8,
}


@pytest.mark.parametrize(("content", "cores"), V2.items())
def test_cores_under_cgroup_v2(cgroup: Path, content: str, cores: float):
    (cgroup / "cpu.max").write_text(content)
    assert machine.usable_cores() == cores


V1 = {("250000", "100000"): 2.5, ("-1", "100000"): 8, ("50000", ""): 8, ("", "100000"): 8}


@pytest.mark.parametrize(("files", "cores"), V1.items())
def test_cores_under_cgroup_v1(cgroup: Path, files: tuple[str, str], cores: float):
    for name, content in zip(("cpu.cfs_quota_us", "cpu.cfs_period_us"), files, strict=True):
        (cgroup / name).write_text(content)
    assert machine.usable_cores() == cores


def test_cores_without_a_cgroup_are_those_of_the_affinity_mask(cgroup: Path):
    assert machine.usable_cores() == 8


def test_version_2_is_asked_before_version_1(cgroup: Path):
    (cgroup / "cpu.max").write_text("300000 100000")
    (cgroup / "cpu.cfs_quota_us").write_text("100000")
    (cgroup / "cpu.cfs_period_us").write_text("100000")
    assert machine.usable_cores() == 3


def test_cores_where_the_system_has_no_affinity(cgroup: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.usable_cores() == 1


def test_the_facts_are_plausible_and_go_into_json():
    facts = machine.describe()
    assert facts.cores > 0 and math.isfinite(facts.cores)
    assert facts.memory_bytes > 2**28
    assert facts.disk_free_bytes >= 0
    assert json.loads(json.dumps(facts.as_dict()))["system"] == facts.system


def test_no_shared_memory_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "_SHARED_MEMORY", tmp_path / "absent")
    assert machine.shared_memory_bytes() is None


def test_the_scratch_folder_is_made_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOP_SCRATCH", str(tmp_path / "new"))
    assert machine.scratch("chapter01") == tmp_path / "new" / "chapter01"
    assert machine.scratch("chapter01").is_dir()
    assert machine.scratch() == tmp_path / "new"


def test_without_the_variable_the_scratch_folder_is_in_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LOOP_SCRATCH", raising=False)
    monkeypatch.setattr(machine, "checkout", lambda: tmp_path)
    assert machine.scratch("a") == tmp_path / ".scratch" / "a"


@pytest.mark.parametrize("name", ["..", "a/../../b", "/tmp/elsewhere", "link/inside"])
def test_the_scratch_folder_cannot_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    base = tmp_path / "base"
    base.mkdir()
    (base / "link").symlink_to(tmp_path)
    monkeypatch.setenv("LOOP_SCRATCH", str(base))
    with pytest.raises(ValueError, match=r"must stay below .*Use a plain name"):
        machine.scratch(name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base"], "nothing was made outside"


def test_a_folder_beside_with_the_same_beginning_is_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOP_SCRATCH", str(tmp_path / "base"))
    with pytest.raises(ValueError, match="must stay below"):
        machine.scratch("../base2")


def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOP_SCRATCH", str(tmp_path))
    with pytest.raises(ValueError, match="Use a plain name"):
        machine.scratch("a\0b")


@pytest.mark.parametrize("place", ["file", "file/below", "dangling/below"])
def test_a_scratch_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "dangling").symlink_to("/proc/nowhere")
    monkeypatch.setenv("LOOP_SCRATCH", str(tmp_path / place))
    with pytest.raises(CourseError, match=r"cannot be made .*Set LOOP_SCRATCH to a folder"):
        machine.scratch("a")
    assert (tmp_path / "file").read_text() == "kept"
