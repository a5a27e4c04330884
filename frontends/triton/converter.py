"""
Converts the operations of a Triton kernel.

An integer, pointer or mask is represented as a sum if possible, else as a value of the tile
program. Sums become operations only if another operation needs their value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, TensorType, i1, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.dialects.schedule.symbolic_sizes import exact_quotient, is_dynamic
from xdsl_spirv.frontends.errors import UNFORESEEN, FrontendError
from xdsl_spirv.frontends.triton.dialect import PointerType, element_of
from xdsl_spirv.frontends.triton.elements import compute
from xdsl_spirv.frontends.triton.forms import (
    Affine,
    Compare,
    Form,
    Mask,
    Pointer,
    Sum,
    is_wide,
    to_32_bits,
)
from xdsl_spirv.frontends.triton.writing import Writer

SUMS = (i32, i64)
"""Integer types that may be represented as sums."""

Handler: TypeAlias = Callable[["Converter", Operation], None]

HANDLERS: dict[str, Handler] = {}
"""Conversions of operations that are not elementwise, by name."""


def converts(*names: str) -> Callable[[Handler], Handler]:
    """Returns a decorator that registers a conversion of operations with these names."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


class Converter:
    """Converts a kernel; `forms` maps Triton's values to their representations."""

    def __init__(self, writer: Writer, arguments: list[SSAValue]):
        self.writer, self.arguments = writer, arguments
        self.forms: dict[SSAValue, Form] = {}
        self.converted: set[Block] = set()
        """Blocks of the kernel that were converted, except blocks that only return."""

    # Values

    def operand(self, value: SSAValue) -> SSAValue:
        """Returns an operand for an elementwise operation: a tile or a scalar."""
        form, w = self.forms[value], self.writer
        if isinstance(form, Affine):
            if form.is_uniform:
                return w.scalar(form.start, element_of(value.type))
            return w.tile(form, element_of(value.type))
        if isinstance(form, Mask):
            return self.materialize(form)
        if not isinstance(form, SSAValue):
            w.refuse("a pointer is used as a number")
        return w.splats.get(form, form)

    def tile(self, value: SSAValue) -> SSAValue:
        """Returns a value as a tile."""
        made = self.operand(value)
        if isinstance(made.type, tile.TileType) or not isinstance(value.type, TensorType):
            return made
        return self.writer.full(made, value.type.get_shape())

    def materialize(self, mask: Mask) -> SSAValue:
        """Returns a mask as a tile of booleans, or as a boolean."""
        w, total = self.writer, None
        for part in mask.parts:
            if isinstance(part, SSAValue):
                made = part
            else:
                type = i64 if is_wide(part.a, part.b) else i32
                sides = [w.scalar(s.start, type) if s.is_uniform else w.tile(s, type)
                         for s in (part.a, part.b)]  # fmt: skip

                def compare(values: list[SSAValue], part: Compare = part) -> SSAValue:
                    return w.add(arith.CmpiOp(values[0], values[1], part.predicate))

                made = w.map(mask.shape, i1, sides, compare)
            both = lambda values: w.add(arith.AndIOp(values[0], values[1]))  # noqa: E731
            total = made if total is None else w.map(mask.shape, i1, [total, made], both)
        return total or w.add(arith.ConstantOp(IntegerAttr(1, i1)))

    def total(self, value: SSAValue) -> Sum:
        """Returns an integer as a `Sum` (a sum of products of numbers)."""
        form = self.forms[value]
        assert isinstance(form, Affine)
        return form.start

    def define(self, result: SSAValue, value: SSAValue) -> None:
        """Records a result's converted value. A scalar integer may then be a term of a `Sum`."""
        if result.type in SUMS:
            self.forms[result] = Affine.uniform(self.writer.number(value))
        elif result.type == i1:
            self.forms[result] = Mask((), (value,))
        else:
            self.forms[result] = value

    # Operations

    def blocks(self, block: Block) -> None:
        """Converts a block and its successors, up to `return`. Refuses a second conversion."""
        if block in self.converted:
            self.writer.refuse(
                "branches that join at a later line are not supported",
                "a `return` in a nested branch causes them: write `if a and b: return`",
            )
        if not _returns(block):
            self.converted.add(block)
        for op in block.ops:
            self.writer.at(op)
            match op.name:
                case "tt.return":
                    return
                case "cf.br" if not op.operands:
                    return self.blocks(op.successors[0])
                case "cf.cond_br" if len(op.operands) == 1:
                    return self._branch(op)
                case _:
                    self.convert(op)

    def _branch(self, op: Operation) -> None:
        """Converts a branch, one arm of which returns early, to an `scf.if` with both arms."""
        w, condition = self.writer, self.operand(op.operands[0])
        successors = list(op.successors)
        if _returns(successors[0]):
            true = w.add(arith.ConstantOp(IntegerAttr(1, i1)))
            condition = w.add(arith.XOrIOp(condition, true))
            successors.reverse()
        arms: list[Region] = []
        for successor in successors:
            arm = Block()
            with w.inside(arm):
                self.blocks(successor)
                w.insert(scf.YieldOp())
            arms.append(Region(arm))
        rest = None if _returns(successors[1]) else arms[1]
        w.insert(scf.IfOp(condition, [], arms[0], rest))

    def convert(self, op: Operation) -> None:
        """Converts one operation. Raises `FrontendError` for a malformed operation."""
        handler = HANDLERS.get(op.name)
        try:
            if handler is not None:
                handler(self, op)
            elif not self._as_sum(op):
                self.elements(op)
        except FrontendError:
            raise
        except UNFORESEEN as error:
            # TTIR is not verified, so operands, attributes and types may be wrong.
            self.writer.refuse(
                f"{op.name} is not in the form that Triton writes: {type(error).__name__}: {error}"
            )

    def elements(self, op: Operation) -> None:
        """Converts an elementwise operation."""
        if len(op.results) != 1 or op.regions:
            self.writer.refuse(f"{op.name} is not supported")
        result = op.results[0]
        element, shape = element_of(result.type), shape_of(result)
        if any(isinstance(element_of(v.type), PointerType) for v in (*op.operands, result)):
            to = " to different buffers" if op.name == "arith.select" else ""
            self.writer.refuse(f"{op.name} of pointers{to} is not supported")
        values = [self.operand(value) for value in op.operands]
        made = self.writer.map(
            shape, element, values, lambda given: compute(self.writer, op, given, element)
        )
        self.define(result, made)

    def _as_sum(self, op: Operation) -> bool:
        """Converts an operation to a sum of products or a mask. Returns False if impossible."""
        forms = [self.forms[value] for value in op.operands]
        if len(op.results) != 1:
            return False
        made: Form | None = None
        if all(isinstance(form, Mask) for form in forms) and op.name == "arith.andi":
            a, b = cast(list[Mask], forms)
            made = Mask(shape_of(op.results[0]), a.parts + b.parts)
        elif all(isinstance(form, Affine) for form in forms):
            made = self._arithmetic(op, cast(list[Affine], forms))
            if isinstance(made, Affine) and element_of(op.results[0].type) == i32 and is_wide(made):
                steps = tuple(map(to_32_bits, made.steps))
                made = Affine(made.shape, to_32_bits(made.start), steps)
        elif op.name == "arith.select" and isinstance(forms[0], Mask) and not forms[0].shape:
            made = self._choose(op, forms[1], forms[2])
        if made is not None:
            self.forms[op.results[0]] = made
        return made is not None

    def _arithmetic(self, op: Operation, forms: list[Affine]) -> Form | None:
        w, name = self.writer, op.name.removeprefix("arith.")
        match name, forms:
            case "addi", [a, b]:
                return a + b
            case "subi", [a, b]:
                return a + -b
            case "muli", [a, b] if b.is_uniform:
                return a.scale(b.start)
            case "muli", [a, b] if a.is_uniform:
                return b.scale(a.start)
            case "shli", [a, Affine(start=int(places)) as b] if b.is_uniform and 0 < places < 31:
                return a.scale(1 << places)
            case (("extsi" | "trunci"), [a]) if op.results[0].type in SUMS or a.shape:
                return a if element_of(op.results[0].type) in SUMS else None
            case "extui", [a] if a.is_uniform and w.is_not_negative(a.start):
                return a
            case "cmpi", [a, b]:
                return self._compare(op, a, b)
            case "remsi", [a, b] if not a.is_uniform:
                return self._wrap(a, b)
            case _, [a, b] if a.is_uniform and b.is_uniform:
                return self._divide(op, a, b)
            case _:
                return None

    def _wrap(self, a: Affine, b: Affine) -> Affine | None:
        """
        Rewrites (n * x + index) % (n * m) to n * (x % m) + index, for 0 <= index < n.

        Kernels use this form to wrap rows around.
        """
        w, around = self.writer, b.start
        found = [axis for axis, step in enumerate(a.steps) if step != 0]
        if len(found) > 1 or a.steps[found[0]] != 1 or not b.is_uniform:
            return None
        size = a.shape[found[0]]
        start = exact_quotient(a.start, size)
        if (
            is_dynamic(around)
            or around < 1
            or around % size
            or start is None
            or not w.is_not_negative(start)
        ):
            return None
        rest = w.add(arith.RemSIOp(w.index(start), w.constant(around // size)))
        return replace(a, start=w.number(rest, not_negative=True) * size)

    def _compare(self, op: Operation, a: Affine, b: Affine) -> Form | None:
        w = self.writer
        predicate = arith.CMPI_COMPARISON_OPERATIONS[cast(arith.CmpiOp, op).predicate.value.data]
        if predicate[0] == "u":
            sides = [s for form in (a, b) for s in (form.start, *form.steps)]
            if not all(map(w.is_not_negative, sides)):
                return None
            predicate = f"s{predicate[1:]}"
        part = Compare(predicate, a, b)
        if a.is_uniform and b.is_uniform:
            one = Compare(predicate, Affine.uniform(a.start), Affine.uniform(b.start))
            return Mask(a.shape, (w.compare(one),))
        return Mask(a.shape, (part,))

    def _divide(self, op: Operation, a: Affine, b: Affine) -> Form | None:
        """Converts quotients, remainders, minima and maxima of sums; returns None if impossible."""
        w, x, y = self.writer, a.start, b.start
        both = w.is_not_negative(a.start) and w.is_not_negative(b.start)
        name = op.name.removeprefix("arith.")
        if name in ("divui", "remui") and both:
            name = name.replace("u", "s")
        if name not in FOLDED:
            return None
        kind, fold = FOLDED[name]
        if isinstance(x, int) and isinstance(y, int) and (y or name in ("minsi", "maxsi")):
            return Affine.uniform(fold(x, y), a.shape)
        sure = w.is_not_negative(a.start) if name == "remsi" else both
        made = w.add(kind(w.index(a.start), w.index(b.start)))  # pyright: ignore[reportCallIssue]
        return Affine.uniform(w.number(made, sure), a.shape)

    def _choose(self, op: Operation, a: Form, b: Form) -> Form | None:
        """Selects one of two pointers or integers with equal steps; returns None if impossible."""
        w, condition = self.writer, self.operand(op.operands[0])
        first = a.offset if isinstance(a, Pointer) else a
        second = b.offset if isinstance(b, Pointer) else b
        if not isinstance(first, Affine) or not isinstance(second, Affine):
            return None
        same = not isinstance(a, Pointer) or (
            isinstance(b, Pointer) and (a.argument, a.rest) == (b.argument, b.rest)
        )
        if first.steps != second.steps or not same:
            return None
        choice = arith.SelectOp(condition, w.index(first.start), w.index(second.start))
        chosen = replace(first, start=w.number(w.add(choice)))
        return replace(a, offset=chosen) if isinstance(a, Pointer) else chosen


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Returns the sizes of a tensor, or an empty tuple for a scalar."""
    type = value.type
    return tuple(type.get_shape()) if isinstance(type, TensorType) else ()


def _returns(block: Block) -> bool:
    return block.first_op is not None and block.first_op.name == "tt.return"


def _truncate(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


FOLDED: dict[str, tuple[type[Operation], Callable[[int, int], int]]] = {
    "divsi": (arith.DivSIOp, _truncate),
    "remsi": (arith.RemSIOp, lambda x, y: x - y * _truncate(x, y)),
    "minsi": (arith.MinSIOp, min),
    "maxsi": (arith.MaxSIOp, max),
}
