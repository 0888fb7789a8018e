"""TensorFlow's quiet import: silent, lazy, and nothing stays redirected."""

import os
import subprocess
import sys

import pytest

from helpers.quiet import quiet_stderr
from helpers.tf import tensorflow


def run(code: str) -> "subprocess.CompletedProcess[str]":
    env = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)


def test_importing_the_package_imports_no_framework():
    done = run("import sys, helpers.tf; print([m for m in ('tensorflow', 'torch', 'keras') if m in sys.modules])")
    assert done.stdout.strip() == "[]"


def test_import_leaves_thread_counts_alone():
    tf = tensorflow()
    assert tf.config.threading.get_intra_op_parallelism_threads() == 0  # 0: TensorFlow decides
    assert tf.config.threading.get_inter_op_parallelism_threads() == 0


def test_a_failed_import_shows_what_was_held_back():
    done = run(
        "import os\nfrom helpers.quiet import quiet_stderr\n"
        "with quiet_stderr():\n    os.write(2, b'native complaint\\n')\n    raise ImportError('no library')"
    )
    assert done.returncode == 1
    assert "native complaint" in done.stderr
    assert "ImportError: no library" in done.stderr


def test_text_is_dropped_and_the_descriptor_restored(capfd: pytest.CaptureFixture[str]):
    with quiet_stderr():
        os.write(2, b"noise\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_a_keras_backend_that_is_not_tensorflow_is_refused():
    done = run("import os; os.environ['KERAS_BACKEND'] = 'torch'\nfrom helpers.tf import tensorflow; tensorflow()")
    assert done.returncode == 1
    assert "backend 'torch'" in done.stderr


def test_first_use_is_silent_and_pytorch_optimizers_still_work():
    """Triton, loaded by the first optimizer, would crash the process if it came after TensorFlow."""
    done = run(
        "from helpers.tf import tensorflow; tf = tensorflow(); tf.keras.layers.Dense(2)\n"
        "import torch; torch.optim.SGD([torch.ones(1, requires_grad=True)]); print(float(tf.constant(1.0) + 1))"
    )
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("2.0", "", 0)


def test_a_direct_import_of_tensorflow_is_warned_about():
    pytest.importorskip("triton")
    done = run("import tensorflow; from helpers.tf import tensorflow; tensorflow()")
    assert "write tf = helpers.tf.tensorflow()" in done.stderr


def test_the_module_is_imported_once():
    assert tensorflow() is tensorflow()
