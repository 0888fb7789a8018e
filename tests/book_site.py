"""The built book as its tests see it, and the probe chapter that is added to it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import nbformat

from helpers.notebooks.execute import execute

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/_ext"))  # where Sphinx finds the book's extension

HOSTILE = "<script>alert(1)</script> & *stars* {ref}`x` $y$ [a](b) | ::: always help"
PROBE = {
    "claim": f"""\
from helpers.claims import claim
_ = claim({HOSTILE!r}, holds=False, because="it was <b>not</b> so")""",
    "figure": """\
from helpers.plotting import figure, png, show
drawn, axes = figure(4, 2)
show(drawn, alt="An empty plot, <seen> by nobody.")""",
    "widget": """\
import ipywidgets as w
pictures = []
for height in (1, 2):
    drawn, axes = figure(2, height)
    pictures.append(w.Image(value=png(drawn)))
slider, stack = w.IntSlider(max=1), w.Stack(pictures, selected_index=0)
w.jslink((slider, "value"), (stack, "selected_index"))
w.VBox([slider, stack])""",
    "solution": "### BEGIN SOLUTION\nanswer = 42\n### END SOLUTION",
}


@dataclass(frozen=True, kw_only=True)
class Site:
    """The built book."""

    root: Path
    """The copy of the checkout that it was built from."""
    html: Path
    status: int
    log: str
    seconds: float

    def text(self, name: str) -> str:
        return (self.html / name).read_text(encoding="utf-8")

    def pages(self) -> list[Path]:
        return sorted(path for path in self.html.rglob("*.html") if "_static" not in path.parts)


def build_site(root: Path) -> Site:
    """Build a copy of the checkout's book in a folder, as `make book` does, with one more chapter."""
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


@dataclass(frozen=True)
class Element:
    tag: str
    attributes: dict[str, str]


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)


def shown_text(page: str) -> str:
    """Return the text that a reader sees, with single spaces."""
    parser = _Text()
    parser.feed(page)
    return " ".join("".join(parser.pieces).split())


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Element(tag, {name: value or "" for name, value in attrs}))


def elements(page: Path) -> list[Element]:
    """Return a page's elements in order."""
    parser = _Elements()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.found
