"""
Executes image instructions symbolically. A texel is the part of an image at given coordinates.

The value of an image, a sampler or an image with a sampler is a pointer to its variable. Sampling
is not an access: no invocation writes to an image that is bound for sampling, because images do
not share memory. A texel's contents are unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv.enums import Dim, StorageClass
from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.dialects.spirv.types import PointerType
from xdsl_spirv.dialects.spirv.types_declared import ImageType, SampledImageType, SamplerType
from xdsl_spirv.interpreter.spirv.image import DIMENSIONS, image_type, operands_of
from xdsl_spirv.prove.deciding import TEXELS
from xdsl_spirv.prove.executing import Place
from xdsl_spirv.prove.loops import ONE
from xdsl_spirv.prove.matrices import MatrixExecutor
from xdsl_spirv.prove.meaning import resize
from xdsl_spirv.prove.values import Scalar, Term, Unsupported, Value, known_number, scalars

SIZES = ("OpImageQuerySize", "OpImageQuerySizeLod")
OTHERS = ("OpImageQueryLevels", "OpImageQuerySamples", "OpImageQueryLod")


def is_image(type: Attribute) -> bool:
    """True if a value of the type is an image, a sampler, or both."""
    return isinstance(type, ImageType | SampledImageType | SamplerType)


class ImageExecutor(MatrixExecutor):
    """An executor that records accesses to texels. A subclass defines names and sizes of images."""

    aliased: Mapping[Hashable, Hashable]
    """Maps each variable that shares memory with other variables to the key of this memory."""
    read_lengths: set[str]
    """Names of the lengths and sizes that the kernel reads."""

    def demand_index(self, index: Scalar, length: Term, op: Operation) -> None:
        """Records that an index must be below a length."""
        raise NotImplementedError

    def name_of(self, root: Hashable) -> str:
        """Returns the name of a variable in premises."""
        raise NotImplementedError

    def length_of(self, name: str) -> Term:
        """Returns the symbol of a length or size. `name` is its name in premises."""
        raise NotImplementedError

    def execute_image(self, op: RawOp, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Records an instruction's access to an image. Returns its results."""
        name = op.instruction.data
        if name in ("OpSampledImage", "OpImage"):
            return (operands[0],)
        if name in TEXELS:
            return self._access_texel(op, operands)
        if name in SIZES and all(known_number(level.term) == 0 for level in operands[1:]):
            return (self._read_size(op, operands[0]),)
        if name not in (*SIZES, *OTHERS) and not name.startswith("OpImageSample"):
            if not name.startswith("OpImage") or "Gather" not in name:
                raise Unsupported(f"{name} is not supported", op)
        return tuple(self.fresh(result.type, ONE, name) for result in op.results)

    def _access_texel(self, op: RawOp, operands: Sequence[Value]) -> tuple[Value, ...]:
        name, image = op.instruction.data, operands[0]
        type = _find_type(op)
        given = set(operands_of(op)) if name != "OpImageTexelPointer" else set[str]()
        level = (
            [operands[at] for word, at in operands_of(op).items() if word == "Lod"] if given else []
        )
        if (
            type.dim.data is Dim.Cube
            or type.sampling.data
            or not {"Offset", "ConstOffset"}.isdisjoint(given)
            or any(known_number(one.term) != 0 for one in level)
            or image.root in self.aliased
        ):
            raise Unsupported(
                "texels of cube, multisampled or aliased images, and texels at offsets or "
                "levels, are not supported",
                op,
            )
        coordinates = tuple(scalars(operands[1]))[: _count_axes(type)]
        for axis, index in enumerate(coordinates):
            self.demand_index(index, self._size_of(image, axis), op)
        wide = tuple(Scalar(resize(index.term, 32, True)) for index in coordinates)
        texel = replace(image, storage=StorageClass.Image, path=(*image.path, *wide))
        if name == "OpImageTexelPointer":
            assert op.result is not None
            assert isinstance(op.result.type, PointerType)
            return (replace(texel, type=op.result.type.pointee),)
        self.access(texel, op, name == "OpImageWrite")
        return tuple(self.fresh(result.type, ONE, name) for result in op.results)

    def _size_of(self, image: Value, axis: int) -> Term:
        """Returns the size of an image along an axis. The last axis of an array is its layers."""
        if not isinstance(image, Place):
            raise Unsupported("an image that a condition selects is not supported")
        places = [known_number(index.term) for index in image.path]
        if None in places:
            raise Unsupported("an unknown index into an array of images is not supported")
        part = "".join(f"[{place}]" for place in places)
        return self.length_of(f"size({self.name_of(image.root)}{part}).{'xyz'[axis]}")

    def _read_size(self, op: RawOp, image: Value) -> Value:
        assert op.result is not None
        element, type = element_of(op.result.type), _find_type(op)
        if not isinstance(element, IntegerType) or type.dim.data is Dim.Cube:
            raise Unsupported("the size of a cube is not supported", op)
        sizes = [self._size_of(image, axis) for axis in range(_count_axes(type))]
        self.read_lengths.update(map(str, sizes))
        terms = [Scalar(resize(size, element.width.data, False)) for size in sizes]
        return tuple(terms) if len(terms) > 1 else terms[0]


def _find_type(op: RawOp) -> ImageType:
    type = op.arguments[0].type
    return image_type(type.pointee if isinstance(type, PointerType) else type)


def _count_axes(type: ImageType) -> int:
    return DIMENSIONS[type.dim.data] + bool(type.arrayed.data)
