"""
The valid files that the fuzzer damages, by kind: inputs of this checkout's tests.

`python -m xdsl_spirv.testing.fuzzing.seeds FOLDER` writes the files for machines without the
tests.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from xdsl_spirv.testing.fuzzing.readers import PIPELINE, pack_program

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SMALL = 2_000
"""
Maximum size of a seed module in bytes. A random change of a small module is more likely to have an
effect.
"""
GRAPHS, KERNELS = 60, 24
"""Numbers of random graphs and kernels from differential testing."""
PASSES = re.compile(r"(?:-p|--passes)[ =]+(?:'([^']*)'|\"([^\"]*)\"|(\S+))")

EXPRESSIONS = (
    "a", "a * 12", "(a + 63) / 64", "min(a * 8, 256)", "(a - b) * (n + 1) / 2", "12", "-a + n",
    "min(min(a, b), n) * 4 - 1", "((a + 1) * (b + 1) - 1) / (n - 63)",
)  # fmt: skip


def _assembly() -> Iterator[bytes]:
    for path in sorted((TESTS / "serialization" / "validation" / "cases").glob("*.spvasm")):
        yield path.read_text().split("; ---")[0].encode()


def _spirv() -> Iterator[bytes]:
    from xdsl_spirv.serialization.text.assembler import assemble
    from xdsl_spirv.testing.differential import generate
    from xdsl_spirv.testing.differential.running import job_of

    yield from (assemble(text.decode()).encode() for text in _assembly())
    yield from (job_of(generate(seed)).spirv for seed in range(KERNELS))
    for path in sorted((ROOT / ".corpus").glob("*/*.spv")):
        if path.stat().st_size <= SMALL:
            yield path.read_bytes()


def texts() -> Iterator[tuple[str, str]]:
    """Yields each input of a FileCheck test, and the passes of its first RUN line."""
    for path in sorted((TESTS / "filecheck").rglob("*.mlir")):
        text = path.read_text()
        if "diagnostics" in text or "RUN: not" in text:
            # The test expects an error.
            continue
        named = PASSES.search(text.partition("\n")[0])
        chosen = next(filter(None, named.groups()), "") if named else ""
        for part in text.split("// -----"):
            lines = [line for line in part.splitlines() if not line.lstrip().startswith("//")]
            if any(lines):
                yield "\n".join(lines), chosen


def _mlir() -> Iterator[bytes]:
    yield from (text.encode() for text, _ in texts() if len(text) <= SMALL)


def _passes() -> Iterator[bytes]:
    for text, passes in texts():
        if passes and len(text) <= SMALL:
            yield f"{PIPELINE}{passes}\n{text}".encode()


def _onnx() -> Iterator[bytes]:
    from xdsl_spirv.testing.differential.onnx_graphs import assemble_model
    from xdsl_spirv.testing.differential.onnx_judging import random_graph

    for number in range(GRAPHS):
        data: bytes = assemble_model([random_graph(19, number)[1]]).SerializeToString()
        if len(data) < 5 * SMALL:
            yield data


def _ttir() -> Iterator[bytes]:
    for path in sorted((TESTS / "frontends" / "triton").glob("*.ttir")):
        yield path.read_bytes()


STABLEHLO = """
func.func @main(%a: tensor<4x6xf32>, %b: tensor<6x3xf32>, %i: tensor<2x1xi32>) -> tensor<2x3xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  %1 = "stablehlo.gather"(%0, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.slice %3 [0:2:1, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %5 = stablehlo.pad %4, %z, low = [0, 0], high = [0, 0], interior = [0, 1]
    : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x3xf32>
  %6 = stablehlo.reshape %5 : (tensor<2x3xf32>) -> tensor<6xf32>
  %7 = stablehlo.iota dim = 0 : tensor<6xi32>
  %8 = stablehlo.convert %7 : (tensor<6xi32>) -> tensor<6xf32>
  %9 = stablehlo.maximum %6, %8 : tensor<6xf32>
  %10 = stablehlo.reshape %9 : (tensor<6xf32>) -> tensor<2x3xf32>
  return %10 : tensor<2x3xf32>
}"""


def _stablehlo() -> Iterator[bytes]:
    yield STABLEHLO.encode()


def _gguf() -> Iterator[bytes]:
    from xdsl_spirv.testing.gguf_header import gguf_header

    yield gguf_header({"general.architecture": "llama", "a": 1, "b": [1, -2], "c": [[1], [2]]})
    values = {"t": ["a", "b" * 40], "e": 0.5, "f": True, "general.alignment": 32}
    head = gguf_header(values)
    # Name, dimensions, format and offset of each tensor: f32 of 2 x 3, Q8_0 of 2 x 32.
    listed = b"".join(
        struct.pack("<Q1sIQQIQ", 1, name, 2, columns, 2, number, place)
        for name, columns, number, place in ((b"d", 3, 0, 0), (b"q", 32, 8, 32))
    )
    counted = head[:8] + struct.pack("<Q", 2) + head[16:] + listed
    yield counted + bytes(-len(counted) % 32 + 32 + 68)


def _safetensors() -> Iterator[bytes]:
    import numpy as np
    from safetensors.numpy import save

    yield save({"w": np.ones((2, 3), np.float32)})
    yield save({"a": np.ones(4, np.int8), "b": np.zeros((0, 2), np.float16)}, {"schema": "x"})


SOURCE = """
func.func @main(%x: tensor<?x8xf32>, %y: tensor<8x4xf32>) -> tensor<?x4xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4xf32>) -> tensor<?x4xf32>
  %p = linalg.matmul ins(%x, %y : tensor<?x8xf32>, tensor<8x4xf32>) outs(%f : tensor<?x4xf32>)
    -> tensor<?x4xf32>
  %s = linalg.add ins(%p, %p : tensor<?x4xf32>, tensor<?x4xf32>) outs(%e : tensor<?x4xf32>)
    -> tensor<?x4xf32>
  return %s : tensor<?x4xf32>
}
"""


def _program() -> Iterator[bytes]:
    from xdsl_spirv.compiler import compile_module
    from xdsl_spirv.runtime.modules import parse_text

    known = SOURCE.replace("?", "2").replace("empty(%n)", "empty()")
    for target, text in (("lavapipe", SOURCE), ("nvidia-h200", SOURCE), ("lavapipe", known)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "program"
            compile_module(parse_text(text), target).save(folder)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            yield pack_program({str(p.relative_to(folder)): p.read_bytes() for p in files})


def _target() -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted((ROOT / "targets").glob("*.json")))


def _tuned_tables() -> Iterator[bytes]:
    for path in sorted((ROOT / "targets" / "tuned").glob("*.json")):
        table: Any = json.loads(path.read_text())
        table["entries"] = dict(list(table["entries"].items())[:4])
        yield json.dumps(table).encode()


def _toml() -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted(TESTS.rglob("*.kernel.toml")))


def _expression() -> Iterator[bytes]:
    yield from (text.encode() for text in EXPRESSIONS)


KINDS: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "spirv": _spirv,
    "assembly": _assembly,
    "mlir": _mlir,
    "passes": _passes,
    "onnx": _onnx,
    "ttir": _ttir,
    "stablehlo": _stablehlo,
    "gguf": _gguf,
    "safetensors": _safetensors,
    "program": _program,
    "target": _target,
    "tuned": _tuned_tables,
    "toml": _toml,
    "expression": _expression,
}


def in_folder(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("*")) if path.is_file()]


def all_of(kind: str) -> list[bytes]:
    """Returns the inputs of the tests, and the inputs that reached new lines in earlier fuzzing."""
    return [*KINDS[kind](), *in_folder(TESTS / "fuzzing" / kind)]


def main() -> None:
    folder = Path(sys.argv[1])
    for kind in KINDS:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(all_of(kind)):
            (folder / kind / f"{number:04}").write_bytes(data)


if __name__ == "__main__":
    main()
