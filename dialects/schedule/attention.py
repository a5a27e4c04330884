"""
Scaled dot-product attention as one operation, and how it is to be computed, as data in the IR.

Scores, softmax and values are three loop nests; the first two make a matrix that only the third
reads. As one operation that matrix need never exist. The operation's docstring defines its meaning;
the interpreter, the error bound and the lowering follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    Float32Type,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import integer, key, keyed_attr_definition, word
from xdsl_spirv.dialects.schedule.attributes import (
    DYNAMIC,
    INSTRUCTION,
    InstructionAttr,
    ScheduleAttr,
)
from xdsl_spirv.dialects.schedule.packing import check_numbers, check_result, fill_in
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size

Shaped = TensorType | MemRefType

KEEP_LOOP = "schedule.keep_loop"
"""The attribute of a loop that drivers must not unroll."""

DEALT_PATHS = ("vectors", "staged")
"""Paths whose pieces are as wide as an invocation can load, elements dealt out accordingly."""

PATHS = ("rows", "direct", *DEALT_PATHS)
"""
Where a subgroup reads fragments: by cooperative loads from the operand as it lies, packed into
fragments, or in wide pieces: from the operand as it lies, or from a tile in Workgroup memory that
all subgroups read.
"""

RESCALE = ("always", "seldom", "late")

PROBABILITIES = ("memory", "registers", "converted")
"""Ways in which probabilities become the first operand of the second product."""

AHEAD = ("none", "values", "keys")
"""Values that are read or computed before they are needed."""

IN_REGISTERS = ("ahead", "key_parts", "order", "queries", "buffers")
"""Fields that keep their defaults unless probabilities stay in registers."""

ORDERS = ("queries", "batch")
"""The loop that differs between consecutive workgroups."""

QUERIES = ("held", "read")
"""Whether registers hold the queries, or the kernel reads them again for each tile of keys."""

ROW_PADDING = 8
"""f16 elements after each row of probabilities: shifts rows by four banks."""

LOOPS = ("m", "n", "d", "e")
"""Loops after the loops of the batch: queries, keys, the head of queries and keys, of values."""


@keyed_attr_definition
class AttentionAttr(ScheduleAttr):
    """
    The schedule of an attention.

    A workgroup computes `query_tile` rows of the result, each of its `subgroups` as many of them;
    keys are taken `key_tile` at a time. `q`, `k` and `v` say where fragments come from: `rows`, by
    cooperative loads from the operand as it lies, `direct`, packed, `vectors`, in wide pieces from
    the operand, or `staged`, in wide pieces from Workgroup memory (`k` and `v` both), where the
    workgroup moves each tile, one ahead with `buffers = 2`. With `rescale = seldom` a row's maximum
    is replaced, and the sums so far are rescaled, only when scores exceed it by more than a few
    powers of two; with `always` this is done for each tile of keys.

    With `probabilities = memory` they go through Workgroup memory; with `registers` they stay in
    place, as components of accumulators that lie where the components of A lie. Then `ahead` says
    what is read before it is needed: the tile's `values` before its softmax, or the next tile's
    `keys` too; `key_parts` subgroups share their rows, each with other tiles of keys, and
    workgroups that follow one another differ in their `queries`, or first in the `batch`. With
    `queries = read` the queries are read again for each tile of keys, which leaves their registers
    to long heads. With `probabilities = converted` the device has instructions that reduce rows,
    compute elements by their places and convert accumulators.

        #schedule.attention<query_tile = 128, key_tile = 64, subgroups = 4,
          instruction = coopmat 16x16x16, q = rows, k = direct, v = direct, rescale = seldom>
    """

    name = "schedule.attention"
    query_tile: IntAttr = integer(converter=IntAttr, least=1)
    key_tile: IntAttr = integer(converter=IntAttr, least=1)
    subgroups: IntAttr = integer(converter=IntAttr, least=1)
    instruction: InstructionAttr = key(*INSTRUCTION)
    q: StringAttr = word(PATHS, converter=StringAttr, default="direct", always_printed=True)
    k: StringAttr = word(PATHS, converter=StringAttr, default="direct", always_printed=True)
    v: StringAttr = word(PATHS, converter=StringAttr, default="direct", always_printed=True)
    rescale: StringAttr = word(RESCALE, converter=StringAttr, default="seldom", always_printed=True)
    probabilities: StringAttr = word(PROBABILITIES, converter=StringAttr, default="memory")
    ahead: StringAttr = word(AHEAD, converter=StringAttr, default="none")
    key_parts: IntAttr = integer(converter=IntAttr, default=1, least=1)
    order: StringAttr = word(ORDERS, converter=StringAttr, default="queries")
    queries: StringAttr = word(QUERIES, converter=StringAttr, default="held")
    buffers: IntAttr = integer(converter=IntAttr, default=1, least=1)

    @property
    def paths(self) -> tuple[str, str, str]:
        """The paths of the queries, keys and values."""
        return self.q.data, self.k.data, self.v.data

    @property
    def packs(self) -> bool:
        return "direct" in self.paths

    @property
    def uses_components(self) -> bool:
        return self.in_registers

    @property
    def staged(self) -> bool:
        """Whether keys and values go through Workgroup memory, read by all subgroups."""
        return self.k.data == "staged"

    @property
    def in_registers(self) -> bool:
        """Whether probabilities stay in registers."""
        return self.probabilities.data == "registers"

    @property
    def are_converted(self) -> bool:
        """Whether probabilities become an operand by an instruction."""
        return self.probabilities.data == "converted"

    @property
    def holds_queries(self) -> bool:
        """Whether registers hold the queries from one tile of keys to the next."""
        return self.queries.data == "held"

    @property
    def rows(self) -> int:
        """Rows of the result that a subgroup computes."""
        return self.query_tile.data // self.groups

    @property
    def groups(self) -> int:
        """Number of groups of subgroups: subgroups of a group share rows and divide the keys."""
        return self.subgroups.data // self.key_parts.data

    @property
    def strips(self) -> int:
        """Strips of fragments that a subgroup computes: `rows` in fragments."""
        return self.rows // self.instruction.sizes[0]

    @property
    def probability_row(self) -> int:
        """Elements from row to row of probabilities in Workgroup memory."""
        return self.key_tile.data + ROW_PADDING

    def is_printed(self, key: str) -> bool:
        """
        As in the base class; `ahead` is printed if and only if probabilities stay in registers.
        """
        if key == "ahead":
            return self.in_registers
        return super().is_printed(key)

    def verify(self) -> None:
        super().verify()
        for name in IN_REGISTERS:
            if not self.in_registers and (given := getattr(self, name)) != self.KEYS[name].default:
                raise VerifyException(f"{name} = {given.data} needs probabilities = registers")
        if self.instruction.kind.data != "coopmat":
            raise VerifyException("the instruction of an attention is a coopmat")
        if self.subgroups.data % self.key_parts.data:
            raise VerifyException(
                f"subgroups = {self.subgroups.data} is not a multiple of key_parts = "
                f"{self.key_parts.data}"
            )
        m, n, k = self.instruction.sizes
        rows = m * self.groups
        if self.query_tile.data % rows:
            of = "subgroups" if self.key_parts.data == 1 else "subgroups / key_parts"
            raise VerifyException(
                f"query_tile = {self.query_tile.data} is not a multiple of {rows} ({of} x "
                f"instruction): {max(rows, self.query_tile.data // rows * rows)} would be"
            )
        for size in (n, k):
            if self.key_tile.data % size:
                raise VerifyException(
                    f"key_tile = {self.key_tile.data} is not a multiple of the instruction's {size}"
                )


@dataclass(frozen=True)
class AttentionSizes:
    """The sizes of all loops of an attention, and the bounds of its mask by index."""

    loops: tuple[Size, ...]
    causal: Size | None
    window: Size | None

    @property
    def batch(self) -> Size:
        """Number of matrices of scores."""
        return prod(self.loops[: -len(LOOPS)])

    @property
    def extents(self) -> tuple[Size, Size, Size, Size]:
        """Queries, keys, elements of a query or key, of a value."""
        m, n, d, e = self.loops[-len(LOOPS) :]
        return m, n, d, e


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """
    out[b, m, e] = sum over n of p[b, m, n] * v[b, n, e], where p = softmax over n of

        s[b, m, n] = scale * (sum over d of q[b, m, d] * k[b, n, d]) + mask[b, m, n]

    `loops` are the sizes of the batch's loops, then of m, n, d and e; `maps` lead from them to the
    dimensions of q, k, v, the result, the mask and the sink, if there are these. With `cap = c` the
    scaled product x becomes c * tanh(x) before the mask is added. With `causal = c` the scores with
    n > m + c are -inf, with `window = w` the scores with n < m + w. A sink is one more score of
    every row of a batch's matrix, with a value of 0. The softmax of a row of which every score is
    -inf is NaN, as the formula has it; with `nan_to_zero` every p that is NaN is 0.

    A loop, `causal` or `window` may be known only when the program runs: then it is DYNAMIC (the
    least i64), and a number among `numbers` says it, in this order. d and e are always known.

    With `parts = s` the keys are cut into s runs of equal length, the last ones shorter or empty,
    and the result is f32 of s x batch x m x (e + 2): for each run the sum of exp(s - top) * v, the
    sum of exp(s - top), and top, the greatest score of the run; for a run that shows a row nothing
    0, 0 and -3.4e38. Each top is at least the sink, which the first run adds. The map of the result
    then leads to the dimensions between.

    Scores and softmax are f32 at least; p is rounded to v's element type before it multiplies.
    `narrow` says that the source rounds scores to that type too: a lowering need not do so, but
    results may then lie further from the formula. On memrefs there is no result.
    """

    name = "schedule.attention"
    query = operand_def(Shaped)
    key = operand_def(Shaped)
    value = operand_def(Shaped)
    mask = opt_operand_def(Shaped)
    sink = opt_operand_def(Shaped)
    out = operand_def(Shaped)
    numbers = var_operand_def(IndexType)
    loops = prop_def(DenseArrayBase.constr(i64))
    maps = prop_def(ArrayAttr[AffineMapAttr])
    scale = prop_def(FloatAttr[Float32Type])
    cap = opt_prop_def(FloatAttr[Float32Type])
    causal = opt_prop_def(IntegerAttr.constr(type=i64))
    window = opt_prop_def(IntegerAttr.constr(type=i64))
    parts = opt_prop_def(IntegerAttr.constr(type=i64))
    nan_to_zero = opt_prop_def(UnitAttr)
    narrow = opt_prop_def(UnitAttr)
    result = opt_result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    assembly_format = (
        "$query `,` $key `,` $value (`mask` $mask^)? (`sink` $sink^)? `into` $out "
        "(`numbers` $numbers^)? `loops` `=` $loops `maps` `=` $maps "
        "`scale` `=` $scale (`cap` `=` $cap^)? (`causal` `=` $causal^)? "
        "(`window` `=` $window^)? (`parts` `=` $parts^)? "
        "(`nan_to_zero` $nan_to_zero^)? (`narrow` $narrow^)? attr-dict `:` type($query) `,` "
        "type($key) `,` type($value) (`,` type($mask)^)? (`sink` type($sink)^)? `into` type($out) "
        "(`->` type($result)^)?"
    )

    @property
    def given(self) -> tuple[int | None, ...]:
        """The sizes of the loops, `causal` and `window`; DYNAMIC if `numbers` gives them."""
        bounds = (self.causal, self.window)
        numbers = (None if bound is None else bound.value.data for bound in bounds)
        return (*self.loops.get_values(), *numbers)

    def sized(self, numbers: Sequence[Size]) -> AttentionSizes:
        """The sizes, with these numbers for the dynamic ones."""
        *loops, causal, window = fill_in(self.given, numbers)
        return AttentionSizes(tuple(loops), causal, window)

    @property
    def is_dynamic(self) -> bool:
        """Whether a size or bound is known only when the program runs."""
        return bool(self.numbers)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of all loops; DYNAMIC if given by numbers."""
        return tuple(self.loops.get_values())

    @property
    def batch(self) -> int:
        """Number of matrices of scores, if that is known."""
        return prod(self.sizes[: -len(LOOPS)])

    @property
    def extents(self) -> tuple[int, int, int, int]:
        """Queries, keys, elements of a query or key, of a value."""
        m, n, d, e = self.sizes[-len(LOOPS) :]
        return m, n, d, e

    @property
    def named(self) -> dict[str, SSAValue]:
        """Queries, keys, values, the result's place, mask and sink by name, in the maps' order."""
        named = {"q": self.query, "k": self.key, "v": self.value, "result": self.out}
        more = {"mask": self.mask, "sink": self.sink}
        return named | {name: value for name, value in more.items() if value is not None}

    @property
    def inputs(self) -> list[tuple[SSAValue, AffineMap]]:
        """Queries, keys, values and perhaps mask and sink, each with its map."""
        pairs = zip(self.named.items(), self.maps, strict=True)
        return [(value, map.data) for (name, value), map in pairs if name != "result"]

    @property
    def result_map(self) -> AffineMap:
        return self.maps.data[3].data

    def verify_(self) -> None:
        loops = self.loops.get_values()
        if len(loops) < len(LOOPS) or any(size < 1 and size != DYNAMIC for size in loops):
            raise VerifyException(f"loops are a batch's, then {', '.join(LOOPS)}, all positive")
        if DYNAMIC in loops[-2:]:
            raise VerifyException("d and e must be known")
        check_numbers(self.given, self.numbers)
        if len(self.maps) != len(self.named):
            raise VerifyException("maps are for q, k, v, the result, and mask and sink if any")
        check_result(self.result, self.out)
        self._verify_maps(loops)

    def _verify_maps(self, loops: Sequence[int]) -> None:
        batch = len(loops) - len(LOOPS)
        m, n, d, e = range(batch, batch + len(LOOPS))
        foreign = {"q": {n, e}, "k": {m, e}, "v": {m, d}, "result": {n, d}, "mask": {d, e}}
        for (name, value), map in zip(self.named.items(), self.maps, strict=True):
            never = foreign.get(name, {m, n, d, e})
            name = name if len(name) == 1 else f"the {name}"
            assert isinstance(value.type, TensorType | MemRefType)
            shape = value.type.get_shape()
            if value is self.out and self.parts is not None:
                expected = (self.parts.value.data, shape[-1])
                if (shape[0], loops[e] + 2) != expected:
                    raise VerifyException(f"{expected[0]} parts of {loops[e]} + 2 are not {shape}")
                shape = (*shape[1:-1], shape[-1] - 2)
            _check_map(name, value.type, shape, map.data, loops, never)


