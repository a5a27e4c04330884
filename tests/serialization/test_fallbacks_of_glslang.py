"""Extension shaders compiled by glslang become valid for Vulkan 1.2 without the extension."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.passes.spirv.fallback.to_vulkan12 import ToVulkan12Pass
from xdsl_spirv.passes.spirv.specialize import specialize
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.tools import khronos

SHADERS: dict[str, dict[str, str]] = {
    "coop_benchmark": {"0": "64"},
    "coop_bfloat16": {},
    "coop_int8": {},
    "integer_dot": {},
    "rotate": {},
}
"""Shaders of `glsl/`, with the frozen values of their specialization constants."""


@pytest.mark.parametrize("name", SHADERS)
def test_no_instruction_of_the_extension_is_left(
    name: str, glsl_modules: dict[str, bytes], spirv_val: str
):
    if name not in glsl_modules:
        pytest.skip(f"this glslang cannot compile {name}.comp")
    module = decode(glsl_modules[name])
    assert module.vce_triple is not None
    assert module.vce_triple.extensions.data
    specialize(module, SHADERS[name], defaults=True)
    ToVulkan12Pass(subgroup_size=32).apply(context(), ModuleOp([module]))
    module.verify()
    assert not module.vce_triple.extensions.data
    assert khronos.spirv_val(encode(module), "vulkan1.2") == ""
