"""Stop in a debugger without a person at the keyboard, so that a notebook can show it and still run by itself."""

from __future__ import annotations

import io
import pdb
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class _Scripted(pdb.Pdb):
    """Python's own debugger, fed from a list; it prints each command before its answer."""

    def __init__(self, commands: tuple[str, ...]) -> None:
        script = io.StringIO("\n".join([*commands, "continue", ""]))
        super().__init__(stdin=script, stdout=sys.stdout, nosigint=True, readrc=False)
        self.prompt = ""

    def precmd(self, line: str) -> str:
        print(f"(Pdb) {line}", file=self.stdout)
        return super().precmd(line)

    def print_stack_entry(self, frame_lineno: tuple[FrameType, int], prompt_prefix: str = "") -> None:
        """Say where it stopped, without the path of the file, which differs from run to run."""
        frame, _ = frame_lineno
        line = frame.f_lineno - frame.f_code.co_firstlineno
        print(f"> stopped in {frame.f_code.co_qualname}, {line} lines below its first", file=self.stdout)


@contextmanager
def scripted_debugger(*commands: str) -> Iterator[None]:
    """Let ``breakpoint()`` stop in pdb, give it these commands, then continue.

    The commands are pdb's own (``p x.shape``, ``where``, ``up`` …). The program really stops: the commands see the
    variables of the frame that called ``breakpoint()`` and may change them.

    Args:
        *commands: What would be typed, without the final ``continue``.

    Yields:
        Nothing; the former ``sys.breakpointhook`` comes back at the end of the block.
    """

    def stop(*_args: Any, **_kwargs: Any) -> None:
        _Scripted(commands).set_trace(sys._getframe(1))

    before = sys.breakpointhook
    sys.breakpointhook = stop
    try:
        yield
    finally:
        sys.breakpointhook = before
