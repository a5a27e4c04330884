"""
Rules for declarations: capabilities (CAP), extensions and versions (EXT).

The grammar gives the capabilities that enable an instruction or enumerant. It also gives the
extensions that provide it in earlier versions of SPIR-V. Tables in this module give the
capabilities that depend on types (widths, storage of narrow data, operands of dot products). For
the four extensions of docs/rules.md, a missing capability is reported under the extension's rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from xdsl_spirv.grammar import RULES, WRITTEN_FOR, Category, Requirements, Version, grammar
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.ids import is_non_semantic
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    Severity,
    declared_rule,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import Type

UNCHECKED = frozenset({"BuiltIn ClipDistance", "BuiltIn CullDistance", "BuiltIn PointSize"})
"""
Built-ins that are accepted without their capability, because glslang names them in every shader of
some stages.
"""


ROUNDING = "Decoration FPRoundingMode"
NARROW_STORAGE = Requirements(
    (
        *("StorageBuffer16BitAccess", "UniformAndStorageBuffer16BitAccess"),
        *("StoragePushConstant16", "StorageInputOutput16"),
    ),
    (),
    (1, 0),
    None,
)
"""
Capabilities for 16-bit storage. In Vulkan, the decoration FPRoundingMode requires one of them.
"""


@cache
def _needs(opcode: int) -> Requirements | None:
    entry = grammar().by_opcode(opcode)
    if entry is None:
        return None
    return entry if entry.capabilities or entry.extensions or entry.version != (1, 0) else None


@cache
def _enumerants(kind: str, value: int) -> tuple[tuple[str, Requirements], ...]:
    return tuple(
        (f"{kind} {e.name}", e)
        for e in grammar().kind(kind).used(value)
        if e.capabilities
        or e.extensions
        or e.version != (1, 0)
        or e.last_version
        or f"{kind} {e.name}" == ROUNDING
    )


@cache
def _has_enumerants(kind: str) -> bool:
    return grammar().kind(kind).category in (Category.VALUE, Category.BITS)


declared_rule(
    "EXT-01", "2.4", "An extension's features need OpExtension, or a version that includes them."
)
declared_rule("EXT-02", "2.4", "A feature needs the version of SPIR-V that introduced the feature.")


@module_rule("CAP-01", "2.4")
def capabilities(m: Module) -> Problems:
    """Every used feature must be enabled by a declared capability."""
    verdicts: dict[object, list[Problem]] = {}
    for i in m.instructions:
        opcode = i.words[0] & 0xFFFF
        problems = verdicts.get(opcode)
        if problems is None:
            needs = _needs(opcode)
            what = f"Op{i.op}"
            problems = [] if needs is None else list(_missing(m, what, needs, i))
            verdicts[opcode] = problems
        for problem in problems:
            yield problem._replace(at=i)
        for operand in i.read or ():
            kind = operand.kind
            if not _has_enumerants(kind):
                continue
            key = (kind, operand.value, i.op if kind == "Decoration" else "")
            problems = verdicts.get(key)
            if problems is None:
                problems = verdicts[key] = list(_enumerant(m, kind, int(operand.value), i))
            for problem in problems:
                yield problem._replace(at=i)


def _enumerant(m: Module, kind: str, value: int, i: Instruction) -> Iterator[Problem]:
    for what, needs in _enumerants(kind, value):
        if kind == "Capability":
            yield from _version(m, what, needs, i)
            continue
        # The grammar names the requirements of kernels; shaders have these float controls by
        # extensions.
        if kind in ("FPRoundingMode", "FPFastMathMode") or what in UNCHECKED:
            continue
        if kind == "GroupOperation" and "SPV_AMD_shader_ballot" in m.extensions:
            continue  # This extension allows its group operations on older instructions, too.
        if what == ROUNDING and m.environment.vulkan:
            needs = NARROW_STORAGE
        yield from _missing(m, what, needs, i)


def _missing(m: Module, what: str, needs: Requirements, i: Instruction) -> Iterator[Problem]:
    known = grammar().kind("Capability")
    if needs.capabilities:
        if not any(c in m.capabilities for c in needs.capabilities):
            first = needs.capabilities[0]
            yield Problem(
                f"{what} needs the capability {' or '.join(needs.capabilities)}",
                remedies.declare(first),
                i,
                RULES.get(first, ""),
            )
            return
        # The capability's own extension is checked where the capability is declared.
        if any(known[c].extensions for c in needs.capabilities if c in m.declared):
            return
    yield from _version(m, what, needs, i)


def _version(m: Module, what: str, needs: Requirements, i: Instruction) -> Iterator[Problem]:
    if needs.last_version is not None and m.version > needs.last_version:
        yield Problem(
            f"{what} was removed after SPIR-V {_text(needs.last_version)}",
            f"remove the use, or lower the version to {_text(needs.last_version)}",
            i,
            "EXT-02",
        )
    if needs.version is not None and m.version >= needs.version:
        return
    if needs.extensions:
        if not any(e in m.extensions for e in needs.extensions):
            first = needs.extensions[0]
            yield Problem(
                f"{what} needs the extension {' or '.join(needs.extensions)}",
                f'declare OpExtension "{first}"'
                + ("" if needs.version is None else f", or use SPIR-V {_text(needs.version)}"),
                i,
                RULES.get(first, "EXT-01"),
            )
    elif needs.version is not None:
        yield Problem(
            f"{what} needs SPIR-V {_text(needs.version)}, not {_text(m.version)}",
            remedies.VERSION,
            i,
            "EXT-02",
        )


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


LEAST_VERSIONS: Mapping[str, Version] = {
    "SPV_EXT_mesh_shader": (1, 4),
    "SPV_EXT_shader_invocation_reorder": (1, 4),
    "SPV_KHR_opacity_micromap": (1, 4),
    "SPV_KHR_vulkan_memory_model": (1, 3),
    "SPV_KHR_workgroup_memory_explicit_layout": (1, 4),
    "SPV_NV_cluster_acceleration_structure": (1, 4),
    "SPV_NV_linear_swept_spheres": (1, 4),
    "SPV_NV_shader_invocation_reorder": (1, 4),
    "SPV_QCOM_cooperative_matrix_conversion": (1, 3),
    "SPV_QCOM_image_processing": (1, 4),
    "SPV_QCOM_image_processing2": (1, 4),
}
"""Maps an extension to the lowest version of SPIR-V that it requires."""


@instruction_rule("EXT-03", "2.4", "Extension")
def extension_version(m: Module, i: Instruction) -> Problems:
    """The module must have the version that a declared extension requires, or a later one."""
    yield from _extension_version(m, i, LEAST_VERSIONS)


@instruction_rule("EXT-05", "2.4", "Extension", severity=Severity.WARNING)
def extension_intended(m: Module, i: Instruction) -> Problems:
    """The module should have the version for which a declared extension is written."""
    yield from _extension_version(m, i, WRITTEN_FOR)


def _extension_version(m: Module, i: Instruction, table: Mapping[str, Version]) -> Problems:
    name = next((n for n, at in m.extensions.items() if at is i), "")
    least = table.get(name)
    if least is not None and m.version < least:
        yield Problem(
            f"{name} needs SPIR-V {_text(least)}, not {_text(m.version)}",
            remedies.VERSION,
            None,
            RULES.get(name, ""),
        )


@module_rule("EXT-04", "2.3")
def environment_version(m: Module) -> Problems:
    """The environment must accept the module's version of SPIR-V."""
    newest = m.environment.version
    if m.version > newest:
        yield Problem(
            f"{m.environment.name} takes SPIR-V {_text(newest)}, not {_text(m.version)}",
            "lower the version in the header, or choose another environment",
        )


