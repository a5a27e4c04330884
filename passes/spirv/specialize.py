"""
Replaces specialization constants by constants, and folds operations and types that use them.

    spirv-specialize{values="0=16","tile=64"}
    spirv-specialize{defaults=true}

A constant is named by its SpecId or its symbol. The pass folds operations on specialization
constants, sizes and scopes in types, operands of execution modes (LocalSizeId becomes LocalSize),
and composites such as the built-in WorkgroupSize. If a symbol reference remains (a variable's
initializer), the specialization constant becomes a constant with that symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    SymbolRefAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import IRDLOperation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.passes.spirv.fallback.retype import Retyping

NAME = "spirv-specialize"

COMPOSITES = ("OpConstantComposite", "OpConstantCompositeReplicateEXT")

KEEPS_SYMBOLS = ("variable", "fn", "callee", "interface", "spec_const", "initializer", "sym_name")
"""Properties whose symbols do not refer to a constant."""


def parse_values(texts: Iterable[str]) -> dict[str, str]:
    """Parses texts such as `["0=16", "tile=64"]`. Raises `PassFailedException` for other texts."""
    assigned: dict[str, str] = {}
    for text in texts:
        for one in filter(None, text.split(",")):
            key, equals, value = one.partition("=")
            key, value = key.strip(), value.strip()
            if not equals or not key or not value:
                raise PassFailedException(f"{NAME}: {one!r} assigns no value: write ID=VALUE")
            if key in assigned:
                raise PassFailedException(f"{NAME}: {key} is given twice")
            assigned[key] = value
    return assigned


def specialize(module: SPIRVModuleOp, values: Mapping[str, str], *, defaults: bool = False) -> None:
    """
    Freezes the constants in `values`, by SpecId or symbol; with `defaults`, freezes all others,
    too.

    Raises `PassFailedException` for a name that the module does not have, a value that its type
    cannot hold, and a value that makes a type invalid.
    """
    try:
        Specialization(module).run(values, defaults=defaults)
    except VerifyException as error:
        raise PassFailedException(f"{NAME}: a type becomes invalid: {error}") from error


@dataclass(frozen=True)
class SpecializePass(ModulePass):
    """Freezes specialization constants, and folds operations and types that use them."""

    name = NAME

    values: tuple[str, ...] = ()
    """`ID=VALUE` pairs, where ID is a SpecId or a symbol, quoted and separated by commas."""
    defaults: bool = False
    """Freezes the constants that `values` does not name at their default values."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        modules = [o for o in op.walk() if isinstance(o, SPIRVModuleOp)]
        if not modules:
            raise PassFailedException(
                f"{NAME}: the program has no spirv.module: run linalg-to-spirv first"
            )
        for module in modules:
            specialize(module, parse_values(self.values), defaults=self.defaults)


