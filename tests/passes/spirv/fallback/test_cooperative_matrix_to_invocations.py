"""
`spirv-cooperative-matrix-to-invocations` keeps results for features that no available driver has.

These are signs, saturation, odd sizes, other scopes and widths. Random kernels with one MulAdd run
on the interpreter before and after the pass. Integers must be equal, and floats have exact values.

Covers: spirv/fallback/exchange, spirv/fallback/matrices, spirv/fallback/matrix_memory,
spirv/fallback/multiply, spirv/fallback/whole_numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.passes.spirv.fallback.bfloat16_to_bits import lower_bfloat16
from xdsl_spirv.passes.spirv.fallback.cooperative_matrix_to_invocations import Options as Lowering
from xdsl_spirv.passes.spirv.fallback.cooperative_matrix_to_invocations import (
    lower_cooperative_matrices,
)
from xdsl_spirv.passes.spirv.update_vce import update
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.tools import khronos

QUICK, MANY = 10, 300
LANES, INVOCATIONS = 8, 16
FLAGS = ("ASigned", "BSigned", "CSigned", "ResultSigned", "AccSat")
T = TypeVar("T")

INTEGERS = (("i8", "i32"), ("i8", "i16"), ("i8", "i8"), ("i16", "i32"), ("i32", "i64"))
FLOATS = (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"))
DTYPES: dict[str, Any] = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
OPS = "spirv.KHR.CooperativeMatrix"


@dataclass(frozen=True)
class Operand:
    """A matrix in a buffer of `pointee`s. `stride` is the distance of lines in pointees."""

    name: str
    rows: int
    columns: int
    element: str
    use: str
    pointee: str
    count: int
    by_rows: bool
    padding: int
    scope: str

    @property
    def type(self) -> str:
        shape = f"{self.rows}x{self.columns}x{self.element}"
        return f"!spirv.coopmatrix<{shape}, {self.scope}, {self.use}>"

    @property
    def element_bytes(self) -> int:
        return np.dtype(DTYPES[self.element]).itemsize

    @property
    def pointee_bytes(self) -> int:
        return np.dtype(DTYPES[self.pointee]).itemsize * self.count

    @property
    def pointee_type(self) -> str:
        return self.pointee if self.count == 1 else f"vector<{self.count}x{self.pointee}>"

    @property
    def stride(self) -> int:
        line = self.columns if self.by_rows else self.rows
        least = -(-line * self.element_bytes // self.pointee_bytes) + self.padding
        # The interpreter requires lines to start at whole components.
        step = max(1, self.element_bytes // self.pointee_bytes)
        return -(-least // step) * step

    @property
    def bytes(self) -> int:
        lines = self.rows if self.by_rows else self.columns
        return lines * self.stride * self.pointee_bytes

    @property
    def buffer(self) -> str:
        array = f"!spirv.rtarray<{self.pointee_type}, stride={self.pointee_bytes}>"
        return f"!spirv.ptr<!spirv.struct<({array} [0]), Block>, StorageBuffer>"

    def pointer(self, number: int) -> str:
        part = f"!spirv.ptr<{self.pointee_type}, StorageBuffer>"
        return f"""
          %{self.name}s = spirv.Constant {self.stride} : i32
          %{self.name}v = spirv.mlir.addressof @b{number} : {self.buffer}
          %{self.name}p = spirv.AccessChain %{self.name}v[%zero, %zero]
            : {self.buffer}, i32, i32 -> {part}"""

    @property
    def layout(self) -> str:
        return "<RowMajor>" if self.by_rows else "<ColumnMajor>"


@dataclass(frozen=True)
class Kernel:
    """A kernel that stores a * b + c."""

    operands: tuple[Operand, Operand, Operand, Operand]
    flags: tuple[str, ...]
    seed: int

    @staticmethod
    def random(seed: int) -> Kernel:
        rng = np.random.default_rng(seed)

        def pick(choices: Sequence[T]) -> T:
            return choices[int(rng.integers(len(choices)))]

        integer = rng.random() < 0.7
        narrow, wide = pick(INTEGERS if integer else FLOATS)
        m, n, k = (int(pick([4, 8, 8, 16, 5])) for _ in range(3))
        scope = pick(["Subgroup", "Subgroup", "Workgroup"])
        flags = tuple(f for f in FLAGS if integer and rng.random() < 0.5)

        def operand(name: str, rows: int, columns: int, element: str, use: str) -> Operand:
            by_rows = bool(rng.random() < 0.5)
            line = columns if by_rows else rows
            pointee, count = element, pick([1, 1, 2, 4])
            if integer and rng.random() < 0.5:
                pointee = pick([p for p in WIDTHS if p != "i64" or element == "i64"])
            whole = np.dtype(DTYPES[pointee]).itemsize // np.dtype(DTYPES[element]).itemsize
            if name == "d" and whole > 1 and line % whole:
                pointee = element
            padding = int(rng.integers(0, 3))
            return Operand(
                name, rows, columns, element, use, pointee, count, by_rows, padding, scope
            )

        return Kernel(
            (
                operand("a", m, k, narrow, "MatrixA"),
                operand("b", k, n, narrow, "MatrixB"),
                operand("c", m, n, wide, "MatrixAcc"),
                operand("d", m, n, wide, "MatrixAcc"),
            ),
            flags,
            seed,
        )

    def text(self) -> str:
        a, b, c, d = self.operands
        buffers = "\n".join(
            f"spirv.GlobalVariable @b{i} bind(0, {i}) : {o.buffer}"
            for i, o in enumerate(self.operands)
        )
        pointers = "".join(o.pointer(i) for i, o in enumerate(self.operands))
        loads = "\n".join(
            f"%{o.name} = {OPS}Load %{o.name}p, %{o.name}s, {o.layout} : "
            f"!spirv.ptr<{o.pointee_type}, StorageBuffer>, i32 -> {o.type}"
            for o in (a, b, c)
        )
        flags = f", <{'|'.join(self.flags)}>" if self.flags else ""
        return f"""spirv.module Logical Vulkan {{
          {buffers}
          spirv.func @main() "None" {{
            %zero = spirv.Constant 0 : i32
            {pointers}
            {loads}
            %d = {OPS}MulAdd %a, %b, %c{flags} : {a.type}, {b.type} -> {d.type}
            {OPS}Store %dp, %d, %ds, {d.layout} : !spirv.ptr<{d.pointee_type}, StorageBuffer>,
              {d.type}, i32
            spirv.Return
          }}
          spirv.EntryPoint "GLCompute" @main
          spirv.ExecutionMode @main "LocalSize", {self.invocations}, 1, 1
        }}"""

    @property
    def invocations(self) -> int:
        """Number of invocations: one subgroup, or a workgroup of several."""
        return INVOCATIONS if self.operands[0].scope == "Workgroup" else LANES

    def buffers(self) -> dict[tuple[int, int], Array]:
        rng = np.random.default_rng(self.seed)
        found: dict[tuple[int, int], Any] = {}
        for number, each in enumerate(self.operands):
            if each.element in WIDTHS and "AccSat" not in self.flags:
                data = rng.integers(0, 256, each.bytes, np.uint8)
            else:
                # Sums fit the result before C is added (CM-24), and adding C saturates.
                dtype = np.dtype(DTYPES[each.element])
                count = each.bytes // dtype.itemsize
                if each.element in WIDTHS and each.name == "c":
                    data = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
                else:
                    data = rng.integers(0, 3, count).astype(dtype).view(np.uint8)
                data = np.resize(data, each.bytes)
            found[0, number] = np.zeros(each.bytes, np.uint8) if each.name == "d" else data
        return found

    def run(self, module: ModuleOp, subgroup_size: int) -> Array:
        buffers = self.buffers()
        options = Options(subgroup_size=subgroup_size)
        dispatch(module, "main", (1, 1, 1), buffers, options=options)
        return buffers[0, 3]


@pytest.mark.parametrize("virtual", [True, False])
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.long] * (n >= QUICK)) for n in range(MANY)]
)
def test_the_pass_keeps_results(seed: int, virtual: bool, spirv_val: str):
    kernel = Kernel.random(seed)
    module = find_module(parse_text(kernel.text(), ctx=context()))
    update(module)
    expected = kernel.run(module, LANES)
    assert expected.any()
    lower_cooperative_matrices(module, Lowering(LANES, virtual))
    lower_bfloat16(module)
    module.verify()
    update(module, (1, 5))
    assert khronos.spirv_val(encode(module), "vulkan1.2", "--scalar-block-layout") == ""
    found = kernel.run(module, 4 if virtual else LANES)
    assert np.array_equal(found, expected), f"{kernel}"