WIDTHS: Mapping[str, tuple[str, ...]] = {
    "Int8": (
        "Int8",
        "StorageBuffer8BitAccess",
        "UniformAndStorageBuffer8BitAccess",
        "StoragePushConstant8",
        "WorkgroupMemoryExplicitLayout8BitAccessKHR",
        "CooperativeVectorNV",
        "CooperativeVectorTrainingNV",
    ),
    "Int16": (
        "Int16",
        "StorageBuffer16BitAccess",
        "UniformAndStorageBuffer16BitAccess",
        "StoragePushConstant16",
        "StorageInputOutput16",
        "WorkgroupMemoryExplicitLayout16BitAccessKHR",
    ),
    "Float16": (
        "Float16",
        "Float16Buffer",
        "StorageBuffer16BitAccess",
        "UniformAndStorageBuffer16BitAccess",
        "StoragePushConstant16",
        "StorageInputOutput16",
        "WorkgroupMemoryExplicitLayout16BitAccessKHR",
    ),
    "Int64": ("Int64",),
    "Float64": ("Float64",),
    "BFloat16KHR": ("BFloat16TypeKHR",),
    "Float8E4M3EXT": ("Float8EXT",),
    "Float8E5M2EXT": ("Float8EXT",),
}
"""
Maps a scalar type to the capabilities that allow its declaration. One of them is enough (SPIR-V
2.16.1).
"""


