"""Graphs and TOSA survive text and binary round trips, for every operator of the grammar."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, f32
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError

import xdsl_spirv as xs
from xdsl_spirv.dialects.spirv import SPIRV, tosa
from xdsl_spirv.dialects.spirv.base import instruction_of
from xdsl_spirv.dialects.spirv.enums import AddressingModel, MemoryModel, StorageClass
from xdsl_spirv.dialects.spirv.graph_arm import GraphEntryPointOp, GraphOp, GraphOutputsOp
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp, ModuleOp
from xdsl_spirv.dialects.spirv.types import PointerType
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.grammar import grammar
from xdsl_spirv.passes.spirv.update_vce import update
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.serialization.validation import validate
from xdsl_spirv.tools import khronos

TOSA = "TOSA.001000.1"
OPERATORS = [SPIRV.operation(n) for n in SPIRV.names if n.startswith("spirv.Tosa.")]
TENSOR = TensorArmType([2, 3], f32)
VALUES: dict[str, Any] = {
    "axis": 1,
    "min_val": FloatAttr(-1.5, f32),
    "max_val": FloatAttr(float("inf"), f32),
    "acc_type": tosa.AccType.FP32,
    "nan_mode": tosa.NaNMode.Ignore,
    "rounding_mode": tosa.RoundingMode.DoubleRound,
    "mode": tosa.ResizeMode.Bilinear,
    **{name: [1, 0, 2] for name in tosa.VECTORS},
    **dict.fromkeys(tosa.FLAGS, True),
}


@cache
def every_operator() -> ModuleOp:
    """Returns a module with capabilities and a graph that contains every operator."""
    graph = GraphOp("g", ([TENSOR] * 5, [TENSOR]), entry_point=True)
    block = graph.body.block
    for cls in OPERATORS:
        assert issubclass(cls, tosa.TosaOp)
        count = 2 if cls is tosa.TosaConcatOp else len(cls.TENSORS)
        parameters = {name: VALUES[name] for name in cls.PARAMETERS}
        block.add_op(cls(block.args[:count], TENSOR, **parameters))
    last = block.last_op
    assert last is not None
    block.add_op(GraphOutputsOp(last.results))
    pointer = PointerType(TENSOR, StorageClass.UniformConstant)
    names = [f"v{k}" for k in range(6)]
    variables = [GlobalVariableOp(n, pointer, bind=(0, k)) for k, n in enumerate(names)]
    operations = [*variables, GraphEntryPointOp("g", names), graph]
    module = ModuleOp(operations, AddressingModel.Logical, MemoryModel.Vulkan)
    update(module)
    return module


def read(text: str) -> ModuleOp:
    (module,) = xs.parse(text).body.block.ops
    assert isinstance(module, ModuleOp)
    return module


def test_every_operator_of_the_grammar_is_an_operation():
    assert sorted(instruction_of(cls) for cls in OPERATORS) == sorted(
        (TOSA, name) for name in grammar().extended_names(TOSA)
    )


def test_operators_survive_text_and_binary():
    module = every_operator()
    module.verify()
    binary = encode(module)
    decoded, reread = decode(binary), read(str(module))
    assert encode(decoded) == encode(reread) == binary
    for other in (decoded, reread):
        pairs = zip(operators(module), operators(other), strict=True)
        for operator, again in pairs:
            assert type(again) is type(operator)
            assert again.properties == operator.properties
            assert again.operand_types == operator.operand_types


def operators(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if isinstance(op, tosa.TosaOp)]


def test_the_validators_accept_the_operators(spirv_val: str):
    binary = encode(every_operator())
    assert validate(binary, "vulkan1.3") == []
    assert not khronos.spirv_val(binary, "vulkan1.3")


CONSTANTS = """
spirv.module Logical Vulkan requires
    #spirv.vce<v1.6, [VulkanMemoryModel, Shader, Int8, TensorsARM, GraphARM],
               [SPV_ARM_tensors, SPV_ARM_graph]> {
  spirv.ARM.Graph @g(%x: !spirv.arm.tensor<1xi8>) -> !spirv.arm.tensor<2x2xf32> {
    %zero = spirv.Constant dense<0.0> : !spirv.arm.tensor<2x2xf32>
    %m = spirv.Constant dense<[[1.0, -2.0], [0.5, 0xFF800000]]> : !spirv.arm.tensor<2x2xf32>
    %b = spirv.Constant dense<[-1, 127]> : !spirv.arm.tensor<2xi8>
    %t = spirv.Constant dense<[true, false]> : !spirv.arm.tensor<2xi1>
    %c = spirv.ARM.GraphConstant {graph_constant_id = 7 : i32} : !spirv.arm.tensor<2x2xf32>
    %0 = spirv.Tosa.Add %zero, %m : !spirv.arm.tensor<2x2xf32>, !spirv.arm.tensor<2x2xf32>
        -> !spirv.arm.tensor<2x2xf32>
    %1 = spirv.Tosa.Add %0, %c : !spirv.arm.tensor<2x2xf32>, !spirv.arm.tensor<2x2xf32>
        -> !spirv.arm.tensor<2x2xf32>
    %2 = spirv.Tosa.Abs %b : !spirv.arm.tensor<2xi8> -> !spirv.arm.tensor<2xi8>
    %3 = spirv.Tosa.LogicalNot %t : !spirv.arm.tensor<2xi1> -> !spirv.arm.tensor<2xi1>
    spirv.ARM.GraphOutputs %1 : !spirv.arm.tensor<2x2xf32>
  }
}
"""


def test_constants_of_tensors_survive_the_binary():
    module = read(CONSTANTS)
    decoded = decode(encode(module))
    literals = [
        {
            (op.properties["value"].data.data, str(op.results[0].type))
            for op in m.walk()
            if op.name == "spirv.Constant"
            and isinstance(op.properties["value"], DenseIntOrFPElementsAttr)
        }
        for m in (module, decoded)
    ]
    assert literals[0] == literals[1]
    assert len(literals[0]) == 4


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        (
            "GraphOutputs %1 : !spirv.arm.tensor<2x2xf32>",
            "GraphOutputs %2 : !spirv.arm.tensor<2xi8>",
            "outputs are",
        ),
        ("%x: !spirv.arm.tensor<1xi8>", "%x: i8", "must be tensors"),
        ("%0, %c : !spirv.arm.tensor<2x2xf32>, ", "%0, %c : ", "2 tensors need 2 types"),
        ("dense<[-1, 127]>", "dense<[-1, 1, 2]>", "cannot be of type"),
        ("    spirv.ARM.GraphOutputs %1 : !spirv.arm.tensor<2x2xf32>", "", "is not a terminator"),
    ],
)
def test_faulty_graphs_are_refused(old: str, new: str, cause: str):
    assert old in CONSTANTS
    with pytest.raises((ParseError, ProgramError), match=cause):
        read(CONSTANTS.replace(old, new))


def test_attributes_of_inputs_are_refused():
    type, bound = "!spirv.arm.tensor<2xi8>", "{spirv.interface_var_abi = #spirv.interface_var_abi"
    module = parse_text(f"""
    spirv.module Logical Vulkan requires #spirv.vce<v1.5, [TensorsARM, GraphARM], []> {{
      spirv.ARM.Graph @g(%x: {type} {bound}<(0, 0)>}}) -> {type} {{
        spirv.ARM.GraphOutputs %x : {type}
      }}
    }}""")
    with pytest.raises(SPIRVEncodeError, match="bind variables with"):
        encode(find_module(module))
