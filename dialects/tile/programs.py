"""Programs over tiles, the position of a workgroup, and accesses to views of buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    FixedBitwidthType,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    SymbolNameConstraint,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from xdsl_spirv.dialects.tile.types import (
    TileType,
    ViewType,
    numbers_of,
    require,
    require_same_elements,
    tile_of,
    tile_type,
    view_of,
    view_type,
)


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """
    A kernel: the program that each workgroup runs. Its arguments are one view for each buffer, in
    the order of bindings, and numbers.
    """

    name = "tile.program"
    sym_name = prop_def(SymbolNameConstraint())
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())
    assembly_format = "$sym_name attr-dict-with-keyword $body"

    def verify_(self) -> None:
        for argument in self.body.block.args:
            ok = isinstance(argument.type, ViewType | IndexType | IntegerType | AnyFloat)
            require(
                ok,
                f"argument {argument.index} must be a view or a number, not {argument.type}",
            )
        places = [op for op in self.body.walk() if isinstance(op, PlaceOp)]
        if len(places) > 1:
            raise VerifyException(
                "a program must have at most one tile.place, which determines the grid"
            )


def name_argument(argument: SSAValue, parameter: str) -> None:
    """
    Sets the name hint of a program's argument: the parameter's name, with `_` added if xDSL would
    drop a number from its end.
    """
    argument.name_hint = parameter
    if argument.name_hint != parameter:
        argument.name_hint = f"{parameter}_"


@irdl_op_definition
class PlaceOp(IRDLOperation):
    """
    Returns the indices at which the workgroup's tile of a view begins. The grid covers the view.

        %i, %j = tile.place %c tile [128, 256] axes [0, 1] : !tile.view<?x?xf16>

    `axes` are the axes that the tiles divide, slowest first; the last one is the grid's X. With
    `group = 8`, workgroups process eight tiles along the first axis before the next tile along the
    last axis.
    """

    name = "tile.place"
    view = operand_def(ViewType)
    tile = prop_def(DenseArrayBase.constr(i64))
    axes = prop_def(DenseArrayBase.constr(i64))
    group = opt_prop_def(IntegerAttr.constr(i64))
    firsts = var_result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = (
        "$view `tile` $tile `axes` $axes (`group` $group^)? attr-dict `:` type($view) `->` "
        "type($firsts)"
    )

    def __init__(
        self, view: SSAValue, tile: Sequence[int], axes: Sequence[int], group: int | None = None
    ):
        properties: dict[str, Attribute | None] = {
            "tile": DenseArrayBase.from_list(i64, tile),
            "axes": DenseArrayBase.from_list(i64, axes),
            "group": None if group is None else IntegerAttr(group, i64),
        }
        results = [[IndexType()] * len(tile)]
        super().__init__(operands=[view], properties=properties, result_types=results)

    @property
    def counted(self) -> list[tuple[int, int]]:
        """Pairs of an axis of the view and the tile's size along it. The slowest axis is first."""
        return list(zip(numbers_of(self.axes), numbers_of(self.tile), strict=True))

    def verify_(self) -> None:
        tile, axes = numbers_of(self.tile), numbers_of(self.axes)
        rank = len(view_of(self.view).shape)
        fits = len(tile) == len(axes) == len(self.firsts) == len(set(axes)) and len(axes) <= 3
        require(
            fits and all(0 <= a < rank for a in axes),
            f"axes {axes} must be one to three different axes of the {rank}-D view, with a tile "
            "size for each",
        )
        require(min(tile) > 0, f"tile sizes {tile} must be above 0")
        if self.group is not None:
            group = self.group.value.data
            require(
                len(axes) == 2 and group > 0,
                f"group = {group} must be above 0, and needs two axes, not {len(axes)}",
            )


