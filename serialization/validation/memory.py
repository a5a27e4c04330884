"""Rules of memory (MEM): variables, loads and stores, copies, memory operands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.raw.operands import RawOperand
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.composites import MAX_INDEXES
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import CONSTANTS, Module
from xdsl_spirv.serialization.validation.registry import Problem, Problems, instruction_rule
from xdsl_spirv.serialization.validation.types import Type, enumerant

VARIABLE = frozenset({"Variable", "UntypedVariableKHR"})


@instruction_rule("MEM-01", "3.49.8", "Variable UntypedVariableKHR")
def variable(m: Module, i: Instruction) -> Problems:
    """A variable's type must point into its storage class (Function for local variables)."""
    type_ = m.types.get(i.type_id)
    if type_ is None:
        return
    if i.op == "Variable" and type_.kind != "Pointer":
        yield Problem(f"{type_} is not a pointer type", remedies.POINTER_RESULT)
        return
    storage = enumerant("StorageClass", i.get("storage_class"))
    if type_.storage != storage:
        yield Problem(
            f"the storage class is {storage}, but the pointer type has {type_.storage}",
            f"use the storage class {type_.storage}",
        )
    if (i.block is not None) != (storage == "Function"):
        where = "in a function" if i.block is not None else "outside of functions"
        yield Problem(
            f"a variable of {storage} storage cannot be {where}",
            "move the variable, or change its storage class",
        )
    if storage == "Generic":
        yield Problem(
            "a variable cannot have Generic storage", "use Function, Private or Workgroup"
        )
    if storage == "PhysicalStorageBuffer":
        yield Problem("a variable cannot have PhysicalStorageBuffer storage", "use StorageBuffer")
    yield from _initializer(m, i, storage)


def _initializer(m: Module, i: Instruction, storage: str) -> Problems:
    initializer = i.get("initializer")
    if not initializer:
        return
    op = m.op_of(initializer)
    at = m.definitions.get(initializer)
    if op not in CONSTANTS and not (op == "Variable" and at is not None and at.block is None):
        if op and op != "Undef":
            yield Problem(
                f"the initializer {m.spell(initializer)} is not a constant or module-scope "
                "variable",
                remedies.STORE,
            )
        return
    if i.op == "Variable":
        held = m.pointee(m.types.get(i.type_id))
        given = m.type_of(initializer)
        if held is not None and given is not None and given is not held:
            yield Problem(
                f"the initializer has type {given}, not {held}", f"use a constant of {held}"
            )
    if storage == "Input" or (m.environment.vulkan and storage in NOT_INITIALIZED):
        yield Problem(f"a variable of {storage} storage cannot have an initializer", remedies.STORE)
    elif m.environment.vulkan and storage == "Workgroup" and op != "ConstantNull":
        yield Problem(
            "a Workgroup variable can only be initialized with OpConstantNull",
            "initialize the variable with an OpConstantNull of its type",
        )


NOT_INITIALIZED = frozenset(
    {"StorageBuffer", "Uniform", "UniformConstant", "PushConstant", "PhysicalStorageBuffer"}
)


@instruction_rule("MEM-02", "2.16.2", "Variable")
def held(m: Module, i: Instruction) -> Problems:
    """The storage class of a variable must allow the variable's type."""
    type_ = m.types.get(i.type_id)
    held_type = m.pointee(type_)
    if type_ is None or held_type is None:
        return
    if held_type.kind in ("Void", "Function"):
        yield Problem(f"a variable cannot hold {held_type}", "use a type that has values")
        return
    storage = type_.storage
    if not m.is_shader:
        return
    if (
        held_type.kind == "Pointer"
        and m.addressing_model == "Logical"
        and held_type.storage != "PhysicalStorageBuffer"
    ):
        variable_pointers = {"VariablePointers", "VariablePointersStorageBuffer"} & m.capabilities
        if not variable_pointers:
            yield Problem(
                "a variable cannot hold a pointer under logical addressing", remedies.INDEX
            )
        elif held_type.storage not in ("StorageBuffer", "Workgroup"):
            yield Problem(
                f"a variable cannot hold a pointer to {held_type.storage}", remedies.INDEX
            )
    if not held_type.contains.isdisjoint({"Bool"}) and storage in EXTERNAL:
        builtin = any(d.name == "BuiltIn" for d in m.decorations.get(i.result, ()))
        if not builtin and not (storage in ("Input", "Output") and _builtin_members(m, held_type)):
            yield Problem(
                f"{storage} storage cannot have Booleans", "use an integer: Booleans have no layout"
            )
    if "RuntimeArray" in held_type.contains:
        yield from _runtime_array(m, i, held_type, storage)


