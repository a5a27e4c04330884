"""
Formats values for an editor, as seen by the invocation in focus.

A value that is equal in all active invocations is shown once. A divergent number is shown with its
range, and can be expanded to one line per invocation. Only the elements of an array that the
editor requests are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.inspection import MATRICES, View
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.stepper import Moment
from xdsl_spirv.runtime.errors import ProgramError

Shown = dict[str, Any]
"""A `Variable` of the Debug Adapter Protocol."""

UNKNOWN = (InterpreterError, ProgramError, VerifyException, ArithmeticError, LookupError,
           TypeError, ValueError)  # fmt: skip


@dataclass
class Shower:
    """Formats values at one stop. `references` lists the children of expandable values."""

    moment: Moment
    references: list[Callable[[int, int | None], list[Shown]]] = field(
        default_factory=list[Callable[[int, "int | None"], list[Shown]]]
    )

    def refer(self, children: Callable[[int, int | None], list[Shown]]) -> int:
        """Registers a list of children; returns the number by which an editor requests it."""
        self.references.append(children)
        return len(self.references)

    def show(self, view: View, focus: tuple[int, int], path: str = "") -> Shown:
        """Formats a variable for the (workgroup, invocation) in focus; `path` is its expression."""
        path = path or view.name
        shown: Shown = {"name": view.name, "value": "", "variablesReference": 0,
                        "evaluateName": path}  # fmt: skip
        try:
            shown["type"] = type_text(view)
            return shown | self._content(view, focus, path)
        except UNKNOWN as error:
            cause = error.cause if isinstance(error, InterpreterError) else str(error)
            return shown | {"value": f"<{cause}>"}

    def show_value(self, value: Any, focus: tuple[int, int], mask: Array) -> Shown:
        """Formats a computed value for the focus; `mask` selects the invocations with a value."""
        array = np.broadcast_to(np.asarray(value), self.moment.batch.shape)
        numbers, known = self._of_workgroup(array, focus[0]), self._of_workgroup(mask, focus[0])
        return self._numbers(numbers, np.zeros_like(known), known, focus)

    def _content(self, view: View, focus: tuple[int, int], path: str) -> Shown:
        if isinstance(view.plain, MATRICES):
            return self._matrix(view, focus)
        if isinstance(view.plain, spv.PointerType):
            return self._pointer(view, focus, path)
        count = view.count()
        shown: Shown = {"value": type_text(view)}
        if view.is_number:
            shown = self._numbers(*self._read(view, focus), focus)
            if not count:
                return shown
            shown["variablesReference"] = 0

        def children(start: int, length: int | None) -> list[Shown]:
            return [
                self.show(part, focus, path + part.name if part.name[0] == "[" else
                          f"{path}.{part.name}")
                for part in view.parts(start, length)
            ]  # fmt: skip

        if count:
            named = isinstance(view.plain, spv.StructType | VectorType)
            shown["variablesReference"] = self.refer(children)
            shown["namedVariables" if named else "indexedVariables"] = count
        return shown

    def masks(self, focus: tuple[int, int]) -> tuple[Array, Array]:
        """Returns masks of the workgroup's active invocations, and of the invocation in focus."""
        batch, row = self.moment.batch, self.moment.row(focus[0])
        several, one = np.zeros(batch.shape, np.bool_), np.zeros(batch.shape, np.bool_)
        if row is not None:
            several[row] = batch.active()[min(row, len(batch.active()) - 1)]
            one[row].reshape(-1)[focus[1]] = True
        return several | one, one

    def _read(self, view: View, focus: tuple[int, int]) -> tuple[Array, Array, Array]:
        """
        Reads a variable in the invocations of the workgroup in focus.

        Returns arrays whose first axis is the invocation: the numbers, a mask of undefined
        numbers, and a mask of the invocations in which the variable could be read.
        """
        several, one = self.masks(focus)
        try:
            value, mask = np.asarray(view.read(several)), several
        except InterpreterError:
            value, mask = np.asarray(view.read(one)), one
        unknown = view.find_undefined(mask)
        full = (
            np.broadcast_to(array, mask.shape + array.shape[3:]) for array in (value, unknown, mask)
        )
        numbers, undefined, known = (self._of_workgroup(array, focus[0]) for array in full)
        return numbers, undefined.reshape(len(numbers), -1).any(axis=1), known

    def _numbers(
        self, numbers: Array, unknown: Array, known: Array, focus: tuple[int, int]
    ) -> Shown:
        """Formats a scalar or vector; the arrays are the results of `_read`."""
        active = self.moment.active(focus[0])
        chosen = known & active if (known & active).any() else known
        compared, some = numbers[chosen], unknown[chosen]

        def text(number: int) -> str:
            return "undefined" if unknown[number] else number_text(numbers[number])

        uniform = bool(_same(compared) and some.all() == some.any())
        value = text(focus[1])
        shown: Shown = {"value": value, "variablesReference": 0,
                        "presentationHint": {"attributes": ["uniform"]}}  # fmt: skip
        if uniform:
            return shown
        defined = compared[~some]
        ordered = defined.ndim == 1 and defined.dtype != np.bool_ and defined.size
        least, most = (defined.min(), defined.max()) if ordered else (0, 0)
        span = f"{number_text(least)} to {number_text(most)}" if ordered else "differs"

        def by_invocation(start: int, length: int | None) -> list[Shown]:
            end = len(numbers) if length is None else min(start + length, len(numbers))
            return [
                {"name": f"invocation {n}" + " (inactive)" * (not active[n]),
                 "value": text(n), "variablesReference": 0}
                for n in range(start, end)
            ]  # fmt: skip

        return shown | {
            "value": f"{value}   ({span} by invocation)",
            "presentationHint": {"attributes": ["divergent"]},
            "variablesReference": self.refer(by_invocation),
            "indexedVariables": len(numbers),
        }

    def _matrix(self, view: View, focus: tuple[int, int]) -> Shown:
        matrix = np.asarray(view.read())
        row = self.moment.row(focus[0]) or 0
        subgroup = focus[1] // self.moment.batch.lanes
        matrix = matrix[min(row, matrix.shape[0] - 1), min(subgroup, matrix.shape[1] - 1)]

        def rows(start: int, length: int | None) -> list[Shown]:
            end = len(matrix) if length is None else min(start + length, len(matrix))
            return [
                {"name": f"row {n}", "value": number_text(matrix[n]), "variablesReference": 0}
                for n in range(start, end)
            ]

        return {
            "value": type_text(view),
            "variablesReference": self.refer(rows),
            "indexedVariables": len(matrix),
        }

    def _pointer(self, view: View, focus: tuple[int, int], path: str) -> Shown:
        target = view.target()
        if target is None:
            return {"value": "<no pointer>"}
        pointer = target.pointer
        text = "pointer"
        if isinstance(pointer, Pointer):
            address = np.broadcast_to(pointer.address(), self.moment.batch.shape)
            byte = self._of_workgroup(address, focus[0])[focus[1]]
            text = f"pointer into {pointer.memory.label}, byte {byte}"
        show = self.refer(lambda start, length: [self.show(target, focus, f"*{path}")])
        return {"value": text, "variablesReference": show}

    def _of_workgroup(self, full: Array, workgroup: int) -> Array:
        """Selects one workgroup of an array over the batch; the first axis is the invocation."""
        batch, row = self.moment.batch, self.moment.row(workgroup) or 0
        return full[row].reshape(-1, *full.shape[3:])[: batch.geometry.invocations]


def _same(values: Array) -> bool:
    """True if all elements have the same bits."""
    first = np.ascontiguousarray(values[:1]).tobytes()
    return np.ascontiguousarray(values).tobytes() == first * len(values)


def number_text(value: Any) -> str:
    """Formats a number, or a vector of numbers."""
    array = np.asarray(value)
    if array.ndim:
        return f"({', '.join(map(number_text, array))})"
    return str(array[()]).lower() if array.dtype == np.bool_ else str(array[()])


def type_text(view: View) -> str:
    """Returns a short name of a variable's type."""
    match view.plain:
        case spv.StructType() as struct:
            return struct.identifier.data or "struct"
        case spv.ArrayType() | spv.RuntimeArrayType():
            return f"{type_text(view.part(0))}[{view.count()}]" if view.count() else "array"
        case spv.MatrixType() as matrix:
            return f"matrix of {matrix.columns.data} columns"
        case VectorType():
            return f"vector of {view.count()} {type_text(view.part(0))}"
        case IntegerType() as integer if integer.width.data > 1:
            return f"{'u' if view.is_unsigned() else 'i'}{integer.width.data}"
        case type:
            return str(type).replace("!spirv.", "")
