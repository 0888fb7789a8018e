"""What each framework sees of this machine, asked in a process of its own.

A framework takes seconds to import and a broken installation can end the process that imports it, so
the questions run beside the caller: start them, do other work, then take the answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TORCH = """
import json, torch
devices = [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
devices += ["mps"] if torch.backends.mps.is_available() else []
print(json.dumps({"devices": devices, "threads": torch.get_num_threads()}))
"""
TENSORFLOW = """
import json
from helpers.tf import tensorflow
print(json.dumps({"devices": [gpu.name for gpu in tensorflow().config.list_physical_devices("GPU")]}))
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a framework said: its accelerators and its threads, or why it does not import."""

    devices: tuple[str, ...] = ()
    threads: int | None = None
    """Threads of one operation; only PyTorch has a number to ask for."""
    error: str | None = None


class Probe:
    """A question to a framework, being answered in the background."""

    def __init__(self, code: str) -> None:
        """Start a process that runs ``code`` and prints one JSON object on its last line."""
        root = Path(__file__).resolve().parent.parent
        # Not a pipe: one that nobody reads yet could fill and block. It is closed with the answer.
        self._stderr: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )

    def answer(self, timeout_s: float) -> Answer:
        """Wait for the answer; the process is ended when it takes longer than ``timeout_s`` seconds."""
        try:
            printed, _ = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return Answer(error=f"no answer within {timeout_s:.0f} s")
        finally:
            self._stderr.seek(0)
            said = self._stderr.read().strip().splitlines()
            self._stderr.close()
        try:
            facts = json.loads(printed.strip().splitlines()[-1])
        except (IndexError, ValueError):
            return Answer(error=said[-1] if said else f"its process ended with status {self._process.returncode}")
        return Answer(devices=tuple(facts["devices"]), threads=facts.get("threads"))
