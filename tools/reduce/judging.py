"""
Tests a candidate, with a kernel's test (optionally against a device) or with a command.

The tests run in separate processes (`jobs/`) with limits of time and memory, because a candidate
may crash. Failures are texts without names and numbers, so that failures of different candidates
can be compared.
"""

from __future__ import annotations

import io
import json
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.description import KernelTest
from xdsl_spirv.tools.kernel_test.problems import MISMATCH

HERE = "{}"
"""Placeholder for the candidate's path in a command."""
OURS, MODULES = "xdsl-spirv", "xdsl_spirv."
DETAILS = re.compile(r"'[^']*'|`[^`]*`|\"[^\"]*\"|%\w+|\d[\w.]*|\S*/\S*")
"""Patterns of names, numbers and paths, which may differ between candidates."""
WRONG = "different from the device"


def failures(data: dict[str, Any]) -> list[str]:
    """Runs a job that tests a candidate, and returns its failures in order."""
    path = Path(data["path"])
    if data["command"]:
        words = [word.replace(HERE, str(path)) for word in data["command"]]
        if words[0] == OURS:
            return _run_ours(words, data["text"])
        if words[:2] == [sys.executable, "-m"] and words[2].startswith(MODULES):
            return _run_module(words[2:], data["text"])
        return _run(words, data["text"])
    return list(_failures_of_test(path, data["device"]))


# Commands.


def _run(words: list[str], text: str) -> list[str]:
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise ProgramError(
            f"cannot run {words[0]}: {error.strerror}", "--command", "name an installed program"
        ) from error
    said = (done.stdout + done.stderr).decode(errors="replace")
    return [_ending(done.returncode, text, said)]


def _ending(status: int, text: str, said: str) -> str:
    ending = f"status {status}" if status >= 0 else signal.Signals(-status).name
    return f"{ending}, saying {text!r}" if text and text in said else ending


def _run_ours(words: list[str], text: str) -> list[str]:
    """Runs a command of this package in this process, to save imports. Returns its failures."""
    from xdsl_spirv.tools.main import main

    status, out, err = _call(lambda: main(words[1:]))
    if text or not status:
        return [_ending(status, text, out + err)]
    try:
        report = json.loads(out or "{}")
    except ValueError:
        report = {}
    if any(not one["passed"] for one in report.get("comparisons", ())):
        return [f"status {status}: wrong results"]
    message = next((line for line in err.splitlines() if line.startswith("error: ")), "")
    return [f"status {status}: {plain(message)}"]


def _run_module(words: list[str], text: str) -> list[str]:
    """Runs a Python module in this process. Returns its failure."""
    before, sys.argv = sys.argv, words
    try:
        status, out, err = _call(lambda: runpy.run_module(words[0], run_name="__main__"))
    except Exception as error:
        status, out, err = 1, "", repr(error)
    finally:
        sys.argv = before
    return [_ending(status, text, out + err)]


def _call(function: Callable[[], Any]) -> tuple[int, str, str]:
    """Calls a function, and returns the exit status, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = function()
    except SystemExit as error:
        status = error.code
    # `sys.exit` also accepts a message.
    status = status if isinstance(status, int) else int(isinstance(status, str))
    return status, out.getvalue(), err.getvalue()


def plain(text: str) -> str:
    """Replaces names and numbers in a message by `_`."""
    return " ".join(DETAILS.sub("_", text).split())


# Tests of kernels.


def _failures_of_test(path: Path, device: str | None) -> Iterator[str]:
    from xdsl_spirv.tools.kernel_test.running import run_test
    from xdsl_spirv.tools.kernel_test.toml_file import beside, read_test

    test = fit(read_test(beside(path)))
    found: dict[str, None] = {}
    for outcome in run_test(test):
        if outcome.misuse:
            raise ProgramError(outcome.misuse, "", "")
        for problem in outcome.problems:
            found[f"{problem.rule}: {plain(problem.message)}"] = None
    yield from found
    if device is not None and all(one.startswith(MISMATCH) for one in found):
        yield from _compare_with_device(test, device)


def fit(test: KernelTest) -> KernelTest:
    """Removes buffers, push constants and specialization that the test's kernel does not have."""
    from xdsl_spirv.tools.kernel_test.constants import Constants
    from xdsl_spirv.tools.kernel_test.interface import Interface, by_name, choose_entry
    from xdsl_spirv.tools.kernel_test.loading import load_kernel

    kernel = load_kernel(test)
    constants = Constants(kernel.index, {})
    interface = Interface(kernel.index, choose_entry(kernel.index, test.entry), constants)
    known = by_name(interface.resources)
    block = interface.push_constants
    numbers = {member.name for member in block.members} if block is not None else set[str]()
    named = {text for one in constants.specialized for text in (one.name, str(one.id))}
    return replace(
        test,
        buffers={name: one for name, one in test.buffers.items() if name in known},
        push_constants={k: v for k, v in test.push_constants.items() if k in numbers},
        specialization={k: v for k, v in test.specialization.items() if k in named},
    )


def _compare_with_device(test: KernelTest, device: str) -> Iterator[str]:
    """Runs the launches on a device, and yields differences from the interpreter's buffers."""
    from xdsl_spirv.runtime.vulkan.device import open_device
    from xdsl_spirv.tools.kernel_test.comparing import compare
    from xdsl_spirv.tools.kernel_test.loading import load_kernel
    from xdsl_spirv.tools.kernel_test.running import options_of, plan_launch, subgroup_sizes

    kernel = load_kernel(test)
    with open_device(None if device == "vulkan" else device, timeout=test.timeout) as opened:
        for size in subgroup_sizes(test):
            right, other = plan_launch(test, kernel), plan_launch(test, kernel)
            right.run(right.module(), replace(options_of(test, size), checks=None))
            _run_on(opened, other, size)
            for ours, theirs in zip(right.arguments.buffers, other.arguments.buffers, strict=True):
                for part in ours.parts:
                    want, got = part.view(ours.data), part.view(theirs.data)
                    if compare(part.label, got, want, part.contents.tolerance) is not None:
                        yield WRONG
                        return


def _run_on(device: Any, plan: Any, size: int) -> None:
    import numpy as np

    from xdsl_spirv.tools.kernel_test.devices import work_of

    test, given = plan.test, plan.arguments
    buffers = {str(i): one.data for i, one in enumerate(given.buffers) if one.parts}
    names = {p: name for name in buffers for p in given.buffers[int(name)].places}
    sizes = {name: data.nbytes for name, data in buffers.items()}
    launch = plan.interface, plan.kernel.binary, test.grid, names, "output", sizes
    subgroup_size = size if test.subgroup_sizes else None
    work = device.load(work_of(*launch, given.images(), given.push_constants, subgroup_size))
    try:
        for name, data in buffers.items():
            work.write(name, data.tobytes(), test.timeout)
        work.repeat(test.timeout)
        for name, data in buffers.items():
            data[:] = np.frombuffer(work.read(name, test.timeout), np.uint8)[: data.nbytes]
    finally:
        device.unload(work)
