"""From an operator's name to the code that runs: PyTorch's dispatcher, and what a profile shows of it.

Every ATen operator has a table: for each *dispatch key* (a device, a layout, or a layer such as autograd) the kernel
that is registered. A call looks at the keys of its arguments and takes the first key that has real work to do.

Source:
    E. Yang, "Let's talk about the PyTorch dispatcher", 2020. The tables come from
    ``torch._C._dispatch_dump_table``, which PyTorch uses in its own tests; it is not a public interface.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from helpers.errors import CourseError
from helpers.graph.tables import html_table
from helpers.quiet import quiet_stderr

COMMON_KEYS = ("AutocastCPU", "AutogradCPU", "CPU", "QuantizedCPU", "SparseCPU", "SparseCsrCPU", "Meta")
"""Keys that every build of PyTorch has, in the order in which the dispatcher asks them."""

_ROW = re.compile(r"(?P<key>\w+): (?P<skip>fallthrough )?registered at (?P<file>[^\[]+):\d+ \[(?P<how>[\w ]+)\]")
_FUSED = re.compile(r"(cpp|triton)\w*_fused_")
_REGION = "Torch-Compiled Region"
_NO_WORK = frozenset({"aten::resolve_conj", "aten::resolve_neg", "aten::detach_", "aten::set_", "aten::_unsafe_view"})
"""Operators that have a kernel and touch no element in ordinary use."""
_READ = "aten::_local_scalar_dense"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One row of an operator's dispatch table."""

    operator: str
    """For example ``aten::mm``."""
    key: str
    """The dispatch key, for example ``SparseCsrCPU``."""
    how: str
    """How it came there: ``kernel`` is written for this key, ``math kernel`` calls other operators, and so on."""
    file: str
    """Name of the source file that registers it, inside PyTorch."""
    falls_through: bool
    """Whether the dispatcher skips the key, because nothing is to be done there."""


class Table(tuple[Kernel, ...]):
    """Rows of a dispatch table, shown as a table in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        cells = ((k.key, "skipped" if k.falls_through else k.how, "" if k.falls_through else k.file) for k in self)
        operator = next((k.operator for k in self), "")
        return html_table((f"{operator}: dispatch key", "what is registered", "in PyTorch's file"), cells)

    def __repr__(self) -> str:
        rows = (f"{k.operator} {k.key}: {'skipped' if k.falls_through else f'{k.how}, {k.file}'}" for k in self)
        return "\n".join(rows)


def registered_kernels(operator: str, *, keys: Sequence[str] | None = COMMON_KEYS) -> Table:
    """Read an operator's dispatch table.

    Args:
        operator: Its name, with or without ``aten::``; an overload is written as in ``add.Tensor``.
        keys: Which rows to return, in this order; ``None`` returns every row.

    Returns:
        One :class:`Kernel` for each key that the table has.

    Raises:
        CourseError: If there is no such operator, or none of the keys is in its table.
    """
    rows = _table(operator if "::" in operator else f"aten::{operator}")
    if keys is None:
        return Table(rows.values())
    found = Table(rows[key] for key in keys if key in rows)
    if not found:
        raise CourseError(f"{operator!r} has no kernel for the keys {list(keys)}; its table has {sorted(rows)}.")
    return found


@functools.lru_cache(maxsize=512)
def _table(operator: str) -> dict[str, Kernel]:
    try:
        text = torch._C._dispatch_dump_table(operator)
    except RuntimeError:  # a name that cannot be one; an unknown name has an empty table
        text = ""
    rows = [row for row in map(_ROW.match, text.splitlines()) if row]
    if not rows:
        raise CourseError(f"PyTorch has no operator {operator!r}; expected a name such as 'aten::mm'.")
    return {row["key"]: _kernel(operator, row) for row in rows}


def _kernel(operator: str, row: re.Match[str]) -> Kernel:
    return Kernel(
        operator=operator,
        key=row["key"],
        how=row["how"],
        file=re.sub(r"_\d+(?=\.cpp$)", "", re.split(r"[/\\]", row["file"])[-1]),  # generated in numbered shards
        falls_through=bool(row["skip"]),
    )


class Route(Table):
    """The rows that a call visits, in order; the last one does the work."""

    __slots__ = ()

    @property
    def chosen(self) -> Kernel:
        """The kernel that computes, or that calls other operators (``math kernel``)."""
        return self[-1]

    @property
    def path(self) -> str:
        """The keys visited, in order, for example ``AutogradCPU → CPU``."""
        return " → ".join(kernel.key for kernel in self)


def route(operator: str, *tensors: torch.Tensor) -> Route:
    """Follow a call through the dispatcher without making it.

    Args:
        operator: Its name, with or without ``aten::``.
        *tensors: The tensor arguments. Only their device, dtype class, layout and autograd state count.

    Returns:
        The kernels visited, in order, without the keys that fall through. It stops at the backend's kernel, or at a
        ``math kernel``, which calls other operators: those go through the dispatcher anew.

    Raises:
        CourseError: If there is no tensor, no such operator, or no kernel for these tensors.
    """
    if not tensors:
        raise CourseError("route() needs at least one tensor: its device and layout choose the kernel.")
    rows = _table(operator if "::" in operator else f"aten::{operator}")
    visited = []
    for key in _keys(tensors):
        kernel = rows.get(key)
        if kernel is None or kernel.falls_through:
            continue
        visited.append(kernel)
        if not key.startswith(("Auto", "ADInplace")) or kernel.how == "math kernel":
            return Route(visited)
    described = [f"{t.device.type} {t.dtype} {t.layout}" for t in tensors]
    raise CourseError(f"{operator!r} has no kernel for {described}. See registered_kernels({operator!r}, keys=None).")


def _keys(tensors: Iterable[torch.Tensor]) -> Iterator[str]:
    """Yield the names of the dispatch keys that this thread would ask for these tensors, the first first."""
    mask: Any = torch._C._dispatch_tls_local_include_set()
    for tensor in tensors:
        mask = mask | torch._C._dispatch_keys(tensor)
    mask = mask - torch._C._dispatch_tls_local_exclude_set()
    while (key := mask.highestPriorityTypeId()) != torch._C.DispatchKey.Undefined:
        yield key.name
        mask = mask.remove(key)


class StepKind(StrEnum):
    """What happened at one point of a call."""

    KERNEL = "kernel"
    """An operator's own kernel, or one that the compiler made of several operators."""
    READ = "read"
    """A value was read back into Python, which has to wait for the device."""
    REGION = "region"
    """A compiled region was entered: its guards were checked before."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that a call did, as the profiler saw it."""

    kind: StepKind
    name: str

    @property
    def fused(self) -> bool:
        """Whether the compiler made this kernel of one or more operators."""
        return bool(_FUSED.search(self.name))


