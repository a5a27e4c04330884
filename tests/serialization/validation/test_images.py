"""
Random image accesses get spirv-val's verdict.

A module declares one image, one access with random operands, and all capabilities except some.
"""

from __future__ import annotations

import random

import pytest

from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.validation import Severity, validate
from xdsl_spirv.serialization.validation.differences import known_difference
from xdsl_spirv.tools import khronos

AXES = {"1D": 1, "2D": 2, "3D": 3, "Cube": 3, "Buffer": 1}
CAPABILITIES = (
    *("Shader", "Image1D", "Sampled1D", "ImageBuffer", "SampledBuffer", "ImageCubeArray"),
    *("SampledCubeArray", "ImageMSArray", "StorageImageMultisample", "ImageQuery", "MinLod"),
    *("ImageGatherExtended", "StorageImageExtendedFormats"),
    *("StorageImageReadWithoutFormat", "StorageImageWriteWithoutFormat"),
)
FORMATS = {"Float": ("Rgba32f", "R8"), "Int": ("Rgba32i", "R32i"), "UInt": ("Rgba32ui", "R8ui")}
SAMPLES = [
    f"ImageSample{way}{lod}Lod"
    for way in ("", "Proj", "Dref", "ProjDref")
    for lod in ("Implicit", "Explicit")
]
OTHERS = ["ImageGather", "ImageDrefGather", "ImageFetch", "ImageRead", "ImageWrite"]
QUERIES = [f"ImageQuery{what}" for what in ("SizeLod", "Size", "Lod", "Levels", "Samples")]
PREAMBLE = """
OpMemoryModel Logical GLSL450
OpEntryPoint Fragment %main "main" %v %w
OpExecutionMode %main OriginUpperLeft
OpDecorate %v DescriptorSet 0
OpDecorate %v Binding 0
OpDecorate %w DescriptorSet 0
OpDecorate %w Binding 1
%void = OpTypeVoid
%fn = OpTypeFunction %void
%Float1 = OpTypeFloat 32
%Int1 = OpTypeInt 32 1
%UInt1 = OpTypeInt 32 0
"""


def numbers() -> str:
    """Returns vectors of each number type, with a null and an undefined value of each."""
    lines = [
        f"%{kind}{n} = OpTypeVector %{kind}1 {n}"
        for kind in ("Float", "Int", "UInt")
        for n in (2, 3, 4)
    ]
    for kind in ("Float", "Int", "UInt"):
        for n in (1, 2, 3, 4):
            lines += [f"%{kind}{n}c = OpConstantNull %{kind}{n}"]
            lines += [f"%{kind}{n}u = OpUndef %{kind}{n}"]
    return "\n".join(lines)


def operands(random: random.Random, op: str, axes: int, multisampled: bool) -> str:
    """Returns random image operands, mostly valid for the instruction."""
    chosen: dict[str, str] = {}
    if op.endswith("ExplicitLod"):
        chosen["Lod"] = "%Float1c"
    if multisampled and random.random() < 0.8:
        chosen["Sample"] = "%Int1c"
    kinds = {
        "Bias": ["%Float1c"],
        "Lod": ["%Float1c", "%Int1c"],
        "Grad": [f"%Float{axes}c %Float{axes}c"],
        "ConstOffset": [f"%Int{axes}c", f"%Int{axes}u"],
        "Offset": [f"%Int{axes}u", f"%Float{axes}u"],
        "Sample": ["%Int1c", "%Float1c"],
        "MinLod": ["%Float1c"],
    }
    for name, ids in kinds.items():
        if random.random() < 0.12:
            chosen[name] = random.choice(ids)
    ordered = [name for name in kinds if name in chosen]
    return f" {'|'.join(ordered)} {' '.join(chosen[n] for n in ordered)}" if ordered else ""


