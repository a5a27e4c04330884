"""
Imports the functions of a StableHLO module as one function of `linalg` on tensors.

jaxlib parses and verifies the module, in any form of StableHLO. Calls are inlined. Every operation
has the location of its line of Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr, TensorType
from xdsl.ir import Block

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, SymbolicSize, symbol
from xdsl_spirv.frontends.errors import UNFORESEEN, FrontendError, import_needed
from xdsl_spirv.frontends.model import FUNCTION, ImportedModel, Value
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.functions import value_of, write_function
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import ELEMENTS, OPEN, Element, Tensor
from xdsl_spirv.frontends.stablehlo.scalars import (
    BODIES,
    FOLDS,
    compare,
    convert_number,
    reduce_precision,
)
from xdsl_spirv.upstream.collection import without_collection

Function = Callable[..., "Tensor | Sequence[Tensor]"]
OPERATIONS: dict[str, Function] = {}
LINE = re.compile(r'"([^"]+)":(\d+):\d+')
MOST_SIZES = 8
"""Maximum elements of a vector of integers that is folded, because it may hold a tensor's sizes."""

RETURNS = ("func.return", "stablehlo.return")


def operation(*names: str) -> Callable[[Function], Function]:
    """
    Returns a decorator that registers a function, which takes the importer, the operation and its
    operands.
    """

    def register(function: Function) -> Function:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return register


