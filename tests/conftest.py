"""What tests of the book's files and tests in a real browser share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.book_site import Site, build_site

FLAGS = [
    "--no-sandbox",  # continuous integration runs as root in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """One build of the whole book, with a probe chapter added, for all tests of its pages."""
    return build_site(tmp_path_factory.mktemp("site"))


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
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()
