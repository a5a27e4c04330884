"""
Rewrites Winograd's transforms as contractions with small matrices: first rows, then columns.

linalg.winograd_filter_transform    t[a, w, c, f] = sum h: G[a, h] x[f, h, w, c]
                                    r[a, b, c, f] = sum w: G[b, w] t[a, w, c, f]
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.analysis.contraction import element_type
from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    expand_dimensions,
    make_generic,
    merge_dimensions,
    product_body,
)
from xdsl_spirv.passes.analysis.sizes import extents
from xdsl_spirv.passes.graph.widen_integers import refuse
from xdsl_spirv.upstream.linalg_packing import shape_of
from xdsl_spirv.upstream.linalg_winograd import Winograd, WinogradOutputOp

CONTRACTIONS = {
    "linalg.winograd_filter_transform": ("ah,fhwc->awcf", "bw,awcf->abcf"),
    "linalg.winograd_input_transform": ("ai,n(t+i)wc->atwnc", "bj,at(w+j)nc->abtwnc"),
    "linalg.winograd_output_transform": ("ya,abtwnf->ybtwnf", "zb,ybtwnf->ntywzf"),
}
"""
Maps a transform to its two contractions, in the notation of einsum. `(t+i)` is element i of tile t,
which begins at t * step.
"""


class WinogradTransform(RewritePattern):
    """winograd_*(x) -> columns(rows(x)), two contractions with a matrix"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: Winograd, rewriter: PatternRewriter) -> None:
        code, element = Code(op), element_type(op.input)
        if not isinstance(element, AnyFloat) or any(
            is_dynamic(size) for value in op.operands for size in extents(value)
        ):
            refuse(op, "Winograd transforms need float tensors of static sizes")
        out: SSAValue | None = None
        shape = list(op.result.type.get_shape())
        if isinstance(op, WinogradOutputOp):
            apart = _tiles(op)
            out = code.insert(expand_dimensions(op.output, GROUPS, apart))
            shape = apart
        rows, columns = CONTRACTIONS[op.name]
        (left, right), (down, across) = op.matrices(), op.steps()
        x = _contract(code, rows, op.input, left, down, _rows_shape(op, rows), None)
        x = _contract(code, columns, x, right, across, shape, out)
        if isinstance(op, WinogradOutputOp):
            x = code.insert(merge_dimensions(x, GROUPS, op.result.type.get_shape()))
        rewriter.replace(op, [], [x])


GROUPS = ((0,), (1, 2), (3, 4), (5,))
"""The dimensions of a tiled result that merge into each dimension of the result."""


def _tiles(op: WinogradOutputOp) -> list[int]:
    """Returns the shape of a result whose rows and columns are split into tiles."""
    tiles, image = op.windows()
    down, across = op.steps()
    return [image[0], tiles[2], down, tiles[3], across, image[3]]


def _rows_shape(op: Winograd, contraction: str) -> list[int]:
    source, result = contraction.partition(",")[2].split("->")
    sizes = dict(zip(_names(source), shape_of(op.input), strict=True))
    tiles, _ = op.windows()
    sizes |= {"a": tiles[0], "t": tiles[2], "y": op.steps()[0]}
    return [sizes[name] for name in result]


def _names(operand: str) -> list[str]:
    """Returns the names of an operand's dimensions; `(t+i)` has the name `t`."""
    parts = operand.replace("(", " ").replace(")", " ").split()
    return [name for part in parts for name in (part[0] if "+" in part else part)]


def _contract(
    code: Code,
    contraction: str,
    x: SSAValue,
    matrix: tuple[tuple[float, ...], ...],
    step: int,
    shape: list[int],
    out: SSAValue | None,
) -> SSAValue:
    element = element_type(x)
    assert isinstance(element, AnyFloat)
    first, second, result = contraction.replace("->", ",").split(",")
    loops = [*result, first[1]]
    number = {name: AffineDimExpr(position) for position, name in enumerate(loops)}
    # In a window `t+i`, t is the tile's index: each tile advances by `step` elements.
    places: list[AffineExpr] = []
    for part in second.replace("(", " ").replace(")", " ").split():
        if "+" in part:
            places.append(number[part[0]] * step + number[part[2]])
        else:
            places += [number[name] for name in part]
    maps = [
        AffineMap(len(loops), 0, tuple(number[name] for name in first)),
        AffineMap(len(loops), 0, tuple(places)),
        AffineMap(len(loops), 0, tuple(number[name] for name in result)),
    ]
    init = code.fill(shape, element, 0.0) if out is None else out
    inputs, body = [code.matrix(matrix, element), x], product_body([element] * 3)
    return code.insert(make_generic(inputs, init, maps, body))
