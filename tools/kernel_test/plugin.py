"""
A pytest plugin: `pytest --xdsl-spirv` collects `*.kernel.toml` files.

An item is a launch or a proof. pytest loads this file in every environment with this package, so
it imports other modules only when it collects a `*.kernel.toml` file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter

    from xdsl_spirv.tools.kernel_test.description import KernelTest
    from xdsl_spirv.tools.kernel_test.problems import Outcome

OPTION = "--xdsl-spirv"
SUFFIX = ".kernel.toml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `--xdsl-spirv`."""
    group = parser.getgroup("xdsl-spirv", "tests of GPU kernels")
    group.addoption(
        OPTION,
        action="store_true",
        dest="xdsl_spirv",
        help=f"collect *{SUFFIX}: kernels run on xdsl-spirv's interpreter with all checks",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Returns a collector for a `*.kernel.toml` file, if `--xdsl-spirv` is given."""
    if not file_path.name.endswith(SUFFIX) or not parent.config.getoption("xdsl_spirv"):
        return None
    return KernelFile.from_parent(parent, path=file_path)


class KernelFile(pytest.File):
    """Collects one description."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yields an item for each subgroup size, and an item for the proof if one is requested."""
        from xdsl_spirv.tools.kernel_test.description import Misuse
        from xdsl_spirv.tools.kernel_test.running import subgroup_sizes
        from xdsl_spirv.tools.kernel_test.toml_file import read_test

        try:
            test = read_test(self.path)
            sizes = subgroup_sizes(test)
        except Misuse as error:
            raise self.CollectError(str(error)) from error
        for size in sizes if test.grid is not None or not test.prove else ():
            name = f"{self.path.name.removesuffix(SUFFIX)}[subgroup {size}]"
            yield KernelItem.from_parent(self, name=name, test=test, size=size)
        if test.prove:
            name = f"{self.path.name.removesuffix(SUFFIX)}[proof]"
            yield KernelItem.from_parent(self, name=name, test=test, size=None)


class KernelItem(pytest.Item):
    """A launch of a kernel, or the test's proof if there is no subgroup size."""

    def __init__(self, *, test: KernelTest, size: int | None, **keywords: Any):
        super().__init__(**keywords)
        self.test = test
        self.size = size

    def runtest(self) -> None:
        """Runs the launch or the proof. Raises `KernelFailure` if it fails."""
        from dataclasses import replace

        from xdsl_spirv.tools.kernel_test.proving import prove_test
        from xdsl_spirv.tools.kernel_test.reporting import describe_launch
        from xdsl_spirv.tools.kernel_test.running import run_test

        if self.size is None:
            outcomes = [prove_test(self.test)]
        else:
            outcomes = run_test(replace(self.test, subgroup_sizes=(self.size,)))
        for outcome in outcomes:
            if not outcome.passed:
                raise KernelFailure(describe_launch(outcome), _first_of(outcome))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Returns the report of the failure instead of a traceback."""
        if isinstance(excinfo.value, KernelFailure):
            return KernelReport(*excinfo.value.args)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Returns the test's file, line and name."""
        return self.path, 0, self.name


class KernelFailure(Exception):
    """A failed launch or proof: its report, and a line for pytest's summary."""


class KernelReport(TerminalRepr):
    """A report of a failure, in the form that pytest prints."""

    def __init__(self, report: str, first: str):
        self.report = report
        self.reprcrash = ReprFileLocation("", 0, first)

    def toterminal(self, tw: TerminalWriter) -> None:
        """Writes the report to the terminal."""
        tw.write(f"{self.report}\n")

    def __str__(self) -> str:
        return self.report


def _first_of(outcome: Outcome) -> str:
    """Returns the first problem as `RULE: cause`, or the fault of the description."""
    if not outcome.problems:
        return outcome.misuse or ""
    problem = outcome.problems[0]
    return f"{problem.rule}: {problem.message}"
