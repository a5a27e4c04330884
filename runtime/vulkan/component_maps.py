"""
Tests if a device assigns the components of cooperative matrices to invocations as a target states
(CM-18).

Vulkan leaves this assignment (the component map) to the implementation. A test kernel loads a
matrix whose elements are component indices, and stores the components of each invocation. If they
differ from the map, kernels that depend on the map are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.work import Matrix, Step, Work, WorkBuffer
from xdsl_spirv.targets import CooperativeMatrixProperty, Fragment, TargetError, load

KERNEL = """
spirv.module Logical Vulkan requires #spirv.vce<v1.6,
    [Shader, {type_capabilities}VulkanMemoryModel, GroupNonUniform, CooperativeMatrixKHR],
    [SPV_KHR_cooperative_matrix]> {{
  spirv.GlobalVariable @numbers bind(0, 0) : {read}
  spirv.GlobalVariable @held bind(0, 1) : {buffer}
  spirv.GlobalVariable @lane built_in("SubgroupLocalInvocationId") : !spirv.ptr<i32, Input>
  spirv.func @main() "None" {{
    %zero = spirv.Constant 0 : i32
    %columns = spirv.Constant {columns} : i32
    %count = spirv.Constant {count} : i32
    %lane_pointer = spirv.mlir.addressof @lane : !spirv.ptr<i32, Input>
    %lane = spirv.Load "Input" %lane_pointer : i32
    %first = spirv.IMul %lane, %count : i32
    %numbers = spirv.mlir.addressof @numbers : {read}
    %held = spirv.mlir.addressof @held : {buffer}
    %from = spirv.AccessChain %numbers[%zero, %zero] : {read}, i32, i32 -> {element}
    %m = spirv.KHR.CooperativeMatrixLoad %from, %columns, <RowMajor>
      : {element}, i32 -> {matrix}
{stores}
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @main, @lane, @numbers, @held
  spirv.ExecutionMode @main "LocalSize", {lanes}, 1, 1
}}
"""

STORE = """
    %n{number} = spirv.Constant {number} : i32
    %c{number} = spirv.CompositeExtract %m[{number} : i32] : {matrix}
    %i{number} = spirv.IAdd %first, %n{number} : i32
    %p{number} = spirv.AccessChain %held[%zero, %i{number}] : {buffer}, i32, i32 -> {element}
    spirv.Store "StorageBuffer" %p{number}, %c{number} : {type}
"""

Run: TypeAlias = Callable[[Work], bytes]
"""A function that runs work on a device, and returns the bytes of the buffer named `held`."""

TYPES = {16: np.float16, 32: np.float32}
"""Maps the bits of a component to a type that can represent all component indices."""

USES = {"A": "MatrixA", "B": "MatrixB", "Acc": "MatrixAcc"}


def matrices_of(products: Iterable[CooperativeMatrixProperty]) -> frozenset[Matrix]:
    """Returns the matrices of f16 or f32 that are operands or results of the products."""
    matrices = {
        matrix
        for p in products
        for matrix in (
            ("A", (p.m, p.k), p.a),
            ("B", (p.k, p.n), p.b),
            ("Acc", (p.m, p.n), p.result),
        )
    }
    return frozenset(matrix for matrix in matrices if matrix[2] in ("f16", "f32"))


def other_maps(target: str, matrices: Iterable[Matrix], run: Run) -> list[str]:
    """
    Describes the matrices whose component map on a device differs from the target's map.

    `run` runs work on the device. Raises `ProgramError` for an unknown target.
    """
    try:
        known = load(target)
    except TargetError as error:
        raise ProgramError(str(error), "component_map", "compile the program again") from error
    lacking: list[str] = []
    for use, shape, type in sorted(matrices):
        bits = int(type[1:])
        fragment = known.fragment(use, shape, bits)
        if fragment is not None and differs(fragment, bits, run):
            rows, columns = shape
            lacking.append(
                f"{use} matrices {rows}x{columns} of {type} with the component map of {target}"
            )
    return lacking


def differs(fragment: Fragment, bits: int, run: Run) -> bool:
    """
    True if a device assigns matrix components of `bits` bits to invocations differently from
    `fragment`.

    `run` runs work on the device.
    """
    size = fragment.rows * fragment.columns
    numbers = np.arange(size, dtype=TYPES[bits])
    expected = [
        row * fragment.columns + column
        for lane in range(fragment.lanes)
        for row, column in (fragment.position(lane, n) for n in range(fragment.components))
    ]
    held = np.frombuffer(run(_work(fragment, bits, numbers.tobytes())), TYPES[bits])
    return held.tolist() != expected


def _work(fragment: Fragment, bits: int, numbers: bytes) -> Work:
    # The numbers are a weight, so that they are uploaded before the run: the validation layer takes
    # a matrix's load for a write, which no barrier after the copy of an input allows.
    buffers = (
        WorkBuffer("numbers", len(numbers), "weight"),
        WorkBuffer("held", fragment.lanes * fragment.components * bits // 8, "output"),
    )
    step = Step("probe", "main", (1, 1, 1), ((0, 0, "numbers"), (0, 1, "held")))
    kernels = {"probe": _kernel(fragment, bits)}
    return Work(buffers, kernels, (step,), fragment.lanes, weights={"numbers": numbers})


def _kernel(fragment: Fragment, bits: int) -> bytes:
    from xdsl_spirv.dialects.spirv.module import ModuleOp
    from xdsl_spirv.runtime.modules import context, parse_text
    from xdsl_spirv.serialization.encode.encoder import encode

    type = f"f{bits}"
    shape = f"{fragment.rows}x{fragment.columns}x{type}"
    elements = f"!spirv.struct<(!spirv.rtarray<{type}, stride={bits // 8}> [0"
    names = {
        "type": type,
        "type_capabilities": "Float16, StorageBuffer16BitAccess, " if bits == 16 else "",
        "read": f"!spirv.ptr<{elements}, NonWritable])>, StorageBuffer>",
        "buffer": f"!spirv.ptr<{elements}])>, StorageBuffer>",
        "element": f"!spirv.ptr<{type}, StorageBuffer>",
        "matrix": f"!spirv.coopmatrix<{shape}, Subgroup, {USES[fragment.use]}>",
        "columns": fragment.columns,
        "count": fragment.components,
        "lanes": fragment.lanes,
    }
    stores = [STORE.format(number=n, **names) for n in range(fragment.components)]
    text = KERNEL.format(stores="".join(stores), **names)
    module = parse_text(text, "probe", context()).body.block.first_op
    assert isinstance(module, ModuleOp)
    return encode(module)
