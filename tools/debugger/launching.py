"""Prepares the launch of a kernel so that the debugger can run it repeatedly."""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.checks.report import Allowed, Checks, Report
from xdsl_spirv.interpreter.source.debug_info import entry_of
from xdsl_spirv.interpreter.stepper import Line, Stepper, line_of
from xdsl_spirv.tools.kernel_test.collecting import collect
from xdsl_spirv.tools.kernel_test.description import KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.loading import load_kernel
from xdsl_spirv.tools.kernel_test.overriding import override
from xdsl_spirv.tools.kernel_test.running import options_of, plan_launch, subgroup_sizes
from xdsl_spirv.tools.kernel_test.starting import assume_launch


def find_test(path: str, arguments: argparse.Namespace) -> tuple[KernelTest, str]:
    """
    Returns a kernel's launch, and a note if the launch is assumed because no file describes it.

    Raises `Misuse` for a folder, and for an unsuitable file or option.
    """
    if Path(path).is_dir():
        raise Misuse(f"{path} is a folder", "", "name a kernel in it")
    collection = collect([path])
    for _, error in collection.refused:
        raise error
    (test,) = collection.tests
    note, test = "", override(test, arguments)
    if test.source == test.kernel and test.grid is None and not test.buffers:
        test = override(assume_launch(test), arguments)
        note = (
            f"no {test.kernel.stem}.kernel.toml describes the launch of "
            f"{test.kernel.name}: {test.grid} workgroups and random buffers are assumed. "
            f"`xdsl-spirv test {test.kernel} --init` writes the file"
        )
    return test, note


class Launched:
    """A kernel launch that can be debugged. Raises `Misuse` and the errors of `load_kernel`."""

    def __init__(self, test: KernelTest):
        self.test = test
        self.plan = plan_launch(test, load_kernel(test))
        self.module = self.plan.module()
        self.options = options_of(test, subgroup_sizes(test)[0])
        self._before = [buffer.data.copy() for buffer in self.plan.arguments.buffers]
        self.lines = _lines(self.module)
        self.report = Report()

    def run(self, stepper: Stepper) -> None:
        """Restores the initial contents of the buffers, and runs the launch."""
        for buffer, data in zip(self.plan.arguments.buffers, self._before, strict=True):
            buffer.data[:] = data
        checks: Checks | None = self.options.checks
        if checks is not None:
            self.report = Report()
            pairs = (text.partition(":") for text in self.test.allow)
            # Unlike `xdsl-spirv test`, the debugger runs the invocations in only one order.
            checks = replace(
                checks,
                permute=False,
                choices=False,
                allow=tuple(Allowed(rule=rule, text=part) for rule, _, part in pairs),
                report=self.report,
                found=stepper.report,
            )
        options = replace(self.options, checks=checks, debug=stepper, seconds=inf)
        self.plan.run(self.module, options)

    def problems(self, findings: bool) -> list[str]:
        """Returns the mismatches of a finished launch, plus its findings if `findings` is set."""
        found = [str(finding) for finding in self.report.findings] if findings else []
        return found + [problem.text for problem in self.plan.mismatches()]

    # Places.

    def path(self, file: str) -> Path:
        """Returns the path of a source file that debug information names."""
        kernel = self.test.kernel
        beside = kernel.parent / file
        chosen = kernel if not file else beside if beside.exists() else Path(file)
        return chosen.resolve()

    def line(self, path: str, number: int) -> Line | None:
        """Returns the first line at or after `number` that has instructions, or None."""
        wanted = Path(path).resolve()
        for file, lines in self.lines.items():
            if self.path(file) == wanted:
                at = bisect_left(lines, number)
                return (file, lines[at]) if at < len(lines) else None
        return None


def _lines(module: Operation) -> dict[str, Sequence[int]]:
    """Returns the sorted line numbers that have instructions, by file."""
    semantics.load()
    lines: dict[str, set[int]] = {}
    for function in module.regions[0].block.ops:
        for op in function.walk() if isinstance(function, FuncOp) else ():
            meaning = semantics.TABLE.get(type(op))
            if meaning is None or meaning.kind == "constant" or entry_of(op) is not None:
                continue
            line = line_of(op)
            if line is not None:
                lines.setdefault(line[0], set()).add(line[1])
    return {file: sorted(numbers) for file, numbers in lines.items()}
