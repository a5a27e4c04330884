"""
Computes the Workgroup memory that an entry point uses.

The limit depends on the device and is not in the module. Exceeding the limit that every Vulkan
device supports is a warning. Exceeding the limit of a given target is an error (`validate
--target`). Specialization constants have their default values. If the length of an array is
unknown, the finding names it and gives a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl_spirv.dialects.spirv.layout import BOOLEAN_BYTES
from xdsl_spirv.serialization.validation.constant_values import ConstantValues, UnknownConstantError
from xdsl_spirv.serialization.validation.entry_points import EntryPoint, reachable
from xdsl_spirv.serialization.validation.layouts import parameter
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import Problem, Problems, Severity, module_rule
from xdsl_spirv.serialization.validation.types import Type

GUARANTEED = 16384
"""
Minimum of maxComputeSharedMemorySize, in bytes, that every Vulkan device supports (Vulkan,
"Required Limits").
"""


@module_rule("VUL-10", "Vulkan", vulkan=True, severity=Severity.WARNING)
def workgroup_memory(m: Module) -> Problems:
    """An entry point should use at most 16,384 bytes of Workgroup memory, Vulkan's least limit."""
    yield from find_excess(m, GUARANTEED, f"only {GUARANTEED} are guaranteed")


def find_excess(m: Module, limit: int, says: str) -> Iterator[Problem]:
    """
    Yields a problem for each entry point that uses more than `limit` bytes of Workgroup memory.
    `says` is part of the problem's text.
    """
    of_types = sizes_of_types(m) if m.entry_points else {}
    for entry in m.entry_points:
        sizes, unknown = workgroup_bytes(m, entry, of_types)
        # Blocks with an explicit layout overlap in memory.
        blocks = [size for id, size in sizes.items() if _is_block(m, id)]
        others = [size for id, size in sizes.items() if not _is_block(m, id)]
        total = sum(others) + max(blocks, default=0)
        at_least = "at least " if unknown else ""
        if total > limit:
            largest = max(sizes, key=lambda id: sizes[id])
            yield Problem(
                f"the entry point uses {at_least}{total} bytes of Workgroup memory, but {says}; "
                f"the largest variable is {m.spell(largest)}",
                "use less Workgroup memory, or check the device's maxComputeSharedMemorySize",
                m.definitions.get(largest),
            )
        elif unknown:
            cause = "; ".join(dict.fromkeys(unknown.values()))
            yield Problem(
                f"the entry point uses an unknown amount of Workgroup memory, and {says}: {cause}",
                "use array lengths that are known from the specialization constants' defaults",
                m.definitions.get(next(iter(unknown))),
            )


def workgroup_bytes(
    m: Module, entry: EntryPoint, of_types: Sizes
) -> tuple[dict[int, int], dict[int, str]]:
    """
    Returns the bytes of each Workgroup variable that an entry point uses. Also returns a map from
    variables of unknown size to the reason.
    """
    used: set[int] = set()
    for function in reachable(m, entry):
        body = m.by_function.get(function)
        for block in body.blocks if body is not None else ():
            used.update(id for i in block.instructions for id in i.ids())
    sizes: dict[int, int] = {}
    unknown: dict[int, str] = {}
    for i in m.outside:
        type_ = m.types.get(i.type_id)
        if i.op == "Variable" and i.result in used and type_ is not None:
            if type_.storage == "Workgroup":
                try:
                    sizes[i.result] = _size(m.types.get(type_.pointee_id), of_types)
                except UnknownConstantError as error:
                    unknown[i.result] = str(error)
    return sizes, unknown


def _is_block(m: Module, variable: int) -> bool:
    pointer = m.type_of(variable)
    return pointer is not None and m.decoration(pointer.pointee_id, "Block") is not None


Sizes = dict[int, int | UnknownConstantError]
"""
Maps the id of a type to its size in bytes. If the size is unknown, maps it to an error with the
reason.
"""


def sizes_of_types(m: Module) -> Sizes:
    """Returns the sizes of all types. Computes each size once, although types may share parts."""
    constants, sizes = ConstantValues(m), Sizes()
    for type_ in m.types.values():
        try:
            sizes[type_.id] = _bytes(m, type_, constants, sizes)
        except UnknownConstantError as error:
            sizes[type_.id] = error
    return sizes


def _size(type_: Type | None, sizes: Sizes) -> int:
    size = 0 if type_ is None else sizes.get(type_.id, 0)
    if isinstance(size, UnknownConstantError):
        raise size
    return size


def _bytes(m: Module, type_: Type, constants: ConstantValues, sizes: Sizes) -> int:
    match type_.kind:
        case "Bool":
            return BOOLEAN_BYTES
        case "Int" | "Float":
            return type_.width // 8
        case "Vector" | "Matrix":
            return type_.lanes * _size(type_.element, sizes)
        case "Array":
            stride = parameter(m, type_.id, "ArrayStride") or _size(type_.element, sizes)
            return max(int(constants.value(type_.count_id)), 0) * stride
        case "Struct":
            ends = [0]
            for number, member in enumerate(type_.members):
                offset = parameter(m, type_.id, "Offset", number)
                ends.append((ends[-1] if offset is None else offset) + _size(member, sizes))
            return max(ends)
        case _:
            return 0
