"""Reads a test from a `*.kernel.toml` file. Refuses unknown keys and values of wrong types."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from xdsl_spirv.images import Sampler
from xdsl_spirv.tools.kernel_test.description import (
    DEFAULT_TIMEOUT,
    ELEMENT_TYPES,
    PATTERNS,
    PROOF_TIMEOUT,
    QUESTIONS,
    SUFFIX,
    Compile,
    Contents,
    Given,
    KernelTest,
    Misuse,
    Tolerance,
    suggest,
)

Value = TypeVar("Value")

MAX_FILE = 16 << 20
"""Maximum size of a description, in bytes. Large arrays belong into .npy files."""

MAX_COUNT = 2**31 - 1
"""Maximum number of workgroups along an axis, of steps, and of seeds."""

MAX_GRID = 2**32 - 1
MAX_SECONDS = 1_000_000
MAX_ELEMENTS = 1 << 40


class Table:
    """A TOML table. `take` reads a key once; `finish` refuses the keys that were not read."""

    def __init__(self, data: Mapping[str, Any], path: Path, where: str = ""):
        self.data = dict(data)
        self.path = path
        self.where = where
        self._known: list[str] = []

    def error(self, cause: str, remedy: str, key: str = "") -> Misuse:
        """Returns an error about the table, or about one of its keys."""
        place = ".".join(filter(None, (self.where, key)))
        return Misuse(f"{self.path}: {place}: {cause}" if place else f"{self.path}: {cause}", "",
                      remedy)  # fmt: skip

    def take(self, key: str, default: Value, read: Callable[[Table, str, Any], Value]) -> Value:
        """Returns the value of a key, converted by `read`, or the default value."""
        self._known.append(key)
        return read(self, key, self.data.pop(key)) if key in self.data else default

    def finish(self) -> None:
        """Raises `Misuse` for a key that was not read."""
        for key in self.data:
            raise self.error("the key is unknown", suggest(key, self._known), key)


def text(table: Table, key: str, value: Any) -> str:
    """Returns a value that is a nonempty string. Raises `Misuse` for other values."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise table.error(f"{value!r} is not text", 'write it in quotes, as in "main"', key)
    return value


def texts(table: Table, key: str, value: Any) -> tuple[str, ...]:
    """Converts a string or a list of strings to a tuple."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise table.error(f"{value!r} is not a list of strings", 'write ["A", "B"]', key)
    return tuple(text(table, key, item) for item in value)  # pyright: ignore


def questions(table: Table, key: str, value: Any) -> tuple[str, ...]:
    """Returns the names of the questions to prove. Raises `Misuse` for an unknown question."""
    asked = texts(table, key, value)
    for name in asked:
        if name not in QUESTIONS:
            raise table.error(
                f"{name!r} is not a property that can be proved", suggest(name, QUESTIONS), key
            )
    return asked


def names(table: Table, key: str, value: Any) -> str:
    """Converts a comma-separated string or a list of strings to a comma-separated string."""
    return ",".join(texts(table, key, value))


def flag(table: Table, key: str, value: Any) -> bool:
    """Returns a boolean value. Raises `Misuse` for other values."""
    if not isinstance(value, bool):
        raise table.error(f"{value!r} is neither true nor false", "write true or false", key)
    return value


def count(table: Table, key: str, value: Any, most: int = MAX_COUNT, least: int = 1) -> int:
    """Returns an integer from `least` to `most`. Raises `Misuse` for other values."""
    if type(value) is not int or not least <= value <= most:
        raise table.error(
            f"{value!r} is not an integer from {least} to {most}", "write a number", key
        )
    return value


def number(table: Table, key: str, value: Any) -> float:
    """Returns a finite number. Raises `Misuse` for other values."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise table.error(f"{value!r} is not a finite number", "write a number such as 0.5", key)
    return float(value)


def duration(table: Table, key: str, value: Any) -> float:
    """Returns a positive number of seconds. Raises `Misuse` for other values."""
    seconds = number(table, key, value)
    if not 0 < seconds <= MAX_SECONDS:
        remedy = f"write a number above 0, up to {MAX_SECONDS}"
        raise table.error(f"{value} s is not a valid time limit", remedy, key)
    return seconds


def counts(table: Table, key: str, value: Any, most: int = MAX_COUNT) -> tuple[int, ...]:
    """
    Converts a positive integer, or a list of positive integers, to a tuple. None may exceed `most`.
    """
    given: list[Any] = value if isinstance(value, list) else [value]
    if not given:
        raise table.error("the list is empty", "write a number, or a list of numbers", key)
    return tuple(count(table, key, item, most) for item in given)


