"""
Computes instructions on terms: the result, and the condition under which it is undefined.

    IAdd   a + b                 SDiv   a / b, undefined for b = 0 and for the least a by -1

A test compares the terms with the interpreter's semantics on random operations. An instruction
without an entry that only reads its operands is an uninterpreted function of the operands: equal
operands give equal results. Float arithmetic is also uninterpreted, except if the context has
exact floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, VectorType
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv import arithmetic as a
from xdsl_spirv.dialects.spirv import bit, composite, constants, conversion, glsl, logic, memory
from xdsl_spirv.dialects.spirv.dot_product import (
    DotAccumulateOperation,
    DotSignedness,
    IntegerDotOperation,
)
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.prove import floats
from xdsl_spirv.prove.values import (
    NEVER,
    Scalar,
    Term,
    Terms,
    Unsupported,
    Value,
    build,
    choose,
    constant_term,
    either,
    known_number,
    parts_of,
    scalars,
    variable_term,
    width,
    z3,
)

Compute: TypeAlias = Callable[..., Term]


def _shift_by(shift: Compute, fill: Compute) -> Compute:
    """
    Returns a shift by an amount of any width. A shift by the value's width or more gives `fill`.
    """

    def compute(value: Term, amount: Term) -> Term:
        number = known_number(amount) if z3.is_bv_value(amount) else None
        if number is not None and 0 < number < value.size() and shift is not _shl:
            # A shift by a constant becomes an extraction, to make terms of two programs equal.
            field = z3.Extract(value.size() - 1, number, value)
            return resize(field, value.size(), fill is _signs)
        beyond = too_far(value, amount)
        return z3.If(beyond, fill(value), shift(value, resize(amount, value.size(), False)))

    return compute


def too_far(value: Term, amount: Term) -> Term:
    """Returns the condition that a shift amount is at least the width of the value."""
    if amount.size() < 32 and (1 << amount.size()) <= value.size():
        return NEVER
    return z3.UGE(amount, z3.BitVecVal(value.size(), amount.size()))


def resize(term: Term, size: int, sign: bool) -> Term:
    """Truncates an integer to its low bits, or extends it."""
    more = size - term.size()
    if more < 0:
        return z3.Extract(size - 1, 0, term)
    return term if more == 0 else (z3.SignExt if sign else z3.ZeroExt)(more, term)


def _shl(value: Term, amount: Term) -> Term:
    return value << amount


def _zero(value: Term) -> Term:
    return z3.BitVecVal(0, value.size())


def _signs(value: Term) -> Term:
    return value >> (value.size() - 1)


def by_zero(x: Term, y: Term) -> Term:
    """Returns the condition that the divisor `y` of x / y is zero."""
    return y == 0


def signed_overflow(x: Term, y: Term) -> Term:
    """Returns the condition that a signed division is undefined: x / 0, or least integer / -1."""
    return z3.Or(y == 0, z3.And(y == -1, x == z3.BitVecVal(1 << (x.size() - 1), x.size())))


def _highest_bit(value: Term) -> Term:
    result = z3.BitVecVal(-1, value.size())
    for number in range(value.size()):
        result = z3.If(z3.Extract(number, number, value) == 1, number, result)
    return result


def _lowest_bit(value: Term) -> Term:
    result = z3.BitVecVal(-1, value.size())
    for number in reversed(range(value.size())):
        result = z3.If(z3.Extract(number, number, value) == 1, number, result)
    return result


def _count(value: Term) -> Term:
    bits = [z3.Extract(n, n, value) for n in range(value.size())]
    return z3.Sum([resize(b, value.size(), False) for b in bits])


def _reverse(value: Term) -> Term:
    return z3.Concat(*[z3.Extract(n, n, value) for n in range(value.size())])


def pick(less: Compute) -> Compute:
    """
    Returns a function that selects the first operand if the comparison `less` holds, else the
    second.
    """
    return lambda x, y: z3.If(less(x, y), x, y)


UMIN, UMAX = pick(z3.ULT), pick(z3.UGT)
SMIN, SMAX = pick(lambda x, y: x < y), pick(lambda x, y: x > y)


COMPUTE: dict[type[Operation], Compute] = {
    a.IAddOp: lambda x, y: x + y,
    a.ISubOp: lambda x, y: x - y,
    a.IMulOp: lambda x, y: x * y,
    a.SDivOp: lambda x, y: x / y,
    a.UDivOp: z3.UDiv,
    a.SRemOp: z3.SRem,
    a.SModOp: lambda x, y: x % y,
    a.UModOp: z3.URem,
    a.SNegateOp: lambda x: -x,
    a.FNegateOp: floats.negate,
    bit.BitwiseAndOp: lambda x, y: x & y,
    bit.BitwiseOrOp: lambda x, y: x | y,
    bit.BitwiseXorOp: lambda x, y: x ^ y,
    bit.NotOp: lambda x: ~x,
    bit.BitReverseOp: _reverse,
    bit.BitCountOp: _count,
    bit.ShiftLeftLogicalOp: _shift_by(_shl, _zero),
    bit.ShiftRightLogicalOp: _shift_by(z3.LShR, _zero),
    bit.ShiftRightArithmeticOp: _shift_by(lambda x, y: x >> y, _signs),
    logic.IEqualOp: lambda x, y: x == y,
    logic.INotEqualOp: lambda x, y: x != y,
    logic.UGreaterThanOp: z3.UGT,
    logic.SGreaterThanOp: lambda x, y: x > y,
    logic.UGreaterThanEqualOp: z3.UGE,
    logic.SGreaterThanEqualOp: lambda x, y: x >= y,
    logic.ULessThanOp: z3.ULT,
    logic.SLessThanOp: lambda x, y: x < y,
    logic.ULessThanEqualOp: z3.ULE,
    logic.SLessThanEqualOp: lambda x, y: x <= y,
    logic.LogicalEqualOp: lambda x, y: x == y,
    logic.LogicalNotEqualOp: lambda x, y: x != y,
    logic.LogicalOrOp: z3.Or,
    logic.LogicalAndOp: z3.And,
    logic.LogicalNotOp: z3.Not,
    glsl.GLFAbsOp: floats.absolute,
    glsl.GLSAbsOp: lambda x: z3.If(x < 0, -x, x),
    glsl.GLSSignOp: lambda x: z3.If(x > 0, z3.BitVecVal(1, x.size()), _signs(x)),
    glsl.GLUMinOp: UMIN,
    glsl.GLUMaxOp: UMAX,
    glsl.GLSMinOp: SMIN,
    glsl.GLSMaxOp: SMAX,
    glsl.GLUClampOp: lambda x, low, high: UMIN(UMAX(x, low), high),
    glsl.GLSClampOp: lambda x, low, high: SMIN(SMAX(x, low), high),
    glsl.GLFindILsbOp: _lowest_bit,
    glsl.GLFindUMsbOp: _highest_bit,
    glsl.GLFindSMsbOp: lambda x: _highest_bit(z3.If(x < 0, ~x, x)),
}
"""Elementwise instructions on operands of one type."""

UNDEFINED: dict[type[Operation], Compute] = {
    a.SDivOp: signed_overflow,
    a.SRemOp: signed_overflow,
    a.SModOp: signed_overflow,
    a.UDivOp: by_zero,
    a.UModOp: by_zero,
    bit.ShiftLeftLogicalOp: too_far,
    bit.ShiftRightLogicalOp: too_far,
    bit.ShiftRightArithmeticOp: too_far,
    glsl.GLUClampOp: lambda x, low, high: z3.UGT(low, high),
    glsl.GLSClampOp: lambda x, low, high: low > high,
}
"""Maps instructions to conditions under which their results are undefined for defined operands."""


def evaluate(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    """
    Returns the results of an instruction that only reads its operands.

    Raises `Unsupported` for other instructions.
    """
    special = SPECIAL.get(type(op)) or _by_family(op)
    if special is not None:
        return special(op, operands, terms)
    compute = COMPUTE.get(type(op))
    if compute is not None:
        return (_componentwise(compute, UNDEFINED.get(type(op)), operands),)
    exact = floats.EXACT.get(type(op))
    if exact is not None and (terms.exact_floats or floats.is_comparison(op)):
        kind = element_of(op.operands[0].type)
        made = lambda *values: exact(terms, kind, *values)  # noqa: E731
        return (_componentwise(made, None, operands),)
    return _apply_unknown(op, operands, terms)


def _componentwise(compute: Compute, undefined: Compute | None, operands: Sequence[Value]) -> Value:
    if isinstance(operands[0], tuple):
        columns = [o if isinstance(o, tuple) else (o,) * len(operands[0]) for o in operands]
        rows = zip(*columns, strict=True)
        return tuple(_componentwise(compute, undefined, row) for row in rows)
    read = [operand.term for operand in operands]
    unknown = [operand.undefined for operand in operands]
    if undefined is not None:
        unknown.append(z3.simplify(undefined(*read)))
    return Scalar(compute(*read), either(unknown))


def _apply_unknown(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    """
    Applies an uninterpreted function to the operands' bits, elementwise if the instruction is
    elementwise. Instructions with the same name and the same properties use the same function.
    """
    meaning = semantics.TABLE.get(type(op))
    if meaning is None or meaning.kind != "value":
        raise Unsupported(f"{op.name} is not supported", op)
    terms.uninterpreted += 1
    facts = [*op.properties.items(), *op.attributes.items()]
    label = "/".join([op.name, *(f"{name}={value}" for name, value in sorted(facts, key=str))])
    shape = op.results[0].type
    if floats.is_componentwise(op) and isinstance(shape, VectorType):
        columns = [o if isinstance(o, tuple) else (o,) * len(operands[0]) for o in operands]
        made = [_apply(label, row, element_of(shape)) for row in zip(*columns, strict=True)]
        return (tuple(made),)
    return tuple(
        build(result.type, _Counter(f"{label}#{number}", operands), None)
        for number, result in enumerate(op.results)
    )


class _Counter:
    """Numbers the scalars of a result, so that each has its own uninterpreted function."""

    def __init__(self, label: str, operands: Sequence[Value]):
        self.label, self.operands, self.number = label, operands, 0

    def __call__(self, type: Attribute) -> Scalar:
        self.number += 1
        label = self.label.removesuffix("#0") if self.number == 1 else f"{self.label}.{self.number}"
        return _apply(label, self.operands, type)


def _apply(label: str, operands: Sequence[Value], type: Attribute) -> Scalar:
    leaves = [leaf for operand in operands for leaf in scalars(operand)]
    result = variable_term("sort", type).sort()
    sorts = [leaf.term.sort() for leaf in leaves]
    label = "_".join([label, *(str(s) for s in sorts), str(type)])
    undefined = either([leaf.undefined for leaf in leaves])
    if not leaves:
        return Scalar(z3.Const(label, result), undefined)
    return Scalar(z3.Function(label, *sorts, result)(*[leaf.term for leaf in leaves]), undefined)


Special: TypeAlias = Callable[[Operation, Sequence[Value], Terms], tuple[Value, ...]]


def constant_value(attribute: Attribute, type: Attribute) -> Value:
    """Returns the value of a constant's attribute."""
    if isinstance(attribute, ArrayAttr):
        types = parts_of(type, lambda length: len(attribute.data)) or []
        return tuple(constant_value(p, t) for p, t in zip(attribute.data, types, strict=True))
    array = attribute_array(attribute)
    element = element_of(type)
    size = array.dtype.itemsize
    flat = array.reshape(-1)
    raw = [int.from_bytes(v.tobytes(), "little") for v in flat] if size else []
    leaves = [Scalar(constant_term(bits, element)) for bits in raw]
    if not isinstance(type, VectorType):
        if len(leaves) != 1:
            raise Unsupported(f"constants of type {type} are not supported")
        return leaves[0]
    return tuple(leaves)


