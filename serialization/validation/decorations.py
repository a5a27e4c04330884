"""Rules of decorations (DEC): allowed targets and repetitions."""

from __future__ import annotations

from functools import cache

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import VECTOR_CONSTANTS, Decoration, Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    declared_rule,
    module_rule,
)

STRUCT = frozenset({"TypeStruct"})
OBJECT = frozenset(
    {"Variable", "UntypedVariableKHR", "FunctionParameter", "RawAccessChainNV", "BufferPointerEXT"}
)
GLOBAL = frozenset({"Variable", "UntypedVariableKHR"})
BUILT = GLOBAL | VECTOR_CONSTANTS | {"Constant", "SpecConstant"}
LINKED = frozenset({"Function", "Variable", "UntypedVariableKHR"})
STRIDED = frozenset({"TypeArray", "TypeRuntimeArray", "TypePointer", "TypeUntypedPointerKHR"})
SPECIAL = frozenset(
    {"SpecConstant", "SpecConstantTrue", "SpecConstantFalse", "SpecConstantDataKHR"}
)

TARGETS: dict[str, tuple[frozenset[str], bool]] = {
    "Aliased": (OBJECT, False),
    "AliasedPointer": (OBJECT, False),
    "ArrayStride": (STRIDED, False),
    "Binding": (GLOBAL, False),
    "Block": (STRUCT, False),
    "BufferBlock": (STRUCT, False),
    "BuiltIn": (BUILT, True),
    "CPacked": (STRUCT, False),
    "Centroid": (GLOBAL, True),
    "Coherent": (OBJECT, True),
    "ColMajor": (frozenset(), True),
    "Component": (GLOBAL, True),
    "DescriptorSet": (GLOBAL, False),
    "Flat": (GLOBAL, True),
    "GLSLPacked": (STRUCT, False),
    "GLSLShared": (STRUCT, False),
    "Index": (GLOBAL, True),
    "InputAttachmentIndex": (GLOBAL, False),
    "Invariant": (GLOBAL, True),
    "LinkageAttributes": (LINKED, False),
    "Location": (GLOBAL, True),
    "MatrixStride": (frozenset(), True),
    "NoPerspective": (GLOBAL, True),
    "NonReadable": (OBJECT, True),
    "NonWritable": (OBJECT, True),
    "Offset": (frozenset(), True),
    "Patch": (GLOBAL, True),
    "Restrict": (OBJECT, True),
    "RestrictPointer": (OBJECT, False),
    "RowMajor": (frozenset(), True),
    "Sample": (GLOBAL, True),
    "SpecId": (SPECIAL, False),
    "Uniform": (GLOBAL, False),
    "Volatile": (OBJECT, True),
    "XfbBuffer": (GLOBAL, True),
    "XfbStride": (GLOBAL, True),
}
"""
Maps a decoration to the instructions that may have it, and True if struct members may have it, too
(SPIR-V 3.20).
"""

REPEATED = frozenset(
    {
        "CacheControlLoadINTEL",
        "CacheControlStoreINTEL",
        "FuncParamAttr",
        "UserSemantic",
        "UserTypeGOOGLE",
    }
)
"""Decorations that may occur several times on one id."""

declared_rule(
    "DEC-06", "3.49.4", "Decorations with id operands, and only these, are in OpDecorateId."
)
declared_rule("DEC-02", "3.49.4", "A member decoration has the index of a member of the struct.")
declared_rule("DEC-03", "3.49.4", "An id or member does not have the same decoration twice.")


@module_rule("DEC-01", "3.20")
def targets(m: Module) -> Problems:
    """A decoration must be allowed for its target."""
    for id, given in m.decorations.items():
        at = m.definitions.get(id)
        seen: dict[tuple[str, int | None, object], Decoration] = {}
        for decoration in given:
            parameter = decoration.parameters if decoration.name in REPEATED else None
            key = (decoration.name, decoration.member, parameter)
            first = seen.setdefault(key, decoration)
            again = decoration.at.op.startswith("Group") or first.at.op.startswith("Group")
            if first is not decoration and not (
                again and first.parameters == decoration.parameters
            ):
                yield Problem(
                    f"{m.spell(id)} cannot have {decoration.name} twice{', by a group' * again}",
                    f"remove one {decoration.name}",
                    decoration.at,
                    "DEC-03",
                )
            if at is not None and at.op != "DecorationGroup":
                yield from _target(m, decoration, at)


@cache
def _takes_ids(name: str) -> bool:
    kind = grammar().kind("Decoration")
    if name not in kind:
        return False
    return any(p.kind in ("IdRef", "IdScope") for p in kind[name].parameters)


