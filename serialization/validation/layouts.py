"""
Rules of explicit layouts (BLK): offsets and strides in a block.

The alignment and size of a type depend on the layout of its matrices. The decorations of a struct
member give this layout. Alignment and size are cached for each type, since nested types share
parts. Alignments follow VK_KHR_relaxed_block_layout from Vulkan 1.1 on, and are rounded up as
uniform blocks require. Scalar layouts are not supported.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    declared_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import Type

BLOCKS = ("Block", "BufferBlock")
BUFFERS = frozenset({"StorageBuffer", "Uniform", "PushConstant"})
MAX_PARTS = 20_000
"""Maximum number of members that are checked in a block. Real blocks have fewer."""


class Extent(NamedTuple):
    """Alignment and size of a type in bytes. The size of a runtime array is 0."""

    alignment: int
    size: int


class Place(NamedTuple):
    """
    Memory layout of a matrix, which decorations of a struct member give. The stride is in bytes.
    """

    row_major: bool = False
    stride: int = 0


def parameter(m: Module, id: int, name: str, member: int | None = None) -> int | None:
    stated = m.decoration(id, name, member)
    if stated is None or not stated.parameters:
        return None
    value = stated.parameters[0]
    return value if isinstance(value, int) else None


def _up(value: int, to: int) -> int:
    return -(-value // to) * to if to else value


class Layouts:
    """Computes alignment and size of a module's types, under one set of alignment rules."""

    def __init__(self, m: Module, *, uniform: bool, relaxed: bool, scalar: bool = False):
        self.m = m
        self.uniform = uniform
        self.relaxed = relaxed
        self.scalar = scalar
        self._known: dict[tuple[int, Place], Extent] = {}

    def extent(self, type_: Type | None, place: Place) -> Extent:
        """Returns alignment and size of a type. Computes its parts first, without recursion."""
        if type_ is None:
            return Extent(1, 0)
        stack = [(type_, place)]
        while stack:
            top, at = stack[-1]
            if (top.id, at) in self._known:
                stack.pop()
                continue
            missing = [p for p in self._parts(top, at) if (p[0].id, p[1]) not in self._known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            alignment, size = self._compute(top, at)
            self._known[top.id, at] = Extent(max(alignment, 1), size)
        return self._known[type_.id, place]

    def _parts(self, type_: Type, place: Place) -> list[tuple[Type, Place]]:
        if type_.kind in ("Array", "RuntimeArray") and type_.element is not None:
            return [(type_.element, place)]
        if type_.kind == "Struct":
            members = enumerate(type_.members)
            return [(t, self.place(type_, k)) for k, t in members if t is not None]
        return []

    def place(self, struct: Type, member: int) -> Place:
        stride = parameter(self.m, struct.id, "MatrixStride", member) or 0
        return Place(self.m.has(struct.id, "RowMajor", member), stride)

    def _compute(self, type_: Type, place: Place) -> Extent:
        m = self.m
        match type_.kind:
            case "Int" | "Float":
                return Extent(type_.width // 8 or 1, type_.width // 8)
            case "Vector":
                one = type_.width // 8
                lanes = 4 if type_.lanes == 3 else type_.lanes
                return Extent(one if self.scalar else one * lanes, one * type_.lanes)
            case "Matrix":
                return self._matrix(type_, place)
            case "Array" | "RuntimeArray":
                element = self.extent(type_.element, place) if type_.element else Extent(1, 0)
                stride = parameter(m, type_.id, "ArrayStride") or 0
                count = m.integer(type_.count_id, default=True) or 0
                alignment = self._round(element.alignment)
                if type_.kind == "RuntimeArray" or count <= 0:
                    return Extent(alignment, 0)
                return Extent(alignment, (count - 1) * stride + element.size)
            case "Struct":
                return self._struct(type_)
            case "Pointer" | "UntypedPointerKHR":
                return Extent(8, 8)
            case _:
                return Extent(1, 0)

    def _round(self, alignment: int) -> int:
        return _up(alignment, 16) if self.uniform and not self.scalar else alignment

    def _matrix(self, type_: Type, place: Place) -> Extent:
        column = type_.element
        if column is None:
            return Extent(1, 0)
        rows, columns = column.lanes, type_.lanes
        one = type_.width // 8
        vectors, length = (rows, columns) if place.row_major else (columns, rows)
        lanes = 4 if length == 3 else length
        alignment = one if self.scalar else self._round(one * lanes)
        return Extent(alignment, (vectors - 1) * place.stride + length * one)

    def _struct(self, type_: Type) -> Extent:
        alignment, end = 1, 0
        for k, member in enumerate(type_.members):
            if member is None:
                continue
            inner = self.extent(member, self.place(type_, k))
            alignment = max(alignment, inner.alignment)
            offset = parameter(self.m, type_.id, "Offset", k) or 0
            end = max(end, offset + inner.size)
        return Extent(self._round(alignment), end)


declared_rule("BLK-02", "2.16.2", "Every member of a block has exactly one Offset.")
declared_rule(
    "BLK-03",
    "2.16.2",
    "Every array in a block has an ArrayStride; every matrix has a MatrixStride and a major order.",
)
declared_rule("BLK-04", "Vulkan", "Members of a block are aligned.")
declared_rule("BLK-05", "Vulkan", "Members of a block do not overlap.")
declared_rule("BLK-06", "2.16.2", "A block does not contain another block.")


@module_rule("BLK-01", "2.16.2")
def blocks(m: Module) -> Problems:
    """A variable in a buffer must have a block, or an array of blocks, as its type."""
    if not m.is_shader:
        return
    yield from _physical(m)
    yield from _untyped_blocks(m)
    checked: set[tuple[int, bool]] = set()
    for i in m.by_op.get("Variable", ()):
        type_ = m.types.get(i.type_id)
        held = m.pointee(type_)
        if type_ is None or held is None:
            continue
        storage = type_.storage
        explicit = storage == "Workgroup" and "WorkgroupMemoryExplicitLayoutKHR" in m.capabilities
        if storage not in BUFFERS and not explicit:
            continue
        if held.kind in ("Array", "RuntimeArray") and not explicit:
            if storage == "PushConstant" and m.environment.vulkan:
                yield Problem(
                    "push constants cannot be an array of blocks", "put the array into one block", i
                )
            while held is not None and held.kind in ("Array", "RuntimeArray"):
                held = held.element
        if held is None:
            continue
        yield from _variable(m, i, storage, held, checked)


def _untyped_blocks(m: Module) -> Problems:
    seen: set[int] = set()
    for op in ("UntypedAccessChainKHR", "UntypedInBoundsAccessChainKHR", "UntypedVariableKHR"):
        for i in m.by_op.get(op, ()):
            held = m.types.get(i.words[4 if "Variable" in op else 3] if len(i.words) > 4 else 0)
            pointer = m.types.get(i.type_id)
            if held is None or pointer is None or held.id in seen or held.kind != "Struct":
                continue
            if m.has(held.id, "Block") and pointer.storage in BUFFERS:
                seen.add(held.id)
                yield from _Check(m, pointer.storage == "Uniform", i).block(held)


def _physical(m: Module) -> Problems:
    checked: set[int] = set()
    for type_ in list(m.types.values()):
        held = m.pointee(type_)
        if type_.storage != "PhysicalStorageBuffer" or held is None or held.id in checked:
            continue
        checked.add(held.id)
        if held.kind == "Struct":
            yield from _Check(m, False, type_.at).block(held)


def _variable(
    m: Module, i: Instruction, storage: str, held: Type, checked: set[tuple[int, bool]]
) -> Problems:
    is_block = any(m.has(held.id, b) for b in BLOCKS)
    if held.kind != "Struct":
        if storage != "Workgroup" and m.environment.vulkan:
            yield Problem(
                f"a variable in {storage} cannot hold {held}",
                "use a struct that is decorated with Block",
                i,
            )
        return
    if not is_block:
        if storage != "Workgroup" and m.environment.vulkan:
            yield Problem(
                f"the struct in {storage} must be a Block", "decorate the struct with Block", i
            )
        return
    if storage in ("StorageBuffer", "PushConstant") and m.has(held.id, "BufferBlock"):
        yield Problem(
            f"a BufferBlock is in {storage}, where Block is required",
            "decorate the struct with Block",
            i,
        )
    uniform = storage == "Uniform" and m.has(held.id, "Block")
    if (held.id, uniform) in checked:
        return
    checked.add((held.id, uniform))
    yield from _Check(m, uniform, i).block(held)


class _Check:
    def __init__(self, m: Module, uniform: bool, at: Instruction):
        self.m = m
        self.at = at
        relaxed = m.environment.vulkan is not None and m.environment.vulkan >= (1, 1)
        self.layouts = Layouts(m, uniform=uniform, relaxed=relaxed)
        self.seen: set[tuple[int, Place]] = set()

    def block(self, struct: Type) -> Problems:
        pending = [(struct, Place())]
        while pending and len(self.seen) < MAX_PARTS:
            type_, place = pending.pop()
            if (type_.id, place) in self.seen:
                continue
            self.seen.add((type_.id, place))
            if type_.kind == "Struct":
                if type_ is not struct and any(self.m.has(type_.id, b) for b in BLOCKS):
                    yield Problem(
                        "a block cannot contain another block",
                        "remove Block from the inner struct",
                        type_.at,
                        "BLK-06",
                    )
                yield from self._struct(type_)
                for k, member in enumerate(type_.members):
                    if member is not None:
                        pending.append((member, self.layouts.place(type_, k)))
            elif type_.kind in ("Array", "RuntimeArray"):
                yield from self._array(type_, place)
                if type_.element is not None:
                    pending.append((type_.element, place))

    def _array(self, type_: Type, place: Place) -> Problems:
        stride = parameter(self.m, type_.id, "ArrayStride")
        if stride is None:
            yield Problem(
                "an array in a block has no ArrayStride",
                "decorate the array type with ArrayStride",
                type_.at,
                "BLK-03",
            )
            return
        if not stride:
            yield Problem(
                "an ArrayStride cannot be 0",
                "give the distance between elements in bytes",
                type_.at,
                "BLK-03",
            )
            return
        element = self.layouts.extent(type_.element, place)
        alignment = self.layouts.extent(type_, place).alignment
        if stride % alignment:
            yield Problem(
                f"the ArrayStride {stride} is not a multiple of {alignment}",
                f"round the ArrayStride up to a multiple of {alignment}",
                type_.at,
                "BLK-04",
            )
        elif stride < element.size:
            yield Problem(
                f"the ArrayStride {stride} is below the element's size {element.size}",
                f"make the ArrayStride at least {element.size}",
                type_.at,
                "BLK-05",
            )

    def _struct(self, struct: Type) -> Problems:
        m, places = self.m, []
        for k, member in enumerate(struct.members):
            if member is None:
                continue
            offset = parameter(m, struct.id, "Offset", k)
            if offset is None:
                yield Problem(
                    f"member {k} has no Offset",
                    f"decorate member {k} with Offset",
                    struct.at,
                    "BLK-02",
                )
                return
            yield from self._matrix(struct, k, member)
            places.append((offset, k, member))
        end, last = 0, -1
        previous: Type | None = None
        for offset, k, member in sorted(places, key=lambda p: p[:2]):
            extent = self.layouts.extent(member, self.layouts.place(struct, k))
            yield from self._offset(struct, k, member, offset, extent)
            if offset < end:
                yield Problem(
                    f"member {k} at {offset} overlaps member {last}, which ends at {end}",
                    f"move member {k} to offset {end} or higher",
                    struct.at,
                    "BLK-05",
                )
            aggregate = previous is not None and previous.kind in ("Struct", "Array", "Matrix")
            if aggregate and not self._packed() and previous is not None:
                before = self.layouts.extent(previous, self.layouts.place(struct, last))
                if end <= offset < _up(end, before.alignment) and self.layouts.uniform:
                    yield Problem(
                        f"member {k} at {offset} cannot be in the padding of member {last}",
                        f"move it to {_up(end, before.alignment)}",
                        struct.at,
                        "BLK-04",
                    )
            end, last, previous = max(end, offset + extent.size), k, member

    def _packed(self) -> bool:
        return self.layouts.scalar

    def _matrix(self, struct: Type, k: int, member: Type) -> Problems:
        inner: Type | None = member
        while inner is not None and inner.kind in ("Array", "RuntimeArray"):
            inner = inner.element
        if inner is None or inner.kind != "Matrix":
            return
        place = self.layouts.place(struct, k)
        ordered = place.row_major or self.m.has(struct.id, "ColMajor", k)
        if not place.stride or not ordered:
            what = "MatrixStride" if not place.stride else "RowMajor or ColMajor"
            yield Problem(
                f"the matrix member {k} has no {what}",
                f"decorate member {k} with {what}",
                struct.at,
                "BLK-03",
            )
        elif place.stride % self.layouts.extent(inner, place).alignment:
            yield Problem(
                f"the MatrixStride {place.stride} of member {k} is not aligned",
                "round the MatrixStride up to the alignment of a column",
                struct.at,
                "BLK-04",
            )

    def _offset(self, struct: Type, k: int, member: Type, offset: int, extent: Extent) -> Problems:
        alignment = extent.alignment
        if member.kind == "Vector" and self.layouts.relaxed:
            alignment = member.width // 8 or 1
            if self._straddles(offset, extent.size):
                yield Problem(
                    f"the vector member {k} at {offset} cannot straddle 16 bytes",
                    "move the member to a multiple of 16",
                    struct.at,
                    "BLK-04",
                )
        if alignment and offset % alignment:
            yield Problem(
                f"member {k} at {offset} is not aligned to {alignment}",
                f"move it to {_up(offset, alignment)}",
                struct.at,
                "BLK-04",
            )

    @staticmethod
    def _straddles(offset: int, size: int) -> bool:
        if size > 16:
            return offset % 16 != 0
        return size > 0 and offset // 16 != (offset + size - 1) // 16
