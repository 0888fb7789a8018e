"""PyTorch's two graphs as pictures: the one that ``backward`` walks, and the one that ``torch.export`` writes down."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from helpers.errors import CourseError
from helpers.graph.layout import MAX_NODES, Diagram, Drawing, Kind, Node, arrows, draw


def draw_autograd(
    result: torch.Tensor, *, names: Mapping[str, torch.Tensor] | nn.Module | None = None, max_nodes: int = MAX_NODES
) -> Drawing:
    """Draw the graph that ``result.backward()`` would walk, from the result down to the leaves.

    Args:
        result: A tensor that was computed from one that requires a gradient; any shape.
        names: What to call the leaves: a module, or a mapping of names to tensors. Others are called ``leaf``.
        max_nodes: Boxes at most; see :func:`helpers.graph.layout.draw`.

    Returns:
        The picture. A box is a backward function or a leaf whose ``.grad`` will be filled.

    Raises:
        CourseError: If the tensor has no graph behind it.
    """
    if result.grad_fn is None:
        raise CourseError(
            f"this tensor of shape {list(result.shape)} has no graph: grad_fn is None and requires_grad is "
            f"{result.requires_grad}. Compute it from a tensor that requires a gradient, outside torch.no_grad()."
        )
    known = dict(names.named_parameters()) if isinstance(names, nn.Module) else dict(names or {})
    diagram = _autograd_diagram(result, {id(tensor): name for name, tensor in known.items()})
    leaves = sum(node.kind is Kind.PARAMETER for node in diagram.nodes)
    alt = (
        f"The autograd graph of a result of shape {list(result.shape)}: "
        f"{_count(len(diagram.nodes) - leaves - 1, 'backward function')} lead to {_count(leaves, 'leaf', 'leaves')}."
    )
    return draw(diagram, alt=alt, max_nodes=max_nodes)


def _autograd_diagram(result: torch.Tensor, names: Mapping[int, str]) -> Diagram:
    """Walk the backward functions breadth first; the order of a function's inputs makes the result stable."""
    nodes = [Node(key="result", label=f"result\n{list(result.shape)}", kind=Kind.OUTPUT)]
    pairs: list[tuple[str, str]] = []
    seen: dict[Any, str] = {}  # holds the functions, so that no id is used twice while we walk
    queue = deque([("result", result.grad_fn)])
    while queue:
        parent, function = queue.popleft()
        if function is None:  # an input that needs no gradient
            continue
        if function not in seen:
            seen[function] = f"f{len(seen)}"
            nodes.append(_autograd_node(function, seen[function], names))
            queue.extend((seen[function], following) for following, _ in function.next_functions)
        pairs.append((parent, seen[function]))
    return Diagram(nodes=tuple(nodes), edges=arrows(pairs))


def _autograd_node(function: Any, key: str, names: Mapping[int, str]) -> Node:
    """Return the box of a backward function; ``AccumulateGrad`` is shown as the leaf that it fills."""
    leaf = getattr(function, "variable", None)
    if leaf is None:
        return Node(key=key, label=str(function.name()).rpartition("::")[2])
    return Node(key=key, label=f"{names.get(id(leaf), 'leaf')}.grad\n{list(leaf.shape)}", kind=Kind.PARAMETER)


def draw_export(program: torch.export.ExportedProgram | torch.fx.GraphModule, *, max_nodes: int = MAX_NODES) -> Drawing:
    """Draw the graph of an exported program, from its inputs to its outputs.

    Args:
        program: What ``torch.export.export`` returned, or any ``torch.fx`` graph module.
        max_nodes: Boxes at most; see :func:`helpers.graph.layout.draw`.

    Returns:
        The picture. Boxes are inputs, parameters (where the program says so), ATen operators and the output.
    """
    held = _held_names(program)
    nodes = tuple(_fx_node(node, held) for node in program.graph.nodes)
    edges = arrows([(source.name, node.name) for node in program.graph.nodes for source in node.all_input_nodes])
    operations = sum(node.kind in {Kind.OPERATION, Kind.CONTROL} for node in nodes)
    alt = f"An exported graph: {_count(operations, 'operation')} from {_count(len(nodes) - operations - 1, 'input')}."
    return draw(Diagram(nodes=nodes, edges=edges), alt=alt, max_nodes=max_nodes)


def _held_names(program: torch.export.ExportedProgram | torch.fx.GraphModule) -> dict[str, str]:
    """Map graph inputs that are the program's own tensors to the names that the module gives them."""
    if not isinstance(program, torch.export.ExportedProgram):
        return {}
    signature = program.graph_signature
    return {**signature.inputs_to_parameters, **signature.inputs_to_buffers}


def _fx_node(node: torch.fx.Node, held: Mapping[str, str]) -> Node:
    shape = _shape(node.meta.get("val"))
    if node.op == "placeholder":
        kind = Kind.PARAMETER if node.name in held else Kind.INPUT
        return Node(key=node.name, label=held.get(node.name, node.name) + shape, kind=kind)
    if node.op == "get_attr":
        return Node(key=node.name, label=str(node.target), kind=Kind.PARAMETER)
    if node.op == "output":
        return Node(key=node.name, label="output", kind=Kind.OUTPUT)
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    kind = Kind.CONTROL if name in {"cond", "while_loop"} else Kind.OPERATION
    return Node(key=node.name, label=name + shape, kind=kind)


def _shape(value: object) -> str:
    """Return a tensor's shape as a second line of a label, with ``?`` for a size that is left open."""
    if not isinstance(value, torch.Tensor):
        return ""
    return "\n[" + ", ".join(str(size) if str(size).isdigit() else "?" for size in value.shape) + "]"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
