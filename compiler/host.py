"""
Reads the host function as a list of dispatches: the buffers that each one reads and writes.

After lowering, a host function only allocates buffers and launches kernels. An operation that
computes on the host is refused, since no runner would execute it. A reshape is the same buffer
with another shape. A constant that a kernel reads is a weight.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, bufferization, func, gpu, memref, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, MemRefType, ModuleOp, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Operation, OpResult, SSAValue

from xdsl_spirv.compiler.signature import (
    Names,
    argument_name,
    argument_type,
    names_of,
    result_name,
    result_type,
)
from xdsl_spirv.dialects.places import place
from xdsl_spirv.dialects.program import functions_of, states_of, step_of
from xdsl_spirv.dialects.schedule.push_constants import NUMBER_BYTES, SIZE_BYTES, numbers_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, format_size
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.sizes import extent, extents, is_size_check, is_size_op, number
from xdsl_spirv.passes.analysis.values import operands_of
from xdsl_spirv.passes.graph.grouping import is_computed
from xdsl_spirv.runtime.elements import Array, check_element_type
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import Number, is_name
from xdsl_spirv.runtime.manifest import (
    INDEX,
    Binding,
    Buffer,
    BufferKind,
    Dispatch,
    Loop,
    PushConstant,
)
from xdsl_spirv.speech import did_you_mean

Triple = tuple[int, int, int]

SAME_BUFFER = (
    bufferization.ToBufferOp,
    bufferization.ToTensorOp,
    memref.CastOp,
    memref.CollapseShapeOp,
    memref.ExpandShapeOp,
    tensor.CastOp,
    tensor.CollapseShapeOp,
    tensor.ExpandShapeOp,
    tensor.ReshapeOp,
)
"""Operations that change only the type of their first operand and keep its bytes."""

PASSIVE = ("tensor.empty", "memref.dealloc", "memref.alloca_scope", "arith.constant")
"""Operations that the host need not execute, because no launch reads their results."""

HOST = "the host function"


@dataclass(frozen=True)
class Launch:
    """A dispatch and the workgroup size of its launch."""

    dispatch: Dispatch
    workgroup_size: Triple


@dataclass(frozen=True)
class HostProgram:
    """The host side of a program. `arguments` and `results` are buffer names, in order."""

    arguments: tuple[str, ...]
    results: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    loops: tuple[Loop, ...]
    """The ranges of launches that are repeated, as indices of launches."""
    constants: Mapping[str, arith.ConstantOp]
    """Maps a buffer's name to the constant of the function that is its weight."""


@dataclass(frozen=True)
class HostFunction:
    """A function's host program, and the values of its weights and states."""

    name: str
    host: HostProgram
    values: Mapping[str, Array]


def host_function(module: ModuleOp, name: str | None = None) -> func.FuncOp:
    """
    Returns the function `@name` of a module. Without a name, returns `@main` or the only function
    with a body.

    Raises `ProgramError` with a list of the functions.
    """
    functions = {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, func.FuncOp) and not op.is_declaration
    }
    wanted = name or (next(iter(functions)) if len(functions) == 1 else "main")
    if wanted not in functions:
        there = ", ".join(f"@{n}" for n in functions) or "none"
        raise ProgramError(
            f"there is no function @{wanted} with a body",
            f"functions: {there}",
            did_you_mean(wanted, functions, "name one of them"),
        )
    function = functions[wanted]
    if len(function.body.blocks) != 1:
        raise ProgramError(
            f"@{wanted} has {len(function.body.blocks)} blocks",
            f"function @{wanted}",
            "write branches as scf.if and loops as scf.for",
        )
    return function


def host_functions(module: ModuleOp) -> list[func.FuncOp]:
    """Returns the functions with a body that no other function calls. Each may become a program."""
    called = {op.callee.string_value() for op in module.walk() if isinstance(op, func.CallOp)}
    return [op for op in functions_of(module) if op.sym_name.data not in called]


def read_host(
    function: func.FuncOp,
    weights: Collection[str],
    sizes: Mapping[str, Sequence[tuple[int, int]]],
    names: Names | None = None,
) -> HostProgram:
    """
    Returns the buffers and launches of a lowered host function.

    `sizes` are the (argument, dimension) pairs passed to each kernel, by the name of its module.
    `names` are the names of the function's dynamic sizes. Raises `ProgramError` at an operation
    that the host would have to compute.
    """
    steps = [step_of(op) for op in function.body.walk() if isinstance(op, func.CallOp)]
    for own in (function, *steps):
        _refuse_computation(own)
        _refuse_others(own)
    reader = _HostReader(function, weights, sizes, names or names_of(function))
    for op in function.body.block.ops:
        reader.read(op)
    return HostProgram(
        tuple(reader.arguments),
        tuple(name for name, _, _ in reader.results.values()),
        tuple(reader.buffers.values()),
        tuple(reader.launches),
        tuple(reader.loops),
        reader.constants,
    )


