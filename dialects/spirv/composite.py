"""Composites (SPIR-V 3.42.12): construction, extraction, insertion and shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr, IntegerAttr, VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    VarConstraint,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import ParsingState, TypeDirective, irdl_custom_directive
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import (
    Cast,
    Indices,
    TypeAndDerived,
    VectorAndElement,
    component_count,
    is_integer,
)
from xdsl_spirv.dialects.spirv.folding import Foldable
from xdsl_spirv.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    MatrixType,
    Repeated,
    StructType,
    known_size,
)
from xdsl_spirv.dialects.spirv.types_declared import CooperativeVectorType

IndexArray = ArrayAttr[IntegerAttr]
MANY = 32
"""Maximum number of constituents that a message lists."""


def indices_attribute(indices: Sequence[int] | IndexArray) -> IndexArray:
    """Creates the attribute `[0 : i32, 2 : i32]` from numbers."""
    if isinstance(indices, ArrayAttr):
        return indices
    return ArrayAttr([IntegerAttr(i, i32) for i in indices])


def constituents_of(type_: Attribute) -> Sequence[Attribute] | None:
    """Returns the types of a composite's constituents. Returns None if their number is unknown."""
    match type_:
        case VectorType():
            return (type_.element_type,) * component_count(type_)
        case MatrixType():
            return (type_.column_type,) * type_.columns.data
        case ArrayType() | CooperativeVectorType():
            length = known_size(type_.length)
            return None if length is None else Repeated(type_.element_type, length)
        case StructType():
            return tuple(type_.member_types)
        case _:
            return None


def element_at(op: Operation | type[Operation], type_: Attribute, indices: IndexArray) -> Attribute:
    """
    Returns the type of the part of a composite that literal indices select.

    A cooperative matrix accepts any index, since the implementation chooses its number of
    components (CM-18). Raises `VerifyException` if an index is out of range.
    """
    for position, index in enumerate(indices.data):
        number = index.value.data
        if isinstance(type_, CooperativeMatrixType):
            type_ = type_.element_type
            continue
        if (
            isinstance(type_, ArrayType | CooperativeVectorType)
            and known_size(type_.length) is None
        ):
            type_ = type_.element_type
            continue
        members = constituents_of(type_)
        if members is None:
            raise VerifyException(
                f"{op.name}: index {position} must select a constituent, but {type_} has none"
            )
        if not 0 <= number < len(members):
            raise VerifyException(
                f"{op.name}: index {position} is {number}, but {type_} has {len(members)} "
                "constituents"
            )
        type_ = members[number]
    return type_


class CompositeConstructOp(SPIRVOp):
    """
    Makes a composite from constituents: `spirv.CompositeConstruct %a, %b : (f32, f32) -> ...`.

    A vector's constituents may be shorter vectors. A cooperative matrix has one constituent, the
    value of all components (CM-08).
    """

    constituents = var_operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$constituents attr-dict `:` `(` type(operands) `)` `->` type($result)"

    def verify_(self) -> None:
        type_, given = self.result.type, [c.type for c in self.constituents]
        if isinstance(type_, CooperativeMatrixType):
            rules.cm_08_one_constituent(type_, len(given))
            if given[0] != type_.element_type:
                raise VerifyException(
                    f"{self.name}: the constituent of {type_} must be {type_.element_type}, "
                    f"not {given[0]}"
                )
            return
        if isinstance(type_, VectorType):
            self._verify_vector(type_, given)
            return
        wanted = constituents_of(type_)
        if wanted is None and not isinstance(type_, ArrayType | CooperativeVectorType):
            raise VerifyException(f"{self.name} must return a composite, not {type_}")
        if wanted is not None and (len(wanted) != len(given) or list(wanted) != given):
            many = ", ..." if len(wanted) > MANY else ""
            raise VerifyException(
                f"{self.name}: the constituents of {type_} must be "
                f"({', '.join(map(str, wanted[:MANY]))}{many}), not ({', '.join(map(str, given))})"
            )

    def _verify_vector(self, type_: VectorType, given: Sequence[Attribute]) -> None:
        for part in given:
            if rules.element_of(part) != type_.element_type:
                raise VerifyException(
                    f"{self.name}: the constituents of {type_} must be {type_.element_type} or "
                    f"vectors, not {part}"
                )
        count = sum(component_count(part) for part in given)
        if count != component_count(type_):
            raise VerifyException(
                f"{self.name}: {type_} needs {component_count(type_)} components, {count} are given"
            )


