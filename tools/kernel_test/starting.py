"""Implements `xdsl-spirv test x.comp --init`: writes an initial test description."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from xdsl_spirv.tools.kernel_test.arguments import key, template, value_of
from xdsl_spirv.tools.kernel_test.constants import Constants
from xdsl_spirv.tools.kernel_test.description import MISUSED, Compile, Given, KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.guards import has_guard
from xdsl_spirv.tools.kernel_test.interface import Interface, choose_entry
from xdsl_spirv.tools.kernel_test.loading import load_kernel
from xdsl_spirv.tools.kernel_test.running import workgroup_size
from xdsl_spirv.tools.kernel_test.toml_file import beside, parse_test

SETTINGS = ("target", "checks", "robust", "max_steps", "timeout", "allow")
"""Fields of a test that a description has only if they are given."""


def write_descriptions(tests: Sequence[KernelTest], arguments: argparse.Namespace) -> int:
    """Writes missing descriptions next to the kernels. Returns the exit status."""
    if not tests:
        raise Misuse("there is no kernel to describe", "", "give a kernel's file")
    status = 0
    for test in tests:
        path = beside(test.kernel)
        if path.exists():
            print(f"{path} exists already and was not changed", file=sys.stderr)
            status = MISUSED
            continue
        from xdsl_spirv.tools.output import write

        if not path.name.isprintable():
            cause = f"the file name {path.name!a} is not text that a description can hold"
            raise Misuse(cause, str(path.parent), "rename the kernel")
        write(str(path), describe(test, path).encode())
        print(
            f"{path}: correct the grid, numbers, sizes and contents, state the expected "
            "results, then"
        )
        print(f"  xdsl-spirv test {test.kernel}")
    return status


def assume_launch(test: KernelTest) -> KernelTest:
    """Returns the test that `--init` would write for a kernel."""
    path = beside(test.kernel)
    assumed = parse_test(tomllib.loads(describe(test, path)), path)
    return replace(assumed, source=test.source, kernel=test.kernel, compile=test.compile)


def describe(test: KernelTest, path: Path) -> str:
    """Returns the TOML text that describes a launch of the kernel with example values."""
    kernel = load_kernel(test)
    constants = Constants(kernel.index, test.specialization)
    interface = Interface(kernel.index, choose_entry(kernel.index, test.entry), constants)
    x, y, z = workgroup_size(interface)
    grid = list(test.grid or (1, 1, 1))
    invocations, guarded = math.prod(grid) * x * y * z, has_guard(interface)
    # A guard that is wrong shows only if the last workgroup has more invocations than work.
    length = max(invocations - x * y * z // 4 - 1, 1) if guarded else invocations
    use = "the last one is partly idle" if guarded else "all have work: no guard was found"
    lines = [
        f'kernel = "{test.kernel.name}"',
        f'entry = "{interface.entry.name}"',
        f"grid = {grid}  # workgroups of {x} x {y} x {z} invocations; {use}",
        f"subgroup-sizes = {list(test.subgroup_sizes or (32,))}",
        *([] if test.target else ['# target = "lavapipe"  # a device whose limits must hold']),
        *_list_given(test, KernelTest(path, test.kernel), SETTINGS),
        *_compilation(test.compile),
        *_specialization(constants),
        *_push_constants(interface, test.push_constants, length),
    ]
    for resource in interface.resources:
        other = f"  # also {', '.join(resource.names[1:])}" if resource.names[1:] else ""
        head, _, rest = template(resource, length).partition("\n")
        lines += ["", head + other, *rest.splitlines()]
        if resource.written:
            lines.append('# expect = "..."  # a numpy expression, or "x.npy"')
            lines.append("# tolerance = { absolute = 1e-6, relative = 1e-5 }")
    return "\n".join(lines) + "\n"


def _list_given(test: Any, default: Any, fields: Sequence[str]) -> Iterator[str]:
    """Yields a line for each of the fields whose value is not the default."""
    for name in fields:
        if (value := getattr(test, name)) != getattr(default, name):
            yield f"{name.replace('_', '-')} = {_toml(value)}"


def _compilation(options: Compile) -> Iterator[str]:
    lines = list(_list_given(options, Compile(), [one.name for one in dataclasses.fields(Compile)]))
    if lines:
        yield from ("\n[compile]", *lines)


def _toml(value: Given) -> str:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Given]", value).items()
        return f"{{ {', '.join(f'{key(name)} = {_toml(inner)}' for name, inner in pairs)} }}"
    return json.dumps(value)


def _specialization(constants: Constants) -> Iterator[str]:
    if constants.specialized:
        yield "\n[specialization]"
    for one in {constant.id: constant for constant in reversed(constants.specialized)}.values():
        value = constants.values.get(one.id, one.default)
        text = str(value).lower() if isinstance(value, bool) else repr(value)
        yield f"{key(one.name or str(one.id))} = {text}  # {one.scalar}, SpecId {one.id}"


def _push_constants(interface: Interface, given: Mapping[str, Given], length: int) -> Iterator[str]:
    """
    Yields lines with the given push constants, and examples for the others. Examples are not 0,
    because 0 often means no work.
    """
    block = interface.push_constants
    if block is None:
        return
    yield "\n[push-constants]"
    for member in block.members:
        value = value_of(member.node, str(length), "1.0")
        if member.name in given:
            value = _toml(given[member.name])
        yield f"{key(member.name)} = {value}  # {member.node}"
