"""
The bodies of elementwise operations as straight-line code on one element, or on those of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, linalg, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.dialects.spirv.composite import CompositeConstructOp
from xdsl_spirv.dialects.spirv.conversion import BitcastOp
from xdsl_spirv.passes.analysis.pointwise import body_ops
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.schedule.tiles import StagedTile, vector_type

WORD_BITS = 32


def components_of(b: KernelEmitter, value: SSAValue) -> list[SSAValue]:
    """The components of a vector, or a scalar as the only one."""
    type = value.type
    if not isinstance(type, VectorType):
        return [value]
    count = type.get_shape()[0]
    return [b.add(vector.ExtractOp(value, [i], type.element_type)) for i in range(count)]


def inline_body(b: KernelEmitter, op: linalg.ops.GenericOp, inputs: Sequence[SSAValue]) -> SSAValue:
    """The body of an elementwise operation on one element of each input."""
    block = op.body.block
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, inputs, strict=False))

    def value_of(value: SSAValue) -> SSAValue:
        if value not in known:
            known[value] = constant_of(b, value)
        return known[value]

    for body_op in body_ops(block):
        if isinstance(body_op, arith.ConstantOp):
            known[body_op.result] = constant_of(b, body_op.result)
            continue
        for operand in body_op.operands:
            value_of(operand)
        copy = body_op.clone(known, clone_name_hints=False)
        b.insert(copy)
        known |= zip(body_op.results, copy.results, strict=True)
    last = block.last_op
    assert last is not None
    return value_of(last.operands[0])


def constant_of(b: KernelEmitter, value: SSAValue) -> SSAValue:
    """A scalar that is known when the kernel is compiled."""
    owner = value.owner
    assert isinstance(owner, arith.ConstantOp), "only constants come into a dispatch as scalars"
    number = owner.value
    if isinstance(number, DenseIntOrFPElementsAttr):
        number = next(number.iter_attrs())
    assert isinstance(number, IntegerAttr | FloatAttr)
    return b.constant(number)


def apply_prologue(b: KernelEmitter, tile: StagedTile, loaded: SSAValue) -> SSAValue:
    """An element, or a vector of them, after the prologue on the way to Workgroup memory."""
    count = 1 if tile.gathered else tile.vector
    flips = [flipped_bits(op) for op in tile.prologue]
    if len(components_of_type(loaded.type)) < count and None not in flips:
        for bits in flips:
            loaded = b.add(arith.XOrIOp(loaded, _repeated(b, bits or 0, tile, loaded.type)))
        return loaded
    values = unpack_elements(b, loaded, tile.stored_type, count)
    for op in reversed(tile.prologue):
        values = [inline_body(b, op, [value]) for value in values]
    return pack_elements(b, values, tile.element_type)


def components_of_type(type: Attribute) -> range:
    """The components of a vector, or the one that a scalar is."""
    return range(type.get_shape()[0] if isinstance(type, VectorType) else 1)


def flipped_bits(op: linalg.ops.GenericOp) -> int | None:
    """The bits of an integer that an elementwise operation turns over, if that is all it does."""
    block = op.body.block
    last = block.last_op
    assert last is not None
    value = last.operands[0].owner
    if not isinstance(value, arith.XOrIOp) or value.lhs is not block.args[0]:
        return None
    constant = value.rhs.owner
    if not isinstance(constant, arith.ConstantOp) or not isinstance(constant.value, IntegerAttr):
        return None
    return constant.value.value.data


def _repeated(b: KernelEmitter, bits: int, tile: StagedTile, type: Attribute) -> SSAValue:
    """Bits of an element in all elements of words."""
    width = bit_width(tile.stored_type)
    word = sum((bits % (1 << width)) << at for at in range(0, WORD_BITS, width))
    return b.number(word, type)


def unpack_elements(
    b: KernelEmitter, value: SSAValue, element: Attribute, count: int
) -> list[SSAValue]:
    """The `count` elements of what is moved as one, be it a vector of them or words of bits."""
    parts = components_of(b, value)
    if len(parts) == count:
        return parts
    part_type = vector_type(element, WORD_BITS // bit_width(element))
    return [x for part in parts for x in components_of(b, b.add(BitcastOp(part, part_type)))]


def pack_elements(b: KernelEmitter, values: Sequence[SSAValue], element: Attribute) -> SSAValue:
    """Elements as what is moved as one."""
    type = vector_type(element, len(values))
    if len(values) == 1:
        return values[0]
    if isinstance(type, VectorType) and type.get_shape()[0] == len(values):
        return b.add(CompositeConstructOp(values, type))
    step = WORD_BITS // bit_width(element)
    part_type = vector_type(element, step)
    words = [
        b.add(BitcastOp(b.add(CompositeConstructOp(values[n : n + step], part_type)), i32))
        for n in range(0, len(values), step)
    ]
    return words[0] if len(words) == 1 else b.add(CompositeConstructOp(words, type))
