"""
Reads the interface of an entry point from the SPIR-V binary: buffers, push constants,
specialization constants.

Sizes may depend on the specialization constants of a launch (`Constants`). Scalars, vectors,
matrices and arrays are represented as one strided array (`Leaf`), so that row-major matrices and
std140's padding are only different strides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from xdsl_spirv.serialization.validation.entry_points import reachable
from xdsl_spirv.serialization.validation.images import image_of
from xdsl_spirv.serialization.validation.module import EntryPoint, Module
from xdsl_spirv.serialization.validation.types import Type
from xdsl_spirv.tools.kernel_test.constants import Constants
from xdsl_spirv.tools.kernel_test.description import Misuse, suggest
from xdsl_spirv.tools.kernel_test.images import Texture

BUFFERS = ("StorageBuffer", "Uniform")
TEXTURES = ("Image", "SampledImage", "Sampler")
ENCODINGS = {"BFloat16KHR": "bf16", "Float8E4M3EXT": "u8", "Float8E5M2EXT": "u8"}
BOOLEAN_BYTES = 4


@dataclass(frozen=True)
class Leaf:
    """A strided array of scalars; the length of a runtime array is None."""

    scalar: str
    shape: tuple[int | None, ...] = ()
    strides: tuple[int, ...] = ()

    @property
    def itemsize(self) -> int:
        """Size of a scalar in bytes."""
        return {"bf16": 2}.get(self.scalar) or int(self.scalar[1:]) // 8

    @property
    def size(self) -> int:
        """Size in bytes, including padding; a runtime array counts as empty."""
        if any(n in (None, 0) for n in self.shape):
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        return max((n * step for n, step in steps if n), default=self.itemsize)

    @property
    def packed(self) -> bool:
        """True if there is no padding between the scalars."""
        stride = self.itemsize
        for count, step in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if step != stride and count != 1:
                return False
            stride = step * (count or 1)
        return True

    def __str__(self) -> str:
        return self.scalar + "".join(f"[{'' if n is None else n}]" for n in self.shape)


@dataclass(frozen=True)
class Struct:
    """The layout of a struct."""

    name: str
    members: tuple[Member, ...]
    size: int = 0

    def __str__(self) -> str:
        return self.name or "struct"


@dataclass(frozen=True)
class Structs:
    """An array of structs, or of arrays of structs; the length of a runtime array is None."""

    element: Node
    count: int | None
    stride: int

    @property
    def size(self) -> int:
        """Size in bytes; a runtime array counts as empty."""
        return (self.count or 0) * self.stride

    def __str__(self) -> str:
        return f"{self.element}[{'' if self.count is None else self.count}]"


Node: TypeAlias = Leaf | Struct | Structs


@dataclass(frozen=True)
class Member:
    """A struct's member."""

    name: str
    offset: int
    node: Node


Place: TypeAlias = tuple[int, int] | tuple[int, int, int]
"""Descriptor set and binding, followed by the index in an array of buffers."""


@dataclass(frozen=True)
class Resource:
    """The variables with one descriptor set and binding; `block` is their largest type."""

    place: Place
    names: tuple[str, ...]
    """Names that a test may use; the last is SET.BINDING. An element of an array is `name[0]`."""
    block: Node
    written: bool = True
    read: bool = True
    texture: Texture | None = None
    """The type of an image or a sampler; None for buffers."""


