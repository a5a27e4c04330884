"""
Defines scaled dot-product attention as one operation, and its schedule as an attribute.

Attention consists of three loop nests: scores, softmax and values. Fused into one operation, it
does not need the matrices of scores and probabilities in memory. The interpreter, the error bound
and the lowering follow the meaning in the operation's docstring.
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
from xdsl.ir import SSAValue
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
from xdsl_spirv.dialects.schedule.operations import shaped_of
from xdsl_spirv.dialects.schedule.packing import check_numbers, check_result, fill_in
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, static

Shaped = TensorType | MemRefType

KEEP_LOOP = "schedule.keep_loop"
"""Attribute of a loop that drivers must not unroll."""

DEALT_PATHS = ("vectors", "staged")
"""
Paths (see `PATHS`) on which invocations load vectors and build fragments from them. The width of a
vector determines the order of elements in the fragments.
"""

PATHS = ("rows", "direct", *DEALT_PATHS)
"""
Paths by which operands get into fragments: cooperative loads from the unpacked operand (`rows`),
loads of packed fragments (`direct`), vector loads from the unpacked operand (`vectors`), or vector
loads from a shared tile in Workgroup memory (`staged`).
"""

RESCALE = ("always", "seldom", "late")

PROBABILITIES = ("memory", "registers", "converted")
"""Ways to pass the probabilities to the second product, where they are the first operand."""

AHEAD = ("none", "values", "keys")
"""Values of the key `ahead`, which states if keys or values are loaded early."""

IN_REGISTERS = ("ahead", "key_parts", "order", "queries", "buffers")
"""
Keys with an effect only if probabilities stay in registers. Otherwise they must have their default
values.
"""

ORDERS = ("queries", "batch")
"""Values of the key `order`: the index that changes first from one workgroup to the next."""

QUERIES = ("held", "read")
"""Ways to load queries: once into registers (`held`), or again for each tile of keys (`read`)."""

ROW_PADDING = 8
"""
Padding after each row of probabilities, in f16 elements. It shifts each row by four memory banks.
"""

LOOPS = ("m", "n", "d", "e")
"""Loops after the batch loops: queries, keys, elements of a query or key, elements of a value."""


@keyed_attr_definition
class AttentionAttr(ScheduleAttr):
    """
    The schedule of an attention that uses cooperative matrices.

    - `query_tile`: rows of the result that a workgroup computes, divided among its `subgroups`.
    - `key_tile`: keys that each iteration processes.
    - `q`, `k`, `v`: the path of each operand. `rows` uses cooperative loads from the unpacked
      operand, `direct` loads packed fragments, `vectors` uses vector loads from the unpacked
      operand. `staged` (for both `k` and `v`) copies each tile to Workgroup memory and uses vector
      loads.
    - `buffers`: with 2, the next staged tile is copied while this tile is multiplied.
    - `rescale`: when a row's maximum is updated and its sums are rescaled. `always` does so for
      every tile of keys, `seldom` only if scores exceed the maximum by more than a few powers of
      two. `late` computes the exponentials first, and again if their sum shows that the maximum
      must be updated.
    - `probabilities`: `memory` passes them through Workgroup memory. `registers` uses the
      accumulator's components directly as components of A. `converted` uses instructions that
      reduce rows, compute elements by position and convert accumulators.

    With `probabilities = registers` there are further fields:

    - `ahead`: what is loaded early. With `values`, the values of a tile are loaded before its
      softmax; with `keys`, also the keys of the next tile.
    - `key_parts`: the number of subgroups that share rows and divide the keys.
    - `order`: whether consecutive workgroups differ first in their `queries` or in their `batch`.
    - `queries`: `read` loads queries again for each tile of keys, which saves registers for long
      heads.

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
        """The ways to load the queries, keys and values (see `PATHS`)."""
        return self.q.data, self.k.data, self.v.data

    @property
    def packs(self) -> bool:
        return "direct" in self.paths

    @property
    def uses_components(self) -> bool:
        return self.in_registers

    @property
    def staged(self) -> bool:
        """True if keys and values are copied to Workgroup memory, where all subgroups read them."""
        return self.k.data == "staged"

    @property
    def in_registers(self) -> bool:
        """True if probabilities stay in registers."""
        return self.probabilities.data == "registers"

    @property
    def holds_queries(self) -> bool:
        """True if queries stay in registers for all tiles of keys."""
        return self.queries.data == "held"

    @property
    def rows(self) -> int:
        """Number of rows of the result that a subgroup computes."""
        return self.query_tile.data // self.groups

    @property
    def groups(self) -> int:
        """
        Number of groups of subgroups. The subgroups of a group compute the same rows and divide the
        keys.
        """
        return self.subgroups.data // self.key_parts.data

    @property
    def strips(self) -> int:
        """Number of matrix fragments of a subgroup along the rows."""
        return self.rows // self.instruction.sizes[0]

    @property
    def probability_row(self) -> int:
        """Row stride of probabilities in Workgroup memory, in elements."""
        return self.key_tile.data + ROW_PADDING

    def is_printed(self, key: str) -> bool:
        """True if a key is printed. `ahead` is printed only if probabilities stay in registers."""
        if key == "ahead":
            return self.in_registers
        return super().is_printed(key)

    def verify(self) -> None:
        super().verify()
        for name in IN_REGISTERS:
            if not self.in_registers and (given := getattr(self, name)) != self.KEYS[name].default:
                raise VerifyException(f"{name} = {given.data} needs probabilities = registers")
        if self.instruction.kind.data != "coopmat":
            raise VerifyException("the instruction of an attention must be a coopmat")
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
                f"rows of the instruction): use {max(rows, self.query_tile.data // rows * rows)}"
            )
        for size in (n, k):
            if self.key_tile.data % size:
                raise VerifyException(
                    f"key_tile = {self.key_tile.data} is not a multiple of the instruction's {size}"
                )


