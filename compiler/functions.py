"""
Joins several functions into one program, in which equal weights and states share a buffer.

Different weights with the same name (as constant folding may create in two functions) get the
suffix `.FUNCTION`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl_spirv.compiler.host import HostFunction
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import SHARED, Buffer


def share_buffers(
    functions: Sequence[HostFunction], declared: Mapping[str, set[str]]
) -> list[HostFunction]:
    """
    Lets functions that have the same weight or state share one buffer.

    `declared` are the buffer names in each function's source. Raises `ProgramError` if one name
    has different types or values.
    """
    buffers: dict[str, Buffer] = {}
    values: dict[str, Array] = {}
    by_contents: dict[tuple[object, ...], str] = {}
    shared: list[HostFunction] = []
    for function in functions:
        new_names: dict[str, str] = {}
        for buffer in function.host.buffers:
            if buffer.kind not in SHARED:
                continue
            name, value = buffer.name, function.values[buffer.name]
            own = name in declared[function.name]
            if own and name in values and values[name] is value and buffers[name] == buffer:
                continue
            key = _key(buffer, value)
            if not own and key in by_contents:
                name = by_contents[key]
            elif name in buffers and not _is_same(buffer, value, buffers[name], values[name]):
                if own:
                    raise _differs(function, buffer, buffers[name])
                name = f"{name}.{function.name}"
            new_names[buffer.name] = name
            buffers.setdefault(name, buffer)
            values.setdefault(name, value)
            if buffer.kind == "weight":
                by_contents.setdefault(key, name)
        shared.append(_rename_buffers(function, new_names))
    return shared


def _key(buffer: Buffer, value: Array) -> tuple[object, ...]:
    """
    Returns a key that is equal for equal arrays of equal type. The key contains a hash of the
    array's bytes.
    """
    from hashlib import blake2b

    return (buffer.type, value.shape, blake2b(value.tobytes(), digest_size=16).digest())


def _is_same(buffer: Buffer, value: Array, other: Buffer, other_value: Array) -> bool:
    if (buffer.kind, buffer.type, buffer.shape) != (other.kind, other.type, other.shape):
        return False
    return value is other_value or value.tobytes() == other_value.tobytes()


def _differs(function: HostFunction, buffer: Buffer, other: Buffer) -> ProgramError:
    difference = f"the {buffer.kind} {buffer.name!r} is {buffer}, but a {other.kind} {other}"
    if str(buffer) == str(other) and buffer.kind == other.kind:
        difference = f"the {buffer.kind} {buffer.name!r} has another value"
    return ProgramError(
        f"{difference} in another function",
        f"@{function.name}",
        "give both the same value, or different names",
    )


def _rename_buffers(function: HostFunction, names: Mapping[str, str]) -> HostFunction:
    """Returns the function with renamed buffers. Buffers that get the same name are merged."""
    host = function.host

    def name(old: str) -> str:
        return names.get(old, old)

    buffers = {name(b.name): replace(b, name=name(b.name)) for b in reversed(host.buffers)}
    launches = tuple(
        replace(
            launch,
            dispatch=replace(
                launch.dispatch,
                bindings=tuple(replace(b, buffer=name(b.buffer)) for b in launch.dispatch.bindings),
            ),
        )
        for launch in host.launches
    )
    renamed = replace(
        host,
        arguments=tuple(map(name, host.arguments)),
        buffers=tuple(reversed(buffers.values())),
        launches=launches,
    )
    values = {name(old): value for old, value in function.values.items()}
    return replace(function, host=renamed, values=values)
