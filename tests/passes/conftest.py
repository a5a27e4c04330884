"""
`validate(text, passes)`: every pass of a pipeline keeps what the module computes, or the test
fails with the first that does not and the smallest inputs that show it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compare.translation import Report, check_passes
from xdsl_spirv.runtime.modules import context, parse_text


@pytest.fixture
def report_of() -> Callable[..., Report]:
    """`report_of(text, passes, **options)`: the report of `check_passes`."""

    def report(text: str, passes: str | Sequence[ModulePass], **options: Any) -> Report:
        ctx = context()
        if isinstance(passes, str):
            known = Universe.get_multiverse().all_passes
            passes = PassPipeline.parse_spec(known, passes).passes
        return check_passes(parse_text(text, ctx=ctx), passes, ctx, **options)

    return report


@pytest.fixture
def validate(report_of: Callable[..., Report]) -> Callable[..., None]:
    """`validate(text, passes, **options)`: a pass that changes results fails the test."""

    def check(text: str, passes: str | Sequence[ModulePass], **options: Any) -> None:
        report = report_of(text, passes, **options)
        assert report.finding is None, str(report)
        assert report.inputs > 0, str(report)

    return check
