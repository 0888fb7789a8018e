"""The pieces that the generated pages are made of."""

from __future__ import annotations

import json
from html import unescape

from course_book import api_pages, claims_page, status_page
from course_book.myst import claim_label, escape, prose, table, title_of
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import tests.book_site  # noqa: F401  (puts the book's extension on the path)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1))
def test_escaped_text_is_shown_as_it_is(text):
    shown = MarkdownIt().enable("table").render(f"x{escape(text)}x")
    assert unescape(shown) == f"<p>x{text}x</p>\n"


def test_backticks_make_code_and_nothing_else():
    shown = MarkdownIt().render(prose("is `a*b*` *free* {ref}`x` or `not"))
    assert shown == "<p>is <code>a*b*</code> *free* {ref}<code>x</code> or `not</p>\n"


def test_escaped_text_keeps_to_its_line_and_cell():
    assert "\n" not in escape("a\n\nb")
    shown = MarkdownIt().enable("table").render(table(["head"], [[escape("a | b")]]))
    assert "<td>a | b</td>" in shown


def test_a_notebook_without_a_title_is_called_by_its_name(tmp_path):
    path = tmp_path / "01_x.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["# no title"]}]}))
    assert title_of(path) == "01_x"


def test_labels_are_plain_and_distinct(tmp_path):
    first, second = (claim_label(tmp_path / folder / "01_a.ipynb", "c01") for folder in ("chapters", "solutions"))
    assert first == "claim-chapters-01-a-c01" != second


def test_pages_of_an_empty_course_say_so(tmp_path):
    assert "no claim to show" in claims_page.render(tmp_path)
    assert "# Status" in status_page.render(tmp_path)


def test_status_names_the_notebooks_without_a_record(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters/01_a.ipynb").write_text('{"cells": []}')
    assert "No run is recorded of `chapters/01_a.ipynb`" in status_page.render(tmp_path)


def test_status_keeps_machines_apart(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "book/_data").mkdir(parents=True)
    runs = {}
    for number, cores in ((1, 2.0), (2, 64.0)):
        name = f"chapters/0{number}_a.ipynb"
        (tmp_path / name).write_text('{"cells": []}')
        machine = {"cores": cores, "memory_bytes": 2**33, "processor": "a | b"}
        runs[name] = {"date": "2026-01-02", "machine": machine, "run_s": 10 * number, "versions": {"torch": "2"}}
    (tmp_path / "book/_data/runs.json").write_text(json.dumps(runs))
    page = status_page.render(tmp_path)
    assert "Machine and versions 2" in page and "8\\.0 GiB" in page and "a \\| b" in page
    assert "**30 s**" in page


def test_status_shows_the_measured_ratios(tmp_path):
    (tmp_path / "book/_data").mkdir(parents=True)
    kept = {"name": "textbook | loop", "ratio": 0.0795, "bound": 0.1, "relation": "at most", "unit": "×", "holds": True}
    missed = kept | {"name": "products", "ratio": 3.0, "holds": False, "stretch": True, "us_per_step": 812.4}
    machine = {"processor": "a <b>", "cores": 2.0}
    bench = {"rows": [kept, missed], "date": "2026-01-02", "machine": machine}
    (tmp_path / "book/_data/bench.json").write_text(json.dumps(bench))
    page = status_page.render(tmp_path)
    assert "Measured on 2026\\-01\\-02 on a \\<b\\> with 2 cores" in page
    assert "| textbook \\| loop | 0\\.0795 × | at most 0\\.1 | yes |" in page
    assert "| **no** (stretch) | 812 µs |" in page


def test_every_module_has_a_page_and_a_line_in_the_index():
    pages = api_pages.render()
    modules = [name.removeprefix("api/").removesuffix(".rst") for name in pages if name.startswith("api/")]
    assert {"claims", "seeding", "notebooks"} <= set(modules)
    assert all(f"<api/{module}>" in pages["api.rst"] for module in modules)
