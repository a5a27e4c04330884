"""
The static rules of docs/rules.md, one function for each, named after the rule.

A function returns None if the rule holds. Otherwise it raises a `VerifyException` with the rule's
id, the cause and the remedy. Verifiers of operations call these functions. Rules that need several
operations are in `module.py`. docs/rules.md defines the ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    IntegerAttr,
    IntegerType,
    Signedness,
    SymbolRefAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue

from xdsl_spirv.dialects.spirv.attributes import (
    CooperativeMatrixLayoutAttr,
    CooperativeMatrixOperandsAttr,
    MemoryAccessAttr,
    PackedVectorFormatAttr,
    ScopeAttr,
)
from xdsl_spirv.dialects.spirv.enums import (
    CooperativeMatrixLayout,
    CooperativeMatrixOperands,
    CooperativeMatrixUse,
    MemoryAccess,
    Scope,
    StorageClass,
)
from xdsl_spirv.dialects.spirv.rules_types import is_integer, refuse
from xdsl_spirv.dialects.spirv.types import (
    CooperativeMatrixType,
    FloatType,
    MatrixType,
    PointerType,
    Size,
    UntypedPointerType,
    known_size,
)
from xdsl_spirv.dialects.spirv.types_declared import CooperativeVectorType


def element_of(type_: Attribute) -> Attribute:
    """
    Returns the component type of a vector or (cooperative) matrix. Returns other types unchanged.
    """
    if isinstance(type_, MatrixType):
        type_ = type_.column_type
    if isinstance(type_, VectorType | CooperativeMatrixType | CooperativeVectorType):
        return type_.element_type
    return type_


def is_signed(type_: Attribute) -> bool:
    """True if SPIR-V's Signedness is 1. Signless integers have Signedness 0."""
    return isinstance(type_, IntegerType) and type_.signedness.data is Signedness.SIGNED


def constant_integer(value: SSAValue) -> int | None:
    """
    Returns the integer that a constant operation of any kind gives. Returns None for other values.
    """
    attribute = getattr(value.owner, "value", None)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


# SPV_KHR_integer_dot_product


def dot_07_result_width(vector: Attribute, result: Attribute) -> None:
    """DOT-07: the result must be an integer scalar at least as wide as the components."""
    if not is_integer(result):
        refuse(
            "DOT-07",
            f"the result of an integer dot product must be an integer scalar, not {result}",
            "use an integer type of at least the components' width",
        )
    width = component_width(vector)
    if isinstance(result, IntegerType) and width is not None and result.width.data < width:
        refuse(
            "DOT-07",
            f"the result {result} is narrower than the {width}-bit components of {vector}",
            f"use an integer type of at least {width} bits",
        )


def dot_08_unsigned(vectors: Sequence[Attribute], result: Attribute) -> None:
    """DOT-08: operands and results of the U forms must have Signedness 0."""
    if is_signed(result):
        refuse(
            "DOT-08",
            f"the result of an unsigned dot product must have Signedness 0, not {result}",
            "use a signless or unsigned integer, or the S form of the instruction",
        )
    for vector in vectors:
        if isinstance(vector, VectorType) and is_signed(vector.element_type):
            refuse(
                "DOT-08",
                f"components of an unsigned dot product must have Signedness 0, unlike {vector}",
                "use signless or unsigned components, or the S form of the instruction",
            )


def dot_09_same_vectors(vector_1: Attribute, vector_2: Attribute) -> None:
    """DOT-09: both vectors of an S or U form must have the same type."""
    if vector_1 != vector_2:
        refuse(
            "DOT-09",
            f"both vectors must have the same type, not {vector_1} and {vector_2}",
            "bitcast one vector, or use the SU form of the instruction for mixed signedness",
        )


def dot_10_mixed_vectors(vector_1: Attribute, vector_2: Attribute) -> None:
    """DOT-10: an SU form needs two scalars or two vectors of one shape, the second unsigned."""
    if isinstance(vector_1, VectorType) != isinstance(vector_2, VectorType):
        refuse(
            "DOT-10",
            f"operands must be two 32-bit scalars or two vectors, not {vector_1} and {vector_2}",
            "pack or unpack one operand",
        )
    if not isinstance(vector_1, VectorType) or not isinstance(vector_2, VectorType):
        return
    same_length = vector_1.get_shape() == vector_2.get_shape()
    if not same_length or component_width(vector_1) != component_width(vector_2):
        refuse(
            "DOT-10",
            f"the vectors {vector_1} and {vector_2} must have equal length and component width",
            "convert one vector to the shape of the other vector",
        )
    if is_signed(vector_2.element_type):
        refuse(
            "DOT-10",
            f"the components of Vector 2 must have Signedness 0, unlike {vector_2}",
            "use signless or unsigned components, or swap the operands",
        )


