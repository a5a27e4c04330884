"""
Rewrites sums of products of quantized numbers as integer contractions with corrections.

    sum of (a - za) * (b - zb)
        ->  sum of a * b  -  zb * (sum of a)  -  za * (sum of b)  +  K * za * zb

Both sides are equal modulo 2^N for any zero points, scalar or per channel. The first sum is a
contraction for matrix instructions. The sums of one operand are reductions, evaluated at compile
time if the operand is constant. The correction is elementwise. A zero point of 0 costs nothing. A
padding with the zero point counts as part of its operand.

Contractions of dequantized numbers, s * (q - z) in floats, become the same sums times both scales,
if the sums fit in 32 bits (`dequantized`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, i8
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, static
from xdsl_spirv.passes.analysis.factors import own_map
from xdsl_spirv.passes.analysis.linalg_code import BodyCode, Code, make_generic, maps_of
from xdsl_spirv.passes.analysis.pointwise import NotAContraction, clone_into, factors_of
from xdsl_spirv.passes.analysis.ranges import element
from xdsl_spirv.passes.analysis.sizes import extents, loop_extents
from xdsl_spirv.passes.analysis.target import load_target
from xdsl_spirv.passes.analysis.values import erase_dead, is_weight
from xdsl_spirv.passes.graph.dequantized import with_integers
from xdsl_spirv.passes.graph.known_tensors import constant_of, known_tensor
from xdsl_spirv.passes.graph.signs import OtherSigns
from xdsl_spirv.passes.graph.zero_points import Shifted, match_shifted
from xdsl_spirv.targets import Target
from xdsl_spirv.upstream.linalg_bodies import multiply_add


@dataclass(frozen=True)
class QuantizedContractionsPass(ModulePass):
    """Rewrites contractions of quantized numbers as contractions of the stored integers."""

    name = "linalg-quantized-to-contraction"

    dequantized: bool = True
    """Also rewrites float contractions of dequantized operands; only the result is then rounded."""

    same_signs: bool = False
    """If the operands are bytes of different signedness, makes both signed or both unsigned."""

    target: str = ""
    """
    A device name or a target file. For a device that multiplies only bytes of equal signedness,
    the pass makes the signedness equal, if that needs no additional sum of an operand.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = load_target(self.target, op, self.name) if self.target else None
        values = (value for inner in op.walk() for value in inner.operands)
        if not any(isinstance(element(value.type), IntegerType) for value in values):
            return
        signs = same_sign(target, self.same_signs)
        for candidate in [o for o in op.walk() if isinstance(o, LinalgStructuredOperation)]:
            rewrite(candidate, self.dequantized, signs)


def same_sign(target: Target | None, always: bool) -> OtherSigns | None:
    """Returns a converter to equal signedness if `always` or if the target needs it, else None."""
    if always or (target is not None and _multiplies_one_sign(target)):
        return OtherSigns(always, target)
    return None


def _multiplies_one_sign(target: Target) -> bool:
    pairs = {(properties.a, properties.b) for properties in target.cooperative_matrix}
    return ("s8", "s8") in pairs and not {("s8", "u8"), ("u8", "s8")} & pairs


def rewrite(
    candidate: LinalgStructuredOperation, dequantized: bool, signs: OtherSigns | None
) -> None:
    """
    Rewrites a contraction of quantized numbers; with `dequantized`, also of dequantized floats.
    """
    integers = with_integers(candidate) if dequantized else None
    contraction = candidate if integers is None else integers
    quantized = _as_quantized(contraction, signs)
    if quantized is None:
        return
    operands = list(contraction.operands)
    Rewriter.replace_op(contraction, [], [quantized.rewritten()])
    for operand in operands:
        erase_dead(operand)


def _as_quantized(op: LinalgStructuredOperation, signs: OtherSigns | None) -> _Quantized | None:
    """Matches a sum of products of quantized numbers; `signs` makes their signedness equal."""
    if len(op.outputs) != 1 or len(op.results) != 1 or isinstance(op, FillOp):
        return None
    block = op.body.block
    if not isinstance(block.args[-1].type, IntegerType):
        return None
    try:
        factors = factors_of(block)
    except NotAContraction:
        return None
    shifted_factors = [match_shifted(factor.value, block, op) for factor in factors]
    a, b = shifted_factors
    if a is None or b is None or a.input == b.input:
        return None
    quantized = _Quantized(op, a, b)
    if not quantized.is_possible():
        return None
    if signs is not None and a.signed != b.signed and _are_bytes(op, a, b):
        quantized.unify(signs)
    as_it_is = all(factor.is_pure for factor in factors) and len(op.inputs) == 2
    return None if as_it_is and quantized.is_plain and not quantized.is_changed else quantized


def _are_bytes(op: LinalgStructuredOperation, a: Shifted, b: Shifted) -> bool:
    return all(op.body.block.args[operand.input].type == i8 for operand in (a, b))


