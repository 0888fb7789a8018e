"""Traces made by hand, in the format that torch.profiler writes."""

import json
from typing import Any

Spans = list[dict[str, Any]]
HOST, DEVICE = {"pid": 100, "tid": 100}, {"pid": 0, "tid": 7}


def span(name: str, start: float, end: float, category: str = "cpu_op", lane: dict | None = None, **args: Any) -> dict:
    lane = lane or (DEVICE if category in ("kernel", "gpu_memcpy", "Kernel", "Memcpy") else HOST)
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": end - start, **lane, "args": args}


def step(number: int, start: float, end: float) -> dict:
    return span(f"ProfilerStep#{number}", start, end, "user_annotation")


def launch(kernel: str, call: tuple[float, float], run: tuple[float, float], link: int, **lane: Any) -> Spans:
    """Return a call of the runtime and the kernel that it launches."""
    return [
        span("cudaLaunchKernel", *call, "cuda_runtime", correlation=link),
        span(kernel, *run, "kernel", lane.get("lane"), correlation=link, stream=7),
    ]


def content(spans: Spans, **top: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, **top, "traceEvents": spans}).encode()
