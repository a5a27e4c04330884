"""
Derives the capabilities, extensions and version that a `spirv.module` must declare.

Most requirements come from the grammar. For an instruction and each enumerant among its operands,
the grammar lists capabilities (any one suffices) and the first version of SPIR-V that includes it;
earlier versions need one of the listed extensions. Requirements that depend on types are computed
here: widths of scalars and vectors, storage of 8- and 16-bit data, bfloat16 and float8, variable
pointers. Requirements of one operation that depend on its types are in its class
(`SPIRVOp.capabilities`).

8- and 16-bit data that is only loaded, stored and converted needs a storage capability and no
arithmetic capability (SPIR-V 2.16.2), so that a device without 8-bit arithmetic runs the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DictionaryAttr,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IntegerType,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, TypeAttribute, TypedAttribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.grammar import Requirements, Version, decoration_of, grammar


@dataclass(frozen=True, slots=True)
class Need:
    """One requirement: any one of the capabilities, and any one of the extensions."""

    capabilities: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    version: Version | None = (1, 0)
    """The first version that includes the feature; None if every version needs an extension."""

    @staticmethod
    def of(entry: Requirements) -> Need:
        """Returns the requirement that the grammar states for an instruction or an enumerant."""
        return Need(entry.capabilities, entry.extensions, entry.version)

    @staticmethod
    def any_of(*capabilities: spv.Capability) -> Need:
        """Returns the requirement that any one of these capabilities satisfies."""
        return Need(tuple(c.name for c in capabilities))


STORAGE_16: Mapping[spv.StorageClass, spv.Capability] = {
    spv.StorageClass.StorageBuffer: spv.Capability.StorageBuffer16BitAccess,
    spv.StorageClass.PhysicalStorageBuffer: spv.Capability.StorageBuffer16BitAccess,
    spv.StorageClass.Uniform: spv.Capability.UniformAndStorageBuffer16BitAccess,
    spv.StorageClass.PushConstant: spv.Capability.StoragePushConstant16,
    spv.StorageClass.Input: spv.Capability.StorageInputOutput16,
    spv.StorageClass.Output: spv.Capability.StorageInputOutput16,
}
STORAGE_8: Mapping[spv.StorageClass, spv.Capability] = {
    spv.StorageClass.StorageBuffer: spv.Capability.StorageBuffer8BitAccess,
    spv.StorageClass.PhysicalStorageBuffer: spv.Capability.StorageBuffer8BitAccess,
    spv.StorageClass.Uniform: spv.Capability.UniformAndStorageBuffer8BitAccess,
    spv.StorageClass.PushConstant: spv.Capability.StoragePushConstant8,
}
STORAGE: Mapping[int, Mapping[spv.StorageClass, spv.Capability]] = {8: STORAGE_8, 16: STORAGE_16}
"""
Capability for storing 8- and 16-bit data by width and storage class.