def grid(table: Table, key: str, value: Any) -> tuple[int, int, int]:
    """Converts one to three numbers of workgroups to a grid; missing numbers are 1."""
    given = counts(table, key, value, MAX_GRID)
    if len(given) > 3:
        raise table.error(f"a grid cannot have {len(given)} numbers", "give one to three", key)
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def shape(table: Table, key: str, value: Any) -> tuple[int, ...]:
    """Converts a number of elements or a list of sizes to a shape."""
    sizes = counts(table, key, value, MAX_ELEMENTS)
    if math.prod(sizes) > MAX_ELEMENTS or len(sizes) > 32:
        raise table.error(f"{value} elements are too many for a buffer", "test with fewer", key)
    return sizes


def subtable(table: Table, key: str, value: Any) -> Table:
    """Converts a TOML table to a `Table`. Raises `Misuse` for other values."""
    if not isinstance(value, dict):
        where = ".".join(filter(None, (table.where, key)))
        raise table.error(f"{value!r} is not a table", f"write [{where}] and its keys below", key)
    return Table(value, table.path, ".".join(filter(None, (table.where, key))))  # pyright: ignore


def element_type(table: Table, key: str, value: Any) -> str:
    """Returns the name of an element type. Raises `Misuse` for other values."""
    name = text(table, key, value)
    if name not in ELEMENT_TYPES:
        raise table.error(
            f"{name!r} is not an element type", suggest(name, tuple(ELEMENT_TYPES)), key
        )
    return name


