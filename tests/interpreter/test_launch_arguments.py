"""An error names a launch's missing argument, because arguments have no defaults."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser

from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter import InterpreterError, Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.spirv.module import push_constant_bytes
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.serialization.encode.target import find_module

BLOCK = """!spirv.struct<PC, (i32 [0], vector<2xf32> [8],
  !spirv.matrix<2 x vector<3xf32>> [16, MatrixStride=16, RowMajor],
  !spirv.struct<In, (f16 [0], !spirv.array<2 x i32, stride=4> [4])> [64]), Block>"""
NAMES = {"n": 1, "v": [2, 3], "m": [[1, 2, 3], [4, 5, 6]], "s": {"h": 1.5, "a": [7, 8]}}
OUT = "!spirv.ptr<!spirv.struct<Out, (!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>"


def _kernel(body: str, declarations: str = "", size: str = "LocalSize, 4, 1, 1") -> ModuleOp:
    """Returns a kernel that stores %r at its invocation's index in @out."""
    mode, _, sizes = size.partition(", ")
    execution = f'spirv.ExecutionMode @main "{mode}", {sizes}' if size else ""
    text = f"""
    spirv.module Logical GLSL450 {{
      {declarations}
      spirv.GlobalVariable @out bind(0, 0) : {OUT}
      spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
      spirv.func @main() "None" {{
        %zero = spirv.Constant 0 : i32
        %id_at = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
        %ids = spirv.Load "Input" %id_at : vector<3xi32>
        %i = spirv.CompositeExtract %ids[0 : i32] : vector<3xi32>
        {body}
        %out = spirv.mlir.addressof @out : {OUT}
        %to = spirv.AccessChain %out[%zero, %i] : {OUT}, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
        spirv.Store "StorageBuffer" %to, %r : i32
        spirv.Return
      }}
      spirv.EntryPoint "GLCompute" @main
      {execution}
    }}"""
    module = Parser(context(), text).parse_module()
    module.verify()
    return find_module(module)


PUSH = f"!spirv.ptr<{BLOCK}, PushConstant>"
PUSHED = _kernel(
    f"""
        %pc = spirv.mlir.addressof @pc : {PUSH}
        %at = spirv.AccessChain %pc[%zero] : {PUSH}, i32 -> !spirv.ptr<i32, PushConstant>
        %r = spirv.Load "PushConstant" %at : i32""",
    f"""spirv.GlobalVariable @pc : {PUSH}
      spirv.RawGlobal "OpMemberName"({BLOCK}, 0, "n")
      spirv.RawGlobal "OpMemberName"({BLOCK}, 1, "v")
      spirv.RawGlobal "OpMemberName"({BLOCK}, 2, "m")
      spirv.RawGlobal "OpMemberName"({BLOCK}, 3, "s")
      spirv.RawGlobal "OpMemberName"(
        !spirv.struct<In, (f16 [0], !spirv.array<2 x i32, stride=4> [4])>, 0, "h")
      spirv.RawGlobal "OpMemberName"(
        !spirv.struct<In, (f16 [0], !spirv.array<2 x i32, stride=4> [4])>, 1, "a")""",
)


def _run(module: ModuleOp, *arguments: Any, **options: Any) -> Array:
    out = np.zeros(64, np.int32)
    dispatch(module, "main", (1, 1, 1), {(0, 0): out}, *arguments, **options)
    return out


def test_members_have_the_offsets_of_the_struct():
    data = push_constant_bytes(PUSHED, NAMES)
    rows = struct.pack("<2f8x2f8x2f8x", 1, 4, 2, 5, 3, 6)
    assert data == struct.pack("<i4x2f", 1, 2, 3) + rows + struct.pack("<e2x2i", 1.5, 7, 8)


MATRIX = "!spirv.matrix<2 x vector<3xf32>> [0, MatrixStride=16"


@pytest.mark.parametrize(
    ("member", "needed"),
    [
        (f"{MATRIX}, ColMajor]", 28),
        (f"{MATRIX}, RowMajor]", 40),
        (f"!spirv.array<2 x {MATRIX.replace(' [0', ', stride=32> [0')}, ColMajor]", 60),
        ("!spirv.array<3 x vector<3xf32>, stride=16> [0]", 44),
        ("!spirv.struct<In, (f32 [0], f16 [8])> [0]", 10),
    ],
)
def test_padding_behind_the_last_scalar_is_not_needed(member: str, needed: int):
    block = f"!spirv.struct<PC, ({member}), Block>"
    push = f"!spirv.ptr<{block}, PushConstant>"
    module = _kernel(
        f"%pc = spirv.mlir.addressof @pc : {push}\n%r = spirv.Constant 1 : i32",
        f"spirv.GlobalVariable @pc : {push}",
    )
    assert (_run(module, {}, bytes(needed))[:4] == 1).all()
    with pytest.raises(
        InterpreterError, match=f"of {needed} bytes, but {needed - 1} bytes were given"
    ):
        _run(module, {}, bytes(needed - 1))


