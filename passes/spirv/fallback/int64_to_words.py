"""
`spirv-int64-to-words`: rewrites 64-bit integers as pairs of 32-bit words.

    %s = spirv.IAdd %a, %b : i64  ->  %low = spirv.IAddCarry %a[0], %b[0]
                                      %s = (%low[0], %a[1] + %b[1] + %low[1]) : vector<2xi32>

An integer becomes a `vector<2xi32>` with the low word first, so that bytes in memory do not
change. A vector of integers becomes an array of pairs. Operations that move values move the pairs;
arithmetic becomes code on words (words.py, word_conversions.py). Addresses use only their low
word: no buffer has 2^32 elements. 64-bit floats do not change. The pass refuses 64-bit atomic
operations and 64-bit specialization constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import refusals, rewrite_once
from xdsl_spirv.passes.spirv.fallback.dot_to_shifts import DotToShifts
from xdsl_spirv.passes.spirv.fallback.function_emitter import FunctionEmitter, ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.lacking import LackingPass
from xdsl_spirv.passes.spirv.fallback.retype import MOVES_OF_SCALARS, Retyping
from xdsl_spirv.passes.spirv.fallback.word_operations import COMPUTES, Part
from xdsl_spirv.passes.spirv.fallback.words import WORDS, Division, Pair, Words
from xdsl_spirv.passes.spirv.requirements import operations

NAME = "spirv-int64-to-words"
refuse = refusals(NAME)

BYTES = 8

MOVES = MOVES_OF_SCALARS | operations(
    "CopyLogical PtrEqual PtrNotEqual KHR.ReadClock Bitcast ConvertPtrToU ConvertUToPtr"
)
"""Operations that only move values."""

LAID_OUT = (
    spv.StorageClass.StorageBuffer,
    spv.StorageClass.PhysicalStorageBuffer,
    spv.StorageClass.PushConstant,
    spv.StorageClass.Uniform,
)
"""Storage classes in which arrays have an explicit stride."""


def _is_wide(type_: Attribute) -> bool:
    element = type_.element_type if isinstance(type_, VectorType) else type_
    return isinstance(element, IntegerType) and element.width.data == 8 * BYTES


def _unlaid(attribute: Attribute) -> Attribute | None:
    """Returns the replacement of a 64-bit type in memory without an explicit layout, else None."""
    if not _is_wide(attribute):
        return None
    if isinstance(attribute, VectorType):
        return spv.ArrayType(spv.component_count(attribute), WORDS)
    return WORDS


def _laid_out(attribute: Attribute) -> Attribute | None:
    """
    Returns the replacement of a 64-bit type in values and in memory with an explicit layout.

    Returns None for any other type.
    """
    if isinstance(attribute, spv.PointerType) and attribute.storage_class.data not in LAID_OUT:
        pointee = Retyping(_unlaid)(attribute.pointee)
        return spv.PointerType(pointee, attribute.storage_class, attribute.stride.data)
    if _is_wide(attribute) and isinstance(attribute, VectorType):
        return spv.ArrayType(spv.component_count(attribute), WORDS, BYTES)
    return _unlaid(attribute)


def _is_uniform_vector(attribute: Attribute) -> bool:
    """True for a pointer to a Uniform block that contains vectors of 64-bit integers."""
    if not isinstance(attribute, spv.PointerType):
        return False
    if attribute.storage_class.data is not spv.StorageClass.Uniform:
        return False
    pointee = attribute.pointee
    return Retyping(_laid_out)(pointee) != Retyping(_unlaid)(pointee)


@dataclass(frozen=True)
class Int64ToWordsPass(LackingPass):
    """Rewrites 64-bit integers as vectors of two words, and their operations as code on words."""

    name = NAME
    FEATURES = {64: "int64"}

    def rewrite(self, module: spv.ModuleOp, widths: frozenset[int]) -> None:
        retype = Retyping(_laid_out)
        codes = ModuleEmitter(module)
        rewrite_once(module, DotToShifts(codes, retype.touches))
        touched = [op for op in module.body.walk() if retype.concerns(op)]
        if not touched:
            return
        for op in touched:
            _check(op)
        before = [(op, op.operand_types, op.result_types) for op in touched]
        for op in touched:
            if isinstance(op, spv.ConstantOp):
                op.properties["value"] = _constant(op.value)
        retype.apply(module)
        lowering = _Lowering(codes, Division(module))
        for op, operands, results in before:
            lowering.rewrite(op, operands, results)
        _erase_unused(module)


def _erase_unused(module: spv.ModuleOp) -> None:
    """Erases unused composites, and the extracts and constants that only these composites used."""
    kinds = (spv.CompositeConstructOp, spv.CompositeExtractOp, spv.ConstantOp)
    for op in reversed([op for op in module.walk() if isinstance(op, kinds)]):
        if not op.results[0].first_use:
            Rewriter.erase_op(op)


def _constant(value: Attribute) -> Attribute:
    if isinstance(value, ArrayAttr):
        return ArrayAttr([_constant(part) for part in value])  # pyright: ignore
    if isinstance(value, IntegerAttr) and _is_wide(value.type):
        number = value.value.data & ((1 << 64) - 1)
        return _dense([], number.to_bytes(BYTES, "little"))
    if isinstance(value, DenseIntOrFPElementsAttr) and _is_wide(value.get_element_type()):
        count = len(value)
        data = value.data.data
        return _dense(value.get_shape(), data if len(data) == BYTES * count else data * count)
    return value


def _dense(shape: Sequence[int], data: bytes) -> Attribute:
    type_ = TensorType(i32, [*shape, 2]) if shape else WORDS
    return DenseIntOrFPElementsAttr(type_, BytesAttr(data))  # pyright: ignore


def _check(op: Operation) -> None:
    if isinstance(op, spv.RawGlobalOp) and not op.constant_like:
        return
    if isinstance(op, spv.AtomicOperation):
        refuse(op, "atomic operations on 64-bit integers cannot be rewritten: use 32-bit integers")
    types = (*op.operand_types, *op.result_types, *op.properties.values())
    if any(map(_is_uniform_vector, types)):
        refuse(
            op,
            "a vector of 64-bit integers becomes an array with a stride of 8 bytes, and arrays "
            "in a Uniform block have strides of 16: use a StorageBuffer, or separate members",
        )
    specialized = isinstance(op, spv.ConstantSymbol | spv.SpecConstantOperationOp)
    if specialized or isinstance(op.parent_op(), spv.SpecConstantOperationOp):
        refuse(op, "the operation is a 64-bit specialization constant: run spirv-specialize first")
    if op.name not in MOVES and type(op) not in COMPUTES:
        refuse(op, "the pass cannot rewrite this operation on 64-bit integers: use 32-bit integers")


class _Lowering:
    def __init__(self, codes: ModuleEmitter, division: Division):
        self.codes = codes
        self.division = division
        self.code: FunctionEmitter
        self.words: Words

    def rewrite(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> None:
        """Rewrites an operation. `operands` and `results` are its original types."""
        if op.parent_op() is None or op.name in ("spirv.func", "spirv.GlobalVariable"):
            return
        if isinstance(op, spv.ConstantOp) or isinstance(op.parent_op(), spv.ModuleOp):
            return
        self.code = self.codes.before(op)
        self.words = Words(self.code, self.division)
        match op:
            case spv.AccessChain() | spv.PtrAccessChain():
                self._address(op, operands)
            case spv.LoadOp():
                self._load(op)
            case spv.StoreOp():
                op.operands[1] = self._as(op.object, op.pointer.type)
            case spv.VariableOp():
                self._initialize(op)
            case spv.CopyMemoryOp():
                self._copy(op)
            case spv.CompositeConstructOp():
                if _is_wide(results[0]):
                    self._replace(op, results, self._all_parts(op.operands, operands))
            case spv.VectorShuffleOp():
                parts = self._all_parts(op.operands, operands)
                chosen = [parts[max(0, int(c.value.data))] for c in op.components.data]
                self._replace(op, results, chosen)
            case spv.VectorExtractDynamicOp():
                parts = self._parts(op.vector, operands[0])
                self._replace(op, results, [self._at(parts, self._index(op.index, operands[1]))])
            case spv.VectorInsertDynamicOp():
                self._insert(op, operands, results)
            case spv.BitcastOp():
                self._bitcast(op, operands[0], results[0])
            case spv.ConvertPtrToUOp() | spv.ConvertUToPtrOp():
                cast = spv.BitcastOp(op.operands[0], op.results[0].type)
                Rewriter.replace_op(op, cast)
            case spv.SelectOp() if not _is_wide(results[0]):
                return
            case _ if type(op) in COMPUTES:
                self._compute(op, operands, results)
            case _:
                return

    # Scalars of values

    def _parts(self, value: SSAValue, type_: Attribute, count: int = 1) -> list[Part]:
        """Splits a vector of original type `type_` into scalars. Lists a scalar `count` times."""
        vector = isinstance(type_, VectorType)
        if vector:
            scalars = [self.code.component(value, i) for i in range(spv.component_count(type_))]
        else:
            scalars = [value] * count
        return [self.words.pair(s) if _is_wide(type_) else s for s in scalars]

    def _all_parts(self, values: Sequence[SSAValue], types: Sequence[Attribute]) -> list[Part]:
        pairs = zip(values, types, strict=True)
        return [part for value, type_ in pairs for part in self._parts(value, type_)]

    def _replace(self, op: Operation, results: Sequence[Attribute], parts: Sequence[Part]) -> None:
        value = self._joined(parts, results[0], op.results[0].type)
        Rewriter.replace_op(op, [], [value])

    def _joined(self, parts: Sequence[Part], former: Attribute, type_: Attribute) -> SSAValue:
        scalars = [self._scalar(part, spv.element_of(former)) for part in parts]
        if not isinstance(former, VectorType):
            return scalars[0]
        return self.code.add(spv.CompositeConstructOp(scalars, type_))

    def _scalar(self, part: Part, type_: Attribute) -> SSAValue:
        if _is_wide(type_) and not isinstance(part, Pair):
            part = self.words.widened(part, sign=False)
        if isinstance(part, Pair):
            return self.code.add(spv.CompositeConstructOp(part, WORDS))
        return self.code.same_bits(part, type_)

    # Operations that compute

    def _compute(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> None:
        result = results[0]
        members = result.member_types if isinstance(result, spv.StructType) else (result,)
        count = max(map(spv.component_count, (*operands, *members)))
        columns = [self._parts(v, t, count) for v, t in zip(op.operands, operands, strict=True)]
        rows = [COMPUTES[type(op)](self.words, op, row) for row in zip(*columns, strict=True)]
        if any(row is None for row in rows):
            refuse(op, f"a conversion from {operands[0]} to {result} cannot be rewritten in words")
        if isinstance(result, spv.StructType):
            self._struct(op, result, rows)  # pyright: ignore
        elif isinstance(op, spv.GroupNonUniformAllEqualOp):
            value, *others = rows
            for other in others:
                value = self.code.add(spv.LogicalAndOp(value, other))  # pyright: ignore
            Rewriter.replace_op(op, [], [value])  # pyright: ignore
        else:
            self._replace(op, results, rows)  # pyright: ignore

    def _struct(self, op: Operation, former: spv.StructType, rows: Sequence[list[Pair]]) -> None:
        type_ = op.results[0].type
        assert isinstance(type_, spv.StructType)
        columns = zip(zip(*rows, strict=True), former.member_types, type_.member_types, strict=True)
        values = [self._joined(parts, before, after) for parts, before, after in columns]
        Rewriter.replace_op(op, [], [self.code.add(spv.CompositeConstructOp(values, type_))])

    # Operations that move

    def _index(self, value: SSAValue, type_: Attribute) -> SSAValue:
        return self.words.pair(value).low if _is_wide(type_) else value

    def _address(self, op: Operation, operands: Sequence[Attribute]) -> None:
        for number, (value, type_) in enumerate(zip(op.operands, operands, strict=True)):
            op.operands[number] = self._index(value, type_)

    def _at(self, parts: Sequence[Part], index: SSAValue) -> Part:
        """Selects a scalar of a composite by a dynamic index."""
        result = parts[0]
        for number, part in enumerate(parts[1:], start=1):
            assert isinstance(result, Pair)
            assert isinstance(part, Pair)
            result = self.words.select(self._is(index, number), part, result)
        return result

    def _is(self, index: SSAValue, number: int) -> SSAValue:
        return self.code.add(spv.IEqualOp(index, self.code.number(number, index.type)))

    def _insert(
        self,
        op: spv.VectorInsertDynamicOp,
        operands: Sequence[Attribute],
        results: Sequence[Attribute],
    ) -> None:
        index = self._index(op.index, operands[2])
        (new,) = self._parts(op.component, operands[1])
        assert isinstance(new, Pair)
        parts: list[Part] = []
        for number, part in enumerate(self._parts(op.vector, operands[0])):
            assert isinstance(part, Pair)
            parts.append(self.words.select(self._is(index, number), new, part))
        self._replace(op, results, parts)

    def _bitcast(self, op: spv.BitcastOp, source: Attribute, target: Attribute) -> None:
        """Bit-casts words; vectors are cast through a vector of all words."""
        value = op.operand
        if value.type == op.result.type:
            Rewriter.replace_op(op, [], [value])
        elif spv.component_count(source) == spv.component_count(target) > 1:
            parts = [self._scalar(p, spv.element_of(source)) for p in self._parts(value, source)]
            single = WORDS if _is_wide(target) else spv.element_of(target)
            cast = [self.code.same_bits(part, single) for part in parts]
            Rewriter.replace_op(
                op, [], [self.code.add(spv.CompositeConstructOp(cast, op.result.type))]
            )
        elif _is_wide(source) and isinstance(source, VectorType):
            every = [word for part in self._parts(value, source) for word in part]  # pyright: ignore
            flat = self.code.add(spv.CompositeConstructOp(every, VectorType(i32, [len(every)])))
            Rewriter.replace_op(op, [], [self.code.same_bits(flat, op.result.type)])
        elif isinstance(target, VectorType) and _is_wide(target):
            flat = self.code.same_bits(value, VectorType(i32, [2 * spv.component_count(target)]))
            components = [
                self.code.component(flat, i) for i in range(2 * spv.component_count(target))
            ]
            pairs = [Pair(*components[i : i + 2]) for i in range(0, len(components), 2)]
            self._replace(op, [target], pairs)

    # Arrays in memory without strides have another type than array values.

    def _load(self, op: spv.LoadOp) -> None:
        pointer, type_ = op.pointer.type, op.result.type
        if not isinstance(pointer, spv.PointerType) or pointer.pointee == type_:
            return
        load = op.clone()
        load.result._type = pointer.pointee  # pyright: ignore[reportPrivateUsage]
        self.code.insert(load)
        Rewriter.replace_op(op, spv.CopyLogicalOp(load.result, type_))

    def _as(self, value: SSAValue, pointer: Attribute) -> SSAValue:
        """Converts a value to the pointee type of a pointer."""
        if not isinstance(pointer, spv.PointerType) or pointer.pointee == value.type:
            return value
        return self.code.add(spv.CopyLogicalOp(value, pointer.pointee))

    def _initialize(self, op: spv.VariableOp) -> None:
        initial, pointee = op.initializer, op.result.type.pointee
        if initial is None or initial.type == pointee:
            return
        op.operands = []
        copy = spv.CopyLogicalOp(initial, pointee)
        after = InsertPoint.after(op)
        Rewriter.insert_op([copy, spv.StoreOp(op.result, copy.result)], after)

    def _copy(self, op: spv.CopyMemoryOp) -> None:
        target, source = op.target.type, op.source.type
        if not isinstance(target, spv.PointerType) or not isinstance(source, spv.PointerType):
            return
        if target.pointee != source.pointee:
            refuse(op, "the operation copies 64-bit vectors between storage classes of "
                   "different layouts: load and store them instead")  # fmt: skip
