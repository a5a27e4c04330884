"""Writes JUnit XML for CI systems: a test suite for each kernel, a test case for each launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from xdsl_spirv.tools.kernel_test.problems import Outcome
from xdsl_spirv.tools.kernel_test.reporting import describe_launch

FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 does not allow."""


def to_junit(outcomes: Sequence[Outcome]) -> bytes:
    """Returns the JUnit document."""
    suites = ElementTree.Element("testsuites", _counts(outcomes))
    kernels: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        kernels.setdefault(outcome.test.name, []).append(outcome)
    for name, launches in kernels.items():
        suite = ElementTree.SubElement(
            suites, "testsuite", {"name": _clean(name), **_counts(launches)}
        )
        for outcome in launches:
            _add_case(suite, outcome)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)


def _counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {
        "tests": str(len(outcomes)),
        "failures": str(sum(bool(o.problems) and not o.misuse for o in outcomes)),
        "errors": str(sum(bool(o.misuse) for o in outcomes)),
        "time": f"{sum(o.seconds for o in outcomes):.3f}",
    }


def _add_case(suite: ElementTree.Element, outcome: Outcome) -> None:
    attributes = {
        "name": _clean(outcome.name),
        "classname": _clean(outcome.test.name),
        "file": _clean(str(outcome.test.kernel)),
        "time": f"{outcome.seconds:.3f}",
    }
    case = ElementTree.SubElement(suite, "testcase", attributes)
    if outcome.misuse:
        error = ElementTree.SubElement(case, "error", {"message": _clean(outcome.misuse)})
        error.text = _clean(describe_launch(outcome))
    elif outcome.problems:
        first = outcome.problems[0]
        message = f"{first.rule}: {first.message}"
        failure = ElementTree.SubElement(
            case, "failure", {"message": _clean(message), "type": first.rule}
        )
        failure.text = _clean(describe_launch(outcome))


def _clean(text: str) -> str:
    return FORBIDDEN.sub("?", text)
