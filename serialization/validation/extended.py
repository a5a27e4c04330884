"""Rules of extended instruction sets (EXS): known sets, and operand types of GLSL.std.450."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.ids import is_non_semantic
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.order import SECTION
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import Type

GLSL = "GLSL.std.450"


@instruction_rule("EXS-01", "3.49.4", "ExtInstImport")
def known_set(m: Module, i: Instruction) -> Problems:
    """An imported instruction set must be known."""
    name = m.imports.get(i.result, "")
    if name.startswith("NonSemantic."):
        if m.version < (1, 6) and "SPV_KHR_non_semantic_info" not in m.extensions:
            yield Problem(
                "non-semantic instructions need the extension SPV_KHR_non_semantic_info",
                'declare OpExtension "SPV_KHR_non_semantic_info", or use SPIR-V 1.6',
            )
    elif i.read is not None and grammar().extended_set(name) is None:
        yield Problem(
            f"the instruction set {name!r} is unknown",
            "import a known set, for example GLSL.std.450 or OpenCL.std",
        )


@module_rule("EXS-04", "SPV_KHR_non_semantic_info")
def semantic_uses(m: Module) -> Problems:
    """Only non-semantic instructions may use the results of non-semantic instructions."""
    if not any(name.startswith("NonSemantic.") for name in m.imports.values()):
        return
    results = {i.result for i in m.by_op.get("ExtInst", ()) if is_non_semantic(m, i)}
    for i in m.instructions:
        if i.op in SECTION or i.op == "ExtInstWithForwardRefsKHR" or is_non_semantic(m, i):
            continue
        if not results.isdisjoint(i.ids()):
            yield Problem(
                "an operand must not be the result of a non-semantic instruction",
                "use the result in non-semantic instructions only",
                i,
            )


def _float(widths: tuple[int, ...] = (16, 32, 64)) -> Callable[[Type], bool]:
    return lambda t: t.base == "Float" and t.is_scalar_or_vector and t.width in widths


def _integer(t: Type) -> bool:
    return t.base == "Int" and t.is_scalar_or_vector


def _three_floats(t: Type) -> bool:
    return t.kind == "Vector" and t.lanes == 3 and t.base == "Float"


def _integer_32(t: Type) -> bool:
    return _integer(t) and t.width == 32


class Form(NamedTuple):
    """Operand types that several instructions of GLSL.std.450 share."""

    names: str
    text: str
    fits: Callable[[Type], bool]
    same: bool = True
    """
    True if operands must have the result type. With `loose`, only shape and width must be equal.
    """
    loose: bool = False


FORMS = (
    Form("Round RoundEven Trunc FAbs FSign Floor Ceil Fract Sqrt InverseSqrt FMin FMax FClamp FMix "
         "Step SmoothStep Fma NMin NMax NClamp FaceForward Reflect Normalize",
         "floats", _float()),
    Form("Radians Degrees Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Exp Exp2 Log "
         "Log2 Atan2 Pow", "16- or 32-bit floats", _float((16, 32))),
    Form("SAbs SSign SMin SMax SClamp UMin UMax UClamp", "integers", _integer, loose=True),
    Form("FindILsb FindSMsb FindUMsb", "32-bit integers", _integer_32, loose=True),
    Form("Cross", "vectors of 3 floats", _three_floats),
)  # fmt: skip

PACKED: Mapping[str, tuple[str, str]] = {
    "PackSnorm4x8": ("uint32", "v4float32"),
    "PackUnorm4x8": ("uint32", "v4float32"),
    "PackSnorm2x16": ("uint32", "v2float32"),
    "PackUnorm2x16": ("uint32", "v2float32"),
    "PackHalf2x16": ("uint32", "v2float32"),
    "PackDouble2x32": ("float64", "v2uint32"),
    "UnpackSnorm2x16": ("v2float32", "uint32"),
    "UnpackUnorm2x16": ("v2float32", "uint32"),
    "UnpackHalf2x16": ("v2float32", "uint32"),
    "UnpackSnorm4x8": ("v4float32", "uint32"),
    "UnpackUnorm4x8": ("v4float32", "uint32"),
    "UnpackDouble2x32": ("v2uint32", "float64"),
}
"""
Maps an instruction to its result type and operand type. `uint` stands for integers of any
Signedness.
"""

BY_NAME = {name: form for form in FORMS for name in form.names.split()}


def _as_unsigned(type_: Type) -> str:
    return str(type_).replace("sint", "uint")


@instruction_rule("EXS-02", "GLSL.std.450", "ExtInst")
def glsl(m: Module, i: Instruction) -> Problems:
    """A GLSL.std.450 instruction must have the operand and result types of this set."""
    if m.imports.get(i.get("set")) != GLSL or i.read is None or len(i.words) < 5:
        return
    entry = grammar().by_extended_opcode(GLSL, i.words[4])
    result = m.types.get(i.type_id)
    if entry is None or result is None:
        return
    if len(i.words) > 5 + len(entry.operands):
        yield Problem(
            f"{entry.name} takes {len(entry.operands)} operands", "remove the additional operands"
        )
        return
    for id in i.words[5:]:
        if m.type_of(id) is None and m.op_of(id):
            yield Problem(f"{m.spell(id)} is not a value", remedies.VALUE)
    operands = [m.type_of(id) for id in i.words[5:]]
    form = BY_NAME.get(entry.name)
    if form is not None:
        yield from _form(entry.name, form, result, operands)
    elif entry.name in PACKED:
        given, taken = PACKED[entry.name]
        if _as_unsigned(result) != given:
            yield Problem(f"{entry.name} gives {given}, not {result}", remedies.result_type(given))
        for operand in operands:
            if operand is not None and _as_unsigned(operand) != taken:
                yield Problem(
                    f"{entry.name} takes {taken}, not {operand}", remedies.convert("it", taken)
                )
    else:
        yield from _special(m, entry.name, result, operands)


def _form(name: str, form: Form, result: Type, operands: list[Type | None]) -> Problems:
    if not form.fits(result):
        yield Problem(f"{name} is for {form.text}, not {result}", f"give {name} {form.text}")
        return
    for k, operand in enumerate(operands):
        if operand is None or operand is result:
            continue
        like = (
            form.loose
            and operand.base == result.base
            and operand.shape() == result.shape()
            and operand.width == result.width
        )
        if not like:
            yield Problem(
                f"operand {k} of {name} has type {operand}, not {result}",
                remedies.convert("it", result),
            )


def _square(type_: Type) -> bool:
    return (
        type_.kind == "Matrix" and type_.element is not None and type_.element.lanes == type_.lanes
    )


def _special(m: Module, name: str, result: Type, operands: list[Type | None]) -> Problems:
    first = operands[0] if operands else None
    if first is None:
        return
    match name:
        case "Length" | "Distance":
            if result.kind != "Float" or first.scalar is not result or first.base != "Float":
                yield Problem(
                    f"{name} of {first} cannot return {result}",
                    "make the result type the component type of a vector of floats",
                )
            if len(operands) > 1 and operands[1] is not None and operands[1] is not first:
                yield Problem(
                    f"{name} cannot take {first} and {operands[1]}", "use operands of one type"
                )
        case "Ldexp":
            exponent = operands[1] if len(operands) > 1 else None
            if result.base != "Float" or first is not result:
                yield Problem(f"Ldexp of {first} cannot return {result}", remedies.FLOATS)
            elif exponent is not None and (
                exponent.base != "Int" or exponent.shape() != result.shape()
            ):
                yield Problem(
                    f"the exponent cannot be {exponent}", "use integers of the result's shape"
                )
        case "Modf" | "Frexp":
            held = m.pointee(operands[1]) if len(operands) > 1 else None
            if result.base != "Float" or first is not result:
                yield Problem(f"{name} of {first} cannot return {result}", remedies.FLOATS)
            elif name == "Modf" and held is not None and held is not result:
                yield Problem(f"the whole part cannot be stored as {held}", f"point to a {result}")
        case "ModfStruct" | "FrexpStruct":
            if result.kind != "Struct" or len(result.members) != 2:
                yield Problem(
                    f"the result of {name} must be a struct of two members",
                    "use a struct of two members as the result type",
                )
            elif result.members[0] is not first:
                yield Problem(f"the result's first member must be {first}", f"make it {first}")
        case "Determinant":
            if not _square(first) or first.scalar is not result:
                yield Problem(
                    f"the determinant of {first} cannot have type {result}",
                    "make the result type the component of a square matrix",
                )
        case "MatrixInverse":
            if not _square(result) or first is not result:
                yield Problem(
                    f"the inverse of {first} cannot have type {result}",
                    "use a square matrix type for operand and result",
                )
        case "Refract":
            if result.base != "Float" or first is not result:
                yield Problem(f"Refract of {first} cannot return {result}", remedies.FLOATS)
        case _:
            return


@instruction_rule("EXS-03", "SPV_KHR_non_semantic_info", "ExtInst")
def non_semantic(m: Module, i: Instruction) -> Problems:
    """A non-semantic instruction must have the result type void."""
    if not m.imports.get(i.get("set"), "").startswith("NonSemantic."):
        return
    result = m.types.get(i.type_id)
    if result is not None and result.kind != "Void":
        yield Problem(f"the result must be void, not {result}", "make the result type OpTypeVoid")
