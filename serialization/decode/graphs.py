"""Decodes graphs (SPV_ARM_graph): inputs become arguments, and one terminator has all outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.spirv.graph_arm import GraphEntryPointOp, GraphOp, GraphOutputsOp
from xdsl_spirv.serialization.decode.instructions import InstructionDecoder
from xdsl_spirv.serialization.decode.values import Values
from xdsl_spirv.serialization.raw.operands import opcode_of

if TYPE_CHECKING:
    from xdsl_spirv.serialization.decode.functions import Module


def read_entry_points(module: Module, graphs: Sequence[GraphOp]) -> list[GraphEntryPointOp]:
    """Decodes all OpGraphEntryPointARM."""
    index, entry_points = module.index, list[GraphEntryPointOp]()
    opcode = opcode_of("OpGraphEntryPointARM")
    for row in np.flatnonzero(index.raw.opcodes == opcode).tolist():
        index.at = row
        graph, name, *interface = [operand.value for operand in index.raw[row].operands]
        symbol = module.globals.function(int(graph))
        variables = [module.globals.variable(int(variable)) for variable in interface]
        op = GraphEntryPointOp(symbol, variables)
        if symbol != name:
            op.attributes["entry_name"] = index.text(str(name))
        entry_points.append(op)
        for declared in graphs:
            if declared.sym_name.data == symbol:
                declared.entry_point = IntegerAttr.from_bool(True)
    return entry_points


def read_graph(module: Module, start: int) -> GraphOp:
    """Decodes the graph that begins at instruction `start`. Raises `SPIRVDecodeError`."""
    index = module.index
    index.at = start
    words = index.rows[start]
    declared = index.definitions.get(index.word(words, 1))
    if declared is None or index.name(declared) != "OpTypeGraphARM":
        raise index.error("a graph's type is not an OpTypeGraphARM")
    _, _, count, *types = index.rows[declared]
    if count > len(types):
        raise index.error(f"a graph's type has {len(types)} types, fewer than its {count} inputs")
    tensors = [module.types.type(t) for t in types]
    op = GraphOp(module.globals.function(index.word(words, 2)), (tensors[:count], tensors[count:]))
    end = opcode_of("OpGraphEndARM")
    stop = next((row for row in range(start, len(index.rows)) if index.opcodes[row] == end), None)
    if stop is None:
        raise index.error("the module ends inside a graph")
    _fill(module, op, range(start, stop))
    return op


def _fill(module: Module, op: GraphOp, span: range) -> None:
    index, values, block = module.index, Values(module, span), op.body.block
    instructions = InstructionDecoder(module, values)
    outputs: dict[int, SSAValue] = {}
    for row in span[1:]:
        index.at = row
        words, name = index.rows[row], index.name(row)
        if name == "OpGraphInputARM":
            place = _place(module, words, 3, len(block.args))
            values.define(index.word(words, 2), block.args[place])
        elif name == "OpGraphSetOutputARM":
            place = _place(module, words, 2, len(op.function_type.outputs))
            outputs[place] = values.value(words[1])
        else:
            instructions.read(row, block)
    values.finish()
    missing = set(range(len(op.function_type.outputs))) - outputs.keys()
    if missing:
        raise index.error(f"the graph does not set its output {min(missing)}")
    block.add_op(GraphOutputsOp([outputs[place] for place in sorted(outputs)]))
    first = block.first_op
    assert first is not None
    block.insert_ops_before(values.first, first)


def _place(module: Module, words: Sequence[int], at: int, count: int) -> int:
    number = module.globals.constant(module.index.word(words, at))
    if len(words) > at + 1:
        raise module.index.error("arrays of a graph's inputs or outputs are not supported")
    if number is None or not 0 <= number < count:
        raise module.index.error(
            f"the number of the graph's input or output must be a constant below {count}"
        )
    return number
