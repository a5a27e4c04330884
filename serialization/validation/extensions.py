"""
The static rules of the four extensions (DOT, CM, ROT, BF) on a binary.

Their texts and conditions stand once, in `dialects/spirv/rules.py`. Those functions take types, so
what is done here is to lift an instruction's types to the dialect's and ask the same function. Only
scalars, vectors, cooperative matrices and pointers to them are lifted, and only for instructions
that a rule is about: a module without the extensions never imports the dialect. A module that
breaks a rule need not be decodable, which rules the other way out: running the dialect's verifiers
on a deserialized module would give up at the first type that cannot be made, and would know places
in the IR instead of in the binary.

What depends on ids alone (whether something is a constant, where a pointer comes from) is stated
here, over words. Rule CM-14 cannot be broken in binary form, where a Memory Operand without a
Stride is a Stride; CM-29 is the target's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.memory import memory_operands
from xdsl_spirv.serialization.validation.module import CONSTANTS, Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.synchronization import GROUP_FLOATS, GROUP_VALUES
from xdsl_spirv.serialization.validation.types import Type, enumerant

if TYPE_CHECKING:
    from xdsl_spirv.serialization.validation.lifting import Lifter

_MESSAGE = re.compile(r"((?:DOT|CM|ROT|BF)-\d\d): (.*); (.*)", re.DOTALL)


def lifter(m: Module) -> Lifter:
    """The module's lifter, made when a rule first needs one."""
    from xdsl_spirv.serialization.validation.lifting import Lifter

    found = m.__dict__.get("lifter")
    if found is None:
        found = m.__dict__["lifter"] = Lifter(m)
    return found


def asked(*checks: Callable[[], object]) -> Problems:
    """What the dialect's functions refuse, each on its own."""
    from xdsl.utils.exceptions import VerifyException

    for check in checks:
        try:
            check()
        except VerifyException as error:
            found = _MESSAGE.fullmatch(str(error))
            if found is not None:
                yield Problem(found[2], found[3], None, found[1])


def _all_known(*types: Type | None) -> bool:
    return all(t is not None for t in types)


DOTS = "SDot UDot SUDot SDotAccSat UDotAccSat SUDotAccSat"


@instruction_rule("EXT-DOT", "docs/rules.md", "Rules DOT-07 to DOT-13.", DOTS)
def dot_products(m: Module, i: Instruction) -> Problems:
    from xdsl_spirv.dialects.spirv import rules

    raw = [m.type_of(i.get("vector_1")), m.type_of(i.get("vector_2")), m.types.get(i.type_id)]
    if not _all_known(*raw):
        return
    lift = lifter(m)
    first, second, result = (lift.type(t) for t in raw)
    packed = lift.packed_format(i)
    checks: list[Callable[[], None]] = []
    if i.op.startswith("SU"):
        checks.append(lambda: rules.dot_10_mixed_vectors(first, second))
    else:
        checks.append(lambda: rules.dot_09_same_vectors(first, second))
    for vector in (first, second):
        checks.append(lambda v=vector: rules.dot_11_scalars(v, packed))
        checks.append(lambda v=vector: rules.dot_12_vectors(v, packed))
    if i.op.startswith("U"):
        checks.append(lambda: rules.dot_08_unsigned((first, second), result))
    checks.append(lambda: rules.dot_07_result_width(first, result))
    accumulator = m.type_of(i.get("accumulator")) if "AccSat" in i.op else None
    if accumulator is not None:
        checks.append(lambda: rules.dot_13_accumulator(lift.type(accumulator), result))
    yield from asked(*checks)


