"""
Random contractions as `linalg` programs, for sweeps and tests.

A workload is a multiply-add over named loops. Three indexing maps give the loops of each
dimension; a window (`oh * 2 + kh`) is a sum. Each function of `FORMS` makes one common form of
contraction. A seed always gives the same workload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Generator: TypeAlias = np.random.Generator
else:
    Generator = Any

Term: TypeAlias = tuple[str, int]
"""A loop, and the factor by which an index multiplies it."""

Index: TypeAlias = str | tuple[Term, ...]
"""Index of a dimension: a loop, or a sum of loops multiplied by factors."""

TYPES: dict[str, tuple[str, str, str]] = {
    "f16 -> f32": ("f16", "f16", "f32"),
    "f16 -> f16": ("f16", "f16", "f16"),
    "bf16 -> f32": ("bf16", "bf16", "f32"),
    "s8 -> s32": ("s8", "s8", "s32"),
    "u8 -> u32": ("u8", "u8", "u32"),
    "f32 -> f32": ("f32", "f32", "f32"),
    "f16 x f32 -> f32": ("f16", "f32", "f32"),
    "s8 x u8 -> s32": ("s8", "u8", "s32"),
    "s16 -> s32": ("s16", "s16", "s32"),
    "s32 -> s32": ("s32", "s32", "s32"),
}
"""Maps the name of a combination to the element types of A, B and the result."""


def element_type(name: str) -> str:
    """Returns the type in MLIR: `i8` for `s8` and `u8`."""
    return f"i{name[1:]}" if name[0] in "su" else name


def extension(name: str, result: str) -> str | None:
    """Returns the operation that converts an input to the result's type, or None."""
    if name[1:] == result[1:]:
        return None
    return {"s": "arith.extsi", "u": "arith.extui"}.get(name[0], "arith.extf")


@dataclass(frozen=True)
class Tail:
    """
    Lines that follow a workload's result `%r`. They compute `result` from `%r` and `arguments`.
    """

    arguments: str
    lines: str
    result: str
    type: str


