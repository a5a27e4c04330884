"""Kernels with memory accesses: structs and arrays, Workgroup memory, atomics, constants."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.legal import MOVED
from xdsl_spirv.testing.differential.types import FLOATS, I32, INTEGERS, Type, drawn

SCOPED = (
    "spirv.ControlBarrier <Workgroup>, <Workgroup>, "
    "<AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>"
)
SHARED = '["NonPrivatePointer"]'


# Layouts


@dataclass(frozen=True)
class Member:
    """A member of a struct: a value, or an array of values with a stride."""

    offset: int
    type: Type
    length: int | None = None

    @property
    def element_bytes(self) -> int:
        return self.type.dtype.itemsize * self.type.count

    @property
    def stride(self) -> int:
        return self.type.dtype.itemsize * self.type.slots

    def __str__(self) -> str:
        if self.length is None:
            return f"{self.type} [{self.offset}]"
        return f"!spirv.array<{self.length} x {self.type}, stride={self.stride}> [{self.offset}]"


def _struct(k: Kernel) -> tuple[list[Member], int]:
    """Returns random members aligned as in std430 with some gaps, and the stride of the struct."""
    members: list[Member] = []
    at, largest = 0, 4
    for _ in range(int(k.rng.integers(2, 5))):
        type = Type(str(k.rng.choice((*INTEGERS, *FLOATS))), int(k.rng.integers(1, 5)))
        alignment = type.dtype.itemsize * type.slots
        length = int(k.rng.integers(2, 5)) if k.rng.random() < 0.4 else None
        at = -(-at // alignment) * alignment + alignment * int(k.rng.random() < 0.2)
        members.append(Member(at, type, length))
        size = members[-1].stride * length if length else members[-1].element_bytes
        at, largest = at + size, max(largest, alignment)
    return members, -(-at // largest) * largest


def layouts(k: Kernel) -> None:
    """Fills the kernel with copies of a struct: as a whole, by members, and by elements."""
    members, stride = _struct(k)
    text = f"!spirv.struct<({', '.join(map(str, members))})>"
    data = np.zeros((k.invocations, stride), np.uint8)
    for member in members:
        values = drawn(k.rng, member.type, (k.invocations, member.length or 1, member.type.count))
        values = np.where(np.isnan(values.astype(np.float64)), 0, values).astype(values.dtype)
        octets = np.ascontiguousarray(values).view(np.uint8)
        for number in range(member.length or 1):
            start = member.offset + number * member.stride
            data[:, start : start + member.element_bytes] = octets[:, number]
    source = k.buffer(text, data, stride)
    copies = [k.buffer(text, np.zeros_like(data), stride) for _ in range(3)]
    pointers = [k.pointer(b) for b in (source, *copies)]
    value = k.op(f'spirv.Load "StorageBuffer" {pointers[0]} : {text}')
    k.do(f'spirv.Store "StorageBuffer" {pointers[1]}, {value} : {text}')
    for number, member in enumerate(members):
        _copy_member(k, pointers[0], pointers[2], text, number, member)
    k.do(f'spirv.CopyMemory "StorageBuffer" {pointers[3]}, "StorageBuffer" {pointers[0]} : {text}')
    for buffer, what in zip(copies, ("whole", "by elements", "CopyMemory"), strict=True):
        k.result(buffer, f"{text}, {what}")
    _dynamic_element(k, pointers[0], text, members)
    if not k.machine.lacking:  # Target files do not list variable pointers.
        _variable_pointer(k)
    # The struct is loaded as a whole only if the machine supports arithmetic on all member types.
    for scalar in sorted({member.type.scalar for member in members}):
        value, buffer = k.input(Type(scalar))
        name = "FAdd" if scalar[0] == "f" else "IAdd"
        total = k.op(f"spirv.{name} {value}, {value} : {scalar}")
        k.output(total, Type(scalar), f"{name} : {scalar}", operands=[buffer])


def _variable_pointer(k: Kernel) -> None:
    """Reads one of two elements of a buffer through a pointer from OpSelect."""
    type = Type(str(k.rng.choice((*INTEGERS, *FLOATS))), int(k.rng.integers(1, 5)))
    _, buffer = k.input(type)
    mirrored = k.op(f"spirv.BitwiseXor %id, {k.constant(int(k.rng.integers(k.invocations)))} : i32")
    first, second = k.pointer(buffer), k.pointer(buffer, mirrored)
    bit = k.op("spirv.BitwiseAnd %id, %one : i32")
    even = k.op(f"spirv.IEqual {bit}, %zero : i32")
    pointer = f"!spirv.ptr<{type}, StorageBuffer>"
    chosen = k.op(f"spirv.Select {even}, {first}, {second} : i1, {pointer}")
    value = k.op(f'spirv.Load "StorageBuffer" {chosen} : {type}')
    k.output(value, type, f"an element by a chosen pointer : {type}", MOVED)


def _place(k: Kernel, base: str, text: str, path: list[str], type: Type) -> str:
    types = ", ".join(["i32"] * len(path))
    return k.op(
        f"spirv.AccessChain {base}[{', '.join(path)}] : !spirv.ptr<{text}, StorageBuffer>, {types} "
        f"-> !spirv.ptr<{type}, StorageBuffer>"
    )


def _copy_member(
    k: Kernel, source: str, target: str, text: str, number: int, member: Member
) -> None:
    for element in range(member.length or 1):
        path = [k.constant(number)] + ([k.constant(element)] if member.length else [])
        paths, type = [path], member.type
        if type.count > 1 and k.rng.random() < 0.5:
            paths = [[*path, k.constant(c)] for c in range(type.count)]
            type = Type(type.scalar)
        for member_path in paths:
            value = k.op(
                f'spirv.Load "StorageBuffer" {_place(k, source, text, member_path, type)} : {type}'
            )
            place = _place(k, target, text, member_path, type)
            k.do(f'spirv.Store "StorageBuffer" {place}, {value} : {type}')


def _dynamic_element(k: Kernel, base: str, text: str, members: list[Member]) -> None:
    for number, member in enumerate(members):
        if member.length is None:
            continue
        index = k.op(f"spirv.UMod %id, {k.constant(member.length)} : i32")
        place = _place(k, base, text, [k.constant(number), index], member.type)
        value = k.op(f'spirv.Load "StorageBuffer" {place} : {member.type}')
        k.output(value, member.type, f"element of {member} by an index")


# Workgroup memory


def workgroup_memory(k: Kernel) -> None:
    """Fills the kernel with code in which invocations of a workgroup read each other's values."""
    count = k.machine.local[0]
    for number in range(3):
        type = Type(str(k.rng.choice((*INTEGERS, *FLOATS))), int(k.rng.choice([1, 1, 2, 3, 4])))
        array = f"!spirv.array<{count} x {type}>"
        pointer, part = f"!spirv.ptr<{array}, Workgroup>", f"!spirv.ptr<{type}, Workgroup>"
        k.globals.append(f"spirv.GlobalVariable @tile{number} : {pointer}")
        base = k.op(f"spirv.mlir.addressof @tile{number} : {pointer}")
        mine = k.op(f"spirv.AccessChain {base}[%local] : {pointer}, i32 -> {part}")
        k.do(f'spirv.Store "Workgroup" {mine}, {k.input(type)[0]} {SHARED} : {type}')
        k.do(SCOPED)
        loaded = "%local"
        for _ in range(2):
            index = k.op(f"spirv.BitwiseXor %local, {k.constant(int(k.rng.integers(count)))} : i32")
            other = k.op(f"spirv.AccessChain {base}[{index}] : {pointer}, i32 -> {part}")
            loaded = k.op(f'spirv.Load "Workgroup" {other} {SHARED} : {type}')
            k.output(loaded, type, f"Workgroup memory : {type}")
            k.do(SCOPED)
            k.do(f'spirv.Store "Workgroup" {mine}, {loaded} {SHARED} : {type}')
            k.do(SCOPED)


