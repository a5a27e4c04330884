"""
Makes every attention of a block one operation: see `form_attention`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    TensorType,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from xdsl_spirv.dialects.schedule import AttentionOp, DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import static
from xdsl_spirv.passes.analysis.constants import is_zero
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    NotAContraction,
    contraction_of,
    element_type,
)
from xdsl_spirv.passes.analysis.dead_code import erase_unused_ops
from xdsl_spirv.passes.analysis.pointwise import body_ops, generalized, is_pointwise
from xdsl_spirv.passes.graph.attention_patterns import (
    causal,
    is_least,
    softmax,
    uncast,
    without_nan,
)
from xdsl_spirv.passes.graph.element_trees import (
    RESHAPES,
    Index,
    Node,
    NotTraced,
    Piece,
    Place,
    Trees,
    after_reshape,
    loops_at,
    stored,
    through,
    whole,
)
from xdsl_spirv.passes.graph.grouping import users_of
from xdsl_spirv.passes.graph.loops_fusion import drop_unused_results
from xdsl_spirv.passes.schedule.attention import choose_attention
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit
from xdsl_spirv.targets import Target


def form(block: Block, target: Target | None) -> None:
    """Make every attention of a block an operation."""
    for op in reversed(list(block.ops)):
        drop_unused_results(op)
    for op in list(block.ops):
        generalized(op)
    for op in list(block.ops):
        if op.parent_block() is not block:
            continue
        contraction = _contraction(op)
        if contraction is None:
            continue
        try:
            attention = _Match(contraction).attention()
        except (NotTraced, NotAContraction):
            continue
        _replace(attention, block, target)


def _contraction(op: Operation) -> Contraction | None:
    if not isinstance(op, LinalgStructuredOperation) or not op.res:
        return None
    try:
        return contraction_of(op)
    except NotAContraction:
        return None


Operand = tuple[SSAValue, Place]


@dataclass(frozen=True)
class Attention:
    """A traced attention: operands and result with their places, by the loops b0.., m, n, d, e."""

    q: Operand
    k: Operand
    v: Operand
    mask: Operand | None
    result: Operand
    loops: dict[str, int]
    scale: float
    causal: int | None
    nan_to_zero: bool
    narrow: bool

    @property
    def operands(self) -> list[Operand]:
        """In the order of `AttentionOp.maps`."""
        mask = [self.mask] if self.mask else []
        return [self.q, self.k, self.v, self.result, *mask]


class _Match:
    """The search, from the contraction of probabilities and values."""

    def __init__(self, last: Contraction):
        self.last = last
        if last.is_dynamic:
            raise NotTraced("sizes are known only when the program runs")
        batch, m, e, n = last.groups
        if [len(group) for group in (m, e, n)] != [1, 1, 1]:
            raise NotTraced("not one loop each of queries, keys and values")
        if not is_zero(last.init):
            raise NotTraced("something is added to the result")
        names = [*(f"b{i}" for i in batch), "m", "e", "n"]
        self.sizes = dict(zip(names, static(last.sizes), strict=True))
        self.places = [
            through(map, [whole(name, size) for name, size in self.sizes.items()])
            for map in last.maps
        ]
        self.trees = Trees(whole("n", self.sizes["n"]))

    def attention(self) -> Attention:
        """Raises `NotTraced` where there is none."""
        p, v = self.last.a, self.last.b
        type = element_type(v)
        if element_type(p) != type or not isinstance(type, Float16Type | BFloat16Type):
            raise NotTraced("no f16 or bf16")
        node, nan_to_zero = without_nan(self.trees.element(p, self.places[0]))
        self.scale, self.causal, self.mask = 1.0, None, None
        scores = self._scores(softmax(node))
        q, k = self._first(scores)
        narrow = _is_narrow(self._between(scores))
        return Attention(
            q,
            k,
            stored(v, self.places[1]),
            self.mask,
            self._result(),
            self.sizes,
            self.scale,
            self.causal,
            nan_to_zero,
            narrow,
        )

    def _scores(self, node: Node) -> Node:
        """The first contraction's element, below scale and masks."""
        while True:
            node = uncast(node)
            match node:
                case Node("arith.mulf", _, (x, Node("number", c)) | (Node("number", c), x)):
                    self.scale *= c
                    node = x
                case Node("arith.divf", _, (x, Node("number", c))) if c:
                    self.scale /= c
                    node = x
                case Node("arith.addf", _, (Node("number", c), x) | (x, Node("number", c))) if (
                    c == 0
                ):
                    node = x
                case Node("arith.addf", _, (x, y)):
                    node = self._add(x, y)
                case Node("arith.select", _, (condition, x, y)):
                    node = self._select(condition, x, y)
                case Node("element"):
                    return node
                case _:
                    raise NotTraced(f"{node.kind} of scores")

    def _add(self, x: Node, y: Node) -> Node:
        """Scores and a mask, in either order."""
        if self.mask is not None or self.scale != 1.0 or self.causal is not None:
            raise NotTraced("a second mask, or a scaled one")
        if not _reaches_contraction(x):
            x, y = y, x
        mask = uncast(y)
        value, place = (mask.value, mask.place) if mask.value else (y.value, y.place)
        if value is None:
            raise NotTraced("a mask that is no tensor")
        operand = stored(value, place)
        if not isinstance(
            element_type(operand[0]), Float16Type | BFloat16Type | Float32Type
        ) or _loops_of(operand[1]) & {"d", "e"}:
            raise NotTraced("a mask of another kind")
        self.mask = operand
        return x

    def _select(self, condition: Node, x: Node, y: Node) -> Node:
        """`n > m + c ? -inf : scores`, whichever way it is written."""
        if self.causal is not None or self.scale != 1.0:
            raise NotTraced("a second mask, or a scaled one")
        masked_if = is_least(x)
        if masked_if == is_least(y):
            raise NotTraced("a choice between scores")
        self.causal = causal(condition, masked_if)
        return y if masked_if else x

    def _first(self, scores: Node) -> tuple[Operand, Operand]:
        """Queries and keys."""
        value, place = scores.value, scores.place
        owner = value.owner if value is not None else None
        first = _contraction(owner) if isinstance(owner, Operation) else None
        if (
            first is None
            or not is_zero(first.init)
            or element_type(first.a) != element_type(self.last.b)
        ):
            raise NotTraced("scores are no product")
        *_, d = first.groups
        loops = loops_at(first.maps[2], place)
        if first.is_dynamic:
            raise NotTraced("sizes are known only when the program runs")
        if len(d) != 1 or element_type(first.a) != element_type(first.b):
            raise NotTraced("scores are no product of queries and keys")
        (depth,) = static([first.sizes[d[0]]])
        self.sizes = self.sizes | {"d": depth}
        loops[d[0]] = whole("d", depth)
        self.first = first
        q, k = (
            stored(value, through(map, loops))
            for value, map in zip((first.a, first.b), first.maps, strict=False)
        )
        if "n" in _loops_of(q[1]) or "m" in _loops_of(k[1]):
            q, k = k, q
        if _loops_of(q[1]) & {"n", "e"} or _loops_of(k[1]) & {"m", "e"}:
            raise NotTraced("scores are no product of queries and keys")
        return q, k

    def _between(self, scores: Node) -> set[Operation]:
        """
        What computes probabilities from scores.

        Nobody else may need the scores, or anything up to the probabilities.
        """
        block = self.last.op.parent_block()
        assert block is not None
        assert scores.value is not None
        waiting = [scores.value]
        seen: set[Operation] = set()
        while waiting:
            for user in users_of(waiting.pop(), block):
                if user is self.last.op or user in seen:
                    continue
                if user not in self.trees.visited:
                    raise NotTraced("somebody else reads the scores")
                seen.add(user)
                waiting += user.results
        return seen

    def _result(self) -> Operand:
        """The last tensor that only casts and moves the result."""
        value, place = self.last.op.results[0], self.places[2]
        block = self.last.op.parent_block()
        assert block is not None
        narrow = False
        while len(list(value.uses)) == 1:
            (user,) = (use.operation for use in value.uses)
            if user.parent_block() is not block:
                break
            if isinstance(user, RESHAPES):
                value, place = user.results[0], after_reshape(user, place)
                continue
            casts = _casts(user)
            if casts is None or (casts and narrow):
                break
            assert isinstance(user, linalg.ops.GenericOp)
            read, write = (attribute.data for attribute in user.get_indexing_maps())
            narrow |= casts
            value, place = user.results[0], through(write, loops_at(read, place))
        return value, place


