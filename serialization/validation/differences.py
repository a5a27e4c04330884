"""
Lists known differences from the verdicts of `spirv-val`, with reasons. docs/validation.md has the
table.

A difference is a rule that spirv-val does not check, or a message of spirv-val that no rule of
this validator matches. Any other difference counts as a bug of this validator.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """One known difference."""

    rule: str
    """
    The id of this validator's rule. Empty if spirv-val reports a message that has no rule here.
    """
    part: str
    """Text that the finding's cause, or spirv-val's message, must contain."""
    reason: str
    outside_vulkan: bool = False
    """True if the verdicts differ only in environments without Vulkan."""


NEVER = "spirv-val does not check it"
OLD = "spirv-val checks it from 2026 on, not in 2025.5"

STAGES = "only rules that apply to compute shaders are checked"
LAYOUT = "spirv-val 2026.4 checks explicit layouts in Vulkan's environments only"

REFUSED_HERE: tuple[Difference, ...] = (
    Difference("ATO-01", "there are no atomics of", NEVER),
    Difference("BF-09", "group operations do not support", "spirv-val accepts vectors of bfloat16"),
    Difference(
        "CM-01", "needs the extension", "spirv-val requires no extension of implied capabilities"
    ),
    Difference("CM-05", "", "spirv-val does not look at the width of Rows, Columns and Use"),
    Difference("CM-06", "", "spirv-val accepts any number as Use"),
    Difference("CM-10", "does not point into an array", NEVER),
    Difference("CM-11", "", "spirv-val accepts unknown layouts, and other widths"),
    Difference("CM-12", "", NEVER),
    Difference("CM-17", "", "spirv-val accepts a type that breaks CM-05 or CM-06"),
    Difference("CM-19", "a bitcast of", NEVER),
    Difference("CM-20", "the use of the result", NEVER),
    Difference(
        "CM-20", "must be a cooperative matrix, not", "spirv-val does not know the type's Use"
    ),
    Difference("CM-21", "", NEVER),
    Difference("DOT-09", "", "spirv-val accepts a difference in signedness"),
    Difference("DOT-12", "", NEVER),
    Difference("DOT-13", "", "spirv-val accepts a difference in signedness"),
    Difference("CAP-03", "", "spirv-val accepts Int8, Int16 or Float16 as the storage capability"),
    Difference("FUN-01", "parameters, but", "spirv-val accepts missing parameters"),
    *(Difference(f"BLK-0{k}", "", LAYOUT, outside_vulkan=True) for k in range(1, 7)),
    Difference("CM-10", "the pointer cannot point to", NEVER),
    Difference("MEM-02", "a variable cannot hold void", NEVER),
    Difference(
        "BLK-04", "be in the padding of member", "spirv-val accepts such padding after matrices"
    ),
    Difference(
        "BLK-04",
        "the ArrayStride",
        "spirv-val 2026.4 accepts the layout, as with scalarBlockLayout",
    ),
    Difference("CON-02", "is not a composite type", NEVER),
    Difference("CON-02", "cannot be a specialization constant", NEVER),
    Difference("GRM-01", "nonzero bytes after", "SPIR-V 2.2.1 requires zeros after a string"),
    Difference(
        "GRM-01",
        "the instruction ends after",
        "2025.5 does not count operands of debug information",
    ),
    Difference("TYP-02", "as BFloat16KHR", NEVER),
    Difference("CFG-02", "same literal", NEVER),
    Difference("CMP-11", "", OLD),
    Difference("GRA-03", "", "spirv-val does not look at the operands of TOSA"),
    Difference("CON-04", "", OLD),
    Difference("DBG-03", "", OLD),
    Difference(
        "CM-02",
        "declares CooperativeMatrixKHR without",
        "spirv-val accepts matrices of bfloat16 and float8",
    ),
    Difference("LAY-04", "OpExtInst is", "spirv-val accepts some debug information"),
    Difference("DOT-03", "", OLD),
    Difference("DOT-04", "", OLD),
    Difference("DOT-05", "", OLD),
    Difference("DOT-07", "", OLD),
    Difference("DOT-08", "", OLD),
    Difference("DOT-10", "", OLD),
    Difference("DOT-11", "", OLD),
    Difference("ID-06", "cannot be a function type", "spirv-val lets debug information have one"),
    Difference("EXS-03", "", "spirv-val checks the debug information of known sets"),
    Difference("IMG-05", "float16", OLD),
    Difference("VUL-14", "the format", OLD),
    Difference("VUL-15", "", OLD),
    Difference("MOD-08", "in GLCompute", "spirv-val 2026.4 accepts derivatives in kernels"),
    Difference("VUL-09", "", OLD),
    Difference("LAY-01", "OpNop is outside", OLD),
    Difference("DEC-01", "Offset is not allowed on", OLD),
    Difference("DEC-03", "by a group", NEVER),
    Difference("DEC-06", "takes no string", NEVER),
    Difference("GRP-02", "ClusterSize", "spirv-val only checks the cluster size of a rotation"),
    Difference("SCO-03", "unknown bits", NEVER),
    Difference("TYP-02", "Signedness must be 0 or 1", NEVER),
)

ACCEPTED_HERE: tuple[Difference, ...] = (
    Difference("", "NonSemantic.Shader.DebugInfo", "debug information is not checked here"),
    Difference(
        "",
        "Cooperative matrix type must be",
        "a Use by specialization constant is not checked here",
    ),
    Difference("", "BitcastExtractEXT", "newer relatives of SPV_EXT_float8 are not checked here"),
    Difference("", "debug info extension", "debug information is not checked here"),
    Difference("", "Geometry execution model", STAGES),
    Difference("", "PixelCenterInteger", STAGES),
    Difference("", "SampleMask", STAGES),
    Difference("", "location assignment", STAGES),
    Difference("", "Location-0", STAGES),
    Difference("", "Component-0", STAGES),
    Difference("", "FragDepth", STAGES),
    Difference("", "When BuiltIn decoration is applied to a structure", STAGES),
    Difference("", "Debug info extension", "debug information is not checked here"),
    Difference("", "Invalid source language", "languages are not checked here"),
    Difference("", "Invalid capability operand", "spirv-val 2025.5 does not know the capability"),
    Difference("", "Invalid loop control operand", "spirv-val 2025.5 does not know the bit"),
    Difference("", "expected no more operands", "2025.5 has an older form of the instruction"),
    Difference("", "loop controls must not both", "loop controls are hints, not checked here"),
    Difference("", "is not allowed by Vulkan", "not all capabilities are checked here"),
    Difference("", "SPV_INTEL_split_barr", "2025.5 requires an extension that was dropped"),
    Difference("", "with ScopeWorkgroup used without", "checked for compute entry points only"),
    Difference("", "OpExtInstWithForwardRefsKHR", "2025.5 accepts no forward references in it"),
    Difference("", "words of data", "the length of OpConstantDataKHR is not checked here"),
    Difference("", "Message Type operand", "OpAbortKHR's message is not checked here"),
    Difference("", "Index decoration", STAGES),
    Difference("", "CooperativeVector", "operands of NV cooperative vectors are not checked"),
    Difference("", "TensorNV", "operands of NV tensor addressing are not checked"),
    Difference("", "raph", "the contents of an SPV_ARM_graph are not checked here"),
    Difference("", "Coordinate to be int scalar", "2025.5 accepts no floats in a write"),
    Difference("", "TensorLayout", "operands of NV tensor addressing are not checked"),
    Difference("", "TensorView", "operands of NV tensor addressing are not checked"),
    Difference("", "CacheControl", "each cache level has a decoration; 2025.5 accepts only one"),
    Difference("", "8- or 16-bit result\n  OpName", "a name is not a use of a narrow value"),
)


def known_difference(rule: str, text: str, environment: str = "") -> str | None:
    """Returns the reason for a difference if it is in the tables, otherwise None."""
    for difference in REFUSED_HERE if rule else ACCEPTED_HERE:
        if difference.outside_vulkan and environment.startswith("vulkan"):
            continue
        if difference.rule == rule and difference.part in text:
            return difference.reason
    return None
