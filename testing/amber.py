"""
Parses Amber scripts of compute pipelines, such as Khronos' conformance tests.

`parse` supports the commands of such scripts: shaders, buffers, structs, pipelines, runs and
expectations. It raises `Unsupported` with the name of any other command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.images import FORMATS, Image, Sampler
from xdsl_spirv.images import Format as TexelFormat

Array = np.ndarray[Any, np.dtype[Any]]

SCALARS = {
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16)},
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (32, 64)},
    **{"float16": "f2", "float": "f4", "double": "f8"},
}
VECTOR = re.compile(r"vec([234])<(\w+)>")
MATRIX = re.compile(r"mat([234])x([234])<(\w+)>")
IGNORED = ("DEVICE_FEATURE", "DEVICE_EXTENSION", "INSTANCE_EXTENSION", "SET", "DEVICE_PROPERTY")
EPSILON = 1e-6
"""Allowed relative difference in per cent for EQ_... comparisons of floats."""
COMPARATORS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


Structs: TypeAlias = dict[str, list[tuple[str, int]]]
"""Maps a struct to its members: type, and number of elements (0 if the member is not an array)."""
Place: TypeAlias = tuple[int, ...]
"""Descriptor set and binding. For arrays of descriptors, the array index follows."""
TEXEL_BUFFERS = ("uniform_texel_buffer", "storage_texel_buffer")
IMAGES = ("storage_image", "sampled_image", "combined_image_sampler", *TEXEL_BUFFERS)
"""Kinds of bindings that are images."""


class Unsupported(Exception):
    """Error for a script that uses an unsupported part of the language."""


@dataclass
class Format:
    """Layout of a type in bytes: offset and dtype of each scalar, size with padding, alignment."""

    leaves: list[tuple[int, str]]
    size: int
    align: int

    def element_stride(self) -> int:
        """Returns the array stride of the type in bytes."""
        return -(-self.size // self.align) * self.align


@dataclass
class Buffer:
    name: str
    format: Format
    data: Array
    """Contents in bytes."""
    image: Image | None = None
    """Image layout, or the view of a texel buffer."""


@dataclass
class Shader:
    language: str
    text: str
    target_env: str | None


@dataclass
class Pipeline:
    shader: str = ""
    entry: str = "main"
    constants: dict[int, int | float] = field(default_factory=dict[int, "int | float"])
    bound: dict[Place, tuple[str, int]] = field(default_factory=dict[Place, tuple[str, int]])
    """Maps a binding to the name of its buffer or image, and the offset in bytes."""
    images: dict[Place, str | None] = field(default_factory=dict[Place, "str | None"])
    """
    Maps the binding of an image or a separate sampler to the sampler's name. None for an image
    without a sampler.
    """
    push: str | None = None
    subgroup_size: int | None = None


@dataclass
class Run:
    pipeline: str
    grid: tuple[int, int, int]


@dataclass
class Write:
    """Data that a command writes to a buffer between runs."""

    buffer: str
    offset: int
    data: Array


@dataclass
class Expectation:
    """
    Values that a buffer must have from `offset` on. Alternatively, `other` names the buffer that it
    must equal.
    """

    buffer: str
    comparator: str
    offset: int = 0
    values: Sequence[str] = ()
    other: str | None = None
    tolerance: tuple[float, bool] | None = None
    """Allowed difference. The bool is True if the difference is in per cent."""
    region: tuple[int, ...] = ()
    """Region of an image: x, y, width, height."""
    line: int = 0


@dataclass
class Script:
    shaders: dict[str, Shader] = field(default_factory=dict[str, Shader])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    samplers: dict[str, Sampler] = field(default_factory=dict[str, Sampler])
    pipelines: dict[str, Pipeline] = field(default_factory=dict[str, Pipeline])
    commands: list[Run | Write | Expectation] = field(
        default_factory=list["Run | Write | Expectation"]
    )

    def arguments(self, pipeline: Pipeline) -> tuple[dict[Place, Array], dict[Place, Any]]:
        """Returns a pipeline's buffers and the descriptions of its images, both by binding."""
        buffers = {at: self.buffers[n].data[o:] for at, (n, o) in pipeline.bound.items()}
        images: dict[Place, Any] = {}
        for at, name in pipeline.images.items():
            sampler = None if name is None else self.samplers[name]
            image = self.buffers[pipeline.bound[at][0]].image if at in pipeline.bound else None
            images[at] = sampler if image is None else replace(image, sampler=sampler)
        return buffers, images


