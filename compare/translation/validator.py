"""
Runs a program before and after each pass of a pipeline, on the same inputs.

After every pass the module must verify. A module that can be encoded as SPIR-V must decode to the
same instructions. If the pass changed the module, the results must be legal on every set of
inputs. The first pass after which a check fails is the finding. A pass that refuses its input
raises its usual error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.compare.translation.inputs import draw
from xdsl_spirv.compare.translation.legal import Judge, Legal
from xdsl_spirv.compare.translation.report import Finding, Report, Wrong
from xdsl_spirv.compare.translation.shrink import Shrinker
from xdsl_spirv.compare.translation.subjects import (
    Grid,
    HostSubject,
    Subject,
    kernels_of,
    subject_of,
)
from xdsl_spirv.compiler.compiler import subgroup_size_for, target_for
from xdsl_spirv.compiler.pipeline import expand_pipelines
from xdsl_spirv.interpreter import InterpreterError, Options
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.checks.sources import sources_of
from xdsl_spirv.interpreter.options import mapping_of
from xdsl_spirv.progress import noted
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.encode import SPIRVEncodeError, encoder
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.upstream.equality import is_same

INPUTS = 10
SHRINKING_RUNS = 400


@dataclass(frozen=True)
class Case:
    """One set of inputs, its legal results, and its latest results."""

    values: list[Array]
    legal: Legal
    results: dict[str, Array]


def check_passes(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    ctx: Context,
    *,
    inputs: int = INPUTS,
    seed: int = 0,
    function: str | None = None,
    subgroup_size: int | None = None,
    options: Options | None = None,
    grid: Grid = (1, 1, 1),
    length: int = 64,
    shrinking_runs: int = SHRINKING_RUNS,
) -> Report:
    """
    Runs a module on `inputs` sets of inputs before and after every pass. `module` is changed.

    The host function runs (`@function`, `@main` or the only one). Without a host function, the
    entry points of the `spirv.module`s run on `grid` workgroups with runtime arrays of `length`.
    The subgroup size is that of `options`, of `subgroup_size`, or of a pass's target.

    Raises `ProgramError` if there is nothing to run or no inputs, and errors of passes.
    """
    if inputs < 1:
        raise ProgramError(
            f"{inputs} sets of inputs cannot show a difference",
            "",
            "use at least one set of inputs",
        )
    passes = expand_pipelines(passes)
    options = options or Options(
        subgroup_size=subgroup_size or subgroup_size_for(passes),
        component_mapping=mapping_of(target_for(passes)),
    )
    subject = subject_of(module, function, options, grid, length)
    judge = Judge(module, subject)
    report = Report()
    cases = _cases(judge, subject, inputs, seed, report)
    if isinstance(subject, HostSubject):
        report.undefined = _find_undefined(module, subject, cases)
    for current in noted("checking passes", passes, lambda p: p.name):
        before = module.clone()
        current.apply(ctx, module)
        finding, changed = find_broken(before, module), not is_same(before, module)
        if finding is None and changed:
            finding = _find_wrong_inputs(subject, judge, before, module, cases, shrinking_runs)
        if finding is not None:
            report.finding = replace(finding, stage=str(current.pipeline_pass_spec()))
            return report
        stage = str(current.pipeline_pass_spec())
        report.shares.setdefault(stage, None)
        if changed:
            worst = max((case.legal.worst(case.results)[0] for case in cases), default=0.0)
            report.shares[stage] = worst
    return report


def _cases(judge: Judge, subject: Subject, count: int, seed: int, report: Report) -> list[Case]:
    cases: list[Case] = []
    for number in noted("running the program", range(count)):
        values = draw(subject.inputs, seed, number)
        try:
            legal = judge.legal(values)
        except InterpreterError as error:
            report.skipped.append(str(error))
            continue
        cases.append(Case(values, legal, legal.centre))
    report.inputs = len(cases)
    return cases


def _find_undefined(module: ModuleOp, subject: HostSubject, cases: list[Case]) -> list[str]:
    """Returns the undefined values of `arith` on which the results of some cases depend."""
    if not any(sources_of(op) for op in module.walk() if op.name.startswith("arith.")):
        return []
    checks = Checks(undefined=True)
    watched = replace(subject, options=replace(subject.options, checks=checks))
    for case in cases:
        watched.run(module, case.values)
    return [str(finding) for finding in checks.report.findings]


def find_broken(before: ModuleOp, after: ModuleOp) -> Finding | None:
    """
    Returns a finding if the module `after` no longer verifies, or can no longer be encoded. Returns
    None otherwise.
    """
    try:
        after.verify()
    except VerifyException as error:
        return Finding("", None, f"the module no longer verifies: {error}", (), (), 0)
    for op in kernels_of(after):
        try:
            for instruction in decode(encoder.encode(op)):
                _ = instruction.operands
        except SPIRVEncodeError as error:
            # Before spirv-update-vce a module has no binary yet.
            if _can_write(before):
                return Finding("", None, f"the module can no longer be encoded: {error}", (), (), 0)
        except SPIRVDecodeError as error:
            return Finding("", None, f"the module is encoded as invalid SPIR-V: {error}", (), (), 0)
    return None


def _can_write(module: ModuleOp) -> bool:
    kernels = kernels_of(module)
    try:
        for op in kernels:
            encoder.encode(op)
    except SPIRVEncodeError:
        return False
    return bool(kernels)


def _find_wrong_inputs(
    subject: Subject,
    judge: Judge,
    before: ModuleOp,
    after: ModuleOp,
    cases: list[Case],
    budget: int,
) -> Finding | None:
    """
    Finds the first inputs for which `after` gives a wrong result, and reduces them in at most
    `budget` runs. If there are none, updates the results in `cases`.
    """
    for number, case in enumerate(cases):
        results, wrong, failure = _run(subject, after, case.legal, case.values, case.results)
        if wrong is None and not failure:
            cases[number] = Case(case.values, case.legal, results)
            continue
        verdict = _verdict(subject, judge, before, after)
        shrinker = Shrinker(case.values, lambda values: verdict(values) is not None, budget)
        smallest = shrinker.shrink()
        final = verdict(smallest)
        if final is not None:
            wrong, failure = final
        return Finding("", wrong, failure, subject.inputs, tuple(smallest), shrinker.runs)
    return None


Verdict = Callable[[Sequence[Array]], "tuple[Wrong | None, str] | None"]


def _verdict(subject: Subject, judge: Judge, before: ModuleOp, after: ModuleOp) -> Verdict:
    """
    Returns a function that runs both modules on inputs.

    The function returns the fault of `after`. It returns None if `after` is right, or if `before`
    is wrong, too.
    """

    def verdict(values: Sequence[Array]) -> tuple[Wrong | None, str] | None:
        try:
            legal = judge.legal(values)
            earlier = subject.run(before, values)
        except InterpreterError:
            return None
        if legal.worst(earlier)[0] > 1:
            return None
        _, wrong, failure = _run(subject, after, legal, values, earlier)
        return (wrong, failure) if wrong is not None or failure else None

    return verdict


def _run(
    subject: Subject,
    module: ModuleOp,
    legal: Legal,
    values: Sequence[Array],
    earlier: dict[str, Array],
) -> tuple[dict[str, Array], Wrong | None, str]:
    try:
        with np.errstate(all="ignore"):
            results = subject.run(module, values)
    except InterpreterError as error:
        return {}, None, f"the module no longer runs: {error}"
    if missing := [name for name in legal.centre if name not in results]:
        return {}, None, f"the module no longer has the result {missing[0]}"
    share, where = legal.worst(results)
    if share <= 1 or where is None:
        return results, None, ""
    return results, legal.wrong(results, earlier, where), ""