def _null(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    return (build(op.results[0].type, lambda t: Scalar(constant_term(0, t))),)


def _undef(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    leaf = lambda t: Scalar(constant_term(0, t), z3.BoolVal(True))  # noqa: E731
    return (build(op.results[0].type, leaf),)


def _carry(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    adds = isinstance(op, a.IAddCarryOp)
    total = _componentwise(lambda x, y: x + y if adds else x - y, None, operands)
    lost = (lambda x, y: z3.ULT(x + y, x)) if adds else z3.ULT
    carry = _componentwise(
        lambda x, y: z3.If(lost(x, y), z3.BitVecVal(1, x.size()), _zero(x)), None, operands
    )
    return ((total, carry),)


def _multiply_extended(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    sign = isinstance(op, a.SMulExtendedOp)

    def half(high: bool) -> Compute:
        def compute(x: Term, y: Term) -> Term:
            size = x.size()
            product = resize(x, 2 * size, sign) * resize(y, 2 * size, sign)
            return z3.Extract(2 * size - 1, size, product) if high else x * y

        return compute

    return (tuple(_componentwise(half(high), None, operands) for high in (False, True)),)


def _field(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    *values, offset, count = operands
    if isinstance(values[0], tuple):
        rows = zip(*values, strict=True)
        return (tuple(_field(op, [*row, offset, count], terms)[0] for row in rows),)
    base = values[0].term
    size = base.size()
    place, length = known_number(offset.term), known_number(count.term)
    if len(values) == 1 and place is not None and length and place + length <= size:
        sign = isinstance(op, bit.BitFieldSExtractOp)
        field = resize(z3.Extract(place + length - 1, place, base), size, sign)
        return (Scalar(field, either([v.undefined for v in (*values, offset, count)])),)
    start, many = (resize(value.term, size, False) for value in (offset, count))
    wide = [resize(term, max(term.size(), 32) + 1, False) for term in (offset.term, count.term)]
    widest = max(term.size() for term in wide)
    beyond = z3.UGT(sum(resize(term, widest, False) for term in wide), size)
    low = ~_shl(z3.BitVecVal(-1, size), many)
    if isinstance(op, bit.BitFieldInsertOp):
        mask = _shl(low, start)
        result = (base & ~mask) | (_shl(values[1].term, start) & mask)
    elif isinstance(op, bit.BitFieldUExtractOp):
        result = z3.LShR(base, start) & low
    else:
        high = _shl(base, size - start - many)
        result = z3.If(many == 0, _zero(base), high >> (size - many))
    unknown = [v.undefined for v in (*values, offset, count)]
    return (Scalar(result, either([*unknown, z3.simplify(beyond)])),)


def _convert(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    size, sign = width(element_of(op.results[0].type)), isinstance(op, conversion.SConvertOp)
    return (_componentwise(lambda x: resize(x, size, sign), None, operands),)


def _float_convert(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    source, target = element_of(op.operands[0].type), element_of(op.results[0].type)
    if not terms.exact_floats or op.attributes:
        return _apply_unknown(op, operands, terms)
    compute, undefined = floats.conversion(type(op), source, target, terms)
    return (_componentwise(compute, undefined, operands),)


def _select(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    condition, x, y = operands
    if isinstance(condition, tuple):
        rows = zip(condition, x, y, strict=True)
        return (tuple(_select(op, row, terms)[0] for row in rows),)
    chosen = choose(condition.term, x, y)
    return (_taint(chosen, condition.undefined),)


def _taint(value: Value, undefined: Term) -> Value:
    if z3.is_false(undefined):
        return value
    if isinstance(value, tuple):
        return tuple(_taint(part, undefined) for part in value)
    return Scalar(value.term, either([value.undefined, undefined]))


def bits_of(value: Value) -> Scalar:
    """Returns all bits of a number or a vector, the first component lowest."""
    leaves = list(scalars(value))
    if len(leaves) == 1:
        return leaves[0]
    joined = z3.Concat(*[leaf.term for leaf in reversed(leaves)])
    return Scalar(joined, either([leaf.undefined for leaf in leaves]))


def split_bits(bits: Scalar, type: Attribute) -> Value:
    """Returns the number or vector that has the given bits."""
    if not isinstance(type, VectorType):
        return Scalar(bits.term, bits.undefined)
    size = width(type.element_type)
    return tuple(
        Scalar(z3.Extract((n + 1) * size - 1, n * size, bits.term), bits.undefined)
        for n in range(type.get_shape()[0])
    )


def _bitcast(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    if op.operands[0].type == op.results[0].type:
        return (operands[0],)
    leaves, target = list(scalars(operands[0])), op.results[0].type
    parts = target.get_shape()[0] if isinstance(target, VectorType) else 1
    if parts == len(leaves):
        return (tuple(leaves) if isinstance(target, VectorType) else leaves[0],)
    return (split_bits(bits_of(operands[0]), target),)


def _construct(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    if isinstance(op.results[0].type, VectorType):
        return (tuple(leaf for operand in operands for leaf in scalars(operand)),)
    return (tuple(operands),)


def _extract(op: composite.CompositeExtractOp, operands: Sequence[Value], terms: Terms):
    value = operands[0]
    for index in op.indices:
        value = value[index.value.data]
    return (value,)


def replace_part(whole: Value, path: Sequence[int], part: Value) -> Value:
    """Returns a composite with the part at constant indices replaced."""
    if not path:
        return part
    first = path[0]
    inner = replace_part(whole[first], path[1:], part)
    return (*whole[:first], inner, *whole[first + 1 :])


def _insert(op: composite.CompositeInsertOp, operands: Sequence[Value], terms: Terms):
    path = [index.value.data for index in op.indices]
    return (replace_part(operands[1], path, operands[0]),)


def take(parts: Sequence[Value], index: Scalar) -> Value:
    """Returns the part at a symbolic index. The result is undefined beyond the last part."""
    number = known_number(index.term)
    if number is not None and number < len(parts):
        return parts[number]
    result = parts[0]
    for place, part in enumerate(parts[1:], 1):
        result = choose(index.term == place, part, result)
    size = index.term.size()
    beyond = z3.UGE(index.term, len(parts)) if len(parts) < 1 << size else NEVER
    return _taint(result, either([index.undefined, z3.simplify(beyond)]))


def put_part(parts: Sequence[Value], index: Scalar, part: Value) -> Value:
    """Replaces the part at a symbolic index by `part`. Returns all parts."""
    number = known_number(index.term)
    if number is not None and number < len(parts):
        return replace_part(tuple(parts), [number], part)
    size = index.term.size()
    beyond = z3.UGE(index.term, len(parts)) if len(parts) < 1 << size else NEVER
    lost = either([index.undefined, z3.simplify(beyond)])
    return tuple(
        _taint(choose(index.term == place, part, old), lost) for place, old in enumerate(parts)
    )


def _extract_dynamic(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    return (take(operands[0], operands[1]),)


def _insert_dynamic(op: composite.VectorInsertDynamicOp, operands: Sequence[Value], terms: Terms):
    named = dict(zip(op.operands, operands, strict=True))
    return (put_part(named[op.vector], named[op.index], named[op.component]),)


def _shuffle(op: composite.VectorShuffleOp, operands: Sequence[Value], terms: Terms):
    both_parts = [*operands[0], *operands[1]]
    none = Scalar(_zero(both_parts[0].term), z3.BoolVal(True))
    numbers = [component.value.data for component in op.components]
    return (tuple(both_parts[n] if 0 <= n < len(both_parts) else none for n in numbers),)


def _reduce(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    join = z3.Or if isinstance(op, logic.AnyOp) else z3.And
    leaves = list(scalars(operands[0]))
    return (Scalar(join(*[x.term for x in leaves]), either([x.undefined for x in leaves])),)


def _dot(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    assert isinstance(op, IntegerDotOperation)
    signs = (
        op.SIGNEDNESS is not DotSignedness.UNSIGNED,
        op.SIGNEDNESS is DotSignedness.SIGNED,
    )
    size = width(op.results[0].type)
    # Any width of at least the result's gives the low bits of the exact sum (DOT-15).
    wide = max(32, size)
    sides = [_octets(v, wide, s) for v, s in zip(operands[:2], signs, strict=True)]
    products = [x * y for x, y in zip(*sides, strict=True)]
    total = resize(sum(products[1:], products[0]), size, any(signs))
    leaves = [leaf for operand in operands for leaf in scalars(operand)]
    undefined = either([leaf.undefined for leaf in leaves])
    if isinstance(op, DotAccumulateOperation):
        total = _saturate(total, operands[2].term, signs[0])
    return (Scalar(total, undefined),)


def _octets(value: Value, size: int, sign: bool) -> list[Term]:
    """Returns a vector's components or a packed scalar's bytes, each extended to `size` bits."""
    if isinstance(value, tuple):
        return [resize(part.term, size, sign) for part in value]
    octets = [z3.Extract(8 * n + 7, 8 * n, value.term) for n in range(4)]
    return [resize(octet, size, sign) for octet in octets]


def _saturate(x: Term, y: Term, sign: bool) -> Term:
    size = x.size()
    total = resize(x, size + 1, sign) + resize(y, size + 1, sign)
    low, high = (-(1 << size - 1), (1 << size - 1) - 1) if sign else (0, (1 << size) - 1)
    if sign:
        total = z3.If(total < low, z3.BitVecVal(low, size + 1), total)
        total = z3.If(total > high, z3.BitVecVal(high, size + 1), total)
    else:
        total = z3.If(z3.UGT(total, high), z3.BitVecVal(high, size + 1), total)
    return z3.Extract(size - 1, 0, total)


def _same(op: Operation, operands: Sequence[Value], terms: Terms) -> tuple[Value, ...]:
    return (operands[0],)


def _constant(op: constants.ConstantOp, operands: Sequence[Value], terms: Terms):
    return (constant_value(op.value, op.result.type),)


SPECIAL: dict[type[Operation], Special] = {
    constants.ConstantOp: _constant,  # pyright: ignore[reportAssignmentType]
    constants.ConstantNullOp: _null,
    constants.UndefOp: _undef,
    a.IAddCarryOp: _carry,
    a.ISubBorrowOp: _carry,
    a.SMulExtendedOp: _multiply_extended,
    a.UMulExtendedOp: _multiply_extended,
    bit.BitFieldInsertOp: _field,
    bit.BitFieldUExtractOp: _field,
    bit.BitFieldSExtractOp: _field,
    conversion.SConvertOp: _convert,
    conversion.UConvertOp: _convert,
    conversion.FConvertOp: _float_convert,
    conversion.ConvertFToSOp: _float_convert,
    conversion.ConvertFToUOp: _float_convert,
    conversion.ConvertSToFOp: _float_convert,
    conversion.ConvertUToFOp: _float_convert,
    conversion.BitcastOp: _bitcast,
    logic.SelectOp: _select,
    logic.AnyOp: _reduce,
    logic.AllOp: _reduce,
    composite.CompositeConstructOp: _construct,
    composite.CompositeExtractOp: _extract,  # pyright: ignore[reportAssignmentType]
    composite.CompositeInsertOp: _insert,  # pyright: ignore[reportAssignmentType]
    composite.VectorExtractDynamicOp: _extract_dynamic,
    composite.VectorInsertDynamicOp: _insert_dynamic,  # pyright: ignore[reportAssignmentType]
    composite.VectorShuffleOp: _shuffle,  # pyright: ignore[reportAssignmentType]
    composite.CopyLogicalOp: _same,
    memory.CopyObjectOp: _same,
}


def _by_family(op: Operation) -> Special | None:
    return _dot if isinstance(op, IntegerDotOperation) else None


def is_float(type: Attribute) -> bool:
    """True if a type is a float or a vector of floats."""
    return isinstance(element_of(type), AnyFloat)


def same_number(x: Term, y: Term, type: Attribute) -> Term:
    """Returns the condition that two results are the same: equal bits, or both NaN."""
    if not is_float(type):
        return x == y
    kind = element_of(type)
    return z3.Or(x == y, z3.And(floats.is_nan(x, kind), floats.is_nan(y, kind)))
