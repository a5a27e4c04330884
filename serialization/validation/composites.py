"""
Rules of composites (CMP): construction, extraction, insertion, shuffles, OpSelect, OpPhi and
OpCopyObject.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.declarations import parts_of
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.operands import Row, Want, register
from xdsl_spirv.serialization.validation.registry import Problem, Problems, instruction_rule
from xdsl_spirv.serialization.validation.types import Type

MAX_INDEXES = 255
"""Maximum number of indices of an access chain, extraction or insertion (SPIR-V 2.17)."""


def part(type_: Type | None, index: int | None, m: Module) -> Type | str | None:
    """
    Returns the type of a composite's part. Returns None if it is unknown. If the type has no parts,
    or a literal index is out of range, returns a text with the reason.
    """
    if type_ is None:
        return None
    match type_.kind:
        case "Struct":
            if index is None:
                return "the index into a struct is not a constant"
            if not 0 <= index < len(type_.members):
                return f"{type_} has {len(type_.members)} members, so {index} is out of range"
            return type_.members[index]
        case "Vector" | "Matrix":
            if index is not None and not 0 <= index < type_.lanes:
                return f"{type_} has {type_.lanes} components, so {index} is out of range"
            return type_.element
        case "Array":
            length = m.integer(type_.count_id)
            if index is not None and length is not None and not 0 <= index < length:
                return f"{type_} has {length} elements, so {index} is out of range"
            return type_.element
        case "RuntimeArray" | "CooperativeMatrixKHR" | "CooperativeMatrixNV":
            return type_.element
        case "CooperativeVectorNV" | "VectorIdEXT":
            return type_.element
        case _:
            return f"{type_} has no parts"


def _part_at(m: Module, type_: Type | None, indexes: Sequence[int]) -> Type | str | None:
    for index in indexes:
        inner = part(type_, index, m)
        if not isinstance(inner, Type):
            return inner
        type_ = inner
    return type_


@instruction_rule("CMP-01", "3.49.12", "CompositeConstruct")
def construct(m: Module, i: Instruction) -> Problems:
    """A composite must be constructed from one constituent of the right type for each part."""
    type_ = m.types.get(i.type_id)
    if type_ is None:
        return
    given = [m.type_of(id) for id in i.words[3:]]
    if type_.kind == "Vector" or type_.kind in ("CooperativeVectorNV", "VectorIdEXT"):
        yield from _construct_vector(m, type_, given)
        return
    parts = parts_of(type_, m)
    if parts is None:
        if type_.kind == "Array":
            yield from _wrong_parts(m, i, [type_.element] * len(given))
        return
    if parts == [] and type_.kind != "Struct":
        yield Problem(f"{type_} is not a composite type", remedies.COMPOSITE_RESULT)
    elif len(parts) != len(given):
        if not type_.is_matrix:  # Matrices are checked by rule CM-08.
            yield Problem(
                f"{type_} is made from {len(parts)} constituents, not {len(given)}",
                remedies.constituents(len(parts)),
            )
    else:
        yield from _wrong_parts(m, i, parts)


def _wrong_parts(m: Module, i: Instruction, parts: Sequence[Type | None]) -> Problems:
    for k, (id, want) in enumerate(zip(i.words[3:], parts, strict=True)):
        if want is not None and m.type_of(id) is not want:
            yield Problem(
                f"constituent {k} has type {m.spell_type(id)}, not {want}", f"give {want}"
            )


def _construct_vector(m: Module, type_: Type, given: list[Type | None]) -> Problems:
    lanes = 0
    for k, component in enumerate(given):
        if component is None:
            return
        if component is type_.element:
            lanes += 1
        elif component.is_vector and component.element is type_.element:
            lanes += component.lanes or m.integer(component.count_id) or 0
        else:
            yield Problem(
                f"constituent {k} has type {component}, which is not a part of {type_}",
                f"give a value of {type_.element} or a vector of {type_.element}",
            )
            return
    want = type_.lanes if type_.kind == "Vector" else m.integer(type_.count_id)
    if want is not None and lanes != want:
        yield Problem(
            f"{type_} has {want} components, not {lanes}", f"give {want} components together"
        )
    elif len(given) < min(2, want or 2) and type_.kind == "Vector":
        yield Problem("a vector needs at least two constituents", "use OpCopyObject")


@instruction_rule("CMP-02", "3.49.12", "CompositeExtract")
def extract(m: Module, i: Instruction) -> Problems:
    """An extraction must have the type of the part that its indexes select."""
    yield from _access(m, i, i.get("composite"), i.rest("indexes"), m.types.get(i.type_id))


@instruction_rule("CMP-03", "3.49.12", "CompositeInsert")
def insert(m: Module, i: Instruction) -> Problems:
    """An inserted object must have the part's type. The result must have the composite's type."""
    composite = m.type_of(i.get("composite"))
    result = m.types.get(i.type_id)
    if composite is not result:
        yield Problem(
            f"the result has type {result}, but the composite has type {composite}",
            remedies.result_type(composite),
        )
    object_ = m.type_of(i.get("object"))
    yield from _access(m, i, i.get("composite"), i.rest("indexes"), object_)


def _access(
    m: Module, i: Instruction, composite: int, indexes: list[int], want: Type | None
) -> Problems:
    type_ = m.type_of(composite)
    if type_ is None:
        return
    if len(indexes) > MAX_INDEXES:
        yield Problem(
            f"{len(indexes)} indexes are more than {MAX_INDEXES}",
            f"access in two steps of at most {MAX_INDEXES} indexes each",
        )
    if not indexes:
        yield Problem("the instruction has no index", "give at least one index")
        return
    reached = _part_at(m, type_, indexes)
    if isinstance(reached, str):
        yield Problem(reached, "use indexes that lead to a part of the composite")
    elif reached is not None and want is not None and reached is not want:
        yield Problem(f"the part has type {reached}, not {want}", f"use a part of type {want}")


@instruction_rule("CMP-04", "3.49.12", "VectorShuffle")
def shuffle(m: Module, i: Instruction) -> Problems:
    """A shuffle must take vectors with the component type of the result."""
    result = m.types.get(i.type_id)
    first, second = m.type_of(i.get("vector_1")), m.type_of(i.get("vector_2"))
    if result is None or first is None or second is None:
        return
    literals = i.rest("components")
    if result.kind != "Vector" or first.kind != "Vector" or second.kind != "Vector":
        yield Problem(
            f"{first} and {second} cannot be shuffled to {result}", "shuffle vectors into a vector"
        )
        return
    if len(literals) != result.lanes:
        yield Problem(
            f"{result} has {result.lanes} components, not {len(literals)}",
            f"give {result.lanes} literals",
        )
    for type_ in (first, second):
        if type_.element is not result.element:
            yield Problem(
                f"{type_} and {result} have different component types",
                "use vectors with equal component types",
            )
    total = first.lanes + second.lanes
    for literal in literals:
        if literal >= total and literal != 0xFFFFFFFF:
            yield Problem(
                f"component {literal} is out of range: the vectors have {total} components",
                f"use a literal below {total}, or 0xffffffff for an undefined component",
            )


@instruction_rule("CMP-05", "3.49.12", "VectorExtractDynamic VectorInsertDynamic")
def dynamic(m: Module, i: Instruction) -> Problems:
    """A dynamic extraction or insertion must take a vector, a component and an integer index."""
    result = m.types.get(i.type_id)
    vector = m.type_of(i.get("vector"))
    index = m.type_of(i.get("index"))
    if vector is None or result is None:
        return
    if not vector.is_vector:
        yield Problem(f"{vector} is not a vector", "use OpCompositeExtract or OpCompositeInsert")
        return
    if i.op == "VectorExtractDynamic":
        if vector.element is not result:
            yield Problem(
                f"the component has type {vector.element}, not {result}",
                remedies.result_type(vector.element),
            )
    else:
        component = m.type_of(i.get("component"))
        if vector is not result:
            yield Problem(
                f"the vector has type {vector}, not {result}", remedies.result_type(vector)
            )
        if component is not None and vector.element is not component:
            yield Problem(
                f"the component has type {component}, not {vector.element}",
                remedies.convert("it", vector.element),
            )
    if index is not None and index.kind != "Int":
        yield Problem(f"the index must be an integer scalar, not {index}", remedies.INTEGER_SCALAR)


ANY = Want("a type that has values", lambda t, r: t.kind != "Void")
COPIED = Want("of type {r}", lambda t, r: t is r, "use OpCopyLogical or a conversion")
INTEGERS = Want(
    "a struct with two members of one integer or integer vector type",
    lambda t, r: t.kind == "Struct" and len(t.members) == 2 and t.members[0] is t.members[1]
    and t.members[0] is not None and t.members[0].base == "Int"
    and t.members[0].is_scalar_or_vector,
)  # fmt: skip
MEMBER = Want("of the type of {r}'s members", lambda t, r: t is r.members[0])


def _unsigned_members(m: Module, i: Instruction) -> str | None:
    result = m.types.get(i.type_id)
    member = None if result is None else result.members[0]
    signed = member is not None and member.signed and i.op != "SMulExtended"
    return "the members are not of Signedness 0" if signed else None


for _row in (
    Row("CMP-06", "3.49.12", "A copy has the type of its operand.",
        "CopyObject", ANY, {"operand": COPIED}),
    Row("CMP-12", "3.49.13",
        "The result of extended arithmetic is a struct of two members of the operands' type.",
        "IAddCarry ISubBorrow UMulExtended SMulExtended", INTEGERS,
        {"operand_1": MEMBER, "operand_2": MEMBER}, _unsigned_members,
        "make the members integers of Signedness 0"),
):  # fmt: skip
    register(_row)


@instruction_rule("CMP-07", "3.49.12", "CopyLogical")
def copy_logical(m: Module, i: Instruction) -> Problems:
    """A logical copy must convert between different types that match part by part."""
    result, operand = m.types.get(i.type_id), m.type_of(i.get("operand"))
    if result is None or operand is None:
        return
    if operand is result:
        yield Problem("the operand and the result must differ in type", "use OpCopyObject instead")
    elif not logically_match(m, result, operand):
        yield Problem(
            f"{operand} does not match {result} logically",
            "extract each part and construct the result from the parts",
        )


def logically_match(m: Module, a: Type, b: Type) -> bool:
    """True if two types match logically, so that they differ only in decorations (SPIR-V 2.8)."""
    pending = [(a, b)]
    seen: set[tuple[int, int]] = set()
    while pending:
        a, b = pending.pop()
        if a is b or (a.id, b.id) in seen:
            continue
        seen.add((a.id, b.id))
        if a.kind != b.kind:
            return False
        if a.kind == "Array":
            if a.count_id != b.count_id and m.integer(a.count_id) != m.integer(b.count_id):
                return False
            if a.element is None or b.element is None:
                return False
            pending.append((a.element, b.element))
        elif a.kind == "Struct":
            if len(a.members) != len(b.members):
                return False
            pairs = zip(a.members, b.members, strict=True)
            pending.extend((x, y) for x, y in pairs if x is not None and y is not None)
        else:
            return False
    return True


@instruction_rule("CMP-08", "3.49.12", "Transpose")
def transpose(m: Module, i: Instruction) -> Problems:
    """A transposition must swap the numbers of columns and rows."""
    result, matrix = m.types.get(i.type_id), m.type_of(i.get("matrix"))
    if result is None or matrix is None:
        return
    if result.kind != "Matrix" or matrix.kind != "Matrix":
        yield Problem(
            f"OpTranspose cannot convert {matrix} to {result}",
            "transpose a matrix to a matrix",
        )
        return
    column, other = result.element, matrix.element
    if column is None or other is None:
        return
    if (
        result.lanes != other.lanes
        or matrix.lanes != column.lanes
        or column.element is not other.element
    ):
        yield Problem(
            f"{result} is not the transpose of {matrix}", "swap the numbers of rows and columns"
        )


@instruction_rule("CMP-09", "3.49.15", "Select")
def select(m: Module, i: Instruction) -> Problems:
    """OpSelect must have a Boolean condition and two objects of the result type."""
    result = m.types.get(i.type_id)
    condition = m.type_of(i.get("condition"))
    if result is None or condition is None:
        return
    composites = m.version >= (1, 4)
    if result.kind == "Void" or (
        not composites and not (result.is_scalar_or_vector or result.is_pointer)
    ):
        yield Problem(
            f"OpSelect cannot choose between objects of {result}",
            "branch by OpBranchConditional and store, instead of OpSelect",
        )
    if condition.base != "Bool" or not condition.is_scalar_or_vector:
        yield Problem(f"the condition must be a Boolean, not {condition}", remedies.BOOLEAN)
    elif condition.is_vector and condition.shape() != result.shape():
        yield Problem(
            f"the condition {condition} does not have the shape of {result}",
            f"use a Boolean scalar, or a vector of Booleans as long as {result}",
        )
    elif condition.is_scalar and result.is_vector and not composites:
        yield Problem(
            "before SPIR-V 1.4, a scalar condition cannot choose between vectors",
            "use a vector of Booleans, or raise the version to 1.4",
        )
    for name in ("object_1", "object_2"):
        object_type = m.type_of(i.get(name))
        if object_type is not None and object_type is not result:
            yield Problem(
                f"{name} is of {object_type}, not {result}", remedies.convert(name, result)
            )


@instruction_rule("CMP-10", "3.49.17", "Phi")
def phi(m: Module, i: Instruction) -> Problems:
    """OpPhi must have exactly one value of the result type for each predecessor of its block."""
    if i.block is None:
        return
    result = m.types.get(i.type_id)
    if result is not None and (result.kind == "Void" or result.kind in ("SampledImage",)):
        yield Problem(
            f"OpPhi cannot have the type {result}",
            "store the values in a variable, and load from it",
        )
    elif result is not None and result.kind == "Pointer" and m.addressing_model == "Logical":
        if not {"VariablePointers", "VariablePointersStorageBuffer"} & m.capabilities:
            if result.storage != "PhysicalStorageBuffer":
                yield Problem(
                    "OpPhi cannot have a pointer under logical addressing",
                    "declare VariablePointers, or merge indices",
                )
    predecessors = {b.id for b in i.block.predecessors}
    given = i.words[3:]
    parents = given[1::2]
    for value, parent in zip(given[::2], parents, strict=False):
        type_ = m.type_of(value)
        if type_ is None and m.op_of(value):
            yield Problem(f"{m.spell(value)} is not a value", remedies.VALUE)
        if type_ is not None and result is not None and type_ is not result:
            yield Problem(
                f"{m.spell(value)} is of {type_}, not {result}", remedies.convert("it", result)
            )
        if parent not in predecessors:
            yield Problem(
                f"%{parent} is not a predecessor of block %{i.block.id}", "remove the pair"
            )
    missing = predecessors - set(parents)
    if missing:
        yield Problem(
            f"OpPhi has no value for the predecessor %{min(missing)}",
            "add a pair of value and predecessor",
        )
    elif len(parents) > len(predecessors):
        yield Problem("OpPhi has two values for a predecessor", "keep one for each predecessor")


@instruction_rule(
    "CMP-11",
    "3.49.12",
    "CompositeConstructReplicateEXT ConstantCompositeReplicateEXT "
    "SpecConstantCompositeReplicateEXT",
)
def replicate(m: Module, i: Instruction) -> Problems:
    """A replicated value must have the type of the result's parts."""
    type_ = m.types.get(i.type_id)
    value = m.type_of(i.words[3]) if len(i.words) > 3 else None
    if i.op == "ConstantCompositeReplicateEXT" and m.is_spec(i.words[3]):
        yield Problem("the value cannot be a specialization constant", "use OpSpecConstant...")
    if type_ is None or value is None:
        return
    if type_.kind == "TensorARM":
        from xdsl_spirv.serialization.validation.graphs import tensor_constant, tensor_shape

        extent = (tensor_shape(m, type_) or [1])[0]
        yield from list(tensor_constant(m, type_, [i.words[3]] * extent))[:1]
    elif type_.kind in ("Struct", "Array", "Matrix") or type_.is_vector or type_.is_matrix:
        wanted = type_.members if type_.kind == "Struct" else (type_.element,)
        if any(w is not None and w is not value for w in wanted):
            yield Problem(f"a part of {type_} cannot have type {value}", f"give a part of {type_}")
    else:
        yield Problem(f"{type_} is not a composite type", remedies.COMPOSITE_RESULT)
