"""
Rules of images (IMG): that they are images. Coordinates and image operands are not typed here.
"""

from __future__ import annotations

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.operands import Row, Want, register
from xdsl_spirv.serialization.validation.registry import Problem, Problems, instruction_rule
from xdsl_spirv.serialization.validation.types import Type

POINTERS = frozenset({"OpImageTexelPointer", "OpUntypedImageTexelPointerEXT"})
"""These take a pointer to an image."""


def _with(field: str) -> str:
    """The instructions of the Image family that have an operand of this name."""
    names = grammar().instruction_names
    family = (n for n in names if n.startswith("OpImage") and n not in POINTERS)
    return " ".join(
        n.removeprefix("Op")
        for n in family
        if any(o.field == field for o in grammar().instruction(n).operands)
    )


SAMPLED_IMAGE = Want(
    "an OpTypeSampledImage", lambda t, r: t.kind == "SampledImage", "combine it with OpSampledImage"
)


def _but_for_depth(type_: Type | None) -> list[int]:
    """The operands of an image type that a combination keeps: all but Depth."""
    words = [] if type_ is None or type_.kind != "Image" else type_.at.words
    return words[2:4] + words[5:]


IMAGE = Want(
    "of the image type of {r}, Depth aside",
    lambda t, r: t.kind == "Image" and _but_for_depth(t) == _but_for_depth(r.element),
    "use the type of the result's image",
)
SAMPLER = Want("an OpTypeSampler", lambda t, r: t.kind == "Sampler", "load an OpTypeSampler")

register(
    Row("IMG-01", "3.49.10", "A sampled image is of an OpTypeSampledImage.",
        _with("sampled_image"), None, {"sampled_image": SAMPLED_IMAGE})
)  # fmt: skip
register(
    Row("IMG-03", "3.49.10", "A sampled image combines an image and a sampler.",
        "SampledImage", SAMPLED_IMAGE, {"image": IMAGE, "sampler": SAMPLER})
)  # fmt: skip


@instruction_rule("IMG-02", "3.49.10", "An image is of an OpTypeImage.", _with("image"))
def image(m: Module, i: Instruction) -> Problems:
    type_ = m.type_of(i.get("image"))
    sampled_too = i.op.startswith("ImageQuery") or i.op.startswith("ImageSparse")
    if (
        type_ is not None
        and type_.kind != "Image"
        and not (sampled_too and type_.kind == "SampledImage")
    ):
        yield Problem(f"the image is of {type_}", "take it out of a sampled image with OpImage")
