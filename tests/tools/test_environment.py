"""The set-up of the environment, with a real pip in a real environment: made, interrupted, broken, mended.

A tiny project with a build backend of its own and a folder of wheels stand for the course and the
package index, so that nothing is downloaded.
"""

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "environment.py"

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "demo-course"
version = "1"
dependencies = ["demo-lib"]
"""
BACKEND = """
import os, pathlib, time, zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    if "DEMO_HANG" in os.environ:
        pathlib.Path(os.environ["DEMO_HANG"]).touch()
        time.sleep(60)
    name = "demo_course-1-py3-none-any.whl"
    info = "demo_course-1.dist-info/"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: demo-course\\nVersion: 1\\n"
                       "Requires-Dist: demo-lib\\nProvides-Extra: more\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "".join(f"{info}{file},,\\n" for file in ("METADATA", "WHEEL", "RECORD")))
    return name
"""


def write_wheel(folder: Path, version: str) -> None:
    """Write a wheel of the package demo-lib, with digests and sizes as real wheels have them."""
    info = f"demo_lib-{version}.dist-info"
    files = {
        "demo_lib/__init__.py": f"VERSION = {version!r}\n" + "# filler\n" * 200,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: demo-lib\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{info}/RECORD,,\n"
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    with zipfile.ZipFile(folder / f"demo_lib-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)


class Home:
    """A project, its wheels and the place of its environment."""

    def __init__(self, base: Path) -> None:
        self.project, self.wheels, self.venv = base / "project", base / "wheels", base / "env"
        self.project.mkdir()
        self.wheels.mkdir()
        (self.project / "pyproject.toml").write_text(PYPROJECT)
        (self.project / "backend.py").write_text(BACKEND)
        for version in ("1.0", "1.1", "1.1+cpu"):
            write_wheel(self.wheels, version)
        self.pin("1.0")

    def pin(self, version: str) -> None:
        (self.project / "constraints.txt").write_text(f"demo-lib=={version}\n")

    def start(self, *options: str, **variables: str) -> subprocess.Popen[str]:
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_CONFIG_FILE": os.devnull}
        return subprocess.Popen(
            [sys.executable, str(TOOL), "--root", str(self.project), "--venv", str(self.venv), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **offline, **variables},
            start_new_session=True,
        )

    def set_up(self, *options: str, **variables: str) -> tuple[int, str]:
        tool = self.start(*options, **variables)
        printed, _ = tool.communicate(timeout=120)
        return tool.returncode, printed

    @property
    def record(self) -> Path:
        return self.venv / ".loop-to-cluster.json"

    @property
    def log(self) -> Path:
        return self.venv / "setup.log"

    @property
    def site(self) -> Path:
        return next((self.venv / "lib").glob("python*/site-packages"))

    def library_version(self) -> str:
        code = "import demo_lib; print(demo_lib.VERSION)"
        python = str(self.venv / "bin" / "python")
        return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An environment that is made once; each test leaves it, or finds it, in a state to be mended."""
    home = Home(tmp_path_factory.mktemp("course"))
    status, printed = home.set_up()
    assert status == 0, printed
    return home


@pytest.fixture
def home(made):
    """The environment in its right state."""
    made.pin("1.0")
    status, printed = made.set_up()
    assert status == 0, printed
    return made


def test_a_second_set_up_does_nothing_and_says_nothing(home):
    before = home.log.stat().st_mtime_ns
    assert home.set_up() == (0, "")
    assert home.log.stat().st_mtime_ns == before
    assert home.library_version() == "1.0"


def test_new_pins_are_installed(home):
    home.pin("1.1")
    assert home.set_up()[0] == 0
    assert home.library_version().startswith("1.1")


def test_a_pin_takes_the_cpu_build_where_an_index_has_it(home):
    home.pin("1.1")
    home.set_up()
    assert home.library_version() == "1.1+cpu"


def test_tool_settings_of_the_project_are_no_reason_to_install(home):
    (home.project / "pyproject.toml").write_text(PYPROJECT + "[tool.ruff]\nline-length = 99\n")
    assert home.set_up() == (0, "")
    (home.project / "pyproject.toml").write_text(PYPROJECT)


def test_extras_add_up(home):
    assert home.set_up("--extras", "more")[0] == 0
    assert home.set_up() == (0, "")
    assert json.loads(home.record.read_text())["extras"] == ["more"]


def test_a_kill_while_pip_works_is_mended_by_the_next_run(home, tmp_path):
    home.pin("1.1")
    marker = tmp_path / "pip-is-at-work"
    tool = home.start(DEMO_HANG=str(marker))
    deadline = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(tool.pid, signal.SIGKILL)
    tool.communicate()
    assert json.loads(home.record.read_text())["complete"] is False
    assert home.set_up()[0] == 0
    assert home.library_version() == "1.1+cpu"


