"""
A tile program for a target, and launches of it: as a product or an attention of a model is compiled
where it has that form (`raise-tiles`), tile by tile (`lower-tiles`) elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects import tile
from xdsl_spirv.kernels.tracer import KernelError
from xdsl_spirv.targets import Target, load

if TYPE_CHECKING:
    from xdsl_spirv.kernels.tile_tracer import Traced
    from xdsl_spirv.runtime.program import Program

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class LoweredProgram:
    """A program's kernel for a target."""

    name: str
    program: tile.ProgramOp
    kernels: ModuleOp
    binary: bytes
    pushed: Sequence[tuple[int, int]]
    """The argument and the axis of each size or number that the launch gives."""
    target: Target

    def run(
        self,
        arrays: Mapping[str, Array],
        numbers: Mapping[str, Any],
        device: str,
        checks: Any = None,
        grid: tuple[int, int, int] | None = None,
    ) -> dict[str, Array]:
        """The arrays as they are afterwards."""
        from xdsl_spirv.interpreter.host.tiles import grid_of

        order = {**arrays, **numbers}
        names = [argument.name_hint for argument in self.program.body.block.args]
        values = [order[name or ""] for name in names]
        sizes = {n: v.shape for n, v in enumerate(values) if isinstance(v, np.ndarray)}
        push = np.array([_word(values[n], axis) for n, axis in self.pushed], np.uint32).tobytes()
        held = {n: _in_words(v) for n, v in enumerate(values) if isinstance(v, np.ndarray)}
        grid = grid or grid_of(self.program, sizes)
        if device == "interpreter":
            self._interpret(held, push, grid, checks)
        else:
            self._on_device(held, push, grid, device)
        results: dict[str, Array] = {}
        for n, octets in held.items():
            given = values[n]
            results[names[n] or ""] = octets[: given.nbytes].view(given.dtype).reshape(given.shape)
        return results

    def _interpret(
        self, held: dict[int, Array], push: bytes, grid: tuple[int, int, int], checks: Any
    ) -> None:
        from xdsl_spirv.interpreter import Options, dispatch
        from xdsl_spirv.interpreter.options import mapping_of
        from xdsl_spirv.serialization.decode.decoder import decode

        buffers = {(0, n): octets for n, octets in held.items()}
        options = Options(
            subgroup_size=self.target.subgroup_size,
            component_mapping=mapping_of(self.target.name),
            checks=checks,
        )
        module = decode(self.binary)
        dispatch(module, self.name, grid, buffers, push_constants=push, options=options)

    def _on_device(
        self, held: dict[int, Array], push: bytes, grid: tuple[int, int, int], device: str
    ) -> None:
        from xdsl_spirv.runtime.vulkan.worker import open_isolated

        with open_isolated(device) as opened:
            loaded = opened.load(self.work(held, push, grid))
            loaded.run({f"b{n}": a.tobytes() for n, a in held.items()}, opened.timeout)
            for n, octets in held.items():
                octets[:] = np.frombuffer(loaded.read(f"b{n}", opened.timeout), np.uint8)

    def work(self, held: Mapping[int, Array], push: bytes, grid: tuple[int, int, int]) -> Any:
        """The launch as a device takes it."""
        from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer

        bound = tuple((0, n, f"b{n}") for n in held)
        return Work(
            buffers=tuple(WorkBuffer(f"b{n}", a.nbytes, "input") for n, a in held.items()),
            kernels={"kernel": self.binary},
            steps=(Step("kernel", self.name, grid, bound, (), push),),
            subgroup_size=self.target.subgroup_size,
        )


