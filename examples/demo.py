"""
Compiles three layers of a real text recogniser for two devices, and runs them without either
device.

PP-OCRv4's recogniser reads a line of text rendered here. onnxruntime computes the inputs of its
first convolution, its first attention projection and its classifier. Together with the layers'
real weights they become these linalg operations:

- the convolution (3 x 3, stride 2, zero padding), f16 x f16 -> f32;
- the projection, a `linalg.matmul` f16 x f16 -> f32;
- the classifier in 8 bits, a `linalg.quantized_matmul` with a zero point: s8 x s8 -> s32.

Each is compiled for an NVIDIA H200 and for Mesa's lavapipe, validated by Khronos' spirv-val, run
on the interpreter, and compared with numpy: floats within the bound of binary32 sums, integers
exactly. At the end, the text is read from the results of the 8-bit classifier.

    make demo            its output is in demo-output/
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

from xdsl_spirv.compare.bounds import Comparison, compare, contraction_bound
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.weights import load_weights, save_weights
from xdsl_spirv.tools.khronos import spirv_val

TEXT = "SPIR-V from Python, 2026"
TARGETS = ("nvidia-h200", "lavapipe")
CONVOLUTION, PROJECTION, CLASSIFIER = "conv2d_10.w_0", "linear_77.w_0", "linear_85.w_0"
OUTPUT = Path("demo-output")
HEIGHT = 48

CONVOLUTION_TEXT = """// The first convolution: {c} channels of {h} x {w} to {f} of {y} x {x}.
func.func @main(%input: tensor<1x{c}x{h}x{w}xf16>, %weights: tensor<{f}x{c}x3x3xf16>)
    -> tensor<1x{f}x{y}x{x}xf32> {{
  %border = arith.constant 0.0 : f16
  %padded = tensor.pad %input low[0, 0, 1, 1] high[0, 0, 1, 1] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %border : f16
  }} : tensor<1x{c}x{h}x{w}xf16> to tensor<1x{c}x{ph}x{pw}xf16>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x{f}x{y}x{x}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x{f}x{y}x{x}xf32>)
    -> tensor<1x{f}x{y}x{x}xf32>
  %result = linalg.conv_2d_nchw_fchw {{strides = dense<2> : tensor<2xi64>,
                                       dilations = dense<1> : tensor<2xi64>}}
    ins(%padded, %weights : tensor<1x{c}x{ph}x{pw}xf16>, tensor<{f}x{c}x3x3xf16>)
    outs(%init : tensor<1x{f}x{y}x{x}xf32>) -> tensor<1x{f}x{y}x{x}xf32>
  return %result : tensor<1x{f}x{y}x{x}xf32>
}}
"""

MATMUL_TEXT = """// The first attention projection: {m} positions, {k} features, {n} results.
func.func @main(%input: tensor<{m}x{k}xf16>, %weights: tensor<{k}x{n}xf16>)
    -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{m}x{n}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %result = linalg.matmul ins(%input, %weights : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>)
                          outs(%init : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %result : tensor<{m}x{n}xf32>
}}
"""

QUANTIZED_TEXT = """// The classifier in 8 bits: {m} positions, {k} features, {n} characters.
func.func @main(%input: tensor<{m}x{k}xi8>, %weights: tensor<{k}x{n}xi8>) -> tensor<{m}x{n}xi32> {{
  %input_zero = arith.constant {zero} : i32
  %weights_zero = arith.constant 0 : i32
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<{m}x{n}xi32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<{m}x{n}xi32>) -> tensor<{m}x{n}xi32>
  %result = linalg.quantized_matmul
    ins(%input, %weights, %input_zero, %weights_zero
        : tensor<{m}x{k}xi8>, tensor<{k}x{n}xi8>, i32, i32)
    outs(%init : tensor<{m}x{n}xi32>) -> tensor<{m}x{n}xi32>
  return %result : tensor<{m}x{n}xi32>
}}
"""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Layer:
    """
    A contraction of the model: its source, its operands, and its expected result.

    `depth` is the number of products in a sum. `magnitude` sums the products' absolute values.
    """

    name: str
    text: str
    input: Array
    weights: Array
    depth: int
    exact: Array
    magnitude: Array

    @property
    def shape(self) -> str:
        return f"{'x'.join(map(str, self.exact.shape))} of {self.depth}"


def convolution(image: Array, weights: Array) -> Layer:
    """Returns the 3 x 3 convolution with stride 2 and zero padding."""
    x, w = image.astype(np.float16), weights.astype(np.float16)
    _, c, h, width = x.shape
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    product = "ncyxij,fcij->nfyx"
    exact = np.einsum(product, windows, w.astype(np.float64))
    magnitude = np.einsum(product, abs(windows), abs(w.astype(np.float64)))
    _, f, rows, columns = exact.shape
    text = CONVOLUTION_TEXT.format(
        c=c, h=h, w=width, ph=h + 2, pw=width + 2, f=f, y=rows, x=columns
    )
    return Layer("convolution", text, x, w, 9 * c, exact, magnitude)


def projection(activations: Array, weights: Array) -> Layer:
    x, w = activations.astype(np.float16), weights.astype(np.float16)
    a, b = x.astype(np.float64), w.astype(np.float64)
    (m, k), n = x.shape, w.shape[1]
    return Layer("projection", MATMUL_TEXT.format(m=m, n=n, k=k), x, w, k, a @ b, abs(a) @ abs(b))


def classifier(activations: Array, weights: Array) -> tuple[Layer, Array]:
    """Returns the classifier in 8 bits, and the scales of its result's columns."""
    low, high = min(0.0, activations.min()), max(0.0, activations.max())
    scale = (high - low) / 255
    zero = int(np.rint(-128 - low / scale))
    x = np.clip(np.rint(activations / scale) + zero, -128, 127).astype(np.int8)
    steps = np.abs(weights).max(axis=0) / 127
    w = np.rint(weights / steps).astype(np.int8)
    exact = (x.astype(np.int32) - zero) @ w.astype(np.int32)
    (m, k), n = x.shape, w.shape[1]
    text = QUANTIZED_TEXT.format(m=m, n=n, k=k, zero=zero)
    return Layer("classifier", text, x, w, k, exact, np.zeros_like(exact)), scale * steps