class _Quantized:
    """A sum of (a - za) * (b - zb) over loops."""

    def __init__(self, op: LinalgStructuredOperation, a: Shifted, b: Shifted):
        self.op = op
        self.a, self.b = sorted((a, b), key=lambda operand: operand.input)
        self.block = op.body.block
        type = self.block.args[-1].type
        assert isinstance(type, IntegerType)
        self.type = type
        self.maps, self.code = maps_of(op), Code(op)
        self.out = self.maps[-1]
        self.values = {operand.input: op.inputs[operand.input] for operand in (a, b)}

    @property
    def is_plain(self) -> bool:
        return self.a.is_plain and self.b.is_plain

    @property
    def is_changed(self) -> bool:
        return any(value is not self.op.inputs[n] for n, value in self.values.items())

    def unify(self, signs: OtherSigns) -> None:
        """
        Converts one operand to the other operand's signedness, the unsigned operand if possible.

        The conversion adds a term with the sums of the other operand. These sums cost nothing if
        they are constant or needed anyway; otherwise `OtherSigns.pay` decides.
        """
        pairs = sorted(((self.a, self.b), (self.b, self.a)), key=lambda pair: pair[0].signed)
        free = [pair for pair in pairs if not pair[0].is_plain or self._is_known(pair[1])]
        changed, other = (free or pairs)[0]
        sizes, *values = (
            self._sizes(),
            *(self.values[operand.input] for operand in (changed, other)),
        )
        if not (free or signs.always or (sizes is not None and signs.pay(sizes, *values))):
            return
        self.values[changed.input] = signs.of(self.values[changed.input], self.op)
        if changed is self.a:
            self.a = changed.with_other_sign()
        else:
            self.b = changed.with_other_sign()

    def _is_known(self, operand: Shifted) -> bool:
        value = self.values[operand.input]
        return is_weight(value) or known_tensor(value) is not None

    def is_possible(self) -> bool:
        """True if all terms of a sum share their zero points, and the number of terms is static."""
        if any(not isinstance(self.op.inputs[x.input].type, TensorType) for x in (self.a, self.b)):
            return False
        if any(not isinstance(result, AffineDimExpr) for result in self.out.results):
            return False
        sizes = self._sizes()
        if sizes is None or any(is_dynamic(sizes[loop]) for loop in self._reduced(sizes)):
            return False
        try:
            for operand in (self.a, self.b):
                for number in operand.zero_inputs:
                    own_map(self.maps[number], self.out)
        except NotAContraction:
            return False
        return True

    def _sizes(self) -> list[Size] | None:
        sizes = loop_extents(self.op)
        known = [size for size in sizes if size is not None]
        return known if len(known) == len(sizes) else None

    def rewritten(self) -> SSAValue:
        product = self.code.insert(self._product())
        if self.is_plain:
            return product
        correction = _Correction(self, product)
        for own, other in ((self.a, self.b), (self.b, self.a)):
            if not own.is_plain:
                correction.subtract(own, other)
        if not self.a.is_plain and not self.b.is_plain:
            correction.add_both()
        return correction.finish()

    def _product(self) -> linalg.ops.GenericOp:
        values = [self.values[operand.input] for operand in (self.a, self.b)]
        types = [self.block.args[operand.input].type for operand in (self.a, self.b)]
        body = multiply_add([*types, self.type], (self.a.signed, self.b.signed))
        maps = [self.maps[self.a.input], self.maps[self.b.input], self.out]
        return make_generic(
            values, self.op.outputs, maps, body, self.op.get_iterator_types(), self.op
        )

    @property
    def k(self) -> int:
        """Number of terms of a sum."""
        sizes = self._sizes()
        assert sizes is not None
        return prod(static(sizes[loop] for loop in self._reduced(sizes)))

    def _reduced(self, sizes: Sequence[Size]) -> list[int]:
        return [loop for loop in range(len(sizes)) if loop not in self._parallel()]

    def _parallel(self) -> list[int]:
        return [x.position for x in self.out.results if isinstance(x, AffineDimExpr)]

    def sums(self, operand: Shifted) -> tuple[Code, SSAValue, AffineMap]:
        """
        Writes the sums of an operand over K. Returns the inserted operations, the tensor of the
        sums, and the map from the result's dimensions to the tensor's.

        If the operand does not depend on a loop of K, the sums are multiplied by that loop's size.
        """
        sizes = self._sizes()
        assert sizes is not None
        own = self.maps[operand.input]
        used = sorted({d for x in own.results for d in x.used_dims()})
        kept = [d for d in self._parallel() if d in used]
        reduced = [d for d in used if d not in kept]
        order = [*kept, *reduced]
        count = len(order)
        new = {d: AffineDimExpr(order.index(d)) for d in order}
        renamed = own.replace_dims_and_symbols(
            [new.get(d, AffineDimExpr(0)) for d in range(own.num_dims)], [], count, 0
        )
        code = Code(self.op)
        fill = code.fill([sizes[d] for d in kept], self.type, 0)
        # An empty tensor gives a window's sizes, because no index of the operand does.
        named = {x.position for x in renamed.results if isinstance(x, AffineDimExpr)}
        windows = [at for at in range(len(kept), count) if at not in named]
        body = BodyCode()
        value = body.read(self.values[operand.input], renamed)
        if windows:
            window = code.empty([sizes[order[at]] for at in windows], self.type)
            body.read(window, AffineMap(count, 0, tuple(AffineDimExpr(at) for at in windows)))
        repeated = prod(static(sizes[d] for d in self._reduced(sizes) if d not in used))
        value = body.extend(value, self.type, operand.signed)
        if repeated != 1:
            value = body.add(arith.MuliOp(value, body.constant(repeated, self.type)))
        write = AffineMap(count, 0, tuple(AffineDimExpr(at) for at in range(len(kept))))
        sums = body.write(code, fill, write, lambda total: body.add(arith.AddiOp(total, value)))
        positions = {d: at for at, d in enumerate(self._parallel())}
        rank = len(self.out.results)
        place = AffineMap(rank, 0, tuple(AffineDimExpr(positions[d]) for d in kept))
        return code, sums.results[0], place


