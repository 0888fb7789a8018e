"""Count what ``torch.compile`` does with a function: where it breaks the graph, and when it compiles again."""

from __future__ import annotations

import contextlib
import html
import io
import linecache
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.utils import get_compilation_metrics
from torch._logging._internal import set_logs

from helpers.errors import CourseError
from helpers.graph.tables import html_table

_IN_WORDS = {"generic_jump": "a branch on the value of a tensor"}
"""Plain words for reasons that are names of the compiler's own functions."""

_NOISY = ("torch._dynamo", "torch.utils.cpp_extension", "torch.fx.experimental.symbolic_shapes")
"""Loggers that repeat, with times and process numbers, what the results here say."""


@dataclass(frozen=True, kw_only=True)
class Break:
    """One place where the compiler had to hand back to Python."""

    reason: str
    """The compiler's own first sentence."""
    function: str
    """The function that holds the line."""
    line: int
    """Line number in its file."""
    source: str
    """The line itself."""


@dataclass(frozen=True, kw_only=True)
class GraphBreaks:
    """What one call of a function was cut into."""

    graphs: int
    """Pieces that were compiled."""
    breaks: tuple[Break, ...]
    """Why there is more than one piece, in the order in which the call meets them."""

    def __repr__(self) -> str:
        head = f"{self.graphs} graph(s), {len(self.breaks)} graph break(s)"
        return "\n".join([head, *(f"  {b.source!r} in {b.function}: {b.reason}" for b in self.breaks)])

    def _repr_html_(self) -> str:
        rows = ((b.function, b.source, b.reason) for b in self.breaks)
        table = html_table(("function", "line", "why Python had to take over"), rows) if self.breaks else ""
        return f"<p>{self.graphs} graph(s), {len(self.breaks)} graph break(s)</p>{table}"


def count_graph_breaks(function: Callable[..., object], *args: object, **kwargs: object) -> GraphBreaks:
    """Call a function once under the compiler's front end and say where its graph breaks.

    No code is generated, so it takes a fraction of a second. It does call the function, side effects included, and it
    forgets what ``torch.compile`` had compiled before in this process (``torch._dynamo.explain`` resets it).

    Args:
        function: A function or module that is not yet compiled.
        *args: Its arguments for the call.
        **kwargs: Its keyword arguments.

    Returns:
        The number of graphs and each break with its line.

    Raises:
        CourseError: If the function is compiled already.
    """
    _refuse_compiled(function, "count_graph_breaks")
    with quiet_compiler():
        explained = torch._dynamo.explain(function)(*args, **kwargs)
    reasons = [reason for reason in explained.break_reasons if reason.graph_break]
    return GraphBreaks(graphs=explained.graph_count, breaks=tuple(_break(reason) for reason in reasons))


def _break(reason: Any) -> Break:
    frame = reason.user_stack[-1]
    source = linecache.getline(frame.filename, frame.lineno).strip() or (frame.line or "").strip()
    name = re.sub(r"^torch_dynamo_resume_in_(.+)_at_\d+$", r"\1", frame.name)
    first = reason.reason.strip().splitlines()[0]
    first = _IN_WORDS.get(first.split(" ")[0], first)
    return Break(reason=first, function=name, line=frame.lineno, source=source)


@dataclass(frozen=True, kw_only=True)
class Recompile:
    """One compilation that a call set off although the function had been compiled before."""

    call: int
    """Which call it was, counted from 0."""
    guard: str
    """The condition on the arguments that failed, in the compiler's words."""


@dataclass(frozen=True, kw_only=True)
class Recompiles:
    """What a series of calls cost in compilations."""

    calls: int
    """Calls made."""
    compilations: int
    """Compilations, the first included."""
    recompiles: tuple[Recompile, ...]
    """Those after the first, with the guard that failed."""
    gave_up: bool
    """Whether the compiler reached its limit of versions of one function and went back to eager."""

    def __repr__(self) -> str:
        head = f"{self.calls} calls, {self.compilations} compilation(s), {len(self.recompiles)} recompile(s)"
        tail = ["  limit reached: later calls run eagerly"] if self.gave_up else []
        return "\n".join([head, *(f"  call {r.call}: {r.guard}" for r in self.recompiles), *tail])

    def _repr_html_(self) -> str:
        head, *_ = repr(self).splitlines()
        table = html_table(("call", "guard that failed"), ((r.call, r.guard) for r in self.recompiles))
        limit = "<p>Limit of versions reached: later calls run eagerly.</p>" if self.gave_up else ""
        return f"<p>{html.escape(head)}</p>{table if self.recompiles else ''}{limit}"


