"""
Executes DebugPrintf, and refuses or ignores other instructions that the dialect lacks.

A DebugPrintf prints once for each active invocation, in the order of workgroups and invocations,
to `Options.print`. `%v3f` prints a vector. A length modifier is ignored, because the value's type
determines the length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv import SPIRV, raw
from xdsl_spirv.grammar import grammar
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.numbers import Array, is_float, unsigned
from xdsl_spirv.interpreter.semantics import Function, action

DEBUG_PRINTF = "NonSemantic.DebugPrintf"

PLACE = re.compile(
    r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?P<vector>v[234])?"
    r"(?:hh|h|ll|l)?(?P<kind>[diouxXaAeEfFgGp])l?"
)
"""Pattern of a conversion in a format string: flags, width and precision, vector size, kind."""


def _extended_set(op: raw.Carried) -> str | None:
    """Returns the extended instruction set of an OpExtInst. Returns None for other instructions."""
    first = op.layout.data[0] if op.layout.data else None
    if op.instruction.data != "OpExtInst" or not isinstance(first, raw.ExtendedSetAttr):
        return None
    return first.data


def _not_executed(op: raw.RawOp) -> InterpreterError:
    """Creates the error for an unsupported instruction, or for unsupported operands."""
    name = _extended_set(op)
    instruction = op.instruction.data if name is None else f"OpExtInst of {name}"
    if f"spirv.{instruction.removeprefix('Op')}" in SPIRV.names:
        return InterpreterError(
            f"{instruction} is not supported with {_spelled(op)}",
            op,
            "run `xdsl-spirv validate` to see if the module is valid",
        )
    return InterpreterError(
        f"{instruction} has no operation in the dialect (only `spirv.Raw`), and has no "
        "semantics in a kernel",
        op,
        "use other instructions: tests/interpreter/test_coverage.py lists the unsupported ones",
    )


def _spelled(op: raw.RawOp) -> str:
    """Returns the enumerants and types among an instruction's operands as text for a message."""
    inputs = grammar().instruction(op.instruction.data).inputs
    names = [
        name
        for operand, literal in zip(inputs, op.layout.data, strict=False)
        if isinstance(literal, IntAttr) and (name := _enumerant(operand.kind, literal.data))
    ]
    types = ", ".join(str(argument.type) for argument in op.arguments)
    result = "" if op.result is None else f" -> {op.result.type}"
    return f"{', '.join([*names, f'operands of ({types})'])}{result}"


def _enumerant(kind: str, value: int) -> str | None:
    """Returns the name of an enumerant. Returns None for a literal of another kind."""
    enumerants = grammar().kind(kind)
    return next((n for n in enumerants.names if enumerants[n].value == value), None)


@action(raw.RawOp)
def carried(op: raw.RawOp, context: Context) -> Function | None:
    """
    Executes a raw instruction: prints for DebugPrintf, ignores other non-semantic instructions, and
    refuses the rest.
    """
    name = _extended_set(op)
    if name is None or not name.startswith("NonSemantic."):
        raise _not_executed(op)
    if name != DEBUG_PRINTF:
        return None
    pieces = list(_pieces(_format(op, context), op))
    wanted = sum(not isinstance(piece, str) for piece in pieces)
    if wanted != len(op.arguments):
        raise InterpreterError(
            f"the format of DebugPrintf has {wanted} conversions, but "
            f"{len(op.arguments)} values are given",
            op,
        )
    forms = [context.plain(argument.type) for argument in op.arguments]
    out = context.options.print

    def call(batch: Batch, *values: Array) -> None:
        count = batch.geometry.invocations
        shape = (batch.workgroups, batch.subgroups * batch.lanes)
        active = np.broadcast_to(batch.active(), batch.shape).reshape(shape)[:, :count]
        rows = [
            np.broadcast_to(value, batch.shape + form.shape).reshape(shape + form.shape)
            for value, form in zip(values, forms, strict=True)
        ]
        for place in zip(*np.nonzero(active), strict=True):
            out(_text(pieces, [row[place] for row in rows], forms))

    return call


@action(raw.DecorateOp)
def decorated(op: raw.DecorateOp, context: Context) -> None:
    """Does nothing, because a decoration of a value is a hint."""


def _format(op: raw.RawOp, context: Context) -> str:
    symbol: Attribute = op.layout.data[2]
    if isinstance(symbol, SymbolRefAttr):
        string = context.symbol(symbol)
        if isinstance(string, raw.RawGlobalOp) and isinstance(string.layout.data[0], StringAttr):
            return string.layout.data[0].data
    raise InterpreterError("the format of DebugPrintf must be an OpString", op)


def _pieces(format: str, op: Operation) -> Iterator[str | re.Match[str]]:
    """
    Yields the text and the conversions of a format string alternately. `%%` is a percent sign.
    """
    end = 0
    for match in re.finditer(r"%%|%", format):
        if match.start() < end:
            continue
        yield format[end : match.start()]
        if match.group() == "%%":
            yield "%"
            end = match.end()
            continue
        conversion = PLACE.match(format, match.start())
        if conversion is None:
            raise InterpreterError(
                "DebugPrintf does not support the conversion "
                f"{format[match.start() : match.start() + 6]!r}",
                op,
            )
        yield conversion
        end = conversion.end()
    yield format[end:]


def _text(
    pieces: Sequence[str | re.Match[str]], values: Sequence[Any], forms: Sequence[Plain]
) -> str:
    given = iter(zip(values, forms, strict=True))
    return "".join(
        piece if isinstance(piece, str) else _convert_value(piece, *next(given)) for piece in pieces
    )


def _convert_value(place: re.Match[str], value: Any, form: Plain) -> str:
    numbers = np.atleast_1d(value)
    kind = place["kind"]
    if is_float(form.dtype):
        numbers = numbers.astype(np.float64)
    elif numbers.dtype.kind == "i" and kind in "uoxXp":
        numbers = unsigned(numbers)
    shown = {"u": "d", "i": "d", "p": "x"}.get(kind, kind)
    return ", ".join(_one(place["flags"] or "", shown, number) for number in numbers.tolist())


def _one(flags: str, kind: str, number: float) -> str:
    if kind in "aA":
        text = float(number).hex()
        return text.upper() if kind == "A" else text
    if kind in "doxX":
        number = int(number)
    return f"%{flags}{kind}" % number