Data in other storage classes needs the arithmetic capability.
"""

EXPLICIT_WORKGROUP: Mapping[int, spv.Capability] = {
    8: spv.Capability.WorkgroupMemoryExplicitLayout8BitAccessKHR,
    16: spv.Capability.WorkgroupMemoryExplicitLayout16BitAccessKHR,
}

INTEGER_WIDTHS: Mapping[int, spv.Capability] = {
    8: spv.Capability.Int8,
    16: spv.Capability.Int16,
    64: spv.Capability.Int64,
}
FLOAT_WIDTHS: Mapping[int, spv.Capability] = {
    16: spv.Capability.Float16,
    64: spv.Capability.Float64,
}

SMALL_FLOATS: Mapping[type[Attribute], spv.Capability] = {
    Float8E4M3FNType: spv.Capability.Float8EXT,
    Float8E5M2Type: spv.Capability.Float8EXT,
    Float8E8M0FNUType: spv.Capability.Float8UnsignedE8M0EXT,
    Float6E2M3FNType: spv.Capability.Float6EXT,
    Float6E3M2FNType: spv.Capability.Float6EXT,
    Float4E2M1FNType: spv.Capability.Float4EXT,
}
"""Maps a type of SPV_EXT_float8 or SPV_EXT_ocp_microscaling_types to its capability."""


def operations(names: str) -> frozenset[str]:
    """Returns the full names of operations of `spirv`, which `names` lists without `spirv.`."""
    return frozenset(f"spirv.{name}" for name in names.split())


MOVES = operations("CopyObject FConvert Load SConvert Store UConvert")
"""Operations on 8- and 16-bit data that need no arithmetic capability."""

POINTER_MAKERS = operations(
    "AccessChain InBoundsAccessChain NV.RawAccessChain Variable mlir.addressof"
)
"""
Operations whose results are ordinary pointers under logical addressing. Pointers that other
operations return are variable pointers.
"""

LAYOUTS = ("base_type", "data_type", "structure")
"""Properties with the type of the data that an untyped pointer points to."""

INTERNAL_WORDS = ("abi", "target_env", "resource_limits")
"""
Attributes whose names contain one of these words are for passes only, and are not in binaries.
"""


class Requirement:
    """Collects the requirements of one module, each with the first operation that has it."""

    def __init__(self, *, vulkan: bool) -> None:
        self.needs: dict[Need, str] = {}
        self._vulkan = vulkan
        self._types: set[tuple[Attribute, bool]] = set()
        self._enumerants: set[Attribute] = set()
        self._moved: dict[spv.Capability, tuple[int, str]] = {}

    def add(self, need: Need, what: str) -> None:
        if need.capabilities or need.extensions or need.version != (1, 0):
            self.needs.setdefault(need, what)

    def capability(self, capability: spv.Capability, what: str) -> None:
        self.add(Need.any_of(capability), what)

    def enumerant(self, attribute: spv.EnumerationAttr[Any]) -> None:
        """Adds the requirements that the grammar states for an attribute's enumerants."""
        if attribute in self._enumerants:
            return
        self._enumerants.add(attribute)
        if attribute.ENUM.__module__ != spv.Scope.__module__:
            return  # Names of constants, not of enumerants with needs.
        kind = grammar().kind(attribute.ENUM.__name__)
        for entry in kind.used(int(attribute.data)):
            self.add(Need.of(entry), f"{kind.name} {entry.name}")
        if self._vulkan and attribute.data is spv.Scope.Device:
            self.capability(spv.Capability.VulkanMemoryModelDeviceScope, "the scope Device")

    def attribute(self, attribute: Attribute) -> None:
        """Adds the requirements of the enumerants and types within an operation's property."""
        if isinstance(attribute, spv.EnumerationAttr):
            self.enumerant(attribute)
        elif isinstance(attribute, TypeAttribute):
            self.type(attribute, computed=True)
        elif isinstance(attribute, ArrayAttr):
            for inner in attribute:
                self.attribute(inner)
        elif isinstance(attribute, DictionaryAttr):
            for inner in attribute.data.values():
                self.attribute(inner)

    def type(self, type_: Attribute, *, computed: bool) -> None:
        """
        Adds a type's requirements. `computed` is False for values that are only moved or
        converted.
        """
        if (type_, computed) in self._types:
            return
        self._types.add((type_, computed))
        if isinstance(type_, spv.PointerType):
            self.pointer(type_)
        elif isinstance(type_, spv.UntypedPointerType):
            self.add(Need.of(grammar().instruction("OpTypeUntypedPointerKHR")), str(type_))
            self.enumerant(type_.storage_class)
        elif isinstance(type_, spv.DeclaredType):
            self._declared(type_)
        elif isinstance(type_, spv.CooperativeMatrixType):
            self._cooperative_matrix(type_)
        elif isinstance(type_, VectorType):
            if type_.get_shape()[0] > 4:
                self.capability(spv.Capability.Vector16, str(type_))
            self.type(type_.element_type, computed=computed)
        elif isinstance(type_, IntegerType | spv.FloatType):
            self._scalar(type_, computed=computed)
        else:
            self._aggregate(type_, computed=computed)

    def _declared(self, type_: spv.DeclaredType) -> None:
        """Adds the requirements of the type's instruction and of the parts of its declaration."""
        self.add(Need.of(grammar().instruction(type_.INSTRUCTION)), str(type_))
        for part in type_.declaration:
            if isinstance(part, spv.EnumerationAttr | TypeAttribute):
                self.attribute(part)

    def _aggregate(self, type_: Attribute, *, computed: bool) -> None:
        """Adds the requirements of the types inside an aggregate, function type or image."""
        if isinstance(type_, spv.EnumerationAttr):
            self.enumerant(type_)
        elif isinstance(type_, ArrayAttr):
            for inner in type_:
                self.type(inner, computed=computed)
        elif isinstance(type_, ParametrizedAttribute):
            for inner in type_.parameters:
                self.type(inner, computed=computed)

    def _scalar(self, type_: IntegerType | spv.FloatType, *, computed: bool) -> None:
        width = type_.bitwidth
        if isinstance(type_, BFloat16Type):
            self.capability(spv.Capability.BFloat16TypeKHR, "bf16")  # BF-01
        elif type(type_) in SMALL_FLOATS:
            self.capability(SMALL_FLOATS[type(type_)], str(type_))
        else:
            widths = INTEGER_WIDTHS if isinstance(type_, IntegerType) else FLOAT_WIDTHS
            if width in widths and (computed or width > 16):
                self.capability(widths[width], str(type_))
            elif width in widths:
                self._moved[widths[width]] = width, str(type_)

    def finish(self) -> None:
        """
        Adds arithmetic capabilities for types that occur in values but in no memory.

        A value that is rounded to binary16 and extended again is an example.
        """
        for capability, (width, what) in self._moved.items():
            declaring = {c.name for c in (*STORAGE[width].values(), EXPLICIT_WORKGROUP[width])}
            if not any(declaring.intersection(need.capabilities) for need in self.needs):
                self.capability(capability, what)

    def _cooperative_matrix(self, type_: spv.CooperativeMatrixType) -> None:
        self.add(Need.of(grammar().instruction("OpTypeCooperativeMatrixKHR")), str(type_))
        component = type_.element_type
        if isinstance(component, BFloat16Type):
            self.capability(spv.Capability.BFloat16CooperativeMatrixKHR, str(type_))  # BF-03
        elif isinstance(component, Float8E4M3FNType | Float8E5M2Type):
            self.capability(spv.Capability.Float8CooperativeMatrixEXT, str(type_))
        self.type(component, computed=True)
        self.attribute(type_.scope)

    def pointer(self, type_: spv.PointerType) -> None:
        """Adds the requirements of the storage class, of small data in it, and of the pointee."""
        self.enumerant(type_.storage_class)
        storage = type_.storage_class.data
        explicit = storage is spv.StorageClass.Workgroup and has_layout(type_.pointee)
        if explicit:
            self.capability(spv.Capability.WorkgroupMemoryExplicitLayoutKHR, str(type_))
        moved = True
        for width in sorted(set(small_widths(type_.pointee))):
            by_class = (
                dict.fromkeys(spv.StorageClass, EXPLICIT_WORKGROUP[width]) if explicit else None
            )
            capability = (by_class or STORAGE[width]).get(storage)
            if capability is None:
                moved = False
            else:
                self.capability(capability, str(type_))
        self.type(type_.pointee, computed=not moved)


