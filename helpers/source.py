"""Show a function's own source, from the installed package.

A chapter that explains a function shows the code that runs, never a copy of it.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.display import Code


def read(obj: Any, *, lines: tuple[int, int] | None = None, docstring: bool = False) -> str:
    """Return the source of a function, class or module, dedented.

    Args:
        obj: What to show. Wrapped functions are unwrapped.
        lines: First and last line to keep, counted from 1 in what is left after ``docstring``.
        docstring: Whether to keep the docstring of a function or class.

    Raises:
        ValueError: If there is no source (a built-in, a compiled extension), or the lines lie outside it.
    """
    try:
        text = textwrap.dedent(inspect.getsource(inspect.unwrap(obj)))
    except (OSError, TypeError) as error:
        raise ValueError(f"{obj!r} has no Python source ({error}); give a function or class written in it.") from error
    if not docstring:
        text = _without_docstring(text)
    if lines is None:
        return text
    rows = text.splitlines()
    first, last = lines
    if not 1 <= first <= last <= len(rows):
        raise ValueError(f"lines {first} to {last} were asked for; the source has lines 1 to {len(rows)}.")
    return textwrap.dedent("\n".join(rows[first - 1 : last])) + "\n"


def show(obj: Any, *, lines: tuple[int, int] | None = None, docstring: bool = False) -> Code:
    """Return the source of ``obj`` highlighted for a notebook; see :func:`read` for the arguments."""
    from IPython.display import Code

    return Code(read(obj, lines=lines, docstring=docstring), language="python")


def _without_docstring(text: str) -> str:
    """Drop the docstring of the first definition in ``text``, if it has one and something else."""
    import ast

    try:
        node = next(iter(ast.parse(text).body), None)
    except SyntaxError:  # a lambda comes with the line it stands in, which need not be whole
        return text
    if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) or ast.get_docstring(node) is None:
        return text
    doc, *rest = node.body
    if not rest or doc.lineno == node.lineno:
        return text
    rows = text.splitlines(keepends=True)
    return "".join(rows[: doc.lineno - 1] + rows[doc.end_lineno :])
