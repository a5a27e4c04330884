"""
Functions for kernels: indices of invocations, mathematics, subgroup operations, barriers, atomics,
packed dot products.
"""

from __future__ import annotations

from typing import Any

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv import atomic
from xdsl_spirv.kernels.memory import Memory
from xdsl_spirv.kernels.tracer import KernelError, current
from xdsl_spirv.kernels.types import Type, boolean, i32, u32
from xdsl_spirv.kernels.values import Number, Value, of_one_type, value_of


def _position(built_in: spv.BuiltIn, dimension: int | None) -> Value:
    if dimension not in (None, 0, 1, 2):
        raise KernelError(f"a launch has no dimension {dimension}", "", "use 0, 1 or 2")
    return Value(current().built_in(built_in, dimension), u32)


def global_id(dimension: int = 0) -> Value:
    """Returns the invocation's index in the whole launch along a dimension, u32."""
    return _position(spv.BuiltIn.GlobalInvocationId, dimension)


def local_id(dimension: int = 0) -> Value:
    """Returns the invocation's index in its workgroup along a dimension, u32."""
    return _position(spv.BuiltIn.LocalInvocationId, dimension)


def workgroup_id(dimension: int = 0) -> Value:
    """Returns the workgroup's index along a dimension, u32."""
    return _position(spv.BuiltIn.WorkgroupId, dimension)


def workgroup_count(dimension: int = 0) -> Value:
    """Returns the number of workgroups along a dimension, u32."""
    return _position(spv.BuiltIn.NumWorkgroups, dimension)


def lane() -> Value:
    """Returns the invocation's index in its subgroup, u32."""
    return _position(spv.BuiltIn.SubgroupLocalInvocationId, None)


def subgroup_id() -> Value:
    """Returns the subgroup's index in its workgroup, u32."""
    return _position(spv.BuiltIn.SubgroupId, None)


def subgroup_size() -> Value:
    """Returns the number of invocations in a subgroup, u32."""
    return _position(spv.BuiltIn.SubgroupSize, None)


# Mathematics (GLSL.std.450)


def _float(value: Number, operation: Any) -> Value:
    (operand,) = of_one_type(value)
    if not operand.type.is_float:
        raise KernelError(
            f"the operand must be a float, not {operand.type}", "", "convert it: .to(f32)"
        )
    return Value(current().add(operation(operand.ssa)), operand.type)


def sqrt(x: Number) -> Value:
    """Returns the square root of a float."""
    return _float(x, spv.GLSqrtOp)


def inverse_sqrt(x: Number) -> Value:
    """Returns 1 / sqrt(x) of a float."""
    return _float(x, spv.GLInverseSqrtOp)


def exp(x: Number) -> Value:
    """Returns e to the power x, for a float of 16 or 32 bits."""
    return _float(x, spv.GLExpOp)


def log(x: Number) -> Value:
    """Returns the natural logarithm of a float of 16 or 32 bits."""
    return _float(x, spv.GLLogOp)


def sine(x: Number) -> Value:
    """Returns the sine of an angle in radians."""
    return _float(x, spv.GLSinOp)


def cosine(x: Number) -> Value:
    """Returns the cosine of an angle in radians."""
    return _float(x, spv.GLCosOp)


def tanh(x: Number) -> Value:
    """Returns the hyperbolic tangent of a float of 16 or 32 bits."""
    return _float(x, spv.GLTanhOp)


def floor(x: Number) -> Value:
    """Rounds a float down to an integer; the result is a float."""
    return _float(x, spv.GLFloorOp)


def _by_sign(values: tuple[Number, ...], floats: Any, signed: Any, unsigned: Any) -> Value:
    operands = of_one_type(*values)
    type = operands[0].type
    if type.is_boolean:
        raise KernelError("operands must be numbers, not Booleans", "", "convert them: .to(u32)")
    kind = floats if type.is_float else signed if type.is_signed else unsigned
    return Value(current().add(kind(*(v.ssa for v in operands))), type)


def minimum(a: Number, b: Number) -> Value:
    """Returns the minimum of two numbers, ignoring a NaN."""
    return _by_sign((a, b), spv.GLNMinOp, spv.GLSMinOp, spv.GLUMinOp)