@irdl_op_definition
class ProgramIdOp(IRDLOperation):
    """The workgroup's index along an axis of the grid: `tile.program_id 0`."""

    name = "tile.program_id"
    axis = prop_def(IntegerAttr.constr(i64))
    count = opt_prop_def(UnitAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$axis (`count` $count^)? attr-dict"

    def __init__(self, axis: int, count: bool = False):
        properties = {"axis": IntegerAttr(axis, i64), "count": UnitAttr() if count else None}
        super().__init__(properties=properties, result_types=[IndexType()])


@irdl_op_definition
class SizeOp(IRDLOperation):
    """The size of a view's axis: `tile.size %a 1 : !tile.view<?x?xf16>`."""

    name = "tile.size"
    view = operand_def(ViewType)
    axis = prop_def(IntegerAttr.constr(i64))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$view $axis attr-dict `:` type($view)"

    def __init__(self, view: SSAValue, axis: int):
        properties = {"axis": IntegerAttr(axis, i64)}
        super().__init__(operands=[view], properties=properties, result_types=[IndexType()])

    def verify_(self) -> None:
        rank = len(view_of(self.view).shape)
        require(0 <= self.axis.value.data < rank, f"the view has no axis {self.axis.value.data}")


@irdl_op_definition
class ViewOp(IRDLOperation):
    """
    Returns another view of the same buffer. It starts `%at` elements after the start of the given
    view.

        %v = tile.view_of %x[%at] sizes [%m, %n] strides [%s, %one] : view<?xf16> -> view<?x?xf16>

    All elements of the new view must be inside the buffer.
    """

    name = "tile.view_of"
    source = operand_def(ViewType)
    offset = operand_def(IndexType)
    sizes = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    result = result_def(ViewType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $offset `]` `sizes` `[` $sizes `]` `strides` `[` $strides `]` attr-dict `:` "
        "type($source) `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue,
        offset: SSAValue,
        sizes: Sequence[SSAValue],
        strides: Sequence[SSAValue],
    ):
        result = view_type([DYNAMIC_INDEX] * len(sizes), view_of(source).element)
        super().__init__(
            operands=[source, offset, list(sizes), list(strides)], result_types=[result]
        )

    def verify_(self) -> None:
        rank = len(view_of(self.result).shape)
        counts = len(self.sizes), len(self.strides)
        require(
            counts == (rank, rank), f"a {rank}-D view needs {rank} sizes and strides, not {counts}"
        )
        require_same_elements(view_of(self.source).element, view_of(self.result).element)


class _Box(IRDLOperation):
    """
    An access to a box (hyperrectangle) of a view. The axes of the tile are the last axes of the
    view.
    """

    def check_box(self, view: SSAValue, indices: Sequence[SSAValue], tile: TileType) -> None:
        held = view_of(view)
        rank = len(held.shape)
        require(len(indices) == rank, f"a {rank}-D view needs {rank} indices, not {len(indices)}")
        require(len(tile.shape) <= rank, f"{held} has fewer axes than {tile}")
        require(held.element == tile.element, f"{held} and {tile} have different element types")


@irdl_op_definition
class LoadOp(_Box):
    """
    Loads the box of a view that starts at these indices: `tile.load %a[%i, %k] outside 0.0 : f16 :
    ...`.

    Elements outside of the view have the value after `outside`. With `any` they are unspecified
    (the interpreter uses a conspicuous number). Otherwise the whole box must be inside the view.
    """

    name = "tile.load"
    view = operand_def(ViewType)
    indices = var_operand_def(IndexType)
    outside = opt_prop_def(IntegerAttr | FloatAttr)
    any = opt_prop_def(UnitAttr)
    result = result_def(TileType)
    traits = traits_def()
    assembly_format = (
        "$view `[` $indices `]` (`outside` $outside^)? (`any` $any^)? attr-dict `:` type($view) "
        "`->` type($result)"
    )

    def __init__(
        self,
        view: SSAValue,
        indices: Sequence[SSAValue],
        shape: Sequence[int],
        outside: IntegerAttr | FloatAttr | None = None,
    ):
        super().__init__(
            operands=[view, list(indices)],
            properties={"outside": outside},
            result_types=[tile_type(shape, view_of(view).element)],
        )

    def verify_(self) -> None:
        self.check_box(self.view, self.indices, tile_of(self.result))
        if self.outside is not None:
            require_same_elements(self.outside.type, tile_of(self.result).element)
            require(self.any is None, "`outside` and `any` cannot be given together")


@irdl_op_definition
class StoreOp(_Box):
    """
    Stores a tile to a box of a view: `tile.store %t, %c[%i, %j] clipped : ...`.

    With `clipped`, elements outside of the view are skipped. Otherwise the whole box must be
    inside the view.
    """

    name = "tile.store"
    tile = operand_def(TileType)
    view = operand_def(ViewType)
    indices = var_operand_def(IndexType)
    clipped = opt_prop_def(UnitAttr)
    traits = traits_def()
    assembly_format = (
        "$tile `,` $view `[` $indices `]` (`clipped` $clipped^)? attr-dict `:` type($tile) `,` "
        "type($view)"
    )

    def __init__(self, tile: SSAValue, view: SSAValue, indices: Sequence[SSAValue], clipped: bool):
        super().__init__(
            operands=[tile, view, list(indices)],
            properties={"clipped": UnitAttr() if clipped else None},
        )

    def verify_(self) -> None:
        self.check_box(self.view, self.indices, tile_of(self.tile))


@irdl_op_definition
class GatherOp(IRDLOperation):
    """
    Loads elements of a one-dimensional view by a tile of indices: `tile.gather %x[%numbers] mask
    %m : ...`.

    If the mask is false, no element is read, and the result is 0.
    """

    name = "tile.gather"
    view = operand_def(ViewType)
    numbers = operand_def(TileType)
    mask = opt_operand_def(TileType)
    result = result_def(TileType)
    traits = traits_def()
    assembly_format = (
        "$view `[` $numbers `]` (`mask` $mask^ `:` type($mask))? attr-dict `:` type($view) `,` "
        "type($numbers)`->` type($result)"
    )

    def __init__(self, view: SSAValue, numbers: SSAValue, mask: SSAValue | None = None):
        result = tile_type(tile_of(numbers).shape, view_of(view).element)
        super().__init__(operands=[view, numbers, mask], result_types=[result])

    def verify_(self) -> None:
        check_numbers(self.view, self.numbers, self.mask, tile_of(self.result))


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """
    Stores the elements of a tile at indices, which a second tile gives. A mask excludes elements.
    """

    name = "tile.scatter"
    tile = operand_def(TileType)
    view = operand_def(ViewType)
    numbers = operand_def(TileType)
    mask = opt_operand_def(TileType)
    traits = traits_def()
    assembly_format = (
        "$tile `,` $view `[` $numbers `]` (`mask` $mask^ `:` type($mask))? attr-dict `:` "
        "type($tile) `,` type($view) `,` type($numbers)"
    )

    def __init__(
        self, tile: SSAValue, view: SSAValue, numbers: SSAValue, mask: SSAValue | None = None
    ):
        super().__init__(operands=[tile, view, numbers, mask])

    def verify_(self) -> None:
        check_numbers(self.view, self.numbers, self.mask, tile_of(self.tile))


class AtomicKind(StrEnum):
    """Function of a `tile.atomic` (named as in `memref.atomic_rmw`)."""

    AddF = "addf"
    AddI = "addi"
    And = "andi"
    Assign = "assign"
    MaxS = "maxs"
    MaxU = "maxu"
    MinS = "mins"
    MinU = "minu"
    Or = "ori"
    Xor = "xori"


@irdl_attr_definition
class AtomicKindAttr(EnumAttribute[AtomicKind], SpacedOpaqueSyntaxAttribute):
    """Attribute that selects the function of a `tile.atomic`."""

    name = "tile.atomic_kind"


@irdl_op_definition
class AtomicOp(IRDLOperation):
    """
    Atomically combines elements of a one-dimensional view with the elements of a tile:
    `%old = tile.atomic addi %t, %x[%numbers] mask %m : ...`. The result has the old elements.

    The tile may update an element several times, in any order. If the mask is false, no element is
    updated, and the result is 0. Elements have 32 or 64 bits.
    """

    name = "tile.atomic"
    kind = prop_def(AtomicKindAttr)
    tile = operand_def(TileType)
    view = operand_def(ViewType)
    numbers = operand_def(TileType)
    mask = opt_operand_def(TileType)
    result = result_def(TileType)
    traits = traits_def()
    assembly_format = (
        "$kind $tile `,` $view `[` $numbers `]` (`mask` $mask^ `:` type($mask))? attr-dict `:` "
        "type($tile) `,` type($view) `,` type($numbers) `->` type($result)"
    )

    def __init__(
        self,
        kind: AtomicKind,
        tile: SSAValue,
        view: SSAValue,
        numbers: SSAValue,
        mask: SSAValue | None = None,
    ):
        super().__init__(
            operands=[tile, view, numbers, mask],
            properties={"kind": AtomicKindAttr(kind)},
            result_types=[tile.type],
        )

    def verify_(self) -> None:
        held, kind = tile_of(self.tile), self.kind.data
        check_numbers(self.view, self.numbers, self.mask, held)
        require(self.result.type == held, f"the result must be {held}, not {self.result.type}")
        element = held.element
        require(
            isinstance(element, FixedBitwidthType) and element.bitwidth in (32, 64),
            f"{element} has no atomic operations",
        )
        is_float = isinstance(element, AnyFloat)
        require(
            kind == AtomicKind.Assign or is_float == (kind == AtomicKind.AddF),
            f"{kind} does not combine elements of {element}",
        )


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """
    Makes stores of the workgroup visible to its later loads: `tile.barrier`. The lowered program
    needs it before it loads elements that it stored.
    """

    name = "tile.barrier"
    traits = traits_def()
    assembly_format = "attr-dict"


def check_numbers(view: SSAValue, numbers: SSAValue, mask: SSAValue | None, tile: TileType) -> None:
    """Verifies that view, indices, mask and tile fit together."""
    require(
        len(view_of(view).shape) == 1,
        f"{view.type} has more than one dimension: flatten it by tile.view_of",
    )
    require_same_elements(view_of(view).element, tile)
    require(
        tile_of(numbers) == tile_type(tile.shape, i32),
        f"the indices for {tile} must be a tile of i32 of its shape, not {numbers.type}",
    )
    if mask is not None:
        require(
            tile_of(mask) == tile_type(tile.shape, i1),
            f"the mask for {tile} must be a tile of i1 of its shape, not {mask.type}",
        )
