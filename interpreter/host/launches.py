"""
Runs kernels that the host launches (`gpu.launch_func`), and `linalg` operations inside a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import gpu
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import CollectiveOp, DispatchOp
from xdsl_spirv.dialects.schedule.push_constants import SIZE_BYTES, bytes_of, numbers_of, sizes_of
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.interpreter.code import WAVE, Compiler, Env, Step
from xdsl_spirv.interpreter.context import Context, symbol_name
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.host.machine import Host, host
from xdsl_spirv.interpreter.launch import geometry_of, run
from xdsl_spirv.interpreter.memory import Memory, Pointer, start_of
from xdsl_spirv.interpreter.numbers import Array, scalar_dtype
from xdsl_spirv.interpreter.semantics import control
from xdsl_spirv.interpreter.spirv.module import Launch


@host(gpu.LaunchFuncOp)
def launch_func(machine: Host, op: gpu.LaunchFuncOp, operands: Sequence[Any]) -> list[Any]:
    """Runs a kernel: a `gpu.func`, or an entry point of a `spirv.module`."""
    if not machine.launches:
        raise InterpreterError(
            "the reference interpreter runs on tensors only, but the function launches a kernel",
            op,
            "pass the module as it was before compilation",
        )
    values = dict(zip(op.operands, operands, strict=True))
    grid = [int(values[v]) for v in (op.gridSizeX, op.gridSizeY, op.gridSizeZ)]
    block = [int(values[v]) for v in (op.blockSizeX, op.blockSizeY, op.blockSizeZ)]
    arguments = [values[v] for v in op.kernelOperands]
    module_name, entry = op.kernel.root_reference.data, symbol_name(op.kernel)
    module = machine.context.symbol(module_name)
    if isinstance(module, SPIRVModuleOp):
        buffers = {
            (0, number): array
            for number, (value, array) in enumerate(zip(op.kernelOperands, arguments, strict=True))
            if isinstance(value.type, MemRefType)
        }
        x, y, z = grid
        push = b"".join(
            _size(arguments[number], dimension).to_bytes(SIZE_BYTES, "little")
            for number, dimension in sizes_of(module, entry)
        )
        push = bytes_of(numbers_of(op)) or push
        Launch(module, entry, (x, y, z), buffers, {}, push, machine.options).run()
        return []
    context = Context(module, machine.options, geometry_of(grid, block, machine.options))
    buffers = [isinstance(value.type, MemRefType) for value in op.kernelOperands]
    given = enumerate(zip(arguments, buffers, strict=True))
    run(
        context,
        context.symbol(entry),
        [argument(value, entry, n, yes) for n, (value, yes) in given],
    )
    return []


def _size(argument: Array, dimension: int) -> int:
    return argument.shape[dimension] if argument.ndim else int(argument)


def argument(value: Array, kernel: str, number: int, buffer: bool = True) -> Pointer | Array:
    """Converts a kernel argument: a memref becomes a pointer, a scalar a uniform value."""
    if buffer:
        return start_of(Memory.of_array(value, f"argument {number} of @{kernel}"))
    return value.reshape(1, 1, 1)


@host(DispatchOp)
def dispatch(machine: Host, op: DispatchOp, operands: Sequence[Any]) -> list[Any]:
    """Runs the operations inside a dispatch on tensors."""
    block = op.body.block
    return machine.run(block, dict(zip(block.args, operands, strict=True)))


@control(CollectiveOp)
def collective(op: CollectiveOp, compiler: Compiler) -> Step:
    """Runs `linalg` on the kernel's buffers, once for all invocations."""
    block = op.body.block
    outer: list[SSAValue] = []
    for inner in op.walk():
        for operand in inner.operands:
            if not op.is_ancestor(operand.owner) and operand not in outer:  # pyright: ignore
                outer.append(operand)
    slots = compiler.slots(outer)
    machine = Host(ModuleOp([]), compiler.context.options)

    def step(env: Env) -> None:
        if env[WAVE].first == 0:
            values = [whole(v, env[slot]) for v, slot in zip(outer, slots, strict=True)]
            machine.run(block, dict(zip(outer, values, strict=True)))

    return step


def whole(value: SSAValue, held: Any) -> Array:
    """Converts a kernel value to a numpy array. A memref becomes a view of its memory."""
    if not isinstance(held, Pointer):
        return held.reshape(-1)[0]
    type = value.type
    assert isinstance(type, MemRefType)
    dtype = scalar_dtype(type.element_type)
    if dtype is None or held.base or held.index.any():
        raise InterpreterError(f"a `linalg` operation in a kernel cannot take {type}")
    shape = type.get_shape() if type.has_static_shape() else held.memory.shape
    return held.memory.view(dtype)[0].reshape(shape)
