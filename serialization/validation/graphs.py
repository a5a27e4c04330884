"""
Rules of graphs (GRA): operands of TOSA are tensors, and inputs and outputs match the graph's type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from xdsl_spirv.dialects.spirv.base import EXTENDED_SETS
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import Type

SECTION = "SPV_ARM_graph"


def _graph_type(m: Module, graph: Instruction | None) -> tuple[list[int], list[int]] | None:
    type_ = None if graph is None or graph.op != "GraphARM" else m.definitions.get(graph.type_id)
    if type_ is None or type_.op != "TypeGraphARM" or len(type_.words) < 3:
        return None
    count, types = type_.words[2], type_.words[3:]
    return types[:count], types[count:]


@instruction_rule("GRA-01", SECTION, "GraphEntryPointARM")
def entry_points(m: Module, i: Instruction) -> Problems:
    """A graph's entry point must list a variable of the right type for each input and output."""
    parts = _graph_type(m, m.definitions.get(i.get("graph")))
    if parts is None:
        yield Problem(f"{m.spell(i.get('graph'))} is not a graph", "name an OpGraphARM")
        return
    types, interface = [*parts[0], *parts[1]], i.values("IdRef")[1:]
    if len(types) != len(interface):
        yield Problem(
            f"the interface has {len(interface)} variables, but the graph has {len(types)} inputs "
            "and outputs",
            "list a variable for each input, then for each output",
        )
        return
    for variable, type_ in zip(interface, types, strict=True):
        held = m.pointee(m.type_of(variable))
        if m.op_of(variable) != "Variable" or held is None or held.id != type_:
            yield Problem(
                f"{m.spell(variable)} is not a variable that holds {m.types.get(type_)}",
                "declare an OpVariable of the input's or output's type",
            )


def _graphs(m: Module) -> Iterator[tuple[Instruction, Sequence[Instruction]]]:
    graph: Instruction | None = None
    members: list[Instruction] = []
    for i in m.instructions:
        if i.op == "GraphARM":
            if graph is not None:
                yield graph, members
            graph, members = i, []
        elif i.op in ("GraphInputARM", "GraphSetOutputARM"):
            members.append(i)
        elif i.op == "GraphEndARM" and graph is not None:
            yield graph, [*members, i]
            graph, members = None, []
    if graph is not None:
        yield graph, members


@module_rule("GRA-02", SECTION)
def inputs_and_outputs(m: Module) -> Problems:
    """Inputs and outputs must match the graph's type, and each output must be set exactly once."""
    for graph, members in _graphs(m):
        parts = _graph_type(m, graph)
        if parts is None:
            yield Problem(
                "the result type is not an OpTypeGraphARM",
                "use a type that OpTypeGraphARM declares",
                graph,
            )
            continue
        if not members or members[-1].op != "GraphEndARM":
            yield Problem("the graph does not end", "end the graph with OpGraphEndARM", graph)
        set_: list[int] = []
        for i in members:
            if i.op == "GraphEndARM":
                continue
            is_input = i.op == "GraphInputARM"
            types = parts[0] if is_input else parts[1]
            number = m.integer(i.get("input_index" if is_input else "output_index"))
            given = i.type_id if is_input else i.get("value")
            if number is None or not 0 <= number < len(types):
                yield Problem(
                    f"the index {number} is out of range: the graph's type has only {len(types)}",
                    "count from 0",
                    i,
                )
                continue
            type_ = m.types.get(given) if is_input else m.type_of(given)
            if (type_ and type_.id) != types[number] and not i.rest("element_index"):
                yield Problem(
                    f"the type is {type_}, but the graph's type has {m.types.get(types[number])}",
                    "use the type that the graph's type gives",
                    i,
                )
            if not is_input and not i.rest("element_index"):
                set_.append(number)
        for number, times in groupby(sorted(set_)):
            if len(list(times)) > 1:
                yield Problem(f"output {number} cannot be set twice", "set it once", graph)
        for number in sorted({*range(len(parts[1]))} - {*set_}):
            yield Problem(f"output {number} is not set", "add OpGraphSetOutputARM", graph)


@instruction_rule("GRA-03", SECTION, "ExtInst")
def operators(m: Module, i: Instruction) -> Problems:
    """Operands of TOSA must be tensors, and constants where the operator requires constants."""
    if m.imports.get(i.get("set")) != EXTENDED_SETS["Tosa"] or i.read is None:
        return
    from xdsl_spirv.dialects.spirv.tosa import PARAMETERS
    from xdsl_spirv.grammar import grammar

    entry = grammar().by_extended_opcode(EXTENDED_SETS["Tosa"], i.words[4])
    if entry is None:
        return
    fields = [operand.field for operand in entry.operands]
    fields += fields[-1:] * (len(i.words) - 5 - len(fields))
    for field, id in zip(fields, i.words[5:], strict=False):
        if field in PARAMETERS and not m.is_constant(id):
            yield Problem(f"{field}, {m.spell(id)}, is not a constant", remedies.CONSTANT)
        type_ = m.type_of(id)
        if field not in PARAMETERS and (type_ is None or type_.kind != "TensorARM"):
            yield Problem(
                f"{field} has type {m.spell_type(id)}, which is not a tensor", "give a tensor"
            )


def tensor_shape(m: Module, type_: Type) -> list[int] | None:
    """Returns the extents of a tensor type. Returns None if they are unknown."""
    words = type_.at.words
    at = m.definitions.get(words[4]) if len(words) > 4 else None
    if at is None or at.op != "ConstantComposite":
        return None
    extents = [m.integer(id) for id in at.words[3:]]
    return None if None in extents else [extent for extent in extents if extent is not None]


def tensor_constant(m: Module, type_: Type, given: Sequence[int]) -> Problems:
    """
    Checks the constituents of a constant tensor: elements, or tensors of the inner dimensions.
    """
    shape = tensor_shape(m, type_)
    if not shape:
        # The shape may depend on specialization constants.
        if len(type_.at.words) < 5:
            yield Problem(f"{type_} has no shape", "use a tensor of known shape")
        return
    if len(given) != shape[0]:
        yield Problem(
            f"{type_} has {shape[0]} constituents, not {len(given)}",
            remedies.constituents(shape[0]),
        )
    for k, id in enumerate(given):
        held = m.type_of(id)
        if len(shape) == 1:
            fits = held is not None and held.id == type_.at.words[2]
        else:
            fits = held is not None and held.kind == "TensorARM"
            fits = fits and held is not None and held.at.words[2] == type_.at.words[2]
            fits = fits and held is not None and tensor_shape(m, held) in (shape[1:], None)
        if not fits:
            yield Problem(
                f"constituent {k} has type {m.spell_type(id)}, which is not a part of {type_}",
                "give an element, or a tensor without the first dimension",
            )
