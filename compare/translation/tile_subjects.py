"""Runs a tile program: as a whole before its lowering, and as a kernel after its lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import gpu
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, ModuleOp

from xdsl_spirv.compare.translation.inputs import Input
from xdsl_spirv.dialects import tile
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter import Options, dispatch, semantics
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.host.launches import argument
from xdsl_spirv.interpreter.host.tiles import dtype_of, grid_of, run_program
from xdsl_spirv.interpreter.launch import geometry_of, run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError


@dataclass(frozen=True)
class TileSubject:
    """A tile program. Each of its views is an input and a result."""

    name: str
    inputs: tuple[Input, ...]
    options: Options
    grid: tuple[int, int, int]

    @classmethod
    def from_program(cls, program: tile.ProgramOp, options: Options) -> TileSubject:
        """
        Creates a subject from a program. Raises `ProgramError` for a program with dynamic sizes,
        scalar arguments, or sums of floats, which have no known error bound.
        """
        name, inputs = program.sym_name.data, list[Input]()
        for number, given in enumerate(program.body.block.args):
            view = given.type
            if not isinstance(view, tile.ViewType) or DYNAMIC_INDEX in view.shape:
                raise ProgramError(
                    f"argument {number} of @{name} must be a view of static sizes, not {view}",
                    f"@{name}",
                    "use only views of static sizes as arguments",
                )
            inputs.append(Input(given.name_hint or f"arg{number}", dtype_of(view), view.shape))
        for op in program.walk():
            sums = isinstance(op, tile.MultiplyAddOp | tile.ReduceOp)
            if sums and any(
                isinstance(tile.tile_of(value).element, AnyFloat) for value in op.operands
            ):
                raise ProgramError(
                    f"{op.name} adds up floats: no error bound is known for another order of "
                    f"additions",
                    f"@{name}", "compare such a program by `check` of kernels.tiles",
                )  # fmt: skip
        sizes = {n: each.shape for n, each in enumerate(inputs)}
        semantics.load()
        return cls(name, tuple(inputs), options, grid_of(program, sizes))

    def run(self, module: ModuleOp, values: Sequence[Array]) -> dict[str, Array]:
        """Returns the contents of the views after the run, by name."""
        arrays = [value.copy() for value in values]
        for op in module.ops:
            if isinstance(op, tile.ProgramOp):
                run_program(op, arrays, self.grid, names=[each.name for each in self.inputs])
            elif isinstance(op, gpu.ModuleOp):
                self._run_kernel(op, arrays)
            elif isinstance(op, SPIRVModuleOp):
                buffers = {(0, n): array for n, array in enumerate(arrays)}
                dispatch(op, self.name, self.grid, buffers, options=self.options)
        return {each.name: array for each, array in zip(self.inputs, arrays, strict=True)}

    def _run_kernel(self, module: gpu.ModuleOp, arrays: Sequence[Array]) -> None:
        (kernel,) = (op for op in module.walk() if isinstance(op, gpu.FuncOp))
        assert kernel.known_block_size is not None
        block = [int(size) for size in kernel.known_block_size.get_values()]
        context = Context(module, self.options, geometry_of(self.grid, block, self.options))
        given = [argument(array, self.name, n) for n, array in enumerate(arrays)]
        run(context, kernel, given)
