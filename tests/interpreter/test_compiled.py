"""A kernel is decoded and compiled once for launches with different buffers and grids."""

from __future__ import annotations

import gc
import struct
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter import InterpreterError, Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.code import Compiler
from xdsl_spirv.interpreter.spirv.module import Compiled
from xdsl_spirv.runtime import execution
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.serialization.decode import decoder
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.target import find_module

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel, Parse

PUSH = "!spirv.ptr<!spirv.struct<(i32 [0]), Block>, PushConstant>"


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> list[Compiler]:
    """Returns a list of every compiler created in the test."""
    made: list[Compiler] = []
    begin = Compiler.__init__

    def counted(self: Compiler, *arguments: Any) -> None:
        made.append(self)
        begin(self, *arguments)

    monkeypatch.setattr(Compiler, "__init__", counted)
    return made


def scaled(kernel: Kernel) -> Kernel:
    """
    Adds code that computes buffer * specialization constant + push constant + Workgroup element.
    """
    kernel.globals += [
        "spirv.SpecConstant @scale spec_id(3) = 2 : i32",
        f"spirv.GlobalVariable @push : {PUSH}",
        "spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<32 x i32>, Workgroup>",
    ]
    value = kernel.load(kernel.buffer("i32", np.zeros(1, np.int32)))
    scale = kernel.op("spirv.mlir.referenceof @scale : i32")
    base = kernel.op(f"spirv.mlir.addressof @push : {PUSH}")
    member = kernel.op(
        f"spirv.AccessChain {base}[%zero] : {PUSH}, i32 -> !spirv.ptr<i32, PushConstant>"
    )
    more = kernel.op(f'spirv.Load "PushConstant" {member} : i32')
    product = kernel.op(f"spirv.IMul {value}, {scale} : i32")
    total = kernel.op(f"spirv.IAdd {product}, {more} : i32")
    array = "!spirv.ptr<!spirv.array<32 x i32>, Workgroup>"
    tile = kernel.op(f"spirv.mlir.addressof @tile : {array}")
    place = kernel.op(
        f"spirv.AccessChain {tile}[%local] : {array}, i32 -> !spirv.ptr<i32, Workgroup>"
    )
    kernel(f'spirv.Store "Workgroup" {place}, {total} : i32')
    again = kernel.op(f'spirv.Load "Workgroup" {place} : i32')
    kernel.store(kernel.buffer("i32", np.zeros(1, np.int32)), again)
    return kernel


def module_of(kernel: Kernel, parse: Parse) -> ModuleOp:
    return find_module(parse(kernel.text((32, 1, 1))))


def launch(module: Any, values: Any, push: int, compiled: Compiled | None, **more: Any) -> Array:
    buffers = {(0, 0): values, (0, 1): np.zeros_like(values)}
    grid = (len(values) // 32, 1, 1)
    data = struct.pack("<i", push)
    dispatch(module, "main", grid, buffers, push_constants=data, compiled=compiled, **more)
    return buffers[0, 1]


def test_compiled_code_serves_different_launches(
    kernel: Kernel, parse: Parse, compilers: list[Compiler]
) -> None:
    module, compiled = module_of(scaled(kernel), parse), Compiled()
    cases = [(2, 7, 2), (1, -3, 2), (4, 0, 5), (3, 1, 2), (2, 9, 5)]
    for groups, push, scale in cases:
        values = np.arange(32 * groups, dtype=np.int32)
        constants = {} if scale == 2 else {3: scale}
        found = launch(module, values, push, compiled, spec_constants=constants)
        assert (found == values * scale + push).all()
    assert len(compilers) == 2
    launch(module, np.zeros(32, np.int32), 0, None)
    assert len(compilers) == 3


@pytest.mark.parametrize(
    "options",
    [
        Options(bfloat16_rounding="toward-zero"),
        Options(component_mapping="opaque"),
        Options(subgroup_size=16),
        Options(checks=Checks.all()),
        Options(max_steps=1000),
    ],
)
def test_other_options_need_another_compilation(
    options: Options, kernel: Kernel, parse: Parse, compilers: list[Compiler]
) -> None:
    module, compiled = module_of(scaled(kernel), parse), Compiled()
    for chosen in (Options(), options, Options()):
        launch(module, np.arange(32, dtype=np.int32), 0, compiled, options=chosen)
    assert len(compilers) == 2


def test_compiled_code_does_not_retain_buffers(kernel: Kernel, parse: Parse) -> None:
    module, compiled = module_of(scaled(kernel), parse), Compiled()
    values = np.arange(32, dtype=np.int32)
    launch(module, values, 0, compiled)
    seen = weakref.ref(values)
    del values
    gc.collect()
    assert seen() is None


def test_later_launches_work_after_a_failed_one(kernel: Kernel, parse: Parse) -> None:
    module, compiled = module_of(scaled(kernel), parse), Compiled()
    values = np.arange(32, dtype=np.int32)
    push = np.int32(1).tobytes()
    for _ in range(2):
        with pytest.raises(InterpreterError, match="got no buffer"):
            dispatch(module, "main", (1, 1, 1), {(0, 0): values}, {}, push, compiled=compiled)
        assert (launch(module, values, 1, compiled) == 2 * values + 1).all()


MATMUL = """
func.func @main(%A: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %once = linalg.matmul ins(%A, %A : tensor<8x8xf32>, tensor<8x8xf32>)
                        outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %once : tensor<8x8xf32>
}
"""


def test_the_binaries_of_a_program_are_decoded_once(
    monkeypatch: pytest.MonkeyPatch, compilers: list[Compiler]
) -> None:
    program = compile_module(parse_text(MATMUL), "lavapipe")
    monkeypatch.setattr(execution, "_kept", {})
    binaries: list[bytes] = []

    def read(binary: bytes, *, unchecked: bool) -> ModuleOp:
        assert unchecked, "the compiler has verified the module"
        binaries.append(binary)
        return decode(binary, unchecked=unchecked)

    monkeypatch.setattr(decoder, "decode", read)
    compilers.clear()
    for number in range(3):
        a = np.full((8, 8), number, np.float32)
        assert (execution.run(program, {"A": a})["result0"] == a @ a).all()
    assert len(binaries) == len(set(binaries)) == len(program.manifest.kernels)
    assert len(compilers) == len(program.manifest.kernels)
