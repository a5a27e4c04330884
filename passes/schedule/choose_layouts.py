"""
Chooses the storage order of the dimensions of each tensor between dispatches, by cost.

    contraction of N x C x H x W  ->  contraction of N x H x W x C, weights transposed once

Convolutions propose orders in which the dimensions that they share with their weights come last
(channels last), so that tiles are loaded as vectors. An order spreads over operations that
preserve it (padding, elementwise operations, pools, reshapes). Tensors that must share an order
form a class. A class gets the proposed order if its contractions are estimated to gain more time
than the reordering copies at the borders of the class cost. Arguments and results of the function
keep the model's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import cast

from xdsl.context import Context
from xdsl.dialects import linalg, tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.utils.disjoint_set import DisjointSet

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic, typical
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    as_contraction,
    contraction_of,
    padding_of,
    shape_of,
)
from xdsl_spirv.passes.analysis.linalg_code import (
    Code,
    make_generic,
    maps_of,
    take_over,
    tensor_type,
    yields_of,
)
from xdsl_spirv.passes.analysis.pointwise import generalize
from xdsl_spirv.passes.analysis.sizes import extents
from xdsl_spirv.passes.analysis.values import is_weight, is_zero
from xdsl_spirv.passes.graph.fuse_dispatches import copy_to_dispatch
from xdsl_spirv.passes.graph.layouts import (
    Order,
    Rearrangement,
    erase_replaced,
    is_identity,
    is_remade,
    main_loops,
    permute,
    permuted_lists,
    spread_order,
    weight_of,
    with_type,
)
from xdsl_spirv.passes.schedule.assign_schedule import try_plan
from xdsl_spirv.passes.schedule.paths import LAYOUT, LimitedPass, Limits, note_before_schedules
from xdsl_spirv.targets import Target

ROUNDS = 4
"""Largest number of passes over all classes in the search."""


@dataclass(frozen=True)
class ChooseLayoutsPass(LimitedPass):
    """Chooses the storage order of tensors between dispatches, and rewrites the operations."""

    name = "choose-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.find_target(op)
        if target is None or target.processor:
            return
        for function in functions_of(op):
            block = function.body.block
            if any(_windows(inner) for inner in block.ops):
                _generalize(block)
                estimates = Estimates(target, self.limits)
                _widen(block, estimates)
                choose(block, estimates)


def _windows(op: Operation) -> Contraction | None:
    contraction = _product(op)
    return contraction if contraction is not None and contraction.is_convolution else None


def _product(op: Operation) -> Contraction | None:
    if not isinstance(op, linalg.ops.GenericOp) or SCHEDULE in op.attributes or not op.results:
        return None
    return as_contraction(op)


def _generalize(block: Block) -> None:
    """Converts the operations between convolutions and other products to `linalg.generic`."""
    waiting = [op for op in block.ops if _windows(op) is not None]
    seen = set(waiting)
    while waiting:
        op = waiting.pop()
        owners = [value.owner for value in op.operands]
        users = [use.operation for result in op.results for use in result.uses]
        for other in (*owners, *users):
            if not isinstance(other, Operation) or other.parent_block() is not block:
                continue
            if other in seen or _product(other) is not None or not other.results:
                continue
            form = None if SCHEDULE in other.attributes else generalize(other)
            if (form or other).parent_block() is block:
                seen.add(form or other)
                waiting.append(form or other)


def _widen(block: Block, estimates: Estimates) -> None:
    for op in list(block.ops):
        if _windows(op) is None:
            continue
        from xdsl_spirv.passes.schedule.widen_channels import widen_contraction

        assert isinstance(op, linalg.ops.GenericOp)
        code = Code(op)
        new = widen_contraction(op, code, estimates.target.model.contraction.full_channels)
        if new is None:
            code.erase()
            continue
        copied = [o.results[0] for o in code.written if isinstance(o, tensor.InsertSliceOp)]
        seconds = sum(
            estimates.estimate_reordering(value) for value in copied if not is_weight(value)
        )
        first = _propose_order(new, False)
        lasts = None, _propose_order(new, True)
        seconds += min(estimates.contraction(new, first, last).seconds for last in lasts)
        given = product(*((None, _propose_order(op, of_result)) for of_result in (False, True)))
        if seconds < min(estimates.contraction(op, *orders).seconds for orders in given):
            result = code.written[-1].results[0]
            op.results[0].replace_all_uses_with(result)
            take_over(new, op)
            block.erase_op(op)
        else:
            code.erase()


def choose(block: Block, estimates: Estimates) -> None:
    """Changes the storage order of a block's tensors where that is estimated to be faster."""
    graph = Graph(block)
    chosen = graph.cheapest(estimates)
    if not chosen:
        return
    orders = {value: order for value, order in graph.orders.items() if graph.root(value) in chosen}
    weights: dict[Operation, Order] = {}
    for op in graph.contractions:
        image, result = orders.get(_image_of(op)), orders.get(op.results[0])
        if not image and not result:
            continue
        reads = f"reads dimensions {_format_order(image)}" if image else "reads the model's order"
        writes = f"writes {_format_order(result)}" if result else "writes the model's order"
        reason = f"by estimate, the operation is faster if it {reads} and {writes}"
        note_before_schedules(op, LAYOUT, reason, taken=True)
        if not estimates.contraction(op, image, result).packs:
            weights[op] = _weight_order(op, image, result)
    Rearrangement(block, orders, weights).apply()
    erase_replaced(block)


