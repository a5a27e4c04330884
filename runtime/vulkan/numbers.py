"""
Rewrites kernels to read push constants from a buffer, so that recorded commands can be reused.

A command buffer contains the push constants of its dispatches, so it must be recorded again for
other values. Kernels that read the values from a uniform buffer can reuse the commands.
"""

from __future__ import annotations

from array import array

from xdsl_spirv.grammar import grammar
from xdsl_spirv.runtime.needs import HEADER_WORDS, rows_of


def read_from_buffer(spirv: bytes, set: int, binding: int) -> bytes:
    """
    Rewrites a kernel to read its push constants from a uniform buffer at a set and binding.

    The block may contain only 32-bit scalars, whose offsets are the same in both layouts.
    """
    table = grammar()
    pointer, variable, decorate = (
        table.instruction(name).opcode for name in ("OpTypePointer", "OpVariable", "OpDecorate")
    )
    storage, decorations = table.kind("StorageClass"), table.kind("Decoration")
    pushed, uniform = storage["PushConstant"].value, storage["Uniform"].value
    words = array("I", spirv)
    rows = list(rows_of(words))
    blocks = [row[2] for row in rows if row[0] & 0xFFFF == variable and row[3] == pushed]
    places = [
        [4 << 16 | decorate, block, decorations[name].value, place]
        for block in blocks
        for name, place in (("DescriptorSet", set), ("Binding", binding))
    ]
    first = next(i for i, row in enumerate(rows) if row[0] & 0xFFFF == decorate)
    rows[first:first] = places
    for row in rows:
        where = {pointer: 2, variable: 3}.get(row[0] & 0xFFFF)
        if where is not None and row[where] == pushed:
            row[where] = uniform
    code = words[:HEADER_WORDS]
    for row in rows:
        code.extend(row)
    return code.tobytes()
