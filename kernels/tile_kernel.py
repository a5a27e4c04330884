"""Turns a Python function into a tile program, and launches it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects import tile
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.kernels.kernel import placed_errors
from xdsl_spirv.kernels.launch import Launched
from xdsl_spirv.kernels.memory import PushType
from xdsl_spirv.kernels.tile_launch import LoweredProgram, RaisedProgram, lower_program, lower_tiles
from xdsl_spirv.kernels.tile_tracer import TileTracer, Traced, current, tracing
from xdsl_spirv.kernels.tile_values import Number, Tile, attribute_of, number
from xdsl_spirv.kernels.tracer import KernelError
from xdsl_spirv.kernels.types import Type, f32, i32

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.checks import Report

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ViewType:
    """The declaration of a view parameter, made by `view(...)`. A launch gives sizes for None."""

    element: Type
    shape: tuple[int | None, ...]


class View:
    """A buffer with a shape, from which a kernel loads tiles while it is traced."""

    def __init__(self, name: str, ssa: SSAValue, type: ViewType):
        self.name, self.ssa, self.type = name, ssa, type

    def size(self, axis: int) -> Number:
        """Returns the size of an axis."""
        if not 0 <= axis < len(self.type.shape):
            raise KernelError(f"{self.name} has no axis {axis}", self.name, "count from 0")
        return Number(current().add(tile.SizeOp(self.ssa, axis)), i32)

    def load(self, *place: Any, outside: float | None = 0) -> Tile:
        """
        Returns a tile of the view: `view.load(row, column, 16, 16)`. The arguments are the first
        index along each axis, then the sizes of the tile along the last axes.

        Elements outside of the view have the value `outside`. If it is None, the whole tile must be
        inside of the view.
        """
        rank = len(self.type.shape)
        shape = place[rank:]
        if not 1 <= len(shape) <= rank or not all(type(n) is int and n > 0 for n in shape):
            raise KernelError(
                f"a tile of {self.name} cannot be selected by {len(place)} numbers",
                self.name,
                f"give {rank} indices, then the sizes of the tile",
            )
        tracer = current()
        indices = [tracer.as_index(index) for index in place[:rank]]
        fill = None if outside is None else attribute_of(outside, self.type.element)
        made = tracer.add(tile.LoadOp(self.ssa, indices, shape, fill))
        return Tile(made, self.type.element)

    def store(self, *place: Any, clipped: bool = True) -> None:
        """
        Stores a tile to the view: `view.store(row, column, tile)`. The arguments are the first
        index along each axis, then the tile.

        Elements outside of the view are skipped. With `clipped=False`, the whole tile must be
        inside of the view.
        """
        *indices, value = place
        if len(indices) != len(self.type.shape) or not isinstance(value, Tile):
            raise KernelError(
                f"a store to {self.name} is given {len(indices)} indices and {value!r}",
                self.name,
                f"give {len(self.type.shape)} indices and a tile",
            )
        if value.type != self.type.element:
            raise KernelError(
                f"{self.name} has elements of {self.type.element}, but {value!r} is stored",
                self.name,
                f"convert it: .to({self.type.element})",
            )
        tracer = current()
        numbers = [tracer.as_index(index) for index in indices]
        tracer.insert(tile.StoreOp(value.ssa, self.ssa, numbers, clipped))


def view(element: Type, *shape: int | None) -> Any:
    """Declares a buffer as a parameter: `a=view(f16, None, 64)`. A launch gives sizes for None."""
    if not shape or any(n is not None and (type(n) is not int or n < 1) for n in shape):
        raise KernelError(
            f"a view cannot have the shape {shape}", "", "give a size or None for each axis"
        )
    if element.lanes != 1 or element.is_boolean:
        raise KernelError(f"a view cannot have elements of {element}", "", "give a type of numbers")
    return cast(View, ViewType(element, tuple(shape)))


class LaunchedKernel(ABC):
    """Base class of kernels over tiles that can be launched: `TileKernel` and `TritonKernel`."""

    name: str

    @abstractmethod
    def trace(self) -> Traced:
        """Traces the program. All sizes in it are symbolic."""

    @abstractmethod
    def _launch(
        self, arguments: tuple[Any, ...], device: str, checks: Any, named: Mapping[str, Any]
    ) -> Launched: ...

    @property
    def text(self) -> str:
        """The program as text, with symbolic sizes."""
        from xdsl_spirv.runtime.modules import text_of

        return text_of(ModuleOp([self.trace().program.clone()]))

    def on(self, target: str, **options: Any) -> str:
        """Lowers the kernel tile by tile for a target. Returns the code of one invocation."""
        from xdsl_spirv.runtime.modules import text_of

        with refusals(self.name):
            return text_of(lower_tiles(self.trace(), target, **options).kernels)

    def launch(self, *arguments: Any, device: str = "interpreter", **named: Any) -> Launched:
        """
        Runs the kernel with the arguments of the function. Arrays are not changed.

        The interpreter computes on whole tiles. An argument `tiles.Unwritten` is memory that was
        never written. `device="vulkan"` lowers for the device, or for `target`. `subgroups=(rows,
        columns)` and `instruction="16x16x16"` or `"fma"` select the schedule. `sizes="open"` makes
        a kernel for all sizes, not only for the given ones. Constants of the kernel are given by
        name.

        Raises `KernelError` for arguments that do not fit and for faults in whole tiles.
        """
        return self._launch(arguments, device, None, named)

    def check(self, *arguments: Any, target: str | None = None, **named: Any) -> Report:
        """
        Runs the kernel on whole tiles. With a `target`, also runs its lowered code under all
        checks. Returns the report of the checks.

        A fault in whole tiles raises `KernelError`. Findings in lowered code name Python lines. The
        order of sums may change a result, which is not a finding here (CHOICE-02). If a kernel
        depends on the target's mapping of matrix components to invocations, the report has the
        finding CHOICE-01.
        """
        from xdsl_spirv.interpreter.checks import Allowed, Checks

        checks = Checks.of("all", allow=(Allowed("CHOICE-02", text=" changes with sums "),))
        self._launch(arguments, "interpreter", None, dict(named))
        if target is not None:
            self._launch(arguments, "interpreter", checks, {**named, "target": target})
        return checks.report

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raises an error: a kernel must be launched."""
        raise KernelError(
            "a kernel cannot be called like a function", self.name, f"write {self.name}.launch(...)"
        )


