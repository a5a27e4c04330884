"""
Rules of images (IMG): the operands of instructions must match the image's Dim and other
properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.operands import enum_table
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.operands import Row, Want, register
from xdsl_spirv.serialization.validation.registry import Problem, Problems, instruction_rule
from xdsl_spirv.serialization.validation.types import Type, enumerant

POINTERS = frozenset({"OpImageTexelPointer", "OpUntypedImageTexelPointerEXT"})
"""Instructions that take a pointer to an image."""


def _with(field: str) -> str:
    """
    Returns the names of the image instructions that have an operand of this name, separated by
    blanks.
    """
    names = grammar().instruction_names
    family = (n for n in names if n.startswith("OpImage") and n not in POINTERS)
    return " ".join(
        n.removeprefix("Op")
        for n in family
        if any(o.field == field for o in grammar().instruction(n).operands)
    )


SAMPLED_IMAGE = Want(
    "an OpTypeSampledImage",
    lambda t, r: t.kind == "SampledImage",
    "combine the image with a sampler by OpSampledImage",
)


def _but_for_depth(type_: Type | None) -> list[int]:
    """Returns the words of an image type without Depth. OpSampledImage may change Depth."""
    words = [] if type_ is None or type_.kind != "Image" else type_.at.words
    return words[2:4] + words[5:]


IMAGE = Want(
    "of the image type of {r} (Depth may differ)",
    lambda t, r: t.kind == "Image" and _but_for_depth(t) == _but_for_depth(r.element),
    "use the type of the result's image",
)
SAMPLER = Want("an OpTypeSampler", lambda t, r: t.kind == "Sampler", "load an OpTypeSampler")

register(
    Row("IMG-01", "3.49.10", "A sampled image has an OpTypeSampledImage as its type.",
        _with("sampled_image"), None, {"sampled_image": SAMPLED_IMAGE})
)  # fmt: skip
register(
    Row("IMG-03", "3.49.10", "A sampled image combines an image and a sampler.",
        "SampledImage", SAMPLED_IMAGE, {"image": IMAGE, "sampler": SAMPLER})
)  # fmt: skip


@instruction_rule("IMG-02", "3.49.10", _with("image"))
def image(m: Module, i: Instruction) -> Problems:
    """The type of an image operand must be an OpTypeImage."""
    type_ = m.type_of(i.get("image"))
    sampled_too = i.op.startswith("ImageQuery") or i.op.startswith("ImageSparse")
    if (
        type_ is not None
        and type_.kind != "Image"
        and not (sampled_too and type_.kind == "SampledImage")
    ):
        yield Problem(
            f"the image cannot be {type_}", "extract the image from a sampled image with OpImage"
        )


# Operands of an image access

TEXELS = r"Image(Sparse)?(Sample(Proj)?(Dref)?(Im|Ex)plicitLod|(Dref)?Gather|Fetch|Read)"
"""Instructions whose result is a texel, four texels of a gather, or the result of a comparison."""

READING = " ".join(
    name.removeprefix("Op")
    for name in grammar().instruction_names
    if re.fullmatch(TEXELS, name.removeprefix("Op"))
)
ACCESSING = f"{READING} ImageWrite"

ONE_AXIS, TWO_AXES, THREE_AXES = "1D Buffer", "2D Rect SubpassData TileImageDataEXT", "3D Cube"
AXES = {
    dim: axes
    for axes, dims in enumerate((ONE_AXIS, TWO_AXES, THREE_AXES), 1)
    for dim in dims.split()
}
"""Maps a Dim to the number of coordinates of a texel within one layer."""

WITH_LEVELS = ("1D", "2D", "3D", "Cube")


class Image(NamedTuple):
    """The operands of an OpTypeImage."""

    sampled_type: Type | None
    dim: str
    arrayed: bool
    multisampled: bool
    sampled: int
    format: str

    @property
    def axes(self) -> int:
        return AXES.get(self.dim, 0)


def image_of(m: Module, type_: Type | None) -> Image | None:
    """Returns the image type of an image or sampled image. Returns None for other types."""
    if type_ is not None and type_.kind == "SampledImage":
        type_ = type_.element
    if type_ is None or type_.kind != "Image" or len(type_.at.words) < 9:
        return None
    sampled_type, dim, _, arrayed, multisampled, sampled, form = type_.at.words[2:9]
    return Image(
        m.types.get(sampled_type),
        enumerant("Dim", dim),
        bool(arrayed),
        bool(multisampled),
        sampled,
        enumerant("ImageFormat", form),
    )


def read_access(m: Module, i: Instruction) -> Image | None:
    """
    Returns the type of the image that an instruction accesses. Returns None if it accesses no
    image.
    """
    field = "image" if "image" in i.shape.places else "sampled_image"
    return image_of(m, m.type_of(i.get(field)))


def _is_number(m: Module, type_: Type | None, base: str, lanes: int = 1) -> bool:
    if type_ is None or type_.base != base or not _has_width(m, type_):
        return False
    return (type_.lanes if type_.is_vector else 1) == lanes


def _has_width(m: Module, type_: Type) -> bool:
    halves = type_.base == "Float" and "Float16ImageAMD" in m.capabilities
    return type_.width == 32 or (type_.width == 16 and halves)


def _texel(m: Module, i: Instruction) -> Type | None:
    if i.op == "ImageWrite":
        return m.type_of(i.get("texel"))
    type_ = m.types.get(i.type_id)
    if "Sparse" not in i.op or type_ is None:
        return type_
    return type_.members[1] if type_.kind == "Struct" and len(type_.members) == 2 else None


@instruction_rule("IMG-04", "3.49.10", ACCESSING)
def texels(m: Module, i: Instruction) -> Problems:
    """
    A texel must have four components of the Sampled Type, the result of a comparison only one.
    """
    type_, image = _texel(m, i), read_access(m, i)
    if image is None or image.sampled_type is None:
        return
    if type_ is None or type_.scalar is None or type_.kind not in ("Int", "Float", "Vector"):
        yield Problem(
            f"the texel must be a number or vector, not {type_}", "use {code, texel} if sparse"
        )
        return
    one = "Dref" in i.op and "Gather" not in i.op
    is_free = i.op == "ImageWrite" or ("Read" in i.op and not m.environment.vulkan)
    lanes = type_.lanes if type_.is_vector else 1
    if not is_free and lanes != (1 if one else 4):
        yield Problem(f"the texel cannot have {lanes} components", f"give it {1 if one else 4}")
    if image.sampled_type.kind != "Void" and type_.scalar is not image.sampled_type:
        yield Problem(
            f"the texel is {type_}, but the image's Sampled Type is {image.sampled_type}",
            "read and write numbers of the Sampled Type",
        )


@instruction_rule("IMG-05", "3.49.10", f"{ACCESSING} ImageQueryLod")
def coordinates(m: Module, i: Instruction) -> Problems:
    """Coordinates must be 32-bit numbers, one for each dimension and for an array's layer."""
    type_, image = m.type_of(i.get("coordinate")), read_access(m, i)
    if image is None or type_ is None:
        return
    either = i.op.endswith(("Read", "Write"))
    either = either or (i.op.endswith("SampleExplicitLod") and m.is_kernel)
    kinds = ("Int", "Float") if either else ("Int",) if i.op.endswith("Fetch") else ("Float",)
    layer = image.arrayed and i.op != "ImageQueryLod"
    if image.dim == "Cube" and i.op.endswith(("Read", "Write")):
        layer = False  # One coordinate gives both layer and face.
    least = image.axes + layer + ("Proj" in i.op)
    lanes = type_.lanes if type_.is_vector else 1
    if type_.base not in kinds or not _has_width(m, type_) or lanes < least:
        numbers = " or ".join("integers" if kind == "Int" else "floats" for kind in kinds)
        yield Problem(f"the coordinate cannot have type {type_}", f"give {least} 32-bit {numbers}")


