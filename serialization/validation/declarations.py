"""Rules of types (TYP) and constants (CON)."""

from __future__ import annotations

import re

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import CONSTANTS, Module
from xdsl_spirv.serialization.validation.registry import (
    INSTRUCTION_CHECKS,
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import Type

AGGREGATE = frozenset(
    {"TypeArray", "TypeRuntimeArray", "TypeStruct", "TypePointer", "TypeForwardPointer"}
)
"""Types that may be declared several times, with different decorations."""

MAX_NESTING = 255
MAX_MEMBERS = 16383
"""Maximum number of members of a struct (SPIR-V 2.17)."""


@module_rule("TYP-01", "2.8")
def unique_types(m: Module) -> Problems:
    """A type that is not an aggregate or pointer must be declared only once."""
    seen: dict[tuple[int, ...], Instruction] = {}
    for type_ in m.types.values():
        i = type_.at
        if i.op in AGGREGATE:
            continue
        key = (i.words[0], *i.words[2:])
        first = seen.setdefault(key, i)
        if first is not i:
            yield Problem(
                f"Op{i.op} declares the same type as {m.spell(first.result)}",
                "declare the type once, and use its id",
                i,
            )


@instruction_rule("TYP-02", "3.49.6", "TypeInt TypeFloat")
def scalar_widths(m: Module, i: Instruction) -> Problems:
    """The width of a scalar must be supported, and Signedness must be 0 or 1."""
    if len(i.words) < 3:
        return
    width = i.words[2]
    if i.op == "TypeInt":
        small = width == 4 and "Int4TypeINTEL" in m.capabilities
        arbitrary = "ArbitraryPrecisionIntegersALTERA" in m.capabilities
        if width not in (8, 16, 32, 64) and not small and not arbitrary:
            yield Problem(f"SPIR-V has no integers of {width} bits", "use 8, 16, 32 or 64")
        if len(i.words) > 3 and i.words[3] not in (0, 1):
            yield Problem(f"Signedness must be 0 or 1, not {i.words[3]}", "use 0 or 1")
        elif len(i.words) > 3 and i.words[3] and "Kernel" in m.capabilities:
            if not m.is_shader:
                yield Problem(
                    "Signedness must be 0 with the capability Kernel",
                    "declare the integer with Signedness 0",
                )
        return
    declared_type = m.types.get(i.result)
    encoding = None if declared_type is None else declared_type.encoding
    digits = re.search(r"\d+", encoding or "")
    fitting = (int(digits[0]),) if digits else (16, 32, 64)
    if width not in fitting:
        what = f" as {encoding}" if encoding else ""
        yield Problem(f"SPIR-V has no floats of {width} bits{what}", f"use {fitting[0]}")


def _part(m: Module, id: int) -> Type | None:
    return m.types.get(id)


def _no_type(m: Module, what: str, id: int) -> Problem:
    return Problem(f"{what} {m.spell(id)} is not a type", remedies.TYPE)


@instruction_rule("TYP-03", "3.49.6", "TypeVector TypeMatrix")
def vectors(m: Module, i: Instruction) -> Problems:
    """
    A vector must have 2, 3, 4, 8 or 16 scalar components (any number with SPV_EXT_long_vector).

    A matrix must have 2 to 4 columns of floats.
    """
    if len(i.words) < 4:
        return
    element, count = _part(m, i.words[2]), i.words[3]
    if i.op == "TypeVector":
        if element is None or not element.is_scalar:
            yield Problem(
                f"{m.spell(i.words[2])} is not a scalar type",
                "name an integer, float or Boolean type",
            )
        if count not in (2, 3, 4, 8, 16) and not (count and "LongVectorEXT" in m.capabilities):
            yield Problem(f"SPIR-V has no vectors of {count} components", "use 2, 3 or 4")
        return
    if element is None or element.kind != "Vector" or element.base != "Float":
        yield Problem(f"{m.spell(i.words[2])} is not a vector of floats", "name a vector of floats")
    if count not in (2, 3, 4):
        yield Problem(f"SPIR-V has no matrices of {count} columns", "use 2, 3 or 4")


@instruction_rule("TYP-04", "3.49.6", "TypeArray TypeRuntimeArray TypeCooperativeVectorNV")
def arrays(m: Module, i: Instruction) -> Problems:
    """
    An array's length must be an integer constant of at least 1, and its elements must have a size.
    """
    if len(i.words) < 3:
        return
    element = _part(m, i.words[2])
    if element is None:
        if m.op_of(i.words[2]) != "TypePointer":
            yield _no_type(m, "the element type", i.words[2])
    elif element.kind in ("Void", "Function") or (
        element.kind == "RuntimeArray" and m.environment.vulkan
    ):
        yield Problem(f"an array cannot have elements of {element}", "use a type with a size")
    if i.op == "TypeRuntimeArray" or len(i.words) < 4:
        return
    length = i.words[3]
    type_ = m.type_of(length)
    if m.op_of(length) not in CONSTANTS or type_ is None or type_.kind != "Int":
        if m.op_of(length) not in ("SpecConstantOp", "ConstantSizeOfEXT"):
            yield Problem(
                f"the length {m.spell(length)} is not an integer constant",
                "name an integer OpConstant",
            )
            return
    value = m.integer(length, default=True)
    if value is not None and value < 1 and not m.is_spec(length):
        yield Problem(f"the array's length cannot be {value}", "use a length of at least 1")


@instruction_rule("TYP-05", "3.49.6", "TypeStruct")
def structs(m: Module, i: Instruction) -> Problems:
    """A struct must not have members of void, and only its last member may be a runtime array."""
    members = i.words[2:]
    if len(members) > MAX_MEMBERS:
        yield Problem(
            f"the struct has {len(members)} members, above the limit of {MAX_MEMBERS}",
            f"split the struct into structs of at most {MAX_MEMBERS} members",
        )
    declared_type = m.types.get(i.result)
    if declared_type is not None and declared_type.depth > MAX_NESTING:
        yield Problem(
            f"structs are nested {declared_type.depth} deep, above the limit of {MAX_NESTING}",
            f"flatten the structs to {MAX_NESTING} levels",
        )
    last = (
        declared_type.members[-1] if declared_type is not None and declared_type.members else None
    )
    if last is not None and last.kind == "RuntimeArray" and m.environment.vulkan:
        if not m.has(i.result, "Block") and not m.has(i.result, "BufferBlock"):
            yield Problem("a struct with a runtime array must be a block", "decorate it with Block")
    for k, member in enumerate(members):
        at = m.definitions.get(member)
        type_ = _part(m, member)
        if type_ is None:
            yield _no_type(m, f"member {k},", member)
        elif type_.kind in ("Void", "Function", "Label"):
            yield Problem(
                f"member {k} has type {type_}, which has no size", "use a type with a size"
            )
        elif type_.kind == "RuntimeArray" and k + 1 < len(members) and m.environment.vulkan:
            yield Problem(
                f"member {k}, a runtime array, is not the last",
                "make the runtime array the last member",
            )
        elif at is not None and at.index >= i.index and type_.kind != "Pointer":
            yield Problem(
                f"the type of member {k} cannot be declared after the struct",
                "declare the member's type before the struct",
            )


@instruction_rule("TYP-06", "3.49.6", "TypePointer TypeForwardPointer")
def pointers(m: Module, i: Instruction) -> Problems:
    """A pointer must point to a type, and match its forward declaration."""
    if i.op == "TypePointer":
        pointee = m.types.get(i.words[3]) if len(i.words) > 3 else None
        if len(i.words) > 3 and pointee is None:
            yield _no_type(m, "the pointee", i.words[3])
        elif pointee is not None and pointee.kind == "Function":
            if "FunctionPointersINTEL" not in m.capabilities:
                yield Problem("a pointer cannot point to a function type", "name a type of values")
        return
    if len(i.words) < 3:
        return
    target = m.types.get(i.words[1])
    if target is None or target.kind != "Pointer":
        yield Problem(f"{m.spell(i.words[1])} is not a pointer type", "name an OpTypePointer")
    elif target.at.words[2:3] != i.words[2:3]:
        yield Problem(
            "the storage class differs from the pointer type's",
            "use the storage class of the pointer type",
        )
    else:
        held = m.pointee(target)
        if held is not None and held.kind != "Struct" and m.is_shader:
            yield Problem(
                "a forward pointer must point to a struct",
                "use OpTypeForwardPointer for pointers to structs only",
            )


@instruction_rule("TYP-07", "3.49.6", "TypeFunction")
def function_types(m: Module, i: Instruction) -> Problems:
    """The parameter types of a function type must not be void."""
    for k, id in enumerate(i.words[2:]):
        declared_type = _part(m, id)
        if declared_type is None:
            yield _no_type(m, "the result type" if k == 0 else f"parameter {k - 1},", id)
        elif k and declared_type.kind in ("Void", "Function"):
            yield Problem(
                f"parameter {k - 1} cannot have type {declared_type}",
                "remove the parameter, or change its type",
            )
        elif k == 0 and declared_type.kind == "Function":
            yield Problem("a function cannot return a function type", "return a pointer or value")
    if len(i.words) > 3 + 255:
        yield Problem(
            "the function type has more than 255 parameters (SPIR-V 2.17)",
            "pass parameters as a struct",
        )


@instruction_rule("TYP-09", "3.49.1", "Undef PoisonKHR")
def undefined(m: Module, i: Instruction) -> Problems:
    """OpUndef must not have the type void."""
    type_ = m.types.get(i.type_id)
    if type_ is not None and type_.kind in ("Void", "Function"):
        yield Problem(f"an OpUndef cannot have type {type_}", "use a type that has values")


@instruction_rule("TYP-08", "3.49.6", "TypeImage TypeSampledImage")
def images(m: Module, i: Instruction) -> Problems:
    """The texel type, sampling and format of an image type must be supported."""
    if len(i.words) < 3:
        return
    held = m.types.get(i.words[2])
    if i.op == "TypeSampledImage":
        if held is None or held.kind != "Image":
            yield Problem(f"{m.spell(i.words[2])} is not an image type", "name an OpTypeImage")
        elif len(held.at.words) > 7 and held.at.words[7] == 2:
            yield Problem("a storage image cannot be sampled", "declare it with Sampled 0 or 1")
        elif len(held.at.words) > 3 and _dimension(held.at.words[3]) in (
            ("Buffer", "SubpassData") if m.version >= (1, 6) else ("SubpassData",)
        ):
            yield Problem("the image's Dim cannot be sampled", "use 1D, 2D, 3D, Cube or Rect")
        return
    if held is None or held.kind not in ("Int", "Float", "Void"):
        yield Problem(
            f"{m.spell(i.words[2])} is not a numerical type or void",
            "name a scalar type or OpTypeVoid",
        )
    elif held.kind == "Void" and m.environment.vulkan:
        yield Problem("Vulkan has no images of void", "name a 32- or 64-bit scalar type")
    elif held.kind != "Void" and m.environment.vulkan and held.width not in (32, 64):
        yield Problem(f"Vulkan has no images of {held}", "name a 32- or 64-bit scalar type")
    for k, (what, most) in enumerate((("Depth", 2), ("Arrayed", 1), ("MS", 1), ("Sampled", 2)), 4):
        if len(i.words) > k and i.words[k] > most:
            yield Problem(f"{what} cannot be {i.words[k]}", f"use at most {most}")
    if len(i.words) > 7 and m.environment.vulkan and i.words[7] == 0:
        yield Problem("Vulkan has no image with Sampled 0", "declare the image with Sampled 1 or 2")
    if len(i.words) > 3 and _dimension(i.words[3]) == "SubpassData" and i.words[7] != 2:
        yield Problem("an input attachment must have Sampled 2", "declare the image with Sampled 2")


def _dimension(value: int) -> str:
    table = grammar().kind("Dim")
    return table[value].name if value in table else ""


@instruction_rule(
    "CON-01",
    "3.49.7",
    "Constant SpecConstant ConstantTrue ConstantFalse SpecConstantTrue SpecConstantFalse "
    "ConstantNull",
)
def constants(m: Module, i: Instruction) -> Problems:
    """A constant must have a type that its instruction supports."""
    type_ = m.types.get(i.type_id)
    if type_ is None:
        return
    if i.op in ("Constant", "SpecConstant"):
        if type_.kind not in ("Int", "Float"):
            yield Problem(f"a constant cannot have type {type_}", "use an integer or a float type")
    elif i.op == "ConstantNull":
        if not type_.contains.isdisjoint(
            {
                "Void",
                "Function",
                "RuntimeArray",
                "Image",
                "Sampler",
                "SampledImage",
                "Label",
                "AccelerationStructureKHR",
            }
        ):
            yield Problem(f"OpConstantNull cannot have type {type_}", "use a type of values")
        elif type_.kind == "Pointer" and type_.storage == "PhysicalStorageBuffer":
            yield Problem(
                "OpConstantNull cannot be a physical storage buffer pointer",
                "convert 0 by OpConvertUToPtr",
            )
    elif type_.kind != "Bool":
        yield Problem(f"true and false must have type bool, not {type_}", remedies.BOOLEAN_RESULT)


def parts_of(type_: Type, m: Module) -> list[Type | None] | None:
    """Returns the types of a composite's constituents. Returns None if their number is unknown."""
    match type_.kind:
        case "Vector" | "Matrix":
            return None if type_.lanes > 0xFFFF else [type_.element] * type_.lanes
        case "Struct":
            return list(type_.members)
        case "CooperativeMatrixKHR" | "CooperativeMatrixNV":
            return [type_.element]
        case "Array" | "CooperativeVectorNV" | "VectorIdEXT":
            count = m.integer(type_.count_id)
            return None if count is None or count > 0xFFFF else [type_.element] * count
        case _:
            return []


@instruction_rule("CON-02", "3.49.7", "ConstantComposite SpecConstantComposite")
def composite_constants(m: Module, i: Instruction) -> Problems:
    """A composite constant must have constants or OpUndef of the right types as constituents."""
    type_ = m.types.get(i.type_id)
    if type_ is None:
        return
    given = i.words[3:]
    if type_.kind == "TensorARM":
        from xdsl_spirv.serialization.validation.graphs import tensor_constant

        yield from tensor_constant(m, type_, given)
        return
    parts = parts_of(type_, m)
    if parts == [] and type_.kind != "Struct":
        yield Problem(f"{type_} is not a composite type", remedies.COMPOSITE_RESULT)
        return
    if parts is not None and len(parts) != len(given):
        if type_.is_matrix:
            return  # CM-08
        yield Problem(
            f"{type_} has {len(parts)} constituents, not {len(given)}",
            remedies.constituents(len(parts)),
        )
        return
    for k, id in enumerate(given):
        op = m.op_of(id)
        if op and op not in CONSTANTS and op != "Undef":
            yield Problem(f"constituent {k}, {m.spell(id)}, is not a constant", remedies.CONSTANT)
            continue
        if i.op == "ConstantComposite" and op.startswith("SpecConstant"):
            yield Problem(
                f"constituent {k}, {m.spell(id)}, cannot be a specialization constant",
                "use OpSpecConstantComposite",
            )
        want = type_.element if parts is None else parts[k]
        if want is not None and m.type_of(id) is not want:
            yield Problem(
                f"constituent {k} has type {m.spell_type(id)}, not {want}", f"give {want}"
            )


@instruction_rule("CON-03", "3.49.7", "SpecConstantOp")
def constant_operations(m: Module, i: Instruction) -> Problems:
    """OpSpecConstantOp must have an operation allowed on constants, and constant operands."""
    if i.read is None:
        return
    number = next((o for o in i.read if o.kind == "LiteralSpecConstantOpInteger"), None)
    entry = None if number is None else grammar().by_opcode(int(number.value))
    if entry is None:
        return
    name = entry.name.removeprefix("Op")
    if name not in SHADER_OPERATIONS and not (
        "Kernel" in m.capabilities and name in KERNEL_OPERATIONS
    ):
        yield Problem(
            f"OpSpecConstantOp does not allow {entry.name} in this module",
            "use an operation that SPIR-V 3.49.7 lists for OpSpecConstantOp",
        )
    if name == "UConvert" and m.version < (1, 4) and "Kernel" not in m.capabilities:
        if "SPV_AMD_gpu_shader_int16" not in m.extensions:
            yield Problem("OpUConvert on constants needs SPIR-V 1.4", "raise the version to 1.4")
    types = _operation(i).named_types()
    for id in i.ids()[1:]:
        op = m.op_of(id)
        if op and op not in CONSTANTS and op != "Undef" and "AccessChain" not in name:
            if id in types:
                continue
            yield Problem(f"{m.spell(id)} is not a constant", remedies.CONSTANT)


SHADER_OPERATIONS = frozenset(
    """
    SConvert FConvert SNegate Not IAdd ISub IMul UDiv SDiv UMod SRem SMod ShiftRightLogical
    ShiftRightArithmetic ShiftLeftLogical BitwiseOr BitwiseXor BitwiseAnd VectorShuffle
    CompositeExtract CompositeInsert LogicalOr LogicalAnd LogicalNot LogicalEqual LogicalNotEqual
    Select IEqual INotEqual ULessThan SLessThan UGreaterThan SGreaterThan ULessThanEqual
    SLessThanEqual UGreaterThanEqual SGreaterThanEqual QuantizeToF16 UConvert
    CooperativeMatrixLengthNV CooperativeMatrixLengthKHR
    """.split()
)
KERNEL_OPERATIONS = frozenset(
    """
    ConvertFToS ConvertSToF ConvertFToU ConvertUToF ConvertPtrToU ConvertUToPtr GenericCastToPtr
    PtrCastToGeneric Bitcast FNegate FAdd FSub FMul FDiv FRem FMod AccessChain InBoundsAccessChain
    PtrAccessChain InBoundsPtrAccessChain
    """.split()
)


def _operation(i: Instruction) -> Instruction:
    words = [(len(i.words) - 1) << 16 | i.words[3] & 0xFFFF, i.words[1], i.words[2], *i.words[4:]]
    return Instruction(i.module, i.index, words)


@instruction_rule("CON-04", "3.49.7", "SpecConstantOp")
def constant_operands(m: Module, i: Instruction) -> Problems:
    """
    The operands of OpSpecConstantOp must have the types that its operation requires.

    Applies the rules of the operation, as if it were an instruction.
    """
    if i.read is None or len(i.words) < 4:
        return
    inner = _operation(i)
    if inner.op not in SHADER_OPERATIONS:
        return
    for _, names, check in INSTRUCTION_CHECKS:
        if f"Op{inner.op}" in names:
            for problem in check(m, inner):
                yield problem._replace(at=None)