def _is_narrow(ops: set[Operation]) -> bool:
    """Whether anything up to the division by the sum, the last there is, is f16 or bf16."""
    divide = [op for op in ops if any(isinstance(inner, arith.DivfOp) for inner in op.walk())]
    after = {op: _followers(op, ops) for op in divide}
    last = next(op for op in divide if not after[op].intersection(divide))
    return any(
        isinstance(_element_of(value), Float16Type | BFloat16Type)
        for op in ops - after[last]
        for inner in op.walk()
        for value in inner.results
        if op is not last or isinstance(inner, arith.DivfOp)
    )


def _element_of(value: SSAValue) -> Attribute:
    return value.type.element_type if isinstance(value.type, TensorType) else value.type


def _followers(op: Operation, ops: set[Operation]) -> set[Operation]:
    """Those of the operations that need one."""
    followers: set[Operation] = set()
    waiting = [op]
    while waiting:
        for value in waiting.pop().results:
            new = {use.operation for use in value.uses} & ops - followers
            followers |= new
            waiting += new
    return followers


def _casts(op: Operation) -> bool | None:
    """Whether it moves elements (False), rounds them on the way (True), or does neither."""
    if not isinstance(op, linalg.ops.GenericOp) or not is_pointwise(op) or len(op.inputs) != 1:
        return None
    read = op.get_indexing_maps().data[0].data
    block = op.body.block
    last = block.last_op
    assert last is not None
    if len(set(read.results)) != read.num_dims:
        return None
    ops = body_ops(block)
    if not ops and last.operands[0] is block.args[0]:
        return False
    one = len(ops) == 1 and isinstance(ops[0], arith.TruncFOp)
    return True if one and last.operands[0] is ops[0].results[0] else None


