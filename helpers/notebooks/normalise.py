"""Remove from an executed notebook what differs from run to run without meaning anything.

After this, running a notebook again without a change of its results gives the same file.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbformat import NotebookNode

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
"""The kernel every environment has; a name of somebody's own environment would not start elsewhere."""

IMAGE_TYPES = ("image/png", "image/svg+xml", "image/jpeg")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
STABLE_WIDGET_ID = re.compile(r"widget-\d{4}")

_CELL_JUNK = ("execution", "ExecuteTime", "collapsed", "scrolled", "trusted", "vscode", "pycharm", "colab")
_NOTEBOOK_JUNK = ("celltoolbar", "toc", "varInspector", "vscode", "colab", "signature", "orig_nbformat")
_LINKS = {"LinkModel", "DirectionalLinkModel"}
_REFERENCE = re.compile(r"IPY_MODEL_([\w-]+)")
_PROGRESS_RATE = re.compile(r" ?\[\d+:\d\d(?::\d\d)?(?:&lt;|<)[^\]]*\]")
"""What tqdm adds to a bar, for example ``[00:02<00:00, 1.2it/s]``."""


def normalise(notebook: NotebookNode) -> None:
    """Normalise an executed notebook in place."""
    notebook.metadata["kernelspec"] = dict(KERNELSPEC)
    notebook.metadata["language_info"] = {"name": "python"}
    _drop(notebook.metadata, _NOTEBOOK_JUNK)
    for cell in notebook.cells:
        _drop(cell.metadata, _CELL_JUNK)
        if cell.metadata.get("editable") is True:  # JupyterLab writes the default; False is how a lab locks a cell
            del cell.metadata["editable"]
        if cell.cell_type == "code":
            cell.outputs = _merged_streams(cell.outputs)
            _copy_alt_text(cell)
    _stable_widgets(notebook)


def _drop(metadata: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        metadata.pop(name, None)


def _merged_streams(outputs: list[Any]) -> list[Any]:
    """Join neighbouring pieces of the same stream: where they are cut depends on timing."""
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if output.output_type == "stream" and last and last.output_type == "stream" and last.name == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def _copy_alt_text(cell: NotebookNode) -> None:
    """Put a figure's alternative text where MyST-NB looks for it, which is the cell's metadata."""
    alt = next(filter(None, map(alt_text, cell.outputs)), None)
    settings = cell.metadata.get("mystnb", {})
    image = {**settings.get("image", {}), "alt": alt}
    if alt:
        cell.metadata["mystnb"] = {**settings, "image": image}
    elif "image" in settings:  # of a figure that is gone
        settings["image"].pop("alt", None)
        rest = {name: value for name, value in settings.items() if value}
        cell.metadata.pop("mystnb")
        cell.metadata.update({"mystnb": rest} if rest else {})


def alt_text(output: NotebookNode) -> str | None:
    """Return the alternative text that an output's metadata holds for its image, if any."""
    for mime in IMAGE_TYPES:
        alt = output.get("metadata", {}).get(mime, {}).get("alt")
        if mime in output.get("data", {}) and alt:
            return str(alt)
    return None


def _stable_widgets(notebook: NotebookNode) -> None:
    """Keep the state of the widgets that are shown, under ids in their order of appearance."""
    stored = notebook.metadata.get("widgets", {}).get(WIDGET_STATE)
    if not stored:
        notebook.metadata.pop("widgets", None)
        return
    order = _shown_models(notebook, stored["state"])
    renamed = {old: f"widget-{number:04d}" for number, old in enumerate(order, start=1)}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get(WIDGET_VIEW)
            if view:
                view["model_id"] = renamed.get(view["model_id"], view["model_id"])
    state = {renamed[old]: _without_rate(stored["state"][old]) for old in order}
    notebook.metadata["widgets"] = {WIDGET_STATE: {**stored, "state": _rename(state, renamed)}}
    if not state:
        notebook.metadata.pop("widgets")


def _shown_models(notebook: NotebookNode, state: dict[str, Any]) -> list[str]:
    """Return the ids of the models that views reach, in order, and of the links between those."""
    views = [
        output.data[WIDGET_VIEW]["model_id"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if WIDGET_VIEW in output.get("data", {})
    ]
    order: dict[str, None] = {}
    _follow(views, state, order)
    links = [model for model, content in state.items() if content.get("model_name") in _LINKS]
    for link in links:
        ends = _REFERENCE.findall(json.dumps(state[link]["state"].get("source")))
        if any(end in order for end in ends):
            _follow([link], state, order)
    return list(order)


def _follow(models: list[str], state: dict[str, Any], order: dict[str, None]) -> None:
    """Add models and all that they refer to, in order of appearance, to ``order``."""
    waiting = list(models)
    while waiting:
        model = waiting.pop(0)
        if model in order or model not in state:
            continue
        order[model] = None
        waiting += _REFERENCE.findall(json.dumps(state[model]["state"], sort_keys=True))


def _without_rate(model: Any) -> Any:
    """Remove the seconds and the rate from a progress bar's text; the counts stay."""
    text = model["state"].get("value")
    if model.get("model_name") == "HTMLModel" and isinstance(text, str):
        model["state"]["value"] = _PROGRESS_RATE.sub("", text)
    return model


def _rename(state: dict[str, Any], renamed: dict[str, str]) -> Any:
    """Replace the ids inside the models' references."""
    return json.loads(_REFERENCE.sub(lambda found: f"IPY_MODEL_{renamed.get(found[1], found[1])}", json.dumps(state)))