@instruction_rule(
    "EXT-CM-TYPE", "docs/rules.md", "Rules CM-04 to CM-06.", "TypeCooperativeMatrixKHR"
)
def matrix_type(m: Module, i: Instruction) -> Problems:
    if len(i.words) < 7:
        return
    for what, id in zip(("Scope", "Rows", "Columns", "Use"), i.words[3:7], strict=True):
        type_ = m.type_of(id)
        if (
            m.op_of(id) not in CONSTANTS
            or type_ is None
            or type_.kind != "Int"
            or type_.width != 32
        ):
            if id in m.definitions:
                yield Problem(
                    f"{what} must come from a 32-bit integer constant, but {m.spell(id)} is "
                    f"Op{m.op_of(id)} of {m.spell_type(id)}",
                    "declare one",
                    None,
                    "CM-05",
                )
            continue
        value = m.integer(id)
        if (
            what == "Use"
            and value is not None
            and value not in grammar().kind("CooperativeMatrixUse")
        ):
            yield Problem(
                f"there is no use {value}",
                "use 0 for MatrixA, 1 for MatrixB, 2 for MatrixAccumulator",
                None,
                "CM-06",
            )
        elif what == "Scope" and value is not None and value not in grammar().kind("Scope"):
            yield Problem(f"there is no scope {value}", "use 3 for Subgroup", None, "CM-05")
    found = m.types.get(i.result)
    if found is None or found.at is not i:
        return
    if found.element is None:
        yield Problem(
            f"{m.spell(i.words[2])} is no scalar numerical type", "use one", None, "CM-04"
        )
        return
    lift = lifter(m)
    yield from asked(lambda: lift.matrix_or_error(found))


@instruction_rule("EXT-CM-STORAGE", "docs/rules.md", "Rule CM-07.", "Variable")
def matrix_storage(m: Module, i: Instruction) -> Problems:
    pointer = m.types.get(i.type_id)
    held = m.pointee(pointer)
    if pointer is None or held is None or "CooperativeMatrixKHR" not in held.contains:
        return
    if pointer.storage not in ("Function", "Private"):
        yield Problem(
            f"{held} holds a cooperative matrix, which {pointer.storage} storage cannot hold",
            "use Function or Private storage, or keep the components in an array",
            None,
            "CM-07",
        )


@instruction_rule(
    "EXT-CM-COMPOSITE",
    "docs/rules.md",
    "Rule CM-08.",
    "ConstantComposite SpecConstantComposite CompositeConstruct",
)
def matrix_composite(m: Module, i: Instruction) -> Problems:
    type_ = m.types.get(i.type_id)
    if type_ is None or type_.kind != "CooperativeMatrixKHR":
        return
    from xdsl_spirv.dialects.spirv import rules

    lift = lifter(m)
    yield from asked(lambda: rules.cm_08_one_constituent(lift.type(type_), len(i.words) - 3))


@instruction_rule(
    "EXT-CM-ACCESS",
    "docs/rules.md",
    "Rules CM-10 to CM-12 and CM-15.",
    "CooperativeMatrixLoadKHR CooperativeMatrixStoreKHR",
)
def matrix_access(m: Module, i: Instruction) -> Problems:
    from xdsl_spirv.dialects.spirv import rules

    store = i.op == "CooperativeMatrixStoreKHR"
    lift = lifter(m)
    pointer = m.type_of(i.get("pointer"))
    matrix = m.type_of(i.get("object")) if store else m.types.get(i.type_id)
    if matrix is not None and matrix.kind != "CooperativeMatrixKHR":
        yield Problem(f"{matrix} is no cooperative matrix", "use one", None, "CM-10")
    if pointer is not None and pointer.kind != "UntypedPointerKHR":
        yield from asked(lambda: rules.cm_10_pointee(lift.pointer(pointer)))
        if not m.is_kernel and points_into_array(m, i.get("pointer")) is False:
            yield Problem(
                f"the pointer {m.spell(i.get('pointer'))} does not point into an array",
                "form it with OpAccessChain from an array's pointer",
                None,
                "CM-10",
            )
    if pointer is not None and pointer.is_pointer and not m.is_kernel:
        if pointer.storage not in ("Workgroup", "StorageBuffer", "PhysicalStorageBuffer"):
            yield Problem(
                f"the pointer is to {pointer.storage}",
                "use Workgroup, StorageBuffer or PhysicalStorageBuffer",
                None,
                "CM-10",
            )
    yield from _matrix_layout(m, i)
    stride = lift.value(i.get("stride")) if i.get("stride") else None
    minimum = 1 if store else 0
    memory = lift.memory_access(next(memory_operands(i), (None, []))[0])
    yield from asked(
        lambda: rules.cm_12_static_stride(stride, minimum),
        lambda: rules.cm_15_memory_operand(memory, store=store),
    )


