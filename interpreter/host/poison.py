"""
Finds results of host functions that depend on poison (undefined values of `arith`).

The first run records the operations that make poison. For each of them the function runs again
with other bits in place of the poison. If a result differs, it depends on poison. Poison that
`arith.select` discards is therefore not a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.report import Checks, Finding
from xdsl_spirv.interpreter.checks.sources import Source, sources_of
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.host.machine import Host
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.source.source_map import in_source


class Poison:
    """
    Records the operations that produced poison. `changed` selects the operation whose poison is
    replaced in this run.
    """

    def __init__(self) -> None:
        self.noted: dict[tuple[Operation, Source], Finding] = {}
        self.changed: tuple[Operation, Source] | None = None

    def watch(self, op: Operation, context: Context, function: Function) -> Function:
        """Wraps the function of an operation so that its poison is recorded or replaced."""
        tests = [(source, source.make(op, context)) for source in sources_of(op)]
        tests = [(source, test) for source, test in tests if test is not None]
        if not tests:
            return function

        def watch(*operands: Array) -> Array:
            result = function(*operands)
            for source, test in tests:
                undefined = np.broadcast_to(test(*operands), result.shape)
                if not undefined.any():
                    continue
                self._note(op, source, operands, undefined)
                if self.changed == (op, source):
                    result = np.where(undefined, ~result, result)
            return result

        return watch

    def _note(self, op: Operation, source: Source, operands: Any, undefined: Array) -> None:
        if (op, source) in self.noted:
            return
        finding = Finding(
            source.rule,
            op.name,
            in_source(op, f"{source.message}, and a result depends on it"),
            "give the operation defined operands, or replace its poison with arith.select",
        )
        places.locate(finding, op)
        first = tuple(np.argwhere(undefined)[0])
        shown = [np.broadcast_to(operand, undefined.shape)[first] for operand in operands]
        finding.values = [f"operand {n + 1}: {number}" for n, number in enumerate(shown)]
        self.noted[op, source] = finding


def find_poison(
    machine: Host, function: str, arguments: Sequence[Any], results: Sequence[Array], checks: Checks
) -> None:
    """Reports the operations whose poison changes the results of a function."""
    poison = machine.context.poison
    assert isinstance(poison, Poison)
    for (op, source), finding in list(poison.noted.items()):
        poison.changed = op, source
        others = machine.call(function, arguments)
        same = (
            np.array_equal(a.view(np.uint8), b.view(np.uint8))
            for a, b in zip(map(_bits, results), map(_bits, others), strict=True)
        )
        if not all(same) and not checks.report.seen(source.rule, op):
            checks.record(finding, op)
    poison.changed = None


def _bits(array: Any) -> Array:
    return np.ascontiguousarray(np.atleast_1d(array))
