"""
Looking into a running kernel: breakpoints, printed values, a trace.

    def look(stop: Stop) -> None:
        print(stop, stop.value("%sum"))
        breakpoint()

    dispatch(module, "main", grid, buffers, options=Options(debug=Debug([Break("%sum", look)])))

A breakpoint names an instruction by its result (`%sum`), by its number in its function (`#17`, as
findings do) or by its source line, and calls a function after the instruction has run for all
invocations of a chunk. Only the steps that are looked at are wrapped: without `Options.debug`
nothing of this runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.code import WAVE, Compiler, Env, Step
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import CooperativeMatrix, Form, Plain
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.wave import Wave

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.unit import Unit


@dataclass(frozen=True)
class Break:
    """
    Call `action` after an instruction; where `condition` is given, only if it holds.

    `at` is `%name` or `#number`, or a source line as an int or a string of digits.
    """

    at: str | int
    action: Callable[[Stop], None]
    condition: Callable[[Stop], bool] | None = None

    def names(self, op: Operation, line: int) -> bool:
        """Whether it is at an operation."""
        at = str(self.at)
        if at.startswith("#"):
            return at == f"#{places.number_of(op)}"
        if at.isdecimal():
            return int(at) == line
        return any(f"%{result.name_hint}" == at for result in op.results)


@dataclass
class Debug:
    """
    Breakpoints, and where to write a trace: one JSON object for each executed instruction.

    With `stepping` a stop's `step` has the breakpoint's action called after the next instructions,
    too; every instruction is looked at then.
    """

    breaks: Sequence[Break] = ()
    trace: IO[str] | None = None
    stepping: bool = False
    steps: int = field(default=0, init=False)
    reached: set[str | int] = field(default_factory=set[str | int], init=False)
    following: list[tuple[int, Break]] = field(default_factory=list[tuple[int, Break]], init=False)
    """Breakpoints that also stop up to a step."""

    def attach(self, op: Operation, step: Step, compiler: Compiler) -> Step:
        """The step of `op`, followed by what is asked for."""
        line = places.line_of(op)
        breaks = [b for b in self.breaks if b.names(op, line)]
        self.reached |= {b.at for b in breaks}
        if not breaks and self.trace is None and not self.stepping:
            return step
        slots = {value: compiler.slot(value) for value in (*op.operands, *op.results)}

        def debugged(env: Env) -> None:
            # An operand's slot may be the result's: its value is read before.
            before = {value: env[slot] for value, slot in slots.items()}
            step(env)
            before.update((result, env[slots[result]]) for result in op.results)
            stop = Stop(op, line, env[WAVE], before, compiler.unit)
            self.steps += 1
            if self.trace is not None:
                self.trace.write(json.dumps(stop.record(self.steps)) + "\n")
            self.following = [each for each in self.following if each[0] >= self.steps]
            for b in dict.fromkeys([*breaks, *(b for _, b in self.following)]):
                if b not in breaks or b.condition is None or b.condition(stop):
                    stop.hit = self, b
                    b.action(stop)

        return debugged

    def check_reached(self) -> None:
        """Refuse breakpoints that no instruction answers to."""
        for b in self.breaks:
            if b.at not in self.reached:
                raise InterpreterError(
                    f"no instruction is called {b.at}",
                    "Options.debug",
                    "name a result (%x), a number (#17) or a line with an instruction that runs",
                )


class Stop:
    """
    A moment after an instruction: `op`, its `line` (0 if unknown), the wave, and the values of its
    operands and results.
    """

    def __init__(
        self, op: Operation, line: int, wave: Wave, values: Mapping[SSAValue, Any], unit: Unit
    ):
        self.op = op
        self.line = line
        self.wave = wave
        self.mask = wave.active()
        self.values = values
        self.hit: tuple[Debug, Break] | None = None
        self._unit = unit

    def step(self, count: int = 1) -> None:
        """
        Have the breakpoint's action called after each of the next `count` instructions.

        Raises `InterpreterError` unless `Debug.stepping` is on.
        """
        if self.hit is None or not self.hit[0].stepping:
            raise InterpreterError(
                "a stop that cannot step", "Options.debug", "use Debug(..., stepping=True)"
            )
        debug, b = self.hit
        debug.following.append((debug.steps + count, b))

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        return f"{places.text_of(self.op)}{line}"

    def names(self) -> dict[str, SSAValue]:
        """The operands and results by name, the first result also as `result`."""
        found = {places.name_of(value): value for value in self.op.operands}
        found.update((places.name_of(value), value) for value in self.op.results)
        if self.op.results:
            found["result"] = self.op.results[0]
        return found

    def value(self, name: str = "result") -> Any:
        """
        A value for every invocation of the chunk.

        (workgroups, invocations of a workgroup, ...), or (workgroups, subgroups, rows, columns) of
        a cooperative matrix, one subgroup for Workgroup scope. Raises `KeyError` for a name that
        `names` does not have.
        """
        value = self.names()[name]
        form = self._unit.form(value.type)
        return spread_out(self.values[value], form, self.wave)

    def active(self) -> Any:
        """(workgroups, invocations): who executes the instruction."""
        wave = self.wave
        full = np.broadcast_to(self.mask, wave.shape)
        return full.reshape(wave.workgroups, -1)[:, : wave.geometry.invocations]

    def at(self, workgroup: int, invocation: int, name: str = "result") -> Any:
        """A value in one invocation; `workgroup` is its linear index in the grid."""
        row = workgroup - self.wave.first
        form = self._unit.form(self.names()[name].type)
        found = self.value(name)
        if not isinstance(found, np.ndarray):
            return found
        if isinstance(form, CooperativeMatrix):
            return found[row, min(invocation // self.wave.lanes, found.shape[1] - 1)]
        return found[row, invocation]

    def holds(self, workgroup: int) -> bool:
        """Whether a workgroup is in this chunk."""
        return 0 <= workgroup - self.wave.first < self.wave.workgroups

    def record(self, step: int) -> dict[str, Any]:
        """A line of the trace."""
        active = self.active()
        made: dict[str, Any] = {
            "step": step,
            "number": places.number_of(self.op),
            "op": self.op.name,
            "line": self.line,
            "function": places.function_of(self.op),
            "workgroups": [self.wave.first, self.wave.first + self.wave.workgroups],
            "active": int(active.sum()),
        }
        for result in self.op.results:
            made["result"] = _summary(self.values[result])
        return made


def spread_out(value: Any, form: Form, wave: Wave) -> Any:
    """A value without its uniform axes left out."""
    if isinstance(form, Plain):
        full = np.broadcast_to(value, wave.shape + tuple(form.shape))
        full = full.reshape(wave.workgroups, -1, *form.shape)
        return full[:, : wave.geometry.invocations]
    if isinstance(form, CooperativeMatrix):
        subgroups = 1 if form.scope.name == "Workgroup" else wave.subgroups
        shape = (wave.workgroups, subgroups, form.rows, form.columns)
        return np.broadcast_to(value, shape).astype(form.dtype)
    if isinstance(value, Pointer):
        address = value.index * value.scale + value.base
        return spread_out(address, Plain(address.dtype), wave)
    return value


def _summary(value: Any) -> Any:
    """A value in a few words: all of a uniform one, the range of others."""
    if isinstance(value, Pointer):
        return {"pointer into": value.memory.label, **_summary(value.index * value.scale)}
    if not isinstance(value, np.ndarray):
        return str(type(value).__name__)
    wide = value.astype(np.float64)
    made: dict[str, Any] = {"shape": list(value.shape), "dtype": value.dtype.name}
    if value.size == 1:
        return {**made, "value": _number(wide.item())}
    if value.size:
        made["least"], made["greatest"] = _number(wide.min()), _number(wide.max())
        made["first"] = [_number(x) for x in wide.reshape(-1)[:4]]
    return made


def _number(number: float) -> float | str:
    """JSON has no infinities and NaNs."""
    return float(number) if np.isfinite(number) else str(number)
