"""Rules of Vulkan environments that concern compute kernels (VUL)."""

from __future__ import annotations

from typing import NamedTuple

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation.entry_points import VARIABLES, reachable
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import VECTOR_CONSTANTS, Decoration, Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import OPAQUE, Type, enumerant

RESOURCES = frozenset({"StorageBuffer", "Uniform", "UniformConstant"})


@module_rule("VUL-01", "Vulkan", vulkan=True)
def bindings(m: Module) -> Problems:
    """A resource must have DescriptorSet and Binding, unless it is a built-in descriptor heap."""
    known = grammar().kind("BuiltIn")
    heaps = [(known[name].value,) for name in ("SamplerHeapEXT", "ResourceHeapEXT")]
    for i in m.outside:
        type_ = m.types.get(i.type_id)
        if i.op not in VARIABLES or type_ is None or type_.storage not in RESOURCES:
            continue
        built = m.decoration(i.result, "BuiltIn")
        if built is not None and built.parameters[:1] in heaps:
            continue
        for name in ("DescriptorSet", "Binding"):
            if not m.has(i.result, name):
                yield Problem(f"the resource has no {name}", f"decorate it with {name}", i)


def _globals(m: Module, function: int) -> set[int]:
    body = m.by_function.get(function)
    if body is None:
        return set()
    return {id for b in body.blocks for i in b.instructions for id in i.ids()}


NOT_VULKAN = frozenset(
    """
    Addresses Linkage Kernel Vector16 Float16Buffer ImageBasic ImageReadWrite ImageMipmap
    Pipes Groups DeviceEnqueue LiteralSampler AtomicStorage SubgroupDispatch NamedBarrier
    PipeStorage GenericPointer ImageRect SampledRect UniformDecoration
    """.split()
)
"""Capabilities of OpenCL kernels that no version of Vulkan accepts."""


@instruction_rule("VUL-02", "Vulkan", "Capability", vulkan=True)
def capability(m: Module, i: Instruction) -> Problems:
    """Vulkan must accept the capability."""
    name = next((n for n, at in m.declared.items() if at is i), "")
    known = grammar().kind("Capability")
    provided = name in known and any(e in m.extensions for e in known[name].extensions)
    if name in NOT_VULKAN and not provided:
        yield Problem(
            f"Vulkan does not accept the capability {name}",
            "remove the capability and the instructions that need it",
        )
    elif name in known:
        first = FIRST_VULKAN.get(name)
        vulkan = m.environment.vulkan
        if first is not None and vulkan is not None and vulkan < first and not provided:
            yield Problem(
                f"{name} needs Vulkan {first[0]}.{first[1]}",
                f"target Vulkan {first[0]}.{first[1]}, or remove {name}",
            )


FIRST_VULKAN = {
    "GroupNonUniform": (1, 1),
    "GroupNonUniformVote": (1, 1),
    "GroupNonUniformArithmetic": (1, 1),
    "GroupNonUniformBallot": (1, 1),
    "GroupNonUniformShuffle": (1, 1),
    "GroupNonUniformShuffleRelative": (1, 1),
    "GroupNonUniformClustered": (1, 1),
    "GroupNonUniformQuad": (1, 1),
    "VulkanMemoryModel": (1, 2),
    "VulkanMemoryModelDeviceScope": (1, 2),
    "PhysicalStorageBufferAddresses": (1, 2),
    "DotProduct": (1, 3),
    "DotProductInputAll": (1, 3),
    "DotProductInput4x8Bit": (1, 3),
    "DotProductInput4x8BitPacked": (1, 3),
}
"""Maps a capability to the first version of Vulkan that allows it without an extension."""

STORAGE = frozenset(
    """
    UniformConstant Input Uniform Output Workgroup Private Function PushConstant Image
    StorageBuffer CallableDataKHR IncomingCallableDataKHR RayPayloadKHR HitAttributeKHR
    IncomingRayPayloadKHR ShaderRecordBufferKHR PhysicalStorageBuffer TileImageEXT
    TaskPayloadWorkgroupEXT HitObjectAttributeNV HitObjectAttributeEXT NodePayloadAMDX
    TileAttachmentQCOM
    """.split()
)


