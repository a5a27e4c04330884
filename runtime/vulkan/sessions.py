"""
Opens sessions on a Vulkan device: converts functions to routines, and inputs to sizes.

Everything that depends on sizes is an expression of a few names. A function's distinct expressions
are parsed once and evaluated together at each run. A run with the same sizes as an earlier run
repeats only this evaluation. Buffers are allocated for the largest values of scalar inputs that
fit the present shapes of the other inputs, so that the next token needs no new memory. Push
constants are inputs of a routine, so that its commands do not depend on their values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from xdsl_spirv.runtime.concrete_sizes import MAX_ELEMENTS
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import Number, evaluate, function_of, names_in
from xdsl_spirv.runtime.given import push_constant_bytes
from xdsl_spirv.runtime.manifest import SHARED, Buffer, Dispatch
from xdsl_spirv.runtime.session import Later, Session
from xdsl_spirv.runtime.vulkan.numbers import read_from_buffer
from xdsl_spirv.runtime.vulkan.programs import bytes_of, constants_of
from xdsl_spirv.runtime.vulkan.work import Carried, Routine, Run, Step, Work, WorkBuffer

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.checks import Checks
    from xdsl_spirv.runtime.program import Program
    from xdsl_spirv.runtime.vulkan.device import VulkanDevice
    from xdsl_spirv.runtime.vulkan.worker import IsolatedDevice

Sizes = Mapping[str, int]

GREATEST = (1 << 31) - 1
"""Maximum value of a scalar input."""


@dataclass(frozen=True)
class Output:
    """
    An output buffer. A negative number s in its shape stands for the value of the function's
    expression number -1 - s.
    """

    buffer: Buffer
    name: str
    sizes: tuple[int, ...]

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        return dtype_of(self.buffer.type)

    def shape(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape for these values of the function's expressions."""
        return tuple(size if size >= 0 else numbers[-1 - size] for size in self.sizes)


@dataclass(frozen=True)
class Block:
    """Push constants of dispatches: constant bytes, and pairs (offset, index of an expression)."""

    constant: bytes
    numbers: tuple[tuple[int, int], ...]

    def pack(self, numbers: tuple[int, ...]) -> bytes:
        """Returns the block's bytes, which contain values of `numbers` as unsigned integers."""
        block = bytearray(self.constant)
        for offset, number in self.numbers:
            struct.pack_into("<I", block, offset, numbers[number] & 0xFFFFFFFF)
        return bytes(block)


