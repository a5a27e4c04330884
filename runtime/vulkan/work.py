"""
Defines work for a device as plain data: buffers of bytes, kernels, and steps that run the kernels.

It does not depend on program.json, so that it can be sent to a worker process, and tools can
create it from other kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.runtime.errors import ProgramError

BufferKind = Literal["input", "weight", "state", "output", "temporary"]
SHARED = ("weight", "state")
"""Kinds of buffers that all routines share."""


Matrix: TypeAlias = tuple[str, tuple[int, int], str]
"""A cooperative matrix: (use (A, B, Acc), rows, columns, component type)."""


@dataclass(frozen=True)
class WorkBuffer:
    """A storage buffer of `size` bytes, with a kind as in program.json."""

    name: str
    size: int
    kind: BufferKind


@dataclass(frozen=True)
class Bound:
    """An image or a sampler at a set, a binding and an array index. `buffer` has the texels."""

    set: int
    binding: int
    number: int
    resource: Image | Sampler
    buffer: str | None = None


@dataclass(frozen=True)
class Step:
    """
    One dispatch, which sees all writes of earlier steps.

    - `bindings`: (set, binding, buffer name).
    - `constants`: bytes of specialization constants by id.
    - `push`: the block of push constants.
    - `addresses`: (offset, buffer name) at which the block contains a buffer's device address.
    """

    kernel: str
    entry_point: str
    grid: tuple[int, int, int]
    bindings: tuple[tuple[int, int, str], ...]
    constants: tuple[tuple[int, bytes], ...] = ()
    push: bytes = b""
    addresses: tuple[tuple[int, str], ...] = ()
    once: bool = False
    """True if the step runs only before the first run, and its results remain."""
    numbers: tuple[int, int, str] | None = None
    """(set, binding, name) of the uniform buffer that the kernel reads instead of `push`."""
    images: tuple[Bound, ...] = ()
    """Images and samplers, which are not in `bindings`. Texels are in buffers."""

    @property
    def buffers(self) -> list[str]:
        """Names of the buffers that the step may read or write."""
        names = [name for _, _, name in self.bindings] + [name for _, name in self.addresses]
        return names + [bound.buffer for bound in self.images if bound.buffer is not None]


@dataclass(frozen=True)
class Tensor:
    """A tensor at a binding of the set `set`: numpy's name of its element type, and its sizes."""

    element: str
    extents: tuple[int, ...]
    set: int = 0
    binding: int = 0


@dataclass(frozen=True)
class GraphWork:
    """A graph of operators (SPV_ARM_graph), and the bytes of its constants by id."""

    code: bytes
    entry_point: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    constants: Mapping[int, tuple[Tensor, bytes]]


TENSOR_FORMATS = {
    **{"bool": 1000460000, "int8": 14, "int16": 75, "int32": 99, "float16": 76, "float32": 100}
}
"""VkFormat of a tensor's elements, by numpy's type name."""


@dataclass(frozen=True)
class Routine:
    """
    Steps from index `first` up to `end` that run together. Sizes and push constants (`numbers`)
    differ between runs.

    `grids` are (step index, axis, index of the number). `inputs` and `outputs` are buffers.
    """

    first: int
    end: int
    grids: tuple[tuple[int, int, int], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Carried:
    """An input of a run that is an output of the previous run, of `size` bytes."""

    input: str
    output: str
    size: int


@dataclass(frozen=True)
class Run:
    """
    A run of a routine. `numbers` are the sizes and push constants that differ between runs, and
    `outputs` the bytes to return of each output. Inputs that are outputs of the previous run are
    in `carried`, all others in `inputs`.
    """

    routine: str
    numbers: tuple[int, ...]
    inputs: Mapping[str, bytes | bytearray | memoryview]
    outputs: tuple[int, ...]
    carried: tuple[Carried, ...] = ()


@dataclass(frozen=True)
class Work:
    """
    Steps in order. `subgroup_size` is the size for which every kernel was compiled, None for any.

    `routines` run one at a time. Buffers that only one of the routines uses may grow.
    """

    buffers: tuple[WorkBuffer, ...]
    kernels: Mapping[str, bytes]
    steps: tuple[Step, ...]
    subgroup_size: int | None = None
    target: str = ""
    """The target for which the work was compiled, for messages."""
    component_map: str | None = None
    """The target whose map of matrix components to invocations kernels need, or None."""
    weights: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """Bytes of weights, and the initial contents of states."""
    routines: Mapping[str, Routine] = field(default_factory=dict[str, Routine])

    def buffer(self, name: str) -> WorkBuffer:
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise ProgramError(
            f"the buffer {name!r} does not exist", "", "name one of the work's buffers"
        )

    def named(self, *kinds: BufferKind) -> list[WorkBuffer]:
        return [buffer for buffer in self.buffers if buffer.kind in kinds]

    def lifetimes(self) -> dict[str, tuple[int, int]]:
        """
        Maps the name of each temporary to the numbers of the first and the last step that use it.

        A temporary that only the first run computes is in use from step 0 to the end.
        """
        spans: dict[str, tuple[int, int]] = {}
        temporary = {buffer.name for buffer in self.named("temporary")}
        for index, step in enumerate(self.steps):
            for name in step.buffers:
                if name in temporary:
                    spans[name] = (spans.get(name, (index, index))[0], index)
        kept = {name for step in self.steps if step.once for name in step.buffers} & temporary
        return spans | dict.fromkeys(kept, (0, len(self.steps)))
