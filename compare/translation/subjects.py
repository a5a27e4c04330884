"""
Finds the code to run: a host function, a `tile.program`, or entry points of `spirv.module`s.

A subject is derived from the module before any pass, so inputs and legal results do not depend on
passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    MemRefType,
    ModuleOp,
    TensorType,
    VectorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from xdsl_spirv.compare.translation.inputs import Input
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.signature import argument_name, names_of
from xdsl_spirv.dialects.program import inputs_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import format_size
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.layout import array_stride, size_in_bytes
from xdsl_spirv.dialects.spirv.structure import EntryPointOp, GlobalVariableOp
from xdsl_spirv.dialects.spirv.structure import FuncOp as SPIRVFuncOp
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.dialects.spirv.types import ArrayType, MatrixType, RuntimeArrayType, StructType
from xdsl_spirv.dialects.tile import ProgramOp
from xdsl_spirv.interpreter import Options, dispatch, interpret
from xdsl_spirv.interpreter.numbers import DType, scalar_dtype
from xdsl_spirv.passes.analysis.sizes import extents
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import evaluate

Grid: TypeAlias = tuple[int, int, int]


class Subject(Protocol):
    """Interface of code with inputs and named results."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs, in order."""
        ...

    def run(self, module: ModuleOp, values: Sequence[Array]) -> dict[str, Array]:
        """Returns the results by name. Does not change `values`. Raises `InterpreterError`."""
        ...


def subject_of(
    module: ModuleOp, function: str | None, options: Options, grid: Grid, length: int
) -> Subject:
    """
    Returns the module's host function, its tile program, or its entry points. Entry points run on
    `grid` workgroups with runtime arrays of `length` elements.

    Raises `ProgramError` if there is none, or if no inputs can be generated.
    """
    bodies = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    if bodies or function is not None:
        return HostSubject.of(module, function, options)
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    if len(programs) > 1:
        names = ", ".join(f"@{program.sym_name.data}" for program in programs)
        raise ProgramError(f"the module has {len(programs)} tile programs: {names}", "", "keep one")
    if programs:
        from xdsl_spirv.compare.translation.tile_subjects import TileSubject

        return TileSubject.from_program(programs[0], options)
    return KernelSubject.of(module, options, grid, length)


FIRST_SIZE = 5
"""Value of the first dynamic size of a host function. Each further size is larger by two."""


@dataclass(frozen=True)
class HostSubject:
    """A host function of tensors, memrefs and scalars. Memrefs are results, too."""

    function: str
    inputs: tuple[Input, ...]
    options: Options
    outputs: tuple[int, ...]
    """Positions of the memref arguments that the function may write."""

    @classmethod
    def of(cls, module: ModuleOp, name: str | None, options: Options) -> HostSubject:
        function = host_function(module, name)
        inputs: list[Input] = []
        outputs: list[int] = []
        names = names_of(function)
        sizes: dict[str, int] = {}
        for size_name in names.of.values():
            sizes.setdefault(str(size_name), FIRST_SIZE + 2 * len(sizes))
        for i in inputs_of(function):
            argument = function.body.block.args[i]
            input = _argument(argument_name(argument, i), argument.type)
            if DYNAMIC_INDEX in input.shape:
                shape = (format_size(size, names.name) for size in extents(argument))
                known = tuple(evaluate(size, sizes, input.name) for size in shape)
                input = replace(input, shape=known)
            if isinstance(argument.type, MemRefType):
                outputs.append(len(inputs))
            inputs.append(input)
        return cls(function.sym_name.data, tuple(inputs), options, tuple(outputs))

    def run(self, module: ModuleOp, values: Sequence[Array]) -> dict[str, Array]:
        copies = [value.copy() for value in values]
        results = interpret(module, copies, self.function, options=self.options)
        named = {f"result{i}": np.asarray(result) for i, result in enumerate(results)}
        return named | {self.inputs[i].name: copies[i] for i in self.outputs}