class _Correction(BodyCode):
    """Writes the elementwise operation that subtracts the zero points' terms from the product."""

    def __init__(self, quantized: _Quantized, product: SSAValue):
        super().__init__()
        self.quantized, self.code = quantized, quantized.code
        self.value = self.read(product, AffineMap.identity(len(quantized.out.results)))
        self.zeros: dict[int, SSAValue] = {}
        self.arguments: dict[SSAValue, SSAValue] = {}

    def _constant(self, number: int) -> SSAValue:
        type = self.quantized.type
        return self.constant(_wrap_number(number, type.width.data), type)

    def zero(self, operand: Shifted) -> SSAValue:
        if operand.input not in self.zeros:
            self.zeros[operand.input] = self._zero(operand)
        return self.zeros[operand.input]

    def _zero(self, operand: Shifted) -> SSAValue:
        if operand.number is not None:
            return self._constant(operand.number)
        assert operand.zero is not None
        q = self.quantized
        old = q.block.args
        known = dict(self.arguments)
        for number in operand.zero_inputs:
            if old[number] not in known:
                map = own_map(q.maps[number], q.out)
                known[old[number]] = self.read(q.op.inputs[number], map)
        self.arguments.update(known)
        known.setdefault(old[operand.input], old[operand.input])
        value = clone_into(self.block, operand.zero, known)
        value = self.extend(value, q.type, True)
        if operand.negated:
            value = self.add(arith.SubiOp(self._constant(0), value))
        if operand.offset:
            value = self.add(arith.AddiOp(value, self._constant(operand.offset)))
        return value

    def subtract(self, own: Shifted, other: Shifted) -> None:
        """Writes the subtraction of the zero point of `own` times the sums of `other`."""
        code, total, place = self.quantized.sums(other)
        known, type = known_tensor(total), self.quantized.type
        if known is not None:
            code.erase()
        if known is not None and own.number is not None:
            # The subtracted term is constant; so is K * za * zb if both zero points are.
            numbers = -own.number * known.astype("int64")
            if other.number is not None and not self._has_both:
                numbers = numbers + self.quantized.k * own.number * other.number
                self._has_both = True
            width = type.width.data
            constant = self.code.insert(constant_of(numbers & ((1 << width) - 1), type))
            term = self.read(constant, place)
            self.value = self.add(arith.AddiOp(self.value, term))
            return
        if known is not None:
            total = self.code.insert(constant_of(known, type))
        term = self.read(total, place)
        product = self.add(arith.MuliOp(self.zero(own), term))
        self.value = self.add(arith.SubiOp(self.value, product))

    _has_both = False

    def add_both(self) -> None:
        """Adds K * za * zb, which the subtractions of the two zero points subtracted twice."""
        if self._has_both:
            return
        q = self.quantized
        if q.a.number is not None and q.b.number is not None:
            term = self._constant(q.k * q.a.number * q.b.number)
        else:
            both = self.add(arith.MuliOp(self.zero(q.a), self.zero(q.b)))
            term = self.add(arith.MuliOp(both, self._constant(q.k)))
        self.value = self.add(arith.AddiOp(self.value, term))

    def finish(self) -> SSAValue:
        empty = self.code.empty(extents(self.quantized.op.outputs[0]), self.quantized.type)
        return self.write(self.code, empty, self.maps[0], lambda _: self.value).results[0]


def _wrap_number(number: int, width: int) -> int:
    sign_bit = 1 << width - 1
    return (number + sign_bit) % (1 << width) - sign_bit
