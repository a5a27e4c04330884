"""
Rules of operand types for arithmetic, logic, bits and conversions (OPR), in one table.

A row gives the types of the result and operands for a list of instructions. An operand type is
fixed, or shares properties with the result type. "Shape" is the number of components and the kind
of composite: scalar, vector or cooperative matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import Problem, Problems, instruction_rule
from xdsl_spirv.serialization.validation.types import Type

CONVERT = "convert the operand, or use the instruction for its type"


class Want(NamedTuple):
    """
    A required type: its description, in which `{r}` stands for the result type, and a predicate.
    """

    text: str
    fits: Callable[[Type, Type], bool]
    remedy: str = ""
    """
    The remedy if it differs from the default one (convert an operand or change the result type).
    """


def _converts(t: Type, r: Type) -> bool:
    """True if the shapes are equal. Accepts all cooperative matrices, which CM-19 checks."""
    return t.shape() == r.shape() or (t.is_matrix and r.is_matrix)


def _number(kind: str) -> Callable[[Type, Type], bool]:
    return lambda t, r: t.base == kind


HALF = "SPV_AMD_gpu_shader_half_float"
INT = Want("an integer, a vector of integers or a cooperative matrix", _number("Int"))
FLOAT = Want("a float, a vector of floats or a cooperative matrix", _number("Float"))
BOOL = Want("a Boolean or a vector of Booleans", _number("Bool"))
BOOL_SCALAR = Want("a Boolean", lambda t, r: t.kind == "Bool")
BOOL_VECTOR = Want("a vector of Booleans", lambda t, r: t.is_vector and t.base == "Bool")
INT_SCALAR = Want("an integer scalar", lambda t, r: t.kind == "Int")
DOT = Want(
    "a floating-point scalar",
    lambda t, r: t.kind == "Float",
    "use OpSDot or OpUDot for vectors of integers",
)
FLOAT_VECTOR = Want("a vector of floats", lambda t, r: t.is_vector and t.base == "Float")
UNSIGNED = Want("an integer of Signedness 0", lambda t, r: t.base == "Int" and not t.signed)
MATRIX = Want("a matrix", lambda t, r: t.kind == "Matrix")
SAME = Want("of type {r}", lambda t, r: t is r)
LIKE = Want(
    "an integer of the shape and width of {r}",
    lambda t, r: t.base == "Int" and t.shape() == r.shape() and t.width == r.width,
)
INT_SHAPE = Want(
    "an integer of the shape of {r}", lambda t, r: t.base == "Int" and t.shape() == r.shape()
)
FLOAT_SHAPE = Want(
    "a float of the shape of {r}", lambda t, r: t.base == "Float" and t.shape() == r.shape()
)
COMPONENT = Want("of the component type of {r}", lambda t, r: t is r.scalar)
INT_CONVERTED = Want(
    "an integer of the shape of {r}", lambda t, r: t.base == "Int" and _converts(t, r)
)
FLOAT_CONVERTED = Want(
    "a float of the shape of {r}", lambda t, r: t.base == "Float" and _converts(t, r)
)


def _same_pair(m: Module, i: Instruction) -> str | None:
    a, b = m.type_of(i.words[3]), m.type_of(i.words[4])
    return None if a is b else f"the operands have different types: {a} and {b}"


def _float_pair(m: Module, i: Instruction) -> str | None:
    a, b, r = m.type_of(i.words[3]), m.type_of(i.words[4]), m.types.get(i.type_id)
    if a is None or b is None or r is None:
        return None
    if a is not b or a.base != "Float" or a.shape() != r.shape():
        return f"the operands must be floats of one type in the shape of {r}, not {a} and {b}"
    return None


def _same_width(m: Module, i: Instruction) -> str | None:
    a, b = m.type_of(i.words[3]), m.type_of(i.words[4])
    if a is None or b is None or a.width == b.width:
        return None
    return f"the operands must have one width, not {a.width} and {b.width} bits"


def _other_width(m: Module, i: Instruction) -> str | None:
    a, r = m.type_of(i.words[3]), m.types.get(i.type_id)
    if a is None or r is None or a.width != r.width:
        return None
    if a.encoding != r.encoding:
        return None
    if a.is_matrix and a is not r:
        return None
    return f"{a} and {r} must differ in width"


CLOCKS = (("Int", 1, 64), ("Vector", 2, 32))
"""Types that a clock may return: kind, number of components and width."""


def _lacks_half_derivatives(m: Module, i: Instruction) -> str | None:
    type_ = m.types.get(i.type_id)
    if type_ is None or type_.width == 32 or HALF in m.extensions:
        return None
    return f"the result must have 32-bit floats, not {type_}"


class Row(NamedTuple):
    """A row of the table: the types that some instructions require, as one rule."""

    id: str
    section: str
    says: str
    names: str
    result: Want | None
    operands: Mapping[str, Want]
    also: Callable[[Module, Instruction], str | None] | None = None
    """A further check. Returns the cause of a problem, or None."""
    remedy: str = "convert an operand, or use the instruction for the operands' types"
    """The remedy for a problem that `also` returns."""


def _two(want: Want) -> Mapping[str, Want]:
    return {"operand_1": want, "operand_2": want}


TABLE = (
    Row("OPR-01", "3.49.13", "Integer arithmetic takes integers of the result's shape and width.",
        "IAdd ISub IMul SDiv SRem SMod", INT, _two(LIKE)),
    Row("OPR-02", "3.49.13", "Unsigned division takes and gives integers of Signedness 0.",
        "UDiv UMod", UNSIGNED, _two(SAME)),
    Row("OPR-03", "3.49.13", "Floating-point arithmetic takes floats of the result's type.",
        "FAdd FSub FMul FDiv FRem FMod", FLOAT, _two(SAME)),
    Row("OPR-04", "3.49.13", "A negation keeps the shape and width.",
        "SNegate", INT, {"operand": LIKE}),
    Row("OPR-05", "3.49.13", "A floating-point negation keeps the type.",
        "FNegate", FLOAT, {"operand": SAME}),
    Row("OPR-06", "3.49.13", "VectorTimesScalar takes a vector of the result type and a component.",
        "VectorTimesScalar", FLOAT_VECTOR, {"vector": SAME, "scalar": COMPONENT}),
    Row("OPR-07", "3.49.13", "Dot takes two vectors of floats of the result's type.",
        "Dot", DOT,
        {n: Want("a vector of {r}", lambda t, r: t.is_vector and t.element is r)
         for n in ("vector_1", "vector_2")}, _same_pair),
    Row("OPR-08", "3.49.15", "Logical operations take Booleans of the result's type.",
        "LogicalOr LogicalAnd LogicalEqual LogicalNotEqual", BOOL, _two(SAME)),
    Row("OPR-09", "3.49.15", "LogicalNot keeps the type.", "LogicalNot", BOOL, {"operand": SAME}),
    Row("OPR-10", "3.49.15", "Any and All take a vector of Booleans.", "Any All", BOOL_SCALAR,
        {"vector": BOOL_VECTOR}),
    Row("OPR-11", "3.49.15", "Compared integers have one width and the result's shape.",
        "IEqual INotEqual UGreaterThan SGreaterThan UGreaterThanEqual SGreaterThanEqual ULessThan "
        "SLessThan ULessThanEqual SLessThanEqual", BOOL, _two(INT_SHAPE), _same_width),
    Row("OPR-12", "3.49.15", "Compared floats have one type, and the result's shape.",
        "FOrdEqual FUnordEqual FOrdNotEqual FUnordNotEqual FOrdLessThan FUnordLessThan "
        "FOrdGreaterThan FUnordGreaterThan FOrdLessThanEqual FUnordLessThanEqual "
        "FOrdGreaterThanEqual FUnordGreaterThanEqual Ordered Unordered LessOrGreater",
        BOOL, {}, _float_pair),
    Row("OPR-13", "3.49.15", "Tests of floats take a float of the result's shape.",
        "IsNan IsInf IsFinite IsNormal SignBitSet", BOOL, {"x": FLOAT_SHAPE}),
    Row("OPR-14", "3.49.14", "A shift keeps the base's shape and width. The count has this shape.",
        "ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical", INT,
        {"base": LIKE, "shift": INT_SHAPE}),
    Row("OPR-15", "3.49.14", "Bitwise operations take integers of the result's shape and width.",
        "BitwiseOr BitwiseXor BitwiseAnd", INT, _two(LIKE)),
    Row("OPR-16", "3.49.14", "Not keeps the shape and width.", "Not", INT, {"operand": LIKE}),
    Row("OPR-17", "3.49.14", "An insertion keeps the base's type; offset and count are integers.",
        "BitFieldInsert", INT,
        {"base": SAME, "insert": SAME, "offset": INT_SCALAR, "count": INT_SCALAR}),
    Row("OPR-18", "3.49.14", "A bit field's extraction keeps the base's type.",
        "BitFieldSExtract BitFieldUExtract", INT,
        {"base": SAME, "offset": INT_SCALAR, "count": INT_SCALAR}),
    Row("OPR-19", "3.49.14", "BitReverse keeps the type.",
        "BitReverse", INT, {"base": SAME}),
    Row("OPR-20", "3.49.14", "BitCount keeps the shape.", "BitCount", INT, {"base": INT_SHAPE}),
    Row("OPR-21", "3.49.11", "A conversion from float to integer keeps the shape.",
        "ConvertFToS", INT, {"float_value": FLOAT_CONVERTED}),
    Row("OPR-22", "3.49.11", "A conversion from float to unsigned gives Signedness 0.",
        "ConvertFToU", UNSIGNED, {"float_value": FLOAT_CONVERTED}),
    Row("OPR-23", "3.49.11", "A conversion from integer to float keeps the shape.",
        "ConvertSToF", FLOAT, {"signed_value": INT_CONVERTED}),
    Row("OPR-24", "3.49.11", "A conversion from unsigned to float keeps the shape.",
        "ConvertUToF", FLOAT, {"unsigned_value": INT_CONVERTED}),
    Row("OPR-25", "3.49.11", "UConvert gives Signedness 0 and another width.",
        "UConvert", UNSIGNED, {"unsigned_value": INT_CONVERTED}, _other_width),
    Row("OPR-26", "3.49.11", "SConvert gives another width.",
        "SConvert", INT, {"signed_value": INT_CONVERTED}, _other_width),
    Row("OPR-27", "3.49.11", "FConvert gives another width or encoding.",
        "FConvert", FLOAT, {"float_value": FLOAT_CONVERTED}, _other_width),
    Row("OPR-28", "3.49.11", "QuantizeToF16 takes and gives 32-bit floats.",
        "QuantizeToF16", Want("32-bit floats", lambda t, r: t.base == "Float" and t.width == 32),
        {"value": SAME}),
    Row("OPR-29", "3.49.13", "MatrixTimesScalar takes a matrix of the result type and a component.",
        "MatrixTimesScalar", Want("a matrix", lambda t, r: t.kind == "Matrix" or t.is_matrix),
        {"matrix": SAME, "scalar": COMPONENT}),
    Row("OPR-30", "3.49.15", "OpFMA's operands have the result's type.", "FmaKHR", FLOAT,
        {"operand_1": SAME, "operand_2": SAME, "operand_3": SAME}),
    Row("OPR-31", "3.49.16",
        f"A derivative is of a 32-bit float (by {HALF} also of 16 bits) and keeps its type.",
        "DPdx DPdy Fwidth DPdxFine DPdyFine FwidthFine DPdxCoarse DPdyCoarse FwidthCoarse",
        Want("of 32-bit floats", lambda t, r: t.base == "Float" and t.width in (16, 32)),
        {"p": SAME}, _lacks_half_derivatives, f'use 32-bit floats, or declare "{HALF}"'),
    Row("OPR-32", "3.49.24", "OpAssumeTrueKHR takes a Boolean.", "AssumeTrueKHR", None,
        {"condition": BOOL_SCALAR}),
    Row("OPR-33", "3.49.24", "OpExpectKHR takes two values of the result's type.", "ExpectKHR",
        Want("an integer or a Boolean", lambda t, r: t.base in ("Int", "Bool")),
        {"value": SAME, "expected_value": SAME}),
    Row("OPR-35", "SPV_KHR_shader_clock",
        "A clock gives two 32-bit or one 64-bit integer of Signedness 0.", "ReadClockKHR",
        Want("a 64-bit integer of Signedness 0, or two of 32 bits", lambda t, r: t.base == "Int"
             and not t.signed and (t.kind, t.lanes, t.width) in CLOCKS), {}),
)  # fmt: skip


def check_row(
    m: Module, i: Instruction, row: Row, wanted: tuple[tuple[str, int, Want], ...]
) -> Problems:
    """Checks one instruction by a row of the table."""
    result = m.types.get(i.type_id) if i.shape.has_type else None
    words = i.words
    if row.result is not None:
        if result is None:
            return
        if not row.result.fits(result, result):
            yield Problem(
                f"the result must be {row.result.text}, not {result}",
                row.result.remedy or remedies.result_type(row.result.text),
            )
            return
    sound = True
    for name, place, want in wanted:
        if place >= len(words):
            return
        type_ = m.type_of(words[place])
        if type_ is None:
            sound = False
        elif not want.fits(type_, result or type_):
            sound = False
            wanted_text = want.text.format(r=result)
            cause = f"{name} {m.spell(words[place])} must be {wanted_text}, but has type {type_}"
            yield Problem(cause, want.remedy or CONVERT)
    if sound and row.also is not None and len(words) > 3:
        cause = row.also(m, i)
        if cause is not None:
            yield Problem(cause, row.remedy)


def _matrix_product(m: Module, i: Instruction) -> str | None:
    a, b, r = m.type_of(i.words[3]), m.type_of(i.words[4]), m.types.get(i.type_id)
    if a is None or b is None or r is None:
        return None
    shapes = [_columns_and_rows(t) for t in (a, b, r)]
    if None in shapes or len({t.scalar for t in (a, b, r)}) > 1:
        return f"{a} and {b} cannot be multiplied to {r}"
    kinds = {
        "VectorTimesMatrix": (False, True, False),
        "MatrixTimesVector": (True, False, False),
        "MatrixTimesMatrix": (True, True, True),
        "OuterProduct": (False, False, True),
    }
    (ac, ar), (bc, br), (rc, rr) = (s or (0, 0) for s in shapes)
    wanted = kinds[i.op]
    if tuple(t.kind == "Matrix" for t in (a, b, r)) != wanted:
        return f"{a} and {b} cannot be multiplied to {r}"
    agree = {
        "VectorTimesMatrix": ar == br and rr == bc,
        "MatrixTimesVector": ac == br and rr == ar,
        "MatrixTimesMatrix": ac == br and rc == bc and rr == ar,
        "OuterProduct": rc == br and rr == ar,
    }[i.op]
    return None if agree else f"the sizes of {a} and {b} do not match the result {r}"


def _columns_and_rows(type_: Type) -> tuple[int, int] | None:
    if type_.kind == "Matrix" and type_.element is not None:
        return type_.lanes, type_.element.lanes
    if type_.kind == "Vector" and type_.base == "Float":
        return 1, type_.lanes
    return None


def register(row: Row) -> None:
    """
    Registers a row as a rule for its instructions. Operands that an instruction lacks are not
    checked.
    """
    cached: dict[int, tuple[tuple[str, int, Want], ...]] = {}

    def check(m: Module, i: Instruction) -> Problems:
        opcode = i.words[0] & 0xFFFF
        wanted = cached.get(opcode)
        if wanted is None:
            wanted = cached[opcode] = tuple(
                (name, i.shape.places[name], want)
                for name, want in row.operands.items()
                if name in i.shape.places
            )
        return check_row(m, i, row, wanted)

    instruction_rule(row.id, row.section, row.names, says=row.says)(check)


for _row in TABLE:
    register(_row)


@instruction_rule(
    "OPR-34", "3.49.13", "VectorTimesMatrix MatrixTimesVector MatrixTimesMatrix OuterProduct"
)
def products(m: Module, i: Instruction) -> Problems:
    """The sizes and components of a matrix product must match."""
    cause = _matrix_product(m, i)
    if cause is not None:
        yield Problem(cause, "use matrices of floats whose sizes agree")