@dataclass
class Interface:
    """The interface of an entry point, for given specialization constants."""

    module: Module
    entry: EntryPoint
    constants: Constants
    _nodes: dict[int, Node] = field(default_factory=dict[int, Node])

    @cached_property
    def variables(self) -> list[int]:
        """Returns the ids of the module's variables that the entry point's functions use."""
        m = self.module
        used: set[int] = set()
        for function in reachable(m, self.entry):
            body = m.by_function.get(function)
            if body is not None:
                used.update(id for b in body.blocks for i in b.instructions for id in i.ids())
        variables = [i for i in m.outside if i.op in ("Variable", "UntypedVariableKHR")]
        return [i.result for i in variables if i.result in used]

    def storage(self, id: int) -> str:
        """Returns the storage class of a variable."""
        type_ = self.module.type_of(id)
        return "" if type_ is None else type_.storage

    def pointee(self, id: int) -> Type | None:
        """Returns the type that a variable points to, or None for an untyped variable."""
        at = self.module.definitions[id]
        if at.op == "UntypedVariableKHR":
            return self.module.types.get(at.words[4]) if len(at.words) > 4 else None
        return self.module.pointee(self.module.type_of(id))

    def of_class(self, *classes: str) -> Iterator[tuple[int, Type]]:
        """Yields the variables in some storage classes, with the types that they point to."""
        for id in self.variables:
            type_ = self.pointee(id)
            if type_ is not None and self.storage(id) in classes:
                yield id, type_

    @cached_property
    def resources(self) -> list[Resource]:
        """Returns the buffers, images and samplers, sorted by descriptor set and binding."""
        places: dict[Place, list[tuple[int, Type]]] = {}
        for id, type_ in self.of_class(*BUFFERS, "UniformConstant"):
            for place, block in self._bindings(id, type_):
                places.setdefault(place, []).append((id, block))
        return [self._resource(place, places[place]) for place in sorted(places)]

    def _bindings(self, id: int, type_: Type) -> Iterator[tuple[Place, Type]]:
        """Yields the descriptor set and binding of a variable, or of each element of an array."""
        place, element = self._place(id), type_.element
        arrays = type_.kind in ("Array", "RuntimeArray")
        if not arrays or not element or element.kind not in ("Struct", *TEXTURES):
            yield place, type_
            return
        if type_.kind == "RuntimeArray":
            raise Misuse(
                f"{self.module.spell(id)} is an array of buffers without a length",
                "",
                "give the array a constant length in the kernel",
            )
        for number in range(int(self.constants.value(type_.count_id))):
            yield (*place, number), element

    def _place(self, id: int) -> tuple[int, int]:
        numbers: list[int] = []
        for name in ("DescriptorSet", "Binding"):
            decoration = self.module.decoration(id, name)
            numbers.append(int(decoration.parameters[0]) if decoration else 0)
        return numbers[0], numbers[1]

    def _resource(self, place: Place, variables: list[tuple[int, Type]]) -> Resource:
        m = self.module
        names: dict[str, None] = {}
        for id, type_ in variables:
            names[m.names.get(type_.id, "")] = None
            names[m.names.get(id, "")] = None
        names.pop("", None)
        blocks = [self.node(type_) for _, type_ in variables]
        written = any(not self._all(id, t, "NonWritable") for id, t in variables)
        written = written and any(self.storage(id) != "Uniform" for id, _ in variables)
        read = any(not self._all(id, t, "NonReadable") for id, t in variables)
        names[f"{place[0]}.{place[1]}"] = None
        number = "".join(f"[{n}]" for n in place[2:])
        largest = max(blocks, key=lambda node: node.size)
        labels, kind = tuple(n + number for n in names), variables[0][1].kind
        image = image_of(m, variables[0][1])
        texel_buffer = image is not None and image.dim == "Buffer"
        sampler = kind in TEXTURES[1:] and not texel_buffer
        texture = Texture(image, sampler) if kind in TEXTURES else None
        written = written and (image is None or image.sampled == 2)
        return Resource(place, labels, largest, written, read, texture)

    def _all(self, id: int, type_: Type, decoration: str) -> bool:
        """True if a variable, or each member of its block, has a decoration."""
        members = range(len(type_.members))
        return self.module.has(id, decoration) or (
            bool(members) and all(self.module.has(type_.id, decoration, n) for n in members)
        )

    @cached_property
    def push_constants(self) -> Struct | None:
        """Returns the block of push constants, or None."""
        for _, type_ in self.of_class("PushConstant"):
            node = self.node(type_)
            return node if isinstance(node, Struct) else Struct("", (Member("", 0, node),))
        return None

    @cached_property
    def workgroup_bytes(self) -> int:
        """Returns the bytes of Workgroup memory. Blocks with an explicit layout share memory."""
        sizes = {True: [0], False: [0]}
        for _, type_ in self.of_class("Workgroup"):
            sizes[self.module.has(type_.id, "Block")].append(self.node(type_).size)
        return max(sizes[True]) + sum(sizes[False])

    # Types.

    def node(self, type_: Type, stride: int = 0, row_major: bool = False) -> Node:
        """Returns the layout of a type; the enclosing member gives `stride` and `row_major`."""
        m = self.module
        match type_.kind:
            case "Struct":
                if type_.id not in self._nodes:
                    self._nodes[type_.id] = self._struct(type_)
                return self._nodes[type_.id]
            case "Array" | "RuntimeArray" if type_.element is not None:
                element = self.node(type_.element, stride, row_major)
                decoration = m.decoration(type_.id, "ArrayStride")
                step = int(decoration.parameters[0]) if decoration else element.size
                runtime = type_.kind == "RuntimeArray"
                count = None if runtime else int(self.constants.value(type_.count_id))
                return _repeat_element(element, count, step)
            case "Vector" if type_.element is not None:
                return _repeat_element(
                    element := self.node(type_.element), type_.lanes, element.size
                )
            case "Matrix" if type_.element is not None:
                column = self.node(type_.element)
                assert isinstance(column, Leaf)
                return _matrix(column, type_.lanes, stride, row_major)
            case "Pointer" | "UntypedPointerKHR":
                return Leaf("u64")
            case "Image" | "SampledImage" | "Sampler":
                return Leaf("u8", (None,), (1,))
            case _:
                return Leaf(self.scalar(type_))

    def _struct(self, type_: Type) -> Struct:
        m, end = self.module, 0
        names = member_names(m, type_.id)
        members: list[Member] = []
        for number, part in enumerate(type_.members):
            if part is None:
                raise Misuse(f"a member of {m.spell(type_.id)} has no type", "", "")
            matrix = m.decoration(type_.id, "MatrixStride", number)
            stride = int(matrix.parameters[0]) if matrix else 0
            node = self.node(part, stride, m.has(type_.id, "RowMajor", number))
            offset = m.decoration(type_.id, "Offset", number)
            start = int(offset.parameters[0]) if offset else end
            members.append(Member(names.get(number, f"member{number}"), start, node))
            end = max(end, start + node.size)
        widest = max((alignment(member.node) for member in members), default=1)
        return Struct(m.names.get(type_.id, ""), tuple(members), -(-end // widest) * widest)

    def scalar(self, type_: Type) -> str:
        """Returns the name of a scalar type in tests."""
        if type_.kind == "Bool":
            return f"u{8 * BOOLEAN_BYTES}"
        if type_.kind == "Float":
            return ENCODINGS.get(type_.encoding or "", f"f{type_.width}")
        if type_.kind == "Int":
            return f"{'i' if type_.signed else 'u'}{type_.width}"
        raise Misuse(
            f"the kernel has a buffer with elements of {type_}, which tests do not support",
            "",
            "use another element type",
        )


def member_names(m: Module, struct: int) -> dict[int, str]:
    """Returns the names of a struct's members by index."""
    names: dict[int, str] = {}
    for i in m.by_op.get("MemberName", ()):
        if i.words[1] == struct and i.read is not None and str(i.read[2].value):
            names.setdefault(i.words[2], str(i.read[2].value))
    return names


def alignment(node: Node) -> int:
    """Returns the size of the largest scalar in bytes, to which the size of a struct is padded."""
    if isinstance(node, Leaf):
        return node.itemsize
    if isinstance(node, Structs):
        return alignment(node.element)
    return max((alignment(member.node) for member in node.members), default=1)


def _repeat_element(element: Node, count: int | None, stride: int) -> Node:
    if isinstance(element, Leaf) and None not in element.shape:
        return Leaf(element.scalar, (count, *element.shape), (stride, *element.strides))
    return Structs(element, count, stride)


def _matrix(column: Leaf, columns: int, stride: int, row_major: bool) -> Leaf:
    """Returns the layout of a matrix, indexed by column and row as in GLSL."""
    rows = column.shape[0] or 1
    if row_major:
        strides = (column.itemsize, stride or columns * column.itemsize)
    else:
        strides = (stride or column.size, column.itemsize)
    return Leaf(column.scalar, (columns, rows), strides)


def choose_entry(m: Module, wanted: str | None) -> EntryPoint:
    """Returns the entry point `wanted`, or the only one. Raises `Misuse` if it is not unique."""
    kernels = [e for e in m.entry_points if e.model in ("GLCompute", "Kernel")]
    named = [e for e in kernels if e.name == wanted] if wanted is not None else kernels
    if len(named) == 1:
        return named[0]
    known = [e.name for e in kernels]
    if wanted is not None:
        raise Misuse(f"the kernel has no entry point {wanted!r}", "", suggest(wanted, known))
    if not known:
        raise Misuse("the module has no compute entry point", "", "test a compute shader")
    raise Misuse("the kernel has several entry points", "", f"choose one: {', '.join(known)}")


def described(node: Node, name: str) -> str:
    """Returns a readable declaration of a type."""
    if isinstance(node, Struct):
        return f"{name}: {{{', '.join(described(m.node, m.name) for m in node.members)}}}"
    if isinstance(node, Structs):
        length = "" if node.count is None else str(node.count)
        return f"{described(node.element, name)}[{length}]"
    return f"{name}: {node}"


def by_name(resources: Iterable[Resource]) -> Mapping[str, Resource]:
    """Maps each name to its buffer; names that two buffers share are left out."""
    named: dict[str, Resource] = {}
    twice: set[str] = set()
    for resource in resources:
        for name in resource.names:
            if name in named:
                twice.add(name)
            named[name] = resource
    return {name: named[name] for name in named if name not in twice}
