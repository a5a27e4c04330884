"""
Holds the state for compiling functions: module symbols, specialization constants and options.

Specialization constants are known at launch. Sizes that depend on them are therefore plain numbers
here, and a launch with other values compiles the functions again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from xdsl.dialects.builtin import (
    IntAttr,
    IntegerAttr,
    MemRefType,
    NoneType,
    SymbolRefAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.batch import Batch, Geometry
from xdsl_spirv.interpreter.budget import Budget
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Composite, CooperativeMatrix, Form, Opaque, Plain
from xdsl_spirv.interpreter.memories import Memories, Place, null_pointer
from xdsl_spirv.interpreter.numbers import Array, scalar_dtype
from xdsl_spirv.interpreter.options import Debugger, Options
from xdsl_spirv.interpreter.pointers import written_variables

Value = Any
"""
A value at run time. Its type decides if it is an array, a tuple of values, or a pointer (forms.py).
"""


class Runnable(Protocol):
    """A compiled function (code.py). `lane_bytes` is the size of all its values, per invocation."""

    lane_bytes: float

    def __call__(self, batch: Batch, arguments: Sequence[Any]) -> Any:
        """Runs the function for the active lanes and returns its result."""
        ...


class Observer(Protocol):
    """Interface of observers that follow functions while they run (checks/checker.py)."""

    def start(self, batch: Batch) -> None:
        """Begins the next group of workgroups that run together."""
        ...

    def resume(self, chunk: Batch, batch: Batch) -> None:
        """
        Switches to a batch of the workgroups `chunk`. Batches of other workgroups may have run
        before.
        """
        ...

    def report_release(self, op: Operation, lanes: Array) -> None:
        """Reports a load `op` that was repeated in a loop until another workgroup wrote."""
        ...


class Watcher(Protocol):
    """
    Interface of objects that wrap tensor operations in order to inspect their operands
    (host/poison.py).
    """

    def watch(self, op: Operation, context: Context, function: Any) -> Any:
        """Wraps the function of an operation so that the operands are inspected."""
        ...


class Context:
    """
    State for compiling the functions of one module.

    - `specialized`: values of the constants by symbol, computed by `derive`.
    - `geometry`: shape of the launch.
    - `global_slots`: index of each module variable in a batch's `globals`, and in `creators`.
    - `memories`: the buffers of the launch. `images` describes the buffers that are images.
    - `checker`: observes the run if the options enable checks.
    - `products`: number of products that are summed with the accumulation `magnitudes`
      (options.py).
    - `clock`: number of clock reads.
    - `waited`: True if invocations have waited for others.
    - `may_wait`: True if workgroups may wait for other workgroups.
    """

    def __init__(self, module: Operation, options: Options, geometry: Geometry):
        semantics.load()
        self.module = module
        self.options = options
        self.geometry = geometry
        self.symbols: dict[str, Operation] = {}
        self.specialized: dict[str, Value] = {}
        self.derive: Callable[[str], Value] = _no_constant
        self.lengths: dict[str, int] = {}
        self.global_slots: dict[str, int] = {}
        self.creators: list[Callable[[Batch], Value]] = []
        self.workgroup_bytes = 0
        self.block_bytes = 0
        self.block: Any = None
        """The memory that all Workgroup blocks with an explicit layout share."""
        self.memories = Memories()
        self.images: Mapping[Place, Image | Sampler] = {}
        self.checker: Observer | None = None
        self.poison: Watcher | None = None
        self.compiler: Callable[[Operation], Any] | None = None
        """Compiles a function with checks. None if there is no checker."""
        self.steps = Budget.of(options.max_steps)
        self.products = 0
        self.clock = 0
        self.waited = self.may_wait = False
        self.debug: Debugger | None = options.debug
        self._forms: dict[Attribute, Form] = {}
        self._codes: dict[str, Runnable] = {}
        for op in module.regions[0].block.ops:
            symbol = op.properties.get("sym_name") or op.attributes.get("sym_name")
            if symbol is not None:
                self.symbols[getattr(symbol, "data", str(symbol))] = op

    def symbol(self, reference: Attribute | str) -> Operation:
        """Returns the module's operation with this symbol. Raises `InterpreterError` if missing."""
        name = symbol_name(reference)
        op = self.symbols.get(name)
        if op is None:
            raise InterpreterError(f"the module has no symbol @{name}")
        return op

    def add_global(self, name: str, creator: Callable[[Batch], Value]) -> int:
        """
        Assigns a slot to a module variable. Each batch calls `creator` to create its own instance
        of the variable.
        """
        slot = len(self.creators)
        self.global_slots[name] = slot
        self.creators.append(creator)
        return slot

    def add_specialized(self, name: str, value: Value) -> None:
        """Sets the value of a specialization constant. Array lengths may refer to it."""
        self.specialized[name] = value
        if not isinstance(value, tuple) and value.dtype.kind == "i" and value.size == 1:
            self.lengths[name] = int(value.item())

    @cached_property
    def written(self) -> set[str] | None:
        """Returns the variables that the module may write, or None if it may write any variable."""
        return written_variables(self.module)

    def specialize(self, name: Attribute | str) -> Value:
        """Returns the value of a specialization constant, computed on first use."""
        symbol = symbol_name(name)
        if symbol not in self.specialized:
            self.add_specialized(symbol, self.derive(symbol))
        return self.specialized[symbol]

    def number(self, number: Attribute) -> int:
        """
        Returns the value of a number or enumerant. It is either given directly or names a
        specialization constant.
        """
        if isinstance(number, IntegerAttr):
            return number.value.data
        if isinstance(number, IntAttr | spv.EnumerationAttr):
            return int(number.data)
        return int(self.specialize(number).item())

    def size(self, size: Attribute) -> int:
        """
        Returns the value of a size, which is a number or a specialization constant. Raises
        `InterpreterError` for a size below 1.
        """
        number = self.number(size)
        if number < 1 and not isinstance(size, IntAttr):
            raise InterpreterError(
                f"the constant @{symbol_name(size)} is used as a size, but its value is {number}",
                "spec_constants",
                "give it a value of at least 1",
            )
        return number

    def scope(self, scope: Attribute) -> spv.Scope:
        """Returns a scope. It is either given directly or names a specialization constant."""
        return spv.Scope(self.number(scope))

    def form(self, type: Attribute) -> Form:
        """Returns the run-time representation (forms.py) of values of a type."""
        form = self._forms.get(type)
        if form is None:
            form = self._forms[type] = self._make_form(type)
        return form

    def plain(self, type: Attribute) -> Plain:
        """
        Returns the representation of a scalar or vector type. Raises `InterpreterError` for other
        types.
        """
        form = self.form(type)
        if not isinstance(form, Plain):
            raise InterpreterError(f"{type} is not a scalar or a vector")
        return form

    def _make_form(self, type: Attribute) -> Form:
        dtype = scalar_dtype(type)
        if dtype is not None:
            return Plain(dtype)
        match type:
            case VectorType():
                return self._repeat_form(type.element_type, tuple(type.get_shape()))
            case spv.CooperativeVectorType():
                return self._repeat_form(type.element_type, (self.size(type.length),))
            case spv.ArrayType():
                return self._repeat_form(type.element_type, (self.size(type.length),))
            case spv.MatrixType():
                return self._repeat_form(type.column_type, (type.columns.data,))
            case spv.StructType():
                return Composite(tuple(self.form(member) for member in type.member_types))
            case spv.CooperativeMatrixType():
                return self._cooperative(type, type.use.data)
            case spv.CooperativeMatrixNVType():
                return self._cooperative(type, spv.CooperativeMatrixUse.MatrixAccumulatorKHR)
            case spv.PointerType() | spv.UntypedPointerType():
                return Opaque(str(type), null_pointer)
            case (
                MemRefType()
                | spv.RuntimeArrayType()
                | NoneType()
                | spv.TensorLayoutType()
                | spv.TensorViewType()
                | spv.TensorArmType()
                | spv.ImageType()
                | spv.SampledImageType()
                | spv.SamplerType()
            ):
                return Opaque(str(type))
            case _:
                raise InterpreterError(f"values of type {type} are not supported")

    def _repeat_form(self, element: Attribute, shape: tuple[int, ...]) -> Form:
        form = self.form(element)
        if isinstance(form, Plain):
            return Plain(form.dtype, shape + form.shape)
        return Composite((form,) * shape[0])

    def _cooperative(
        self,
        type: spv.CooperativeMatrixType | spv.CooperativeMatrixNVType,
        use: spv.CooperativeMatrixUse,
    ) -> Form:
        element = scalar_dtype(type.element_type)
        scope = self.scope(type.scope)
        if element is None or scope not in (spv.Scope.Subgroup, spv.Scope.Workgroup):
            raise InterpreterError(
                f"a cooperative matrix of scope {scope.name} is not supported",
                remedy="use the scope Subgroup or Workgroup",
            )
        rows, columns = self.size(type.rows), self.size(type.columns)
        return CooperativeMatrix(element, rows, columns, scope, use)

    def code(self, name: str, compile: Callable[[Operation, Context], Runnable]) -> Runnable:
        """Returns a function of the module, compiled on first use."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = compile(self.symbol(name), self)
        return code

    def batch_globals(self, batch: Batch) -> list[Value]:
        """Creates the module's variables for one batch."""
        return [create(batch) for create in self.creators]


def _no_constant(name: str) -> Value:
    raise InterpreterError(f"@{name} is not a specialization constant")


def symbol_name(reference: Attribute | str) -> str:
    """Returns the last name of a symbol reference."""
    if isinstance(reference, SymbolRefAttr):
        nested = reference.nested_references.data
        return (nested[-1] if nested else reference.root_reference).data
    return reference if isinstance(reference, str) else getattr(reference, "data", str(reference))
