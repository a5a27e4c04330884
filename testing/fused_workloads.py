"""
Random contractions with fused operations: a prologue, and a chain on the result.

The chains have the operations of real models: bias, residual, scale by channel, activations,
clamps, conversions and requantization, in any order that the types allow. Sometimes an
intermediate value is a second result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl_spirv.testing.workloads import Workload, tensor, workload

if TYPE_CHECKING:
    import numpy as np

    Generator: TypeAlias = np.random.Generator
else:
    Generator = Any

Lines = list[str]

RELU = ["%none = arith.constant 0.0 : T", "%v = arith.maximumf %x, %none : T"]
CLAMP = [
    "%low = arith.constant -1.5 : T",
    "%high = arith.constant 6.0 : T",
    "%above = arith.cmpf olt, %x, %low : T",
    "%lower = arith.select %above, %low, %x : T",
    "%beyond = arith.cmpf ogt, %lower, %high : T",
    "%v = arith.select %beyond, %high, %lower : T",
]
SIGMOID = [
    "%one = arith.constant 1.0 : T",
    "%minus = arith.negf %x : T",
    "%e = math.exp %minus : T",
    "%d = arith.addf %e, %one : T",
    "%v = arith.divf %one, %d : T",
]
TANH = ["%v = math.tanh %x : T"]
GELU = [
    "%half = arith.constant 0.5 : T",
    "%one = arith.constant 1.0 : T",
    "%c = arith.constant 0.70703125 : T",
    "%s = arith.mulf %x, %c : T",
    "%e = math.erf %s : T",
    "%p = arith.addf %e, %one : T",
    "%h = arith.mulf %x, %half : T",
    "%v = arith.mulf %h, %p : T",
]
GELU_TANH = [
    "%half = arith.constant 0.5 : T",
    "%one = arith.constant 1.0 : T",
    "%a = arith.constant 0.044708251953125 : T",
    "%c = arith.constant 0.79785156250 : T",
    "%x2 = arith.mulf %x, %x : T",
    "%x3 = arith.mulf %x2, %x : T",
    "%s = arith.mulf %x3, %a : T",
    "%t = arith.addf %x, %s : T",
    "%u = arith.mulf %t, %c : T",
    "%e = math.tanh %u : T",
    "%p = arith.addf %e, %one : T",
    "%h = arith.mulf %x, %half : T",
    "%v = arith.mulf %h, %p : T",
]
SQUARE = ["%v = arith.mulI %x, %x : T"]

ACTIVATIONS: dict[str, Lines] = {
    "relu": RELU,
    "clamp": CLAMP,
    "sigmoid": SIGMOID,
    "tanh": TANH,
    "gelu": GELU,
    "gelu_tanh": GELU_TANH,
    "square": SQUARE,
}
"""Bodies of activations on a value `%x` of a float type T."""

REQUANTIZE = [
    "%f = arith.sitofp %x : i32 to f32",
    "%scaled = arith.mulf %f, %y : f32",
    "%even = math.roundeven %scaled : f32",
    "%point = arith.constant 3.0 : f32",
    "%moved = arith.addf %even, %point : f32",
    "%low = arith.constant -128.0 : f32",
    "%high = arith.constant 127.0 : f32",
    "%above = arith.maximumf %moved, %low : f32",
    "%below = arith.minimumf %above, %high : f32",
    "%v = arith.fptosi %below : f32 to i8",
]
"""Body that requantizes sums to 8 bits: scale, round to nearest even, zero point, clamp."""


@dataclass
class FusedWorkload:
    """A contraction with a chain of elementwise operations on its result."""

    base: Workload
    shape: tuple[int, ...]
    type: str
    """Element type of the chain's last value."""
    operands: dict[str, tuple[tuple[int, ...], str]] = field(
        default_factory=dict[str, tuple[tuple[int, ...], str]]
    )
    lines: Lines = field(default_factory=list[str])
    steps: list[str] = field(default_factory=list[str])
    value: str = "%r"
    extra: tuple[str, str] | None = None
    """Name and element type of a second result."""

    def text(self) -> str:
        """Returns the workload as `@main`."""
        base = self.base.text()
        result = tensor(self.shape, self.type)
        head, rest = base.split("-> ", 1)
        _, body = rest.split(" {", 1)
        arguments = "".join(f", %{n}: {tensor(*operand)}" for n, operand in self.operands.items())
        head = head.rstrip()[:-1] + arguments + ")"
        body = body[: body.rindex("  return")]
        types, values = [result], [self.value]
        if self.extra is not None:
            values.append(self.extra[0])
            types.append(tensor(self.shape, self.extra[1]))
        chain = "\n".join(self.lines)
        returned = f"  return {', '.join(values)} : {', '.join(types)}"
        return f"{head} -> ({', '.join(types)}) {{{body}{chain}\n{returned}\n}}\n"

    def inputs(self, generator: Generator) -> dict[str, Any]:
        """Returns random operands by name."""
        import numpy as np

        from xdsl_spirv.runtime.elements import dtype_of

        arrays = self.base.inputs(generator)
        for name, (shape, type) in self.operands.items():
            dtype = dtype_of(type)
            if dtype.kind == "i":
                arrays[name] = generator.integers(-3, 4, shape).astype(dtype)
            elif name.startswith("scale"):
                arrays[name] = np.asarray(2.0 ** generator.integers(-9, -4, shape)).astype(dtype)
            else:
                arrays[name] = np.asarray(generator.integers(-2, 3, shape)).astype(dtype)
        return arrays

    def __str__(self) -> str:
        return f"{self.base}; {', '.join(self.steps)}"

    # Steps

    def _map(self, axes: tuple[int, ...]) -> str:
        loops = [f"d{axis}" for axis in range(len(self.shape))]
        return f"affine_map<({', '.join(loops)}) -> ({', '.join(loops[a] for a in axes)})>"

    def add(self, name: str, body: Lines, type: str, other: str | None = None) -> None:
        """
        Appends an operation on the chain's value `%x`. `other` names the second operand, `%y`.
        """
        number = len(self.steps)
        self.steps.append(name)
        source = tensor(self.shape, self.type)
        result = tensor(self.shape, type)
        rank = range(len(self.shape))
        names, types, maps = [self.value], [source], [self._map(tuple(rank))]
        arguments = [f"%x: {self.type}"]
        if other is not None:
            shape, element = self.operands[other]
            axes = tuple(rank) if shape == self.shape else (self.axis,) * (len(shape) > 0)
            names.append(f"%{other}")
            types.append(tensor(shape, element))
            maps.append(self._map(axes))
            arguments.append(f"%y: {element}")
        maps.append(self._map(tuple(rank)))
        arguments.append(f"%o: {type}")
        kind = "f" if "f" in self.type else "i"
        lines = [line.replace(": T", f": {self.type}").replace("I ", f"{kind} ") for line in body]
        iterators = ", ".join('"parallel"' for _ in rank)
        inner = "\n    ".join([*lines, f"linalg.yield %v : {type}"])
        traits = f"indexing_maps = [{', '.join(maps)}], iterator_types = [{iterators}]"
        self.lines.append(f"""  %e{number} = tensor.empty() : {result}
  %s{number} = linalg.generic {{{traits}}}
      ins({", ".join(names)} : {", ".join(types)}) outs(%e{number} : {result}) {{
  ^bb0({", ".join(arguments)}):
    {inner}
  }} -> {result}""")
        self.value, self.type = f"%s{number}", type

    @property
    def axis(self) -> int:
        """Index of the result's dimension along which biases and scales vary."""
        return len(self.shape) - 1 - len(self.base.name) % max(len(self.shape), 1)

    def operand(self, name: str, shape: tuple[int, ...], type: str) -> str:
        name = f"{name}{len(self.operands)}"
        self.operands[name] = (shape, type)
        return name


