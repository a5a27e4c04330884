"""
Every registered pass is tested, validated and documented: this looks for all, and validates.

`CASES` has a program for each pass on which it changes something, and what must run before it;
translation validation compares what the program computes before and after each. The epilogues and
prologues that a contraction takes in are validated by name on each kind of instruction.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.rewriter import Rewriter
from xdsl.universe import Universe

from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.testing.attention_workloads import AttentionWorkload
from xdsl_spirv.universe import NEEDS, PASSES, UNIVERSE
from xdsl_spirv.upstream.passes_on_demand import contents

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs" / "passes.md").read_text()
FILECHECKS = sorted((ROOT / "tests" / "filecheck" / "passes").glob("*.mlir"))
Validate = Callable[..., None]


def tensor(shape: str, element: str) -> str:
    return f"tensor<{shape}x{element}>"


def matmul(
    element: str, result: str, chain: str = "", type: str | None = None, other: str = ""
) -> str:
    """12x10x20 from zeros; `chain` computes `%o` of `%r`, of the type `type`."""
    a, b, c = tensor("12x20", element), tensor("20x10", element), tensor("12x10", result)
    zero = "0" if result[0] == "i" else "0.0"
    last = "%o" if chain else "%r"
    returned = tensor("12x10", type or result)
    return f"""func.func @main(%a: {a}, %b: {b}{other}) -> {returned} {{
  %nothing = arith.constant {zero} : {result}
  %empty = tensor.empty() : {c}
  %zeros = linalg.fill ins(%nothing : {result}) outs(%empty : {c}) -> {c}
  %r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%zeros : {c}) -> {c}
{chain}
  func.return {last} : {returned}
}}"""


def elementwise(
    body: str, source: str, result: str, value: str = "%r", name: str = "%o", extra: str = ""
) -> str:
    """`body` makes `%y` of `%x`; `extra` is a row or a matrix that it reads as `%w`."""
    shape = "12x10" if name != "%p" else "12x20"
    ins, types, arguments, maps = value, tensor(shape, source), f"%x: {source}", IDENTITY
    if extra:
        operand, kind, map, element = extra.split("|")
        ins, types, maps = f"{value}, {operand}", f"{types}, {kind}", f"{IDENTITY}, {map}"
        arguments += f", %w: {element}"
    to = tensor(shape, result)
    return f"""  %{name[1:]}e = tensor.empty() : {to}
  {name} = linalg.generic {{indexing_maps = [{maps}, {IDENTITY}],
      iterator_types = ["parallel", "parallel"]}} ins({ins} : {types}) outs(%{name[1:]}e : {to}) {{
  ^bb0({arguments}, %out: {result}):
    {body}
    linalg.yield %y : {result}
  }} -> {to}"""


IDENTITY = "affine_map<(i, j) -> (i, j)>"
ROW = "affine_map<(i, j) -> (j)>"

DEPTHWISE = """func.func @main(%a: tensor<1x4x1x20xf32>, %w: tensor<4x1x3xf32>) -> tensor<1x4x1x18xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x1x18xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x4x1x18xf32>) -> tensor<1x4x1x18xf32>
  %r = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%a, %w : tensor<1x4x1x20xf32>, tensor<4x1x3xf32>) outs(%f : tensor<1x4x1x18xf32>) -> tensor<1x4x1x18xf32>
  func.return %r : tensor<1x4x1x18xf32>
}"""  # noqa: E501

LOOP = """func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %3 = arith.constant 3 : index
  %e = tensor.empty() : tensor<4xf32>
  %r = scf.for %i = %0 to %3 step %1 iter_args(%s = %a) -> (tensor<4xf32>) {
    %n = linalg.add ins(%s, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %n : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}"""  # noqa: E501

QUANTIZED = """func.func @main(%a: tensor<4x20xi8>, %b: tensor<20x6xi8>, %c: tensor<4x6xi32>) -> tensor<4x6xi32> {
  %za = arith.constant 10 : i32
  %zb = arith.constant -3 : i32
  %r = linalg.quantized_matmul ins(%a, %b, %za, %zb : tensor<4x20xi8>, tensor<20x6xi8>, i32, i32) outs(%c : tensor<4x6xi32>) -> tensor<4x6xi32>
  func.return %r : tensor<4x6xi32>
}"""  # noqa: E501

COUNTED = """func.func @main(%a: tensor<6xi8>) -> tensor<6xi32> {
  %c = arith.constant 300 : i64
  %e = tensor.empty() : tensor<6xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<6xi8>) outs(%e : tensor<6xi32>) {
  ^bb0(%x: i8, %o: i32):
    %w = arith.extui %x : i8 to i64
    %p = arith.muli %w, %c : i64
    %q = arith.divsi %p, %c : i64
    %y = arith.trunci %q : i64 to i32
    linalg.yield %y : i32
  } -> tensor<6xi32>
  func.return %r : tensor<6xi32>
}"""  # noqa: E501


def scaled(name: str, number: str) -> str:
    """Each element of an argument times a number."""
    return f"""  %c{name} = arith.constant {number} : f32
  %e{name} = tensor.empty() : tensor<12xf32>
  %r{name} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}}
      ins(%{name} : tensor<12xf32>) outs(%e{name} : tensor<12xf32>) {{
  ^bb0(%x: f32, %o: f32):
    %y = arith.mulf %x, %c{name} : f32
    linalg.yield %y : f32
  }} -> tensor<12xf32>"""


SCALED_TWICE = f"""func.func @main(%a: tensor<12xf32>, %b: tensor<12xf32>) -> (tensor<12xf32>, tensor<12xf32>) {{
{scaled("a", "0.25")}
{scaled("b", "-3.5")}
  func.return %ra, %rb : tensor<12xf32>, tensor<12xf32>
}}"""  # noqa: E501

STATE = """func.func @main(%n: tensor<1x4xf32>, %k: tensor<8x4xf32>
    {program.state = 0 : i64, program.value = dense<1.0> : tensor<8x4xf32>}) -> tensor<8x4xf32> {
  %r = tensor.insert_slice %n into %k[3, 0] [1, 4] [1, 1]
      : tensor<1x4xf32> into tensor<8x4xf32>
  func.return %r : tensor<8x4xf32>
}"""

SIBLINGS = """func.func @main(%a: tensor<4xf32>, %b: tensor<6xf32>)
    -> (tensor<4xf32>, tensor<6xf32>) {
  %d = tensor.empty() : tensor<4xf32>
  %e = tensor.empty() : tensor<6xf32>
  %r = linalg.exp ins(%a : tensor<4xf32>) outs(%d : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.exp ins(%b : tensor<6xf32>) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  func.return %r, %s : tensor<4xf32>, tensor<6xf32>
}"""

NORMED = """func.func @main(%x: tensor<1x64xf32>, %w: tensor<48x64xf32>) -> tensor<1x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>],
      iterator_types = ["parallel", "reduction"]
    } ins(%x : tensor<1x64xf32>) outs(%zeros : tensor<1xf32>) {
  ^bb0(%a: f32, %t: f32):
    %p = arith.mulf %a, %a : f32
    %s = arith.addf %t, %p : f32
    linalg.yield %s : f32
  } -> tensor<1xf32>
  %en = tensor.empty() : tensor<1x64xf32>
  %y = linalg.generic {
      indexing_maps = [
        affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m)>, affine_map<(m, k) -> (m, k)>
      ], iterator_types = ["parallel", "parallel"]
    } ins(%x, %sum : tensor<1x64xf32>, tensor<1xf32>) outs(%en : tensor<1x64xf32>) {
  ^bb0(%a: f32, %s: f32, %o: f32):
    %r = arith.mulf %a, %s : f32
    linalg.yield %r : f32
  } -> tensor<1x64xf32>
  %er = tensor.empty() : tensor<1x48xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<1x48xf32>) -> tensor<1x48xf32>
  %r = linalg.generic {
      indexing_maps = [
        affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
        affine_map<(m, n, k) -> (m, n)>
      ], iterator_types = ["parallel", "parallel", "reduction"]
    } ins(%y, %w : tensor<1x64xf32>, tensor<48x64xf32>) outs(%zr : tensor<1x48xf32>) {
  ^bb0(%a: f32, %b: f32, %t: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %t, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x48xf32>
  func.return %r : tensor<1x48xf32>
}"""

IDENTICAL = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  func.return %a : tensor<4xf32>
}"""

SOFTMAX = """func.func @main(%a: tensor<5x9xf32>) -> tensor<5x9xf32> {
  %e = tensor.empty() : tensor<5x9xf32>
  %r = linalg.exp ins(%a : tensor<5x9xf32>) outs(%e : tensor<5x9xf32>) -> tensor<5x9xf32>
  func.return %r : tensor<5x9xf32>
}"""

ROTATED = """spirv.module Logical GLSL450 {
  spirv.SpecConstant @scale spec_id(3) = 7 : i32
  spirv.GlobalVariable @x bind(0, 0) :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
  spirv.GlobalVariable @id built_in("LocalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %ids = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %all = spirv.Load "Input" %ids : vector<3xi32>
    %i = spirv.CompositeExtract %all[0 : i32] : vector<3xi32>
    %x = spirv.mlir.addressof @x :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>
    %p = spirv.AccessChain %x[%zero, %i] :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>,
      i32, i32 -> !spirv.ptr<i32, StorageBuffer>
    %v = spirv.Load "StorageBuffer" %p : i32
    %s = spirv.mlir.referenceof @scale : i32
    %w = spirv.IMul %v, %s : i32
    %one = spirv.Constant 1 : i32
    %t = spirv.GroupNonUniformRotateKHR <Subgroup> %w, %one : i32, i32 -> i32
    spirv.Store "StorageBuffer" %p, %t : i32
    spirv.Return
  }
  spirv.func @second() "None" {
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 8, 1, 1
  spirv.EntryPoint "GLCompute" @second
  spirv.ExecutionMode @second "LocalSize", 16, 1, 1
}"""

SCALARS = """func.func @main(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  %two = arith.constant 2.000000e+00 : f32
  %e = tensor.extract %s[] : tensor<f32>
  %h = arith.mulf %e, %two : f32
  %empty = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %h : tensor<4xf32>, f32) outs(%empty : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}"""  # noqa: E501

WEIGHTED = """func.func @main(%x: tensor<2x3xi64>) -> tensor<2x3xi64> {
  %w = arith.constant dense<[[1, 2], [-3, 4], [5, 600]]> : tensor<3x2xi64>
  %e = tensor.empty() : tensor<2x3xi64>
  %t = linalg.transpose ins(%w : tensor<3x2xi64>) outs(%e : tensor<2x3xi64>) permutation = [1, 0]
  %r = linalg.add ins(%x, %t : tensor<2x3xi64>, tensor<2x3xi64>)
                  outs(%e : tensor<2x3xi64>) -> tensor<2x3xi64>
  func.return %r : tensor<2x3xi64>
}"""

LAVAPIPE = "assign-schedule{target=lavapipe}"
FORMED = f"linalg-to-contraction,form-dispatches,{LAVAPIPE}"
OUTLINED = f"{FORMED},pack-operands,outline-dispatches"
FOR_H200 = "linalg-to-spirv{target=nvidia-h200}"

STREAMED = (
    "{schedule = #schedule.rows<rows = 4, columns = 2, lanes = 1, steps = 2, subgroups = [1, 1]>}"
)

DIRECT = (
    "{schedule = #schedule.contraction<workgroup_tile = [16, 16, 8], subgroups = [1, 1], "
    "instruction = coopmat 8x8x8, a = staged<vector = 4>, b = direct>}"
)

MIX = """%k = arith.constant 6364136223846793005 : i64
    %n = arith.constant 29 : i64
    %m = arith.muli %x, %k : i64
    %s = arith.shrui %m, %n : i64
    %h = arith.xori %m, %s : i64
    %y = arith.remsi %h, %k : i64"""
HASHED = f"""func.func @main(%r: tensor<12x10xi64>) -> tensor<12x10xi64> {{
{elementwise(MIX, "i64", "i64")}
  func.return %o : tensor<12x10xi64>
}}"""

HALVED = """%k = arith.constant 5 : i8
    %s = arith.addi %x, %k : i8
    %y = arith.divsi %s, %k : i8"""
BYTES = f"""func.func @main(%r: tensor<12x10xi8>) -> tensor<12x10xi8> {{
{elementwise(HALVED, "i8", "i8")}
  func.return %o : tensor<12x10xi8>
}}"""

CASES: dict[str, tuple[str, str, str]] = {
    # name: (program, what runs before, the pass)
    "lift-weights": (WEIGHTED, "", "lift-weights"),
    "fold-constants": (WEIGHTED, "lift-weights", "fold-constants"),
    "note-ranges": (WEIGHTED, "lift-weights,fold-constants", "note-ranges"),
    "own-results": (IDENTICAL, "", "own-results"),
    "unroll-host-loops": (LOOP, "", "unroll-host-loops"),
    "linalg-quantized-to-contraction": (QUANTIZED, "", "linalg-quantized-to-contraction"),
    "scalars-into-loops": (SCALARS, "", "scalars-into-loops"),
    "narrow-to-32-bits": (COUNTED, "", "narrow-to-32-bits"),
    "linalg-to-contraction": (matmul("f16", "f32"), "", "linalg-to-contraction"),
    "split-reductions": (
        matmul("f16", "f32"), "linalg-to-contraction", "split-reductions{parts=4}"
    ),
    "form-dispatches": (matmul("f16", "f32"), "linalg-to-contraction", "form-dispatches"),
    "update-states": (STATE, "form-dispatches", "update-states"),
    "join-dispatches": (SIBLINGS, "form-dispatches", "join-dispatches"),
    "assign-schedule": (
        matmul("f16", "f32"), "linalg-to-contraction,form-dispatches", LAVAPIPE
    ),
    "fold-norms": (
        NORMED, "linalg-to-contraction,form-dispatches,assign-schedule{target=nvidia-h200}",
        "fold-norms",
    ),
    "pack-operands": (
        matmul("f16", "f32").replace("linalg.matmul ins", f"linalg.matmul {DIRECT} ins"),
        FORMED,
        "pack-operands",
    ),
    "outline-dispatches": (matmul("f16", "f32"), FORMED, "outline-dispatches"),
    "contraction-to-cooperative-matrix": (
        matmul("f16", "f32"), OUTLINED, "contraction-to-cooperative-matrix"
    ),
    "contraction-to-dot": (
        matmul("i8", "i32"),
        "linalg-to-contraction,form-dispatches,assign-schedule{target=arm-mali},"
        "pack-operands,outline-dispatches",
        "contraction-to-dot",
    ),
    "contraction-to-fma": (matmul("f32", "f32"), OUTLINED, "contraction-to-fma"),
    "contraction-to-rotate": (DEPTHWISE, OUTLINED, "contraction-to-rotate"),
    "attention-to-fma": (
        AttentionWorkload(1, 2, 4, 12, 8, 8, "f32", out="f32").text(),
        "linalg-to-contraction,form-attention{target=lavapipe},form-dispatches,"
        "assign-schedule{target=lavapipe},outline-dispatches",
        "attention-to-fma",
    ),
    "contraction-to-rows": (
        matmul("f16", "f32").replace("linalg.matmul ins", f"linalg.matmul {STREAMED} ins"),
        OUTLINED,
        "contraction-to-rows",
    ),
    "loops-to-invocations": (SOFTMAX, OUTLINED, "loops-to-invocations"),
    "kernel-to-spirv": (SOFTMAX, f"{OUTLINED},loops-to-invocations", "kernel-to-spirv"),
    "linalg-to-spirv": (matmul("f16", "f32"), "", FOR_H200),
    "spirv-split-entry-points": (ROTATED, "", "spirv-split-entry-points"),
    "spirv-share-kernels": (
        SCALED_TWICE,
        f"{OUTLINED},loops-to-invocations,kernel-to-spirv,spirv-split-entry-points",
        "spirv-share-kernels",
    ),
    "spirv-update-vce": (ROTATED, "", "spirv-update-vce"),
    "spirv-specialize": (ROTATED, "", "spirv-specialize{defaults=true}"),
    "spirv-rotate-to-shuffle": (ROTATED, "", "spirv-rotate-to-shuffle"),
    "spirv-to-vulkan12": (ROTATED, "", "spirv-to-vulkan12"),
    "spirv-to-glsl450-memory-model": (
        SOFTMAX, "linalg-to-spirv{target=lavapipe}", "spirv-to-glsl450-memory-model"
    ),
    "spirv-cooperative-matrix-to-invocations": (
        matmul("f16", "f32"), FOR_H200, "spirv-cooperative-matrix-to-invocations"
    ),
    "spirv-bfloat16-to-bits": (
        matmul("bf16", "f32"),
        f"{FOR_H200},spirv-cooperative-matrix-to-invocations,spirv-update-vce",
        "spirv-bfloat16-to-bits",
    ),
    "spirv-small-storage-to-words": (
        BYTES, "linalg-to-spirv{target=lavapipe}", "spirv-small-storage-to-words"
    ),
    "spirv-small-integers-to-32-bits": (
        BYTES, "linalg-to-spirv{target=lavapipe}", "spirv-small-integers-to-32-bits"
    ),
    "spirv-int64-to-words": (HASHED, "linalg-to-spirv{target=lavapipe}", "spirv-int64-to-words"),
    "spirv-dot-to-shifts": (
        matmul("i8", "i32"), "linalg-to-spirv{target=arm-mali}", "spirv-dot-to-shifts"
    ),
}  # fmt: skip

ELSEWHERE = {
    "form-attention": ("test_attention.py", "test_every_stage_computes_it"),
    "attention-to-cooperative-matrix": ("test_attention.py", "test_every_stage_computes_it"),
}
"""Passes that are validated where their programs are made: file and test."""


EXAMPLE = re.compile(
    r"^## (?P<name>[\w-]+)\n(?:(?!^## ).)*?^`xdsl-opt -p '(?P<passes>[^`]*)'`\n\n"
    r"```mlir\n(?P<before>.+?)```\n\nbecomes\n\n```mlir\n",
    re.MULTILINE | re.DOTALL,
)
EXAMPLES = {match["name"]: match for match in EXAMPLE.finditer(DOCS)}
"""The first documented example of each pass."""

# A pass that is not named above is validated on its documented example.
CASES.update(
    (name, (EXAMPLES[name]["before"], "", EXAMPLES[name]["passes"]))
    for name in PASSES.keys() - CASES.keys() - ELSEWHERE.keys()
    if name in EXAMPLES
)


def test_every_pass_is_registered():
    """A class of `ModulePass` in passes/ stands in universe.py."""
    classes = {
        f"{path.relative_to(ROOT).with_suffix('')}".replace("/", ".") + f":{node.name}"
        for path in (ROOT / "passes").rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "ModulePass" for base in node.bases)
    }
    missing = classes - set(PASSES.values())
    assert not missing, f"no line in universe.py: {', '.join(sorted(missing))}"


