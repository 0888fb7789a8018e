"""Resolve references to names by the module that offers them, not only by the one that defines them."""

from __future__ import annotations

import importlib
from typing import Any

from docutils.nodes import Element, TextElement
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: TextElement) -> Element | None:
    """Link ``helpers.graph.steps`` to where ``steps`` is documented, which is the module that defines it."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.startswith("helpers."):
        return None
    defined = _defined_name(target)
    if defined == target:
        return None
    python = env.get_domain("py")
    return python.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], defined, node, content)


def _defined_name(target: str) -> str:
    """Return the full name under which an object was defined, or the given one where it cannot be found."""
    module, _, name = target.rpartition(".")
    try:
        found: Any = getattr(importlib.import_module(module), name)
        return f"{found.__module__}.{found.__qualname__}"
    except (ImportError, AttributeError):
        return target
