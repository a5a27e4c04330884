"""Runs the tests that a command line selects, and writes reports."""

from __future__ import annotations

import argparse
import json

from xdsl_spirv.progress import stage
from xdsl_spirv.tools.kernel_test.collecting import collect
from xdsl_spirv.tools.kernel_test.description import FAILED, MISUSED, KernelTest
from xdsl_spirv.tools.kernel_test.overriding import override
from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.proving import judge_test
from xdsl_spirv.tools.kernel_test.reporting import colour_verdicts, describe_launch, record, summary
from xdsl_spirv.tools.report import note


def run_suite(arguments: argparse.Namespace) -> int:
    """Runs the tests and returns the exit status. Raises `Misuse` for invalid options."""
    collection = collect(arguments.kernels)
    tests = [override(test, arguments) for test in collection.tests]
    if arguments.init:
        from xdsl_spirv.tools.kernel_test.starting import write_descriptions

        return write_descriptions(tests, arguments)
    outcomes: list[Outcome] = []
    for path, error in collection.refused:
        outcomes.append(Outcome(KernelTest(path, path), misuse=str(error)))
        print(colour_verdicts(describe_launch(outcomes[-1])))
    crash: Exception | None = None
    for test in tests:
        try:
            with stage(f"running {test.name}"):
                launches = judge_test(test)
        except Exception as error:  # A defect of this package must not stop the other tests.
            crash = crash or error
            cause = f"xdsl-spirv itself has a defect: {type(error).__name__}: {error}"
            launches = [Outcome(test, misuse=cause)]
        for outcome in launches:
            outcomes.append(outcome)
            if not arguments.quiet or not outcome.passed:
                print(colour_verdicts(describe_launch(outcome)))
    for path in collection.undescribed:
        print(f"{path}: not tested, because no file describes its launch (--init writes one)")
    print(summary(outcomes, len(collection.undescribed)))
    _write_reports(outcomes, arguments)
    if crash is not None:
        raise crash
    if not outcomes or any(outcome.misuse for outcome in outcomes):
        return MISUSED
    return FAILED if any(outcome.problems for outcome in outcomes) else 0


def _write_reports(outcomes: list[Outcome], arguments: argparse.Namespace) -> None:
    from xdsl_spirv.tools.output import write

    report = record(outcomes)
    note(**report)
    if arguments.output:
        write(arguments.output, (json.dumps(report, indent=2) + "\n").encode())
    if arguments.junit:
        from xdsl_spirv.tools.kernel_test.junit import to_junit

        write(arguments.junit, to_junit(outcomes))
    if arguments.sarif:
        from xdsl_spirv.tools.kernel_test.sarif import to_sarif

        write(arguments.sarif, to_sarif(outcomes).encode())