EXTERNAL = frozenset(
    {"StorageBuffer", "Uniform", "PushConstant", "PhysicalStorageBuffer", "UniformConstant",
     "Input", "Output"}
)  # fmt: skip


def _builtin_members(m: Module, type_: Type | None) -> bool:
    while type_ is not None and type_.kind == "Array":
        type_ = type_.element
    return type_ is not None and any(d.name == "BuiltIn" for d in m.decorations.get(type_.id, ()))


def _runtime_array(m: Module, i: Instruction, held_type: Type, storage: str) -> Problems:
    if not m.environment.vulkan:
        return
    # Other rules check the declarations of blocks.
    if held_type.kind == "RuntimeArray":
        if "RuntimeDescriptorArray" not in m.capabilities:
            yield Problem(
                "a variable cannot have a runtime array as its type",
                remedies.declare("RuntimeDescriptorArray"),
            )
        elif storage not in ("StorageBuffer", "Uniform", "UniformConstant"):
            yield Problem(
                f"a runtime array cannot be in {storage} storage",
                "give the array a length, or use StorageBuffer",
            )
        return
    inner = held_type.element if held_type.kind == "Array" else held_type
    if inner is None or inner.kind != "Struct":
        yield Problem(
            "a runtime array must be a member of a struct",
            "make the array the last member of the struct that the variable holds",
        )
    elif storage == "Uniform" and not m.has(inner.id, "BufferBlock"):
        yield Problem("a runtime array cannot be in a Uniform block", "use StorageBuffer")
    elif storage not in ("StorageBuffer", "Uniform", "PhysicalStorageBuffer"):
        yield Problem(f"a runtime array cannot be in {storage} storage", "use StorageBuffer")


@instruction_rule("MEM-03", "3.49.8", "Load")
def load(m: Module, i: Instruction) -> Problems:
    """A load must take a pointer, and its result must have the pointee type."""
    yield from _through(m, i, i.get("pointer"), m.types.get(i.type_id), "result")


HANDLES = frozenset({"Image", "Sampler", "SampledImage", "AccelerationStructureKHR"})
"""Opaque types. In Vulkan, shaders cannot store their values."""


@instruction_rule("MEM-04", "3.49.8", "Store")
def store(m: Module, i: Instruction) -> Problems:
    """A store must take a writable pointer and an object of the pointee type."""
    pointer, object_ = i.get("pointer"), i.get("object")
    type_ = m.type_of(pointer)
    if m.op_of(object_) and m.type_of(object_) is None:
        yield Problem(f"{m.spell(object_)} is not a value", remedies.VALUE)
        return
    yield from _through(m, i, pointer, m.type_of(object_), "object")
    if type_ is None or not type_.is_pointer:
        return
    stored = m.type_of(object_)
    if m.environment.vulkan and stored is not None and stored.kind in HANDLES:
        yield Problem(f"{stored} cannot be stored", "load the image or sampler at its use")
    if type_.storage in ("UniformConstant", "Input", "PushConstant"):
        yield Problem(f"{type_.storage} cannot be written", "use Private or StorageBuffer memory")
    elif type_.storage == "Uniform" and m.environment.vulkan:
        base = _base(m, pointer)
        held_ = m.pointee(m.type_of(base)) if base else None
        while held_ is not None and held_.kind in ("Array", "RuntimeArray"):
            held_ = held_.element
        if held_ is not None and m.has(held_.id, "Block"):
            yield Problem(
                "the store is to a Uniform block, which is read-only in Vulkan",
                "use StorageBuffer",
            )


def _base(m: Module, id: int) -> int:
    for _ in range(MAX_INDEXES):
        at = m.definitions.get(id)
        if at is None or at.op not in ("AccessChain", "InBoundsAccessChain", "CopyObject"):
            break
        id = at.words[3]
    return id


