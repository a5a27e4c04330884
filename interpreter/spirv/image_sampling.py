"""Samples images at explicit levels of detail, as Vulkan defines image operations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv.enums import Dim
from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.images import BORDERS, Sampler
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, within
from xdsl_spirv.interpreter.memory import Memory, Pointer, by_case
from xdsl_spirv.interpreter.numbers import F32, I64, Array
from xdsl_spirv.interpreter.semantics import Function, action
from xdsl_spirv.interpreter.spirv.image import (
    TexelAccess,
    Texels,
    extents,
    operands_of,
    parts_of,
    take_components,
    where,
)


def wrap(index: Array, size: Array, mode: str) -> tuple[Array, Array]:
    """
    Applies the address mode `mode` to indices outside of an image. Returns the texel indices, and a
    mask of the indices for which the border color is used instead.
    """
    outside = (index < 0) | (index >= size)
    nowhere = np.zeros_like(outside)
    match mode:
        case "repeat":
            return index % size, nowhere
        case "mirrored_repeat":
            turned = index % (2 * size)
            return np.where(turned >= size, 2 * size - 1 - turned, turned), nowhere
        case "clamp_to_border":
            return np.clip(index, 0, size - 1), outside
        case "mirror_clamp_to_edge":
            index = np.where(index < 0, -1 - index, index)
        case _:
            pass
    return np.clip(index, 0, size - 1), nowhere


class Sample:
    """Executes OpImageSampleExplicitLod."""

    def __init__(self, op: RawOp, context: Context, access: TexelAccess | None = None):
        self.texels = Texels(op.arguments[0].type, context, access or TexelAccess())
        assert op.result is not None
        self.form = context.plain(op.result.type)
        self.operands = operands_of(op)
        if self.texels.type.dim.data is Dim.Cube:
            raise InterpreterError("sampling of cubes is not supported", op)

    def __call__(self, batch: Batch, combined: Any, coordinates: Array, *values: Array) -> Array:
        image, sampler = parts_of(combined)
        given: dict[str, Sequence[Array]] = {
            name: values[at - 2 :] for name, at in self.operands.items()
        }

        def of_image(texels: Pointer, lanes: Mask) -> Array:
            def of_sampler(settings: Pointer, lanes: Mask) -> Array:
                stated = settings.memory.sampler
                assert stated is not None
                return self.sample(texels.memory, stated, coordinates, given, lanes)

            return by_case(sampler, lanes, of_sampler, where)

        return take_components(by_case(image, batch.mask, of_image, where), self.form)

    def sample(
        self,
        image: Memory,
        sampler: Sampler,
        coordinates: Array,
        given: dict[str, Sequence[Array]],
        mask: Mask,
    ) -> Array:
        """Returns the four components of the filtered texel at each lane's coordinates."""
        place = coordinates[..., None] if coordinates.ndim == 3 else coordinates
        sizes, _ = extents(image, self.texels.type)
        count = self.texels.dimensions
        detail = self._detail(sizes[0, :count], given, sampler)
        last = len(sizes) - 1
        linear = np.where(detail <= 0, sampler.mag == "linear", sampler.min == "linear")
        level = np.clip(detail, 0, last)
        if sampler.mipmap == "nearest" or not last:
            near = np.clip(np.ceil(level + 0.5) - 1, 0, last).astype(I64)
            return self._filter(image, sampler, place, near, linear, given, mask)
        low = np.floor(level).astype(I64)
        part = (level - low)[..., None]
        first = self._filter(image, sampler, place, low, linear, given, mask)
        high = np.minimum(low + 1, last)
        second = self._filter(image, sampler, place, high, linear, given, mask)
        return (first * (1 - part) + second * part).astype(first.dtype)

    def _detail(self, size: Array, given: dict[str, Sequence[Array]], sampler: Sampler) -> Array:
        if sampler.unnormalized:
            return np.zeros((1, 1, 1))
        if "Grad" in given:
            steps = [g[..., None] if g.ndim == 3 else g for g in given["Grad"][:2]]
            lengths = [np.sqrt(((step * size) ** 2).sum(axis=-1)) for step in steps]
            detail = np.log2(np.maximum(lengths[0], lengths[1]))
        else:
            detail = given["Lod"][0].astype(np.float64)
        return np.clip(detail + sampler.lod_bias, sampler.min_lod, sampler.max_lod)

    def _filter(
        self,
        image: Memory,
        sampler: Sampler,
        place: Array,
        level: Array,
        linear: Array,
        given: dict[str, Sequence[Array]],
        mask: Mask,
    ) -> Array:
        """
        Returns the filtered texel of a level: the weighted neighbours in lanes where `linear` is
        True, the nearest texel elsewhere.
        """
        sizes, _ = extents(image, self.texels.type)
        size, count = sizes[level], self.texels.dimensions
        offset = next((given[n][0] for n in ("ConstOffset", "Offset") if n in given), None)
        axes: list[list[tuple[Array, Array, Array]]] = []
        for axis in range(count):
            scaled = place[..., axis]
            if not sampler.unnormalized:
                scaled = scaled * size[..., axis].astype(F32)
            start = np.floor(np.where(linear, scaled - np.float32(0.5), scaled))
            weight = np.where(linear, scaled - np.float32(0.5) - start, 0.0)
            index = np.nan_to_num(start).astype(I64)
            if offset is not None:
                index = index + (offset if offset.ndim == 3 else offset[..., axis])
            taps = [(0, 1 - weight), (1, weight)] if linear.any() else [(0, 1 - weight)]
            mode = sampler.address[axis]
            axes.append([(*wrap(index + n, size[..., axis], mode), w) for n, w in taps])
        zero = np.zeros((1, 1, 1), I64)
        layer = zero
        if self.texels.layered:
            layer = np.clip(np.rint(place[..., count]), 0, size[..., 3] - 1).astype(I64)
        total: Any = 0
        for taps in product(*axes):
            columns = [*(tap[0] for tap in taps), *[zero] * (3 - count), layer]
            border = np.logical_or.reduce(np.broadcast_arrays(*(tap[1] for tap in taps)))
            weight = np.prod(np.broadcast_arrays(*(tap[2] for tap in taps)), axis=0)[..., None]
            inside = within(mask, ~border) if border.any() else mask
            color = self.texels.read(image, columns, inside, self.form.dtype, level)
            edge = np.array(BORDERS[sampler.border], color.dtype)
            color = np.where(border[..., None], edge, color)
            if not linear.any():
                return color
            total = total + np.where(weight > 0, color * weight, 0)
        return total.astype(self.form.dtype)


@action("OpImageSampleExplicitLod")
def sample(op: RawOp, context: Context) -> Function:
    """Samples an image at coordinates, with the filter of the sampler."""
    return Sample(op, context)
