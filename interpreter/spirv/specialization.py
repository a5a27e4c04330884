"""
The constants of a module at launch.

A constant is evaluated when it is first asked for, so their order in the module means nothing: a
size, a layout or the workgroup's size may come from any operation on constants declared before or
behind it. OpSpecConstantOp is carried (raw.py); it becomes the operation that it names by the
decoder's own plan, and is evaluated by that operation's semantics, so there is no list of the
operations that are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    IntAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.constants import (
    ConstantOp,
    ConstantSymbol,
    ReferenceOfOp,
    SpecConstantCompositeOp,
    SpecConstantOp,
)
from xdsl_spirv.dialects.spirv.raw import ConstantRefAttr, RawGlobalOp
from xdsl_spirv.dialects.spirv.replicated import (
    SpecConstantCompositeReplicateOp,
    SpecConstantDataOp,
)
from xdsl_spirv.grammar import grammar
from xdsl_spirv.interpreter.constants import constant_value, given_scalar
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Form, Plain, zeros
from xdsl_spirv.interpreter.numbers import Array, DType
from xdsl_spirv.interpreter.semantics import semantics_of
from xdsl_spirv.interpreter.spirv.replicated import data_array, repeated
from xdsl_spirv.interpreter.unit import Unit, symbol_name
from xdsl_spirv.interpreter.wave import Geometry, Wave
from xdsl_spirv.serialization.decode.operations import NotDeclared, classes, decoder_of

SpecValues = Mapping[int, int | float | bool]


def specialize(unit: Unit, values: SpecValues) -> None:
    """Give every constant of the module its value from the launch or its default."""
    evaluator = Evaluator(unit, values)
    unit.derive = evaluator.value
    constants = [op for op in unit.module.regions[0].block.ops if isinstance(op, ConstantSymbol)]
    with np.errstate(all="ignore"):
        for op in constants:
            if not isinstance(op, RawGlobalOp) or (op.constant_like and op.sym_name is not None):
                unit.specialize(symbol_name(op.properties["sym_name"]))
    ids = {op.spec_id for op in constants if isinstance(op, SpecConstantOp)} - {None}
    unknown = sorted(set(values) - ids)
    if unknown:
        known = sorted(id for id in ids if id is not None)
        raise InterpreterError(
            f"the module has no specialization constant with SpecId {unknown[0]}",
            "spec_constants",
            f"its SpecIds are: {', '.join(map(str, known)) or 'none'}",
        )


class Evaluator:
    """The values of one module's constants, by symbol."""

    def __init__(self, unit: Unit, values: SpecValues):
        self.unit = unit
        self.values = values
        self._open: list[str] = []

    def value(self, name: str) -> Any:
        """The value of a constant; `InterpreterError` if it has none, or depends on itself."""
        op = self.unit.symbols.get(name)
        if not isinstance(op, ConstantSymbol):
            raise InterpreterError(f"@{name} is not a specialization constant")
        if name in self._open:
            raise InterpreterError(f"the constant @{name} depends on itself", op)
        self._open.append(name)
        made = self._evaluate(op)
        self._open.pop()
        return made

    def _evaluate(self, op: ConstantSymbol) -> Any:
        unit = self.unit
        match op:
            case SpecConstantOp():
                made = constant_value(op.default_value, op.type, unit)
                given = None if op.spec_id is None else self.values.get(op.spec_id)
                return made if given is None else self._given(op, given, made.dtype)
            case SpecConstantCompositeOp():
                return self._composite(op.constituents.data, unit.form(op.type))
            case SpecConstantCompositeReplicateOp():
                return repeated(unit.specialize(op.constituent), unit.form(op.type))
            case SpecConstantDataOp():
                return data_array(op, unit.form(op.type))
            case RawGlobalOp():
                return self._carried(op)
            case _:
                raise InterpreterError(f"the constant {op.name} is not executed", op)

    @staticmethod
    def _given(op: SpecConstantOp, value: Any, dtype: DType) -> Array:
        """The launch's value of a constant."""
        try:
            return given_scalar(value, dtype).reshape(1, 1, 1)
        except ValueError as error:
            raise InterpreterError(
                f"the constant @{op.sym_name.data} (SpecId {op.spec_id}) {error}", "spec_constants"
            ) from None

    def _carried(self, op: RawGlobalOp) -> Any:
        """A constant without an operation of its own."""
        form = self.unit.form(op.constant_type)
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
                raise InterpreterError(f"the constant {name} is not executed", op)

    def operand(self, attribute: Attribute) -> Any:
        """The value of a constituent or an operand."""
        if isinstance(attribute, SymbolRefAttr):
            return self.unit.specialize(attribute)
        if isinstance(attribute, ConstantRefAttr):
            return constant_value(attribute.value, attribute.type, self.unit)
        raise InterpreterError(f"{attribute} is no constant")

    def _composite(self, constituents: Sequence[Attribute], form: Form) -> Any:
        parts = [self.operand(constituent) for constituent in constituents]
        return np.stack(parts, axis=3) if isinstance(form, Plain) else tuple(parts)

    def _operation(self, op: RawGlobalOp) -> Any:
        """OpSpecConstantOp: the operation that it names, on its operands' values."""
        operands = CarriedOperands(op, self.unit)
        made = operands.operation()
        found = semantics_of(made)
        values = [self.operand(operands.attributes[id]) for id in operands.read]
        match found.kind:
            case "constant":
                return found.stage(made, self.unit)
            case "value":
                return found.stage(made, self.unit)(*values)
            case "action":
                one = Geometry((1, 1, 1), (1, 1, 1), self.unit.options.subgroup_size)
                return found.stage(made, self.unit)(Wave(one, 0, 1), *values)
            case _:
                raise InterpreterError(f"{made.name} of constants is not executed", op)