def test_every_pass_is_validated():
    missing = PASSES.keys() - CASES.keys() - ELSEWHERE.keys()
    assert not missing, f"docs/passes.md has no example of {', '.join(sorted(missing))}"
    for file, test in ELSEWHERE.values():
        assert f"\ndef {test}(validate: " in (Path(__file__).parent / file).read_text()


def applied(text: str, passes: str) -> tuple[Context, ModuleOp]:
    ctx = context()
    module = parse_text(text, ctx=ctx)
    if passes:
        PassPipeline.parse_spec(Universe.get_multiverse().all_passes, passes).apply(ctx, module)
    return ctx, module


@pytest.mark.parametrize("name", CASES)
def test_a_pass_keeps_what_is_computed(name: str, validate: Validate):
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
    assert name in EXAMPLES, f"docs/passes.md has no section of {name} with an example"
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


# Epilogues and prologues by name.

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
    # The kind of instruction: types, target, and the operation that shows it.
    "cooperative-matrix": ("f16", "f32", "lavapipe", "KHR.CooperativeMatrixMulAdd"),
    "fma": ("f32", "f32", "lavapipe", "GL.Fma"),
    "dot": ("i8", "i32", "arm-mali", "SDot"),
}
EPILOGUES = ("bias", "residual", *FUNCTIONS, "conversion", "requantization")
PROLOGUES = ("dequantize", "cast", "elementwise", "pad")