def _format_order(order: Order) -> str:
    return " ".join(map(str, order))


def _image_of(op: linalg.ops.GenericOp) -> SSAValue:
    first, second = op.inputs
    return second if weight_of(op) is first else first


def _propose_order(op: linalg.ops.GenericOp, of_result: bool) -> Order | None:
    """
    Returns the order of the image or the result in which dimensions shared with the weights come
    last.

    Returns None if the order does not change.
    """
    walked = main_loops(op)
    weights = list(op.inputs).index(weight_of(op))
    by_weights = {e.position for e in maps_of(op)[weights].results if isinstance(e, AffineDimExpr)}
    at = 2 if of_result else 1 - weights
    plain = [isinstance(e, AffineDimExpr) for e in maps_of(op)[at].results]
    moved: list[int] = []
    for dimension, loop in enumerate(walked[at]):
        if plain[dimension] and loop in by_weights:
            moved.append(dimension)
        elif moved:
            break
    rest = [dimension for dimension in range(len(plain)) if dimension not in moved]
    order = (*rest, *moved)
    return None if not moved or is_identity(order) else order


def _weight_order(op: linalg.ops.GenericOp, image: Order | None, result: Order | None) -> Order:
    """
    Returns the order of the weights that follows the image's and the result's order.

    Depthwise weights are stored along the channels.
    """
    walked = main_loops(op)
    at = list(op.inputs).index(weight_of(op))
    by_image = _in_order(maps_of(op)[1 - at].results, image)
    by_result = _in_order(maps_of(op)[2].results, result)
    own = [e.position for e in maps_of(op)[at].results if isinstance(e, AffineDimExpr)]
    if len(own) != len(walked[at]):
        return tuple(range(len(walked[at])))
    reduced = [loop for loop in by_image if loop in own and loop not in by_result]
    shared = [loop for loop in by_result if loop in own and loop in by_image]
    free = [loop for loop in by_result if loop in own and loop not in by_image]
    if not free:
        loops = [*reduced, *shared]
    elif by_result and by_result[-1] in free:
        loops = [*shared, *reduced, *free]
    else:
        loops = [*shared, *free, *reduced]
    loops += [loop for loop in own if loop not in loops]
    return tuple(own.index(loop) for loop in loops)


def _in_order(expressions: Sequence[object], order: Order | None) -> list[int]:
    loops: dict[int, None] = {}
    for expression in permute(expressions, order) if order else expressions:
        inner = expression.dfs()  # pyright: ignore
        loops |= dict.fromkeys(e.position for e in inner if isinstance(e, AffineDimExpr))
    return list(loops)