def _matrix_layout(m: Module, i: Instruction) -> Problems:
    from xdsl_spirv.dialects.spirv import rules

    layout = i.get("memory_layout")
    type_ = m.type_of(layout)
    if type_ is None:
        return
    if m.op_of(layout) not in CONSTANTS or type_.kind != "Int" or type_.width != 32:
        yield Problem(
            f"the layout must come from a 32-bit integer constant, but {m.spell(layout)} is "
            f"Op{m.op_of(layout)} of {type_}",
            "use OpConstant of a 32-bit integer type",
            None,
            "CM-11",
        )
        return
    value = m.integer(layout, default=True)
    kind = grammar().kind("CooperativeMatrixLayout")
    if value is not None and value not in kind:
        yield Problem(
            f"the layout {m.spell(layout)} is {value}, which is no layout",
            "use 0 for row-major or 1 for column-major",
            None,
            "CM-11",
        )
        return
    value = m.integer(layout)
    if value is None:
        return
    name = enumerant("CooperativeMatrixLayout", value)
    if "ARM" in name and "CooperativeMatrixLayoutsARM" in m.capabilities:
        if not m.is_constant(i.get("stride")):
            yield Problem(
                f"the layout {name} needs a Stride from a constant instruction",
                "use OpConstant",
                None,
                "CM-11",
            )
        return
    lift = lifter(m)
    stride = lift.value(i.get("stride")) if i.get("stride") else None
    yield from asked(lambda: rules.cm_11_layout(lift.matrix_layout(value), stride))


def points_into_array(m: Module, pointer: int) -> bool | None:
    """Whether an array holds what the pointer points to; None where that is not known."""
    at = m.definitions.get(pointer)
    while at is not None:
        if at.op in ("Variable", "UntypedVariableKHR"):
            return False
        if at.op not in ("AccessChain", "InBoundsAccessChain"):
            return None
        type_ = m.pointee(m.type_of(at.get("base")))
        for id in at.rest("indexes"):
            if type_ is None:
                return None
            if type_.kind in ("Array", "RuntimeArray"):
                return True
            if type_.kind != "Struct":
                break
            number = m.integer(id)
            if number is None or not 0 <= number < len(type_.members):
                return None
            type_ = type_.members[number]
        base = m.definitions.get(at.get("base"))
        at = base if base is not None and base.index < at.index else None
    return None


@instruction_rule(
    "EXT-CM-MULADD", "docs/rules.md", "Rules CM-20 and CM-21.", "CooperativeMatrixMulAddKHR"
)
def mul_add(m: Module, i: Instruction) -> Problems:
    from xdsl_spirv.dialects.spirv import rules
    from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType

    raw = [m.type_of(i.get(n)) for n in ("a", "b", "c")] + [m.types.get(i.type_id)]
    if not _all_known(*raw):
        return
    lift = lifter(m)
    types = [lift.type(t) for t in raw]
    matrices = [t for t in types if isinstance(t, CooperativeMatrixType)]
    masks = i.values("CooperativeMatrixOperands")
    operands = lift.matrix_operands(masks[0]) if masks else None
    checks: list[Callable[[], None]] = [lambda: rules.cm_20_mul_add_shapes(*types)]
    if len(matrices) == 4:
        checks.append(lambda: rules.cm_21_operands(operands, matrices))
    yield from asked(*checks)


@instruction_rule("EXT-CM-LENGTH", "docs/rules.md", "Rule CM-17.", "CooperativeMatrixLengthKHR")
def matrix_length(m: Module, i: Instruction) -> Problems:
    from xdsl_spirv.dialects.spirv import rules

    result, type_ = m.types.get(i.type_id), m.types.get(i.get("type"))
    if result is None:
        return
    if type_ is None:
        yield Problem(f"{m.spell(i.get('type'))} is no type", "name the type", None, "CM-17")
        return
    lift = lifter(m)
    yield from asked(lambda: rules.cm_17_length(lift.type(result), lift.type(type_)))


CONVERSIONS = "ConvertFToU ConvertFToS ConvertSToF ConvertUToF UConvert SConvert FConvert Bitcast"


@instruction_rule("EXT-CM-CONVERT", "docs/rules.md", "Rule CM-19.", CONVERSIONS)
def matrix_conversion(m: Module, i: Instruction) -> Problems:
    result = m.types.get(i.type_id)
    operand = m.type_of(i.words[3]) if len(i.words) > 3 else None
    if result is None or operand is None:
        return
    if "CooperativeMatrixKHR" not in (result.kind, operand.kind):
        return
    from xdsl_spirv.dialects.spirv import rules

    lift = lifter(m)
    bitcast, uses = i.op == "Bitcast", not USE_CONVERSIONS.isdisjoint(m.capabilities)
    yield from asked(
        lambda: rules.cm_19_conversion(
            lift.type(operand), lift.type(result), bitcast=bitcast, uses=uses
        )
    )


