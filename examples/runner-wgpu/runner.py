"""
Runs a compiled program through WebGPU (wgpu-native): docs/program.md, by numpy and wgpu alone.

    python runner.py DIR A=a.npy B=b.npy -o out                     writes out/result0.npy, ...
    python runner.py DIR prefill tokens=t.npy past=0 -o 0 --then decode token=n.npy past=7 -o 1

wgpu takes a kernel's SPIR-V and translates it (by naga) to what the machine has: Vulkan, Metal,
D3D12 or OpenGL. WebGPU has no cooperative matrices, no integers of 8 bits and no choice of the
subgroup size: a program that needs one of them is refused before a kernel is read.
"""

from __future__ import annotations

import json
import operator
import re
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import wgpu

VERSIONS = range(1, 6)
TYPES = {"f16": "<f2", "f32": "<f4", "f64": "<f8", "i1": "|b1", "i8": "|i1", "i16": "<i2"}
TYPES |= {"i32": "<i4", "i64": "<i8", "ui8": "|u1", "ui16": "<u2", "ui32": "<u4", "ui64": "<u8"}
TYPES |= {"bf16": "|V2"}
ALWAYS = ""
FEATURES = {
    "vulkanMemoryModel": ALWAYS,  # naga writes the module anew, in the memory model of its own
    "shaderFloat16": "shader-f16",
    "storageBuffer16BitAccess": "shader-f16",
    "shaderFloat64": "shader-f64",
    "shaderInt16": "shader-i16",
    "shaderInt64": "shader-int64",
    "subgroupSupportedOperations": "subgroup",
}
"""Vulkan's features and properties, and what WebGPU calls them."""
LIMITS = {
    "maxComputeSharedMemorySize": "max-compute-workgroup-storage-size",
    "maxComputeWorkGroupInvocations": "max-compute-invocations-per-workgroup",
    "maxComputeWorkGroupSize[0]": "max-compute-workgroup-size-x",
    "maxComputeWorkGroupSize[1]": "max-compute-workgroup-size-y",
    "maxComputeWorkGroupSize[2]": "max-compute-workgroup-size-z",
    "maxComputeWorkGroupCount[0]": "max-compute-workgroups-per-dimension",
    "maxComputeWorkGroupCount[1]": "max-compute-workgroups-per-dimension",
    "maxComputeWorkGroupCount[2]": "max-compute-workgroups-per-dimension",
    "maxPerStageDescriptorStorageBuffers": "max-storage-buffers-per-shader-stage",
    "maxStorageBufferRange": "max-storage-buffer-binding-size",
}
STORAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC

OPTIONS = {"--device": "number", "--subgroup-size": "subgroup_size"}
USAGE = "usage: runner.py DIR [--device N] [--subgroup-size N] CALL [--then CALL ...]"
"""A call is [FUNCTION] [NAME=FILE.npy|NUMBER ...] [-o DIR]."""

Record = dict[str, Any]


def die(message: str) -> NoReturn:
    sys.exit(f"runner: {message}")


# Sizes: numbers, or expressions of names.

TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|[-+*/(),])")
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}


def evaluate(size: int | str, sizes: dict[str, int]) -> int:
    """The number that a size is."""
    if isinstance(size, int):
        return size
    tokens = [*TOKEN.findall(size), ""]
    if TOKEN.sub("", size).strip():
        die(f"{size} is no size")

    def take(wanted: str) -> None:
        if tokens.pop(0) != wanted:
            die(f"{size} is no size")

    def chain(signs: str, part: Callable[[], int]) -> int:
        value = part()
        while tokens[0] and tokens[0] in signs:
            value = OPERATORS[tokens.pop(0)](value, part())
        return value

    def sum_of() -> int:
        return chain("+-", lambda: chain("*/", factor))

    def factor() -> int:
        token = tokens.pop(0)
        if token.isdecimal():
            return int(token)
        if token == "(" or (token == "min" and tokens[0] == "("):
            if token == "min":
                take("(")
            value = sum_of()
            if token == "min":
                take(",")
                value = min(value, sum_of())
            take(")")
            return value
        if token not in sizes:
            die(f"{size}: {token or 'the end'} is no size")
        return sizes[token]

    value = sum_of()
    take("")
    return value


def scalar(value: float | bool, type: str) -> bytes:
    return np.array(value, "<u4" if type == "i1" else TYPES[type]).tobytes()


