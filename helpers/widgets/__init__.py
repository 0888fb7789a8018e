"""Things to operate in a notebook: each is a pure function for the picture, with a control around it.

The picture function is what the tests check and what the static page shows; the widget only lets the
reader choose which picture to look at. Nothing here needs a running kernel once it is displayed, so the
widgets also work on the published pages.
"""

from helpers.widgets.frames import Frame, frames

__all__ = ["Frame", "frames"]