@dataclass(frozen=True)
class RaisedProgram:
    """A program that is compiled as a function on tensors, whose numbers are 0 or more."""

    traced: Traced
    target: str
    compiled: Program
    stored: Sequence[str]
    """The views that are the function's results, in their order."""

    def run(
        self,
        arrays: Mapping[str, Array],
        numbers: Mapping[str, Any],
        device: str,
        checks: Any = None,
        grid: tuple[int, int, int] | None = None,
    ) -> dict[str, Array]:
        """The arrays as they are afterwards; the schedule says the grid."""
        if any(number < 0 for number in numbers.values()):
            lowered = lower_tiles(self.traced, self.target)
            return lowered.run(arrays, numbers, device, checks, grid)
        from xdsl_spirv.runtime.execution import run

        given = {**arrays, **numbers}
        names = [b.name for b in self.compiled.manifest.buffers if b.kind in ("input", "scalar")]
        results = run(self.compiled, {name: given[name] for name in names}, device, checks)
        return {**arrays, **dict(zip(self.stored, results.values(), strict=True))}

    @property
    def work(self) -> Any:
        """The launch as a device takes it."""
        from xdsl_spirv.runtime.vulkan.programs import work_of

        return work_of(self.compiled)


def _word(value: Any, axis: int) -> int:
    """A size, or a number's bits."""
    if isinstance(value, np.ndarray):
        return value.shape[axis]
    if isinstance(value, float | np.floating):
        return int(np.float32(value).view(np.uint32))
    return int(value) & 0xFFFFFFFF


def _in_words(value: Array) -> Array:
    """An array's bytes, up to a whole word."""
    octets = np.zeros(-(-value.nbytes // 4) * 4, np.uint8)
    octets[: value.nbytes] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return octets


def raise_program(traced: Traced, target: str) -> RaisedProgram | None:
    """
    A program compiled as a function on tensors.

    None where it has no such form, where the target refuses it, and where its temporaries would
    take more memory than its arguments: tiles that are never stored are then better.
    """
    from xdsl_spirv.compiler import compile_module
    from xdsl_spirv.passes.graph.raise_tiles import raise_program
    from xdsl_spirv.passes.graph.tile_nodes import NotRaised

    program = traced.program
    views = [a.type for a in program.body.block.args if isinstance(a.type, tile.ViewType)]
    try:
        compiled = compile_module(ModuleOp([raise_program(program)]), target)
    except (NotRaised, PassFailedException):
        return None
    given = sum(prod(view.shape) * view.element.bitwidth // 8 for view in views)  # pyright: ignore
    if (compiled.manifest.memory or 0) > given:
        return None
    stored = [op.view.name_hint or "" for op in program.walk() if isinstance(op, tile.StoreOp)]
    return RaisedProgram(traced, target, compiled, stored)


def lower_program(
    traced: Traced,
    target: str | None = None,
    *,
    device: str = "interpreter",
    subgroups: Sequence[int] = (),
    instruction: str = "",
    may_raise: bool = True,
) -> LoweredProgram | RaisedProgram:
    """
    A program for a target, or for the target of a device; `subgroups` and `instruction` are of a
    kernel tile by tile, which it also is where the launch gives the grid (not `may_raise`).

    Raises `PassFailedException` for features that the target does not have.
    """
    if target is None:
        if device == "interpreter":
            raise KernelError("no target is named", "target", 'write target="nvidia-h200"')
        from xdsl_spirv.runtime.vulkan.own_target import own_target

        target = own_target(device)
    raised = None if subgroups or instruction or not may_raise else raise_program(traced, target)
    return raised or lower_tiles(traced, target, subgroups, instruction)


def lower_tiles(
    traced: Traced, target: str, subgroups: Sequence[int] = (), instruction: str = ""
) -> LoweredProgram:
    """The kernel of a program, tile by tile."""
    from xdsl_spirv.compiler.tiles import lower_to_spirv
    from xdsl_spirv.dialects.schedule.push_constants import sizes_of
    from xdsl_spirv.serialization.encode.encoder import encode

    program = traced.program
    name = program.sym_name.data
    kernels, made = lower_to_spirv(program, target, tuple(subgroups), instruction)
    binary = encode(traced.lines.added_to(made), names=True, lines=True)
    return LoweredProgram(name, program, kernels, binary, sizes_of(made, name), load(target))
