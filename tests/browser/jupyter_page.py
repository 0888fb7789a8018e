"""A page with JupyterLab in it, operated as a learner does: menus, keys and what can be seen."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

STEP_MS = 120_000
"""For each single thing to happen on a busy machine, such as a kernel's start."""
RUN_MS = 900_000
"""For all cells of a chapter, which take up to 60 s on a quiet machine."""

BUSY = re.compile(r"\[\*\]")
IDLE = re.compile(r"\(ipykernel\) \| Idle")
DONE = re.compile(r"\[\d+\]")


class JupyterPage:
    """JupyterLab in a page.

    Args:
        page: An empty page.
        address: Where the server is, with its token.
        clone: The folder that the server serves.
    """

    def __init__(self, page: Page, address: str, clone: Path) -> None:
        self.page = page
        self._address = urlsplit(address)
        self._clone = clone
        page.set_default_timeout(STEP_MS)
        expect.set_options(timeout=STEP_MS)

    def open(self, path: str) -> None:
        """Open a file at its own address, with no other tab."""
        place = self._address._replace(path=f"/lab/tree/{path}", query=f"reset&{self._address.query}")
        self.page.goto(place.geturl())

    @property
    def notebook(self) -> Locator:
        """The notebook in front."""
        return self.page.locator(".jp-NotebookPanel:visible")

    def cell(self, number: int) -> Locator:
        """Return a cell, counted from 0 with the cells of text, scrolled into view."""
        cell = self.notebook.locator(f'.jp-Cell[data-windowed-list-index="{number}"]')
        cell.scroll_into_view_if_needed()
        return cell

    def wait_for_kernel(self) -> None:
        """Wait until the notebook is there and its kernel waits for work."""
        expect(self.notebook.locator(".jp-Cell").first).to_be_visible()
        # The notebook's own indicator says idle also before there is a kernel; a cell run then only loses its output.
        expect(self.page.locator("#jp-main-statusbar").get_by_text(IDLE)).to_be_visible()

    def menu(self, *names: str) -> None:
        """Choose from the menu bar, for example ``menu("Run", "Run All Cells")``."""
        self.page.locator(".lm-MenuBar-item").get_by_text(names[0], exact=True).click()
        for name in names[1:]:
            self.page.locator(".lm-Menu-itemLabel").get_by_text(name, exact=True).click()

    def run_all(self) -> None:
        """Run all cells and wait for the last one."""
        self.menu("Run", "Run All Cells")
        prompts = self.notebook.locator(".jp-CodeCell .jp-InputPrompt")
        expect(prompts.filter(has_text=BUSY).first).to_be_attached()
        expect(prompts.filter(has_text=BUSY)).to_have_count(0, timeout=RUN_MS)
        self.wait_for_kernel()

    def run_cell(self, number: int) -> Locator:
        """Run a cell with Shift-Enter and return it once it is done, which its number shows: it must be a new one."""
        cell = self.cell(number)
        prompt = cell.locator(".jp-InputPrompt")
        before = prompt.inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        expect(prompt).not_to_have_text(before)
        expect(prompt).to_have_text(DONE)
        self.wait_for_kernel()
        return cell

    def type_over(self, number: int, code: str) -> None:
        """Replace a cell's code by typing, line by line; the editor's own indentation is typed over."""
        keyboard = self.page.keyboard
        self.cell(number).locator(".cm-content").click()
        keyboard.press("ControlOrMeta+a")
        keyboard.press("Delete")
        for line_number, line in enumerate(code.split("\n")):
            if line_number:
                keyboard.press("Enter")
                keyboard.press("Shift+Home")
                keyboard.press("Delete") if not line else None
            keyboard.type(line)

    def code(self, number: int) -> str:
        """Return a cell's code as the editor shows it."""
        return "\n".join(self.cell(number).locator(".cm-line").all_inner_texts()).replace("\u200b", "")

    def save(self, path: str) -> dict:
        """Save the notebook in front and return it as it lies on the disk."""
        before = (self._clone / path).stat().st_mtime_ns
        with self.page.expect_response(
            lambda response: response.request.method == "PUT" and "/api/contents/" in response.url
        ):
            self.menu("File", "Save Notebook")
        saved = self._clone / path
        assert saved.stat().st_mtime_ns > before, f"{path} was saved and did not change on the disk"
        return json.loads(saved.read_text(encoding="utf-8"))