@instruction_rule("CAP-02", "2.16.1", "TypeInt TypeFloat TypeVector TypeCooperativeMatrixKHR")
def type_capabilities(m: Module, i: Instruction) -> Problems:
    """A declared capability must allow a type's width, length and component type."""
    declared_type = m.types.get(i.result)
    if declared_type is None or declared_type.at is not i or declared_type.scalar is None:
        return
    if declared_type.is_scalar:
        name = declared_type.encoding or f"{declared_type.kind}{declared_type.width}"
        yield from _one_of(m, WIDTHS.get(name, ()), str(declared_type))
    elif declared_type.kind == "Vector":
        if declared_type.lanes in (8, 16):
            vector = "DOT-05" if "DotProductInputAll" in m.capabilities else ""
            yield from _one_of(m, ("Vector16", "LongVectorEXT"), f"{declared_type}", vector)
    elif declared_type.is_bfloat16:
        yield from _one_of(m, ("BFloat16CooperativeMatrixKHR",), str(declared_type))
    elif (declared_type.encoding or "").startswith("Float8"):
        yield from _one_of(m, ("Float8CooperativeMatrixEXT",), str(declared_type))


def _one_of(m: Module, names: tuple[str, ...], what: str, rule: str = "") -> Iterator[Problem]:
    if names and not any(n in m.capabilities for n in names):
        rule = rule or RULES.get(names[0], "")
        if not rule and names[0] in ("Int8", "Int16", "Int64") and "DotProduct" in m.capabilities:
            rule = "DOT-05"
        yield Problem(
            f"{what} needs the capability {' or '.join(names)}",
            remedies.declare(names[0]),
            None,
            rule,
        )


@instruction_rule(
    "EXT-DOT-TYPES", "docs/rules.md", "SDot UDot SUDot SDotAccSat UDotAccSat SUDotAccSat Dot"
)
def dot_capabilities(m: Module, i: Instruction) -> Problems:
    """A declared capability must allow the vectors of a dot product (DOT-03 to DOT-05, BF-02)."""
    vector = m.type_of(i.get("vector_1"))
    if vector is None:
        return
    if i.op == "Dot":
        if vector.is_bfloat16:
            yield from _one_of(m, ("BFloat16DotProductKHR",), f"OpDot on {vector}")
        return
    if vector.kind == "Int":
        need = "DotProductInput4x8BitPacked"
    elif vector.lanes == 4 and vector.base == "Int" and vector.width == 8:
        need = "DotProductInput4x8Bit"
    else:
        need = "DotProductInputAll"
    yield from _one_of(m, (need,), f"Op{i.op} on {vector}")


STORAGE_16: Mapping[str, str] = {
    "StorageBuffer": "StorageBuffer16BitAccess",
    "PhysicalStorageBuffer": "StorageBuffer16BitAccess",
    "Uniform": "UniformAndStorageBuffer16BitAccess",
    "PushConstant": "StoragePushConstant16",
    "Input": "StorageInputOutput16",
    "Output": "StorageInputOutput16",
    "Workgroup": "WorkgroupMemoryExplicitLayout16BitAccessKHR",
}
STORAGE_8: Mapping[str, str] = {
    "StorageBuffer": "StorageBuffer8BitAccess",
    "PhysicalStorageBuffer": "StorageBuffer8BitAccess",
    "Uniform": "UniformAndStorageBuffer8BitAccess",
    "PushConstant": "StoragePushConstant8",
    "Workgroup": "WorkgroupMemoryExplicitLayout8BitAccessKHR",
}
NARROW = (
    ("Int8", "Int8", STORAGE_8),
    ("Int16", "Int16", STORAGE_16),
    ("Float16", "Float16", STORAGE_16),
)
"""
Scalar types that may be restricted to storage: the scalar, the capability for arithmetic on it, and
a map from a storage class to the capability that only allows to store the scalar there.
"""