@instruction_rule("VUL-03", "Vulkan", "TypePointer Variable", vulkan=True)
def storage(m: Module, i: Instruction) -> Problems:
    """Vulkan must support the storage class."""
    type_ = m.types.get(i.result if i.op == "TypePointer" else i.type_id)
    if type_ is not None and type_.storage and type_.storage not in STORAGE:
        yield Problem(
            f"Vulkan has no storage class {type_.storage}",
            "move the variable to StorageBuffer, Uniform or Workgroup storage",
        )


@instruction_rule("VUL-04", "Vulkan", "Variable", vulkan=True)
def uniform_constant(m: Module, i: Instruction) -> Problems:
    """
    UniformConstant must hold images, samplers or acceleration structures, in at most one array.
    """
    type_ = m.types.get(i.type_id)
    held = m.pointee(type_)
    if type_ is None or held is None:
        return
    arrays = 0
    while held is not None and held.kind in ("Array", "RuntimeArray"):
        held, arrays = held.element, arrays + 1
    if held is None:
        return
    if arrays > 1 and type_.storage in RESOURCES:
        yield Problem("a resource cannot be in an array of arrays", "use a single array")
    if type_.storage == "UniformConstant" and held.kind not in OPAQUE:
        yield Problem(
            f"UniformConstant cannot hold {held}", "move the variable to Uniform or StorageBuffer"
        )
    elif type_.storage in ("StorageBuffer", "Uniform", "PushConstant") and held.contains & OPAQUE:
        yield Problem(
            f"{type_.storage} cannot hold an opaque object",
            "move the variable to UniformConstant storage",
        )


@instruction_rule("VUL-09", "Vulkan", "TypeCooperativeMatrixKHR", vulkan=False)
def matrix_scope(m: Module, i: Instruction) -> Problems:
    """The scope of a cooperative matrix must be Workgroup or Subgroup."""
    if not m.is_shader:
        return
    value = m.integer(i.get("scope"))
    name = "" if value is None else enumerant("Scope", value)
    if name and name not in ("Workgroup", "Subgroup"):
        yield Problem(f"the scope cannot be {name}", "use the scope Subgroup")


@instruction_rule(
    "VUL-11",
    "Vulkan",
    "BitFieldInsert BitFieldSExtract BitFieldUExtract BitReverse BitCount",
    vulkan=True,
)
def narrow_or_wide_bits(m: Module, i: Instruction) -> Problems:
    """Without maintenance9, bit field, bit count and reversal operands must have 32 bits."""
    base = m.type_of(i.get("base"))
    scalar = base.element if base is not None and base.is_vector else base
    if scalar is not None and scalar.kind == "Int" and scalar.width != 32:
        yield Problem(f"Op{i.op} takes {base}", "convert to 32 bits, or use shifts and masks")


@module_rule("VUL-12", "Vulkan", vulkan=True)
def rounding_modes(m: Module) -> Problems:
    """A rounding mode must be RTE or RTZ."""
    for given in m.decorations.values():
        for decoration in given:
            if decoration.name == "FPRoundingMode" and int(decoration.parameters[0]) > 1:
                yield Problem(
                    "Vulkan cannot round up or down", "round to even or zero", decoration.at
                )


@instruction_rule("VUL-13", "Vulkan", "Variable UntypedVariableKHR", vulkan=True)
def no_layout(m: Module, i: Instruction) -> Problems:
    """In storage without explicit layout, a variable's type must lack layout decorations."""
    pointer = m.types.get(i.type_id)
    if pointer is None or m.takes_layout(pointer.storage):
        return
    held = m.pointee(pointer) if i.op == "Variable" else m.types.get((*i.words, 0, 0)[4])
    types = (type_.id for type_ in (pointer, held) if type_ is not None)
    decorated = next(filter(None, (m.explicit_layouts.get(id) for id in types)), None)
    if decorated:
        yield Problem(
            f"a variable in {pointer.storage} cannot have a type with {decorated}",
            f"give the variable another type, without {decorated}",
        )


@module_rule("VUL-05", "Vulkan", vulkan=True)
def push_constants(m: Module) -> Problems:
    """Without push constant banks, an entry point may use at most one block of push constants."""
    if "PushConstantBanksNV" in m.capabilities:
        return
    variables = {
        i.result
        for i in m.outside
        if i.op in VARIABLES
        and (t := m.types.get(i.type_id)) is not None
        and t.storage == "PushConstant"
    }
    if len(variables) < 2:
        return
    for entry in m.entry_points:
        used = {v for f in reachable(m, entry) for v in _globals(m, f)} & variables
        if len(used) > 1:
            yield Problem(
                f"the entry point uses {len(used)} blocks of push constants, but may use 1",
                "put all push constants into one block",
                entry.at,
            )