# Atomics

COMMUTATIVE = ("IAdd", "ISub", "SMin", "UMin", "SMax", "UMax", "And", "Or", "Xor")
CELLS = 4


def atomics(k: Kernel) -> None:
    """
    Fills the kernel with atomics: on memory that invocations share, and on memory of a single
    invocation.
    """
    for _ in range(4):
        type = Type(str(k.rng.choice(["i32", "i32", "i64"])))
        name = str(k.rng.choice(COMMUTATIVE))
        cells = k.buffer(str(type), drawn(k.rng, type, (CELLS,)))
        index = k.op(f"spirv.UMod %id, {k.constant(CELLS)} : i32")
        pointer = k.pointer(cells, index)
        value, _ = k.input(type)
        ptr = f"!spirv.ptr<{type}, StorageBuffer>"
        k.op(f"spirv.Atomic{name} <Device> <None> {pointer}, {value} : {ptr}", effect=True)
        k.result(cells, f"Atomic{name} : {type}")
        _own_cell(k, type)
    _shared_counter(k)


def _own_cell(k: Kernel, type: Type) -> None:
    cells = k.buffer(str(type), drawn(k.rng, type, (k.invocations,)))
    pointer, ptr = k.pointer(cells), f"!spirv.ptr<{type}, StorageBuffer>"
    value, other = k.input(type)[0], k.input(type)[0]
    before = k.load(cells)
    even = k.op("spirv.BitwiseAnd %id, %one : i32")
    same = k.op(f"spirv.IEqual {even}, %zero : i32")
    comparator = k.op(f"spirv.Select {same}, {before}, {other} : i1, {type}")
    texts = {
        "Exchange": f"spirv.AtomicExchange <Device> <None> {pointer}, {value} : {ptr}",
        "CompareExchange": (
            f"spirv.AtomicCompareExchange <Device> <None> <None> {pointer}, {value}, {comparator} "
            f": {ptr}"
        ),
        "IIncrement": f"spirv.AtomicIIncrement <Device> <None> {pointer} : {ptr}",
        "IDecrement": f"spirv.AtomicIDecrement <Device> <None> {pointer} : {ptr}",
        "UMax": f"spirv.AtomicUMax <Device> <None> {pointer}, {value} : {ptr}",
        "SMin": f"spirv.AtomicSMin <Device> <None> {pointer}, {value} : {ptr}",
        "Load": f"spirv.AtomicLoad <Device> <None> {pointer} : {ptr}",
    }
    name = str(k.rng.choice(list(texts)))
    old = k.op(texts[name], effect=True)
    k.output(old, type, f"Atomic{name} returns : {type}")
    k.result(cells, f"Atomic{name} of a cell of its own : {type}")


