"""Rules of the order of instructions (LAY) in the module's sections, functions and blocks."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.flow import MERGES, TERMINATORS
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import CONSTANTS, Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    declared_rule,
    instruction_rule,
    module_rule,
)

SECTIONS = (
    "Capability ConditionalCapabilityINTEL",
    "Extension ConditionalExtensionINTEL",
    "ExtInstImport",
    "MemoryModel SamplerImageAddressingModeNV",
    "EntryPoint ConditionalEntryPointINTEL",
    "ExecutionMode ExecutionModeId",
    "String Source SourceExtension SourceContinued",
    "Name MemberName",
    "ModuleProcessed",
    "Decorate MemberDecorate DecorationGroup GroupDecorate GroupMemberDecorate DecorateId "
    "DecorateString MemberDecorateString MemberDecorateIdEXT",
)
"""For each section before types, constants and global variables, its instructions (SPIR-V 2.4)."""

SECTION = {name: k for k, names in enumerate(SECTIONS) for name in names.split()}
DECLARATIONS = len(SECTIONS)
FUNCTIONS = DECLARATIONS + 1

BOTH = frozenset(
    {"Undef", "Variable", "UntypedVariableKHR", "ExtInst", "Line", "NoLine", "PoisonKHR"}
)
"""Instructions that may occur both among the declarations and in functions."""

GRAPHS = FUNCTIONS + 1
IN_GRAPHS = frozenset(
    "GraphEntryPointARM GraphARM GraphInputARM GraphSetOutputARM GraphEndARM".split()
)
"""Instructions of the section after the functions (SPV_ARM_graph)."""

NO_PLACE = frozenset({"ExtInstWithForwardRefsKHR"})


def section(i: Instruction) -> int:
    """
    Returns the index of the section that an instruction belongs to. The default is the section of
    functions.
    """
    op = i.op
    number = SECTION.get(op)
    if number is not None:
        return number
    if op in CONSTANTS or op.startswith("Type") or op in BOTH or op == "SpecConstantOp":
        return DECLARATIONS
    return GRAPHS if op in IN_GRAPHS else FUNCTIONS


@module_rule("LAY-01", "2.4")
def sections(m: Module) -> Problems:
    """Instructions must be in the order of the module's sections."""
    reached = 0
    for i in m.outside:
        op = i.op
        if op in NO_PLACE or i.shape.entry is None:
            continue
        here = section(i)
        if reached == GRAPHS and op == "CompositeExtract":
            continue
        if here < reached and op not in BOTH:
            yield Problem(
                f"Op{op} cannot follow an instruction of a later section",
                "move the instruction to its section (SPIR-V 2.4)",
                i,
            )
        elif here == FUNCTIONS:
            yield Problem(
                f"Op{op} is outside of a function", "move the instruction into a block", i
            )
        elif op in BOTH and reached < DECLARATIONS - 1 and op not in ("Line", "NoLine"):
            reached = DECLARATIONS
        reached = max(reached, here)
    started = bool(m.functions)
    first = m.functions[0].at.index if started else 0
    for i in m.instructions[first:] if started else ():
        here = section(i)
        if here < FUNCTIONS and i.op not in BOTH and i.op not in NO_PLACE:
            yield Problem(
                f"Op{i.op} cannot follow the start of a function",
                "move the instruction before the first OpFunction",
                i,
            )


@module_rule("LAY-02", "2.4")
def one_memory_model(m: Module) -> Problems:
    """A module must have exactly one OpMemoryModel."""
    if not m.memory_models:
        yield Problem(
            "the module has no OpMemoryModel", "add OpMemoryModel after the extensions and imports"
        )
    for i in m.memory_models[1:]:
        yield Problem("a module cannot have a second OpMemoryModel", "remove one of the two", i)


declared_rule(
    "LAY-03",
    "2.4",
    "A function consists of OpFunction, its parameters, its blocks and OpFunctionEnd.",
)
declared_rule("LAY-04", "2.4", "A block begins with OpLabel and ends with its only terminator.")
declared_rule("LAY-05", "2.4", "Functions without a body come before functions with a body.")


@module_rule("LAY-06", "2.4")
def functions(m: Module) -> Problems:
    """Every function must end with OpFunctionEnd."""
    yield from _FunctionOrder(m).problems()


