"""
Times networks that PyTorch exports to ONNX, with random weights, and PyTorch's fastest.

    python benchmarks/onnx_networks.py prepare DIR [--target nvidia-h200] [--only vit] [--jobs 8]
    python benchmarks/onnx_networks.py run DIR [--device vulkan] -o FILE

`prepare` exports and compiles each network into a folder. `run` compares its result with PyTorch's
in f32, and times both. Our time is the device's: one submission runs the network many times in
sequence, and the time is divided by the number of runs. PyTorch's time is the lower one of eager
and `torch.compile`, both under CUDA graphs and channels last. With `--type f32`, PyTorch also
multiplies in f32 (no TF32). Both commands need torchvision, and build equal weights from one seed.
Networks without fixed sizes are left out. Times do not include the host's work for a call.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from device_runs import CUDA, WARM_UP, graph_us
from torch import nn
from torch.nn import functional

from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan import open_isolated

RUNS, TOGETHER = 9, 12


class Attention(nn.Module):
    """Attention of `heads` heads. Keys and values come from `context` if it is given."""

    def __init__(self, width: int, heads: int, keys: int | None = None):
        super().__init__()
        self.heads = heads
        self.queries = nn.Linear(width, width)
        self.keys = nn.Linear(keys or width, width, bias=False)
        self.values = nn.Linear(keys or width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Any, context: Any = None) -> Any:
        read = x if context is None else context
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in (self.queries(x), self.keys(read), self.values(read))
        )
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))


def mlp(width: int, activation: Any) -> Any:
    """Builds the two linear layers of a transformer's block."""
    return nn.Sequential(nn.Linear(width, 4 * width), activation, nn.Linear(4 * width, width))


class WhisperEncoder(nn.Module):
    """The encoder of Whisper-base: two convolutions in time, six blocks of width 512."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 6):
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.places = nn.Parameter(torch.randn(1500, width) * 0.02)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                (
                    nn.LayerNorm(width),
                    Attention(width, heads),
                    nn.LayerNorm(width),
                    nn.Sequential(
                        nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
                    ),
                )
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        x = functional.gelu(self.second(functional.gelu(self.first(x))))
        x = x.transpose(1, 2) + self.places
        blocks: Any = self.blocks
        for norm, attention, second, mlp in blocks:
            x = x + attention(norm(x))
            x = x + mlp(second(x))
        return self.norm(x)


class UNetBlock(nn.Module):
    """A block of SDXL's UNet: two convolutions, self and cross attention, a gated MLP."""

    def __init__(self, width: int = 1280, heads: int = 20, context: int = 2048):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(32, width) for _ in range(3))
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.layers = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, heads), Attention(width, heads, context)
        self.gate, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.context = nn.Parameter(torch.randn(1, 77, context))

    def forward(self, x: Any) -> Any:
        y = x
        for norm, convolution in zip(self.norms, self.convolutions):
            y = convolution(functional.silu(norm(y)))
        x = x + y
        y = self.norms[2](x).flatten(2).transpose(1, 2)
        y = y + self.own(self.layers[0](y))
        y = y + self.cross(self.layers[1](y), self.context)
        up, gate = self.gate(self.layers[2](y)).chunk(2, dim=-1)
        y = y + self.down(up * functional.gelu(gate))
        return x + y.transpose(1, 2).unflatten(2, x.shape[2:])


