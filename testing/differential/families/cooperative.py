"""
Kernels with SPV_KHR_cooperative_matrix, for the properties that a device lists.

Matrices are loaded from storage buffers or Workgroup memory, row-major or column-major, with
padded strides, through pointers to scalars or vectors. Every subgroup has its own tiles.
Component-wise operations are exact: integers of the full range, floats that are small multiples of
1/2. Buffers of bfloat16 contain bit patterns.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from xdsl_spirv.compare.bounds import contraction_bound
from xdsl_spirv.targets import CooperativeMatrixProperty
from xdsl_spirv.testing.differential.families.memory import SCOPED, SHARED
from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.legal import EXACT, Legal
from xdsl_spirv.testing.differential.machine import component
from xdsl_spirv.testing.differential.types import DTYPES, I32, Array

OPS = "spirv.KHR.CooperativeMatrix"
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Kind:
    """A matrix type: component type, use, rows and columns."""

    scalar: str
    use: str
    rows: int
    columns: int

    def __str__(self) -> str:
        size = f"{self.rows}x{self.columns}x{self.scalar}"
        return f"!spirv.coopmatrix<{size}, Subgroup, Matrix{self.use}>"

    @property
    def is_float(self) -> bool:
        return self.scalar[0] != "i"

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Dtype of the components."""
        return BFLOAT16 if self.scalar == "bf16" else DTYPES[self.scalar]

    @property
    def stored(self) -> np.dtype[np.generic]:
        """Dtype of the buffers that contain the matrix."""
        return np.dtype(np.int16) if self.scalar == "bf16" else DTYPES[self.scalar]

    def of(self, scalar: str) -> Kind:
        return replace(self, scalar=scalar)


def kind_of(k: Kernel, use: str, scalar: str | None = None) -> Kind:
    """Returns one of the device's matrix types for a given use."""
    shapes = k.machine.shapes(use)
    scalar = str(k.rng.choice(tuple(shapes))) if scalar is None else scalar
    choices = shapes[scalar]
    number = int(k.rng.integers(len(choices))) if len(choices) > 1 else 0
    return Kind(scalar, use, *choices[number])


def tiles(k: Kernel) -> int:
    """Returns the number of subgroups in a launch. Each has its own matrix."""
    return k.invocations // k.machine.subgroup


@dataclass(frozen=True)
class Place:
    """
    Layout in a buffer of one matrix (tile) per subgroup. `stride` is the distance of lines in
    elements.
    """

    kind: Kind
    layout: str
    stride: int
    vector: int

    @property
    def tile(self) -> int:
        """Distance from one tile to the next, in elements."""
        by_rows = self.layout == "RowMajor"
        return self.stride * (self.kind.rows if by_rows else self.kind.columns)

    def index(self, count: int) -> Array:
        """Returns the element index of each component, as an array (tile, row, column)."""
        tile, row, column = np.ogrid[:count, : self.kind.rows, : self.kind.columns]
        line, within = (row, column) if self.layout == "RowMajor" else (column, row)
        return tile * self.tile + line * self.stride + within


def place(k: Kernel, kind: Kind) -> Place:
    vector = int(k.rng.choice([1, 1, 1, 2, 4]))
    padding = int(k.rng.choice(k.machine.padding))
    layout = str(k.rng.choice(["RowMajor", "ColumnMajor"]))
    length = kind.columns if layout == "RowMajor" else kind.rows
    return Place(kind, layout, length + padding, vector)


def values_for(k: Kernel, kind: Kind) -> Array:
    """Returns random matrices, one for each tile."""
    shape = (tiles(k), kind.rows, kind.columns)
    if kind.is_float:
        return (k.rng.integers(-8, 9, shape) / 2).astype(kind.dtype)
    info = np.iinfo(DTYPES[kind.scalar])
    plain = k.rng.integers(info.min, info.max, shape, info.dtype, endpoint=True)
    edges = np.array([info.min, info.max, -1, 0], info.dtype)
    return np.where(k.rng.random(shape) < 0.1, k.rng.choice(edges, shape), plain)


