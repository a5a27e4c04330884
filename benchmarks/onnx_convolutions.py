"""
Times convolutions in ONNX's layout (N x C x H x W), and in PyTorch's fastest form.

    python benchmarks/onnx_convolutions.py prepare DIR [--target nvidia-h200] [--only stem]
    python benchmarks/onnx_convolutions.py run DIR [--device vulkan] -o FILE

`prepare` compiles each case, with random weights in f16, into a folder. `run` needs numpy and a
device. For PyTorch's results and times (channels last, under CUDA graphs, compiled) it also needs
PyTorch. A case is a network, or a convolution including transpositions from and to N x C x H x W.
For a convolution between two 1 x 1 convolutions, `within` is the time of its own dispatches.
`following_us` is the time of a run among many in one submission, each waiting for the previous
one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from device_runs import CUDA, WARM_UP, graph_us, torch

from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan import open_isolated

RUNS, TOGETHER = 9, 12

Shape = tuple[int, ...]


class Weights:
    """Random weights that keep activations finite and nonzero. They are equal in every process."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.arrays: list[Any] = []

    def next(self, shape: Shape, fan: int) -> Any:
        array = self.rng.standard_normal(shape, np.float32) * math.sqrt(2 / fan)
        self.arrays.append(array.astype(np.float16))
        return self.arrays[-1]