def _check_map(
    name: str,
    type: Attribute,
    shape: Sequence[int],
    map: AffineMap,
    sizes: Sequence[int],
    never: set[int],
) -> None:
    if map.num_dims != len(sizes) or len(map.results) != len(shape):
        raise VerifyException(f"{map} is not a map from {len(sizes)} loops to {type}")
    used = {loop for loop, yes in enumerate(map.used_dims_bit_vector()) if yes}
    if used & never:
        loops = ", ".join(LOOPS[loop - len(sizes) + len(LOOPS)] for loop in sorted(never))
        raise VerifyException(f"{name} cannot depend on {loops}: {map}")
    last = map.eval([0 if size == DYNAMIC else size - 1 for size in sizes], [])
    if any(index >= size for index, size in zip(last, shape, strict=True) if size != DYNAMIC_INDEX):
        raise VerifyException(f"{map} leads outside {type} in {name}")


@irdl_op_definition
class AttentionMergeOp(IRDLOperation):
    """
    out[b, m, e] = sum over s of f[s] * parts[s, b, m, e] / sum over s of f[s] * sums[s, b, m]

    where f[s] = exp(top[s, b, m] - greatest of them), and `parts` is the result of a
    `schedule.attention` with parts, whose last two columns are sums and top. `loops` are the sizes
    of the batch's loops, of m and e, DYNAMIC where `numbers` say them; `map` leads from them to the
    dimensions of the result. With `nan_to_zero` what is divided by 0 is 0.
    """

    name = "schedule.attention_merge"
    parts = operand_def(Shaped)
    out = operand_def(Shaped)
    numbers = var_operand_def(IndexType)
    loops = prop_def(DenseArrayBase.constr(i64))
    map = prop_def(AffineMapAttr)
    nan_to_zero = opt_prop_def(UnitAttr)
    result = opt_result_def(TensorType)

    assembly_format = (
        "$parts `into` $out (`numbers` $numbers^)? `loops` `=` $loops `map` `=` $map "
        "(`nan_to_zero` $nan_to_zero^)? attr-dict `:` type($parts) `into` type($out) "
        "(`->` type($result)^)?"
    )

    def sized(self, numbers: Sequence[Size]) -> tuple[Size, ...]:
        """The sizes of the loops, with these numbers for the dynamic ones."""
        return tuple(fill_in(self.loops.get_values(), numbers))

    def verify_(self) -> None:
        loops = self.loops.get_values()
        check_numbers(loops, self.numbers)
        assert isinstance(self.parts.type, TensorType | MemRefType)
        shape = self.parts.type.get_shape()
        if len(loops) < 2 or len(shape) != len(loops) + 1 or shape[-1] != loops[-1] + 2:
            raise VerifyException(f"parts of {tuple(loops)} do not fit {self.parts.type}")
        if self.map.data.num_dims != len(loops):
            raise VerifyException(f"{self.map.data} is not a map from {len(loops)} loops")
        check_result(self.result, self.out)
