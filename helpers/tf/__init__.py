"""TensorFlow, imported quietly in one place; its sub-modules mirror ``data``, ``models``, ``train`` and ``graph``.

Nothing here imports TensorFlow until :func:`tensorflow` is called, so ``import helpers.tf`` stays cheap::

    from helpers.tf import tensorflow

    tf = tensorflow()

Why one accessor: TensorFlow's native libraries write to file descriptor 2 while they load, before any logging option
of Python's can reach them, and by default TensorFlow takes all of a GPU's memory, which starves PyTorch in the
same process. Thread counts are left as TensorFlow chooses them.

It also keeps the two frameworks apart where they clash: Triton, which PyTorch loads with the first optimizer, crashes
when it is loaded after TensorFlow, because each carries its own LLVM. So Triton is loaded first.
"""

import functools
import importlib
import importlib.util
import os
import sys
import warnings
from typing import Any

from helpers.errors import CourseError
from helpers.quiet import quiet_stderr

__all__ = ["tensorflow"]

_NATIVE_LOG_LEVEL = "2"  # TensorFlow's scale: 0 all, 1 no INFO, 2 no WARNING either, 3 not even ERROR


@functools.cache
def tensorflow() -> Any:
    """Import TensorFlow once, quietly, and return the module.

    ``TF_CPP_MIN_LOG_LEVEL`` is set to 2 (errors only) unless you set it yourself before the first call.

    Returns:
        The ``tensorflow`` module, with GPU memory growth switched on.

    Raises:
        ImportError: TensorFlow is not installed or one of its libraries does not load. What the libraries printed
            is shown too.
        CourseError: Keras is set up for a backend other than TensorFlow.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", _NATIVE_LOG_LEVEL)
    _require_keras_on_tensorflow()
    _load_triton_first()
    with quiet_stderr():
        module = importlib.import_module("tensorflow")
        gpus = module.config.list_physical_devices("GPU")  # loads the CUDA libraries, which also print
    _grow_memory(module, gpus)
    return module


def _load_triton_first() -> None:
    """Load Triton where it is installed; loading it after TensorFlow ends the process with a segmentation fault.

    Source:
        https://github.com/PythonOT/POT/pull/839, seen here with torch 2.14, triton and tensorflow 2.21.
    """
    if "triton" in sys.modules or importlib.util.find_spec("triton") is None:
        return
    if "tensorflow" in sys.modules:
        warnings.warn(
            "TensorFlow was imported before helpers.tf.tensorflow() was called, so PyTorch's first optimizer may end "
            "this process. Restart the kernel and write tf = helpers.tf.tensorflow() instead of import tensorflow.",
            stacklevel=3,
        )
        return
    importlib.import_module("triton")


def _grow_memory(module: Any, gpus: list[Any]) -> None:
    """Let TensorFlow take GPU memory as it needs it; by default it takes nearly all of it at once."""
    for gpu in gpus:
        try:
            module.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError:  # the GPU is already in use: TensorFlow was imported and used before this call
            warnings.warn(
                f"TensorFlow already holds {gpu.name}, so it may keep nearly all of its memory from PyTorch. "
                "Restart the kernel and call helpers.tf.tensorflow() before any other use of TensorFlow.",
                stacklevel=3,
            )


def _require_keras_on_tensorflow() -> None:
    """Check before the import: Keras on another backend beside TensorFlow can end the process (seen with torch)."""
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")  # goes before ~/.keras/keras.json
    if "keras" in sys.modules:
        backend = sys.modules["keras"].backend.backend()
    if backend != "tensorflow":
        raise CourseError(
            f"Keras is set up for the backend {backend!r}, and this course needs 'tensorflow'. Unset KERAS_BACKEND "
            "(or set it to 'tensorflow') and restart the kernel."
        )
