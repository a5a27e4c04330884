"""
What Khronos' grammar leaves out: which rule asks for an extension, and the version it is for.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl_spirv.grammar import Version

RULES: Mapping[str, str] = {
    "BFloat16CooperativeMatrixKHR": "BF-03",
    "BFloat16DotProductKHR": "BF-02",
    "BFloat16TypeKHR": "BF-01",
    "CooperativeMatrixKHR": "CM-01",
    "DotProduct": "DOT-02",
    "DotProductInput4x8Bit": "DOT-04",
    "DotProductInput4x8BitPacked": "DOT-03",
    "DotProductInputAll": "DOT-05",
    "GroupNonUniformRotateKHR": "ROT-01",
    "SPV_KHR_bfloat16": "BF-01",
    "SPV_KHR_cooperative_matrix": "CM-01",
    "SPV_KHR_integer_dot_product": "DOT-01",
    "SPV_KHR_subgroup_rotate": "ROT-01",
}
"""Capability or extension -> the rule of docs/rules.md that asks for it."""

WRITTEN_FOR: Mapping[str, Version] = {
    "SPV_KHR_cooperative_matrix": (1, 6),
    "SPV_KHR_subgroup_rotate": (1, 3),
    "SPV_NV_cooperative_matrix2": (1, 6),
}
"""Versions that extensions are written against. Compilers use them below, and drivers take it."""