def unfinished(home):
    record = json.loads(home.record.read_text())
    home.record.write_text(json.dumps({**record, "complete": False}))


def test_a_file_that_a_kill_cut_short_is_written_again(home):
    unfinished(home)
    module = home.site / "demo_lib" / "__init__.py"
    module.write_text("VERSION = ")
    status, printed = home.set_up()
    assert status == 0
    assert "demo_lib-1.0.dist-info is incomplete" in printed
    assert home.library_version() == "1.0"


def test_metadata_without_a_list_of_files_is_replaced(home):
    unfinished(home)
    (home.site / "demo_lib-1.0.dist-info" / "RECORD").unlink()
    (home.site / "~emo_lib").mkdir()
    assert home.set_up()[0] == 0
    assert (home.site / "demo_lib-1.0.dist-info" / "RECORD").exists()
    assert not (home.site / "~emo_lib").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"complete": true}'])
def test_a_record_that_says_nothing_useful_is_written_anew(home, text):
    home.record.write_text(text)
    assert home.set_up()[0] == 0
    assert json.loads(home.record.read_text())["complete"] is True


def test_a_python_that_went_away_is_replaced(home):
    python = home.venv / "bin" / "python"
    python.unlink()
    python.symlink_to(home.venv / "gone")
    status, printed = home.set_up()
    assert status == 0, printed
    assert "making it again" in printed
    assert home.library_version() == "1.0"


def test_an_environment_whose_making_was_killed_is_made_again(home):
    home.record.write_text('{"making": true}')
    shutil.rmtree(home.site / "pip" / "_vendor")  # pip is imported, and fails as soon as it works
    status, printed = home.set_up()
    assert status == 0, printed
    assert home.library_version() == "1.0"


def test_pips_failure_says_what_to_do_and_the_next_run_recovers(home):
    home.pin("9.9")
    status, printed = home.set_up()
    assert status == 1
    assert "demo-lib==9.9" in printed
    assert "no package that fits this Python" in printed
    assert str(home.log) in printed
    home.pin("1.0")
    assert home.set_up()[0] == 0


def test_two_at_once_take_turns(home):
    home.pin("1.1")
    tools = [home.start(), home.start()]
    printed = [tool.communicate(timeout=120)[0] for tool in tools]
    assert [tool.returncode for tool in tools] == [0, 0], printed
    assert sum("Packages are in place" in text for text in printed) == 1


def test_another_build_of_torch_is_refused_with_a_way_out(home):
    installed = home.site / "torch-2.14.1.dist-info"
    installed.mkdir()
    status, printed = home.set_up("--torch", "cpu")
    installed.rmdir()
    assert status == 1
    assert "VENV=.venv-cpu" in printed


def test_a_folder_with_other_files_is_left_alone(home, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    home.venv, own = tmp_path, home.venv
    status, printed = home.set_up()
    home.venv = own
    assert status == 1
    assert "not an environment" in printed
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def _home_folder(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "python").chmod(0o755)


def _home_with_a_working_python(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)


def _broken_environment_of_a_project(folder: Path) -> None:
    (folder / "pyvenv.cfg").write_text("home = /nowhere\n")


def _abandoned_set_up(folder: Path) -> None:
    (folder / ".loop-to-cluster.lock").touch()
    (folder / ".loop-to-cluster.json").write_text('{"making": true}')


@pytest.mark.parametrize(
    "look", [_home_folder, _home_with_a_working_python, _broken_environment_of_a_project, _abandoned_set_up]
)
def test_files_of_others_are_never_removed(home, tmp_path, look):
    """However much a folder looks like an environment, what did not come with one stays."""
    (tmp_path / "thesis.txt").write_text("years of work")
    look(tmp_path)
    before = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    home.venv, own = tmp_path, home.venv
    status, printed = home.set_up()
    home.venv = own
    assert status == 1
    assert "other files" in printed and "VENV" in printed
    left = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    assert left - {Path(".loop-to-cluster.lock")} == before - {Path(".loop-to-cluster.lock")}


def test_a_file_in_the_environments_place_is_named(home, tmp_path):
    place = tmp_path / "it's $HOME, ü"
    place.write_text("kept")
    home.venv, own = place, home.venv
    status, printed = home.set_up()
    home.venv = own
    assert (status, place.read_text()) == (1, "kept")
    assert f"{place} cannot be written" in printed and "VENV=" in printed


def test_a_pip_setting_that_installs_elsewhere_does_no_harm(home):
    home.pin("1.1")
    assert home.set_up(PIP_USER="1", PYTHONPATH="/nowhere")[0] == 0
    assert home.library_version() == "1.1+cpu"
