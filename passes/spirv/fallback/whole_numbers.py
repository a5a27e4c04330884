"""
Stores components of a matrix into memory whose scalars hold several components each.

No invocation may write to a scalar to which another invocation writes. So the bits of the
components go through Workgroup memory, and each invocation assembles and stores whole scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.spirv import bit
from xdsl_spirv.dialects.spirv.cooperative_matrix import CooperativeMatrixStoreOp
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.exchange import Exchange
from xdsl_spirv.passes.spirv.fallback.matrices import Form
from xdsl_spirv.passes.spirv.fallback.matrix_memory import MatrixMemory


def store_whole_numbers(
    code: SpirvEmitter,
    exchange: Exchange,
    op: CooperativeMatrixStoreOp,
    memory: MatrixMemory,
    values: Sequence[SSAValue],
) -> None:
    """Writes the code of a store that packs components into scalars."""
    form, batch = memory.form, exchange.batches[op]
    base = exchange.base(code, batch, 0)
    for number, value in enumerate(values):
        place = form.place(code, number)
        line, within = memory.line_and_number(place)
        index = code.plus(base, code.plus(code.times(line, memory.length), within))

        def put(value: SSAValue = value, index: Index = index) -> None:
            bits = code.same_bits(value, IntegerType(memory.component_width))
            exchange.write(code, index, code.resized(bits, 32, sign=False))

        code.when(place.exists, put)
    exchange.barrier(code, form.group)
    # The stored scalars form a matrix with fewer columns, distributed over the same lanes.
    numbers = Form(memory.lines, memory.length // memory.per_number, memory.number, form.group)
    for number in range(numbers.count):
        place = numbers.place(code, number)

        def collect(line: Index = place.row, part: Index = place.column) -> None:
            at = code.plus(base, code.times(line, memory.length))
            first = code.plus(at, code.times(part, memory.per_number))
            value = _number(code, exchange, memory, first)
            memory.write(code, memory.spot(code, line, part), value)

        code.when(place.exists, collect)
    exchange.barrier(code, form.group)


def _number(code: SpirvEmitter, exchange: Exchange, memory: MatrixMemory, first: Index) -> SSAValue:
    """Assembles a scalar from the components at index `first` of Workgroup memory."""

    def component(part: int) -> SSAValue:
        bits = exchange.read(code, i32, code.plus(first, part))
        bits = code.resized(bits, memory.number_width, sign=False)
        shift = part * memory.component_width
        return code.add(bit.ShiftLeftLogicalOp(bits, code.number(shift))) if part else bits

    parts = map(component, range(memory.per_number))
    return reduce(lambda a, b: code.add(bit.BitwiseOrOp(a, b)), parts)