def given(table: Table, key: str, value: Any) -> Given:
    """
    Returns a value unchanged if it consists of booleans, numbers, strings, lists and tables. Raises
    `Misuse` for other values.
    """
    if isinstance(value, dict):
        inner = subtable(table, key, value)
        return {name: given(inner, name, item) for name, item in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [given(table, key, item) for item in value]  # pyright: ignore
    if not isinstance(value, bool | int | float | str):
        raise table.error(f"{value!r} is not a constant", "write a number or a boolean", key)
    return value


def constants(table: Table, key: str, value: Any) -> dict[str, Given]:
    """Reads a table of constants by name."""
    inner = subtable(table, key, value)
    return {name: given(inner, name, constant) for name, constant in inner.data.items()}


def content(table: Table, key: str, value: Any) -> Given:
    """Reads a buffer's initial content: a pattern, a number, a list, or a file."""
    known_text = value in PATTERNS if isinstance(value, str) else True
    if not known_text and not value.startswith("&") and not value.endswith(".npy"):
        known = f"{suggest(value, PATTERNS)}, a number, a list or a path that ends in .npy"
        raise table.error(f"{value!r} cannot be the content", known, key)
    if isinstance(value, dict):
        raise table.error("content cannot be a table", f"write [{table.where}.members.NAME]", key)
    return given(table, key, value)


def expectation(table: Table, key: str, value: Any) -> Given:
    """Reads an expected value: an expression, a `.npy` file, a number or a list."""
    if isinstance(value, dict):
        raise table.error(
            "an expectation is an expression, a file, a number or a list, not a table",
            f"write [{table.where}.members.NAME]",
            key,
        )
    return text(table, key, value) if isinstance(value, str) else given(table, key, value)


def tolerance(table: Table, key: str, value: Any) -> Tolerance:
    """Reads a table with `absolute`, `relative` and `ulp`, or a number for the first two."""
    if type(value) in (int, float):
        both = number(table, key, value)
        inner, bounds = Table({}, table.path, f"{table.where}.{key}"), Tolerance(both, both)
    else:
        inner = subtable(table, key, value)
        bounds = Tolerance(
            inner.take("absolute", 0.0, number),
            inner.take("relative", 0.0, number),
            inner.take("ulp", 0, lambda t, k, v: count(t, k, v, least=0)),
        )
    inner.finish()
    if min(bounds.absolute, bounds.relative) < 0:
        raise table.error("a tolerance cannot be negative", "write a number of at least 0", key)
    return bounds


def contents(table: Table, key: str, value: Any) -> Contents:
    """Reads the description of a buffer or member: a table, or only its content."""
    if not isinstance(value, dict):
        return Contents(content=content(table, key, value))
    inner = subtable(table, key, value)
    description = Contents(
        type=inner.take("type", None, element_type),
        size=inner.take("size", None, shape),
        content=inner.take("content", None, content),
        seed=inner.take("seed", 0, lambda t, k, v: count(t, k, v, least=0)),
        low=inner.take("low", None, number),
        high=inner.take("high", None, number),
        expect=inner.take("expect", None, expectation),
        tolerance=inner.take("tolerance", Tolerance(), tolerance),
        alias=inner.take("alias", None, text),
        members=inner.take("members", {}, buffers),
        format=inner.take("format", None, text),
        levels=inner.take("levels", 1, count),
        sampler=inner.take("sampler", None, sampler),
    )
    inner.finish()
    _refuse_contradictions(inner, description)
    return description


def _refuse_contradictions(table: Table, description: Contents) -> None:
    judged = description.expect is not None or description.tolerance != Tolerance()
    filled = description.type is not None or description.content is not None
    if description.members and (judged or filled):
        raise table.error(
            "a buffer can be described as a whole or by its members, not both",
            "leave one of them out",
        )
    if description.alias and (
        description.members or judged or filled or description.size is not None
    ):
        cause = "an alias has the content and expectation of the other buffer"
        raise table.error(cause, "leave out alias, or content and expect", "alias")
    bounded = (description.low, description.high) != (None, None)
    if bounded and description.content != "random":
        raise table.error(
            "low and high are only for random numbers", 'write content = "random"', "low"
        )


def sampler(table: Table, key: str, value: Any) -> Sampler:
    """Reads the fields of a `Sampler`; a single address mode applies to all axes."""
    inner = subtable(table, key, value)
    readers: dict[type, Callable[[Table, str, Any], Any]] = {
        bool: flag, float: number,
        tuple: lambda t, k, v: texts(t, k, [v] * 3 if isinstance(v, str) else v),
    }  # fmt: skip
    settings: dict[str, Any] = {
        f.name: inner.take(f.name, f.default, readers.get(type(f.default), text))
        for f in fields(Sampler)
    }
    inner.finish()
    try:
        return Sampler(**settings)
    except ValueError as error:
        raise table.error(str(error), "write one of them", key) from None


def buffers(table: Table, key: str, value: Any) -> dict[str, Contents]:
    """Reads the descriptions of buffers or members by name."""
    inner = subtable(table, key, value)
    return {name: contents(inner, name, buffer) for name, buffer in inner.data.items()}


def macros(table: Table, key: str, value: Any) -> dict[str, str]:
    """Reads preprocessor macros by name. Booleans are converted to `true` and `false`."""
    inner = subtable(table, key, value)
    for name, macro in inner.data.items():
        if not isinstance(macro, bool | int | float | str):
            raise inner.error(
                f"{macro!r} cannot be the value of a macro", "write a number or a string", name
            )
    return {
        name: str(macro).lower() if isinstance(macro, bool) else str(macro)
        for name, macro in inner.data.items()
    }


def compilation(table: Table, key: str, value: Any) -> Compile:
    """Reads the options for compiling a source file."""
    inner = subtable(table, key, value)
    options = Compile(
        target_env=inner.take("target-env", None, text),
        options=inner.take("options", (), texts),
        defines=inner.take("defines", {}, macros),
        optimize=inner.take("optimize", False, flag),
    )
    inner.finish()
    return options


def read_test(path: Path) -> KernelTest:
    """Reads a `.kernel.toml` file. Raises `Misuse` that names the faulty key."""
    return parse_test(_parse(path), path)


def parse_test(data: Mapping[str, Any], path: Path) -> KernelTest:
    """Converts the data of a TOML file at `path` to a test. Raises `Misuse` for wrong entries."""
    table = Table(data, path)
    kernel = table.take("kernel", None, text)
    if kernel is None:
        raise table.error("the kernel is missing", 'write kernel = "x.comp"')
    expected = table.take("expect", Table({}, path, "expect"), subtable)
    assumed = table.take("assume", Table({}, path, "assume"), subtable)
    test = KernelTest(
        source=path,
        kernel=path.parent / kernel,
        entry=table.take("entry", None, text),
        grid=table.take("grid", None, grid),
        subgroup_sizes=table.take("subgroup-sizes", (), lambda t, k, v: counts(t, k, v, 128)),
        target=table.take("target", None, text),
        checks=table.take("checks", "all", names),
        robust=table.take("robust", False, flag),
        max_steps=table.take("max-steps", None, count),
        timeout=table.take("timeout", DEFAULT_TIMEOUT, duration),
        allow=table.take("allow", (), texts),
        compile=table.take("compile", Compile(), compilation),
        specialization=table.take("specialization", {}, constants),
        push_constants=table.take("push-constants", {}, constants),
        buffers=table.take("buffers", {}, buffers),
        prove=table.take("prove", (), questions),
        prove_timeout=table.take("prove-timeout", PROOF_TIMEOUT, duration),
        assume=assumed.take("premises", (), texts),
        findings=expected.take("findings", (), texts),
        error=expected.take("error", None, text),
    )
    expected.finish()
    assumed.finish()
    table.finish()
    return test


def _parse(path: Path) -> dict[str, Any]:
    if path.exists() and not path.is_file():
        raise Misuse(f"{path} is not a file", "", "give the path of a .kernel.toml file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise Misuse(f"cannot read the test: {error.strerror}", str(path), "name a file") from error
    if len(data) > MAX_FILE:
        raise Misuse(
            f"{path}: the file has more than {MAX_FILE} bytes",
            "",
            "put large arrays into .npy files",
        )
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise Misuse(
            f"{path}: the file is not valid TOML: {error}", "", "correct the file there"
        ) from error


def beside(kernel: Path) -> Path:
    """Returns the path of the description that belongs to a kernel's file."""
    return kernel.with_name(kernel.stem + SUFFIX)