def _refuse_computation(function: func.FuncOp) -> None:
    """Raises `ProgramError` for a linalg operation that no pass lowered, with the reason."""
    for op in function.walk():
        if not isinstance(op, LinalgStructuredOperation) or isinstance(op, FillOp):
            continue
        computed = [value for value in operands_of(op) if is_computed(value)]
        if computed:
            owner = computed[0].owner
            computed_by = owner.name if isinstance(owner, Operation) else "an argument"
            raise ProgramError(
                f"{op.name} reads a scalar that the host would have to compute ({computed_by})",
                place(op),
                "pass the scalar in a tensor<1x...>, or compute it from tensors and their sizes",
            )
        types = [value.type for value in (*op.operands, *op.results)]
        if any(isinstance(type, MemRefType) for type in types):
            raise ProgramError(
                f"{op.name} computes on memrefs, but only operations on tensors become kernels",
                place(op),
                "write the function on tensors: arguments in, results returned",
            )
        empty = [t for t in types if isinstance(t, TensorType | MemRefType) and 0 in t.get_shape()]
        if empty:
            raise ProgramError(
                f"{op.name} was not lowered to a kernel: {empty[0]} has no elements",
                place(op),
                "remove the operation, which has no elements to compute",
            )
        try:
            contraction_of(op)
        except NotAContraction as error:
            raise ProgramError(
                f"{op.name} was not lowered to a kernel: {error}",
                place(op),
                "write the operation as a matrix multiplication",
            ) from error


REMEDIES = {
    "tosa.": "lower the operation first: mlir-opt -pass-pipeline='builtin.module(func.func("
    "tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith,tosa-to-tensor))'",
    "func.call": "inline the function first: mlir-opt -inline",
    "scf.forall": "convert the operation to a loop first: mlir-opt -scf-forall-to-for",
    "scf.": "use loop bounds and branch conditions that are known at compile time",
    "memref.": "compute on tensors; memrefs are supported only in a gpu.func",
}
"""Maps the beginning of an operation's name to the remedy for operations that no pass lowers."""


def _refuse_others(function: func.FuncOp) -> None:
    """Raises `ProgramError` at the first operation that did not become a kernel."""
    for op in function.body.block.ops:
        if on_host(op) or is_size_op(op) or is_size_check(op) or _call_of(op) is not None:
            continue
        known = (text for name, text in REMEDIES.items() if op.name.startswith(name))
        remedy = next(known, "remove the operation, or replace it by operations on tensors")
        raise ProgramError(
            f"{op.name} would run on the host, which only launches kernels", place(op), remedy
        )


def _call_of(op: Operation) -> func.CallOp | None:
    """
    Returns the `call` operation of a loop whose body only calls a step function. Returns None for
    other loops.
    """
    inside = list(op.body.block.ops) if isinstance(op, scf.ForOp) else []
    return inside[0] if len(inside) == 2 and isinstance(inside[0], func.CallOp) else None


def on_host(op: Operation) -> bool:
    """True if an operation may remain in a host function, because the host need not compute it."""
    kinds = (*SAME_BUFFER, arith.ConstantOp, memref.AllocOp, gpu.LaunchFuncOp, func.ReturnOp)
    return isinstance(op, kinds) or op.name in PASSIVE


