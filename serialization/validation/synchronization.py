"""
Rules of cooperating invocations: scopes and semantics (SCO), atomics (ATO), group operations
(GRP).
"""

from __future__ import annotations

from functools import cache

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import CONSTANTS, Module
from xdsl_spirv.serialization.validation.operands import BOOL_SCALAR, SAME, Row, Want, register
from xdsl_spirv.serialization.validation.registry import Problem, Problems, instruction_rule
from xdsl_spirv.serialization.validation.types import enumerant

ATOMICS = (
    "AtomicLoad AtomicStore AtomicExchange AtomicCompareExchange AtomicCompareExchangeWeak "
    "AtomicIIncrement AtomicIDecrement AtomicIAdd AtomicISub AtomicSMin AtomicUMin AtomicSMax "
    "AtomicUMax AtomicAnd AtomicOr AtomicXor AtomicFlagTestAndSet AtomicFlagClear AtomicFMinEXT "
    "AtomicFMaxEXT AtomicFAddEXT"
)
GROUP_VALUES = (
    "GroupNonUniformBroadcast GroupNonUniformBroadcastFirst GroupNonUniformShuffle "
    "GroupNonUniformShuffleXor GroupNonUniformShuffleUp GroupNonUniformShuffleDown "
    "GroupNonUniformQuadBroadcast GroupNonUniformQuadSwap"
)
GROUP_INTEGERS = (
    "GroupNonUniformIAdd GroupNonUniformIMul GroupNonUniformSMin GroupNonUniformUMin "
    "GroupNonUniformSMax GroupNonUniformUMax GroupNonUniformBitwiseAnd GroupNonUniformBitwiseOr "
    "GroupNonUniformBitwiseXor GroupIAdd GroupUMin GroupSMin GroupUMax GroupSMax GroupIMulKHR "
    "GroupBitwiseAndKHR GroupBitwiseOrKHR GroupBitwiseXorKHR"
)
GROUP_FLOATS = (
    "GroupNonUniformFAdd GroupNonUniformFMul GroupNonUniformFMin GroupNonUniformFMax "
    "GroupFAdd GroupFMin GroupFMax GroupFMulKHR"
)
GROUP_BOOLEANS = (
    "GroupNonUniformLogicalAnd GroupNonUniformLogicalOr GroupNonUniformLogicalXor "
    "GroupLogicalAndKHR GroupLogicalOrKHR GroupLogicalXorKHR"
)
GROUP_VOTES = "GroupNonUniformElect GroupNonUniformAll GroupNonUniformAny GroupNonUniformAllEqual"
GROUP_BALLOTS = (
    "GroupNonUniformBallot GroupNonUniformInverseBallot GroupNonUniformBallotBitExtract "
    "GroupNonUniformBallotBitCount GroupNonUniformBallotFindLSB GroupNonUniformBallotFindMSB"
)
BARRIERS = "ControlBarrier MemoryBarrier"


def _scope(m: Module, id: int) -> str | None:
    value = m.integer(id)
    return None if value is None else enumerant("Scope", value)


SCOPED = " ".join(
    name.removeprefix("Op")
    for name in grammar().instruction_names
    if not name.startswith("OpType")
    and (not name.startswith("OpGroup") or name.startswith("OpGroupNonUniform"))
    and {"IdScope", "IdMemorySemantics"} & {o.kind for o in grammar().instruction(name).operands}
)
"""Instructions with a scope or memory semantics."""


@instruction_rule("SCO-01", "3.27", SCOPED)
def scope_type(m: Module, i: Instruction) -> Problems:
    """Scopes and memory semantics must be 32-bit integers, and constants if Shader is declared."""
    late = "CooperativeMatrixNV" in m.capabilities
    for place, kind in enumerate(i.shape.kinds, 1):
        if kind not in ("IdScope", "IdMemorySemantics") or place >= len(i.words):
            continue
        id = i.words[place]
        type_ = m.type_of(id)
        if type_ is None:
            continue
        what = "scope" if kind == "IdScope" else "semantics"
        if type_.kind != "Int" or type_.width != 32:
            yield Problem(
                f"the {what} must be a 32-bit integer, not {type_}",
                f"make the {what} a constant of a 32-bit integer type",
            )
        elif m.integer(id) is None and m.is_shader and not late:
            yield Problem(f"the {what} {m.spell(id)} is not an OpConstant", "name an OpConstant")
        elif kind == "IdScope":
            value = m.integer(id)
            if value is not None and value not in grammar().kind("Scope"):
                yield Problem(f"{value} is not a scope", "use a scope of SPIR-V 3.27")
            elif value is not None and enumerant("Scope", value) == "QueueFamily":
                if "VulkanMemoryModel" not in m.capabilities:
                    yield Problem(
                        "the scope QueueFamily needs the Vulkan memory model", "use Device"
                    )


