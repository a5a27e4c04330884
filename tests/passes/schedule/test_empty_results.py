"""
Empty results, and tiles too large for any device, are refused quickly.

Covers: schedule/contraction_candidates.
"""

from __future__ import annotations

import pytest
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.tools.tune import SOURCE

TARGETS = ["lavapipe", "nvidia-h200", "qualcomm-adreno"]


def matmul(m: int, n: int, k: int) -> str:
    return SOURCE.format(m=m, n=n, k=k, a="f16", b="f16", c="f32", zero="0.0")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "k"), [(0, 40), (8, 0)])
def test_an_empty_operand_is_refused(n: int, k: int, target: str):
    with pytest.raises(ProgramError, match=r"has no elements .*remove the operation"):
        compile_module(parse_text(matmul(24, n, k)), target)


def test_a_tile_of_billions_of_fragments_is_refused():
    schedule = (
        f"#schedule.contraction<workgroup_tile = [8, {1 << 32}, 64], subgroups = [1, 1, 4], "
        "instruction = coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = direct<ahead = 2>>"
    )
    ctx = context()
    text = matmul(8, 1 << 32, 128).replace(
        "linalg.matmul", f"linalg.matmul {{schedule = {schedule}}}"
    )
    passes = Universe.get_multiverse().all_passes
    pipeline = "linalg-to-contraction,form-dispatches,assign-schedule{target=lavapipe}"
    with pytest.raises(PassFailedException, match="at most 134217728"):
        PassPipeline.parse_spec(passes, pipeline).apply(ctx, parse_text(text, "text", ctx))
