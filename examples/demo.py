"""
Two layers of a real text recogniser, compiled for two devices, run without either of them.

PP-OCRv4's recogniser reads a line of text rendered here. onnxruntime computes the activations that
go into its first attention projection and into its classifier; both layers' real weights and these
activations, rounded to f16, become `linalg.matmul` f16 x f16 -> f32. Each is compiled for an NVIDIA
H200 and for Mesa's lavapipe, validated by Khronos' spirv-val, run on the interpreter, and compared
with numpy's binary64. In the end the text is read off the classifier's results.

    make demo            what it writes stays in demo-output/
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from PIL import Image, ImageDraw, ImageFont

from xdsl_spirv.runtime.check import Comparison, compare, contraction_bound
from xdsl_spirv.runtime.compiler import compile_module
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.weights import load_weights, save_weights
from xdsl_spirv.serialization.khronos import spirv_val

TEXT = "SPIR-V from Python, 2026"
TARGETS = ("nvidia-h200", "lavapipe")
LAYERS = {"projection": "linear_77.w_0", "classifier": "linear_85.w_0"}
OUTPUT = Path("demo-output")
HEIGHT = 48

LINALG = """// {name} of PP-OCRv4's recogniser: {m} positions, {k} features, {n} results.
func.func @main(%activations: tensor<{m}x{k}xf16>, %weights: tensor<{k}x{n}xf16>)
    -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{m}x{n}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %result = linalg.matmul ins(%activations, %weights : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>)
                          outs(%init : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %result : tensor<{m}x{n}xf32>
}}
"""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Layer:
    """A matmul of the model: its activations and weights as f16."""

    name: str
    activations: Array
    weights: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.activations.shape[0], self.weights.shape[1], self.weights.shape[0]


def model_path() -> Path:
    """The recogniser that the package rapidocr-onnxruntime ships (the package is not imported)."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("error: the models are not installed; run `make demo`")
    return Path(spec.submodule_search_locations[0]) / "models" / "ch_PP-OCRv4_rec_infer.onnx"


def render(text: str) -> Array:
    """A line of text as the model takes it: 1 x 3 x 48 x width, -1 to 1."""
    font = ImageFont.load_default(HEIGHT * 0.7)
    width = int(font.getlength(text)) + 32
    image = Image.new("RGB", (width, HEIGHT), "white")
    ImageDraw.Draw(image).text((16, 4), text, font=font, fill="black")
    image.save(OUTPUT / "text.png")
    pixels = np.asarray(image, np.float32)[:, :, ::-1] / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def constants(model: onnx.ModelProto) -> dict[str, Array]:
    """The model's constants by name; this one keeps them in nodes."""
    nodes = [n for n in model.graph.node if n.op_type == "Constant"]
    found = {w.name: w for w in model.graph.initializer}
    found |= {n.output[0]: n.attribute[0].t for n in nodes}
    return {name: numpy_helper.to_array(tensor) for name, tensor in found.items()}


def layers(model: onnx.ModelProto, image: Array) -> list[Layer]:
    """Run the model and take what goes into each layer of `LAYERS`, and its weights."""
    weights = constants(model)
    inputs = {node.input[1]: node.input[0] for node in model.graph.node if node.op_type == "MatMul"}
    names = [inputs[weight] for weight in LAYERS.values()]
    for name in names:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    activations = session.run(names, {model.graph.input[0].name: image})
    return [
        Layer(
            name,
            np.asarray(x).reshape(-1, x.shape[-1]).astype(np.float16),
            weights[weight].astype(np.float16),
        )
        for (name, weight), x in zip(LAYERS.items(), activations, strict=True)
    ]


def compile_layer(layer: Layer, target: str) -> Program:
    """The layer as .mlir and .safetensors, and the program they become for a target."""
    m, n, k = layer.shape
    source = OUTPUT / f"{layer.name}.mlir"
    source.write_text(LINALG.format(name=layer.name, m=m, n=n, k=k))
    weights = OUTPUT / f"{layer.name}.safetensors"
    save_weights(weights, {"weights": layer.weights})
    program = compile_module(source, target, weights=load_weights(weights))
    program.save(OUTPUT / f"{layer.name}-{target}")
    return program


def compare_with_numpy(layer: Layer, result: Array) -> Comparison:
    """The result against a product in binary64, element by element within its bound."""
    a, b = layer.activations.astype(np.float64), layer.weights.astype(np.float64)
    bound = contraction_bound(layer.shape[2], "f32")
    return compare(layer.name, result, a @ b, np.abs(a) @ np.abs(b), bound)


def read(model: onnx.ModelProto, scores: Array) -> str:
    """The text behind the classifier's scores: the best class of each position, repeats merged."""
    best = np.argmax(scores + constants(model)["linear_85.b_0"], axis=1)
    characters = next(p.value for p in model.metadata_props if p.key == "character").splitlines()
    classes = ["", *characters, " "]
    merged = [c for c, previous in zip(best, [0, *best[:-1]], strict=True) if c != previous]
    return "".join(classes[c] for c in merged).strip()


def main() -> int:
    OUTPUT.mkdir(exist_ok=True)
    model = onnx.load(model_path())
    rows: list[Sequence[str]] = []
    passed, scores = True, np.zeros((1, 1))
    for layer in layers(model, render(TEXT)):
        for target in TARGETS:
            start = time.perf_counter()
            program = compile_layer(layer, target)
            compiled = time.perf_counter()
            binaries = [code.binary for code in program.code.values()]
            complaints = "".join(map(spirv_val, binaries))
            if complaints:
                print(complaints, file=sys.stderr)
            ready = time.perf_counter()
            scores = run(program, {"activations": layer.activations})["result0"]
            done = time.perf_counter()
            comparison = compare_with_numpy(layer, scores)
            passed = passed and comparison.passed and not complaints
            rows.append(
                (
                    layer.name,
                    "x".join(map(str, layer.shape)),
                    target,
                    f"{compiled - start:.2f} s",
                    f"{sum(map(len, binaries))} B",
                    "no" if complaints else "valid",
                    f"{done - ready:.2f} s",
                    f"{comparison.max_abs:.2e}",
                    f"{comparison.share:.2%}",
                )
            )
    head = "layer|MxNxK|target|compiled|SPIR-V|spirv-val|interpreted|max error|of its bound"
    table = [head.split("|"), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print(f"\nwritten: {TEXT!r}\nread:    {read(model, scores)!r}")
    if not passed:
        print("error: a binary is not valid, or a result is beyond its bound", file=sys.stderr)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