class Graph:
    """
    The tensors of a block, with proposed dimension orders.

    Tensors that must have equal orders form a class.
    """

    def __init__(self, block: Block):
        self.block = block
        self.contractions: list[linalg.ops.GenericOp] = []
        self.orders: dict[SSAValue, Order] = {}
        self._classes = DisjointSet[SSAValue]()
        products = [op for op in block.ops if _product(op) is not None]
        for op in products:
            if _windows(op) is not None:
                self._propose(cast(linalg.ops.GenericOp, op))
        # Contractions that are connected with these tensors may propose orders, too.
        for op in products:
            assert isinstance(op, linalg.ops.GenericOp)
            if op in self.contractions or not any(map(is_weight, op.inputs)):
                continue
            if _image_of(op) in self.orders or op.results[0] in self.orders:
                self._propose(op)

    def _propose(self, op: linalg.ops.GenericOp) -> None:
        self.contractions.append(op)
        for value, of_result in ((_image_of(op), False), (op.results[0], True)):
            order = _propose_order(op, of_result)
            if order is not None and value not in self.orders and self._may_move(value):
                self._spread(value, order)

    def _may_move(self, value: SSAValue) -> bool:
        if not isinstance(value.type, TensorType) or is_remade(value) or is_weight(value):
            return False
        owner = value.owner
        return (owner if isinstance(owner, Block) else owner.parent_block()) is self.block

    def _spread(self, value: SSAValue, order: Order) -> None:
        """Assigns a storage order to a tensor and to connected tensors that permit the order."""
        self.orders[value] = order
        self._classes.add(value)
        waiting = [value]
        while waiting:
            value = waiting.pop()
            for op in self._around(value):
                for other, own in spread_order(op, value, self.orders[value]):
                    if other in self.orders:
                        if self.orders[other] == own:
                            self._classes.union_left(value, other)
                    elif self._may_move(other):
                        self.orders[other] = own
                        self._classes.add(other)
                        self._classes.union_left(value, other)
                        waiting.append(other)

    def _around(self, value: SSAValue) -> Iterable[Operation]:
        owner = value.owner
        users = [use.operation for use in value.uses if use.operation.parent_block() is self.block]
        return [*users, owner] if isinstance(owner, Operation) else users

    def root(self, value: SSAValue) -> SSAValue:
        """Returns the representative of the tensors that must share an order with this one."""
        return self._classes.find(value)

    def cheapest(self, estimates: Estimates) -> set[SSAValue]:
        """Returns the representatives of the tensor classes that should use the proposed order."""
        roots = list(dict.fromkeys(map(self.root, self.orders)))
        ops = dict.fromkeys(op for value in self.orders for op in self._around(value))
        if (last := self.block.last_op) is not None:
            ops.setdefault(last)
        parts = [_Part(op, self._values(op)) for op in ops]
        parts += [_Part(None, (v,)) for v in self.orders if isinstance(v, BlockArgument)]
        of: dict[SSAValue, list[_Part]] = {root: [] for root in roots}
        for part in parts:
            for root in {self.root(value) for value in part.values}:
                of[root].append(part)

        def seconds(some: Iterable[_Part], chosen: set[SSAValue]) -> float:
            of_each = (
                {v: self.orders[v] for v in p.values if self.root(v) in chosen} for p in some
            )
            return sum(map(estimates.seconds, some, of_each))

        best = set[SSAValue](), seconds(parts, set())
        for chosen in (set(roots), set[SSAValue]()):
            for _ in range(ROUNDS):
                flips = 0
                for root in roots:
                    other = chosen ^ {root}
                    if seconds(of[root], other) < seconds(of[root], chosen):
                        chosen, flips = other, flips + 1
                if not flips:
                    break
            total = seconds(parts, chosen)
            if total < best[1]:
                best = chosen, total
        return best[0]

    def _values(self, op: Operation) -> tuple[SSAValue, ...]:
        return tuple(v for v in dict.fromkeys((*op.operands, *op.results)) if v in self.orders)


@dataclass(frozen=True, eq=False)
class _Part:
    """An operation and its tensors whose order may change."""

    op: Operation | None
    """The operation; None for a function argument, which has the model's order."""
    values: tuple[SSAValue, ...]


@dataclass(frozen=True)
class Estimate:
    """Estimated seconds of a contraction. `packs` is True if the schedule packs a weight."""

    seconds: float
    packs: bool = False


