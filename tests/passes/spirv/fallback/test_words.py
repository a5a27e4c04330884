"""
Operations on integers that a device lacks give equal results on 32-bit words.

The passes are `spirv-int64-to-words`, `spirv-small-storage-to-words` and
`spirv-small-integers-to-32-bits`. Kernels of the differential families and a handwritten one, with
numbers at the ends of 32 and 64 bits, run before and after the passes. Programs for a device with
only 32-bit types give numpy's results.

Covers: spirv/fallback/word_conversions, spirv/fallback/word_operations.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import DTypeLike
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv import compiler
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context, parse_text, text_of
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.targets import load
from xdsl_spirv.testing.differential import Kernel, disagreements, generate, interpret
from xdsl_spirv.testing.differential.families.operations import apply
from xdsl_spirv.testing.differential.float_rules import RULES
from xdsl_spirv.testing.differential.rules import Rule
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.tools import khronos

if TYPE_CHECKING:
    from onnx import ValueInfoProto

    from tests.conftest import RunOnLavapipe


PASS = "spirv-int64-to-words"
SMALL = "spirv-small-storage-to-words,spirv-small-integers-to-32-bits"
TOGETHER = 12
"""Number of rules that one kernel tests."""


def lowered(text: str, passes: str = PASS) -> ModuleOp:
    """Returns the module after the pass and a round trip through text."""
    ctx = context()
    module = parse_text(text, ctx=ctx)
    known = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(known, f"{passes},spirv-update-vce{{version=1.5}}").apply(ctx, module)
    module = find_module(parse_text(text_of(module), ctx=ctx))
    module.verify()
    return module


def capabilities(module: ModuleOp) -> set[str]:
    assert module.vce_triple is not None
    return {c.data.name for c in module.vce_triple.capabilities}


def as_it_is(text: str) -> ModuleOp:
    ctx = context()
    module = parse_text(text, ctx=ctx)
    UpdateVCEPass().apply(ctx, module)
    return find_module(module)


# Every rule of the differential families with 64-bit integers.

WIDE_RULES: list[tuple[Rule, str]] = [
    (rule, scalar)
    for rule in RULES
    for scalar in (("i64",) if "i64" in rule.scalars else rule.scalars)
    if "i64" in rule.scalars or "i64" in rule.name
]


@pytest.mark.parametrize("first", range(0, len(WIDE_RULES), TOGETHER))
@pytest.mark.parametrize("vectors", [False, pytest.param(True, marks=pytest.mark.long)])
def test_operations_keep_results(first: int, vectors: bool, spirv_val: str):
    kernel = Kernel("operations", first)
    for number, (rule, scalar) in enumerate(WIDE_RULES[first : first + TOGETHER]):
        vector = vectors or number % TOGETHER == first % TOGETHER
        apply(kernel, rule, scalar, max(rule.counts) if vector else min(rule.counts))
    compare(kernel)


WIDE = frozenset({"Int64"})
NARROW = frozenset(
    {"Int8", "Int16", "StorageBuffer8BitAccess", "StorageBuffer16BitAccess",
     "UniformAndStorageBuffer8BitAccess", "UniformAndStorageBuffer16BitAccess"}
)  # fmt: skip


def compare(kernel: Kernel, passes: str = PASS, without: frozenset[str] = WIDE) -> None:
    after = lowered(kernel.text(), passes)
    assert without.isdisjoint(capabilities(after))
    assert khronos.spirv_val(encode(after), "vulkan1.2") == ""
    expected = interpret(kernel, as_it_is(kernel.text()))
    found = disagreements(kernel, expected, interpret(kernel, after))
    assert not found, str(found[0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", ["programs", "control", "memory", "group"])
def test_programs_keep_results(family: str, seed: int):
    kernels = (generate(number, family) for number in count())
    wide = (k for k in kernels if "i64" in k.text() and "Atomic" not in k.text())
    compare(next(islice(wide, seed, None)))


SMALL_RULES: list[tuple[Rule, str]] = [
    (rule, scalar)
    for rule in RULES
    for scalar in ([s for s in ("i8", "i16") if s in rule.scalars] or rule.scalars[:1])
    if scalar in ("i8", "i16") or "i8" in rule.name or "i16" in rule.name
]


@pytest.mark.parametrize("first", range(0, len(SMALL_RULES), 2 * TOGETHER))
@pytest.mark.parametrize("vectors", [False, pytest.param(True, marks=pytest.mark.long)])
def test_small_integers_keep_results(first: int, vectors: bool, spirv_val: str):
    kernel = Kernel("operations", first)
    for number, (rule, scalar) in enumerate(SMALL_RULES[first : first + 2 * TOGETHER]):
        vector = vectors or number % 5 == 0
        apply(kernel, rule, scalar, max(rule.counts) if vector else min(rule.counts))
    compare(kernel, SMALL, NARROW)


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 12))]
)
@pytest.mark.parametrize("family", ["programs", "group", "shared"])
def test_small_storage_keeps_results(family: str, seed: int, spirv_val: str):
    kernel = generate(seed, family)
    compare(kernel, "spirv-small-storage-to-words", NARROW - {"Int8", "Int16"})


def bytes_text(element: str, width: int) -> str:
    """Returns a kernel that copies elements to neighbours, then adds elements of a third buffer."""
    array = f"!spirv.struct<(!spirv.rtarray<{element}, stride={width}> [0]), Block>"
    pointer = f"!spirv.ptr<{array}, StorageBuffer>"
    access = f"{pointer}, i32, i32 -> !spirv.ptr<{element}, StorageBuffer>"
    return f"""spirv.module Logical GLSL450 {{
  spirv.GlobalVariable @a bind(0, 0) : {pointer}
  spirv.GlobalVariable @b bind(0, 1) : {pointer}
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.func @main() "None" {{
    %zero = spirv.Constant 0 : i32
    %one = spirv.Constant 1 : i32
    %where = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %ids = spirv.Load "Input" %where : vector<3xi32>
    %id = spirv.CompositeExtract %ids[0 : i32] : vector<3xi32>
    %other = spirv.BitwiseXor %id, %one : i32
    %a = spirv.mlir.addressof @a : {pointer}
    %b = spirv.mlir.addressof @b : {pointer}
    %p = spirv.AccessChain %a[%zero, %id] : {access}
    %q = spirv.AccessChain %b[%zero, %other] : {access}
    %x = spirv.Load "StorageBuffer" %p : {element}
    spirv.Store "StorageBuffer" %q, %x : {element}
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory>
    %r = spirv.AccessChain %b[%zero, %id] : {access}
    %y = spirv.Load "StorageBuffer" %r : {element}
    %z = spirv.IAdd %x, %y : {element}
    spirv.Store "StorageBuffer" %r, %z : {element}
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}}"""


def test_a_copy_of_structs_moves_their_bytes(spirv_val: str):
    struct = "!spirv.struct<(i8 [0], i8 [1], i16 [2], vector<4xi8> [4], i32 [8])>"
    text = bytes_text("ELEMENT", 12)
    head = text[: text.index('    %x = spirv.Load "StorageBuffer" %p')]
    tail = text[text.index("    spirv.Return") :]
    copy = '    spirv.CopyMemory "StorageBuffer" %q, "StorageBuffer" %p : ELEMENT\n'
    text = (head + copy + tail).replace("ELEMENT", struct)
    x = np.random.default_rng(2).integers(0, 256, (64, 12)).astype(np.uint8)
    buffers, checks = {(0, 0): x, (0, 1): np.zeros_like(x)}, Checks.all()
    module = lowered(text, SMALL)
    assert NARROW.isdisjoint(capabilities(module))
    assert khronos.spirv_val(encode(module), "vulkan1.2") == ""
    dispatch(module, "main", (2, 1, 1), buffers, options=Options(checks=checks))
    assert not checks.report.findings, str(checks.report)
    np.testing.assert_array_equal(buffers[0, 1], x.reshape(32, 2, 12)[:, ::-1].reshape(64, 12))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    "device", ["interpreter", pytest.param("lavapipe", marks=pytest.mark.vulkan)]
)
def test_neighbours_store_parts_of_one_word(
    dtype: DTypeLike, device: str, request: pytest.FixtureRequest
):
    width = np.dtype(dtype).itemsize
    x = np.random.default_rng(1).integers(0, 256**width, 64).astype(dtype)
    buffers, checks = {(0, 0): x, (0, 1): np.zeros_like(x)}, Checks.all()
    module = lowered(bytes_text(f"i{8 * width}", width), SMALL)
    if device == "lavapipe":
        run = request.getfixturevalue("run_on_lavapipe")
        run([Dispatch(encode(module), "main", (2, 1, 1), buffers)])
    else:
        dispatch(module, "main", (2, 1, 1), buffers, options=Options(checks=checks))
        assert not checks.report.findings, str(checks.report)
    np.testing.assert_array_equal(buffers[0, 1], x + x.reshape(-1, 2)[:, ::-1].reshape(-1))


# Numbers at the ends of words

EDGES = [
    *(
        0,
        1,
        2,
        3,
        7,
        255,
        65504,
        65519,
        65520,
        65536,
        2**24,
        2**24 + 1,
        2**24 + 3,
        2**31 - 1,
        2**31,
    ),
    *(2**32 - 1, 2**32, 2**32 + 1, 2**40 + 2**16, 2**40 + 2**16 + 1, 2**52 + 1, 2**53 + 1),
    *(2**54 + 2, 2**62 - 1, 2**62 + 2**38, 2**62 + 2**38 + 1, 2**63 - 2**38, 2**63 - 1),
]
FLOATS = [0.0, -0.0, 0.5, -1.5, 1e-40, 16777217.0, 2.0**31, -(2.0**32), 1.5 * 2.0**40, 2.0**62,
          -(2.0**63), 2.0**63 - 2.0**39, 2.0**63, 2.0**64 - 2.0**40, 2.0**64, 3e38,
          -3e38, np.inf, -np.inf, np.nan]  # fmt: skip
COUNT = 512


def numbers(seed: int) -> Array:
    """Returns edge values, their negatives, and numbers of every length."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 64, COUNT).astype(np.uint64)
    drawn = random.integers(0, 2**64, COUNT, np.uint64) >> lengths
    ends = np.array([*EDGES, *(-n for n in EDGES), -(2**63)], dtype=object) % 2**64
    drawn[: len(ends)] = ends.astype(np.uint64)
    return random.permutation(drawn)


EXPRESSIONS: dict[str, str] = {
    "SDiv": "i64", "UDiv": "i64", "SRem": "i64", "SMod": "i64", "UMod": "i64", "IMul": "i64",
    "ConvertSToF": "f32", "ConvertUToF": "f32",
    "ConvertSToF f16": "f16", "ConvertUToF f16": "f16",
    "ConvertSToF f64": "f64", "ConvertUToF f64": "f64",
    "ConvertFToS": "i64", "ConvertFToU": "i64",
}  # fmt: skip


def kernel_text(names: list[str]) -> str:
    """Returns a kernel that stores each expression of a, b : i64 and f : f32 to its own buffer."""

    def pointer(type: str, stride: int) -> str:
        return (
            f"!spirv.ptr<!spirv.struct<(!spirv.rtarray<{type}, stride={stride}> [0]), Block>, "
            "StorageBuffer>"
        )

    buffers = [("i64", 8), ("i64", 8), ("f32", 4)]
    lines: list[str] = []
    for number, name in enumerate(names):
        result = EXPRESSIONS[name]
        buffers.append((result, int(result[1:]) // 8))
        operation = f"spirv.{name.split()[0]}"
        if "ToF" in name:
            code = f"{operation} %v0 : i64 to {result}"
        elif "FTo" in name:
            code = f"{operation} %v2 : f32 to i64"
        else:
            code = f"{operation} %v0, %v1 : i64"
        lines.append(f"%r{number} = {code}")
    head = [
        f"spirv.GlobalVariable @b{i} bind(0, {i}) : {pointer(*b)}" for i, b in enumerate(buffers)
    ]
    body: list[str] = []
    for i, (type, stride) in enumerate(buffers):
        memory = pointer(type, stride)
        body.append(f"%a{i} = spirv.mlir.addressof @b{i} : {memory}")
        body.append(
            f"%p{i} = spirv.AccessChain %a{i}[%zero, %id] : {memory}, i32, i32 -> "
            f"!spirv.ptr<{type}, StorageBuffer>"
        )
    body += [f'%v{i} = spirv.Load "StorageBuffer" %p{i} : {buffers[i][0]}' for i in range(3)]
    body += lines
    body += [
        f'spirv.Store "StorageBuffer" %p{i + 3}, %r{i} : {buffers[i + 3][0]}'
        for i in range(len(names))
    ]
    newline = "\n    "
    return f"""spirv.module Logical GLSL450 {{
  {newline.join(head)}
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.func @main() "None" {{
    %zero = spirv.Constant 0 : i32
    %where = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %ids = spirv.Load "Input" %where : vector<3xi32>
    %id = spirv.CompositeExtract %ids[0 : i32] : vector<3xi32>
    {newline.join(body)}
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 32, 1, 1
}}"""


def truncated(value: float, low: int, high: int) -> int:
    """Rounds toward zero and clamps. NaN gives 0, as the pass documents."""
    if np.isnan(value):
        return 0
    return max(low, min(high, int(value) if np.isfinite(value) else int(np.sign(value)) << 70))


def expected_of(name: str, a: Array, b: Array, f: Array) -> Array:
    """Returns the operation's result by Python's integers and numpy, as raw bits."""
    signed = [int(n) for n in a.view(np.int64)], [int(n) for n in b.view(np.int64)]
    plain = [int(n) for n in a], [int(n) for n in b]

    def quotient(x: int, y: int) -> int:
        return abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)

    functions: dict[str, Callable[[int, int], int]] = {
        "SDiv": quotient, "UDiv": lambda x, y: x // y, "IMul": lambda x, y: x * y,
        "SRem": lambda x, y: x - quotient(x, y) * y, "SMod": lambda x, y: x % y,
        "UMod": lambda x, y: x % y,
    }  # fmt: skip
    if name in functions:
        pairs = zip(*(plain if name.startswith("U") else signed), strict=True)
        return np.array([functions[name](x, y) % 2**64 for x, y in pairs], np.uint64)
    if "ToF" in name:
        source = a.view(np.int64) if "SToF" in name else a
        with np.errstate(over="ignore"):
            return source.astype({"f16": "<f2", "f32": "<f4", "f64": "<f8"}[EXPRESSIONS[name]])
    bounds = (-(2**63), 2**63 - 1) if "FToS" in name else (0, 2**64 - 1)
    return np.array([truncated(float(x), *bounds) % 2**64 for x in f], np.uint64)


def edge_buffers(names: list[str]) -> dict[tuple[int, int], Array]:
    a, b = numbers(1), numbers(2)
    b[b == 0] = 3
    f = np.resize(np.array(FLOATS, np.float32), COUNT)
    lengths = np.random.default_rng(3).uniform(-2, 66, COUNT - 100)
    f[100:] = (np.exp2(lengths) * np.where(lengths * 1e6 % 2 > 1, 1, -1)).astype(np.float32)
    results = [np.zeros(COUNT, f"<u{int(EXPRESSIONS[name][1:]) // 8}") for name in names]
    return {(0, i): array for i, array in enumerate((a, b, f, *results))}


def check_edges(names: list[str], buffers: dict[tuple[int, int], Array]) -> None:
    a, b, f, *results = buffers.values()
    for name, result in zip(names, results, strict=True):
        expected = expected_of(name, a, b, f)
        np.testing.assert_array_equal(result.view(expected.dtype), expected, err_msg=name)


def test_edge_values_give_numpys_results():
    names = list(EXPRESSIONS)
    buffers, checks = edge_buffers(names), Checks.all()
    module = lowered(kernel_text(names))
    dispatch(module, "main", (COUNT // 32, 1, 1), buffers, options=Options(checks=checks))
    assert not checks.report.findings, str(checks.report)
    check_edges(names, buffers)


@pytest.mark.vulkan
def test_lavapipe_gives_numpys_results(run_on_lavapipe: RunOnLavapipe):
    names = list(EXPRESSIONS)
    buffers = edge_buffers(names)
    run_on_lavapipe(
        [Dispatch(encode(lowered(kernel_text(names))), "main", (COUNT // 32, 1, 1), buffers)]
    )
    check_edges(names, buffers)


# Refused operations

FUNCTION = """spirv.module Logical GLSL450 {{
  spirv.func @f(%p: !spirv.ptr<i64, StorageBuffer>, %x: i64) "None" {{
    {}
    spirv.Return
  }}
}}"""


def test_atomic_operations_are_refused():
    text = FUNCTION.format(
        "%r = spirv.AtomicIAdd <Device> <None> %p, %x : !spirv.ptr<i64, StorageBuffer>"
    )
    with pytest.raises(PassFailedException, match="atomic operations on 64-bit"):
        lowered(text)


BLOCKS = """spirv.module Logical GLSL450 {{
  spirv.GlobalVariable @b bind(0, 0) : !spirv.ptr<!spirv.struct<({0} [0]), Block>, {1}>
  spirv.GlobalVariable @o bind(0, 1) : !spirv.ptr<!spirv.struct<({0} [0]), Block>, StorageBuffer>
  spirv.func @f() "None" {{
    %z = spirv.Constant 0 : i32
    %a = spirv.mlir.addressof @b : !spirv.ptr<!spirv.struct<({0} [0]), Block>, {1}>
    %p = spirv.AccessChain %a[%z] :
      !spirv.ptr<!spirv.struct<({0} [0]), Block>, {1}>, i32 -> !spirv.ptr<{0}, {1}>
    %x = spirv.Load "{1}" %p : {0}
    %c = spirv.mlir.addressof @o : !spirv.ptr<!spirv.struct<({0} [0]), Block>, StorageBuffer>
    %q = spirv.AccessChain %c[%z] :
      !spirv.ptr<!spirv.struct<({0} [0]), Block>, StorageBuffer>, i32
      -> !spirv.ptr<{0}, StorageBuffer>
    spirv.Store "StorageBuffer" %q, %x : {0}
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @f, @b, @o
  spirv.ExecutionMode @f "LocalSize", 1, 1, 1
}}"""


@pytest.mark.parametrize(
    ("type_", "storage"),
    [("i64", "Uniform"), ("i64", "StorageBuffer"), ("vector<2xi64>", "StorageBuffer")],
)
def test_blocks_keep_the_layout_of_their_storage(type_: str, storage: str, spirv_val: str):
    module = lowered(BLOCKS.format(type_, storage))
    assert khronos.spirv_val(encode(module), "vulkan1.2") == ""


def test_vectors_in_uniform_blocks_are_refused():
    """Arrays of words in uniform blocks need a stride of 16 bytes."""
    with pytest.raises(PassFailedException, match=r"Variable.*use a StorageBuffer"):
        lowered(BLOCKS.format("vector<2xi64>", "Uniform"))


def test_specialization_constants_are_refused():
    text = "spirv.module Logical GLSL450 {\n  spirv.SpecConstant @n spec_id(1) = 5 : i64\n}"
    with pytest.raises(PassFailedException, match="run spirv-specialize first"):
        lowered(text)


# Whole programs


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns a target with 32-bit integers only."""
    file = Path(__file__).resolve().parents[4] / "targets" / "lavapipe.json"
    target = json.loads(file.read_text())
    target["name"] = "bare"
    lacks = {"int64", "float64", "int8", "int16", "storage-8-bit", "storage-16-bit"}
    lacks |= {"integer-dot-product", "cooperative-matrix"}
    target["features"] = sorted(load("lavapipe").features - lacks)
    target["cooperative_matrix"] = []
    path = tmp_path_factory.mktemp("target") / "bare.json"
    path.write_text(json.dumps(target))
    return str(path)


def onnx_program(
    node: str, attributes: dict[str, Any], arrays: list[Array], result: Array, target: str
) -> Program:
    """Returns the program of a model with one node, with the arrays' types and shapes."""
    pytest.importorskip("onnx")
    from onnx import helper

    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends.onnx.importer import import_onnx

    def info(name: str, array: Array) -> ValueInfoProto:
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )

    names = [f"x{i}" for i in range(len(arrays))]
    inputs = [info(name, array) for name, array in zip(names, arrays, strict=True)]
    made = helper.make_node(node, names, ["y"], **attributes)
    graph = helper.make_graph([made], "g", inputs, [info("y", result)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return compile_model(import_onnx(model), target)


X = np.random.default_rng(5).integers(-(2**62), 2**62, (6, 9))
Y = np.where(np.arange(54).reshape(6, 9) % 3, X[::-1], X // 3 + 1)
B = np.random.default_rng(6).integers(0, 256, (5, 5)).astype(np.uint8)
S = np.random.default_rng(7).integers(-128, 128, (5, 5)).astype(np.int8)
"""A matrix of 25 bytes, whose last word is partial."""
MODELS: dict[str, tuple[str, dict[str, Any], list[Array], Array]] = {
    "Add": ("Add", {}, [X, Y], X + Y),
    "Mul": ("Mul", {}, [X, Y], X * Y),
    "Max": ("Max", {}, [X, Y], np.maximum(X, Y)),
    "Mod": ("Mod", {}, [X, Y], X % Y),
    "Div": ("Div", {}, [X, Y], np.sign(X) * np.sign(Y) * (abs(X) // abs(Y))),
    "ArgMax": ("ArgMax", {"axis": 1}, [X], X.argmax(1, keepdims=True)),
    "ReduceMax": ("ReduceMax", {}, [X], X.max(keepdims=True)),
    "ReduceSum": ("ReduceSum", {}, [X], X.sum(keepdims=True)),
    "MatMul": ("MatMul", {}, [X, Y.T.copy()], X @ Y.T),
    "Cast": ("Cast", {"to": 1}, [X], X.astype(np.float32)),
    "Less": ("Less", {}, [X, Y], X < Y),
    "BitwiseXor of bytes": ("BitwiseXor", {}, [B, B[::-1].copy()], B ^ B[::-1]),
    "Max of bytes": ("Max", {}, [S, S[::-1].copy()], np.maximum(S, S[::-1])),
    "Cast to bytes": (
        "Cast",
        {"to": 3},
        [S.astype(np.int16) * 5],
        (S * np.int16(5)).astype(np.int8),
    ),
    "MatMulInteger": ("MatMulInteger", {}, [B, S], B.astype(np.int32) @ S.astype(np.int32)),
}


def checked(program: Program, arrays: list[Array]) -> Array:
    for kernel in program.code.values():
        assert (WIDE | NARROW).isdisjoint(capabilities(decode(kernel.binary)))
    return program(*arrays)


@pytest.mark.parametrize("name", MODELS)
def test_models_compute_in_words(name: str, bare: str):
    node, attributes, arrays, expected = MODELS[name]
    program = onnx_program(node, attributes, arrays, expected, bare)
    frozen = [array.copy() for array in arrays]
    for array in frozen:
        array.flags.writeable = False
    np.testing.assert_array_equal(checked(program, frozen), expected)


HASH = """func.func @main(%x: tensor<COUNTxi64>) -> tensor<COUNTxi64> {
  %e = tensor.empty() : tensor<COUNTxi64>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x : tensor<COUNTxi64>) outs(%e : tensor<COUNTxi64>) {
  ^bb0(%a: i64, %o: i64):
    %k = arith.constant -49064778989728563 : i64
    %n = arith.constant 33 : i64
    %h0 = arith.shrui %a, %n : i64
    %h1 = arith.xori %a, %h0 : i64
    %h2 = arith.muli %h1, %k : i64
    %h3 = arith.shrui %h2, %n : i64
    %h4 = arith.xori %h2, %h3 : i64
    linalg.yield %h4 : i64
  } -> tensor<COUNTxi64>
  func.return %r : tensor<COUNTxi64>
}"""


@pytest.mark.vulkan
def test_lavapipe_hashes_in_words(bare: str, run_on_lavapipe: RunOnLavapipe):
    x = numbers(4).view(np.int64)
    program = compiler.compile(parse_text(HASH.replace("COUNT", str(COUNT))), bare)
    (launch,) = program.manifest.dispatches
    arrays = {program.manifest.inputs[0].name: x, program.manifest.outputs[0].name: x * 0}
    buffers = {(b.set, b.binding): arrays[b.buffer] for b in launch.bindings}
    binary = program.code[launch.kernel].binary
    run_on_lavapipe([Dispatch(binary, launch.entry_point, launch.workgroups, buffers)])
    mixed = (x.view(np.uint64) ^ x.view(np.uint64) >> 33) * np.uint64(2**64 - 49064778989728563)
    expected = (mixed ^ mixed >> 33).view(np.int64)
    np.testing.assert_array_equal(arrays[program.manifest.outputs[0].name], expected)
    np.testing.assert_array_equal(checked(program, [x]), expected)
