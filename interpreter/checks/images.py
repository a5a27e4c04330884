"""Checks image accesses: undefined coordinates and values, bounds, and races on texels."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.memory import PlainAccess
from xdsl_spirv.interpreter.checks.shadow import Shadow
from xdsl_spirv.interpreter.checks.variables import address, label_of
from xdsl_spirv.interpreter.forms import Mask, within
from xdsl_spirv.interpreter.memory import Memory
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv.image import Read, TexelAccess, Write, describe
from xdsl_spirv.interpreter.spirv.image_sampling import Sample

ACCESSES: dict[str, type[Any]] = {
    "OpImageRead": Read,
    "OpImageFetch": Read,
    "OpImageWrite": Write,
    "OpImageSampleExplicitLod": Sample,
}
"""Image instruction -> the class that builds its function, given a `TexelAccess`."""


class CheckedTexels(TexelAccess):
    """Accesses texels, reports coordinates outside the image, and records accesses."""

    def __init__(self, op: RawOp, compiler: CheckedCompiler):
        self.op, self.checker = op, compiler.checker
        self.plain = PlainAccess(compiler.checker, op)
        self.load, self.store = self.plain.load, self.plain.store

    def leave_out(
        self, image: Memory, outside: Array, mask: Mask, coordinates: Array, write: bool
    ) -> None:
        """
        Reports lanes that access texels outside the image. Accesses outside a robust image are
        allowed.
        """
        if not self.checker.checks.bounds:
            super().leave_out(image, outside, mask, coordinates, write)
            return
        if image.robust:
            return
        stated = describe(image)
        layers = f", {stated.layers} layers" if stated.layers > 1 else ""
        size = " x ".join(map(str, stated.size))
        self.checker.find_active(
            "BOUNDS-05" if write else "BOUNDS-01",
            self.op,
            f"{'a store' if write else 'a load'} outside {image.label} of {size} texels{layers}",
            outside,
            mask,
            values={"texel": coordinates},
            remedy=(
                "Vulkan drops the store: guard it by a comparison with imageSize, or allow the rule"
            )
            if write
            else "compare the coordinates with the image's size",
        )


@checked(*ACCESSES)
def texels(op: RawOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks an image access: coordinates and stored values must be defined."""
    access = CheckedTexels(op, compiler)
    call = ACCESSES[op.instruction.data](op, compiler.context, access)
    checker = compiler.checker

    def run(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        stored = 2 if call.__class__ is Write else None
        access.plain.astray = None
        for number, shadow in enumerate(shadows):
            if shadow is None:
                continue
            if number == stored:
                what = f"the value stored to {label_of(values[0])}"
                checker.find_undefined(op, what, shadow, batch.mask, checker.form(op, number))
                continue
            lanes = np.asarray(shadow)
            lanes = lanes.max(axis=tuple(range(3, lanes.ndim))) if lanes.ndim > 3 else lanes
            astray = address(compiler, op, lanes, batch.mask)
            if astray is not None:
                before = access.plain.astray
                access.plain.astray = astray if before is None else before | astray
        outer = batch.mask
        if access.plain.astray is not None:
            batch.mask = within(outer, ~access.plain.astray)
        result = call(batch, *values)
        batch.mask = outer
        access.plain.shadows.clear()
        return result, None

    return run