@dataclass(frozen=True)
class Workload:
    """
    result = A * B (+ C) over `loops`, which maps the name of each loop to its size.

    `a`, `b` and `out` index the dimensions of A, B and the result. `low` and `high` are the zero
    padding of A at the start and end of each dimension.
    """

    name: str
    loops: Mapping[str, int]
    a: tuple[Index, ...]
    b: tuple[Index, ...]
    out: tuple[Index, ...]
    types: str = "f16 -> f32"
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    accumulate: bool = False
    extra: tuple[int, ...] = field(default=())
    """For each dimension of A, the number of elements at its end that no window reaches."""

    def shape(self, operand: tuple[Index, ...]) -> tuple[int, ...]:
        """Returns the size of each dimension that `operand` indexes."""
        return tuple(
            self.loops[index]
            if isinstance(index, str)
            else 1 + sum((self.loops[loop] - 1) * factor for loop, factor in index)
            for index in operand
        )

    @property
    def a_shape(self) -> tuple[int, ...]:
        """Shape of A without padding."""
        whole = self.shape(self.a)
        extra, low, high = (
            amounts or (0,) * len(whole) for amounts in (self.extra, self.low, self.high)
        )
        return tuple(w + e - x - y for w, e, x, y in zip(whole, extra, low, high, strict=True))

    @property
    def padded_shape(self) -> tuple[int, ...]:
        extra = self.extra or (0,) * len(self.a)
        return tuple(w + e for w, e in zip(self.shape(self.a), extra, strict=True))

    def _map(self, operand: tuple[Index, ...]) -> str:
        def expression(index: Index) -> str:
            if isinstance(index, str):
                return index
            return " + ".join(f"{loop} * {factor}" for loop, factor in index)

        return f"affine_map<({', '.join(self.loops)}) -> ({', '.join(map(expression, operand))})>"

    def text(self, tail: Tail | None = None) -> str:
        """
        Returns the workload as the function `@main` of A, B and, if it accumulates, C. `tail`
        follows the result.
        """
        names = TYPES[self.types]
        element, other, result = map(element_type, names)
        a, padded = (tensor(shape, element) for shape in (self.a_shape, self.padded_shape))
        b = tensor(self.shape(self.b), other)
        out = tensor(self.shape(self.out), result)
        reduced = {loop for loop in self.loops if loop not in self.out}
        iterators = ", ".join(
            f'"{"reduction" if x in reduced else "parallel"}"' for x in self.loops
        )
        maps = ", ".join(map(self._map, (self.a, self.b, self.out)))
        kind = "f" if result.startswith("f") else "i"
        factors: list[str] = []
        extend: list[str] = []
        for value, to, name, type in (
            ("%x", "%u", names[0], element),
            ("%y", "%v", names[1], other),
        ):
            operation = extension(name, names[2])
            factors.append(value if operation is None else to)
            if operation is not None:
                extend.append(f"{to} = {operation} {value} : {type} to {result}")
        zero = "0.0" if kind == "f" else "0"
        start = f"""
  %zero = arith.constant {zero} : {result}
  %empty = tensor.empty() : {out}
  %C = linalg.fill ins(%zero : {result}) outs(%empty : {out}) -> {out}"""
        lines = "\n    ".join(
            [
                *extend,
                f"%p = arith.mul{kind} {', '.join(factors)} : {result}",
                f"%s = arith.add{kind} %c, %p : {result}",
                f"linalg.yield %s : {result}",
            ]
        )
        arguments = f"%A: {a}, %B: {b}{f', %C: {out}' if self.accumulate else ''}"
        tail = tail or Tail("", "", "%r", out)
        return f"""func.func @main({arguments}{tail.arguments}) -> {tail.type} {{\
{"" if self.accumulate else start}{self._pad(a, padded, element)}
  %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
      ins({"%P" if self.low else "%A"}, %B : {padded}, {b}) outs(%C : {out}) {{
  ^bb0(%x: {element}, %y: {other}, %c: {result}):
    {lines}
  }} -> {out}
{tail.lines}  return {tail.result} : {tail.type}
}}
"""

    def _pad(self, a: str, padded: str, element: str) -> str:
        if not self.low:
            return ""
        zero = "0.0" if "f" in element else "0"
        low, high = (", ".join(map(str, amounts)) for amounts in (self.low, self.high))
        indices = ", ".join(f"%i{n}: index" for n in range(len(self.low)))
        return f"""
  %border = arith.constant {zero} : {element}
  %P = tensor.pad %A low[{low}] high[{high}] {{
  ^bb0({indices}):
    tensor.yield %border : {element}
  }} : {a} to {padded}"""

    def inputs(self, generator: Generator) -> dict[str, Any]:
        """
        Returns random operands by name. For f16 results they are small integers, so that sums are
        exact.
        """
        import numpy as np

        from xdsl_spirv.runtime.elements import dtype_of

        element, other, result = map(element_type, TYPES[self.types])
        shapes = {"A": (self.a_shape, element), "B": (self.shape(self.b), other)}
        if self.accumulate:
            shapes["C"] = (self.shape(self.out), result)

        def values(shape: tuple[int, ...], type: str) -> Any:
            dtype = dtype_of(type)
            if type == "i8":
                return generator.integers(-128, 128, shape).astype(dtype)
            if dtype.kind == "i" or result == "f16":
                return generator.integers(-2, 3, shape).astype(dtype)
            return np.asarray(generator.uniform(-1, 1, shape)).astype(dtype)

        return {name: values(*shape_and_type) for name, shape_and_type in shapes.items()}

    def __str__(self) -> str:
        sizes = " ".join(f"{loop}={size}" for loop, size in self.loops.items())
        padding = f" pad {list(self.low)} {list(self.high)}" if self.low else ""
        return f"{self.name} {self.types} {sizes}{padding}{' + C' if self.accumulate else ''}"


def tensor(shape: tuple[int, ...], element: str) -> str:
    """Formats a tensor type in MLIR."""
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def _size(generator: Generator, largest: int) -> int:
    """Returns a random size, mostly odd, sometimes a multiple of tile sizes."""
    if generator.random() < 0.25:
        return int(generator.choice([s for s in (1, 8, 16, 32, 64, 128) if s <= largest]))
    return int(generator.integers(1, largest + 1))


def matmul(generator: Generator, largest: int) -> Workload:
    """Returns a product of two matrices. Each may be transposed."""
    loops = {x: _size(generator, largest) for x in "mnk"}
    a, b = (("m", "k"), ("k", "n"))
    if generator.random() < 0.5:
        a = a[::-1]
    if generator.random() < 0.5:
        b = b[::-1]
    return Workload("matmul", loops, a, b, ("m", "n"))


