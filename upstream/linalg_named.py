"""
The named operations of `linalg` that are sums over loops, each one line of a table.

A line has the loops, and what walks the dimensions of the two inputs and of the result. `oh+kh` is
a window: `oh * stride + kh * dilation`. A contraction multiplies its inputs, a quantized one after
a zero point is taken from each, a pooling takes only the size of its window from the second. The
pull request: these operations and their table in `xdsl.dialects.linalg.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntElementsAttr,
    FixedBitwidthType,
    IntegerType,
)
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.abstract_ops import NamedOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import irdl_op_definition, opt_prop_def
from xdsl.utils.exceptions import VerifyException

CONTRACTIONS: dict[str, tuple[str, str, str, str]] = {
    "matvec": ("m k", "m k", "k", "m"),
    "vecmat": ("n k", "k", "k n", "n"),
    "dot": ("k", "k", "k", ""),
    "batch_matvec": ("b m k", "b m k", "b k", "b m"),
    "batch_vecmat": ("b n k", "b k", "b k n", "b n"),
    "mmt4d": ("m n k m0 n0 k0", "m k m0 k0", "n k n0 k0", "m n m0 n0"),
    "batch_mmt4d": ("b m n k m0 n0 k0", "b m k m0 k0", "b n k n0 k0", "b m n m0 n0"),
    "conv_1d": ("ow kw", "ow+kw", "kw", "ow"),
    "conv_1d_nwc_wcf": ("n ow f kw c", "n ow+kw c", "kw c f", "n ow f"),
    "conv_1d_ncw_fcw": ("n f ow c kw", "n c ow+kw", "f c kw", "n f ow"),
    "conv_2d": ("oh ow kh kw", "oh+kh ow+kw", "kh kw", "oh ow"),
    "conv_2d_nhwc_hwcf": ("n oh ow f kh kw c", "n oh+kh ow+kw c", "kh kw c f", "n oh ow f"),
    "conv_2d_nhwc_fhwc": ("n oh ow f kh kw c", "n oh+kh ow+kw c", "f kh kw c", "n oh ow f"),
    "conv_2d_nchw_fchw": ("n f oh ow c kh kw", "n c oh+kh ow+kw", "f c kh kw", "n f oh ow"),
    "conv_2d_ngchw_fgchw": (
        *("n g f oh ow c kh kw", "n g c oh+kh ow+kw", "f g c kh kw", "n g f oh ow"),
    ),
    "conv_2d_ngchw_gfchw": (
        *("n g f oh ow c kh kw", "n g c oh+kh ow+kw", "g f c kh kw", "n g f oh ow"),
    ),
    "conv_2d_nhwgc_gfhwc": (
        *("n oh ow g f kh kw c", "n oh+kh ow+kw g c", "g f kh kw c", "n oh ow g f"),
    ),
    "conv_3d": ("od oh ow kd kh kw", "od+kd oh+kh ow+kw", "kd kh kw", "od oh ow"),
    "conv_3d_ndhwc_dhwcf": (
        *("n od oh ow f kd kh kw c", "n od+kd oh+kh ow+kw c", "kd kh kw c f", "n od oh ow f"),
    ),
    "conv_3d_ncdhw_fcdhw": (
        *("n f od oh ow c kd kh kw", "n c od+kd oh+kh ow+kw", "f c kd kh kw", "n f od oh ow"),
    ),
    "depthwise_conv_1d_nwc_wc": ("n ow c kw", "n ow+kw c", "kw c", "n ow c"),
    "depthwise_conv_1d_ncw_cw": ("n ow c kw", "n c ow+kw", "c kw", "n c ow"),
    "depthwise_conv_1d_nwc_wcm": ("n ow c m kw", "n ow+kw c", "kw c m", "n ow c m"),
    "depthwise_conv_2d_nhwc_hwc": ("n oh ow c kh kw", "n oh+kh ow+kw c", "kh kw c", "n oh ow c"),
    "depthwise_conv_2d_nchw_chw": ("n oh ow c kh kw", "n c oh+kh ow+kw", "c kh kw", "n c oh ow"),
    "depthwise_conv_2d_nhwc_hwcm": (
        *("n oh ow c m kh kw", "n oh+kh ow+kw c", "kh kw c m", "n oh ow c m"),
    ),
    "depthwise_conv_3d_ndhwc_dhwc": (
        *("n od oh ow kd kh kw c", "n od+kd oh+kh ow+kw c", "kd kh kw c", "n od oh ow c"),
    ),
    "depthwise_conv_3d_ncdhw_cdhw": (
        *("n od oh ow kd kh kw c", "n c od+kd oh+kh ow+kw", "c kd kh kw", "n c od oh ow"),
    ),
    "depthwise_conv_3d_ndhwc_dhwcm": (
        *("n od oh ow m kd kh kw c", "n od+kd oh+kh ow+kw c", "kd kh kw c m", "n od oh ow c m"),
    ),
}
"""Name -> loops in their order, and the dimensions of the inputs and of the result."""

QUANTIZED: dict[str, tuple[str, str, str, str]] = {
    "quantized_matmul": ("m n k", "m k", "k n", "m n"),
    "quantized_batch_matmul": ("b m n k", "b m k", "b k n", "b m n"),
} | {
    f"{name}_q": CONTRACTIONS[name]
    for name in (
        "conv_2d_nhwc_hwcf",
        "conv_2d_nhwc_fhwc",
        "conv_2d_nchw_fchw",
        "conv_2d_ngchw_gfchw",
        "conv_2d_nhwgc_gfhwc",
        "conv_3d_ndhwc_dhwcf",
        "depthwise_conv_2d_nhwc_hwc",
        "depthwise_conv_2d_nhwc_hwcm",
    )
}
"""Those whose inputs have a zero point each, a scalar."""

_WINDOWS: dict[str, tuple[tuple[str, str, str, str], str]] = {
    "nhwc": (
        ("n oh ow c kh kw", "n oh+kh ow+kw c", "kh kw", "n oh ow c"),
        "sum max max_unsigned min min_unsigned",
    ),
    "nchw": (("n c oh ow kh kw", "n c oh+kh ow+kw", "kh kw", "n c oh ow"), "sum max"),
    "nwc": (
        ("n ow c kw", "n ow+kw c", "kw", "n ow c"),
        "sum max max_unsigned min min_unsigned",
    ),
    "ncw": (("n c ow kw", "n c ow+kw", "kw", "n c ow"), "sum max"),
    "ndhwc": (
        ("n od oh ow c kd kh kw", "n od+kd oh+kh ow+kw c", "kd kh kw", "n od oh ow c"),
        "sum max min",
    ),
}

POOLINGS: dict[str, tuple[str, str, str, str]] = {
    f"pooling_{layout}_{kind}": line
    for layout, (line, kinds) in _WINDOWS.items()
    for kind in kinds.split()
}
"""Sums, maxima and minima of windows."""


Body: TypeAlias = Callable[[Sequence[Attribute]], Region]
"""From the element types of the operands to the body."""


def multiply_add(types: Sequence[Attribute], signed: bool = True) -> Region:
    """`c + cast(a) * cast(b)` of three arguments of these types."""
    block = Block(arg_types=types)
    a, b = (cast_to(block, arg, types[-1], signed) for arg in block.args[:2])
    integer = isinstance(types[-1], IntegerType)
    product = (arith.MuliOp if integer else arith.MulfOp)(a, b)
    total = (arith.AddiOp if integer else arith.AddfOp)(block.args[2], product)
    block.add_ops([product, total, ops.YieldOp(total)])
    return Region(block)


def multiply_add_quantized(types: Sequence[Attribute]) -> Region:
    """`c + (cast(a) - cast(za)) * (cast(b) - cast(zb))` of a, b, za, zb and c."""
    block = Block(arg_types=types)
    result = types[-1]
    integer = isinstance(result, IntegerType)
    subtract = arith.SubiOp if integer else arith.SubfOp
    a, b, za, zb, c = block.args

    def without(value: SSAValue, zero: SSAValue) -> Operation:
        minuend = cast_to(block, value, result)
        op = subtract(minuend, cast_to(block, zero, result))
        block.add_op(op)
        return op

    factors = without(a, za), without(b, zb)
    product = (arith.MuliOp if integer else arith.MulfOp).create(
        operands=[factor.results[0] for factor in factors], result_types=[result]
    )
    total = (arith.AddiOp if integer else arith.AddfOp)(c, product)
    block.add_ops([product, total, ops.YieldOp(total)])
    return Region(block)


_POOLED: dict[str, tuple[type[Operation], type[Operation]]] = {
    "sum": (arith.AddiOp, arith.AddfOp),
    "max": (arith.MaxSIOp, arith.MaximumfOp),
    "max_unsigned": (arith.MaxUIOp, arith.MaximumfOp),
    "min": (arith.MinSIOp, arith.MinimumfOp),
    "min_unsigned": (arith.MinUIOp, arith.MinimumfOp),
}
"""What a pooling does with integers and with floats."""


def pooled(types: Sequence[Attribute], kind: str) -> Region:
    """`kind(c, cast(a))`; the window, the second argument, has a size only."""
    block = Block(arg_types=types)
    value = cast_to(block, block.args[0], types[-1], not kind.endswith("unsigned"))
    if kind.endswith("unsigned") and not isinstance(types[-1], IntegerType):
        raise VerifyException(f"an unsigned maximum or minimum of {types[-1]}: floats are signed")
    operation = _POOLED[kind][0 if isinstance(types[-1], IntegerType) else 1]
    combined = operation.create(operands=[block.args[2], value], result_types=[types[-1]])
    block.add_ops([combined, ops.YieldOp(combined)])
    return Region(block)


def cast_to(block: Block, value: SSAValue, type: Attribute, signed: bool = True) -> SSAValue:
    """The value in another type, as MLIR's `cast_signed` or `cast_unsigned` has it."""
    source = value.type
    if source == type:
        return value
    wider = cast(FixedBitwidthType, type).bitwidth > cast(FixedBitwidthType, source).bitwidth
    extension = arith.ExtSIOp if signed else arith.ExtUIOp
    match isinstance(source, IntegerType), isinstance(type, IntegerType):
        case True, True:
            kind = extension if wider else arith.TruncIOp
        case True, False:
            kind = arith.SIToFPOp if signed else arith.UIToFPOp
        case False, True:
            kind = arith.FPToSIOp if signed else arith.FPToUIOp
        case _:
            kind = arith.ExtFOp if wider else arith.TruncFOp
    op = kind.create(operands=[value], result_types=[type])
    block.add_op(op)
    return op.results[0]


