"""
One entry point of a SPIR-V binary on the interpreter: buffers by their binding, in and out.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp, entry_points
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter.api import dispatch
from xdsl_spirv.interpreter.structs import PushConstants
from xdsl_spirv.passes.spirv.specialize import parse_values, specialize
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.target import find_module
from xdsl_spirv.tools.arrays import read_array, write_results
from xdsl_spirv.tools.debugging import options_of, report
from xdsl_spirv.tools.grid import parse_grid


def interpret_kernel(program: ModuleOp, arguments: argparse.Namespace) -> int:
    """`xdsl-spirv interpret x.spv`: an input is named by its variable, or by `SET.BINDING`."""
    module = find_module(program)
    entry = _entry(module, arguments.function)
    specialize(module, parse_values(arguments.spec), defaults=True)
    names = _names(module)
    buffers: dict[tuple[int, int], Array] = {}
    for text in (*arguments.inputs, *arguments.buffers):
        name, equals, path = text.partition("=")
        name = f"0.{name}" if name.isdecimal() else name
        if not equals or name not in names:
            raise ProgramError(
                f"--buffer {text} names no buffer",
                f"buffers: {', '.join(names) or 'none'}",
                "write --buffer NAME=x.npy",
            )
        buffers[names[name]] = read_array(path).copy(order="C")
    grid, push = parse_grid(arguments.grid), _push_constants(arguments)
    with options_of(arguments, program) as options:
        dispatch(module, entry, grid, buffers, push_constants=push, options=options)
    results = {f"{s}.{b}": array for (s, b), array in sorted(buffers.items())}
    write_results(arguments.output, results)
    return report(arguments, options)


def _push_constants(arguments: argparse.Namespace) -> PushConstants:
    """By name, or as bytes."""
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
    found: dict[str, Any] = {}
    for text in arguments.push:
        name, equals, value = text.partition("=")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            equals = ""
        if not equals or not name:
            raise ProgramError(
                f"--push {text} is no value", "", "write NAME=VALUE, as in n=3 or scale=[1, 0.5]"
            )
    return found


def _entry(module: SPIRVModuleOp, wanted: str | None) -> str:
    names = [op.fn.string_value() for op in entry_points(module)]
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None or wanted not in names:
        raise ProgramError(
            "the entry point is not named" if wanted is None else f"no entry point {wanted!r}",
            f"entry points: {', '.join(names) or 'none'}",
            "choose one with --function",
        )
    return wanted


def _names(module: SPIRVModuleOp) -> dict[str, tuple[int, int]]:
    """What a buffer may be called -> its set and binding."""
    found: dict[str, tuple[int, int]] = {}
    for op in module.body.block.ops:
        if not isinstance(op, GlobalVariableOp) or op.binding is None or op.descriptor_set is None:
            continue
        place = (op.descriptor_set.value.data, op.binding.value.data)
        found[f"{place[0]}.{place[1]}"] = place
        found.setdefault(op.sym_name.data, place)
    return found
