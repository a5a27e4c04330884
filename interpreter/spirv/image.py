"""
Executes image reads, writes, fetches, queries, texel pointers (sampling: image_sampling.py).

An image is a buffer with a description (images.py of the package). The value of an image, a
sampler, or an image with a sampler is a pointer to memory. Arrays of images, race checks and bounds
checks therefore work as for buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from xdsl_spirv.dialects.spirv.enums import Dim, ImageFormat, ImageOperands
from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.dialects.spirv.types_declared import ImageType, SampledImageType, SamplerType
from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Plain, within
from xdsl_spirv.interpreter.layout import PlainLoader, PlainStorer
from xdsl_spirv.interpreter.memories import Place, nothing
from xdsl_spirv.interpreter.memory import Memory, Pointer, Pointers, by_case, cases
from xdsl_spirv.interpreter.numbers import I64, Array
from xdsl_spirv.interpreter.semantics import Function, action, same, value
from xdsl_spirv.interpreter.texels import decode_texels, encode_texels

DIMENSIONS = {Dim.Dim1D: 1, Dim.Dim2D: 2, Dim.Dim3D: 3, Dim.Cube: 2, Dim.Rect: 2, Dim.Buffer: 1}
"""
Maps a dimensionality to the number of coordinates inside a layer. The faces of a cube are layers.
"""


class TexelAccess:
    """Loads and stores texels. A subclass for the checks reports faults."""

    load: PlainLoader = staticmethod(memory.load)
    store: PlainStorer = staticmethod(memory.store)

    def leave_out(
        self, image: Memory, outside: Array, mask: Mask, coordinates: Array, write: bool
    ) -> None:
        """
        Handles lanes that access texels outside an image.

        Writes are dropped, as in Vulkan. Reads are undefined and raise `InterpreterError`, unless
        the image is robust.
        """
        if write or image.robust or not within(mask, outside).any():
            return
        place = np.broadcast_to(coordinates, (*outside.shape, coordinates.shape[-1]))
        raise InterpreterError(
            f"a read at {place[outside][0].tolist()} is outside {image.label}, an image of "
            f"{describe(image).size}",
            remedy="compare the coordinates with the image's size before the read",
        )


def image_type(type: Attribute) -> ImageType:
    """Returns the type of an image, with or without a sampler."""
    found = type.image_type if isinstance(type, SampledImageType) else type
    if not isinstance(found, ImageType) or found.dim.data not in DIMENSIONS:
        raise InterpreterError(f"images of type {type} are not supported")
    return found


def describe(image: Memory) -> Image:
    """Returns the description of an image. Raises `InterpreterError` for other memory."""
    if image.image is None:
        raise InterpreterError(
            f"{image.label or 'a resource'} must be an image", "images", "describe it by an Image"
        )
    return image.image


def operands_of(op: RawOp) -> dict[str, int]:
    """Maps the name of each image operand of an instruction to the index of its first value."""
    name = op.instruction.data
    first = 3 if name == "OpImageWrite" or "Dref" in name or "Gather" in name else 2
    if first >= len(op.layout):
        return {}
    mask, found, at = ImageOperands(op.layout.data[first].data), dict[str, int](), first  # pyright: ignore
    for one in ImageOperands:
        if one & mask and one not in found:
            found[one.name or ""] = at
            at += 2 if one is ImageOperands.Grad else one < ImageOperands.NonPrivateTexel
    return found


def extents(image: Memory, type: ImageType) -> tuple[Array, Array]:
    """
    Returns an array (levels, 4) with width, height, depth and layers of each level, and the index
    of each level's first texel.
    """
    stated = describe(image)
    sizes = [(*stated.extent(level), stated.layers) for level in range(stated.levels)]
    return np.array(sizes, np.int64), np.array(stated.starts(), np.int64)


def image_memory(
    context: Context, place: Place, type: Attribute, buffers: Mapping[Any, Array], label: str
) -> Memory:
    """
    Returns the memory of an image or sampler. Raises `InterpreterError` if its description does not
    fit the type.
    """
    given = context.images[place]
    sampler = given if isinstance(given, Sampler) else given.sampler
    texel_buffer = not isinstance(type, SamplerType) and image_type(type).dim.data is Dim.Buffer
    if isinstance(type, SamplerType | SampledImageType) and sampler is None and not texel_buffer:
        raise InterpreterError(f"{label} has no sampler", "images", "give it a Sampler")
    if isinstance(type, SamplerType):
        memory = nothing()
        memory.sampler = sampler
        return memory
    if isinstance(given, Sampler):
        raise InterpreterError(
            f"{label} is an image, but was given a sampler", "images", "describe it by an Image"
        )
    problem = _misfit(image_type(type), given)
    array = buffers.get(place)
    if problem is None and (array is None or not array.flags.c_contiguous):
        problem = "was not given a C-contiguous array of its texels"
    elif problem is None and array is not None and array.nbytes != given.nbytes:
        problem = f"takes {given.nbytes} bytes, but its array has {array.nbytes}"
    if problem is not None:
        raise InterpreterError(f"{label} {problem}", "images", "describe the image that is bound")
    memory = context.memories.buffer(place, label)
    memory.image, memory.sampler, memory.robust = given, sampler, context.options.robust
    return memory


def _misfit(type: ImageType, given: Image) -> str | None:
    dimensions, texel, format = DIMENSIONS[type.dim.data], given.texel, type.format.data
    if len(given.size) != dimensions:
        return f"has {dimensions} dimensions, but is described by {given.size}"
    if format is not ImageFormat.Unknown and format.name != texel.name:
        return f"is of format {format.name}, but is described as {texel.name}"
    if isinstance(type.element_type, IntegerType) != (texel.sampled != "f"):
        return f"is of {type.element_type}, but is described as {texel.name}"
    if bool(type.sampling.data) != (given.samples > 1):
        return f"has {'several samples' if type.sampling.data else 'one sample'} a texel"
    cube = type.dim.data is Dim.Cube
    if given.layers % (6 if cube else 1) or (given.layers > 6**cube and not type.arrayed.data):
        return f"is not an array, but is described with {given.layers} layers"
    if type.dim.data is Dim.Buffer and given.levels > 1:
        return "is a texel buffer, which has one level"
    return None


class Texels:
    """Accesses texels by the coordinates of an image type."""

    def __init__(self, type: Attribute, context: Context, access: TexelAccess):
        self.type = image_type(type)
        self.dimensions = DIMENSIONS[self.type.dim.data]
        self.layered = bool(self.type.arrayed.data) or self.type.dim.data is Dim.Cube
        self.access = access

    def columns(self, coordinates: Array) -> list[Array]:
        """Splits coordinates into x, y, z and layer."""
        if coordinates.ndim == 3:
            coordinates = coordinates[..., None]
        numbers = [coordinates[..., n].astype(I64) for n in range(coordinates.shape[3])]
        zero = np.zeros((1, 1, 1), I64)
        place = numbers[: self.dimensions] + [zero] * (3 - self.dimensions)
        return [*place, numbers[self.dimensions] if self.layered else zero]

    def place_of(self, columns: Sequence[Array]) -> Array:
        """Joins x, y, z and layer into an array of coordinates, whose last axis is (x, y, ...)."""
        own = [*columns[: self.dimensions], *columns[3:][: self.layered]]
        return np.stack(np.broadcast_arrays(*own), axis=-1)

    def find(
        self, image: Memory, columns: Sequence[Array], level: Any = 0, sample: Any = None
    ) -> tuple[Pointer, Array]:
        """
        Returns pointers to the texels at the coordinates `columns` (x, y, z, layer), and a mask of
        texels outside the image.
        """
        sizes, starts = extents(image, self.type)
        level = np.asarray(level).astype(I64).reshape(np.shape(level) or (1, 1, 1))
        outside = (level < 0) | (level >= len(sizes))
        level = np.where(outside, 0, level)
        size = sizes[level]
        index: Any = 0
        # Slowest dimension first: layer, z, y, x.
        for axis in (3, 2, 1, 0):
            outside = outside | (columns[axis] < 0) | (columns[axis] >= size[..., axis])
            index = index * size[..., axis] + columns[axis]
        samples = describe(image).samples
        if sample is not None:
            outside = outside | (sample < 0) | (sample >= samples)
            index = index * samples + sample
        index = np.where(outside, 0, starts[level] + index)
        return Pointer(image, index.astype(I64), describe(image).texel.itemsize), outside

    def read(
        self, image: Memory, columns: Sequence[Array], mask: Mask, dtype: Any, *level: Any
    ) -> Array:
        """
        Returns the four components of each lane's texel. They are 0 in lanes outside the image.
        """
        pointer, outside = self.find(image, columns, *level)
        inside = mask
        if outside.any():
            self.access.leave_out(image, outside, mask, self.place_of(columns), False)
            inside = within(mask, ~outside)
        texel = describe(image).texel
        stored = self.access.load(pointer, Plain(texel.dtype, texel.shape), inside)
        if outside.any():
            lost = outside if not texel.shape else outside[..., None]
            stored = np.where(lost, texel.dtype.type(0), stored)
        return decode_texels(texel, stored, dtype)


class Read:
    """Executes OpImageRead and OpImageFetch."""

    def __init__(self, op: RawOp, context: Context, access: TexelAccess | None = None):
        self.texels = Texels(op.arguments[0].type, context, access or TexelAccess())
        assert op.result is not None
        self.form = context.plain(op.result.type)
        self.operands = operands_of(op)

    def __call__(self, batch: Batch, image: Any, coordinates: Array, *values: Array) -> Array:
        given = {name: values[at - 2] for name, at in self.operands.items() if at - 2 < len(values)}
        columns = self.texels.columns(coordinates)
        for offset in (given[name] for name in ("ConstOffset", "Offset") if name in given):
            parts = offset[..., None] if offset.ndim == 3 else offset
            moved = [columns[n] + parts[..., n] for n in range(parts.shape[3])]
            columns = moved + columns[len(moved) :]
        place = given.get("Lod", 0), given.get("Sample")

        def one(pointer: Pointer, lanes: Mask) -> Array:
            return self.texels.read(pointer.memory, columns, lanes, self.form.dtype, *place)

        return take_components(by_case(image, batch.mask, one, where), self.form)


def where(lanes: Mask, new: Array, old: Array) -> Array:
    """Returns the vector `new` in the lanes of a mask and `old` in other lanes."""
    return np.where(lanes[..., None], new, old)


def take_components(components: Array, form: Plain) -> Array:
    """
    Returns the first components of texels, as many as `form` has. A scalar gets the component x.
    """
    return components[..., : form.shape[0]] if form.shape else components[..., 0]


@action("OpImageRead", "OpImageFetch")
def read(op: RawOp, context: Context) -> Function:
    """Reads the texel at integer coordinates."""
    return Read(op, context)


class Write:
    """Executes OpImageWrite."""

    def __init__(self, op: RawOp, context: Context, access: TexelAccess | None = None):
        self.access = access or TexelAccess()
        self.texels = Texels(op.arguments[0].type, context, self.access)
        self.sample = operands_of(op).get("Sample")

    def __call__(
        self, batch: Batch, image: Any, coordinates: Array, components: Array, *values: Array
    ) -> None:
        columns = self.texels.columns(coordinates)
        sample = None if self.sample is None else values[self.sample - 3]
        if components.ndim == 3:
            components = components[..., None]
        for pointer, lanes in cases(image, batch.mask):
            place, outside = self.texels.find(pointer.memory, columns, 0, sample)
            if outside.any():
                at = self.texels.place_of(columns)
                self.access.leave_out(pointer.memory, outside, lanes, at, True)
                lanes = within(lanes, ~outside)
                if not lanes.any():
                    continue
            texel = describe(pointer.memory).texel
            stored = encode_texels(texel, components)
            self.access.store(place, Plain(texel.dtype, texel.shape), stored, lanes)


@action("OpImageWrite")
def write(op: RawOp, context: Context) -> Function:
    """Writes a texel at integer coordinates."""
    return Write(op, context)


@value("OpImageTexelPointer")
def texel_pointer(op: RawOp, context: Context) -> Function:
    """
    Returns the pointer to a texel, for an atomic. For a texel outside the image, it points past the
    last byte.
    """
    pointer_to: Any = op.arguments[0].type
    element = pointer_to.pointee
    texels = Texels(getattr(element, "element_type", element)
        if not isinstance(element, ImageType) else element, context, TexelAccess())  # fmt: skip
    multisampled = bool(texels.type.sampling.data)

    def call(image: Any, coordinates: Array, sample: Array) -> Pointer | Pointers:
        def one(pointer: Pointer) -> Pointer:
            columns = texels.columns(coordinates)
            place, outside = texels.find(
                pointer.memory, columns, 0, sample if multisampled else None
            )
            end = pointer.memory.size // place.scale
            return Pointer(pointer.memory, np.where(outside, end, place.index), place.scale)

        if isinstance(image, Pointer):
            return one(image)
        return Pointers([(one(pointer), lanes) for pointer, lanes in image.cases])

    return call


class Sampled:
    """The value of an image combined with a sampler."""

    def __init__(self, image: Any, sampler: Any):
        self.image, self.sampler = image, sampler

    def merge(self, mask: Mask, old: Any) -> Sampled:
        """Returns this value where the mask is set, otherwise `old`."""
        if old is None or old is self:
            return self
        image, sampler = parts_of(old)
        return Sampled(self.image.merge(mask, image), self.sampler.merge(mask, sampler))


def parts_of(value: Any) -> tuple[Any, Any]:
    """Returns the image and the sampler of a sampled image."""
    return (value.image, value.sampler) if isinstance(value, Sampled) else (value, value)


@value("OpSampledImage")
def combine(op: RawOp, context: Context) -> Function:
    """Combines an image with a sampler."""
    return Sampled


@value("OpImage")
def image_of(op: RawOp, context: Context) -> Function:
    """Returns the image of a sampled image."""
    return lambda value: parts_of(value)[0]


value("OpCopyObject")(lambda op, context: same)


@value("OpImageQuerySize", "OpImageQuerySizeLod")
def query_size(op: RawOp, context: Context) -> Function:
    """
    Returns the width, height and depth of a level, as far as the image has them, and the number of
    layers.
    """
    type = image_type(op.arguments[0].type)
    assert op.result is not None
    form, count = context.plain(op.result.type), DIMENSIONS[type.dim.data]

    def one(image: Memory, level: Array) -> Array:
        sizes, _ = extents(image, type)
        chosen = sizes[np.clip(level, 0, len(sizes) - 1)]
        parts = chosen[..., [*range(count), *([3] if type.arrayed.data else [])]]
        if type.arrayed.data and type.dim.data is Dim.Cube:
            parts[..., -1] //= 6
        return parts.astype(form.dtype)

    def call(image: Any, *lod: Array) -> Array:
        level = lod[0].astype(I64) if lod else np.zeros((1, 1, 1), I64)
        return take_components(
            by_case(image, None, lambda p, lanes: one(p.memory, level), where), form
        )

    return call


@value("OpImageQueryLevels", "OpImageQuerySamples")
def query_number(op: RawOp, context: Context) -> Function:
    """Returns the number of an image's levels, or of the samples of a texel."""
    assert op.result is not None
    dtype = context.plain(op.result.type).dtype
    name = "levels" if op.instruction.data == "OpImageQueryLevels" else "samples"

    def one(pointer: Pointer, lanes: Mask) -> Array:
        return np.full((1, 1, 1), getattr(describe(pointer.memory), name), dtype)

    return lambda image: by_case(image, None, one)
