"""
Checks that a program's kernels agree with its manifest, before they are run.

A driver trusts both: it crashes on an invalid module, reads beyond a buffer that is shorter than a
block, and overwrites its own memory if a descriptor is missing. Every kernel is therefore
validated (docs/validation.md), and its interface is compared with the bindings of dispatches. A
kernel's accesses at computed indices cannot be checked in advance (docs/security.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl_spirv.grammar import grammar
from xdsl_spirv.runtime.elements import scalar_bytes
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import Buffer, Dispatch, Kernel, Manifest
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.validation import Severity, validate
from xdsl_spirv.serialization.validation.constant_values import ConstantValues, UnknownConstantError
from xdsl_spirv.serialization.validation.entry_points import VARIABLES, reachable
from xdsl_spirv.serialization.validation.layouts import Layouts, Place, parameter
from xdsl_spirv.serialization.validation.module import EntryPoint, Module

ENVIRONMENT = "vulkan1.3"
"""The environment for which every kernel of a program must be valid."""
ADDRESSES = "PhysicalStorageBufferAddresses"
"""A capability that programs must not use, because kernels could use any number as an address."""

EXTRA_BYTES = 16
"""
Maximum number of bytes by which a buffer may be shorter than its block, because its last word is
padded.
"""

REMEDY = "compile the program again, or run `xdsl-spirv validate` to find the fault"


@dataclass(frozen=True)
class Interface:
    """
    The interface of an entry point.

    `blocks` maps the (set, binding) of each storage buffer to the size of its type in bytes,
    without a runtime array at the end. `push` is the size of its push constants in bytes.
    """

    workgroup_size: tuple[int, int, int]
    blocks: Mapping[tuple[int, int], int]
    push: int


def check_kernels(manifest: Manifest, binaries: Mapping[str, bytes]) -> None:
    """
    Validates kernels and compares their interfaces with the manifest.

    Raises a `ProgramError` that names the file of a wrong kernel.
    """
    interfaces = {
        (kernel.name, name): interface
        for kernel in manifest.kernels
        for name, interface in _check_kernel(kernel, binaries[kernel.name]).items()
    }
    for function in (manifest, *map(manifest.of, manifest.functions)):
        buffers = {buffer.name: buffer for buffer in function.buffers}
        for dispatch in function.dispatches:
            _check_dispatch(dispatch, interfaces[dispatch.kernel, dispatch.entry_point], buffers)


def _check_kernel(kernel: Kernel, binary: bytes) -> dict[str, Interface]:
    """Returns the interface of each entry point that the manifest names."""
    try:
        raw = decode(binary)
        findings = [f for f in validate(raw, ENVIRONMENT) if f.severity is Severity.ERROR]
    except SPIRVDecodeError as error:
        raise ProgramError(str(error), kernel.binary, REMEDY) from error
    if findings:
        raise ProgramError(f"the kernel is not valid: {findings[0]}", kernel.binary, REMEDY)
    m = Module(raw)
    if ADDRESSES in m.capabilities:
        raise ProgramError(f"a kernel must not declare {ADDRESSES}", kernel.binary, REMEDY)
    _check_constants(kernel, m)
    entries = {entry.name: entry for entry in m.entry_points if entry.model == "GLCompute"}
    interfaces: dict[str, Interface] = {}
    for stated in kernel.entry_points:
        entry = entries.get(stated.name)
        if entry is None:
            raise ProgramError(
                f"the kernel has no entry point {stated.name!r}", kernel.binary, REMEDY
            )
        interface = _interface(m, entry, kernel)
        if interface.workgroup_size != stated.workgroup_size:
            raise ProgramError(
                f"{stated.name!r} has workgroups of {_times(interface.workgroup_size)}, "
                f"but the manifest says {_times(stated.workgroup_size)}",
                kernel.binary,
                REMEDY,
            )
        interfaces[stated.name] = interface
    return interfaces


def _check_constants(kernel: Kernel, m: Module) -> None:
    """Checks that the module has the kernel's specialization constants, in the right sizes."""
    sizes = {
        int(d.parameters[0]): max(type_.width // 8, 4) if type_.kind == "Bool" else type_.width // 8
        for id, decorations in m.decorations.items()
        for d in decorations
        if d.name == "SpecId" and (type_ := m.type_of(id)) is not None
    }
    for constant in kernel.spec_constants:
        place = f"{kernel.binary}, specialization constant {constant.id}"
        type = "ui32" if constant.type == "i1" else constant.type
        if sizes.get(constant.id) != len(scalar_bytes(constant.default, type, place)):
            raise ProgramError(
                f"the kernel has no specialization constant of type {constant.type}", place, REMEDY
            )


def _interface(m: Module, entry: EntryPoint, kernel: Kernel) -> Interface:
    used = {
        id
        for function in reachable(m, entry)
        if (body := m.by_function.get(function)) is not None
        for block in body.blocks
        for i in block.instructions
        for id in i.ids()
    }
    layouts = Layouts(m, uniform=False, relaxed=True, scalar=True)
    blocks: dict[tuple[int, int], int] = {}
    push = 0
    for i in m.outside:
        type_ = m.types.get(i.type_id)
        if i.op not in VARIABLES or i.result not in used or type_ is None:
            continue
        block = m.types.get(type_.pointee_id if i.op == "Variable" else i.get("data_type"))
        size = layouts.extent(block, Place()).size
        if type_.storage == "StorageBuffer" and block is not None and block.kind == "Struct":
            place = parameter(m, i.result, "DescriptorSet"), parameter(m, i.result, "Binding")
            blocks[place[0] or 0, place[1] or 0] = size
        elif type_.storage == "PushConstant":
            push = max(push, size)
        elif type_.storage in ("StorageBuffer", "Uniform", "UniformConstant"):
            cause = f"{m.spell(i.result)} is not a storage buffer, as all resources must be"
            raise ProgramError(cause, kernel.binary, REMEDY)
    return Interface(_workgroup_size(m, entry, kernel), blocks, push)


def _workgroup_size(m: Module, entry: EntryPoint, kernel: Kernel) -> tuple[int, int, int]:
    """Returns the workgroup size: from the built-in constant, or else LocalSize or LocalSizeId."""
    built_in = grammar().kind("BuiltIn")["WorkgroupSize"].value
    modes = {
        name: [int(o.value) for o in operands] for name, operands, _ in m.modes[entry.function]
    }
    ids = modes.get("LocalSizeId", [])
    for id, decorations in m.decorations.items():
        if any(d.name == "BuiltIn" and d.parameters[:1] == (built_in,) for d in decorations):
            ids = m.definitions[id].words[3:]
    values = ConstantValues(m)
    try:
        x, y, z = (int(values.value(id)) for id in ids) if ids else modes["LocalSize"]
    except (UnknownConstantError, ValueError, KeyError) as error:
        cause = f"the workgroup size of {entry.name!r} is not known"
        raise ProgramError(cause, kernel.binary, REMEDY) from error
    return x, y, z


def _check_dispatch(
    dispatch: Dispatch, interface: Interface, buffers: Mapping[str, Buffer]
) -> None:
    place = f"dispatch of {dispatch.entry_point!r}"
    bound = {(b.set, b.binding): buffers[b.buffer] for b in dispatch.bindings}
    for (set, binding), size in interface.blocks.items():
        buffer = bound.get((set, binding))
        if buffer is None or buffer.kind == "scalar":
            cause = f"no buffer is bound to set {set}, binding {binding}, which the kernel uses"
            raise ProgramError(cause, place, REMEDY)
        room = 0 if buffer.is_dynamic else buffer.bytes
        if size > max(room, EXTRA_BYTES):
            raise ProgramError(
                f"the kernel reads {size} bytes of the buffer {buffer.name!r}, which is {buffer}",
                place,
                REMEDY,
            )
    end = max((c.offset + _size(c.type) for c in dispatch.push_constants), default=0)
    if interface.push > end:
        cause = f"the kernel reads {interface.push} bytes of push constants, but is given {end}"
        raise ProgramError(cause, place, REMEDY)


def _size(type: str) -> int:
    return len(scalar_bytes(0, type))


def _times(numbers: tuple[int, ...]) -> str:
    return " x ".join(map(str, numbers))
