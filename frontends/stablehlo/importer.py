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
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr
from xdsl.ir import Block

from xdsl_spirv.frontends.errors import UNFORESEEN, FrontendError, import_needed
from xdsl_spirv.frontends.model import FUNCTION, ImportedModel, Value
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.functions import value_of, write_function
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import ELEMENTS, Element, Tensor, tensor_type
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
                operands = [self.values[value] for value in operation.operands]
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
        element, sizes = type_of(op.results[0])
        known = self._fold(op, operands, element)
        if known is not None:
            return [known]
        body = self.body_of(op)
        maps = [list(range(t.rank)) for t in operands]
        return [self.mapped(body, list(zip(operands, maps, strict=True)), sizes, element)]

    def _fold(self, op: Any, operands: Sequence[Tensor], element: Element) -> Tensor | None:
        """Folds an operation on known integer scalars or sizes; returns None if impossible."""
        fold = FOLDS.get(op.name)
        if fold is None or element.is_float:
            return None
        items = [None if t.known is None or t.rank else t.known.item() for t in operands]
        if None in items or any(t.element.is_float for t in operands):
            return None
        options = comparison_of(op) if op.name == "stablehlo.compare" else ()
        item = fold(*items, *options)
        if item is None:
            return None
        known = np.array(item, object)
        return Tensor(
            element, (), known=known if not isinstance(item, int) else wrap_integers(known, element)
        )

    def body_of(self, op: Any) -> Callable[..., Number]:
        """Returns the body of an elementwise operation."""
        if op.name == "stablehlo.compare":
            options = comparison_of(op)
            return lambda s, x, y: compare(s, x, y, *options)
        if op.name == "stablehlo.convert":
            element, _ = type_of(op.results[0])
            return lambda s, x: convert_number(s, x, element)
        if op.name == "stablehlo.reduce_precision":
            widths = (op.attributes[f"{part}_bits"].value for part in ("exponent", "mantissa"))
            return lambda s, x, widths=tuple(widths): reduce_precision(s, x, *widths)
        if op.name == "chlo.constant":
            self.refuse(f"{op.name} is not supported", "use other functions of JAX")
        body = BODIES.get(op.name)
        if body is None:
            self.refuse("the operation is not supported", "use other functions of JAX")
        element, _ = type_of(op.results[0])
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
                element, _ = type_of(inner.results[0])
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


def type_of(value: Any) -> tuple[Element, tuple[int, ...]]:
    """Returns element type and sizes of a jaxlib value. Raises `ValueError` for other types."""
    ir = import_module("jaxlib.mlir.ir")
    if not isinstance(value.type, ir.RankedTensorType):
        raise ValueError(f"a value must be a tensor, not {value.type}")
    type = ir.RankedTensorType(value.type)
    name = str(type.element_type)
    if name not in ELEMENTS:
        raise ValueError(f"elements of the type {name} are not supported")
    if not type.has_static_shape:
        raise ValueError(f"{type} has dynamic sizes: export the function for fixed sizes")
    return ELEMENTS[name], tuple(type.shape)


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
    arguments, inputs = _arguments(b, entry, weights, first)
    results = {f"result{i}": t for i, t in enumerate(b.run(entry, arguments))}
    b.block = b.entry
    floats = "f64" if "xf64>" in str(module) else "f32"
    function = write_function(b, FUNCTION, inputs, results, floats)
    outputs = [value_of(name, t) for name, t in results.items()]
    return ImportedModel(ModuleOp([function]), b.weights, inputs, outputs)


def _arguments(
    b: Importer, entry: Any, weights: Sequence[Any], first: int
) -> tuple[list[Tensor], list[Value]]:
    """Returns the arguments of the main function as tensors, and descriptions of its inputs."""
    arguments: list[Tensor] = []
    inputs: list[Value] = []
    for number, argument in enumerate(entry.arguments):
        name = f"arg{number - first}"
        try:
            element, sizes = type_of(argument)
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
        t = Tensor(element, sizes)
        t.value = b.entry.insert_arg(tensor_type(element, sizes), len(b.entry.args))
        inputs.append(value_of(name, t))
        arguments.append(t)
    return arguments, inputs
