"""
Makes a launch's buffers and push constants as bytes, in the module's memory layout.

A test must give all buffers and constants that the kernel reads, and no unknown names. Memory is
allocated only after the total size is known to fit this machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.tools.kernel_test.constants import checked, dtype
from xdsl_spirv.tools.kernel_test.contents import Array, make, read_npy
from xdsl_spirv.tools.kernel_test.description import Contents, Given, Misuse, suggest
from xdsl_spirv.tools.kernel_test.images import describe, view_texels
from xdsl_spirv.tools.kernel_test.interface import (
    Interface,
    Leaf,
    Node,
    Place,
    Resource,
    Struct,
    Structs,
    by_name,
    described,
)

ADDRESS = "&"
"""Prefix of a value `&NAME`, which means the physical address of the buffer NAME."""

SHARE = 8
"""
Buffers may use at most 1 / SHARE of the machine's memory, because checks copy and annotate them.
"""

UNBOUND = 1 << 20
"""Descriptor set number of buffers that have only a physical address."""


@dataclass(frozen=True)
class Part:
    """A buffer or a member of a block whose elements form a strided array."""

    path: tuple[str, ...]
    leaf: Leaf
    offset: int
    contents: Contents

    @property
    def label(self) -> str:
        """Path of the part in the description, for messages."""
        return "buffers." + ".members.".join(self.path)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the part; the length of a runtime array counts as 0."""
        return tuple(n or 0 for n in self.leaf.shape)

    @property
    def end(self) -> int:
        """Offset of the part's end in the buffer, in bytes."""
        return self.offset + self.leaf.size

    def view(self, data: Array) -> Array:
        """Returns the part's elements as a view of the buffer's bytes."""
        kind = dtype(self.leaf.scalar)
        return np.ndarray(self.shape, kind, data, self.offset, self.leaf.strides)


@dataclass
class Buffer:
    """A buffer of one launch."""

    name: str
    places: list[Place]
    names: list[str]
    parts: list[Part]
    bytes: int
    data: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    image: Image | Sampler | None = None
    """Image or sampler of the binding; None for a buffer."""

    @property
    def array(self) -> Array:
        """Returns the memory as an array of the element type, or of bytes if types differ."""
        whole = len(self.parts) == 1 and not self.parts[0].offset and self.parts[0].leaf.packed
        kind = dtype(self.parts[0].leaf.scalar) if whole else np.dtype(np.uint8)
        return self.data.view(kind) if self.bytes % kind.itemsize == 0 else self.data

    def value(self) -> Any:
        """Returns a copy of the contents for expressions: an array, or nested members by name."""
        tree: dict[str, Any] = {}
        for part in self.parts:
            node = tree
            for name in part.path[:-1]:
                node = node.setdefault(name, {})
            node[part.path[-1]] = part.view(self.data).copy()
        return tree.get(self.name)


@dataclass
class Arguments:
    """All arguments of one launch."""

    buffers: list[Buffer]
    push_constants: bytes
    push_values: Mapping[str, Any]

    def arrays(self) -> dict[Place, Array]:
        """Returns the buffers' arrays by descriptor set and binding. Aliases share an array."""
        return {place: b.array for b in self.buffers for place in b.places}

    def images(self) -> dict[Place, Image | Sampler]:
        """Returns the images and samplers by descriptor set and binding."""
        return {place: b.image for b in self.buffers if b.image for place in b.places}


def prepare(
    interface: Interface, given: Mapping[str, Contents], push: Mapping[str, Given], base: Path
) -> Arguments:
    """
    Makes the arguments of a launch from the descriptions of its buffers (`given`) and its push
    constants.

    File names in the descriptions are relative to `base`. Raises `Misuse` if a description does not
    fit the kernel.
    """
    _refuse_strangers(interface, given, push)
    buffers = _plan_buffers(interface, given, base)
    _refuse_beyond_memory(buffers)
    for buffer in buffers:
        buffer.data = np.zeros(buffer.bytes, np.uint8)
    addresses = {n: b.data.ctypes.data for b in buffers for n in (b.name, *b.names)}
    for buffer in buffers:
        for part in buffer.parts:
            _fill(part, buffer.data, addresses, base)
    data, values = _push_constants(interface.push_constants, push, addresses)
    return Arguments(buffers, data, values)


