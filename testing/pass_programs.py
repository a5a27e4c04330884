"""
Programs for tests of all passes. Each registered pass has one program that it changes.

`CASES` maps a pass to the module's text, the passes to run first, and the pass with its options.
"""

from __future__ import annotations

from xdsl_spirv.testing.attention_workloads import AttentionWorkload


def tensor(shape: str, element: str) -> str:
    return f"tensor<{shape}x{element}>"


def matmul(
    element: str, result: str, chain: str = "", type: str | None = None, other: str = ""
) -> str:
    """Returns a module with %r, a 12x20 by 20x10 product. `chain` computes %o from %r."""
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
    """
    Returns an operation whose `body` computes %y from %x. The elements %x have the type `value`.

    `extra` describes a second operand, whose elements are %w.
    """
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
    """Returns an operation that multiplies each element of an argument by a number."""
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

WINDOWS = """func.func @main(%x: tensor<1x64x18x18xf16>, %w: tensor<64x64x3x3xf16>)
    -> tensor<1x64x16x16xf16> {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<1x64x16x16xf16>
  %f = linalg.fill ins(%z : f16) outs(%e : tensor<1x64x16x16xf16>) -> tensor<1x64x16x16xf16>
  %c = linalg.conv_2d_nchw_fchw
         {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
         ins(%x, %w : tensor<1x64x18x18xf16>, tensor<64x64x3x3xf16>)
         outs(%f : tensor<1x64x16x16xf16>) -> tensor<1x64x16x16xf16>
  %r = linalg.exp ins(%c : tensor<1x64x16x16xf16>) outs(%e : tensor<1x64x16x16xf16>)
         -> tensor<1x64x16x16xf16>
  func.return %r : tensor<1x64x16x16xf16>
}"""

LAVAPIPE = "assign-schedule{target=lavapipe}"
ON_MALI = "assign-schedule{target=arm-mali}"
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
    # name: (program, earlier passes, the pass)
    "lift-weights": (WEIGHTED, "", "lift-weights"),
    "fold-constants": (WEIGHTED, "lift-weights", "fold-constants"),
    "note-ranges": (WEIGHTED, "lift-weights,fold-constants", "note-ranges"),
    "own-results": (IDENTICAL, "", "own-results"),
    "unroll-host-loops": (LOOP, "", "unroll-host-loops"),
    "linalg-quantized-to-contraction": (QUANTIZED, "", "linalg-quantized-to-contraction"),
    "scalars-into-loops": (SCALARS, "", "scalars-into-loops"),
    "narrow-to-32-bits": (COUNTED, "", "narrow-to-32-bits"),
    "linalg-to-contraction": (matmul("f16", "f32"), "", "linalg-to-contraction"),
    "choose-layouts": (
        WINDOWS, "linalg-to-contraction", "choose-layouts{target=nvidia-h200}"
    ),
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
    "contraction-to-fma": (
        matmul("f32", "f32"), OUTLINED.replace(LAVAPIPE, ON_MALI), "contraction-to-fma",
    ),
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