@irdl_custom_directive
class CompositeAndPart(TypeAndDerived):
    """Syntax that omits the type of the part, because it follows from the composite's type."""

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        indices = state.properties["indices"]
        assert isinstance(indices, ArrayAttr)  # Indices
        return (element_at(state.op_type, type, indices),)


class CompositeExtractOp(Foldable):
    """Extracts a part: `spirv.CompositeExtract %composite[0 : i32, 1 : i32] : composite type`."""

    composite = operand_def()
    indices = prop_def(IndexArray)
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (Indices, CompositeAndPart)
    assembly_format = (
        "$composite custom<Indices>($indices) attr-dict `:` "
        "custom<CompositeAndPart>(type($composite), type($result))"
    )

    def __init__(self, composite: Value, indices: Sequence[int] | IndexArray):
        value, path = SSAValue.get(composite), indices_attribute(indices)
        super().__init__(value, path, element_at(self, value.type, path))

    def evaluate(self, operands: Sequence[Attribute | None]) -> SSAValue | Attribute | None:
        return _part(self.composite, [index.value.data for index in self.indices])

    def verify_(self) -> None:
        wanted = element_at(self, self.composite.type, self.indices)
        if wanted != self.result.type:
            raise VerifyException(f"{self.name} must return {wanted}, not {self.result.type}")


class CompositeInsertOp(SPIRVOp):
    """
    Returns a copy of a composite with one part replaced.

    `spirv.CompositeInsert %object, %composite[0 : i32] : object type into composite type`.
    """

    T: ClassVar = VarConstraint("T", AnyAttr())
    object = operand_def()
    composite = operand_def(T)
    indices = prop_def(IndexArray)
    result = result_def(T)
    traits = traits_def(Pure())
    custom_directives = (Indices,)
    assembly_format = (
        "$object `,` $composite custom<Indices>($indices) attr-dict `:` "
        "type($object) `into` type($composite)"
    )

    def verify_(self) -> None:
        wanted = element_at(self, self.composite.type, self.indices)
        if wanted != self.object.type:
            raise VerifyException(f"{self.name} must insert {wanted} here, not {self.object.type}")


def _part(value: SSAValue, path: Sequence[int]) -> SSAValue | Attribute | None:
    """
    Returns the part of a composite at a path if constants and constructions define it, otherwise
    None.
    """
    while path:
        constant, producer = ConstantLike.get_constant_value(value), value.owner
        if constant is not None:
            return _part_of_constant(constant, path)
        if isinstance(producer, CompositeInsertOp):
            inserted = [index.value.data for index in producer.indices]
            common = min(len(inserted), len(path))
            if inserted[:common] != path[:common]:
                value = producer.composite
            elif common == len(inserted):
                value, path = producer.object, path[common:]
            else:
                return None
        elif isinstance(producer, CompositeConstructOp):
            parts = constituents_of(producer.result.type)
            if parts is None or len(parts) != len(producer.constituents):
                return None
            value, path = producer.constituents[path[0]], path[1:]
        else:
            return None
    return value


def _part_of_constant(constant: Attribute, path: Sequence[int]) -> Attribute | None:
    for index in path:
        if isinstance(constant, ArrayAttr):
            constant = constant.data[index]
        elif isinstance(constant, DenseIntOrFPElementsAttr) and len(constant.get_shape()) == 1:
            constant = list(constant.iter_attrs())[index]
        elif isinstance(constant, DenseIntOrFPElementsAttr):
            return None
        # A cooperative matrix's constituent is the value of all components.
    return constant


def _vector(op: Operation, type_: Attribute) -> VectorType:
    if not isinstance(type_, VectorType):
        raise VerifyException(f"{op.name} takes a vector, not {type_}")
    return type_