def _target(m: Module, decoration: Decoration, at: Instruction) -> Problems:
    if decoration.member is not None:
        if at.op != "TypeStruct":
            yield Problem(
                f"Op{at.op} has no members",
                "use OpDecorate, or decorate the members of a struct",
                decoration.at,
                "DEC-02",
            )
        elif decoration.member >= len(at.words) - 2:
            yield Problem(
                f"the struct has {len(at.words) - 2} members, so {decoration.member} is out of "
                f"range",
                f"name a member below {len(at.words) - 2}",
                decoration.at,
                "DEC-02",
            )
    if decoration.at.op in ("DecorateString", "MemberDecorateString"):
        if not any(isinstance(p, str) for p in decoration.parameters):
            yield Problem(
                f"{decoration.name} takes no string", "use OpDecorate", decoration.at, "DEC-06"
            )
    elif decoration.at.op in ("Decorate", "DecorateId"):
        by_id = _takes_ids(decoration.name)
        if by_id != (decoration.at.op == "DecorateId"):
            yield Problem(
                f"{decoration.name} is not allowed in Op{decoration.at.op}",
                f"use OpDecorate{'Id' if by_id else ''}",
                decoration.at,
                "DEC-06",
            )
    if decoration.name == "RelaxedPrecision" and decoration.member is None:
        if at.op.startswith("Type"):
            yield Problem(
                "RelaxedPrecision cannot decorate types", "decorate values", decoration.at
            )
    if decoration.name == "NonWritable" and at.op == "Variable":
        yield from _non_writable(m, decoration, at)
    if decoration.name == "BuiltIn" and "Constant" in at.op:
        if decoration.parameters[:1] != (grammar().kind("BuiltIn")["WorkgroupSize"].value,):
            yield Problem(
                "a constant has a built-in that is not WorkgroupSize",
                "decorate a variable, or use the built-in WorkgroupSize",
                decoration.at,
            )
    allowed = TARGETS.get(decoration.name)
    if allowed is None:
        return
    ops, members = allowed
    if decoration.member is not None:
        if not members:
            yield Problem(
                f"{decoration.name} is not allowed on a member",
                "decorate the struct or the variable by OpDecorate",
                decoration.at,
            )
    elif at.op not in ops:
        yield Problem(
            f"{decoration.name} is not allowed on Op{at.op}",
            "decorate a target that SPIR-V 3.20 allows" if ops else "use OpMemberDecorate",
            decoration.at,
        )


def _non_writable(m: Module, decoration: Decoration, at: Instruction) -> Problems:
    pointer = m.types.get(at.type_id)
    held = m.pointee(pointer)
    while held is not None and held.kind in ("Array", "RuntimeArray"):
        held = held.element
    if pointer is None or held is None:
        return
    block = m.has(held.id, "Block") or m.has(held.id, "BufferBlock")
    image = held.kind == "Image" and len(held.at.words) > 7 and held.at.words[7] == 2
    fits = {
        "Function": True,
        "Private": True,
        "StorageBuffer": block,
        "Uniform": block,
        "UniformConstant": image or held.kind == "TensorARM",
        "TileAttachmentQCOM": image,
    }
    if not fits.get(pointer.storage, False):
        yield Problem(
            f"NonWritable is not allowed on a variable of {pointer.storage} that holds {held}",
            "decorate buffers, storage images and private variables",
            decoration.at,
        )


@module_rule("DEC-04", "3.20")
def rounding(m: Module) -> Problems:
    """FPRoundingMode must decorate a conversion to a narrower float."""
    for id, given in m.decorations.items():
        for decoration in given:
            at = m.definitions.get(id)
            if decoration.name != "FPRoundingMode" or at is None:
                continue
            if at.op not in CONVERSIONS:
                yield Problem(
                    f"FPRoundingMode is not allowed on Op{at.op}",
                    "decorate a conversion to a floating-point type",
                    decoration.at,
                )


CONVERSIONS = frozenset({"FConvert", "ConvertSToF", "ConvertUToF", "ConvertFToS", "ConvertFToU"})


@module_rule("DEC-05", "3.20")
def groups(m: Module) -> Problems:
    """NoContraction must decorate arithmetic, and OpGroupDecorate must name a decoration group."""
    for op in ("GroupDecorate", "GroupMemberDecorate"):
        for i in m.by_op.get(op, ()):
            group = m.op_of(i.words[1]) if len(i.words) > 1 else ""
            if group and group != "DecorationGroup":
                yield Problem(
                    f"{m.spell(i.words[1])} is not a decoration group",
                    "name an OpDecorationGroup",
                    i,
                )
    for id, given in m.decorations.items():
        at = m.definitions.get(id)
        for decoration in given:
            if decoration.name == "NoContraction" and at is not None and not at.type_id:
                yield Problem(
                    f"NoContraction is not allowed on Op{at.op}", "remove it", decoration.at
                )
