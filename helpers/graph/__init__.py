"""Look at graphs and count what they cost: pictures, the dispatcher, breaks, recompiles and kernels.

Pictures come from :func:`draw_autograd` and :func:`draw_export` (and :func:`helpers.tf.graph.draw_function`), all
through :mod:`helpers.graph.layout`. What eager PyTorch does with one call is in :mod:`helpers.graph.dispatch`, what a
compiled function does in :mod:`helpers.graph.count` and
:mod:`helpers.graph.cost`.
"""

from helpers.graph.cost import ColdStart, compile_cold
from helpers.graph.count import (
    GraphBreaks,
    Recompiles,
    count_graph_breaks,
    count_recompiles,
    quiet_compiler,
    recompile_log,
    why_not_exported,
)
from helpers.graph.dispatch import Kernel, Route, Step, registered_kernels, route, steps
from helpers.graph.layout import Diagram, Drawing, Edge, Kind, Node, draw
from helpers.graph.pictures import draw_autograd, draw_export
from helpers.graph.stop import scripted_debugger

__all__ = [
    "ColdStart",
    "Diagram",
    "Drawing",
    "Edge",
    "GraphBreaks",
    "Kernel",
    "Kind",
    "Node",
    "Recompiles",
    "Route",
    "Step",
    "compile_cold",
    "count_graph_breaks",
    "count_recompiles",
    "draw",
    "draw_autograd",
    "draw_export",
    "quiet_compiler",
    "recompile_log",
    "registered_kernels",
    "route",
    "scripted_debugger",
    "steps",
    "why_not_exported",
]
