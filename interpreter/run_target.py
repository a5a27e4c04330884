"""
The target `spirv-run`: what a program computes, in the place of its text.

    xdsl-opt x.mlir -p 'linalg-to-spirv{target=lavapipe}' -t 'spirv-run{values=iota}'

So a FileCheck test can check numbers at any stage of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.target import Target

from xdsl_spirv.interpreter.api import interpret
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.numbers import scalar_dtype
from xdsl_spirv.interpreter.options import Options

SHOWN = 1024
"""Results of more elements are shown by their corners."""


@dataclass(frozen=True)
class SPIRVRun(Target):
    """
    Runs a host function and prints its results.

    Inputs are made by `values`: `random` (small integers from `seed`), `iota` (0, 1, 2, ... modulo
    8), `ones` or `zeros`; or read from `inputs`, an .npz file with one array for each argument, in
    their order. `subgroup_size` is that of kernels, `checks` a list of the interpreter's checks
    (`all`) that must find nothing.
    """

    name = "spirv-run"

    function: str = "main"
    values: Literal["random", "iota", "ones", "zeros"] = "random"
    seed: int = 0
    inputs: str | None = None
    subgroup_size: int = 32
    checks: str | None = None

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        found = [
            op
            for op in module.ops
            if isinstance(op, FuncOp) and op.sym_name.data == self.function and op.body.blocks
        ]
        types = list(found[0].function_type.inputs) if found else []
        arrays = self._inputs(types)
        options = Options(subgroup_size=self.subgroup_size)
        report = None
        if self.checks is not None:
            from xdsl_spirv.interpreter.checks import Checks

            checks = Checks.of(self.checks)
            options = Options(subgroup_size=self.subgroup_size, checks=checks)
            report = checks.report
        results = interpret(module, arrays, self.function, options=options)
        for number, result in enumerate(results):
            shape = "x".join([*map(str, result.shape), result.dtype.name])
            shown = np.array2string(
                result, threshold=SHOWN, max_line_width=100, floatmode="unique", separator=", "
            )
            print(f"result{number}: {shape}\n{shown}", file=output)
        if report is not None and report.findings:
            raise InterpreterError(str(report), "checks")

    def _inputs(self, types: Iterable[Attribute]) -> list[Any]:
        if self.inputs is not None:
            try:
                with np.load(Path(self.inputs), allow_pickle=False) as stored:
                    return [stored[name] for name in stored.files]
            except (OSError, ValueError) as error:
                raise InterpreterError(
                    f"cannot read the inputs: {error}", self.inputs, "write them with numpy.savez"
                ) from error
        generator = np.random.default_rng(self.seed)
        return [self._made(type, generator) for type in types]

    def _made(self, type: Attribute, generator: np.random.Generator) -> Any:
        shaped = isinstance(type, TensorType | MemRefType)
        shape = type.get_shape() if shaped else ()
        dtype = scalar_dtype(type.element_type if shaped else type)
        if dtype is None or -1 in shape:
            raise InterpreterError(f"no input can be made of type {type}", "the function")
        count = int(np.prod(shape))
        numbers = {
            "random": lambda: generator.integers(-4, 5, count),
            "iota": lambda: np.arange(count) % 8,
            "ones": lambda: np.ones(count),
            "zeros": lambda: np.zeros(count),
        }[self.values]()
        return numbers.astype(dtype).reshape(shape)
