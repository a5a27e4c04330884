"""
Checks the static rules of the four extensions (DOT, CM, ROT, BF) of docs/rules.md on a binary.

Each rule of a single instruction is implemented once: in the verifier of the dialect's operation.
The validator converts the instruction to a detached operation (`lifting.py`) and runs this
verifier. This also works for modules that cannot be decoded, and findings name positions in the
binary. Only instructions of an extension, or with types of an extension, are converted, so modules
without them do not import the dialect.

This module defines the rules that need the whole module (the ids in a type, the origin of a
pointer, the declared capabilities). A binary cannot break CM-14, since any Memory Operand without a
Stride is read as the Stride. CM-29 depends on the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from xdsl_spirv.dialects import spv
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import CONSTANTS, Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import enumerant

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from xdsl_spirv.serialization.validation.lifting import Lifter

EXTENSIONS = frozenset(
    {
        "SPV_KHR_bfloat16",
        "SPV_KHR_cooperative_matrix",
        "SPV_KHR_integer_dot_product",
        "SPV_KHR_subgroup_rotate",
    }
)
"""The names of the four extensions of docs/rules.md."""


def lifter(m: Module) -> Lifter:
    """Returns the module's `Lifter`. Creates it at the first call."""
    from xdsl_spirv.serialization.validation.lifting import Lifter

    known = m.__dict__.get("lifter")
    if known is None:
        known = m.__dict__["lifter"] = Lifter(m)
    return known


def refused(*checks: Callable[[], object]) -> Problems:
    """
    Runs checks of the dialect and yields a problem for each broken rule of docs/rules.md. Ignores
    other failures, which rules of the validator report.
    """
    from xdsl.utils.exceptions import VerifyException

    for check in checks:
        try:
            check()
        except spv.RuleViolation as violation:
            yield Problem(violation.cause, violation.remedy, None, violation.rule)
        except VerifyException:
            pass


@cache
def _is_extension_instruction(name: str) -> bool:
    entry = grammar().instruction(f"Op{name}") if f"Op{name}" in grammar() else None
    return entry is not None and not EXTENSIONS.isdisjoint(entry.extensions)


@module_rule("EXT-OPERATION", "docs/rules.md")
def operations(m: Module) -> Problems:
    """Instructions of extensions must pass the verifier of the dialect's operation."""
    unknown = _unknown_matrices(m)
    for i in _instructions_of_extensions(m):
        # Uses of a type are skipped if its declaration already has a finding.
        if unknown and any(id in unknown or m.type_of(id) in unknown for id in i.ids()):
            continue
        op = lifter(m).operation(i)
        if op is None:
            continue
        for problem in refused(op.verify_, lambda op=op: _check_conversion(m, op)):
            if problem.rule != "CM-11" or _arm_layout(m, i) is None:
                yield problem._replace(at=i)
        op.drop_all_references()


def _unknown_matrices(m: Module) -> set[object]:
    """
    Returns the matrix types with an invalid scope, size or use (CM-04 to CM-06), and their ids.
    """
    matrices = [t for t in m.types.values() if t.kind == "CooperativeMatrixKHR"]
    unknown = [
        t for t in matrices if not isinstance(lifter(m).type(t.id), spv.CooperativeMatrixType)
    ]
    return {*unknown, *(type_.id for type_ in unknown)}


def _instructions_of_extensions(m: Module) -> Iterator[Instruction]:
    """Yields instructions of the extensions, and uses of bfloat16 and cooperative matrices."""
    concerned = {
        t.id for t in m.types.values() if t.is_bfloat16 or t.kind == "CooperativeMatrixKHR"
    }
    if concerned:
        concerned |= {i.result for i in m.instructions if i.type_id in concerned}
    for name, instructions in m.by_op.items():
        if _is_extension_instruction(name):
            yield from (i for i in instructions if i.sound)
        elif concerned and instructions[0].shape.has_type:
            for i in instructions:
                # Comparing words is a fast filter: literals may equal ids by chance.
                if not concerned.isdisjoint(i.words) and not concerned.isdisjoint(i.ids()):
                    yield i


def _check_conversion(m: Module, op: Operation) -> None:
    """CM-19: a conversion that changes a matrix's use requires a declared capability."""
    if m.capabilities.isdisjoint(c.name for c in spv.USE_CONVERSIONS):
        spv.cm_19_use(op)


