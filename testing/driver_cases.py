"""
Standard programs for compiling on drivers: contractions, convolutions, attention, models and
others.

The contractions cover types, few rows and 4-bit weights. The others are softmaxes, norms, scans and
sorts. The models are an encoder of MiniLM's sizes, a block of a Llama, and rapidocr-onnxruntime's
models if that package is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.targets import Target
from xdsl_spirv.testing.decoder_models import MICROSOFT, Decoder

MATMUL = """
func.func @main(%A: tensor<{m}x{k}x{a}>, %B: tensor<{k}x{n}x{a}>) -> tensor<{m}x{n}x{c}> {{
  %z = arith.constant {zero} : {c}
  %e = tensor.empty() : tensor<{m}x{n}x{c}>
  %i = linalg.fill ins(%z : {c}) outs(%e : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  %r = linalg.matmul ins(%A, %B : tensor<{m}x{k}x{a}>, tensor<{k}x{n}x{a}>)
                     outs(%i : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  return %r : tensor<{m}x{n}x{c}>
}}
"""
WINDOW = """func.func @main(%x: {x}, %w: {w}) -> {y} {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : {y}
  %i = linalg.fill ins(%z : f32) outs(%e : {y}) -> {y}
  %r = linalg.{op} {{dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}}
    ins(%x, %w : {x}, {w}) outs(%i : {y}) -> {y}
  return %r : {y}
}}
"""

MATMULS = {
    "matmul_f16_f32": (1024, 1024, 1024, "f16", "f32"),
    "matmul_f16_f16": (1024, 1024, 1024, "f16", "f16"),
    "matmul_bf16_f32": (1024, 1024, 1024, "bf16", "f32"),
    "matmul_i8_i32": (1024, 1024, 1024, "i8", "i32"),
    "matmul_f32_f32": (1024, 1024, 1024, "f32", "f32"),
    "matmul_odd_f16_f32": (300, 500, 700, "f16", "f32"),
    "matmul_odd_f32_f32": (300, 500, 700, "f32", "f32"),
    "row_f16_f32": (1, 4096, 4096, "f16", "f32"),
    "rows_f16_f32": (8, 4096, 4096, "f16", "f32"),
}
WINDOWS = {
    "conv_nhwc_f16": (
        "tensor<1x58x58x64xf16>",
        "tensor<3x3x64x64xf16>",
        "tensor<1x56x56x64xf32>",
        "conv_2d_nhwc_hwcf",
    ),
    "conv_nchw_f32": (
        "tensor<1x64x58x58xf32>",
        "tensor<64x64x3x3xf32>",
        "tensor<1x64x56x56xf32>",
        "conv_2d_nchw_fchw",
    ),
    "conv_nchw_f16": (
        "tensor<1x64x58x58xf16>",
        "tensor<64x64x3x3xf16>",
        "tensor<1x64x56x56xf32>",
        "conv_2d_nchw_fchw",
    ),
    "depthwise_f32": (
        "tensor<1x58x58x64xf32>",
        "tensor<3x3x64xf32>",
        "tensor<1x56x56x64xf32>",
        "depthwise_conv_2d_nhwc_hwc",
    ),
    "depthwise_5x5_f32": (
        "tensor<1x60x60x64xf32>",
        "tensor<5x5x64xf32>",
        "tensor<1x56x56x64xf32>",
        "depthwise_conv_2d_nhwc_hwc",
    ),
}
HEADS = (64, 128, 256)
PACKED = {"q4_row": 1, "q4_rows": 128}
"""Number of rows of products with 4-bit weights."""
SOFTMAXES = {
    "softmax": ("x", [512, 1024], -1),
    "softmax_short": ("hx", [8192, 64], -1),
    "softmax_long": ("x", [4, 50000], -1),
    "softmax_middle": ("x", [16, 256, 196], 1),
}
MODELS = (
    *SOFTMAXES,
    "layer_norm",
    "conv_transpose_f32",
    "conv_transpose_f16",
    "scan",
    "top_k",
    "sort",
)
BLOCKS = {"llama_step": 1, "llama_prompt": 128}
"""Maps a program to the number of tokens that its block of a Llama processes in one run."""
OCR = {"ocr_det": [1, 3, 160, 160], "ocr_rec": [1, 3, 48, 192]}
OCR_PACKAGE = "rapidocr_onnxruntime"
WHOLE = (*BLOCKS, "minilm", *(OCR if find_spec(OCR_PACKAGE) else ()))
"""Names of whole models."""
PROGRAMS = (*MATMULS, *WINDOWS, *MODELS, *(f"attention_{n}" for n in HEADS), *PACKED, *WHOLE)
"""Names of all programs."""

FEW_ROWS = {"row_f16_f32", "rows_f16_f32", "q4_row"}
"""Products that have fewer rows than a matrix instruction."""
HALVES = {
    "conv_nhwc_f16",
    "conv_nchw_f16",
    "conv_transpose_f16",
    "q4_rows",
    *(f"attention_{n}" for n in HEADS),
}
"""Programs other than `MATMULS` that multiply f16 x f16 -> f32."""


def fills_matrices(program: str, target: Target) -> bool:
    """True if a program fills the matrix instructions that a target lists for its types."""
    a, c = MATMULS[program][3:] if program in MATMULS else ("f16", "f32")
    if program in FEW_ROWS or program not in HALVES | MATMULS.keys():
        return False
    a, c = a.replace("i8", "s8"), c.replace("i32", "s32")
    return any(target.properties_for((a, a, c)))


def write_cases(folder: Path) -> Iterator[tuple[str, Path]]:
    """Writes the programs into a folder. Yields the name and the path of each one."""
    for name, (m, n, k, a, c) in MATMULS.items():
        zero = "0" if c.startswith("i") else "0.0"
        text = MATMUL.format(m=m, n=n, k=k, a=a, c=c, zero=zero)
        yield name, _write(folder / f"{name}.mlir", text)
    for name, (x, w, y, op) in WINDOWS.items():
        yield name, _write(folder / f"{name}.mlir", WINDOW.format(x=x, w=w, y=y, op=op))
    for name, nodes, inputs, constants in _models():
        yield name, _model(folder / f"{name}.onnx", nodes, inputs, constants)
    for name, model, sizes in _whole_models():
        yield name, _save(folder / f"{name}.onnx", model, sizes)


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _models() -> Iterator[tuple[str, list[Any], dict[str, list[int]], dict[str, Any]]]:
    """
    Yields the name, nodes, inputs and constants of each model. Inputs named `h` are f16, others
    f32.
    """
    from onnx.helper import make_node

    for name, (x, shape, at) in SOFTMAXES.items():
        yield name, [make_node("Softmax", [x], ["y"], axis=at)], {x: shape}, {}
    square = {"x": [512, 1024]}
    norm = make_node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1)
    yield "layer_norm", [norm], square, {n: np.ones(1024, np.float32) for n in "sb"}
    for head in HEADS:
        shape = [4, 8, 256, head]
        nodes = [
            make_node("Transpose", ["hk"], ["kt"], perm=[0, 1, 3, 2]),
            make_node("MatMul", ["hq", "kt"], ["s"]),
            make_node("Mul", ["s", "scale"], ["t"]),
            make_node("Softmax", ["t"], ["p"], axis=-1),
            make_node("MatMul", ["p", "hv"], ["y"]),
        ]
        inputs = {name: shape for name in ("hq", "hk", "hv")}
        yield f"attention_{head}", nodes, inputs, {"scale": np.array(head**-0.5, np.float16)}
    for kind, size in (("f32", "x"), ("f16", "hx")):
        nodes = [make_node("ConvTranspose", [size, "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])]
        weights = np.ones((64, 64, 4, 4), np.float16 if kind == "f16" else np.float32)
        yield f"conv_transpose_{kind}", nodes, {size: [1, 64, 28, 28]}, {"w": weights}
    axis = {"axis": np.array(-1)}
    yield "scan", [make_node("CumSum", ["x", "axis"], ["y"])], square, axis
    for name, count in (("top_k", 16), ("sort", 1024)):
        node = make_node("TopK", ["x", "k"], ["y", "i"], axis=-1)
        yield name, [node], square, {"k": np.array([count])}
    for name, rows in PACKED.items():
        decoder = Decoder(dtype=np.float16, bits=4)
        decoder.product("hx", "y", 4096, 4096)
        yield name, decoder.nodes, {"hx": [rows, 4096]}, decoder.constants


def _model(
    path: Path, nodes: Sequence[Any], inputs: dict[str, list[int]], constants: dict[str, Any]
) -> Path:
    import onnx

    onnx.save(_proto(path.stem, nodes, inputs, constants), path)
    return path


def _proto(
    name: str, nodes: Sequence[Any], inputs: dict[str, list[int]], constants: dict[str, Any]
) -> Any:
    import onnx
    from onnx.helper import make_graph, make_model, make_opsetid, make_tensor_value_info

    def type_of(name: str) -> int:
        return onnx.TensorProto.FLOAT16 if name.startswith("h") else onnx.TensorProto.FLOAT

    first = next(iter(inputs))
    graph = make_graph(
        list(nodes),
        name,
        [make_tensor_value_info(name, type_of(name), shape) for name, shape in inputs.items()],
        [make_tensor_value_info("y", type_of(first), None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [make_opsetid("", 20), make_opsetid(MICROSOFT, 1)]
    return make_model(graph, opset_imports=opsets, ir_version=9)


def _whole_models() -> Iterator[tuple[str, Any, dict[str, Sequence[int]]]]:
    import onnx

    for name, tokens in BLOCKS.items():
        decoder = Decoder(
            dtype=np.float16, bits=4, longest=512, vocabulary=64,
            width=2048, heads=32, shared=8, hidden=5632,
        )  # fmt: skip
        past = [1, 8, 256, 64]
        yield (
            name,
            decoder.model(),
            {
                "input_ids": [1, tokens],
                "attention_mask": [1, 256 + tokens],
                "past_key_values.0.key": past,
                "past_key_values.0.value": past,
            },
        )
    yield "minilm", _encoder(), {"x": [1, 64, 384], "mask": [1, 1, 1, 64]}
    if spec := find_spec(OCR_PACKAGE):
        [folder] = spec.submodule_search_locations or []
        for name, shape in OCR.items():
            file = f"models/ch_PP-OCRv4_{name[4:]}_infer.onnx"
            yield name, onnx.load(Path(folder, file)), {"x": shape}


def _encoder() -> Any:
    """Returns a layer of MiniLM-L6 for 64 tokens: 12 heads of size 32, widths 384 and 1,536."""
    layer = Decoder(width=384, heads=12)
    shape = layer.constant("shape", np.array([1, 64, 12, 32]))
    scale = layer.constant("scale", np.array(32**-0.5, np.float32))

    def linear(x: str, name: str, rows: int, columns: int) -> str:
        bias = layer.weight(f"{name}.bias", columns)
        return layer.node("Add", [layer.product(x, f"{name}.sum", rows, columns), bias], name)

    def heads(name: str, order: Sequence[int]) -> str:
        split = layer.node("Reshape", [linear("x", name, 384, 384), shape], f"{name}.split")
        return layer.node("Transpose", [split], f"{name}.heads", perm=order)

    def add_norm(x: str, more: str, name: str) -> str:
        total = layer.node("Add", [x, more], f"{name}.total")
        weights = [layer.weight(f"{name}.{part}", 384) for part in ("weight", "shift")]
        return layer.node("LayerNormalization", [total, *weights], name, axis=-1)

    q, k, v = heads("q", (0, 2, 1, 3)), heads("k", (0, 2, 3, 1)), heads("v", (0, 2, 1, 3))
    scores = layer.node("Mul", [layer.node("MatMul", [q, k], "scores"), scale], "scaled")
    masked = layer.node("Add", [scores, "mask"], "masked")
    weights = layer.node("Softmax", [masked], "weights", axis=-1)
    joined = layer.node("MatMul", [weights, v], "attended")
    joined = layer.node("Transpose", [joined], "joined", perm=(0, 2, 1, 3))
    joined = layer.node("Reshape", [joined, layer.constant("flat", np.array([1, 64, 384]))], "rows")
    inner = add_norm("x", linear(joined, "out", 384, 384), "first")
    wide = layer.node("Gelu", [linear(inner, "wide", 384, 1536)], "gelu")
    add_norm(inner, linear(wide, "narrow", 1536, 384), "y")
    return _proto("minilm", layer.nodes, {"x": [], "mask": []}, layer.constants)


def _save(path: Path, model: Any, sizes: Mapping[str, Sequence[int]]) -> Path:
    """Writes a model with the given input sizes. Infers the sizes of its results."""
    import onnx

    for value in model.graph.input:
        value.type.CopyFrom(
            onnx.helper.make_tensor_type_proto(value.type.tensor_type.elem_type, sizes[value.name])
        )
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path