def _through(m: Module, i: Instruction, pointer: int, want: Type | None, what: str) -> Problems:
    type_ = m.type_of(pointer)
    if type_ is None:
        if m.op_of(pointer):
            yield Problem(f"{m.spell(pointer)} is not a pointer", remedies.POINTER)
        return
    if not type_.is_pointer:
        yield Problem(
            f"{m.spell(pointer)} has type {type_}, which is not a pointer", remedies.POINTER
        )
        return
    pointee_type = m.pointee(type_)
    if want is None:
        return
    if want.kind == "Void":
        yield Problem(f"the {what} cannot be void", "load and store types that have values")
    elif pointee_type is not None and pointee_type is not want and type_.kind == "Pointer":
        yield Problem(
            f"the {what} has type {want}, but the pointee has type {pointee_type}",
            f"use the pointee's type for the {what}",
        )
    elif "RuntimeArray" in want.contains:
        yield Problem(
            "an object with a runtime array cannot be loaded or stored",
            "access the array's elements one by one",
        )


def memory_operands(i: Instruction) -> Iterator[tuple[int, list[RawOperand]]]:
    """Yields each mask of memory operands with its parameters."""
    read = i.read or []
    for k, operand in enumerate(read):
        if operand.kind == "MemoryAccess":
            parameters: list[RawOperand] = []
            for other in read[k + 1 :]:
                if other.kind == "MemoryAccess":
                    break
                parameters.append(other)
            yield int(operand.value), parameters


@cache
def _bit(name: str) -> int:
    return grammar().kind("MemoryAccess")[name].value


@instruction_rule(
    "MEM-08",
    "3.26",
    "Load Store CopyMemory CopyMemorySized CooperativeMatrixLoadKHR CooperativeMatrixStoreKHR",
)
def operands(m: Module, i: Instruction) -> Problems:
    """
    Availability operands need NonPrivatePointer, and scopes must be constants. An alignment must
    be a power of two.
    """
    masks = list(memory_operands(i))
    copy = i.op.startswith("CopyMemory")
    for k, (mask, parameters) in enumerate(masks):
        loads = "Load" in i.op or (copy and (len(masks) == 1 or k == 1))
        stores = "Store" in i.op or (copy and (len(masks) == 1 or k == 0))
        yield from _mask(m, i, mask, parameters, loads, stores)
    yield from _check_alignment(m, i, masks)


def _mask(
    m: Module,
    i: Instruction,
    mask: int,
    parameters: list[RawOperand],
    loads: bool,
    stores: bool,
) -> Problems:
    available, visible = _bit("MakePointerAvailable"), _bit("MakePointerVisible")
    private = _bit("NonPrivatePointer")
    matrix = i.op.startswith("CooperativeMatrix")
    if mask & available and not stores and not matrix:
        yield Problem("MakePointerAvailable is not allowed on a load", "use MakePointerVisible")
    if mask & visible and not loads and not matrix:
        yield Problem("MakePointerVisible is not allowed on a store", "use MakePointerAvailable")
    if mask & (available | visible) and not mask & private:
        yield Problem("availability needs NonPrivatePointer", "add the bit NonPrivatePointer")
    if mask & private:
        at = i.words[3] if i.op.endswith("Load") or "LoadKHR" in i.op else i.words[1]
        type_ = m.type_of(at)
        if type_ is not None and type_.is_pointer and type_.storage not in (
            "Uniform", "Workgroup", "CrossWorkgroup", "Generic", "Image", "StorageBuffer",
            "PhysicalStorageBuffer",
        ):  # fmt: skip
            yield Problem(
                f"NonPrivatePointer is not allowed for {type_.storage}",
                "remove the bit NonPrivatePointer",
            )
    rest = list(parameters)
    if mask & _bit("Aligned") and rest:
        value = int(rest.pop(0).value)
        if value == 0 or value & (value - 1):
            yield Problem(f"the alignment {value} is not a power of two", "use 1, 2, 4, 8, 16, ...")
    for scope in rest:
        device = grammar().kind("Scope")["Device"].value
        if scope.kind == "IdScope" and m.integer(int(scope.value)) == device and m.is_vulkan_model:
            if "VulkanMemoryModelDeviceScope" not in m.capabilities:
                yield Problem(
                    "the scope Device needs the capability VulkanMemoryModelDeviceScope",
                    remedies.declare("VulkanMemoryModelDeviceScope"),
                    None,
                    "CAP-05",
                )
        value = m.integer(int(scope.value)) if scope.kind == "IdScope" else device
        if value is None and m.is_shader:
            yield Problem(
                f"the scope {m.spell(int(scope.value))} is not a constant", "name an OpConstant"
            )
        elif value is not None and value not in grammar().kind("Scope"):
            yield Problem(f"{value} is not a scope", "use a scope of SPIR-V 3.27")


