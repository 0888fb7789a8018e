"""Execute one notebook in place, all or nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import CourseError
from helpers.notebooks.normalise import normalise
from helpers.notebooks.places import shown_path
from helpers.notebooks.records import record_run

if TYPE_CHECKING:
    from nbformat import NotebookNode


def execute(path: Path, *, timeout_s: int = 600, record: bool = True) -> float:
    """Execute a notebook with a fresh kernel in its own folder and store the normalised result.

    The file is replaced only when every cell ran, so a failure leaves it as it was.

    Args:
        path: The notebook.
        timeout_s: Seconds a single cell may take.
        record: Whether the run goes into ``book/_data/runs.json``, which the status page shows.

    Returns:
        Seconds from the start of the kernel to its end.

    Raises:
        CourseError: If the file cannot be read, a cell raises or takes too long, or the kernel dies.
    """
    notebook = read(path)
    _require_valid(notebook, path)
    begin = time.perf_counter()
    _run_cells(notebook, path, timeout_s)
    run_s = time.perf_counter() - begin
    normalise(notebook)
    write(notebook, path)
    if record:
        record_run(shown_path(path), run_s)
    return run_s


def read(path: Path) -> NotebookNode:
    """Return a notebook, upgraded to the current format.

    Raises:
        CourseError: If the file is not a notebook.
    """
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises a family of unrelated types for broken files
        raise CourseError(f"{shown_path(path)} cannot be read as a notebook ({error}). Restore it from git.") from error


def _require_valid(notebook: NotebookNode, path: Path) -> None:
    """Refuse what Jupyter would not open either, before a kernel is started for it."""
    import nbformat

    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        problem = str(error).splitlines()[0]
        raise CourseError(f"{shown_path(path)} is not a valid notebook ({problem}). Restore it from git.") from error


def write(notebook: NotebookNode, path: Path) -> None:
    """Replace the file in one step, so that an interruption never leaves half a notebook."""
    import nbformat

    partial = path.with_name(f".{path.name}.partial")
    try:
        nbformat.write(notebook, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _run_cells(notebook: NotebookNode, path: Path, timeout_s: int) -> None:
    """Run all cells in place; turn every way in which that can fail into one readable error."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook.metadata.pop("widgets", None)  # nbclient would add to the state of the last run
    position = _Position()
    client = NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.resolve().parent)}},
        on_cell_execute=position,
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise CourseError(_failure(path, notebook, position, f"{error.ename}: {error.evalue}")) from error
    except CellTimeoutError as error:
        hint = f"took longer than {timeout_s} s. Make it smaller, or pass --timeout."
        raise CourseError(_failure(path, notebook, position, hint)) from error
    except DeadKernelError as error:
        hint = "ended its kernel. A common cause is memory: run it alone and watch the process."
        raise CourseError(_failure(path, notebook, position, hint)) from error


class _Position:
    """Remembers the cell that is running; nbclient's errors do not say which one it was."""

    index = 0

    def __call__(self, *, cell: Any, cell_index: int) -> None:
        self.index = cell_index


def _failure(path: Path, notebook: NotebookNode, position: _Position, what: str) -> str:
    """Return the message about a failed cell: where, what, and its source."""
    source = "\n".join(f"    {line}" for line in notebook.cells[position.index].source.splitlines())
    return f"\n{shown_path(path)}, cell {position.index + 1}: {what}\n{source}\n  The file was left as it was."
