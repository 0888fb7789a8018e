"""The book's Sphinx extension: pages made from data, widgets that need no network, folded solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from course_book import api_pages, claims_page, offline, references, sources, status_page

GENERATED = "book/_generated"
"""Below the source folder; git ignores it."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the steps to the build.

    The pages are written before the table of contents is read, which happens at the same event with the
    default priority of 500.
    """
    app.connect("config-inited", _write_pages, priority=100)
    app.connect("source-read", sources.prepare)
    app.connect("missing-reference", references.resolve)
    app.connect("build-finished", offline.copy_widget_manager)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_pages(app: Sphinx, _config: object) -> None:
    root = Path(app.srcdir)
    folder = root / GENERATED
    pages = {
        "claims.md": claims_page.render(root),
        "status.md": status_page.render(root),
        **api_pages.render(),
    }
    for name, text in pages.items():
        _write(folder / name, text)
    for path in folder.rglob("*.*"):
        if path.relative_to(folder).as_posix() not in pages:
            path.unlink()  # of a module that is gone


def _write(path: Path, text: str) -> None:
    """Write the page, unless it is there already: Sphinx then need not build it again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
