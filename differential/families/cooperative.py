"""
SPV_KHR_cooperative_matrix: what lavapipe's property list has, 8x8x8 per subgroup of 8.

A matrix comes from a storage buffer or from Workgroup memory, by rows or columns, with lines padded
beyond the matrix, through pointers to scalars or vectors; every subgroup has tiles of its own.
Component-wise work is exact: integers of their whole range, floats that are small multiples of 1/2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from xdsl_spirv.differential.families.memory import SCOPED, SHARED
from xdsl_spirv.differential.kernel import INVOCATIONS, LOCAL, SUBGROUP, Kernel
from xdsl_spirv.differential.legal import EXACT, Legal
from xdsl_spirv.differential.types import DTYPES, I32, Array
from xdsl_spirv.runtime.check import contraction_bound

SIZE = 8
TILES = INVOCATIONS // SUBGROUP
OPS = "spirv.KHR.CooperativeMatrix"
LISTED = [
    ("f16", "f16", ("f16", "f16", "f16", "f16")),
    ("f16", "f32", ("f16", "f16", "f32", "f32")),
    ("i8", "i32", ("u8", "u8", "u32", "u32")),
    ("i8", "i32", ("s8", "s8", "s32", "s32")),
]
SIGNED = "<ASigned|BSigned|CSigned|ResultSigned>"
COMPONENTS = {"A": ("f16", "i8"), "B": ("f16", "i8"), "Acc": ("f16", "f32", "i32")}


@dataclass(frozen=True)
class Place:
    """How tiles lie in a buffer: each begins `tile` elements after the one before."""

    layout: str
    stride: int
    vector: int

    @property
    def tile(self) -> int:
        return self.stride * SIZE

    def index(self) -> Array:
        """The element of each (tile, row, column)."""
        tile, row, column = np.ogrid[:TILES, :SIZE, :SIZE]
        line, within = (row, column) if self.layout == "RowMajor" else (column, row)
        return tile * self.tile + line * self.stride + within


def place(k: Kernel) -> Place:
    vector = int(k.rng.choice([1, 1, 1, 2, 4]))
    stride = SIZE + int(k.rng.choice([0, 0, 4, 8, 24]))
    return Place(str(k.rng.choice(["RowMajor", "ColumnMajor"])), stride, vector)


def matrix(scalar: str, use: str) -> str:
    return f"!spirv.coopmatrix<{SIZE}x{SIZE}x{scalar}, Subgroup, Matrix{use}>"


def values_for(k: Kernel, scalar: str) -> Array:
    """Matrices for all tiles."""
    shape = (TILES, SIZE, SIZE)
    if scalar[0] == "f":
        return (k.rng.integers(-8, 9, shape) / 2).astype(DTYPES[scalar])
    info = np.iinfo(DTYPES[scalar])
    plain = k.rng.integers(info.min, info.max, shape, DTYPES[scalar], endpoint=True)
    edges = np.array([info.min, info.max, -1, 0], DTYPES[scalar])
    return np.where(k.rng.random(shape) < 0.1, k.rng.choice(edges, shape), plain)


def subgroup_start(k: Kernel, where: Place) -> str:
    """The index of the subgroup's tile, in elements of the buffer."""
    per_group = k.constant(LOCAL[0] // SUBGROUP)
    first = k.op(f"spirv.IMul %group, {per_group} : i32")
    tile = k.op(f"spirv.IAdd {first}, %subgroup : i32")
    return k.op(f"spirv.IMul {tile}, {k.constant(where.tile // where.vector)} : i32")


def load(k: Kernel, scalar: str, use: str, values: Array | None = None) -> str:
    """A matrix of random values from memory."""
    where, any_values = place(k), values is None
    values = values_for(k, scalar) if values is None else values
    data = np.zeros(TILES * where.tile, DTYPES[scalar])
    data[where.index()] = values
    element = scalar if where.vector == 1 else f"vector<{where.vector}x{scalar}>"
    buffer = k.buffer(element, data, where.vector)
    if k.rng.random() < 0.3:
        return _through_workgroup(k, buffer, scalar, use, where)
    pointer = k.pointer(buffer, subgroup_start(k, where))
    stride = _stride(k, where, any_values)
    return k.op(
        f"{OPS}Load {pointer}, {stride}, <{where.layout}> : !spirv.ptr<{element}, StorageBuffer>, "
        f"i32 -> {matrix(scalar, use)}"
    )


def _stride(k: Kernel, where: Place, zero: bool) -> str:
    """A constant; 0, so that all lines are the first; or a specialization or push constant."""
    number = where.stride // where.vector
    choice = k.rng.random()
    if choice < 0.1 and zero:
        return k.constant(0)
    if choice < 0.2:
        name, id = f"stride{len(k.globals)}", len(k.globals)
        k.globals.append(f"spirv.SpecConstant @{name} spec_id({id}) = {number + 1} : i32")
        k.spec_constants[id] = number
        return k.op(f"spirv.mlir.referenceof @{name} : i32")
    if choice < 0.3 and not k.push_constants:
        pointer = "!spirv.ptr<!spirv.struct<(i32 [0]), Block>, PushConstant>"
        k.globals.append(f"spirv.GlobalVariable @push : {pointer}")
        k.push_constants = struct.pack("<i", number)
        base = k.op(f"spirv.mlir.addressof @push : {pointer}")
        member = k.op(
            f"spirv.AccessChain {base}[%zero] : {pointer}, i32 -> !spirv.ptr<i32, PushConstant>"
        )
        return k.op(f'spirv.Load "PushConstant" {member} : i32')
    return k.constant(number)


def _through_workgroup(k: Kernel, buffer: int, scalar: str, use: str, where: Place) -> str:
    """Each invocation copies its share to Workgroup memory first."""
    element = k.buffers[buffer].element
    share = where.tile // where.vector // SUBGROUP
    array = f"!spirv.array<{share * LOCAL[0]} x {element}>"
    pointer, part = f"!spirv.ptr<{array}, Workgroup>", f"!spirv.ptr<{element}, Workgroup>"
    name = f"shared{len(k.globals)}"
    k.globals.append(f"spirv.GlobalVariable @{name} : {pointer}")
    base = k.op(f"spirv.mlir.addressof @{name} : {pointer}")
    for number in range(share):
        offset = k.constant(number * LOCAL[0])
        local = k.op(f"spirv.IAdd %local, {offset} : i32")
        group = k.op(f"spirv.IMul %group, {k.constant(share * LOCAL[0])} : i32")
        value = k.load(buffer, k.op(f"spirv.IAdd {group}, {local} : i32"))
        at = k.op(f"spirv.AccessChain {base}[{local}] : {pointer}, i32 -> {part}")
        k.do(f'spirv.Store "Workgroup" {at}, {value} {SHARED} : {element}')
    k.do(SCOPED)
    tile = k.op(f"spirv.IMul %subgroup, {k.constant(where.tile // where.vector)} : i32")
    first = k.op(f"spirv.AccessChain {base}[{tile}] : {pointer}, i32 -> {part}")
    stride = k.constant(where.stride // where.vector)
    return k.op(
        f"{OPS}Load {first}, {stride}, <{where.layout}>, <NonPrivatePointer> : {part}, i32 -> "
        f"{matrix(scalar, use)}"
    )


def store(
    k: Kernel, value: str, scalar: str, use: str, what: str, legal: Array | None = None
) -> None:
    """Write a matrix of each subgroup and compare it; `legal` is the error allowed."""
    where = place(k)
    element = scalar if where.vector == 1 else f"vector<{where.vector}x{scalar}>"
    buffer = k.buffer(element, np.zeros(TILES * where.tile, DTYPES[scalar]), where.vector)
    pointer = k.pointer(buffer, subgroup_start(k, where))
    stride = k.constant(where.stride // where.vector)
    k.do(
        f"{OPS}Store {pointer}, {value}, {stride}, <{where.layout}> : "
        f"!spirv.ptr<{element}, StorageBuffer>, {matrix(scalar, use)}, i32"
    )
    interval = EXACT
    if legal is not None:
        allowed = np.zeros(TILES * where.tile)
        allowed[where.index()] = legal
        interval = Legal(lambda r: allowed, "docs/numerics.md")
    k.result(buffer, what, interval)


INTEGER_OPERATIONS = (
    "IAdd",
    "ISub",
    "IMul",
    "SNegate",
    "scalar",
    "copy",
    "insert",
    "call",
    "splat",
    "null",
    "array",
)
FLOAT_OPERATIONS = ("FAdd", "FSub", "FMul", "FDiv", "FNegate", "scalar", "copy", "insert", "call",
                    "splat")  # fmt: skip
CONVERSIONS = {
    ("f16", "f32"): "FConvert", ("f32", "f16"): "FConvert", ("i32", "f32"): "ConvertSToF",
    ("f32", "i32"): "ConvertFToS", ("f16", "i32"): "ConvertFToS", ("i32", "f16"): "ConvertSToF",
    ("f16", "i8"): "ConvertFToS", ("i8", "f16"): "ConvertSToF",
}  # fmt: skip


def components(k: Kernel) -> None:
    """Loads, component-wise operations and stores."""
    for _ in range(3):
        use = str(k.rng.choice(["A", "B", "Acc", "Acc"]))
        scalar = str(k.rng.choice(COMPONENTS[use]))
        first = load(k, scalar, use)
        names = FLOAT_OPERATIONS if scalar[0] == "f" else INTEGER_OPERATIONS
        name = str(k.rng.choice(names))
        value = _component_wise(k, name, first, scalar, use)
        store(k, value, scalar, use, f"{name} : {matrix(scalar, use)}")
    use = str(k.rng.choice(["A", "Acc", "Acc"]))
    pairs = [p for p in CONVERSIONS if p[0] in COMPONENTS[use] and p[1] in COMPONENTS[use]]
    source, target = pairs[int(k.rng.integers(len(pairs)))]
    values = (k.rng.integers(-100, 100, (TILES, SIZE, SIZE))).astype(DTYPES[source])
    value = load(k, source, use, values)
    name = CONVERSIONS[source, target]
    types = f"{matrix(source, use)} to {matrix(target, use)}"
    store(k, k.op(f"spirv.{name} {value} : {types}"), target, use, f"{name} {types}")


def _component_wise(k: Kernel, name: str, value: str, scalar: str, use: str) -> str:
    type = matrix(scalar, use)
    match name:
        case "copy":
            return value
        case "SNegate" | "FNegate":
            return k.op(f"spirv.{name} {value} : {type}")
        case "scalar":
            number = k.constant("2.0" if scalar[0] == "f" else 3, scalar)
            return k.op(f"spirv.MatrixTimesScalar {value}, {number} : {type}, {scalar}")
        case "splat":
            number = "1.5" if scalar[0] == "f" else 7
            other = k.op(f"spirv.Constant dense<{number}> : {type}")
            add = "FAdd" if scalar[0] == "f" else "IAdd"
            return k.op(f"spirv.{add} {value}, {other} : {type}")
        case "null":
            other = k.op(f"spirv.ConstantNull : {type}")
            subtract = "FSub" if scalar[0] == "f" else "ISub"
            return k.op(f"spirv.{subtract} {other}, {value} : {type}")
        case "array":
            return _by_array(k, value, scalar, use)
        case "insert":
            return _by_component(k, value, scalar, use)
        case "call":
            function = f"twice{len(k.functions)}"
            add = "FAdd" if scalar[0] == "f" else "IAdd"
            k.functions.append(
                f"""spirv.func @{function}(%m: {type}) -> {type} "None" {{
                      %r = spirv.{add} %m, %m : {type}
                      spirv.ReturnValue %r : {type}
                    }}"""
            )
            return k.op(f"spirv.FunctionCall @{function}({value}) : ({type}) -> {type}")
        case "FDiv":
            shape = (TILES, SIZE, SIZE)
            powers = k.rng.choice([-2.0, -1.0, 0.5, 1.0, 2.0, 4.0], shape).astype(DTYPES[scalar])
            return k.op(f"spirv.FDiv {value}, {load(k, scalar, use, powers)} : {type}")
        case _:
            return k.op(f"spirv.{name} {value}, {load(k, scalar, use)} : {type}")


def _by_array(k: Kernel, value: str, scalar: str, use: str) -> str:
    """A matrix kept in an array of them in a Function variable, by pointer in a function."""
    type = matrix(scalar, use)
    array = f"!spirv.array<2 x {type}>"
    function = f"keep{len(k.functions)}"
    add = "FAdd" if scalar[0] == "f" else "IAdd"
    k.functions.append(
        f"""spirv.func @{function}(%m: {type}) -> {type} "None" {{
              %array = spirv.Variable : !spirv.ptr<{array}, Function>
              %zero = spirv.Constant 0 : i32
              %one = spirv.Constant 1 : i32
              %p = spirv.AccessChain %array[%zero] : !spirv.ptr<{array}, Function>, i32
                -> !spirv.ptr<{type}, Function>
              %q = spirv.AccessChain %array[%one] : !spirv.ptr<{array}, Function>, i32
                -> !spirv.ptr<{type}, Function>
              spirv.Store "Function" %p, %m : {type}
              %x = spirv.Load "Function" %p : {type}
              spirv.Store "Function" %q, %x : {type}
              %y = spirv.Load "Function" %q : {type}
              %r = spirv.{add} %x, %y : {type}
              spirv.ReturnValue %r : {type}
            }}"""
    )
    return k.op(f"spirv.FunctionCall @{function}({value}) : ({type}) -> {type}")


def _by_component(k: Kernel, value: str, scalar: str, use: str) -> str:
    """One added to every component that an invocation holds, by extract and insert."""
    type, floating = matrix(scalar, use), scalar[0] == "f"
    one = k.constant("1.0" if floating else 1, scalar)
    for number in range(SIZE * SIZE // SUBGROUP):
        part = k.op(f"spirv.CompositeExtract {value}[{number} : i32] : {type}")
        more = k.op(f"spirv.{'FAdd' if floating else 'IAdd'} {part}, {one} : {scalar}")
        value = k.op(
            f"spirv.CompositeInsert {more}, {value}[{number} : i32] : {scalar} into {type}"
        )
    return value


def multiply_add(k: Kernel) -> None:
    """Chains of one to three MulAdds of a listed combination."""
    component, result, listed = LISTED[int(k.rng.integers(len(LISTED)))]
    k.cooperative_matrix.append((SIZE, SIZE, SIZE, *listed))
    exact = component == "i8" or result == "f16" or k.rng.random() < 0.4
    flags = f", {SIGNED}" if listed[0] == "s8" else ""
    shape = (TILES, SIZE, SIZE)
    start = values_for(k, result) if exact else k.rng.uniform(-4, 4, shape).astype(DTYPES[result])
    total, magnitude = load(k, result, "Acc", start), np.abs(start.astype(np.float64))
    centre = start.astype(np.float64)
    rounds = int(k.rng.integers(1, 4))
    for _ in range(rounds):
        a, b = (_factor(k, component, exact) for _ in range(2))
        names = load(k, component, "A", a), load(k, component, "B", b)
        types = f"{matrix(component, 'A')}, {matrix(component, 'B')} -> {matrix(result, 'Acc')}"
        total = k.op(f"{OPS}MulAdd {names[0]}, {names[1]}, {total}{flags} : {types}")
        wide = a.astype(np.float64), b.astype(np.float64)
        centre = centre + wide[0] @ wide[1]
        magnitude = magnitude + np.abs(wide[0]) @ np.abs(wide[1])
    # Two executions may lie on either side of the centre.
    bound = contraction_bound(rounds * SIZE, result.replace("i", "s"))
    allowed = None if exact else 2 * bound.evaluate(centre, magnitude)
    what = f"{rounds} MulAdd {', '.join(listed)}{'' if exact else ', rounded'}"
    store(k, total, result, "Acc", what, allowed)
    length = k.op(f"{OPS}Length : {matrix(result, 'Acc')}")
    k.output(length, I32, "Length")


def _factor(k: Kernel, scalar: str, exact: bool) -> Array:
    if exact:
        if scalar == "f16":
            return k.rng.integers(-4, 5, (TILES, SIZE, SIZE)).astype(DTYPES[scalar])
        return values_for(k, scalar)
    return k.rng.uniform(-2, 2, (TILES, SIZE, SIZE)).astype(DTYPES[scalar])
