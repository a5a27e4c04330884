"""
Recognizes contractions: multiply-adds whose loops are batch, M, N or K according to the index
maps.

An operation is recognized by its computation, not by its name. `linalg.matmul`, its transposed,
batched and mixed-precision forms, convolutions, and every equal `linalg.generic` are contractions:
result[batch, M, N] += A[batch, M, K] * B[batch, K, N]. Batch, M, N and K are groups of any number
of loops. A loop that indexes the result belongs to M or N if one input uses the loop, and to batch
if both inputs do. All other loops belong to K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    i1,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.schedule import (
    PackedViewOp,
    PackingAttr,
    PaddedViewOp,
    bit_width,
    consecutive,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    is_dynamic,
    named_sizes,
    static,
    typical,
)
from xdsl_spirv.passes.analysis.epilogue import (
    Epilogue,
    definition,
    epilogue_of,
    is_fused,
    prologue_of,
)
from xdsl_spirv.passes.analysis.layout import Layout, NotLinear, layout_of, linear
from xdsl_spirv.passes.analysis.linalg_code import (
    make_generic,
    maps_of,
    product_body,
    take_over,
    yields_of,
)
from xdsl_spirv.passes.analysis.pointwise import NotAContraction, factors_of
from xdsl_spirv.passes.analysis.sizes import extents, loop_extents
from xdsl_spirv.passes.analysis.values import is_zero

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.unpacking import Unpacking

Prologue: TypeAlias = tuple[linalg.ops.GenericOp, ...]
FLOAT_NAMES: dict[type[Attribute], str] = {
    Float16Type: "f16",
    Float32Type: "f32",
    BFloat16Type: "bf16",
}


def type_name(element_type: Attribute, signed: bool) -> str:
    """Returns an element type's name in the target's property list, such as `s8`."""
    if isinstance(element_type, IntegerType):
        return f"{'s' if signed else 'u'}{element_type.width.data}"
    return FLOAT_NAMES.get(type(element_type), str(element_type))


FEW = 8
"""With at most this many rows or columns in a batch, tiles would be mostly empty."""


@dataclass(frozen=True)
class Contraction:
    """
    result[batch, M, N] = a[batch, M, K] * b[batch, K, N] + init.

    `sizes` are the loops' sizes in the order batch, M, N, K (dynamic sizes are symbolic); `counts`
    is the number of loops of each group. `maps` are the index maps of A, B and the result. `types`
    are the names of their element types in the target's property list.
    """

    op: LinalgStructuredOperation
    a: SSAValue
    b: SSAValue
    init: SSAValue
    sizes: tuple[Size, ...]
    counts: tuple[int, int, int, int]
    maps: tuple[AffineMap, AffineMap, AffineMap]
    types: tuple[str, str, str]

    @property
    def kernel_name(self) -> str:
        """
        Name of the kernel: `matmul_MxNxK`, `batch_matmul_BxMxNxK` or `convolution_MxNxK`.

        A dynamic size is written as D.
        """
        kind = "convolution" if self.is_convolution else "matmul"
        if self.batch == 1:
            return f"{kind}_{named_sizes((self.m, self.n, self.k))}"
        return f"batch_{kind}_{named_sizes((self.batch, self.m, self.n, self.k))}"

    @cached_property
    def epilogue(self) -> Epilogue:
        """
        Operations that the kernel applies to the result. Raises `NotFused` for an operation that it
        cannot apply.
        """
        return epilogue_of(self.op, self.maps[2])

    @cached_property
    def prologues(self) -> tuple[Prologue, Prologue]:
        """The kernel's elementwise operations on A and on B, the last operation first."""
        return tuple(prologue_of(self.a)), tuple(prologue_of(self.b))

    @cached_property
    def unpackings(self) -> tuple[Unpacking | None, Unpacking | None]:
        """Dequantizations of A and of B from packed weights in the kernel, each None if absent."""
        a, b = (
            self.unpacking(operand) if isinstance(op, Operation) and is_fused(op) else None
            for operand, op in enumerate(map(definition, (self.a, self.b)))
        )
        return a, b

    def unpacking(self, operand: int) -> Unpacking | None:
        """Returns the dequantization of A (0) or B (1) from packed weights, else None."""
        op = definition((self.a, self.b)[operand])
        if not isinstance(op, linalg.ops.GenericOp):
            return None
        from xdsl_spirv.passes.analysis.unpacking import unpacking_of

        batch, *free, k = self.groups
        return unpacking_of(op, self.maps[operand], self.sizes, (batch, free[operand], k))

    @cached_property
    def groups(self) -> tuple[range, range, range, range]:
        """Loops of batch, M, N and K."""
        batch, m, n, k = consecutive(self.counts)
        return batch, m, n, k

    def _size(self, group: int) -> Size:
        return prod(self.sizes[loop] for loop in self.groups[group])

    @cached_property
    def batch(self) -> Size:
        return self._size(0)

    @cached_property
    def m(self) -> Size:
        return self._size(1)

    @cached_property
    def n(self) -> Size:
        return self._size(2)

    @cached_property
    def k(self) -> Size:
        return self._size(3)

    @cached_property
    def element_types(self) -> tuple[Attribute, Attribute, Attribute]:
        a, b, init = (element_type(value) for value in (self.a, self.b, self.init))
        return a, b, init

    @cached_property
    def layouts(self) -> tuple[Layout, Layout, Layout]:
        """
        Memory layouts of A (by batch, M, K), of B (batch, N, K) and of the result (batch, M, N).

        The layout of a padded operand is that of the tensor without padding (see `storage`).
        """
        batch, m, n, k = self.groups
        return (
            self._layout(self.a, self.maps[0], (batch, m, k)),
            self._layout(self.b, self.maps[1], (batch, n, k)),
            self.layout_of_result(self.maps[2], shape_of(self.init)),
        )

    def layout_of_result(self, map: AffineMap, shape: Sequence[Size]) -> Layout:
        """Returns an array's layout by batch, M and N. `map` maps the loops to its indices."""
        batch, m, n, _ = self.groups
        return layout_of(map, self._shape_by_loops(map, shape), None, self.sizes, (batch, m, n))

    def _shape_by_loops(self, map: AffineMap, shape: Sequence[Size]) -> tuple[Size, ...]:
        """Returns the shape with dynamic dimensions replaced by the sizes of their loops."""
        return tuple(
            self.sizes[e.position] if is_dynamic(size) and isinstance(e, AffineDimExpr) else size
            for e, size in zip(map.results, shape, strict=True)
        )

    @cached_property
    def is_dynamic(self) -> bool:
        """True if the size of a loop is dynamic."""
        return any(map(is_dynamic, self.sizes))

    def has_dynamic_size(self, operand: int) -> bool:
        """True if A (0) or B (1) has a dynamic dimension."""
        return any(map(is_dynamic, extents((self.a, self.b)[operand])))

    def packing(
        self,
        operand: int,
        fragment: tuple[int, int],
        tile: tuple[int, int],
        words: Sequence[int] = (),
    ) -> PackingAttr:
        """
        Returns the packing of A (0) or B (1) in fragments.

        `fragment` and `tile` are sizes along M or N, and along K. `words` is the order of words in
        a packed fragment.
        """
        batch, *free, k = self.groups
        groups = (batch, free[operand], k)
        loops = [loop for group in groups for loop in group]
        if self.has_dynamic_size(operand) or any(is_dynamic(self.sizes[loop]) for loop in loops):
            raise NotAContraction(
                f"{'ab'[operand]} = direct needs static sizes, but {'AB'[operand]} has dynamic "
                "sizes: use staged"
            )
        others = [loop for loop in range(len(self.sizes)) if loop not in loops]
        map = _reorder_loops(self.maps[operand], [*loops, *others])
        return PackingAttr(
            "AB"[operand],
            fragment,
            tile,
            AffineMapAttr(AffineMap(len(loops), 0, map.results)),
            static(self.sizes[loop] for loop in loops),
            [len(group) for group in groups],
            words,
        )

    def _layout(self, value: SSAValue, map: AffineMap, groups: Sequence[range]) -> Layout:
        stored, low = (value, None) if packing_of(value) else storage(value)
        around = [all - own for all, own in zip(shape_of(value), shape_of(stored), strict=True)]
        walked = self._shape_by_loops(map, shape_of(value))
        shape = [size - beyond for size, beyond in zip(walked, around, strict=True)]
        return layout_of(map, shape, low, self.sizes, groups)

    @property
    def channels_lie_side_by_side(self) -> bool:
        """
        True if neighbours in the result belong to different batches, and M or N is tiny.

        Depthwise convolutions in NHWC have this form. Tiles would read single elements of every
        row; loops along the channels read vectors.
        """
        *_, last = (None, *self.maps[2].results)
        own = isinstance(last, AffineDimExpr) and last.position in self.groups[0]
        return own and min(typical(self.m), typical(self.n)) <= FEW

    @cached_property
    def is_convolution(self) -> bool:
        """True if an operand is read through sliding windows."""
        *_, k = self.groups
        return any(
            isinstance(part, AffineDimExpr) and part.position not in k
            for map in self.maps
            for e in map.results
            if not isinstance(e, AffineDimExpr)
            for part in e.dfs()
        )

    def __str__(self) -> str:
        a, b, result = self.types
        batch = f"{self.batch} x " if self.batch != 1 else ""
        return f"{batch}{self.m}x{self.n}x{self.k} {a} x {b} -> {result}"