class Runner:
    """A program on a device; weights and states stay there from run to run."""

    def __init__(self, folder: Path, number: int = 0, subgroup_size: int | None = None):
        self.folder, self.subgroup_size = folder, subgroup_size
        try:
            self.program: Record = json.loads((folder / "program.json").read_text())
        except (OSError, ValueError) as error:
            die(f"program.json cannot be read: {error}")
        schema, version = self.program.get("schema"), self.program.get("version")
        if schema != "xdsl-spirv-program" or version not in VERSIONS:
            die(f"version {version} of {schema} is not known: 1 to {VERSIONS[-1]} are")
        adapters = wgpu.gpu.enumerate_adapters_sync()
        if not 0 <= number < len(adapters):
            die(f"there is no device {number}: there are {len(adapters)}")
        self.adapter = adapters[number]
        self.device = self._open()
        self.weights = dict(self._weights())
        self.shared: dict[str, Any] = {}
        self.modules: dict[str, Any] = {}

    def _open(self) -> Any:
        """The device, with what the program requires; it is refused if there is not all of it."""
        requires: Record = self.program.get("requires") or die("it does not say what it requires")
        features = {"immediates"} & set(self.adapter.features)
        for need in requires.get("features", ()):
            names = [FEATURES.get(w.get("feature") or w.get("property", "")) for w in need["any"]]
            offered = [n for n in names if n == ALWAYS or n in self.adapter.features]
            if not offered:
                die(f"WebGPU lacks {need['because']} on {self.adapter.summary}")
            features |= {offered[0]} - {ALWAYS}
        if requires.get("cooperative_matrices"):
            die("WebGPU has no cooperative matrices of Vulkan's")
        size = requires["subgroup_size"]
        if requires.get("full_subgroups") and size != self.subgroup_size:
            die(
                f"the kernels count on subgroups of {size} invocations, which WebGPU cannot ask "
                f"for: if the device has no other (vulkaninfo), say --subgroup-size {size}"
            )
        limits = dict(self.adapter.limits)
        for limit in requires.get("limits", ()):
            has = limits.get(LIMITS.get(limit["limit"], ""), limit["least"])
            if has < limit["least"]:
                die(f"{limit['because']} needs {limit['limit']} of {limit['least']}, not {has}")
        return self.adapter.request_device_sync(
            required_features=sorted(features), required_limits=limits
        )

    def _weights(self) -> Iterator[tuple[str, bytes]]:
        """What a safetensors file holds: the length of its header, the header, the bytes."""
        if self.program.get("weights") is None:
            return
        data = (self.folder / self.program["weights"]).read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8 : 8 + length]).items():
            if name != "__metadata__":
                start, end = entry["data_offsets"]
                yield name, data[8 + length + start : 8 + length + end]

    def buffer(self, record: Record, sizes: dict[str, int], given: dict[str, Any]) -> Any:
        """The memory of a buffer, with what it holds before the run."""
        name, kind, dtype = record["name"], record["kind"], TYPES[record["type"]]
        if name in self.shared and kind in ("weight", "state"):
            return self.shared[name]
        shape = [evaluate(size, sizes) for size in record["shape"]]
        contents = given[name].tobytes() if kind == "input" else b""
        if kind in ("weight", "state"):
            contents = self.weights.get(name) or np.full(shape, record["first"], dtype).tobytes()
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        memory = self.device.create_buffer(size=-(-size // 4) * 4 or 16, usage=STORAGE)
        if contents:
            self.device.queue.write_buffer(memory, 0, contents + bytes(-len(contents) % 4))
        if kind in ("weight", "state"):
            self.shared[name] = memory
        return memory

    def pipeline(self, dispatch: Record, layouts: list[Any]) -> Any:
        kernel = next(k for k in self.program["kernels"] if k["name"] == dispatch["kernel"])
        entry = next(e for e in kernel["entry_points"] if e["name"] == dispatch["entry_point"])
        if kernel["name"] not in self.modules:
            code = (self.folder / kernel["binary"]).read_bytes()
            self.modules[kernel["name"]] = self.device.create_shader_module(code=code)
        stage = {"module": self.modules[kernel["name"]], "entry_point": entry["name"]}
        stage["constants"] = {str(c["id"]): c["value"] for c in dispatch["spec_constants"]}
        layout = self.device.create_pipeline_layout(
            bind_group_layouts=layouts,
            immediate_size=entry.get("push_constant_bytes", 0),
        )
        return self.device.create_compute_pipeline(layout=layout, compute=stage)

    def layouts(self, dispatch: Record) -> list[Any]:
        """Of each set, those without bindings among them."""
        sets: list[list[Record]] = [[] for _ in range(4)]
        for b in dispatch["bindings"]:
            entry = {"binding": b["binding"], "visibility": wgpu.ShaderStage.COMPUTE}
            sets[b["set"]].append(entry | {"buffer": {"type": "storage"}})
        return [self.device.create_bind_group_layout(entries=entries) for entries in sets]

    def run(self, name: str | None, words: dict[str, str]) -> dict[str, Any]:
        functions = [self.program, *self.program.get("functions", ())]
        function = next((f for f in functions if f["function"] == (name or f["function"])), None)
        if function is None:
            die(f"there is no function {name}")
        sizes, given = read_inputs(function, words)
        memory = {
            record["name"]: self.buffer(record, sizes, given)
            for record in function["buffers"]
            if record["kind"] != "scalar"
        }
        encoder = self.device.create_command_encoder()
        for dispatch in function["dispatches"]:
            self.encode(encoder, dispatch, memory, sizes)
        self.device.queue.submit([encoder.finish()])
        return {
            record["name"]: self.read(memory[record["name"]], record, sizes)
            for record in function["buffers"]
            if record["name"] in function["results"]
        }

    def encode(self, encoder: Any, dispatch: Record, memory: Record, sizes: dict[str, int]) -> None:
        """A pass of its own sees what earlier ones wrote."""
        grid = [evaluate(count, sizes) for count in dispatch["grid"]]
        if 0 in grid:
            return
        layouts = self.layouts(dispatch)
        pipeline = self.pipeline(dispatch, layouts)
        bound: dict[int, list[Record]] = {number: [] for number in range(len(layouts))}
        for b in dispatch["bindings"]:
            resource = {"buffer": memory[b["buffer"]], "offset": 0}
            entry = {"binding": b["binding"], "resource": resource}
            bound[b["set"]].append(entry)
        passed = encoder.begin_compute_pass()
        passed.set_pipeline(pipeline)
        for number, entries in bound.items():
            group = self.device.create_bind_group(layout=layouts[number], entries=entries)
            passed.set_bind_group(number, group)
        pushed = bytearray()
        for c in dispatch["push_constants"]:
            value = c["value"] if c["type"][0] == "f" else evaluate(c["value"], sizes)
            pushed += bytes(c["offset"] - len(pushed)) + scalar(value, c["type"])
        if pushed:
            pushed += bytes(-len(pushed) % 4)
            passed.set_immediates(0, pushed, 0, len(pushed))
        passed.dispatch_workgroups(*grid)
        passed.end()

    def read(self, memory: Any, record: Record, sizes: dict[str, int]) -> Any:
        shape = [evaluate(size, sizes) for size in record["shape"]]
        count = int(np.prod(shape, dtype=np.int64))
        data = self.device.queue.read_buffer(memory)
        return np.frombuffer(data, TYPES[record["type"]], count).reshape(shape)


def read_inputs(function: Record, words: dict[str, str]) -> tuple[dict[str, int], dict[str, Any]]:
    """The sizes and arrays that the caller gives; whatever does not fit is refused."""
    sizes: dict[str, int] = {}
    given: dict[str, Any] = {}
    inputs = [b for b in function["buffers"] if b["kind"] in ("input", "scalar")]
    if unknown := words.keys() - {b["name"] for b in inputs}:
        die(f"there is no input {min(unknown)}")
    for b in inputs:
        name = b["name"]
        if name not in words:
            die(f"{name} is not given")
        named = {name: words[name]}
        if b["kind"] == "input":
            array = given[name] = np.load(words[name])
            if array.dtype != np.dtype(TYPES[b["type"]]) or array.ndim != len(b["shape"]):
                wanted = f"{b['type']} of {b['shape']}"
                die(f"{name} holds {array.dtype} of {list(array.shape)}, not {wanted}")
            pairs = zip(b["shape"], array.shape, strict=True)
            named = {s: n for s, n in pairs if isinstance(s, str) and s.isidentifier()}
        for size, number in named.items():
            if not str(number).isdecimal() or sizes.setdefault(size, int(number)) != int(number):
                die(f"{name}: {size} is {number}, which is no number, or not what it was")
    for b in inputs:
        shape = [evaluate(size, sizes) for size in b["shape"]]
        if b["kind"] == "input" and shape != list(given[b["name"]].shape):
            die(f"{b['name']} has another shape than the program's {shape}")
    for equation in function.get("equal", ()):
        if evaluate(equation["left"], sizes) != evaluate(equation["right"], sizes):
            die(f"sizes do not fit: {equation['because']}")
    for limit in function.get("limits", ()):
        if evaluate(limit["size"], sizes) > evaluate(limit["most"], sizes):
            die(f"a size is too large: {limit['because']}")
    return sizes, given


def main(words: list[str]) -> None:
    if not words:
        die(USAGE)
    folder, *rest = words
    options: dict[str, int] = {}
    while rest[0:1] and rest[0] in OPTIONS:
        if not rest[1:] or not rest[1].isdecimal():
            die(f"{rest[0]} takes a number")
        options[OPTIONS[rest[0]]] = int(rest[1])
        del rest[:2]
    runner = Runner(Path(folder), **options)
    while rest:
        end = rest.index("--then") if "--then" in rest else len(rest)
        call, rest = rest[:end], rest[end + 1 :]
        output = None
        if "-o" in call[:-1]:
            at = call.index("-o")
            output = Path(call[at + 1])
            del call[at : at + 2]
        name = call.pop(0) if call and "=" not in call[0] else None
        if wrong := [word for word in call if "=" not in word]:
            die(f"what is {wrong[0]}? {USAGE}")
        try:
            results = runner.run(name, dict(word.split("=", 1) for word in call))
        except wgpu.GPUError as error:
            die(f"WebGPU refuses a kernel or a run of it: {error}")
        if output is not None:
            output.mkdir(exist_ok=True)
            for result, array in results.items():
                np.save(output / f"{result.replace('/', '_')}.npy", array)


if __name__ == "__main__":
    main(sys.argv[1:])
