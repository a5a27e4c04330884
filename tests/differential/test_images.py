"""Image operations give equal results on the interpreter and on lavapipe."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest

from xdsl_spirv.images import ADDRESS_MODES, FORMATS, Image, Sampler
from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.texels import decode_texels
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.testing.dispatches import Dispatch

if TYPE_CHECKING:
    from tests.conftest import RunOnLavapipe

SIZES = {
    "1D": (13,),
    "2D": (7, 5),
    "3D": (5, 3, 4),
    "1DArray": (11,),
    "2DArray": (6, 3),
    "Buffer": (17,),
    "Cube": (4, 4),
    "CubeArray": (3, 3),
}
LAYERS = {"1DArray": 3, "2DArray": 4, "Cube": 6, "CubeArray": 12}
DIMENSIONS = {"1D": 1, "2D": 2, "3D": 3, "Buffer": 1, "1DArray": 2, "2DArray": 3, "Cube": 3}
VECTORS = {1: "", 2: "vec2", 3: "vec3"}


@dataclass
class Case:
    """A kernel, its buffers and images, and the tolerance of its results."""

    name: str
    source: str
    buffers: dict[tuple[int, ...], Array]
    images: dict[tuple[int, ...], Image | Sampler] = field(default_factory=dict)  # pyright: ignore
    grid: tuple[int, int, int] = (1, 1, 1)
    tolerance: float = 1e-6
    """Allowed difference of floats in buffers."""


def qualifier(format: str) -> str:
    """Returns GLSL's layout qualifier of a format."""
    lower = format.lower().replace("snorm", "_snorm").replace("rgb10a2", "rgb10_a2")
    return "r11f_g11f_b10f" if format == "R11fG11fB10f" else lower


def prefix(format: str) -> str:
    sampled = FORMATS[format].sampled
    return ("" if sampled == "f" else sampled) + ("64" if FORMATS[format].bits[0] == 64 else "")


def coordinate(dim: str) -> str:
    """Returns GLSL code for the coordinate of texel `id` in an image of size `s`."""
    count = 3 if dim == "CubeArray" else DIMENSIONS[dim]
    parts = ["id % s.x", "id / s.x % s.y", "id / (s.x * s.y)"]
    return "id" if count == 1 else f"i{VECTORS[count]}({', '.join(parts[:count])})"


def texels(image: Image, seed: int) -> Array:
    """Returns texels without NaN: random bits, or small floats."""
    generator, texel = np.random.default_rng(seed), image.texel
    if texel.kind == "sfloat":
        count = image.nbytes // texel.dtype.itemsize
        values = np.asarray(generator.uniform(-4, 4, count), texel.dtype)
        return values.view(np.uint8)
    octets = generator.integers(0, 256, image.nbytes, np.uint8)
    if (
        texel.kind == "ufloat"
    ):  # Exponents are below the largest one, so that no float is infinite or NaN.
        octets.view(np.uint32)[:] &= 0b0111101111_01111011111_01111011111
    return octets


HEADER = """#version 450
#extension GL_EXT_shader_image_int64 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable
layout(local_size_x = 64) in;
"""