@instruction_rule(
    "SCO-02", "3.27", f"{SCOPED} {GROUP_INTEGERS} {GROUP_FLOATS} {GROUP_BOOLEANS}", vulkan=True
)
def vulkan_scopes(m: Module, i: Instruction) -> Problems:
    """
    In Vulkan, the execution scope must be Workgroup or Subgroup, and Vulkan must allow the memory
    scope.
    """
    places = i.shape.places
    if "execution" in places:
        scope = _scope(m, i.get("execution"))
        allowed = ("Workgroup", "Subgroup") if i.op.startswith("ControlBarrier") else ("Subgroup",)
        if scope is not None and scope not in allowed:
            yield Problem(
                f"the execution scope {scope} is not allowed", f"use {' or '.join(allowed)}"
            )
    if "memory" in places:
        scope = _scope(m, i.get("memory"))
        if scope is not None and scope not in (
            "Device", "QueueFamily", "Workgroup", "Subgroup", "Invocation", "ShaderCallKHR"
        ):  # fmt: skip
            yield Problem(f"Vulkan has no memory scope {scope}", "use Device or a smaller scope")
        elif scope == "Subgroup" and m.environment.vulkan == (1, 0):
            if not {"SubgroupBallotKHR", "SubgroupVoteKHR"} & m.capabilities:
                yield Problem("Vulkan 1.0 has no memory scope Subgroup", "use Workgroup")


@instruction_rule(
    "SCO-04",
    "3.49.21",
    " ".join(n for n in SCOPED.split() if n.startswith("Group") and not n.endswith("RotateKHR")),
)
def group_scopes(m: Module, i: Instruction) -> Problems:
    """The scope of a non-uniform group operation must be Workgroup or Subgroup."""
    scope = _scope(m, i.get("execution")) if "execution" in i.shape.places else None
    # Rule SCO-02 checks the scope in Vulkan.
    if scope not in (None, "Workgroup", "Subgroup") and m.environment.vulkan is None:
        yield Problem(f"the execution scope {scope} is not allowed", "use Workgroup or Subgroup")


ORDERS = ("Acquire", "Release", "AcquireRelease", "SequentiallyConsistent")
STORAGES = (
    "UniformMemory", "SubgroupMemory", "WorkgroupMemory", "CrossWorkgroupMemory",
    "AtomicCounterMemory", "ImageMemory", "OutputMemory",
)  # fmt: skip
VULKAN_STORAGES = ("UniformMemory", "WorkgroupMemory", "ImageMemory", "OutputMemory")


@cache
def _bits(names: tuple[str, ...]) -> int:
    kind = grammar().kind("MemorySemantics")
    return sum(kind[n].value for n in names)


@instruction_rule("SCO-03", "3.25", f"{ATOMICS} {BARRIERS}")
def semantics(m: Module, i: Instruction) -> Problems:
    """Memory semantics must have at most one order. MakeAvailable and MakeVisible need one."""
    for place, kind in enumerate(i.shape.kinds, 1):
        if kind != "IdMemorySemantics" or place >= len(i.words):
            continue
        value = m.integer(i.words[place])
        if value is not None:
            yield from _semantics(m, i, value & 0xFFFFFFFF)