def _shared_counter(k: Kernel) -> None:
    type = Type(str(k.rng.choice(["i32", "i64"])))
    pointer = f"!spirv.ptr<{type}, Workgroup>"
    k.globals.append(f"spirv.GlobalVariable @counter : {pointer}")
    cell = k.op(f"spirv.mlir.addressof @counter : {pointer}")
    zero = k.constant(0, type)
    k.do(f"spirv.AtomicStore <Workgroup> <None> {cell}, {zero} : {pointer}")
    k.do(SCOPED)
    name = str(k.rng.choice(["IAdd", "Xor", "UMax", "Or"]))
    value, _ = k.input(type)
    k.op(f"spirv.Atomic{name} <Workgroup> <None> {cell}, {value} : {pointer}", effect=True)
    k.do(SCOPED)
    count = k.op(f"spirv.AtomicLoad <Workgroup> <None> {cell} : {pointer}")
    k.output(count, type, f"Atomic{name} in Workgroup memory : {type}")


# Constants


def constants(k: Kernel) -> None:
    """Fills the kernel with specialization constants, push constants and composites."""
    numbers = [int(x) for x in k.rng.integers(-(2**31), 2**31, 3)]
    for number in range(3):
        default = int(k.rng.integers(-100, 100))
        k.globals.append(f"spirv.SpecConstant @s{number} spec_id({number}) = {default} : i32")
    k.globals.append("spirv.SpecConstantComposite @composite (@s0, @s1, @s2) : vector<3xi32>")
    k.spec_constants = {i: numbers[i] for i in range(3) if k.rng.random() < 0.7}
    refs = [k.op(f"spirv.mlir.referenceof @s{i} : i32") for i in range(3)]
    for reference in refs:
        k.output(reference, I32, "a specialization constant")
    for name in k.rng.choice(["IAdd", "IMul", "ISub", "BitwiseXor", "BitwiseAnd"], 2):
        value = k.op(
            f'spirv.SpecConstantOperation wraps "spirv.{name}"({refs[0]}, {refs[1]}) '
            f": (i32, i32) -> i32"
        )
        k.output(value, I32, f"SpecConstantOp {name}")
    vector = Type("i32", 3)
    composite = k.op(f"spirv.mlir.referenceof @composite : {vector}")
    k.output(composite, vector, "a composite of specialization constants")
    _push(k)


def _push(k: Kernel) -> None:
    members = "i32 [0], f32 [4], vector<2xi32> [8], !spirv.array<3 x i32, stride=4> [16]"
    block = f"!spirv.struct<({members}), Block>"
    pointer = f"!spirv.ptr<{block}, PushConstant>"
    k.globals.append(f"spirv.GlobalVariable @push : {pointer}")
    values = [int(x) for x in k.rng.integers(-(2**31), 2**31, 6)]
    number = float(np.float32(k.rng.uniform(-5, 5)))
    k.push_constants = struct.pack("<if5i", values[0], number, *values[1:])
    base = k.op(f"spirv.mlir.addressof @push : {pointer}")
    index = k.op(f"spirv.UMod %id, {k.constant(3)} : i32")
    for path, type in [(["%zero"], I32), (["%one"], Type("f32")), (["2"], Type("i32", 2)),
                       (["3", index], I32)]:  # fmt: skip
        chain = [k.constant(int(p)) if p.isdigit() else p for p in path]
        types = ", ".join(["i32"] * len(chain))
        place = k.op(
            f"spirv.AccessChain {base}[{', '.join(chain)}] : {pointer}, {types} "
            f"-> !spirv.ptr<{type}, PushConstant>"
        )
        value = k.op(f'spirv.Load "PushConstant" {place} : {type}')
        k.output(value, type, f"a push constant : {type}")