class Importer(TensorBuilder):
    """Imports the operations of a module's functions into one block."""

    def __init__(self, module: Any):
        super().__init__(Block())
        self.functions = {f.attributes["sym_name"].value: f for f in module.body.operations}
        self.values: dict[Any, Tensor] = {}
        self.name = ""
        """Name of the current operation."""

    def refuse(self, cause: str, remedy: str) -> NoReturn:
        place = self.location.desc.data if isinstance(self.location, NameLoc) else ""
        raise FrontendError(f"{self.name}: {cause}", place, remedy, operator=self.name)

    def run(self, block: Any, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Imports a block with the given arguments. Returns the operands of its terminator."""
        around = self.values
        self.values = around | dict(zip(block.arguments, arguments, strict=True))
        try:
            for op in block.operations:
                operation, name = op.operation, op.operation.name
                operands = [_without_value(self.values[value]) for value in operation.operands]
                if name in RETURNS:
                    return operands
                self.name = name
                self.location = NameLoc(StringAttr(place_of(operation)), NoneAttr())
                try:
                    results = self._results(operation, operands)
                except UNFORESEEN as error:
                    self.refuse(
                        str(error),
                        "the operation cannot be imported in this form: use other functions of JAX",
                    )
                self.values.update(zip(operation.results, results, strict=True))
            raise FrontendError(f"a block cannot end with {self.name}", "", "")
        finally:
            self.values = around

    def call(self, name: str, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Inlines a function of the module, and returns its results."""
        return self.run(self.functions[name].regions[0].blocks[0], arguments)

    def _results(self, op: Any, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        function = OPERATIONS.get(op.name)
        if function is not None:
            results = function(self, op, *operands)
            return [results] if isinstance(results, Tensor) else list(results)
        body = self.body_of(op)
        rank = max((t.rank for t in operands), default=0)
        shape = self.broadcast(*(t.sizes for t in operands if t.rank == rank))
        element, sizes = type_of(op.results[0], shape)
        known = self._fold(op, operands, element)
        if known is not None:
            return [known]
        maps = [list(range(t.rank)) for t in operands]
        return [self.mapped(body, list(zip(operands, maps, strict=True)), sizes, element)]

    def _fold(self, op: Any, operands: Sequence[Tensor], element: Element) -> Tensor | None:
        """
        Folds an operation on few known integers, which may be dynamic sizes. Returns None if
        impossible.
        """
        fold = FOLDS.get(op.name)
        if fold is None or element.is_float or any(t.element.is_float for t in operands):
            return None
        arrays = [t.known for t in operands if t.known is not None]
        if len(arrays) < len(operands) or max(array.size for array in arrays) > MOST_SIZES:
            return None
        options = comparison_of(op) if op.name == "stablehlo.compare" else ()
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        known = np.empty(shape, object)
        for place in np.ndindex(shape):
            item = fold(*(np.broadcast_to(a, shape)[place] for a in arrays), *options)
            if item is None:
                return None
            known[place] = int(item) if isinstance(item, np.integer) else item
        is_plain = not any(isinstance(item, SymbolicSize) for item in known.flat)
        return Tensor(element, shape, known=wrap_integers(known, element) if is_plain else known)

    def body_of(self, op: Any) -> Callable[..., Number]:
        """Returns the body of an elementwise operation."""
        if op.name == "stablehlo.compare":
            options = comparison_of(op)
            return lambda s, x, y: compare(s, x, y, *options)
        if op.name == "stablehlo.convert":
            element = element_of(op.results[0])
            return lambda s, x: convert_number(s, x, element)
        if op.name == "stablehlo.reduce_precision":
            widths = (op.attributes[f"{part}_bits"].value for part in ("exponent", "mantissa"))
            return lambda s, x, widths=tuple(widths): reduce_precision(s, x, *widths)
        if op.name == "chlo.constant":
            self.refuse(f"{op.name} is not supported", "use other functions of JAX")
        body = BODIES.get(op.name)
        if body is None:
            self.refuse("the operation is not supported", "use other functions of JAX")
        element = element_of(op.results[0])
        if element.narrow and op.name != "stablehlo.select":
            return lambda s, *numbers: convert_number(s, body(s, *map(s.wide, numbers)), element)
        return body

    def scalars(self, block: Any, s: Scalars, numbers: Sequence[Number]) -> list[Number]:
        """Imports a region on numbers. Returns the operands of its terminator."""
        values = dict(zip(block.arguments, numbers, strict=True))
        for op in block.operations:
            inner = op.operation
            if inner.name in RETURNS:
                return [self._number_in(s, values, operand) for operand in inner.operands]
            if inner.name == "stablehlo.constant":
                element = element_of(inner.results[0])
                number = s.number(array_of(inner.attributes["value"], element).item(), element)
            elif inner.name == "func.call":
                operands = [self._number_in(s, values, operand) for operand in inner.operands]
                called = self.functions[inner.attributes["callee"].value]
                results = self.scalars(called.regions[0].blocks[0], s, operands)
                values.update(zip(inner.results, results, strict=True))
                continue
            else:
                operands = [self._number_in(s, values, operand) for operand in inner.operands]
                number = self.body_of(inner)(s, *operands)
            values[inner.results[0]] = number
        raise FrontendError("a region has no terminator", "", "")

    def _number_in(self, s: Scalars, values: Mapping[Any, Number], operand: Any) -> Number:
        """Returns an operand in a region: a number, or a constant from outside the region."""
        if operand in values:
            return values[operand]
        known = self.values[operand].numbers
        if known is None:
            self.refuse("the region reads a tensor from outside", "pass the tensor as an operand")
        return s.number(known.item(), self.values[operand].element)


def _without_value(t: Tensor) -> Tensor:
    """Returns a tensor of dynamic sizes without its SSA value, so that uses of it are folded."""
    is_of_sizes = t.known is not None and t.numbers is None
    return Tensor(t.element, t.sizes, known=t.known) if is_of_sizes else t


def comparison_of(op: Any) -> tuple[str, bool]:
    """Returns the direction of a comparison, and True if it uses the total order."""
    hlo = import_module("jaxlib.mlir.dialects.stablehlo")
    kind = op.attributes["compare_type"] if "compare_type" in op.attributes else None
    total = kind is not None and hlo.ComparisonTypeAttr(kind).value == "TOTALORDER"
    return hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value, total


def place_of(op: Any) -> str:
    """Returns the line of Python of an operation, or the operation's name."""
    line = LINE.search(str(op.location))
    return f"{line[1].rpartition('/')[2]}:{line[2]}" if line else op.name


def element_of(value: Any) -> Element:
    """Returns the element type of a jaxlib value. Raises `ValueError` for an unsupported one."""
    ir = import_module("jaxlib.mlir.ir")
    if not isinstance(value.type, ir.RankedTensorType):
        raise ValueError(f"a value must be a tensor, not {value.type}")
    name = str(ir.RankedTensorType(value.type).element_type)
    if name not in ELEMENTS:
        raise ValueError(f"elements of the type {name} are not supported")
    return ELEMENTS[name]


def type_of(value: Any, derived: Sequence[Size] = ()) -> tuple[Element, tuple[Any, ...]]:
    """
    Returns element type and sizes of a jaxlib value. `derived` gives the dynamic sizes.

    Raises `ValueError` for other types, and for a dynamic size that is not derived.
    """
    element, type = element_of(value), value.type
    sizes: list[Size] = []
    for axis in range(type.rank):
        if not type.is_dynamic_dim(axis):
            sizes.append(type.get_dim_size(axis))
        elif axis < len(derived):
            sizes.append(derived[axis])
        else:
            raise ValueError(f"the dynamic sizes of {type} are not supported here")
    return element, tuple(sizes)


def array_of(attribute: Any, element: Element) -> np.ndarray[Any, np.dtype[Any]]:
    """Returns the elements of a dense attribute; a splat gives a 0-d array."""
    ir = import_module("jaxlib.mlir.ir")
    shape = () if attribute.is_splat else tuple(ir.RankedTensorType(attribute.type).shape)
    if element.dtype.isbuiltin == 1:
        array = np.array(attribute, element.dtype)
        return array.flat[0].reshape(()) if attribute.is_splat else array.reshape(shape)
    # jaxlib gives no numbers for some types, which are read from text or from bits.
    written = str(attribute).partition("<")[2].rpartition("> : ")[0]
    if written.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(written[3:-1]), element.dtype).reshape(shape)
    bits = np.dtype(f"uint{8 * element.dtype.itemsize}")
    items = [
        np.array(int(item, 16), bits).view(element.dtype)
        if item.startswith("0x")
        else np.array(float(item), element.dtype)
        for item in re.findall(r"0x[0-9A-F]+|-?[\d.]+(?:[eE][-+]?\d+)?", written)
    ]
    return np.array(items, element.dtype).reshape(shape)


def wrap_integers(array: Any, element: Element) -> Any:
    """Reduces integers modulo 2^N to the type's range."""
    if element.is_bool:
        return array.astype(np.bool_)
    items = [int(item) & ((1 << element.bits) - 1) for item in array.flat]
    unsigned = np.array(items, f"uint{element.bits}").reshape(array.shape)
    return unsigned.view(element.dtype)


def read_module(source: str | bytes) -> Any:
    """Parses a module from text or an artifact. Raises `FrontendError` if jaxlib rejects it."""
    import_needed("jax", "jax")
    context = import_module("jax.interpreters.mlir").make_ir_context()
    ir = import_module("jaxlib.mlir.ir")
    try:
        if isinstance(source, str):
            return ir.Module.parse(source, context)
        read = import_module("jaxlib.mlir.dialects.stablehlo").deserialize_portable_artifact
        return read(context, source)
    except (ir.MLIRError, ValueError, TypeError) as error:
        lines = str(error).strip().splitlines()
        said = next((line for line in lines if line.startswith("error:")), lines[0])
        raise FrontendError(
            f"jaxlib cannot read the module: {said}", "StableHLO", "correct the module"
        ) from error


def expand_chlo(module: Any) -> None:
    """Replaces unsupported `chlo` operations by StableHLO operations."""
    names = set(re.findall(r"\bchlo\.\w+", str(module)))
    if names <= {*BODIES, *OPERATIONS}:
        return
    import_module("jaxlib.mlir.dialects.stablehlo").register_stablehlo_passes()
    passes = import_module("jaxlib.mlir.passmanager").PassManager
    with module.context:
        passes.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)


