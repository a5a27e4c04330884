"""
Defines schedules of kernels without cooperative matrices, as attributes.

`loops` divides an elementwise operation or reduction among invocations, `window` exchanges
neighbours of sliding windows between invocations, `rows` multiplies few rows by a matrix that it
reads once, and `attention_lanes` computes an attention by multiply-adds.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import integer, integer_array, integers, keyed_attr_definition, word
from xdsl_spirv.dialects.schedule.attributes import ScheduleAttr

REDUCERS = ("invocation", "subgroup", "workgroup")


@keyed_attr_definition
class LoopsAttr(ScheduleAttr):
    """
    The schedule of a dispatch that is not a contraction.

    - `workgroup`: invocations of a workgroup.
    - `workgroups`: launched workgroups. They process rows (points of the loops outside of
      reductions) in turn until all are done.
    - `elements`: neighbouring elements that an invocation computes at a time, with vector loads and
      stores if they are contiguous.
    - `reduce`: the group that computes the reduction of one row: an invocation, a subgroup or a
      workgroup. Its members divide the loops inside of the row.
    - `rows`: with more than 1, a workgroup reduces `rows` times `elements` neighbouring rows
      together, and neighbouring invocations have neighbouring rows. Each row has `workgroup / rows`
      invocations. This is for arrays in which neighbouring rows are contiguous in memory.
    - `tile`: with more than 1, elements pass through a square tile in Workgroup memory, for results
      whose contiguous dimension differs from the operands', as in a transpose.

        #schedule.loops<workgroup = 64, workgroups = 16, elements = 4, reduce = invocation>
    """

    name = "schedule.loops"
    workgroup: IntAttr = integer(converter=IntAttr, least=1)
    workgroups: IntAttr = integer(converter=IntAttr, least=1)
    elements: IntAttr = integer(converter=IntAttr, default=1, least=1, always_printed=True)
    rows: IntAttr = integer(converter=IntAttr, default=1, least=1)
    tile: IntAttr = integer(converter=IntAttr, default=1, least=1)
    reduce: StringAttr = word(
        REDUCERS, converter=StringAttr, default="invocation", always_printed=True
    )

    def verify(self) -> None:
        super().verify()
        rows, workgroup, tile = self.rows.data, self.workgroup.data, self.tile.data
        if tile > 1 and (self.reduce.data != "invocation" or rows > 1):
            raise VerifyException(f"tile = {tile} needs reduce = invocation and rows = 1")
        if tile > 1 and (workgroup % tile or tile * tile % workgroup):
            raise VerifyException(
                f"workgroup = {workgroup} does not divide a {tile} by {tile} tile into whole rows"
            )
        if rows == 1:
            return
        if self.reduce.data != "workgroup":
            raise VerifyException(f"rows = {rows} needs reduce = workgroup")
        lanes = workgroup // rows
        if workgroup % rows or lanes & (lanes - 1):
            raise VerifyException(
                f"workgroup = {workgroup} is not rows = {rows} times a power of two"
            )


@keyed_attr_definition
class WindowAttr(ScheduleAttr):
    """
    The schedule of a sliding window, in which each invocation computes one element of a row.

    A subgroup loads each row of the input once. Invocations get further elements of the window by
    subgroup rotations. `outputs` is the number of filters that an invocation applies, `subgroups`
    the number of subgroups in a workgroup.

        #schedule.window<outputs = 4, subgroups = 4>
    """

    name = "schedule.window"
    outputs: IntAttr = integer(converter=IntAttr, least=1)
    subgroups: IntAttr = integer(converter=IntAttr, least=1)


MOST_BYTES = 16
"""Maximum number of bytes of one load."""

MOST_DIGITS = 3
"""
Maximum number of bytes of an integer that replaces a row element. binary32 represents integers
exactly up to 24 bits.
"""


@keyed_attr_definition
class RowsAttr(ScheduleAttr):
    """
    The schedule of a product of few rows with a matrix. Each invocation computes `rows` x
    `columns` elements of the result, or partial sums of them.

    - `lanes`, `subgroups`: K is divided among `lanes` invocations of a subgroup and among
      `subgroups[0]` subgroups. The other invocations, and `subgroups[1]` subgroups, compute
      other columns.
    - `bytes`: largest load of the matrix, in bytes. The elements of one load are called a unit.
    - `steps`: units that an invocation loads at a time.
    - `groups`: groups of columns that an invocation computes one after the other. If the
      invocation has only one unit along K, the row elements stay in registers.
    - `ahead`: groups of columns whose loads are issued early, if there is only one unit along K.
    - `digits`: row elements become integers of this many bytes, for packed dot products with a
      matrix of small integers. 0 keeps floats.
    - `within`: invocations that load the same unit, each for a different part of its elements.

        #schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 2, bytes = 8, subgroups = [1, 4]>
    """

    name = "schedule.rows"
    rows: IntAttr = integer(converter=IntAttr, least=1)
    columns: IntAttr = integer(converter=IntAttr, least=1)
    lanes: IntAttr = integer(converter=IntAttr, least=1)
    steps: IntAttr = integer(converter=IntAttr, least=1)
    bytes: IntAttr = integer(converter=IntAttr, default=MOST_BYTES, least=1)
    groups: IntAttr = integer(converter=IntAttr, default=1, least=1)
    ahead: IntAttr = integer(converter=IntAttr, default=1, least=1)
    digits: IntAttr = integer(converter=IntAttr, default=0)
    within: IntAttr = integer(converter=IntAttr, default=1, least=1)
    subgroups: ArrayAttr[IntAttr] = integers(2, converter=integer_array, least=1, kw_only=True)
    FUSES_ROWS = True

    @property
    def grid(self) -> tuple[int, int]:
        """Numbers of subgroups in a workgroup along K and along the columns."""
        along_k, along_columns = (count.data for count in self.subgroups)
        return along_k, along_columns

    def verify(self) -> None:
        super().verify()
        if self.digits.data not in (0, 2, MOST_DIGITS):
            raise VerifyException(f"digits must be 0, 2 or {MOST_DIGITS}, not {self.digits.data}")
        if self.bytes.data > MOST_BYTES:
            raise VerifyException(f"bytes must be at most {MOST_BYTES}, not {self.bytes.data}")


ACROSS = ("keys", "rows")


@keyed_attr_definition
class AttentionLanesAttr(ScheduleAttr):
    """
    The schedule of an attention by multiply-adds.

    - `lanes`: invocations of a subgroup that share a key. Each multiplies its part of the key with
      the queries, and they add their sums.
    - `rows`: queries of an invocation.
    - `keys`: keys that are loaded at a time.
    - `subgroups`: subgroups of a workgroup.
    - `across`: what differs between the groups of `lanes` invocations: `keys` (for the same
      queries) or `rows` of the result (for the same keys).
    - `ahead`: what is loaded one step early: 0 nothing, 1 keys, 2 keys and values.

        #schedule.attention_lanes<rows = 4, lanes = 8, keys = 2, subgroups = 4, across = keys>
    """

    name = "schedule.attention_lanes"
    rows: IntAttr = integer(converter=IntAttr, least=1)
    lanes: IntAttr = integer(converter=IntAttr, least=1)
    keys: IntAttr = integer(converter=IntAttr, least=1)
    subgroups: IntAttr = integer(converter=IntAttr, least=1)
    across: StringAttr = word(ACROSS, converter=StringAttr)
    ahead: IntAttr = integer(converter=IntAttr, default=0, least=0, most=2)

    def verify(self) -> None:
        super().verify()
        if self.lanes.data & (self.lanes.data - 1):
            raise VerifyException(f"lanes must be a power of two, not {self.lanes.data}")