@pytest.mark.parametrize(
    ("number", "stored"), [(-1, -1), ((1 << 32) - 1, -1), (np.uint32(7), 7), (True, 1), (3.0, 3)]
)
def test_integers_are_given_signed_or_unsigned(number: Any, stored: int):
    data = push_constant_bytes(PUSHED, NAMES | {"n": number})
    assert struct.unpack_from("<i", data) == (stored,)


@pytest.mark.parametrize("push", [NAMES, push_constant_bytes(PUSHED, NAMES)])
def test_push_constants_by_name_or_as_bytes(push: Any):
    assert (_run(PUSHED, {}, push)[:4] == 1).all()


@pytest.mark.parametrize(
    ("push", "message"),
    [
        (b"", "uses the push constants @pc of 76 bytes, but no bytes were given\n.*\n.*n, v, m, s"),
        (b"1234", "76 bytes, but 4 bytes were given"),
        ({}, "but no bytes were given"),
        ({"n": 1}, "the member v has no value"),
        (NAMES | {"q": 1}, "the struct has no member q"),
        (NAMES | {"v": [1]}, "give a list of 2"),
        (NAMES | {"n": [1]}, "give one number"),
        (NAMES | {"s": {"h": 1}}, r"the member s\.a has no value"),
        (NAMES | {"n": 2.5}, "the member n must be an integer of 32 bits, not 2.5"),
        (NAMES | {"n": 1 << 32}, "n must be an integer of 32 bits, not 4294967296"),
        (NAMES | {"n": -(1 << 31) - 1}, "n must be an integer of 32 bits"),
        (NAMES | {"n": float("nan")}, "n must be an integer of 32 bits, not nan"),
        (NAMES | {"n": "1"}, "the member n must be one number, not '1'"),
        (NAMES | {"s": {"h": 1e6, "a": [7, 8]}}, r"s\.h must be a float of 16 bits, not 1000000.0"),
    ],
)
def test_push_constants_that_are_missing_or_wrong(push: Any, message: str):
    with pytest.raises(InterpreterError, match=message):
        _run(PUSHED, {}, push)


CONSTANT = _kernel("%r = spirv.Constant 1 : i32")


def test_push_constants_of_a_kernel_without_any_are_refused():
    with pytest.raises(InterpreterError, match="uses no push constants"):
        _run(CONSTANT, {}, {"n": 1})


def test_a_missing_buffer_is_named():
    with pytest.raises(InterpreterError, match="uses @out, but got no buffer"):
        dispatch(CONSTANT, "main", (1, 1, 1), {})


def test_an_access_to_an_empty_buffer_is_refused():
    module, buffers = _kernel("%r = spirv.Constant 1 : i32"), {(0, 0): np.zeros(0, np.int32)}
    with pytest.raises(InterpreterError, match="outside the buffer"):
        dispatch(module, "main", (1, 1, 1), buffers)
    checks = Checks.all()
    dispatch(module, "main", (1, 1, 1), buffers, options=Options(checks=checks))
    assert [finding.rule for finding in checks.report] == ["BOUNDS-01"]


COMPOSITE = """spirv.SpecConstant @x spec_id(0) = 2 : i32
      spirv.SpecConstant @y spec_id(1) = 1 : i32
      spirv.SpecConstantComposite @size (@x, @y, @y) : vector<3xi32> {built_in = "WorkgroupSize"}"""
DECORATED = """spirv.RawGlobal "OpDecorate"(
        const(dense<[2, 1, 1]> : vector<3xi32>), 11, 25)"""
DERIVED = """spirv.RawGlobal @x "OpSpecConstantOp"("OpIMul", @half, const(2 : i32)) : i32
      spirv.RawGlobal @half "OpSpecConstantOp"("OpISub", @base, const(1 : si32)) : i32
      spirv.SpecConstant @base spec_id(0) = 2 : i32"""


@pytest.mark.parametrize(
    ("declarations", "mode", "specialization", "invocations"),
    [
        ("", "LocalSize, 4, 1, 1", {}, 4),
        (COMPOSITE, "LocalSize, 4, 1, 1", {}, 2),
        (COMPOSITE, "LocalSize, 4, 1, 1", {0: 7}, 7),
        (DECORATED, "LocalSize, 4, 1, 1", {}, 2),
        ("", "LocalSizeId, 3, 1, 1", {}, 3),
        (DERIVED, "LocalSizeId, @x, 1, 1", {}, 2),
        (DERIVED, "LocalSizeId, @x, 1, 1", {0: 6}, 10),
    ],
)
def test_the_size_of_a_workgroup_is_found(
    declarations: str, mode: str, specialization: dict[int, int], invocations: int
):
    module = _kernel("%r = spirv.Constant 1 : i32", declarations, mode)
    assert _run(module, specialization).sum() == invocations


@pytest.mark.parametrize("value", [1.5, 1 << 32, "2"])
def test_a_specialization_constant_of_another_type_is_refused(value: Any):
    module = _kernel("%r = spirv.Constant 1 : i32", DERIVED, "LocalSizeId, @x, 1, 1")
    with pytest.raises(InterpreterError, match=r"the constant @base \(SpecId 0\) must be "):
        _run(module, {0: value})


