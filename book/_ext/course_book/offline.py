"""Copy what live widgets need into the built site, out of the packages that are installed here."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

from sphinx.application import Sphinx


def copy_widget_manager(app: Sphinx, error: Exception | None) -> None:
    """Put the widget manager of the installed ipywidgets beside ``widgets.js``, which starts it.

    ``widgetsnbextension`` is a dependency of ipywidgets and always of its version. It was made for the
    classic Notebook; ``book/_static/widgets.js`` plays that part.
    """
    if error is not None or app.builder.format != "html":
        return
    source = importlib.resources.files("widgetsnbextension") / "static" / "extension.js"
    script = source.read_text(encoding="utf-8").partition("//# sourceMappingURL=")[0]
    target = Path(app.outdir) / "_static" / "widgetsnbextension.js"
    target.write_text(script, encoding="utf-8")