@instruction_rule("IMG-06", "3.49.10", ACCESSING)
def kinds(m: Module, i: Instruction) -> Problems:
    """An image must have the properties that the instruction requires."""
    image = read_access(m, i)
    if image is None:
        return
    wrong = ""
    if i.op.endswith(("Read", "Write")):
        if image.sampled == 1:
            wrong = "Sampled 1, which has no storage"
        elif i.op == "ImageWrite" and image.dim in ("SubpassData", "TileImageDataEXT"):
            wrong = f"Dim {image.dim}"
    elif i.op.endswith("Fetch"):
        if image.dim == "Cube" or image.sampled != 1:
            wrong = "Dim Cube" if image.dim == "Cube" else f"Sampled {image.sampled}"
    elif image.multisampled:
        wrong = "several samples, which cannot be filtered"
    elif "Gather" in i.op and image.dim not in ("2D", "Cube", "Rect"):
        wrong = f"Dim {image.dim}"
    elif "Proj" in i.op and (image.arrayed or image.dim not in ("1D", "2D", "3D", "Rect")):
        wrong = "layers" if image.arrayed else f"Dim {image.dim}"
    elif "Dref" in i.op and image.dim == "3D" and m.environment.vulkan:
        wrong = "Dim 3D, for which Vulkan has no comparisons"
    if wrong:
        yield Problem(f"Op{i.op} does not support {wrong}", "use an image without this property")


