"""
Seeded bugs: each test's marker `bug` says what one kernel does wrong and which finding it must get.

The markers are also the table of docs/checks.md (test_docs.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xdsl_spirv.interpreter.checks import Checks, Finding


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "bug(what, rule, op, first, count): a seeded bug")


@pytest.fixture
def find(request: pytest.FixtureRequest) -> Callable[..., Finding]:
    """Run a kernel with all checks on; its only finding, which is what the marker says."""
    marker = request.node.get_closest_marker("bug")
    assert marker is not None

    def run(kernel: Any, *arguments: Any, **options: Any) -> Finding:
        checks = options.pop("checks", Checks.all())
        kernel.run(*arguments, checks=checks, **options)
        expected = marker.kwargs
        rules = [finding.rule for finding in checks.report]
        assert rules == [expected["rule"]], str(checks.report)
        (finding,) = checks.report
        assert finding.op == expected["op"], str(finding)
        if "first" in expected:
            assert finding.places[0].invocation == expected["first"], str(finding)
        if "count" in expected:
            assert finding.count == expected["count"], str(finding)
        return finding

    return run


@pytest.fixture
def clean() -> Callable[..., None]:
    """Run a kernel with all checks on, which find nothing."""

    def run(kernel: Any, *arguments: Any, **options: Any) -> None:
        checks = Checks.all()
        kernel.run(*arguments, checks=checks, **options)
        assert not list(checks.report), str(checks.report)

    return run
