"""
Runs Triton kernels without an NVIDIA GPU: with checks on the interpreter, or on Vulkan devices.

    from xdsl_spirv import kernels

    add = kernels.from_triton(add_kernel, x="*fp32", y="*fp32", out="*fp32", n="i32", BLOCK=256)
    add.launch(x, y, out, 1000, grid=4)["out"]
    add.check(x, y, out, 1000, grid=4, target="nvidia-h200")

A Triton kernel becomes a program over tiles (`frontends.triton`), which runs like a kernel of
`kernels.tiles`. `from_ttir` reads TTIR from a file, without Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, StringAttr

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.triton.convert import Parameter, convert, kernel_of, parameters_of
from xdsl_spirv.frontends.triton.dialect import FunctionOp
from xdsl_spirv.frontends.triton.reading import read, read_file
from xdsl_spirv.interpreter.host.tiles import run_program
from xdsl_spirv.interpreter.numbers import scalar_dtype
from xdsl_spirv.kernels.launch import Launched
from xdsl_spirv.kernels.lines import Lines
from xdsl_spirv.kernels.tile_kernel import OPTIONS, LaunchedKernel, Unwritten, bind, refusals
from xdsl_spirv.kernels.tile_launch import LoweredProgram, RaisedProgram, lower_program
from xdsl_spirv.kernels.tile_tracer import Traced
from xdsl_spirv.kernels.tracer import KernelError

Array = np.ndarray[Any, np.dtype[Any]]
Grid: TypeAlias = int | Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]


@dataclass(frozen=True)
class TritonKernel(LaunchedKernel):
    """
    A Triton kernel. A launch takes the arguments of the function without its constants. An array
    of any shape is passed for a pointer, and `grid=` is the number of workgroups.

    Integer arguments become constants of the lowered kernel, unless `sizes="open"` is given.
    """

    name: str
    source: FunctionOp = field(repr=False)
    parameters: Sequence[Parameter]
    constants: Mapping[str, Any]
    folder: Path | None = field(default=None, repr=False)
    """The folder with the Python files that the kernel's locations name."""
    _lowered: dict[object, LoweredProgram | RaisedProgram] = field(
        default_factory=dict[object, "LoweredProgram | RaisedProgram"], repr=False
    )

    def trace(
        self,
        constants: Mapping[str, int] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> Traced:
        """Returns the program for these integers and shapes; all other arguments are symbolic."""
        try:
            made = convert(self.source, constants, shapes)
        except FrontendError as error:
            raise KernelError(error.cause, error.place, error.remedy) from None
        lines = Lines()
        for name in made.files:
            path = Path(name)
            if not path.is_file() and self.folder is not None:
                path = self.folder / path.name
            lines.add_file(path, {op.location for op in made.program.walk()})
        return Traced(made.program, lines, [p.name for p in made.parameters])

    def _launch(
        self, arguments: tuple[Any, ...], device: str, checks: Any, named: Mapping[str, Any]
    ) -> Launched:
        rest = dict(named)
        grid = _grid(rest.pop("grid", None), self.constants)
        options = {name: rest.pop(name) for name in OPTIONS if name in rest}
        given = bind(self.name, [p.name for p in self.parameters if not p.of], arguments, rest)
        _refuse_shared(given)
        arrays = {p.name: _array(p, given[p.name]) for p in self.parameters if p.rank}
        numbers = {p.name: _number(p, given, arrays) for p in self.parameters if not p.rank}
        seen = {p.name: arrays[p.name] for p in self.parameters if p.rank}
        seen |= {p.name: arrays[p.name].reshape(-1) for p in self.parameters if p.rank == 1}
        constants = {n: v for n, v in numbers.items() if isinstance(v, int)}
        settings = constants, {n: a.shape for n, a in seen.items()}
        places: dict[str, Any] = {"grid": grid, "numbers": numbers}
        if options.pop("sizes", "static") == "open":
            settings, places = ({}, {}), {}
        way = "on whole tiles"
        with refusals(self.name):
            if device == "interpreter" and "target" not in options:
                self._run_whole(self.trace(*settings), seen | numbers, given, grid)
            else:
                made = self._lower(settings, places, {"device": device, **options})
                results, way = made.run(seen, numbers, device, checks, grid), made.way
                arrays = {name: results[name].reshape(a.shape) for name, a in arrays.items()}
        return Launched(arrays, device, checks and checks.report, way)

    def _lower(
        self, settings: tuple[Any, Any], places: Mapping[str, Any], options: Mapping[str, Any]
    ) -> LoweredProgram | RaisedProgram:
        key = str(settings), tuple(options.items()), places.get("grid")
        exact = *key, str(places)
        if key not in self._lowered and exact not in self._lowered:
            made = lower_program(self.trace(*settings), **places, **options)
            self._lowered[exact if isinstance(made, RaisedProgram) else key] = made
        return self._lowered[exact if exact in self._lowered else key]

    def _run_whole(
        self,
        made: Traced,
        values: Mapping[str, Any],
        given: Mapping[str, Any],
        grid: tuple[int, int, int],
    ) -> None:
        from xdsl_spirv.interpreter import semantics

        semantics.load()
        names = [p.name for p in self.parameters]
        missing = [n for n, name in enumerate(names) if isinstance(given.get(name), Unwritten)]
        arguments = [
            np.float32(value) if isinstance(value, float) else np.asarray(value)
            for value in (values[name] for name in names)
        ]
        run_program(made.program, arguments, grid, frozenset(missing), names)


def _array(parameter: Parameter, value: Any) -> Array:
    dtype = scalar_dtype(parameter.element)
    if isinstance(value, Unwritten):
        value = np.zeros(value.shape, dtype)
    rank = parameter.rank
    fits = isinstance(value, np.ndarray) and value.dtype == dtype and value.size > 0
    if not fits or (rank != 1 and value.ndim != rank):
        wanted = f"an array of {parameter.element}" + (f" with {rank} axes" if rank != 1 else "")
        said = (
            f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
        )
        raise KernelError(f"{parameter.name} is {wanted}, but {said} was given", "", "convert it")
    return np.array(value, order="C")


def _number(parameter: Parameter, given: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    if parameter.of is not None:
        name, kind, axis = parameter.of
        array = arrays[name]
        strides = [n // array.itemsize for n in array.strides]
        return array.shape[axis] if kind == "shape" else strides[axis]
    value, is_integer = given[parameter.name], isinstance(parameter.element, IntegerType)
    kinds = (int, np.integer) if is_integer else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise KernelError(
            f"{parameter.name} is {parameter.element}, but {value!r} was given", "", "give a number"
        )
    return int(value) if is_integer else float(value)


def _refuse_shared(given: Mapping[str, Any]) -> None:
    """Raises `KernelError` if two arguments share memory, because a launch copies each of them."""
    arrays = [(name, value) for name, value in given.items() if isinstance(value, np.ndarray)]
    for number, (name, array) in enumerate(arrays):
        for other, second in arrays[:number]:
            if np.shares_memory(array, second):
                raise KernelError(
                    f"{other} and {name} share memory", "", "pass a copy for one parameter"
                )


def _grid(grid: Grid | None, constants: Mapping[str, Any]) -> tuple[int, int, int]:
    counts = grid(constants) if callable(grid) else grid
    sizes = (counts,) if isinstance(counts, int) else tuple(counts or ())
    if not 1 <= len(sizes) <= 3 or not all(type(n) is int and n > 0 for n in sizes):
        raise KernelError(
            f"the grid {counts!r} is not allowed", "grid", "give up to three sizes above 0"
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def from_ttir(source: str | Path, name: str | None = None) -> TritonKernel:
    """
    Returns the kernel in a file of TTIR, or in a text.

    Raises `KernelError` for invalid TTIR and for operations that tiles do not support.
    """
    try:
        is_text = isinstance(source, str) and "\n" in source
        module = read(str(source)) if is_text else read_file(Path(source))
        kernel = kernel_of(module, name)
        folder = None if is_text else Path(source).parent
        title = cast(StringAttr, kernel.attributes["sym_name"]).data
        made = TritonKernel(title, kernel, parameters_of(kernel), {}, folder)
    except FrontendError as error:
        raise KernelError(error.cause, error.place, error.remedy) from None
    made.trace()
    return made


def from_triton(kernel: Any, **types: Any) -> TritonKernel:
    """
    Turns a `triton.jit` function into a kernel for given types of its parameters.

    A parameter's type is Triton's text for it (`"*fp32"`, `"i32"`, `"tensordesc<fp16[64,32]>"`); a
    `tl.constexpr` is given by its value. Triton generates TTIR, which needs no GPU.

    Raises `KernelError` if Triton rejects the kernel or is not installed.
    """
    text, constants = ttir_of(kernel, types)
    return replace(from_ttir(text), constants=constants)


def ttir_of(kernel: Any, types: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the TTIR of a `triton.jit` function, and its constants."""
    try:
        from triton._C.libtriton import ir  # pyright: ignore
        from triton.backends.compiler import GPUTarget  # pyright: ignore
        from triton.compiler import ASTSource, make_backend  # pyright: ignore
    except ImportError as error:
        raise KernelError("triton is not installed", str(error), "pip install triton") from None
    kernel = getattr(kernel, "fn", kernel) if not hasattr(kernel, "arg_names") else kernel
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):
        kernel = kernel.fn  # The wrapper of triton.autotune contains the function.
    names = [p.name for p in kernel.params if p.is_constexpr]
    constants = {n: v for n, v in types.items() if n in names}
    missing = [n for n in kernel.arg_names if n not in types]
    if missing or len(types) > len(kernel.arg_names):
        extra = ", ".join(sorted(set(types) - set(kernel.arg_names)))
        said = f"missing: {', '.join(missing)}" if missing else f"not parameters: {extra}"
        remedy = f"give a type for each of {', '.join(kernel.arg_names)}"
        raise KernelError(f"the types do not fit the parameters ({said})", kernel.__name__, remedy)
    target: Any = GPUTarget("cuda", 90, 32)
    backend: Any = make_backend(target)
    signature = {n: "constexpr" if n in names else types[n] for n in kernel.arg_names}
    source = ASTSource(kernel, signature, constants)
    options, context, stages = backend.parse_options({}), ir.context(), dict[str, Any]()
    ir.load_dialects(context)
    backend.load_dialects(context)
    try:
        functions = backend.get_codegen_implementation(options)
        module = source.make_ir(target, options, functions, backend.get_module_map(), context)
        backend.add_stages(stages, options, source.language)
        return str(stages["ttir"](module, {})), constants
    except Exception as error:
        raise KernelError(f"Triton refuses the kernel: {error}", kernel.__name__, "") from error