def has_layout(type_: Attribute) -> bool:
    """True if offsets or strides define where the parts of an object lie."""
    if isinstance(type_, spv.StructType):
        return bool(type_.offsets.data) or any(map(has_layout, members(type_)))
    if isinstance(type_, spv.ArrayType | spv.RuntimeArrayType):
        return type_.stride.data > 0 or has_layout(type_.element_type)
    return False


def members(type_: spv.StructType) -> Sequence[Attribute]:
    """Returns a struct's member types; none if the struct is only declared by name."""
    return type_.members.data if isinstance(type_.members, ArrayAttr) else ()


def small_widths(type_: Attribute) -> Iterable[int]:
    """Yields 8 or 16 for each scalar of that width in a type; does not follow pointers."""
    if isinstance(type_, spv.StructType):
        for member in members(type_):
            yield from small_widths(member)
    elif isinstance(type_, spv.ArrayType | spv.RuntimeArrayType):
        yield from small_widths(type_.element_type)
    else:
        scalar = spv.element_of(type_)
        if isinstance(scalar, IntegerType | spv.FloatType) and scalar.bitwidth in (8, 16):
            yield scalar.bitwidth


def requirements(module: Operation) -> dict[Need, str]:
    """
    Returns the requirements of a `spirv.module`, each with the first operation that has it.

    Reads the module's addressing and memory model, but not its triple.
    """
    vulkan = module.properties["memory_model"] == spv.MemoryModelAttr(spv.MemoryModel.Vulkan)
    requirement = Requirement(vulkan=vulkan)
    for name in ("addressing_model", "memory_model"):
        requirement.attribute(module.properties[name])
    for op in module.walk():
        if op is not module:
            _operation(op, requirement)
    requirement.finish()
    return requirement.needs


def needs_of(op: Operation, *, moves: bool) -> Iterable[Need]:
    """
    Returns the requirements of one operation in a module of the Vulkan memory model.

    With `moves`, 8- and 16-bit values that are only moved need the arithmetic capability, too.
    """
    requirement = Requirement(vulkan=True)
    _operation(op, requirement)
    if moves:
        requirement.finish()
    return requirement.needs


@cache
def _is_internal(field: str) -> bool:
    return any(word in field for word in INTERNAL_WORDS)


NAMING = (StringAttr("OpName"), StringAttr("OpMemberName"))
"""Debug instructions. The types that these instructions name add no requirements."""


