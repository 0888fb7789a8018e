"""Where notebooks lie, and what each folder's notebooks are."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from helpers.errors import CourseError
from helpers.machine import checkout


class Kind(StrEnum):
    """What a notebook is; what is expected of it follows from this."""

    CHAPTER = "chapter"
    SOLUTION = "solution"
    LAB = "lab"


_FOLDERS = {Kind.CHAPTER: "chapters", Kind.SOLUTION: "labs/solutions", Kind.LAB: "labs"}
"""In the order in which they are run."""


def kind_of(path: Path) -> Kind:
    """Return what a notebook is, from the folder it lies in."""
    folder = path.resolve().parent
    if folder.name == "solutions":
        return Kind.SOLUTION
    return Kind.LAB if folder.name == "labs" else Kind.CHAPTER


def find_notebooks(paths: list[Path]) -> list[Path]:
    """Return the notebooks named, those in the folders named, or all of the course's.

    Args:
        paths: Files and folders; empty for chapters, solutions and labs of the checkout.

    Raises:
        CourseError: If a path does not exist, is not a notebook, or nothing is found.
    """
    named = paths or [checkout() / folder for folder in _FOLDERS.values()]
    found: list[Path] = []
    for path in named:
        if path.is_dir():
            found += sorted(path.glob("*.ipynb"))
        elif path.suffix == ".ipynb" and path.is_file():
            found.append(path)
        elif paths:
            raise CourseError(f"{path} is neither a notebook nor a folder. Give an .ipynb file, or a folder with some.")
    if not found:
        raise CourseError(f"no notebook in {', '.join(map(str, named))}. Call this in the checkout, or name the files.")
    return found


def shown_path(path: Path) -> str:
    """Return the path as people and records should see it: from the checkout's root where it lies there."""
    full, root = path.resolve(), checkout().resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else path.as_posix()
