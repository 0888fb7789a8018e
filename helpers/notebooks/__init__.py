"""``course notebooks``: execute the course's notebooks in place, and check how they are kept.

A notebook is the only source of its chapter, so its stored outputs are part of the source: the book
shows them and the tests compare against them. :mod:`helpers.notebooks.execute` writes them,
:mod:`helpers.notebooks.normalise` removes what would differ from run to run, and
:mod:`helpers.notebooks.hygiene` looks for what a reader or a test would stumble over.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from helpers.notebooks.places import find_notebooks, shown_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands ``run`` and ``check`` to a parser."""
    actions = parser.add_subparsers(dest="notebooks_action", required=True, metavar="ACTION")
    execute = actions.add_parser("run", help="execute notebooks in place and store normalised outputs")
    execute.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="notebooks or folders (default: all)")
    execute.add_argument("--reverse", action="store_true", help="the last chapter first")
    execute.add_argument("--timeout", type=int, default=600, metavar="S", help="seconds a cell may take (default: 600)")
    check = actions.add_parser("check", help="check order, outputs, figures, tags and sections")
    check.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="notebooks or folders (default: all)")


def run(args: argparse.Namespace) -> int:
    """Carry out the chosen subcommand and return the exit status.

    Args:
        args: What a parser prepared by :func:`add_arguments` returned.

    Raises:
        CourseError: If a path is wrong, or a notebook cannot be executed.
    """
    found = find_notebooks(args.paths)
    if args.notebooks_action == "check":
        return _check(found)
    return _execute(found[::-1] if args.reverse else found, args.timeout)


def _check(paths: list[Path]) -> int:
    """Print every finding in the notebooks; the status is 1 when there is any."""
    from helpers.notebooks.hygiene import check

    findings = [finding for path in paths for finding in check(path)]
    for finding in findings:
        print(finding)
    print(f"{len(paths)} notebooks checked: {len(findings) or 'no'} findings")
    return 1 if findings else 0


def _execute(paths: list[Path], timeout_s: int) -> int:
    """Execute the notebooks one after the other, and stop at the first that fails."""
    from helpers.notebooks.execute import execute

    for path in paths:
        print(f"{shown_path(path)} … ", end="", flush=True)
        print(f"{execute(path, timeout_s=timeout_s):.1f} s", flush=True)
    return 0
