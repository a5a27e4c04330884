"""
Lowers programs over tiles to kernels: writes the code of each invocation.

    tile.program @f { ^bb0(%a: !tile.view<?x?xf16>, ...): ... }
 ->
    gpu.func @f(%a: memref<?x?xf16, #spirv.storage_class<StorageBuffer>>, ...) kernel { ... }

The target determines the cooperative matrices and the positions of their components. `subgroups`
is the number of subgroups of a workgroup along the rows and columns of products. `instruction` is
the shape of the matrices, or `fma`. Unused values are not computed. Each emitted operation has the
source location of its tile operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

from xdsl_spirv.dialects import spv, tile
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.target import TARGET, load_target
from xdsl_spirv.passes.emit.kernel import INDEX
from xdsl_spirv.passes.kernel.tile_code import PASS, Schedule
from xdsl_spirv.targets import Target


@dataclass(frozen=True)
class LowerTilesPass(ModulePass):
    """Lowers each tile program to a kernel."""

    name = PASS

    target: str = ""
    """Name of a known device or path of a target file."""

    subgroups: tuple[int, ...] = ()
    """Number of subgroups along the rows and along the columns of products."""

    instruction: str = ""
    """Shape of the cooperative matrices as MxNxK, or `fma`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        programs = [inner for inner in op.body.block.ops if isinstance(inner, tile.ProgramOp)]
        if not programs:
            return
        target = load_target(self.target, op, self.name)
        kernels = [
            lower(program, schedule_of(program, target, self.subgroups, self.instruction))
            for program in programs
        ]
        for program in programs:
            program.detach()
            program.erase()
        name: Any = StringAttr("kernels")
        op.body.block.add_op(gpu.ModuleOp(name, Region(Block(kernels))))
        op.attributes["gpu.container_module"] = UnitAttr()
        op.attributes[TARGET] = StringAttr(self.target)


def schedule_of(
    program: tile.ProgramOp, target: Target, subgroups: tuple[int, ...] = (), instruction: str = ""
) -> Schedule:
    """Builds a schedule from pass options; refuses options that the target does not support."""
    asked: tuple[int, int, int] | str | None = instruction or None
    if instruction and instruction != "fma":
        sizes = instruction.split("x")
        if len(sizes) != 3 or not all(size.isdigit() for size in sizes):
            refuse(PASS, program, f"unknown instruction {instruction!r}: write 16x16x16 or fma")
        m, n, k = map(int, sizes)
        asked = m, n, k
    grid = subgroups or _usual_grid(program, target)
    if len(grid) != 2 or min(grid) < 1:
        cause = f"subgroups = {list(grid)} must be two positive numbers (rows, columns)"
        refuse(PASS, program, f"{cause}, for example [2, 2]")
    invocations = grid[0] * grid[1] * target.subgroup_size
    if invocations > target.max_invocations:
        cause = f"{invocations} invocations exceed {target.name}'s {target.max_invocations}"
        most = target.max_invocations // target.subgroup_size
        refuse(PASS, program, f"{cause} in a workgroup: use at most {most} subgroups")
    return Schedule(target, (grid[0], grid[1]), asked)


def _usual_grid(program: tile.ProgramOp, target: Target) -> tuple[int, int]:
    """Returns the default grid of subgroups: up to four along rows, one along columns."""
    if target.processor:
        return 1, 1
    products = [op for op in program.walk() if isinstance(op, tile.MultiplyAddOp)]
    for rows in (4, 2):
        if all(tile.tile_of(op.c).shape[0] % (16 * rows) == 0 for op in products):
            return rows, 1
    return 1, 1


def lower(program: tile.ProgramOp, schedule: Schedule) -> gpu.FuncOp:
    """Returns the kernel function of a tile program."""
    from xdsl_spirv.passes.kernel.tile_program import ProgramCode

    storage = spv.StorageClassAttr(spv.StorageClass.StorageBuffer)
    types = [
        MemRefType(argument.type.element, argument.type.shape, memory_space=storage)
        if isinstance(argument.type, tile.ViewType)
        else INDEX
        for argument in program.body.block.args
    ]
    block = Block(arg_types=types)
    for new, old in zip(block.args, program.body.block.args, strict=True):
        new.name_hint = old.name_hint
    ProgramCode(program, block, schedule).write()
    block.add_op(gpu.ReturnOp([]))
    for op in list(block.walk()):
        if isinstance(op, memref.DimOp) and op.result.first_use is None:
            op.detach()  # Otherwise the launch would have to pass the unused size.
            op.erase()
    return gpu.FuncOp(
        program.sym_name.data,
        (types, []),
        Region(block),
        kernel=True,
        known_block_size=[schedule.subgroups * schedule.target.subgroup_size, 1, 1],
    )