@instruction_rule("EXT-CM-TYPE", "docs/rules.md", "TypeCooperativeMatrixKHR")
def matrix_type(m: Module, i: Instruction) -> Problems:
    """
    A cooperative matrix type must have a valid component, scope, size and use (CM-04 to CM-06).
    """
    if len(i.words) < 7:
        return
    for what, id in zip(("Scope", "Rows", "Columns", "Use"), i.words[3:7], strict=True):
        type_ = m.type_of(id)
        if (
            m.op_of(id) not in CONSTANTS
            or type_ is None
            or type_.kind != "Int"
            or type_.width != 32
        ):
            if id in m.definitions:
                yield Problem(
                    f"{what} must come from a 32-bit integer constant, but {m.spell(id)} is "
                    f"Op{m.op_of(id)} of {m.spell_type(id)}",
                    "use an OpConstant or OpSpecConstant of a 32-bit integer type",
                    None,
                    "CM-05",
                )
            continue
        value = m.integer(id)
        if (
            what == "Use"
            and value is not None
            and value not in grammar().kind("CooperativeMatrixUse")
        ):
            yield Problem(
                f"{value} is not a Use of cooperative matrices",
                "use 0 for MatrixA, 1 for MatrixB, 2 for MatrixAccumulator",
                None,
                "CM-06",
            )
        elif what == "Scope" and value is not None and value not in grammar().kind("Scope"):
            yield Problem(f"{value} is not a Scope", "use 3 for Subgroup", None, "CM-05")
    matrix = m.types.get(i.result)
    if matrix is None or matrix.at is not i:
        return
    if matrix.element is None:
        yield Problem(
            f"{m.spell(i.words[2])} is not a scalar numerical type",
            "name an integer or floating-point type",
            None,
            "CM-04",
        )
        return
    yield from refused(lambda: lifter(m).matrix(matrix))


@instruction_rule("EXT-CM-STORAGE", "docs/rules.md", "Variable")
def matrix_storage(m: Module, i: Instruction) -> Problems:
    """A variable with cooperative matrices must be in Function or Private storage (CM-07)."""
    pointer = m.types.get(i.type_id)
    held = m.pointee(pointer)
    if pointer is None or held is None or "CooperativeMatrixKHR" not in held.contains:
        return
    if pointer.storage not in ("Function", "Private"):
        yield Problem(
            f"{held} holds a cooperative matrix, which {pointer.storage} storage cannot hold",
            "use Function or Private storage, or keep the components in an array",
            None,
            "CM-07",
        )


@instruction_rule("EXT-CM-CONSTANT", "docs/rules.md", "ConstantComposite SpecConstantComposite")
def matrix_constant(m: Module, i: Instruction) -> Problems:
    """A cooperative matrix constant must have one constituent of the component type (CM-08)."""
    type_ = m.types.get(i.type_id)
    if type_ is not None and type_.kind == "CooperativeMatrixKHR":
        result = lifter(m).type(type_.id)
        yield from refused(lambda: spv.cm_08_one_constituent(result, len(i.words) - 3))


@instruction_rule(
    "EXT-CM-ACCESS", "docs/rules.md", "CooperativeMatrixLoadKHR CooperativeMatrixStoreKHR"
)
def matrix_access(m: Module, i: Instruction) -> Problems:
    """
    A cooperative access must have a pointer into an array, and a constant layout (CM-10, -11).
    """
    pointer = m.type_of(i.get("pointer"))
    if pointer is not None and not m.is_kernel:
        if pointer.kind == "Pointer" and points_into_array(m, i.get("pointer")) is False:
            yield Problem(
                f"the pointer {m.spell(i.get('pointer'))} does not point into an array",
                "form the pointer with OpAccessChain from an array's pointer",
                None,
                "CM-10",
            )
        if pointer.is_pointer and pointer.storage not in MATRIX_STORAGE:
            yield Problem(
                f"the pointer cannot point to {pointer.storage}",
                "use Workgroup, StorageBuffer or PhysicalStorageBuffer",
                None,
                "CM-10",
            )
    yield from _matrix_layout(m, i)


MATRIX_STORAGE = ("Workgroup", "StorageBuffer", "PhysicalStorageBuffer")


def _matrix_layout(m: Module, i: Instruction) -> Problems:
    layout = i.get("memory_layout")
    type_ = m.type_of(layout)
    if type_ is None:
        return
    if m.op_of(layout) not in CONSTANTS or type_.kind != "Int" or type_.width != 32:
        yield Problem(
            f"the layout must come from a 32-bit integer constant, but {m.spell(layout)} is "
            f"Op{m.op_of(layout)} of {type_}",
            "use OpConstant of a 32-bit integer type",
            None,
            "CM-11",
        )
        return
    value = m.integer(layout, default=True)
    kind = grammar().kind("CooperativeMatrixLayout")
    if value is not None and value not in kind:
        yield Problem(
            f"the layout {m.spell(layout)} is {value}, which is not a layout",
            "use 0 for row-major or 1 for column-major",
            None,
            "CM-11",
        )
        return
    name = _arm_layout(m, i)
    if name is not None and not m.is_constant(i.get("stride")):
        yield Problem(
            f"the layout {name} needs a Stride from a constant instruction",
            "name an OpConstant as Stride",
            None,
            "CM-11",
        )