@dataclass(frozen=True)
class TileKernel(LaunchedKernel):
    """A kernel over whole tiles, made from a Python function by `@tiles.kernel`."""

    name: str
    function: Callable[..., None] = field(repr=False)
    parameters: Mapping[str, ViewType | PushType]
    constants: Mapping[str, int]
    _traced: dict[object, Traced] = field(default_factory=dict[object, Traced], repr=False)
    _lowered: dict[object, LoweredProgram | RaisedProgram] = field(
        default_factory=dict[object, "LoweredProgram | RaisedProgram"], repr=False
    )

    @property
    def views(self) -> dict[str, ViewType]:
        """The parameters that are buffers."""
        return {n: p for n, p in self.parameters.items() if isinstance(p, ViewType)}

    def with_constants(self, **constants: int) -> TileKernel:
        """Returns the kernel with new values for some of its constants (tile sizes)."""
        for name, value in constants.items():
            if name not in self.constants or type(value) is not int:
                raise KernelError(
                    f"{name}={value!r} is not a constant of {self.name}",
                    ", ".join(self.constants),
                    "constants are the keyword parameters with integer values",
                )
        held = {**self.constants, **constants}
        return replace(self, constants=held, _traced={}, _lowered={}) if constants else self

    def trace(self, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Traced:
        """
        Traces the program for views of these shapes. If `shapes` is not given, sizes are symbolic.
        """
        key = None if shapes is None else tuple(shapes.items())
        if key not in self._traced:
            self._traced[key] = _trace(self, shapes or {})
        return self._traced[key]

    def _launch(
        self, arguments: tuple[Any, ...], device: str, checks: Any, named: Mapping[str, Any]
    ) -> Launched:
        own = {n: v for n, v in named.items() if n in self.constants}
        rest = {n: v for n, v in named.items() if n not in self.constants}
        if own:
            return self.with_constants(**own)._launch(arguments, device, checks, rest)
        options = {n: rest.pop(n) for n in OPTIONS if n in rest and n not in self.parameters}
        given = bind(self.name, list(self.parameters), arguments, rest)
        arrays = {
            n: _array(n, given[n], p) for n, p in self.parameters.items() if isinstance(p, ViewType)
        }
        numbers = {n: given[n] for n, p in self.parameters.items() if isinstance(p, PushType)}
        shapes = {n: a.shape for n, a in arrays.items()}
        is_open, way = options.pop("sizes", "static") == "open", "on whole tiles"
        with refusals(self.name):
            traced = self.trace(None if is_open else shapes)
            if device == "interpreter" and "target" not in options:
                run_whole(self, traced, arrays, numbers, given)
            else:
                key = is_open or tuple(shapes.items()), device, tuple(options.items())
                if key not in self._lowered:
                    self._lowered[key] = lower_program(traced, device=device, **options)
                made = self._lowered[key]
                arrays, way = made.run(arrays, numbers, device, checks), made.way
        return Launched(arrays, device, checks and checks.report, way)


OPTIONS = ("target", "subgroups", "instruction", "sizes")
"""Names of a launch's options, in addition to the kernel's arguments."""


class refusals:
    """Converts errors of passes and faults in whole tiles to `KernelError`."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PassFailedException):
            raise KernelError(str(error), self.name, "") from None
        if isinstance(error, InterpreterError):
            raise KernelError(error.cause, error.where or self.name, error.remedy) from None


class Unwritten:
    """An argument of a launch without contents: `Unwritten((1000, 77))`. Reading it is a fault."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape


def run_whole(
    kernel: TileKernel,
    traced: Traced,
    arrays: Mapping[str, Array],
    numbers: Mapping[str, Any],
    given: Mapping[str, Any],
) -> None:
    """
    Runs a program on whole tiles, which changes `arrays`. `numbers` are the scalar arguments,
    `given` are all arguments by name.
    """
    from xdsl_spirv.interpreter import semantics
    from xdsl_spirv.interpreter.host.tiles import grid_of, run_program

    semantics.load()
    names = list(kernel.parameters)
    sizes = {names.index(n): a.shape for n, a in arrays.items()}
    values = [
        arrays[n] if isinstance(p, ViewType) else np.asarray(numbers[n], p.type.dtype)
        for n, p in kernel.parameters.items()
    ]
    missing = frozenset(n for n, name in enumerate(names) if isinstance(given[name], Unwritten))
    run_program(traced.program, values, grid_of(traced.program, sizes), missing, names)


def bind(
    name: str, names: Sequence[str], arguments: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns a kernel's arguments by parameter name. Raises `KernelError` if they do not fit."""
    given = dict(zip(names, arguments, strict=False))
    twice = [n for n in named if n in given or n not in names]
    missing = [n for n in names if n not in given and n not in named]
    if len(arguments) > len(names) or twice or missing:
        cause = f"{len(arguments)} arguments and the names {', '.join(named) or 'none'} do not fit"
        remedy = f"missing: {', '.join(missing)}" if missing else f"too many: {', '.join(twice)}"
        raise KernelError(cause, f"{name}({', '.join(names)})", remedy)
    return given | dict(named)


def _array(name: str, value: Any, type: ViewType) -> Array:
    shape = "x".join("?" if n is None else str(n) for n in type.shape)
    if isinstance(value, Unwritten):
        value = np.zeros(value.shape, type.element.dtype)
    array = (
        np.array(value, order="C")
        if isinstance(value, np.ndarray)
        else np.array(value, type.element.dtype)
    )
    fits = array.ndim == len(type.shape) and all(
        n in (None, size) for n, size in zip(type.shape, array.shape, strict=True)
    )
    if not fits or array.dtype != type.element.dtype or not array.size:
        given = f"{'x'.join(map(str, array.shape))} {array.dtype}"
        wanted = f"an array of {type.element} with {array.ndim and len(type.shape)} axes"
        raise KernelError(
            f"{name} is a view of {shape} {type.element}, but {given} was given", name,
            f"give {wanted}" if array.size else f"give {wanted} and at least one element",
        )  # fmt: skip
    return array


def kernel(function: Callable[..., None]) -> TileKernel:
    """
    Turns a function into a kernel: `@tiles.kernel`. The default of each parameter gives its kind:
    `view`, `push`. Keyword parameters with integers are constants.

    Raises `KernelError` if the function cannot be traced.
    """
    parameters: dict[str, ViewType | PushType] = {}
    constants: dict[str, int] = {}
    for parameter in inspect.signature(function).parameters.values():
        said = parameter.default
        if parameter.kind is parameter.KEYWORD_ONLY and type(said) is int:
            constants[parameter.name] = said
        elif isinstance(said, ViewType) or (isinstance(said, PushType) and said.type in (i32, f32)):
            parameters[parameter.name] = said
        else:
            raise KernelError(
                f"the parameter {parameter.name!r} has no type", function.__name__,
                "give its type as the default: view(f32, None), push(i32) or push(f32); "
                "or make it a keyword-only integer: *, N=64",
            )  # fmt: skip
    if not any(isinstance(p, ViewType) for p in parameters.values()):
        raise KernelError(
            "the kernel has no view",
            function.__name__,
            "add a parameter y=view(f32, None) for the result",
        )
    made = TileKernel(function.__name__, function, parameters, constants)
    made.trace()
    return made


def _trace(kernel: TileKernel, shapes: Mapping[str, tuple[int, ...]]) -> Traced:
    types = []
    for name, parameter in kernel.parameters.items():
        if isinstance(parameter, ViewType):
            open_shape = [DYNAMIC_INDEX if n is None else n for n in parameter.shape]
            shape = shapes.get(name, open_shape)
            types.append(tile.view_type(shape, parameter.element.attribute))
        else:
            types.append(parameter.type.attribute)
    block = Block(arg_types=types)
    tracer = TileTracer(kernel.name, block)
    bound: dict[str, Any] = {}
    with tracing(tracer), placed_errors():
        for (name, parameter), argument in zip(kernel.parameters.items(), block.args, strict=True):
            tile.name_argument(argument, name)
            if isinstance(parameter, ViewType):
                bound[name] = View(name, argument, parameter)
            else:
                bound[name] = number(argument, parameter.type)
        result = kernel.function(**bound, **kernel.constants)
        if result is not None or tracer.fault:
            cause = tracer.fault or f"the kernel returns {result!r}"
            raise KernelError(
                cause, kernel.name, "store results in views; do not use break or return"
            )
    program = tile.ProgramOp(
        properties={"sym_name": StringAttr(kernel.name)}, regions=[Region(block)]
    )
    program.verify()
    return Traced(program, tracer.lines, list(kernel.parameters))