class Specialization:
    """Specializes the constants of one module."""

    def __init__(self, module: SPIRVModuleOp):
        self.module = module
        self.known: dict[str, spv.Number] = {}
        """Maps a symbol to the value of a scalar constant."""
        self.vectors: dict[str, DenseIntOrFPElementsAttr] = {}
        """Maps a symbol to the values of a vector constant."""
        self.composites: dict[str, list[Attribute]] = {}
        """Maps a symbol to the constituents of a constant composite."""
        self._type = Retyping(self._with_constants)

    def run(self, values: Mapping[str, str], *, defaults: bool) -> None:
        self._freeze(values, defaults=defaults)
        if not self.known:
            return
        for op in list(self.module.body.block.ops):
            self._fold_global(op)
        for op in list(self.module.walk()):
            if op is not self.module:
                self._rewrite(op)
        self._drop()

    # Values.

    def _freeze(self, values: Mapping[str, str], *, defaults: bool) -> None:
        constants = [o for o in self.module.body.block.ops if isinstance(o, spv.SpecConstantOp)]
        # A value sets all constants that have its SpecId.
        by_key: dict[str, list[spv.SpecConstantOp]] = {}
        for op in constants:
            by_key.setdefault(op.sym_name.data, []).append(op)
            if op.spec_id is not None and str(op.spec_id) != op.sym_name.data:
                by_key.setdefault(str(op.spec_id), []).append(op)
        for key, text in values.items():
            if key not in by_key:
                shown = ", ".join(_describe(o) for o in constants) or "none"
                raise PassFailedException(
                    f"{NAME}: the module has no specialization constant {key}; it has: {shown}"
                )
            for op in by_key[key]:
                if op.sym_name.data in self.known:
                    raise PassFailedException(f"{NAME}: @{op.sym_name.data} is given twice")
                self.known[op.sym_name.data] = _parse(key, text, op.type)
        for op in constants if defaults else ():
            default = op.default_value
            if isinstance(default, IntegerAttr | FloatAttr):
                self.known.setdefault(op.sym_name.data, default)

    # Outside of functions.

    def _fold_global(self, op: Operation) -> None:
        if isinstance(op, spv.SpecConstantCompositeOp):
            op = self._as_raw(op)
        if not isinstance(op, spv.RawGlobalOp) or op.sym_name is None:
            return
        layout = [self._operand(o) for o in op.layout]
        op.layout = ArrayAttr(layout)
        name = op.instruction.data
        values = [o.value for o in layout if isinstance(o, spv.ConstantRefAttr)]
        numbers = [v for v in values if isinstance(v, IntegerAttr | FloatAttr)]
        if name == "OpSpecConstantOp" and op.type is not None and len(numbers) == len(layout) - 1:
            opcode = layout[0]
            value = spv.evaluate(getattr(opcode, "data", ""), numbers, op.type)
            if value is not None:
                self.known[op.sym_name.data] = value
        elif name == "OpSpecConstantOp" and getattr(layout[0], "data", "") == "OpCompositeExtract":
            part = self._extract(layout[1], layout[2:])
            if isinstance(part, IntegerAttr | FloatAttr):
                self.known[op.sym_name.data] = part
        elif name == "OpSpecConstantComposite" and len(values) == len(layout):
            op.properties["instruction"] = type(op.instruction)("OpConstantComposite")
            self.composites[op.sym_name.data] = values
            if isinstance(op.type, VectorType) and len(numbers) == len(layout):
                dense = cast(Callable[..., Any], DenseIntOrFPElementsAttr.from_list)
                self.vectors[op.sym_name.data] = dense(op.type, [n.value.data for n in numbers])

    def _extract(self, composite: Attribute, indexes: Sequence[Attribute]) -> Attribute | None:
        """Returns the constituent that an index selects, if the composite is known."""
        name = composite.string_value() if isinstance(composite, SymbolRefAttr) else ""
        if len(indexes) != 1 or name not in self.composites:
            return None
        return self.composites[name][getattr(indexes[0], "data", 0)]

    def _as_raw(self, op: spv.SpecConstantCompositeOp) -> Operation:
        """Rewrites a composite of specialization constants if some values are now known."""
        if not any(s.string_value() in self.known for s in op.constituents):
            return op
        raw_global = spv.RawGlobalOp(
            op.sym_name.data, "OpSpecConstantComposite", list(op.constituents), op.type
        )
        raw_global.attributes |= op.attributes
        Rewriter.replace_op(op, raw_global, [])
        return raw_global

    def _operand(self, operand: Attribute) -> Attribute:
        if isinstance(operand, SymbolRefAttr) and operand.string_value() in self.known:
            value = self.known[operand.string_value()]
            return spv.ConstantRefAttr(value, value.type)
        return self._type(operand)

    # Everywhere.

    def _rewrite(self, op: Operation) -> None:
        self._type.retype_values(op)
        for name, attribute in op.properties.items():
            if name not in KEEPS_SYMBOLS:
                op.properties[name] = self._property(op, name, attribute)
        if isinstance(op, spv.ExecutionModeOp):
            self._execution_mode(op)
        elif isinstance(op, spv.ReferenceOfOp) and op.spec_const.string_value() in self.known:
            Rewriter.replace_op(op, spv.ConstantOp(self.known[op.spec_const.string_value()]))
        elif isinstance(op, spv.ReferenceOfOp) and op.spec_const.string_value() in self.vectors:
            vector = self.vectors[op.spec_const.string_value()]
            Rewriter.replace_op(op, spv.ConstantOp(vector, op.result.type))
        elif isinstance(op, spv.SpecConstantOperationOp) and (value := op.fold()) is not None:
            Rewriter.replace_op(op, spv.ConstantOp(value[0], op.result.type))

    def _execution_mode(self, op: spv.ExecutionModeOp) -> None:
        values = [
            self.known.get(v.string_value(), v) if isinstance(v, SymbolRefAttr) else v
            for v in op.values
        ]
        op.properties["values"] = ArrayAttr(values)
        constant = all(isinstance(v, IntegerAttr) for v in values)
        if op.execution_mode.data is spv.ExecutionMode.LocalSizeId and constant:
            op.execution_mode = spv.ExecutionModeAttr(spv.ExecutionMode.LocalSize)

    def _property(self, op: Operation, name: str, attribute: Attribute) -> Attribute:
        if not isinstance(attribute, SymbolRefAttr) or not isinstance(op, IRDLOperation):
            return self._type(attribute)
        if attribute.string_value() not in self.known:
            return attribute
        definition = op.get_irdl_definition()
        declared = definition.properties.get(name)
        bases = None if declared is None else declared.constr.get_bases()
        return self._number(self.known[attribute.string_value()], bases or ())

    # Types.

    def _with_constants(self, attribute: Attribute) -> Attribute | None:
        """Replaces symbols of known constants among an attribute's parameters by the values."""
        if not isinstance(attribute, ParametrizedAttribute) or isinstance(
            attribute, SymbolRefAttr | IntegerAttr | FloatAttr
        ):
            return None
        definitions = type(attribute).get_irdl_definition().parameters
        parameters: list[Attribute] = []
        for (_, definition), parameter in zip(definitions, attribute.parameters, strict=True):
            bases = definition.constr.get_bases() or ()
            parameters.append(self._parameter(parameter, bases))
        if tuple(parameters) == tuple(attribute.parameters):
            return attribute
        return type(attribute).new(parameters)

    def _parameter(self, parameter: Attribute, bases: Iterable[type[Attribute]]) -> Attribute:
        if isinstance(parameter, ArrayAttr):
            parts = cast("Sequence[Attribute]", parameter.data)
            return ArrayAttr([self._parameter(a, (IntAttr,)) for a in parts])
        if not isinstance(parameter, SymbolRefAttr):
            return self._type(parameter)
        value = self.known.get(parameter.string_value())
        return parameter if value is None else self._number(value, bases)

    @staticmethod
    def _number(value: spv.Number, bases: Iterable[type[Attribute]]) -> Attribute:
        if not isinstance(value, IntegerAttr):
            raise PassFailedException(
                f"{NAME}: a constant that a type uses must be an integer, not {value}"
            )
        number = value.value.data & 0xFFFFFFFF
        for cls in bases:
            if issubclass(cls, spv.EnumerationAttr):
                try:
                    return cls(cls.ENUM(number))
                except ValueError:
                    raise PassFailedException(
                        f"{NAME}: {number} is not a {cls.ENUM.__name__}"
                    ) from None
        return IntAttr(number) if IntAttr in bases else value

    # Remaining specialization constants

    def _drop(self) -> None:
        """
        Removes unused constants; turns constants that a symbol refers to into ordinary constants.
        """
        used = _symbols_in(self.module)
        for op in list(self.module.body.block.ops):
            if not isinstance(op, spv.SpecConstantOp | spv.RawGlobalOp) or op.sym_name is None:
                continue
            name = op.sym_name.data
            if name not in self.known:
                constant = isinstance(op, spv.RawGlobalOp) and op.instruction.data in COMPOSITES
                if constant and not op.attributes and name not in used:
                    Rewriter.erase_op(op)
                continue
            if name in used:
                Rewriter.replace_op(op, _constant(name, self.known[name]), [])
            else:
                Rewriter.erase_op(op)