def element_type(value: SSAValue) -> Attribute:
    """Returns the element type of an operand, which must be a tensor or memref."""
    shaped = value.type
    if not isinstance(shaped, TensorType | MemRefType):
        raise NotAContraction(f"an operand must be a tensor or memref, not {shaped}")
    return shaped.element_type


def shape_of(value: SSAValue) -> tuple[Size, ...]:
    """Returns the sizes of a tensor's or memref's dimensions."""
    element_type(value)
    shape = extents(value)
    if 0 in shape:
        raise NotAContraction(f"an operand has the empty shape {value.type}")
    return shape


def bytes_of(value: SSAValue) -> int:
    """Returns the bytes of a tensor or memref, with typical numbers for dynamic sizes."""
    return prod(map(typical, shape_of(value))) * bit_width(element_type(value)) // 8


def storage(value: SSAValue) -> tuple[SSAValue, tuple[int, ...]]:
    """
    Returns an operand's tensor in memory, and the padding before it in each dimension.

    A padded tensor is not stored: its readers read the inner tensor, and use `fill_of` outside of
    it. A tensor that an elementwise operation of the same dispatch computes is not stored either.
    """
    owner = value.owner
    match owner:
        case PackedViewOp():
            return owner.source, (0,) * len(shape_of(owner.source))
        case PaddedViewOp():
            value, low = owner.memref, owner.low.get_values()
        case tensor.PadOp() if padding_of(owner) is not None:
            value, low = owner.source, owner.static_low.get_values()
        case _:
            low = (0,) * len(shape_of(value))
    computed = prologue_of(value)
    return (computed[-1].inputs[0] if computed else value), low


