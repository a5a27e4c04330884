"""`prove` proves kernels written in Python, with the names of their parameters."""

# pyright: reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv import kernels as k  # noqa: E402

FLAT = ("grid.y == 1", "grid.z == 1")


def shift(offset: int) -> k.Kernel:
    @k.kernel(workgroup=32)
    def shift(x=k.buffer(k.f32), n=k.push(k.u32), rows=k.push(k.u32)):
        i = k.global_id()
        with k.when(i < rows):
            x[i + offset] = x[i] * 2.0

    return shift


def test_a_proof_names_push_constants():
    result = shift(0).prove(*FLAT, "len(x) >= rows")
    assert result.verdict == "proved", result.lines
    assert result.offered == []
    assert str(result).startswith("proved, if the premises below are true\n")


def test_a_refutation_has_a_launch_and_a_line_of_python():
    result = shift(1).prove(*FLAT, "len(x) > rows", questions=["races"])
    assert result.verdict == "refuted", result.lines
    assert "rows = " in result.launch
    assert "x[i + offset] = x[i] * 2.0" in str(result)
