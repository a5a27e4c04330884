"""Turns a Python function into a kernel."""

from __future__ import annotations

import ast
import inspect
import textwrap
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntAttr, IntegerAttr, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp

from xdsl_spirv.dialects import spv
from xdsl_spirv.kernels.launch import OPTIONS, HasBinary, Launched, launch, prove
from xdsl_spirv.kernels.lines import Lines, is_own
from xdsl_spirv.kernels.memory import BufferType, ConstantType, PushType, bind_buffer
from xdsl_spirv.kernels.tracer import KernelError, Tracer, three, tracing
from xdsl_spirv.kernels.types import Type
from xdsl_spirv.kernels.values import Value

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.checks import Report
    from xdsl_spirv.tools.kernel_proving import Result

Parameter = BufferType | ConstantType | PushType


PUSHED = "push_constants"
"""Name of the variable with all push constants."""


@dataclass(frozen=True)
class Kernel(HasBinary):
    """A kernel made by `@kernel`. `module` is its `spirv.module`."""

    name: str
    workgroup: tuple[int, int, int]
    parameters: Mapping[str, Parameter]
    module: spv.ModuleOp = field(repr=False)
    subgroup_size: int | None = None
    """The subgroup size that the kernel requires; None if it works with any size."""
    _lines: Lines = field(default_factory=Lines, repr=False)

    @property
    def binary(self) -> bytes:
        """The SPIR-V binary, with names and Python source lines."""
        return self._binary

    @cached_property
    def _binary(self) -> bytes:
        from xdsl_spirv.serialization.encode.encoder import encode

        module = self._lines.added_to(self.module)
        pushed = [name for name, p in self.parameters.items() if isinstance(p, PushType)]
        for op in list(module.body.block.ops):
            if isinstance(op, spv.GlobalVariableOp) and op.sym_name.data == PUSHED:
                struct = op.type.pointee
                names = [[struct, IntAttr(n), StringAttr(name)] for n, name in enumerate(pushed)]
                module.body.block.add_ops(spv.RawGlobalOp(None, "OpMemberName", n) for n in names)
        return encode(module, names=True, lines=True)

    @property
    def text(self) -> str:
        """The module as text in the `spirv` dialect."""
        from xdsl_spirv.runtime.modules import text_of

        return text_of(BuiltinModuleOp([self.module.clone()]))

    @property
    def buffers(self) -> dict[str, BufferType]:
        """The buffer parameters in the order of their bindings."""
        return {n: p for n, p in self.parameters.items() if isinstance(p, BufferType)}

    def launch(self, grid: int | tuple[int, ...], *arguments: Any, **named: Any) -> Launched:
        """
        Runs the kernel on `grid` workgroups, with the arguments of the function.

        A buffer is an array or a list of numbers, and is not changed. The result has the buffers
        after the run, for example `result["y"]`. Options of `kernels.launch` (`device`, `checks`)
        are given by name.

        Raises `KernelError` for arguments that do not fit, and the errors of the device.
        """
        options = {n: named.pop(n) for n in OPTIONS if n in named and n not in self.parameters}
        given = self._bound(arguments, named)
        buffers = {n: _array(given[n], p.element) for n, p in self.buffers.items()}
        push = [
            _push_value(given[n], p.type)
            for n, p in self.parameters.items()
            if isinstance(p, PushType)
        ]
        constants = {n: given[n] for n, p in self.parameters.items() if isinstance(p, ConstantType)}
        options.setdefault("subgroup_size", self.subgroup_size)
        return launch(self, grid, buffers, push=push, constants=constants, **options)

    def check(self, grid: int | tuple[int, ...], *arguments: Any, **named: Any) -> Report:
        """Runs a launch under all checks. Returns a report of undefined behaviour in the kernel."""
        report = self.launch(grid, *arguments, checks="all", **named).report
        assert report is not None
        return report

    def prove(self, *premises: str, questions: Sequence[str] = (), seconds: float = 5.0) -> Result:
        """
        Proves the kernel correct for every launch that satisfies the premises, or finds a launch in
        which it fails. `questions` and `seconds` are as for `kernels.prove`.
        """
        return prove(self, *premises, questions=questions, seconds=seconds)

    def _bound(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        wanted = f"{self.name}({', '.join(self.parameters)})"
        if len(arguments) > len(self.parameters):
            raise KernelError(f"{len(arguments)} arguments are too many", wanted, "leave some out")
        given = dict(zip(self.parameters, arguments, strict=False))
        for name, value in named.items():
            if name not in self.parameters or name in given:
                cause = "is given twice" if name in given else "is not a parameter"
                raise KernelError(f"{name!r} {cause}", wanted, "give each parameter once")
            given[name] = value
        for name, parameter in self.parameters.items():
            if isinstance(parameter, ConstantType):
                given.setdefault(name, parameter.default)
            elif name not in given:
                raise KernelError(f"the argument {name!r} is missing", wanted, "give it")
        return given

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raises an error: a kernel must be launched."""
        raise KernelError(
            "a kernel cannot be called like a function",
            self.name,
            f"write {self.name}.launch(grid, ...)",
        )

    def __repr__(self) -> str:
        size = "x".join(map(str, self.workgroup))
        return f"<kernel {self.name}({', '.join(self.parameters)}), workgroups of {size}>"


def kernel(
    workgroup: int | tuple[int, ...], *, subgroup_size: int | None = None
) -> Callable[[Callable[..., None]], Kernel]:
    """
    Turns a function into a kernel: `@kernel(workgroup=64)`, `@kernel(workgroup=(8, 8))`.

    The default of each parameter gives its kind: `buffer`, `push`, `specialization`.
    `subgroup_size` is required if the code depends on the size of subgroups.

    Raises `KernelError` if the function cannot be traced.
    """
    if callable(workgroup):
        raise KernelError(
            "the size of the kernel's workgroups is missing", getattr(workgroup, "__name__", ""),
            "write @kernel(workgroup=64) above the function",
        )  # fmt: skip
    size = three(workgroup, "size of a workgroup")

    def decorate(function: Callable[..., None]) -> Kernel:
        if not inspect.isfunction(function):
            raise KernelError(
                f"{function!r} is not a Python function", "", "define a function with def"
            )
        _refuse_early_exits(function)
        parameters = _parameters(function)
        tracer = Tracer(function.__name__, size)
        with tracing(tracer), placed_errors():
            result = function(**_bind(tracer, parameters))
            if result is not None:
                raise KernelError(
                    f"the kernel returns {result!r}", tracer.name, "store the result in a buffer"
                )
            if tracer.fault is not None:
                raise KernelError(
                    tracer.fault,
                    tracer.name,
                    "a loop's body is traced once: use when(...) in the body",
                )
            tracer.insert(spv.ReturnOp())
        module = _finish_module(tracer)
        return Kernel(function.__name__, size, parameters, module, subgroup_size, tracer.code.lines)

    return decorate


@contextmanager
def placed_errors() -> Generator[None]:
    """Adds the current line of the kernel to errors inside of the `with` statement."""
    try:
        yield
    except KernelError as error:
        frames = traceback.walk_tb(error.__traceback__)
        written = traceback.StackSummary.extract(one for one in frames if not is_own(one[0]))
        if written:
            line = f"{Path(written[-1].filename).name}:{written[-1].lineno}: {written[-1].line}"
            error.place = f"{error.place}, {line}" if error.place else line
        raise


def _array(value: Any, element: Type) -> Any:
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.array(value, element.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise KernelError(
            f"the argument is not an array of {element}: {error}", "", "give an array"
        ) from error


def _push_value(value: Any, type: Type) -> Any:
    plain = value.item() if hasattr(value, "item") else value
    if type.is_signed and isinstance(plain, int) and -(1 << (type.width - 1)) <= plain < 0:
        return plain + (1 << type.width)
    return plain


def _parameters(function: Callable[..., None]) -> dict[str, Parameter]:
    name = function.__name__
    parameters: dict[str, Parameter] = {}
    for parameter in inspect.signature(function).parameters.values():
        said = parameter.default
        if not isinstance(said, BufferType | ConstantType | PushType):
            raise KernelError(
                f"the parameter {parameter.name!r} has no type",
                name,
                f"give its type as the default value: {parameter.name}=k.buffer(k.f32), "
                "k.push(k.u32) or k.specialization(k.u32, 4)",
            )
        parameters[parameter.name] = said
    if not any(isinstance(p, BufferType) for p in parameters.values()):
        raise KernelError(
            "the kernel has no buffer", name, "add a parameter x=k.buffer(k.f32) for the result"
        )
    return parameters


def _refuse_early_exits(function: Callable[..., None]) -> None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return
    for block in ast.walk(tree):
        if not isinstance(block, ast.With):
            continue
        for node in ast.walk(block):
            if isinstance(node, ast.Return | ast.Break | ast.Continue):
                word = type(node).__name__.lower()
                line = function.__code__.co_firstlineno + node.lineno - 1
                raise KernelError(
                    f"`{word}` stands inside a `with`",
                    f"{function.__name__}, line {line}",
                    "both arms of a branch are traced: use `with otherwise():` for the other arm",
                )


def _bind(tracer: Tracer, parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    bound: dict[str, Any] = {}
    pushed = [(n, p.type) for n, p in parameters.items() if isinstance(p, PushType)]
    bound |= _push_constants(tracer, pushed)
    buffers = 0
    for name, parameter in parameters.items():
        if isinstance(parameter, BufferType):
            bound[name] = bind_buffer(tracer, name, buffers, parameter)
            buffers += 1
        elif isinstance(parameter, ConstantType):
            bound[name] = _specialize_constant(tracer, name, parameter)
    return bound


def _push_constants(tracer: Tracer, pushed: list[tuple[str, Type]]) -> dict[str, Value]:
    if not pushed:
        return {}
    offsets: list[int] = []
    end = 0
    for _, type in pushed:
        offsets.append(-(-end // type.bytes) * type.bytes)
        end = offsets[-1] + type.bytes
    struct = spv.StructType([t.attribute for _, t in pushed], offsets, [], [spv.Decoration.Block])
    pointer = spv.PointerType(struct, spv.StorageClass.PushConstant)
    address = tracer.declare(spv.GlobalVariableOp(PUSHED, pointer))
    values: dict[str, Value] = {}
    for number, (name, type) in enumerate(pushed):
        chain = spv.AccessChainOp(address, [tracer.code.number(number)])
        tracer.code.at_top(chain)
        values[name] = Value(tracer.code.at_top(spv.LoadOp(chain.result), name), type)
    return values


def _specialize_constant(tracer: Tracer, name: str, said: ConstantType) -> Value:
    type = said.type
    if type.lanes != 1:
        raise KernelError(
            f"the specialization constant {name!r} cannot be a vector",
            tracer.name,
            "make each component a separate constant",
        )
    block = tracer.module.body.block
    number = sum(isinstance(op, spv.SpecConstantOp) for op in block.ops)
    if type.is_boolean:
        held: Any = BoolAttr.from_bool(bool(said.default))
    elif type.is_float:
        held = FloatAttr(float(said.default), type.scalar)  # pyright: ignore
    else:
        held = IntegerAttr(int(said.default), type.scalar, truncate_bits=True)  # pyright: ignore
    constant = spv.SpecConstantOp(name, held, number)
    block.insert_op_before(constant, tracer.function)
    return Value(tracer.code.at_top(spv.ReferenceOfOp(name, constant.type), name), type)


def _finish_module(tracer: Tracer) -> spv.ModuleOp:
    from xdsl_spirv.passes.spirv.update_vce import update

    module, name = tracer.module, tracer.name
    module.body.block.add_ops(
        [
            spv.EntryPointOp(spv.ExecutionModel.GLCompute, name, list(tracer.code.interface)),
            spv.ExecutionModeOp(name, spv.ExecutionMode.LocalSize, list(tracer.workgroup)),
        ]
    )
    update(module)
    module.verify()
    return module