def steps(function: Callable[..., object], *args: object) -> tuple[Step, ...]:
    """Call a function once under the profiler and list the kernels it ran, in order.

    An operator counts where the dispatcher has a kernel of its own for the CPU; what that kernel calls inside is not
    counted again, and neither are views and allocations. Kernels that ``torch.compile`` made appear where the function
    was compiled with ``options={"cpp.enable_kernel_profile": True}``; without it the region is empty on a CPU.

    Args:
        function: What to call; call it before if compiling should not be part of the picture.
        *args: Its arguments.

    Returns:
        Kernels, reads and regions, in the order in which they happened.
    """
    with quiet_stderr(), profile(activities=[ProfilerActivity.CPU], acc_events=True) as record:
        function(*args)
    roots = [event for event in record.events() or [] if event.cpu_parent is None]
    return tuple(step for event in sorted(roots, key=_start) for step in _walk(event))


def _start(event: Any) -> float:
    return float(event.time_range.start)


def _walk(event: Any) -> Iterator[Step]:
    """Yield what an event of the profile and those inside it stand for."""
    name = str(event.name)
    if name == _READ:
        yield Step(kind=StepKind.READ, name=name)
        return
    if _FUSED.search(name):
        yield Step(kind=StepKind.KERNEL, name=name)
        return
    if name.startswith(_REGION):
        yield Step(kind=StepKind.REGION, name=name)
    how = _work(name)
    if how == "kernel":
        yield Step(kind=StepKind.KERNEL, name=name)
        return
    inside = [step for child in sorted(event.cpu_children, key=_start) for step in _walk(child)]
    if not inside and how == "default backend kernel":
        yield Step(kind=StepKind.KERNEL, name=name)
    yield from inside


@functools.lru_cache(maxsize=512)
def _work(name: str) -> str:
    """Return how an operator is registered for the CPU, or nothing where it only makes a view or takes memory."""
    schemas = torch._C._jit_get_schemas_for_operator(name) if name.startswith("aten::") else []
    views = any(r.alias_info and not r.alias_info.is_write for schema in schemas[:1] for r in schema.returns)
    if not schemas or "empty" in name or name in _NO_WORK:
        return ""
    row = _first_row(name, [schema.overload_name for schema in schemas])
    if views and row != "math kernel":
        return ""
    return row


def _first_row(name: str, overloads: Sequence[str]) -> str:
    """Return the strongest registration among an operator's overloads; a profile does not say which one ran."""
    found = {_cpu_row(f"{name}.{overload}" if overload else name) for overload in overloads}
    return next((how for how in ("kernel", "default backend kernel", "math kernel") if how in found), "")


def _cpu_row(operator: str) -> str:
    try:
        row = _table(operator).get("CPU")
    except CourseError:  # an operator of TorchScript, which the dispatcher does not know
        return ""
    return row.how if row else ""
