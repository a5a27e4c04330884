"""
spirv-val accepts the version, capabilities and extensions that `spirv-update-vce` deduces, and
refuses the module if a part is missing.

The modules come from the FileCheck tests of the pass and of the rules of kind C.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.dialects.spirv.abi import VerCapExtAttr
from xdsl_spirv.dialects.spirv.enums import Capability
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.passes.spirv.update_vce import missing, update
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.tools import khronos

ROOT = Path(__file__).parents[3]
FILECHECK = ROOT / "tests" / "filecheck"
RULES = re.findall(r"^\| ([A-Z]+-\d+) \| C \|", (ROOT / "docs" / "rules.md").read_text(), re.M)
FILES = [
    *sorted(FILECHECK.glob("passes/update-vce*.mlir")),
    *(FILECHECK / "rules" / f"{rule.lower()}.mlir" for rule in RULES),
]

UNCHECKED = {
    Capability.DotProductInput4x8BitPacked: "spirv-val does not check integer dot products",
    Capability.DotProductInput4x8Bit: "spirv-val does not check integer dot products",
    Capability.DotProductInputAll: "spirv-val does not check integer dot products",
    Capability.StorageBuffer16BitAccess: "spirv-val is content with whatever allows the type",
    Capability.BFloat16DotProductKHR: "spirv-val does not check OpDot on bfloat16",
    Capability.VulkanMemoryModelDeviceScope: "spirv-val checks it in the Vulkan environment only",
}
"""Capabilities that a rule requires and spirv-val does not."""


def parse(text: str) -> ModuleOp:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(SPIRV)
    module = next(op for op in Parser(context, text).parse_module().ops)
    assert isinstance(module, ModuleOp)
    return module


def chunks() -> Iterator[object]:
    """Yields the modules that the pass accepts, by chunk of a file."""
    for file in FILES:
        for number, text in enumerate(file.read_text().split("// -----")):
            # A triple that the pass replaces completely, and one that the verifier refuses.
            if not re.search(r"// CHECK: CM-02", text):
                yield pytest.param(text, id=f"{file.stem}-{number}")


@pytest.mark.parametrize("text", list(chunks()))
def test_deduced_triple_validates(text: str, spirv_val: str) -> None:
    module = parse(text)
    update(module)
    module.verify()
    assert missing(module) is None
    assert khronos.spirv_val(encode(module), "spv1.6") == ""


@pytest.mark.parametrize("text", list(chunks()))
def test_every_deduced_capability_is_needed(text: str, spirv_val: str) -> None:
    module = parse(text)
    update(module)
    triple = module.vce_triple
    assert triple is not None
    capabilities = [c.data for c in triple.capabilities]
    for capability in capabilities:
        fewer = [c for c in capabilities if c is not capability]
        extensions = [e.data for e in triple.extensions]
        module.vce_triple = VerCapExtAttr(triple.version.data, fewer, extensions)
        assert missing(module) is not None, capability.name
        if khronos.spirv_val(encode(module), "spv1.6") == "":
            assert capability in UNCHECKED
