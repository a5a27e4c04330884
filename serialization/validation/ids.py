"""Rules of the definitions, uses and kinds of ids (ID), and of unreadable instructions (GRM)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError, SPIRVUnknownError
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.flow import Block, Function
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.order import SECTION
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    Severity,
    declared_rule,
    module_rule,
)

FORWARD = frozenset(SECTION) | frozenset(
    """
    Branch BranchConditional Switch Phi LoopMerge SelectionMerge FunctionCall
    TypeForwardPointer ExtInstWithForwardRefsKHR CooperativeMatrixPerElementOpNV
    CooperativeMatrixReduceNV CooperativeMatrixLoadTensorNV EnqueueKernel
    GetKernelNDrangeSubGroupCount GetKernelNDrangeMaxSubGroupSize GetKernelWorkGroupSize
    GetKernelPreferredWorkGroupSizeMultiple GetKernelLocalSizeForSubgroupCount
    GetKernelMaxNumSubgroups GraphEntryPointARM
    """.split()
)
"""Instructions that may refer to ids that are defined later (SPIR-V 2.4)."""

ONLY = {
    "Branch": "Label",
    "BranchConditional": "Label",
    "CooperativeMatrixLoadTensorNV": "Function",
    "CooperativeMatrixPerElementOpNV": "Function",
    "CooperativeMatrixReduceNV": "Function",
    "FunctionCall": "Function",
    "GraphEntryPointARM": "GraphARM",
    "LoopMerge": "Label",
    "SelectionMerge": "Label",
    "Switch": "Label",
}
"""Instructions of `FORWARD` whose forward references must be labels or functions."""

POINTER_FORWARD = frozenset({"TypeStruct", "TypeArray", "TypeRuntimeArray", "TypePointer"})
"""Types that may refer to a pointer type that OpTypeForwardPointer declares."""


@module_rule("GRM-01", "2.3")
def readable(m: Module) -> Problems:
    """Every instruction must have operands that the grammar allows."""
    for i, error in m.unreadable():
        # Microscaling floats have literals of any bits, which the grammar does not describe.
        if _is_free(m, i, error) or "has no literals" in error.cause:
            continue
        unknown = isinstance(error, SPIRVUnknownError)
        remedy = "correct the words, or update the grammar" if unknown else "correct the words"
        yield Problem(error.cause, remedy, i)


def _is_free(m: Module, i: Instruction, error: SPIRVDecodeError) -> bool:
    """True for debug information. The grammar may lack it because it may be newer."""
    return "has no instruction" in error.cause and is_non_semantic(m, i)


@module_rule("GRM-02", "SPV_KHR_non_semantic_info", severity=Severity.WARNING)
def readable_notes(m: Module) -> Problems:
    """The grammar should know every non-semantic instruction."""
    for i, error in m.unreadable():
        if _is_free(m, i, error):
            yield Problem(error.cause, "remove the instruction if other tools reject it", i)


@module_rule("ID-01", "2.16.1")
def defined_once(m: Module) -> Problems:
    """A result id must be defined only once."""
    for i in m.instructions:
        if i.result and m.definitions[i.result] is not i:
            first = m.definitions[i.result]
            yield Problem(
                f"{m.spell(i.result)} is already the result of Op{first.op}, "
                f"instruction {first.index}",
                "use a new id",
                i,
            )


declared_rule(
    "ID-03", "2.4", "An id is defined before its uses, except for the forward references of 2.4."
)
declared_rule("ID-04", "2.16.1", "A definition inside a function dominates its uses.")


@module_rule("ID-02", "2.16.1")
def defined_before_use(m: Module) -> Problems:
    """Every used id must be defined."""
    definitions = m.definitions
    announced = {i.words[1] for i in m.by_op.get("TypeForwardPointer", ()) if len(i.words) > 1}
    for i in m.instructions:
        op = i.op
        forward = op in FORWARD
        index = i.index
        for used in i.ids():
            at = definitions.get(used)
            if at is None or at.block is not None or at.index >= index:
                pass
            elif at.op != "FunctionParameter":
                continue  # Earlier definitions outside of functions are visible everywhere.
            if at is None:
                yield Problem(f"%{used} is used but never defined", "define it before", i)
            elif forward and op != "Phi" and ONLY.get(op, at.op) == at.op:
                continue
            elif at.index >= i.index and op != "Phi":
                if op in POINTER_FORWARD and used in announced:
                    continue
                yield Problem(
                    f"{m.spell(used)} is used before its definition, instruction {at.index}",
                    f"move instruction {at.index} before its uses",
                    i,
                    "ID-03",
                )
            elif at.block is not None:
                if op == "Phi":
                    yield from _phi(m, i, used, at)
                elif i.block is at.block or _dominates(at.block, i.block):
                    continue
                elif not is_non_semantic(m, i):
                    yield _not_dominated(m, used, at.block, i)
            elif at.op == "FunctionParameter":
                yield from _parameter(m, i, used, at)


def is_non_semantic(m: Module, i: Instruction | None) -> bool:
    """True for an instruction of a non-semantic set, such as debug information."""
    if i is None or i.op not in ("ExtInst", "ExtInstWithForwardRefsKHR"):
        return False
    return m.imports.get(i.get("set"), "").startswith("NonSemantic.")


def _dominates(above: Block, below: Block | None) -> bool:
    if below is None or below.function is not above.function:
        return False
    flow = below.function.flow
    return not flow.reaches(below) or flow.dominates(above, below)


def _not_dominated(m: Module, used: int, block: Block, i: Instruction) -> Problem:
    return Problem(
        f"{m.spell(used)} is defined in block %{block.id}, which does not dominate its use",
        "define the value on every path to the use, or merge values with OpPhi",
        i,
        "ID-04",
    )


def _phi(m: Module, i: Instruction, used: int, at: Instruction) -> Problems:
    if i.block is None or at.block is None:
        return
    for value, parent in zip(i.words[3::2], i.words[4::2], strict=False):
        if value != used:
            continue
        source = i.block.function.by_id.get(parent)
        if source is not None and not _dominates(at.block, source):
            yield _not_dominated(m, used, at.block, i)


def _parameter(m: Module, i: Instruction, used: int, at: Instruction) -> Problems:
    if i.block is None:
        return
    if not any(p is at for p in i.block.function.parameters):
        yield Problem(
            f"{m.spell(used)} is a parameter of another function",
            "pass the value to this function as an argument",
            i,
            "ID-04",
        )


NOT_VALUES = frozenset(
    """
    Branch BranchConditional Switch Phi LoopMerge SelectionMerge FunctionCall Function ExtInst
    ExtInstWithForwardRefsKHR CooperativeMatrixPerElementOpNV CooperativeMatrixReduceNV
    CooperativeMatrixLoadTensorNV CooperativeMatrixLengthKHR CooperativeMatrixLengthNV
    UntypedVariableKHR UntypedAccessChainKHR UntypedInBoundsAccessChainKHR
    UntypedPtrAccessChainKHR UntypedInBoundsPtrAccessChainKHR UntypedArrayLengthKHR
    ConstantSizeOfEXT SizeOf AsmINTEL AsmCallINTEL SpecConstantOp BufferPointerEXT Line
    CooperativeMatrixStoreTensorNV AliasDomainDeclINTEL AliasScopeDeclINTEL
    AliasScopeListDeclINTEL Load Store CopyMemory CopyMemorySized EnqueueKernel
    """.split()
)
"""Instructions whose operands are not values (labels, types, functions, alias scopes)."""


VALUES = {"Load": ("pointer",), "Store": ("pointer", "object"), "CopyMemory": ("target", "source")}
"""
Maps instructions that have values and other ids as operands to the operands that must be values.
"""


def _values_of(i: Instruction) -> Sequence[int]:
    if i.op == "FunctionCall":
        return i.words[4:]
    if i.op in VALUES:
        return [i.get(name) for name in VALUES[i.op]]
    if i.op in NOT_VALUES:
        return ()
    used = i.ids()
    return used[1:] if i.shape.has_type else used


@module_rule("ID-05", "2.16.1")
def values(m: Module) -> Problems:
    """A type, label or function must not be the operand of an instruction that needs a value."""
    definitions = m.definitions
    for i in m.instructions:
        op = i.op
        if op in SECTION or op.startswith("Type") or i.shape.entry is None:
            continue
        for id in _values_of(i):
            at = definitions.get(id)
            if (at is not None and not at.type_id) or (at is not None and at.op == "Function"):
                if at.op == "DecorationGroup" or id in i.named_types():
                    continue
                yield Problem(
                    f"{m.spell(id)} is the result of Op{at.op}, not a value", remedies.VALUE, i
                )


@module_rule("ID-06", "2.16.1")
def result_types(m: Module) -> Problems:
    """A result type must be a type."""
    for i in m.instructions:
        if i.type_id and i.type_id in m.definitions and i.type_id not in m.types:
            yield Problem(f"the result type {m.spell(i.type_id)} is not a type", remedies.TYPE, i)
        elif i.type_id and m.types.get(i.type_id) is not None:
            if m.types[i.type_id].kind == "Function":
                yield Problem("a result type cannot be a function type", "name a type of values", i)


@module_rule("ID-07", "2.3")
def bound(m: Module) -> Problems:
    """Every id must be below the id bound, which must be at most 4,194,303."""
    limit = m.raw.limits.id_bound
    if not 0 < m.header.bound <= limit:
        yield Problem(
            f"the id bound {m.header.bound} is out of range", f"use a bound from 1 to {limit}"
        )
    for i in m.instructions:
        if i.result >= m.header.bound:
            yield Problem(
                f"%{i.result} is not below the bound {m.header.bound}",
                f"raise the bound above {i.result}",
                i,
            )


def reached(function: Function) -> list[Block]:
    """Returns the blocks that control flow reaches from the entry block."""
    return function.flow.order if function.blocks else []
