"""``course check`` on good machines and on odd ones."""

import dataclasses
import itertools
import json
import shutil
import socket
import subprocess
import sys

import pytest

from helpers import check, machine, versions
from helpers.check import Limits, Status
from helpers.probe import Answer, Probe


def only(findings):
    (finding,) = findings
    return finding


def test_the_whole_report_has_a_line_per_thing_and_a_fix_per_trouble():
    ended = subprocess.run([sys.executable, "-m", "helpers.cli", "check"], capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    for thing in ("Python:", "torch:", "tensorflow:", "/dev/shm:", "disk:", "g++:", "fonts:", "ports:", "cores:"):
        assert any(line[:7] in {"[ OK ] ", "[WARN] ", "[FAIL] "} and line[7:].startswith(thing) for line in lines)
    for line, following in itertools.pairwise(lines):
        if line.startswith(("[WARN]", "[FAIL]")):
            assert following.startswith("       fix: ")
    assert any("Jupyter's kernel: this environment's" in line for line in lines)
    assert ended.returncode == (1 if any(line.startswith("[FAIL]") for line in lines) else 0)


@pytest.fixture
def report(monkeypatch, capsys):
    """Return a function that runs the command on given findings and returns its status and what it printed."""

    def run(findings, *arguments):
        from helpers import cli

        monkeypatch.setattr(check, "findings", lambda limits: iter(findings))
        return cli.main(["check", *arguments]), capsys.readouterr().out

    return run


GOOD = check.Finding(name="a", status=Status.OK, detail="fine")
ODD = check.Finding(name="b", status=Status.WARN, detail="odd", fix="turn it")
BAD = check.Finding(name="c", status=Status.FAIL, detail="gone", fix="bring it back")


def test_a_failure_gives_status_1_and_its_fix(report):
    status, printed = report([GOOD, ODD, BAD])
    assert status == 1
    assert printed.splitlines()[:3] == ["[ OK ] a: fine", "[WARN] b: odd", "       fix: turn it"]
    assert printed.splitlines()[-1] == "3 checks: 1 failed, 1 with a warning"


def test_a_warning_is_no_failure(report):
    assert report([GOOD, ODD])[0] == 0


def test_json_holds_the_same_for_machines(report):
    status, printed = report([GOOD, BAD], "--json")
    answer = json.loads(printed)
    assert status == 1
    assert answer["ok"] is False
    assert answer["checks"][1] == {"name": "c", "status": "FAIL", "detail": "gone", "fix": "bring it back"}
    assert answer["machine"]["cores"] > 0


def test_python_out_of_range_fails(monkeypatch):
    old = dataclasses.replace(machine.describe(), python="3.9.2")
    monkeypatch.setattr(machine, "describe", lambda: old)
    finding = only(check.python())
    assert finding.status is Status.FAIL
    assert "3.9.2" in finding.detail
    assert "PYTHON=" in finding.fix


def test_packages_differ_from_the_tested_ones(monkeypatch):
    tested = {**versions.tested(), "torch": "1.0.0", "numpy": versions.installed("numpy") + "+cpu"}
    monkeypatch.setattr(versions, "tested", lambda: tested)
    found = {finding.name: finding for finding in check.packages()}
    assert found["torch"].status is Status.WARN
    assert "tested: 1.0.0" in found["torch"].detail
    assert found["torch"].fix == 'pip install "torch==1.0.0"'
    assert found["numpy"].status is Status.OK, "a local part names a build of the same release"


def test_a_missing_package_fails(monkeypatch):
    installed = versions.installed
    monkeypatch.setattr(versions, "installed", lambda name: None if name == "torch" else installed(name))
    finding = {finding.name: finding for finding in check.packages()}["torch"]
    assert finding.status is Status.FAIL
    assert finding.fix == "make setup"


def test_another_package_that_differs_is_named(monkeypatch):
    monkeypatch.setattr(versions, "tested", lambda: {"pyzmq": "0.1"})
    finding = {finding.name: finding for finding in check.packages()}["other packages"]
    assert finding.status is Status.WARN
    assert "pyzmq" in finding.detail


def test_without_the_tested_versions_the_ranges_are_compared_and_that_is_said(monkeypatch):
    monkeypatch.setattr(versions, "tested", dict)
    found = {finding.name: finding for finding in check.packages()}
    assert found["tested versions"].status is Status.WARN
    assert found["torch"].status is Status.OK
    monkeypatch.setattr(versions, "installed", lambda name: "0.0.1")
    found = {finding.name: finding for finding in check.packages()}
    assert found["torch"].status is Status.WARN
    assert ">=2" in found["torch"].detail


def test_a_course_that_is_not_installed_is_one_failure(monkeypatch):
    monkeypatch.setattr(versions, "DISTRIBUTION", "no-such-distribution")
    assert only(check.packages()).status is Status.FAIL
    assert only(check.python()).status is Status.OK


def test_another_clones_code_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "check.py").touch()
    (tmp_path / "chapters").mkdir()
    monkeypatch.chdir(tmp_path / "chapters")
    finding = only(check.sources())
    assert finding.status is Status.WARN
    assert str(tmp_path) in finding.fix