class Onnx:
    """Writes a network as an ONNX model."""

    def __init__(self) -> None:
        from onnx import helper

        self.helper: Any = helper
        self.weights = Weights()
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        node = self.helper.make_node(kind, inputs, [name], name=name, **attributes)
        self.nodes.append(node)
        return name

    def weight(self, shape: Shape, fan: int) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(self.weights.next(shape, fan), name))
        return name

    def conv(self, x: str, c: int, o: int, k: int, s: int, p: int, d: int, g: int, t: bool) -> str:
        shape = (c, o // g, k, k) if t else (o, c // g, k, k)
        inputs = x, self.weight(shape, c // g * k * k), self.weight((o,), 100)
        kind = "ConvTranspose" if t else "Conv"
        steps = {"strides": [s, s], "pads": [p] * 4, "dilations": [d, d]}
        return self.node(kind, *inputs, group=g, **steps)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def add(self, x: str, y: str) -> str:
        return self.node("Add", x, y)

    def max_pool(self, x: str) -> str:
        return self.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def head(self, x: str, c: int, o: int) -> str:
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        return self.node("Gemm", flat, self.weight((o, c), c), transB=1)


class Torch:
    """Computes a network with PyTorch. Each weight is moved to the device once."""

    def __init__(self, element: Any, weights: Sequence[Any] | None = None):
        self.element, self.drawn = element, Weights()
        self.known = list(weights or ())
        self.at = 0

    def weight(self, shape: Shape, fan: int) -> Any:
        if self.at == len(self.known):
            array = self.drawn.next(shape, fan)
            moved = torch.from_numpy(array).cuda().to(self.element)
            last = torch.channels_last
            self.known.append(moved.to(memory_format=last) if moved.dim() == 4 else moved)
        self.at += 1
        return self.known[self.at - 1]

    def conv(self, x: Any, c: int, o: int, k: int, s: int, p: int, d: int, g: int, t: bool) -> Any:
        F = torch.nn.functional
        shape = (c, o // g, k, k) if t else (o, c // g, k, k)
        w, b = self.weight(shape, c // g * k * k), self.weight((o,), 100)
        if t:
            return F.conv_transpose2d(x, w, b, s, p, 0, g, d)
        return F.conv2d(x, w, b, s, p, d, g)

    def relu(self, x: Any) -> Any:
        return torch.relu(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def max_pool(self, x: Any) -> Any:
        return torch.nn.functional.max_pool2d(x, 3, 2, 1)

    def head(self, x: Any, c: int, o: int) -> Any:
        return torch.nn.functional.linear(x.mean((2, 3)), self.weight((o, c), c))


Network = Callable[[Any, Any], Any]


def alone(c: int, o: int, k: int, s: int = 1, p: int = 0, d: int = 1, g: int = 1, t: int = 0):
    def network(b: Any, x: Any) -> Any:
        return b.conv(x, c, o, k, s, p, d, g, bool(t))

    return network


def convolve_between(
    c: int, o: int, k: int, s: int = 1, p: int = 0, d: int = 1, g: int = 1, t: int = 0
):
    def network(b: Any, x: Any) -> Any:
        x = b.conv(b.relu(b.conv(x, c, c, 1, 1, 0, 1, 1, False)), c, o, k, s, p, d, g, bool(t))
        return b.conv(b.relu(x), o, 64, 1, 1, 0, 1, 1, False)

    return network


def row(b: Any, x: Any) -> Any:
    """Applies 20 convolutions of 3 x 3 in sequence."""
    for _ in range(20):
        x = b.relu(b.conv(x, 256, 256, 3, 1, 1, 1, 1, False))
    return x


def resnet50(b: Any, x: Any) -> Any:
    x = b.max_pool(b.relu(b.conv(x, 3, 64, 7, 2, 3, 1, 1, False)))
    channels = 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(count):
            step = 2 if block == 0 and width > 64 else 1
            y = b.relu(b.conv(x, channels, width, 1, 1, 0, 1, 1, False))
            y = b.relu(b.conv(y, width, width, 3, step, 1, 1, 1, False))
            y = b.conv(y, width, 4 * width, 1, 1, 0, 1, 1, False)
            if block == 0:
                x = b.conv(x, channels, 4 * width, 1, step, 0, 1, 1, False)
            x, channels = b.relu(b.add(x, y)), 4 * width
    return b.head(x, 2048, 1000)


CONVOLUTIONS: dict[str, tuple[Shape, tuple[int, ...]]] = {
    # Image, then output channels, kernel, stride, padding, dilation, groups, whether transposed.
    "3x3 1x256x56": ((1, 256, 56, 56), (256, 3, 1, 1)),
    "3x3 2x640x64": ((2, 640, 64, 64), (640, 3, 1, 1)),
    "3x3 32x64x56": ((32, 64, 56, 56), (64, 3, 1, 1)),
    "3x3 s2 8x128x56": ((8, 128, 56, 56), (256, 3, 2, 1)),
    "3x3 d2 4x256x28": ((4, 256, 28, 28), (256, 3, 1, 2, 2)),
    "1x1 s2 8x256x56": ((8, 256, 56, 56), (512, 1, 2)),
    "T2x2 s2 4x256x64": ((4, 256, 64, 64), (128, 2, 2, 0, 1, 1, True)),
    "T4x4 s2 4x256x32": ((4, 256, 32, 32), (128, 4, 2, 1, 1, 1, True)),
    "dw3x3 32x128x56": ((32, 128, 56, 56), (128, 3, 1, 1, 1, 128)),
    "dw3x3 s2 32x128x56": ((32, 128, 56, 56), (128, 3, 2, 1, 1, 128)),
    "dw5x5 s2 32x240x28": ((32, 240, 28, 28), (240, 5, 2, 2, 1, 240)),
    "dw7x7 8x96x56": ((8, 96, 56, 56), (96, 7, 1, 3, 1, 96)),
    "dw7x7 8x384x14": ((8, 384, 14, 14), (384, 7, 1, 3, 1, 384)),
    "32 groups of 4 32x128x56": ((32, 128, 56, 56), (128, 3, 1, 1, 1, 32)),
    "2 groups 8x256x28": ((8, 256, 28, 28), (256, 3, 1, 1, 1, 2)),
    "stem 7x7 s2 32x3x224": ((32, 3, 224, 224), (64, 7, 2, 3)),
    "320 to 4 2x320x64": ((2, 320, 64, 64), (4, 3, 1, 1)),
}

CASES: dict[str, tuple[Shape, Network]] = {
    **{
        f"{name}, alone": (shape, alone(shape[1], *args))
        for name, (shape, args) in CONVOLUTIONS.items()
    },
    **{
        f"{name}, within": (shape, convolve_between(shape[1], *args))
        for name, (shape, args) in CONVOLUTIONS.items()
    },
    "20 of 3x3 1x256x56": ((1, 256, 56, 56), row),
    "ResNet-50 1": ((1, 3, 224, 224), resnet50),
    "ResNet-50 32": ((32, 3, 224, 224), resnet50),
}


def file_of(case: str) -> str:
    return case.replace(" ", "_").replace(",", "")


def image_of(shape: Shape) -> Any:
    return np.random.default_rng(3).standard_normal(shape, np.float32).astype(np.float16)


def model_of(case: str) -> Any:
    """Returns a case as an ONNX model."""
    shape, network = CASES[case]
    writer = Onnx()
    result, helper = network(writer, "x"), writer.helper
    half, graph = 10, writer.nodes
    ends = (
        [helper.make_tensor_value_info("x", half, shape)],
        [helper.make_tensor_value_info(result, half, [None] * (2 if "ResNet" in case else 4))],
    )
    model = helper.make_model(
        helper.make_graph(graph, "convolutions", *ends, writer.initializers),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    model.ir_version = 9
    return model


def prepare(case: str, folder: Path, target: str, as_given: bool) -> str:
    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends import import_onnx
    from xdsl_spirv.passes.schedule import choose_layouts

    if as_given:
        setattr(choose_layouts, "choose", lambda *_: None)
    program = compile_model(import_onnx(model_of(case)), target)
    program.save(folder / file_of(case))
    return f"{case}: {len(program.manifest.dispatches)} dispatches, {len(program.code)} kernels"


def run(case: str, folder: Path, device: Any, runs: tuple[int, int]) -> dict[str, Any]:
    """Returns results and times of a case, and PyTorch's times."""
    shape, network = CASES[case]
    record: dict[str, Any] = {"case": case, "ok": False}
    peer = peer_of(network, shape, record) if CUDA else None
    program = Program.load(folder / file_of(case))
    try:
        image = image_of(shape)
        result = next(iter(device.execute(program, {"x": image}).values()))
        if peer is not None:
            difference = np.abs(result.astype(np.float64) - peer).max()
            record["error"] = float(difference / np.abs(peer).max())
            record["ok"] = record["error"] < 0.01
        else:
            record["ok"] = bool(np.isfinite(result).all())
        timed = list(zip(device.times(program, runs[0], WARM_UP), program.manifest.dispatches))
        whole = np.median(device.times_of_runs(program, runs[1], runs[0])) / runs[1]
    except Exception as error:
        return record | {"ok": False, "failure": f"{type(error).__name__}: {error}"[:400]}
    record["us"] = round(sum(t.median for t, d in timed if not d.once) / 1e3, 2)
    record["following_us"] = round(float(whole) / 1e3, 2)
    parts = [(t.entry_point, round(t.median / 1e3, 2)) for t, d in timed if not d.once]
    record["dispatches"] = parts if len(parts) < 12 else sorted(parts, key=lambda p: -p[1])[:16]
    record["schedules"] = sorted({layer.schedule for layer in program.layers if layer.schedule})[:9]
    if "torch_us" in record:
        record["ratio"] = round(record["torch_us"] / record["following_us"], 3)
    return record


def peer_of(network: Network, shape: Shape, record: dict[str, Any]) -> Any:
    """Returns PyTorch's result in f32. Writes PyTorch's times into `record`."""
    x = torch.from_numpy(image_of(shape)).cuda()
    with torch.no_grad():
        single = Torch(torch.float32)
        wanted = network(single, x.float()).cpu().numpy().astype(np.float64)
        half = Torch(torch.float16)
        x = x.to(memory_format=torch.channels_last)
        network(half, x)

        def call(given: Any = x) -> Any:
            half.at = 0
            return network(half, given)

        times = [graph_us(lambda: [call() for _ in range(TOGETHER)]) / TOGETHER]
        if record["case"].startswith("ResNet"):
            compiled = torch.compile(call)
            compiled(x)
            times.append(graph_us(lambda: [compiled(x) for _ in range(4)]) / 4)
    record["torch_us"] = round(min(times), 2)
    record["torch_times"] = [round(time, 2) for time in times]
    return wanted


def _write(path: Path, device: str, records: Sequence[Any]) -> None:
    document = {
        "what": "ONNX convolutions (N x C x H x W, f16) through Vulkan, beside PyTorch channels "
        "last under CUDA graphs; microseconds of a run by the device's clock",
        "date": datetime.date.today().isoformat(),
        "device": device,
        "torch": getattr(torch, "__version__", None),
        "records": list(records),
    }
    path.write_text(json.dumps(document, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("action", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="nvidia-h200", help="what to compile for")
    parser.add_argument("--device", default="vulkan", help="where to run")
    parser.add_argument("--only", default="", help="cases whose name contains one of these, by |")
    parser.add_argument("--as-given", action="store_true", help="tensors in the model's order")
    parser.add_argument("--quick", action="store_true", help="run each case once, to try it")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile")
    parser.add_argument("-o", "--output", type=Path, help="where to write the figures")
    options = parser.parse_args()
    chosen = [case for case in CASES if any(part in case for part in options.only.split("|"))]
    if options.action == "prepare":
        options.folder.mkdir(parents=True, exist_ok=True)
        # The longest first: networks.
        with ProcessPoolExecutor(options.jobs) as pool:
            ends = [(options.folder, options.target, options.as_given)] * len(chosen)
            for line in pool.map(prepare, reversed(chosen), *zip(*ends, strict=True)):
                print(line, flush=True)
        return 0
    runs = (1, 1) if options.quick else (RUNS, TOGETHER)
    records: list[dict[str, Any]] = []
    device = open_isolated(options.device)
    name = device.info.name
    for case in (named for named in chosen if (options.folder / file_of(named)).is_dir()):
        record = run(case, options.folder, device, runs)
        if "failure" in record:
            device.close()
            device = open_isolated(options.device)
        records.append(record)
        print(json.dumps(record), flush=True)
        if options.output is not None:
            _write(options.output, name, records)
    return 0 if records and all(record["ok"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
