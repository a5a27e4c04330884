"""
Checks a kernel and its launch against the limits in a device's target file.

Without a target, only the workgroup size and the Workgroup memory are checked, against the largest
limits of all files in `targets/`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.types import Type, enumerant
from xdsl_spirv.targets import CooperativeMatrixProperty, Target, load, names
from xdsl_spirv.tools.kernel_test.interface import Interface

RULES = {
    "LIMIT-01": (
        "the workgroup size, along each axis and in total, is at most what the device supports"
    ),
    "LIMIT-02": "the Workgroup memory is at most the device's limit",
    "LIMIT-03": "the device supports the subgroup size",
    "LIMIT-04": "the grid size along each axis is at most the device's limit",
    "LIMIT-05": "the size of the push constants is at most the device's limit",
    "LIMIT-06": "the size of a buffer is at most the device's limit",
    "LIMIT-07": "the device supports the capabilities that the module declares",
    "LIMIT-08": "the device lists the types and the multiplications of cooperative matrices "
    "(CM-29)",
    "LIMIT-09": "the device supports the module's SPIR-V version",
}


class Breach(NamedTuple):
    """A limit that is exceeded."""

    rule: str
    cause: str
    remedy: str


class Launch(NamedTuple):
    """Properties of a launch that are limited, and its module."""

    grid: tuple[int, int, int]
    workgroup: tuple[int, int, int]
    subgroup_size: int
    buffer_bytes: dict[str, int]


def breaches(interface: Interface, launch: Launch, target: Target | None) -> Iterator[Breach]:
    """Yields the limits of the target (or of all known targets) that a launch exceeds."""
    if target is None:
        yield from _beyond_all(interface, launch)
        return
    name, size = target.name, launch.workgroup
    count, axes = target.max_invocations, target.max_workgroup_size
    if math.prod(size) > count or any(n > most for n, most in zip(size, axes, strict=True)):
        yield Breach(
            "LIMIT-01",
            f"a workgroup has {_times(size)} = {math.prod(size)} invocations, but {name} "
            f"supports {count}, and {_times(axes)} along the axes",
            "make it smaller",
        )
    shared = interface.workgroup_bytes
    if shared > target.workgroup_memory_bytes:
        yield _shared_memory_breach(
            shared, f"{name} has {target.workgroup_memory_bytes}", interface
        )
    least, most = target.subgroup_size_range
    if not least <= launch.subgroup_size <= most:
        yield Breach(
            "LIMIT-03",
            f"the subgroup size is {launch.subgroup_size}, but {name} has {least} to {most}",
            "correct subgroup-sizes, or leave subgroup-sizes out for the target's size",
        )
    if any(n > most for n, most in zip(launch.grid, target.max_grid, strict=True)):
        yield Breach(
            "LIMIT-04",
            f"the grid is {_times(launch.grid)}, but {name} takes {_times(target.max_grid)}",
            "launch fewer workgroups, or use another axis",
        )
    block = interface.push_constants
    if block is not None and block.size > target.push_constant_bytes:
        yield Breach(
            "LIMIT-05",
            f"there are {block.size} bytes of push constants, but {name} supports "
            f"{target.push_constant_bytes}",
            "put some push constants into a buffer",
        )
    for buffer, size_in_bytes in launch.buffer_bytes.items():
        if size_in_bytes > target.storage_buffer_max_bytes:
            yield Breach(
                "LIMIT-06",
                f"the buffer {buffer} has {size_in_bytes} bytes, but {name} supports "
                f"{target.storage_buffer_max_bytes}",
                "make it smaller",
            )
    yield from _features(interface, target)
    yield from _matrices(interface, target)


def _times(numbers: tuple[int, ...]) -> str:
    return " x ".join(map(str, numbers))


def _shared_memory_breach(size: int, limit: str, interface: Interface) -> Breach:
    largest = max(
        interface.of_class("Workgroup"), key=lambda variable: interface.node(variable[1]).size
    )[0]
    return Breach(
        "LIMIT-02",
        f"a workgroup shares {size} bytes of memory, but {limit}; the largest variable: "
        f"{interface.module.spell(largest)}",
        "make it smaller",
    )


@cache
def _largest() -> tuple[int, int]:
    """Returns the largest workgroup size and Workgroup memory of all known devices."""
    known = [load(name) for name in names()]
    return max(t.max_invocations for t in known), max(t.workgroup_memory_bytes for t in known)


def _beyond_all(interface: Interface, launch: Launch) -> Iterator[Breach]:
    invocations, memory = _largest()
    if math.prod(launch.workgroup) > invocations:
        yield Breach(
            "LIMIT-01",
            f"a workgroup has {math.prod(launch.workgroup)} invocations, but no known "
            f"target supports more than {invocations}",
            "use a smaller workgroup, or name the target",
        )
    if interface.workgroup_bytes > memory:
        limit = f"no known target has more than {memory}"
        yield _shared_memory_breach(interface.workgroup_bytes, limit, interface)


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)


def _features(interface: Interface, target: Target) -> Iterator[Breach]:
    m = interface.module
    if m.version > _version(target.spirv_version):
        yield Breach(
            "LIMIT-09",
            f"the module is SPIR-V {m.version[0]}.{m.version[1]}, but {target.name} "
            f"supports {target.spirv_version}",
            "compile for an earlier target environment",
        )
    for name in m.declared:
        if has_capability(target, name) is False:
            yield Breach(
                "LIMIT-07",
                f"the module declares {name}, which {target.name} does not have",
                "do without it",
            )


def has_capability(target: Target, capability: str) -> bool | None:
    """True if a target supports a SPIR-V capability; None if the target file does not tell."""
    from xdsl_spirv.runtime.needs import Feature, tables, version_in
    from xdsl_spirv.runtime.vulkan.describe import NAMES, OPERATIONS

    words = {(f.structure, f.member): name for name, own in NAMES.items() for f in own}
    bits = {f"VK_SUBGROUP_FEATURE_{op.upper()}_BIT": name for name, op in OPERATIONS.items()}
    verdicts: list[bool] = []
    for way in tables()["capabilities"].get(capability) or ():
        if "version" in way:
            verdicts.append(_version(target.vulkan_version) >= version_in(way["version"]))
        elif "feature" in way:
            feature = Feature(*way["feature"])
            word = words.get((feature.structure, feature.member))
            if word is not None:
                verdicts.append(word in target.features)
        elif "property" in way and way["property"][-1] in bits:
            verdicts.append(bits[way["property"][-1]] in target.features)
    return any(verdicts) if verdicts else None


def unknown_capabilities(interface: Interface, target: Target) -> list[str]:
    """Returns the module's capabilities about which the target's file says nothing."""
    return [n for n in interface.module.declared if has_capability(target, n) is None]


def _matrices(interface: Interface, target: Target) -> Iterator[Breach]:
    seen: set[CooperativeMatrixProperty] = set()
    types: set[int] = set()
    """Result ids of matrix types in multiplications that the target does not list."""
    listed = f"it has: {'; '.join(str(p) for p in target.cooperative_matrix) or 'none'}"
    for at in interface.module.by_op.get("CooperativeMatrixMulAddKHR", ()):
        product = _property(interface, at)
        if product is None or product in target.cooperative_matrix:
            continue
        types.update(t.at.result for t in _types(interface, at).values() if t is not None)
        if product in seen:
            continue
        seen.add(product)
        saturating = ", saturating" if product.saturating else ""
        yield Breach(
            "LIMIT-08",
            f"{target.name} does not multiply {product}{saturating}, {product.scope} scope",
            listed,
        )
    for at in interface.module.by_op.get("TypeCooperativeMatrixKHR", ()):
        matrix = _matrix(interface, interface.module.types[at.result])
        if at.result not in types and matrix not in _matrices_of(target):
            rows, columns, kind, use, scope = matrix
            yield Breach(
                "LIMIT-08",
                f"{target.name} has no {rows}x{columns} {kind} matrix as {use}, {scope} scope",
                listed,
            )


class Matrix(NamedTuple):
    """A type of cooperative matrix, without the signedness of integers."""

    rows: int
    columns: int
    kind: str
    use: str
    scope: str


def _matrices_of(target: Target) -> set[Matrix]:
    """Returns all matrix types in the multiplications that a target supports."""
    return {
        Matrix(rows, columns, re.sub("^[su]", "i", kind), use, p.scope)
        for p in target.cooperative_matrix
        for rows, columns, kind, use in (
            (p.m, p.k, p.a, "MatrixAKHR"),
            (p.k, p.n, p.b, "MatrixBKHR"),
            (p.m, p.n, p.c, "MatrixAccumulatorKHR"),
            (p.m, p.n, p.result, "MatrixAccumulatorKHR"),
        )
    }


def _matrix(interface: Interface, type_: Type) -> Matrix:
    scope, rows, columns, use = (int(interface.constants.value(w)) for w in type_.at.words[3:7])
    assert type_.element is not None
    kind = re.sub("^[su](?=[0-9])", "i", interface.scalar(type_.element))
    names = enumerant("CooperativeMatrixUse", use), enumerant("Scope", scope)
    return Matrix(rows, columns, kind, *names)


def _types(interface: Interface, at: Instruction) -> dict[str, Type | None]:
    """
    Returns the types of the operands (`a`, `b`, `c`) and of the result of the matrix multiplication
    `at`.
    """
    m = interface.module
    ids = dict(zip(("a", "b", "c"), at.words[3:6], strict=False))
    return {key: m.type_of(id) for key, id in ids.items()} | {"result": m.types.get(at.type_id)}


def _property(interface: Interface, at: Instruction) -> CooperativeMatrixProperty | None:
    """
    Returns shape and types of the matrix multiplication `at`, in the form of a target's list.
    Returns None for an invalid multiplication.
    """
    from xdsl_spirv.grammar import grammar
    from xdsl_spirv.runtime.needs import SATURATING, SIGNED

    types = _types(interface, at)
    if any(t is None or t.kind != "CooperativeMatrixKHR" or t.element is None
           for t in types.values()):  # fmt: skip
        return None
    mask = at.words[6] if len(at.words) > 6 else 0
    operands = grammar().kind("CooperativeMatrixOperands")
    elements: dict[str, str] = {}
    matrices: dict[str, Matrix] = {}
    for key, type_ in types.items():
        assert type_ is not None
        matrices[key] = _matrix(interface, type_)
        kind = matrices[key].kind
        if kind[0] == "i":
            signed = bool(mask & operands[SIGNED[key]].value)
            kind = f"{'s' if signed else 'u'}{kind[1:]}"
        elements[key] = kind
    result = matrices["result"]
    return CooperativeMatrixProperty(
        *(result.rows, result.columns, matrices["a"].columns),
        *(elements[key] for key in ("a", "b", "c", "result")),
        saturating=bool(mask & operands[SATURATING].value),
        scope=result.scope,
    )
