"""
Fixtures for handwritten kernels: a body between loads and stores of numbered buffers.

`Kernel` writes the module around a body. Buffer i is @b<i>, an array of its element type. `%id` is
the invocation's index in the grid, `%lane` its index in the subgroup, `%local` in the workgroup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.universe import Universe

from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.elements import Array

SMALL = 1 << 13
"""Maximum number of elements for which a kernel also runs with checks."""


def parse_module(text: str) -> ModuleOp:
    """Parses and verifies a module of any dialect that xdsl-opt knows."""
    context = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        context.register_dialect(name, factory)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def _buffer(element: str, stride: int) -> str:
    array = f"!spirv.rtarray<{element}, stride={stride}>"
    return f"!spirv.ptr<!spirv.struct<({array} [0]), Block>, StorageBuffer>"


class Kernel:
    """The text of a kernel, which can be extended and run."""

    def __init__(self) -> None:
        self.buffers: list[tuple[str, str, Array]] = []
        self.body: list[str] = []
        self.globals: list[str] = []
        self.models = "Logical Vulkan"
        self.functions: list[str] = []
        self.intended: set[str] | None = set()
        self._next = 0

    def name(self) -> str:
        """Returns an unused value name."""
        self._next += 1
        return f"%v{self._next}"

    def buffer(self, element: str, array: Array, components: int = 1) -> int:
        """Adds a buffer and returns its index. An element has `components` array elements."""
        type = _buffer(element, array.itemsize * components)
        self.buffers.append((type, element, array))
        return len(self.buffers) - 1

    def __call__(self, text: str) -> Kernel:
        """Appends lines to the body."""
        self.body.append(text)
        return self

    def op(self, text: str) -> str:
        """Appends an operation with a result. Returns the result's name."""
        result = self.name()
        self.body.append(f"{result} = {text}")
        return result

    def constant(self, value: object, type: str = "i32") -> str:
        return self.op(f"spirv.Constant {value} : {type}")

    def pointer(self, buffer: int, index: str = "%id") -> str:
        """Adds an access chain to an element of a buffer, and returns the name of its result."""
        type, element, _ = self.buffers[buffer]
        base = self.op(f"spirv.mlir.addressof @b{buffer} : {type}")
        return self.op(
            f"spirv.AccessChain {base}[%zero, {index}] : {type}, i32, i32 -> "
            f"!spirv.ptr<{element}, StorageBuffer>"
        )

    def load(self, buffer: int, index: str = "%id") -> str:
        """Adds a load of an element of a buffer, and returns the name of its result."""
        element = self.buffers[buffer][1]
        return self.op(f'spirv.Load "StorageBuffer" {self.pointer(buffer, index)} : {element}')

    def store(self, buffer: int, value: str, index: str = "%id") -> Kernel:
        """Adds a store to an element of a buffer, and returns this kernel."""
        element = self.buffers[buffer][1]
        pointer = self.pointer(buffer, index)
        return self(f'spirv.Store "StorageBuffer" {pointer}, {value} : {element}')

    def text(self, local: tuple[int, int, int]) -> str:
        variables = [
            f"spirv.GlobalVariable @b{i} bind(0, {i}) : {type}"
            for i, (type, _, _) in enumerate(self.buffers)
            if type
        ]
        inputs = {"id": "GlobalInvocationId", "group": "WorkgroupId"}
        prelude = ["%zero = spirv.Constant 0 : i32", "%one = spirv.Constant 1 : i32"]
        vector, scalar = "!spirv.ptr<vector<3xi32>, Input>", "!spirv.ptr<i32, Input>"
        for name, built_in in inputs.items():
            variables.append(f'spirv.GlobalVariable @{name} built_in("{built_in}") : {vector}')
            prelude += [
                f"%{name}_ptr = spirv.mlir.addressof @{name} : {vector}",
                f'%{name}_all = spirv.Load "Input" %{name}_ptr : vector<3xi32>',
                f"%{name} = spirv.CompositeExtract %{name}_all[0 : i32] : vector<3xi32>",
            ]
        scalars = {
            "lane": "SubgroupLocalInvocationId",
            "subgroup": "SubgroupId",
            "local": "LocalInvocationIndex",
        }
        for name, built_in in scalars.items():
            variables.append(f'spirv.GlobalVariable @{name} built_in("{built_in}") : {scalar}')
            prelude += [
                f"%{name}_ptr = spirv.mlir.addressof @{name} : {scalar}",
                f'%{name} = spirv.Load "Input" %{name}_ptr : i32',
            ]
        last = "" if self.body[-1].lstrip().startswith("spirv.Return") else "spirv.Return"
        sizes = ", ".join(map(str, local))
        return "\n".join(
            [
                f"spirv.module {self.models} {{",
                *self.globals,
                *variables,
                *self.functions,
                'spirv.func @main() "None" {',
                *prelude,
                *self.body,
                last,
                "}",
                'spirv.EntryPoint "GLCompute" @main',
                f'spirv.ExecutionMode @main "LocalSize", {sizes}',
                "}",
            ]
        )

    def run(
        self,
        grid: tuple[int, int, int] = (1, 1, 1),
        local: tuple[int, int, int] = (32, 1, 1),
        subgroup_size: int = 32,
        **options: Any,
    ) -> list[Array]:
        """
        Runs the kernel. Returns the buffers after the run.

        Unless `checks` are given, a small kernel runs again with all checks. They must find
        exactly what is `intended`, and the results must be equal.
        """
        module = parse_module(self.text(local)).body.block.first_op
        assert isinstance(module, SPIRVModuleOp)
        spec, push = options.pop("spec_constants", None), options.pop("push_constants", b"")
        buffers = {(0, i): array for i, (_, _, array) in enumerate(self.buffers)}
        copies = {place: array.copy() for place, array in buffers.items()}
        chosen = Options(subgroup_size=subgroup_size, **options)
        dispatch(module, "main", grid, buffers, spec, push, options=chosen)
        small = sum(array.size for array in buffers.values()) <= SMALL
        if chosen.checks is None and self.intended is not None and small:
            checks = Checks.all()
            checked = replace(chosen, checks=checks, debug=None)
            dispatch(module, "main", grid, copies, spec, push, options=checked)
            assert {finding.rule for finding in checks.report} == self.intended, str(checks.report)
            for place, array in buffers.items():
                assert array.tobytes() == copies[place].tobytes(), place
        return [array for _, _, array in self.buffers]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def new_kernel() -> type[Kernel]:
    """Returns the class of kernels, for tests that need several."""
    return Kernel


Parse = Callable[[str], ModuleOp]


@pytest.fixture
def parse() -> Parse:
    """Returns a function that parses and verifies a module."""
    return parse_module


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240522)
