"""
Implements the output target `spirv-run`: runs the module and prints its results instead of its
text.

    xdsl-opt x.mlir -p 'linalg-to-spirv{target=lavapipe}' -t 'spirv-run{values=iota}'

A FileCheck test can thus check results at any stage of a pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.target import Target

from xdsl_spirv.dialects.program import inputs_of
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter.api import interpret
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.numbers import DType, scalar_dtype
from xdsl_spirv.interpreter.options import Options
from xdsl_spirv.tools.arrays import NO_ARRAYS

Kind: TypeAlias = tuple[DType, tuple[int, ...]]
"""The dtype and shape of an input."""

SHOWN = 1024
"""Maximum size of a result that is printed whole, in elements; else only corners are printed."""


@dataclass(frozen=True)
class SPIRVRun(Target):
    """
    Runs a host function and prints its results.

    A module without a host function runs the entry points of its `spirv.module`s on `grid`
    workgroups (such as `4x1x1`), with `length` elements in runtime arrays, and prints the buffers.

    `values` selects the inputs: `random` (small integers from `seed`), `iota` (0, 1, 2, ... modulo
    8), `ones` or `zeros`. Alternatively `inputs` is an .npz file with one array per argument, in
    order. `subgroup_size` applies to kernels. `checks` lists checks of the interpreter (or `all`);
    a finding is an error.
    """

    name = "spirv-run"

    function: str = "main"
    values: Literal["random", "iota", "ones", "zeros"] = "random"
    seed: int = 0
    inputs: str | None = None
    subgroup_size: int = 32
    checks: str | None = None
    grid: str = "1x1x1"
    length: int = 64

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        checks = None if self.checks is None else Checks.of(self.checks)
        options = Options(subgroup_size=self.subgroup_size, checks=checks)
        hosts = [op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks]
        kernels = any(isinstance(op, SPIRVModuleOp) for op in module.walk())
        if kernels and not hosts:
            results = self._run_kernels(module, options)
        else:
            results = self._run_host(module, hosts, options)
        for name, result in results.items():
            shape = "x".join([*map(str, result.shape), result.dtype.name])
            shown = np.array2string(
                result, threshold=SHOWN, max_line_width=100, floatmode="unique", separator=", "
            )
            print(f"{name}: {shape}\n{shown}", file=output)
        if checks is not None and checks.report.findings:
            raise InterpreterError(str(checks.report), "checks")

    def _run_host(
        self, module: ModuleOp, hosts: Sequence[FuncOp], options: Options
    ) -> dict[str, Any]:
        types = [
            op.function_type.inputs.data[index]
            for op in hosts
            if op.sym_name.data == self.function
            for index in inputs_of(op)
        ]
        inputs = self._inputs([_kind(type) for type in types])
        results = interpret(module, inputs, self.function, options=options)
        return {f"result{number}": result for number, result in enumerate(results)}

    def _run_kernels(self, module: ModuleOp, options: Options) -> dict[str, Any]:
        """Runs all entry points. Returns the buffers by variable name."""
        from xdsl_spirv.compare.translation.subjects import KernelSubject

        grid = tuple(int(n) if n.isdecimal() else 0 for n in self.grid.split("x"))
        if len(grid) != 3 or min(grid) < 1:
            raise InterpreterError(f"{self.grid} is not a grid", "spirv-run", "write grid=4x1x1")
        subject = KernelSubject.of(module, options, grid, self.length)
        contents = self._inputs([(input.dtype, input.shape) for input in subject.inputs])
        return subject.run(module, contents)

    def _inputs(self, kinds: Sequence[Kind]) -> list[Any]:
        if self.inputs is not None:
            try:
                with np.load(Path(self.inputs), allow_pickle=False) as stored:
                    return [stored[name] for name in stored.files]
            except (OSError, *NO_ARRAYS) as error:
                raise InterpreterError(
                    f"cannot read the inputs: {error}",
                    self.inputs,
                    "write the file with numpy.savez",
                ) from error
        generator = np.random.default_rng(self.seed)
        return [self._made(*kind, generator) for kind in kinds]

    def _made(self, dtype: DType, shape: tuple[int, ...], generator: np.random.Generator) -> Any:
        count = int(np.prod(shape))
        numbers = {
            "random": lambda: generator.integers(-4, 5, count),
            "iota": lambda: np.arange(count) % 8,
            "ones": lambda: np.ones(count),
            "zeros": lambda: np.zeros(count),
        }[self.values]()
        return numbers.astype(dtype).reshape(shape)


def _kind(type: Attribute) -> Kind:
    """Returns dtype and shape for a type. Raises `InterpreterError` for types without arrays."""
    shaped = isinstance(type, TensorType | MemRefType)
    shape = tuple(type.get_shape()) if shaped else ()
    dtype = scalar_dtype(type.element_type if shaped else type)
    if dtype is None or -1 in shape:
        raise InterpreterError(
            f"no input can be made of type {type}",
            "the function",
            "use tensors and memrefs of static shape, and scalars",
        )
    return dtype, shape