class ConformerBlock(nn.Module):
    """A block of a conformer: an MLP, an attention, a depthwise convolution in time, and an MLP."""

    def __init__(self, width: int = 512, heads: int = 8, window: int = 31):
        super().__init__()
        self.mlps = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.SiLU(),
                nn.Linear(4 * width, width),
            )
            for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise = nn.Conv1d(width, width, window, padding=window // 2, groups=width)
        self.batch = nn.BatchNorm1d(width)

    def forward(self, x: Any) -> Any:
        x = x + 0.5 * self.mlps[0](x)
        x = x + self.attention(self.norms[0](x))
        y = functional.glu(self.up(self.norms[1](x).transpose(1, 2)), dim=1)
        y = self.down(functional.silu(self.batch(self.depthwise(y))))
        x = x + y.transpose(1, 2)
        return self.norms[2](x + 0.5 * self.mlps[1](x))


def unit(given: int, made: int, size: int = 1, stride: int = 1) -> Any:
    """
    Builds a convolution from `given` to `made` channels with a batch norm and SiLU, as in
    detectors.
    """
    convolution = nn.Conv2d(given, made, size, stride, size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(made), nn.SiLU())


class Split(nn.Module):
    """A detector's block: half of the channels pass through `count` residual bottlenecks."""

    def __init__(self, given: int, made: int, count: int, adds: bool = False):
        super().__init__()
        half, self.adds = made // 2, adds
        self.first, self.last = unit(given, made), unit((2 + count) * half, made)
        self.steps = nn.ModuleList(
            nn.Sequential(unit(half, half, 3), unit(half, half, 3)) for _ in range(count)
        )

    def forward(self, x: Any) -> Any:
        parts = list(self.first(x).chunk(2, 1))
        for step in self.steps:
            parts.append(parts[-1] + step(parts[-1]) if self.adds else step(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """A detector like YOLOv8n: 80 class scores and distance distributions at three scales."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(unit(3, 16, 3, 2), unit(16, 32, 3, 2), Split(32, 32, 1, True))
        self.eighth = nn.Sequential(unit(32, 64, 3, 2), Split(64, 64, 2, True))
        self.sixteenth = nn.Sequential(unit(64, 128, 3, 2), Split(128, 128, 2, True))
        self.deepest = nn.Sequential(unit(128, 256, 3, 2), Split(256, 256, 1, True))
        self.narrow, self.pooled = unit(256, 128), unit(512, 256)
        self.up = nn.ModuleList((Split(384, 128, 1), Split(192, 64, 1)))
        self.strided = nn.ModuleList((unit(64, 64, 3, 2), unit(128, 128, 3, 2)))
        self.down = nn.ModuleList((Split(192, 128, 1), Split(384, 256, 1)))
        self.boxes, self.classes = (
            nn.ModuleList(
                nn.Sequential(unit(c, w, 3), unit(w, w, 3), nn.Conv2d(w, w, 1))
                for c in (64, 128, 256)
            )
            for w in (64, 80)
        )

    def forward(self, x: Any) -> Any:
        eighth = self.eighth(self.stem(x))
        sixteenth = self.sixteenth(eighth)
        pools = [self.narrow(self.deepest(sixteenth))]
        for _ in range(3):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        deepest = self.pooled(torch.cat(pools, 1))
        middle = self.up[0](
            torch.cat((functional.interpolate(deepest, scale_factor=2.0), sixteenth), 1)
        )
        scales = [
            self.up[1](torch.cat((functional.interpolate(middle, scale_factor=2.0), eighth), 1))
        ]
        for strided, down, kept in zip(self.strided, self.down, (middle, deepest)):
            scales.append(down(torch.cat((strided(scales[-1]), kept), 1)))
        boxes = torch.cat([f(s).flatten(2) for f, s in zip(self.boxes, scales)], 2)
        classes = torch.cat([f(s).flatten(2) for f, s in zip(self.classes, scales)], 2)
        shares = boxes.unflatten(1, (4, 16)).softmax(2)
        distances = (shares * torch.arange(16, dtype=x.dtype, device=x.device)[:, None]).sum(2)
        return torch.cat((distances, classes.sigmoid()), 1)


class Denoiser(nn.Module):
    """
    Computes the mask of a speech denoiser like DeepFilterNet from frames of 32 bands:
    convolutions, three GRUs of width 256 over the frames, and transposed convolutions.
    """

    def __init__(self, width: int = 64, hidden: int = 256):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=(2, 1))
        kinds: Any = (nn.Conv2d, {}), (nn.ConvTranspose2d, {"output_padding": (0, 1)})
        self.encoders, self.decoders = (
            nn.ModuleList(
                nn.Sequential(
                    kind(width, width, (1, 3), (1, 2), (0, 1), groups=width, **more),
                    nn.Conv2d(width, width, 1),
                    nn.BatchNorm2d(width),
                    nn.ReLU(),
                )
                for _ in range(3)
            )
            for kind, more in kinds
        )
        self.recurrences = nn.ModuleList(
            (
                nn.GRU(4 * width, hidden, batch_first=True),
                nn.GRU(hidden, hidden, 2, batch_first=True),
            )
        )
        self.linear, self.mask = nn.Linear(hidden, 4 * width), nn.Conv2d(width, 1, 1)

    def forward(self, x: Any) -> Any:
        scales = [functional.relu(self.first(x)[:, :, : x.shape[2]])]
        for encoder in self.encoders:
            scales.append(encoder(scales[-1]))
        y = scales[-1].transpose(1, 2).flatten(2)
        for recurrence in self.recurrences:
            y = recurrence(y)[0]
        y = functional.relu(self.linear(y)).unflatten(2, (-1, 4)).transpose(1, 2)
        for decoder, scale in zip(self.decoders, reversed(scales)):
            y = decoder(y + scale)
        return self.mask(y + scales[0]).sigmoid()


def vision(name: str) -> Callable[[], Any]:
    """Returns a function that builds a network of torchvision."""

    def build() -> Any:
        models: Any = importlib.import_module("torchvision.models")
        return models.get_model(name, weights=None)

    return build


IMAGE = (3, 224, 224)

NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "ResNet-50, batch 1": (vision("resnet50"), (1, *IMAGE)),
    "ResNet-50, batch 32": (vision("resnet50"), (32, *IMAGE)),
    "MobileNetV3-L, batch 1": (vision("mobilenet_v3_large"), (1, *IMAGE)),
    "EfficientNet-B0, batch 1": (vision("efficientnet_b0"), (1, *IMAGE)),
    "ConvNeXt-T, batch 1": (vision("convnext_tiny"), (1, *IMAGE)),
    "ViT-B/16, batch 1": (vision("vit_b_16"), (1, *IMAGE)),
    "Swin-T, batch 1": (vision("swin_t"), (1, *IMAGE)),
    "Whisper-base encoder": (WhisperEncoder, (1, 80, 3000)),
    "SDXL UNet block, 2 x 32 x 32": (UNetBlock, (2, 1280, 32, 32)),
    "Conformer block, 1,000 frames": (ConformerBlock, (1, 1000, 512)),
    "YOLOv8n-like detector, 640 x 640": (Detector, (1, 3, 640, 640)),
    "DeepFilterNet-like GRUs, 400 frames": (Denoiser, (1, 1, 400, 32)),
}


TYPES = {"f16": (np.float16, torch.float16), "f32": (np.float32, torch.float32)}


def file_of(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def network_of(name: str) -> Any:
    """Returns a network in f32. Its weights are f16 numbers and keep activations nonzero."""
    torch.manual_seed(5)
    network = NETWORKS[name][0]().eval()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        for weight in (*network.parameters(), *network.buffers()):
            if weight.is_floating_point():
                weight.copy_(weight.half().float())
    return network


def input_of(name: str, kind: str) -> np.ndarray[Any, Any]:
    shape = NETWORKS[name][1]
    return np.random.default_rng(3).standard_normal(shape, np.float32).astype(TYPES[kind][0])


def prepare(name: str, folder: Path, target: str, kind: str) -> str:
    """Exports and compiles a network. Returns a line that describes the outcome."""
    import time

    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends import import_onnx

    try:
        given = (torch.from_numpy(input_of(name, kind)),)
        network = network_of(name).to(TYPES[kind][1])
        exported = torch.onnx.export(network, given, dynamo=True, optimize=True, verbose=False)
        assert exported is not None
        start = time.perf_counter()
        program = compile_model(import_onnx(exported.model_proto), target)
        program.save(folder / file_of(name))
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"[:600]
    took = time.perf_counter() - start
    kernels = f"{len(program.manifest.dispatches)} dispatches, {len(program.code)} kernels"
    return f"{name}: {kernels}, compiled in {took:.1f} s"


def run(name: str, folder: Path, device: Any, kind: str) -> dict[str, Any]:
    """Returns results and times of a network, and PyTorch's times."""
    record: dict[str, Any] = {"network": name, "ok": False}
    wanted = peer_of(name, record, kind)
    try:
        program = Program.load(folder / file_of(name))
        inputs = {program.manifest.inputs[0].name: input_of(name, kind)}
        program = program.at(inputs)
        result = next(iter(device.execute(program, inputs).values()))
        difference = np.abs(result.astype(np.float64) - wanted).max()
        record["error"] = float(difference / np.abs(wanted).max())
        record["ok"] = record["error"] < max(0.01, 2 * record.get("torch_error", 0))
        timed = list(zip(device.times(program, RUNS, WARM_UP), program.manifest.dispatches))
        whole = np.median(device.times_of_runs(program, TOGETHER, RUNS)) / TOGETHER
    except Exception as error:
        return record | {"ok": False, "failure": f"{type(error).__name__}: {error}"[:400]}
    record["us"] = round(sum(t.median for t, d in timed if not d.once) / 1e3, 2)
    record["following_us"] = round(float(whole) / 1e3, 2)
    parts = [(t.entry_point, round(t.median / 1e3, 2)) for t, d in timed if not d.once]
    record["launches"] = len(parts)
    record["dispatches"] = sorted(parts, key=lambda part: -part[1])[:24]
    if "torch_us" in record:
        record["ratio"] = round(record["torch_us"] / record["following_us"], 3)
    return record


def peer_of(name: str, record: dict[str, Any], kind: str) -> np.ndarray[Any, Any]:
    """Returns PyTorch's result in f32. On a GPU, writes PyTorch's times into `record`."""
    network, place = network_of(name), "cuda" if CUDA else "cpu"
    x = torch.from_numpy(input_of(name, kind)).to(place)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        network.to(place)
        wanted = network(x.float()).cpu().numpy().astype(np.float64)
        if not CUDA:
            return wanted
        network.to(TYPES[kind][1])
        if x.ndim == 4:
            network.to(memory_format=torch.channels_last)
            x = x.to(memory_format=torch.channels_last)
        difference = np.abs(network(x).float().cpu().numpy() - wanted).max()
        record["torch_error"] = float(difference / np.abs(wanted).max())
        times = {"eager": graph_us(lambda: [network(x) for _ in range(4)]) / 4}
        try:
            compiled = torch.compile(network)
            compiled(x)
            times["compiled"] = graph_us(lambda: [compiled(x) for _ in range(4)]) / 4
        except Exception as error:
            record["torch_failure"] = f"{type(error).__name__}: {error}"[:200]
    record["torch_us"] = round(min(times.values()), 2)
    record["torch_times"] = {how: round(time, 2) for how, time in times.items()}
    return wanted


def write(path: Path, device: Any, kind: str, records: list[dict[str, Any]]) -> None:
    """Writes the figures of all records, and the geometric mean of the ratios."""
    ratios = [record["ratio"] for record in records if "ratio" in record]
    document = {
        "what": f"networks exported by PyTorch, {kind}, through Vulkan, beside PyTorch under CUDA "
        "graphs (the faster of eager channels last and torch.compile); microseconds of a run by "
        "the device's clock",
        "date": datetime.date.today().isoformat(),
        "device": device.name,
        "driver": device.driver_version,
        "torch": torch.__version__,
        "geometric_mean": round(math.exp(statistics.fmean(map(math.log, ratios))), 3)
        if ratios
        else None,
        "records": records,
    }
    path.write_text(json.dumps(document, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("action", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="nvidia-h200", help="what to compile for")
    parser.add_argument("--device", default="vulkan", help="where to run")
    parser.add_argument("--only", default="", help="names that contain one of these, by |")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile")
    parser.add_argument("--type", choices=TYPES, default="f16", help="of inputs and weights")
    parser.add_argument("-o", "--output", type=Path, help="where to write the figures")
    options = parser.parse_args()
    chosen = [n for n in NETWORKS if any(p.lower() in n.lower() for p in options.only.split("|"))]
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.action == "prepare":
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            given = [(name, options.folder, options.target, options.type) for name in chosen]
            for line in pool.map(prepare, *zip(*given, strict=True)):
                print(line, flush=True)
        return 0
    records: list[dict[str, Any]] = []
    device = open_isolated(options.device)
    info = device.info
    for name in (each for each in chosen if (options.folder / file_of(each)).is_dir()):
        record = run(name, options.folder, device, options.type)
        if "failure" in record:
            device.close()
            device = open_isolated(options.device)
        records.append(record)
        print(json.dumps(record), flush=True)
        if options.output is not None:
            write(options.output, info, options.type, records)
    return 0 if records and all(record["ok"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