@instruction_rule(
    "IMG-07",
    "3.49.10",
    " ".join(name for name in READING.split() if "Dref" in name or "Gather" in name),
)
def references(m: Module, i: Instruction) -> Problems:
    """Dref must be a 32-bit float. The Component of a gather must be a constant 32-bit integer."""
    if "Dref" in i.op:
        if not _is_number(m, m.type_of(i.get("d_ref")), "Float"):
            yield Problem("Dref must be a 32-bit float", "convert Dref to 32 bits")
    elif not _is_number(m, m.type_of(i.get("component")), "Int"):
        yield Problem("Component must be a 32-bit integer", "use 0, 1, 2 or 3")
    elif m.environment.vulkan and not m.is_constant(i.get("component")):
        yield Problem("Component must be a constant", "use 0, 1, 2 or 3")


class Operand(NamedTuple):
    """The rule of an image operand. `ops` is a pattern of the instructions that allow it."""

    ops: str
    base: str
    axes: bool = False
    """True if the operand has one number for each dimension."""
    dims: tuple[str, ...] = WITH_LEVELS
    constant: bool = False


ALL_BUT_CUBE = tuple(dim for dim in AXES if dim != "Cube")
GATHER = ".*Gather"
OPERANDS = {
    "Bias": Operand(".*ImplicitLod", "Float"),
    "Lod": Operand(".*(ExplicitLod|Fetch)", "Float"),
    "Grad": Operand(".*ExplicitLod", "Float", True, tuple(AXES)),
    "ConstOffset": Operand(".*", "Int", True, ALL_BUT_CUBE, True),
    "Offset": Operand(".*", "Int", True, ALL_BUT_CUBE),
    "Sample": Operand(".*(Fetch|Read|Write)", "Int", False, tuple(AXES)),
    "MinLod": Operand(".*ImplicitLod", "Float"),
}
"""
Maps image operands that are numbers to their rules (SPIR-V 3.14). The offsets of a gather, and
scopes, are checked elsewhere.
"""


def image_operands(i: Instruction) -> Iterator[tuple[str, list[int]]]:
    """Yields the name and ids of each image operand."""
    read = i.read or []
    start = next((k for k, o in enumerate(read) if o.kind == "ImageOperands"), len(read))
    table, ids = enum_table("ImageOperands"), [int(o.value) for o in read[start + 1 :]]
    mask = int(read[start].value) if start < len(read) else 0
    for bit in (1 << k for k in range(32) if mask >> k & 1):
        count = len(table.parameters.get(bit, ()))
        yield table.names.get(bit, str(bit)), ids[:count]
        ids = ids[count:]