def maximum(a: Number, b: Number) -> Value:
    """Returns the maximum of two numbers, ignoring a NaN."""
    return _by_sign((a, b), spv.GLNMaxOp, spv.GLSMaxOp, spv.GLUMaxOp)


def clamp(x: Number, low: Number, high: Number) -> Value:
    """Returns `x` limited to the range from `low` to `high`."""
    return minimum(maximum(x, low), high)


def absolute(x: Number) -> Value:
    """Returns the absolute value."""
    (operand,) = of_one_type(x)
    if operand.type.is_float or operand.type.is_signed:
        return _by_sign((x,), spv.GLFAbsOp, spv.GLSAbsOp, None)
    return operand


def fma(a: Number, b: Number, c: Number) -> Value:
    """Returns a * b + c of floats, possibly rounded only once."""
    operands = of_one_type(a, b, c)
    if not operands[0].type.is_float:
        raise KernelError(f"operands must be floats, not {operands[0].type}", "", "write a * b + c")
    return Value(current().add(spv.GLFmaOp(*(v.ssa for v in operands))), operands[0].type)


def select(condition: Number, a: Number, b: Number) -> Value:
    """Returns `a` if the condition is true, else `b`. Both are computed."""
    first, second = of_one_type(a, b)
    truth = value_of(condition, boolean)
    return Value(current().add(spv.SelectOp(truth.ssa, first.ssa, second.ssa)), first.type)


def bitcast(value: Value, type: Type) -> Value:
    """Reinterprets the bits of a value as another type of equal size."""
    if value.type.is_boolean or value.type.bytes != type.bytes or type.is_boolean:
        raise KernelError(
            f"the bits of {value.type} cannot be read as {type}",
            "",
            "use numbers with equally many bits",
        )
    if value.type.attribute == type.attribute:
        return Value(value.ssa, type)
    return Value(current().add(spv.BitcastOp(value.ssa, type.attribute)), type)


# Subgroups


def _reduce_value(value: Number, floats: Any, signed: Any, unsigned: Any) -> Value:
    (operand,) = of_one_type(value)
    type = operand.type
    if type.is_boolean:
        raise KernelError("operands must be numbers, not Booleans", "", "convert them: .to(u32)")
    kind = floats if type.is_float else signed if type.is_signed else unsigned
    return Value(
        current().add(kind(spv.Scope.Subgroup, spv.GroupOperation.Reduce, operand.ssa)), type
    )


def subgroup_add(value: Number) -> Value:
    """Returns the sum over the subgroup's active invocations."""
    add = spv.GroupNonUniformIAddOp
    return _reduce_value(value, spv.GroupNonUniformFAddOp, add, add)


def subgroup_min(value: Number) -> Value:
    """Returns the minimum over the subgroup's active invocations."""
    least = spv.GroupNonUniformSMinOp, spv.GroupNonUniformUMinOp
    return _reduce_value(value, spv.GroupNonUniformFMinOp, *least)


def subgroup_max(value: Number) -> Value:
    """Returns the maximum over the subgroup's active invocations."""
    most = spv.GroupNonUniformSMaxOp, spv.GroupNonUniformUMaxOp
    return _reduce_value(value, spv.GroupNonUniformFMaxOp, *most)


def _exchange_value(kind: Any, value: Number, which: Number) -> Value:
    (operand,) = of_one_type(value)
    number = value_of(which, u32)
    return Value(current().add(kind(spv.Scope.Subgroup, operand.ssa, number.ssa)), operand.type)


def subgroup_broadcast(value: Number, lane: int) -> Value:
    """Returns the value of the subgroup's invocation `lane` in all invocations."""
    if type(lane) is not int:
        raise KernelError(
            "the invocation to read from must be a Python integer", "", "use subgroup_shuffle"
        )
    return _exchange_value(spv.GroupNonUniformBroadcastOp, value, lane)


def subgroup_shuffle(value: Number, lane: Number) -> Value:
    """Returns the value of invocation `lane` (u32) of the subgroup. `lane` need not be uniform."""
    return _exchange_value(spv.GroupNonUniformShuffleOp, value, lane)


