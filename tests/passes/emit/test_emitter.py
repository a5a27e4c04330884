"""Constant indices emit no code, and a dominating value is reused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, TensorType, VectorType, i1, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, UnknownSizeError, symbol
from xdsl_spirv.passes.emit.emitter import Emitter
from xdsl_spirv.passes.emit.kernel import KernelEmitter

if TYPE_CHECKING:
    from tests.passes.conftest import WriteCode

INDEX = IndexType()


def test_known_indices_are_computed_by_the_compiler(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        assert (b.plus(3, 4), b.times(3, 4), b.divided(9, 4), b.remainder(9, 4)) == (7, 12, 2, 1)
        assert b.plus(x, 0) is b.plus(0, x) is b.times(x, 1) is b.divided(x, 1) is x
        assert b.times(x, 0) == b.remainder(x, 1) == 0
        assert b.below(3, 4) is True
        assert b.below(4, 4) is False
        assert b.both(False, b.below(x, 0)) is False
        assert (b.index_inside(True, 5), b.index_inside(False, 5)) == (5, 0)
        return [x]

    assert write_code([INDEX], write).count(arith.ConstantOp, arith.CmpiOp) == 2


def test_arithmetic_on_values_is_unsigned_and_written_once(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        results = [b.plus(x, y), b.times(x, 6), b.divided(x, 6), b.remainder(x, 6)]
        assert results == [b.plus(x, y), b.times(6, x), b.divided(x, 6), b.remainder(x, 6)]
        inside = b.both(b.below(x, y), b.below(y, 100))
        return [*map(b.index, results), b.index(b.index_inside(inside, x))]

    code = write_code([INDEX, INDEX], write)
    assert code.run(20, 30) == [50, 120, 3, 2, 20]
    assert code.run(20, 130) == [150, 120, 3, 2, 0]
    assert code.count(arith.AddiOp, arith.MuliOp, arith.DivUIOp, arith.RemUIOp) == 4


def test_a_value_is_forgotten_where_its_block_ends(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        inner = Block()
        with b.inside(inner):
            square = b.times(x, x)
            assert b.times(x, x) is square
            b.insert(scf.YieldOp())
        b.insert(scf.IfOp(b.number(1, i1), [], Region(inner)))
        after = b.times(x, x)
        assert after is not square
        return [b.index(after)]

    code = write_code([INDEX], write)
    assert code.run(7) == [49]
    assert code.count(arith.MuliOp) == 2


def test_constants_are_written_once_at_the_start_and_wrap(write_code: WriteCode):
    def write(b: KernelEmitter) -> list[SSAValue]:
        assert b.number(5, i32) is b.number(5, i32)
        assert b.number(5, i32) is not b.number(5, INDEX)
        return [b.number(0xFFFFFFFF, i32), b.number(2, VectorType(i32, [3]))]

    code = write_code([], write)
    wrapped, repeated = code.run()
    assert wrapped == -1
    assert repeated.tolist() == [2, 2, 2]
    assert code.count(arith.ConstantOp) == code.count() == 4


class WithoutSizes(Emitter):
    instructions = KernelEmitter.instructions


def test_a_size_of_the_launch_is_refused_where_none_is_given():
    block = Block(arg_types=[TensorType(i32, [DYNAMIC_INDEX])])
    b = WithoutSizes(InsertPoint.at_end(block))
    with pytest.raises(UnknownSizeError, match="WithoutSizes does not support dynamic sizes"):
        b.plus(b.number(1), symbol(Extent(block.args[0], 0)))
