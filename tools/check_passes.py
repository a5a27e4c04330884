"""Implements `xdsl-spirv check-passes`: compares a module's results before and after each pass."""

from __future__ import annotations

import argparse

from xdsl_spirv.compare.translation import Finding, check_passes
from xdsl_spirv.compiler.compiler import pipeline_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse
from xdsl_spirv.tools.grid import parse_grid
from xdsl_spirv.tools.output import check_place
from xdsl_spirv.tools.report import note


def check(arguments: argparse.Namespace) -> int:
    """
    Runs `xdsl-spirv check-passes`. Returns 1 if a pass changes a result beyond its legal interval,
    or if no results were compared.
    """
    if arguments.prove:
        from xdsl_spirv.tools.solvers import require_solvers

        require_solvers()
        from xdsl_spirv.tools.proving import prove_passes

        return prove_passes(arguments)
    if arguments.inputs < 1:
        raise ProgramError(
            f"--inputs {arguments.inputs} would compare nothing", "", "give at least 1"
        )
    if arguments.output is not None:
        check_place(arguments.output)
    ctx = context()
    module = parse(arguments.input, ctx)
    report = check_passes(
        module,
        pipeline_of(arguments.passes).passes,
        ctx,
        inputs=arguments.inputs,
        seed=arguments.seed,
        function=arguments.function,
        subgroup_size=arguments.subgroup_size,
        grid=parse_grid(arguments.grid),
        length=arguments.length,
    )
    print(report)
    finding = report.finding
    wrong = finding and {"pass": finding.stage, "wrong": finding.wrong, "failure": finding.failure}
    note(
        inputs=report.inputs,
        skipped=report.skipped,
        undefined=report.undefined,
        passes=[
            {"pass": name, "changed": share is not None, "share": share}
            for name, share in report.shares.items()
        ],
        finding=wrong,
    )
    if report.finding is None and not report.inputs:
        raise ProgramError(
            "no result was compared: the program has undefined behaviour for every set of inputs",
            "",
            "correct the program, or change --grid and --length",
        )
    if report.finding is not None and arguments.output is not None:
        _save(arguments.output, report.finding)
    return 0 if report.finding is None and not report.compares_nothing else 1


def _save(path: str, finding: Finding) -> None:
    """Saves the smallest inputs that show a finding, by argument name."""
    from xdsl_spirv.tools.arrays import npz_bytes
    from xdsl_spirv.tools.output import write

    named = {
        argument.name: a for argument, a in zip(finding.arguments, finding.inputs, strict=True)
    }
    write(path, npz_bytes(named))