USE_CONVERSIONS = {"CooperativeMatrixConversionsNV", "CooperativeMatrixConversionsEXT"}
"""What lets a conversion turn an accumulator into an A or a B."""


MATRIX_INTEGER = frozenset("SNegate IAdd ISub IMul SDiv UDiv".split())
MATRIX_FLOAT = frozenset("FNegate FAdd FSub FMul FDiv".split())
ELEMENTWISE = (
    "SNegate IAdd ISub IMul SDiv UDiv FNegate FAdd FSub FMul FDiv UMod SRem SMod FRem FMod FmaKHR "
    "VectorTimesScalar MatrixTimesScalar VectorTimesMatrix MatrixTimesVector MatrixTimesMatrix "
    "OuterProduct ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical BitwiseOr BitwiseXor "
    "BitwiseAnd Not BitFieldInsert BitFieldSExtract BitFieldUExtract BitReverse BitCount IsNan "
    "IsInf Ordered Unordered LogicalEqual LogicalNotEqual LogicalOr LogicalAnd LogicalNot IEqual "
    "INotEqual UGreaterThan SGreaterThan UGreaterThanEqual SGreaterThanEqual ULessThan SLessThan "
    "ULessThanEqual SLessThanEqual FOrdEqual FUnordEqual FOrdNotEqual FUnordNotEqual "
    "FOrdLessThan FUnordLessThan FOrdGreaterThan FUnordGreaterThan FOrdLessThanEqual "
    "FUnordLessThanEqual FOrdGreaterThanEqual FUnordGreaterThanEqual DPdx DPdy Fwidth DPdxFine "
    "DPdyFine FwidthFine DPdxCoarse DPdyCoarse FwidthCoarse IsFinite IsNormal SignBitSet"
)


@instruction_rule(
    "EXT-ARITHMETIC", "docs/rules.md", "Rules CM-26 and BF-09.", f"{ELEMENTWISE} ExtInst"
)
def arithmetic(m: Module, i: Instruction) -> Problems:
    result = m.types.get(i.type_id)
    place = 3
    if i.op == "ExtInst":
        if m.imports.get(i.get("set")) != "GLSL.std.450":
            return
        place = 5
    types = [result, *(m.type_of(id) for id in i.words[place:])]
    if any(t is not None and t.is_bfloat16 for t in types):
        yield from _no_bfloat16(m, types)
    if any(t is not None and t.kind == "CooperativeMatrixKHR" for t in types):
        yield from _matrix_arithmetic(m, i, types)


def _no_bfloat16(m: Module, types: list[Type | None]) -> Problems:
    from xdsl_spirv.dialects.spirv import rules

    lift = lifter(m)
    lifted = [lift.type(t) for t in types if t is not None]
    yield from asked(lambda: rules.bf_09_no_arithmetic(lifted))


def _matrix_arithmetic(m: Module, i: Instruction, types: list[Type | None]) -> Problems:
    from xdsl_spirv.dialects.spirv import rules

    lift = lifter(m)
    known = [t for t in types if t is not None]
    if i.op == "MatrixTimesScalar":
        known = known[:2]
    elif i.op not in MATRIX_INTEGER and i.op not in MATRIX_FLOAT:
        matrix = next(t for t in known if t.kind == "CooperativeMatrixKHR")
        yield Problem(
            f"Op{i.op} takes scalars and vectors, not {lift.type(matrix)}",
            "compute on the components, or outside the matrix",
            None,
            "CM-26",
        )
        return
    if i.op == "MatrixTimesScalar":
        return
    floating = i.op in MATRIX_FLOAT
    lifted = [lift.type(t) for t in known]
    yield from asked(lambda: rules.cm_26_arithmetic(lifted, floating=floating))


@instruction_rule(
    "EXT-BF-GROUP",
    "docs/rules.md",
    "Rule BF-09.",
    f"{GROUP_VALUES} {GROUP_FLOATS} GroupNonUniformAllEqual",
)
def group_operations(m: Module, i: Instruction) -> Problems:
    value = i.get("value") if "value" in i.shape.places else 0
    if not value:
        value = i.words[5] if len(i.words) > 5 else 0
    type_ = m.type_of(value) or m.types.get(i.type_id)
    if type_ is None or not type_.is_bfloat16:
        return
    from xdsl_spirv.dialects.spirv import rules

    lift = lifter(m)
    yield from asked(lambda: rules.bf_09_no_group_operation(lift.type(type_)))