@pytest.mark.parametrize(
    ("size", "platform", "status"),
    [
        (64 * 10**6, "linux", Status.WARN),
        (None, "linux", Status.WARN),
        (None, "darwin", Status.OK),
        (10**9, "linux", Status.OK),
    ],
)
def test_shared_memory(monkeypatch, size, platform, status):
    monkeypatch.setattr(machine, "shared_memory_bytes", lambda: size)
    monkeypatch.setattr(sys, "platform", platform)
    finding = only(check.shared_memory(Limits()))
    assert finding.status is status
    assert (finding.fix is None) == (status is Status.OK)


@pytest.mark.parametrize(("free", "status"), [(10**8, Status.FAIL), (10**9, Status.WARN), (10**11, Status.OK)])
def test_disk(monkeypatch, free, status):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10**12, 0, free))
    assert {finding.status for finding in check.disk(Limits())} == {status}


def test_a_disk_that_cannot_be_read_is_a_failure_and_no_crash(monkeypatch):
    def unreadable(place):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "disk_usage", unreadable)
    assert {finding.status for finding in check.disk(Limits())} == {Status.FAIL}


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    finding = only(check.compiler())
    assert finding.status is Status.WARN
    assert "no-such-compiler" in finding.detail
    assert "apt install g++" in finding.fix


def test_a_compiler_without_pythons_headers(monkeypatch, tmp_path):
    monkeypatch.setattr(check.sysconfig, "get_path", lambda name: str(tmp_path))
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    finding = only(check.compiler())
    assert finding.status is Status.WARN
    assert "Python.h" in finding.detail


def test_no_matplotlib_fonts(monkeypatch):
    monkeypatch.setattr(check.util, "find_spec", lambda name: None)
    assert only(check.fonts()).status is Status.FAIL


def test_a_browser_without_a_font(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(check, "FONT_FOLDERS", ())
    monkeypatch.setattr(sys, "platform", "linux")
    finding = only(check.fonts())
    assert finding.status is Status.WARN
    assert "chromium" in finding.detail


def test_a_port_in_use_and_a_free_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert only(check.ports(Limits(port=port))).status is Status.WARN
    assert only(check.ports(Limits(port=port))).status is Status.OK


def test_no_port_at_all(monkeypatch):
    monkeypatch.setattr(check, "_bind", lambda port: PermissionError("not here"))
    assert only(check.ports(Limits())).status is Status.FAIL


def test_another_environments_kernel(monkeypatch, tmp_path):
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(json.dumps({"argv": ["/elsewhere/bin/python", "-m"], "display_name": "Python 3"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    finding = only(check.kernel())
    assert finding.status is Status.FAIL
    assert "/elsewhere/bin/python" in finding.detail


@pytest.mark.parametrize(
    ("usable", "threads", "status"),
    [(2, 2, Status.OK), (1, 1, Status.WARN), (2, 16, Status.WARN), (4, None, Status.OK)],
)
def test_cores_and_threads(monkeypatch, usable, threads, status):
    monkeypatch.setattr(machine, "usable_cores", lambda: float(usable))
    finding = check.cores(threads, Limits())
    assert finding.status is status
    if threads == 16:
        assert "OMP_NUM_THREADS=2" in finding.fix


def test_devices():
    assert check.devices("PyTorch", "torch", Answer(devices=("cuda:0 H200",))).detail == "cpu, cuda:0 H200"
    broken = check.devices("PyTorch", "torch", Answer(error="ImportError: libcudart.so"))
    assert broken.status is Status.FAIL
    assert "libcudart" in broken.detail


def test_a_probe_answers_fails_and_hangs_without_harm():
    answers = Probe('import json; print("noise"); print(json.dumps({"devices": ["cuda:0"], "threads": 3}))')
    fails = Probe("import no_such_framework")
    dies = Probe("import os; os._exit(7)")
    hangs = Probe("import time; time.sleep(60)")
    assert answers.answer(30) == Answer(devices=("cuda:0",), threads=3)
    assert fails.answer(30).error == "ModuleNotFoundError: No module named 'no_such_framework'"
    assert dies.answer(30).error == "its process ended with status 7"
    assert hangs.answer(0.2).error == "no answer within 0 s"
