"""One `make lab` in a clone for all tests of JupyterLab, and what a failed test leaves to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from course_clone import MakeLab, copy_checkout, environment_is_ready


@pytest.fixture(scope="session")
def make_lab(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeLab]:
    """Start `make lab` in a clone; at the end Ctrl-C must leave no process and no port behind."""
    if not environment_is_ready():
        pytest.fail("`make lab` would install into this environment first. Run `make setup` with its VENV, then again.")
    folder = tmp_path_factory.mktemp("lab")
    try:
        copy_checkout(folder / "clone")
    except RuntimeError as error:
        pytest.skip(str(error))
    started = MakeLab(folder / "clone", folder / "jupyter")
    try:
        started.address()
        yield started
    finally:
        left = started.stop()
    assert not left, f"Ctrl-C left processes behind, which are killed now: {left}\n{started.log()}"
    assert started.port_is_free(), f"something still listens on port {started.port}\n{started.log()}"


@pytest.fixture
def jupyter(browser, make_lab: MakeLab) -> Iterator[object]:
    """JupyterLab in a page of its own."""
    from jupyter_page import JupyterPage

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield JupyterPage(context.new_page(), make_lab.address(), make_lab.clone)
    context.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """Add a picture of the page and the end of the server's log to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed:
        found = getattr(item, "funcargs", {})
        page = getattr(found.get("jupyter"), "page", None) or found.get("page")
        if page is not None:
            report.sections.append(("browser", _picture(page, found["tmp_path"])))
        if "make_lab" in found:
            report.sections.append(("make lab", found["make_lab"].log()))
    return report


def _picture(page, folder: Path) -> str:
    path = folder / "failed.png"
    try:
        page.screenshot(path=path)
    except Exception as error:  # a page that crashed cannot be photographed, and the test's own error matters more
        return f"no picture of {page.url}: {error}"
    return f"{page.url}\npicture: {path}"


@pytest.fixture(autouse=True)
def _folder_for_pictures(tmp_path: Path) -> None:
    """Give every test a folder, so that the hook finds one."""
