"""The command line: dispatch, help and errors without a traceback."""

import argparse
import os
import subprocess
import sys
import types

import pytest

from helpers import cli
from helpers.errors import CourseError


@pytest.fixture
def stand_in(monkeypatch):
    """Add a command of the test's own and return the module that holds it."""
    module = types.ModuleType("stand_in_command")
    module.add_arguments = lambda parser: parser.add_argument("--times", type=int, default=1)
    module.run = lambda args: args.times
    monkeypatch.setitem(sys.modules, "stand_in_command", module)
    monkeypatch.setitem(cli.COMMANDS, "stand-in", cli.Command(module="stand_in_command", summary="stand in"))
    return module


def test_a_command_gets_its_arguments_and_gives_the_exit_status(stand_in):
    assert cli.main(["stand-in", "--times", "7"]) == 7


def test_help_lists_every_command_with_its_summary(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    for name, command in cli.COMMANDS.items():
        assert f"{name} {command.summary}" in printed


def test_without_a_command_the_help_is_printed(capsys):
    assert cli.main([]) == 0
    assert "notebooks" in capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_keeps_the_contract(name):
    module = __import__(cli.COMMANDS[name].module, fromlist=["run"])
    module.add_arguments(argparse.ArgumentParser())
    assert callable(module.run)


def test_our_errors_are_one_message_and_status_2(stand_in, capsys):
    def run(args):
        raise CourseError("epochs must be positive; got 0. Try epochs=1.")

    stand_in.run = run
    assert cli.main(["stand-in"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "course: epochs must be positive; got 0. Try epochs=1.\n"
    assert captured.out == ""


def test_errors_that_are_bugs_keep_their_traceback(stand_in):
    def run(args):
        raise ZeroDivisionError

    stand_in.run = run
    with pytest.raises(ZeroDivisionError):
        cli.main(["stand-in"])


def test_ctrl_c_ends_without_a_traceback(stand_in, capsys):
    def run(args):
        raise KeyboardInterrupt

    stand_in.run = run
    assert cli.main(["stand-in"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_an_unknown_command_names_the_known_ones(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["chekc"])
    assert ended.value.code == 2
    assert "check" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        ended = subprocess.run(
            [sys.executable, "-u", "-m", "helpers.cli"], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 0
    assert ended.stderr == ""


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied", "a.ipynb"), OSError(28, "No space left")])
def test_what_the_system_refuses_is_one_message_and_status_2(stand_in, capsys, error):
    def run(args):
        raise error

    stand_in.run = run
    assert cli.main(["stand-in"]) == 2
    assert capsys.readouterr().err == f"course: {error}. Look at the path, its permissions and the free space there.\n"


def test_a_path_that_is_too_long_is_no_traceback(capsys):
    assert cli.main(["notebooks", "check", "a" * 5000]) == 2
    assert "course: [Errno 36] File name too long" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_a_terminal_without_our_signs_gets_question_marks(encoding, tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "LOOP_SCRATCH": str(tmp_path)}
    command = [sys.executable, "-m", "helpers.cli", "labs", "status"]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert b"? not attempted" in ended.stdout
