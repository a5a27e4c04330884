"""
Defines the operations between `linalg` on tensors and a kernel's `spirv`.

A `schedule.dispatch` is the computation of one kernel on tensors. A `schedule.collective` is this
computation inside the kernel, on buffers, before it is divided among invocations. Views describe
the memory of staged and packed operands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    VectorType,
    i64,
)
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType, PointerType


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Returns the results of a dispatch or another region."""

    name = "schedule.yield"

    traits = traits_def(IsTerminator(), Pure())


UPDATES = "schedule.updates"
"""
Attribute of a dispatch: for each result, the index of the operand that it updates in place, or -1.

The kernel writes only the inserted elements of such an operand.
"""


@irdl_op_definition
class DispatchOp(IRDLOperation):
    """
    The computation of one kernel on tensors: a root operation and the operations fused with it.

    The block's arguments are the operands (tensors and numbers). The body uses no other value from
    outside, so equal dispatches have equal text. Tensors inside the body stay in registers, unless
    they are yielded.

        %r = schedule.dispatch(%A, %B) : (tensor<4x8xf16>, tensor<8x4xf16>) -> tensor<4x4xf32> {
        ^bb0(%a : tensor<4x8xf16>, %b : tensor<8x4xf16>):
          ...
          schedule.yield %c : tensor<4x4xf32>
        }
    """

    name = "schedule.dispatch"
    inputs = var_operand_def(TensorType | IndexType)
    outputs = var_result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect())

    assembly_format = (
        "`(` $inputs `)` attr-dict-with-keyword `:` functional-type($inputs, $outputs) $body"
    )

    def __init__(self, inputs: Sequence[SSAValue], result_types: Sequence[Attribute], body: Region):
        super().__init__(operands=[inputs], result_types=[result_types], regions=[body])

    @staticmethod
    def open_body(inputs: Sequence[SSAValue]) -> tuple[Block, dict[SSAValue, SSAValue]]:
        """Returns an empty body, and the body's argument for each input."""
        block = Block(arg_types=[value.type for value in inputs])
        for value, argument in zip(inputs, block.args, strict=True):
            argument.name_hint = value.name_hint
        return block, dict(zip(inputs, block.args, strict=True))

    def add_operand(self, value: SSAValue) -> SSAValue:
        """
        Appends an operand to the dispatch. Returns the argument of the body that stands for it.
        """
        self.operands = [*self.operands, value]
        argument = self.body.block.insert_arg(value.type, len(self.body.block.args))
        argument.name_hint = value.name_hint
        return argument

    def drop_unread_operands(self) -> None:
        """Removes operands whose arguments are unused in the body."""
        arguments = list(self.body.block.args)
        self.operands = [self.inputs[a.index] for a in arguments if a.first_use is not None]
        for argument in reversed(arguments):
            if argument.first_use is None:
                self.body.block.erase_arg(argument)

    def verify_(self) -> None:
        block = self.body.block
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("the body of a dispatch must end with schedule.yield")
        yielded = [value.type for value in self.yielded]
        for what, types, needed in (
            ("argument", block.arg_types, self.inputs),
            ("yielded value", yielded, self.outputs),
        ):
            if len(types) != len(needed):
                raise VerifyException(
                    f"the body has {len(types)} {what}s, but the dispatch needs {len(needed)}"
                )
            for number, (type, value) in enumerate(zip(types, needed, strict=True)):
                if type != value.type:
                    raise VerifyException(
                        f"{what} {number} must have type {value.type}, not {type}"
                    )

    @property
    def updates(self) -> dict[int, int]:
        """
        Maps the index of a result to the index of the operand that the result updates in place.
        """
        listed = self.attributes.get(UPDATES)
        numbers = listed.get_values() if isinstance(listed, DenseArrayBase) else ()
        return {result: int(number) for result, number in enumerate(numbers) if int(number) >= 0}

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values that the body yields as results."""
        last = self.body.block.last_op
        return tuple(last.operands) if isinstance(last, YieldOp) else ()


@irdl_op_definition
class CollectiveOp(IRDLOperation):
    """
    A part of a kernel that all workgroups of the dispatch compute together once.

    Its body is `linalg` on the kernel's buffers. The schedule and the lowering determine how
    workgroups and invocations divide it.
    """

    name = "schedule.collective"
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    assembly_format = "attr-dict-with-keyword $body"

    def __init__(self, body: Region | Sequence[Operation]):
        super().__init__(regions=[body if isinstance(body, Region) else Region(Block(body))])


@irdl_op_definition
class ElementPtrOp(IRDLOperation):
    """
    Returns the pointer to an element of a row-major memref.

    `schedule.element_ptr %m[%i, %j] : memref<64x40xf16, #spirv.storage_class<Workgroup>> ->
    !spirv.ptr<f16, Workgroup>`
    """

    name = "schedule.element_ptr"
    memref = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    result = result_def(PointerType)

    traits = traits_def(NoMemoryEffect())

    assembly_format = "$memref `[` $indices `]` attr-dict `:` type($memref) `->` type($result)"

    def __init__(self, memref: SSAValue, indices: Sequence[SSAValue]):
        assert isinstance(memref.type, MemRefType)
        space = memref.type.memory_space
        assert isinstance(space, StorageClassAttr)
        super().__init__(
            operands=[memref, indices],
            result_types=[PointerType(memref.type.element_type, space)],
        )

    def verify_(self) -> None:
        memref, pointer = memref_of(self.memref), self.result.type
        assert isinstance(pointer, PointerType)
        if len(self.indices) != memref.get_num_dims():
            raise VerifyException(
                f"{len(self.indices)} indices are given for the {memref.get_num_dims()} dimensions"
            )
        if pointer != PointerType(memref.element_type, memref.memory_space):  # pyright: ignore[reportArgumentType]
            raise VerifyException(f"{pointer} does not point to an element of {memref}")


def shaped_of(value: SSAValue) -> TensorType | MemRefType:
    """Returns the type of a value that is a tensor or memref."""
    assert isinstance(value.type, TensorType | MemRefType)
    return value.type


def memref_of(value: SSAValue) -> MemRefType:
    """Returns the type of a value that is a memref."""
    assert isinstance(value.type, MemRefType)
    return value.type


def bit_width(element_type: Attribute) -> int:
    """Returns the bits of an integer, float, or vector type."""
    if isinstance(element_type, VectorType):
        return prod(element_type.get_shape()) * bit_width(element_type.element_type)
    assert isinstance(element_type, FixedBitwidthType)
    return element_type.bitwidth


def _size_in_bits(type: MemRefType) -> int:
    return prod(type.get_shape()) * bit_width(type.element_type)


def _padded_size(size: int, before: int, after: int) -> int:
    return size if size == DYNAMIC_INDEX else size + before + after


@irdl_op_definition
class FlatViewOp(IRDLOperation):
    """
    A view of memory as one dimension of elements, or of vectors of elements.

    `schedule.flat_view %m : memref<64x48xf16, ...> to memref<384xvector<4xi32>, ...>`

    A memref with a dynamic dimension becomes `memref<?xf16>` with all elements.
    """

    name = "schedule.flat_view"
    memref = operand_def(MemRefType)
    result = result_def(MemRefType)

    traits = traits_def(NoMemoryEffect())

    assembly_format = "$memref attr-dict `:` type($memref) `to` type($result)"

    def __init__(self, memref: SSAValue, element_type: Attribute):
        source = memref_of(memref)
        count = DYNAMIC_INDEX
        if source.has_static_shape():
            count = _size_in_bits(source) // bit_width(element_type)
        view = MemRefType(element_type, [count], source.layout, source.memory_space)
        super().__init__(operands=[memref], result_types=[view])

    def verify_(self) -> None:
        source, view = memref_of(self.memref), memref_of(self.result)
        same_space = source.memory_space == view.memory_space
        if view.get_num_dims() != 1 or source.has_static_shape() != view.has_static_shape():
            raise VerifyException(f"a flat view must have one dimension, not {view}")
        same_size = not source.has_static_shape() or _size_in_bits(source) == _size_in_bits(view)
        if not same_size or not same_space:
            raise VerifyException(f"{source} and {view} must have equal size and memory space")


@irdl_op_definition
class PaddedViewOp(IRDLOperation):
    """
    A view of a memref with padding, which is zero and is not in memory.

    `schedule.padded_view %m low = [0, 1] high = [0, 2] : memref<4x5xf16> to memref<4x8xf16>`

    `fill = -11 : i8` gives another padding value.
    """

    name = "schedule.padded_view"
    memref = operand_def(MemRefType)
    low = prop_def(DenseArrayBase.constr(i64))
    high = prop_def(DenseArrayBase.constr(i64))
    fill = opt_prop_def(IntegerAttr)
    result = result_def(MemRefType)

    traits = traits_def(NoMemoryEffect())

    assembly_format = (
        "$memref `low` `=` $low `high` `=` $high (`fill` `=` $fill^)? attr-dict `:` type($memref) "
        "`to` type($result)"
    )

    def __init__(self, memref: SSAValue, low: Sequence[int], high: Sequence[int], fill: int = 0):
        source = memref_of(memref)
        sizes = zip(source.get_shape(), low, high, strict=True)
        shape = [_padded_size(*padded) for padded in sizes]
        super().__init__(
            operands=[memref],
            result_types=[MemRefType(source.element_type, shape, memory_space=source.memory_space)],
            properties={
                "low": DenseArrayBase.from_list(i64, low),
                "high": DenseArrayBase.from_list(i64, high),
                "fill": IntegerAttr(fill, source.element_type) if fill else None,  # pyright: ignore
            },
        )

    def verify_(self) -> None:
        source, view = memref_of(self.memref), memref_of(self.result)
        amounts = (self.low.get_values(), self.high.get_values())
        if any(len(widths) != source.get_num_dims() for widths in amounts):
            raise VerifyException(f"low and high must have a number for each dimension of {source}")
        if any(width < 0 for widths in amounts for width in widths):
            raise VerifyException("a padding cannot be negative")
        if self.fill is not None and self.fill.type != source.element_type:
            raise VerifyException(
                f"fill has type {self.fill.type}, but must have the element type of {source}"
            )
        sizes = zip(source.get_shape(), *amounts, strict=True)
        shape = tuple(_padded_size(*padded) for padded in sizes)
        if view.get_shape() != shape or view.element_type != source.element_type:
            raise VerifyException(
                f"the padded {source} must have shape {'x'.join(map(str, shape))}, not {view}"
            )


@irdl_op_definition
class SelectedViewOp(IRDLOperation):
    """
    A view of selected parts of a tensor or memref along its first dimension.

    `schedule.selected_view %w at %n : tensor<8x64xi8> at tensor<5xi32> to tensor<5x64xi8>`:
    element `[i, j]` of the view is `%w[%n[i], j]`. `%n` may have several dimensions. A kernel reads
    the elements from the source.
    """

    name = "schedule.selected_view"
    source = operand_def(TensorType | MemRefType)
    numbers = operand_def(TensorType | MemRefType)
    result = result_def(TensorType | MemRefType)

    traits = traits_def(NoMemoryEffect())

    assembly_format = (
        "$source `at` $numbers attr-dict `:` type($source) `at` type($numbers) `to` type($result)"
    )

    def __init__(self, source: SSAValue, numbers: SSAValue, result_type: Attribute):
        super().__init__(operands=[source, numbers], result_types=[result_type])

    def verify_(self) -> None:
        source, numbers, view = map(shaped_of, (self.source, self.numbers, self.result))
        if not numbers.get_num_dims() or not isinstance(numbers.element_type, IntegerType):
            raise VerifyException(
                f"the selected indices must be an array of integers, not {numbers}"
            )
        shape = (*numbers.get_shape(), *source.get_shape()[1:])
        if view.get_shape() != shape or view.element_type != source.element_type:
            raise VerifyException(f"the view of {source} at {numbers} cannot have type {view}")


class MatrixFunctionOp(IRDLOperation, ABC):
    """Base class of operations that apply a function to the elements of a cooperative matrix."""

    T: ClassVar = VarConstraint("T", BaseAttr(CooperativeMatrixType))

    result = result_def(T)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), RecursiveMemoryEffect())

    @abstractmethod
    def types_for(self, matrix: CooperativeMatrixType) -> Sequence[Attribute]:
        """Returns the argument types of the function for a type of matrix."""

    def verify_(self) -> None:
        matrix, block = self.operands[0].type, self.body.block
        assert isinstance(matrix, CooperativeMatrixType)
        types = tuple(self.types_for(matrix))
        if tuple(block.arg_types) != types:
            listed = ", ".join(map(str, types))
            raise VerifyException(f"the function of {self.name} must take {listed}")
        last = block.last_op
        yielded = tuple(value.type for value in last.operands) if isinstance(last, YieldOp) else ()
        if yielded != (matrix.element_type,):
            raise VerifyException(
                f"{self.name} must end with a schedule.yield of one {matrix.element_type}"
            )


@irdl_op_definition
class EachElementOp(MatrixFunctionOp):
    """
    Applies a function of row, column and element to every element of a cooperative matrix.

    For an argument with the matrix's type, the function gets the element at the same position.
    Other arguments (a buffer, or a value that is uniform in the scope) are passed unchanged. The
    device chooses the order of the elements, and the invocations that compute them.

        %r = schedule.each_element %m(%bias, %first) : !spirv.coopmatrix<...> (memref<...>, index)
            -> !spirv.coopmatrix<...> {
        ^bb0(%row: index, %column: index, %x: f32, %b: memref<...>, %f: index):
          ...
          schedule.yield %y : f32
        }
    """

    name = "schedule.each_element"
    matrix = operand_def(MatrixFunctionOp.T)
    arguments = var_operand_def()

    assembly_format = (
        "$matrix `(` $arguments `)` attr-dict-with-keyword `:` type($matrix) `(` type($arguments) "
        "`)` `->` type($result) $body"
    )

    def __init__(self, matrix: SSAValue, arguments: Sequence[SSAValue], body: Region):
        super().__init__(
            operands=[matrix, list(arguments)], result_types=[matrix.type], regions=[body]
        )

    def types_for(self, matrix: CooperativeMatrixType) -> Sequence[Attribute]:
        types = (argument.type for argument in self.arguments)
        seen = (matrix.element_type if type == matrix else type for type in types)
        return IndexType(), IndexType(), matrix.element_type, *seen


@irdl_op_definition
class ReduceRowsOp(MatrixFunctionOp):
    """
    Replaces each element by the combination of all elements of its row.

        %r = schedule.reduce_rows %m : !spirv.coopmatrix<...> -> !spirv.coopmatrix<...> {
        ^bb0(%x: f32, %y: f32):
          %z = arith.maxnumf %x, %y : f32
          schedule.yield %z : f32
        }
    """

    name = "schedule.reduce_rows"
    matrix = operand_def(MatrixFunctionOp.T)

    assembly_format = "$matrix attr-dict-with-keyword `:` type($matrix) `->` type($result) $body"

    def __init__(self, matrix: SSAValue, body: Region):
        super().__init__(operands=[matrix], result_types=[matrix.type], regions=[body])

    def types_for(self, matrix: CooperativeMatrixType) -> Sequence[Attribute]:
        return matrix.element_type, matrix.element_type
