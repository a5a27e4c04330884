"""Runs an entry point of a SPIR-V binary on the interpreter."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter.api import dispatch
from xdsl_spirv.interpreter.memories import Place
from xdsl_spirv.interpreter.spirv.memory import descriptor_of
from xdsl_spirv.interpreter.structs import PushConstants
from xdsl_spirv.passes.spirv.specialize import parse_values, specialize
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.tools.arrays import read_array, write_results
from xdsl_spirv.tools.debugging import interpreting, options_of, report
from xdsl_spirv.tools.grid import parse_grid


def interpret_kernel(program: ModuleOp, arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv interpret x.spv`. Returns the exit status."""
    module = find_module(program)
    entry = _entry(module, arguments.function)
    specialize(module, parse_values(arguments.spec), defaults=True)
    names = _names(module)
    buffers: dict[Place, Array] = {}
    for text in (*arguments.inputs, *arguments.buffers):
        name, equals, path = text.partition("=")
        place = _place(name, names) if equals else None
        if place is None:
            listed = (f"{n}[NUMBER]" if bound.buffers else n for n, bound in names.items())
            raise ProgramError(
                f"--buffer {text} names no buffer",
                f"buffers: {', '.join(listed) or 'none'}",
                "write --buffer NAME=x.npy, or NAME[INDEX]=x.npy in an array of buffers",
            )
        buffers[place] = read_array(path, name).copy(order="C")
    grid, push = parse_grid(arguments.grid), _push_constants(arguments)
    with options_of(arguments, program) as options, interpreting(options):
        dispatch(module, entry, grid, buffers, push_constants=push, options=options)
    results = {_spell_place(place): array for place, array in sorted(buffers.items())}
    write_results(arguments.output, results)
    return report(arguments, program, options)


def _push_constants(arguments: argparse.Namespace) -> PushConstants:
    """Returns the push constants of `--push` by name, or of `--push-bytes` as bytes."""
    if arguments.push and arguments.push_bytes:
        raise ProgramError("both --push and --push-bytes are given", "", "leave one out")
    try:
        if arguments.push_bytes:
            return bytes.fromhex(arguments.push_bytes)
    except ValueError:
        raise ProgramError(
            f"--push-bytes {arguments.push_bytes} is not hexadecimal",
            "",
            "write two digits for each byte, as in 03000000",
        ) from None
    push_constants: dict[str, Any] = {}
    for text in arguments.push:
        name, equals, value = text.partition("=")
        try:
            push_constants[name] = json.loads(value)
        except (ValueError, RecursionError):
            equals = ""
        if not equals or not name:
            raise ProgramError(
                f"--push {text} is not a value", "", "write NAME=VALUE, as in n=3 or scale=[1, 0.5]"
            )
    return push_constants


def _entry(module: SPIRVModuleOp, wanted: str | None) -> str:
    names = [op.fn.string_value() for op in spv.entry_points(module)]
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None or wanted not in names:
        raise ProgramError(
            "no entry point is named" if wanted is None else f"there is no entry point {wanted!r}",
            f"entry points: {', '.join(names) or 'none'}",
            "choose one with --function",
        )
    return wanted


class Bound(NamedTuple):
    """Binding of a variable; `buffers` is the length of an array of buffers, or 0."""

    set: int
    binding: int
    buffers: float


def _names(module: SPIRVModuleOp) -> dict[str, Bound]:
    """Maps all names of buffers, such as `x` and `0.1`, to their bindings."""
    bounds: dict[str, Bound] = {}
    for op in module.body.block.ops:
        if not isinstance(op, spv.GlobalVariableOp | spv.UntypedGlobalVariableOp):
            continue
        if op.binding is None or op.descriptor_set is None:
            continue
        place = (op.descriptor_set.value.data, op.binding.value.data)
        bound = Bound(*place, _count(op.object_type))
        bounds[f"{place[0]}.{place[1]}"] = bound
        bounds.setdefault(op.sym_name.data, bound)
    return bounds


def _count(type: Attribute | None) -> float:
    if type is None or descriptor_of(type) is None:
        return 0
    return spv.array_length(type.length) if isinstance(type, spv.ArrayType) else math.inf


def _place(name: str, names: Mapping[str, Bound]) -> Place | None:
    """Parses a buffer's name, `SET.BINDING` or `BINDING`; an array element has an `[INDEX]`."""
    whole = re.fullmatch(r"(.*?)(?:\[(\d+)\])?", name, re.DOTALL)
    assert whole is not None
    base, number = whole.groups()
    bound = names.get(f"0.{base}" if base.isdecimal() else base)
    if bound is None or (number is None) != (bound.buffers == 0):
        return None
    if number is None:
        return bound.set, bound.binding
    return (bound.set, bound.binding, int(number)) if int(number) < bound.buffers else None


def _spell_place(place: Place) -> str:
    return f"{place[0]}.{place[1]}" + "".join(f"[{number}]" for number in place[2:])
