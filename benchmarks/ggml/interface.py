"""
Builds a module's push constants from values by name.

Offsets and types come from the binary's declarations. Names are those that glslang leaves in the
binary: `a`, `a.b` in a struct, `a[1]` in an array. Every member needs a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw import binary

Number: TypeAlias = int | float
Value: TypeAlias = "Number | Sequence[Value]"

INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}
FLOATS = {16: "e", 32: "f", 64: "d"}


def push_constants(data: bytes, values: Mapping[str, Value]) -> bytes:
    """Returns the bytes of a module's push constants. Raises `KeyError` for wrong names."""
    members = dict(_members(binary.decode(data)))
    given = dict(_flat("", values))
    if wrong := set(members) ^ set(given):
        raise KeyError(
            f"push constants without values: {sorted(wrong - set(given))}; "
            f"values without push constants: {sorted(wrong - set(members))}"
        )
    size = max((offset + struct.calcsize(kind) for offset, kind in members.values()), default=0)
    packed = bytearray(size)
    for name, (offset, kind) in members.items():
        struct.pack_into("<" + kind, packed, offset, _fitting(kind, given[name]))
    return bytes(packed)


def specialization_ids(data: bytes) -> set[int]:
    """Returns the SpecIds of a module. Launches ignore values for other ids, as Vulkan does."""
    spec_id = grammar().kind("Decoration")["SpecId"].value
    decorations = (i.words for i in binary.decode(data) if i.name == "OpDecorate")
    return {words[3] for words in decorations if words[2] == spec_id}


def _fitting(kind: str, value: Number) -> Number:
    """Reinterprets an integer in a type of the other signedness, with the same bits."""
    if kind not in INTEGERS.values():
        return float(value)
    bits = 8 * struct.calcsize(kind)
    return (int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _flat(name: str, value: Mapping[str, Value] | Value) -> Iterator[tuple[str, Number]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{name}.{key}" if name else key, part)
    elif isinstance(value, Sequence):
        for number, part in enumerate(value):
            yield from _flat(f"{name}[{number}]", part)
    else:
        yield name, value


def _members(module: binary.RawModule) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yields name, offset and format of every scalar in the push constant block."""
    by_result: dict[int, tuple[str, list[int]]] = {}
    names: dict[tuple[int, int], str] = {}
    offsets: dict[tuple[int, int], int] = {}
    strides: dict[int, int] = {}
    blocks: list[int] = []
    decorations = grammar().kind("Decoration")
    offset, stride = decorations["Offset"].value, decorations["ArrayStride"].value
    push = grammar().kind("StorageClass")["PushConstant"].value
    for instruction in module:
        words, name = instruction.words[1:], instruction.name or ""
        if name == "OpMemberName":
            text = struct.pack(f"<{len(words) - 2}I", *words[2:])
            names[words[0], words[1]] = text.split(b"\0")[0].decode()
        elif name == "OpMemberDecorate" and words[2] == offset:
            offsets[words[0], words[1]] = words[3]
        elif name == "OpDecorate" and words[1] == stride:
            strides[words[0]] = words[2]
        elif name.startswith("OpType"):
            by_result[words[0]] = name, words[1:]
        elif name == "OpConstant":
            by_result[words[1]] = name, words[2:]
        elif name == "OpVariable" and words[2] == push:
            blocks.append(by_result[words[0]][1][1])

    def scalars(type: int, name: str, offset: int) -> Iterator[tuple[str, tuple[int, str]]]:
        kind, words = by_result[type]
        match kind:
            case "OpTypeInt":
                yield name, (offset, INTEGERS[words[0]])
            case "OpTypeFloat":
                yield name, (offset, FLOATS[words[0]])
            case "OpTypeVector":
                width = by_result[words[0]][1][0] // 8
                for number in range(words[1]):
                    yield from scalars(words[0], f"{name}[{number}]", offset + width * number)
            case "OpTypeArray":
                for number in range(by_result[words[1]][1][0]):
                    place = offset + strides[type] * number
                    yield from scalars(words[0], f"{name}[{number}]", place)
            case _:
                for number, member in enumerate(words):
                    own = names[type, number]
                    place = offset + offsets[type, number]
                    yield from scalars(member, f"{name}.{own}" if name else own, place)

    for block in blocks:
        yield from scalars(block, "", 0)
