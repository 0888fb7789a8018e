"""The settings of the process that a check relies on: as they should be while it runs, as they were after it.

A learner's cell may have switched PyTorch to float64, and an answer may change the folder or the number of
threads. Neither may decide what this check says, or what the next one does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def usual_surroundings() -> Iterator[None]:
    """Give the block the settings of a fresh process, and put back what was there when it ends.

    What is meant: the working folder, standard output, warnings that are errors, the recursion limit, and of each
    framework that is imported already: data types, gradients, devices, determinism, threads, eager functions.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stdout))
        stack.enter_context(_warnings_that_warn())
        _keep(stack, os.getcwd, os.chdir)
        _keep(stack, sys.getrecursionlimit, sys.setrecursionlimit)
        if "torch" in sys.modules:
            _keep_torch(stack)
        if "tensorflow" in sys.modules:
            _keep_tensorflow(stack, sys.modules["tensorflow"])
        yield


_AS_FOUND = object()


def _keep(
    stack: contextlib.ExitStack, read: Callable[[], Any], put: Callable[[Any], object], usual: Any = _AS_FOUND
) -> None:
    """Give a setting its usual value, where there is one, and at the end the value that it has now."""
    found = read()
    stack.callback(lambda: None if read() == found else put(found))
    if usual is not _AS_FOUND and found != usual:
        put(usual)


@contextlib.contextmanager
def _warnings_that_warn() -> Iterator[None]:
    """Set filters aside that turn warnings into errors. Others stay, and so do those that an import adds."""
    found = list(warnings.filters)
    warnings.filters[:] = [each for each in found if each[0] != "error"]  # type: ignore[index]
    try:
        yield
    finally:
        added = [each for each in warnings.filters if each not in found and each[0] != "error"]
        warnings.filters[:] = [*added, *found]  # type: ignore[index]


def _keep_torch(stack: contextlib.ExitStack) -> None:
    import torch

    _keep(stack, torch.get_default_dtype, torch.set_default_dtype, torch.float32)
    _keep(stack, torch.is_grad_enabled, torch.set_grad_enabled, True)
    _keep(stack, torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly, False)
    _keep(stack, torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 0)
    _keep(stack, torch.get_num_threads, torch.set_num_threads)

    def chosen_device() -> torch.device | None:
        device = torch.get_default_device()
        return None if device == torch.device("cpu") else device  # None is no choice, and costs nothing per call

    _keep(stack, chosen_device, torch.set_default_device, None)


def _keep_tensorflow(stack: contextlib.ExitStack, tf: Any) -> None:
    _keep(stack, tf.config.functions_run_eagerly, tf.config.run_functions_eagerly, False)
    if (keras := sys.modules.get("keras")) is not None:
        _keep(stack, keras.config.floatx, keras.config.set_floatx, "float32")
        _keep(stack, lambda: keras.config.dtype_policy().name, keras.config.set_dtype_policy, "float32")
