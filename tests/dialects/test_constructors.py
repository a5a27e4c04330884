"""The constructor of an operation follows from the declarations of its class."""

from __future__ import annotations

from inspect import signature

import pytest
from xdsl.dialects.builtin import IntegerAttr, VectorType, f32, i1, i32
from xdsl.dialects.test import TestOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.dialects.spirv.base import SPIRVOp, constructor_of


def value(type: Attribute) -> SSAValue:
    return TestOp(result_types=[type]).results[0]


X, N, YES = value(f32), value(i32), value(i1)
POINTER = value(spv.PointerType(i32, spv.StorageClass.StorageBuffer))
DEVICE, NONE = spv.Scope.Device, spv.MemorySemantics.None_


@pytest.mark.parametrize(
    ("op", "type"),
    [
        (spv.FNegateOp(X), f32),
        (spv.SelectOp(YES, N, N), i32),
        (spv.GroupNonUniformElectOp(spv.Scope.Subgroup), i1),
        (spv.GroupNonUniformBallotOp(spv.Scope.Subgroup, YES), VectorType(i32, [4])),
        (spv.DotOp(value(VectorType(f32, [2])), value(VectorType(f32, [2]))), f32),
        (spv.AtomicLoadOp(POINTER, DEVICE, NONE), i32),
        (spv.AtomicIAddOp(POINTER, DEVICE, NONE, N), i32),
        (spv.SLessThanOp(N, N), i1),
        (spv.BitcastOp(X, i32), i32),
    ],
)
def test_the_result_type_follows_from_the_operands_or_is_given(op: Operation, type: Attribute):
    op.verify()
    assert [result.type for result in op.results] == [type]


def test_arguments_come_in_the_order_of_the_declarations_or_by_name():
    by_order = spv.AtomicIAddOp(POINTER, DEVICE, NONE, N)
    by_name = spv.AtomicIAddOp(value=N, semantics=NONE, memory_scope=DEVICE, pointer=POINTER)
    assert by_order.is_structurally_equivalent(by_name)
    assert list(by_order.operands) == [POINTER, N]


def test_signatures_show_the_parameters():
    shown = {
        spv.AtomicIAddOp: "(pointer, memory_scope, semantics, value, result_type=None)",
        spv.BitcastOp: "(operand, result_type)",
    }
    assert {op: str(signature(op)) for op in shown} == shown
    own = str(signature(spv.AccessChainOp))
    assert own.startswith("(base: ")


def test_optional_fields_follow_and_may_be_absent():
    block = Block(arg_types=[i32])
    assert list(spv.BranchOp(block, [N]).operands) == [N]
    assert not spv.BranchOp(Block()).operands
    rotated = spv.GroupNonUniformRotateKHROp(spv.Scope.Subgroup, X, N)
    assert rotated.cluster_size is None
    assert rotated.result.type == f32


def test_numbers_enumerants_and_sequences_become_attributes():
    struct = spv.StructType([i32, i32])
    insert = spv.CompositeInsertOp(N, value(struct), [1])
    assert insert.indices.data == (IntegerAttr(1, i32),)
    composite = spv.SpecConstantCompositeOp("c", ["x", "y"], VectorType(i32, [2]))
    assert [symbol.string_value() for symbol in composite.constituents] == ["x", "y"]
    assert composite.sym_name.data == "c"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((X,), {}), ((X, X, f32, X), {}), ((X,), {"other": X}), ((X, X), {"vector": X})],
)
def test_wrong_arguments_are_refused_with_the_names_of_the_fields(
    arguments: tuple[SSAValue, ...], named: dict[str, SSAValue]
):
    names = r"spirv.VectorTimesScalar takes the arguments \(vector, scalar, \[result_type\]\)"
    with pytest.raises(TypeError, match=names):
        spv.VectorTimesScalarOp(*arguments, **named)


@pytest.mark.parametrize("cls", list(SPIRV.operations), ids=lambda cls: cls.name)
def test_operands_have_the_same_order_in_the_constructor_and_in_the_operation(
    cls: type[Operation],
):
    """Optional operands come last."""
    if not issubclass(cls, SPIRVOp) or cls.__init__ is not SPIRVOp.__init__:
        return
    form = constructor_of(cls)
    order = [name for name, _ in form.definition.operands]
    required = [name for name in order if name in form.required]
    assert [name for name in form.names if name in required] == required
