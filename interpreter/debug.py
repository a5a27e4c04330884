"""
Debugs a running kernel with breakpoints, printed values and traces.

    def look(stop: Stop) -> None:
        print(stop, stop.value("%sum"))
        breakpoint()

    dispatch(module, "main", grid, buffers, options=Options(debug=Debug([Break("%sum", look)])))

A breakpoint names an instruction by its result (`%sum`), by its position in its function (`#17`, as
in findings), or by its line (`18`, `reduce.comp:18`). The name of a source variable (`sum`) means
all instructions that assign the variable. The action is called after the instruction has run for
all invocations of a chunk. Only steps with a breakpoint are wrapped. Without `Options.debug` this
module is not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.code import WAVE, Compiler, Env, Step
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import CooperativeMatrix, Form, Plain
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.source import source_of
from xdsl_spirv.interpreter.source.locals import Local, assigned_by, locals_at
from xdsl_spirv.interpreter.variables import VariablePointer


class Begins(NamedTuple):
    """
    Two bools: True if an operation is the first one of its line in the module's text, and in the
    source.
    """

    line: bool
    source_line: bool


@dataclass(frozen=True)
class Break:
    """
    A breakpoint. Calls `action` after an instruction has run, unless `condition` is given and
    returns False.

    `at` selects the instruction:

    - `%name` or `#position`: this instruction.
    - A line, as a number or `FILE:NUMBER`: the first instruction of the line.
    - A source variable: all instructions that assign the variable.
    """

    at: str | int
    action: Callable[[Stop], None]
    condition: Callable[[Stop], bool] | None = None

    def names(self, op: Operation, begins: Begins) -> bool:
        """
        True if the breakpoint is at this operation. `begins` states which lines the operation
        begins.
        """
        at = str(self.at)
        file, _, number = at.rpartition(":")
        if at.startswith("#"):
            return at == f"#{places.number_of(op)}"
        if at.startswith("%"):
            return any(f"%{result.name_hint}" == at for result in op.results)
        if not number.isdecimal():
            return assigned_by(op) == at
        source = source_of(op)
        if not file:
            return begins.line and places.line_of(op) == int(number)
        there = source is not None and source.line == int(number) and source.is_in(file)
        return begins.source_line and there

    @property
    def variable(self) -> str:
        """The source variable that the breakpoint names, or "" if it names something else."""
        at = str(self.at)
        return "" if self.is_line or at.startswith(("#", "%")) else at

    @property
    def is_line(self) -> bool:
        """True if the breakpoint names a line."""
        return str(self.at).rpartition(":")[2].isdecimal()


@dataclass
class Debug:
    """
    Breakpoints, and the file of a trace with one JSON object for each executed instruction.

    With `stepping`, `Stop.step` can also stop at instructions without a breakpoint.
    """

    breaks: Sequence[Break] = ()
    trace: IO[str] | None = None
    stepping: bool = False
    steps: int = field(default=0, init=False)
    reached: set[str | int] = field(default_factory=set[str | int], init=False)
    following: list[tuple[int, Break]] = field(default_factory=list[tuple[int, Break]], init=False)
    """
    Pending calls of `Stop.step`: the number of the last step to stop at, and the breakpoint whose
    action is called.
    """
    _last: list[Any] = field(default_factory=lambda: [None, None], init=False)

    def attach(self, op: Operation, step: Step, compiler: Compiler) -> Step:
        """Wraps the step of `op` with its breakpoints and the trace."""
        begins = self._begins(op)
        breaks = [b for b in self.breaks if b.names(op, begins)]
        self.reached |= {b.at for b in breaks}
        if not breaks and self.trace is None and not self.stepping:
            return step
        slots = {value: compiler.slot(value) for value in (*op.operands, *op.results)}
        variables = locals_at(op) if breaks or self.stepping else []
        held = [(v, slot) for v in variables if (slot := compiler.slot_if_any(v.value)) is not None]

        def debugged(env: Env) -> None:
            # An operand may share its slot with the result, so it is read first.
            before = {value: env[slot] for value, slot in slots.items()}
            step(env)
            before.update((result, env[slots[result]]) for result in op.results)
            stop = Stop(op, env[WAVE], before, compiler.context)
            stop.held = [(variable, env[slot]) for variable, slot in held]
            self.steps += 1
            if self.trace is not None:
                self.trace.write(json.dumps(stop.record(self.steps)) + "\n")
            self.following = [waiting for waiting in self.following if waiting[0] >= self.steps]
            for b in dict.fromkeys([*breaks, *(b for _, b in self.following)]):
                if b not in breaks or b.condition is None or b.condition(stop):
                    stop.hit = self, b
                    b.action(stop)

        return debugged

    def attach_end(self, op: Operation, terminate: Any, compiler: Compiler) -> Any:
        """Wraps the terminator of a block, which has no values to show."""
        return terminate

    def _begins(self, op: Operation) -> Begins:
        """
        States which lines start at this operation. Must be called for the operations of a block in
        order.
        """
        place, line = source_of(op), places.line_of(op)
        now = (line, None if place is None else (place.file, place.line))
        begun: list[bool] = []
        for number, key in enumerate(now):
            begun.append(bool(key) and self._last[number] != (op.parent, key))
            if key:
                self._last[number] = op.parent, key
        return Begins(*begun)

    def check_reached(self) -> None:
        """Raises `InterpreterError` if a breakpoint matches no instruction."""
        for b in self.breaks:
            if b.at not in self.reached:
                raise InterpreterError(
                    f"no instruction matches the breakpoint {b.at}",
                    "Options.debug",
                    "name a result (%x), a number (#17), a line with an instruction that "
                    "runs (17, kernel.comp:17), or a variable of the source that is "
                    "assigned",
                )


class Stop:
    """
    State right after an instruction has run: the operation `op`, its `line` and `source`, the
    batch, and the values of operands and results. An unknown `line` is 0, an unknown `source` None.
    """

    def __init__(
        self, op: Operation, batch: Batch, values: Mapping[SSAValue, Any], context: Context
    ):
        self.op = op
        self.line = places.line_of(op)
        self.source = source_of(op)
        self.batch = batch
        self.in_kernel = hasattr(batch, "geometry")
        """False in a linalg body. The values there are arrays over all loop iterations."""
        self.mask: Any = batch.active() if self.in_kernel else None
        self.values = values
        self.hit: tuple[Debug, Break] | None = None
        self.held: Sequence[tuple[Local, Any]] = ()
        """The source variables at this point, with their values or pointers."""
        self._context = context

    def step(self, count: int = 1) -> None:
        """
        Calls the breakpoint's action again after each of the next `count` instructions.

        Raises `InterpreterError` if `Debug.stepping` is off.
        """
        if self.hit is None or not self.hit[0].stepping:
            raise InterpreterError(
                "cannot step from this stop", "Options.debug", "use Debug(..., stepping=True)"
            )
        debug, b = self.hit
        debug.following.append((debug.steps + count, b))

    def __str__(self) -> str:
        text = places.text_of(self.op)
        if self.source is not None:
            return f"{self.source}   {text}"
        return text + (f", line {self.line}" if self.line else "")

    def names(self) -> dict[str, SSAValue]:
        """
        Returns the operands and results by name. The first result can also be read as `result`.
        """
        values = {places.name_of(value): value for value in self.op.operands}
        values.update((places.name_of(value), value) for value in self.op.results)
        if self.op.results:
            values["result"] = self.op.results[0]
        return values

    def value(self, name: str = "result") -> Any:
        """
        Returns a value in every invocation of the chunk.

        The shape is (workgroups, invocations of a workgroup, ...). A cooperative matrix has the
        shape (workgroups, subgroups, rows, columns), with one subgroup for Workgroup scope. Raises
        `KeyError` for a name that is missing in `names` and `variables`.
        """
        value, form = self._find(name)
        return spread_out(value, form, self.batch) if self.in_kernel else np.asarray(value)

    def _find(self, name: str) -> tuple[Any, Form]:
        variables = self._variables()
        if name in variables and not (name == "result" and self.op.results):
            return variables[name]
        value = self.names()[name]
        return self.values[value], self._context.form(value.type)

    def variables(self) -> dict[str, Any]:
        """Returns the values of the source variables by name, with the shapes of `value`."""
        variables = self._variables().items()
        return {name: spread_out(value, form, self.batch) for name, (value, form) in variables}

    def _variables(self) -> dict[str, tuple[Any, Form]]:
        variables: dict[str, tuple[Any, Form]] = {}
        for variable, value in self.held:
            if isinstance(value, VariablePointer) and variable.is_pointer and not value.path:
                variables[variable.name] = value.variable.value, value.variable.form
            elif value is not None and not variable.is_pointer:
                variables[variable.name] = value, self._context.form(variable.value.type)
        return variables

    def active(self) -> Any:
        """
        Mask of the invocations that execute the instruction, with the axes (workgroup, invocation).
        """
        batch = self.batch
        full = np.broadcast_to(self.mask, batch.shape)
        return full.reshape(batch.workgroups, -1)[:, : batch.geometry.invocations]

    def at(self, workgroup: int, invocation: int, name: str = "result") -> Any:
        """Returns a value in one invocation. `workgroup` is the linear index in the grid."""
        row = workgroup - self.batch.first
        _, form = self._find(name)
        array = self.value(name)
        if not isinstance(array, np.ndarray):
            return array
        if isinstance(form, CooperativeMatrix):
            return array[row, min(invocation // self.batch.lanes, array.shape[1] - 1)]
        return array[row, invocation]

    def shown(self, workgroup: int | None = None, invocation: int = 0) -> dict[str, Any]:
        """
        Returns the values that the breakpoint shows, by name.

        A breakpoint at a source variable shows this variable, a breakpoint at a source line all
        variables. Every other breakpoint shows the `result` of the instruction.

        Without `workgroup`, returns the values in all invocations.
        """
        at = None if self.hit is None else self.hit[1]
        if at is not None and at.variable:
            names = [at.variable] if at.variable in self._variables() else []
        elif at is not None and at.is_line and self.source is not None:
            names = list(self._variables())
        else:
            names = []
        names = names or ["result"] * bool(self.op.results)
        if workgroup is None:
            return {name: self.value(name) for name in names}
        return {name: self.at(workgroup, invocation, name) for name in names}

    def holds(self, workgroup: int) -> bool:
        """True if the workgroup with this linear index is in the stopped batch."""
        return self.in_kernel and 0 <= workgroup - self.batch.first < self.batch.workgroups

    def record(self, step: int) -> dict[str, Any]:
        """Returns the trace record of the stop."""
        record: dict[str, Any] = {
            "step": step,
            "number": places.number_of(self.op),
            "op": self.op.name,
            "line": self.line,
            "source": None if self.source is None else self.source.position,
            "function": places.function_of(self.op),
        }
        if self.in_kernel:
            first = self.batch.first
            record["workgroups"] = [first, first + self.batch.workgroups]
            record["active"] = int(self.active().sum())
        for result in self.op.results:
            record["result"] = _summary(self.values[result])
        return record


def spread_out(value: Any, form: Form, batch: Batch) -> Any:
    """Repeats a value along its uniform axes, which have length 1."""
    if isinstance(form, Plain):
        full = np.broadcast_to(value, batch.shape + tuple(form.shape))
        full = full.reshape(batch.workgroups, -1, *form.shape)
        return full[:, : batch.geometry.invocations]
    if isinstance(form, CooperativeMatrix):
        subgroups = 1 if form.scope.name == "Workgroup" else batch.subgroups
        shape = (batch.workgroups, subgroups, form.rows, form.columns)
        return np.broadcast_to(value, shape).astype(form.dtype)
    if isinstance(value, Pointer):
        address = value.index * value.scale + value.base
        return spread_out(address, Plain(address.dtype), batch)
    return value


def _summary(value: Any) -> Any:
    """Returns the value if it is uniform, otherwise the range of its values."""
    if isinstance(value, Pointer):
        return {"pointer into": value.memory.label, **_summary(value.index * value.scale)}
    if not isinstance(value, np.ndarray):
        return str(type(value).__name__)
    wide = value.astype(np.float64)
    summary: dict[str, Any] = {"shape": list(value.shape), "dtype": value.dtype.name}
    if value.size == 1:
        return {**summary, "value": _number(wide.item())}
    if value.size:
        summary["least"], summary["greatest"] = _number(wide.min()), _number(wide.max())
        summary["first"] = [_number(x) for x in wide.reshape(-1)[:4]]
    return summary


def _number(number: float) -> float | str:
    return float(number) if np.isfinite(number) else str(number)
