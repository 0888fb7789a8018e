"""The package's floors: who may import whom, and what an import of the package costs."""

import ast
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import helpers

PACKAGE = Path(helpers.__file__).parent
FRAMEWORKS = {"torch", "tensorflow", "keras"}
FLOOR_LINE = re.compile(r"^ {4}(\d)  (.+)$", re.MULTILINE)
HEADROOM_S = 0.15


def floors() -> dict[str, int]:
    """Return each module's floor, as the package's docstring draws them."""
    drawn = FLOOR_LINE.findall(helpers.__doc__ or "")
    return {name.rstrip("/"): int(floor) for floor, names in drawn for name in names.split()}


def modules() -> dict[str, Path]:
    """Return the package's Python files by dotted name below it."""
    files = [file for file in PACKAGE.rglob("*.py") if file.parent != PACKAGE or file.name != "__init__.py"]
    return {".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imports(file: Path) -> set[str]:
    """Return every module that a file imports, wherever in the file it does so."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "helpers":
            found |= {f"helpers.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import; write it in full"
            found.add(node.module or "")
    return found


def test_every_module_has_a_floor_and_every_floor_its_modules():
    assert {name.split(".")[0] for name in modules()} == set(floors()), "draw the module in helpers/__init__.py"


def test_a_module_imports_only_from_its_own_floor_or_below():
    floor = floors()
    above = []
    for name, file in modules().items():
        own = floor.get(name.split(".")[0], 0)  # one without a floor is the test above's to report
        used = {found.split(".")[1] for found in imports(file) if found.startswith("helpers.")} & set(floor)
        above += [
            f"{name} (floor {own}) imports {other} (floor {floor[other]})" for other in used if floor[other] > own
        ]
    assert not above


def test_tensorflow_is_imported_only_below_helpers_tf():
    outside = {name: imports(file) for name, file in modules().items() if name.split(".")[0] != "tf"}
    users = {name for name, used in outside.items() if {each.split(".")[0] for each in used} & {"tensorflow", "keras"}}
    assert not users, "use helpers.tf.tensorflow(), which imports it quietly"


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["notebooks", "--help"], ["labs", "--help"]])
def test_the_command_lines_help_imports_no_framework(arguments):
    code = (
        "import sys\nfrom helpers import cli\n"
        f"try: cli.main({arguments})\nexcept SystemExit as ended: assert not ended.code\n"
        f"assert not {FRAMEWORKS} & set(sys.modules), {FRAMEWORKS} & set(sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_importing_the_package_imports_no_framework():
    code = f"import sys, helpers; assert not {FRAMEWORKS} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_and_the_command_start_almost_as_fast_as_a_bare_interpreter():
    commands = {
        "bare": ["-c", "pass"],
        "import": ["-c", "import helpers"],
        "help": ["-m", "helpers.cli", "--help"],
    }
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(7):  # interleaved: a slow moment of the machine meets all three
        for name, arguments in commands.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            best[name] = min(best[name], time.perf_counter() - started)
    assert best["import"] - best["bare"] <= HEADROOM_S
    assert best["help"] - best["bare"] <= HEADROOM_S
