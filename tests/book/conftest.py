"""One build of the whole book, with a probe chapter added, for all tests of its pages."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from book_site import PROBE, ROOT, Site

from helpers.notebooks.execute import execute


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Build a copy of the checkout's book, as `make book` does, with one more chapter."""
    root = tmp_path_factory.mktemp("site")
    unwanted = shutil.ignore_patterns("_build", "_generated", "__pycache__", ".ipynb_checkpoints", "nbgrader_*")
    for folder in ("book", "chapters", "labs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=unwanted)
    _add_probe(root)
    begin = time.perf_counter()
    done = _builder().build(root, root / "book")
    seconds = time.perf_counter() - begin
    print(f"\nthe book was built in {seconds:.0f} s")
    return Site(root=root, html=root / "book/_build/html", status=done.returncode, log=done.stdout, seconds=seconds)


def _add_probe(root: Path) -> None:
    cells = [nbformat.v4.new_markdown_cell("# A probe\n\nThe formula $x^2$.")]
    cells += [nbformat.v4.new_code_cell(source, id=name) for name, source in PROBE.items()]
    path = root / "chapters/99_probe.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    execute(path, record=False)
    toc = root / "book/_toc.yml"
    part = '\n  - caption: "Probe"\n    chapters:\n      - file: chapters/99_probe\n'
    toc.write_text(toc.read_text(encoding="utf-8").rstrip() + part, encoding="utf-8")


def _builder():
    spec = importlib.util.spec_from_file_location("book_build", ROOT / "book/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Debian's Chromium through Playwright; skipped, with the reason, where one of them is missing."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install -e '.[browser]'"
    )
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()
