"""Reads input arrays for the command line, and prints or writes result arrays."""

from __future__ import annotations

import argparse
import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import evaluate, is_name
from xdsl_spirv.runtime.manifest import Buffer
from xdsl_spirv.runtime.memory import refuse_beyond_memory
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.tools.media import is_media, read_media
from xdsl_spirv.tools.output import write
from xdsl_spirv.tools.report import note_row

OPEN = "?"
"""Value of `--dim NAME=` for a dimension whose size is known only at run time."""


def dims_of(arguments: argparse.Namespace) -> dict[str, int | None]:
    """
    Parses the options `--dim NAME=SIZE`; a size of `?` becomes None. Raises `ProgramError` for a
    malformed option.
    """
    dims: dict[str, int | None] = {}
    for text in getattr(arguments, "dims", ()):
        name, _, size = text.rpartition("=")
        if not name or not (size.isdecimal() or size == OPEN):
            raise ProgramError(
                f"--dim {text} is not a dimension", "", f"write --dim NAME=SIZE, or NAME={OPEN}"
            )
        dims[name] = None if size == OPEN else int(size)
    return dims


def states_of(arguments: argparse.Namespace) -> dict[str, str] | None:
    """
    Parses the options `--state INPUT=OUTPUT`; returns None if there are none. Raises
    `ProgramError` for a malformed option.
    """
    states: dict[str, str] = {}
    for text in getattr(arguments, "states", ()):
        name, is_pair, output = text.partition("=")
        if not is_pair or not name or not output:
            raise ProgramError(f"--state {text} is not a pair", "", "write --state INPUT=OUTPUT")
        states[name] = output
    return states or None


def constants_of(arguments: argparse.Namespace) -> dict[str, Array]:
    """
    Parses the options `--constant NAME=NUMBER` and `NAME=x.npy`. Raises `ProgramError` for a
    malformed option.
    """
    constants: dict[str, Array] = {}
    for text in getattr(arguments, "constants", ()):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ProgramError(
                f"--constant {text} is not a constant",
                "",
                "write --constant NAME=NUMBER, or --constant NAME=x.npy",
            )
        is_file = value.endswith(".npy")
        constants[name] = read_array(value) if is_file else _number(f"--constant {text}", value)
    return constants


def _number(text: str, value: str) -> Array:
    for kind in (int, float):
        try:
            return np.array(kind(value))
        except (ValueError, OverflowError):
            continue
    raise ProgramError(f"{text}: {value!r} is not a number", "", "give a number or a .npy file")


def read_inputs(arguments: argparse.Namespace, buffers: Iterable[Buffer]) -> dict[str, Array]:
    """
    Reads the arrays of `--input`, and makes random arrays for the other inputs if `--random` is
    given.

    Dynamic sizes of random arrays come from `--dim` or from the arrays of `--input`. Raises
    `ProgramError` if an array does not fit its buffer.
    """
    expected = {buffer.name: buffer for buffer in buffers}
    wanted = ", ".join(f"{name}: {buffer}" for name, buffer in expected.items()) or "none"
    inputs: dict[str, Array] = {}
    for text in arguments.inputs:
        name, equals, path = text.partition("=")
        if not equals:
            raise ProgramError(f"--input {text} has no file", "", "write --input NAME=x.npy")
        if name not in expected:
            remedy = did_you_mean(name, expected, "rename it")
            raise ProgramError(f"there is no input {name!r}", f"inputs: {wanted}", remedy)
        is_number = expected[name].shape == () and not path.endswith((".npy", ".npz"))
        if is_number and not is_media(path):
            value = _number(f"--input {text}", path).item()
        elif is_media(path):
            value = read_media(path, expected[name], arguments)
        else:
            value = read_array(path, name)
        inputs[name] = expected[name].accept(value)
    if arguments.random is not None:
        generator = np.random.default_rng(arguments.random)
        sizes = {name: size for name, size in dims_of(arguments).items() if size is not None}
        for name, array in inputs.items():
            sizes |= {
                str(size): given
                for size, given in zip(expected[name].shape, array.shape, strict=True)
                if is_name(size)
            }
        for name, buffer in expected.items():
            inputs.setdefault(name, _random(generator, buffer, sizes))
    return inputs


