"""
Remedies that several rules share, in the terms of SPIR-V. The remedy of a single rule is written
beside its cause.
"""

from __future__ import annotations

BOOLEAN = "compare first, so that it is a Boolean"
BOOLEAN_RESULT = "make the result type OpTypeBool"
COMPOSITE_RESULT = "make the result type a struct, array, vector or matrix"
CONSTANT = "name the result of OpConstant or another constant instruction"
END_OF_BLOCK = "end the block with a branch, OpReturn or OpUnreachable"
FLOATS = "make the result type and the operand one type of floats"
FUNCTION = "name the result of an OpFunction"
INDEX = "pass an index, and form the pointer where it is used"
INTEGER_SCALAR = "compute it as an integer scalar"
MEMORY = "add UniformMemory, WorkgroupMemory or another storage class"
POINTER = "name a value whose type is an OpTypePointer"
POINTER_RESULT = "make the result type an OpTypePointer"
STORE = "store the value at the function's start instead"
TYPE = "name the result of an OpType instruction"
UNSIGNED = "use an integer of Signedness 0"
UNSIGNED_RESULT = "make the result type an integer of Signedness 0"
VALUE = "name the result of an instruction that gives a value"
VERSION = "raise the version in the header"


def constituents(count: int) -> str:
    """The remedy for a composite made from too few or too many."""
    return f"give {count} constituents"


def convert(what: str, type_: object) -> str:
    """The remedy for an operand of a wrong type."""
    return f"convert {what} to {type_}"


def declare(capability: str) -> str:
    """The remedy for a feature that no declared capability enables."""
    return f"declare OpCapability {capability}"


def pointer_to(storage: str) -> str:
    """The remedy for a result pointer that changes the storage class."""
    return f"make the result a pointer to {storage}"


def result_type(type_: object) -> str:
    """The remedy for a result type that does not follow from the operands."""
    return f"make the result type {type_}"