class BuiltIn(NamedTuple):
    """The type that a built-in variable of a compute kernel must have."""

    lanes: int
    what: str


BUILT_INS = {
    "GlobalInvocationId": BuiltIn(3, "three 32-bit integers"),
    "LocalInvocationId": BuiltIn(3, "three 32-bit integers"),
    "NumWorkgroups": BuiltIn(3, "three 32-bit integers"),
    "WorkgroupId": BuiltIn(3, "three 32-bit integers"),
    "WorkgroupSize": BuiltIn(3, "three 32-bit integers"),
    "LocalInvocationIndex": BuiltIn(1, "a 32-bit integer"),
    "NumSubgroups": BuiltIn(1, "a 32-bit integer"),
    "SubgroupId": BuiltIn(1, "a 32-bit integer"),
    "SubgroupLocalInvocationId": BuiltIn(1, "a 32-bit integer"),
    "SubgroupSize": BuiltIn(1, "a 32-bit integer"),
    "SubgroupEqMask": BuiltIn(4, "four 32-bit integers"),
    "SubgroupGeMask": BuiltIn(4, "four 32-bit integers"),
    "SubgroupGtMask": BuiltIn(4, "four 32-bit integers"),
    "SubgroupLeMask": BuiltIn(4, "four 32-bit integers"),
    "SubgroupLtMask": BuiltIn(4, "four 32-bit integers"),
    "DeviceIndex": BuiltIn(1, "a 32-bit integer"),
}


@module_rule("VUL-06", "Vulkan", vulkan=True)
def built_ins(m: Module) -> Problems:
    """
    A built-in must be an Input variable of the built-in's type. WorkgroupSize must be a constant.
    """
    kind = grammar().kind("BuiltIn")
    for id, given in m.decorations.items():
        for decoration in given:
            if decoration.name != "BuiltIn" or decoration.member is not None:
                continue
            value = decoration.parameters[0] if decoration.parameters else -1
            name = kind[value].name if isinstance(value, int) and value in kind else ""
            at = m.definitions.get(id)
            if name in BUILT_INS and at is not None:
                yield from _built_in(m, name, at, decoration)


def _built_in(m: Module, name: str, at: Instruction, decoration: Decoration) -> Problems:
    want = BUILT_INS[name]
    type_: Type | None = m.types.get(at.type_id)
    if name == "WorkgroupSize":
        if at.op not in VECTOR_CONSTANTS:
            yield Problem(
                "WorkgroupSize is not a constant",
                "decorate a constant of three 32-bit integers, or state LocalSize",
                decoration.at,
            )
            return
        held = type_
    else:
        held = m.pointee(type_)
        if type_ is None or not type_.is_pointer:
            return
        if type_.storage != "Input":
            yield Problem(f"{name} cannot be in {type_.storage}", "move it to Input storage", at)
    if held is None:
        return
    lanes = held.lanes if held.kind == "Vector" else 1 if held.kind == "Int" else 0
    if held.base != "Int" or held.width != 32 or lanes != want.lanes:
        yield Problem(f"{name} is {want.what}, not {held}", f"make {name} {want.what}", at)


@instruction_rule("VUL-07", "Vulkan", "EntryPoint", vulkan=True)
def model(m: Module, i: Instruction) -> Problems:
    """Vulkan must support the execution model."""
    entry = next((e for e in m.entry_points if e.at is i), None)
    if entry is not None and entry.model == "Kernel":
        yield Problem("Vulkan has no execution model Kernel", "use the execution model GLCompute")


@module_rule("VUL-08", "Vulkan", vulkan=True)
def workgroup(m: Module) -> Problems:
    """Only compute kernels may use Workgroup storage."""
    shared = {
        i.result
        for i in m.outside
        if i.op in VARIABLES
        and (t := m.types.get(i.type_id)) is not None
        and t.storage == "Workgroup"
    }
    if not shared:
        return
    for entry in m.entry_points:
        if entry.model in ("GLCompute", "TaskEXT", "MeshEXT", "TaskNV", "MeshNV"):
            continue
        if any(_globals(m, f) & shared for f in reachable(m, entry)):
            yield Problem(
                f"{entry.model} cannot use Workgroup storage",
                "move the variable to Private storage, or use GLCompute",
                entry.at,
            )