@dataclass
class Estimates:
    """Estimates the seconds of operations for given storage orders."""

    target: Target
    limits: Limits
    _known: dict[object, Estimate] = field(default_factory=dict[object, Estimate])

    def seconds(self, part: _Part, orders: dict[SSAValue, Order]) -> float:
        """
        Estimates the seconds of a product with these storage orders, or of the copies that another
        operation then needs.
        """
        op = part.op
        if op is None:
            return sum(map(self.estimate_reordering, orders))
        if _product(op) is not None:
            assert isinstance(op, linalg.ops.GenericOp)
            image, result = orders.get(_image_of(op)), orders.get(op.results[0])
            return self.contraction(op, image, result).seconds
        if isinstance(op, tensor.DimOp):
            return 0.0
        kept = {v for v in part.values if any(True for _ in spread_order(op, v, _any(v)))}
        if not isinstance(op, linalg.ops.GenericOp):
            # A copy is needed for each tensor whose order the operation does not preserve.
            return sum(self.estimate_reordering(value) for value in orders if value not in kept)
        result = op.results[0]
        crossed = [v for v in kept if (v in orders) != (result in orders)]
        return sum(self._estimate_move(value) / 2 for value in crossed)

    def estimate_reordering(self, value: SSAValue) -> float:
        """Returns the seconds of a kernel that copies a tensor to another order."""
        return self.target.model.dispatch_seconds + self._estimate_move(value)

    def _estimate_move(self, value: SSAValue) -> float:
        type = tensor_type(value)
        size = prod(map(typical, extents(value))) * max(8, bit_width(type.element_type)) // 8
        return 2 * size / self.target.copy_bytes_per_second

    def contraction(
        self, op: linalg.ops.GenericOp, image: Order | None, result: Order | None
    ) -> Estimate:
        """Estimates a contraction's seconds with these storage orders; caches the estimate."""
        key = (
            *(value.type for value in op.operands),
            *op.get_indexing_maps(),
            _padding(_image_of(op)),
            is_weight(weight_of(op)),
            image,
            result,
        )
        if key not in self._known:
            weights = _weight_order(op, image, result) if image or result else None
            self._known[key] = self._estimate(laid_out(op, image, weights, result))
        return self._known[key]

    def _estimate(self, contraction: Contraction) -> Estimate:
        moved = sum(
            prod(map(typical, shape_of(value))) * max(8, bit_width(type)) // 8
            for value, type in zip(contraction.op.operands, contraction.element_types, strict=True)
        )
        least = moved / self.target.copy_bytes_per_second
        if contraction.channels_lie_side_by_side:
            from xdsl_spirv.passes.schedule.window import seconds_of_taps

            return Estimate(max(least, seconds_of_taps(contraction, self.target)))
        plan = try_plan(contraction, self.target, self.limits)
        if plan is None:
            return Estimate(float("inf"))
        operands = (op.operands[number] for op, number, *_ in plan.packings())
        return Estimate(max(least, plan.seconds), any(map(is_weight, operands)))


def _any(value: SSAValue) -> Order:
    return tuple(range(tensor_type(value).get_num_dims()))


def _padding(value: SSAValue) -> object:
    owner = value.owner
    if isinstance(owner, tensor.PadOp) and padding_of(owner) is not None:
        return owner.source.type, owner.static_low, owner.static_high
    return None


def laid_out(
    op: linalg.ops.GenericOp, image: Order | None, weights: Order | None, result: Order | None
) -> Contraction:
    """
    Returns the contraction that an operation would compute if image, weights and result had the
    given storage orders. None stands for the model's order.
    """
    weight = weight_of(op)
    orders = [weights if value is weight else image for value in op.inputs] + [result]
    inside: list[Operation] = []
    operands: list[SSAValue] = []
    maps: list[AffineMap] = []
    for value, order, map in zip(op.operands, orders, maps_of(op), strict=True):
        order = order or _any(value)
        operands.append(_stand_in(value, order, inside))
        results = tuple(permute(map.results, order))
        maps.append(AffineMap(map.num_dims, 0, results))
    kinds = op.get_iterator_types()
    generic = make_generic(operands[:2], operands[2], maps, op.body.clone(), kinds)
    (copy,) = copy_to_dispatch([*inside, generic]).yielded
    return contraction_of(cast(linalg.ops.GenericOp, copy.owner))


def _stand_in(value: SSAValue, order: Order, inside: list[Operation]) -> SSAValue:
    """
    Returns a placeholder for a tensor in another order.

    Appends to `inside` the operations that the reader's dispatch would contain, such as a padding.
    """
    owner, given = value.owner, tensor_type(value)
    stored = TensorType(given.element_type, permute(given.get_shape(), order))
    if isinstance(owner, tensor.PadOp) and padding_of(owner) is not None:
        source = _stand_in(owner.source, order, inside)
        pad = with_type(permuted_lists(owner, [source], order), stored)
        (padding,) = yields_of(owner.region.block)
        if isinstance(number := padding.owner, Operation):
            constant = number.clone()
            inside.append(constant)
            for inner in pad.walk():
                inner.operands = [
                    constant.results[0] if v is padding else v for v in inner.operands
                ]
        inside.append(pad)
        return pad.results[0]
    if is_remade(value) and not any(map(is_dynamic, extents(value))):
        empty = tensor.EmptyOp((), stored)
        inside.append(empty)
        if not isinstance(owner, linalg.ops.FillOp) or not is_zero(value):
            return empty.tensor
        number = cast(Operation, owner.inputs[0].owner).clone()
        fill = linalg.ops.FillOp(number.results, [empty.tensor], [stored])
        inside += [number, fill]
        return fill.results[0]
    if is_weight(value):
        nothing = DenseResourceAttr.from_params("nothing", stored)
        return ConstantOp.create(result_types=[stored], properties={"value": nothing}).result
    return Block(arg_types=[stored]).args[0]
