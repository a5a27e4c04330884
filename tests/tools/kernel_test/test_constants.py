"""Values of specialization constants are read and rounded according to their types."""

from __future__ import annotations

import pytest

from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.validation.environment import ENVIRONMENTS
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.tools.kernel_test.constants import Constants
from xdsl_spirv.tools.kernel_test.description import Misuse

HEAD = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpName %c "c"
OpDecorate %c SpecId 3
"""


def module(declarations: str) -> Module:
    return Module(decode(assemble(HEAD + declarations).encode()), ENVIRONMENTS["vulkan1.3"])


@pytest.mark.parametrize(
    ("type_", "literal", "scalar", "default"),
    [
        ("OpTypeFloat 16 BFloat16KHR", "1.5", "bf16", 1.5),
        ("OpTypeFloat 16", "1.5", "f16", 1.5),
        ("OpTypeFloat 32", "0.1", "f32", 0.10000000149011612),
        ("OpTypeInt 16 1", "-7", "i16", -7),
    ],
)
def test_a_default_is_read_as_its_type_says(type_: str, literal: str, scalar: str, default: float):
    (constant,) = Constants(
        module(f"%t = {type_}\n%c = OpSpecConstant %t {literal}"), {}
    ).specialized
    assert (constant.id, constant.name) == (3, "c")
    assert (constant.scalar, constant.default) == (scalar, default)


def test_a_value_is_rounded_to_its_type():
    bfloat16 = module("%t = OpTypeFloat 16 BFloat16KHR\n%c = OpSpecConstant %t 1.5")
    assert Constants(bfloat16, {"c": 1.01}).values == {3: 1.0078125}
    assert Constants(bfloat16, {"c": 2.0**100}).values == {3: 2.0**100}
    half = module("%t = OpTypeFloat 16\n%c = OpSpecConstant %t 1.5")
    assert Constants(half, {"3": 0.1}).values == {3: 0.0999755859375}
    with pytest.raises(Misuse, match="f16"):
        Constants(half, {"c": 2.0**100})


def test_floats_of_8_bits_are_refused_by_name():
    small = module("%t = OpTypeFloat 8 Float8E4M3EXT\n%c = OpSpecConstant %t 1.5")
    with pytest.raises(Misuse, match="Float8E4M3EXT"):
        _ = Constants(small, {}).specialized
