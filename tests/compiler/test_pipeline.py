"""`compile` makes the same kernels as the documented list of passes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.compiler.compiler import pipeline_of
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.model import compile_model, load_model
from xdsl_spirv.compiler.pipeline import LinalgToSPIRVPass, expand_pipelines, lowering
from xdsl_spirv.compiler.weights import give_weights
from xdsl_spirv.dialects.spirv.module import modules_by_name
from xdsl_spirv.frontends.model import ImportedModel
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.upstream.passes_on_demand import contents

ROOT = Path(__file__).resolve().parents[2]
FILECHECKS = ROOT / "tests" / "filecheck" / "passes"

DOCS = (ROOT / "docs" / "passes" / "README.md").read_text()
LIST = re.search(r"^xdsl-opt x.mlir -p '(lift-weights,.*)'$", DOCS, re.MULTILINE)


def documented(target: str) -> str:
    """Returns the list of passes that docs/passes/README.md gives for a target."""
    assert LIST is not None
    return LIST[1].replace("lavapipe", target)


def kernels_of(module: ModuleOp, target: str) -> dict[str | None, bytes]:
    """Returns the kernels that the documented passes make from a module."""
    pipeline_of(documented(target)).apply(context(), module)
    return {name: encode(op, names=True) for name, op in modules_by_name(module).items()}


def same(compiled: dict[str, bytes], kernels: dict[str | None, bytes]) -> None:
    assert compiled
    for name, binary in compiled.items():
        assert kernels[name] == binary, name


def inputs() -> dict[str, str]:
    """Returns FileCheck modules with a host function on tensors, by file and index."""
    return {
        f"{path.stem}-{number}": part
        for path in sorted(FILECHECKS.rglob("*.mlir"))
        for number, part in enumerate(path.read_text().split("// -----"))
        if "linalg" in part and "@main" in part and "tensor<" in part
    }


INPUTS = inputs()
FEW = [name for name in INPUTS if name.startswith(("linalg-to-spirv", "fold-constants-values"))]


def check_text(text: str, target: str) -> None:
    try:
        program = compile_module(parse_text(text), target)
    except (ProgramError, DiagnosticException, VerifyException) as error:
        pytest.skip(f"not for {target}: {error}".splitlines()[0])
    compiled = {name: code.binary for name, code in program.code.items()}
    same(compiled, kernels_of(parse_text(text), target))


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_compile_runs_the_documented_passes(name: str, target: str):
    check_text(INPUTS[name], target)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(INPUTS.keys() - FEW))
@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_compile_runs_the_documented_passes_on_every_input(name: str, target: str):
    check_text(INPUTS[name], target)


def check_weighted(text: str, weights: dict[str, Any], target: str) -> None:
    """Checks that a module with weights compiles to the kernels of the documented passes."""
    program = compile_module(parse_text(text), target, weights=weights)
    module = parse_text(text)
    give_weights(host_function(module), weights)
    compiled = {name: code.binary for name, code in program.code.items()}
    same(compiled, kernels_of(module, target))


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_compile_runs_the_documented_passes_on_the_demo(target: str):
    sys.path.insert(0, str(ROOT / "examples"))
    demo: Any = pytest.importorskip("demo")
    random = np.random.default_rng(0).standard_normal
    layers = [
        demo.convolution(random((1, 3, 48, 96)), random((8, 3, 3, 3))),
        demo.projection(random((5, 16)), random((16, 48))),
        demo.classifier(random((5, 16)), random((16, 96)))[0],
    ]
    for layer in layers:
        check_weighted(layer.text, {"weights": layer.weights}, target)


def check_model(load: Callable[[], ImportedModel], target: str) -> None:
    """
    Checks that a model compiles to the kernels that the documented passes make from its module and
    weights.
    """
    program = compile_model(load(), target)
    model = load()
    give_weights(host_function(model.module, model.function), model.weights)
    compiled = {name: code.binary for name, code in program.code.items()}
    same(compiled, kernels_of(model.module, target))


def zoo() -> list[Any]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import model_zoo  # pyright: ignore

    return model_zoo.MODELS


@pytest.mark.long
@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
@pytest.mark.parametrize("model", zoo(), ids=lambda model: model.name)
def test_compile_runs_the_documented_passes_on_models(model: Any, target: str):
    if missing := model.missing():
        pytest.skip(f"{missing} is not installed")
    from xdsl_spirv.frontends import import_onnx

    check_model(lambda: import_onnx(model.proto()), target)


WEIGHTED = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<12x16xf32>) -> tensor<8x12xf32> {
  %e = tensor.empty() : tensor<16x12xf32>
  %t = linalg.transpose ins(%w : tensor<12x16xf32>)
                        outs(%e : tensor<16x12xf32>) permutation = [1, 0]
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<8x12xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<8x12xf32>) -> tensor<8x12xf32>
  %r = linalg.matmul ins(%x, %t : tensor<8x16xf32>, tensor<16x12xf32>)
                     outs(%f : tensor<8x12xf32>) -> tensor<8x12xf32>
  func.return %r : tensor<8x12xf32>
}
"""


def test_a_model_with_weights_goes_through_xdsl_opt(tmp_path: Path):
    w = np.arange(192, dtype=np.float32).reshape(12, 16)
    program = compile_module(parse_text(WEIGHTED), "lavapipe", weights={"w": w})
    assert np.array_equal(program.weights["w.folded"], w.T)
    module = parse_text(WEIGHTED)
    give_weights(host_function(module), {"w": w})
    blob = f"0x04000000{w.tobytes().hex()}"
    resources = f'{{-# dialect_resources: {{ builtin: {{ main.w: "{blob}" }} }} #-}}'
    path = tmp_path / "x.mlir"
    path.write_text(f"{text_of(module)}\n{resources}\n")
    tool = Path(sys.executable).parent / "xdsl-opt"
    command = [str(tool), str(path), "-p", documented("lavapipe")]
    command += ["-t", "spirv-binary{names=true}"]
    done = subprocess.run(command, capture_output=True, check=False)
    (code,) = program.code.values()
    assert done.stdout == code.binary, done.stderr.decode()
    again = load_model(path)
    assert np.array_equal(again.weights["w"], w)
    (compiled,) = compile_model(again, "lavapipe").code.values()
    assert compiled.binary == code.binary


@pytest.mark.parametrize("name", sorted(INPUTS)[::2])
def test_a_pass_that_is_left_out_would_change_nothing(name: str):
    """A pass is left out if the module has no operation that `universe.NEEDS` lists for it."""
    ctx, module = context(), parse_text(INPUTS[name])
    for member in lowering("lavapipe"):
        text = None
        if member.needs is not None and contents(module).isdisjoint(member.needs):
            text = text_of(module)
        try:
            member.load().apply(ctx, module)
        except DiagnosticException:
            return  # A refusal ends the lowering.
        assert text is None or text_of(module) == text, member.name


def test_the_lowering_is_the_documented_list():
    whole = expand_pipelines([LinalgToSPIRVPass(target="lavapipe")])
    assert [*pipeline_of(documented("lavapipe")).passes] == whole