def _argument(name: str, type: Attribute) -> Input:
    shape: tuple[int, ...] = ()
    element = type
    if isinstance(type, TensorType | MemRefType):
        shaped = cast("TensorType[Any] | MemRefType[Any]", type)
        shape, element = tuple(shaped.get_shape()), shaped.element_type
    dtype = scalar_dtype(element)
    if dtype is None or (DYNAMIC_INDEX in shape and not isinstance(type, TensorType)):
        raise ProgramError(
            f"no inputs can be made for {name!r}, of type {type}",
            "",
            "use tensors and memrefs of static shape, and scalars",
        )
    return Input(name, dtype, shape, isinstance(type, IndexType))


@dataclass(frozen=True)
class KernelSubject:
    """All entry points of all `spirv.module`s, run in order on the same buffers."""

    inputs: tuple[Input, ...]
    places: tuple[tuple[int, int], ...]
    options: Options
    grid: Grid

    @classmethod
    def of(cls, module: Operation, options: Options, grid: Grid, length: int) -> KernelSubject:
        buffers: dict[tuple[int, int], Input] = {}
        for kernel in kernels_of(module):
            for op in kernel.body.block.ops:
                if isinstance(op, GlobalVariableOp) and op.type.storage_class.data in (
                    StorageClass.StorageBuffer,
                    StorageClass.Uniform,
                ):
                    place, buffer = _buffer(op, length)
                    if place not in buffers or buffers[place].shape < buffer.shape:
                        buffers[place] = buffer
        if not any(_entries(kernel) for kernel in kernels_of(module)):
            raise ProgramError(
                "the module has no host function, tile.program or spirv.module with an entry point",
                "",
                "add a host function, a tile.program or an entry point",
            )
        return cls(tuple(buffers.values()), tuple(buffers), options, grid)

    def run(self, module: Operation, values: Sequence[Array]) -> dict[str, Array]:
        copies = [value.copy() for value in values]
        buffers = dict(zip(self.places, copies, strict=True))
        for kernel in kernels_of(module):
            for entry in _entries(kernel):
                dispatch(kernel, entry, self.grid, buffers, options=self.options)
        return {buffer.name: copy for buffer, copy in zip(self.inputs, copies, strict=True)}


def kernels_of(module: Operation) -> list[SPIRVModuleOp]:
    """Returns the `spirv.module`s."""
    return [op for op in module.walk() if isinstance(op, SPIRVModuleOp)]


def _entries(kernel: SPIRVModuleOp) -> list[str]:
    ops = list(kernel.body.block.ops)
    declared = [op.fn.string_value() for op in ops if isinstance(op, EntryPointOp)]
    marked = [
        op.sym_name.data
        for op in ops
        if isinstance(op, SPIRVFuncOp) and "spirv.entry_point_abi" in op.attributes
    ]
    return declared or marked


def _buffer(op: GlobalVariableOp, length: int) -> tuple[tuple[int, int], Input]:
    name = op.sym_name.data
    if op.descriptor_set is None or op.binding is None:
        raise ProgramError(
            f"@{name} lacks a descriptor set or a binding", f"@{name}", "add bind(SET, BINDING)"
        )
    scalars = set(_scalars(op.type.pointee))
    if len(scalars) != 1:
        raise ProgramError(
            f"no values can be made for @{name}: it contains {len(scalars)} types of numbers",
            f"@{name}",
            "use a separate buffer for each type",
        )
    (dtype,) = scalars
    count = -(-_bytes(op.type.pointee, length) // dtype.itemsize)
    place = op.descriptor_set.value.data, op.binding.value.data
    return place, Input(f"@{name}", dtype, (count,))


def _bytes(type: Attribute, length: int) -> int:
    if isinstance(type, RuntimeArrayType):
        return length * array_stride(type)
    if isinstance(type, StructType) and isinstance(type.member_types[-1], RuntimeArrayType):
        last = array_stride(type.member_types[-1])
        return size_in_bytes(type) + length * last
    return size_in_bytes(type)


def _scalars(type: Attribute) -> list[DType]:
    if isinstance(type, StructType):
        return [dtype for member in type.member_types for dtype in _scalars(member)]
    if isinstance(type, ArrayType | RuntimeArrayType):
        return _scalars(type.element_type)
    if isinstance(type, MatrixType):
        return _scalars(type.column_type)
    if isinstance(type, VectorType):
        return _scalars(type.element_type)
    dtype = scalar_dtype(type)
    if dtype is None:
        raise ProgramError(f"no values can be made for a buffer of {type}")
    return [dtype]