def model_path() -> Path:
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("error: the models are not installed; run `make demo`")
    return Path(spec.submodule_search_locations[0]) / "models" / "ch_PP-OCRv4_rec_infer.onnx"


def render(text: str) -> Array:
    """Renders a line of text as input of the model: 1 x 3 x 48 x width, from -1 to 1."""
    font = ImageFont.load_default(HEIGHT * 0.7)
    width = int(font.getlength(text)) + 32
    image = Image.new("RGB", (width, HEIGHT), "white")
    ImageDraw.Draw(image).text((16, 4), text, font=font, fill="black")
    image.save(OUTPUT / "text.png")
    pixels = np.asarray(image, np.float32)[:, :, ::-1] / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def constants(model: onnx.ModelProto) -> dict[str, Array]:
    """Returns the model's constants by name. They are nodes of this model."""
    nodes = [n for n in model.graph.node if n.op_type == "Constant"]
    initializers = {w.name: w for w in model.graph.initializer}
    initializers |= {n.output[0]: n.attribute[0].t for n in nodes}
    return {name: numpy_helper.to_array(tensor) for name, tensor in initializers.items()}


def layers(model: onnx.ModelProto, image: Array) -> tuple[list[Layer], Array]:
    """Returns each layer with inputs and weights, and the scales of the classifier's result."""
    weights = constants(model)
    matmuls = {
        node.input[1]: node.input[0] for node in model.graph.node if node.op_type == "MatMul"
    }
    names = [matmuls[PROJECTION], matmuls[CLASSIFIER]]
    for name in names:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    values = session.run(names, {model.graph.input[0].name: image})
    projected, classified = (np.asarray(x).reshape(-1, x.shape[-1]) for x in values)
    last, steps = classifier(classified, weights[CLASSIFIER])
    first = convolution(image, weights[CONVOLUTION])
    return [first, projection(projected, weights[PROJECTION]), last], steps


def compile_layer(layer: Layer, target: str) -> Program:
    """Writes the layer as .mlir and .safetensors, and compiles it for a target."""
    source = OUTPUT / f"{layer.name}.mlir"
    source.write_text(layer.text)
    weights = OUTPUT / f"{layer.name}.safetensors"
    save_weights(weights, {"weights": layer.weights})
    program = compile_module(source, target, weights=load_weights(weights))
    program.save(OUTPUT / f"{layer.name}-{target}")
    return program


def path_of(program: Program) -> str:
    """Returns the kind of instructions by which a layer multiplies."""
    text = "".join(code.text for code in program.code.values())
    if "CooperativeMatrixMulAdd" in text:
        return "cooperative matrices"
    return "packed dot products" if "Dot " in text else "multiply-adds"


def compare_with_numpy(layer: Layer, result: Array) -> Comparison:
    """Compares the result with numpy's: floats within their bound, integers exactly."""
    bound = contraction_bound(layer.depth, "f32")
    return compare(layer.name, result, layer.exact, layer.magnitude, bound)


def read(model: onnx.ModelProto, scores: Array) -> str:
    """Decodes the classifier's scores: takes each position's best class, and merges repetitions."""
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
    chosen, steps = layers(model, render(TEXT))
    for layer in chosen:
        for target in TARGETS:
            start = time.perf_counter()
            program = compile_layer(layer, target)
            compiled = time.perf_counter()
            binaries = [code.binary for code in program.code.values()]
            complaints = "".join(map(spirv_val, binaries))
            if complaints:
                print(complaints, file=sys.stderr)
            ready = time.perf_counter()
            scores = run(program, {"input": layer.input})["result0"]
            done = time.perf_counter()
            comparison = compare_with_numpy(layer, scores)
            passed = passed and comparison.passed and not complaints
            rows.append(
                (
                    layer.name,
                    layer.shape,
                    target,
                    path_of(program),
                    f"{compiled - start:.2f} s",
                    f"{sum(map(len, binaries))} B",
                    "no" if complaints else "valid",
                    f"{done - ready:.2f} s",
                    f"{comparison.max_abs:.2e}",
                    f"{comparison.share:.2%}",
                )
            )
    head = "layer|results|target|by|compiled|SPIR-V|spirv-val|interpreted|max error|of its bound"
    table = [head.split("|"), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print(f"\nwritten: {TEXT!r}\nread:    {read(model, scores * steps)!r}")
    if not passed:
        print("error: a binary is not valid, or a result exceeds its bound", file=sys.stderr)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
