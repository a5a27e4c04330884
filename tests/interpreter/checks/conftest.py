"""
Fixtures for seeded bugs. A test's marker `bug` describes a kernel's bug and the expected finding.

The markers are also the table of docs/checks.md (test_docs.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from xdsl_spirv.interpreter.checks import Checks, Finding

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "bug(what, rule, op, first, count): a seeded bug")


class Find(Protocol):
    """`find(kernel, ...)` runs a kernel with all checks, which must find only the marked bug."""

    def __call__(self, kernel: Kernel, /, *arguments: Any, **options: Any) -> Finding: ...


class Clean(Protocol):
    """`clean(kernel, ...)` runs a kernel with all checks, which must find nothing."""

    def __call__(self, kernel: Kernel, /, *arguments: Any, **options: Any) -> None: ...


@pytest.fixture
def find(request: pytest.FixtureRequest) -> Find:
    marker = request.node.get_closest_marker("bug")
    assert marker is not None

    def run(kernel: Kernel, *arguments: Any, **options: Any) -> Finding:
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
def clean() -> Clean:
    def run(kernel: Kernel, *arguments: Any, **options: Any) -> None:
        checks = Checks.all()
        kernel.run(*arguments, checks=checks, **options)
        assert not list(checks.report), str(checks.report)

    return run
