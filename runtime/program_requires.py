"""
What a device must have for a compiled program: its kernels' needs, and what its dispatches take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl_spirv.runtime.elements import element_bytes
from xdsl_spirv.runtime.manifest import Dispatch, Function, Manifest
from xdsl_spirv.runtime.needs import Needs
from xdsl_spirv.runtime.requires import Launch, Requires, requires_of

WORD = 4
"""Vulkan's block of push constants is a multiple of so many bytes."""


def program_requires(manifest: Manifest, binaries: Mapping[str, bytes]) -> Requires:
    """
    What a device must have for kernels that the encoder wrote.

    Sizes that are known only when the program runs are left out.
    """
    needs = {kernel.name: Needs.of_own(binaries[kernel.name]) for kernel in manifest.kernels}
    launches = [
        launch for function in (manifest, *manifest.functions) for launch in _launches(function)
    ]
    return requires_of(needs, manifest.subgroup_size, launches)


def push_constant_bytes(dispatch: Dispatch) -> int:
    """The bytes of the block that a dispatch gives, whole words."""
    end = max((c.offset + element_bytes(c.type) for c in dispatch.push_constants), default=0)
    return -(-end // WORD) * WORD


def _launches(function: Manifest | Function) -> Iterator[Launch]:
    sizes = {b.name: 0 if b.is_dynamic else b.bytes for b in function.buffers}
    for dispatch in function.dispatches:
        yield Launch(
            dispatch.entry_point,
            [count if isinstance(count, int) else 0 for count in dispatch.grid],
            push_constant_bytes(dispatch),
            len(dispatch.bindings),
            max((sizes[binding.buffer] for binding in dispatch.bindings), default=0),
        )