def _row(workload: FusedWorkload) -> tuple[int, ...]:
    return (workload.shape[workload.axis],) if workload.shape else ()


def _bias(workload: FusedWorkload, generator: Generator) -> None:
    name = workload.operand("bias", _row(workload), workload.type)
    workload.add("bias", ["%v = arith.addI %x, %y : T"], workload.type, name)


def _scale(workload: FusedWorkload, generator: Generator) -> None:
    name = workload.operand("factor", _row(workload), workload.type)
    workload.add("scale", ["%v = arith.mulI %x, %y : T"], workload.type, name)


def _residual(workload: FusedWorkload, generator: Generator) -> None:
    name = workload.operand("residual", workload.shape, workload.type)
    workload.add("residual", ["%v = arith.addI %x, %y : T"], workload.type, name)


def _activation(workload: FusedWorkload, generator: Generator) -> None:
    if "f" not in workload.type:
        workload.add("square", SQUARE, workload.type)
        return
    name = str(generator.choice(list(ACTIVATIONS)))
    workload.add(name, ACTIVATIONS[name], workload.type)


def _conversion(workload: FusedWorkload, generator: Generator) -> None:
    match workload.type:
        case "f32":
            workload.add("to f16", ["%v = arith.truncf %x : f32 to f16"], "f16")
        case "f16":
            workload.add("to f32", ["%v = arith.extf %x : f16 to f32"], "f32")
        case "i32" if generator.random() < 0.5:
            name = workload.operand("scale", _row(workload), "f32")
            workload.add("requantize", REQUANTIZE, "i8", name)
        case "i32":
            workload.add("to f32", ["%v = arith.sitofp %x : i32 to f32"], "f32")
        case _:
            pass


STEPS: tuple[Callable[[FusedWorkload, Generator], None], ...] = (
    _bias,
    _scale,
    _residual,
    _activation,
    _activation,
    _conversion,
)


def fused_workload(seed: int, largest: int = 48) -> FusedWorkload:
    """Returns the workload of a seed."""
    import numpy as np

    base = workload(seed, largest=largest)
    generator = np.random.default_rng([seed, 1])
    signed = base.types.split(" -> ")[-1]
    fused = FusedWorkload(base, base.shape(base.out), signed.replace("s", "i").replace("u", "i"))
    for _ in range(int(generator.integers(1, 5))):
        if fused.type == "i8":
            break
        STEPS[int(generator.integers(len(STEPS)))](fused, generator)
        if fused.extra is None and generator.random() < 0.15:
            fused.extra = (fused.value, fused.type)
    if fused.extra is not None and fused.extra[0] == fused.value:
        fused.extra = None
    return fused