@dataclass(frozen=True)
class AttentionSizes:
    """The sizes of an attention's loops, and the index bounds of its mask."""

    loops: tuple[Size, ...]
    causal: Size | None
    window: Size | None

    @property
    def batch(self) -> Size:
        """Number of score matrices."""
        return prod(self.loops[: -len(LOOPS)])

    @property
    def extents(self) -> tuple[Size, Size, int, int]:
        """Numbers of queries, keys, elements of a query or key, and elements of a value."""
        *_, m, n, _, _ = self.loops
        d, e = static(self.loops[-2:])
        return m, n, d, e


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """
    out[b, m, e] = sum over n of p[b, m, n] * v[b, n, e], where p is the softmax over n of

        s[b, m, n] = scale * (sum over d of q[b, m, d] * k[b, n, d]) + mask[b, m, n]

    `loops` are the sizes of the batch loops and of m, n, d and e. `maps` are affine maps from the
    loops to the dimensions of q, k, v, the result, and the optional mask and sink.

    - `cap = c`: the scaled product x becomes c * tanh(x) before the mask is added.
    - `causal = c`: scores with n > m + c are -inf.
    - `window = w`: scores with n < m + w are -inf.
    - sink: an additional score of every row of a batch, with the value 0.
    - `nan_to_zero`: NaN probabilities become 0. Without it, a row with only -inf as scores is NaN.
    - `parts = r`: the keys are divided into r runs of equal length; the last ones may be shorter or
      empty. The result is f32 of r x batch x m x (e + 2). Each run has the sum of exp(s - top) * v,
      the sum of exp(s - top), and top, the run's greatest score (at least the sink, which the first
      run adds). For a row that sees no key of a run, these are 0, 0 and -3.4e38. The result's map
      then gives the dimensions between the first and the last.
    - `narrow`: the source also rounds scores to v's element type. A lowering may omit this
      rounding, but then differs more from the source.

    The sizes of batch, m and n, `causal` and `window` may be DYNAMIC (the least i64): the operands
    `numbers` then give the values, in this order. Scores and softmax are at least f32; p is
    rounded to v's element type before the multiplication. On memrefs the operation has no result.
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
        """
        Sizes of all loops, followed by `causal` and `window`. A value that `numbers` gives is
        DYNAMIC.
        """
        bounds = (self.causal, self.window)
        numbers = (None if bound is None else bound.value.data for bound in bounds)
        return (*self.loops.get_values(), *numbers)

    def sized(self, numbers: Sequence[Size]) -> AttentionSizes:
        """Returns the loop sizes and mask bounds, with `numbers` in place of DYNAMIC values."""
        *loops, causal, window = fill_in(self.given, numbers)
        return AttentionSizes(tuple(loops), causal, window)

    @property
    def is_dynamic(self) -> bool:
        """True if a size or bound is known only at run time."""
        return bool(self.numbers)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of all loops. A size that `numbers` gives is DYNAMIC."""
        return tuple(self.loops.get_values())

    @property
    def extents(self) -> tuple[int, int, int, int]:
        """Numbers of queries, keys, elements of a query or key, and elements of a value."""
        m, n, d, e = self.sizes[-len(LOOPS) :]
        return m, n, d, e

    @property
    def named(self) -> dict[str, SSAValue]:
        """The operands q, k, v, result, mask and sink by name, in the order of the maps."""
        named = {"q": self.query, "k": self.key, "v": self.value, "result": self.out}
        more = {"mask": self.mask, "sink": self.sink}
        return named | {name: value for name, value in more.items() if value is not None}

    @property
    def inputs(self) -> list[tuple[SSAValue, AffineMap]]:
        """The queries, keys, values, mask and sink (if present), each with its map."""
        pairs = zip(self.named.items(), self.maps, strict=True)
        return [(value, map.data) for (name, value), map in pairs if name != "result"]

    def verify_(self) -> None:
        loops = self.loops.get_values()
        if len(loops) < len(LOOPS) or any(size < 1 and size != DYNAMIC for size in loops):
            raise VerifyException(
                f"loops must be the sizes, above 0, of batch loops and then of {', '.join(LOOPS)}"
            )
        if DYNAMIC in loops[-2:]:
            raise VerifyException("the loops d and e must have static sizes")
        check_numbers(self.given, self.numbers)
        if len(self.maps) != len(self.named):
            raise VerifyException("maps must have one map for each operand and the result")
        check_result(self.result, self.out)
        self._verify_maps(loops)

    def _verify_maps(self, loops: Sequence[int]) -> None:
        batch = len(loops) - len(LOOPS)
        m, n, d, e = range(batch, batch + len(LOOPS))
        foreign = {"q": {n, e}, "k": {m, e}, "v": {m, d}, "result": {n, d}, "mask": {d, e}}
        for (name, value), map in zip(self.named.items(), self.maps, strict=True):
            never = foreign.get(name, {m, n, d, e})
            name = name if len(name) == 1 else f"the {name}"
            shape = shaped_of(value).get_shape()
            if value is self.out and self.parts is not None:
                expected = (self.parts.value.data, shape[-1])
                if (shape[0], loops[e] + 2) != expected:
                    raise VerifyException(
                        f"with `parts`, the result must be {expected[0]}x...x{loops[e] + 2}"
                    )
                shape = (*shape[1:-1], shape[-1] - 2)
            read, type = map.data, value.type
            if read.num_dims != len(loops) or len(read.results) != len(shape):
                raise VerifyException(
                    f"the map {read} must have {len(loops)} loops, and one result for each "
                    f"dimension of {type}"
                )
            if read.used_dims() & never:
                names = ", ".join(LOOPS[loop - batch] for loop in sorted(never))
                raise VerifyException(f"{name} cannot depend on {names}: its map is {read}")
            last = read.eval([0 if size == DYNAMIC else size - 1 for size in loops], [])
            sizes = zip(last, shape, strict=True)
            if any(index >= size for index, size in sizes if size != DYNAMIC_INDEX):
                raise VerifyException(f"the map {read} of {name} leads outside of {type}")
