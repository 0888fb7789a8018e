"""Look at TensorFlow's graphs: how often a ``tf.function`` was traced, and what the trace holds.

The mirror of :mod:`helpers.graph`; pictures go through the same layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.errors import CourseError
from helpers.graph.layout import MAX_NODES, Diagram, Drawing, Edge, Kind, Node, draw
from helpers.graph.tables import html_table
from helpers.tf import tensorflow

_KINDS = {
    "Placeholder": Kind.INPUT,
    "Const": Kind.CONSTANT,
    "If": Kind.CONTROL,
    "StatelessIf": Kind.CONTROL,
    "While": Kind.CONTROL,
    "StatelessWhile": Kind.CONTROL,
}


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One tracing: the Python body was run to write a new graph."""

    call: int
    """Which call set it off, counted from 0."""
    signature: str
    """The arguments that the new graph is for."""


@dataclass(frozen=True, kw_only=True)
class Retraces:
    """What a series of calls cost in tracings."""

    calls: int
    """Calls made."""
    traces: tuple[Trace, ...]
    """The tracings, the first included if the function had not been called before."""

    @property
    def count(self) -> int:
        """Tracings during these calls."""
        return len(self.traces)

    def __repr__(self) -> str:
        rows = (f"  call {trace.call}: {trace.signature}" for trace in self.traces)
        return "\n".join([f"{self.calls} calls, {self.count} tracing(s)", *rows])

    def _repr_html_(self) -> str:
        table = html_table(("call", "traced for"), ((trace.call, trace.signature) for trace in self.traces))
        return f"<p>{self.calls} calls, {self.count} tracing(s)</p>{table if self.traces else ''}"


def count_retraces(function: Any, calls: Sequence[tuple[object, ...]]) -> Retraces:
    """Make the calls and say which of them traced the function and for which arguments.

    Args:
        function: What ``tf.function`` returned. Earlier tracings are not counted.
        calls: The arguments of each call, a tuple each.

    Returns:
        Counts and signatures.

    Raises:
        CourseError: If it is not a ``tf.function``, or ``calls`` is empty or holds something other than tuples.
    """
    if not hasattr(function, "experimental_get_tracing_count"):
        raise CourseError(
            f"count_retraces() got {function!r:.80}, which is not a tf.function; wrap it: tf.function(your_function)."
        )
    if not calls or not all(isinstance(call, tuple) for call in calls):
        raise CourseError(f"calls is {calls!r:.80}; expected one tuple of arguments for each call: [(x,), (y,)].")
    traces: list[Trace] = []
    for index, call in enumerate(calls):
        before = function.experimental_get_tracing_count()
        function(*call)
        fresh = function.experimental_get_tracing_count() - before
        traces.extend([Trace(call=index, signature=_signature(call))] * fresh)
    return Retraces(calls=len(calls), traces=tuple(traces))


def _signature(call: Iterable[object]) -> str:
    """Describe arguments as tracing sees them: tensors by type and shape, Python values by themselves."""
    tf = tensorflow()
    parts = (
        f"{'Variable' if isinstance(value, tf.Variable) else 'Tensor'} {value.dtype.name} {_shape(value.shape)}"
        if isinstance(value, tf.Tensor | tf.Variable)
        else f"Python {type(value).__name__} {value!r:.40}"
        for value in call
    )
    return ", ".join(parts)


def _shape(shape: Any) -> str:
    """Return a shape as TensorFlow knows it, ``?`` where a size or the rank is open."""
    if shape.rank is None:
        return "[…]"
    return "[" + ", ".join("?" if size is None else str(size) for size in shape.as_list()) + "]"


def draw_function(concrete: Any, *, max_nodes: int = MAX_NODES) -> Drawing:
    """Draw the graph of one tracing, from its inputs to its outputs.

    Args:
        concrete: What ``function.get_concrete_function(...)`` returned.
        max_nodes: Boxes at most; see :func:`helpers.graph.layout.draw`.

    Returns:
        The picture. Boxes are inputs, captured variables, TensorFlow's operations and outputs; dashed arrows carry
        order and no data. The ``Identity`` operations that tracing puts around results are left out.

    Raises:
        CourseError: If it is not a concrete function.
    """
    if not hasattr(concrete, "structured_input_signature"):
        raise CourseError(
            f"draw_function() got {concrete!r:.80}; expected one tracing of a tf.function: "
            "your_function.get_concrete_function(example_arguments)."
        )
    diagram = _diagram(concrete.graph)
    operations = sum(node.kind in {Kind.OPERATION, Kind.CONTROL} for node in diagram.nodes)
    inputs = sum(node.kind is Kind.INPUT for node in diagram.nodes)
    alt = f"A traced TensorFlow graph: {operations} operation(s) from {inputs} input(s)."
    return draw(diagram, alt=alt, max_nodes=max_nodes)


def _diagram(graph: Any) -> Diagram:
    """Take operations in the order of tracing, which is stable, and look through ``Identity`` and ``NoOp``."""
    captured = {tensor.op.name for tensor in graph.internal_captures}
    kept = [operation for operation in graph.get_operations() if operation.type not in {"Identity", "NoOp"}]
    nodes = [_node(operation, captured) for operation in kept]
    edges = [
        Edge(start=source, end=operation.name, dashed=dashed)
        for operation in kept
        for source, dashed in _sources(operation)
    ]
    for index, output in enumerate(graph.outputs):
        source = _behind_identity(output.op)
        nodes.append(Node(key=f"output {index}", label=f"output\n{_shape(output.shape)}", kind=Kind.OUTPUT))
        edges.append(Edge(start=source.name, end=f"output {index}"))
    return Diagram(nodes=tuple(nodes), edges=tuple(dict.fromkeys(edges)))


def _node(operation: Any, captured: set[str]) -> Node:
    shape = f"\n{_shape(operation.outputs[0].shape)}" if operation.outputs else ""
    if operation.name in captured:
        return Node(key=operation.name, label=f"captured{shape}", kind=Kind.PARAMETER)
    kind = _KINDS.get(operation.type, Kind.OPERATION)
    label = operation.name if kind is Kind.INPUT else operation.type
    return Node(key=operation.name, label=label + shape, kind=kind)


def _sources(operation: Any) -> list[tuple[str, bool]]:
    """Return what an operation waits for: data first, then order alone."""
    data = [(_behind_identity(tensor.op).name, False) for tensor in operation.inputs]
    order = [(_behind_identity(before).name, True) for before in operation.control_inputs if before.type != "NoOp"]
    return data + order


def _behind_identity(operation: Any) -> Any:
    while operation.type == "Identity" and len(operation.inputs):
        operation = operation.inputs[0].op
    return operation
