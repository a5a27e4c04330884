"""
Times models in f32 on a CPU's Vulkan driver, and other systems on the same driver.

    lavapipe_peers.py MODEL.onnx... [--only ours,webgpu,ncnn] [--runs 5] [-o FILE]

A figure is the processor time of a run, over all threads and child processes, so that other load
on the machine matters less. The peers are onnxruntime's WebGPU provider (package
`onnxruntime-ep-webgpu`) and ncnn (packages `ncnn` and `pnnx`, which converts) in f32. A missing or
failing peer's record contains the reason. IREE is measured by `models.py --iree`. Each peer runs
in its own process. `off` is the largest difference to onnxruntime's CPU results, relative to the
largest element. All input sizes must be static. For ncnn, a model must have one input.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.runtime.processes import python_command

Array = Any

TICKS = os.sysconf("SC_CLK_TCK")

LIMIT = 600
"""Time limit of a peer in seconds."""

WARM_UP = 2
"""Number of runs before the timed ones."""


def draw_inputs(model: str) -> dict[str, Array]:
    """Returns random inputs of a model by name, equal in every process."""
    import onnx

    rng = np.random.default_rng(0)
    graph = onnx.load(model, load_external_data=False).graph
    inputs: dict[str, Array] = {}
    known = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in known:
            continue
        type = value.type.tensor_type
        shape = [d.dim_value for d in type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(type.elem_type)
        data = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 200, shape)
        inputs[value.name] = data.astype(dtype)
    return inputs


def ours(model: str, inputs: dict[str, Array]) -> Callable[[], Sequence[Array]]:
    import xdsl_spirv as xs

    session = xs.compile(model, target="lavapipe").session("vulkan", isolated=True)
    return lambda: list(session.run(**inputs).values())


def webgpu(model: str, inputs: dict[str, Array]) -> Callable[[], Sequence[Array]]:
    os.environ["ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"] = "1"
    import onnxruntime
    import onnxruntime_ep_webgpu as provider

    onnxruntime.register_execution_provider_library("webgpu", provider.get_library_path())
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == provider.get_ep_name()]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices[:1], {})
    session = onnxruntime.InferenceSession(model, options)
    return lambda: session.run(None, inputs)


def ncnn(model: str, inputs: dict[str, Array]) -> Callable[[], Sequence[Array]]:
    import ncnn as library
    import pnnx

    folder = Path(tempfile.mkdtemp(prefix="ncnn-"))
    (data,) = inputs.values()
    source = folder / "m.onnx"
    source.write_bytes(Path(model).read_bytes())
    shape = f"inputshape=[{','.join(map(str, data.shape))}]f32"
    program = str(Path(pnnx.__file__).parent / "pnnx")
    subprocess.run([program, str(source), shape, "fp16=0"], check=True, stdout=subprocess.DEVNULL)
    net = library.Net()
    options = net.opt
    options.use_vulkan_compute = True
    for kind in ("packed", "storage", "arithmetic"):
        setattr(options, f"use_fp16_{kind}", False)
    for kind in ("packed", "storage"):
        setattr(options, f"use_bf16_{kind}", False)
    net.load_param(str(folder / "m.ncnn.param"))
    net.load_model(str(folder / "m.ncnn.bin"))

    def run() -> Sequence[Array]:
        extractor = net.create_extractor()
        extractor.input(net.input_names()[0], library.Mat(data[0]).clone())
        return [np.array(extractor.extract(name)[1])[None] for name in net.output_names()]

    return run


PEERS = {peer.__name__: peer for peer in (ours, webgpu, ncnn)}


def processor_seconds() -> float:
    """Returns the processor seconds of this process and its child processes."""

    def sum_of(pid: int) -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own = (int(fields[11]) + int(fields[12])) / TICKS
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = {int(c) for task in tasks for c in (task / "children").read_text().split()}
        return own + sum(sum_of(child) for child in children)

    return sum_of(os.getpid())


def measure(peer: str, model: str, runs: int) -> dict[str, Any]:
    """Returns a peer's record: processor milliseconds of a run, seconds of the first run, error."""
    import onnxruntime

    inputs = draw_inputs(model)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    start = time.perf_counter()
    run = PEERS[peer](model, inputs)
    results = run()
    first = time.perf_counter() - start
    for _ in range(WARM_UP):
        run()
    before, start = processor_seconds(), time.perf_counter()
    for _ in range(runs):
        run()
    record = {"ms": round((processor_seconds() - before) / runs * 1e3, 1)}
    record |= {"clock_ms": round((time.perf_counter() - start) / runs * 1e3, 1)}
    off = [_off(x, y) for x, y in zip(results, expected, strict=True)]
    return record | {"first_s": round(first, 2), "off": float(max(off))}


def _off(x: Array, y: Array) -> float:
    if x.size != y.size:
        raise ValueError(f"a result has the shape {x.shape}, not {y.shape}")
    return abs(np.reshape(x, y.shape) - y).max() / max(abs(y).max(), 1e-30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--only", default=",".join(PEERS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--one", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, str(options.models[0]), options.runs)))
        return 0
    rows: dict[str, dict[str, Any]] = {}
    for model in options.models:
        row = rows[model.stem] = {}
        for peer in options.only.split(","):
            command = [*python_command(), __file__, str(model), "--one", peer]
            command += ["--runs", str(options.runs)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
                lines = done.stdout.splitlines()
                said = (done.stderr.strip().splitlines() or ["ended"])[-1]
                row[peer] = json.loads(lines[-1]) if done.returncode == 0 else {"error": said}
            except subprocess.TimeoutExpired:
                row[peer] = {"error": f"more than {LIMIT} s"}
            print(model.stem, peer, json.dumps(row[peer]), flush=True)
    if options.output:
        document = {"date": time.strftime("%F"), "load": os.getloadavg(), "models": rows}
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
