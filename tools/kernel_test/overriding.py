"""
Overrides the values of a test's TOML file with the command's options.

Options are parsed by the same functions as the file: `--grid 4x2` equals `grid = [4, 2]`.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xdsl_spirv.tools.grid import parse_grid
from xdsl_spirv.tools.kernel_test import toml_file as read
from xdsl_spirv.tools.kernel_test.description import Contents, KernelTest, Misuse, Tolerance

COMMAND = Path("command line")

LONGEST_NUMBER = 20
"""Maximum number of digits of a number, because Python refuses to parse very long numbers."""


def override(test: KernelTest, arguments: argparse.Namespace) -> KernelTest:
    """Returns a copy of the test in which the options replace values."""
    table = read.Table({}, COMMAND)

    def said(option: str, reader: Any, value: Any, otherwise: Any) -> Any:
        return otherwise if value is None else reader(table, option, value)

    changed = replace(
        test,
        entry=said("--entry", read.text, arguments.entry, test.entry),
        grid=test.grid
        if arguments.grid is None
        else read.grid(table, "--grid", list(parse_grid(arguments.grid))),
        subgroup_sizes=said(
            "--subgroup-size",
            lambda t, k, v: read.counts(t, k, v, 128),
            _numbers("--subgroup-size", arguments.subgroup_size),
            test.subgroup_sizes,
        ),
        target=arguments.target or test.target,
        checks=arguments.check or test.checks,
        robust=arguments.robust or test.robust,
        max_steps=said("--max-steps", read.count, arguments.max_steps, test.max_steps),
        timeout=said("--timeout", read.duration, arguments.timeout, test.timeout),
        allow=(*test.allow, *arguments.allow),
        compile=replace(
            test.compile,
            target_env=arguments.target_env or test.compile.target_env,
            options=(*test.compile.options, *arguments.glslang),
            defines={**test.compile.defines, **_defines(arguments.defines)},
            optimize=arguments.optimize or test.compile.optimize,
        ),
        specialization={**test.specialization, **_constants("--spec", arguments.spec)},
        push_constants={**test.push_constants, **_constants("--push", arguments.push)},
        buffers=_buffers(test, table, arguments),
    )
    return changed


def _numbers(option: str, text: str | None) -> list[int] | None:
    """Parses numbers such as `4x2`, `4,2` or `4`."""
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and len(part) <= LONGEST_NUMBER for part in parts):
        raise Misuse(f"{option} {text} is not a list of numbers", "", "write 4, or 4,2,1")
    return [int(part) for part in parts]


def _pairs(option: str, texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise Misuse(f"{option} {text} contains no value", "", f"write {option} NAME=VALUE")
        yield name, value


def _defines(texts: Iterable[str]) -> dict[str, str]:
    return {name: value for name, _, value in (t.partition("=") for t in texts)}


def _constants(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """Parses options NAME=VALUE to nested dictionaries; `a.b` names a member of the struct `a`."""
    constants: dict[str, Any] = {}
    for name, text in _pairs(option, texts):
        node, *rest = name.split(".")
        place = constants
        for inner in rest:
            place, node = place.setdefault(node, {}), inner
            if not isinstance(place, dict):
                raise Misuse(
                    f"{option} {name}={text}: another option sets a member or the whole of {name}",
                    "",
                    "give either the whole or its members",
                )
        place[node] = _constant(option, text)
    return constants


def _constant(option: str, text: str) -> Any:
    """Parses a TOML value; Python's `True` and an address are allowed, too."""
    if text.startswith("&"):
        return text
    try:
        return tomllib.loads(f"value = {text.lower() if text in ('True', 'False') else text}")[
            "value"
        ]
    except (ValueError, RecursionError) as error:
        raise Misuse(f"{option}: {text!r} is not a value", "", "write a number, or true") from error


def _buffers(
    test: KernelTest, table: read.Table, arguments: argparse.Namespace
) -> dict[str, Contents]:
    buffers = dict(test.buffers)
    for name, text in _pairs("--buffer", arguments.buffers):
        old = buffers.get(name, Contents())
        given = read.contents(table, f"--buffer {name}", _buffer(text))
        kept = {"expect": old.expect, "tolerance": old.tolerance, "levels": old.levels}
        buffers[name] = replace(given, **kept, sampler=old.sampler)
    for name, text in _pairs("--expect", arguments.expect):
        if name not in buffers:
            raise Misuse(f"--expect {name}: the buffer is not described", "", "give --buffer too")
        if buffers[name].members or buffers[name].alias:
            whole = "by its members" if buffers[name].members else "as an alias"
            raise Misuse(
                f"--expect {name}: the buffer is described {whole}", "", "edit the test's file"
            )
        value = text if _is_text(text) else _constant("--expect", text)
        buffers[name] = replace(buffers[name], expect=value)
    if arguments.tolerance is not None:
        tolerance = _tolerance(arguments.tolerance, table)
        buffers = _with_tolerance(buffers, tolerance)
    return buffers


def _with_tolerance(buffers: Mapping[str, Contents], tolerance: Tolerance) -> dict[str, Contents]:
    """Returns the buffers with a tolerance for each buffer and member."""
    return {
        name: replace(
            buffer, tolerance=tolerance, members=_with_tolerance(buffer.members, tolerance)
        )
        for name, buffer in buffers.items()
    }


def _is_text(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return True
    return False


def _buffer(text: str) -> dict[str, Any]:
    """Parses `f32:1000:random`, `f32:10x4:zeros`, `rgba8:16x16:random:SEED`, or `x.npy`."""
    if text.endswith(".npy") and ":" not in text:
        return {"content": text}
    parts = text.split(":")
    if not 3 <= len(parts) <= 4:
        raise Misuse(
            f"--buffer {text} is not a buffer", "", "write NAME=TYPE:SIZE:CONTENT, or NAME=x.npy"
        )
    kind, size, content, *seed = parts
    description: dict[str, Any] = {"size": _numbers("--buffer", size)}
    if kind:
        description["format" if kind[0] in "rR" else "type"] = kind
    named = not content or (content[0].isalpha() and content not in ("inf", "nan"))
    description["content"] = content if named else _constant("--buffer", content)
    if seed:
        description["seed"] = _constant("--buffer", seed[0])
    return description


def _tolerance(text: str, table: read.Table) -> Tolerance:
    """Parses `1e-5`, or `absolute=1e-6,relative=1e-5,ulp=2`."""
    if "=" not in text:
        return read.tolerance(table, "--tolerance", _constant("--tolerance", text))
    pairs = dict(_pairs("--tolerance", text.split(",")))
    values = {name: _constant("--tolerance", value) for name, value in pairs.items()}
    return read.tolerance(table, "--tolerance", values)
