"""Implements `xdsl-spirv run --compare-layers`: finds the first layer whose result is wrong."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from xdsl_spirv.compare.bounds import warning
from xdsl_spirv.compare.layers import LayerComparison, compare_layers
from xdsl_spirv.compare.onnx_layers import Theirs
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.report import note_row
from xdsl_spirv.tools.running import executor


def compare(
    program: Program,
    inputs: Mapping[str, Array],
    arguments: argparse.Namespace,
    theirs: Theirs | None = None,
) -> int:
    """Compares layers with the reference in order. Returns 1 at the first wrong result."""
    compared: list[LayerComparison] = []
    with executor(arguments) as execute:
        for comparison in compare_layers(program, inputs, execute, arguments.target, theirs):
            compared.append(comparison)
            note_row("layers", _row(comparison))
            if not comparison.passed:
                print(comparison)
                print(f"{len(compared) - 1} earlier results agree; later layers were not run")
                return 1
    print(_summary(compared))
    first = next((comparison for comparison in compared if comparison.not_finite), None)
    if first is not None:
        print(
            f"layer {first.number} is the first whose result is not finite"
            f"{warning(first.not_finite)}"
        )
        print(f"  node:     {first.layer.name}\n  dispatch: {first.layer.computes}")
    return 0


def _row(comparison: LayerComparison) -> dict[str, object]:
    return {
        "number": comparison.number,
        "name": comparison.layer.name,
        "kernel": comparison.layer.entry_point,
        "path": comparison.layer.path,
        "tensor": comparison.tensor,
        "max_abs": comparison.max_abs,
        "share": comparison.share,
        "how": comparison.how,
        "place": comparison.place,
        "passed": comparison.passed,
        "not_finite": comparison.not_finite,
    }


def _summary(compared: list[LayerComparison]) -> str:
    if not compared:
        return "no layer has a result to compare"
    own = [comparison for comparison in compared if comparison.tensor is not None]
    compared = [comparison for comparison in compared if comparison.tensor is None]
    beside = ""
    if own:
        farthest = max(own, key=lambda comparison: comparison.share)
        beside = f"{len(own)} results agree with onnxruntime's; the largest error: {farthest}\n"
    estimates = sum(comparison.how == "estimate" for comparison in compared)
    worst = max(compared, key=lambda comparison: comparison.share)
    return beside + (
        f"{len(compared)} results of layers agree with the reference ({estimates} by "
        f"estimate, the others within their intervals); the largest error: {worst}"
    )
