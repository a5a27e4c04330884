"""The verifier checks operations of equal signature once, and still refuses wrong operations."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, IntegerType, UnitAttr, f32, i32
from xdsl.dialects.test import TestOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import OPERATIONS
from xdsl_spirv.dialects.spirv.arithmetic import IAddOp
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.control_flow import ReturnOp
from xdsl_spirv.dialects.spirv.enums import MemoryAccess, StorageClass
from xdsl_spirv.dialects.spirv.function import FuncOp
from xdsl_spirv.dialects.spirv.memory import LoadOp
from xdsl_spirv.dialects.spirv.pointers import MemoryOperand
from xdsl_spirv.dialects.spirv.types import PointerType
from xdsl_spirv.upstream.signatures import MOST, Signatures

BEYOND = {"owner", "parent", "parent_op", "parent_block", "uses", "attributes", "next_op", "walk"}
"""Names of attributes by which a check could read more than an operation's signature."""


def value(type: Any = i32) -> SSAValue:
    return TestOp(result_types=[type]).results[0]


def code_of(function: Callable[..., Any]) -> Iterator[types.CodeType]:
    """Yields the code of a function and of all our functions that it calls by name."""
    waiting: list[Any] = [function]
    seen: set[object] = set()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, types.FunctionType) or one in seen:
            continue
        seen.add(one)
        if not one.__module__.startswith("xdsl_spirv"):
            continue
        yield one.__code__
        for name in one.__code__.co_names:
            found = one.__globals__.get(name)
            waiting.append(found)
            if isinstance(found, types.ModuleType):
                waiting += [vars(found).get(n) for n in one.__code__.co_names]


def own_rules(cls: type[SPIRVOp]) -> list[Callable[..., Any]]:
    """Returns the original `verify_` methods of a class, which xDSL and xdsl-spirv wrap."""
    remembered = cls.verify_.__defaults__
    assert remembered is not None
    generated = remembered[0].__self__.check
    cells = [cell.cell_contents for cell in generated.__closure__]
    return [c for c in cells if isinstance(c, types.FunctionType)]


@pytest.mark.parametrize(
    "cls",
    [c for c in OPERATIONS if issubclass(c, SPIRVOp) and c.BY_SIGNATURE],
    ids=lambda c: c.name,
)
def test_rules_by_signature_read_only_the_signature(cls: type[SPIRVOp]):
    for rules in own_rules(cls):
        for code in code_of(rules):
            assert not BEYOND & set(code.co_names), f"{cls.name} reads {code.co_names} in {code}"


def test_some_classes_by_signature_have_rules():
    assert all(own_rules(cls) for cls in (IAddOp, LoadOp))


def test_each_signature_is_checked():
    IAddOp(value(), value()).verify()
    for wrong in ((value(), value(f32)), (value(f32), value(f32))):
        with pytest.raises(VerifyException):
            IAddOp(*wrong).verify()
    IAddOp(value(), value()).verify()


def test_a_property_that_changes_is_checked_again():
    pointer = value(PointerType(i32, StorageClass.StorageBuffer))
    op = LoadOp(pointer, memory=MemoryOperand.of(MemoryAccess.Aligned, 4))
    op.verify()
    op.properties["alignment"] = IntegerAttr(3, i32)
    with pytest.raises(VerifyException, match="power of two"):
        op.verify()
    op.properties["alignment"] = IntegerAttr(8, i32)
    op.verify()
    op.properties["unheard_of"] = UnitAttr()
    with pytest.raises(VerifyException, match="unheard_of"):
        op.verify()


def test_the_number_of_cached_signatures_is_bounded():
    definition = IAddOp.get_irdl_definition()
    signatures = Signatures(definition, lambda op: None)
    for width in range(1, 2 * MOST):
        t = IntegerType(width)
        signatures.verify(IAddOp(value(t), value(t)))
        assert len(signatures.passed) <= MOST


def test_values_from_outside_of_a_function_are_refused():
    outside = value()
    block = Block([IAddOp(outside, outside), ReturnOp()])
    function = FuncOp("f", ([], []), Region(block))
    with pytest.raises(VerifyException, match="IsolatedFromAbove"):
        function.verify()
