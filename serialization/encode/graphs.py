"""
Encodes graphs (SPV_ARM_graph): one instruction per operator between OpGraphARM and OpGraphEndARM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.graph_arm import GraphEntryPointOp, GraphOp
from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.encode.operations import encoder_of
from xdsl_spirv.serialization.raw.words import Section, instruction, string_words

if TYPE_CHECKING:
    from xdsl_spirv.serialization.encode.encoder import ModuleEncoder


def write_graph(module: ModuleEncoder, op: Operation) -> None:
    """Encodes a graph or a graph's entry point."""
    if isinstance(op, GraphEntryPointOp):
        given = op.attributes.get("entry_name")
        called = given.data if isinstance(given, StringAttr) else op.fn.string_value()
        variables = [module.symbol(name.string_value(), op) for name in op.interface]
        graph = module.symbol(op.fn.string_value(), op)
        operands = [graph, *string_words(called), *variables]
        _add(module, Section.GRAPH_ENTRY_POINTS, "OpGraphEntryPointARM", operands)
        return
    assert isinstance(op, GraphOp)
    if op.arg_attrs is not None or op.res_attrs is not None:
        raise SPIRVEncodeError(
            "SPIR-V has no attributes of a graph's inputs and outputs; remove arg_attrs and "
            "res_attrs, and bind variables with spirv.ARM.GraphEntryPoint",
            op,
        )
    inputs, outputs = op.function_type.inputs.data, op.function_type.outputs.data
    types = [module.type(t, op) for t in (*inputs, *outputs)]
    declare = module.declarations.declare
    graph_type = declare("OpTypeGraphARM", None, [len(inputs), *types])[0]
    _add(module, Section.GRAPHS, "OpGraphARM", [graph_type, module.symbol(op.sym_name.data, op)])
    for index, argument in enumerate(op.body.block.args):
        operands = [types[index], module.value(argument), module.constants.integer(index)]
        _add(module, Section.GRAPHS, "OpGraphInputARM", operands)
    for inner in op.body.block.ops:
        if inner.name == "spirv.ARM.GraphOutputs":
            for index, value in enumerate(inner.operands):
                operands = [module.value(value), module.constants.integer(index)]
                _add(module, Section.GRAPHS, "OpGraphSetOutputARM", operands)
        elif inner.regions:
            raise SPIRVEncodeError("a graph can contain only operators without regions", inner)
        elif not module.is_declaration(inner):
            module.words.sections[Section.GRAPHS] += encoder_of(inner)(module, inner)
    _add(module, Section.GRAPHS, "OpGraphEndARM", [])


def _add(module: ModuleEncoder, section: Section, name: str, operands: list[int]) -> None:
    opcode = grammar().instruction(name).opcode
    module.words.sections[section] += instruction(opcode, operands)