def _semantics(m: Module, i: Instruction, value: int) -> Problems:
    orders = [o for o in ORDERS if value & _bits((o,))]
    if len(orders) > 1:
        yield Problem(
            f"the semantics cannot be {' and '.join(orders)}", f"keep one of {' and '.join(orders)}"
        )
        return
    if value & ~_bits((*ORDERS, *STORAGES, "MakeAvailable", "MakeVisible", "Volatile")):
        yield Problem(f"the semantics 0x{value:x} have unknown bits", "use the bits of SPIR-V 3.25")
        return
    order = orders[0] if orders else ""
    vulkan = "VulkanMemoryModel" in m.capabilities
    for name in ("MakeAvailable", "MakeVisible", "OutputMemory", "Volatile"):
        if value & _bits((name,)) and not vulkan:
            yield Problem(
                f"{name} needs the capability VulkanMemoryModel",
                remedies.declare("VulkanMemoryModel"),
            )
    if value & _bits(("MakeAvailable",)) and order not in ("Release", "AcquireRelease"):
        yield Problem("MakeAvailable needs Release or AcquireRelease", "add one of the two")
    if value & _bits(("MakeVisible",)) and order not in ("Acquire", "AcquireRelease"):
        yield Problem("MakeVisible needs Acquire or AcquireRelease", "add one of the two")
    if value & _bits(("MakeAvailable", "MakeVisible")) and not value & _bits(STORAGES):
        yield Problem(
            "MakeAvailable or MakeVisible is set, but the semantics name no memory", remedies.MEMORY
        )
    if order == "SequentiallyConsistent" and m.is_vulkan_model:
        yield Problem("the Vulkan memory model has no SequentiallyConsistent", "use AcquireRelease")
    if value & _bits(("Volatile",)) and i.op in BARRIERS.split():
        yield Problem("a barrier cannot be Volatile", "remove Volatile from the semantics")
    if i.op == "AtomicLoad" and order in ("Release", "AcquireRelease"):
        yield Problem(f"a load cannot be {order}", "use Acquire")
    if i.op == "AtomicStore" and order in ("Acquire", "AcquireRelease"):
        yield Problem(f"a store cannot be {order}", "use Release")
    if m.environment.vulkan or m.is_vulkan_model:
        yield from _vulkan_semantics(m, i, value, order)


def _vulkan_semantics(m: Module, i: Instruction, value: int, order: str) -> Problems:
    stores = value & _bits(VULKAN_STORAGES)
    if order == "SequentiallyConsistent":
        yield Problem("Vulkan has no SequentiallyConsistent", "use AcquireRelease")
    if i.op == "MemoryBarrier" and not order:
        yield Problem(
            "a memory barrier needs Acquire, Release or AcquireRelease",
            "add Acquire, Release or AcquireRelease to the semantics",
        )
    elif stores and not order:
        yield Problem(
            "semantics that name a storage class need an order",
            "add an order such as Acquire, or use 0",
        )
    elif order and not stores:
        yield Problem(f"the semantics {order} do not name a storage class", remedies.MEMORY)
    if order and _scope(m, i.get("memory")) == "Invocation":
        yield Problem(
            "with the memory scope Invocation the semantics cannot have an order",
            "use the semantics 0, or the scope of the invocations that share the memory",
        )


@instruction_rule("ATO-01", "3.49.18", ATOMICS)
def atomic(m: Module, i: Instruction) -> Problems:
    """An atomic must have a pointer to a number, and its values must have the pointee type."""
    pointer = m.type_of(i.get("pointer"))
    if pointer is None:
        return
    if not pointer.is_pointer:
        yield Problem(f"{m.spell(i.get('pointer'))} is not a pointer", remedies.POINTER)
        return
    held = m.pointee(pointer) or (m.types.get(i.type_id) if i.type_id else None)
    result = m.types.get(i.type_id) if i.type_id else held
    if i.op.startswith("AtomicFlag") or held is None:
        return
    floating = i.op.startswith("AtomicF")
    both = i.op in ("AtomicLoad", "AtomicStore", "AtomicExchange")
    kinds = ("Float",) if floating else ("Int", "Float") if both else ("Int",)
    moves = floating or i.op == "AtomicExchange"
    vector = moves and held.kind == "Vector" and "AtomicFloat16VectorNV" in m.capabilities
    if held.kind not in kinds and not vector:
        yield Problem(f"the pointee cannot be {held}", f"use a {' or '.join(kinds).lower()} scalar")
        return
    if result is not held:
        yield Problem(
            f"the result has type {result}, but the pointee has type {held}",
            remedies.result_type(held),
        )
    for name in ("value", "comparator"):
        if name not in i.shape.places:
            continue
        value = m.type_of(i.get(name))
        if value is not None and value is not held:
            yield Problem(f"the {name} has type {value}, not {held}", remedies.convert("it", held))
    yield from _atomic_place(m, i, pointer.storage, held.width, held.kind)


