"""
Every fallback pass keeps what a kernel computes, and leaves nothing of the extension behind.

The kernels are the differential families': each runs on the interpreter before and after the pass,
which must agree exactly or within the interval that differential/legal.py allows; the result is
printed, parsed, encoded and validated for Vulkan 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.differential import Kernel, disagreements, generate, interpret, running
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
from xdsl_spirv.runtime.compiler import context, parse_text, text_of
from xdsl_spirv.serialization import khronos
from xdsl_spirv.serialization.encoder import encode
from xdsl_spirv.serialization.target import find_module


@dataclass(frozen=True)
class Fallback:
    """A pass, a family of kernels that needs it, and what must be gone after it."""

    passes: str
    family: str
    extension: str
    quick: int = 4
    many: int = 60
    subgroup_size: int = 8
    """Of the interpreter, after the passes; 8 before."""


MATRICES = "spirv-cooperative-matrix-to-invocations"
MATRIX = "SPV_KHR_cooperative_matrix"
FALLBACKS = [
    Fallback("spirv-rotate-to-shuffle", "rotate", "SPV_KHR_subgroup_rotate"),
    Fallback("spirv-dot-to-shifts", "dot", "SPV_KHR_integer_dot_product"),
    Fallback("spirv-bfloat16-to-bits", "bfloat16", "SPV_KHR_bfloat16"),
    Fallback(f"{MATRICES}{{subgroup-size=8}}", "muladd", MATRIX, 2, 40, 4),
    Fallback(f"{MATRICES}{{subgroup-size=8 subgroups=device}}", "muladd", MATRIX, 1, 40),
    Fallback(f"{MATRICES}{{subgroup-size=8}}", "cooperative", MATRIX, 2, 40, 32),
]


def cases() -> list[Any]:
    """(fallback, seed); the seeds beyond the first few are long."""
    return [
        pytest.param(each, seed, marks=[pytest.mark.long] * (seed >= each.quick),
                     id=f"{each.passes}-{each.family}-{seed}")
        for each in FALLBACKS
        for seed in range(each.many)
    ]  # fmt: skip


def lowered(kernel: Kernel, passes: str) -> tuple[ModuleOp, ModuleOp]:
    """The kernel's module as it is, and after the passes and a round through text."""
    ctx = context()
    before = parse_text(kernel.text(), ctx=ctx)
    UpdateVCEPass().apply(ctx, before)
    after = before.clone()
    known = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(known, f"{passes},spirv-update-vce{{version=1.5}}").apply(ctx, after)
    after = parse_text(text_of(after), ctx=ctx)
    after.verify()
    return find_module(before), find_module(after)


@pytest.mark.parametrize(("fallback", "seed"), cases())
def test_the_kernel_computes_the_same(
    fallback: Fallback, seed: int, spirv_val: str, monkeypatch: pytest.MonkeyPatch
):
    kernel = generate(seed, fallback.family)
    before, after = lowered(kernel, fallback.passes)
    triple = after.vce_triple
    assert triple is not None
    assert fallback.extension not in {e.data for e in triple.extensions}
    assert khronos.spirv_val(encode(after), "vulkan1.2") == ""
    expected = interpret(kernel, before)
    monkeypatch.setattr(running, "SUBGROUP", fallback.subgroup_size)
    found = disagreements(kernel, expected, interpret(kernel, after))
    assert not found, str(found[0])