def module(seed: int) -> str:
    """Returns a module with one access, which is invalid in about half of the cases."""
    r = random.Random(seed)
    op = r.choice([*SAMPLES, *OTHERS, *OTHERS, *QUERIES])
    stores = op in ("ImageRead", "ImageWrite", "ImageQuerySize")
    dim = r.choice(["2D", "2D", *AXES])
    axes, kind = AXES[dim], r.choice([*FORMATS])
    arrayed, multisampled = r.random() < 0.3, r.random() < 0.2
    sampled = (2 if stores else 1) if r.random() < 0.85 else r.choice([1, 2])
    form = r.choice(["Unknown", *FORMATS[kind if r.random() < 0.9 else r.choice([*FORMATS])]])
    image = f"%{kind}1 {dim} 0 {int(arrayed)} {int(multisampled)} {sampled} {form}"
    least = axes + arrayed + ("Proj" in op)
    lanes = least if r.random() < 0.8 else r.choice([1, 2, 3, 4])
    coordinate = "Int" if stores or op == "ImageFetch" else "Float"
    coordinate = coordinate if r.random() < 0.9 else r.choice(["Int", "Float"])
    place = f"%{coordinate}{min(lanes, 4)}u"
    size = (2 if dim == "Cube" else axes) + arrayed if "Size" in op else 1
    many = 1 if "Dref" in op and "Gather" not in op else 4
    texel = f"{kind if r.random() < 0.9 else r.choice([*FORMATS])}{many}"
    holder = "%combined" if op in SAMPLES or "Gather" in op or op == "ImageQueryLod" else "%p"
    given = operands(r, op, axes, multisampled)
    match op:
        case "ImageQueryLod":
            access = f"%r = OpImageQueryLod %Float2 %combined {place}"
        case "ImageWrite":
            access = f"OpImageWrite %p {place} %{texel}u{given}"
        case _ if op in QUERIES:
            result = size if r.random() < 0.9 else r.choice([1, 2, 3])
            level = " %Int1c" if op == "ImageQuerySizeLod" else ""
            access = f"%r = Op{op} %Int{result} %p{level}"
        case _:
            extra = " %Float1c" if "Dref" in op else " %Int1c" if "Gather" in op else ""
            access = f"%r = Op{op} %{texel} {holder} {place}{extra}{given}"
    left_out = r.choice(CAPABILITIES[1:]) if r.random() < 0.2 else ""
    capabilities = "\n".join(f"OpCapability {c}" for c in CAPABILITIES if c != left_out)
    combine = "%combined = OpSampledImage %both %p %s" if holder == "%combined" else ""
    both = "%both = OpTypeSampledImage %image" if holder == "%combined" else ""
    return f"""{capabilities}{PREAMBLE}{numbers()}
        %image = OpTypeImage {image}
        {both}
        %sampler = OpTypeSampler
        %to_image = OpTypePointer UniformConstant %image
        %to_sampler = OpTypePointer UniformConstant %sampler
        %v = OpVariable %to_image UniformConstant
        %w = OpVariable %to_sampler UniformConstant
        %main = OpFunction %void None %fn
        %entry = OpLabel
        %p = OpLoad %image %v
        %s = OpLoad %sampler %w
        {combine}
        {access}
        OpReturn
        OpFunctionEnd"""


def judge(seeds: range) -> tuple[int, list[str]]:
    """Returns the number of valid modules, and the modules with other verdicts than spirv-val's."""
    valid, wrong = 0, []
    for seed in seeds:
        data = assemble(module(seed)).encode()
        theirs = khronos.spirv_val(data, "vulkan1.3")
        ours = [f for f in validate(data, "vulkan1.3") if f.severity is Severity.ERROR]
        valid += not theirs
        if bool(ours) != bool(theirs) and not (
            all(known_difference(f.rule, f.cause, "vulkan1.3") for f in ours)
            if ours
            else known_difference("", theirs, "vulkan1.3")
        ):
            wrong.append(f"{seed}: {ours[0] if ours else theirs}")
    return valid, wrong


def test_accesses_to_images_get_the_verdict_of_spirv_val(spirv_val: str):
    valid, wrong = judge(range(60))
    assert not wrong
    assert 10 < valid < 50


@pytest.mark.long
def test_many_accesses_to_images_get_the_verdict_of_spirv_val(spirv_val: str):
    valid, wrong = judge(range(1000, 3000))
    assert not wrong
    assert valid > 250
