"""
Models pointers to physical memory as a buffer of the launch and an offset in bytes.

    Squares(squares).v[i]    the buffer at the address `squares`, at offset 4 * i

An address is a number of the launch (a push constant, or a member of a block that is never
written). It refers to the start of a buffer, which has its own length. Two addresses may be equal,
unless `addresses.distinct` is a premise. No address refers to a bound buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv.conversion import ConvertPtrToUOp, ConvertUToPtrOp
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.layout import member_offsets, size_in_bytes
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp
from xdsl_spirv.dialects.spirv.types import MatrixType, PointerType, RuntimeArrayType, StructType
from xdsl_spirv.prove.digits import list_addends
from xdsl_spirv.prove.executing import Place
from xdsl_spirv.prove.images import ImageExecutor
from xdsl_spirv.prove.loops import LAUNCH
from xdsl_spirv.prove.meaning import resize
from xdsl_spirv.prove.places import member_names, step_of
from xdsl_spirv.prove.values import (
    ALWAYS,
    Scalar,
    Term,
    Unsupported,
    Value,
    both,
    known_number,
    negate,
    parts_of,
    width,
    z3,
)

PHYSICAL = StorageClass.PhysicalStorageBuffer
DISTINCT = "addresses.distinct"
"""The premise that all addresses of a launch refer to different buffers."""
ALL = "memory at physical addresses"
BITS = 64


@dataclass(frozen=True, eq=False)
class Address:
    """An address that a launch passes, and the buffer's layout in bytes: header, then elements."""

    name: str
    term: Term
    header: int
    stride: int

    def __str__(self) -> str:
        return self.name


def is_address(type: Attribute) -> bool:
    """True if a value of the type is a pointer to physical memory."""
    return isinstance(type, PointerType) and type.storage_class.data is PHYSICAL


def layout_of(type: Attribute) -> tuple[int, int]:
    """
    Returns the sizes in bytes of the header (the part of a block before its runtime array) and of
    an element of this array. Without a runtime array, the header is empty, and the whole type is
    one element.
    """
    if isinstance(type, StructType) and isinstance(type.member_types[-1], RuntimeArrayType):
        return member_offsets(type)[-1], step_of(type.member_types[-1])[0]
    return 0, size_in_bytes(type)