class VectorExtractDynamicOp(SPIRVOp, result=rules.element_of):
    """Extracts a component: `spirv.VectorExtractDynamic %vector[%index] : vector, index type`."""

    vector = operand_def()
    index = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (VectorAndElement,)
    assembly_format = (
        "$vector `[` $index `]` attr-dict `:` "
        "custom<VectorAndElement>(type($vector), type($result)) `,` type($index)"
    )

    def verify_(self) -> None:
        vector = _vector(self, self.vector.type)
        _check_index(self, self.index.type)
        if self.result.type != vector.element_type:
            raise VerifyException(
                f"{self.name} must return {vector.element_type}, not {self.result.type}"
            )


class VectorInsertDynamicOp(SPIRVOp):
    """
    Returns a copy of a vector with one component replaced.

    `spirv.VectorInsertDynamic %component, %vector[%index] : vector type, index type`.
    """

    T: ClassVar = VarConstraint("T", AnyAttr())
    vector = operand_def(T)
    component = operand_def()
    index = operand_def()
    result = result_def(T)
    traits = traits_def(Pure())
    custom_directives = (VectorAndElement,)
    assembly_format = (
        "$component `,` $vector `[` $index `]` attr-dict `:` "
        "custom<VectorAndElement>(type($vector), type($component)) `,` type($index)"
    )

    def verify_(self) -> None:
        vector = _vector(self, self.vector.type)
        _check_index(self, self.index.type)
        if self.component.type != vector.element_type:
            raise VerifyException(
                f"{self.name} must insert {vector.element_type}, not {self.component.type}"
            )


def _check_index(op: Operation, type_: Attribute) -> None:
    if not is_integer(type_):
        raise VerifyException(f"{op.name}: the index must be an integer scalar, not {type_}")


class VectorShuffleOp(SPIRVOp):
    """
    Selects components of two vectors. The numbers of the second vector's components follow the
    numbers of the first vector's components. -1 gives an undefined component.

    `spirv.VectorShuffle [1 : i32, 2 : i32] %a, %b : vector<2xf32>, vector<2xf32> -> vector<2xf32>`
    """

    components = prop_def(IndexArray)
    vector_1 = operand_def()
    vector_2 = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "attr-dict $components $vector_1 `,` $vector_2 `:` type($vector_1) `,` type($vector_2) "
        "`->` type($result)"
    )

    def __init__(self, components: Sequence[int] | IndexArray, vector_1: Value, vector_2: Value):
        path = indices_attribute(components)
        element = rules.element_of(SSAValue.get(vector_1).type)
        super().__init__(path, vector_1, vector_2, VectorType(element, [len(path)]))

    def verify_(self) -> None:
        vectors = [_vector(self, v.type) for v in (self.vector_1, self.vector_2)]
        wanted = VectorType(vectors[0].element_type, [len(self.components)])
        if self.result.type != wanted or vectors[1].element_type != vectors[0].element_type:
            raise VerifyException(
                f"{self.name}: {len(self.components)} components of {vectors[0]} and {vectors[1]} "
                f"do not make {self.result.type}"
            )
        count = sum(map(component_count, vectors))
        for index in self.components.data:
            if not -1 <= index.value.data < count:
                raise VerifyException(
                    f"{self.name}: component {index.value.data} does not exist; use -1 (undefined) "
                    f"or a number below {count}, the number of components of both vectors"
                )


class CopyLogicalOp(Cast):
    """Converts a composite to a logically matching type, which differs only in decorations."""

    def verify_(self) -> None:
        if not _matches_logically(self.operand.type, self.result.type):
            raise VerifyException(
                f"{self.name}: {self.operand.type} and {self.result.type} are not logically "
                "matching types"
            )
        if self.operand.type == self.result.type:
            raise VerifyException(
                f"{self.name} must change the type; use spirv.CopyObject for equal types"
            )


def _matches_logically(a: Attribute, b: Attribute) -> bool:
    """True if types are equal, or are arrays or structs whose constituents match (SPIR-V 2.2)."""
    if a == b:
        return True
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return a.length == b.length and _matches_logically(a.element_type, b.element_type)
    if isinstance(a, StructType) and isinstance(b, StructType):
        members = (tuple(a.member_types), tuple(b.member_types))
        return len(members[0]) == len(members[1]) and all(
            _matches_logically(x, y) for x, y in zip(*members, strict=True)
        )
    return False
