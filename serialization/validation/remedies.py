"""Remedies that several rules share. Other remedies are in the code of their rule."""

from __future__ import annotations

BOOLEAN = "use the result of a comparison"
BOOLEAN_RESULT = "make the result type OpTypeBool"
COMPOSITE_RESULT = "make the result type a struct, array, vector or matrix"
CONSTANT = "name the result of OpConstant or another constant instruction"
END_OF_BLOCK = "end the block with a branch, OpReturn or OpUnreachable"
FLOATS = "use the same floating-point type for result and operand"
FUNCTION = "name the result of an OpFunction"
INDEX = "pass an index, and form the pointer at its use"
INTEGER_SCALAR = "use an integer scalar"
MEMORY = "add UniformMemory, WorkgroupMemory or another storage class"
POINTER = "name a value whose type is an OpTypePointer"
POINTER_RESULT = "make the result type an OpTypePointer"
STORE = "store the value at the function's start instead"
TYPE = "name the result of an OpType instruction"
UNSIGNED = "use an integer of Signedness 0"
UNSIGNED_RESULT = "make the result type an integer of Signedness 0"
VALUE = "name the result of an instruction that returns a value"
VERSION = "raise the version in the header"


def constituents(count: int) -> str:
    """Returns the remedy for a composite with too few or too many constituents."""
    return f"give {count} constituents"


def convert(what: str, type_: object) -> str:
    """Returns the remedy for an operand of a wrong type."""
    return f"convert {what} to {type_}"


def declare(capability: str) -> str:
    """Returns the remedy for a feature that needs a capability."""
    return f"declare OpCapability {capability}"


def pointer_to(storage: str) -> str:
    """Returns the remedy for a result pointer with a wrong storage class."""
    return f"make the result a pointer to {storage}"


def result_type(type_: object) -> str:
    """Returns the remedy for a result type that does not match the operands."""
    return f"make the result type {type_}"
