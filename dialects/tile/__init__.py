"""
Kernels as programs over whole tiles, without a distribution of the tiles over invocations.

A `tile.program` describes the work of one workgroup: it loads boxes of views (buffers with sizes
and strides), computes on tiles and stores boxes. Control flow is `scf.for` and `scf.if`. `arith`
and `math` compute on elements inside of `tile.map`, and elsewhere on numbers that are uniform over
the workgroup. The host interpreter runs a program on whole arrays; `lower-tiles` generates the
code of each invocation.
"""

from xdsl.ir import Dialect

from xdsl_spirv.dialects.tile import programs, types, values
from xdsl_spirv.dialects.tile.programs import (
    AtomicKind,
    AtomicOp,
    BarrierOp,
    GatherOp,
    LoadOp,
    PlaceOp,
    ProgramIdOp,
    ProgramOp,
    ScatterOp,
    SizeOp,
    StoreOp,
    ViewOp,
    name_argument,
)
from xdsl_spirv.dialects.tile.types import (
    TileType,
    ViewType,
    reduce_type,
    scalar_of,
    tile_of,
    tile_type,
    view_of,
    view_type,
)
from xdsl_spirv.dialects.tile.values import (
    BroadcastOp,
    FullOp,
    MapOp,
    MultiplyAddOp,
    RangeOp,
    ReduceOp,
    ReshapeOp,
    ScanOp,
    TransposeOp,
    YieldOp,
)
from xdsl_spirv.upstream.on_demand import attributes_of, operations_of

__all__ = [
    "AtomicKind", "AtomicOp", "BarrierOp", "BroadcastOp", "FullOp", "GatherOp", "LoadOp", "MapOp",
    "MultiplyAddOp", "PlaceOp", "ProgramIdOp", "ProgramOp", "RangeOp", "ReduceOp", "ReshapeOp",
    "ScanOp", "ScatterOp", "SizeOp", "StoreOp", "Tile", "TileType", "TransposeOp", "ViewOp",
    "ViewType", "YieldOp", "name_argument", "reduce_type", "scalar_of", "tile_of", "tile_type",
    "view_of", "view_type",
]  # fmt: skip

MODULES = (types, programs, values)

Tile = Dialect("tile", operations_of(MODULES), attributes_of(MODULES))
