"""``course``: the command line of *Loop to Cluster*.

Each subcommand is a module with ``add_arguments(parser)`` and ``run(args)``. Only the module of the
chosen subcommand is imported, so ``course --help`` answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.errors import CourseError

ERROR_STATUS = 2
INTERRUPTED_STATUS = 130
"""What shells report for a program ended by Ctrl-C: 128 plus the signal's number."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A subcommand: the module that holds it and the line that ``course --help`` shows."""

    module: str
    summary: str


COMMANDS = {
    "check": Command(module="helpers.check", summary="check that this machine can run the course"),
    "notebooks": Command(module="helpers.notebooks", summary="execute the notebooks, or check how they are kept"),
    "labs": Command(module="helpers.labs.commands", summary="build the labs, or show how far you are"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``course`` and return the exit status: 2 for an error that the reader can mend.

    Args:
        argv: The arguments after the program's name; those of the process by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that has no ✓ shows a ? and stops nothing
        sys.stdout.reconfigure(errors="replace")
    try:
        parsed = _parser(arguments).parse_args(arguments)
        return _run(parsed)
    except CourseError as error:
        print(f"course: {error}", file=sys.stderr)
        return ERROR_STATUS
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"course: {error}. Look at the path, its permissions and the free space there.", file=sys.stderr)
        return ERROR_STATUS
    except KeyboardInterrupt:
        print("course: stopped.", file=sys.stderr)
        return INTERRUPTED_STATUS


def _run(parsed: argparse.Namespace) -> int:
    """Call the chosen command; without one, print the help."""
    if parsed.command is None:
        _parser([]).print_help()
        return 0
    return int(importlib.import_module(COMMANDS[parsed.command].module).run(parsed))


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser; only the command named in the arguments has its own arguments added."""
    parser = argparse.ArgumentParser(prog="course", description="Tools of the course Loop to Cluster.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.summary, description=command.summary.capitalize() + ".")
        if arguments[:1] == [name]:
            importlib.import_module(command.module).add_arguments(subparser)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
