"""
Every registered pass is tested, validated and documented.

`testing/pass_programs.py` has a program for each pass that the pass changes. Translation
validation compares the results before and after the pass. Epilogues and prologues of contractions
are validated by name on each kind of instruction.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.rewriter import Rewriter
from xdsl.universe import Universe

from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.testing.pass_programs import CASES, IDENTITY, ROW, elementwise, matmul, tensor
from xdsl_spirv.universe import NEEDS, PASSES, UNIVERSE
from xdsl_spirv.upstream.passes_on_demand import contents

if TYPE_CHECKING:
    from tests.passes.conftest import ReportOf, Validate

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "passes"
FILECHECKS = sorted((ROOT / "tests" / "filecheck" / "passes").glob("*.mlir"))

ELSEWHERE = {
    "form-attention": ("schedule/test_attention.py", "test_every_stage_keeps_the_results"),
    "attention-to-cooperative-matrix": (
        "schedule/test_attention.py",
        "test_every_stage_keeps_the_results",
    ),
}
"""Maps passes that another test validates to the file and the name of that test."""

WITHOUT_VALIDATE = {
    "raise-tiles": ("graph/test_raise_tiles.py", "test_the_function_computes_what_whole_tiles_do"),
}
"""A pass that turns results into buffers, which `check-passes` does not compare."""


EXAMPLE = re.compile(
    r"^`xdsl-opt -p '(?P<passes>[^`]*)'`\n\n"
    r"```mlir\n(?P<before>.+?)```\n\nbecomes\n\n```mlir\n",
    re.MULTILINE | re.DOTALL,
)
EXAMPLES = {
    page.stem: match
    for page in DOCS.glob("*.md")
    if page.stem in PASSES and (match := EXAMPLE.search(page.read_text()))
}
"""The first documented example of each pass."""

# All other passes are validated on their documented examples.
CASES.update(
    (name, (EXAMPLES[name]["before"], "", EXAMPLES[name]["passes"]))
    for name in PASSES
    if name not in CASES and name not in ELSEWHERE and name not in WITHOUT_VALIDATE
    if name in EXAMPLES
)


def test_every_pass_is_registered():
    """Abstract subclasses of `ModulePass` in passes/ are not in universe.py."""
    named = {"ModulePass", "KernelPass"}
    classes = {
        f"{path.relative_to(ROOT).with_suffix('')}".replace("/", ".") + f":{node.name}"
        for path in (ROOT / "passes").rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        and "ABC" not in (bases := {ast.unparse(base) for base in node.bases})
        and bases & named
    }
    missing = classes - set(PASSES.values())
    assert not missing, f"no line in universe.py: {', '.join(sorted(missing))}"


def test_every_pass_is_validated():
    missing = PASSES.keys() - CASES.keys() - ELSEWHERE.keys() - WITHOUT_VALIDATE.keys()
    assert not missing, f"docs/passes has no example of {', '.join(sorted(missing))}"
    for file, test in ELSEWHERE.values():
        assert f"\ndef {test}(validate: " in (Path(__file__).parent / file).read_text()
    for file, test in WITHOUT_VALIDATE.values():
        assert f"\ndef {test}(" in (Path(__file__).parent / file).read_text()


def applied(text: str, passes: str) -> tuple[Context, ModuleOp]:
    ctx = context()
    module = parse_text(text, ctx=ctx)
    if passes:
        PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    return ctx, module


@pytest.mark.parametrize("name", CASES)
def test_every_pass_keeps_results(name: str, validate: Validate):
    text, before, own = CASES[name]
    ctx, module = applied(text, before)
    printed, known = text_of(module), contents(module)
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, own).apply(ctx, module)
    assert text_of(module) != printed, f"{name} changes nothing of this program"
    assert name not in NEEDS or known & set(NEEDS[name]), "a pipeline would have left it out"
    validate(text, f"{before},{own}" if before else own, inputs=2)


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_a_filecheck_test(name: str):
    runs = re.compile(rf"^// RUN:.*(?<![\w-]){re.escape(name)}(?![\w-])", re.MULTILINE)
    files = [path for path in FILECHECKS if runs.search(path.read_text())]
    assert files, f"no file of tests/filecheck/passes runs {name}"


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_a_documented_example(name: str):
    assert name in EXAMPLES, f"docs/passes/{name}.md has no example"
    assert name in EXAMPLES[name]["passes"]


def test_every_option_of_a_pass_is_explained_by_help():
    command = [sys.executable, "-m", "xdsl_spirv.tools.main", "opt", "--help"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name, factory in UNIVERSE.all_passes.items():
        section = re.search(rf"^  {re.escape(name)}\n((?:    .*\n)+)", printed, re.MULTILINE)
        assert section is not None, name
        for field in dataclasses.fields(factory()):
            option = field.name.replace("_", "-")
            assert re.search(rf"^    {option}=\S+ \S", section[1], re.MULTILINE), (name, option)
    assert "not explained" not in printed


# Epilogues and prologues by name

FUNCTIONS = {
    "scale": "%s = arith.constant 0.125 : T\n    %y = arith.mulf %x, %s : T",
    "relu": "%s = arith.constant 0.0 : T\n    %y = arith.maximumf %x, %s : T",
    "clamp": """%l = arith.constant -1.5 : T
    %h = arith.constant 2.0 : T
    %m = arith.maximumf %x, %l : T
    %y = arith.minimumf %m, %h : T""",
    "gelu": """%c = arith.constant 0.70703125 : T
    %h = arith.constant 0.5 : T
    %one = arith.constant 1.0 : T
    %s = arith.mulf %x, %c : T
    %e = math.erf %s : T
    %p = arith.addf %e, %one : T
    %g = arith.mulf %x, %h : T
    %y = arith.mulf %g, %p : T""",
    "sigmoid": """%one = arith.constant 1.0 : T
    %n = arith.negf %x : T
    %e = math.exp %n : T
    %d = arith.addf %one, %e : T
    %y = arith.divf %one, %d : T""",
    "tanh": "%y = math.tanh %x : T",
    "exp": "%y = math.exp %x : T",
}
REQUANTIZE = """%f = arith.sitofp %x : i32 to f32
    %s = arith.constant 0.0078125 : f32
    %m = arith.mulf %f, %s : f32
    %t = math.roundeven %m : f32
    %z = arith.constant 3.0 : f32
    %q = arith.addf %t, %z : f32
    %l = arith.constant -128.0 : f32
    %h = arith.constant 127.0 : f32
    %c0 = arith.maximumf %q, %l : f32
    %c1 = arith.minimumf %c0, %h : f32
    %y = arith.fptosi %c1 : f32 to i8"""
SCALED = """%i = arith.sitofp %v : i32 to f32
    %k = arith.constant 0.00006103515625 : f32
    %x = arith.mulf %i, %k : f32
    """
PATHS = {
    # Kind of instruction: types, target, and an operation that identifies the kind.
    "cooperative-matrix": ("f16", "f32", "lavapipe", "KHR.CooperativeMatrixMulAdd"),
    "fma": ("f32", "f32", "arm-mali", "GL.Fma"),
    "dot": ("i8", "i32", "arm-mali", "SDot"),
}
EPILOGUES = ("bias", "residual", *FUNCTIONS, "conversion", "requantization")
PROLOGUES = ("dequantize", "cast", "elementwise", "pad")


def with_epilogue(name: str, path: str) -> tuple[str, str, str]:
    """Returns the program, its target, and the operation that must occur."""
    element, result, target, shown = PATHS[path]
    if name == "requantization" and path != "dot":
        if path == "fma":
            element = result = "i32"
            shown = "spirv.IMul"
        else:
            element, result = "i8", "i32"
    if name in ("bias", "residual"):
        kind = tensor("10" if name == "bias" else "12x10", result)
        body = f"%y = arith.add{'i' if result == 'i32' else 'f'} %x, %w : {result}"
        map = ROW if name == "bias" else IDENTITY
        chain = elementwise(body, result, result, extra=f"%d|{kind}|{map}|{result}")
        return matmul(element, result, chain, other=f", %d: {kind}"), target, shown
    to = "f32"
    if name == "requantization":
        body, to = REQUANTIZE, "i8"
    elif name == "conversion":
        to = "f32" if result == "i32" else "f16"
        cast = "sitofp" if result == "i32" else "truncf"
        body = f"%y = arith.{cast} %x : {result} to {to}"
    else:
        body = FUNCTIONS[name].replace(": T", ": f32")
        if result == "i32":
            chain = elementwise(SCALED + body, "i32", "f32").replace("%x: i32", "%v: i32")
            return matmul(element, result, chain, "f32"), target, shown
    return matmul(element, result, elementwise(body, result, to), to), target, shown


def with_prologue(name: str, path: str) -> tuple[str, str, str]:
    """Returns program, target and operation for a matrix A that is computed from another matrix."""
    element, result, target, shown = PATHS[path]
    source, body = element, f"%s = arith.constant 3 : {element}\n    %y = arith.addi %x, %s : i8"
    text = matmul(element, result)
    if name == "pad":
        zero = "0" if element == "i8" else "0.0"
        made = f"""  %zero = arith.constant {zero} : {element}
  %p = tensor.pad %a low[1, 2] high[0, 3] {{
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : {element}
  }} : tensor<11x15x{element}> to tensor<12x20x{element}>"""
        text = text.replace(f"%a: tensor<12x20x{element}>", f"%a: tensor<11x15x{element}>")
    else:
        match name, element:
            case "dequantize", "f16" | "f32":
                source = "i8"
                body = f"""%f = arith.sitofp %x : i8 to {element}
    %s = arith.constant 0.03125 : {element}
    %y = arith.mulf %f, %s : {element}"""
            case "cast", "f16":
                source, body = "f32", "%y = arith.truncf %x : f32 to f16"
            case "cast", "f32":
                source, body = "f16", "%y = arith.extf %x : f16 to f32"
            case "cast" | "dequantize", _:
                source, body = "i32", "%y = arith.trunci %x : i32 to i8"
            case _, "f16" | "f32":
                body = (
                    f"%s = arith.constant 0.5 : {element}\n    %y = arith.mulf %x, %s : {element}"
                )
            case _:
                pass
        made = elementwise(body, source, element, "%a", "%p")
        text = text.replace(f"%a: tensor<12x20x{element}>", f"%a: tensor<12x20x{source}>")
    head, rest = text.split("\n", 1)
    return f"{head}\n{made}\n{rest.replace('ins(%a', 'ins(%p')}", target, shown


QUICK = ("relu-cooperative-matrix", "requantization-dot", "cast-cooperative-matrix", "pad-fma")


def fused() -> list[Any]:
    """
    Returns the parameters (kind, name, path) of a test of fused operations. Most are marked long.
    """
    found: list[Any] = []
    for kind, names in (("epilogue", EPILOGUES), ("prologue", PROLOGUES)):
        for name, path in product(names, PATHS):
            marks = [] if f"{name}-{path}" in QUICK else [pytest.mark.long]
            found.append(pytest.param(kind, name, path, marks=marks, id=f"{name}-{path}"))
    return found


@pytest.mark.parametrize(("kind", "name", "path"), fused())
def test_fused_operations_keep_their_meaning(kind: str, name: str, path: str, validate: Validate):
    text, target, shown = (with_epilogue if kind == "epilogue" else with_prologue)(name, path)
    lowering = f"linalg-to-spirv{{target={target}}}"
    _, module = applied(text, lowering)
    launches = [op for op in module.walk() if isinstance(op, gpu.LaunchFuncOp)]
    assert len(launches) == 1, "a second kernel computes what is not fused"
    assert shown in text_of(module)
    validate(text, lowering, inputs=2)


WHOLE = {"12x20": "16x24", "20x10": "24x16", "12x10": "16x16", "tensor<10x": "tensor<16x"}
"""Sizes divisible by fragments, so that all fragments are stored directly."""


@pytest.mark.parametrize(
    "name",
    ["clamp", *(pytest.param(n, marks=pytest.mark.long) for n in EPILOGUES if n != "clamp")],
)
def test_functions_are_computed_in_registers(name: str, validate: Validate):
    text, target, _ = with_epilogue(name, "cooperative-matrix")
    for size, whole in WHOLE.items():
        text = text.replace(size, whole)
    lowering = f"linalg-to-spirv{{target={target}}}"
    _, module = applied(text, lowering)
    printed = text_of(module)
    after = printed.split("CooperativeMatrixMulAdd")[-1]
    assert ("Workgroup>" in after) == (name == "requantization"), "bytes have no accumulators"
    assert ("spirv.CompositeInsert" in printed) == (name in FUNCTIONS and name != "scale")
    validate(text, lowering, inputs=2)


RESHAPES = ROOT / "tests" / "filecheck" / "passes" / "form-dispatches-reshapes.mlir"


@pytest.mark.parametrize("part", [0, 1, 2])
def test_reshapes_after_a_contraction_keep_results(part: int, validate: Validate):
    text = RESHAPES.read_text().split("// -----")[part]
    for path in ("lavapipe", "qualcomm-adreno"):
        validate(text, f"linalg-to-spirv{{target={path}}}", inputs=1)


class ForgetTheFunction(ModulePass):
    """Replaces an epilogue's maximum by its first operand."""

    name = "forget-the-function"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in list(op.walk()):
            if isinstance(each, arith.MaximumfOp):
                Rewriter.replace_op(each, [], [each.lhs])


def test_a_wrong_pass_is_caught(report_of: ReportOf):
    text, _, _ = with_epilogue("relu", "cooperative-matrix")
    passes = Universe.get_multiverse().all_passes
    contraction = passes["linalg-to-contraction"]()()
    report = report_of(text, [contraction, FormDispatchesPass(), ForgetTheFunction()], inputs=3)
    assert report.finding is not None
    assert report.finding.stage == "forget-the-function"