def storage_case(format: str, dim: str) -> Case:
    """Returns a case that loads every texel of an image, and stores values to another image."""
    texel, sign = FORMATS[format], prefix(format)
    vector = {"": "vec4", "u": "uvec4", "i": "ivec4", "u64": "u64vec4", "i64": "i64vec4"}[sign]
    image = Image(format, SIZES[dim], LAYERS.get(dim, 1))
    count = int(np.prod(image.size)) * image.layers
    size = "ivec3(imageSize(a), 1, 1)"
    if dim in ("2D", "1DArray", "Cube"):
        size = "ivec3(imageSize(a), 1)"
    elif dim in ("3D", "2DArray", "CubeArray"):
        size = "imageSize(a)"
    source = (
        HEADER
        + f"""
layout(binding = 0, {qualifier(format)}) uniform readonly {sign}image{dim} a;
layout(binding = 1, {qualifier(format)}) uniform writeonly {sign}image{dim} b;
layout(binding = 2) buffer Loaded {{ {vector} loaded[]; }};
layout(binding = 3) readonly buffer Given {{ {vector} given[]; }};
layout(binding = 4) buffer Size {{ ivec3 size; }};
void main() {{
  int id = int(gl_GlobalInvocationID.x);
  ivec3 s = {size};
  if (id == 0) size = s;
  if (id < {count}) {{
    loaded[id] = imageLoad(a, {coordinate(dim)});
    imageStore(b, {coordinate(dim)}, given[id]);
  }}
}}
"""
    )
    generator = np.random.default_rng(count)
    wide = "8" if "64" in sign else "4"
    if texel.sampled == "f":
        given = generator.uniform(-1.5, 1.5, (count, 4)).astype(np.float32)
        given[0] = 0.0, 1.0, -1.0, 0.25
    else:
        least = -(1 << texel.bits[0] - 1) if texel.kind == "sint" else 0
        most = [(1 << bits - (texel.kind == "sint")) - 1 for bits in (texel.bits * 4)[:4]]
        letter = texel.sampled
        columns = [
            generator.integers(least, high, count, f"{letter}{wide}", endpoint=True)
            for high in most
        ]
        given = np.stack(columns, axis=1)
    loaded = np.zeros((count, 4), given.dtype)
    buffers: dict[tuple[int, ...], Array] = {
        (0, 0): texels(image, 1),
        (0, 1): np.zeros(image.nbytes, np.uint8),
        (0, 2): loaded,
        (0, 3): given,
        (0, 4): np.zeros(4, np.int32),
    }
    return Case(
        f"{format}-{dim}", source, buffers, {(0, 0): image, (0, 1): image}, (-(-count // 64), 1, 1)
    )


def sampled_case(dim: str, sampler: Sampler, access: str, number: int) -> Case:
    """
    Returns a case that samples an image inside, between and outside of texels. `access` is a GLSL
    call.
    """
    count = 200
    levels = 1 if sampler.unnormalized else 3
    image = Image("rgba32f", SIZES[dim], LAYERS.get(dim, 1), levels=levels, sampler=sampler)
    vector = {1: "float", 2: "vec2", 3: "vec3"}[DIMENSIONS[dim]]
    spatial = len(SIZES[dim])
    swizzle = "xyz"[: DIMENSIONS[dim]]
    lod = access.format(
        offset=("1", "ivec2(1, -2)", "ivec3(1, -2, 2)")[spatial - 1], place=f"{vector}(p.{swizzle})"
    )
    source = (
        HEADER
        + f"""
layout(binding = 0) uniform sampler{dim} a;
layout(binding = 1) buffer Out {{ vec4 sampled[]; }};
layout(binding = 2) readonly buffer In {{ vec4 given[]; }};
void main() {{
  int id = int(gl_GlobalInvocationID.x);
  if (id < {count}) {{
    vec4 p = given[id];
    sampled[id] = {lod};
  }}
}}
"""
    )
    generator = np.random.default_rng(number)
    given = generator.uniform(-1.2, 2.2, (count, 4)).astype(np.float32)
    if sampler.unnormalized:
        given *= SIZES[dim][0]
    if dim in LAYERS:
        given[:, spatial] = generator.integers(-1, LAYERS[dim] + 1, count)
    given[:, 3] = generator.uniform(-0.8, 3, count)
    buffers: dict[tuple[int, ...], Array] = {
        (0, 0): texels(image, number),
        (0, 1): np.zeros((count, 4), np.float32),
        (0, 2): given,
    }
    name = f"{dim} {sampler} {access}"
    return Case(name, source, buffers, {(0, 0): image}, (4, 1, 1), tolerance=8 / 256)


def every_sampled_case() -> Iterator[Case]:
    number = 0
    for dim in ("1D", "2D", "3D", "1DArray", "2DArray"):
        for mode in ADDRESS_MODES[:4]:
            for filter in ("nearest", "linear"):
                number += 1
                sampler = Sampler(
                    mag=filter,
                    min=filter,
                    mipmap=filter,
                    address=(mode, mode, mode),
                    border="opaque_white",
                )
                access = (
                    "textureLodOffset(a, {place}, p.w, {offset})"
                    if number % 3 == 0
                    else ("textureLod(a, {place}, p.w)")
                )
                yield sampled_case(dim, sampler, access, number)


def compile_kernel(glslang: Sequence[str], source: str, folder: Path) -> bytes:
    path, binary = folder / "kernel.comp", folder / "kernel.spv"
    path.write_text(source)
    command = [*glslang, "--target-env", "vulkan1.2", "-o", binary, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + source
    return binary.read_bytes()


def compare(case: Case, ours: Mapping[Any, Array], theirs: Mapping[Any, Array]) -> None:
    """
    Compares the results of the interpreter and of a device. Texels may differ in the last bit,
    because devices round differently.
    """
    for place, mine in ours.items():
        other, image = theirs[place], case.images.get(place)
        if isinstance(image, Image):
            texel = image.texel
            shape = (-1, *texel.shape)
            pair = [one.view(texel.dtype).reshape(shape) for one in (mine, other)]
            if texel.sampled != "f":
                assert np.array_equal(pair[0], pair[1]), (case.name, place)
                continue
            step = 1 / ((1 << min(texel.bits) - (texel.kind == "snorm")) - 1)
            relative = 0.0
            if texel.kind.endswith("float"):
                step, relative = 6e-8, {16: 1e-3, 32: 1e-6}.get(texel.bits[0], 1 / 32)
            values = [decode_texels(texel, one, np.dtype(np.float32)) for one in pair]
            np.testing.assert_allclose(
                *values, rtol=relative, atol=1.01 * step, err_msg=f"{case.name} {place}"
            )
        elif mine.dtype.kind == "f":
            np.testing.assert_allclose(
                mine, other, rtol=case.tolerance, atol=case.tolerance, err_msg=case.name
            )
        else:
            assert np.array_equal(mine, other), (case.name, place, mine, other)


Both: TypeAlias = Callable[[Sequence[Case]], None]


@pytest.fixture
def both(
    glslang: list[str], run_on_lavapipe: RunOnLavapipe, tmp_path: Path
) -> Callable[[Sequence[Case]], None]:
    """Returns a function that compares the results of cases on the interpreter and on lavapipe."""

    def run(cases: Sequence[Case]) -> None:
        jobs: list[Dispatch] = []
        for case in cases:
            binary = compile_kernel(glslang, case.source, tmp_path)
            copies = {place: array.copy() for place, array in case.buffers.items()}
            jobs.append(Dispatch(binary, "main", case.grid, copies, images=case.images))
            checks = Checks.all()
            options = Options(checks=replace(checks, permute=False))
            dispatch(
                decode(binary), "main", case.grid, case.buffers, options=options, images=case.images
            )
            assert not list(options.checks.report), f"{case.name}: {options.checks.report}"  # pyright: ignore
        run_on_lavapipe(jobs, 300)
        for case, job in zip(cases, jobs, strict=True):
            compare(case, case.buffers, job.buffers)

    return run


def every_storage_case() -> Iterator[Case]:
    for format in FORMATS:
        yield storage_case(format, "2D")
    for dim in SIZES:
        for format in ("Rgba8", "R32ui", "Rgba16f"):
            yield storage_case(format, dim)


def test_loads_and_stores(both: Both):
    both([storage_case("Rgba8", "2D"), storage_case("R11fG11fB10f", "3D")])


def test_sampling(both: Both):
    both([case for number, case in enumerate(every_sampled_case()) if number in (11, 13)])


@pytest.mark.long
def test_every_dimension_address_mode_and_filter(both: Both):
    both(list(every_sampled_case()))


@pytest.mark.long
def test_every_format_and_dimension(both: Both):
    both(list(every_storage_case()))
