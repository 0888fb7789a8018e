"""The TensorFlow checks of lab 02: the same values, and counts of traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from helpers.labs.judge import shown
from helpers.labs.tasks import Verdict, correct, incorrect
from helpers.tf import tensorflow
from helpers.tf.graph import count_retraces

_CALLS = 5


def make_scaled(answer: Callable[..., Any]) -> Verdict:
    """Check that ``make_scaled()`` returns a ``tf.function`` which is traced once for all sizes and factors."""
    tf = tensorflow()
    function = answer()
    if not _is_graph_function(function):
        return incorrect("This runs eagerly, operation by operation.", saw=shown(function), expected="a `tf.function`")
    calls = [(tf.ones(size), factor) for size, factor in ((3, 0.1), (3, 0.2), (4, 0.3), (5, 0.4))]
    try:
        counted = count_retraces(function, calls)
    except (TypeError, ValueError) as error:
        return incorrect(
            "The signature refuses arguments that the old function took: leave the size open with `None`, and use "
            "`tf.float32`.",
            saw=f"`{type(error).__name__}` for vectors of 3 to 5 numbers and a Python float",
            expected="every call answered",
        )
    for x, factor in calls:
        value = function(x, factor)
        if value is None or not np.allclose(value, x.numpy() * factor):
            return incorrect(
                "The result is not `x` times `factor`; a factor may be frozen in the trace.",
                saw=shown(value) if value is None else f"{float(value[0]):.3g} for 1 × {factor}",
                expected=f"{factor:.3g}",
            )
    if counted.count > 1:
        return incorrect(
            "The values are right, but the body is traced again for new Python numbers or sizes.",
            saw=f"{counted.count} traces in {counted.calls} calls; the last for {counted.traces[-1].signature}",
            expected="1 trace",
        )
    return correct(f"{counted.calls} calls with other sizes and factors, 1 trace.")


def make_counted(answer: Callable[..., Any]) -> Verdict:
    """Check that ``make_counted()`` returns a ``tf.function`` and the variable that counts its calls."""
    tf = tensorflow()
    pair = answer()
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return incorrect("Return the function and the counter.", saw=shown(pair), expected="a pair `(doubled, calls)`")
    function, calls = pair
    if not _is_graph_function(function):
        return incorrect(
            "This counts, but it runs eagerly: nothing was made a graph.",
            saw=shown(function),
            expected="a `tf.function`",
        )
    x = tf.constant([1.0, 2.0])
    counted = count_retraces(function, [(x,)] * _CALLS)
    if not isinstance(calls, tf.Variable):
        return incorrect(
            "The counter is a Python value: the graph cannot change it, and tracing changed it at most once.",
            saw=f"{shown(calls)} after {_CALLS} calls",
            expected=f"a `tf.Variable` that holds {_CALLS}",
        )
    if int(calls) != _CALLS:
        return incorrect(
            "The counter does not count calls: is it changed inside the function, with `assign_add`?",
            saw=f"{int(calls)} after {_CALLS} calls",
            expected=f"{_CALLS}",
        )
    if not np.allclose(function(x), [2.0, 4.0]):
        return incorrect("The function must still double its argument.", saw=shown(function(x)), expected="[2, 4]")
    if counted.count > 1:
        return incorrect("Counting made it trace again.", saw=f"{counted.count} traces", expected="1 trace")
    return correct(f"{_CALLS} calls counted by the graph itself, 1 trace.")


def _is_graph_function(function: Any) -> bool:
    return hasattr(function, "experimental_get_tracing_count")
