"""
Compiles and launches tile programs. Products and attentions become functions on tensors, which are
compiled like models (`raise-tiles`). Other programs are lowered tile by tile (`lower-tiles`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    """A program that is compiled tile by tile for a target."""

    name: str
    program: tile.ProgramOp
    kernels: ModuleOp
    binary: bytes
    pushed: Sequence[tuple[int, int]]
    """
    For each number that the launch passes: the index of an argument, and the axis of this argument
    whose size is passed.
    """
    target: Target
    names: Sequence[str]
    """The parameter of each argument."""
    way: str = "tile by tile"
    """The way of compilation, and the reason why the program is not a function on tensors."""

    def run(
        self,
        arrays: Mapping[str, Array],
        numbers: Mapping[str, Any],
        device: str,
        checks: Any = None,
        grid: tuple[int, int, int] | None = None,
    ) -> dict[str, Array]:
        """
        Runs the program on arrays, with the scalar arguments `numbers`. Returns the arrays with
        their new contents.
        """
        from xdsl_spirv.interpreter.host.tiles import grid_of

        order = {**arrays, **numbers}
        values = [order[name] for name in self.names]
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
            results[self.names[n]] = octets[: given.nbytes].view(given.dtype).reshape(given.shape)
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
        """
        Returns the launch in the form that a device executes. `held` are the buffers by argument
        index, `push` are the push constants.
        """
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
    """A program compiled as a function on tensors, which takes only nonnegative scalars."""

    traced: Traced
    target: str
    compiled: Program
    stored: Sequence[str]
    """The parameters that are the function's results, in order."""
    shapes: Mapping[str, Sequence[int]]
    """Maps the parameter of each view to the shape of the view in the compiled function."""
    way = "as a function on tensors"

    def run(
        self,
        arrays: Mapping[str, Array],
        numbers: Mapping[str, Any],
        device: str,
        checks: Any = None,
        grid: tuple[int, int, int] | None = None,
    ) -> dict[str, Array]:
        """
        Runs the compiled function. Returns the arrays with their new contents.

        If a scalar argument is negative, the program is lowered tile by tile instead. `grid` is
        used only in this case, because a compiled function has its own grid.
        """
        from xdsl_spirv.runtime.execution import run

        buffers = [b.name for b in self.compiled.manifest.buffers if b.kind in ("input", "scalar")]
        names = {name: self.traced.hints[name] for name in buffers}
        if any(numbers[name] < 0 for name in names.values() if name in numbers):
            lowered = lower_tiles(self.traced, self.target)
            return lowered.run(arrays, numbers, device, checks, grid)
        given = {n: a.reshape(self.shapes[n]) for n, a in arrays.items()}
        values = {**given, **numbers}
        inputs = {buffer: values[name] for buffer, name in names.items()}
        results = run(self.compiled, inputs, device, checks)
        return {**arrays, **dict(zip(self.stored, results.values(), strict=True))}

    @property
    def work(self) -> Any:
        """Returns the launch in the form that a device executes."""
        from xdsl_spirv.runtime.vulkan.programs import work_of

        return work_of(self.compiled)


def _word(value: Any, axis: int) -> int:
    if isinstance(value, np.ndarray):
        return value.shape[axis]
    if isinstance(value, float | np.floating):
        return int(np.float32(value).view(np.uint32))
    return int(value) & 0xFFFFFFFF


def _in_words(value: Array) -> Array:
    octets = np.zeros(-(-value.nbytes // 4) * 4, np.uint8)
    octets[: value.nbytes] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return octets


def raise_program(
    traced: Traced,
    target: str,
    grid: Sequence[int] | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> RaisedProgram:
    """
    Compiles a program as a function on tensors. If the program does not contain `tile.place`, the
    `grid` of workgroups and the `numbers` of the launch are required.

    Raises `NotRaised` if the program cannot be expressed as a function, if the target does not
    support the function, or if its temporaries need more memory than the arguments: the program
    keeps these values in registers, which is faster.
    """
    from xdsl_spirv.compiler import compile_module
    from xdsl_spirv.passes.graph.place_tiles import placed_programs
    from xdsl_spirv.passes.graph.raise_tiles import raise_program
    from xdsl_spirv.passes.graph.tile_nodes import NotRaised

    program, hints, numbers = traced.program, traced.hints, numbers or {}
    known = {
        argument.index: numbers[name]
        for argument, name in zip(program.body.block.args, traced.names, strict=True)
        if not isinstance(argument.type, tile.ViewType) and name in numbers
    }
    places = [program] if grid is None else placed_programs(program, grid, known)
    cause: Exception | None = None
    for placed in places:
        try:
            compiled = compile_module(ModuleOp([raise_program(placed)]), target)
        except (NotRaised, PassFailedException) as error:
            cause = cause or error
            continue
        views = {
            hints[a.name_hint or ""]: a.type
            for a in placed.body.block.args
            if isinstance(a.type, tile.ViewType)
        }
        given = sum(prod(v.shape) * v.element.bitwidth // 8 for v in views.values())  # pyright: ignore
        if (compiled.manifest.memory or 0) > given:
            raise NotRaised("tensors for intermediate values would be larger than the arguments")
        stored = [
            hints[op.view.name_hint or ""] for op in placed.walk() if isinstance(op, tile.StoreOp)
        ]
        shapes = {name: view.shape for name, view in views.items()}
        return RaisedProgram(traced, target, compiled, stored, shapes)
    raise NotRaised(str(cause))


def lower_program(
    traced: Traced,
    target: str | None = None,
    *,
    device: str = "interpreter",
    subgroups: Sequence[int] = (),
    instruction: str = "",
    grid: Sequence[int] | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> LoweredProgram | RaisedProgram:
    """
    Compiles a program for a target, or for the target of a device.

    The program is compiled as a function on tensors, for `grid` and `numbers`, if that is possible.
    Otherwise, or if `subgroups` or `instruction` is given, it is compiled tile by tile.

    Raises `PassFailedException` for features that the target does not support.
    """
    from xdsl_spirv.passes.graph.tile_nodes import NotRaised

    if target is None:
        if device == "interpreter":
            raise KernelError("no target is named", "target", 'write target="nvidia-h200"')
        from xdsl_spirv.runtime.vulkan.own_target import own_target

        target = own_target(device)
    if subgroups or instruction:
        return lower_tiles(traced, target, subgroups, instruction)
    try:
        return raise_program(traced, target, grid, numbers)
    except NotRaised as error:
        return replace(lower_tiles(traced, target), way=f"tile by tile: {error}")


def lower_tiles(
    traced: Traced, target: str, subgroups: Sequence[int] = (), instruction: str = ""
) -> LoweredProgram:
    """Lowers a program tile by tile to a kernel."""
    from xdsl_spirv.compiler.tiles import lower_to_spirv
    from xdsl_spirv.dialects.schedule.push_constants import sizes_of
    from xdsl_spirv.serialization.encode.encoder import encode

    program = traced.program
    name = program.sym_name.data
    kernels, made = lower_to_spirv(program, target, tuple(subgroups), instruction)
    binary = encode(traced.lines.added_to(made), names=True, lines=True)
    pushed = sizes_of(made, name)
    return LoweredProgram(name, program, kernels, binary, pushed, load(target), traced.names)
