"""
Lists known differences to the verdict of `spirv-val`, with reasons: docs/validation.md shows the
table.

A row is a rule of ours that spirv-val does not check, or a part of a message of spirv-val for which
there is no rule here. Any other difference is assumed to be our bug.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """One known difference."""

    rule: str
    """Our rule, or empty."""
    part: str
    """A part of our finding's cause, or of spirv-val's message."""
    reason: str
    outside_vulkan: bool = False
    """True if there is a difference only in the environment of SPIR-V alone."""


NEVER = "spirv-val does not check it"
OLD = "spirv-val checks it from 2026 on, not in 2025.5"

STAGES = "only rules that other stages share with compute are checked"
LAYOUT = "spirv-val 2026.4 checks explicit layouts in Vulkan's environments only"

REFUSED_HERE: tuple[Difference, ...] = (
    Difference("ATO-01", "there are no atomics of", NEVER),
    Difference("BF-09", "no group operation", "spirv-val lets vectors of bfloat16 through"),
    Difference(
        "CM-01", "needs the extension", "spirv-val requires no extension of implied capabilities"
    ),
    Difference("CM-05", "", "spirv-val does not look at the width of Rows, Columns and Use"),
    Difference("CM-06", "", "spirv-val accepts any number as Use"),
    Difference("CM-10", "does not point into an array", NEVER),
    Difference("CM-11", "", "spirv-val accepts unknown layouts, and other widths"),
    Difference("CM-12", "", NEVER),
    Difference("CM-17", "", "spirv-val lets a type that CM-05 or CM-06 refuses through"),
    Difference("CM-19", "a bitcast of", NEVER),
    Difference("CM-20", "the use of the result", NEVER),
    Difference("CM-20", "is a cooperative matrix, not", "spirv-val does not know the type's Use"),
    Difference("CM-21", "", NEVER),
    Difference("DOT-09", "", "spirv-val lets a difference in signedness through"),
    Difference("DOT-12", "", NEVER),
    Difference("DOT-13", "", "spirv-val lets a difference in signedness through"),
    Difference("CAP-03", "", "spirv-val takes Int8, Int16 or Float16 for the storage capability"),
    Difference("FUN-01", "parameters, but", "spirv-val lets missing parameters through"),
    *(Difference(f"BLK-0{k}", "", LAYOUT, outside_vulkan=True) for k in range(1, 7)),
    Difference("CM-10", "the pointer is to", NEVER),
    Difference("MEM-02", "a variable holds void", NEVER),
    Difference("BLK-04", "in the padding of member", "spirv-val accepts it behind matrices"),
    Difference("BLK-04", "the ArrayStride", "2026.4 accepts it, as with scalarBlockLayout"),
    Difference("CON-02", "is not a composite type", NEVER),
    Difference("CON-02", "is a specialization constant", NEVER),
    Difference("GRM-01", "ends in other bytes", "SPIR-V 2.2.1 asks for zeros behind a string"),
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
    Difference("LAY-04", "OpExtInst is", "spirv-val lets some debug information through"),
    Difference("DOT-03", "", OLD),
    Difference("DOT-04", "", OLD),
    Difference("DOT-05", "", OLD),
    Difference("DOT-07", "", OLD),
    Difference("DOT-08", "", OLD),
    Difference("DOT-10", "", OLD),
    Difference("DOT-11", "", OLD),
    Difference("ID-06", "is a function type", "spirv-val lets debug information have one"),
    Difference("EXS-03", "", "spirv-val checks debug information that it knows"),
    Difference("IMG-05", "float16", OLD),
    Difference("VUL-14", "the format", OLD),
    Difference("VUL-15", "", OLD),
    Difference("MOD-08", "of GLCompute", "spirv-val 2026.4 lets kernels have derivatives"),
    Difference("VUL-09", "", OLD),
    Difference("LAY-01", "OpNop stands", OLD),
    Difference("DEC-01", "Offset is not for", OLD),
    Difference("DEC-03", "by a group", NEVER),
    Difference("DEC-06", "takes no string", NEVER),
    Difference("GRP-02", "ClusterSize", "spirv-val checks the size of a rotation only"),
    Difference("SCO-03", "unknown bits", NEVER),
    Difference("TYP-02", "Signedness is 0 or 1", NEVER),
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
    """Returns the reason for a difference that is in the table; None for any other."""
    for difference in REFUSED_HERE if rule else ACCEPTED_HERE:
        if difference.outside_vulkan and environment.startswith("vulkan"):
            continue
        if difference.rule == rule and difference.part in text:
            return difference.reason
    return None