class CarriedOperands:
    """
    The operands of a carried OpSpecConstantOp as a plan of the decoder asks for them (`Known`).

    An operand that is no literal has its place in the instruction as its id.
    """

    RESULT_TYPE, RESULT, FIRST = 1, 2, 3

    def __init__(self, op: RawGlobalOp, unit: Unit):
        self.op = op
        self.unit = unit
        self.location: LocationAttr = UNKNOWN_LOC
        self.read: list[int] = []
        """The ids that are values, in the order of the operation's operands."""
        self.attributes = dict(enumerate(op.layout.data[1:], self.FIRST))

    def operation(self) -> Operation:
        """The operation, with constants as operands."""
        opcode = self.op.layout.data[0]
        name = opcode.data if isinstance(opcode, StringAttr) else str(opcode)
        entry = grammar().instruction(name) if name in grammar() else None
        found = None if entry is None else classes().get((None, entry.opcode))
        words = [a.data if isinstance(a, IntAttr) else i for i, a in self.attributes.items()]
        try:
            if found is None:
                raise NotDeclared(f"{name} is no operation of the dialect")
            made = decoder_of(found)(self, (0, self.RESULT_TYPE, self.RESULT, *words))
            made.verify_()
        except (NotDeclared, VerifyException) as error:
            raise InterpreterError(f"OpSpecConstantOp {name}: {error}", self.op) from error
        return made

    def value(self, id: int) -> SSAValue:
        """A constant operation for an operand."""
        self.read.append(id)
        attribute = self.attributes[id]
        if isinstance(attribute, ConstantRefAttr):
            return ConstantOp(attribute.value, attribute.type).result
        if not isinstance(attribute, SymbolRefAttr):
            raise NotDeclared(f"{attribute} is no constant")
        constant = self.unit.symbol(attribute)
        if not isinstance(constant, ConstantSymbol):
            raise NotDeclared(f"{attribute} is no constant")
        return ReferenceOfOp(attribute, constant.constant_type).result

    def type(self, id: int) -> Attribute:
        """The result's type, or an operand that is a type."""
        return self.op.constant_type if id == self.RESULT_TYPE else self.attributes[id]

    def attribute(self, id: int) -> Attribute | None:
        """A constant's value, a symbol or a type."""
        attribute = self.attributes[id]
        return attribute.value if isinstance(attribute, ConstantRefAttr) else attribute

    def constant(self, id: int) -> int | None:
        """The number of an integer constant."""
        value = self.attribute(id)
        return value.value.data if isinstance(value, IntegerAttr) else None