@without_collection()
def import_module_of(source: Any, weights: Sequence[Any] = (), first: int = 0) -> ImportedModel:
    """
    Imports the function `@main` of a jaxlib module, of its text, or of a `jax.export` artifact.

    The function's first arguments take the values of `weights`. The other arguments are inputs.
    Argument number `first` is named `arg0`, the next one `arg1`, and so on.
    """
    module = read_module(source) if isinstance(source, str | bytes) else source
    expand_chlo(module)
    b = Importer(module)
    if FUNCTION not in b.functions:
        raise FrontendError(
            "the module has no function @main",
            f"functions: {', '.join(b.functions)}",
            "rename the public function to main",
        )
    entry = b.functions[FUNCTION].regions[0].blocks[0]
    if len(weights) > len(entry.arguments):
        count = len(entry.arguments)
        cause = f"{len(weights)} weights were given for {count} arguments"
        raise FrontendError(cause, "@main", "give at most one weight per argument")
    names = dimension_names(entry)
    arguments, inputs = _arguments(b, entry, weights, first, names)
    results = {f"result{i}": t for i, t in enumerate(b.run(entry, arguments))}
    b.block = b.entry
    floats = "f64" if "xf64>" in str(module) else "f32"
    shapes = enumerate(t.type.rank for t in entry.arguments)
    called = {
        f"arg{i - first}": [names.get((i, axis), "") for axis in range(rank)]
        for i, rank in shapes
        if i >= len(weights)
    }
    function = write_function(b, FUNCTION, inputs, results, floats, called)
    outputs = [value_of(name, t) for name, t in results.items()]
    return ImportedModel(ModuleOp([function]), b.weights, inputs, outputs)


