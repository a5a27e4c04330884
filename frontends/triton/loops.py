"""
Converts loops and branches.

A pointer or integer that grows by a constant amount per iteration becomes its first value plus a
multiple of the loop index, and is not carried. Other pointers and integers are carried as one
index if their steps do not change, else as a tile. The converted body shows if the assumption
about a carried value is right; if not, the body is converted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.dialects.schedule.symbolic_sizes import exact_quotient, is_dynamic
from xdsl_spirv.frontends.triton.converter import Converter, converts, shape_of
from xdsl_spirv.frontends.triton.dialect import element_of
from xdsl_spirv.frontends.triton.forms import (
    Affine,
    Descriptor,
    Form,
    Mask,
    Pointer,
    Sum,
    numbers_of,
)
from xdsl_spirv.frontends.triton.memory import flat_numbers
from xdsl_spirv.frontends.triton.writing import INDEX


@dataclass
class Carried:
    """
    A value that a loop carries.

    The value grows by `growth` per iteration, or is carried as an index, a tile or a scalar.
    """

    first: Form
    form: Affine | None
    """The value inside the loop as an affine tensor, or None if it has another form."""
    growth: Sum | None = None

    @property
    def is_passed(self) -> bool:
        """True if the value is an argument of the loop's body."""
        return self.growth is None


def _affine(form: Form) -> Affine | None:
    """
    Returns the integers, or the offsets of pointers, in affine form. Returns None for other values.
    """
    if isinstance(form, Pointer) and form.rest is None:
        return form.offset
    return form if isinstance(form, Affine) else None


def _with(form: Form, start: Sum) -> Form:
    """Returns integers or pointers with another start value."""
    if isinstance(form, Pointer):
        return replace(form, offset=replace(form.offset, start=start))
    assert isinstance(form, Affine)
    return replace(form, start=start)


