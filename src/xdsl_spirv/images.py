"""
Describes images and samplers of a launch: formats, extents, levels, and the layout of texels.

The texels of an image are bytes without padding, in the order level, layer, depth, row, column,
sample. This module depends only on numpy, because the process that runs a device also imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

import numpy as np

Kind: TypeAlias = Literal["unorm", "snorm", "sfloat", "ufloat", "uint", "sint"]
Filter: TypeAlias = Literal["nearest", "linear"]


@dataclass(frozen=True)
class Format:
    """
    A texel format: names in SPIR-V and Vulkan, Vulkan's enum value, and kind and bits of
    components.

    The components of a `packed` format share a word, with red in its lowest bits.
    """

    name: str
    vulkan_name: str
    number: int
    kind: Kind
    bits: tuple[int, ...]
    packed: bool = False

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The numpy type of a stored component, or of the word that the components share."""
        letter = {"sfloat": "f", "sint": "i", "snorm": "i"}.get(self.kind, "u")
        return np.dtype("u4" if self.packed else f"{letter}{self.bits[0] // 8}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a texel's stored components; empty if they share a word."""
        return () if self.packed else (len(self.bits),)

    @property
    def itemsize(self) -> int:
        """Size of a texel in bytes."""
        return self.dtype.itemsize * prod(self.shape)

    @property
    def sampled(self) -> str:
        """The scalar type that a shader reads: `f` for floats, `i` or `u` for integers."""
        return {"sint": "i", "uint": "u"}.get(self.kind, "f")


def _formats() -> Iterator[Format]:
    first = {8: (9, 16, 37), 16: (70, 77, 91), 32: (98, 101, 107)}
    steps: dict[int, dict[Kind, int]] = {
        8: {"unorm": 0, "snorm": 1, "uint": 4, "sint": 5},
        16: {"unorm": 0, "snorm": 1, "uint": 4, "sint": 5, "sfloat": 6},
        32: {"uint": 0, "sint": 1, "sfloat": 2},
    }
    suffixes = {"unorm": "", "snorm": "Snorm", "uint": "ui", "sint": "i", "sfloat": "f"}
    for bits, numbers in first.items():
        for number, letters in zip(numbers, ("R", "RG", "RGBA"), strict=True):
            for kind, step in steps[bits].items():
                vulkan = "".join(f"{letter}{bits}" for letter in letters) + f"_{kind.upper()}"
                name = f"{letters.capitalize()}{bits}{suffixes[kind]}"
                yield Format(name, vulkan, number + step, kind, (bits,) * len(letters))
    yield Format("R64ui", "R64_UINT", 110, "uint", (64,))
    yield Format("R64i", "R64_SINT", 111, "sint", (64,))
    yield Format("Rgb10A2", "A2B10G10R10_UNORM_PACK32", 64, "unorm", (10, 10, 10, 2), True)
    yield Format("Rgb10a2ui", "A2B10G10R10_UINT_PACK32", 68, "uint", (10, 10, 10, 2), True)
    yield Format("R11fG11fB10f", "B10G11R11_UFLOAT_PACK32", 122, "ufloat", (11, 11, 10), True)


FORMATS = {format.name: format for format in _formats()}
"""Formats that both SPIR-V (for storage images) and Vulkan have, by name in SPIR-V."""

_BY_ANY_NAME = {
    name.lower().replace("_", ""): format
    for format in FORMATS.values()
    for name in (format.name, format.vulkan_name)
}


def format_of(name: str) -> Format:
    """
    Returns the format with a name of SPIR-V, GLSL (`rgba8_snorm`) or Vulkan.

    Raises `ValueError` for an unknown name.
    """
    plain = name.lower().replace("_", "").removeprefix("vkformat")
    if plain not in _BY_ANY_NAME:
        raise ValueError(
            f"the image format {name!r} does not exist; the formats are: {', '.join(FORMATS)}"
        )
    return _BY_ANY_NAME[plain]


ADDRESS_MODES = (
    "repeat",
    "mirrored_repeat",
    "clamp_to_edge",
    "clamp_to_border",
    "mirror_clamp_to_edge",
)
BORDERS = {
    "transparent_black": (0, 0, 0, 0),
    "opaque_black": (0, 0, 0, 1),
    "opaque_white": (1,) * 4,
}
COMPARES = (
    *("never", "less", "equal", "less_or_equal", "greater", "not_equal", "greater_or_equal"),
    "always",
)
"""Vulkan's names of comparisons, in the order of their enum values."""


@dataclass(frozen=True)
class Sampler:
    """The settings of a sampler, with Vulkan's names."""

    mag: Filter = "nearest"
    min: Filter = "nearest"
    mipmap: Filter = "nearest"
    address: tuple[str, str, str] = ("clamp_to_edge", "clamp_to_edge", "clamp_to_edge")
    border: str = "transparent_black"
    min_lod: float = 0.0
    max_lod: float = 1000.0
    lod_bias: float = 0.0
    unnormalized: bool = False
    compare: str | None = None

    def __post_init__(self) -> None:
        if len(self.address) != 3:
            raise ValueError(f"a sampler needs 3 address modes, not {len(self.address)}")
        choices = {"mag": ("nearest", "linear"), "border": BORDERS, "compare": (*COMPARES, None)}
        choices |= {"min": choices["mag"], "mipmap": choices["mag"]}
        rows = [(name, getattr(self, name), known) for name, known in choices.items()]
        for name, value, known in (*rows, *(("address", a, ADDRESS_MODES) for a in self.address)):
            if value not in known:
                raise ValueError(
                    f"a sampler's {name} cannot be {value!r}; use one of {list(known)}"
                )


@dataclass(frozen=True)
class Image:
    """
    An image: format, size (width, height, depth), layers, mip levels and samples.

    A texel buffer's size is its number of texels. The faces of a cube are layers, six for each
    cube. `sampler` is set for a combined image and sampler.
    """

    format: str
    size: tuple[int, ...]
    layers: int = 1
    levels: int = 1
    samples: int = 1
    sampler: Sampler | None = None

    def __post_init__(self) -> None:
        format_of(self.format)
        if not 1 <= len(self.size) <= 3 or min(*self.size, self.layers, self.levels) < 1:
            raise ValueError(
                "an image must have 1 to 3 sizes, and its sizes, layers and levels must be above "
                f"0, not {self.size}, {self.layers} and {self.levels}"
            )
        most = max(self.size).bit_length()
        if self.levels > most:
            raise ValueError(
                f"an image of {self.size} must have at most {most} levels, not {self.levels}"
            )
        if self.samples not in (1, 2, 4, 8, 16, 32, 64) or (self.samples > 1 < self.levels):
            raise ValueError(
                "an image must have 1, 2, 4, 8, 16, 32 or 64 samples, and 1 if it has several "
                f"levels, not {self.samples}"
            )

    @property
    def texel(self) -> Format:
        """The format of the image's texels."""
        return format_of(self.format)

    def extent(self, level: int = 0) -> tuple[int, int, int]:
        """Returns width, height and depth of a level; 1 for missing dimensions."""
        sizes = (*self.size, 1, 1)
        return (
            max(1, sizes[0] >> level),
            max(1, sizes[1] >> level),
            max(1, sizes[2] >> level),
        )

    def starts(self) -> list[int]:
        """Returns the offset of each level in texels, and the total number of texels."""
        counts = [prod(self.extent(level)) for level in range(self.levels)]
        ends = np.cumsum([0, *counts]) * self.layers * self.samples
        return [int(end) for end in ends]

    @property
    def nbytes(self) -> int:
        """Size of all texels in bytes."""
        return self.starts()[-1] * self.texel.itemsize