def subgroup_shuffle_xor(value: Number, mask: Number) -> Value:
    """Returns the value of the subgroup's invocation with the index `lane() ^ mask`."""
    return _exchange_value(spv.GroupNonUniformShuffleXorOp, value, mask)


def subgroup_rotate(value: Number, delta: Number, cluster: int | None = None) -> Value:
    """
    Returns the value of the invocation with the index `lane() + delta` (u32), modulo the size of
    the subgroup or of the cluster (SPV_KHR_subgroup_rotate).
    """
    (operand,) = of_one_type(value)
    size = None if cluster is None else value_of(cluster, u32).ssa
    steps = value_of(delta, u32).ssa
    op = spv.GroupNonUniformRotateKHROp(spv.Scope.Subgroup, operand.ssa, steps, size)
    return Value(current().add(op), operand.type)


# Memory


def barrier(buffers: bool = False) -> None:
    """
    Waits for all invocations of the workgroup. Their earlier writes to Workgroup memory (with
    `buffers` also to buffers) become visible.
    """
    semantics = spv.MemorySemantics.AcquireRelease | spv.MemorySemantics.WorkgroupMemory
    if buffers:
        semantics |= spv.MemorySemantics.UniformMemory
    current().insert(spv.ControlBarrierOp(spv.Scope.Workgroup, spv.Scope.Workgroup, semantics))


def _atomic(memory: Memory, index: Any, value: Number, kind: Any) -> Value:
    operand = value_of(value, memory.element)
    if operand.type.lanes != 1 or operand.type.width < 32 or operand.type.is_boolean:
        raise KernelError(
            f"atomic operations do not support {operand.type}",
            memory.name,
            "use single numbers of at least 32 bits",
        )
    if memory.read_only:
        raise KernelError(f"{memory.name} is read_only", memory.name, "remove read_only")
    scope = (
        spv.Scope.Workgroup if memory.storage == spv.StorageClass.Workgroup else spv.Scope.Device
    )
    pointer = memory.pointer(index)
    op = kind(pointer, scope, spv.MemorySemantics.None_, operand.ssa)
    return Value(current().add(op), operand.type)


def atomic_add(memory: Memory, index: Any, value: Number) -> Value:
    """Adds to an element atomically. Returns the old value."""
    kind = atomic.AtomicFAddEXTOp if memory.element.is_float else atomic.AtomicIAddOp
    return _atomic(memory, index, value, kind)


def atomic_max(memory: Memory, index: Any, value: Number) -> Value:
    """Atomically replaces an element by `value` if `value` is greater. Returns the old value."""
    return _atomic(memory, index, value, _extreme(memory.element, "Max"))


def atomic_min(memory: Memory, index: Any, value: Number) -> Value:
    """Replaces an element by the minimum with `value`, atomically. Returns the old value."""
    return _atomic(memory, index, value, _extreme(memory.element, "Min"))


def _extreme(type: Type, which: str) -> Any:
    letter = "F" if type.is_float else "S" if type.is_signed else "U"
    return getattr(atomic, f"Atomic{letter}{which}{'EXT' if type.is_float else ''}Op")


# Packed dot products (SPV_KHR_integer_dot_product)


def dot_4x8(a: Value, b: Value) -> Value:
    """
    Returns the dot product of two vectors of four bytes, each packed in an i32 (signed bytes) or
    u32 (unsigned bytes). The result is a u32 if both are unsigned, else an i32.
    """
    for value in (a, b):
        if value.type not in (i32, u32):
            raise KernelError(
                f"four packed bytes must be i32 or u32, not {value.type}",
                "",
                "convert it: .to(u32)",
            )
    if a.type == u32 and b.type == i32:
        a, b = b, a
    kind = {
        (i32, i32): spv.SDotOp,
        (u32, u32): spv.UDotOp,
        (i32, u32): spv.SUDotOp,
    }[a.type, b.type]
    result = u32 if kind is spv.UDotOp else i32
    packed = spv.PackedVectorFormat.PackedVectorFormat4x8Bit
    return Value(current().add(kind(a.ssa, b.ssa, result.attribute, packed)), result)