@instruction_rule("IMG-08", "3.14", ACCESSING)
def operands(m: Module, i: Instruction) -> Problems:
    """Image operands must be allowed for the instruction and the image."""
    image, given = read_access(m, i), dict(image_operands(i))
    if image is None:
        return
    if image.multisampled and "Sample" not in given:
        yield Problem(
            "the image is multisampled, but the operand Sample is missing",
            "add the image operand Sample",
        )
    if "Sample" in given and not image.multisampled:
        yield Problem(
            "the operand Sample is given, but the image is not multisampled",
            "remove the operand Sample",
        )
    if "Lod" in given and "Grad" in given:
        yield Problem("the image operands Lod and Grad exclude each other", "keep one of them")
    if len({"Offset", "ConstOffset", "ConstOffsets", "Offsets"} & {*given}) > 1:
        yield Problem("only one offset operand may be given", "keep one of them")
    for name, ids in given.items():
        if name in OPERANDS and not (name == "MinLod" and "Grad" in given):
            yield from _operand(m, i, image, name, ids)


def _operand(m: Module, i: Instruction, image: Image, name: str, ids: list[int]) -> Problems:
    want = OPERANDS[name]
    by_amd = {"ImageGatherBiasLodAMD", "ImageReadWriteLodAMD"} & m.capabilities
    if not re.fullmatch(want.ops, i.op) and not (name in ("Bias", "Lod") and by_amd):
        yield Problem(f"{name} is not allowed on Op{i.op}", "remove the operand")
        return
    if name == "Offset" and m.environment.vulkan and not re.fullmatch(GATHER, i.op):
        yield Problem("without maintenance8, Offset is only allowed for gathers", "use ConstOffset")
    if image.dim not in want.dims or (name in ("Lod", "MinLod") and image.multisampled):
        yield Problem(f"{name} is not allowed for images of Dim {image.dim}", "remove the operand")
    levels = name == "Lod" and i.op.endswith(("Fetch", "Read", "Write"))
    base = "Int" if levels else want.base
    lanes = image.axes if want.axes else 1
    for id in ids:
        if not _is_number(m, m.type_of(id), base, lanes):
            numbers = "integers" if base == "Int" else "floats"
            yield Problem(f"{name} cannot be {m.type_of(id)}", f"give {lanes} 32-bit {numbers}")
        elif want.constant and not m.is_constant(id):
            yield Problem(f"{name} is not a constant", "use a constant, or the operand Offset")


QUERIES = {
    "ImageQuerySizeLod": WITH_LEVELS,
    "ImageQuerySize": ("1D", "2D", "3D", "Cube", "Buffer", "Rect"),
    "ImageQueryLod": WITH_LEVELS,
    "ImageQueryLevels": WITH_LEVELS,
    "ImageQuerySamples": ("2D",),
}
"""Maps a query instruction to the image dimensions that it supports."""


@instruction_rule("IMG-09", "3.49.10", " ".join(QUERIES))
def queries(m: Module, i: Instruction) -> Problems:
    """A query must support the image, and return one number for each dimension."""
    image, result = read_access(m, i), m.types.get(i.type_id)
    if image is None or result is None:
        return
    if image.dim not in QUERIES[i.op]:
        yield Problem(
            f"Op{i.op} does not support Dim {image.dim}", "query an image with another Dim"
        )
        return
    size = (2 if image.dim == "Cube" else image.axes) + image.arrayed
    lanes = 2 if i.op == "ImageQueryLod" else size if "Size" in i.op else 1
    base = "Float" if i.op == "ImageQueryLod" else "Int"
    if result.base != base or (result.lanes if result.is_vector else 1) != lanes:
        yield Problem(f"the result cannot have type {result}", f"give it {lanes} components")
    sampled = i.op in ("ImageQuerySizeLod", "ImageQueryLevels")
    if sampled and m.environment.vulkan and image.sampled != 1:
        yield Problem(
            f"Op{i.op} does not support an image with Sampled {image.sampled}",
            "use OpImageQuerySize for storage images, which have one level",
        )
    samples = i.op == "ImageQuerySamples"
    if image.multisampled != samples and i.op in ("ImageQuerySizeLod", "ImageQuerySamples"):
        yield Problem(f"Op{i.op} cannot query MS {int(image.multisampled)}", "use OpImageQuerySize")
    levels = image.dim in WITH_LEVELS and not image.multisampled and image.sampled == 1
    if i.op == "ImageQuerySize" and levels:
        yield Problem("OpImageQuerySize cannot query levels", "use OpImageQuerySizeLod")


