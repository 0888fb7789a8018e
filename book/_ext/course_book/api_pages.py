"""The API reference: one page for each module or subpackage of ``helpers``, from its docstrings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import helpers


def render() -> dict[str, str]:
    """Return the pages' names and texts; modules are found in the package, so that none is forgotten."""
    package = Path(helpers.__file__).parent
    modules = {path.name.removesuffix(".py"): path for path in package.iterdir() if _is_module(path)}
    pages = {f"api/{name}.rst": _page(name, path) for name, path in modules.items()}
    return {"api.rst": _index(modules), **pages}


def _is_module(path: Path) -> bool:
    if path.name.startswith("_"):
        return False
    return path.suffix == ".py" or (path / "__init__.py").exists()


def _page(name: str, path: Path) -> str:
    full = f"helpers.{name}"
    parts = [_heading(full, "="), _automodule(full)]
    for inner in sorted(path.glob("*.py")) if path.is_dir() else []:
        if not inner.name.startswith("_"):
            parts += [_heading(f"{full}.{inner.stem}", "-"), _automodule(f"{full}.{inner.stem}")]
    return "\n".join(parts)


def _heading(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def _automodule(module: str) -> str:
    return f".. automodule:: {module}\n   :members:\n   :ignore-module-all:\n   :show-inheritance:\n"


def _index(modules: dict[str, Path]) -> str:
    """Return the page that lists the modules by floor, each with the first line of its docstring."""
    placed = floors()
    others = sorted(set(modules) - {name for names in placed.values() for name in names})
    sections = [_floor(f"Floor {floor}", names, modules) for floor, names in placed.items()]
    if others:
        sections.append(_floor("Further modules", others, modules))
    return (
        _heading("The helpers package", "=")
        + "\nThe notebooks call this package and carry no second copy of its code. It is built in floors: a module"
        + "\nimports only from its own floor or below.\n\n"
        + "\n".join(sections)
    )


def floors() -> dict[int, list[str]]:
    """Return the modules of each floor, highest first, as the package's own docstring lays them out."""
    lines = re.findall(r"^\s+(\d)  +(.+)$", helpers.__doc__ or "", re.MULTILINE)
    return {int(floor): [name.strip("/") for name in names.split()] for floor, names in lines}


def _floor(title: str, names: list[str], modules: dict[str, Path]) -> str:
    items = [f":doc:`helpers.{name} <api/{name}>`\n   {_summary(modules[name])}\n" for name in names if name in modules]
    return "\n".join([_heading(title, "-"), *items])


def _summary(path: Path) -> str:
    source = path / "__init__.py" if path.is_dir() else path
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split())