def parse(text: str, folder: Path = Path()) -> Script:
    """Parses a script. `folder` contains its files. Raises `Unsupported`."""
    return _Parser(text, folder).parse()


def number(text: str) -> int | float:
    """Parses a literal of a script."""
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise Unsupported(f"the number {text} is not supported") from None


class _Parser:
    def __init__(self, text: str, folder: Path):
        self.folder = folder
        self.lines = list(enumerate(text.splitlines(), 1))
        self.at = 0
        self.script = Script()
        self.structs: Structs = {}

    def _next(self) -> tuple[int, list[str]] | None:
        """Returns the words of the next nonempty line. Joins continued lines."""
        while self.at < len(self.lines):
            line, text = self.lines[self.at]
            self.at += 1
            while text.rstrip().endswith("\\") and self.at < len(self.lines):
                text = text.rstrip()[:-1] + self.lines[self.at][1]
                self.at += 1
            words = text.partition("#")[0].split()
            if words:
                return line, words
        return None

    def _block(self) -> Iterator[tuple[int, list[str]]]:
        while (row := self._next()) is not None and row[1] != ["END"]:
            yield row

    def parse(self) -> Script:
        while (row := self._next()) is not None:
            self._command(*row)
        return self.script

    def _command(self, line: int, words: list[str]) -> None:
        match words:
            case ["SHADER", "compute", name, language, *rest]:
                self._shader(name, language, rest)
            case ["SHADER", stage, *_]:
                raise Unsupported(f"a {stage} shader is not supported")
            case ["STRUCT", name]:
                self.structs[name] = [self._member(row) for _, row in self._block()]
            case ["BUFFER", name, *rest]:
                self._buffer(name, rest)
            case ["IMAGE", name, *rest]:
                self._image(name, rest)
            case ["SAMPLER", name, *rest]:
                self.script.samplers[name] = _sampler(rest)
            case ["PIPELINE", "compute", name]:
                self._pipeline(name)
            case ["RUN", *rest]:
                if rest[0] == "TIMED_EXECUTION":
                    rest = rest[1:]
                if len(rest) != 4:
                    raise Unsupported(f"RUN {' '.join(rest[1:])} is not supported")
                x, y, z = (int(n) for n in rest[1:])
                self.script.commands.append(Run(rest[0], (x, y, z)))
            case ["EXPECT", *rest]:
                self.script.commands.append(self._expectation(rest, line))
            case ["REPEAT", count]:
                start = len(self.script.commands)
                for row in self._block():
                    self._command(*row)
                self.script.commands[start:] *= int(count)
            case [word, *_] if word in IGNORED:
                pass
            case [word, *rest]:
                raise Unsupported(f"{' '.join([word, *rest[:1]])} is not supported")
            case _:
                pass

    def _shader(self, name: str, language: str, rest: list[str]) -> None:
        body: list[str] = []
        while self.lines[self.at][1].strip() != "END":
            body.append(self.lines[self.at][1])
            self.at += 1
        self.at += 1
        target = rest[1].strip('"') if rest[:1] == ["TARGET_ENV"] else None
        self.script.shaders[name] = Shader(language, "\n".join(body) + "\n", target)

    # Types and buffers

    @staticmethod
    def _member(words: list[str]) -> tuple[str, int]:
        match = re.fullmatch(r"\w+(?:\[(\d+)\])?", words[1])
        if match is None or len(words) > 2:
            raise Unsupported(f"the member {' '.join(words)} is not supported")
        return words[0], int(match[1] or 0)

    def _buffer(self, name: str, words: list[str]) -> None:
        if words[:1] != ["DATA_TYPE"]:
            raise Unsupported(f"{' '.join(['BUFFER', *words[:1]])} is not supported")
        layout = next((w for w in words if w in ("STD140", "STD430")), "STD430")
        format = format_of(words[1], layout, self.structs)
        rest = [w for w in words[2:] if w != layout]
        if layout == "STD140":
            format.align = max(format.align, 16)
        self._fill(name, format, rest)
        texel = _texel_format(words[1])
        if texel is not None:
            buffer = self.script.buffers[name]
            buffer.image = Image(texel.name, (max(1, buffer.data.nbytes // texel.itemsize),))

    def _image(self, name: str, words: list[str]) -> None:
        said, rest = dict[str, str](), list(words)
        while rest and rest[0] not in ("DATA", "FILL", "SERIES_FROM"):
            if rest[0].startswith("DIM_"):
                said["DIM"], rest = rest[0], rest[1:]
            else:
                said[rest[0]], rest = rest[1], rest[2:]
        kind = said.pop("DATA_TYPE", None) or said.pop("FORMAT", "")
        texel = _texel_format(kind)
        axes = ("WIDTH", "HEIGHT", "DEPTH")[: int(said.pop("DIM", "DIM_2D")[4])]
        sizes = tuple(int(said.pop(axis)) for axis in axes if axis in said)
        samples, levels = int(said.pop("SAMPLES", 1)), int(said.pop("MIP_LEVELS", 1))
        if texel is None or len(sizes) != len(axes) or said:
            raise Unsupported(f"IMAGE {' '.join(said) or kind} is not supported")
        image = Image(texel.name, sizes, levels=levels, samples=samples)
        count = image.starts()[-1]
        data = rest if rest[:1] == ["DATA"] else ["SIZE", str(count), *(rest or ["FILL", "0"])]
        self._fill(name, format_of(texel.vulkan_name, "STD430"), data)
        self.script.buffers[name].image = image
        if self.script.buffers[name].data.nbytes != image.nbytes:
            raise Unsupported("IMAGE DATA must have the size of the image")

    def _fill(self, name: str, format: Format, rest: list[str]) -> None:
        match rest:
            case ["DATA", *values]:
                while "END" not in values:
                    row = self._next()
                    values += ["END"] if row is None else row[1]
                data = [number(v) for v in values[: values.index("END")]]
            case ["SIZE", count, "FILE", "TEXT", file]:
                path = self.folder / file
                if not path.exists():
                    raise Unsupported(f"the file {file} is missing")
                words = re.sub(r"#.*", "", path.read_text()).split()
                data = [number(w) for w in words[: int(count) * len(format.leaves)]]
            case ["SIZE", count, "FILL", value]:
                data = [number(value)] * (int(count) * len(format.leaves))
            case ["SIZE", count, "SERIES_FROM", start, "INC_BY", step]:
                first, add = number(start), number(step)
                data = [first + add * n for n in range(int(count) * len(format.leaves))]
            case _:
                raise Unsupported(f"{' '.join(['BUFFER', *rest[:1]])} is not supported")
        elements = -(-len(data) // len(format.leaves))
        buffer = Buffer(name, format, np.zeros(elements * format.element_stride(), np.uint8))
        for (at, dtype), value in zip(places(format, 0), data, strict=False):
            buffer.data[at : at + int(dtype[1])] = bytes_of(value, dtype)
        self.script.buffers[name] = buffer

    # Pipelines and expectations

    def _pipeline(self, name: str) -> None:
        pipeline = self.script.pipelines[name] = Pipeline()
        depth = 0
        while (row := self._next()) is not None:
            match row[1]:
                case ["END"] if not depth:
                    return
                case ["END"]:
                    depth -= 1
                case ["ATTACH", shader, *rest]:
                    self._attach(pipeline, shader, rest)
                case ["BIND", "BUFFER", buffer, "AS", "push_constant"]:
                    pipeline.push = buffer
                case [
                    "BIND", "BUFFER" | "BUFFER_ARRAY" as kind, *names, "AS", way,
                    "DESCRIPTOR_SET", s, "BINDING", b, "DESCRIPTOR_OFFSET", offset,
                ] if way in (*IMAGES, "storage", "uniform"):  # fmt: skip
                    self._bind(pipeline, names, (int(s), int(b)), way, kind, int(offset))
                case [
                    "BIND", "BUFFER" | "BUFFER_ARRAY" as kind, *names, "AS", way,
                    "DESCRIPTOR_SET", s, "BINDING", b,
                ] if way in (*IMAGES, "storage", "uniform"):  # fmt: skip
                    self._bind(pipeline, names, (int(s), int(b)), way, kind)
                case [
                    "BIND", "BUFFER", name, "AS", "combined_image_sampler",
                    "SAMPLER", sampler, "DESCRIPTOR_SET", s, "BINDING", b,
                ]:  # fmt: skip
                    self._bind(pipeline, [name], (int(s), int(b)), "combined", "BUFFER")
                    pipeline.images[int(s), int(b)] = sampler
                case ["BIND", "SAMPLER", sampler, "DESCRIPTOR_SET", s, "BINDING", b]:
                    pipeline.images[int(s), int(b)] = sampler
                case ["SUBGROUP" | "COMPILE_OPTIONS", *_]:
                    depth += 1
                case ["FULLY_POPULATED" | "VARYING_SIZE", *_]:
                    pass
                case ["REQUIRED_SIZE", size] if size.isdigit():
                    pipeline.subgroup_size = int(size)
                case words if not depth:
                    said = " ".join(words[:4:3] if len(words) > 3 else words[:1])
                    raise Unsupported(f"the command {said} is not supported")
                case _:
                    pass

    @staticmethod
    def _bind(
        pipeline: Pipeline, names: list[str], place: Place, way: str, kind: str, offset: int = 0
    ) -> None:
        for number, name in enumerate(names):
            at = place if kind == "BUFFER" else (*place, number)
            pipeline.bound[at] = name, offset
            if way in IMAGES:
                pipeline.images[at] = None

    @staticmethod
    def _attach(pipeline: Pipeline, shader: str, rest: list[str]) -> None:
        pipeline.shader = shader
        while rest:
            match rest:
                case ["ENTRY_POINT", entry, *rest]:
                    pipeline.entry = entry
                case ["SPECIALIZE", id, "AS", kind, value, *rest]:
                    given = number(value)
                    pipeline.constants[int(id)] = float(given) if "float" in kind else given
                case [word, *_]:
                    raise Unsupported(f"ATTACH {word} is not supported")
                case _:
                    pass

    @staticmethod
    def _expectation(words: list[str], line: int) -> Expectation:
        match words:
            case [buffer, "EQ_BUFFER", other]:
                return Expectation(buffer, "EQ", other=other, line=line)
            case [buffer, "IDX", x, y, "SIZE", w, h, "EQ_RGBA" | "EQ_RGB", *values]:
                region = int(x), int(y), int(w), int(h)
                return Expectation(buffer, "EQ", values=values, region=region, line=line)
            case [buffer, "IDX", at, "TOLERANCE", bound, "EQ", *values]:
                percent = bound.endswith("%")
                tolerance = float(bound.rstrip("%")), percent
                return Expectation(buffer, "EQ", int(at), values, None, tolerance, line=line)
            case [buffer, "IDX", at, comparator, *values] if comparator in COMPARATORS:
                return Expectation(buffer, comparator, int(at), values, line=line)
            case rest:
                raise Unsupported(f"{' '.join(['EXPECT', *rest[1:2]])} is not supported")


def format_of(name: str, layout: str, structs: Structs | None = None) -> Format:
    """Returns the layout of a named type by the rules of STD140 or STD430. Raises `Unsupported`."""
    structs = structs or {}
    if name in SCALARS:
        size = int(SCALARS[name][1])
        return Format([(0, SCALARS[name])], size, size)
    if (match := VECTOR.fullmatch(name)) and match[2] in SCALARS:
        dtype, count = SCALARS[match[2]], int(match[1])
        size = int(dtype[1])
        leaves = [(size * n, dtype) for n in range(count)]
        return Format(leaves, size * count, size * (4 if count == 3 else count))
    if match := MATRIX.fullmatch(name):
        column = format_of(f"vec{match[2]}<{match[3]}>", layout)
        return _array(column, int(match[1]), layout)
    if name.partition("_")[2] and (texel := _texel_format(name)) is not None:
        dtype = texel.dtype.str[1:]
        leaves = [(texel.dtype.itemsize * n, dtype) for n in range(prod(texel.shape))]
        return Format(leaves, texel.itemsize, texel.itemsize)
    if name not in structs:
        raise Unsupported(f"the type {name} is not supported")
    leaves, at, align = list[tuple[int, str]](), 0, 16 if layout == "STD140" else 1
    for member, count in structs[name]:
        format = format_of(member, layout, structs)
        if count:
            format = _array(format, count, layout)
        at = -(-at // format.align) * format.align
        leaves += [(at + offset, dtype) for offset, dtype in format.leaves]
        at += format.element_stride() if member in structs else format.size
        align = max(align, format.align)
    return Format(leaves, -(-at // align) * align, align)


def _array(element: Format, count: int, layout: str) -> Format:
    align = max(element.align, 16) if layout == "STD140" else element.align
    step = -(-element.size // align) * align
    leaves = [(step * n + at, dtype) for n in range(count) for at, dtype in element.leaves]
    return Format(leaves, step * count, align)


def _texel_format(name: str) -> TexelFormat | None:
    """Returns the texel format of a Vulkan format name or a data type."""
    vector = VECTOR.fullmatch(name)
    scalar, count = (vector[2], int(vector[1])) if vector else (name, 1)
    dtype = np.dtype(SCALARS.get(scalar, "V1"))
    for format in FORMATS.values():
        pure = format.kind in ("sfloat", "uint", "sint") and not format.packed
        if format.vulkan_name == name or (
            pure and format.dtype == dtype and len(format.bits) == count
        ):
            return format
    return None


def _sampler(words: list[str]) -> Sampler:
    said = dict(zip(words[::2], words[1::2], strict=True))
    modes = [said.pop(f"ADDRESS_MODE_{axis}", "repeat") for axis in "UVW"]
    settings: dict[str, Any] = {"address": tuple(modes)}
    for word, name in (("MAG_FILTER", "mag"), ("MIN_FILTER", "min")):
        settings[name] = said.pop(word, "nearest")
    for word, name, default in (("MIN_LOD", "min_lod", 0.0), ("MAX_LOD", "max_lod", 1.0)):
        settings[name] = float(said.pop(word, default))
    settings["border"] = said.pop("BORDER_COLOR", "float_transparent_black").partition("_")[2]
    if said.pop("NORMALIZED_COORDS", None) is not None or said:
        raise Unsupported(f"SAMPLER {' '.join(said)} is not supported")
    return Sampler(**settings)


def _region(buffer: Buffer, region: Sequence[int]) -> Array:
    if buffer.image is None or buffer.image.texel.dtype != np.uint8:
        raise Unsupported(f"EXPECT on the colors of {buffer.name} is not supported")
    x, y, w, h = region
    width, height, _ = buffer.image.extent()
    return buffer.data.reshape(-1, height, width, *buffer.image.texel.shape)[
        0, y : y + h, x : x + w
    ]


def places(format: Format, start: int) -> Iterator[tuple[int, str]]:
    """
    Yields the offset and dtype of each scalar of an infinitely long array that begins at `start`.
    """
    base = start
    for number_, (at, dtype) in enumerate(cycle(format.leaves)):
        if number_ and number_ % len(format.leaves) == 0:
            base += format.element_stride()
        yield base + at, dtype


def bytes_of(value: float, dtype: str) -> Array:
    scalar = np.dtype(f"<{dtype}")
    if scalar.kind in "iu" and isinstance(value, int):
        value &= (1 << 8 * scalar.itemsize) - 1
        scalar = np.dtype(f"<u{scalar.itemsize}")
    if scalar == np.float16:
        # Amber truncates the mantissa.
        value = (np.array([value], np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32)[0]
    return np.array([value]).astype(scalar).view(np.uint8)


def failures(script: Script, expectation: Expectation) -> Iterator[str]:
    """Yields descriptions of the differences between a buffer and an expectation."""
    buffer = script.buffers[expectation.buffer]
    if expectation.other is not None:
        if not np.array_equal(buffer.data, script.buffers[expectation.other].data):
            yield f"line {expectation.line}: {buffer.name} differs from {expectation.other}"
        return
    if expectation.region:
        found = _region(buffer, expectation.region)
        wanted = np.array([number(v) for v in expectation.values])
        wrong = (found[..., : wanted.size] != wanted).any(axis=-1)
        if wrong.any():
            first = found[wrong][0].tolist()
            yield (
                f"line {expectation.line}: {wrong.sum()} texels of {buffer.name} differ, such "
                f"as {first}"
            )
        return
    compare, tolerance = COMPARATORS[expectation.comparator], expectation.tolerance
    values = map(number, expectation.values)
    for (at, dtype), value in zip(places(buffer.format, expectation.offset), values, strict=False):
        found = buffer.data[at : at + int(dtype[1])].view(f"<{dtype}")
        wanted = bytes_of(value, dtype).view(f"<{dtype}")
        if tolerance is None and expectation.comparator == "EQ" and dtype[0] == "f":
            tolerance = EPSILON, True
        if tolerance is not None:
            bound, percent = tolerance
            limit = abs(float(wanted[0])) * bound / 100 if percent else bound
            right = abs(float(found[0]) - float(wanted[0])) <= limit
        else:
            right = bool(compare(found, wanted).all())
        if not right:
            yield (
                f"line {expectation.line}: {buffer.name} at byte {at} is {found[0]}, "
                f"not {expectation.comparator} {wanted[0]}"
            )