class _HostReader:
    """
    Reads a host function in one walk. A tensor value is represented by the name of its buffer, an
    index by a number.
    """

    def __init__(
        self,
        function: func.FuncOp,
        weights: Collection[str],
        passed: Mapping[str, Sequence[tuple[int, int]]],
        sizes: Names,
    ):
        self.function, self.passed, self.sizes = function, passed, sizes
        self.buffers: dict[str, Buffer] = {}
        self.launches: list[Launch] = []
        self.loops: list[Loop] = []
        self.outside: dict[SSAValue, SSAValue] = {}
        """Maps each argument of a step function to the value that the loop passes."""
        self.counters: dict[SSAValue, str] = {}
        self.constants: dict[str, arith.ConstantOp] = {}
        self.temporaries = itertools.count()
        self.names: dict[SSAValue, str] = {}
        self.arguments: list[str] = []
        self.results = _results(function)
        self.reserved = {name for name, _, _ in self.results.values()}
        states = states_of(function)
        for index, argument in enumerate(function.body.block.args):
            name = argument_name(argument, index)
            if isinstance(argument.type, IndexType):
                self.buffers[name] = Buffer(name, "scalar", INDEX, ())
                self.arguments.append(name)
                continue
            kind: BufferKind = "weight" if name in weights else "input"
            kind = "state" if index in states else kind
            self._buffer(name, kind, argument, argument_type(argument, index))
            self.arguments.append(name)

    def read(self, op: Operation) -> None:
        match op:
            case _ if isinstance(op, SAME_BUFFER):
                self._same_buffer(op)
            case memref.AllocOp() | tensor.EmptyOp():
                self._allocation(op.results[0])
            case gpu.LaunchFuncOp():
                self._launch(op)
            case scf.ForOp():
                self._loop(op)
            case func.ReturnOp():
                pass
            case _:
                # Other operations compute sizes or have no effect (see `_refuse_others`).
                pass

    def _loop(self, op: scf.ForOp) -> None:
        """
        Adds the launches of a loop's step function, and the number of times that they are repeated.
        """
        call = _call_of(op)
        assert call is not None
        for value, inside, result in zip(op.iter_args, op.body.block.args[1:], op.results):
            self._operand(value)
            self.outside[inside] = value
            self.names[inside] = self.names[result] = self.names[value]
        step = step_of(call).body.block
        counter = f"step{len(self.loops)}"
        taken = {*self.sizes.of.values(), *self.buffers}
        while counter in taken:
            counter += "_"
        self.counters[op.body.block.args[0]] = counter
        for argument, value in zip(step.args, call.arguments, strict=True):
            self.outside[argument] = value
            if not isinstance(value.type, IndexType):
                self.names[argument] = self._operand(value)
        first = len(self.launches)
        for inner in step.ops:
            self.read(inner)
        carried = tuple(self.names[value] for value in op.iter_args)
        last = step.last_op
        assert last is not None
        if carried != tuple(self.names[value] for value in last.operands):
            raise ProgramError(
                "the next step of a loop does not read the results of the previous one",
                place(op),
            )
        count = len(self.launches) - first
        steps = self._write(number(op.ub))
        if count:
            self.loops.append(Loop(first, count, steps, counter, carried))

    def _operand(self, value: SSAValue) -> str:
        if value not in self.names:
            if isinstance(value.owner, arith.ConstantOp):
                self._constant(value.owner)
            else:
                self._allocation(value, always=True)
        return self.names[value]

    def _write(self, size: Size) -> Number:
        """Expresses a size in terms of the function's named sizes."""
        return format_size(size, self._name)

    def _name(self, extent_: Extent) -> Number:
        value = extent_.value
        if value in self.counters:
            return self.counters[value]
        if value not in self.outside:
            return self.sizes.name(extent_)
        value = self.outside[value]
        own = isinstance(value.type, IndexType)
        text = self._write(number(value) if own else extent(value, extent_.dimension))
        return text if isinstance(text, int) or is_name(text) else f"({text})"

    def _buffer(
        self,
        name: str,
        kind: BufferKind,
        value: SSAValue,
        element: str | None = None,
        shaped: SSAValue | None = None,
    ) -> None:
        """
        Declares a buffer for `value`. `shaped`, if given, is another value in the same memory, and
        determines the shape and its dynamic sizes.
        """
        shaped = shaped or value
        type = shaped.type
        if not isinstance(type, TensorType | MemRefType):
            raise ProgramError(
                f"{name} must be a tensor, not {type}", HOST, "use tensors of static shape"
            )
        sizes = type.get_shape()
        if DYNAMIC_INDEX in sizes:
            sizes = extents(shaped)
        shape = tuple(map(self._write, sizes))
        if name in self.buffers:
            raise ProgramError(f"two buffers have the name {name}", HOST, "rename the argument")
        element = element or str(type.element_type)
        check_element_type(element, f"%{name} of {HOST}")
        self.buffers[name] = Buffer(name, kind, element, shape)
        self.names[value] = name

    def _same_buffer(self, op: Operation) -> None:
        source = op.operands[0]
        if isinstance(source, OpResult) and isinstance(source.op, arith.ConstantOp):
            self._constant(source.op)
        if source not in self.names:
            raise ProgramError(
                "a launch reads a tensor that is neither an argument nor written by a kernel",
                place(op),
                "make the tensor an argument of the function",
            )
        self.names[op.results[0]] = self.names[source]

    def _constant(self, op: arith.ConstantOp) -> None:
        """Declares a weight for a constant that a kernel reads."""
        if op.result in self.names:
            return
        name = self._unused("constant", len(self.constants))
        self._buffer(name, "weight", op.result)
        self.constants[name] = op

    def _allocation(self, memory: SSAValue, always: bool = False) -> None:
        if memory in self.results:
            name, shaped, element = self.results[memory]
            self._buffer(name, "output", memory, element, shaped)
        elif always or isinstance(memory.owner, memref.AllocOp):
            name = self._unused("temporary", next(self.temporaries))
            self._buffer(name, "temporary", memory)

    def _unused(self, name: str, number: int) -> str:
        """Returns an unused name: `name` with an appended integer of at least `number`."""
        numbered = (f"{name}{n}" for n in itertools.count(number))
        return next(n for n in numbered if n not in self.buffers and n not in self.reserved)

    def _launch(self, op: gpu.LaunchFuncOp) -> None:
        buffers = [v for v in op.kernelOperands if not isinstance(v.type, IndexType)]
        for operand in buffers:
            if operand not in self.names:
                raise ProgramError(
                    f"kernel arguments of type {operand.type} are not supported",
                    place(op),
                    "pass the value in a tensor",
                )
        dispatch = Dispatch(
            kernel=op.kernel.root_reference.data,
            entry_point=op.kernel.nested_references.data[-1].data,
            grid=self._sizes((op.gridSizeX, op.gridSizeY, op.gridSizeZ)),
            bindings=tuple(Binding(0, i, self.names[operand]) for i, operand in enumerate(buffers)),
            push_constants=self._push_constants(op),
        )
        block = self._constant_sizes(op, (op.blockSizeX, op.blockSizeY, op.blockSizeZ))
        self.launches.append(Launch(dispatch, block))

    def _push_constants(self, op: gpu.LaunchFuncOp) -> tuple[PushConstant, ...]:
        """
        Returns the push constants of a launch: the numbers that it passes, or else the dynamic
        sizes that its kernel reads.
        """
        numbers = [
            PushConstant(NUMBER_BYTES * number, type, value)
            for number, (type, value) in enumerate(numbers_of(op))
        ]
        if numbers:
            return tuple(numbers)
        passed = self.passed[op.kernel.root_reference.data]
        return tuple(
            PushConstant(
                SIZE_BYTES * number,
                "ui32",
                self._write(_passed_size(op.kernelOperands[argument], dimension)),
            )
            for number, (argument, dimension) in enumerate(passed)
        )

    def _sizes(self, values: Sequence[SSAValue]) -> tuple[Number, Number, Number]:
        x, y, z = (self._write(number(value)) for value in values)
        return x, y, z

    def _constant_sizes(self, op: Operation, values: Sequence[SSAValue]) -> Triple:
        sizes = self._sizes(values)
        if any(isinstance(size, str) for size in sizes):
            raise ProgramError(
                "the workgroup size of a launch must be constant",
                place(op),
                "compute it by arith.constant",
            )
        x, y, z = map(int, sizes)
        return x, y, z


