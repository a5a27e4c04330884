"""
`linalg`'s contractions as users write them: matmuls, matrix-vector products, convolutions.

xDSL 0.74 builds the hidden region of a mixed-precision matmul or convolution with wrong types, does
not read `indexing_maps` in the custom syntax and drops them when printing, so that a transposed
product of square matrices becomes another product without a word, and lacks most named operations.
Those here are meant to replace and to complete xDSL's own upstream; until then the universe puts
them into xDSL's `linalg` dialect.

A named contraction is one line of `CONTRACTIONS`: its loops, and what walks the dimensions of its
two inputs and its result. `oh+kh` is a window: `oh * stride + kh * dilation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseIntElementsAttr,
    FixedBitwidthType,
    IntegerType,
)
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.abstract_ops import NamedOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import irdl_op_definition, opt_prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

CONTRACTIONS: dict[str, tuple[str, str, str, str]] = {
    "batch_matmul": ("b m n k", "b m k", "b k n", "b m n"),
    "batch_reduce_matmul": ("b m n k", "b m k", "b k n", "m n"),
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

DEFAULT_MAPS = cast(
    ArrayAttr[AffineMapAttr],
    ops.MatmulOp.get_irdl_definition().properties["indexing_maps"].default_value,
)


class MatmulOp(ops.MatmulOp):
    """
    `linalg.matmul indexing_maps = [...] ins(%a, %b : ...) outs(%c : ...) -> ...`, as in MLIR 22.

    The body extends both inputs to the result's element type, signed if integer, then multiplies
    and adds; maps that are the default are not printed.
    """

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return multiply_add(cls.body_arg_types((*inputs, *outputs)))

    @classmethod
    def parse(cls, parser: Parser) -> ops.MatmulOp:
        maps: Attribute | None = None
        if parser.parse_optional_keyword("indexing_maps"):
            parser.parse_punctuation("=")
            start = parser.pos
            maps = parser.parse_attribute()
            if not isinstance(maps, ArrayAttr) or len(maps.data) != 3:
                parser.raise_error("linalg.matmul takes three index maps", start, parser.pos)
        op = cast(ops.MatmulOp, super().parse(parser))
        if maps is not None:
            op.properties["indexing_maps"] = maps
        return op

    def print(self, printer: Printer) -> None:
        if self.indexing_maps != DEFAULT_MAPS:
            printer.print_string(" indexing_maps = ")
            printer.print_attribute(self.indexing_maps)
        super().print(printer)


def multiply_add(types: Sequence[Attribute]) -> Region:
    """The body of a contraction: `c + ext(a) * ext(b)` of three arguments of these types."""
    block = Block(arg_types=types)
    result = types[-1]
    a, b = (_extended(block, arg, result) for arg in block.args[:2])
    integer = isinstance(result, IntegerType)
    product = (arith.MuliOp if integer else arith.MulfOp)(a, b)
    total = (arith.AddiOp if integer else arith.AddfOp)(block.args[2], product)
    block.add_ops([product, total, ops.YieldOp(total)])
    return Region(block)


def _extended(block: Block, value: SSAValue, type: Attribute) -> SSAValue:
    """The value in the type of the result, as MLIR's `cast_signed` has it."""
    source = value.type
    if source == type:
        return value
    wider = cast(FixedBitwidthType, type).bitwidth > cast(FixedBitwidthType, source).bitwidth
    match isinstance(source, IntegerType), isinstance(type, IntegerType):
        case True, True:
            kind = arith.ExtSIOp if wider else arith.TruncIOp
        case True, False:
            kind = arith.SIToFPOp
        case False, True:
            kind = arith.FPToSIOp
        case _:
            kind = arith.ExtFOp if wider else arith.TruncFOp
    op = kind.create(operands=[value], result_types=[type])
    block.add_op(op)
    return op.results[0]


class NamedContraction(NamedOperation):
    """
    `linalg.NAME {strides = ..., dilations = ...} ins(%a, %b : ...) outs(%c : ...) -> ...`

    Strides and dilations are there if `INDICES` has windows, 1 where they are not given.
    """

    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True
    LOOPS: ClassVar[Sequence[str]]
    INDICES: ClassVar[Sequence[Sequence[str]]]

    strides = opt_prop_def(DenseIntElementsAttr)
    dilations = opt_prop_def(DenseIntElementsAttr)

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return multiply_add(cls.body_arg_types((*inputs, *outputs)))

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        windows = [index for index in self.INDICES[0] if "+" in index]
        loops = {loop: AffineDimExpr(position) for position, loop in enumerate(self.LOOPS)}
        steps = {
            window: (stride, dilation)
            for window, stride, dilation in zip(
                windows,
                _numbers(self.strides, len(windows)),
                _numbers(self.dilations, len(windows)),
                strict=True,
            )
        }

        def expression(index: str) -> AffineExpr:
            if index not in steps:
                return loops[index]
            outer, inner = index.split("+")
            stride, dilation = steps[index]
            return loops[outer] * stride + loops[inner] * dilation

        return [AffineMap(len(loops), 0, tuple(map(expression, each))) for each in self.INDICES]

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        return ArrayAttr(
            IteratorTypeAttr.parallel() if loop in self.INDICES[2] else IteratorTypeAttr.reduction()
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


def _named(name: str, loops: str, *indices: str) -> type[Operation]:
    """The operation of a line of `CONTRACTIONS`."""
    title = "".join(part.capitalize() for part in name.split("_"))
    members = {
        "__doc__": f"`linalg.{name}`: {' '.join(indices)}",
        "__module__": __name__,
        "__annotations__": {"LOOPS": ClassVar[Any], "INDICES": ClassVar[Any]},
        "name": f"linalg.{name}",
        "LOOPS": tuple(loops.split()),
        "INDICES": tuple(tuple(each.split()) for each in indices),
    }
    return irdl_op_definition(type(f"{title}Op", (NamedContraction,), members))


NAMED: dict[str, type[Operation]] = {
    f"linalg.{name}": _named(name, *line) for name, line in CONTRACTIONS.items()
}


def extended(dialect: Dialect) -> Dialect:
    """xDSL's `linalg` with the operations of this module, some in the place of its own."""
    ours = {MatmulOp.name: MatmulOp, **NAMED}
    others = [op for op in dialect.operations if op.name not in ours]
    return Dialect(dialect.name, [*others, *ours.values()], list(dialect.attributes))
