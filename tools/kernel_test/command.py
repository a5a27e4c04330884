"""
`xdsl-spirv test`: exit status 0 if every launch did what it should, 1 if one did not, 2 if a test
is described wrongly or there was nothing to run.
"""

from __future__ import annotations

import argparse
import sys

from xdsl_spirv.tools.kernel_test.collecting import collect
from xdsl_spirv.tools.kernel_test.description import KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.overriding import override
from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.reporting import summary, to_json, told
from xdsl_spirv.tools.kernel_test.running import run_test

FAILED = 1
MISUSED = 2


def test(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv test`."""
    try:
        return _test(arguments)
    except Misuse as error:
        print(f"error: {error}", file=sys.stderr)
        return MISUSED


def _test(arguments: argparse.Namespace) -> int:
    found = collect(arguments.kernels)
    tests = [override(each, arguments) for each in found.tests]
    if arguments.init:
        from xdsl_spirv.tools.kernel_test.starting import write_descriptions

        return write_descriptions(tests, arguments)
    say = (lambda text: print(text, file=sys.stderr)) if arguments.json == "-" else print
    outcomes: list[Outcome] = []
    for path, error in found.refused:
        outcomes.append(Outcome(KernelTest(path, path), misuse=str(error)))
        say(told(outcomes[-1]))
    for each in tests:
        for outcome in run_test(each):
            outcomes.append(outcome)
            if not arguments.quiet or not outcome.passed:
                say(told(outcome))
    for path in found.undescribed:
        say(f"{path}: not tested, no file describes its launch (--init writes one)")
    _write_reports(outcomes, arguments)
    say(summary(outcomes, len(found.undescribed)))
    if not outcomes or any(outcome.misuse for outcome in outcomes):
        return MISUSED
    return FAILED if any(outcome.problems for outcome in outcomes) else 0


def _write_reports(outcomes: list[Outcome], arguments: argparse.Namespace) -> None:
    from xdsl_spirv.tools.output import write

    if arguments.json == "-":
        sys.stdout.write(to_json(outcomes))
    elif arguments.json:
        write(arguments.json, to_json(outcomes).encode())
    if arguments.junit:
        from xdsl_spirv.tools.kernel_test.junit import to_junit

        write(arguments.junit, to_junit(outcomes))
    if arguments.sarif:
        from xdsl_spirv.tools.kernel_test.sarif import to_sarif

        write(arguments.sarif, to_sarif(outcomes).encode())