def dimension_names(entry: Any) -> dict[tuple[int, int], str]:
    """
    Returns names of the dynamic sizes of a function's arguments, by argument and dimension.

    `jax.export` passes the sizes to a function whose arguments name them, and asserts that sizes
    of one name are equal.
    """
    arguments, places = list(entry.arguments), dict[Any, tuple[int, int]]()
    names: dict[tuple[int, int], str] = {}
    functions = {
        f.operation.attributes["sym_name"].value: f.operation
        for f in entry.owner.parent.regions[0].blocks[0].operations
    }
    equal: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for op in (op.operation for op in entry.operations):
        known = [places.get(value) for value in op.operands]
        if op.name == "stablehlo.get_dimension_size" and op.operands[0] in arguments:
            axis = op.attributes["dimension"].value
            places[op.results[0]] = arguments.index(op.operands[0]), axis
        elif op.name == "stablehlo.compare" and None not in known:
            if comparison_of(op)[0] == "EQ":
                equal.append((known[0], known[1]))  # pyright: ignore[reportArgumentType]
        elif op.name == "func.call":
            called = functions[op.attributes["callee"].value]
            given = called.attributes["arg_attrs"] if "arg_attrs" in called.attributes else []
            for place, attributes in zip(known, given, strict=False):
                if place is not None and "jax.global_constant" in attributes:
                    names[place] = attributes["jax.global_constant"].value
    for one, other in equal:
        if other in names or one in names:
            names.setdefault(one, names.get(other, ""))
            names.setdefault(other, names[one])
    return names


def _arguments(
    b: Importer,
    entry: Any,
    weights: Sequence[Any],
    first: int,
    names: Mapping[tuple[int, int], str],
) -> tuple[list[Tensor], list[Value]]:
    """Returns the arguments of the main function as tensors, and descriptions of its inputs."""
    arguments: list[Tensor] = []
    inputs: list[Value] = []
    named: dict[str, Size] = {}
    for number, argument in enumerate(entry.arguments):
        name = f"arg{number - first}"
        try:
            element, sizes = type_of(argument, [OPEN] * argument.type.rank)
        except ValueError as error:
            raise FrontendError(str(error), f"the argument {name}", "cast it before") from error
        if number < len(weights):
            array = np.asarray(weights[number])
            if array.shape != sizes or array.dtype != element.dtype:
                raise FrontendError(
                    f"the weight of {name} has the shape {list(array.shape)} of {array.dtype}",
                    "@main",
                    f"give a weight of shape {list(sizes)} of {element}",
                )
            arguments.append(Tensor.of(array, f"weight{number}"))
            continue
        type = TensorType(element.type, sizes)
        value = b.entry.insert_arg(type, len(b.entry.args))
        own: list[Size] = list(sizes)
        for axis, size in enumerate(sizes):
            if size == OPEN:
                given = names.get((number, axis), "")
                own[axis] = symbol(Extent(value, axis, given))
                own[axis] = named.setdefault(given, own[axis]) if given else own[axis]
        t = Tensor(element, own, value)
        inputs.append(value_of(name, t))
        arguments.append(t)
    return arguments, inputs
