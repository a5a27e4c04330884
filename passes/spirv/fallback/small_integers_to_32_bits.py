"""
`spirv-small-integers-to-32-bits`: computes 8- and 16-bit integers in 32 bits.

    %s = spirv.IAdd %a, %b : i8  ->  %s = spirv.BitwiseAnd (spirv.IAdd %a, %b : i32), 255

An integer becomes a zero-extended i32. Signed operations sign-extend it first. Operations that may
set upper bits clear these bits afterwards. Buffers keep their bytes: loads are followed by an
extension and stores follow a truncation, which need no 8- or 16-bit arithmetic (SPIR-V 2.16.2). In
memory without a layout (Workgroup, Private, Function) each integer takes a 32-bit word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    Float16Type,
    IntegerAttr,
    IntegerType,
    TensorType,
    VectorType,
    f16,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.spirv.fallback.dot_to_shifts import lower_dot_product
from xdsl_spirv.passes.spirv.fallback.function_emitter import FunctionEmitter, ModuleEmitter
from xdsl_spirv.passes.spirv.fallback.lacking import SmallTypesPass
from xdsl_spirv.passes.spirv.fallback.retype import MOVES_OF_SCALARS, Retyping
from xdsl_spirv.passes.spirv.requirements import STORAGE, has_layout, operations

NAME = "spirv-small-integers-to-32-bits"
refuse = refusals(NAME)

MOVES = MOVES_OF_SCALARS | operations("Select Switch")
"""Operations that only move values."""

UNSIGNED = frozenset(
    (
        *(spv.BitwiseAndOp, spv.BitwiseOrOp, spv.BitwiseXorOp, spv.ShiftRightLogicalOp),
        *(spv.BitCountOp, spv.UDivOp, spv.UModOp, spv.IEqualOp),
        *(spv.INotEqualOp, spv.ULessThanOp, spv.ULessThanEqualOp, spv.UGreaterThanOp),
        *(spv.UGreaterThanEqualOp, spv.ConvertUToFOp, spv.GLUMinOp, spv.GLUMaxOp),
        *(spv.GLUClampOp, spv.UConvertOp),
        *(spv.IAddOp, spv.ISubOp, spv.IMulOp, spv.SNegateOp),
        *(spv.NotOp, spv.ShiftLeftLogicalOp, spv.ConvertFToUOp, spv.ConvertFToSOp),
        *(spv.GroupNonUniformAllEqualOp, spv.GroupNonUniformBroadcastOp),
        *(spv.GroupNonUniformBroadcastFirstOp, spv.GroupNonUniformShuffleOp),
        *(spv.GroupNonUniformShuffleXorOp, spv.GroupNonUniformShuffleUpOp),
        *(spv.GroupNonUniformShuffleDownOp, spv.GroupNonUniformQuadBroadcastOp),
        *(spv.GroupNonUniformQuadSwapOp, spv.GroupNonUniformIAddOp),
        *(spv.GroupNonUniformIMulOp, spv.GroupNonUniformUMinOp, spv.GroupNonUniformUMaxOp),
        *(spv.GroupNonUniformBitwiseAndOp, spv.GroupNonUniformBitwiseOrOp),
        *(spv.GroupNonUniformBitwiseXorOp,),
    )
)
"""Unsigned operations, and operations whose low result bits depend only on low operand bits."""

SIGNED = frozenset(
    (
        *(spv.SDivOp, spv.SRemOp, spv.SModOp, spv.ShiftRightArithmeticOp),
        *(spv.SLessThanOp, spv.SLessThanEqualOp, spv.SGreaterThanOp),
        *(spv.SGreaterThanEqualOp, spv.ConvertSToFOp, spv.SConvertOp),
        *(spv.GLSAbsOp, spv.GLSSignOp, spv.GLSMinOp, spv.GLSMaxOp, spv.GLSClampOp),
        *(spv.GroupNonUniformSMinOp, spv.GroupNonUniformSMaxOp),
    )
)
"""Operations that need sign-extended operands."""


@dataclass(frozen=True)
class SmallIntegersTo32BitsPass(SmallTypesPass):
    """Rewrites 8- and 16-bit integers outside of buffers as 32-bit integers."""

    name = NAME
    FEATURES = {8: "int8", 16: "int16"}

    def rewrite(self, module: spv.ModuleOp, widths: frozenset[int]) -> None:
        _Lowering(module, widths).lower()


class _Lowering:
    def __init__(self, module: spv.ModuleOp, widths: frozenset[int]):
        self.module, self.widths = module, widths
        self.codes = ModuleEmitter(module)
        self.code: FunctionEmitter
        self.retype = Retyping(self._wide)

    def _is_small(self, type_: Attribute) -> bool:
        element = type_.element_type if isinstance(type_, VectorType) else type_
        return isinstance(element, IntegerType) and element.width.data in self.widths

    def _wide(self, attribute: Attribute) -> Attribute | None:
        if isinstance(attribute, spv.PointerType) and self._is_stored(attribute):
            return attribute
        if isinstance(attribute, spv.StructType) and attribute.offsets.data:
            members = [self.retype(member) for member in attribute.member_types]
            # The struct is a value: offsets of the memory it came from do not apply to it.
            return None if members == list(attribute.member_types) else spv.StructType(members)
        return spv.with_element(attribute, i32) if self._is_small(attribute) else None

    @staticmethod
    def _is_stored(pointer: spv.PointerType) -> bool:
        """True if small integers behind a pointer need only a storage capability."""
        return pointer.storage_class.data in STORAGE[8]

    def lower(self) -> None:
        for op in list(self.module.walk()):
            if isinstance(op, spv.IntegerDotOperation) and self.retype.touches(op):
                Rewriter.replace_op(op, [], [lower_dot_product(op, self.codes.before(op))])
        touched = [
            op for op in self.module.walk() if op is not self.module and self.retype.concerns(op)
        ]
        for op in touched:
            self._check(op)
        before = [(op, op.operand_types, op.result_types) for op in touched]
        for op in touched:
            if isinstance(op, spv.ConstantOp):
                op.properties["value"] = self._constant(op.value)
        names = [(op, dict(op.properties)) for op in touched if isinstance(op, spv.RawGlobalOp)]
        if touched:
            self.retype.apply(self.module)
        for op, properties in names:
            # These operations name the types of buffers, which do not change.
            op.properties |= properties
        for op, operands, results in before:
            if op.parent_op() is not None and op.parent_op() is not self.module:
                self.code = self.codes.before(op)
                self._rewrite(op, operands, results)

    def _check(self, op: Operation) -> None:
        if isinstance(op, spv.RawGlobalOp) and not op.constant_like:
            return
        if isinstance(op, spv.ConstantSymbol | spv.SpecConstantOperationOp) or isinstance(
            op.parent_op(), spv.SpecConstantOperationOp
        ):
            refuse(
                op,
                "an 8- or 16-bit specialization constant cannot be rewritten in 32 bits: run "
                "spirv-specialize first",
            )
        known = (spv.BitcastOp, *UNSIGNED, *SIGNED)
        if isinstance(op, spv.AtomicOperation) or (op.name not in MOVES and type(op) not in known):
            refuse(op, "the pass cannot rewrite this operation in 32 bits: use 32-bit integers")
        types = (*op.operand_types, *op.result_types)
        for type_ in (op.type, *types) if isinstance(op, spv.GlobalVariableOp) else types:
            if isinstance(type_, spv.CooperativeMatrixType):
                refuse(op, f"the components of {type_} cannot be widened: use another type")
            if isinstance(type_, spv.PointerType) and not self._is_stored(type_):
                if has_layout(type_.pointee):
                    refuse(
                        op, f"{type_} has an explicit layout of small integers: remove the layout"
                    )
        if isinstance(op, spv.LoadOp | spv.StoreOp):
            value = op.result if isinstance(op, spv.LoadOp) else op.object
            if not self._is_small(value.type) and self._reads_buffer(op):
                refuse(op, f"the operation loads or stores a whole {value.type}: use its members")

    def _reads_buffer(self, op: Operation) -> bool:
        pointer = op.operands[0].type
        return isinstance(pointer, spv.PointerType) and self._is_stored(pointer)

    def _constant(self, value: Attribute) -> Attribute:
        if isinstance(value, ArrayAttr):
            return ArrayAttr([self._constant(part) for part in value])  # pyright: ignore
        if isinstance(value, IntegerAttr) and self._is_small(value.type):
            return IntegerAttr(value.value.data % (1 << spv.width_of(value.type)), i32)
        if isinstance(value, DenseIntOrFPElementsAttr):
            element = value.get_element_type()
            if self._is_small(element):
                bits = [int(n) % (1 << spv.width_of(element)) for n in value.get_values()]
                kind = VectorType if isinstance(value.type, VectorType) else TensorType
                return DenseIntOrFPElementsAttr.from_list(kind(i32, value.get_shape()), bits)  # pyright: ignore
        return value

    # Values

    def _cleared(self, value: SSAValue, width: int) -> SSAValue:
        mask = self.code.number((1 << width) - 1, value.type)
        return self.code.add(spv.BitwiseAndOp(value, mask))

    def _extended(self, value: SSAValue, type_: Attribute) -> SSAValue:
        if not self._is_small(type_):
            return value
        shift = self.code.number(32 - spv.width_of(spv.element_of(type_)), value.type)
        left = self.code.add(spv.ShiftLeftLogicalOp(value, shift))
        return self.code.add(spv.ShiftRightArithmeticOp(left, shift))

    # Operations

    def _rewrite(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> None:
        match op:
            case spv.LoadOp() if self._reads_buffer(op):
                self._load(op, results[0])
            case spv.StoreOp() if self._reads_buffer(op):
                # Either conversion truncates; they only differ in the signedness of the result's
                # type.
                signed = spv.is_signed(spv.element_of(operands[1]))
                kind = spv.SConvertOp if signed else spv.UConvertOp
                op.operands[1] = self.code.add(kind(op.object, operands[1]))
            case spv.BitcastOp():
                result = self._bitcast(op.operand, operands[0], results[0])
                Rewriter.replace_op(op, [], [result])
            case spv.SConvertOp() | spv.UConvertOp():
                self._convert(op, operands[0], results[0])
            case _ if type(op) in UNSIGNED or type(op) in SIGNED:
                self._compute(op, operands, results)
            case _:
                return

    def _load(self, op: spv.LoadOp, type_: Attribute) -> None:
        load = op.clone()
        load.result._type = type_  # pyright: ignore[reportPrivateUsage]
        self.code.insert(load)
        Rewriter.replace_op(op, spv.UConvertOp(load.result, op.result.type))

    def _convert(
        self,
        op: spv.SConvertOp | spv.UConvertOp,
        source: Attribute,
        target: Attribute,
    ) -> None:
        value = op.operand
        sign = isinstance(op, spv.SConvertOp)
        if sign:
            value = self._extended(value, source)
        if spv.width_of(spv.element_of(value.type)) != spv.width_of(spv.element_of(op.result.type)):
            value = self.code.add(type(op)(value, op.result.type))
        value = self.code.same_bits(value, op.result.type)
        if self._is_small(target):
            narrower = sign or spv.width_of(spv.element_of(source)) > spv.width_of(
                spv.element_of(target)
            )
            value = (
                self._cleared(value, spv.width_of(spv.element_of(target))) if narrower else value
            )
        Rewriter.replace_op(op, [], [value])

    def _compute(
        self, op: Operation, operands: Sequence[Attribute], results: Sequence[Attribute]
    ) -> None:
        if type(op) in SIGNED:
            for number, type_ in enumerate(operands):
                is_count = number == 1 and isinstance(op, spv.Shift)
                if not is_count:
                    op.operands[number] = self._extended(op.operands[number], type_)
        if results and self._is_small(results[0]):
            result = op.results[0]
            users = list(result.uses)
            self.code.scopes[-1].place = InsertPoint.after(op)
            width = spv.width_of(spv.element_of(results[0]))
            cleared = self._cleared(self._bounded(op, result, width), width)
            for use in users:
                use.operation.operands[use.index] = cleared

    def _bounded(self, op: Operation, result: SSAValue, width: int) -> SSAValue:
        """
        Clamps a minimum or maximum over a subgroup to `width` bits.

        Without an active invocation the result is the 32-bit neutral element, which is too wide.
        """
        if isinstance(op, spv.GroupNonUniformSMinOp):
            most = self.code.number((1 << (width - 1)) - 1, result.type)
            return self.code.add(spv.GLSMinOp(result, most))
        if isinstance(op, spv.GroupNonUniformSMaxOp):
            least = self.code.number(-(1 << (width - 1)), result.type)
            return self.code.add(spv.GLSMaxOp(result, least))
        return result

    def _bitcast(self, value: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        """Bit-casts through the words that hold the bits of both types."""
        if spv.component_count(source) == spv.component_count(target) and self._is_small(source):
            if self._is_small(target):
                return value
        if isinstance(source, VectorType) and spv.component_count(source) == spv.component_count(
            target
        ):
            scalars = [self.code.component(value, i) for i in range(spv.component_count(source))]
            kinds = source.element_type, spv.element_of(target)
            cast = [self._bitcast(scalar, *kinds) for scalar in scalars]
            type_ = spv.with_element(target, cast[0].type)
            return self.code.add(spv.CompositeConstructOp(cast, type_))
        if self._is_small(source):
            words = self._packed(value, source)
            if len(words) == 1:
                return self._from_word(words[0], target)
            vector = spv.CompositeConstructOp(words, VectorType(i32, [len(words)]))
            return self.code.same_bits(self.code.add(vector), target)
        bits = spv.component_count(source) * spv.width_of(spv.element_of(source))
        if bits > 32:
            vector = self.code.same_bits(value, VectorType(i32, [bits // 32]))
            words = [self.code.component(vector, i) for i in range(bits // 32)]
        elif isinstance(source, Float16Type):
            halves = VectorType(f16, [2])
            pair = spv.CompositeConstructOp([value, self.code.number(0.0, f16)], halves)
            words = [self.code.same_bits(self.code.add(pair), i32)]
        elif bits == 32:
            words = [self.code.same_bits(value, i32)]
        else:
            words = [
                self.code.resized(self.code.same_bits(value, IntegerType(bits)), 32, sign=False)
            ]
        return self._unpacked(words, target)

    def _from_word(self, word: SSAValue, target: Attribute) -> SSAValue:
        if self._is_small(target):
            return self._unpacked([word], target)
        if isinstance(target, Float16Type):
            halves = VectorType(f16, [2])
            return self.code.component(self.code.same_bits(word, halves), 0)
        bits = spv.component_count(target) * spv.width_of(spv.element_of(target))
        if bits < 32:
            return self.code.same_bits(self.code.resized(word, bits, sign=False), target)
        return self.code.same_bits(word, target)

    def _packed(self, value: SSAValue, type_: Attribute) -> list[SSAValue]:
        width = spv.width_of(spv.element_of(type_))
        parts = [value]
        if isinstance(type_, VectorType):
            parts = [self.code.component(value, i) for i in range(spv.component_count(type_))]
        words: list[SSAValue] = []
        for number, part in enumerate(parts):
            at = number * width % 32
            if not at:
                words.append(part)
                continue
            moved = self.code.add(spv.ShiftLeftLogicalOp(part, self.code.number(at)))
            words[-1] = self.code.add(spv.BitwiseOrOp(words[-1], moved))
        return words

    def _unpacked(self, words: Sequence[SSAValue], target: Attribute) -> SSAValue:
        width = spv.width_of(spv.element_of(target))
        parts: list[SSAValue] = []
        for number in range(spv.component_count(target)):
            word, at = words[number * width // 32], number * width % 32
            if at:
                word = self.code.add(spv.ShiftRightLogicalOp(word, self.code.number(at)))
            parts.append(self._cleared(word, width) if at + width < 32 else word)
        if not isinstance(target, VectorType):
            return parts[0]
        return self.code.add(spv.CompositeConstructOp(parts, spv.with_element(target, i32)))
