"""One source of versions, and the make targets that a newcomer meets."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONSTRAINTS = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")
]
PINS = {Requirement(line).name: Requirement(line) for line in CONSTRAINTS}
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
MAKE_EXTRAS = re.search(r"^extras := (\S+)$", MAKEFILE, re.MULTILINE)[1]


def make(*arguments: str, **variables: str) -> str:
    """Return what make prints, run as a newcomer would, without what an outer make hands down."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS", "VENV"))}
    ended = subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, env={**own, **variables}, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.mark.parametrize(
    "line", [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)], ids=str
)
def test_every_dependency_is_pinned_within_its_range(line):
    wanted = Requirement(line)
    pin = PINS[canonicalize_name(wanted.name)]
    (exact,) = pin.specifier
    assert exact.operator == "=="
    assert wanted.specifier.contains(exact.version, prereleases=True)


def test_constraints_are_names_with_exact_versions_and_nothing_else():
    assert list(PINS) == sorted(PINS)
    assert len(PINS) == len(CONSTRAINTS)
    for line in CONSTRAINTS:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+", line), line


def test_no_file_of_the_set_up_names_an_index_but_pytorchs_own():
    for name in ("constraints.txt", "environment.yml", "pyproject.toml", "Makefile", ".ci/run", *tools()):
        addresses = re.findall(r"https?://[^\s\"'`]+", (ROOT / name).read_text())
        assert set(addresses) <= {"https://download.pytorch.org/whl/cpu"}, name


def tools() -> list[str]:
    return [
        str(file.relative_to(ROOT)) for file in (ROOT / "tools").rglob("*") if file.suffix in {".py", ".sh", ".json"}
    ]


def test_conda_gives_python_and_pip_and_leaves_the_rest_to_the_constraints():
    python, pip, packages = CONDA["dependencies"]
    name, version = python.split("=")
    assert (name, pip) == ("python", "pip")
    assert SpecifierSet(PROJECT["requires-python"]).contains(version)
    assert packages == {"pip": ["-c constraints.txt", f"-e .[{MAKE_EXTRAS}]"]}


def test_make_installs_extras_that_exist_and_bench_adds_the_peers():
    assert {*MAKE_EXTRAS.split(","), "peers"} == set(EXTRAS)


def test_the_set_up_supports_the_pythons_that_the_package_accepts():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import environment
    finally:
        sys.path.pop(0)
    accepted = SpecifierSet(PROJECT["requires-python"])
    versions = [(3, minor) for minor in range(8, 20) if Version(f"3.{minor}") in accepted]
    assert list(environment.SUPPORTED) == versions
    assert [f"3.{minor}" for _, minor in versions] == re.search(r"for version in ([\d. ]+);", MAKEFILE)[1].split()


@needs_make
def test_make_alone_lists_every_target_and_every_choice():
    printed = make()
    phony = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)[1].split()
    for target in set(phony) - {"bench-setup"}:
        assert re.search(rf"^  make {target} +\S", printed, re.MULTILINE), target
    for choice in re.findall(r"^([A-Z]+) +\?=", MAKEFILE, re.MULTILINE):
        assert re.search(rf"^  {choice} +\S", printed, re.MULTILINE), choice


@needs_make
def test_a_clone_runs_its_own_sources_in_a_shared_environment(tmp_path):
    shown = make("--eval", 'shown: ; @echo "$$PYTHONPATH $$PATH"', "shown", f"VENV={tmp_path}/a b")
    python_path, path = shown.split(" ", 1)
    assert python_path == str(ROOT)
    assert path.startswith(f"{tmp_path}/a b/bin:")


@needs_make
def test_choices_from_the_command_line_reach_the_set_up():
    printed = make("-n", "setup", "VENV=elsewhere", "TORCH=cpu", "PYTHON=python3.12")
    assert f"python3.12 tools/environment.py --venv '{ROOT}/elsewhere' --torch 'cpu'" in printed
    assert f"--extras {MAKE_EXTRAS}\n" in printed
    assert f"--extras {MAKE_EXTRAS},peers\n" in make("-n", "bench")


@pytest.fixture
def stages(tmp_path, monkeypatch):
    """The runner of make test's stages, with stages of the test's own."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import stages

    (tmp_path / "test_good.py").write_text("def test(): pass\n")
    (tmp_path / "test_bad.py").write_text("def test(): assert False\n")
    plain = ["-p", "no:cacheprovider"]
    own = {
        "good": [*plain, str(tmp_path / "test_good.py")],
        "bad": [*plain, str(tmp_path / "test_bad.py")],
        "empty": [*plain, "-k", "nothing", str(tmp_path / "test_good.py")],
    }
    monkeypatch.setattr(stages, "STAGES", own)
    return stages


def test_one_failing_stage_fails_the_run_and_the_others_still_run(stages, capfd):
    assert stages.main([]) == 1
    printed = capfd.readouterr().out
    assert len(re.findall(r"^=+ 1 (passed|failed)\b.* =+$", printed, re.MULTILINE)) == 2
    ending = printed.splitlines()[-3:]
    assert [line.split()[:2] for line in ending] == [["good", "passed,"], ["bad", "failed"], ["empty", "failed"]]
    assert "exit status 5" in ending[-1]


def test_stages_can_be_chosen(stages, capfd):
    assert stages.main(["good"]) == 0
    assert stages.main(["goood"]) == 2
    assert "the stages are: good, bad, empty" in capfd.readouterr().err
