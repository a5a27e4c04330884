"""
Counts the memory of a program, and refuses buffers that are too large for this machine, before the
system kills the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.errors import ProgramError

if TYPE_CHECKING:
    from xdsl_spirv.runtime.manifest import Buffer
    from xdsl_spirv.runtime.program import Program

EMPTY_BYTES = 16
"""
Bytes of memory for a buffer without elements. Vulkan has no buffers of 0 bytes, and a kernel that
clamps indices may read a first element without using it, in a vector of up to 16 bytes.
"""


def list_kept(program: Program) -> dict[str, int]:
    """
    Returns the sizes in bytes of the memory that a session of a program needs all the time.

    The keys are `weights`, `states` and `packed`: the results of dispatches that run only once,
    such as weights in another order.
    """
    shared: dict[str, dict[str, int]] = {"weight": {}, "state": {}}
    packed = 0
    for function in program.functions.values():
        manifest = function.manifest
        once = {b.buffer for d in manifest.dispatches if d.once for b in d.bindings}
        for buffer in manifest.buffers:
            if buffer.kind in shared:
                shared[buffer.kind][buffer.name] = buffer.bytes
            elif buffer.name in once:
                packed += buffer.bytes
    weights, states = (sum(sizes.values()) for sizes in shared.values())
    return {"weights": weights, "packed": packed, "states": states}


def physical_bytes() -> int | None:
    """Returns the machine's memory in bytes, or None if it is not known."""
    try:
        bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return bytes if bytes > 0 else None  # negative if sysconf lacks the value


def refuse_beyond_memory(buffers: Iterable[Buffer]) -> None:
    """Raises `ProgramError` for buffers that exceed the machine's memory."""
    known = physical_bytes()
    sizes = {str(b): b.bytes for b in buffers}
    total = sum(sizes.values())
    if known is None or total <= known:
        return
    largest = max(sizes, key=sizes.__getitem__)
    raise ProgramError(
        f"{total:,} bytes are more than this machine's {known:,} bytes of memory",
        f"the largest buffer: {largest}, {sizes[largest]:,} bytes",
        "use smaller dimensions",
    )
