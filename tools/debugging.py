"""Implements the debugging options of `interpret`: checks, breakpoints, printed values, a trace."""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from xdsl_spirv.interpreter.checks import Allowed, Checks
from xdsl_spirv.interpreter.checks.places import LINES
from xdsl_spirv.interpreter.debug import Break, Debug, Stop
from xdsl_spirv.interpreter.options import Options, Schedule, options_for
from xdsl_spirv.passes.analysis.target import TARGET
from xdsl_spirv.passes.spirv.specialize import parse_values
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import ModuleParser
from xdsl_spirv.targets import Target, load
from xdsl_spirv.tools.output import write
from xdsl_spirv.tools.report import is_wanted, note, note_row
from xdsl_spirv.tools.settings import describe_settings, settings, size_origin


class LocatingParser(ModuleParser):
    """A parser that records the source line of each operation."""

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        text = self.lexer.input.content
        self._starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]

    def parse_operation(self) -> Operation:
        """Parses an operation, and records its first line."""
        start = self._current_token.span.start
        op = super().parse_operation()
        LINES[op] = bisect_right(self._starts, start)
        return op


def wants_lines(arguments: argparse.Namespace) -> bool:
    """True if the options require the source lines of operations."""
    given = (_names(arguments), arguments.breaks, arguments.prints, arguments.trace)
    return any(map(bool, given))


def _names(arguments: argparse.Namespace) -> list[str]:
    return [arguments.check] * bool(arguments.check) + ["permute"] * arguments.permute


@contextmanager
def options_of(arguments: argparse.Namespace, module: ModuleOp) -> Generator[Options]:
    """Yields the interpreter's options. The trace file is open until the generator resumes."""
    if arguments.breaks and is_wanted():
        raise ProgramError(
            "the debugger cannot print JSON", "--break, --json", "leave one of them out"
        )
    checks, names = None, ",".join(_names(arguments))
    if names:
        allow = tuple(_parse_allowed(text) for text in arguments.allow)
        checks = Checks.of(names, allow=allow)
    seed = arguments.schedule_seed
    stop = _stepping(arguments.step)
    breaks = [_break(at, arguments.invocation, stop) for at in arguments.breaks]
    breaks += [_break(at, arguments.invocation, _print) for at in arguments.prints]
    trace = open(arguments.trace, "w") if arguments.trace else None
    watched = bool(breaks) or trace is not None
    debug = Debug(breaks, trace, bool(arguments.breaks)) if watched else None
    try:
        yield options_for(
            module,
            arguments.subgroup_size,
            checks=checks,
            max_steps=arguments.max_steps,
            debug=debug,
            schedule=None if seed is None else Schedule(seed),
            robust=arguments.robust,
        )
    finally:
        if trace is not None:
            trace.close()


def interpreting(options: Options) -> AbstractContextManager[object]:
    """Shows the interpreter's progress, if no debugger uses the terminal."""
    return stage("interpreting") if options.debug is None else nullcontext()


def _target(module: ModuleOp) -> Target | None:
    named = module.attributes.get(TARGET)
    return load(named.data) if isinstance(named, StringAttr) else None


def report(arguments: argparse.Namespace, module: ModuleOp, options: Options) -> int:
    """Prints the findings. Returns the exit status of the command."""
    if options.checks is None:
        return 0
    findings, target = options.checks.report, _target(module)
    given = [] if arguments.subgroup_size is None else [options.subgroup_size]
    values = settings(
        options.subgroup_size,
        size_origin(given, target),
        target,
        ",".join(_names(arguments)),
        options.robust,
        parse_values(getattr(arguments, "spec", ())),
    )
    print(findings)
    print(describe_settings(values))
    record = findings.record() | {"settings": values}
    note(**record)
    if arguments.check_json:
        write(arguments.check_json, (json.dumps(record, indent=2) + "\n").encode())
    return 1 if findings.findings else 0


def _parse_allowed(text: str) -> Allowed:
    rule, _, part = text.partition(":")
    return Allowed(rule=rule, text=part)


def _break(at: str, invocation: str | None, act: Callable[[Stop, Any], None]) -> Break:
    if invocation is None:
        return Break(at, lambda stop: act(stop, stop.shown()))
    first, _, second = invocation.partition(":")
    if not first.isdecimal() or not second.isdecimal():
        raise ProgramError(
            f"--invocation {invocation} is not an invocation", "", "write two numbers, as in 0:17"
        )
    workgroup, lane = int(first), int(second)

    def here(stop: Stop) -> bool:
        if not stop.holds(workgroup) or lane >= stop.batch.geometry.invocations:
            return False
        return bool(stop.active()[workgroup - stop.batch.first, lane])

    def one(stop: Stop) -> None:
        if stop.holds(workgroup):
            act(stop, stop.shown(workgroup, lane))

    return Break(at, one, here)


def _print(stop: Stop, values: dict[str, Any]) -> None:
    print(stop)
    note_row("printed", {"place": str(stop), "values": values})
    with np.printoptions(threshold=sys.maxsize, linewidth=100):
        for name, value in values.items():
            print(value if name == "result" else f"  {name} = {value}")


def _stepping(count: int) -> Callable[[Stop, Any], None]:
    """Returns a callback that stops at a breakpoint, and again after every `count` instructions."""
    last = 0

    def act(stop: Stop, values: dict[str, Any]) -> None:
        nonlocal last
        assert stop.hit is not None
        debug, _ = stop.hit
        if count and debug.steps > last:
            last = debug.steps + count
            stop.step(count)
        _stop(stop, values)

    return act


def _stop(stop: Stop, values: dict[str, Any]) -> None:
    """
    Opens a Python prompt at a stop, with the variables `stop` and `values`.

    `stop.names()` and `stop.variables()` return more values. After `stop.step()` the next
    instruction stops, too.
    """
    _print(stop, values)
    import pdb

    if sys.stdin.isatty():
        pdb.Pdb(skip=["xdsl_spirv.tools.*"]).set_trace()