def subgroup_start(k: Kernel, where: Place) -> str:
    """
    Appends code that computes where the subgroup's tile begins, in elements. Returns the name of
    the result.
    """
    per_group = k.constant(k.machine.local[0] // k.machine.subgroup)
    first = k.op(f"spirv.IMul %group, {per_group} : i32")
    tile = k.op(f"spirv.IAdd {first}, %subgroup : i32")
    return k.op(f"spirv.IMul {tile}, {k.constant(where.tile // where.vector)} : i32")


def load(k: Kernel, kind: Kind, values: Array | None = None) -> str:
    """
    Stores a random matrix in a buffer, and appends its load. Returns the name of the loaded value.
    """
    where, any_values = place(k, kind), values is None
    values = values_for(k, kind) if values is None else values
    data = np.zeros(tiles(k) * where.tile, kind.dtype)
    data[where.index(tiles(k))] = values
    element = kind.scalar if where.vector == 1 else f"vector<{where.vector}x{kind.scalar}>"
    buffer = k.buffer(element, data.view(kind.stored), where.vector)
    # The copy needs at least one element for each invocation.
    if k.rng.random() < 0.3 and where.tile // where.vector % k.machine.subgroup == 0:
        return _through_workgroup(k, buffer, where)
    pointer = k.pointer(buffer, subgroup_start(k, where))
    stride = _stride(k, where, any_values)
    return k.op(
        f"{OPS}Load {pointer}, {stride}, <{where.layout}> : !spirv.ptr<{element}, StorageBuffer>, "
        f"i32 -> {kind}"
    )


def _stride(k: Kernel, where: Place, zero: bool) -> str:
    """
    Returns the name of a stride: a constant, a specialization or push constant, or 0 (all lines are
    the same memory).
    """
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


def _through_workgroup(k: Kernel, buffer: int, where: Place) -> str:
    """
    Appends a copy from a buffer to Workgroup memory by all invocations. Returns a matrix loaded
    from there.
    """
    element = k.buffers[buffer].element
    share = where.tile // where.vector // k.machine.subgroup
    array = f"!spirv.array<{share * k.machine.local[0]} x {element}>"
    pointer, part = f"!spirv.ptr<{array}, Workgroup>", f"!spirv.ptr<{element}, Workgroup>"
    name = f"shared{len(k.globals)}"
    k.globals.append(f"spirv.GlobalVariable @{name} : {pointer}")
    base = k.op(f"spirv.mlir.addressof @{name} : {pointer}")
    for number in range(share):
        offset = k.constant(number * k.machine.local[0])
        local = k.op(f"spirv.IAdd %local, {offset} : i32")
        group = k.op(f"spirv.IMul %group, {k.constant(share * k.machine.local[0])} : i32")
        value = k.load(buffer, k.op(f"spirv.IAdd {group}, {local} : i32"))
        at = k.op(f"spirv.AccessChain {base}[{local}] : {pointer}, i32 -> {part}")
        k.do(f'spirv.Store "Workgroup" {at}, {value} {SHARED} : {element}')
    k.do(SCOPED)
    tile = k.op(f"spirv.IMul %subgroup, {k.constant(where.tile // where.vector)} : i32")
    first = k.op(f"spirv.AccessChain {base}[{tile}] : {pointer}, i32 -> {part}")
    stride = k.constant(where.stride // where.vector)
    return k.op(
        f"{OPS}Load {first}, {stride}, <{where.layout}>, <NonPrivatePointer> : {part}, i32 -> "
        f"{where.kind}"
    )


def store(k: Kernel, value: str, kind: Kind, what: str, legal: Array | None = None) -> None:
    """Adds an output to the kernel: the matrix of each subgroup. `legal` is the allowed error."""
    where = place(k, kind)
    element = kind.scalar if where.vector == 1 else f"vector<{where.vector}x{kind.scalar}>"
    size = tiles(k) * where.tile
    buffer = k.buffer(element, np.zeros(size, kind.stored), where.vector)
    pointer = k.pointer(buffer, subgroup_start(k, where))
    stride = k.constant(where.stride // where.vector)
    k.do(
        f"{OPS}Store {pointer}, {value}, {stride}, <{where.layout}> : "
        f"!spirv.ptr<{element}, StorageBuffer>, {kind}, i32"
    )
    interval = EXACT
    if legal is not None:
        allowed = np.zeros(size)
        allowed[where.index(tiles(k))] = legal
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
BFLOAT16_OPERATIONS = ("copy", "insert", "splat", "composite", "null")
"""Operations on bfloat16 matrices. There is no arithmetic on these."""
ADDED = ("composite", "null")
"""
Further operations. They are drawn only on machines whose kernels may change (`Machine.settled` is
False).
"""
CONVERSIONS = (
    ("f16", "f32", "FConvert"), ("f32", "f16", "FConvert"), ("i32", "f32", "ConvertSToF"),
    ("f32", "i32", "ConvertFToS"), ("f16", "i32", "ConvertFToS"), ("i32", "f16", "ConvertSToF"),
    ("f16", "i8", "ConvertFToS"), ("i8", "f16", "ConvertSToF"),
)  # fmt: skip
ADDED_CONVERSIONS = (
    ("i32", "f32", "ConvertUToF"), ("f32", "i32", "ConvertFToU"), ("i32", "f16", "ConvertUToF"),
    ("f16", "i32", "ConvertFToU"), ("i8", "f16", "ConvertUToF"), ("f16", "i8", "ConvertFToU"),
    ("bf16", "f16", "FConvert"), ("f16", "bf16", "FConvert"), ("bf16", "f32", "FConvert"),
    ("f32", "bf16", "FConvert"), ("bf16", "i8", "ConvertFToS"), ("i8", "bf16", "ConvertSToF"),
    ("i8", "i32", "SConvert"), ("i8", "i32", "UConvert"), ("i32", "i8", "UConvert"),
)  # fmt: skip


def components(k: Kernel) -> None:
    """Fills the kernel with loads, component-wise operations and stores."""
    for _ in range(3):
        kind = kind_of(k, str(k.rng.choice(["A", "B", "Acc", "Acc"])))
        first = load(k, kind)
        names = FLOAT_OPERATIONS if kind.is_float else INTEGER_OPERATIONS
        if not k.machine.settled:
            names = (*names, *(name for name in ADDED if name not in names))
        if kind.scalar == "bf16":
            names = BFLOAT16_OPERATIONS
        name = str(k.rng.choice(names))
        store(k, _component_wise(k, name, first, kind), kind, f"{name} : {kind}")
    use = str(k.rng.choice(["A", "Acc", "Acc"]))
    choices = conversions(k, use)
    name, source, target = choices[int(k.rng.integers(len(choices)))]
    least = 0 if "U" in name else -100
    values = k.rng.integers(least, 100, (tiles(k), source.rows, source.columns))
    value = load(k, source, values.astype(source.dtype))
    types = f"{source} to {target}"
    store(k, k.op(f"spirv.{name} {value} : {types}"), target, f"{name} {types}")


def conversions(k: Kernel, use: str) -> list[tuple[str, Kind, Kind]]:
    """
    Returns conversions between types of equal shape in the device's list, as (instruction, source,
    target).
    """
    shapes = k.machine.shapes(use)
    rows = CONVERSIONS if k.machine.settled else (*CONVERSIONS, *ADDED_CONVERSIONS)
    return [
        (name, Kind(source, use, *shape), Kind(target, use, *shape))
        for source, target, name in rows
        for shape in shapes.get(source, ())
        if shape in shapes.get(target, ())
    ]


def _component_wise(k: Kernel, name: str, value: str, kind: Kind) -> str:
    scalar, letter = kind.scalar, "F" if kind.is_float else "I"
    match name:
        case "copy":
            return value
        case "SNegate" | "FNegate":
            return k.op(f"spirv.{name} {value} : {kind}")
        case "scalar":
            number = k.constant("2.0" if kind.is_float else 3, scalar)
            return k.op(f"spirv.MatrixTimesScalar {value}, {number} : {kind}, {scalar}")
        case "splat":
            number = "1.5" if kind.is_float else 7
            other = k.op(f"spirv.Constant dense<{number}> : {kind}")
            if scalar == "bf16":
                return other
            return k.op(f"spirv.{letter}Add {value}, {other} : {kind}")
        case "composite":
            number = k.constant("2.5" if kind.is_float else 11, scalar)
            other = k.op(f"spirv.CompositeConstruct {number} : ({scalar}) -> {kind}")
            if scalar == "bf16":
                return other
            return k.op(f"spirv.{letter}Add {other}, {value} : {kind}")
        case "null":
            other = k.op(f"spirv.ConstantNull : {kind}")
            if scalar == "bf16":
                return other
            return k.op(f"spirv.{letter}Sub {other}, {value} : {kind}")
        case "array":
            return _by_array(k, value, kind)
        case "insert":
            return _by_component(k, value, kind)
        case "call":
            function = f"twice{len(k.functions)}"
            k.functions.append(
                f"""spirv.func @{function}(%m: {kind}) -> {kind} "None" {{
                      %r = spirv.{letter}Add %m, %m : {kind}
                      spirv.ReturnValue %r : {kind}
                    }}"""
            )
            return k.op(f"spirv.FunctionCall @{function}({value}) : ({kind}) -> {kind}")
        case "FDiv":
            shape = (tiles(k), kind.rows, kind.columns)
            powers = k.rng.choice([-2.0, -1.0, 0.5, 1.0, 2.0, 4.0], shape).astype(kind.dtype)
            return k.op(f"spirv.FDiv {value}, {load(k, kind, powers)} : {kind}")
        case _:
            return k.op(f"spirv.{name} {value}, {load(k, kind)} : {kind}")


def _by_array(k: Kernel, value: str, kind: Kind) -> str:
    """
    Appends code that copies a matrix through an array in a Function variable. Returns the copy.
    """
    array = f"!spirv.array<2 x {kind}>"
    function = f"keep{len(k.functions)}"
    add = "FAdd" if kind.is_float else "IAdd"
    k.functions.append(
        f"""spirv.func @{function}(%m: {kind}) -> {kind} "None" {{
              %array = spirv.Variable : !spirv.ptr<{array}, Function>
              %zero = spirv.Constant 0 : i32
              %one = spirv.Constant 1 : i32
              %p = spirv.AccessChain %array[%zero] : !spirv.ptr<{array}, Function>, i32
                -> !spirv.ptr<{kind}, Function>
              %q = spirv.AccessChain %array[%one] : !spirv.ptr<{array}, Function>, i32
                -> !spirv.ptr<{kind}, Function>
              spirv.Store "Function" %p, %m : {kind}
              %x = spirv.Load "Function" %p : {kind}
              spirv.Store "Function" %q, %x : {kind}
              %y = spirv.Load "Function" %q : {kind}
              %r = spirv.{add} %x, %y : {kind}
              spirv.ReturnValue %r : {kind}
            }}"""
    )
    return k.op(f"spirv.FunctionCall @{function}({value}) : ({kind}) -> {kind}")


def _by_component(k: Kernel, value: str, kind: Kind) -> str:
    """Appends code that adds one to every component, by extract and insert. Returns the matrix."""
    scalar, add = kind.scalar, "FAdd" if kind.is_float else "IAdd"
    one = k.constant("1.0" if kind.is_float else 1, "f32" if scalar == "bf16" else scalar)
    for number in range(kind.rows * kind.columns // k.machine.subgroup):
        part = k.op(f"spirv.CompositeExtract {value}[{number} : i32] : {kind}")
        if scalar == "bf16":
            wide = k.op(f"spirv.FConvert {part} : bf16 to f32")
            more = k.op(f"spirv.FAdd {wide}, {one} : f32")
            more = k.op(f"spirv.FConvert {more} : f32 to bf16")
        else:
            more = k.op(f"spirv.{add} {part}, {one} : {scalar}")
        value = k.op(
            f"spirv.CompositeInsert {more}, {value}[{number} : i32] : {scalar} into {kind}"
        )
    return value


def multiply_add(k: Kernel) -> None:
    """
    Fills the kernel with chains of one to three MulAdds for one of the device's combinations of
    types.
    """
    listed = k.machine.matrices[int(k.rng.integers(len(k.machine.matrices)))]
    m, n, depth = listed.shape
    k.cooperative_matrix.append((m, n, depth, *listed.types))
    kinds = Kind(component(listed.a), "A", m, depth), Kind(component(listed.b), "B", depth, n)
    result = Kind(component(listed.result), "Acc", m, n)
    exact = not kinds[0].is_float or result.scalar == "f16" or k.rng.random() < 0.4
    shape = (tiles(k), m, n)
    start = values_for(k, result) if exact else k.rng.uniform(-4, 4, shape).astype(result.dtype)
    total, magnitude = load(k, result, start), np.abs(start.astype(np.float64))
    centre = start.astype(np.float64)
    rounds = int(k.rng.integers(1, 4))
    for _ in range(rounds):
        a, b = (_factor(k, kind, exact) for kind in kinds)
        names = load(k, kinds[0], a), load(k, kinds[1], b)
        types = f"{kinds[0]}, {kinds[1]} -> {result}"
        total = k.op(f"{OPS}MulAdd {names[0]}, {names[1]}, {total}{operands(listed)} : {types}")
        wide = a.astype(np.float64), b.astype(np.float64)
        centre = centre + wide[0] @ wide[1]
        magnitude = magnitude + np.abs(wide[0]) @ np.abs(wide[1])
    # The two executions may err in opposite directions.
    bound = contraction_bound(rounds * depth, result.scalar.replace("i", "s"))
    allowed = None if exact else 2 * bound.evaluate(centre, magnitude)
    what = f"{rounds} MulAdd {', '.join(listed.types)}{'' if exact else ', rounded'}"
    if not k.machine.settled:
        what = f"{rounds} MulAdd {listed}{'' if exact else ', rounded'}"
    store(k, total, result, what, allowed)
    length = k.op(f"{OPS}Length : {result}")
    k.output(length, I32, "Length")


def operands(listed: CooperativeMatrixProperty) -> str:
    """
    Returns the Cooperative Matrix Operands (signedness, saturation) that a MulAdd needs for a
    combination of types.
    """
    names = [
        f"{name}Signed"
        for name, type in zip(("A", "B", "C", "Result"), listed.types, strict=True)
        if type[0] == "s"
    ]
    if listed.saturating:
        names.append("AccSat")
    return f", <{'|'.join(names)}>" if names else ""


def _factor(k: Kernel, kind: Kind, exact: bool) -> Array:
    shape = (tiles(k), kind.rows, kind.columns)
    if not exact:
        return k.rng.uniform(-2, 2, shape).astype(kind.dtype)
    if kind.is_float:
        return k.rng.integers(-4, 5, shape).astype(kind.dtype)
    return values_for(k, kind)