class AddressExecutor(ImageExecutor):
    """An executor that supports pointers to physical memory."""

    addresses: dict[str, Address]
    pushed: dict[str, Term]
    members: dict[str, Term]

    def address(self, name: str, term: Term | None, type: Attribute) -> Place:
        """Returns a pointer to the start of the buffer at a named address of the launch."""
        assert isinstance(type, PointerType)
        if name not in self.addresses:
            if any(name == self.name_of(symbol) for symbol, op in self.symbols.items()
                   if isinstance(op, GlobalVariableOp)):  # fmt: skip
                raise Unsupported(
                    f"the address {name!r} has the same name as a buffer: rename one of them"
                )
            if term is None:
                term = z3.BitVec(name, BITS)
                self.levels[name] = LAUNCH
            self.addresses[name] = Address(name, term, *layout_of(type.pointee))
        start = Scalar(z3.BitVecVal(0, BITS))
        return Place(self.addresses[name], PHYSICAL, type.pointee, (start,), type.pointee)

    def convert_address(self, op: Operation, operands: Sequence[Value]) -> tuple[Value, ...]:
        """
        Converts an address to a pointer, or a pointer to an address, as the operation `op` does.
        """
        if isinstance(op, ConvertPtrToUOp):
            place = operands[0]
            if not isinstance(place, Place) or not isinstance(place.root, Address):
                raise Unsupported("a pointer to an unknown variable is not supported", op)
            term = place.root.term + place.path[0].term
            return (Scalar(resize(term, width(op.results[0].type), False)),)
        assert isinstance(op, ConvertUToPtrOp)
        addends = [(1, operands[0].term)]
        if operands[0].term.size() == BITS:
            addends = list(list_addends(operands[0].term))
        known = self.pushed | self.members
        named = [(n, t, a) for a in addends for n, t in known.items() if a[0] == 1 and t.eq(a[1])]
        if len(named) != 1:
            raise Unsupported(
                "an address must be a push constant or a member of a buffer, plus an offset", op
            )
        name, term, addend = named[0]
        place = self.address(name, term, op.results[0].type)
        offset = place.path[0].term
        for factor, part in (one for one in addends if one is not addend):
            offset = offset + factor * part
        return (replace(place, path=(Scalar(z3.simplify(offset)),)),)

    def chain(self, base: Value, indexes: Sequence[Scalar], op: Operation) -> Place:
        """Returns the pointer to the part of `base` that indices select."""
        if not isinstance(base, Place) or not isinstance(base.root, Address):
            return super().chain(base, indexes, op)
        offset, type = base.path[0].term, base.type
        for index in indexes:
            part = self.part_type(type, index)
            if isinstance(type, MatrixType):
                raise Unsupported("parts of a matrix in physical memory are not supported", op)
            if isinstance(type, StructType):
                offset = offset + member_offsets(type)[known_number(index.term) or 0]
            else:
                offset = offset + resize(index.term, BITS, True) * step_of(type)[0]
            type = part
        return replace(base, path=(Scalar(z3.simplify(offset)),), type=type)

    def read_address(self, place: Place, op: Operation, unwritten: bool) -> Place:
        """Returns the address stored in a member of a block that is never written."""
        name = self._name_place(place) if unwritten and not isinstance(place.root, Address) else ""
        if not name:
            raise Unsupported("an address that is read at an unknown index is not supported", op)
        return self.address(name, None, place.type)

    def name_members(self, place: Place, value: Value) -> None:
        """Records the integers of a part of a block by name, for use in premises."""
        pending = [(self._name_place(place), place.type, value)]
        while pending and pending[-1][0]:
            name, type, value = pending.pop()
            if isinstance(value, tuple):
                parts = zip(self.name_parts(name, type), value, strict=True)
                pending += [(*named, part) for named, part in parts]
            elif name and isinstance(type, IntegerType):
                self.members[name] = value.term

    def _name_place(self, place: Place) -> str:
        """
        Returns the name of the part of a block to which `place` points. Returns "" if an index is
        not constant.
        """
        name, type = self.name_of(place.root), place.whole
        for index in place.path:
            if isinstance(type, RuntimeArrayType) or not z3.is_bv_value(index.term):
                return ""
            name, type = self.name_parts(name, type)[index.term.as_long()]
        return name

    def name_parts(self, name: str, type: Attribute) -> list[tuple[str, Attribute]]:
        """Returns the names and types of a push constant's members or elements."""
        parts = enumerate(parts_of(type, self.length) or [])
        if not isinstance(type, StructType):
            return [(f"{name}[{number}]", part) for number, part in parts]
        names = member_names(self.module, type)
        return [(f"{name}.{names[n]}" if name else names[n], part) for n, part in parts]

    def demand_address(self, place: Place, op: Operation) -> None:
        """Records that an access to physical memory must be inside of its buffer."""
        address = place.root
        assert isinstance(address, Address)
        name = f"len({address.name})"
        length = self.length_of(name)
        end = resize(length, BITS, False) * address.stride + address.header
        first, size = place.path[0].term, size_in_bytes(place.type)
        wrong = z3.Or(z3.UGE(first, end), z3.UGT(first + size, end))
        self.demand("bounds", f"bytes inside {name}", op, wrong, length)

    def demand(
        self, question: str, what: str, op: Operation, wrong: Term, length: Term | None = None
    ) -> None:
        """
        Records that `wrong` must be false whenever the instruction `op` is executed.

        `question` names the kind of bug (such as "bounds"), `what` describes the condition, and
        `length` is the length of the runtime array that bounds an index, if any.
        """
        raise NotImplementedError


def share_bytes(a: Place, b: Place, other: Callable[[Term], Term]) -> Term:
    """
    Returns the condition that accesses `a` and `b` overlap in physical memory. `other` renames the
    symbols of `b`, which another invocation executes.
    """
    x, y, differ = a.path[0].term, other(b.path[0].term), ALWAYS
    if a.root is not b.root:
        assert isinstance(a.root, Address)
        assert isinstance(b.root, Address)
        x, y, differ = a.root.term + x, b.root.term + y, negate(z3.Bool(DISTINCT))
    meet = z3.And(z3.ULT(x, y + size_in_bytes(b.type)), z3.ULT(y, x + size_in_bytes(a.type)))
    return both(differ, meet)