def read_all_inputs(arguments: argparse.Namespace, buffers: Sequence[Buffer]) -> dict[str, Array]:
    """
    Returns the arrays of the options `--input` and `--random`, one for each buffer.

    Raises `ProgramError` if an array is missing or does not fit its buffer.
    """
    inputs = read_inputs(arguments, buffers)
    missing = [b for b in buffers if b.name not in inputs]
    if missing:
        raise ProgramError(
            f"the input {missing[0].name!r} is missing",
            ", ".join(f"{b.name}: {b}" for b in buffers),
            f"give --input {missing[0].name}=x.npy, or --random SEED",
        )
    return inputs


def _random(generator: np.random.Generator, buffer: Buffer, sizes: Mapping[str, int]) -> Array:
    if buffer.kind == "scalar":
        # Every program accepts 0.
        return buffer.accept(np.array(sizes.get(buffer.name, 0)))
    for size in filter(is_name, buffer.shape):
        if size not in sizes:
            raise ProgramError(
                f"the size {size} of {buffer.name!r} ({buffer}) is not known",
                "",
                f"give --dim {size}=SIZE",
            )
    shape = tuple(evaluate(size, sizes, f"input {buffer.name!r}") for size in buffer.shape)
    refuse_beyond_memory([replace(buffer, shape=shape)])
    dtype = dtype_of(buffer.type)
    if dtype.kind in "iu":
        return generator.integers(-8 if dtype.kind == "i" else 0, 8, shape).astype(dtype)
    return generator.uniform(-1, 1, shape).astype(dtype)


NO_ARRAYS = (ValueError, EOFError, zipfile.BadZipFile, zlib.error)
"""Exceptions that numpy raises for files that are not `.npy` or `.npz` files."""


def read_array(path: str, name: str | None = None) -> Array:
    """
    Reads the array of a `.npy` file, or the array `name` of an `.npz` file.

    Raises `ProgramError` for any other content.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        if name is not None and not isinstance(loaded, np.ndarray) and name in loaded:
            loaded = loaded[name]
    except OSError as error:
        raise ProgramError(
            f"cannot read the input: {error.strerror or error}", path, "give a .npy file"
        ) from error
    except NO_ARRAYS as error:
        raise ProgramError(
            "the input is not a numpy array", path, "write it with numpy.save"
        ) from error
    if not isinstance(loaded, np.ndarray):
        raise ProgramError(
            f"the file is an .npz file without the array {name!r}; its arrays: {', '.join(loaded)}"
            if name is not None
            else "the file is an .npz file, which may hold several arrays",
            path,
            "write a .npy file with numpy.save",
        )
    return loaded


def write_results(path: str | None, results: Mapping[str, Array]) -> None:
    """Prints a summary of the results, and writes them to an .npz file if `path` is given."""
    for name, result in results.items():
        shape = "x".join([*map(str, result.shape), result.dtype.name])
        kind = {"name": name, "shape": result.shape, "type": result.dtype.name}
        numbers = _summary(result)
        note_row("results", kind | numbers)
        shown = {key: f"{x:.6g}" if math.isfinite(x) else str(x) for key, x in numbers.items()}
        said = ", from {least} to {greatest}, mean {mean}".format(**shown) if shown else ""
        print(f"{name}: {shape}{said}")
    if path is not None:
        write(path, npz_bytes(results))


MAX_NAME = 1000
"""Longest name in an .npz file, in bytes. Longer names are cut and get a digest."""


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Returns named arrays as an .npz file. Unlike `numpy.savez`, it accepts any name."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, array in arrays.items():
            data = name.encode("utf-8", "surrogateescape")
            if len(data) > MAX_NAME or b"\0" in data:
                kept = data[:MAX_NAME].decode("utf-8", "ignore").replace("\0", "")
                name = f"{kept}-{hashlib.sha256(data).hexdigest()[:16]}"
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
    return archive.getvalue()


def _summary(result: Array) -> dict[str, float]:
    if result.size == 0:
        return {}
    values = result.astype(np.float64)
    least, mean, greatest = values.min(), values.mean(), values.max()
    return {"least": float(least), "mean": float(mean), "greatest": float(greatest)}