def _format_base(image: Image) -> tuple[str, bool]:
    integers = image.format.endswith("i")
    return "Int" if integers else "Float", integers and not image.format.endswith("ui")


@instruction_rule("VUL-14", "Vulkan", "TypeImage", vulkan=True)
def image_types(m: Module, i: Instruction) -> Problems:
    """An image must have 32-bit numbers or 64-bit integers that match its format."""
    image = image_of(m, m.types.get(i.result))
    if image is None or image.sampled_type is None:
        return
    base, width = image.sampled_type.kind, image.sampled_type.width
    if (base, width) not in (("Float", 32), ("Int", 32), ("Int", 64)):
        yield Problem(f"the Sampled Type cannot be {image.sampled_type}", "use f32, or i32 or i64")
    elif image.format != "Unknown":
        long = image.format.startswith("R64")
        if _format_base(image)[0] != base or (base == "Int" and long != (width == 64)):
            yield Problem(
                f"the format {image.format} does not fit the Sampled Type {image.sampled_type}",
                "use a format of the Sampled Type's numbers",
            )
    if image.sampled == 0 or image.dim == "Rect":
        wrong = "Sampled 0" if image.sampled == 0 else "Dim Rect"
        yield Problem(f"a storage image cannot have {wrong}", "use Sampled 1 or 2, and another Dim")
    storage = image.sampled == 2 and image.multisampled and image.dim != "SubpassData"
    if storage and "StorageImageMultisample" not in m.capabilities:
        name = "StorageImageMultisample"
        yield Problem(f"a multisampled storage image needs {name}", remedies.declare(name))


@instruction_rule("VUL-15", "Vulkan", ACCESSING, vulkan=True)
def signs(m: Module, i: Instruction) -> Problems:
    """The signedness of an access must match the image's format."""
    image = read_access(m, i)
    if image is None or image.sampled_type is None or image.format == "Unknown":
        return
    base, has_sign = _format_base(image)
    extended = [name for name, _ in image_operands(i) if name in ("SignExtend", "ZeroExtend")]
    signed = extended[0] == "SignExtend" if extended else image.sampled_type.signed
    if base == image.sampled_type.kind == "Int" and signed != has_sign:
        yield Problem(
            f"the access to the format {image.format} cannot be {'' if signed else 'un'}signed",
            "use another Sampled Type, or SignExtend or ZeroExtend",
        )


@instruction_rule("IMG-10", "3.31", "ImageRead ImageSparseRead ImageWrite")
def storage(m: Module, i: Instruction) -> Problems:
    """The capabilities that a storage image's dimensions and format need must be declared."""
    image = read_access(m, i)
    if image is None:
        return
    needed: list[str] = []
    if image.sampled == 2:
        by_dim = {"1D": "Image1D", "Rect": "ImageRect", "Buffer": "ImageBuffer"}
        needed += [by_dim[image.dim]] if image.dim in by_dim else []
        needed += ["ImageCubeArray"] if image.dim == "Cube" and image.arrayed else []
        needed += ["ImageMSArray"] if image.multisampled and image.arrayed else []
    if image.format == "Unknown" and image.dim != "SubpassData" and m.environment.vulkan:
        needed.append(f"StorageImage{'Write' if 'Write' in i.op else 'Read'}WithoutFormat")
    for name in needed:
        if name not in m.capabilities:
            yield Problem(f"Op{i.op} needs the capability {name}", remedies.declare(name))