# Buffers.


def _refuse_strangers(
    interface: Interface, given: Mapping[str, Contents], push: Mapping[str, Given]
) -> None:
    """Raises `Misuse` for a given buffer that the kernel uses neither by name nor by address."""
    known = by_name(interface.resources)
    addressed = set(_addressed_buffers(push)) | {n for c in given.values() for n in _in_contents(c)}
    for name in given:
        if name not in known and name not in addressed:
            names = [r.names[0] for r in interface.resources]
            raise Misuse(f"the kernel has no buffer {name!r}", "", suggest(name, names))


def _addressed_buffers(value: Given) -> Iterator[str]:
    """Yields the names of the buffers whose addresses a push constant contains."""
    if isinstance(value, str) and value.startswith(ADDRESS):
        yield value.removeprefix(ADDRESS)
    for one in value.values() if isinstance(value, Mapping) else value if _is_list(value) else ():
        yield from _addressed_buffers(one)  # pyright: ignore


def _is_list(value: Given) -> bool:
    return isinstance(value, list)


def _in_contents(contents: Contents) -> Iterator[str]:
    yield from _addressed_buffers(contents.content)
    for member in contents.members.values():
        yield from _in_contents(member)


def _plan_buffers(interface: Interface, given: Mapping[str, Contents], base: Path) -> list[Buffer]:
    """Computes the sizes and parts of the buffers, without allocating memory."""
    resources = by_name(interface.resources)
    planned: dict[str, Buffer] = {}
    owners: dict[Place, str] = {}
    for name, contents in given.items():
        resource = resources.get(name)
        if resource is not None:
            other = owners.setdefault(resource.place, name)
            if other != name:
                raise Misuse(
                    f"buffers.{name} and buffers.{other} are two names of one buffer",
                    "",
                    "leave one of the names out",
                )
        if contents.alias is None:
            planned[name] = _buffer(name, resource, contents, base, len(planned))
    for name, contents in given.items():
        if contents.alias is not None:
            _join(name, contents, resources, planned)
    missing = [r for r in interface.resources if r.place not in owners]
    if missing:
        raise Misuse(
            f"the buffer {missing[0].names[0]} is not given",
            "",
            "write a description by --init, or describe it:\n" + "\n".join(map(template, missing)),
        )
    return list(planned.values())


def _buffer(
    name: str,
    resource: Resource | None,
    contents: Contents,
    base: Path,
    number: int,
) -> Buffer:
    if resource is not None and resource.texture is not None:
        image = describe(f"buffers.{name}", resource.texture, contents)
        buffer = Buffer(name, [resource.place], list(resource.names), [], 0, image=image)
        if isinstance(image, Image):
            scalar, shape, contents = view_texels(resource.texture, image, contents)
            buffer.parts = [Part((name,), pack_scalar(scalar, shape), 0, contents)]
            buffer.bytes = image.nbytes
        return buffer
    block = Struct("", ()) if resource is None else resource.block
    parts = list(_parts((name,), block, contents, base))
    end = max((part.end for part in parts), default=0)
    if resource is None:
        return Buffer(name, [(UNBOUND, number)], [], parts, end)
    return Buffer(name, [resource.place], list(resource.names), parts, max(end, block.size))


def _join(
    name: str,
    contents: Contents,
    resources: Mapping[str, Resource],
    planned: Mapping[str, Buffer],
) -> None:
    """Binds the alias `name` to the memory of the buffer that its description names."""
    if name not in resources:
        raise Misuse(f"the kernel has no buffer {name!r}", "", suggest(name, list(resources)))
    owner = next((b for b in planned.values() if contents.alias in (b.name, *b.names)), None)
    if owner is None:
        known = suggest(contents.alias or "", list(planned))
        raise Misuse(f"buffers.{name}.alias names a buffer that is not described", "", known)
    owner.places.append(resources[name].place)
    owner.names += [name, *resources[name].names]