def batch_matmul(generator: Generator, largest: int) -> Workload:
    """Returns a batched product of matrices."""
    loops = {"b": _size(generator, 8)} | {x: _size(generator, largest // 2) for x in "mnk"}
    a, b = (("b", "m", "k"), ("b", "k", "n"))
    return Workload("batch_matmul", loops, a, b, ("b", "m", "n"))


def with_vectors(generator: Generator, largest: int) -> Workload:
    """Returns a product of matrix and vector, vector and matrix, or two vectors."""
    loops = {x: _size(generator, largest) for x in "mk"}
    match int(generator.integers(3)):
        case 0:
            return Workload("matvec", loops, ("m", "k"), ("k",), ("m",))
        case 1:
            return Workload("vecmat", loops, ("k",), ("k", "m"), ("m",))
        case _:
            return Workload("dot", {"k": loops["k"]}, ("k",), ("k",), ())


def tensors(generator: Generator, largest: int) -> Workload:
    """Returns a contraction of tensors with several dimensions of each kind, in any order."""
    names = {"b": "batch", "m": "m", "p": "m", "n": "n", "q": "n", "k": "k", "l": "k"}
    chosen = [x for x in names if generator.random() < 0.6]
    loops = {x: int(generator.integers(1, max(2, largest // 8))) for x in chosen}

    def of(*kinds: str) -> tuple[Index, ...]:
        mine: list[str] = [x for x in chosen if names[x] in kinds]
        return tuple(str(x) for x in generator.permutation(mine)) if mine else ()

    a, b, out = of("batch", "m", "k"), of("batch", "n", "k"), of("batch", "m", "n")
    return Workload("tensors", loops, a, b, out)


def convolution(generator: Generator, largest: int) -> Workload:
    """Returns a 1D to 3D convolution, channels first or last, plain, grouped or depthwise."""
    rank = int(generator.choice([1, 2, 2, 2, 3]))
    space = "xyz"[:rank]
    reach = {1: largest, 2: max(2, largest // 6), 3: max(2, largest // 20)}[rank]
    loops = {"n": int(generator.integers(1, 3))}
    loops |= {f"o{x}": int(generator.integers(1, reach + 1)) for x in space}
    loops |= {f"k{x}": int(generator.integers(1, 4)) for x in space}
    style = str(generator.choice(["plain", "plain", "grouped", "depthwise"]))
    loops["c"] = _size(generator, 40)
    group: tuple[Index, ...] = ()
    if style != "depthwise":
        loops["f"] = _size(generator, 40)
    if style == "grouped":
        loops |= {"g": int(generator.integers(1, 4)), "c": _size(generator, 12)}
        group = ("g",)
    strides, dilations = ({x: int(generator.integers(1, 3)) for x in space} for _ in range(2))
    windows: tuple[Index, ...] = tuple(
        ((f"o{x}", strides[x]), (f"k{x}", dilations[x])) for x in space
    )
    outer: tuple[Index, ...] = tuple(f"o{x}" for x in space)
    kernel: tuple[Index, ...] = tuple(f"k{x}" for x in space)
    last = bool(generator.random() < 0.5)
    if style == "depthwise":
        a, out = ((*windows, "c"), (*outer, "c")) if last else (("c", *windows), ("c", *outer))
        b = (*kernel, "c") if last else ("c", *kernel)
    elif last:
        a, out = (*windows, *group, "c"), (*outer, *group, "f")
        b = (*group, "f", *kernel, "c") if generator.random() < 0.5 else (*group, *kernel, "c", "f")
    else:
        a, out, b = (*group, "c", *windows), (*group, "f", *outer), (*group, "f", "c", *kernel)
    workload = Workload(f"convolution {style}", loops, ("n", *a), b, ("n", *out))
    return _pad_workload(generator, workload)


def _pad_workload(generator: Generator, plain: Workload) -> Workload:
    """Pads A with zeros along dimensions with windows, and with elements that no window reaches."""
    low, high, extra = ([0] * len(plain.a) for _ in range(3))
    for axis, (index, size) in enumerate(zip(plain.a, plain.shape(plain.a), strict=True)):
        if isinstance(index, str):
            continue
        low[axis], high[axis] = (int(generator.integers(0, 3)) for _ in range(2))
        while low[axis] + high[axis] >= size:
            low[axis], high[axis] = max(low[axis] - 1, 0), max(high[axis] - 1, 0)
        extra[axis] = int(generator.integers(0, 2))
    if generator.random() < 0.4:
        low, high = [], []
    return Workload(
        plain.name,
        plain.loops,
        plain.a,
        plain.b,
        plain.out,
        plain.types,
        tuple(low),
        tuple(high),
        extra=tuple(extra),
    )


FORMS: tuple[Callable[[Generator, int], Workload], ...] = (
    matmul,
    batch_matmul,
    with_vectors,
    tensors,
    convolution,
    convolution,
)


def workload(seed: int, types: tuple[str, ...] = tuple(TYPES), largest: int = 100) -> Workload:
    """Returns the workload of a seed. `largest` limits the sizes of its loops."""
    from dataclasses import replace

    import numpy as np

    generator = np.random.default_rng(seed)
    form = FORMS[int(generator.integers(len(FORMS)))]
    drawn = form(generator, largest)
    return replace(
        drawn,
        types=str(generator.choice(list(types))),
        accumulate=bool(generator.random() < 0.3),
    )
