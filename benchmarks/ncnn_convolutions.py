"""
Times convolutions of ONNX models, and ncnn's Vulkan kernels on the same device.

    python benchmarks/ncnn_convolutions.py prepare DIR [--target nvidia-h200] [--jobs 8]
    python benchmarks/ncnn_convolutions.py run DIR [--device vulkan] -o FILE

A model sums several convolutions of one image (batch 1, f16, different weights). The time of one
convolution is (time of twelve - time of four) / 8. So the host's overhead of a call and the
transfers of image and result cancel out. Our models are timed by GPU timestamps, ncnn's by
wall-clock time, as the median of 25 calls. Results are compared with PyTorch's in f32 on a GPU,
otherwise with one another. `run` needs the package `ncnn`, built for Vulkan.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from device_runs import CUDA, WARM_UP, torch
from onnx_convolutions import CONVOLUTIONS, Network, Onnx, Shape, Torch, Weights, file_of, image_of

from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan import open_isolated

FEW, MANY = 4, 12
"""Number of convolutions in the two models whose times are subtracted."""


class Ncnn:
    """Writes a network as ncnn's parameters and weights."""

    def __init__(self) -> None:
        self.weights = Weights()
        self.lines = ["Input x 0 1 x"]
        self.data = bytearray()
        self.blobs = 1

    def layer(self, kind: str, inputs: tuple[str, ...], **fields: int) -> str:
        name = f"y{len(self.lines)}"
        numbers = " ".join(f"{number[1:]}={value}" for number, value in fields.items())
        given = f"{len(inputs)} 1 {' '.join(inputs)}"
        self.lines.append(f"{kind} {name} {given} {name} {numbers}")
        self.blobs += 1
        return name

    def split(self, x: str, count: int) -> list[str]:
        """Adds copies of a value to the network. Returns a name for each of its `count` readers."""
        names = [f"{x}_{i}" for i in range(count)]
        self.lines.append(f"Split split 1 {count} {x} {' '.join(names)}")
        self.blobs += count
        return names

    def conv(self, x: str, c: int, o: int, k: int, s: int, p: int, d: int, g: int, t: bool) -> str:
        shape = (c, o // g, k, k) if t else (o, c // g, k, k)
        weight, bias = self.weights.next(shape, c // g * k * k), self.weights.next((o,), 100)
        if t:
            weight = weight.swapaxes(0, 1)
        self.data += bytes(4) + weight.astype(np.float32).tobytes()
        self.data += bias.astype(np.float32).tobytes()
        fields = {"_0": o, "_1": k, "_2": d, "_3": s, "_4": p, "_5": 1, "_6": weight.size}
        kind = "Deconvolution" if t else "Convolution"
        if g != 1:
            kind, fields["_7"] = kind + "DepthWise", g
        return self.layer(kind, (x,), **fields)

    def add(self, x: str, y: str) -> str:
        return self.layer("BinaryOp", (x, y), _0=0)

    def text(self) -> str:
        return "\n".join(["7767517", f"{len(self.lines)} {self.blobs}", *self.lines, ""])


def sum_of(count: int, case: str) -> tuple[Shape, Network]:
    """Returns an image's shape, and a network that sums `count` convolutions of the image."""
    shape, (o, k, *rest) = CONVOLUTIONS[case]
    s, p, d, g, t = (*rest, *(1, 0, 1, 1, 0)[len(rest) :])

    def network(builder: Any, x: Any) -> Any:
        inputs = builder.split(x, count) if isinstance(builder, Ncnn) else [x] * count
        results = [builder.conv(y, shape[1], o, k, s, p, d, g, bool(t)) for y in inputs]
        total = results[0]
        for result in results[1:]:
            total = builder.add(total, result)
        return total

    return (1, *shape[1:]), network


def prepare(case: str, folder: Path, target: str) -> str:
    """Compiles the two models of a case. Returns a line for the output."""
    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends import import_onnx

    for count in (FEW, MANY):
        shape, network = sum_of(count, case)
        writer = Onnx()
        result, helper = network(writer, "x"), writer.helper
        ends = (
            [helper.make_tensor_value_info("x", 10, shape)],
            [helper.make_tensor_value_info(result, 10, [None] * 4)],
        )
        graph = helper.make_graph(writer.nodes, "sum", *ends, writer.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        compile_model(import_onnx(model), target).save(folder / f"{file_of(case)}_{count}")
    return case


def time_ncnn(case: str, count: int) -> tuple[Any, float]:
    """Returns ncnn's result and the microseconds of a call."""
    import ncnn  # pyright: ignore[reportMissingImports]

    library: Any = ncnn
    shape, network = sum_of(count, case)
    writer = Ncnn()
    result = network(writer, "x")
    net = library.Net()
    net.opt.use_vulkan_compute = True
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = True
    with tempfile.TemporaryDirectory() as folder:
        param, weights = Path(folder, "net.param"), Path(folder, "net.bin")
        param.write_text(writer.text())
        weights.write_bytes(writer.data)
        if net.load_param(str(param)) or net.load_model(str(weights)):
            raise RuntimeError("ncnn cannot load the model")
    numbers = np.ascontiguousarray(image_of(shape)[0].astype(np.float32))
    image = library.Mat(numbers).clone()

    def call(read: Callable[[Any], Any] = id) -> Any:
        extractor = net.create_extractor()
        extractor.input("x", image)
        status, found = extractor.extract(result)
        if status:
            raise RuntimeError(f"ncnn failed with the status {status}")
        return read(found)  # The extractor owns the result's memory.

    found = call(lambda mat: np.array(mat).copy())
    end = time.monotonic() + 0.15
    while time.monotonic() < end:
        call()
    times: list[float] = []
    for _ in range(25):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return found, float(np.median(times)) * 1e6


def compute_exactly(case: str, count: int) -> Any:
    """Returns PyTorch's result in f32."""
    shape, network = sum_of(count, case)
    with torch.no_grad():
        x = torch.from_numpy(image_of(shape)).cuda().float()
        return network(Torch(torch.float32), x).cpu().numpy()[0]


def error_of(result: Any, wanted: Any) -> float:
    """Returns the largest difference as a share of the largest element."""
    difference = np.abs(result.astype(np.float64) - wanted).max()
    return float(difference / np.abs(wanted).max())


def run(case: str, folder: Path, device: Any) -> dict[str, Any]:
    """Returns our and ncnn's microseconds of one convolution, and the difference of the results."""
    record: dict[str, Any] = {"case": case, "ok": False}
    ours: list[float] = []
    theirs: list[float] = []
    try:
        for count in (FEW, MANY):
            program = Program.load(folder / f"{file_of(case)}_{count}")
            image = image_of(sum_of(count, case)[0])
            (result,) = device.execute(program, {"x": image}).values()
            ours.append(float(np.median(device.times_of_runs(program, 12, 9, WARM_UP))) / 12e3)
            found, microseconds = time_ncnn(case, count)
            theirs.append(microseconds)
        wanted = compute_exactly(case, MANY) if CUDA else found
        record["error"] = error_of(result[0], wanted)
        record["ncnn_error"] = error_of(found, wanted)
    except Exception as error:
        return record | {"failure": f"{type(error).__name__}: {error}"[:300]}
    record["ok"] = record["error"] < 0.01
    record["us"], record["ncnn_us"] = (
        round((many - few) / (MANY - FEW), 2) for few, many in (ours, theirs)
    )
    record["ratio"] = round(record["ncnn_us"] / record["us"], 2)
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("action", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="nvidia-h200", help="what to compile for")
    parser.add_argument("--device", default="vulkan", help="where ours run")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile")
    parser.add_argument("--only", default="", help="cases whose name contains one of these, by |")
    parser.add_argument("-o", "--output", type=Path, help="where to write the figures")
    options = parser.parse_args()
    chosen = [case for case in CONVOLUTIONS if any(p in case for p in options.only.split("|"))]
    if options.action == "prepare":
        options.folder.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            make = partial(prepare, folder=options.folder, target=options.target)
            for line in pool.map(make, chosen):
                print(line, flush=True)
        return 0
    device = open_isolated(options.device)
    records: list[dict[str, Any]] = []
    for case in chosen:
        records.append(run(case, options.folder, device))
        print(json.dumps(records[-1]), flush=True)
        if options.output is not None:
            about = {"what": (__doc__ or "").strip().splitlines()[0], "device": device.info.name}
            about["driver"] = device.info.driver_version
            options.output.write_text(json.dumps(about | {"records": records}, indent=1))
    return 0 if all(record["ok"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