class FunctionPlan:
    """A function's expressions, and the routine that receives their values."""

    def __init__(self, program: Program, first: int):
        self.program, self.first = program, first
        manifest = program.manifest
        if manifest.loops:
            raise ProgramError(
                "a session on a device does not support a function with a loop",
                f"function {manifest.function!r}",
                "run the program without a session, or on the interpreter",
            )
        self.prefix = f"{manifest.function}/"
        self.own = [b for b in manifest.buffers if b.kind not in (*SHARED, "scalar")]
        self.same_kind: dict[tuple[tuple[Number, ...], str], tuple[Buffer, list[str]]] = {}
        """Groups of buffers with equal shape and type: the first one, and all names."""
        for b in self.own:
            _, same_kind = self.same_kind.setdefault((b.shape, b.type), (b, []))
            same_kind.append(self.name(b))
        self.scalars = [b.name for b in manifest.inputs if b.kind == "scalar"]
        self.names = sorted({n for b in manifest.inputs for n in b.shape if isinstance(n, str)})
        self.names += self.scalars
        self.texts: dict[str, int] = {}
        grids: list[tuple[int, int, int]] = []
        self.blocks: dict[Block, str] = {}
        """Buffer names by the push constants that they contain."""
        self.numbered: dict[int, str] = {}
        """Names of the buffers that contain push constants, by dispatch index."""
        for step, dispatch in enumerate(manifest.dispatches, first):
            for axis, count in enumerate(dispatch.grid):
                if isinstance(count, str):
                    grids.append((step, axis, self._number(count)))
            if any(isinstance(c.value, str) for c in dispatch.push_constants):
                name = f"{self.prefix}numbers.{len(self.blocks)}"
                self.numbered[step - first] = self.blocks.setdefault(self._block(dispatch), name)
        self.outputs = [
            Output(b, self.name(b), tuple(map(self._number_or_size, b.shape)))
            for b in manifest.outputs
        ]
        self.following: dict[tuple[tuple[int, ...], str], list[str]] = {}
        """Names of the buffers whose sizes depend on scalar inputs, by (shape, element type)."""
        for b in self.own:
            if self._follows(b):
                key = tuple(map(self._number_or_size, b.shape)), b.type
                self.following.setdefault(key, []).append(self.name(b))
        self.numbers: Callable[..., tuple[int, ...]] = function_of(list(self.texts), self.names)
        self.routine = Routine(
            first,
            first + len(manifest.dispatches),
            tuple(grids),
            (*(self.name(b) for b in manifest.inputs if b.kind == "input"), *self.blocks.values()),
            tuple(self.name(b) for b in manifest.outputs),
        )
        self.placed: dict[str, int] = {}
        self.fitting: set[tuple[int, ...]] = set()
        """Input sizes for which memory is allocated, for any values of the scalar inputs."""

    def _number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _block(self, dispatch: Dispatch) -> Block:
        constants = dispatch.push_constants
        numbers = [(c.offset, self._number(c.value)) for c in constants if isinstance(c.value, str)]
        constant = push_constant_bytes(_without_numbers(dispatch))
        return Block(constant.ljust(-(-len(constant) // 16) * 16, b"\0"), tuple(numbers))

    def _number_or_size(self, size: Number) -> int:
        return size if isinstance(size, int) else -1 - self._number(size)

    def run(
        self,
        inputs: Mapping[str, Array],
        sizes: Sizes,
        outputs: Collection[str],
        carried: Sequence[Carried] = (),
    ) -> Run:
        """
        Returns a run with these inputs and sizes, which returns only the results in `outputs`. The
        inputs in `carried` are results of the previous run.
        """
        numbers, names = self.values(sizes), {c.input for c in carried}
        arrays = {self.prefix + n: array for n, array in inputs.items() if n not in self.scalars}
        given = {n: bytes_of(array) for n, array in arrays.items() if n not in names}
        given |= {name: block.pack(numbers) for block, name in self.blocks.items()}
        bytes = self.sizes_of(numbers, outputs)
        return Run(self.program.manifest.function, numbers, given, bytes, tuple(carried))

    def sizes_of(self, numbers: tuple[int, ...], names: Collection[str]) -> tuple[int, ...]:
        """
        Returns the bytes of each output, computed with `numbers`, the values of the expressions in
        the function's sizes. An output that is not in `names` has 0 bytes.
        """
        return tuple(
            prod(o.shape(numbers)) * o.dtype.itemsize if o.buffer.name in names else 0
            for o in self.outputs
        )

    def _follows(self, buffer: Buffer) -> bool:
        return any(name in self.scalars for size in buffer.shape for name in names_in(size))

    def name(self, buffer: Buffer) -> str:
        """Returns a buffer's name on the device, with a prefix if functions do not share it."""
        return buffer.name if buffer.kind in SHARED else self.prefix + buffer.name

    def steps(self) -> list[Step]:
        """Returns the dispatches. Grid sizes that are not known yet are 0."""
        kernels = {kernel.name: kernel for kernel in self.program.manifest.kernels}
        kinds = {b.name: self.name(b) for b in self.program.manifest.buffers}
        return [
            Step(
                kernel=_name_numbered(dispatch.kernel) if n in self.numbered else dispatch.kernel,
                entry_point=dispatch.entry_point,
                grid=tuple(n if isinstance(n, int) else 0 for n in dispatch.grid),  # type: ignore[arg-type]
                bindings=tuple((b.set, b.binding, kinds[b.buffer]) for b in dispatch.bindings),
                constants=constants_of(dispatch, kernels[dispatch.kernel]),
                push=b"" if n in self.numbered else push_constant_bytes(dispatch),
                once=dispatch.once,
                numbers=(*_place_of_numbers(dispatch), self.numbered[n])
                if n in self.numbered
                else None,
            )
            for n, dispatch in enumerate(self.program.manifest.dispatches)
        ]

    def kernels(self) -> dict[str, bytes]:
        """Returns the kernels that read their push constants from a buffer."""
        dispatches = [self.program.manifest.dispatches[n] for n in self.numbered]
        places = {d.kernel: _place_of_numbers(d) for d in dispatches}
        return {
            _name_numbered(name): read_from_buffer(self.program.code[name].binary, *place)
            for name, place in places.items()
        }

    def values(self, sizes: Sizes) -> tuple[int, ...]:
        """Returns the values of all expressions, in order."""
        return self.numbers(*(sizes[name] for name in self.names))

    def bytes(self, buffer: Buffer, sizes: Sizes) -> int:
        """Returns a buffer's size in bytes. Raises `ProgramError` for too many elements."""
        place = f"buffer {buffer.name!r}"
        shape = [evaluate(size, sizes, place) for size in buffer.shape]
        if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
            shown = ", ".join(f"{name} = {sizes[name]}" for name in self.names)
            raise ProgramError(
                f"{buffer} is {'x'.join(map(str, shape))} with {shown}, but a buffer "
                f"can have only 0 to {MAX_ELEMENTS} elements",
                place,
                "give other sizes",
            )
        return prod(shape) * dtype_of(buffer.type).itemsize

    def larger(self, sizes: Sizes) -> dict[str, int]:
        """Returns the new sizes in bytes of the buffers that are too small, usually none."""
        dims = tuple(sizes[name] for name in self.names if name not in self.scalars)
        numbers = self.values(sizes)
        wanted: dict[str, int] = {}
        if dims not in self.fitting:
            roomy = self._roomy(sizes)
            for buffer, names in self.same_kind.values():
                size = self._most(buffer, sizes)
                if any(size > self.placed[name] for name in names):
                    wanted |= dict.fromkeys(names, max(size, self._most(buffer, roomy)))
            self.fitting.add(dims)
        for (shape, type), names in self.following.items():
            size = bytes_at(shape, numbers, type)
            wanted |= {n: size for n in names if size > max(wanted.get(n, -1), self.placed[n])}
        return {name: size for name, size in wanted.items() if size > self.placed.get(name, -1)}

    def _roomy(self, sizes: Sizes) -> Sizes:
        """Rounds the sizes of inputs up to powers of two, so that memory is rarely reallocated."""
        dims = [name for name in self.names if name not in self.scalars]
        roomy = {**sizes, **{name: 1 << max(sizes[name] - 1, 0).bit_length() for name in dims}}
        try:
            for buffer, _ in self.same_kind.values():
                self.bytes(buffer, roomy)
        except ProgramError:
            return sizes
        return roomy if self._is_allowed(roomy) else sizes

    def _most(self, buffer: Buffer, sizes: Sizes) -> int:
        """Returns the maximum size of a buffer in bytes, for any values of the scalar inputs."""
        least = self.bytes(buffer, sizes)
        if not self._follows(buffer):
            return least
        for name in self.scalars:
            for end in (0, self._end(name, sizes)):
                try:
                    least = max(least, self.bytes(buffer, {**sizes, name: end}))
                except ProgramError:
                    # A run with these sizes would be refused.
                    continue
        return least

    def _is_allowed(self, sizes: Sizes) -> bool:
        return all(
            evaluate(limit.size, sizes, "limits") <= evaluate(limit.most, sizes, "limits")
            for limit in self.program.manifest.limits
        )

    def _end(self, name: str, sizes: Sizes) -> int:
        """
        Returns the largest value of a scalar input that all limits allow with the sizes of the
        other inputs. Without a limit, returns twice the present value.
        """

        def is_allowed(value: int) -> bool:
            return self._is_allowed({**sizes, name: value})

        low = sizes[name]
        if is_allowed(GREATEST) or not is_allowed(low):
            # Without a limit, the buffer gets space to grow.
            return 2 * low
        high = GREATEST
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_allowed(middle) else (low, middle)
        return low


def bytes_at(shape: tuple[int, ...], numbers: tuple[int, ...], type: str) -> int:
    """Returns the bytes of a shape. A size of -1 - n stands for `numbers[n]`."""
    sizes = [size if size >= 0 else numbers[-1 - size] for size in shape]
    if min(sizes, default=0) < 0 or prod(sizes) > MAX_ELEMENTS:
        raise ProgramError(
            f"a size gives a buffer of {'x'.join(map(str, sizes))}x{type}, but buffers have only "
            f"0 to {MAX_ELEMENTS} elements",
            "",
            "give other sizes",
        )
    return prod(sizes) * dtype_of(type).itemsize


def _name_numbered(kernel: str) -> str:
    """Returns the name of a kernel that reads its push constants from a buffer."""
    return f"{kernel} by numbers"


def _place_of_numbers(dispatch: Dispatch) -> tuple[int, int]:
    """Returns a (set, binding) that the kernel does not use."""
    last = max((b.set for b in dispatch.bindings), default=0)
    return last, 1 + max((b.binding for b in dispatch.bindings if b.set == last), default=-1)


def _without_numbers(dispatch: Dispatch) -> Dispatch:
    def static(value: Number | float) -> int | float:
        return 0 if isinstance(value, str) else value

    constants = (replace(c, value=static(c.value)) for c in dispatch.push_constants)
    return replace(dispatch, push_constants=tuple(constants))


class VulkanSession(Session):
    """A session on an open device, which the session closes if `owns` is True."""

    def __init__(self, program: Program, device: VulkanDevice | IsolatedDevice, owns: bool = False):
        super().__init__(program)
        self.device: Any = device
        self.owns = owns
        self.runs_ahead = device.info.kind != "CPU"
        """
        True if the device starts the likely next run before it is requested. A CPU has no idle time
        for it.
        """
        self.loaded: Any = None
        self.functions: dict[str, FunctionPlan] = {}
        first = 0
        for name, function in program.functions.items():
            self.functions[name] = FunctionPlan(function, first)
            first += len(function.manifest.dispatches)
        try:
            self.loaded = device.load(self._work())
        except BaseException:
            self.close()
            raise

    def _work(self) -> Work:
        """Returns the `Work` of all functions, with each buffer as small as possible."""
        buffers: dict[str, WorkBuffer] = {}
        manifest = self.program.manifest
        for plan in self.functions.values():
            for b in plan.program.manifest.buffers:
                if b.kind == "scalar":
                    continue
                size = b.bytes if not b.is_dynamic else 0
                buffers.setdefault(plan.name(b), WorkBuffer(plan.name(b), size, b.kind))
            for block, name in plan.blocks.items():
                buffers[name] = WorkBuffer(name, len(block.constant), "input")
            plan.placed = {plan.name(b): buffers[plan.name(b)].size for b in plan.own}
        values = {**self.program.weights, **self.program.first_values()}
        return Work(
            buffers=tuple(buffers.values()),
            kernels={name: code.binary for name, code in self.program.code.items()}
            | {
                name: code
                for plan in self.functions.values()
                for name, code in plan.kernels().items()
            },
            steps=tuple(step for plan in self.functions.values() for step in plan.steps()),
            subgroup_size=manifest.subgroup_size,
            target=manifest.target,
            component_map=manifest.component_map,
            weights={n: bytes_of(np.asarray(a)) for n, a in values.items() if n in buffers},
            routines={name: plan.routine for name, plan in self.functions.items()},
        )

    def _prepare(self, function: Program, sizes: Sizes) -> None:
        plan = self.functions[function.manifest.function]
        if larger := plan.larger(sizes):
            self.device.place(self.loaded, larger)
            self._ran.clear()
            plan.placed |= larger

    def _run(
        self,
        function: Program,
        inputs: Mapping[str, Array],
        sizes: Sizes,
        checks: Checks | None,
        outputs: Sequence[str],
        later: Later | None = None,
    ) -> dict[str, Array]:
        plan = self.functions[function.manifest.function]
        run, following = plan.run(inputs, sizes, outputs), None
        if later is not None and self.runs_ahead:
            carried = [
                Carried(plan.prefix + name, plan.prefix + result, later.inputs[name].nbytes)
                for name, result in later.carried.items()
            ]
            following = plan.run(later.inputs, later.sizes, outputs, carried)
        results = self.loaded.run_routine(run, self.device.timeout, following)
        return {
            output.buffer.name: np.frombuffer(results[output.name], output.dtype).reshape(
                output.shape(run.numbers)
            )
            for output in plan.outputs
            if output.buffer.name in outputs
        }

    def _read_rows(self, function: Program, output: str, rows: slice) -> Array:
        plan = self.functions[function.manifest.function]
        (known,) = (o for o in plan.outputs if o.buffer.name == output)
        sizes = self._ran[function.manifest.function]
        whole, *row = known.shape(plan.values(sizes)) or (1,)
        size = prod(row) * known.dtype.itemsize
        first, end, _ = rows.indices(whole)
        data = self.loaded.read(known.name, self.device.timeout, first * size, (end - first) * size)
        return np.frombuffer(data, known.dtype).reshape(end - first, *row)

    def _refuse(self, checks: Checks | None) -> None:
        if checks is not None:
            raise ProgramError(
                "a device cannot check for undefined behaviour", "", "run on the interpreter"
            )

    def _read(self) -> dict[str, Array]:
        timeout = self.device.timeout
        return {
            name: np.frombuffer(self.loaded.read(name, timeout), dtype_of(buffer.type))
            .reshape(buffer.sizes)
            .copy()
            for name, buffer in self.states.items()
        }

    def _write(self, states: Mapping[str, Array]) -> None:
        for name, array in states.items():
            self.loaded.write(name, bytes_of(array), self.device.timeout)

    def close(self) -> None:
        """Frees the session's device resources. Does nothing if called again."""
        if self.loaded is not None:
            self.device.unload(self.loaded)
        self.loaded = None
        if self.owns:
            self.device.close()
