"""
Rules of access chains, pointer differences and comparisons (MEM-05 to MEM-07, MEM-10, MEM-12).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.composites import MAX_INDEXES, part
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import Type


@instruction_rule(
    "MEM-05", "3.49.8", "AccessChain InBoundsAccessChain PtrAccessChain InBoundsPtrAccessChain"
)
def access_chain(m: Module, i: Instruction) -> Problems:
    """An access chain must lead to the result's pointee type, in the base's storage class."""
    base = i.get("base")
    result, from_ = m.types.get(i.type_id), m.type_of(base)
    if result is None:
        return
    if result.kind != "Pointer":
        yield Problem(f"the result must be a pointer, not {result}", remedies.POINTER_RESULT)
        return
    if from_ is None or from_.kind != "Pointer":
        if from_ is not None or m.op_of(base):
            yield Problem(f"the base {m.spell(base)} is not a pointer", remedies.POINTER)
        return
    if from_.storage != result.storage:
        yield Problem(
            f"the base is in {from_.storage}, but the result is in {result.storage}",
            remedies.pointer_to(from_.storage),
        )
    yield from indexes(m, m.pointee(from_), i.rest("indexes"), m.pointee(result))
    if "element" in i.shape.places:
        element = m.type_of(i.get("element"))
        if element is not None and element.kind != "Int":
            yield Problem(f"the element must be an integer, not {element}", remedies.INTEGER_SCALAR)


def indexes(m: Module, type_: Type | None, ids: Sequence[int], want: Type | None) -> Problems:
    """
    Checks that `ids`, used as indices into a type, select a part of the type `want`. Yields the
    problems.
    """
    if len(ids) > MAX_INDEXES:
        yield Problem(
            f"the chain has {len(ids)} indexes, above the limit of {MAX_INDEXES} (SPIR-V 2.17)",
            f"use two chains of at most {MAX_INDEXES} indexes each",
        )
    for id in ids:
        index = m.type_of(id)
        if index is None:
            if m.op_of(id):
                yield Problem(f"the index {m.spell(id)} is not a value", remedies.INTEGER_SCALAR)
            return
        if index.kind != "Int":
            yield Problem(
                f"the index {m.spell(id)} must be an integer, not {index}", remedies.INTEGER_SCALAR
            )
            return
        value = m.integer(id)
        if value is not None and value < 0:
            yield Problem(f"the index {m.spell(id)} cannot be {value}", "use 0 or more")
            return
        if type_ is not None and type_.kind == "Struct":
            if m.op_of(id) != "Constant":
                yield Problem(
                    f"the index {m.spell(id)} into a struct is not an OpConstant",
                    "use an OpConstant",
                )
                return
        elif type_ is not None:
            value = None  # An index beyond an array's end is undefined behaviour, but valid.
        reached = part(type_, value, m)
        if not isinstance(reached, Type):
            if reached is not None:
                yield Problem(reached, "use indexes that lead to a part of the pointee")
            return
        type_ = reached
    if type_ is not None and want is not None and type_ is not want:
        yield Problem(f"the indexes lead to {type_}, not {want}", f"point to {type_} instead")


@instruction_rule("MEM-06", "3.49.8", "PtrAccessChain InBoundsPtrAccessChain")
def pointer_chain(m: Module, i: Instruction) -> Problems:
    """The base of OpPtrAccessChain must have an ArrayStride."""
    from_ = m.type_of(i.get("base"))
    if from_ is None or from_.kind != "Pointer" or not m.is_shader:
        return
    explicit = from_.storage in (
        "Uniform",
        "StorageBuffer",
        "PhysicalStorageBuffer",
        "PushConstant",
    )
    explicit |= (
        from_.storage == "Workgroup" and "WorkgroupMemoryExplicitLayoutKHR" in m.capabilities
    )
    if explicit and not m.has(from_.id, "ArrayStride"):
        yield Problem(f"{from_} has no ArrayStride", "decorate the base's type with ArrayStride")


@instruction_rule("MEM-07", "3.49.8", "ArrayLength UntypedArrayLengthKHR")
def array_length(m: Module, i: Instruction) -> Problems:
    """
    OpArrayLength must return a 32-bit unsigned integer, for a struct that ends in a runtime array.
    """
    result = m.types.get(i.type_id)
    if result is None:
        return
    wide = result.width == 64 and "Shader64BitIndexingEXT" in m.capabilities
    if result.kind != "Int" or result.signed or (result.width != 32 and not wide):
        yield Problem(
            f"the length must be a 32-bit unsigned integer, not {result}",
            "make the result type a 32-bit integer of Signedness 0 and convert it later",
        )
    if i.op == "ArrayLength":
        pointer = m.type_of(i.get("structure"))
        struct = m.pointee(pointer)
        if pointer is not None and not pointer.is_pointer:
            yield Problem(
                f"{m.spell(i.get('structure'))} is not a pointer", "name a pointer to a struct"
            )
            return
    else:
        struct = m.types.get(i.get("structure"))
    if struct is None:
        return
    member = i.get("array_member")
    if struct.kind != "Struct":
        yield Problem(
            f"the pointer must point to a struct, not to {struct}",
            "name a pointer to a struct whose last member is a runtime array",
        )
    elif not struct.members or member != len(struct.members) - 1:
        yield Problem(f"member {member} is not the last member of {struct}", "name the last member")
    else:
        last = struct.members[-1]
        if last is not None and last.kind != "RuntimeArray":
            yield Problem(
                f"the last member cannot be {last}", "end the struct with a runtime array"
            )


@instruction_rule("MEM-10", "3.49.8", "PtrEqual PtrNotEqual PtrDiff")
def pointer_comparison(m: Module, i: Instruction) -> Problems:
    """Compared pointers must have the same type, and the result must be a Boolean."""
    result = m.types.get(i.type_id)
    first, second = m.type_of(i.get("operand_1")), m.type_of(i.get("operand_2"))
    if result is None or first is None or second is None:
        return
    if result.kind != ("Int" if i.op == "PtrDiff" else "Bool"):
        yield Problem(
            f"the result cannot have type {result}",
            "make the result type OpTypeBool (for OpPtrDiff an integer)",
        )
    if first is not second or not first.is_pointer:
        yield Problem(
            f"{first} and {second} cannot be compared", "compare pointers of the same type"
        )
    elif first.storage == "PhysicalStorageBuffer":
        yield Problem(
            "this instruction cannot compare physical storage buffer pointers",
            "convert both pointers by OpConvertPtrToU and compare the integers",
        )
    elif m.addressing_model == "Logical" and m.is_shader:
        if first.storage not in ("StorageBuffer", "Workgroup"):
            yield Problem(
                f"pointers to {first.storage} cannot be compared",
                "compare the indices of the access chains",
            )
        elif not can_vary(m, first):
            yield Problem(
                "the capability for variable pointers is not declared",
                remedies.declare(VARYING[first.storage]),
            )


@instruction_rule(
    "MEM-12",
    "3.49.8",
    "UntypedAccessChainKHR UntypedInBoundsAccessChainKHR UntypedPtrAccessChainKHR "
    "UntypedInBoundsPtrAccessChainKHR",
)
def untyped_chain(m: Module, i: Instruction) -> Problems:
    """An untyped access chain must index its base type and return an untyped pointer."""
    result, base = m.types.get(i.type_id), m.type_of(i.get("base"))
    if result is None or base is None:
        return
    if result.kind != "UntypedPointerKHR":
        yield Problem(
            f"the result must be an untyped pointer, not {result}",
            "make the result type an OpTypeUntypedPointerKHR",
        )
    if not base.is_pointer:
        yield Problem(f"the base {m.spell(i.get('base'))} is not a pointer", remedies.POINTER)
        return
    if base.storage != result.storage and result.is_pointer:
        yield Problem(
            f"the base is in {base.storage}, but the result is in {result.storage}",
            remedies.pointer_to(base.storage),
        )
    if i.get("base_type") not in m.types:
        yield Problem(f"{m.spell(i.get('base_type'))} is not a type", remedies.TYPE)
        return
    yield from indexes(m, m.types[i.get("base_type")], i.rest("indexes"), None)


POINTER_MAKERS = frozenset(
    """
    Variable AccessChain InBoundsAccessChain FunctionParameter ImageTexelPointer CopyObject Undef
    UntypedVariableKHR UntypedAccessChainKHR UntypedInBoundsAccessChainKHR RawAccessChainNV
    BufferPointerEXT UntypedImageTexelPointerEXT ConstantFunctionPointerINTEL
    AllocateNodePayloadsAMDX
    """.split()
)
"""Instructions whose result may be a logical pointer (SPIR-V 2.16.1)."""

VARIABLE_MAKERS = frozenset(
    """
    Select Phi Function FunctionCall PtrAccessChain InBoundsPtrAccessChain Load ConstantNull
    UntypedPtrAccessChainKHR UntypedInBoundsPtrAccessChainKHR
    """.split()
)
"""Instructions whose result may be a variable pointer."""


VARYING = {"StorageBuffer": "VariablePointersStorageBuffer", "Workgroup": "VariablePointers"}
"""Maps a storage class to the capability that allows variable pointers into it."""


def can_vary(m: Module, pointer: Type) -> bool:
    """True if pointers of this type may be variable pointers (SPIR-V 2.16.1)."""
    return VARYING.get(pointer.storage) in m.capabilities


@module_rule("MEM-14", "2.16.1")
def logical_pointers(m: Module) -> Problems:
    """A pointer under logical addressing must be an access chain or a variable pointer."""
    if m.addressing_model not in ("Logical", "PhysicalStorageBuffer64"):
        return
    logical = {
        t.id for t in m.types.values() if t.is_pointer and t.storage != "PhysicalStorageBuffer"
    }
    for op, instructions in m.by_op.items():
        if op in POINTER_MAKERS or op.startswith("Type"):
            continue
        for i in instructions:
            if i.type_id not in logical:
                continue
            type_ = m.types[i.type_id]
            if op in VARIABLE_MAKERS and can_vary(m, type_):
                if "VariablePointers" not in m.capabilities and len(_variables(m, i.result)) > 1:
                    yield Problem(
                        f"Op{op} cannot choose between pointers into several variables",
                        remedies.declare("VariablePointers"),
                        i,
                    )
                continue
            need = VARYING.get(type_.storage) if op in VARIABLE_MAKERS else None
            yield Problem(
                f"Op{op} cannot return a pointer to {type_.storage} under logical addressing",
                remedies.declare(need) if need else remedies.INDEX,
                i,
            )


def _variables(m: Module, id: int) -> set[int]:
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [id]
    while waiting:
        id = waiting.pop()
        at = m.definitions.get(id)
        if at is None or id in seen:
            continue
        seen.add(id)
        if at.op in ("Variable", "UntypedVariableKHR"):
            found.add(id)
        elif at.op == "Phi":
            waiting += at.words[3::2]
        elif at.op == "Select":
            waiting += at.words[4:6]
        elif at.op in ("CopyObject", "AccessChain", "InBoundsAccessChain", *POINTER_STEPS):
            waiting.append(at.words[3])
    return found


POINTER_STEPS = ("PtrAccessChain", "InBoundsPtrAccessChain")
"""Instructions that move a pointer to another element of the same array."""
