"""Rules of reinterpretation (CST): OpBitcast, and conversions between pointers and integers."""

from __future__ import annotations

from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import Problem, Problems, instruction_rule
from xdsl_spirv.serialization.validation.types import Type

PHYSICAL = "SPV_KHR_physical_storage_buffer"
"""
Extension that allows a bitcast between a pointer and two 32-bit integers. SPIR-V 1.5 allows it
without the extension.
"""


def _bits(type_: Type, m: Module) -> int | None:
    if type_.is_matrix:
        return None
    if type_.kind == "Vector":
        return type_.lanes * type_.width
    return type_.width * ((m.integer(type_.count_id) or 0) if type_.is_vector else 1)


@instruction_rule("CST-01", "3.49.11", "Bitcast")
def bitcast(m: Module, i: Instruction) -> Problems:
    """OpBitcast must convert between numbers or pointers with equal numbers of bits."""
    result, operand = m.types.get(i.type_id), m.type_of(i.get("operand"))
    if result is None or operand is None:
        return
    for type_ in (result, operand):
        if type_.base not in ("Int", "Float") and type_.kind != "Pointer":
            yield Problem(
                f"a bitcast takes numbers and pointers, not {type_}",
                "bitcast numbers, vectors of numbers and pointers only",
            )
            return
    pointers = (result.kind == "Pointer") + (operand.kind == "Pointer")
    if pointers == 2:
        return
    if pointers == 1:
        number = operand if result.kind == "Pointer" else result
        physical = m.addressing_model != "Logical"
        if number.base != "Int":
            yield Problem(
                f"a pointer cannot be bitcast to or from {number}",
                "use an integer of the pointer's size",
            )
        elif number.is_vector and m.version < (1, 5) and PHYSICAL not in m.extensions:
            yield Problem(
                f"before SPIR-V 1.5 a pointer cannot be bitcast to or from {number}",
                f'declare OpExtension "{PHYSICAL}", or raise the version to 1.5',
            )
        elif not physical:
            yield Problem(
                "under logical addressing a pointer cannot be bitcast",
                "address the object by OpAccessChain, or declare a physical addressing model",
            )
        elif number.is_vector and (number.lanes != 2 or number.width != 32):
            yield Problem(
                f"a pointer cannot be bitcast to or from {number}", "use two 32-bit integers"
            )
        return
    if result.is_matrix or operand.is_matrix:
        return  # Matrices are checked by rule CM-19.
    if _bits(result, m) != _bits(operand, m):
        yield Problem(
            f"{operand} and {result} have different sizes",
            "make the sizes equal, or use OpUConvert, OpSConvert or OpFConvert",
        )


@instruction_rule("CST-02", "3.49.11", "ConvertPtrToU ConvertUToPtr")
def pointer_conversion(m: Module, i: Instruction) -> Problems:
    """Pointers and integers of Signedness 0 may be converted only under physical addressing."""
    result, operand = m.types.get(i.type_id), m.type_of(i.words[3]) if len(i.words) > 3 else None
    if result is None or operand is None:
        return
    pointer, number = (operand, result) if i.op == "ConvertPtrToU" else (result, operand)
    if m.addressing_model == "Logical":
        yield Problem(
            "under logical addressing pointers and integers cannot be converted",
            "declare the addressing model PhysicalStorageBuffer64, or pass indices instead",
        )
    if not pointer.is_pointer:
        yield Problem(f"{pointer} is not a pointer type", remedies.POINTER)
    elif m.addressing_model == "PhysicalStorageBuffer64":
        if pointer.storage != "PhysicalStorageBuffer":
            yield Problem(
                f"{pointer} does not point to a physical storage buffer",
                "convert pointers to PhysicalStorageBuffer storage only",
            )
        elif m.environment.vulkan and number.width != 64:
            yield Problem(f"the integer {number} does not have 64 bits", "use a 64-bit integer")
    if number.kind != "Int" or (i.op == "ConvertPtrToU" and number.signed):
        yield Problem(f"{number} is not an integer of Signedness 0", remedies.UNSIGNED)
