"""Rules of debug information (DBG): the ids in names and line information."""

from __future__ import annotations

from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import Problem, Problems, instruction_rule


@instruction_rule("DBG-03", "3.49.2", "SourceContinued")
def continued(m: Module, i: Instruction) -> Problems:
    """OpSourceContinued must follow OpSource or OpSourceContinued."""
    before = m.instructions[i.index - 1].op if i.index else ""
    if before not in ("Source", "SourceContinued"):
        yield Problem(
            "OpSourceContinued does not follow OpSource", "put an OpSource before OpSourceContinued"
        )


@instruction_rule("DBG-01", "3.49.2", "Line Source")
def files(m: Module, i: Instruction) -> Problems:
    """The file of OpLine or OpSource must be an OpString."""
    id = i.get("file")
    if id and id in m.definitions and m.op_of(id) != "String":
        yield Problem(f"the file cannot be Op{m.op_of(id)} {m.spell(id)}", "name an OpString")


@instruction_rule("DBG-02", "3.49.2", "MemberName")
def member_names(m: Module, i: Instruction) -> Problems:
    """OpMemberName must name an existing member of a struct."""
    at = m.definitions.get(i.get("type"))
    if at is None:
        return
    if at.op != "TypeStruct":
        yield Problem(f"{m.spell(at.result)} is not a struct", "name an OpTypeStruct")
    elif i.get("member") >= len(at.words) - 2:
        yield Problem(f"the struct has no member {i.get('member')}", "use the index of a member")
