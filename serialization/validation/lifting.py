"""
Converts an instruction of a binary to a detached operation, so that its verifier can check it.

The decoder's readers (`decode/operations.py`) make the operation. `Lifter` gives them types, values
and constants from the indexed module. Unlike the decoder, it accepts modules that break rules. A
type that the dialect cannot represent becomes an `OtherType`, which is not a number, vector or
matrix. A value has only a type and, if constant, its number.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects import spv
from xdsl_spirv.serialization.decode.operations import NotDeclared, core_decoder, extended_decoder
from xdsl_spirv.serialization.decode.types import MAX_INTEGER_BITS
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.types import Type

FLOATS: dict[str, Attribute] = {
    "Float16": Float16Type(),
    "Float32": Float32Type(),
    "Float64": Float64Type(),
    "BFloat16KHR": BFloat16Type(),
    "Float8E4M3EXT": Float8E4M3FNType(),
    "Float8E5M2EXT": Float8E5M2Type(),
}


@irdl_attr_definition
class OtherType(ParametrizedAttribute, TypeAttribute):
    """A type that the extensions' rules do not inspect. It has a name for findings."""

    name = "spirv.other_type"
    text: StringAttr

    def __str__(self) -> str:
        return self.text.data


class Lifter:
    """
    Converts single instructions of a raw module to operations of the `spirv` dialect.

    The decoder's readers look up types, constants and values by id here (interface `Known`).
    """

    location = UNKNOWN_LOC

    def __init__(self, m: Module):
        self.m = m
        self._types: dict[int, Attribute] = {}
        self._values: dict[int, SSAValue] = {}
        self._by_default = False
        """True if specialization constants have their default values."""

    def operation(self, i: Instruction) -> Operation | None:
        """
        Returns an instruction as an operation. Returns None if the dialect cannot represent it.
        """
        if i.op == "ExtInst":
            imported = self.m.imports.get(i.get("set"), "")
            decode = extended_decoder(imported, i.words[4]) if len(i.words) > 4 else None
        else:
            decode = core_decoder(i.words[0] & 0xFFFF)
        if decode is None:
            return None
        try:
            return decode(self, i.words)
        except (NotDeclared, VerifyException):
            pass
        self._by_default = True
        try:
            return decode(self, i.words)
        except (NotDeclared, VerifyException):
            return None
        finally:
            self._by_default = False

    def type(self, id: int) -> Attribute:
        """Returns the type with an id. Raises `NotDeclared` if the id is not a type."""
        lifted = self._types.get(id)
        if lifted is None:
            type_ = self.m.types.get(id)
            if type_ is None:
                raise NotDeclared("an operand must be a type")
            try:
                lifted = self._lift(type_)
            except (VerifyException, ValueError, KeyError, OverflowError):
                lifted = OtherType(
                    StringAttr(str(type_))
                )  # Rules of type declarations report the error.
            self._types[id] = lifted
        return lifted

    def _lift(self, type_: Type) -> Attribute:
        match type_.kind:
            case "Bool":
                return i1
            case "Int" if type_.width <= MAX_INTEGER_BITS:
                signedness = Signedness.SIGNED if type_.signed else Signedness.SIGNLESS
                return IntegerType(type_.width, signedness)
            case "Float":
                return FLOATS[type_.encoding or f"Float{type_.width}"]
            case "Vector" if type_.element is not None:
                return VectorType(self.type(type_.element.id), (type_.lanes,))
            case "CooperativeMatrixKHR":
                return self.matrix(type_)
            case "Pointer":
                return self._pointer(type_)
            case "UntypedPointerKHR":
                return spv.UntypedPointerType(spv.StorageClass[type_.storage])
            case _:
                return OtherType(StringAttr(str(type_)))

    def matrix(self, type_: Type) -> Attribute:
        """Returns a cooperative matrix type. Raises `VerifyException` if the type breaks a rule."""
        words = type_.at.words
        if len(words) < 7 or type_.element is None:
            return OtherType(StringAttr(str(type_)))
        scope, rows, columns, use = words[3:7]
        known_use, known_scope = self.m.integer(use, default=True), self.m.integer(scope)
        if known_use not in set(spv.CooperativeMatrixUse) or known_scope not in {None, *spv.Scope}:
            return OtherType(StringAttr(str(type_)))
        return spv.CooperativeMatrixType(
            self._size(rows),
            self._size(columns),
            self.type(type_.element.id),
            self._symbol(scope) if known_scope is None else spv.Scope(known_scope),
            spv.CooperativeMatrixUse(known_use),
        )

    def _size(self, id: int) -> int | SymbolRefAttr:
        number = self.m.integer(id)
        return self._symbol(id) if number is None else number & 0xFFFFFFFF

    def _symbol(self, id: int) -> SymbolRefAttr:
        return SymbolRefAttr(self.m.names.get(id) or f"id_{id}")

    def _pointer(self, type_: Type) -> Attribute:
        held = self.m.pointee(type_)
        shallow = held is not None and (held.is_scalar_or_vector or held.is_matrix)
        pointee = (
            self.type(held.id) if held is not None and shallow else OtherType(StringAttr(str(held)))
        )
        return spv.PointerType(pointee, spv.StorageClass[type_.storage])

    def value(self, id: int) -> SSAValue:
        """
        Returns a value with the type of the id. For a constant, the owner of the value is a
        constant operation.
        """
        value = self._values.get(id)
        if value is None:
            value = self._values[id] = self._value(id)
        return value

    def _value(self, id: int) -> SSAValue:
        type_ = self.m.type_of(id)
        if type_ is None:
            raise NotDeclared("an operand must be a value")
        lifted, number = self.type(type_.id), self.m.integer(id)
        if number is not None and isinstance(lifted, IntegerType):
            return spv.ConstantOp(IntegerAttr(number, lifted)).result
        if self.m.is_constant(id):
            return spv.ReferenceOfOp(self._symbol(id).string_value(), lifted).result
        return Block(arg_types=[lifted]).args[0]

    def attribute(self, id: int) -> Attribute | None:
        """
        Converts an id to an attribute: a type, the value of an integer constant, or the symbol of
        another constant. Any other id becomes an `OtherType`.
        """
        if id in self.m.types:
            return self.type(id)
        number = self.m.integer(id)
        if number is not None:
            return IntegerAttr(number, 64)
        if self.m.is_constant(id):
            return self._symbol(id)
        return OtherType(StringAttr(self.m.spell(id)))

    def constant(self, id: int) -> int | None:
        """Returns the value of an integer constant. Returns None for other ids."""
        return self.m.integer(id, default=self._by_default)
