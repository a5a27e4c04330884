"""
What the parts of an attention make together, as one operation.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseArrayBase,
    IndexType,
    MemRefType,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.schedule.attention import DYNAMIC, Shaped
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size


@irdl_op_definition
class AttentionMergeOp(IRDLOperation):
    """
    out[b, m, e] = sum over s of f[s] * parts[s, b, m, e] / sum over s of f[s] * sums[s, b, m]

    where f[s] = exp(top[s, b, m] - greatest of them), and `parts` is the result of a
    `schedule.attention` with parts, whose last two columns are sums and top. `loops` are the sizes
    of the batch's loops, of m and e, DYNAMIC where `numbers` say them; `map` leads from them to the
    dimensions of the result. With `nan_to_zero` what is divided by 0 is 0.
    """

    name = "schedule.attention_merge"
    parts = operand_def(Shaped)
    out = operand_def(Shaped)
    numbers = var_operand_def(IndexType)
    loops = prop_def(DenseArrayBase.constr(i64))
    map = prop_def(AffineMapAttr)
    nan_to_zero = opt_prop_def(UnitAttr)
    result = opt_result_def(TensorType)

    assembly_format = (
        "$parts `into` $out (`numbers` $numbers^)? `loops` `=` $loops `map` `=` $map "
        "(`nan_to_zero` $nan_to_zero^)? attr-dict `:` type($parts) `into` type($out) "
        "(`->` type($result)^)?"
    )

    def __init__(
        self,
        parts: SSAValue,
        out: SSAValue,
        loops: Sequence[int],
        map: AffineMap,
        nan_to_zero: bool = False,
        numbers: Sequence[SSAValue] = (),
    ):
        tensor = isinstance(out.type, TensorType)
        super().__init__(
            operands=[parts, out, list(numbers)],
            properties={
                "loops": DenseArrayBase.from_list(i64, list(loops)),
                "map": AffineMapAttr(map),
                "nan_to_zero": UnitAttr() if nan_to_zero else None,
            },
            result_types=[[out.type] if tensor else []],
        )

    def sized(self, numbers: Sequence[Size]) -> tuple[Size, ...]:
        """The sizes of its loops, where its numbers are these."""
        left = iter(numbers)
        return tuple(next(left) if n == DYNAMIC else n for n in self.loops.get_values())

    def verify_(self) -> None:
        loops = self.loops.get_values()
        if loops.count(DYNAMIC) != len(self.numbers):
            raise VerifyException(f"{len(self.numbers)} numbers for {loops.count(DYNAMIC)} loops")
        assert isinstance(self.parts.type, TensorType | MemRefType)
        shape = self.parts.type.get_shape()
        if len(loops) < 2 or len(shape) != len(loops) + 1 or shape[-1] != loops[-1] + 2:
            raise VerifyException(f"parts of {tuple(loops)} are no {self.parts.type}")
        if self.map.data.num_dims != len(loops):
            raise VerifyException(f"{self.map.data} does not lead from {len(loops)} loops")
        if (self.result is not None) != isinstance(self.out.type, TensorType):
            raise VerifyException("it has a result if it writes a tensor, and only then")
