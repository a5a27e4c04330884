"""Lowers a tile program to a module with one kernel for a target."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compiler.pipeline import lowering
from xdsl_spirv.dialects import tile
from xdsl_spirv.dialects.schedule.push_constants import sizes_of
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.passes.kernel.lower_tiles import LowerTilesPass
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.raw import words
from xdsl_spirv.serialization.raw.binary import RawModule, decode
from xdsl_spirv.serialization.raw.operands import opcode_of
from xdsl_spirv.upstream.passes_on_demand import run


def lower_to_spirv(
    program: tile.ProgramOp,
    target: str,
    subgroups: tuple[int, ...] = (),
    instruction: str = "",
) -> tuple[ModuleOp, SPIRVModuleOp]:
    """
    Lowers a tile program to the code of invocations, as a `gpu.module` and a `spirv.module`.

    Raises `PassFailedException` for features that the target lacks.
    """
    module, ctx = ModuleOp([program.clone()]), context()
    LowerTilesPass(target, subgroups, instruction).apply(ctx, module)
    module.verify()
    kernels = module.clone()
    passes = lowering(target)
    first = [member.name for member in passes].index("kernel-to-spirv")
    run(passes[first:], ctx, module)
    (made,) = (op for op in module.body.block.ops if isinstance(op, SPIRVModuleOp))
    return kernels, made


def named_binary(program: tile.ProgramOp, names: Sequence[str], target: str) -> bytes:
    """
    Returns the binary of a tile program for a target. The binary contains the names of the
    arguments. A size is named after its buffer and axis, for example `x.0`.
    """
    _, made = lower_to_spirv(program, target)
    name = program.sym_name.data
    raw = decode(encode(made, names=True, lines=True))
    members = [
        names[argument] + (f".{axis}" if is_view(program, argument) else "")
        for argument, axis in sizes_of(made, name)
    ]
    buffers = {f"{name}_arg_{number}": given for number, given in enumerate(names)}
    return _with_names(raw, buffers, f"{name}_sizes", members).encode()


def is_view(program: tile.ProgramOp, argument: int) -> bool:
    """True if the argument of this index is a buffer."""
    return isinstance(program.body.block.args[argument].type, tile.ViewType)


def _with_names(
    raw: RawModule, variables: dict[str, str], block: str, members: list[str]
) -> RawModule:
    """
    Renames variables as the mapping `variables` says, and gives the members of the block named
    `block` the names `members`.
    """
    rows: list[list[int]] = []
    pointers: dict[int, int] = {}
    types: dict[int, int] = {}
    sizes = at = 0
    for instruction, row in zip(raw, raw.rows(), strict=True):
        match instruction.name:
            case "OpName":
                said = str(instruction.operands[1].value)
                sizes = row[1] if said == block else sizes
                given = words.string_words(variables.get(said, said))
                row = words.instruction(row[0] & 0xFFFF, [row[1], *given])
                at = len(rows)
            case "OpTypePointer":
                pointers[row[1]] = row[3]
            case "OpVariable":
                types[row[2]] = row[1]
            case _:
                pass
        rows.append(row)
    if members:
        struct = pointers[types[sizes]]
        opcode = opcode_of("OpMemberName")
        rows[at:at] = [
            words.instruction(opcode, [struct, n, *words.string_words(text)])
            for n, text in enumerate(members)
        ]
    return RawModule.build(raw.header, rows)
