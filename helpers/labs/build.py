"""Make the learner's notebooks from the labs' sources, with nbgrader's own preprocessors.

``labs/solutions/NN_*.ipynb`` is the one source. The steps below are those of ``nbgrader
generate_assignment`` without its database, so what a learner opens from ``labs/`` and what an
instructor releases through nbgrader have the same cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import CourseError
from helpers.machine import checkout

if TYPE_CHECKING:
    from nbformat import NotebookNode

CODE_STUB = "# YOUR CODE HERE\n..."
"""What stands where a solution was. It does nothing, so an untouched lab runs from top to bottom."""

CELL_TIMEOUT_S = 120
"""What nbgrader grants a cell: importing both frameworks on a busy machine takes a while."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A lab's source and the learner's notebook made from it."""

    source: Path
    learner: Path


def configure(config: Any) -> None:
    """Set nbgrader's options; ``nbgrader_config.py`` and the build below share them.

    Args:
        config: A traitlets ``Config``, such as the one ``get_config()`` returns.
    """
    config.ClearSolutions.code_stub = {"python": CODE_STUB}
    config.Execute.timeout = CELL_TIMEOUT_S
    config.OverwriteCells.add_missing_cells = True  # a deleted check cell comes back and fails


def pairs(root: Path | None = None) -> list[Pair]:
    """Return every lab's source and target, in order.

    Args:
        root: The folder ``labs``; that of the checkout by default.

    Raises:
        CourseError: If there are no sources there.
    """
    labs = root or checkout() / "labs"
    sources = sorted((labs / "solutions").glob("[0-9][0-9]_*.ipynb"))
    if not sources:
        raise CourseError(
            f"no lab sources NN_*.ipynb in {labs / 'solutions'}. They come with the course's repository, not with a "
            "learner's copy: run this in a full clone."
        )
    return [Pair(source=source, learner=labs / source.name) for source in sources]


def learner_notebook(source: Path) -> NotebookNode:
    """Return the learner's notebook without outputs.

    Args:
        source: A notebook with nbgrader's metadata and solution regions.

    Raises:
        CourseError: If nbgrader is not installed, or it refuses the source.
    """
    from helpers.notebooks.execute import read

    notebook = read(source)
    resources: dict[str, Any] = {}
    try:
        for step in _steps():
            notebook, resources = step.preprocess(notebook, resources)
    except (RuntimeError, ValueError) as error:
        raise CourseError(f"nbgrader refuses {source.name}: {error}. Mend the cell's markers or metadata.") from error
    notebook.metadata.pop("widgets", None)
    return notebook


def _steps() -> list[Any]:
    """Return nbgrader's preprocessors in the order of its ``generate_assignment``."""
    try:
        from nbgrader import preprocessors
        from traitlets.config import Config
    except ImportError as error:
        raise CourseError(
            "nbgrader is not installed; install the course with its extra: pip install -e '.[test]'."
        ) from error

    config = Config()
    configure(config)
    names = ["LockCells", "ClearSolutions", "ClearOutput", "ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums"]
    return [getattr(preprocessors, name)(config=config) for name in [*names, "CheckCellMetadata"]]


def is_current(pair: Pair) -> bool:
    """Tell whether the learner's notebook is what the source makes and has been run; outputs are nbval's business."""
    from helpers.notebooks.execute import read

    if not pair.learner.exists():
        return False
    stored = read(pair.learner)
    ran = all(cell.execution_count for cell in stored.cells if cell.cell_type == "code" and cell.source.strip())
    return ran and _bare(stored) == _bare(learner_notebook(pair.source))


def answered(pair: Pair) -> list[str]:
    """Return the tasks that somebody has worked on in the learner's notebook.

    A solution cell carries the checksum of the stub it came with, so any edit shows.
    """
    from nbgrader.utils import compute_checksum, is_solution

    from helpers.notebooks.execute import read

    if not pair.learner.exists():
        return []
    cells = [cell for cell in read(pair.learner).cells if is_solution(cell)]
    changed = (cell.metadata.nbgrader for cell in cells if cell.metadata.nbgrader.checksum != compute_checksum(cell))
    return [str(metadata.grade_id) for metadata in changed]


def build(pair: Pair) -> None:
    """Write the learner's notebook with the outputs of its untouched run."""
    from helpers.notebooks.execute import execute, write

    write(learner_notebook(pair.source), pair.learner)
    execute(pair.learner, record=False)


def strays(found: list[Pair]) -> list[Path]:
    """Return learner's notebooks that have no source any more."""
    kept = {pair.learner for pair in found}
    return [path for path in sorted(found[0].learner.parent.glob("*.ipynb")) if path not in kept]


def _bare(notebook: NotebookNode) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return id, type, source and metadata of each cell, which is what building decides."""
    return [
        (cell.get("id", ""), cell.cell_type, cell.source, {k: v for k, v in cell.metadata.items() if k != "execution"})
        for cell in notebook.cells
    ]