def packing_of(value: SSAValue) -> PackingAttr | None:
    """Returns the packing (in fragments or panels) of an operand; None if it is not packed."""
    return value.owner.packing if isinstance(value.owner, PackedViewOp) else None


def fill_of(value: SSAValue) -> int:
    """Returns the padding value outside of an operand's tensor in memory."""
    match value.owner:
        case PaddedViewOp(fill=IntegerAttr(value=number)):
            return number.data
        case tensor.PadOp() as op:
            return padding_of(op) or 0
        case _:
            return 0


def pads_with_zeros(op: tensor.PadOp) -> bool:
    """True if a padding is of zeros and does not crop."""
    return padding_of(op) == 0


def padding_of(op: tensor.PadOp) -> int | None:
    """
    Returns the padding value: 0 for zeros of any type, or a constant integer.

    Returns None if the value is not constant, or if the operation crops.
    """
    amounts = (*op.static_low.get_values(), *op.static_high.get_values())
    if DYNAMIC_INDEX in amounts or min(amounts, default=0) < 0:
        return None
    (number,) = yields_of(op.region.block)
    if is_zero(number):
        return 0
    if not isinstance(number.owner, arith.ConstantOp) or not isinstance(number.type, IntegerType):
        return None
    constant = number.owner.value
    return constant.value.data if isinstance(constant, IntegerAttr) else None


def _loops(map: AffineMap) -> list[int]:
    """Lists the loops that an index map uses, in the order of the indexed dimensions."""
    loops: dict[int, None] = {}
    for expression in map.results:
        try:
            factors = linear(expression, map.num_dims).factors
        except NotLinear as error:
            raise NotAContraction(f"index map {map}: {error}") from error
        loops |= dict.fromkeys(loop for loop, factor in enumerate(factors) if factor)
    return list(loops)


def _signs(block: Block) -> tuple[bool, bool]:
    """Returns, for each input, True if the body extends the input as a signed integer."""
    factors = factors_of(block)
    if not all(factor.is_pure for factor in factors) or {0, 1} != set[int]().union(
        *(factor.inputs for factor in factors)
    ):
        raise NotAContraction("a factor must be an input, or an input that the body extends")
    signs = {min(factor.inputs): factor.signed for factor in factors}
    return signs[0], signs[1]


def as_contraction(op: object) -> Contraction | None:
    """Returns the contraction that an operation computes, else None."""
    if not isinstance(op, LinalgStructuredOperation):
        return None
    try:
        return contraction_of(op)
    except NotAContraction:
        return None