def test_a_missing_workgroup_size_is_refused():
    with pytest.raises(InterpreterError, match="has no workgroup size"):
        _run(_kernel("%r = spirv.Constant 1 : i32", "", ""))


def test_a_constant_that_depends_on_itself_is_refused():
    declarations = 'spirv.RawGlobal @x "OpSpecConstantOp"("OpIAdd", @x, const(1 : i32)) : i32'
    with pytest.raises(InterpreterError, match="@x depends on itself"):
        _run(_kernel("%r = spirv.mlir.referenceof @x : i32", declarations))


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        ('"OpSelect", const(true), @n, const(9 : i32)', 5),
        ('"OpShiftLeftLogical", @n, const(1 : si32)', 10),
        ('"OpUMod", @n, const(3 : i32)', 2),
        ('"OpCompositeExtract", @v, 1', 5),
        ('"OpNot", @n', -6),
    ],
)
def test_operations_on_constants(operation: str, value: int):
    declarations = f"""spirv.SpecConstant @n spec_id(0) = 3 : i32
      spirv.RawGlobal @v "OpSpecConstantComposite"(const(4 : i32), @n) : vector<2xi32>
      spirv.RawGlobal @c "OpSpecConstantOp"({operation}) : i32"""
    module = _kernel("%r = spirv.mlir.referenceof @c : i32", declarations)
    assert (_run(module, {0: 5})[:4] == value).all()


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("storage", ["Workgroup", "Function"])
def test_an_invalid_array_length_is_refused(value: int, storage: str):
    pointer = f"!spirv.ptr<!spirv.array<@n x i32>, {storage}>"
    variable = f"spirv.GlobalVariable @all : {pointer}" if storage == "Workgroup" else ""
    made = f"spirv.mlir.addressof @all : {pointer}" if variable else f"spirv.Variable : {pointer}"
    part = f"!spirv.ptr<i32, {storage}>"
    module = _kernel(
        f"""%all = {made}
        %at = spirv.AccessChain %all[%zero] : {pointer}, i32 -> {part}
        spirv.Store "{storage}" %at, %i : i32
        %r = spirv.Load "{storage}" %at : i32""",
        f"spirv.SpecConstant @n spec_id(0) = 4 : i32\n{variable}",
    )
    with pytest.raises(InterpreterError, match=f"@n is used as a size, but its value is {value}"):
        _run(module, {0: value})


ARRAY = "!spirv.struct<B, (!spirv.rtarray<i32, stride=4> [0]), Block>"


def test_an_array_of_buffers_is_bound_by_number():
    pointer = f"!spirv.ptr<!spirv.array<3 x {ARRAY}>, StorageBuffer>"
    module = _kernel(
        f"""
        %buffers = spirv.mlir.addressof @buffers : {pointer}
        %one = spirv.Constant 1 : i32
        %odd = spirv.BitwiseAnd %i, %one : i32
        %at = spirv.AccessChain %buffers[%odd, %zero, %i] : {pointer}, i32, i32, i32
          -> !spirv.ptr<i32, StorageBuffer>
        %r = spirv.Load "StorageBuffer" %at : i32""",
        f"spirv.GlobalVariable @buffers bind(0, 1) : {pointer}",
    )
    out = np.zeros(4, np.int32)
    first, second = np.arange(4, dtype=np.int32), np.arange(10, 14, dtype=np.int32)
    buffers = {(0, 0): out, (0, 1, 0): first, (0, 1, 1): second}
    dispatch(module, "main", (1, 1, 1), buffers)
    assert out.tolist() == [0, 11, 2, 13]
    del buffers[0, 1, 1]
    with pytest.raises(InterpreterError, match="outside the buffers of @buffers"):
        dispatch(module, "main", (1, 1, 1), buffers)


def test_an_array_behind_a_buffers_end_has_no_elements():
    block = "!spirv.struct<H, (i32 [0], i32 [4], !spirv.rtarray<i32, stride=4> [8]), Block>"
    pointer = f"!spirv.ptr<{block}, StorageBuffer>"
    module = _kernel(
        f"""
        %at = spirv.mlir.addressof @headed : {pointer}
        %r = spirv.ArrayLength %at[2] : {pointer} -> i32""",
        f"spirv.GlobalVariable @headed bind(0, 1) : {pointer}",
    )
    for elements, length in ((5, 3), (2, 0), (1, 0)):
        out = np.full(4, -1, np.int32)
        dispatch(module, "main", (1, 1, 1), {(0, 0): out, (0, 1): np.zeros(elements, np.int32)})
        assert (out == length).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_launch_that_would_take_days_is_refused(seed: int):
    bits = np.random.default_rng(seed).integers(0, 32, 3)
    bits[seed % 3] = max(bits[seed % 3], 29)
    x, y, z = (1 << int(n) for n in bits)
    buffers = {(0, 0): np.zeros(64, np.int32)}
    with pytest.raises(InterpreterError, match=r"workgroups would take more than 0 s: .* took"):
        dispatch(CONSTANT, "main", (x, y, z), buffers, options=Options(seconds=0.1, robust=True))