class Loop:
    """Converts one `scf.for` of Triton."""

    def __init__(self, c: Converter, op: scf.ForOp):
        self.c, self.op, self.w = c, op, c.writer
        self.lower, self.upper, self.step = (c.total(v) for v in (op.lb, op.ub, op.step))
        self.counts = is_dynamic(self.step)
        """True if the new loop counts iterations from 0, because the step is not a constant."""
        firsts = [c.forms[value] for value in op.iter_args]
        self.carried = [Carried(first, _affine(first)) for first in firsts]

    def convert(self) -> None:
        """Appends a loop of tile operations that computes the same as Triton's `scf.for`."""
        w = self.w
        if isinstance(self.step, int) and self.step < 1:
            w.refuse("a loop that counts down is not supported", "count up, and subtract the index")
        ends = (0, self.trips(), 1) if self.counts else (self.lower, self.upper, self.step)
        lower, upper, step = map(w.index, ends)
        while True:
            block = self.body()
            yielded = self.op.body.block.last_op
            assert yielded is not None
            with w.inside(block):
                w.at(yielded)
                if self.settle([self.c.forms[v] for v in yielded.operands]):
                    values = self.values(yielded.operands)
                    w.insert(scf.YieldOp(*values))
                    break
            block.erase(safe_erase=False)
        w.at(self.op)
        made = scf.ForOp(lower, upper, step, self.values(self.op.iter_args), Region(block))
        w.insert(made)
        self.results(list(made.results))

    def trips(self) -> Sum:
        """Returns the number of iterations."""
        w, span = self.w, self.upper - self.lower
        if isinstance(span, int) and isinstance(self.step, int):
            return max(0, -(-span // self.step))
        zero = w.constant(0)
        rounded = w.index(span + self.step - 1)
        most = w.add(arith.MaxSIOp(rounded, zero))
        return w.number(w.add(arith.DivSIOp(most, w.index(self.step))), True)

    def body(self) -> Block:
        """Converts the body under the current assumptions about carried values."""
        c, w, source = self.c, self.w, self.op.body.block
        self.mark = len(w.numbers)
        arguments = zip(source.args[1:], self.carried, strict=True)
        types = [INDEX if p.form else self._type(a, p) for a, p in arguments if p.is_passed]
        block = Block(arg_types=[INDEX, *types])
        with w.inside(block):
            rising = w.is_not_negative(self.lower) or self.counts
            index = w.number(block.args[0], rising)
            at = self.lower + index * self.step if self.counts else index
            c.forms[source.args[0]] = Affine.uniform(at)
            arguments = iter(block.args[1:])
            for argument, carried in zip(source.args[1:], self.carried, strict=True):
                if carried.growth is not None:
                    assert carried.form is not None
                    grown = self._grown(carried.growth, index)
                    c.forms[argument] = _with(carried.first, carried.form.start + grown)
                    continue
                given = next(arguments)
                given.name_hint = argument.name_hint
                c.forms[argument] = self._inside(carried, given, argument)
            for op in source.ops:
                w.at(op)
                if op.name != "scf.yield":
                    c.convert(op)
        return block

    def _type(self, argument: SSAValue, carried: Carried) -> Attribute:
        """Returns the type of a value that is carried as a tile or scalar."""
        first, element = carried.first, element_of(argument.type)
        if isinstance(first, Descriptor):
            self.w.refuse("a loop that changes a descriptor is not supported")
        if isinstance(first, Pointer):
            element = i32
        shape = shape_of(argument)
        return tile.tile_type(shape, element) if shape else element

    def _inside(self, carried: Carried, given: SSAValue, argument: SSAValue) -> Form:
        first = carried.first
        if carried.form is not None:
            return _with(first, self.w.number(given))
        if isinstance(first, Pointer):
            nowhere = Affine.uniform(0, first.offset.shape)
            return Pointer(first.argument, nowhere, given)
        return Mask((), (given,)) if given.type == i1 else given

    def _grown(self, growth: Sum, index: Sum) -> Sum:
        """Returns the total growth before the iteration with this loop index."""
        if self.counts:
            return growth * index
        share = exact_quotient(growth, self.step)
        assert share is not None
        return share * (index - self.lower)

    def settle(self, yielded: Sequence[Form]) -> bool:
        """True if the yielded values confirm the assumptions; else corrects the assumptions."""
        holds = True
        forms = [self.c.forms[a] for a in self.op.body.block.args[1:]]
        for carried, now, then in zip(self.carried, forms, yielded, strict=True):
            if isinstance(now, Pointer) and (
                not isinstance(then, Pointer) or then.argument != now.argument
            ):
                self.w.refuse("a loop that moves a pointer to another buffer is not supported")
            if carried.form is None:
                continue
            a, b = _affine(now), _affine(then)
            assert a is not None
            if b is None or b.steps != a.steps:
                carried.form, carried.growth, holds = None, None, False
            elif carried.growth is None:
                growth = b.start - a.start
                fits = self.counts or exact_quotient(growth, self.step) is not None
                known = (self.w.numbers[number] for number in numbers_of(growth))
                if fits and all(number < self.mark for number in known):
                    carried.growth, holds = growth, False
        return holds

    def values(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Returns the values for the next iteration: indices for sums, else tiles or scalars."""
        passed: list[SSAValue] = []
        for carried, value in zip(self.carried, values, strict=True):
            if not carried.is_passed:
                continue
            form = self.c.forms[value]
            affine = _affine(form)
            if carried.form is not None:
                assert affine is not None
                passed.append(self.w.index(affine.start))
            elif isinstance(carried.first, Pointer):
                assert isinstance(form, Pointer)
                passed.append(flat_numbers(self.w, form))
            else:
                passed.append(self.c.tile(value))
        return passed

    def results(self, made: list[SSAValue]) -> None:
        """Records the representations of the loop's results."""
        given = iter(made)
        for result, carried in zip(self.op.results, self.carried, strict=True):
            if carried.growth is not None:
                assert carried.form is not None
                if carried.growth != 0 and result.first_use is not None:
                    total = carried.growth * self.trips()
                    self.c.forms[result] = _with(carried.first, carried.form.start + total)
                else:
                    self.c.forms[result] = carried.first
                continue
            self.c.forms[result] = self._inside(carried, next(given), result)


@converts("scf.for")
def _for(c: Converter, op: Operation) -> None:
    assert isinstance(op, scf.ForOp)
    Loop(c, op).convert()


@converts("scf.if")
def _if(c: Converter, op: Operation) -> None:
    """
    Converts a branch. If both values of a result are affine with equal steps, the new branch
    returns only the start value. Otherwise, it returns a tile or scalar.
    """
    assert isinstance(op, scf.IfOp)
    w, condition = c.writer, c.operand(op.cond)
    arms: list[Block] = []
    ends: list[Sequence[SSAValue]] = []
    for region in (op.true_region, op.false_region):
        block = Block()
        ends.append(())
        with w.inside(block):
            for inner in region.block.ops if region.blocks else ():
                w.at(inner)
                if inner.name == "scf.yield":
                    ends[-1] = inner.operands
                else:
                    c.convert(inner)
        arms.append(block)
    w.at(op)
    forms: list[Form | None] = []
    for first, second in zip(*ends, strict=True) if op.results else ():
        a, b = _affine(c.forms[first]), _affine(c.forms[second])
        forms.append(c.forms[first] if a and b and a.steps == b.steps else None)
        targets = {form.argument for form in (c.forms[first], c.forms[second])
                   if isinstance(form, Pointer)}  # fmt: skip
        if len(targets) > 1 or (targets and forms[-1] is None):
            w.refuse("a branch between pointers of different buffers or steps is not supported")
    for block, end in zip(arms, ends, strict=True):
        with w.inside(block):
            values = [_pass_on(c, value, form) for value, form in zip(end, forms, strict=True)]
            w.insert(scf.YieldOp(*values))
    types = [value.type for value in cast(Operation, arms[0].last_op).operands]
    made = scf.IfOp(condition, types, Region(arms[0]), Region(arms[1]))
    w.insert(made)
    for result, value, form in zip(op.results, made.results, forms, strict=True):
        if form is not None:
            c.forms[result] = _with(form, w.number(value))
        else:
            c.define(result, value)


def _pass_on(c: Converter, value: SSAValue, form: Form | None) -> SSAValue:
    if form is not None:
        affine = _affine(c.forms[value])
        assert affine is not None
        return c.writer.index(affine.start)
    return c.tile(value)
