"""Makes the images and samplers of a launch from its description."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.serialization.validation.images import Image as ImageType
from xdsl_spirv.tools.kernel_test.description import Contents, Misuse

AXES = {"1D": ("WIDTH",), "3D": ("WIDTH", "HEIGHT", "DEPTH"), "Buffer": ("TEXELS",)}
"""Names of an image's size components by SPIR-V Dim; other Dims have width and height."""


class Texture(NamedTuple):
    """The SPIR-V type of an image, a sampler or a sampled image."""

    image: ImageType | None
    sampler: bool

    @property
    def format(self) -> str | None:
        """Returns the image format in the type, or None."""
        return None if self.image is None or self.image.format == "Unknown" else self.image.format

    @property
    def axes(self) -> tuple[str, ...]:
        """
        Returns the names of the size components. In an arrayed image, the last one is the number
        of layers.
        """
        dim = self.image.dim if self.image else ""
        layers = ("CUBES" if dim == "Cube" else "LAYERS",)
        return AXES.get(dim, ("WIDTH", "HEIGHT")) + layers * bool(self.image and self.image.arrayed)

    @property
    def usual_format(self) -> str:
        """Returns a format whose texels have the type of the image's components."""
        component = self.image.sampled_type if self.image else None
        if component is None or component.kind != "Int":
            return "rgba8"
        sign = "i" if component.signed else "ui"
        return f"r64{sign}" if component.width == 64 else f"rgba8{sign}"

    def __str__(self) -> str:
        return f"an image ({self.image.dim})" if self.image else "a sampler"

    def example(self, written: bool) -> list[str]:
        """Returns TOML lines that describe an example of this type."""
        texels = [
            f'format = "{self.format or self.usual_format}"',
            f"size = {[16] * len(self.axes)}  # {', '.join(self.axes)}",
            f'content = "{"zeros" if written else "random"}"',
        ]
        sampler = ['sampler = { mag = "linear", min = "linear" }'] * self.sampler
        return (texels if self.image else []) + sampler

    def fits(self, given: Image | Sampler | None) -> bool:
        """True if an image or a sampler has this type."""
        if self.image is None or not isinstance(given, Image):
            return self.image is None and isinstance(given, Sampler)
        return (
            self.format in (None, given.texel.name)
            and len(given.size) + self.image.arrayed == len(self.axes)
            and (self.image.arrayed or given.layers == (6 if self.image.dim == "Cube" else 1))
            and self.image.multisampled == (given.samples > 1)
            and self.sampler == (given.sampler is not None)
        )


def describe(label: str, type: Texture, contents: Contents) -> Image | Sampler:
    """Makes the described image or sampler. Raises `Misuse` if it does not fit the kernel."""
    made, size, format = contents.sampler, contents.size, contents.format or type.format
    problem = None
    try:
        if type.image is None:
            problem = None if contents == Contents(sampler=made) else "a sampler has no texels"
        elif contents.type is not None or contents.members:
            problem = "an image cannot have type or members"
        elif type.sampler and made is None:
            problem = "it needs a sampler"
        elif format is None or size is None or len(size) != len(type.axes):
            wanted = f"size of {len(type.axes)} numbers" if format else "format"
            problem = f"it needs a {wanted}"
        else:
            layers = 6 if type.image.dim == "Cube" else 1
            if type.image.arrayed:
                size, layers = size[:-1], size[-1] * layers
            made = Image(format, size, layers, contents.levels, sampler=made)
    except ValueError as error:
        problem = str(error)
    if made is not None and problem is None and type.fits(made):
        return made
    remedy = "write\n" + "\n".join(type.example(True))
    raise Misuse(f"{label} is {type}: {problem or f'the test describes {made}'}", "", remedy)


def view_texels(
    type: Texture, image: Image, contents: Contents
) -> tuple[str, tuple[int, ...], Contents]:
    """
    Returns the element type, shape and contents of an image's texels.

    Random numbers are limited to the range of a normalized format.
    """
    texel, kind, bits = image.texel, image.texel.dtype.kind, 8 * image.texel.dtype.itemsize
    layers = (image.layers,) * (len(type.axes) > len(image.size) or image.layers > 1)
    shape = (image.starts()[-1],) if image.levels > 1 else (*layers, *reversed(image.size))
    components = tuple(n for n in (image.samples, *texel.shape) if n > 1)
    if contents.content == "random" and texel.kind in ("unorm", "snorm"):
        most = (1 << bits - (kind == "i")) - 1
        low, high = contents.low, contents.high
        low, high = -most * (kind == "i") if low is None else low, most if high is None else high
        contents = replace(contents, low=low, high=high)
    return f"{kind}{bits}", shape + components, contents
