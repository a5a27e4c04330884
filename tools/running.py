"""
Runs a program for `xdsl-spirv run`: chooses the device, and times its dispatches.

A Vulkan driver runs in a separate process by default, so that a crash of the driver becomes a
message. Without --device, the best device that can run the program is used. The device's name, and
the reasons against other devices, go to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from xdsl_spirv.runtime.default_device import open_session
from xdsl_spirv.runtime.elements import Array, count_not_finite
from xdsl_spirv.runtime.errors import LateError, ProgramError, UndefinedResultWarning
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.given import bind_inputs
from xdsl_spirv.runtime.patience import time_limit
from xdsl_spirv.runtime.phases import DEVICE, HOST, LOAD, Phase
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.device import (
    TIMEOUT,
    VARIABLE,
    VulkanDevice,
    open_device,
    parse_name,
)
from xdsl_spirv.runtime.vulkan.errors import MisfitError, NoVulkanError
from xdsl_spirv.runtime.vulkan.loaded import LoadedWork, Time
from xdsl_spirv.runtime.vulkan.programs import work_of
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.runtime.vulkan.worker import IsolatedDevice, RemoteWork, open_isolated
from xdsl_spirv.tools.report import note, plain
from xdsl_spirv.tools.run_times import Measured

if TYPE_CHECKING:
    from xdsl_spirv.compare.layers import Execute
    from xdsl_spirv.interpreter.checks import Checks, Report

INTERPRETER = "interpreter"
WARM_UP_SECONDS = 0.15
"""Time in seconds that an idle device needs to reach its full clock."""


def execute(
    program: Program,
    inputs: Mapping[str, Array],
    checks: Checks | None,
    arguments: argparse.Namespace,
) -> dict[str, Array]:
    """
    Runs the program on the device that the options select.

    Raises `ProgramError` if the device does not exist or does not support the options.
    """
    _refuse(arguments)
    chosen: str | None = arguments.device or os.environ.get(VARIABLE)
    if chosen is None and (checks is not None or arguments.time or arguments.statistics):
        chosen = INTERPRETER if checks is not None else "vulkan"
    if chosen is None:
        # Reports missing inputs before the search for a device.
        bind_inputs(program.function().at(inputs), inputs)
        results = _on_the_best(program, inputs, arguments)
        if results is not None:
            return results
    name = chosen or INTERPRETER
    if name.partition(":")[0] != "vulkan" or checks is not None:
        with limited(arguments):
            return run(program, inputs, name, checks)
    with open_named(name, arguments) as device:
        return _execute_program(device, program, inputs, arguments)


def execute_checked(
    whole: Program, inputs: Mapping[str, Array], arguments: argparse.Namespace
) -> tuple[dict[str, Array], bool]:
    """
    Runs a function and writes its results. Returns the results, and False if `--check` or
    `--sanitize` found a fault.
    """
    from xdsl_spirv.tools.arrays import write_results

    checks, comparisons = None, []
    if arguments.sanitize:
        from xdsl_spirv.interpreter.checks import Checks

        checks = Checks.of(arguments.sanitize)
    program = whole.function(arguments.function)
    states = program.first_values()
    with undefined_results() as reports:
        if arguments.load_state or arguments.save_state:
            states, results = execute_with_state(whole, inputs, checks, arguments)
        else:
            results = execute(program, inputs, checks, arguments)
    if arguments.check:
        from xdsl_spirv.compare.check import check

        comparisons = check(program, inputs, results, states)
    write_results(arguments.output, results)
    note(comparisons=comparisons)
    _say_not_finite(inputs, results)
    for comparison in comparisons:
        print(comparison)
    if checks is not None:
        reports.append(checks.report)
    for report in reports:
        print(report)
        note(**report.record())
    sound = not any(report.findings for report in reports)
    return results, sound and all(comparison.passed for comparison in comparisons)


@contextmanager
def undefined_results() -> Generator[list[Report]]:
    """Yields a list that collects the warnings about undefined results as reports."""
    reports: list[Report] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def collect(message: Warning | str, *rest: Any, **named: Any) -> None:
            if isinstance(message, UndefinedResultWarning):
                reports.append(message.report)
            else:
                show(message, *rest, **named)

        warnings.showwarning = collect
        warnings.simplefilter("always", UndefinedResultWarning)
        yield reports


def execute_with_state(
    program: Program,
    inputs: Mapping[str, Array],
    checks: Checks | None,
    arguments: argparse.Namespace,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Runs a program with `--load-state` and `--save-state`. Returns states and results."""
    _refuse(arguments)
    name: str = arguments.device or os.environ.get(VARIABLE) or INTERPRETER
    if arguments.time or arguments.statistics:
        raise ProgramError(
            "a state cannot be combined with --time or --statistics",
            "--time",
            "leave one of them out",
        )
    with open_session(program, name, isolated=not arguments.in_process) as session:
        if arguments.load_state:
            session.load(arguments.load_state)
        states = session.state()
        with limited(arguments) if name == INTERPRETER else nullcontext():
            results = session.run(arguments.function, inputs, checks=checks)
        if arguments.save_state:
            session.save(arguments.save_state)
    return states, results