def dot_11_scalars(vector: Attribute, packed: PackedVectorFormatAttr | None) -> None:
    """DOT-11: a scalar operand must have 32 bits, and a Packed Vector Format."""
    if isinstance(vector, VectorType):
        if not is_integer(vector.element_type):
            refuse(
                "DOT-11",
                f"an operand must be a vector of integers or a packed 32-bit integer, not {vector}",
                "use integer components, or spirv.Dot for floating-point components",
            )
        return
    if not isinstance(vector, IntegerType) or vector.width.data != 32:
        refuse(
            "DOT-11",
            f"a scalar operand must be a packed 32-bit integer, not {vector}",
            "use a 32-bit integer or a vector of integers",
        )
    if packed is None:
        refuse(
            "DOT-11",
            f"scalar operands of type {vector} need a Packed Vector Format",
            "add <PackedVectorFormat4x8Bit>",
        )


def dot_12_vectors(vector: Attribute, packed: PackedVectorFormatAttr | None) -> None:
    """DOT-12: vector operands must not have a Packed Vector Format."""
    if isinstance(vector, VectorType) and packed is not None:
        refuse(
            "DOT-12",
            f"operands of type {vector} are not packed, but a Packed Vector Format is given",
            "remove the format",
        )


def dot_13_accumulator(accumulator: Attribute, result: Attribute) -> None:
    """DOT-13: the accumulator must have the result's type."""
    if accumulator != result:
        refuse(
            "DOT-13",
            f"the accumulator must have the type of the result {result}, not {accumulator}",
            "convert the accumulator",
        )


def component_width(vector: Attribute) -> int | None:
    """
    Returns the bits of a component of a dot product's operand. In a packed scalar, a component has
    8 bits.
    """
    if isinstance(vector, VectorType) and isinstance(vector.element_type, IntegerType):
        return vector.element_type.width.data
    return 8 if isinstance(vector, IntegerType) else None


# SPV_KHR_cooperative_matrix


def contains_cooperative_matrix(type_: Attribute) -> bool:
    """True if an object of the type contains a cooperative matrix (not behind a pointer)."""
    if isinstance(type_, CooperativeMatrixType):
        return True
    if isinstance(type_, PointerType) or not isinstance(type_, ParametrizedAttribute | ArrayAttr):
        return False
    inner = type_.data if isinstance(type_, ArrayAttr) else type_.parameters
    return any(contains_cooperative_matrix(p) for p in inner)


def cm_07_storage(type_: Attribute, storage: StorageClass) -> None:
    """CM-07: objects with a cooperative matrix must be in Function or Private storage."""
    if storage in (StorageClass.Function, StorageClass.Private):
        return
    if contains_cooperative_matrix(type_):
        refuse(
            "CM-07",
            f"{type_} holds a cooperative matrix, which {storage.name} storage cannot hold",
            "use Function or Private storage, or keep the components in an array",
        )


def cm_08_one_constituent(result: Attribute, count: int) -> None:
    """CM-08: a constant or construction of a cooperative matrix must have one constituent."""
    if isinstance(result, CooperativeMatrixType) and count != 1:
        refuse(
            "CM-08",
            f"{result} must have exactly one constituent, not {count}",
            "give one value, which all components get",
        )


def cm_10_matrix(what: str, type_: Attribute, otherwise: str) -> None:
    """CM-10: a loaded or stored value must be a cooperative matrix. `otherwise` is the remedy."""
    if not isinstance(type_, CooperativeMatrixType):
        refuse("CM-10", f"{what} must be a cooperative matrix, not {type_}", f"use {otherwise}")


