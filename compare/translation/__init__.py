"""
Validates translations: checks that passes do not change a program's results.

    from xdsl_spirv.compare.translation import check_passes
    report = check_passes(module, passes, ctx)
    assert report.finding is None, str(report)

Programs run on the interpreter before and after every pass, on random inputs and on edge values.
If a result leaves the interval of legal results (docs/numerics.md), the last pass is wrong. The
inputs are then reduced while the result stays wrong. See docs/check-passes.md.
"""

from xdsl_spirv.compare.translation.inputs import Input
from xdsl_spirv.compare.translation.report import Finding, Report, Wrong
from xdsl_spirv.compare.translation.validator import check_passes, find_broken

__all__ = ["Finding", "Input", "Report", "Wrong", "check_passes", "find_broken"]
