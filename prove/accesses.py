"""
Defines the records of a kernel's symbolic execution: accesses, the orders that barriers guarantee,
and demands.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.interpreter.checks.memory_model import BUFFERS, IMAGES, WORKGROUPS, Facts
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.interpreter.pointers import accessed_pointer, is_write, root_of, storage_of
from xdsl_spirv.prove.digits import state_digits
from xdsl_spirv.prove.executing import INVOCATION, Place
from xdsl_spirv.prove.values import Term


@dataclass(frozen=True)
class Access:
    """One access to memory that invocations share. `guard` is its path condition."""

    op: Operation
    place: Place
    guard: Term
    write: bool
    atomic: bool
    facts: Facts
    intervals: frozenset[int]
    """Ids of the intervals between workgroup barriers that may contain the access."""
    near: frozenset[int]
    """Ids of the intervals between subgroup barriers that may contain the access."""
    matrix: Attribute | None = None
    """Type of the cooperative matrix if the whole subgroup accesses it together, or None."""

    split: tuple[tuple[tuple[int, Term], ...], ...] = ()
    """
    For each index, its mixed-radix digits as (factor, digit): row * 300 + column has the digits
    (300, row) and (1, column).
    """
    free: tuple[Term, ...] = ()
    """
    Symbols of the row and column of a cooperative matrix's element. The access reaches the element
    at every row and column.
    """
    stated: tuple[Term, ...] = ()
    """
    Facts about the mixed-radix digits of the indices. If there are none, `digits` derives them.
    """

    @cached_property
    def digits(self) -> Sequence[Term]:
        """Returns facts about the mixed-radix digits of the indices."""
        return self.stated or [
            fact for index in self.place.path for fact in state_digits(index.term)
        ]

    @property
    def kind(self) -> int:
        """Kind of memory, as a bit of barrier semantics: Workgroup memory, images or buffers."""
        return {StorageClass.Workgroup: WORKGROUPS, StorageClass.Image: IMAGES}.get(
            self.place.storage, BUFFERS
        )


@dataclass(frozen=True)
class Order:
    """The order of accesses that the barriers of one scope guarantee for one storage class."""

    level: int
    runs: bool
    available: bool
    visible: bool

    def holds(self, *accesses: Access) -> bool:
        """True if the barriers between these accesses order them."""
        return self.runs and all(
            not a.facts.private
            and (self.available if a.write else self.visible)
            | ((a.facts.available if a.write else a.facts.visible) >= self.level)
            for a in accesses
        )


@dataclass(frozen=True)
class Ticket:
    """The result of an atomic on a counter that only grows, so that each result is unique."""

    term: Term
    guard: Term
    place: Place


@dataclass(frozen=True)
class Demand:
    """A condition `wrong` that must be false whenever an invocation executes the instruction."""

    question: str
    what: str
    op: Operation
    wrong: Term
    length: Term | None = None
    """Length of the runtime array that bounds an index, or None."""


def find_counters(module: spv.ModuleOp, written: Iterable[Hashable]) -> set[Hashable]:
    """
    Returns the given variables that are changed only by atomic additions of positive constants.
    """
    other = set[Hashable]()
    for op in module.walk():
        pointer = accessed_pointer(op, True) if is_write(op) else None
        if pointer is None or storage_of(pointer) in INVOCATION:
            continue
        grows = isinstance(op, spv.AtomicIIncrementOp)
        if isinstance(op, spv.AtomicIAddOp):
            made = op.operands[1].owner
            if isinstance(made, spv.ConstantOp):
                grows = 0 < attribute_array(made.value).reshape(-1).view("i4")[0]
        if not grows:
            other.add(root_of(pointer))
    # A write through an unknown pointer may change any variable.
    return set() if None in other else set(written) - other