def contraction_of(op: LinalgStructuredOperation, transposed: bool = False) -> Contraction:
    """
    Returns the contraction that an operation computes; raises `NotAContraction`.

    With `transposed`, A and B, and so M and N, are exchanged.
    """
    for kind, count, wanted in (("input", len(op.inputs), 2), ("output", len(op.outputs), 1)):
        if count != wanted:
            ending = "" if count == 1 else "s"
            raise NotAContraction(
                f"the operation has {count} {kind}{ending}, but a contraction needs {wanted}"
            )
    for value in (*op.inputs, *op.outputs):
        if element_type(value) == i1:
            raise NotAContraction("the operation multiplies Booleans (i1)")
    signed = _signs(op.body.block)
    x, y, out = maps_of(op)
    ranges = _sizes(op)
    in_x, in_y, in_out = _loops(x), _loops(y), _loops(out)
    if len(in_out) != len(out.results) or any(
        not isinstance(e, AffineDimExpr) for e in out.results
    ):
        raise NotAContraction(f"the result's index map {out} is not a permutation of loops")
    batch = [d for d in in_out if d in in_x and d in in_y]
    free = [d for d in in_out if d not in batch]
    # B owns the result's last dimension, so that rows of the result are contiguous. A loop that no
    # input uses repeats the result; it belongs to N if it is the last one, else to M.
    swapped = (bool(free) and free[-1] in in_x) != transposed
    values = (op.inputs[1], op.inputs[0]) if swapped else (op.inputs[0], op.inputs[1])
    maps = (y, x) if swapped else (x, y)
    of_a, of_b = (in_y, in_x) if swapped else (in_x, in_y)
    signed = signed[::-1] if swapped else signed
    n = [d for d in free if d in of_b or (d not in of_a and d == free[-1])]
    m = [d for d in free if d not in n]
    first, second = (of_b, of_a) if _b_is_first(of_b, maps, in_out) else (of_a, of_b)
    walked = dict.fromkeys((*first, *second, *range(len(ranges))))
    order = [*batch, *m, *n, *(d for d in walked if d not in in_out)]
    counts = (len(batch), len(m), len(n), len(order) - len(in_out))
    a_map, b_map, out_map = (_reorder_loops(map, order) for map in (*maps, out))
    return Contraction(
        op,
        *values,
        op.outputs[0],
        tuple(ranges[d] for d in order),
        counts,
        (a_map, b_map, out_map),
        (
            type_name(element_type(values[0]), signed[0]),
            type_name(element_type(values[1]), signed[1]),
            type_name(element_type(op.outputs[0]), any(signed)),
        ),
    )


def _b_is_first(of_b: list[int], maps: Sequence[AffineMap], in_out: list[int]) -> bool:
    """
    True if the loops of K are ordered as B lies in memory, False if they are ordered as A lies in
    memory. `of_b` are the loops that index B, and `in_out` the loops of the result.
    """
    in_windows = [any(not isinstance(e, AffineDimExpr) for e in map.results) for map in maps]
    if in_windows[0] != in_windows[1]:
        return in_windows[1]
    return bool(of_b) and of_b[-1] not in in_out


def _sizes(op: LinalgStructuredOperation) -> list[Size]:
    """Returns the size of each loop."""
    for value in (*op.inputs, *op.outputs):
        shape_of(value)
    sizes = loop_extents(op)
    if None in sizes:
        raise NotAContraction(
            f"no operand dimension determines the size of loop d{sizes.index(None)}"
        )
    return [size for size in sizes if size is not None]


def _reorder_loops(map: AffineMap, order: Sequence[int]) -> AffineMap:
    new = [AffineDimExpr(order.index(d)) for d in range(len(order))]
    return map.replace_dims_and_symbols(new, [], len(order), 0)


def canonical_form(
    contraction: Contraction, a: SSAValue, b: SSAValue, init: SSAValue
) -> linalg.ops.GenericOp:
    """
    Builds the canonical form of a contraction on the given tensors or memrefs.

    The loops have the order batch, M, N, K. A precedes B. The body is `init + ext(a) * ext(b)`.
    """
    a_sign, b_sign = (name.startswith("s") for name in contraction.types[:2])
    body = product_body(contraction.element_types, (a_sign, b_sign))
    return make_generic([a, b], init, contraction.maps, body)


def rewrite_canonically(contraction: Contraction) -> linalg.ops.GenericOp:
    """Replaces the operation of a contraction by the canonical form, with its attributes."""
    form = canonical_form(contraction, contraction.a, contraction.b, contraction.init)
    take_over(form, contraction.op)
    Rewriter.replace_op(contraction.op, form)
    return form
