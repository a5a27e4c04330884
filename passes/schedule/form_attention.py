"""
Finds scaled dot-product attention in a graph and replaces it by one operation in a dispatch.

    %s = contraction %q, %k                     %r = schedule.dispatch(%q, %k, %v) {
    %x = scale, mask                               schedule.attention ...
    %p = softmax %x: max, -, exp, sum, /   ->      schedule.yield }
    %r = contraction %p, %v

The pass matches the expression of an element of the second contraction's first operand (see
`element_trees`). Reshapes, casts and the number of operations therefore do not matter. Queries,
keys, values and mask are read from their original tensors, through transpositions and reshapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    ModuleOp,
    UnitAttr,
    f32,
)
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, surely_below
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    NotAContraction,
    as_contraction,
    element_type,
)
from xdsl_spirv.passes.analysis.linalg_code import maps_of, yields_of
from xdsl_spirv.passes.analysis.pointwise import body_ops, generalize, is_pointwise
from xdsl_spirv.passes.analysis.sizes import equal_extents
from xdsl_spirv.passes.analysis.target import TargetPass
from xdsl_spirv.passes.analysis.unpacking import unpacks
from xdsl_spirv.passes.analysis.values import is_zero
from xdsl_spirv.passes.graph.attention_patterns import (
    Band,
    band,
    is_least,
    softmax,
    uncast,
    without_nan,
)
from xdsl_spirv.passes.graph.element_trees import (
    RESHAPES,
    Node,
    NotTraced,
    Place,
    Trees,
    after_reshape,
    before_generic,
    find_stored,
    index_of_loop,
    loops_at,
    moves,
    number_of,
    origins,
    through,
)
from xdsl_spirv.passes.graph.grouping import users_of
from xdsl_spirv.passes.graph.loops_fusion import drop_unused_results
from xdsl_spirv.passes.schedule.attention import FLOATS
from xdsl_spirv.passes.schedule.attention_replacing import (
    Attention,
    Computed,
    Operand,
    replace_attention,
)
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.paths import ATTENTION, note_before_schedules
from xdsl_spirv.targets import Target


@dataclass(frozen=True)
class FormAttentionPass(TargetPass):
    """Replaces each attention by a `schedule.attention` if a schedule fits the target."""

    name = "form-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.find_target(op)
        for function in functions_of(op):
            form(function.body.block, target)


def form(block: Block, target: Target | None) -> None:
    """Replaces every attention of a block by one operation."""
    if not _exponentials(block):
        return
    for op in reversed(list(block.ops)):
        drop_unused_results(op)
    for op in list(block.ops):
        generalize(op)
    exponentials = _exponentials(block)
    normal = _normal(block) if exponentials else None
    for op in list(block.ops):
        if normal is None or not any(left.parent_block() is block for left in exponentials):
            return
        if op.parent_block() is not block:
            continue
        contraction = as_contraction(op) if op.results else None
        if contraction is None:
            continue
        try:
            match = _Match(contraction, normal)
        except (NotTraced, NotAContraction):
            continue
        try:
            replace_attention(match.attention(), block, target)
        except (NotTraced, NotAContraction, ScheduleDoesNotFit) as reason:
            if match.has_softmax:
                note_before_schedules(op, ATTENTION, str(reason))


def _exponentials(block: Block) -> list[Operation]:
    return [op for op in block.ops if any(inner.name in EXPONENTIALS for inner in op.walk())]


def _normal(block: Block) -> Callable[[Size], Size]:
    known = equal_extents(block.ops)
    return lambda size: size.replaced(known) if is_dynamic(size) else size


EXPONENTIALS = ("math.exp", "math.exp2", "linalg.exp")


class _Match:
    """Matches an attention, from the contraction of probabilities and values backwards."""

    def __init__(self, last: Contraction, normal: Callable[[Size], Size]):
        self.last, self.normal = last, normal
        batch, m, e, n = last.groups
        if len(m) < 1 or [len(group) for group in (e, n)] != [1, 1]:
            raise NotTraced("keys or values have several loops, or queries have no loop")
        if not is_zero(last.init):
            raise NotTraced("the product of probabilities and values does not start from zero")
        # If there are several loops of rows, the loops of heads that share keys come first.
        self.rows = [f"b{i}" for i in m]
        names = [*(f"b{i}" for i in batch), *self.rows, "e", "n"]
        self.sizes = dict(zip(names, map(normal, last.sizes), strict=True))
        if is_dynamic(self.sizes["e"]):
            raise NotTraced("the number of elements of a value is dynamic")
        self.places = [
            through(map, [index_of_loop(name, size) for name, size in self.sizes.items()])
            for map in last.maps
        ]
        self.trees = Trees(index_of_loop("n", self.sizes["n"]), normal)
        self.has_softmax = False

    def attention(self) -> Attention:
        """Returns the matched attention; raises `NotTraced` if there is none."""
        p, v = self.last.a, self.last.b
        type = element_type(v)
        if element_type(p) != type or not isinstance(type, FLOATS):
            raise NotTraced("probabilities and values must both be f16, both bf16 or both f32")
        node, nan_to_zero = without_nan(self.trees.element(p, self.places[0]))
        self.scale, self.cap, self.band = 1.0, None, Band()
        self.more = dict[str, Operand]()
        """The mask and the sink, if the attention has them."""
        self.finite = self.narrow = False
        probabilities, sink = softmax(node)
        self.has_softmax = True
        scores = self._scores(probabilities)
        queries = self._queries()
        self.whole = {queries, "n", "d", "e"}
        if sink is not None:
            self.more["sink"] = _find_tensor(sink, "sink", self.whole)
        q, k = self._first(scores, queries)
        self.narrow |= _is_narrow(self._between(scores))
        own = {"q": q, "k": k, "v": self._unwiden(v, self.places[1])}
        computed = {
            name: found
            for name, (value, place) in own.items()
            if value is not q[0] and (found := self._find_computed(value, place))
        }
        operands = {**own, "result": self._result(), **self.more}
        if self.finite and not self._sees_some(queries):
            raise NotTraced(
                "the mask hides keys by a finite number: if it hides all keys of a query, softmax "
                "weights them equally, but an attention does not"
            )
        properties = {
            "scale": FloatAttr(self.scale, f32),
            "cap": None if self.cap is None else FloatAttr(self.cap, f32),
            "nan_to_zero": UnitAttr() if nan_to_zero else None,
            "narrow": UnitAttr() if self.narrow else None,
        }
        return Attention(
            operands, self.sizes, queries, self.normal, self.band, properties, computed
        )

    def _queries(self) -> str:
        """Returns the name of the loop along the queries."""
        if self.band.rows is not None:
            if self.band.rows not in self.rows:
                raise NotTraced("the mask depends on a batch loop")
            return self.band.rows
        if self.band != Band():
            # The mask does not depend on the query: there is only one.
            self.sizes.setdefault("m", 1)
            return next((name for name in self.rows if self.sizes[name] == 1), "m")
        is_open = (name for name in self.rows if is_dynamic(self.sizes[name]))
        return next(is_open, self.rows[-1])

    def _sees_some(self, queries: str) -> bool:
        first, last = self.band.first, self.band.last
        rows, keys = self.sizes[queries], self.sizes["n"]
        return (
            (last is None or surely_below(-1, last))
            and (first is None or surely_below(rows - 1 + first, keys))
            and (first is None or last is None or surely_below(first, last + 1))
        )

    def _scores(self, node: Node) -> Node:
        """Matches scale, cap and masks; returns the element of the product of queries and keys."""
        while True:
            node = uncast(node)
            match node:
                case Node("arith.mulf", _, (x, Node("number", c)) | (Node("number", c), x)):
                    self.scale *= c
                    node = x
                case Node("arith.divf", _, (x, Node("number", c))) if c:
                    self.scale /= c
                    node = x
                case Node("math.tanh", _, (x,)) if self.cap is None and self.scale > 0:
                    self.scale, self.cap = 1.0, self.scale
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
                    raise NotTraced(f"an attention cannot apply {node.kind} to scores")

    def _add(self, x: Node, y: Node) -> Node:
        if self.more or self.scale != 1.0 or self.cap is not None:
            raise NotTraced("an attention cannot have a second mask, or scale or cap a mask")
        if not _reaches_contraction(x):
            x, y = y, x
        self.more["mask"] = _find_tensor(y, "mask", {"d", "e"})
        return x

    def _select(self, condition: Node, x: Node, y: Node) -> Node:
        """Matches `n > m + c ? -inf : scores` in any equivalent form."""
        if self.scale <= 0 or self.cap is not None:
            raise NotTraced("an attention cannot cap masked scores, or scale them by 0 or less")
        masked_if = is_least(x)
        if masked_if == is_least(y):
            raise NotTraced("a select does not mask scores: no operand is -inf")
        self.band = self.band.and_also(band(condition, masked_if))
        self.finite |= uncast(x if masked_if else y) != Node("number", -inf)
        return y if masked_if else x

    def _first(self, scores: Node, rows: str) -> tuple[Operand, Operand]:
        """Returns the queries and the keys whose product is the scores."""
        first = as_contraction(_owner(scores))
        if (
            first is None
            or not is_zero(first.init)
            or element_type(first.a) != element_type(self.last.b)
        ):
            raise NotTraced("scores are not a product")
        *_, d = first.groups
        loops = loops_at(first.maps[2], scores.place)
        if len(d) != 1 or element_type(first.a) != element_type(first.b):
            raise NotTraced("scores are not a product of queries and keys")
        depth = first.sizes[d[0]]
        if is_dynamic(depth):
            raise NotTraced("the number of elements of a query is dynamic")
        self.sizes = self.sizes | {"d": depth}
        loops[d[0]] = index_of_loop("d", depth)
        q, k = (
            self._unscale(*self._unwiden(value, through(map, loops)))
            for value, map in zip((first.a, first.b), first.maps, strict=False)
        )
        if "n" in _loops_of(q[1]) or rows in _loops_of(k[1]):
            q, k = k, q
        if _loops_of(q[1]) & {"n", "e"} or _loops_of(k[1]) & {rows, "e"}:
            raise NotTraced("scores are not a product of queries and keys")
        return q, k

    def _find_computed(self, value: SSAValue, place: Place) -> Computed | None:
        """Returns the operation that dequantizes an operand, with its operands, else None."""
        op = value.owner
        if not isinstance(op, linalg.ops.GenericOp) or not unpacks(op):
            return None
        *reads, write = maps_of(op)
        loops = loops_at(write, place)
        planes = [
            self._unwiden(plane, through(read, loops))
            for plane, read in zip(op.inputs, reads, strict=True)
        ]
        pairs = zip(planes, op.inputs, strict=True)
        same = all(element_type(plane) == element_type(given) for (plane, _), given in pairs)
        return Computed(op, planes) if same else None

    def _unscale(self, value: SSAValue, place: Place) -> Operand:
        """
        Strips a multiplication by a constant from an operand; moves the constant into `scale`.
        """
        owner = value.owner
        factor = _factor(owner) if isinstance(owner, Operation) else None
        if factor is None or len(list(value.uses)) > 1:
            return value, place
        assert isinstance(owner, linalg.ops.GenericOp)
        self.scale *= factor
        self.narrow |= not isinstance(element_type(value), Float32Type)
        return self._unwiden(*before_generic(owner, place))

    def _unwiden(self, value: SSAValue, place: Place) -> Operand:
        """
        Follows an operand back through moves, leading slices and widening conversions.

        Returns the earliest tensor that the loops index without being split.
        """
        operand, is_cut = (value, place), False
        while True:
            for value, place in origins(value, place, is_cut):
                if not self._cuts(place):
                    operand = value, place
            owner = value.owner
            match owner:
                case tensor.ExtractSliceOp() if not any(owner.static_offsets.get_values()) and (
                    {*owner.static_strides.get_values()} <= {1}
                ):
                    kept = iter(place)
                    sizes = owner.static_sizes.get_values()
                    full = value.type.get_shape() == tuple(sizes)  # pyright: ignore
                    if not full and len(place) != sum(size != 1 for size in sizes):
                        return operand
                    place = tuple(next(kept) if full or size != 1 else () for size in sizes)
                    value, is_cut = owner.source, True
                case linalg.ops.GenericOp() if _only(owner, arith.ExtFOp) is not None:
                    value, place = before_generic(owner, place)
                case _:
                    return operand

    def _cuts(self, place: Place) -> bool:
        """
        True if an index expression uses only a part of a loop that operands must use as a whole.
        """
        pieces = [piece for index in place for piece in index]
        return any(piece.divisor != 1 and piece.loop in self.whole for piece in pieces)

    def _between(self, scores: Node) -> set[Operation]:
        """
        Returns the operations from the scores to the probabilities.

        Raises `NotTraced` if another operation reads the scores or an intermediate value.
        """
        block = self.last.op.parent_block()
        assert block is not None
        assert scores.value is not None
        between = _follow([scores.value], lambda value: users_of(value, block) - {self.last.op})
        if not between.issubset(self.trees.visited):
            raise NotTraced("another operation reads the scores")
        return between

    def _result(self) -> Operand:
        value, place = self.last.op.results[0], self.places[2]
        block = self.last.op.parent_block()
        assert block is not None
        narrow = False
        result = value, place
        while len(list(value.uses)) == 1:
            (user,) = (use.operation for use in value.uses)
            if user.parent_block() is not block:
                break
            if isinstance(user, RESHAPES):
                value, place = user.results[0], after_reshape(user, place)
                result = result if self._cuts(place) else (value, place)
                continue
            casts = _casts(user)
            if casts is None or (casts and narrow):
                break
            assert isinstance(user, linalg.ops.GenericOp)
            read, write = maps_of(user)
            narrow |= casts
            value, place = user.results[0], through(write, loops_at(read, place))
            result = result if self._cuts(place) else (value, place)
        return result


def _find_tensor(node: Node, what: str, never: set[str]) -> Operand:
    """
    Returns the float tensor that a node reads, with its index expression.

    Raises `NotTraced` for other nodes, and for an index that depends on a loop in `never`.
    """
    inner = uncast(node)
    value, place = (inner.value, inner.place) if inner.value else (node.value, node.place)
    if inner.kind == "element":
        value, place = inner.detail
    if value is None:
        raise NotTraced(f"the {what} is not a tensor")
    operand = find_stored(value, place)
    if _loops_of(operand[1]) & never or not isinstance(element_type(operand[0]), FLOATS):
        raise NotTraced(f"the {what} is not a float tensor of the shape that an attention needs")
    return operand


def _is_narrow(ops: set[Operation]) -> bool:
    """True if one of `ops`, up to the last division, computes in f16 or bf16."""
    divide = [op for op in ops if any(isinstance(inner, arith.DivfOp) for inner in op.walk())]
    after = {
        op: _follow(op.results, lambda value: {use.operation for use in value.uses} & ops)
        for op in divide
    }
    last = next(op for op in divide if not after[op].intersection(divide))
    return any(
        isinstance(getattr(value.type, "element_type", value.type), Float16Type | BFloat16Type)
        for op in ops - after[last]
        for inner in op.walk()
        for value in inner.results
        if op is not last or isinstance(inner, arith.DivfOp)
    )


def _follow(
    values: Iterable[SSAValue], users: Callable[[SSAValue], set[Operation]]
) -> set[Operation]:
    """
    Returns all operations that depend on `values`. The function `users` returns the users of a
    value.
    """
    found, waiting = set[Operation](), [*values]
    while waiting:
        new = users(waiting.pop()) - found
        found |= new
        waiting += (result for op in new for result in op.results)
    return found


def _casts(op: Operation) -> bool | None:
    """
    Returns True if an operation only truncates floats, False if it only moves elements, else None.
    """
    if not isinstance(op, linalg.ops.GenericOp):
        return None
    read = op.get_indexing_maps().data[0].data
    if len(set(read.results)) != read.num_dims:
        return None
    if moves(op):
        return False
    return True if _only(op, arith.TruncFOp) else None


def _owner(node: Node) -> Operation | Block | None:
    return None if node.value is None else node.value.owner


def _reaches_contraction(node: Node) -> bool:
    if node.kind == "element":
        return as_contraction(_owner(node)) is not None
    return any(map(_reaches_contraction, node.children))


def _only(op: Operation, kind: type[Operation]) -> Operation | None:
    if not isinstance(op, linalg.ops.GenericOp) or not is_pointwise(op) or len(op.inputs) != 1:
        return None
    inner = [each for each in body_ops(op.body.block) if not isinstance(each, arith.ConstantOp)]
    one = len(inner) == 1 and isinstance(inner[0], kind)
    return inner[0] if one and yields_of(op.body.block)[0] is inner[0].results[0] else None


def _factor(op: Operation) -> float | None:
    product = _only(op, arith.MulfOp)
    numbers = [] if product is None else [number_of(value) for value in product.operands]
    known = [number for number in numbers if number is not None]
    return float(known[0]) if len(known) == 1 else None


def _loops_of(place: Place) -> set[str]:
    return {piece.loop for index in place for piece in index}