def cm_10_pointee(pointer: Attribute) -> None:
    """CM-10: the pointer of a load or store must point to a scalar or vector, or be untyped."""
    if isinstance(pointer, UntypedPointerType):
        return
    if not isinstance(pointer, PointerType):
        refuse(
            "CM-10",
            f"the matrix must be addressed by a pointer, not {pointer}",
            "point to the matrix's first element with spirv.AccessChain",
        )
    if not is_scalar_or_vector(pointer.pointee):
        refuse(
            "CM-10",
            f"the pointee must be a scalar or a vector, not {pointer.pointee}",
            "point to the matrix's first element with spirv.AccessChain",
        )


def is_scalar_or_vector(type_: Attribute) -> bool:
    """True for a numeric or Boolean scalar or vector."""
    return isinstance(element_of(type_), IntegerType | FloatType) and not isinstance(
        type_, MatrixType | CooperativeMatrixType
    )


def cm_11_layout(layout: Attribute, stride: SSAValue | None) -> None:
    """CM-11: a known layout must be row- or column-major, and needs a stride."""
    if isinstance(layout, SymbolRefAttr):
        return
    if not isinstance(layout, CooperativeMatrixLayoutAttr) or layout.data not in (
        CooperativeMatrixLayout.RowMajorKHR,
        CooperativeMatrixLayout.ColumnMajorKHR,
    ):
        refuse(
            "CM-11",
            f"{layout} is not a layout of SPV_KHR_cooperative_matrix",
            "use <RowMajor>, <ColumnMajor>, or a specialization constant's @name",
        )
    if stride is None:
        refuse(
            "CM-11",
            f"the layout {layout.spell(layout.data)} needs a Stride, but no Stride is given",
            "add the number of pointee elements from one row (column) to the next",
        )
    if not is_integer(stride.type):
        refuse(
            "CM-11",
            f"the Stride must be an integer scalar, not {stride.type}",
            "compute the Stride as an integer scalar",
        )


def cm_12_static_stride(stride: SSAValue | None, minimum: int) -> None:
    """CM-12: a known stride must be at least 1 for a store, at least 0 for a load."""
    value = None if stride is None else constant_integer(stride)
    if value is not None and value < minimum:
        refuse(
            "CM-12",
            f"the Stride {value} is below {minimum}",
            "give the distance between rows (columns) in elements of the pointee type",
        )


def cm_14_optional_operands(stride: SSAValue | None, memory: MemoryAccessAttr | None) -> None:
    """CM-14: a memory operand may only follow a stride."""
    if stride is None and memory is not None:
        refuse(
            "CM-14",
            "a Memory Operand is given without a Stride",
            "add the Stride or remove the Memory Operand",
        )


def cm_15_memory_operand(memory: MemoryAccessAttr | None, *, store: bool) -> None:
    """
    CM-15: loads must not have MakePointerAvailable, and stores must not have MakePointerVisible.
    """
    wrong = MemoryAccess.MakePointerVisible if store else MemoryAccess.MakePointerAvailable
    right = MemoryAccess.MakePointerAvailable if store else MemoryAccess.MakePointerVisible
    if memory is not None and memory.data & wrong:
        refuse(
            "CM-15",
            f"{wrong.name} is not for a {'store' if store else 'load'}",
            f"use {right.name} here",
        )


def cm_17_length(result: Attribute, type_: Attribute) -> None:
    """CM-17: the length of a cooperative matrix type must be a 32-bit integer of Signedness 0."""
    if not isinstance(type_, CooperativeMatrixType):
        refuse(
            "CM-17",
            f"the type must be a cooperative matrix type, not {type_}",
            "name a !spirv.coopmatrix type",
        )
    if not isinstance(result, IntegerType) or result.width.data != 32 or is_signed(result):
        refuse(
            "CM-17",
            f"the length must be a 32-bit unsigned integer, not {result}",
            "make the result i32",
        )


MATRIX_PARTS = ("rows", "columns", "scope", "use")
"""The parameters of a cooperative matrix type other than its component type."""


