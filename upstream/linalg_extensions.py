"""
Completes xDSL's `linalg` with features that xDSL 0.74 lacks or builds wrongly.

xDSL builds the hidden region of a mixed-precision matmul or convolution with wrong types. It does
not read `indexing_maps` in the custom syntax and does not print them, so that a transposed product
of square matrices silently loses its transposition. It lacks `#linalg.type_fn`, `linalg.generic`
with two results, scalar operands of elementwise operations, and most named operations. A pull
request to xDSL would add the operations below. This module completes xDSL's classes in place, so
that patterns and interpreter functions for `linalg.MatmulOp` also work with this package. It adds
classes for operations that xDSL lacks.

Each named operation is defined by one line of a table: its loops, and the loops that index the
dimensions of the two inputs and of the result. `oh+kh` is a window: `oh * stride + kh * dilation`.
A contraction multiplies its inputs, and a quantized contraction subtracts a zero point from each
input first. A pooling reads only its first input; the second input gives the window's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import auto
from functools import partial
from typing import Any, ClassVar

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseIntElementsAttr, ShapedType
from xdsl.dialects.linalg import Linalg, ops
from xdsl.dialects.linalg.abstract_ops import NamedOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import OpDef, irdl_attr_definition, irdl_op_definition, opt_prop_def
from xdsl.irdl.operations import get_accessors_from_op_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from xdsl_spirv.upstream import linalg_elementwise, linalg_packing, linalg_winograd
from xdsl_spirv.upstream.linalg_bodies import Body, multiply_add, multiply_add_quantized, pool
from xdsl_spirv.upstream.linalg_elementwise import ElementwiseKindAttr
from xdsl_spirv.upstream.linalg_loops import FillRandomOp, GenericOp, ReduceOp, body_arg_types
from xdsl_spirv.upstream.on_demand import Declaration, DialectOnDemand

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
"""Maps each name to its loops, and to the loops that index the two inputs and the result."""

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
"""Contractions in which each input has a scalar zero point."""

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
"""Sums, maxima and minima over windows."""


def index_maps(
    loops: Sequence[str],
    indices: Sequence[Sequence[str]],
    steps: Mapping[str, tuple[int, int]] | None = None,
) -> list[AffineMap]:
    """Returns the index maps over these loops. `steps` has stride and dilation of each window."""
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

    Only operations with windows have strides and dilations. Their default is 1.
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
    """
    Returns the strides or dilations of `count` windows. A single number applies to all windows.
    """
    if given is None:
        return [1] * count
    values = list(given.get_values())
    return values * count if len(values) == 1 else values


def _named_operation(name: str, line: Sequence[str], body: Body) -> type[Operation]:
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
    return _define(title, NamedReduction, members)


_XDSL_CLASSES: dict[str, type[Operation]] = {
    op.name: op for op in Linalg.operations if issubclass(op, NamedOperation)
}

_DEFINED: dict[str, type[Operation]] = {}
"""The operations of the tables that this process has defined, by name."""


def _define(title: str, base: type[NamedOperation], members: dict[str, Any]) -> type[Operation]:
    """Defines a new operation. If xDSL has a class of the same name, completes it in place."""
    cls = type(f"{title}Op", (base,), members)
    theirs = _XDSL_CLASSES.get(members["name"])
    if theirs is None:
        return irdl_op_definition(cls)
    definition = OpDef.from_pyrdl(cls)
    for name in [*vars(theirs)]:
        if callable(getattr(base, name, None)) and not name.startswith("__"):
            delattr(theirs, name)
    theirs.__bases__ = (base, *theirs.__bases__)
    accessors = get_accessors_from_op_def(definition, base.verify_)
    for name in ("LOOPS", "INDICES", "BODY", "DEFAULT"):
        if name in members:
            accessors[name] = members[name]
    for name, value in accessors.items():
        setattr(theirs, name, value)
    return theirs


def _pooling_body(name: str) -> Body:
    return partial(pool, kind=name.split("_", 2)[2])


NAMED: dict[str, Callable[[], type[Operation]]] = {
    f"linalg.{name}": partial(_named_operation, name, line, body(name))
    for lines, body in (
        (CONTRACTIONS, lambda _: multiply_add),
        (QUANTIZED, lambda _: multiply_add_quantized),
        (POOLINGS, _pooling_body),
    )
    for name, line in lines.items()
}
"""
Maps the named operations of CONTRACTIONS, QUANTIZED and POOLINGS to the functions that define them.
"""


class TypeFunction(StrEnum):
    """The two casts of `linalg`: signed and unsigned."""

    CAST_SIGNED = auto()
    CAST_UNSIGNED = auto()


@irdl_attr_definition
class TypeFunctionAttr(EnumAttribute[TypeFunction]):
    """`#linalg.type_fn<cast_signed>` or `#linalg.type_fn<cast_unsigned>`."""

    name = "linalg.type_fn"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TypeFunction:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)


class MappedContraction(NamedOperation):
    """
    `linalg.NAME indexing_maps = [...] {cast = #linalg.type_fn<...>} ins(...) outs(...) -> ...`

    As in MLIR 22, default maps are not printed, and other maps may transpose the operands. The
    body casts both inputs to the result's element type, multiplies and adds. The cast is signed by
    default.
    """

    PRINT_ATTRS_IN_FRONT: ClassVar[bool] = True
    DEFAULT: ClassVar[ArrayAttr[AffineMapAttr] | None]

    indexing_maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    cast = opt_prop_def(TypeFunctionAttr)

    @classmethod
    def get_hidden_region(cls, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Region:
        return multiply_add(cls.body_arg_types((*inputs, *outputs)))

    def get_default_indexing_maps(self) -> Sequence[AffineMap]:
        return [attr.data for attr in self.get_indexing_maps()]

    def get_indexing_maps(self) -> ArrayAttr[AffineMapAttr]:
        maps = self.indexing_maps or self.DEFAULT
        assert maps is not None, "verified"
        return maps

    def get_iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        *_, out = self.get_default_indexing_maps()
        return ArrayAttr(
            IteratorTypeAttr.parallel()
            if AffineDimExpr(loop) in out.results
            else IteratorTypeAttr.reduction()
            for loop in range(out.num_dims)
        )

    def verify_(self) -> None:
        if self.indexing_maps is None and self.DEFAULT is None:
            raise VerifyException("the operation should have indexing_maps")
        if self.indexing_maps is not None and len(self.indexing_maps) != 3:
            raise VerifyException(
                f"the operation needs three index maps, not {len(self.indexing_maps)}"
            )
        super().verify_()

    @classmethod
    def parse(cls, parser: Parser) -> MappedContraction:
        return with_maps(parser, super().parse)

    def print(self, printer: Printer) -> None:
        if self.get_indexing_maps() != self.DEFAULT:
            print_maps(self.get_indexing_maps(), printer)
        super().print(printer)


def with_maps(parser: Parser, parse: Any) -> Any:
    """Parses `indexing_maps = [...]` and `cast`. Calls `parse` for the rest of the operation."""
    maps: Attribute | None = None
    if parser.parse_optional_keyword("indexing_maps"):
        parser.parse_punctuation("=")
        start = parser.pos
        maps = parser.parse_attribute()
        if not isinstance(maps, ArrayAttr) or len(maps.data) != 3:
            parser.raise_error("a contraction should have three index maps", start, parser.pos)
    op = parse(parser)
    if maps is not None:
        op.properties["indexing_maps"] = maps
    function = op.properties.get("cast")
    if isinstance(function, TypeFunctionAttr) and function.data == TypeFunction.CAST_UNSIGNED:
        types = op.body_arg_types(op.operands)
        op.body.detach_block(op.body.block)
        unsigned = multiply_add(types, (False, False))
        unsigned.move_blocks(op.body)
    return op


def print_maps(maps: Attribute, printer: Printer) -> None:
    printer.print_string(" indexing_maps = ")
    printer.print_attribute(maps)


def _mapped_operation(name: str, line: Sequence[str] | None) -> type[Operation]:
    """Defines the operation `linalg.NAME` with the default maps of a table line."""
    default = None
    if line is not None:
        loops, *indices = (dims.split() for dims in line)
        default = ArrayAttr(AffineMapAttr(map) for map in index_maps(loops, indices))
    title = "".join(part.capitalize() for part in name.split("_"))
    members = {
        "__doc__": f"`linalg.{name}`",
        "__module__": __name__,
        "__annotations__": {"DEFAULT": ClassVar[Any]},
        "name": f"linalg.{name}",
        "DEFAULT": default,
        "indexing_maps": opt_prop_def(ArrayAttr[AffineMapAttr], default_value=default),
    }
    return _define(title, MappedContraction, members)


MAPPED: dict[str, tuple[str, str, str, str] | None] = {
    "matmul": ("m n k", "m k", "k n", "m n"),
    "batch_matmul": ("b m n k", "b m k", "b k n", "b m n"),
    "batch_reduce_matmul": ("b m n k", "b m k", "b k n", "m n"),
    "contract": None,
}
"""
Maps each operation to its loops and default index maps, as text. The text is None for an operation
without default maps.
"""


_PARSE: Any = NamedOperation.__dict__["parse"].__func__


def parse_named(cls: type[NamedOperation], parser: Parser) -> Any:
    """Parses a named operation. Attributes may also follow the operands, as MLIR prints some."""
    op = _PARSE(cls, parser)
    attributes = None if op.results else parser.parse_optional_attr_dict()
    if not attributes:
        return op
    types: Sequence[Attribute] = ()
    if parser.parse_optional_punctuation("->"):
        several = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_type
        )
        types = [parser.parse_type()] if several is None else several
    known = cls.get_irdl_definition().properties
    properties = {key: value for key, value in attributes.items() if key in known}
    others = {key: value for key, value in attributes.items() if key not in known}
    operands, region = list(op.operands), op.detach_region(0)
    op.drop_all_references()
    return cls.create(
        operands=operands,
        result_types=types,
        properties=op.properties | properties,
        attributes=op.attributes | others,
        regions=[region],
    )


def verify_fill(op: ops.FillOp) -> None:
    """Checks that the inputs are scalars. Unlike xDSL, allows any type of scalar."""
    if any(isinstance(value.type, ShapedType) for value in op.inputs):
        raise VerifyException(
            f"a tensor cannot be filled with values of type {op.inputs[0].type}: use a scalar"
        )


setattr(ops.FillOp, "verify_", verify_fill)
setattr(NamedOperation, "parse", classmethod(parse_named))
setattr(NamedOperation, "body_arg_types", staticmethod(body_arg_types))


class ExtendedLinalg(DialectOnDemand):
    """
    xDSL's `linalg` with completed and additional operations and attributes.

    An operation of a table is defined when its name is first used: a module uses few of the 50.
    """

    def __init__(self, dialect: Dialect):
        mapped = {f"linalg.{n}": partial(_mapped_operation, n, line) for n, line in MAPPED.items()}
        self.makers = {**mapped, **NAMED, **linalg_elementwise.MAKERS, **linalg_packing.MAKERS}
        self.makers |= linalg_winograd.MAKERS
        replaced = {GenericOp.name, ReduceOp.name, *self.makers}
        others = [op for op in dialect.operations if op.name not in replaced]
        attributes = [*dialect.attributes, TypeFunctionAttr, ElementwiseKindAttr]
        super().__init__(dialect.name, [*others, GenericOp, ReduceOp, FillRandomOp], attributes)

    @property
    def operations(self) -> Iterator[type[Operation]]:
        """Yields the `linalg` operations of xDSL, then those that this package adds."""
        return iter([*self._operations, *map(self._operation, self.makers)])

    def declaring(self, name: str) -> Iterable[Declaration]:
        """
        Returns the operation `name` if a table has it. Otherwise returns all declarations that are
        not in tables.
        """
        if name in self.makers:
            return [self._operation(name)]
        return [*self._operations, *self._attributes]

    def _operation(self, name: str) -> type[Operation]:
        if name not in _DEFINED:
            _DEFINED[name] = self.makers[name]()
        return _DEFINED[name]
