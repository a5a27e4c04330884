"""Suggests changes of the model or of the options that would make a model faster on a target."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from importlib.util import find_spec

from xdsl_spirv.passes.schedule.paths import COOPERATIVE_MATRIX, FMA
from xdsl_spirv.targets import Target, TargetError, load
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData
from xdsl_spirv.tools.roofline import roofline

IN_F32 = "f32 x f32 -> f32"
IN_F16 = "f16 x f16 -> f32"

WORTH = 1.2
"""Smallest speedup that is worth a suggestion, as a factor."""

LEADING_SIZES = re.compile(r"(?:\d+x)*")
"""Regular expression for the leading sizes of a buffer's type, such as `256x3x`."""


def advice_of(explanation: ExplanationData) -> list[str]:
    """Returns sentences of advice, each with the command to run; empty if no advice is known."""
    try:
        target = load(explanation.target)
    except TargetError:
        return []
    return list(filter(None, [_in_f16(explanation, target)]))


def _in_f16(explanation: ExplanationData, target: Target) -> str | None:
    """Suggests f16 if the target has cooperative matrices for f16 and the model multiplies f32."""
    products = [e for e in explanation.layers if " x " in e.layer.types]
    slow = [e for e in products if e.layer.types == IN_F32 and e.layer.path == FMA]
    if not slow or target.properties_for(("f32", "f32", "f32")):
        return None
    if not target.properties_for(("f16", "f16", "f32")):
        return None
    times = _times(slow, target)
    if times is not None and times < WORTH:
        return None
    faster = "" if times is None else f", {times:.1f} times the roofline speed of these layers"
    command = "convert the model"
    if explanation.model.endswith(".onnx"):
        command = _conversion(explanation)
    return (
        f"{len(slow)} of {len(products)} products multiply f32 on the path {FMA}, because "
        f"{target.name} has no cooperative matrices for f32; it has them for f16{faster}: {command}"
    )


def _conversion(explanation: ExplanationData) -> str:
    """Returns the shell command that converts the model, with this program's input sizes or 1."""
    from xdsl_spirv.frontends.errors import FrontendError
    from xdsl_spirv.frontends.onnx_file import open_dimensions, read_model

    path = explanation.model
    try:
        dimensions = open_dimensions(read_model(path)[0])
    except FrontendError:
        dimensions = {}
    sizes = {
        f"{b.name}.{position}": size
        for b in explanation.buffers
        for position, size in enumerate(LEADING_SIZES.match(b.type)[0].split("x")[:-1])  # pyright: ignore
    }
    options = "".join(
        f" --dim {shlex.quote(f'{name}={next((sizes[p] for p in places if p in sizes), 1)}')}"
        for name, places in dimensions.items()
    )
    missing = [n for n in ("onnxconverter_common", "onnxruntime") if find_spec(n) is None]
    install = "pip install 'xdsl-spirv[convert]' && " if missing else ""
    return f"{install}xdsl-spirv convert {shlex.quote(path)} --to f16{options} -o half.onnx"


def _times(slow: list[ExplainedLayer], target: Target) -> float | None:
    """
    Returns the speedup of products in f16 that rooflines predict, or None if a roofline is unknown.
    """
    before, after = 0.0, 0.0
    for entry in slow:
        layer = entry.layer
        in_f16 = replace(
            layer,
            path=COOPERATIVE_MATRIX,
            types=IN_F16,
            bytes=None if layer.bytes is None else layer.bytes // 2,
        )
        line = roofline(in_f16, target).seconds
        if entry.roofline_seconds is None or line is None:
            return None
        before += entry.roofline_seconds
        after += line
    return before / after if after else None