def _parts(path: tuple[str, ...], node: Node, contents: Contents, base: Path) -> Iterator[Part]:
    """Yields the buffer or the members (parts) that a description gives to a block."""
    label = "buffers." + ".members.".join(path)
    if (contents.format, contents.levels, contents.sampler) != (None, 1, None):
        raise Misuse(
            f"{label} is a buffer, not an image", "", "leave out format, levels and sampler"
        )
    if contents.members:
        yield from _members(path, node, contents, base)
        return
    whole = flat(node)
    if contents.type is not None and (whole is None or whole[1].scalar != contents.type):
        whole = (0, Leaf(contents.type, (None,), (Leaf(contents.type).itemsize,)))
        if node.size and contents.size is None and not isinstance(contents.content, str):
            whole = (0, replace(whole[1], shape=(node.size // whole[1].itemsize,)))
    if whole is None:
        raise Misuse(
            f"{label} is a block with several members",
            "",
            f"describe its members, {described(node, path[-1])}, or give type and size of "
            "the whole buffer",
        )
    offset, leaf = whole
    shape = _shape(leaf, contents, label, base)
    if len(shape) == len(leaf.shape) and all(
        n in (None, m) for n, m in zip(leaf.shape, shape, strict=True)
    ):
        yield Part(path, replace(leaf, shape=shape), offset, contents)
        return
    if not leaf.packed:
        raise Misuse(
            f"{label} has padding between its elements, so its shape must be {leaf}",
            "",
            "leave out size, or describe the whole memory by type and size",
        )
    yield Part(path, pack_scalar(leaf.scalar, shape), offset, contents)


def _members(path: tuple[str, ...], node: Node, contents: Contents, base: Path) -> Iterator[Part]:
    label = "buffers." + ".members.".join(path)
    if isinstance(node, Struct) and contents.size is not None:
        raise Misuse(f"{label} has members, so it cannot have a size", "", "leave size out")
    if isinstance(node, Structs):
        node = _distribute_structs(node, contents, label)
    if not isinstance(node, Struct):
        raise Misuse(f"{label} has no members: it is {node}", "", "leave members out")
    known = {m.name: m for m in node.members}
    for name in contents.members:
        if name not in known:
            raise Misuse(f"{label} has no member {name!r}", "", suggest(name, known))
    for member in node.members:
        if member.name not in contents.members:
            raise Misuse(
                f"{label}.members.{member.name} is missing",
                "",
                f"give {described(member.node, member.name)}",
            )
        inner = (*path, member.name)
        for part in _parts(inner, member.node, contents.members[member.name], base):
            yield replace(part, offset=part.offset + member.offset)


def _distribute_structs(node: Structs, contents: Contents, label: str) -> Node:
    """Converts an array of structs to a struct of arrays, one for each member."""
    count = node.count
    if contents.size is not None:
        said = math.prod(contents.size)
        if count not in (None, said):
            raise Misuse(f"{label} must have {count} elements, not {said}", "", "change `size`")
        count = said
    if count is None:
        raise Misuse(f"{label} has no size", "", "give its size, the number of elements")
    return _spread(node.element, count, node.stride)


def _spread(node: Node, count: int, stride: int) -> Node:
    if isinstance(node, Leaf):
        return Leaf(node.scalar, (count, *node.shape), (stride, *node.strides))
    if isinstance(node, Structs):
        node = _spread(node.element, node.count or 0, node.stride)
        return _spread(node, count, stride)
    members = [replace(m, node=_spread(m.node, count, stride)) for m in node.members]
    return Struct(node.name, tuple(members), count * stride)


def flat(node: Node) -> tuple[int, Leaf] | None:
    """Returns the offset and the array of a block that contains only one array; else None."""
    offset = 0
    while isinstance(node, Struct) and len(node.members) == 1:
        offset, node = offset + node.members[0].offset, node.members[0].node
    return (offset, node) if isinstance(node, Leaf) else None


def pack_scalar(scalar: str, shape: tuple[int, ...]) -> Leaf:
    """Returns the layout of a packed array of scalars."""
    steps = [Leaf(scalar).itemsize]
    for length in reversed(shape[1:]):
        steps.append(steps[-1] * length)
    return Leaf(scalar, shape, tuple(reversed(steps))[-len(shape) :] if shape else ())


def _shape(leaf: Leaf, contents: Contents, label: str, base: Path) -> tuple[int, ...]:
    """
    Returns the shape of a buffer or member, which errors call `label`. A missing size follows from
    the contents.
    """
    known = tuple(n for n in leaf.shape if n is not None)
    has_known_size = len(known) == len(leaf.shape)
    size = contents.size
    if size is None and has_known_size:
        return known
    if size is None:
        size = _length_of(contents.content, label, base)
    if size is None:
        raise Misuse(
            f"{label} has no size", "", f"write size = N, the number of its {leaf.scalar} elements"
        )
    row_elements = math.prod(known)
    if has_known_size and math.prod(size) != row_elements:
        raise Misuse(
            f"{label} must have {row_elements} elements, not {math.prod(size)}", "", "change `size`"
        )
    if row_elements and math.prod(size) % row_elements:
        raise Misuse(
            f"{label} has {math.prod(size)} elements, which is not a multiple of "
                f"{row_elements}", "",
            f"change `size`: the type is {leaf}",
        )  # fmt: skip
    if not leaf.packed:
        return known if has_known_size else (math.prod(size) // row_elements, *known)
    return size


def _length_of(content: Given, label: str, base: Path) -> tuple[int, ...] | None:
    """Returns the shape of a list or of a `.npy` file; None for other contents."""
    if isinstance(content, list):
        shape = np.shape(np.array(content, dtype=object))  # pyright: ignore
        return tuple(int(n) for n in shape)
    if isinstance(content, str) and content.endswith(".npy"):
        return read_npy(base / content, label).shape
    return None


def _fill(part: Part, data: Array, addresses: Mapping[str, int], base: Path) -> None:
    contents = part.contents
    if isinstance(contents.content, str) and contents.content.startswith(ADDRESS):
        number = _address(contents.content, addresses, part.label)
        contents = replace(contents, content=number)
    if part.shape and 0 in part.shape:
        raise Misuse(f"{part.label} has no elements", "", "give a size of at least 1")
    elements = make(contents, part.leaf.scalar, part.shape, part.label, base)
    part.view(data)[...] = elements


def _address(text: str, addresses: Mapping[str, int], where: str) -> int:
    name = text.removeprefix(ADDRESS)
    if name not in addresses:
        raise Misuse(f"{where}: there is no buffer {name!r}", "", suggest(name, list(addresses)))
    return addresses[name]


def _refuse_beyond_memory(buffers: list[Buffer]) -> None:
    from xdsl_spirv.runtime.memory import physical_bytes

    total, known = sum(b.bytes for b in buffers), physical_bytes()
    if known is not None and total > known // SHARE:
        largest = max(buffers, key=lambda b: b.bytes)
        raise Misuse(
            f"the buffers take {total:,} bytes, but tests may take only {known // SHARE:,} here",
            f"the largest is {largest.name} with {largest.bytes:,} bytes",
            "test with smaller sizes",
        )


# Push constants.


def _push_constants(
    block: Struct | None, given: Mapping[str, Given], addresses: Mapping[str, int]
) -> tuple[bytes, Mapping[str, Any]]:
    """Returns the push constants as bytes, and as values by name for expressions."""
    if block is None:
        if given:
            raise Misuse("the kernel has no push constants", "", "leave [push-constants] out")
        return b"", {}
    data = np.zeros(block.size, np.uint8)
    values = _write(block, given, data, 0, "push-constants", addresses)
    return data.tobytes(), values


def _write(
    node: Node,
    value: Given,
    data: Array,
    offset: int,
    where: str,
    addresses: Mapping[str, int],
) -> Any:
    """
    Writes a value to the bytes `data` from `offset` on. Returns the value as expressions use it.

    `where` names the value in errors, and `addresses` are the addresses of buffers by name.
    """
    if isinstance(node, Struct):
        return _write_struct(node, value, data, offset, where, addresses)
    if isinstance(node, Structs):
        if not isinstance(value, list) or len(value) != node.count:  # pyright: ignore
            raise Misuse(f"{where} needs a list of {node.count} tables", "", str(node))
        return [
            _write(node.element, one, data, offset + n * node.stride, f"{where}[{n}]", addresses)
            for n, one in enumerate(value)  # pyright: ignore
        ]
    part = Part(("",), node, offset, Contents())
    if isinstance(value, str) and value.startswith(ADDRESS):
        value = _address(value, addresses, where)
        if (node.scalar, node.shape) == ("u32", (2,)):
            value = [value & 0xFFFFFFFF, value >> 32]
    if isinstance(value, dict | str) or isinstance(value, list) != bool(node.shape):
        raise Misuse(f"{where} is {value!r}, but must be {node}", "", f"give {node}")
    if node.shape:
        array = make(Contents(content=value), node.scalar, part.shape, where, Path())
    else:
        array = np.array(checked(value, node.scalar, where), dtype(node.scalar))
    part.view(data)[...] = array
    return array if node.shape else array.item()  # Python's numbers do not change an array's type.


def _write_struct(
    node: Struct,
    value: Given,
    data: Array,
    offset: int,
    where: str,
    addresses: Mapping[str, int],
) -> dict[str, Any]:
    members = {m.name: m for m in node.members}
    if not isinstance(value, Mapping):
        raise Misuse(f"{where} must be a table", "", f"give {described(node, where)}")
    for name in value:  # pyright: ignore
        if name not in members:
            raise Misuse(f"{where} has no {name!r}", "", suggest(str(name), members))
    missing = [m for m in node.members if m.name not in value]
    if missing:
        wanted = "\n".join(f"{m.name} = {value_of(m.node)}" for m in missing)
        raise Misuse(f"{where}.{missing[0].name} is missing", "", f"write\n[{where}]\n{wanted}")
    return {
        m.name: _write(m.node, value[m.name], data, offset + m.offset, f"{where}.{m.name}",
                       addresses)
        for m in node.members
    }  # fmt: skip


# Templates of descriptions.


def value_of(node: Node, integer: str = "0", real: str = "0.0") -> str:
    """Returns an example value of a type in TOML, filled with the text `integer` or `real`."""
    if isinstance(node, Struct):
        members = (f"{m.name} = {value_of(m.node, integer, real)}" for m in node.members)
        return "{ " + ", ".join(members) + " }"
    if isinstance(node, Structs):
        return "[" + ", ".join([value_of(node.element, integer, real)] * (node.count or 1)) + "]"
    text = real if node.scalar.startswith(("f", "b")) else integer
    for length in reversed(node.shape):
        text = "[" + ", ".join([text] * (length or 1)) + "]"
    return text


def key(name: str) -> str:
    """Returns a name as a TOML key, quoted if necessary."""
    return name if name.replace("-", "_").isidentifier() and name.isascii() else f'"{name}"'


def template(resource: Resource, length: int = 1) -> str:
    """Returns an example description of a buffer in TOML; runtime arrays get `length` elements."""
    table = f"buffers.{key(resource.names[0])}"
    if resource.texture is not None:
        return "\n".join([f"[{table}]", *resource.texture.example(resource.written)])
    return "\n".join(_lines(table, resource.block, resource.written, length))


def _lines(table: str, node: Node, written: bool, length: int) -> Iterator[str]:
    whole = flat(node)
    yield f"[{table}]"
    if whole is not None:
        yield f'type = "{whole[1].scalar}"'
        if None in whole[1].shape:
            row_elements = math.prod(n for n in whole[1].shape if n is not None)
            several = f"  # any multiple of {row_elements}" if row_elements > 1 else ""
            yield f"size = {row_elements * length}{several}"
        yield f'content = "{"zeros" if written else "random"}"'
        return
    if isinstance(node, Structs):
        if node.count is None:
            yield f"size = {length}"
        node = _spread(node.element, node.count or length, node.stride)
    assert isinstance(node, Struct)
    for member in node.members:
        yield from _lines(f"{table}.members.{key(member.name)}", member.node, written, length)
