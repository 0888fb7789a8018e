"""The built site: complete, linked, searchable, and without a reference to any other host."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from helpers.claims import collect, sentence
from tests.book_site import HOSTILE, ROOT, elements, shown_text

LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "link": "href",
}
"""Elements that make a browser fetch something as the page opens."""


def test_builds_without_a_warning(site):
    print(f"built in {site.seconds:.0f} s")
    assert site.status == 0, site.log
    assert site.seconds < 180


def test_checkout_stays_clean():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    for made in ("book/_build/html/index.html", "book/_generated/claims.md"):
        assert subprocess.run(["git", "check-ignore", "-q", made], cwd=ROOT, check=False).returncode == 0, made


def test_no_page_loads_anything_from_elsewhere(site):
    outside = [
        (page.name, element.tag, element.attributes[LOADS[element.tag]])
        for page in site.pages()
        for element in elements(page)
        if element.tag in LOADS and re.match(r"(https?:)?//", element.attributes.get(LOADS[element.tag], ""))
    ]
    assert outside == []


def test_no_page_or_script_of_ours_names_a_content_network(site):
    own = [*site.pages(), *site.html.glob("_static/*.css"), site.html / "_static/widgets.js"]
    for path in own:
        text = path.read_text(encoding="utf-8")
        found = re.search(r"(cdn\.jsdelivr|cdnjs\.cloudflare|unpkg\.com|fonts\.(googleapis|gstatic))[^\s\"']*", text)
        assert found is None, f"{path.name}: {found[0]}"


def test_every_link_inside_the_site_leads_somewhere(site):
    ids: dict[Path, set[str]] = {}
    for page in site.pages():
        ids[page.resolve()] = {
            e.attributes[key] for e in elements(page) for key in ("id", "name") if key in e.attributes
        }
    broken = []
    for page in site.pages():
        for element in elements(page):
            target = element.attributes.get("href") if element.tag in {"a", "link"} else element.attributes.get("src")
            parts = urlsplit(target or "")
            if not target or parts.scheme or parts.netloc or element.tag == "form":
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
            fragment = unquote(parts.fragment)
            if not path.exists() or (fragment and path in ids and fragment not in {*ids[path], "top"}):
                broken.append((page.name, target))
    assert broken == []


def test_claims_page_lists_every_claim(site):
    page = site.text("book/_generated/claims.html")
    notebooks = [*sorted(site.root.glob("chapters/*.ipynb")), *sorted(site.root.glob("labs/solutions/*.ipynb"))]
    claims = [claim for _, _, claim in collect(notebooks)]
    assert len(re.findall(r'class="claim [a-z-]+ docutils', page)) == len(claims) > 0
    text = shown_text(page)
    for claim in claims:
        assert f"“{claim.statement.replace('`', '')}”" in text
        assert sentence(claim.because).replace("`", "") in text


def test_hostile_text_in_a_claim_is_shown_and_not_obeyed(site):
    page = site.text("book/_generated/claims.html")
    assert "<script>alert" not in page
    assert HOSTILE.replace("`", "") in shown_text(page)
    assert "It was &lt;b&gt;not&lt;/b&gt; so" in page


def test_status_page_lists_every_recorded_run(site):
    page = site.text("book/_generated/status.html")
    runs = json.loads((site.root / "book/_data/runs.json").read_text(encoding="utf-8"))
    assert runs
    for name, run in runs.items():
        assert name in page and run["date"] in page


def test_api_page_documents_every_public_function_and_class(site):
    missing = []
    for path in sorted((ROOT / "helpers").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if any(part.startswith("_") and part != "__init__" for part in parts):
            continue
        module = ".".join(part for part in parts if part != "__init__")
        page = site.text(f"book/_generated/api/{parts[1]}.html") if parts[1] != "__init__" else ""
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            named = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            if named and ast.get_docstring(node) and f'id="{module}.{node.name}"' not in page:
                missing.append(f"{module}.{node.name}")
    assert missing == []


@pytest.mark.parametrize("term", ["momentum", "dispatch", "graph", "gradient"])
def test_search_index_knows_the_terms(site, term):
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)\s*", site.text("searchindex.js"), re.DOTALL)[1])
    assert any(known.startswith(term) for known in {*index["terms"], *index["titleterms"]})


def test_links_to_labs_lead_to_their_pages(site):
    targets = [e.attributes.get("href", "") for e in elements(site.html / "book/index.html") if e.tag == "a"]
    assert "../labs/solutions/01_write_the_loop.html" in targets


def test_solutions_are_folded(site):
    page = site.text("chapters/99_probe.html")
    assert "Show the solution" in page
    assert "tag_hide-input" in page


def test_figures_have_their_alternative_text(site):
    pictures = [e for e in elements(site.html / "chapters/99_probe.html") if e.tag == "img"]
    assert "An empty plot, <seen> by nobody." in [picture.attributes.get("alt") for picture in pictures]


def test_map_of_chapters_links_files_that_exist(site):
    text = (ROOT / "book/index.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert links and all((ROOT / "book" / link).is_file() for link in links)
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == list(range(1, 16))
    listed = {Path(link).name for link in links}
    assert {path.name for path in ROOT.glob("chapters/*.ipynb")} <= listed
