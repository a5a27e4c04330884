"""
Hash the SPIR-V of many kernels: whether a change of the compiler changed what it emits.

`kernel_hashes.py OUT.json` compiles matrix multiplications for several devices, the `linalg` inputs
of the FileCheck tests and, with `--models`, the models of installed packages (see
benchmarks/model_zoo.py). Two files of two revisions are equal if every kernel is equal byte for
byte; a refusal is compared by its message.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import xdsl_spirv

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("lavapipe", "nvidia-h200", "intel-xe2")
SHAPES = ((64, 64, 64), (1000, 77, 300), (3, 5, 7))
TYPES = (
    ("f16", "f32", "0.0"),
    ("f16", "f16", "0.0"),
    ("f32", "f32", "0.0"),
    ("i8", "i32", "0"),
    ("bf16", "f32", "0.0"),
)
MATMUL = """
func.func @main(%A: tensor<{m}x{k}x{a}>, %B: tensor<{k}x{n}x{a}>) -> tensor<{m}x{n}x{c}> {{
  %zero = arith.constant {zero} : {c}
  %e = tensor.empty() : tensor<{m}x{n}x{c}>
  %i = linalg.fill ins(%zero : {c}) outs(%e : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  %r = linalg.matmul ins(%A, %B : tensor<{m}x{k}x{a}>, tensor<{k}x{n}x{a}>)
                     outs(%i : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  return %r : tensor<{m}x{n}x{c}>
}}"""

Case = tuple[str, Callable[[], Any]]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def kernels(program: xdsl_spirv.Program) -> dict[str, str]:
    return {name: digest(code.binary) for name, code in sorted(program.code.items())}


def compiled(source: Any, target: str, **options: Any) -> Callable[[], Any]:
    return lambda: kernels(
        xdsl_spirv.compile(source() if callable(source) else source, target, **options)
    )


def text(source: str) -> Callable[[], Any]:
    from xdsl.parser import Parser

    return lambda: Parser(context(), source).parse_module()


def context() -> Any:
    from xdsl.context import Context
    from xdsl.universe import Universe

    dialects = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        dialects.register_dialect(name, factory)
    return dialects


def matmuls() -> Iterator[Case]:
    for target, (m, n, k), (a, c, zero) in itertools.product(TARGETS, SHAPES, TYPES):
        source = text(MATMUL.format(m=m, n=n, k=k, a=a, c=c, zero=zero))
        yield f"mm {m}x{n}x{k} {a} {c} {target}", compiled(source, target)


def filechecks() -> Iterator[Case]:
    for path in sorted((ROOT / "tests/filecheck/passes").rglob("*.mlir")):
        for number, part in enumerate(path.read_text().split("// -----")):
            if "linalg" in part and "@main" in part and "tensor<" in part:
                for target in ("lavapipe", "nvidia-h200"):
                    yield f"filecheck {path.stem} {number} {target}", compiled(text(part), target)


def onnx_models() -> Iterator[Case]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from model_variants import missing, variant_of  # pyright: ignore
    from model_zoo import MODELS  # pyright: ignore

    for model, target in itertools.product(MODELS, ("lavapipe", "nvidia-h200")):
        for variant in model.variants:
            if model.missing() is None and missing(variant) is None:
                source = functools.partial(variant_of, model, variant)
                yield f"model {model.name} {variant} {target}", compiled(source, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    parser.add_argument("--models", action="store_true", help="models of installed packages, too")
    options = parser.parse_args()
    cases = [*matmuls(), *filechecks(), *(onnx_models() if options.models else ())]
    results: dict[str, Any] = {}
    for name, run in cases:
        if not name.startswith(options.only):
            continue
        try:
            results[name] = run()
        except Exception as error:  # what is refused is compared, too
            results[name] = f"{type(error).__name__}: {error}"[:200]
    options.output.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    count = sum(isinstance(result, dict) for result in results.values())
    print(f"{len(results)} cases, {count} compiled")


if __name__ == "__main__":
    main()