def _reaches_contraction(node: Node) -> bool:
    """Whether scores stand somewhere below."""
    if node.kind == "element":
        value = node.value
        owner = None if value is None else value.owner
        return isinstance(owner, Operation) and _contraction(owner) is not None
    return any(map(_reaches_contraction, node.children))


def _loops_of(place: Place) -> set[str]:
    return {piece.loop for index in place for piece in index}


# The operation


def _divisions(attention: Attention) -> list[tuple[str, list[int]]]:
    """For each loop of the batch where pieces of it begin and end: 1 first, its size last."""
    divided: list[tuple[str, list[int]]] = []
    for loop, size in attention.loops.items():
        if not loop.startswith("b"):
            continue
        points = {1, size}
        for piece in _pieces(attention):
            if piece.loop == loop:
                points |= {piece.divisor, piece.divisor * piece.size}
        ordered = sorted(points)
        if any(after % before for before, after in pairwise(ordered)):
            raise NotTraced("reshapes cut the batch in different ways")
        divided.append((loop, ordered))
    return divided


def _pieces(attention: Attention) -> Iterable[Piece]:
    for _, place in attention.operands:
        for index in place:
            yield from index


class _Loops:
    """The loops of the operation: the batch's in the pieces that operands need, then the others."""

    def __init__(self, attention: Attention):
        self.numbers: dict[tuple[str, int], int] = {}
        self.sizes: list[int] = []
        self.divisions = dict(_divisions(attention))
        for loop, points in self.divisions.items():
            for low, high in reversed(list(pairwise(points))):
                self.numbers[loop, low] = len(self.sizes)
                self.sizes.append(high // low)
        for loop in "mnde":
            self.numbers[loop, 1] = len(self.sizes)
            self.sizes.append(attention.loops[loop])
            self.divisions[loop] = [1, attention.loops[loop]]
        if any(
            piece.size != attention.loops[piece.loop]
            for piece in _pieces(attention)
            if piece.loop in "mnde"
        ):
            raise NotTraced("a reshape cuts queries or keys")

    def map(self, place: Place) -> AffineMap:
        """From the loops to a place."""
        return AffineMap(len(self.sizes), 0, tuple(map(self._expression, place)))

    def _expression(self, index: Index) -> AffineExpr:
        total: AffineExpr | None = None
        step = 1
        for piece in reversed(index):
            for point in self.divisions[piece.loop]:
                if not piece.divisor <= point < piece.divisor * piece.size:
                    continue
                number = self.numbers[piece.loop, point]
                term: AffineExpr = AffineDimExpr(number)
                if step != 1:
                    term = term * step
                total = term if total is None else term + total
                step *= self.sizes[number]
        return AffineConstantExpr(0) if total is None else total


def _replace(traced: Attention, block: Block, target: Target | None) -> None:
    """
    Put the dispatch in the place of the result, and erase what nobody reads any more.

    Nothing changes where the target has no schedule for it.
    """
    try:
        loops = _Loops(traced)
    except NotTraced:
        return
    read = [operand for operand in traced.operands if operand is not traced.result]
    inputs = list(dict.fromkeys(value for value, _ in read))
    result, _ = traced.result
    type = result.type
    assert isinstance(type, TensorType)
    body = Block(arg_types=[value.type for value in inputs])
    inside = dict(zip(inputs, body.args, strict=True))
    for value, argument in inside.items():
        argument.name_hint = value.name_hint
    empty = tensor.EmptyOp((), type)
    attention = AttentionOp(
        (
            inside[traced.q[0]],
            inside[traced.k[0]],
            inside[traced.v[0]],
            inside[traced.mask[0]] if traced.mask else None,
        ),
        empty.tensor,
        loops.sizes,
        [loops.map(place) for _, place in traced.operands],
        traced.scale,
        traced.causal,
        traced.nan_to_zero,
        traced.narrow,
    )
    assert attention.result is not None
    if target is not None:
        try:
            choose_attention(attention, target)
        except ScheduleDoesNotFit:
            return
    body.add_ops([empty, attention, YieldOp(attention.result)])
    dispatch = DispatchOp(inputs, [type], Region(body))
    owner = result.owner
    assert isinstance(owner, Operation)
    dispatch.location = owner.location
    block.insert_op_before(dispatch, owner)
    dispatch.outputs[0].name_hint = result.name_hint
    result.replace_all_uses_with(dispatch.outputs[0])
    erase_unused_ops(block, _is_pure)


def _is_pure(op: Operation) -> bool:
    return isinstance(op, LinalgStructuredOperation) or op.name.split(".")[0] in (
        "tensor",
        "arith",
    )
