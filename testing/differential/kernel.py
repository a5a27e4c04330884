"""
Represents a kernel as statements, so that unneeded statements can be removed.

A statement is text that defines at most one value. Its operands are found in the text. Each output
has its own buffer, so that the first wrong buffer identifies the faulty statement. Before the body,
the kernel loads the built-ins: `%id` (index of the invocation in the grid), `%local` (in the
workgroup), `%lane` (in the subgroup), `%subgroup`, `%group`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xdsl_spirv.testing.differential.legal import EXACT, Legal
from xdsl_spirv.testing.differential.machine import LAVAPIPE, Machine
from xdsl_spirv.testing.differential.types import Array, Type, drawn

NAME = re.compile(r"%[A-Za-z_][\w]*")


@dataclass(frozen=True)
class Statement:
    """A statement: its text, the name of the defined value, and True if there is a side effect."""

    text: str
    result: str | None = None
    effect: bool = False

    @property
    def needs(self) -> set[str]:
        return set(NAME.findall(self.text)) - {self.result or ""}


@dataclass(frozen=True)
class Buffer:
    """A storage buffer: an array of `element`s with `components` scalars each."""

    element: str
    array: Array
    components: int

    @property
    def type(self) -> str:
        stride = self.array.itemsize * self.components
        array = f"!spirv.rtarray<{self.element}, stride={stride}>"
        return f"!spirv.ptr<!spirv.struct<({array} [0]), Block>, StorageBuffer>"


@dataclass(frozen=True)
class Output:
    """
    A buffer that is compared, with the text of the operation that computes it and the operands of
    its error bound.
    """

    buffer: int
    what: str
    used: int
    """Number of scalars of an element that are written. The others are padding."""
    legal: Legal = EXACT
    operands: tuple[int, ...] = ()
    """
    Indices of the buffers with the operands. Each element of the result has one element in each of
    them.
    """


class Draws(np.random.Generator):
    """A random generator that draws only types that the machine supports."""

    def __init__(self, seed: int | list[int], machine: Machine):
        super().__init__(np.random.PCG64(seed))
        self.machine = machine

    def choice(self, a: Any, *arguments: Any, **keywords: Any) -> Any:
        if _types(a):
            a = [option for option in a if option not in self.machine.lacking] or a
        return super().choice(a, *arguments, **keywords)


def _types(options: object) -> bool:
    return isinstance(options, list | tuple) and all(isinstance(o, str) for o in options)


@dataclass
class Kernel:
    """A generated kernel, its buffers and its compared outputs."""

    family: str
    seed: int
    machine: Machine = LAVAPIPE
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    body: list[Statement] = field(default_factory=list[Statement])
    outputs: list[Output] = field(default_factory=list[Output])
    globals: list[str] = field(default_factory=list[str])
    functions: list[str] = field(default_factory=list[str])
    spec_constants: dict[int, int] = field(default_factory=dict[int, int])
    push_constants: bytes = b""
    cooperative_matrix: list[tuple[int | str, ...]] = field(
        default_factory=list[tuple[int | str, ...]]
    )
    names: int = 0
    attempt: int = 0
    """Number of times that the kernel was drawn again because the machine lacks a feature."""

    def __post_init__(self) -> None:
        self.rng: np.random.Generator = np.random.default_rng(self.seed)
        if self.machine.lacking:
            self.rng = Draws([self.seed, self.attempt], self.machine)

    @property
    def invocations(self) -> int:
        """Number of invocations of the launch."""
        return self.machine.invocations

    # Writing

    def draw(self, add: Callable[[], object]) -> None:
        """
        Calls `add`, which appends random statements. Repeats the call while they need features that
        the machine lacks.
        """
        parts: tuple[list[Any], ...] = (self.buffers, self.body, self.outputs, self.globals)
        sizes = [len(part) for part in parts]
        while True:
            add()
            if not self.machine.lacks("\n".join(s.text for s in self.body[sizes[1] :])):
                return
            for part, size in zip(parts, sizes, strict=True):
                del part[size:]

    def name(self) -> str:
        """Returns an unused value name."""
        self.names += 1
        return f"%v{self.names}"

    def op(self, text: str, effect: bool = False) -> str:
        """Appends an operation with one result to the kernel. Returns the result's name."""
        result = self.name()
        self.body.append(Statement(f"{result} = {text}", result, effect))
        return result

    def do(self, text: str) -> None:
        """Appends a statement with a side effect and without a result to the kernel."""
        self.body.append(Statement(text, None, True))

    def block(self, result: str | None, text: str, effect: bool = False) -> None:
        """Appends several lines of text to the kernel as one statement, which defines `result`."""
        self.body.append(Statement(text, result, effect))

    def constant(self, value: object, type: Type | str = "i32") -> str:
        """Appends a constant and returns its name. In a vector, all components have the value."""
        if isinstance(type, Type) and type.count > 1:
            value = f"dense<{value}>"
        return self.op(f"spirv.Constant {value} : {type}")

    def buffer(self, element: str, array: Array, components: int = 1) -> int:
        """Adds a buffer to the kernel. Returns its index."""
        self.buffers.append(Buffer(element, np.ascontiguousarray(array), components))
        return len(self.buffers) - 1

    def pointer(self, buffer: int, index: str = "%id") -> str:
        """Appends a pointer to an element of a buffer. Returns the pointer's name."""
        declared = self.buffers[buffer]
        base = self.op(f"spirv.mlir.addressof @b{buffer} : {declared.type}")
        return self.op(
            f"spirv.AccessChain {base}[%zero, {index}] : {declared.type}, i32, i32 -> "
            f"!spirv.ptr<{declared.element}, StorageBuffer>"
        )

    def load(self, buffer: int, index: str = "%id") -> str:
        """Appends a load of an element of a buffer. Returns the value's name."""
        element = self.buffers[buffer].element
        return self.op(f'spirv.Load "StorageBuffer" {self.pointer(buffer, index)} : {element}')

    def input(self, type: Type, values: Array | None = None) -> tuple[str, int]:
        """
        Appends the load of a random value for each invocation. Returns the name of the value and
        its buffer.
        """
        if values is None:
            values = drawn(self.rng, type, (self.invocations, type.count))
        padded = np.zeros((self.invocations, type.slots), type.dtype)
        padded[:, : type.count] = values.reshape(self.invocations, type.count)
        number = self.buffer(str(type), padded, type.slots)
        return self.load(number), number

    def output(
        self,
        value: str,
        type: Type,
        what: str,
        legal: Legal = EXACT,
        operands: Sequence[int] = (),
    ) -> None:
        """
        Stores a value of each invocation, so that it is compared. Booleans are stored as 0 or 1.
        """
        if type.scalar == "i1":
            kind = type.of("i32")
            one, zero = self.constant(1, kind), self.constant(0, kind)
            value = self.op(f"spirv.Select {value}, {one}, {zero} : {type}, {kind}")
            type = kind
        number = self.buffer(
            str(type), np.zeros((self.invocations, type.slots), type.dtype), type.slots
        )
        pointer = self.pointer(number)
        self.do(f'spirv.Store "StorageBuffer" {pointer}, {value} : {type}')
        self.outputs.append(Output(number, what, type.count, legal, tuple(operands)))

    def result(self, buffer: int, what: str, legal: Legal = EXACT) -> None:
        """Marks a buffer as an output. Statements of the kernel must have written it."""
        self.outputs.append(Output(buffer, what, self.buffers[buffer].components, legal))

    # Reading

    def without(self, dropped: Collection[int]) -> Kernel:
        """
        Returns the kernel without the statements `dropped`, and without statements that are then
        unused.
        """
        kept = [s for i, s in enumerate(self.body) if i not in dropped]
        needed: set[str] = set()
        left: list[Statement] = []
        for statement in reversed(kept):
            if statement.effect or statement.result in needed:
                left.append(statement)
                needed |= statement.needs
        return replace(self, body=left[::-1])

    def text(self) -> str:
        """Returns the module's text."""
        body = "\n".join(statement.text for statement in self.body)
        text = body + "\n".join(self.functions)
        variables = [
            f"spirv.GlobalVariable @b{i} bind(0, {i}) : {buffer.type}"
            for i, buffer in enumerate(self.buffers)
            if re.search(rf"@b{i}\b", text)
        ]
        prelude = ["%zero = spirv.Constant 0 : i32", "%one = spirv.Constant 1 : i32"]
        for name, (built_in, vector) in BUILT_INS.items():
            if not re.search(rf"%{name}\b", body):
                continue
            kind = "vector<3xi32>" if vector else "i32"
            pointer, loaded = f"!spirv.ptr<{kind}, Input>", f"%{name}_all" if vector else f"%{name}"
            variables.append(f'spirv.GlobalVariable @{name} built_in("{built_in}") : {pointer}')
            prelude.append(f"%{name}_ptr = spirv.mlir.addressof @{name} : {pointer}")
            prelude.append(f'{loaded} = spirv.Load "Input" %{name}_ptr : {kind}')
            if vector:
                prelude.append(f"%{name} = spirv.CompositeExtract {loaded}[0 : i32] : {kind}")
        return "\n".join(
            [
                "spirv.module Logical Vulkan {",
                *(g for g in self.globals if _symbol(g) in text + "".join(self.globals)),
                *variables,
                *self.functions,
                'spirv.func @main() "None" {',
                *prelude,
                body,
                "spirv.Return",
                "}",
                'spirv.EntryPoint "GLCompute" @main',
                f'spirv.ExecutionMode @main "LocalSize", {", ".join(map(str, self.machine.local))}',
                "}",
            ]
        )


def _symbol(text: str) -> str:
    symbol = re.search(r"@\w+", text)
    return symbol.group() if symbol else ""


BUILT_INS = {
    "id": ("GlobalInvocationId", True),
    "group": ("WorkgroupId", True),
    "lane": ("SubgroupLocalInvocationId", False),
    "subgroup": ("SubgroupId", False),
    "local": ("LocalInvocationIndex", False),
}