@instruction_rule(
    "EXT-ROT", "docs/rules.md", "Rules ROT-03 to ROT-06, and BF-09.", "GroupNonUniformRotateKHR"
)
def rotate(m: Module, i: Instruction) -> Problems:
    from xdsl_spirv.dialects.spirv import rules

    value, delta, result = (
        m.type_of(i.get("value")),
        m.type_of(i.get("delta")),
        m.types.get(i.type_id),
    )
    lift = lifter(m)
    checks: list[Callable[[], None]] = []
    if value is not None and result is not None:
        checks.append(lambda: rules.rot_03_value(lift.type(value), lift.type(result)))
        checks.append(lambda: rules.bf_09_no_group_operation(lift.type(value)))
    scope = lift.scope(m.integer(i.get("execution")))
    if scope is not None:
        checks.append(lambda: rules.rot_04_scope(scope))
    if delta is not None:
        checks.append(lambda: rules.rot_05_unsigned("Delta", lift.type(delta)))
    size = i.get("cluster_size")
    if size and m.type_of(size) is not None:
        checks.append(lambda: rules.rot_05_unsigned("ClusterSize", lift.type(m.type_of(size))))
        checks.append(lambda: rules.rot_06_cluster_size(lift.value(size)))
    yield from asked(*checks)


@module_rule("EXT-CM-MODEL", "docs/rules.md", "Rule CM-02.")
def matrix_model(m: Module) -> Problems:
    if not m.memory_models or not any("CooperativeMatrix" in name for name in m.declared):
        return
    from xdsl_spirv.dialects.spirv import rules_module

    lift = lifter(m)
    model = lift.memory_model(m.memory_models[0].words[2])
    declared = lift.capabilities(m.declared)
    for problem in asked(lambda: rules_module.cm_02_vulkan_memory_model(model, declared)):
        yield problem._replace(at=m.memory_models[0])


POINTER_USERS = frozenset(
    """
    AccessChain InBoundsAccessChain ArrayLength CopyMemory CopyMemorySized CopyObject FunctionCall
    CooperativeMatrixLoadKHR CooperativeMatrixStoreKHR CooperativeMatrixLoadNV ExtInst
    CooperativeMatrixStoreNV CooperativeMatrixLoadTensorNV CooperativeMatrixStoreTensorNV
    CooperativeVectorLoadNV CooperativeVectorStoreNV CooperativeVectorMatrixMulNV
    CooperativeVectorMatrixMulAddNV CooperativeVectorOuterProductAccumulateNV
    CooperativeVectorReduceSumAccumulateNV ImageTexelPointer Load Store Bitcast Phi ReturnValue
    ConvertPtrToU UntypedAccessChainKHR UntypedInBoundsAccessChainKHR UntypedArrayLengthKHR
    UntypedPrefetchKHR UntypedImageTexelPointerEXT BufferPointerEXT RawAccessChainNV PtrAccessChain
    ExtInstWithForwardRefsKHR Variable EmitMeshTasksEXT TraceRayKHR ExecuteCallableKHR
    """.split()
)
"""SPIR-V 2.16.1: what takes a pointer under logical addressing, with CM-16's two. OpPhi, calls and
returns have rules of their own."""


@module_rule("EXT-CM-POINTER", "docs/rules.md", "Rule CM-16.")
def pointer_users(m: Module) -> Problems:
    if m.addressing_model != "Logical" or m.capabilities & {
        "VariablePointers",
        "VariablePointersStorageBuffer",
        "PhysicalStorageBufferAddresses",
        "Addresses",
    }:
        return
    definitions, types = m.definitions, m.types
    pointers = {t.id for t in types.values() if t.is_pointer}
    for i in m.instructions:
        if (
            i.block is None
            or i.op in POINTER_USERS
            or i.op.startswith(("Atomic", "RayQuery", "HitObject"))
        ):
            continue
        for id in i.ids():
            at = definitions.get(id)
            if at is not None and at.type_id in pointers:
                yield Problem(
                    f"under logical addressing Op{i.op} does not take a pointer, {m.spell(id)}",
                    "load and store through it, or declare VariablePointers",
                    i,
                    "CM-16",
                )
                break