def _arm_layout(m: Module, i: Instruction) -> str | None:
    """
    Returns the name of the access's layout if it is one of ARM's layouts and its capability is
    declared.
    """
    if "CooperativeMatrixLayoutsARM" not in m.capabilities:
        return None
    value = m.integer(i.get("memory_layout")) if "memory_layout" in i.shape.places else None
    name = "" if value is None else enumerant("CooperativeMatrixLayout", value)
    return name if "ARM" in name else None


def points_into_array(m: Module, pointer: int) -> bool | None:
    """
    True if the pointer points to an element of an array. Returns None if the pointer's origin is
    unknown.
    """
    at = m.definitions.get(pointer)
    while at is not None:
        if at.op in ("Variable", "UntypedVariableKHR"):
            return False
        if at.op not in ("AccessChain", "InBoundsAccessChain"):
            return None
        type_ = m.pointee(m.type_of(at.get("base")))
        for id in at.rest("indexes"):
            if type_ is None:
                return None
            if type_.kind in ("Array", "RuntimeArray"):
                return True
            if type_.kind != "Struct":
                break
            number = m.integer(id)
            if number is None or not 0 <= number < len(type_.members):
                return None
            type_ = type_.members[number]
        base = m.definitions.get(at.get("base"))
        at = base if base is not None and base.index < at.index else None
    return None


@module_rule("EXT-CM-MODEL", "docs/rules.md")
def matrix_model(m: Module) -> Problems:
    """Cooperative matrices in shaders need the Vulkan memory model (CM-02)."""
    if not m.memory_models or not any("CooperativeMatrix" in name for name in m.declared):
        return

    stated = spv.MemoryModel.__members__.get(m.memory_model)
    model = None if stated is None else spv.MemoryModelAttr(stated)
    declared = frozenset(spv.Capability[n] for n in m.declared if n in spv.Capability.__members__)
    for problem in refused(lambda: spv.cm_02_vulkan_memory_model(model, declared)):
        yield problem._replace(at=m.memory_models[0])


POINTER_USERS = frozenset(
    """
    AccessChain InBoundsAccessChain ArrayLength CopyMemory CopyMemorySized CopyObject FunctionCall
    CooperativeMatrixLoadKHR CooperativeMatrixStoreKHR CooperativeMatrixLoadNV ExtInst
    CooperativeMatrixStoreNV CooperativeMatrixLoadTensorNV CooperativeMatrixStoreTensorNV
    CooperativeVectorLoadNV CooperativeVectorStoreNV CooperativeVectorMatrixMulNV
    CooperativeVectorMatrixMulAddNV CooperativeVectorOuterProductAccumulateNV
    CooperativeVectorReduceSumAccumulateNV ImageTexelPointer Load Store Bitcast Phi ReturnValue
    ConvertPtrToU UntypedAccessChainKHR UntypedInBoundsAccessChainKHR UntypedArrayLengthKHR
    UntypedPrefetchKHR UntypedImageTexelPointerEXT BufferPointerEXT RawAccessChainNV PtrAccessChain
    ExtInstWithForwardRefsKHR Variable EmitMeshTasksEXT TraceRayKHR ExecuteCallableKHR
    """.split()
)
"""
Instructions that accept pointers under logical addressing (SPIR-V 2.16.1), with the two
instructions that CM-16 adds. Other rules check OpPhi, calls and returns.
"""


@module_rule("EXT-CM-POINTER", "docs/rules.md")
def pointer_users(m: Module) -> Problems:
    """Under logical addressing, only instructions in `POINTER_USERS` may use pointers (CM-16)."""
    if m.addressing_model != "Logical" or m.capabilities & {
        "VariablePointers",
        "VariablePointersStorageBuffer",
        "PhysicalStorageBufferAddresses",
        "Addresses",
    }:
        return
    definitions, types = m.definitions, m.types
    pointers = {t.id for t in types.values() if t.is_pointer}
    for i in m.instructions:
        if (
            i.block is None
            or i.op in POINTER_USERS
            or i.op.startswith(("Atomic", "RayQuery", "HitObject", "ReorderThread", "Trace"))
        ):
            continue
        for id in i.ids():
            at = definitions.get(id)
            if at is not None and at.type_id in pointers:
                yield Problem(
                    f"Op{i.op} cannot use the pointer {m.spell(id)} under logical addressing",
                    "load and store through the pointer, or declare VariablePointers",
                    i,
                    "CM-16",
                )
                break
