"""
Evaluates the constants of a module at launch.

A constant is evaluated on first use, so the order of constants in the module does not matter. A
size, a layout or the workgroup size may depend on operations on constants, declared earlier or
later. An OpSpecConstantOp is a raw instruction (raw.py). It is converted to the operation that it
names and evaluated by the semantics of this operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, StringAttr, SymbolRefAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, OptionalDef
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.interpreter.batch import Batch, Geometry
from xdsl_spirv.interpreter.constants import constant_value, given_scalar
from xdsl_spirv.interpreter.context import Context, symbol_name
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Form, Plain, zeros
from xdsl_spirv.interpreter.numbers import Array, DType
from xdsl_spirv.interpreter.semantics import semantics_of
from xdsl_spirv.interpreter.spirv.replicated import data_array, repeated

SpecValues = Mapping[int, int | float | bool]


def specialize(context: Context, values: SpecValues) -> None:
    """Sets the value of every constant of the module: the value given at launch, or the default."""
    evaluator = Evaluator(context, values)
    context.derive = evaluator.value
    constants = [
        op for op in context.module.regions[0].block.ops if isinstance(op, spv.ConstantSymbol)
    ]
    with np.errstate(all="ignore"):
        for op in constants:
            if not isinstance(op, spv.RawGlobalOp) or (
                op.constant_like and op.sym_name is not None
            ):
                context.specialize(symbol_name(op.properties["sym_name"]))
    ids = {op.spec_id for op in constants if isinstance(op, spv.SpecConstantOp)} - {None}
    unknown = sorted(set(values) - ids)
    if unknown:
        known = sorted(id for id in ids if id is not None)
        raise InterpreterError(
            f"the module has no specialization constant with SpecId {unknown[0]}",
            "spec_constants",
            f"its SpecIds are: {', '.join(map(str, known)) or 'none'}",
        )


class Evaluator:
    """Evaluates the constants of one module, by symbol."""

    def __init__(self, context: Context, values: SpecValues):
        self.context = context
        self.values = values
        self._open: list[str] = []

    def value(self, name: str) -> Any:
        """Returns the value of a constant. Raises `InterpreterError` if it depends on itself."""
        op = self.context.symbols.get(name)
        if not isinstance(op, spv.ConstantSymbol):
            raise InterpreterError(f"@{name} is not a specialization constant")
        if name in self._open:
            raise InterpreterError(f"the constant @{name} depends on itself", op)
        self._open.append(name)
        value = self._evaluate(op)
        self._open.pop()
        return value

    def _evaluate(self, op: spv.ConstantSymbol) -> Any:
        context = self.context
        match op:
            case spv.SpecConstantOp():
                default = constant_value(op.default_value, op.type, context)
                given = None if op.spec_id is None else self.values.get(op.spec_id)
                return default if given is None else self._given(op, given, default.dtype)
            case spv.SpecConstantCompositeOp():
                return self._composite(op.constituents.data, context.form(op.type))
            case spv.SpecConstantCompositeReplicateOp():
                return repeated(context.specialize(op.constituent), context.form(op.type))
            case spv.SpecConstantDataOp():
                return data_array(op, context.form(op.type))
            case spv.RawGlobalOp():
                return self._carried(op)
            case _:
                raise InterpreterError(f"the constant {op.name} is not supported", op)

    @staticmethod
    def _given(op: spv.SpecConstantOp, value: Any, dtype: DType) -> Array:
        name = f"the constant @{op.sym_name.data} (SpecId {op.spec_id})"
        try:
            return given_scalar(value, dtype, name).reshape(1, 1, 1)
        except ValueError as error:
            raise InterpreterError(str(error), "spec_constants") from None

    def _carried(self, op: spv.RawGlobalOp) -> Any:
        """Evaluates a constant that is a raw instruction."""
        form = self.context.form(op.constant_type)
        match op.instruction.data:
            case "OpSpecConstantOp":
                return self._operation(op)
            case "OpSpecConstantComposite" | "OpConstantComposite":
                return self._composite(op.layout.data, form)
            case "OpSpecConstantCompositeReplicateEXT" | "OpConstantCompositeReplicateEXT":
                return repeated(self.operand(op.layout.data[0]), form)
            case "OpConstantNull" | "OpUndef":
                return zeros(form)
            case "OpConstantTrue" | "OpConstantFalse":
                true = op.instruction.data == "OpConstantTrue"
                return np.full((1, 1, 1), true)
            case "OpConstant" if isinstance(form, Plain):
                words = [word.data for word in op.layout.data if isinstance(word, IntAttr)]
                size = form.dtype.itemsize
                return np.array(words, "<u4").view(np.uint8)[:size].view(form.dtype)[None, None]
            case name:
                raise InterpreterError(f"the constant {name} is not supported", op)

    def operand(self, attribute: Attribute) -> Any:
        """
        Returns the value of a constant operand or constituent. Raises `InterpreterError` if it is
        not a constant.
        """
        if isinstance(attribute, SymbolRefAttr):
            return self.context.specialize(attribute)
        if isinstance(attribute, spv.ConstantRefAttr):
            return constant_value(attribute.value, attribute.type, self.context)
        raise InterpreterError(
            f"an operand of a specialization constant must be a constant, not {attribute}"
        )

    def _composite(self, constituents: Sequence[Attribute], form: Form) -> Any:
        parts = [self.operand(constituent) for constituent in constituents]
        return np.stack(parts, axis=3) if isinstance(form, Plain) else tuple(parts)

    def _operation(self, op: spv.RawGlobalOp) -> Any:
        named = operation_named_by(op, self.context)
        meaning = semantics_of(named)
        constants = op.layout.data[1:]
        values = [self.operand(a) for a in constants if not isinstance(a, IntAttr | TypeAttribute)]
        match meaning.kind:
            case "constant":
                return meaning.stage(named, self.context)
            case "value":
                return meaning.stage(named, self.context)(*values)
            case "action":
                one = Geometry((1, 1, 1), (1, 1, 1), self.context.options.subgroup_size)
                return meaning.stage(named, self.context)(Batch(one, 0, 1), *values)
            case _:
                raise InterpreterError(f"{named.name} of constants is not supported", op)


def operation_named_by(op: spv.RawGlobalOp, context: Context) -> Operation:
    """
    Returns the operation that an OpSpecConstantOp names, with constants as operands.

    The ids among the instruction's operands become the operation's operands, in order. All its
    literals together become one property. Each type becomes a property, too.
    """
    opcode, *layout = op.layout.data
    name = opcode.data if isinstance(opcode, StringAttr) else str(opcode)
    try:
        cls = _operations().get(name)
        if cls is None:
            raise VerifyException(f"{name} is not an operation of the dialect")
        definition = cls.get_irdl_definition()
        numbers = [word.data for word in layout if isinstance(word, IntAttr)]
        rest = [ArrayAttr([IntegerAttr(n, i32) for n in numbers])] if numbers else []
        rest += [a for a in layout if isinstance(a, TypeAttribute)]
        operands = [
            _constant(a, context) for a in layout if not isinstance(a, IntAttr | TypeAttribute)
        ]
        fields = [
            field for field, p in definition.properties.items() if not isinstance(p, OptionalDef)
        ]
        named = cls.create(
            operands=operands,
            result_types=[op.constant_type],
            properties=dict(zip(fields, rest, strict=True)),
        )
        definition.verify(named)
        named.verify_()
    except (ValueError, VerifyException) as error:
        raise InterpreterError(f"OpSpecConstantOp {name}: {error}", op) from error
    return named


@cache
def _operations() -> dict[str, type[IRDLOperation]]:
    return {
        name: cls
        for cls in SPIRV.operations
        if issubclass(cls, spv.SPIRVOp)
        for in_set, name in [spv.instruction_of(cls)]
        if in_set is None
    }


def _constant(attribute: Attribute, context: Context) -> SSAValue:
    if isinstance(attribute, spv.ConstantRefAttr):
        return spv.ConstantOp(attribute.value, attribute.type).result
    constant = context.symbol(attribute) if isinstance(attribute, SymbolRefAttr) else None
    if not isinstance(attribute, SymbolRefAttr) or not isinstance(constant, spv.ConstantSymbol):
        raise VerifyException(f"an operand must be a constant, not {attribute}")
    return spv.ReferenceOfOp(attribute, constant.constant_type).result
