"""
Specializes a program with dynamic sizes to the sizes of its inputs. Kernels are not changed.

Shapes, grids and push constants become the values of their expressions. Temporaries get new
offsets. Loops are unrolled to the dispatches of each step. Dispatches with an empty grid are left
out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl_spirv.runtime.buffers import assign
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import Number, evaluate, function_of, is_name, names_in
from xdsl_spirv.runtime.launches import room_of
from xdsl_spirv.runtime.manifest import Buffer, Dispatch, Loop, Manifest, PushConstant

MOST_DISPATCHES = 1 << 20
"""Maximum number of dispatches of an unrolled loop, which are all in one command buffer."""

MAX_ELEMENTS = 2**31 - 1
"""
Maximum number of elements of a buffer. Kernels count in 32-bit integers, and may compare them as
signed.
"""


def sizes_of(manifest: Manifest, inputs: Mapping[str, Array]) -> dict[str, int]:
    """
    Returns the named sizes, from the shapes of the inputs.

    Raises `ProgramError` for an input that is missing or does not fit, and for inputs that
    contradict each other.
    """
    known_sizes: dict[str, tuple[int, str, int]] = {}
    for buffer in manifest.inputs:
        array = inputs.get(buffer.name)
        if array is None:
            wanted = ", ".join(f"{b.name}: {b}" for b in manifest.inputs)
            raise ProgramError(
                f"the input {buffer.name!r} is missing",
                f"inputs: {wanted}",
                f"give --input {buffer.name}=x.npy",
            )
        array = buffer.accept(array)
        if buffer.kind == "scalar":
            known_sizes[buffer.name] = (int(array), buffer.name, 0)
        for dimension, (size, given) in enumerate(zip(buffer.shape, array.shape, strict=True)):
            if not is_name(size):
                continue
            known, name, place = known_sizes.setdefault(str(size), (given, buffer.name, dimension))
            if known != given:
                raise ProgramError(
                    f"dimension {place} of {name!r} and dimension {dimension} of {buffer.name!r} "
                    f"must both be {size}, but they are {known} and {given}",
                    f"input {buffer.name!r}",
                    f"give inputs that agree on {size}",
                )
    sizes = {name: given for name, (given, _, _) in known_sizes.items()}
    _check_equations(manifest, inputs, sizes)
    check_limits(manifest, sizes)
    return sizes


def _show_array(array: Array) -> str:
    return "x".join(map(str, array.shape)) or "a scalar"


def _check_equations(
    manifest: Manifest, inputs: Mapping[str, Array], sizes: Mapping[str, int]
) -> None:
    for equation in manifest.equal:
        left, right = (evaluate(e, sizes, "equal") for e in (equation.left, equation.right))
        if left != right:
            given = ", ".join(f"{name}: {_show_array(array)}" for name, array in inputs.items())
            reason = f", as {equation.because} needs" if equation.because else ""
            raise ProgramError(
                f"{equation.left} is {left} and {equation.right} is {right}, but they "
                f"must be equal{reason}",
                f"inputs: {given}",
                "give inputs whose sizes agree",
            )


def check_limits(manifest: Manifest, sizes: Mapping[str, int]) -> None:
    """Raises `ProgramError` for a size that exceeds its limit."""
    for limit in manifest.limits:
        size, most = (evaluate(e, sizes, "limits") for e in (limit.size, limit.most))
        if size > most:
            names = dict.fromkeys((*names_in(limit.size), *names_in(limit.most)))
            shown = ", ".join(f"{name} = {sizes[name]}" for name in names)
            reason = f", as {limit.because} needs" if limit.because else ""
            raise ProgramError(
                f"{limit.size} is {size}, but must be at most "
                f"{_with_value(limit.most, most)}{reason}",
                shown,
                "use smaller numbers, or compile the program with a larger capacity",
            )


def _with_value(size: Number, value: int) -> str:
    return str(value) if isinstance(size, int) else f"{size} = {value}"


def at_sizes(manifest: Manifest, sizes: Mapping[str, int]) -> tuple[Manifest, list[int]]:
    """
    Returns the manifest with concrete sizes, and the former index of each of its dispatches.

    Dispatches with an empty grid are left out. Raises `ProgramError` for sizes beyond the range of
    the 32-bit integers of kernels.
    """
    buffers = [_buffer(buffer, sizes) for buffer in manifest.buffers]
    steps = dict.fromkeys((loop.counter for loop in manifest.loops), 0)
    dispatches = [_dispatch(dispatch, {**sizes, **steps}) for dispatch in manifest.dispatches]
    repeated = list(_repeat_loops(manifest, dispatches, sizes))
    numbers = [n for n, concrete in repeated if math.prod(concrete.workgroups)]
    kept = tuple(concrete for _, concrete in repeated if math.prod(concrete.workgroups))
    assigned = assign(buffers, dispatches if manifest.loops else kept, manifest.loops)
    concrete = replace(
        manifest,
        buffers=assigned.buffers,
        dispatches=kept,
        memory=assigned.needed or None,
        equal=(),
        limits=(),
        loops=(),
    )
    return concrete, numbers


def _repeat_loops(
    manifest: Manifest, dispatches: Sequence[Dispatch], sizes: Mapping[str, int]
) -> Iterator[tuple[int, Dispatch]]:
    """Yields (index, dispatch) for all dispatches of a run, including all steps of loops."""
    end = 0
    for loop in manifest.loops:
        yield from enumerate(dispatches[end : loop.first], end)
        end = loop.numbers.stop
        steps = evaluate(loop.steps, sizes, f"steps of the loop {loop.counter!r}")
        if steps * loop.dispatches > MOST_DISPATCHES:
            raise ProgramError(
                f"a loop of {steps} steps has {steps * loop.dispatches} dispatches, more than "
                f"{MOST_DISPATCHES}",
                f"the loop {loop.counter!r}",
                "give a shorter sequence, in several runs",
            )
        at = [_by_step(manifest.dispatches[n], dispatches[n], loop, sizes) for n in loop.numbers]
        for step in range(steps):
            for number, function in zip(loop.numbers, at, strict=True):
                if step == 0 or not dispatches[number].once:
                    yield number, function(step)
    yield from enumerate(dispatches[end:], end)


def _by_step(
    dispatch: Dispatch, first: Dispatch, loop: Loop, sizes: Mapping[str, int]
) -> Callable[[int], Dispatch]:
    """
    Returns a function that maps the index of a loop step to its dispatch.

    `first` is the dispatch of step 0.
    """
    grid = [size for size in dispatch.grid if loop.counter in names_in(size)]
    pushed = [
        constant
        for constant in dispatch.push_constants
        if isinstance(constant.value, str) and loop.counter in names_in(constant.value)
    ]
    if grid:
        return lambda step: _dispatch(dispatch, {**sizes, loop.counter: step})
    if not pushed:
        return lambda step: first
    values = function_of([str(constant.value) for constant in pushed], [*sizes, loop.counter])
    others = tuple(c for c in first.push_constants if c.offset not in {p.offset for p in pushed})

    def at(step: int) -> Dispatch:
        numbers = zip(pushed, values(*sizes.values(), step), strict=True)
        constants = (PushConstant(c.offset, c.type, value) for c, value in numbers)
        return replace(first, push_constants=(*others, *constants))

    return at


def _numbers(given: tuple[Number, ...], sizes: Mapping[str, int], place: str) -> tuple[int, ...]:
    return tuple(evaluate(size, sizes, place) for size in given)


def _buffer(buffer: Buffer, sizes: Mapping[str, int]) -> Buffer:
    place = f"buffer {buffer.name!r}"
    concrete = replace(buffer, shape=_numbers(buffer.shape, sizes, place))
    shown = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    if any(size < 0 for size in concrete.sizes):
        raise ProgramError(
            f"{buffer} becomes {concrete} with {shown}: a size is negative",
            place,
            "give larger inputs",
        )
    if room_of(concrete.sizes) > MAX_ELEMENTS:
        raise ProgramError(
            f"{buffer} has {room_of(concrete.sizes)} elements with {shown}, but a buffer "
            f"can have at most {MAX_ELEMENTS}",
            place,
            "give smaller inputs, in several runs",
        )
    return concrete


def _dispatch(dispatch: Dispatch, sizes: Mapping[str, int]) -> Dispatch:
    place = f"dispatch of {dispatch.entry_point!r}"
    x, y, z = _numbers(dispatch.grid, sizes, place)
    push = tuple(
        PushConstant(
            push_constant.offset,
            push_constant.type,
            evaluate(push_constant.value, sizes, place)
            if isinstance(push_constant.value, str)
            else push_constant.value,
        )
        for push_constant in dispatch.push_constants
    )
    return replace(dispatch, grid=(max(x, 0), max(y, 0), max(z, 0)), push_constants=push)