def narrow_kinds(type_: Type) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yields the entries of `NARROW` for the 8- and 16-bit scalars in a type."""
    yield from (row for row in NARROW if row[0] in type_.contains)


@instruction_rule("CAP-03", "2.16.2", "Variable")
def narrow_storage(m: Module, i: Instruction) -> Problems:
    """A declared capability must allow the storage class of 8- and 16-bit data."""
    pointer = m.types.get(i.type_id)
    held = m.pointee(pointer)
    if pointer is None or held is None or not m.is_shader:
        return
    for scalar, arithmetic, by_storage in narrow_kinds(held):
        storage = pointer.storage
        need = by_storage.get(storage)
        enough: tuple[str, ...]
        if need is None:
            enough = (arithmetic,)
        elif storage in ("StorageBuffer", "PhysicalStorageBuffer"):
            enough = (need, need.replace("StorageBuffer", "UniformAndStorageBuffer"))
        elif storage == "Uniform":
            enough = (need,)
            if m.has(_struct_of(held).id, "BufferBlock"):
                enough += (need.replace("UniformAndStorage", "Storage"),)
        elif storage == "Workgroup":
            enough = (need, arithmetic)
        else:
            enough = (need,)
        if not any(n in m.capabilities for n in enough):
            yield Problem(
                f"{scalar} in {storage} needs the capability {' or '.join(enough)}",
                remedies.declare(enough[0]),
            )


def _struct_of(type_: Type) -> Type:
    while type_.kind in ("Array", "RuntimeArray") and type_.element is not None:
        type_ = type_.element
    return type_


NARROW_USES = frozenset(
    """
    AccessChain Constant ConstantComposite ConstantNull CooperativeMatrixConvertNV
    CooperativeMatrixLengthKHR CooperativeMatrixLoadKHR CooperativeMatrixLoadNV
    CooperativeMatrixLoadTensorNV  CooperativeMatrixStoreKHR
    CooperativeMatrixStoreNV CooperativeMatrixStoreTensorNV CooperativeMatrixTransposeNV
    CooperativeVectorLoadNV CooperativeVectorMatrixMulAddNV CooperativeVectorMatrixMulNV
    CooperativeVectorStoreNV CopyLogical CopyMemory CopyMemorySized CopyObject Decorate
    FConvert InBoundsAccessChain Load Name PtrAccessChain SConvert SpecConstant
    SpecConstantComposite Store UConvert Undef Variable
    """.split()
)


@module_rule("CAP-04", "2.16.2")
def narrow_arithmetic(m: Module) -> Problems:
    """Without a capability for arithmetic, narrow data may only be loaded, stored and converted."""
    if not m.is_shader:
        return
    without = {s for s, arithmetic, _ in NARROW if arithmetic not in m.capabilities}
    if not without or not any(without & t.contains for t in m.types.values() if t.is_scalar):
        return
    small = {
        t.id
        for t in m.types.values()
        if without & t.contains and (t.is_scalar_or_vector or t.is_matrix)
    }
    for i in m.instructions:
        if i.block is None or i.op in NARROW_USES or is_non_semantic(m, i):
            continue
        for id in (i.result, *i.ids()):
            at = m.definitions.get(id)
            if at is not None and at.type_id in small:
                type_ = m.types[at.type_id]
                yield Problem(
                    f"Op{i.op} computes with {type_}, which no declared capability allows",
                    f"declare OpCapability {type_.base}{type_.width}, or convert first",
                    i,
                )
                break


@instruction_rule(
    "CAP-05",
    "3.31",
    "ControlBarrier MemoryBarrier AtomicLoad AtomicStore AtomicExchange AtomicCompareExchange "
    "AtomicIIncrement AtomicIDecrement AtomicIAdd AtomicISub AtomicSMin AtomicUMin AtomicSMax "
    "AtomicUMax AtomicAnd AtomicOr AtomicXor AtomicFAddEXT AtomicFMinEXT AtomicFMaxEXT",
)
def device_scope(m: Module, i: Instruction) -> Problems:
    """With the Vulkan memory model, the scope Device needs VulkanMemoryModelDeviceScope."""
    scope = i.get("memory")
    value = m.integer(scope)
    if m.is_vulkan_model and value == grammar().kind("Scope")["Device"].value:
        yield from _one_of(m, ("VulkanMemoryModelDeviceScope",), "the scope Device")
