"""
Compiles and runs random convolutions as ONNX models, and compares results with onnxruntime.

    python scripts/random_convolutions.py 200                          # on the interpreter
    python scripts/random_convolutions.py 1000 --target nvidia-h200 --device vulkan --jobs 12

A model contains a `Conv` or a `ConvTranspose` with random attributes: 1 to 3 dimensions, groups,
strides, dilations, pads and `auto_pad`, `output_padding` and `output_shape`, a bias. The
convolution is the only node, or it is surrounded by other convolutions (so that the compiler
chooses its layout) or by transposes (so that the model is channels-last). Sizes are odd or even,
types f16 or f32. The reference is onnxruntime in f32 on the same values. The exit status is 1 if a
result is wrong or a model fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

BOUND = {"f16": 6e-3, "f32": 2e-5}
"""Allowed difference from the reference, relative to the largest result."""


class Model:
    """Draws a model from a seed. `make` returns the model in an element type."""

    def __init__(self, seed: int, most: int):
        from onnx import helper

        self.helper: Any = helper
        self.rng = np.random.default_rng(seed)
        self.seed, self.most = seed, most
        self.nodes: list[Any] = []
        self.weights: dict[str, np.ndarray[Any, Any]] = {}
        self.type = str(self.rng.choice(["f16", "f16", "f32"]))
        self.rank = int(self.rng.choice([1, 2, 2, 2, 3]))
        self.channels_last = bool(self.rng.random() < 0.25)
        batch, self.channels = int(self.rng.integers(1, 4)), self.pick_channels()
        extent = {1: 200, 2: 24, 3: 9}[self.rank]
        space = [int(self.rng.integers(3, extent)) for _ in range(self.rank)]
        shape = (batch, self.channels, *space)
        self.shape = (batch, *space, self.channels) if self.channels_last else shape
        self.name = "x"
        self.build()

    def pick_channels(self) -> int:
        return int(self.rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 33]))

    def node(self, kind: str, *inputs: str, **attributes: Any) -> None:
        name = f"y{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, inputs, [name], name=name, **attributes))
        self.name = name

    def weight(self, shape: tuple[int, ...], fan: int) -> str:
        name = f"w{len(self.weights)}"
        numbers = self.rng.standard_normal(shape) / max(fan, 1) ** 0.5
        self.weights[name] = numbers.astype(np.float16).astype(np.float32)
        return name

    def build(self) -> None:
        """Draws the convolution, its neighbours, and transposes of channels-last models."""
        last = [0, self.rank + 1, *range(1, self.rank + 1)]
        if self.channels_last:
            self.node("Transpose", self.name, perm=last)
        around = self.rng.random() < 0.4
        if around:
            self.convolve(plain=True)
            self.node("Relu", self.name)
        self.convolve()
        if self.rng.random() < 0.4:
            self.node(str(self.rng.choice(["Relu", "Sigmoid", "HardSwish"])), self.name)
        if around:
            self.convolve(plain=True)
        if self.channels_last:
            self.node("Transpose", self.name, perm=[0, *range(2, self.rank + 2), 1])

    def convolve(self, plain: bool = False) -> None:
        """Adds a convolution to the model, with random attributes or (`plain`) of 1 x 1."""
        rng, rank = self.rng, self.rank
        transposed = not plain and rng.random() < 0.35
        kernel = [1] * rank if plain else [int(k) for k in rng.integers(1, 6, rank)]
        divisors = [d for d in range(1, self.channels + 1) if self.channels % d == 0]
        groups = 1 if plain or rng.random() < 0.5 else int(rng.choice(divisors))
        out = groups * max(1, self.pick_channels() // groups)
        inner = self.channels // groups
        shape = (self.channels, out // groups) if transposed else (out, inner)
        inputs = [self.name, self.weight((*shape, *kernel), inner * int(np.prod(kernel)))]
        if rng.random() < 0.5:
            inputs.append(self.weight((out,), 4))
        attributes = {} if plain else self.attributes_of(kernel, transposed)
        self.node("ConvTranspose" if transposed else "Conv", *inputs, group=groups, **attributes)
        self.channels = out

    def attributes_of(self, kernel: list[int], transposed: bool) -> dict[str, Any]:
        rng, rank = self.rng, self.rank
        drawn: dict[str, Any] = {}
        if rng.random() < 0.5:
            drawn["kernel_shape"] = kernel
        strides = [int(s) for s in rng.integers(1, 4, rank)] if rng.random() < 0.6 else [1] * rank
        dilations = [int(d) for d in rng.integers(1, 4, rank)] if rng.random() < 0.4 else [1] * rank
        if strides != [1] * rank or rng.random() < 0.5:
            drawn["strides"] = strides
        if dilations != [1] * rank or rng.random() < 0.5:
            drawn["dilations"] = dilations
        reach = [(k - 1) * d for k, d in zip(kernel, dilations)]
        how = rng.random()
        # With `auto_pad`, ONNX's transposed output has stride * input size elements. onnxruntime's
        # has fewer if a window is shorter than the stride; such cases are not drawn.
        if how < 0.2 and not (transposed and any(r + 1 < s for r, s in zip(reach, strides))):
            drawn["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
        elif how < 0.8:
            drawn["pads"] = [int(rng.integers(0, r + 1)) for r in reach * 2]
        if transposed and how >= 0.2 and rng.random() < 0.4:
            room = [max(s, d) for s, d in zip(strides, dilations)]
            drawn["output_padding"] = [int(rng.integers(0, r)) for r in room]
        return drawn

    def make(self, type: str) -> Any:
        from onnx import TensorProto, numpy_helper

        element = {"f16": TensorProto.FLOAT16, "f32": TensorProto.FLOAT}[type]
        numbers = {"f16": np.float16, "f32": np.float32}[type]
        helper = self.helper
        graph = helper.make_graph(
            self.nodes,
            f"convolution_{self.seed}",
            [helper.make_tensor_value_info("x", element, self.shape)],
            [helper.make_tensor_value_info(self.name, element, None)],
            [numpy_helper.from_array(w.astype(numbers), n) for n, w in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def input(self) -> np.ndarray[Any, Any]:
        return self.rng.standard_normal(self.shape).astype(np.float16).astype(np.float32)

    def __str__(self) -> str:
        def describe(node: Any) -> str:
            attributes = {a.name: self.helper.get_attribute_value(a) for a in node.attribute}
            shapes = [self.weights[i].shape for i in node.input if i in self.weights]
            return f"{node.op_type}{shapes}{attributes}"

        nodes = "; ".join(map(describe, self.nodes))
        return f"seed {self.seed}, {self.type}, x {self.shape}: {nodes}"


def prepare(seed: int, folder: Path, target: str, most: int) -> tuple[int, str, Any]:
    """Compiles a model into a folder. Returns the seed, the error if any, and (input, expected)."""
    import onnxruntime as runtime  # pyright: ignore[reportMissingTypeStubs]

    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends import import_onnx

    model = Model(seed, most)
    x = model.input()
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session: Any = runtime.InferenceSession(model.make("f32").SerializeToString(), options)
        (wanted,) = session.run(None, {"x": x})
    except Exception:
        return seed, "not a model", None
    if wanted.size == 0 or wanted.size > most:
        return seed, "empty or large", None
    try:
        program = compile_model(import_onnx(model.make(model.type)), target)
        program.save(folder / str(seed))
    except Exception as error:
        return seed, f"{type(error).__name__}: {error}"[:300], None
    given = x.astype({"f16": np.float16, "f32": np.float32}[model.type])
    return seed, "", (given, wanted)


def runner_of(device: str | None) -> Callable[[Any, dict[str, Any]], dict[str, Any]]:
    """Returns a function that runs a program on a Vulkan device or the interpreter."""
    if device is None:
        return lambda program, given: {"y": program(**given)}
    from xdsl_spirv.runtime.vulkan import open_isolated

    opened = open_isolated(device)
    return opened.execute


def outcomes(options: argparse.Namespace) -> Iterator[tuple[int, str]]:
    """Yields the seed of each model and an error message, "" if the result is right."""
    from xdsl_spirv.runtime.program import Program

    run = runner_of(options.device)
    seeds = range(options.start, options.start + options.count)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool,
    ):
        place = Path(folder)
        make = partial(prepare, folder=place, target=options.target, most=options.most)
        for seed, failure, prepared in pool.map(make, seeds, chunksize=4):
            if prepared is None:
                yield seed, failure
                continue
            given, wanted = prepared
            try:
                (result,) = run(Program.load(place / str(seed)), {"x": given}).values()
            except Exception as error:
                yield seed, f"{type(error).__name__}: {error}"[:300]
                continue
            yield seed, compare(result, wanted, "f16" if given.dtype == np.float16 else "f32")


def compare(result: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], type: str) -> str:
    """Returns a message about a wrong result, or ""."""
    if result.shape != wanted.shape:
        return f"wrong shape: {result.shape} and not {wanted.shape}"
    most = np.abs(result.astype(np.float64) - wanted).max() / max(np.abs(wanted).max(), 1e-3)
    return "" if most <= BOUND[type] else f"wrong: a difference of {most:.2g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("count", type=int, help="how many models to draw")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--target", default="lavapipe", help="what to compile for")
    parser.add_argument("--device", help="the Vulkan device that runs them (the interpreter)")
    parser.add_argument("--jobs", type=int, default=2, help="processes that compile")
    parser.add_argument("--most", type=int, default=60_000, help="elements of a result")
    options = parser.parse_args()
    tally: Counter[str] = Counter()
    for seed, failure in outcomes(options):
        kind = failure.split(":")[0] or "right"
        tally[kind] += 1
        if kind not in ("right", "not a model", "empty or large"):
            print(f"{failure}\n    {Model(seed, options.most)}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in tally.most_common()))
    return 0 if set(tally) <= {"right", "not a model", "empty or large"} else 1


if __name__ == "__main__":
    sys.exit(main())