def _atomic_place(m: Module, i: Instruction, storage: str, width: int, kind: str) -> Problems:
    if m.environment.vulkan and storage not in (
        "Uniform", "Workgroup", "Image", "StorageBuffer", "PhysicalStorageBuffer",
        "TaskPayloadWorkgroupEXT", "AtomicCounter",
    ):  # fmt: skip
        yield Problem(f"Vulkan has no atomics in {storage}", "use StorageBuffer or Workgroup")
    elif storage == "Function" and m.is_shader:
        yield Problem("atomics are not allowed in Function storage", "use OpLoad and OpStore")
    if kind == "Int" and width == 64 and m.is_shader:
        if "Int64Atomics" not in m.capabilities and "Int64ImageEXT" not in m.capabilities:
            yield Problem("a 64-bit atomic needs Int64Atomics", remedies.declare("Int64Atomics"))
    elif kind == "Int" and width not in (32, 64) and m.environment.vulkan:
        yield Problem(f"there are no atomics of {width} bits", "use 32 or 64 bits")
    if kind == "Float" and i.op.startswith("AtomicF"):
        name = "Add" if "Add" in i.op else "MinMax"
        need = f"AtomicFloat{width}{name}EXT"
        if need not in m.capabilities and need in grammar().kind("Capability"):
            yield Problem(f"Op{i.op} of {width} bits needs {need}", remedies.declare(need))


@instruction_rule("ATO-02", "3.49.18", "AtomicCompareExchange")
def unequal(m: Module, i: Instruction) -> Problems:
    """The Unequal semantics must not be stronger than Equal, and must not release."""
    value, equal = m.integer(i.get("unequal")), m.integer(i.get("equal"))
    if value is None:
        return
    if value & _bits(("Release", "AcquireRelease")):
        yield Problem("the Unequal semantics must not release", "use Acquire or None instead")
    volatile = _bits(("Volatile",))
    if equal is not None and (value ^ equal) & volatile:
        yield Problem(
            "only one of Equal and Unequal has the bit Volatile",
            "set Volatile in both semantics or in neither",
        )


def _constant_choice(m: Module, i: Instruction) -> str | None:
    late = m.version >= (1, 5) or i.op == "GroupNonUniformShuffle"
    for name in ("direction",) if late else ("direction", "id", "index"):
        if name in i.shape.places and m.op_of(i.get(name)) not in CONSTANTS:
            return f"{name} is not a constant"
    return None


SCALAR_OR_VECTOR = Want(
    "a scalar or a vector", lambda t, r: t.is_scalar_or_vector, "process the components one by one"
)
INDEX = Want(
    "an integer of Signedness 0", lambda t, r: t.kind == "Int" and not t.signed, remedies.UNSIGNED
)

register(
    Row("GRP-01", "3.49.21", "A group operation that moves values returns the value's type.",
        GROUP_VALUES, SCALAR_OR_VECTOR,
        {"value": SAME, "invocation_id": INDEX, "mask": INDEX, "delta": INDEX, "index": INDEX,
         "id": INDEX, "direction": INDEX}, _constant_choice, remedies.CONSTANT)
)  # fmt: skip