def index_maps(
    loops: Sequence[str],
    indices: Sequence[Sequence[str]],
    steps: Mapping[str, tuple[int, int]] | None = None,
) -> list[AffineMap]:
    """The maps over these loops; `steps` are stride and dilation of each window."""
    numbered = {loop: AffineDimExpr(position) for position, loop in enumerate(loops)}

    def expression(index: str) -> AffineExpr:
        if "+" not in index:
            return numbered[index]
        outer, inner = index.split("+")
        stride, dilation = (steps or {}).get(index, (1, 1))
        return numbered[outer] * stride + numbered[inner] * dilation

    return [
        AffineMap(len(loops), 0, tuple(map(expression, operand_indices)))
        for operand_indices in indices
    ]


class NamedReduction(NamedOperation):
    """
    `linalg.NAME {strides = ..., dilations = ...} ins(%a, %b : ...) outs(%c : ...) -> ...`

    Strides and dilations are there if `INDICES` has windows, 1 where they are not given.
    """

    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True
    LOOPS: ClassVar[Sequence[str]]
    INDICES: ClassVar[Sequence[Sequence[str]]]
    BODY: ClassVar[Body]

    strides = opt_prop_def(DenseIntElementsAttr)
    dilations = opt_prop_def(DenseIntElementsAttr)

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return cls.BODY(cls.body_arg_types((*inputs, *outputs)))

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        windows = [index for index in self.INDICES[0] if "+" in index]
        steps = {
            window: (stride, dilation)
            for window, stride, dilation in zip(
                windows,
                _numbers(self.strides, len(windows)),
                _numbers(self.dilations, len(windows)),
                strict=True,
            )
        }
        return index_maps(self.LOOPS, self.INDICES, steps)

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return ArrayAttr(
            IteratorTypeAttr.parallel()
            if loop in self.INDICES[-1]
            else IteratorTypeAttr.reduction()
            for loop in self.LOOPS
        )

    def verify_(self) -> None:
        windows = sum("+" in index for index in self.INDICES[0])
        for name, given in (("strides", self.strides), ("dilations", self.dilations)):
            if given is None:
                continue
            values = given.get_values()
            if given.get_shape() not in ((windows,), ()) or min(values, default=1) < 1:
                raise VerifyException(f"{name} should be {windows} positive numbers, not {given}")
        super().verify_()


