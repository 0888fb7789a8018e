"""``course labs``: build the learner's notebooks, and show how far a learner is."""

from __future__ import annotations

import argparse
import sys

from helpers.errors import CourseError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands ``build`` and ``status`` to a parser."""
    actions = parser.add_subparsers(dest="labs_action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="write labs/NN_*.ipynb from labs/solutions/NN_*.ipynb")
    how = build.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="write nothing; fail where the two have drifted apart")
    how.add_argument("--discard-answers", action="store_true", help="overwrite notebooks that have answers in them")
    actions.add_parser("status", help="show which tasks are solved")


def run(args: argparse.Namespace) -> int:
    """Carry out the chosen subcommand and return the exit status.

    Args:
        args: What a parser prepared by :func:`add_arguments` returned.
    """
    try:
        if args.labs_action == "status":
            return _status()
        return _check() if args.check else _build(discard_answers=args.discard_answers)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1


def _build(*, discard_answers: bool) -> int:
    """Write each learner's notebook that is not what its source makes; the status is 1 when one has answers in it."""
    from helpers.labs.build import answered, build, is_current, pairs

    kept = 0
    for pair in pairs():
        name = f"labs/{pair.learner.name}"
        if is_current(pair):
            print(f"{name} is current")
            continue
        if (tasks := answered(pair)) and not discard_answers:
            kept += 1
            print(f"{name} is kept: it has answers in {', '.join(tasks)}. Move it away, or pass --discard-answers")
            continue
        print(f"{name} … ", end="", flush=True)
        build(pair)
        print("written")
    return 1 if kept else 0


def _check() -> int:
    """Name each learner's notebook that is not what its source makes; the status is 1 when there is any."""
    from helpers.labs.build import is_current, pairs, strays

    found = pairs()
    drifted = [pair.learner for pair in found if not is_current(pair)]
    for path in drifted:
        print(f"labs/{path.name} is not what labs/solutions/{path.name} makes: run 'course labs build'")
    for path in (without := strays(found)):
        print(f"labs/{path.name} has no source labs/solutions/{path.name}: delete one or write the other")
    print(f"{len(found)} labs checked: {len(drifted) + len(without) or 'no'} findings")
    return 1 if drifted or without else 0


def _status() -> int:
    """Print each lab's tasks with what earlier sessions solved."""
    from helpers.labs.progress import stored
    from helpers.labs.tasks import Outcome, numbers, plan

    marks = {Outcome.CORRECT: "✓ solved", Outcome.INCORRECT: "✗ tried", Outcome.NOT_ATTEMPTED: "○ not attempted"}
    for number in numbers():
        lab, record = plan(number), stored(number)
        solved = sum(record.of(task.name).solved for task in lab.tasks)
        print(f"Lab {number}, {lab.title}: {solved} of {len(lab.tasks)} tasks solved")
        for task in lab.tasks:
            now = record.of(task.name)
            used = f"{now.tries} tries, {now.hints} of {len(task.hints)} hints" if now.tries or now.hints else ""
            print(f"  {marks[now.state()]:<16} {task.title} ({task.minutes} min)  {used}".rstrip())
    return 0