def cm_19_conversion(
    operand: Attribute, result: Attribute, *, bitcast: bool = False, uses: bool = True
) -> None:
    """
    CM-19: a conversion must not change a cooperative matrix's scope, rows, columns and use.

    `uses` allows to change the use of an accumulator (SPV_NV_cooperative_matrix2,
    SPV_EXT_cooperative_matrix_maintenance1).
    """
    from_matrix = isinstance(operand, CooperativeMatrixType)
    if from_matrix != isinstance(result, CooperativeMatrixType):
        refuse(
            "CM-19",
            f"a cooperative matrix converts to a cooperative matrix, not {operand} to {result}",
            "convert the whole matrix, or its components one by one",
        )
    if not isinstance(operand, CooperativeMatrixType) or not isinstance(
        result, CooperativeMatrixType
    ):
        return
    accumulator = operand.use.data is CooperativeMatrixUse.MatrixAccumulatorKHR
    free = accumulator and uses and not bitcast
    kept = ("rows", "columns", "scope") if free else MATRIX_PARTS
    for what in kept:
        if getattr(operand, what) != getattr(result, what):
            refuse(
                "CM-19",
                f"a conversion cannot change the {what}: {operand} to {result}",
                "convert the components only; store and load to change the rest, or declare "
                "CooperativeMatrixConversionsNV to change an accumulator's use",
            )
    components = (operand.element_type, result.element_type)
    if bitcast and (
        not all(map(is_integer, components))
        or len({c.width.data for c in integers(components)}) != 1
    ):
        refuse(
            "CM-19",
            f"a bitcast of a cooperative matrix needs integers of equal width, not {operand} "
            f"to {result}",
            "use a conversion instruction",
        )


def integers(types: Sequence[Attribute]) -> list[IntegerType]:
    """Returns the integer types among `types`."""
    return [t for t in types if isinstance(t, IntegerType)]


def cm_20_mul_add_shapes(a: Attribute, b: Attribute, c: Attribute, result: Attribute) -> None:
    """CM-20: A must be MxK, B KxN, C and the result MxN, with their uses and one scope."""
    matrices: list[tuple[str, CooperativeMatrixType]] = []
    for name, type_ in (("A", a), ("B", b), ("C", c), ("the result", result)):
        if not isinstance(type_, CooperativeMatrixType):
            refuse(
                "CM-20",
                f"{name} must be a cooperative matrix, not {type_}",
                "load the matrix with spirv.KHR.CooperativeMatrixLoad",
            )
        matrices.append((name, type_))
    uses = (
        CooperativeMatrixUse.MatrixAKHR,
        CooperativeMatrixUse.MatrixBKHR,
        CooperativeMatrixUse.MatrixAccumulatorKHR,
        CooperativeMatrixUse.MatrixAccumulatorKHR,
    )
    for (name, matrix), use in zip(matrices, uses, strict=True):
        if matrix.use.data != use:
            refuse(
                "CM-20",
                f"the use of {name} must be {matrix.use.spell(use)}, not "
                f"{matrix.use.spell(matrix.use.data)}",
                f"load the matrix with the use {matrix.use.spell(use)}",
            )
        if matrix.scope != matrices[0][1].scope:
            refuse(
                "CM-20",
                f"A, B, C and the result must have one scope, but {name} is {matrix}",
                "use the scope of A everywhere",
            )
    (_, ma), (_, mb), (_, mc), (_, mr) = matrices
    agree = (
        ("K", "A's columns", ma.columns, "B's rows", mb.rows),
        ("M", "A's rows", ma.rows, "C's rows", mc.rows),
        ("N", "B's columns", mb.columns, "C's columns", mc.columns),
        ("M", "A's rows", ma.rows, "the result's rows", mr.rows),
        ("N", "B's columns", mb.columns, "the result's columns", mr.columns),
    )
    for letter, first, size, second, other in agree:
        if size != other:
            refuse(
                "CM-20",
                f"{letter} is {spell_size(size)} by {first} and {spell_size(other)} by {second}",
                "A must be MxK, B KxN, C and the result MxN",
            )


def spell_size(size: Size) -> str:
    """Returns the text of a size."""
    number = known_size(size)
    return str(size) if number is None else str(number)


def cm_21_operands(
    operands: CooperativeMatrixOperandsAttr | None, types: Sequence[CooperativeMatrixType]
) -> None:
    """CM-21: signedness bits need integer matrices, the saturation bit an integer result."""
    if operands is None:
        return
    bits = CooperativeMatrixOperands
    of = (
        (bits.MatrixASignedComponentsKHR, "A", types[0]),
        (bits.MatrixBSignedComponentsKHR, "B", types[1]),
        (bits.MatrixCSignedComponentsKHR, "C", types[2]),
        (bits.MatrixResultSignedComponentsKHR, "the result", types[3]),
        (bits.SaturatingAccumulationKHR, "the result", types[3]),
    )
    for bit, name, type_ in of:
        if operands.data & bit and not is_integer(type_.element_type):
            refuse(
                "CM-21",
                f"{operands.spell(bit)} is for integers, but the components of {name} are "
                f"{type_.element_type}",
                f"remove {operands.spell(bit)}",
            )


