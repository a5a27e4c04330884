"""
Reads images and texts as inputs: `--input x=photo.jpg`, `--input ids=prompt.txt`.

A model file does not describe the format of its images, so `--image` must give all settings.
Pillow reads images; the package tokenizers reads `tokenizer.json`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.speech import did_you_mean

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
TEXT = ".txt"
LAYOUTS = ("nchw", "nhwc", "chw", "hwc", "nhw", "hw")
CHANNELS = {"rgb": "RGB", "bgr": "RGB", "gray": "L"}
SIZES = ("exact", "stretch", "crop")
EXAMPLE = "layout=nchw,channels=rgb,size=crop,mean=0.485/0.456/0.406,std=0.229/0.224/0.225"


@dataclass(frozen=True)
class Picture:
    """
    Settings for converting an image file to an array.

    `size` is `exact` (the image must have the model's size), `stretch`, or `crop` (the image is
    scaled to cover the model's size, and its middle is used). For float inputs, pixels from 0 to 1
    become (pixel - mean) / std.
    """

    layout: str
    channels: str
    size: str
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def is_media(path: str) -> bool:
    """True if a file's name shows that the file is an image or a text."""
    return Path(path).suffix.lower() in (*PICTURES, TEXT)


def read_media(path: str, buffer: Buffer, arguments: argparse.Namespace) -> Array:
    """Reads an image or text as an input's array. Raises `ProgramError` if it does not fit."""
    if Path(path).suffix.lower() == TEXT:
        return _tokens(path, buffer, arguments.tokenizer)
    return _pixels(path, buffer, _picture(arguments.image, buffer))


def _refuse(cause: str, remedy: str = f"as in --image {EXAMPLE}") -> ProgramError:
    return ProgramError(cause, "--image", remedy)


def _picture(text: str | None, buffer: Buffer) -> Picture:
    """Parses `--image`. Raises `ProgramError` for missing or unknown settings."""
    given: dict[str, str] = {}
    for part in filter(None, (text or "").split(",")):
        name, _, value = part.partition("=")
        if name not in Picture.__dataclass_fields__:
            known = tuple(Picture.__dataclass_fields__)
            raise _refuse(
                f"{name!r} is not a setting of a picture",
                did_you_mean(name, known, ", ".join(known)),
            )
        given[name] = value
    whole = dtype_of(buffer.type).kind in "iu"
    needed = ("layout", "channels", "size", *(() if whole else ("mean", "std")))
    if missing := [name for name in needed if name not in given]:
        raise _refuse(f"{', '.join(missing)} must be given for {buffer.name!r}")
    if whole and given.keys() & {"mean", "std"}:
        raise _refuse(
            f"{buffer.name!r} is {buffer}, but mean and std need floats",
            "leave mean and std out",
        )
    for name, known in (("layout", LAYOUTS), ("channels", tuple(CHANNELS)), ("size", SIZES)):
        if given[name] not in known:
            remedy = did_you_mean(given[name], known, f"use one of {', '.join(known)}")
            raise _refuse(f"{name}={given[name]} is not supported", remedy)
    numbers = {name: _numbers(name, given[name]) for name in ("mean", "std") if name in given}
    return Picture(given["layout"], given["channels"], given["size"], **numbers)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split("/")))
    except ValueError:
        raise _refuse(f"{name}={text} is not a number") from None
    if name == "std" and 0 in numbers:
        raise _refuse("std must not be 0, because pixels are divided by it")
    return numbers


def _pixels(path: str, buffer: Buffer, how: Picture) -> Array:
    Image = _library("PIL.Image", "pillow")
    if len(buffer.shape) != len(how.layout):
        raise _refuse(f"{buffer.name!r} is {buffer}, which does not fit the layout {how.layout}")
    sizes = dict(zip(how.layout, buffer.shape, strict=True))
    try:
        with Image.open(path) as opened:
            picture = opened.convert(CHANNELS[how.channels])
    except FileNotFoundError as error:
        raise ProgramError(
            "cannot read the picture: no such file", path, "correct the path"
        ) from error
    except (OSError, Image.DecompressionBombError) as error:
        raise ProgramError(f"cannot read the picture: {error}", path, "give a picture") from error
    width, height = (
        size if isinstance(size, int) else have
        for size, have in zip((sizes["w"], sizes["h"]), picture.size, strict=True)
    )
    picture = _resize_picture(picture, (width, height), how.size, path)
    array = np.asarray(picture).reshape(height, width, -1)
    array = array[:, :, ::-1] if how.channels == "bgr" else array
    count = sizes.get("c", 1)
    if count != array.shape[2]:
        raise _refuse(
            f"{buffer.name!r} has {count} channels, but {how.channels} has {array.shape[2]}"
        )
    if how.mean:
        if {len(how.mean), len(how.std)} - {1, array.shape[2]}:
            raise _refuse(
                f"mean and std need one number, or one for each of {array.shape[2]} channels"
            )
        array = (array / 255.0 - np.array(how.mean)) / np.array(how.std)
    axes = "hwc"
    if "c" not in how.layout:
        array, axes = array[:, :, 0], "hw"
    array = array.transpose([axes.index(axis) for axis in how.layout if axis != "n"])
    array = array[np.newaxis] if how.layout[0] == "n" else array
    return np.ascontiguousarray(array).astype(dtype_of(buffer.type))


def _resize_picture(picture: Any, size: tuple[int, int], how: str, path: str) -> Any:
    """Resizes an image to the model's size."""
    ImageOps = _library("PIL.ImageOps", "pillow")
    if picture.size == size:
        return picture
    if how == "exact":
        raise ProgramError(
            f"the picture has {picture.width}x{picture.height} pixels, not {size[0]}x{size[1]}",
            path,
            "give another picture, or use size=crop or size=stretch",
        )
    return picture.resize(size) if how == "stretch" else ImageOps.fit(picture, size)


def _tokens(path: str, buffer: Buffer, tokenizer: str | None) -> Array:
    if tokenizer is None:
        raise ProgramError(
            f"the input {buffer.name!r} is a text, but no tokenizer is given",
            path,
            "give --tokenizer tokenizer.json, too",
        )
    library = _library("tokenizers", "tokenizers")
    try:
        text = Path(path).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ProgramError(f"cannot read the text: {error}", path, "give UTF-8") from error
    try:
        known = library.Tokenizer.from_file(tokenizer)
    except Exception as error:  # The package tokenizers raises a plain `Exception`.
        raise ProgramError(
            f"the file is not a tokenizer: {error}", tokenizer, "give a tokenizer.json"
        ) from error
    tokens = np.array(known.encode(text).ids, dtype_of(buffer.type))
    return tokens.reshape((1,) * (len(buffer.shape) - 1) + (-1,))


def _library(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ProgramError(f"{package} is not installed", "", f"pip install {package}") from error