def _passed_size(operand: SSAValue, dimension: int) -> Size:
    """Returns the size of a kernel argument's dimension, or a scalar argument's value."""
    if isinstance(operand.type, IndexType):
        return number(operand)
    return extent(operand, dimension)


Result = tuple[str, SSAValue, str]
"""(name of a result, the returned tensor, element type for callers)."""


def _is_nothing(value: SSAValue) -> bool:
    """True for a tensor without elements, which no kernel has to write."""
    return isinstance(value.owner, tensor.EmptyOp) and 0 in value.owner.tensor.type.get_shape()


def _results(function: func.FuncOp) -> dict[SSAValue, Result]:
    """
    Maps the allocation of each returned tensor to the record of the result. States are left out.
    """
    last = function.body.block.last_op
    results: dict[SSAValue, Result] = {}
    states = {number: function.body.block.args[i] for i, number in states_of(function).items()}
    for i, value in enumerate(last.operands if isinstance(last, func.ReturnOp) else ()):
        root = value
        while isinstance(root, OpResult) and isinstance(root.op, (*SAME_BUFFER, scf.ForOp)):
            root = root.op.operands[3 + root.index if isinstance(root.op, scf.ForOp) else 0]
        if i in states and root is states[i]:
            continue
        made = memref.AllocOp | tensor.EmptyOp if root is not value else memref.AllocOp
        if root in results or not (isinstance(root.owner, made) or _is_nothing(root)):
            raise ProgramError(
                f"result {i} is an argument, or is the same tensor as another result",
                f"func.return in @{function.sym_name.data}",
                "return each kernel's result only once, and return no arguments",
            )
        results[root] = (result_name(function, i), value, result_type(function, i))
    return results
