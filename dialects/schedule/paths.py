"""
Schedules without matrices, as data in the IR.

`loops` divides everything that is not a contraction among invocations, `window` exchanges
neighbours of sliding windows in registers, `rows` streams the other operand of few rows through
registers once, `attention_lanes` computes an attention by multiply-adds.
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

    `workgroup` is how many invocations a workgroup has, `workgroups` how many of them are launched;
    they take rows (points of the loops that reductions do not share) in turn until none is left.
    `elements` is how many neighbouring elements an invocation computes at a time, and loads and
    stores as a vector where they lie side by side. `reduce` is who computes a reduction: an
    invocation by itself, the invocations of a subgroup, or the invocations of a workgroup; a row's
    other loops are divided among the same ones. With `rows` more than 1 a workgroup reduces `rows`
    times `elements` neighbouring rows side by side: neighbouring invocations belong to neighbouring
    rows, for arrays in which those lie side by side, and a row has `workgroup / rows` invocations.
    With `tile` more than 1, elements go through a square of so many by so many in Workgroup memory,
    for results that lie along another loop than their operands, as a transpose's.

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
            raise VerifyException(f"tile = {tile} needs reduce = invocation, without rows")
        if tile > 1 and (workgroup % tile or tile * tile % workgroup):
            raise VerifyException(
                f"workgroup = {workgroup} is not a number of whole rows of a {tile} by {tile} tile"
            )
        if rows == 1:
            return
        if self.reduce.data != "workgroup":
            raise VerifyException(f"rows = {rows} side by side need reduce = workgroup")
        lanes = workgroup // rows
        if workgroup % rows or lanes & (lanes - 1):
            raise VerifyException(
                f"workgroup = {workgroup} is not rows = {rows} times a power of two"
            )


@keyed_attr_definition
class WindowAttr(ScheduleAttr):
    """
    A subgroup computes neighbours in a row of the result, one for each invocation.

    It loads the row of the input that they slide over once, and every further element of a window
    comes from another invocation by a rotation. `outputs` is how many filters an invocation applies
    to its elements, `subgroups` how many subgroups a workgroup has.

        #schedule.window<outputs = 4, subgroups = 4>
    """

    name = "schedule.window"
    outputs: IntAttr = integer(converter=IntAttr, least=1)
    subgroups: IntAttr = integer(converter=IntAttr, least=1)


MOST_BYTES = 16
"""Most bytes of a load."""

MOST_DIGITS = 3
"""Largest number of digits: already more than binary32 needs."""


@keyed_attr_definition
class RowsAttr(ScheduleAttr):
    """
    Invocations compute `rows` x `columns` elements of the result each, or a part of their sums.

    K is divided among `lanes` invocations of a subgroup and among `subgroups[0]` subgroups; the
    other invocations of a subgroup, and `subgroups[1]` subgroups, have other columns. An invocation
    takes K in units of one load, of at most `bytes`, of the operand that streams, and `steps` units
    at a time, so that as many loads are under way. Its columns are the first of `groups` groups,
    which it computes one after the other: if such a group is all that an invocation has of K, the
    elements of the rows stay in registers, and the loads of `ahead` groups are under way while one
    is computed. With `digits` the rows' elements become integers of so many bytes where the other
    operand's are small integers, of which packed dot products are computed. `within` lanes share
    each unit: all of them load it, and each computes other elements of it.

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
    READS_COLUMNS = True

    @property
    def grid(self) -> tuple[int, int]:
        """Subgroups of a workgroup, along K and along the columns."""
        along_k, along_columns = (count.data for count in self.subgroups)
        return along_k, along_columns

    def verify(self) -> None:
        super().verify()
        if self.digits.data not in (0, 2, MOST_DIGITS):
            raise VerifyException(
                f"digits is {self.digits.data}: 0, 2 or {MOST_DIGITS} are possible"
            )
        if self.bytes.data > MOST_BYTES:
            raise VerifyException(f"bytes is {self.bytes.data}: a load has at most {MOST_BYTES}")


ACROSS = ("keys", "rows")


@keyed_attr_definition
class AttentionLanesAttr(ScheduleAttr):
    """
    The schedule of an attention by multiply-adds.

    `lanes` invocations of a subgroup share a key: each multiplies its part of it with `rows`
    queries, and they add up what they have. `keys` are loaded at a time. A workgroup has
    `subgroups`; its groups of lanes lie `across` keys, all with the same queries, or across rows of
    the result, all with the same keys. `ahead` says what is loaded a step before it is used: 0
    nothing, 1 keys, 2 keys and values.

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
            raise VerifyException(f"lanes is {self.lanes.data}, must be a power of two")