def _numbers(given: DenseIntElementsAttr | None, count: int) -> Sequence[int]:
    """Strides or dilations of so many windows."""
    if given is None:
        return [1] * count
    values = list(given.get_values())
    return values * count if len(values) == 1 else values


def _named(name: str, line: Sequence[str], body: Body) -> type[Operation]:
    """The operation of a line of a table."""
    title = "".join(part.capitalize() for part in name.split("_"))
    loops, *indices = (tuple(dims.split()) for dims in line)
    if name in QUANTIZED:
        indices = [*indices[:2], (), (), *indices[2:]]
    members = {
        "__doc__": f"`linalg.{name}`: {' , '.join(' '.join(dims) for dims in indices)}",
        "__module__": __name__,
        "__annotations__": {key: ClassVar[Any] for key in ("LOOPS", "INDICES", "BODY")},
        "name": f"linalg.{name}",
        "LOOPS": loops,
        "INDICES": tuple(indices),
        "BODY": staticmethod(body),
    }
    return irdl_op_definition(type(f"{title}Op", (NamedReduction,), members))


def _pooling_body(name: str) -> Body:
    return partial(pooled, kind=name.split("_", 2)[2])


NAMED: dict[str, Callable[[], type[Operation]]] = {
    f"linalg.{name}": partial(_named, name, line, body(name))
    for lines, body in (
        (CONTRACTIONS, lambda _: multiply_add),
        (QUANTIZED, lambda _: multiply_add_quantized),
        (POOLINGS, _pooling_body),
    )
    for name, line in lines.items()
}
"""Makes the operations of the three tables."""