class _FunctionOrder:
    """Finds instructions outside of functions or blocks, in one pass over the module."""

    def __init__(self, m: Module):
        self.m = m
        self.function: Instruction | None = None
        self.labels = 0
        self.in_block = False
        self.defined = False

    def problems(self) -> Iterator[Problem]:
        for i in self.m.instructions:
            if self.function is None and i.op not in ("Function", "FunctionEnd"):
                continue
            yield from self._step(i)
        if self.function is not None:
            yield Problem(
                "the function has no OpFunctionEnd",
                "add OpFunctionEnd after the last block",
                self.function,
            )

    def _step(self, i: Instruction) -> Iterator[Problem]:
        op = i.op
        if op == "Function":
            if self.function is not None:
                yield Problem(
                    "a function cannot start inside another function",
                    "put OpFunctionEnd before the second OpFunction",
                    i,
                )
            self.function, self.labels, self.in_block = i, 0, False
        elif op == "FunctionEnd":
            yield from self._end(i)
        elif op == "FunctionParameter":
            if self.labels:
                yield Problem(
                    "a parameter cannot follow a block",
                    "move the parameter after OpFunction",
                    i,
                    "LAY-03",
                )
        elif op == "Label":
            if self.in_block:
                yield Problem(
                    "the previous block has no terminator", remedies.END_OF_BLOCK, i, "LAY-04"
                )
            self.labels += 1
            self.in_block = True
        elif op in ("Line", "NoLine"):
            return
        elif not self.in_block:
            if self.labels and op == "ExtInst" and self._non_semantic(i):
                return  # spirv-opt writes debug information after a terminator.
            yield Problem(
                f"Op{op} is not in a block", "put OpLabel before the instruction", i, "LAY-04"
            )
        elif op in TERMINATORS:
            self.in_block = False

    def _non_semantic(self, i: Instruction) -> bool:
        return self.m.imports.get(i.get("set"), "").startswith("NonSemantic.")

    def _end(self, i: Instruction) -> Iterator[Problem]:
        if self.function is None:
            yield Problem(
                "OpFunctionEnd has no OpFunction", "remove the OpFunctionEnd", i, "LAY-03"
            )
            return
        if self.in_block:
            yield Problem("the last block has no terminator", remedies.END_OF_BLOCK, i, "LAY-04")
        if self.labels:
            self.defined = True
        elif self.defined:
            yield Problem(
                "a function without a body cannot follow a function with a body",
                "move functions without a body before functions with a body",
                self.function,
                "LAY-05",
            )
        self.function, self.in_block = None, False


VARIABLE_COMPANY = frozenset(
    {"Variable", "UntypedVariableKHR", "Line", "NoLine", "Undef", "Phi", "Nop"}
)


@instruction_rule("LAY-07", "2.4", "Variable UntypedVariableKHR")
def variables_first(m: Module, i: Instruction) -> Problems:
    """A function's variables must be the first instructions of its first block."""
    block = i.block
    if block is None:
        return
    if block.order:
        yield Problem(
            "the variable is not in the function's first block",
            "move the variable to the start of the first block",
        )
        return
    for other in block.instructions:
        if other is i:
            return
        if other.op not in VARIABLE_COMPANY:
            yield Problem(f"a variable cannot follow Op{other.op}", "move it to the block's start")
            return


@instruction_rule("LAY-08", "2.4", "Phi")
def phi_first(m: Module, i: Instruction) -> Problems:
    """OpPhi must come before all other instructions of its block."""
    if i.block is None:
        return
    if i.block.order == 0:
        yield Problem(
            "an OpPhi cannot be in the entry block",
            "remove the OpPhi, since the entry block has no predecessors",
        )
        return
    for other in i.block.instructions:
        if other is i:
            return
        if other.op not in ("Phi", "Line", "NoLine"):
            yield Problem(f"the OpPhi cannot follow Op{other.op}", "move it to the block's start")
            return


@instruction_rule("LAY-09", "2.11", "LoopMerge SelectionMerge")
def merge_second_to_last(m: Module, i: Instruction) -> Problems:
    """The terminator of a block must directly follow the block's merge instruction."""
    if i.block is None:
        return
    behind = [o for o in i.block.instructions if o.index > i.index]
    following = next(iter(behind), None)
    allowed = (
        ("Branch", "BranchConditional") if i.op == "LoopMerge" else ("BranchConditional", "Switch")
    )
    if following is None or following.op not in allowed:
        what = "nothing" if following is None else f"Op{following.op}"
        yield Problem(
            f"Op{i.op} cannot be followed by {what}",
            f"put Op{' or Op'.join(allowed)} directly after the merge instruction",
        )
    if any(o.op in MERGES and o is not i for o in i.block.instructions):
        yield Problem("a block cannot have two merge instructions", "remove one of the two")