def _say_not_finite(inputs: Mapping[str, Array], results: Mapping[str, Array]) -> None:
    """Prints the names of results that contain NaN or infinity."""
    counts = {name: count_not_finite(array) for name, array in results.items()}
    counts = {name: count for name, count in counts.items() if count}
    if not counts:
        return
    note(not_finite=counts)
    given = [name for name, array in inputs.items() if count_not_finite(array)]
    cause = f"input {given[0]} is not finite" if given else "find the layer with --compare-layers"
    for name, count in counts.items():
        print(f"{name} is NOT FINITE: {count} of {results[name].size} elements ({cause})")


def _refuse(arguments: argparse.Namespace) -> None:
    if arguments.time is not None and arguments.time < 1:
        raise ProgramError(
            f"--time {arguments.time} is not a valid number of runs", "", "give at least 1"
        )
    if arguments.statistics and arguments.device == INTERPRETER:
        raise ProgramError(
            "--statistics needs a Vulkan driver; the interpreter has none",
            "--statistics",
            "use --device vulkan",
        )
    if arguments.timeout is not None and arguments.timeout <= 0:
        raise ProgramError(
            f"--timeout {arguments.timeout:g} is not a valid time",
            "",
            "give a number of seconds above 0",
        )
    if arguments.profile and not arguments.time:
        raise ProgramError("--profile needs times of a run", "--profile", "give --time N, too")
    if arguments.time and arguments.device == INTERPRETER:
        raise ProgramError(
            "the interpreter cannot measure a device's times",
            "--time",
            "use --device vulkan",
        )


def open_named(
    name: str | None, arguments: argparse.Namespace, graphs: bool = False
) -> VulkanDevice | IsolatedDevice:
    """Opens a device, in a separate process unless `--in-process` is given."""
    if name is not None:
        parse_name(name)
    opener = open_device if arguments.in_process else open_isolated
    timeout = TIMEOUT if arguments.timeout is None else arguments.timeout
    return opener(name, timeout=timeout, graphs=graphs)


