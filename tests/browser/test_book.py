"""Pages of the built book in a real browser, with every request outside the site refused."""

from __future__ import annotations

import functools
import http.server
import threading

import pytest


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site.html)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser, address):
    """A page that records what it asked other hosts for, what it complained of, and what it did not find."""
    opened = browser.new_page()
    opened.complaints = []

    def decide(route):
        if route.request.url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            opened.complaints.append(f"outside: {route.request.url}")
            route.abort()

    opened.route("**/*", decide)
    opened.on("pageerror", lambda error: opened.complaints.append(f"error: {error}"))
    opened.on("console", lambda said: opened.complaints.append(said.text) if said.type == "error" else None)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "name",
    [
        "book/index",
        "chapters/01_anatomy_of_a_training_loop",
        "labs/solutions/01_write_the_loop",
        "book/_generated/claims",
        "book/_generated/api/data",
        "chapters/99_probe",
    ],
)
def test_page_opens_without_a_network(page, address, name):
    page.goto(f"{address}{name}.html", wait_until="networkidle")
    assert page.locator(".bd-article h1").first.is_visible()
    assert page.complaints == []


def test_formulas_are_set(page, address):
    page.goto(f"{address}chapters/99_probe.html", wait_until="networkidle")
    page.locator("mjx-container").first.wait_for()
    assert page.complaints == []


def test_slider_changes_the_picture_without_a_kernel(page, address):
    page.goto(f"{address}chapters/99_probe.html")
    view = page.locator(".jupyter-widgets-view")
    view.locator("img:visible").wait_for()
    before = view.locator("img:visible").get_attribute("src")
    view.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    shown = "[...document.querySelectorAll('.jupyter-widgets-view img')].find((image) => image.checkVisibility())"
    page.wait_for_function(f"before => {shown} && {shown}.src !== before", arg=before)
    assert view.locator("img:visible").get_attribute("src") != before
    assert page.complaints == []


def test_search_finds_a_term(page, address):
    page.goto(f"{address}search.html?q=momentum")
    result = page.locator("#search-results li a").filter(has_text="Anatomy of a training loop").first
    result.click()
    page.wait_for_url("**/01_anatomy_of_a_training_loop.html*")
    page.get_by_text("momentum").first.wait_for()
    assert page.complaints == []