def count_recompiles(
    function: Callable[..., object], calls: Sequence[tuple[object, ...]], *, dynamic: bool | None = None
) -> Recompiles:
    """Compile a function, make the calls, and say which of them compiled it again and why.

    The guards are those of ``torch.compile``; the graphs are run without code generation, so counting is cheap. What
    was compiled before in this process is forgotten.

    Args:
        function: A function or module that is not yet compiled.
        calls: The arguments of each call, a tuple each.
        dynamic: As in ``torch.compile``: None learns from the second size, False compiles each size anew, True starts
            with sizes left open.

    Returns:
        Counts and failed guards.

    Raises:
        CourseError: If the function is compiled already, or ``calls`` is empty or holds something other than tuples.
    """
    _refuse_compiled(function, "count_recompiles")
    if not calls or not all(isinstance(call, tuple) for call in calls):
        raise CourseError(
            f"calls is {calls!r:.80}; expected one tuple of arguments for each call, such as [(x,), (y,)]."
        )
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=dynamic)
    # PyTorch keeps the last 64 entries. Held here, an entry that it drops cannot lend its id to a new one.
    seen = {id(entry): entry for entry in get_compilation_metrics()}
    found: list[tuple[int, str]] = []
    with quiet_compiler(), _limit_notices() as notices:
        for index, call in enumerate(calls):
            compiled(*call)
            fresh = [entry for entry in get_compilation_metrics() if id(entry) not in seen]
            seen |= {id(entry): entry for entry in fresh}
            found.extend((index, entry.recompile_reason or "") for entry in fresh if entry.fail_type is None)
    torch._dynamo.reset()  # or the function would keep the versions, and its limit, of this count
    again = tuple(Recompile(call=index, guard=_guard(reason)) for index, reason in found if reason)
    return Recompiles(calls=len(calls), compilations=len(found), recompiles=again, gave_up=bool(notices))


def recompile_log(function: Callable[..., object], calls: Sequence[tuple[object, ...]]) -> str:
    """Make the calls and return what ``TORCH_LOGS=recompiles`` would have written to the job's log.

    Args:
        function: A function or module that is not yet compiled.
        calls: The arguments of each call, a tuple each.

    Returns:
        The lines, without the leading time and process, and with file names instead of paths.
    """
    with contextlib.redirect_stderr(io.StringIO()) as text:
        set_logs(recompiles=True)
        try:
            count_recompiles(function, calls)
        finally:
            set_logs()
    lines = (re.sub(r"^[A-Z]\d{4} .*?\.py:\d+\] ", "", line) for line in text.getvalue().splitlines())
    return "\n".join(re.sub(r"\S*[/\\](?:ipykernel_\d+[/\\])?(?=[^/\\\s]+:\d+)", "", line) for line in lines)


def why_not_exported(module: torch.nn.Module, *args: object) -> str | None:
    """Try ``torch.export`` and return the first line of its refusal.

    Args:
        module: What to export.
        *args: Example arguments.

    Returns:
        The error's name and first line, or None where the export works.
    """
    with quiet_compiler(), contextlib.redirect_stderr(io.StringIO()):  # it also prints the half-finished graph
        try:
            torch.export.export(module, args)
        except Exception as error:
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return None


def _guard(reason: str) -> str:
    """Keep the condition of a recompile reason and drop the version's number, the source comment and the stack."""
    line = reason.strip().splitlines()[0]
    line = re.sub(r"^\d+/\d+: ", "", line)
    return re.sub(r"\s+#.*$", "", line).strip()


@contextmanager
def _limit_notices() -> Iterator[list[str]]:
    """Collect the compiler's messages that it gave up on a function."""
    notices: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if "recompile_limit" in message:
                notices.append(message)

    logger, handler = logging.getLogger("torch._dynamo.convert_frame"), Collector()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield notices
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def quiet_compiler() -> Iterator[None]:
    """Hold back the compiler's warnings for a block; its errors still pass.

    They carry times and process numbers, so no two runs print the same.
    """
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _refuse_compiled(function: Callable[..., object], caller: str) -> None:
    if hasattr(function, "_torchdynamo_orig_callable") or isinstance(function, torch._dynamo.OptimizedModule):
        raise CourseError(f"{caller}() got a function that is compiled already; give the function itself.")