def scalar_sizes(type_: Type) -> list[int]:
    """Returns the sizes in bytes of the scalars in a type."""
    widths = [n.lstrip("IntFloa") for n in type_.contains if n.startswith(("Int", "Float"))]
    return [int(w) // 8 for w in widths if w.isdigit()] + [8] * ("Pointer" in type_.contains)


def _check_alignment(
    m: Module, i: Instruction, masks: list[tuple[int, list[RawOperand]]]
) -> Problems:
    if i.op.startswith("CooperativeMatrix") or (not masks and i.op == "CopyMemorySized"):
        return
    places = {"Load": (3,), "Store": (1,)}.get(i.op, (1, 2))
    for k, place in enumerate(places):
        if place >= len(i.words):
            continue
        type_ = m.type_of(i.words[place])
        if type_ is None or type_.storage != "PhysicalStorageBuffer":
            continue
        mask, parameters = masks[min(k, len(masks) - 1)] if masks else (0, [])
        if not mask & _bit("Aligned") or not parameters:
            yield Problem(
                "an access to a physical storage buffer lacks the memory operand Aligned",
                "add Aligned with the alignment to the memory operands",
            )
            continue
        held_ = m.pointee(type_)
        least = max(scalar_sizes(held_), default=0) if held_ is not None else 0
        value = int(parameters[0].value)
        if value < least:
            yield Problem(
                f"the alignment {value} is below the {least} bytes of a scalar",
                f"state an alignment of at least {least}",
            )


@instruction_rule("MEM-09", "3.49.8", "CopyMemory")
def copy_memory(m: Module, i: Instruction) -> Problems:
    """A memory copy must have pointers to the same type."""
    target, source = m.type_of(i.get("target")), m.type_of(i.get("source"))
    for id in (i.get("target"), i.get("source")):
        if m.type_of(id) is None and m.op_of(id):
            yield Problem(f"{m.spell(id)} is not a value", remedies.POINTER)
    for type_ in (target, source):
        if type_ is not None and not type_.is_pointer:
            yield Problem(f"{type_} is not a pointer type", remedies.POINTER)
            return
    to, from_ = m.pointee(target), m.pointee(source)
    if to is not None and from_ is not None and to is not from_:
        yield Problem(f"{from_} cannot be copied to {to}", "use pointers to the same type")
    elif to is not None and to.kind == "Void":
        yield Problem(
            "a copy of void is not possible", "copy between pointers to a type that has values"
        )


@instruction_rule("MEM-11", "2.18", "Variable")
def vulkan_decorations(m: Module, i: Instruction) -> Problems:
    """With the Vulkan memory model, accessed memory must not be decorated Coherent or Volatile."""
    if not m.is_vulkan_model:
        return
    struct = m.pointee(m.types.get(i.type_id))
    while struct is not None and struct.kind in ("Array", "RuntimeArray"):
        struct = struct.element
    for target in (i.result, struct.id if struct is not None else 0):
        for decoration in m.decorations.get(target, ()):
            if decoration.name in ("Coherent", "Volatile"):
                yield Problem(
                    f"the Vulkan memory model does not allow {decoration.name}",
                    "use memory operands instead",
                    decoration.at,
                )


@instruction_rule("MEM-13", "3.49.8", "CopyMemorySized")
def sized_copy(m: Module, i: Instruction) -> Problems:
    """A sized copy must have two pointers and copy at least one byte."""
    for name in ("target", "source"):
        type_ = m.type_of(i.get(name))
        if type_ is None and m.op_of(i.get(name)):
            yield Problem(f"the {name} {m.spell(i.get(name))} is not a value", remedies.POINTER)
        if type_ is not None and not type_.is_pointer:
            yield Problem(f"the {name} has type {type_}, which is not a pointer", remedies.POINTER)
    size = m.type_of(i.get("size"))
    if size is not None and size.kind != "Int":
        yield Problem(f"the size must be an integer scalar, not {size}", remedies.INTEGER_SCALAR)
    elif m.integer(i.get("size")) == 0:
        yield Problem("the size cannot be 0", "copy at least one byte")