def cm_26_arithmetic(types: Sequence[Attribute], *, floating: bool) -> None:
    """CM-26: operands must be matrices of one type, of floats if `floating`, else of integers."""
    matrices = [t for t in types if isinstance(t, CooperativeMatrixType)]
    if not matrices:
        return
    if any(t != types[0] for t in types):
        refuse(
            "CM-26",
            "arithmetic on cooperative matrices needs equal types, not "
            + " and ".join(dict.fromkeys(map(str, types))),
            "convert the operands first",
        )
    component = matrices[0].element_type
    if is_integer(component) == floating:
        refuse(
            "CM-26",
            f"the instruction takes {'floating-point' if floating else 'integer'} components, "
            f"not {component}",
            "use the instruction for the component type",
        )


# SPV_KHR_subgroup_rotate


def rot_03_value(value: Attribute, result: Attribute) -> None:
    """ROT-03: the value and the result must have the same scalar or vector type."""
    if not is_scalar_or_vector(value):
        refuse(
            "ROT-03",
            f"the value must be a scalar or vector of floats, integers or Booleans, not {value}",
            "rotate its components",
        )
    if value != result:
        refuse(
            "ROT-03",
            f"the result must have the type of the value {value}, not {result}",
            "convert the result afterwards",
        )


def rot_04_scope(scope: ScopeAttr) -> None:
    """ROT-04: the scope must be Workgroup or Subgroup."""
    if scope.data not in (Scope.Workgroup, Scope.Subgroup):
        refuse(
            "ROT-04",
            f"the Execution scope must be Workgroup or Subgroup, not {scope.spell(scope.data)}",
            "use <Subgroup>",
        )


def rot_05_unsigned(what: str, type_: Attribute) -> None:
    """ROT-05: Delta and ClusterSize must be integer scalars of Signedness 0."""
    if not is_integer(type_) or is_signed(type_):
        refuse(
            "ROT-05",
            f"{what} must be an integer scalar of Signedness 0, not {type_}",
            "use a signless or unsigned integer",
        )


def rot_06_cluster_size(cluster_size: SSAValue | None) -> None:
    """ROT-06: ClusterSize must be a constant and, if known, a power of two."""
    if cluster_size is None:
        return
    if not is_constant(cluster_size):
        refuse(
            "ROT-06",
            "ClusterSize must come from a constant instruction",
            "use spirv.Constant or spirv.mlir.referenceof",
        )
    value = constant_integer(cluster_size)
    if value is not None and (value < 1 or value & (value - 1)):
        refuse("ROT-06", f"ClusterSize must be a power of two, not {value}", "use 1, 2, 4, 8, ...")


CONSTANT_OPERATIONS = frozenset(
    {
        "arith.constant",
        "spirv.Constant",
        "spirv.mlir.referenceof",
        "spirv.SpecConstantOperation",
    }
)
"""Operations that are encoded as constant instructions, if necessary after lowering."""


def is_constant(value: SSAValue) -> bool:
    """True if a constant instruction computes the value."""
    return isinstance(value.owner, Operation) and value.owner.name in CONSTANT_OPERATIONS


# SPV_KHR_bfloat16


def bf_09_no_group_operation(type_: Attribute) -> None:
    """BF-09: group operations, including those that only move values, must not use bfloat16."""
    if isinstance(element_of(type_), BFloat16Type):
        refuse(
            "BF-09",
            f"group operations do not support bfloat16, as in {type_}",
            "bitcast the value to i16 and back",
        )


def bf_09_no_arithmetic(types: Sequence[Attribute]) -> None:
    """BF-09: arithmetic on bfloat16 is only allowed in dot products and MulAdd."""
    for type_ in types:
        if isinstance(element_of(type_), BFloat16Type):
            refuse(
                "BF-09",
                f"elementwise arithmetic does not support bfloat16, as in {type_}",
                "convert to f32 with spirv.FConvert, compute, and convert back",
            )