def _constant(name: str, value: spv.Number) -> spv.RawGlobalOp:
    if value.type == IntegerType(1):
        instruction = "OpConstantTrue" if value.value.data else "OpConstantFalse"
        return spv.RawGlobalOp(name, instruction, (), value.type)
    words = [IntAttr(word) for word in spv.literal_words(value, value.type)]
    return spv.RawGlobalOp(name, "OpConstant", words, value.type)


def _symbols_in(module: SPIRVModuleOp) -> set[str]:
    symbols: set[str] = set()
    for op in module.walk():
        for attribute in (*op.properties.values(), *op.attributes.values()):
            waiting = [attribute]
            while waiting:
                one = waiting.pop()
                if isinstance(one, SymbolRefAttr):
                    symbols.add(one.string_value())
                elif isinstance(one, ArrayAttr):
                    waiting += one.data
    return symbols


def _describe(op: spv.SpecConstantOp) -> str:
    spec_id = "" if op.spec_id is None else f" (SpecId {op.spec_id})"
    return f"@{op.sym_name.data}{spec_id}: {op.type}"


def _parse(key: str, text: str, t: Attribute) -> spv.Number:
    try:
        if isinstance(t, AnyFloat):
            packed = t.pack((float(text),))
            return FloatAttr(next(t.iter_unpack(packed)), t)
        if isinstance(t, IntegerType):
            return _parse_integer(text, t)
    except (ValueError, OverflowError):
        pass
    raise PassFailedException(f"{NAME}: the value of {key} must have type {t}, but is {text}")


def _parse_integer(text: str, t: IntegerType) -> IntegerAttr:
    width = t.width.data
    if width == 1:
        if text not in ("true", "false", "0", "1"):
            raise ValueError(text)
        return IntegerAttr.from_bool(text in ("true", "1"))
    value = int(text, 0)
    if not -(1 << (width - 1)) <= value < 1 << width:
        raise ValueError(text)
    return spv.integer_attribute(value, t)
