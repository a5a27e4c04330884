"""The faster steps of xDSL's core do what xDSL's own steps do."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntAttr, ModuleOp, i32
from xdsl.dialects.test import TestOp
from xdsl.ir import Attribute, Block, Operation, Region

from xdsl_spirv.dialects import spv
from xdsl_spirv.upstream import fast_core

INSTALLED = spv
"""The dialect installs the faster steps."""


def nest(depth: int) -> list[Operation]:
    """Returns operations with regions of several blocks, some of them empty."""
    if depth == 0:
        return [TestOp(), TestOp()]
    regions = [Region([Block(nest(depth - 1)), Block()]), Region(), Region(Block(nest(depth - 1)))]
    return [TestOp(), TestOp(regions=regions), TestOp()]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("region_first", [False, True])
def test_a_walk_has_the_order_of_xdsl(reverse: bool, region_first: bool):
    module = ModuleOp(nest(3))

    def list_inside(op: Operation) -> list[Operation]:
        inside = [
            each
            for region in (op.regions[::-1] if reverse else op.regions)
            for block in (list(region.blocks)[::-1] if reverse else region.blocks)
            for child in (list(block.ops)[::-1] if reverse else block.ops)
            for each in list_inside(child)
        ]
        return [*inside, op] if region_first else [op, *inside]

    assert Operation.walk is fast_core.walk
    assert list(module.walk(reverse=reverse, region_first=region_first)) == list_inside(module)
    assert list(module.walk()) == [module, *module.body.walk()]


def test_an_operation_may_be_erased_or_extended_while_it_is_visited():
    module = ModuleOp(nest(2))
    count = len(list(module.walk()))
    for op in module.walk():
        if isinstance(op, TestOp) and not op.regions:
            op.parent_block().insert_op_before(TestOp(), op)  # pyright: ignore
            op.detach()
            op.erase()
        elif isinstance(op, TestOp):
            op.add_region(Region(Block([TestOp(attributes={"new": IntAttr(1)})])))
    after = list(module.walk())
    assert len(after) == count + sum(len(op.regions) == 4 for op in after)
    assert not any("new" in op.attributes for op in after)


def test_operands_are_distinct_keys():
    a, b = TestOp(result_types=[i32]), TestOp(result_types=[i32])
    assert {a.res[0]: 1, b.res[0]: 2} == {b.res[0]: 2, a.res[0]: 1}
    assert a.res[0] != b.res[0]
    assert a != b
    assert len({a, b, a}) == 2


def test_an_array_with_kept_values_equals_one_without():
    read, unread = (DenseArrayBase.from_list(i32, [1, 2, 3]) for _ in range(2))
    assert read.get_values() == read.get_values() == (1, 2, 3)
    assert read == unread
    assert hash(read) == hash(unread)
    assert str(read) == str(unread)


def test_a_class_that_is_no_kind_of_attribute_is_refused():
    class Other(Attribute):
        name = "other"

    for _ in range(2):
        with pytest.raises(TypeError, match="Data or ParametrizedAttribute"):
            Other()
