"""The status page: when, where and how long the notebooks last ran, and the measured speed ratios."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from course_book.myst import escape, table, title_of
from helpers.notebooks.records import read_runs

INTRODUCTION = """\
# Status

What you read in this book was computed by these runs. A notebook runs from top to bottom, without a GPU
and without a network. `course notebooks run` does it again and keeps the record.
"""
GIBIBYTE = 2**30


def render(root: Path) -> str:
    """Return the page.

    Args:
        root: The folder that holds ``book/_data``.
    """
    runs = {name: run for name, run in read_runs(root / "book/_data/runs.json").items() if (root / name).is_file()}
    bench = root / "book/_data/bench.json"
    parts = [INTRODUCTION, _notebooks(root, runs), _missing(root, runs), *_machines(runs)]
    if bench.exists():
        parts.append(_bench(json.loads(bench.read_text(encoding="utf-8"))))
    return "\n".join(parts)


def _notebooks(root: Path, runs: dict[str, dict[str, Any]]) -> str:
    """Return the table of runs, in the order of the course."""
    folders = {"chapters": 0, "labs/solutions": 1, "labs": 2}
    names = sorted(runs, key=lambda name: (folders.get(str(Path(name).parent), 3), name))
    rows = [
        [
            f"{escape(title_of(root / name))}<br>`{name}`",
            f"{runs[name]['run_s']:.0f} s",
            f"[{escape(runs[name]['date'])}]{{.one-line}}",
        ]
        for name in names
    ]
    if not rows:
        return ""
    rows.append(["**All of them**", f"**{sum(run['run_s'] for run in runs.values()):.0f} s**", ""])
    return "## Notebooks\n\n" + table(["Notebook", "Run time", "Date"], rows, right=frozenset({1}))


def _missing(root: Path, runs: dict[str, dict[str, Any]]) -> str:
    """Return a sentence on the notebooks without a record: a page must not look more complete than it is."""
    shown = sorted([*root.glob("chapters/*.ipynb"), *root.glob("labs/solutions/*.ipynb")])
    names = [path.relative_to(root).as_posix() for path in shown]
    missing = [f"`{name}`" for name in names if name not in runs]
    return f"No run is recorded of {', '.join(missing)}.\n" if missing else ""


def _machines(runs: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Yield a table for each distinct machine and set of versions; mostly there is one."""
    seen: dict[str, list[str]] = {}
    for name, run in runs.items():
        seen.setdefault(json.dumps([run["machine"], run["versions"]], sort_keys=True), []).append(name)
    for number, (key, names) in enumerate(seen.items(), start=1):
        machine, versions = json.loads(key)
        heading = "## Machine and versions" if len(seen) == 1 else f"## Machine and versions {number}"
        used = "" if len(seen) == 1 else f"Used for {', '.join(f'`{name}`' for name in names)}.\n\n"
        facts = [[label, escape(_readable(machine.get(field), unit))] for label, field, unit in _FACTS]
        packages = [[escape(package), escape(version)] for package, version in sorted(versions.items())]
        yield f"{heading}\n\n{used}{table(['', 'Value'], facts + packages)}"


_FACTS = (
    ("System", "system", ""),
    ("Processor", "processor", ""),
    ("Cores this process may use", "cores", ""),
    ("Memory", "memory_bytes", "GiB"),
    ("Shared memory (/dev/shm)", "shared_memory_bytes", "GiB"),
    ("Python", "python", ""),
)


def _readable(value: Any, unit: str) -> str:
    if value is None:
        return "none"
    return f"{value / GIBIBYTE:.1f} GiB" if unit == "GiB" else f"{value:g}" if isinstance(value, float) else str(value)


def _bench(bench: dict[str, Any]) -> str:
    """Return the table of ratios that `make bench` wrote; `tests/benchmarks/rows.py` says what each field means."""
    rows = [
        [
            escape(row["name"]),
            escape(f"{row['ratio']:.3g} {row['unit']}"),
            escape(f"{row['relation']} {row['bound']:g}"),
            ("yes" if row["holds"] else "**no**") + (" (stretch)" if row.get("stretch") else ""),
            escape(f"{row['us_per_step']:.0f} µs" if "us_per_step" in row else ""),
        ]
        for row in bench["rows"]
    ]
    head = ["Comparison", "Measured", "Bound", "Kept", "A step of ours"]
    notes = [f"- **{escape(row['name'])}:** {escape(row['note'])}" for row in bench["rows"] if row.get("note")]
    machine = bench["machine"]
    about = (
        "`make bench` trains the same model on the same data with the course's loop and with others, in turns, and "
        f"compares their times. Measured on {escape(bench['date'])} on {escape(machine['processor'])} with "
        f"{escape(_readable(machine['cores'], ''))} cores."
    )
    figures = table(head, rows, right=frozenset({1, 4}))
    return f"## Speed\n\n{about}\n\n{figures}\n" + "\n".join(notes) + "\n"