def _operation(op: Operation, requirement: Requirement) -> None:
    if op.name == "spirv.RawGlobal" and op.properties["instruction"] in NAMING:
        return
    in_set, name = spv.instruction_of(op)
    table = grammar()
    known = name in table if in_set is None else name in table.extended_names(in_set)
    if known:
        entry = table.instruction(name, in_set)
        fitting = _fitting(op, entry.capabilities)
        requirement.add(Need(fitting, entry.extensions, entry.version), op.name)
    for field, attribute in op.properties.items():
        if field in LAYOUTS and isinstance(attribute, TypeAttribute):
            _require_addressed(op, attribute, requirement)
        elif not _is_internal(field):
            requirement.attribute(attribute)
        if isinstance(op, spv.ModuleVariable) or isinstance(attribute, spv.LinkageAttributesAttr):
            _decoration(field, attribute, requirement)
    for field, attribute in op.attributes.items():
        _decoration(field, attribute, requirement)
    computed = op.name not in MOVES
    for value in (*op.operands, *op.results):
        requirement.type(value.type, computed=computed)
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                requirement.type(argument.type, computed=True)
    for capability, what in op.capabilities() if isinstance(op, spv.SPIRVOp) else ():
        requirement.capability(capability, what)
    for special in SPECIAL:
        special(op, requirement)


def _require_addressed(op: Operation, type_: Attribute, requirement: Requirement) -> None:
    """Adds the requirements of the data behind an untyped pointer, as for a typed pointer."""
    pointer = op.properties.get("type") or next(
        (v.type for v in (*op.operands, *op.results) if isinstance(v.type, spv.UntypedPointerType)),
        None,
    )
    if isinstance(pointer, spv.UntypedPointerType):
        requirement.pointer(spv.PointerType(type_, pointer.storage_class))
    else:
        requirement.type(type_, computed=True)


def _decoration(field: str, attribute: Attribute, requirement: Requirement) -> None:
    """Adds the requirements of a decoration attribute such as `binding`, and of its built-in."""
    decoration = decoration_of(field)
    if decoration is None:
        return
    requirement.add(Need.of(decoration), f"Decoration {decoration.name}")
    if isinstance(attribute, StringAttr) and decoration.parameters:
        kind = grammar().kind(decoration.parameters[0].kind)
        if attribute.data in kind:
            entry = kind[attribute.data]
            requirement.add(Need.of(entry), f"{kind.name} {entry.name}")


def _fitting(op: Operation, capabilities: tuple[str, ...]) -> tuple[str, ...]:
    """
    Returns the capabilities of an instruction that fit the operation's types.

    The value's width selects one of `AtomicFloat16AddEXT`, `AtomicFloat32AddEXT`, ... The
    pointer's storage class selects one of the capabilities for variable and physical pointers.
    """
    if len(capabilities) < 2 or not op.results:
        return capabilities
    result = op.results[0].type
    if op.name.startswith("spirv.EXT.AtomicF"):
        scalar = spv.element_of(result)
        width = scalar.bitwidth if isinstance(scalar, spv.FloatType) else 0
        named = f"{'Vector' if isinstance(result, VectorType) else f'Float{width}'}"
        return tuple(c for c in capabilities if named in c) or capabilities
    if isinstance(result, spv.PointerType) and result.storage_class.data in spv.VARYING:
        wanted = spv.VARYING[result.storage_class.data].name
        return (wanted,) if wanted in capabilities else capabilities
    return capabilities


def _variable_pointers(op: Operation, requirement: Requirement) -> None:
    """Adds the requirements of computed pointers into buffers or Workgroup memory."""
    if op.name == "spirv.func":
        return
    arguments = [a for region in op.regions for block in region.blocks for a in block.args]
    results = [] if op.name in POINTER_MAKERS else list(op.results)
    for value in (*results, *arguments):
        if isinstance(value.type, spv.PointerType):
            storage = value.type.storage_class.data
            if storage in (spv.StorageClass.StorageBuffer, spv.StorageClass.Workgroup):
                requirement.capability(spv.VARYING[storage], f"{op.name} of {value.type}")


def _matrix_use(op: Operation, requirement: Requirement) -> None:
    if len(op.operands) != 1 or len(op.results) != 1 or op.name.startswith("spirv.NV."):
        return
    before, after = op.operands[0].type, op.results[0].type
    if isinstance(before, spv.CooperativeMatrixType) and isinstance(
        after, spv.CooperativeMatrixType
    ):
        if before.use != after.use:
            capability = spv.Capability.CooperativeMatrixConversionsNV
            requirement.capability(capability, f"{op.name} to another use")


def _specialization_constant(op: Operation, requirement: Requirement) -> None:
    """Adds the requirements of the type of a specialization constant's default value."""
    default = op.properties.get("default_value")
    if isinstance(default, TypedAttribute):
        requirement.type(default.get_type(), computed=True)


SPECIAL: Sequence[Callable[[Operation, Requirement], None]] = (
    _variable_pointers,
    _matrix_use,
    _specialization_constant,
)
"""Functions that add requirements that the grammar does not state."""
