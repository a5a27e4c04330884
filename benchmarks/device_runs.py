"""
Shared parts of benchmarks on a device: options, the loop over cases and schedules, the results
file.

A device is opened again after a candidate crashed it. Results are written after every case: first
to a temporary file, which then replaces the results file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.runtime.vulkan import open_isolated

torch: Any
try:
    import torch

    CUDA = torch.cuda.is_available()
except ImportError:
    torch = None
    CUDA = False

WARM_UP = 0.15
"""Seconds of warm-up before each timing."""


def graph_us(run: Callable[[], Any]) -> float:
    """Returns the microseconds of one replay of a CUDA graph of `run`, after a warm-up."""
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    end = time.monotonic() + WARM_UP
    while time.monotonic() < end:
        graph.replay()
        torch.cuda.synchronize()
    times: list[float] = []
    for _ in range(25):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return float(np.median(times)) * 1e3


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the options that all device benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--target", default="nvidia-h200")
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--small", action="store_true", help="small cases only")
    parser.add_argument("--seconds", type=float, default=540, help="begin nothing after this")
    parser.add_argument("-o", "--output", type=Path)
    return parser


@dataclass(frozen=True)
class Job:
    """
    A case. `measure` compiles, checks and times the case with a schedule (None: the default).
    `peer` returns PyTorch's milliseconds, or None. `flops` is the number of operations.
    """

    measure: Callable[[Any, str | None], dict[str, Any]]
    peer: Callable[[], float | None]
    flops: int
    schedules: Sequence[str | None]


def run_jobs(options: argparse.Namespace, jobs: Iterable[Job], what: str, torch: Any) -> int:
    """
    Runs all jobs. Prints and writes a record for each. Returns 0 if all results were right.

    `what` describes the benchmark in the results file.
    """
    begin = time.monotonic()
    records: list[dict[str, Any]] = []
    device: Any = open_isolated(options.device)
    name = device.info.name if hasattr(device, "info") else options.device
    for job in jobs:
        if time.monotonic() - begin > options.seconds:
            break
        peer = job.peer()
        for schedule in job.schedules:
            if time.monotonic() - begin > options.seconds:
                break
            record = job.measure(device, schedule)
            if peer is not None:
                record["torch_ms"] = round(peer, 5)
                record["torch_tflops"] = round(job.flops / peer / 1e9, 2)
            records.append(record)
            print(json.dumps(record), flush=True)
            if "error" in record:
                device.close()
                device = open_isolated(options.device)
        if options.output is not None:
            _write(options.output, what, options.target, name, torch, records)
    return 0 if all(record.get("ok") for record in records) else 1


def torch_median(torch: Any, run: Callable[[], Any]) -> float:
    """Returns the median milliseconds of PyTorch's kernel by CUDA events, after a warm-up."""
    end = time.monotonic() + WARM_UP
    while time.monotonic() < end:
        run()
        torch.cuda.synchronize()
    times: list[float] = []
    for _ in range(25):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def _write(
    path: Path, what: str, target: str, device: str, torch: Any, records: Iterable[Any]
) -> None:
    document = {
        "what": what,
        "date": datetime.date.today().isoformat(),
        "target": target,
        "device": device,
        "torch": getattr(torch, "__version__", None),
        "records": list(records),
    }
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(document, file, indent=1)
    Path(file.name).replace(path)
