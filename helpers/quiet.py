"""Hold back what native libraries print where no logging option of Python's can reach it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STDERR_FD = 2


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hold back what native code writes to file descriptor 2.

    The text is dropped when the block succeeds and written to ``sys.stderr`` when it raises. The descriptor is
    restored in both cases. Python's own warnings pass where ``sys.stderr`` is not that descriptor, as in Jupyter.
    Where there is no descriptor 2 (a daemon that closed it), nothing is redirected.

    Yields:
        Nothing; the redirection lasts for the block.
    """
    try:
        saved = os.dup(_STDERR_FD)
    except OSError:
        yield
        return
    with tempfile.TemporaryFile() as held:
        _flush(sys.stderr)
        os.dup2(held.fileno(), _STDERR_FD)
        failed = True
        try:
            yield
            failed = False
        finally:
            _flush(sys.stderr)  # before the descriptor moves back, or the text would escape
            os.dup2(saved, _STDERR_FD)
            os.close(saved)
            if failed:
                held.seek(0)
                sys.stderr.write(held.read().decode(errors="replace"))


def _flush(stream: Any) -> None:
    if stream is not None:  # pythonw and some daemons have no sys.stderr
        stream.flush()