@instruction_rule("GRP-02", "3.49.21", f"{GROUP_INTEGERS} {GROUP_FLOATS} {GROUP_BOOLEANS}")
def reduction(m: Module, i: Instruction) -> Problems:
    """A reduction must have one numeric type for value and result, and a constant cluster size."""
    result = m.types.get(i.type_id)
    if result is None or len(i.words) < 6:
        return
    kind = "Int" if i.op in GROUP_INTEGERS.split() else "Bool"
    kind = "Float" if i.op in GROUP_FLOATS.split() else kind
    if result.base != kind or not result.is_scalar_or_vector:
        yield Problem(f"the result cannot be {result}", f"use {kind.lower()} scalars or vectors")
    elif result.is_bfloat16:
        yield Problem(
            f"group operations do not support bfloat16, as in {result}",
            "convert to f32 by OpFConvert and back",
            None,
            "BF-09",
        )
    elif i.op in ("GroupNonUniformUMin", "GroupNonUniformUMax") and result.signed:
        yield Problem(f"the result {result} must have Signedness 0", remedies.UNSIGNED_RESULT)
    operation = enumerant("GroupOperation", i.get("operation"))
    value = m.type_of(i.words[5])
    if value is not None and value is not result:
        yield Problem(f"the value has type {value}, not {result}", remedies.convert("it", result))
    size = i.words[6] if len(i.words) > 6 else 0
    if operation == "ClusteredReduce" and not size:
        yield Problem("ClusteredReduce has no ClusterSize", "add a ClusterSize, or use Reduce")
    elif (
        operation
        not in (
            "ClusteredReduce",
            "PartitionedReduceEXT",
            "PartitionedInclusiveScanEXT",
            "PartitionedExclusiveScanEXT",
            "PartitionedReduceNV",
            "PartitionedInclusiveScanNV",
            "PartitionedExclusiveScanNV",
        )
        and size
    ):
        yield Problem(
            f"{operation} does not take a ClusterSize", "remove ClusterSize, or use ClusteredReduce"
        )
    elif size and operation == "ClusteredReduce":
        yield from cluster_size(m, size)


def cluster_size(m: Module, id: int) -> Problems:
    """Checks that a cluster size is a constant of Signedness 0 and a power of two."""
    type_ = m.type_of(id)
    if type_ is None:
        return
    if type_.kind != "Int" or type_.signed:
        yield Problem(
            f"ClusterSize must be an integer of Signedness 0, not {type_}", remedies.UNSIGNED
        )
    elif m.op_of(id) not in CONSTANTS:
        yield Problem("ClusterSize is not a constant", "name a constant as ClusterSize")
    else:
        value = m.integer(id)
        if value is not None and (value < 1 or value & (value - 1)):
            yield Problem(f"ClusterSize cannot be {value}", "use 1, 2, 4, 8, ...")


register(
    Row("GRP-03", "3.49.21", "A vote gives a Boolean.", GROUP_VOTES, BOOL_SCALAR,
        {"predicate": BOOL_SCALAR, "value": SCALAR_OR_VECTOR})
)  # fmt: skip


@instruction_rule("GRP-04", "3.49.21", GROUP_BALLOTS)
def ballot(m: Module, i: Instruction) -> Problems:
    """A ballot must be a vector of four 32-bit integers of Signedness 0."""
    result = m.types.get(i.type_id)
    if result is None:
        return
    is_ballot = i.op == "GroupNonUniformBallot"
    value = None if is_ballot else i.words[5] if "BitCount" in i.op and len(i.words) > 5 else None
    if not is_ballot and value is None and "value" in i.shape.places:
        value = i.get("value")
    mask = result if is_ballot else m.type_of(value or 0)
    if mask is not None and not (
        mask.kind == "Vector" and mask.lanes == 4 and mask.base == "Int"
        and mask.width == 32 and not mask.signed
    ):  # fmt: skip
        yield Problem(f"the ballot cannot have type {mask}", "use four unsigned 32-bit integers")
    if is_ballot:
        predicate = m.type_of(i.get("predicate"))
        if predicate is not None and predicate.kind != "Bool":
            yield Problem(f"the predicate must be a Boolean, not {predicate}", remedies.BOOLEAN)
    elif i.op in ("GroupNonUniformInverseBallot", "GroupNonUniformBallotBitExtract"):
        if result.kind != "Bool":
            yield Problem(f"the result must be a Boolean, not {result}", remedies.BOOLEAN_RESULT)
        if "index" in i.shape.places:
            index = m.type_of(i.get("index"))
            if index is not None and (index.kind != "Int" or index.signed):
                yield Problem(f"the index must be unsigned, not {index}", remedies.UNSIGNED)
    elif result.kind != "Int" or result.signed:
        yield Problem(f"the result must be unsigned, not {result}", remedies.UNSIGNED_RESULT)
    if "BitCount" in i.op and m.environment.vulkan:
        operation = enumerant("GroupOperation", i.words[4])
        if operation not in ("Reduce", "InclusiveScan", "ExclusiveScan"):
            yield Problem(f"the operation cannot be {operation}", "use Reduce or one of the scans")