def limited(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    """Limits the interpreter's time to `--timeout` seconds, if given."""
    if arguments.timeout is None:
        return nullcontext()
    late = LateError(
        f"the interpreter takes more than {arguments.timeout:g} s",
        "",
        "raise --timeout, give smaller inputs, or use a device (--device vulkan)",
    )
    return time_limit(arguments.timeout, late)


def _on_the_best(
    program: Program, inputs: Mapping[str, Array], arguments: argparse.Namespace
) -> dict[str, Array] | None:
    """Runs the program on the best Vulkan device. Returns None if no device can run it."""
    try:
        with open_named(None, arguments) as device:
            results = _execute_program(device, program, inputs, arguments)
            print(f"ran on vulkan:{device.info.index} ({device.info.name})", file=sys.stderr)
            return results
    except (NoVulkanError, MisfitError) as error:
        print(f"note: {error.cause}; running on the interpreter", file=sys.stderr)
        return None


def _execute_program(
    device: VulkanDevice | IsolatedDevice,
    program: Program,
    inputs: Mapping[str, Array],
    arguments: argparse.Namespace,
) -> dict[str, Array]:
    program = program.at(inputs)
    results = device.execute(program, inputs)
    if arguments.statistics:
        _print_statistics(device, program)
    count: int | None = arguments.time
    if count:
        times = device.times(program, count, WARM_UP_SECONDS)
        where = f"vulkan:{device.info.index} ({device.info.name})"
        _print_times(times, count, where)
        phases = device.phases(program, inputs, count)
        _print_phases(phases)
        if arguments.profile:
            _write_times(times, phases, where, arguments.profile)
    return results


def _print_statistics(device: VulkanDevice | IsolatedDevice, program: Program) -> None:
    """Prints the driver's statistics of each kernel's machine code."""
    loaded: LoadedWork | RemoteWork = device.load(work_of(program), statistics=True)
    tables = loaded.executables()
    kernels = dict(zip((d.entry_point for d in program.manifest.dispatches), tables, strict=True))
    print(f"code on vulkan:{device.info.index} ({device.info.name}):")
    note(statistics=[{"entry_point": name, "programs": kernels[name]} for name in kernels])
    for name, programs in kernels.items():
        print(f"  {name}: {str(heaviest(programs)) or 'the driver gives no statistics'}")
        for table in programs:
            said = ", ".join(f"{key} {value}" for key, value in table.items())
            print(f"    {said}")


def _print_times(times: list[Time], count: int, where: str) -> None:
    """Prints the median time of each dispatch, in execution order."""
    print(f"times on {where}, medians of {count} runs:")
    note(device=where, times=[{**plain(time), "median": time.median} for time in times])
    total = 0.0
    for time in times:
        total += time.median
        least = min(time.nanoseconds) / 1e3
        name = f"{time.kernel}.{time.entry_point}"
        print(f"  {time.median / 1e3:12.2f} us (least {least:.2f})  {name}")
    print(f"  {total / 1e3:12.2f} us in {len(times)} dispatches")


def _print_phases(phases: list[Phase]) -> None:
    """Prints the time of each phase of a run, by host clock and device clock."""
    note(phases=[plain(phase) for phase in phases])
    print("a run with its copies:")
    titles = {HOST: "by the host", DEVICE: "by the device", LOAD: "loading the program, once"}
    for track, title in titles.items():
        parts: dict[str, float] = {}
        for phase in phases:
            name = "kernels" if phase.dispatch is not None else phase.name
            if phase.track == track:
                parts[name] = parts.get(name, 0.0) + phase.nanoseconds
        if parts:
            said = ", ".join(f"{name} {time / 1e3:.2f}" for name, time in parts.items())
            print(f"  {sum(parts.values()) / 1e3:12.2f} us {title}: {said}")


def _write_times(times: list[Time], phases: list[Phase], where: str, path: str) -> None:
    from xdsl_spirv.tools.output import write
    from xdsl_spirv.tools.run_times import DispatchTime, times_json

    dispatches = [DispatchTime(t.kernel, t.entry_point, t.nanoseconds) for t in times]
    write(path, times_json(where, dispatches, phases).encode())


@contextmanager
def executor(arguments: argparse.Namespace) -> Generator[Execute]:
    """Yields a function that runs programs on the device that the options select."""
    name: str | None = arguments.device or os.environ.get(VARIABLE)
    if name is None or name.partition(":")[0] != "vulkan":
        with limited(arguments):
            yield lambda program, inputs: run(program, inputs, name or INTERPRETER)
        return
    with open_named(name, arguments) as device:
        yield lambda program, inputs: device.execute(program, inputs)


INTERPRETED_ON = "the interpreter"

RUNS = 20
"""Default number of runs that time a program."""


def times_of(
    program: Program, inputs: Mapping[str, Array], arguments: argparse.Namespace
) -> Measured:
    """Returns times of the dispatches, and of a run with its copies, on the selected device."""
    name: str = arguments.device
    if name.partition(":")[0] != "vulkan":
        seconds: list[float] = []
        with limited(arguments):
            run(program, inputs, name, times=seconds)
        return Measured(seconds, INTERPRETED_ON)
    with open_named(name, arguments) as device:
        device.execute(program, inputs)
        times = device.times(program, RUNS, WARM_UP_SECONDS)
        where = f"vulkan:{device.info.index} ({device.info.name})"
        phases = device.phases(program, inputs, RUNS)
    return Measured([time.median / 1e9 for time in times], where, tuple(phases))
