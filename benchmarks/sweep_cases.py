"""
Cases of the correctness sweep: contractions in every form, with surrounding operations.

`case(seed)` is the sweep's default generator. A replacement (`sweep.py --workloads
module:function`) takes a seed and returns any object with these four members:

    form, types     names under which results are counted
    text            MLIR with a host function @main
    inputs(g)       arrays by the names of @main's arguments, from a numpy generator
    verdict(program, inputs, results)   "" if the results are legal, otherwise the error

For several inputs, the object also has `draws(g)`, which yields them. The results of a `Case` are
compared by `xdsl_spirv.compare.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from sweep_dynamic import Dynamic, dynamic
from sweep_steps import Interval, Step, random_step, rounding_inputs, widened

from xdsl_spirv.compare.bounds import contraction_bound
from xdsl_spirv.compare.check import check
from xdsl_spirv.interpreter import reference
from xdsl_spirv.runtime.elements import dtype_of
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.workloads import TYPES, Tail, Workload, element_type, tensor, workload
from xdsl_spirv.upstream.linalg_extensions import CONTRACTIONS, MAPPED, QUANTIZED

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Generator: TypeAlias = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A program and its inputs. `draw` returns the inputs by name."""

    form: str
    types: str
    text: str
    draw: Callable[[Generator], dict[str, Array]]

    def inputs(self, generator: Generator) -> dict[str, Array]:
        return self.draw(generator)

    def verdict(
        self, program: Program, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> str:
        """Returns "" if the results are within the bound of docs/numerics.md, else the error."""
        wrong = [str(outcome) for outcome in check(program, inputs, results) if not outcome.passed]
        return "; ".join(wrong)


EIGHTH = 8
"""One of this many seeds gives a contraction with dynamic sizes."""


def case(seed: int, largest: int = 64) -> Case | Dynamic:
    """Returns the case of a seed."""
    generator = np.random.default_rng([seed, 1])
    if seed % EIGHTH == EIGHTH - 1:
        return dynamic(seed, generator, largest)
    kinds = (plain, plain, named, quantized, with_epilogue, with_epilogue, with_prologue)
    return kinds[int(generator.integers(len(kinds)))](seed, generator, largest)


def plain(seed: int, generator: Generator, largest: int) -> Case:
    """Returns a random contraction as a `linalg.generic`, without surrounding operations."""
    contraction = workload(seed, largest=largest)
    return Case(contraction.name, contraction.types, contraction.text(), contraction.inputs)


def values(generator: Generator, shape: Sequence[int], type: str, narrow: bool = False) -> Array:
    """Returns random elements. With `narrow` they are small integers with exact sums."""
    dtype = dtype_of(type)
    if type == "i8":
        return generator.integers(-128, 128, shape).astype(dtype)
    if dtype.kind == "i" or narrow:
        return generator.integers(-3, 4, shape).astype(dtype)
    return np.asarray(generator.uniform(-1, 1, shape)).astype(dtype)


NAMED_TYPES = {
    "f16 -> f32": ("f16", "f32"),
    "f32 -> f32": ("f32", "f32"),
    "f16 -> f16": ("f16", "f16"),
    "bf16 -> f32": ("bf16", "f32"),
    "s8 -> s32": ("i8", "i32"),
    "s32 -> s32": ("i32", "i32"),
}


def named(seed: int, generator: Generator, largest: int) -> Case:
    """
    Returns a random named operation of `linalg`, with random strides and dilations if it has any.
    No size exceeds `largest`.
    """
    lines = {**CONTRACTIONS, **{n: line for n, line in MAPPED.items() if line is not None}}
    name = str(generator.choice(sorted(lines)))
    types = str(generator.choice(sorted(NAMED_TYPES)))
    element, result = NAMED_TYPES[types]
    loops, *operands = lines[name]
    shapes, steps = _shapes(name, loops.split(), operands, generator, largest)
    a, b, c = (
        tensor(shape, kind) for shape, kind in zip(shapes, (element, element, result), strict=True)
    )
    text = f"""func.func @main(%A: {a}, %B: {b}, %C: {c}) -> {c} {{
  %r = linalg.{name}{steps} ins(%A, %B : {a}, {b}) outs(%C : {c}) -> {c}
  return %r : {c}
}}
"""
    kinds = (element, element, result)

    def draw(generator: Generator) -> dict[str, Array]:
        narrow = result == "f16"
        return {
            x: values(generator, shape, kind, narrow)
            for x, shape, kind in zip("ABC", shapes, kinds, strict=True)
        }

    return Case(f"linalg.{name}", types, text, draw)


def _shapes(
    name: str, loops: Sequence[str], operands: Sequence[str], generator: Generator, largest: int
) -> tuple[list[tuple[int, ...]], str]:
    windows = [index for index in operands[0].split() if "+" in index]
    parallel = operands[2].split()
    sizes: dict[str, int] = {}
    left = largest * largest * 8
    for loop in generator.permutation(list(loops)):
        reach = 3 if loop.startswith("k") and len(loop) == 2 and windows else min(largest, left)
        sizes[str(loop)] = int(generator.integers(1, max(2, reach + 1)))
        left = max(1, left // sizes[str(loop)])
    strides, dilations = ([int(x) for x in generator.integers(1, 3, len(windows))] for _ in "sd")
    has_unit_strides = name in ("conv_1d", "conv_2d", "conv_3d")
    if has_unit_strides:
        strides = dilations = [1] * len(windows)

    def size(index: str) -> int:
        if "+" not in index:
            return sizes[index]
        (outer, inner), at = index.split("+"), windows.index(index)
        return (sizes[outer] - 1) * strides[at] + (sizes[inner] - 1) * dilations[at] + 1

    shapes = [tuple(size(x) for x in operand.split()) for operand in (*operands[:2],)]
    shapes.append(tuple(sizes[x] for x in parallel))
    if not windows or has_unit_strides:
        return shapes, ""
    kind = f"tensor<{len(windows)}xi64>"
    return shapes, (
        f" {{dilations = dense<{dilations}> : {kind}, strides = dense<{strides}> : {kind}}}"
    )


def quantized(seed: int, generator: Generator, largest: int) -> Case:
    """
    Returns a random quantized operation of `linalg`, or a sum of bytes shifted by zero points.
    """
    if generator.random() < 0.4:
        return _named_quantized(generator, largest)
    types = str(generator.choice(["s8 -> s32", "u8 -> u32", "s8 x u8 -> s32"]))
    contraction = replace(workload(seed, (types,), largest), accumulate=False)
    zero = [int(generator.integers(-128, 128)) for _ in "ab"]
    if generator.random() < 0.5:
        zero[1] = 0
    text = contraction.text()
    shifted = text.replace("    %p = arith.muli", _SHIFT.format(*zero) + "    %p = arith.muli")
    shifted = shifted.replace("arith.muli %u, %v", "arith.muli %uz, %vz")
    assert "%uz, %vz" in shifted
    return Case(f"quantized {contraction.name}", types, shifted, contraction.inputs)


_SHIFT = """    %za = arith.constant {} : i32
    %zb = arith.constant {} : i32
    %uz = arith.subi %u, %za : i32
    %vz = arith.subi %v, %zb : i32
"""


def _named_quantized(generator: Generator, largest: int) -> Case:
    name = str(generator.choice(sorted(QUANTIZED)))
    loops, *operands = QUANTIZED[name]
    shapes, steps = _shapes(name, loops.split(), operands, generator, largest)
    a, b, c = (tensor(shape, kind) for shape, kind in zip(shapes, ("i8", "i8", "i32"), strict=True))
    za, zb = (int(x) for x in generator.integers(-128, 128, 2))
    text = f"""func.func @main(%A: {a}, %B: {b}, %C: {c}) -> {c} {{
  %za = arith.constant {za} : i32
  %zb = arith.constant {zb} : i32
  %r = linalg.{name}{steps} ins(%A, %B, %za, %zb : {a}, {b}, i32, i32) outs(%C : {c}) -> {c}
  return %r : {c}
}}
"""

    def draw(generator: Generator) -> dict[str, Array]:
        kinds = ("i8", "i8", "i32")
        return {
            x: values(generator, shape, kind)
            for x, shape, kind in zip("ABC", shapes, kinds, strict=True)
        }

    return Case(f"linalg.{name}", "s8 -> s32", text, draw)


def with_epilogue(seed: int, generator: Generator, largest: int) -> Case:
    """Returns a random contraction followed by a chain of elementwise operations of networks."""
    types = str(generator.choice(list(TYPES)))
    contraction = workload(seed, (types,), largest)
    steps: list[Step] = []
    type = element_type(TYPES[types][2])
    rank = len(contraction.out)
    for _ in range(int(generator.integers(1, 4))):
        steps.append(random_step(type, rank, generator))
        type = steps[-1].type
        if type == "i8":
            break
    return Epilogued(f"epilogue {contraction.name}", types, contraction, tuple(steps))  # pyright: ignore


@dataclass(frozen=True)
class Prologue:
    """
    Elementwise operations that compute a contraction's operand (`A` or `B`) from another type.

    `body` computes `%o` from `%x`. `values` computes the same on an array, exactly.
    """

    name: str
    operand: str
    source: str
    body: str
    values: Callable[[Array], Array]


def with_prologue(seed: int, generator: Generator, largest: int) -> Case:
    """
    Returns a random contraction of cast, dequantized or shifted operands, sometimes with a chain.
    """
    types = str(generator.choice(list(TYPES)))
    contraction = workload(seed, (types,), largest)
    steps: list[Step] = []
    type, rank = element_type(TYPES[types][2]), len(contraction.out)
    for _ in range(int(generator.integers(3))):
        steps.append(random_step(type, rank, generator))
        type = steps[-1].type
        if type == "i8":
            break
    operand = int(generator.integers(2))
    before = _prologue("AB"[operand], element_type(TYPES[types][operand]), generator)
    form = f"prologue {before.name} {contraction.name}"
    return Epilogued(form, types, contraction, tuple(steps), before)  # pyright: ignore


def _prologue(operand: str, type: str, generator: Generator) -> Prologue:
    dtype = dtype_of(type)
    if type[0] == "i":
        number = int(generator.integers(-4, 5))
        body = f"%s = arith.constant {number} : {type}\n    %o = arith.addi %x, %s : {type}"
        shift = lambda x: (x.astype(np.int64) + number).astype(dtype)  # noqa: E731
        return Prologue("shift", operand, type, body, shift)
    scale = 2.0 ** int(generator.integers(-8, -4))
    match int(generator.integers(3)):
        case 0:
            source = {"f32": "f16", "f16": "f32", "bf16": "f32"}[type]
            op = "extf" if source == "f16" else "truncf"
            body = f"%o = arith.{op} %x : {source} to {type}"
            return Prologue("cast", operand, source, body, lambda x: x.astype(dtype))
        case 1 if type != "bf16":
            body = f"""%f = arith.sitofp %x : i8 to {type}
    %s = arith.constant {scale} : {type}
    %o = arith.mulf %f, %s : {type}"""
            dequantized = lambda x: (x.astype(np.float64) * scale).astype(dtype)  # noqa: E731
            return Prologue("dequantize", operand, "i8", body, dequantized)
        case _:
            body = f"%s = arith.constant {scale} : {type}\n    %o = arith.mulf %x, %s : {type}"
            scaled = lambda x: (x.astype(np.float64) * scale).astype(dtype)  # noqa: E731
            return Prologue("scale", operand, type, body, scaled)


@dataclass(frozen=True)
class Epilogued:
    """A contraction and monotone steps after it, so that intervals propagate through all steps."""

    form: str
    types: str
    contraction: Workload
    steps: tuple[Step, ...]
    before: Prologue | None = None

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.contraction.shape(self.contraction.out)

    def _operand(self, number: int) -> tuple[str, tuple[int, ...]] | None:
        """Returns name and shape of a step's second operand, or None."""
        dims = self.steps[number].dims
        return None if dims is None else (f"Y{number}", tuple(self._shape[d] for d in dims))

    @property
    def text(self) -> str:
        rank, shape = len(self._shape), self._shape
        loops = [f"d{n}" for n in range(rank)]
        identity = f"affine_map<({', '.join(loops)}) -> ({', '.join(loops)})>"
        kinds = ", ".join(['"parallel"'] * rank)
        arguments, lines = "", ""
        value, type = "%r", element_type(TYPES[self.types][2])
        for number, step in enumerate(self.steps):
            operand = self._operand(number)
            ins, types, maps, block = value, tensor(shape, type), [identity], f"%x: {type}"
            if operand is not None:
                name, own = operand
                arguments += f", %{name}: {tensor(own, type)}"
                ins, types = f"{ins}, %{name}", f"{types}, {tensor(own, type)}"
                walked = ", ".join(loops[d] for d in step.dims or ())
                maps.append(f"affine_map<({', '.join(loops)}) -> ({walked})>")
                block += f", %y: {type}"
            to = tensor(shape, step.type)
            lines += f"""  %e{number} = tensor.empty() : {to}
  %r{number} = linalg.generic {{indexing_maps = [{", ".join([*maps, identity])}],
      iterator_types = [{kinds}]}} ins({ins} : {types}) outs(%e{number} : {to}) {{
  ^bb0({block}, %out: {step.type}):
    {step.body}
    linalg.yield %o : {step.type}
  }} -> {to}
"""
            value, type = f"%r{number}", step.type
        text = self.contraction.text(Tail(arguments, lines, value, tensor(shape, type)))
        return text if self.before is None else self._with_prologue(text, self.before)

    def _with_prologue(self, text: str, before: Prologue) -> str:
        """Returns a text that computes the operand from an argument `A_source` or `B_source`."""
        name = before.operand
        shape = (
            self.contraction.a_shape if name == "A" else self.contraction.shape(self.contraction.b)
        )
        element = element_type(TYPES[self.types]["AB".index(name)])
        to, source = tensor(shape, element), tensor(shape, before.source)
        head, rest = text.split("\n", 1)
        assert f"%{name}: {to}" in head
        loops = ", ".join(f"d{n}" for n in range(len(shape)))
        identity = f"affine_map<({loops}) -> ({loops})>"
        kinds = ", ".join(['"parallel"'] * len(shape))
        return f"""{head.replace(f"%{name}: {to}", f"%{name}_source: {source}")}
  %before = tensor.empty() : {to}
  %{name} = linalg.generic {{indexing_maps = [{identity}, {identity}],
      iterator_types = [{kinds}]}} ins(%{name}_source : {source}) outs(%before : {to}) {{
  ^bb0(%x: {before.source}, %out: {element}):
    {before.body}
    linalg.yield %o : {element}
  }} -> {to}
{rest}"""

    def inputs(self, generator: Generator) -> dict[str, Array]:
        arrays = self.contraction.inputs(generator)
        if (before := self.before) is not None:
            drawn = arrays.pop(before.operand)
            if before.name == "dequantize":
                drawn = generator.integers(-128, 128, drawn.shape)
            arrays[f"{before.operand}_source"] = drawn.astype(dtype_of(before.source))
        type = element_type(TYPES[self.types][2])
        for number, step in enumerate(self.steps):
            operand = self._operand(number)
            if operand is not None:
                name, shape = operand
                arrays[name] = values(generator, shape, type)
            type = step.type
        return arrays

    def verdict(
        self, program: Program, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> str:
        """Returns "" if results lie in the error interval after all steps, else the first fault."""
        if (before := self.before) is not None:
            operand_values = before.values(inputs[f"{before.operand}_source"])
            inputs = {**inputs, before.operand: operand_values}
        low, high = self._interval(inputs)
        type = element_type(TYPES[self.types][2])
        for number, step in enumerate(self.steps):
            operand = self._operand(number)
            y = None if operand is None else self._broadcast(inputs[operand[0]], step)
            ends = rounding_inputs(low, high, step, type)
            low, high = (step.bounds(end, y) for end in ends)
            low, high = widened(low, high, step)
            type = step.type
        (result,) = (x.astype(np.float64) for x in results.values())
        with np.errstate(invalid="ignore"):
            inside = (result >= low) & (result <= high) | np.isnan(low) | np.isnan(high)
        if inside.all():
            return ""
        at = tuple(int(x) for x in np.argwhere(~inside)[0])
        chain = " ".join(step.name for step in self.steps)
        return (
            f"{chain}: {int((~inside).sum())} of {inside.size} elements beyond their interval, at "
            f"{list(at)} {result[at]} instead of {low[at]} to {high[at]}"
        )

    def _broadcast(self, operand: Array, step: Step) -> Array:
        dims = step.dims or ()
        rank = len(self._shape)
        wide = operand.astype(np.float64).reshape(
            [self._shape[d] if d in dims else 1 for d in range(rank)]
        )
        return np.broadcast_to(wide, self._shape)

    def _interval(self, inputs: Mapping[str, Array]) -> Interval:
        module = parse_text(self.contraction.text())
        names = [name for name in ("A", "B", "C") if name in inputs]
        arguments = [inputs[name] for name in names]
        (exact,) = reference(module, arguments)
        (size,) = reference(module, [np.abs(a) for a in arguments])
        reduced = [
            n for loop, n in self.contraction.loops.items() if loop not in self.contraction.out
        ]
        bound = contraction_bound(int(np.prod(reduced)), TYPES[self.types][2])
        wide = exact.astype(np.float64)
        if exact.dtype.kind == "i":
            return wide, wide
        reach = bound.evaluate(wide, size.astype(np.float64))
        return wide - reach, wide + reach