def with_epilogue(name: str, path: str) -> tuple[str, str, str]:
    """The program, its target, and the instruction that must show in it."""
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
    """As with_epilogue: the matrix A is made of another."""
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
    """(kind, name, path); but for a few on request only."""
    found: list[Any] = []
    for kind, names in (("epilogue", EPILOGUES), ("prologue", PROLOGUES)):
        for name, path in product(names, PATHS):
            marks = [] if f"{name}-{path}" in QUICK else [pytest.mark.long]
            found.append(pytest.param(kind, name, path, marks=marks, id=f"{name}-{path}"))
    return found


@pytest.mark.parametrize(("kind", "name", "path"), fused())
def test_what_is_fused_keeps_its_meaning(kind: str, name: str, path: str, validate: Validate):
    text, target, shown = (with_epilogue if kind == "epilogue" else with_prologue)(name, path)
    lowering = f"linalg-to-spirv{{target={target}}}"
    _, module = applied(text, lowering)
    launches = [op for op in module.walk() if isinstance(op, gpu.LaunchFuncOp)]
    assert len(launches) == 1, "a second kernel computes what is not fused"
    assert shown in text_of(module)
    validate(text, lowering, inputs=2)


WHOLE = {"12x20": "16x24", "20x10": "24x16", "12x10": "16x16", "tensor<10x": "tensor<16x"}
"""Sizes that fragments divide, so that every one is stored as it is."""


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
def test_reshapes_behind_a_contraction(part: int, validate: Validate):
    text = RESHAPES.read_text().split("// -----")[part]
    for path in ("lavapipe", "qualcomm-adreno"):
        validate(text, f"linalg-to-spirv{{target={path}}}", inputs=1)


class ForgetTheFunction(ModulePass):
    """An epilogue's maximum becomes its first operand."""

    name = "forget-the-function"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in list(op.walk()):
            if isinstance(each, arith.MaximumfOp):
                Rewriter.replace_op(each, [], [each.lhs])


def test_a_wrong_pass_is_caught(report_of: Callable[..., Any]):
    text, _, _ = with_epilogue("relu", "cooperative-matrix")
    passes = Universe.get_multiverse().all_passes
    contraction = passes["linalg-to-contraction"]()()
    report = report_of(text, [contraction, FormDispatchesPass(), ForgetTheFunction()], inputs=3)
    assert report.finding is not None
    assert report.finding.stage == "forget-the-function"
