"""
Writes SARIF 2.1.0 reports for code reviews.

Paths of files in the working directory are relative, so that a review of a checkout finds the
files. A fingerprint consists of a rule, a file and the text of a line, so that it does not depend
on line numbers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from xdsl_spirv.interpreter.checks.report import CHECKS, FAMILIES
from xdsl_spirv.tools.kernel_test import limits, problems
from xdsl_spirv.tools.kernel_test.problems import Location, Outcome, Problem

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "SRCROOT"
LONGEST = 20_000
"""Maximum length of a message, in characters."""


def to_sarif(outcomes: Sequence[Outcome]) -> str:
    """Returns the report: a result per problem, a notification per test that did not run."""
    results: dict[tuple[Any, ...], dict[str, Any]] = {}
    for outcome in outcomes:
        for problem in outcome.problems:
            key = (problem.rule, problem.location, problem.message, outcome.test.kernel)
            if key in results:  # Another subgroup size had this problem.
                _add_launch(results[key], outcome)
            else:
                results[key] = _result(problem, outcome)
    rules = sorted({result["ruleId"] for result in results.values()})
    seen: Counter[str] = Counter()
    for result in results.values():
        result["ruleIndex"] = rules.index(result["ruleId"])
        fingerprint = _fingerprint(result)
        result["partialFingerprints"] = {"ruleFileLine/v1": f"{fingerprint}:{seen[fingerprint]}"}
        seen[fingerprint] += 1
    notifications = [_notification(o) for o in outcomes if o.misuse]
    run = {
        "tool": {"driver": _driver(rules)},
        "originalUriBaseIds": {ROOT: {"uri": Path.cwd().as_uri() + "/"}},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not notifications,
                "toolExecutionNotifications": notifications,
            }
        ],
        "results": list(results.values()),
        "properties": {"launches": {o.name: o.settings for o in outcomes if o.settings}},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _fingerprint(result: dict[str, Any]) -> str:
    place = result["locations"][0]["physicalLocation"]
    region = place.get("region", {})
    line = region.get("snippet", {}).get("text", "").strip()
    parts = (result["ruleId"], place["artifactLocation"]["uri"], line or result["message"]["text"])
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _driver(rules: Iterable[str]) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "name": "xdsl-spirv",
        "semanticVersion": version("xdsl-spirv"),
        "rules": [_rule(rule) for rule in rules],
    }


def _rule(rule: str) -> dict[str, Any]:
    text = describe(rule)
    return {
        "id": rule,
        "shortDescription": {"text": text},
        "help": {"text": f"{text}. docs/{page_of(rule)} says more."},
        "defaultConfiguration": {"level": "error"},
    }


def describe(rule: str) -> str:
    """Returns one sentence about a rule."""
    own = problems.RULES | limits.RULES
    if rule in own:
        return own[rule]
    said = _checks().get(rule) or _validation(rule)
    return said or CHECKS.get(_family(rule), f"the kernel follows rule {rule}")


EXTENSIONS = frozenset({"DOT", "CM", "ROT", "BF"})
"""Prefixes of the rules that docs/rules.md describes."""


def _family(rule: str) -> str:
    """Returns the name of the check that enforces a rule, or an empty text."""
    family = rule.partition("-")[0]
    return family if family in ("STEP", "WAIT") else FAMILIES.get(family, "")


def page_of(rule: str) -> str:
    """Returns the documentation page that describes a rule."""
    if rule in problems.RULES or rule in limits.RULES:
        return "kernel-tests.md"
    if rule.partition("-")[0] in EXTENSIONS:
        return "rules.md"
    return "checks.md" if _family(rule) else "validation.md"


@cache
def _checks() -> dict[str, str]:
    """Returns the descriptions of rules in docs/checks.md, if the documentation is available."""
    page = Path(__file__).resolve().parents[2] / "docs" / "checks.md"
    try:
        text = page.read_text()
    except OSError:
        return {}
    _, _, table = text.partition("## The rules beyond the extensions")
    rows = re.findall(r"^\| ([A-Z]+-\d+) \| (.+?) \|$", table.partition("\n## ")[0], re.MULTILINE)
    return {rule: said.replace("`", "") for rule, said in rows}


def _validation(rule: str) -> str:
    from xdsl_spirv.serialization.validation import rules

    known = rules().get(rule)
    return known.says.rstrip(".") if known is not None else ""


def _result(problem: Problem, outcome: Outcome) -> dict[str, Any]:
    place = problem.location or Location(str(outcome.test.kernel))
    result: dict[str, Any] = {
        "ruleId": problem.rule,
        "level": "warning" if problem.rule == problems.UNPROVED else "error",
        "message": {"text": _text(problem.text or problem.message)},
        "locations": [_location(place)],
        "properties": {"launches": [outcome.name]},
    }
    if problem.related:
        result["relatedLocations"] = [
            {"id": number, **_location(other), "message": {"text": _text(other.message or "here")}}
            for number, other in enumerate(problem.related, 1)
        ]
    return result


def _add_launch(result: dict[str, Any], outcome: Outcome) -> None:
    result["properties"]["launches"].append(outcome.name)


def _location(place: Location) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file)}
    if place.line:
        region: dict[str, Any] = {"startLine": place.line}
        if place.column:
            region["startColumn"] = place.column
        if place.text:
            region["snippet"] = {"text": place.text}
        physical["region"] = region
    return {"physicalLocation": physical}


def _artifact(file: str) -> dict[str, Any]:
    path = Path(file)
    absolute = path if path.is_absolute() else Path.cwd() / path
    try:
        relative = absolute.resolve().relative_to(Path.cwd().resolve())
    except (ValueError, OSError):
        return {"uri": absolute.as_uri()}
    return {"uri": quote(relative.as_posix()), "uriBaseId": ROOT}


def _notification(outcome: Outcome) -> dict[str, Any]:
    place = Location(str(outcome.test.source))
    return {
        "level": "error",
        "message": {"text": _text(outcome.misuse)},
        "locations": [_location(place)],
    }


def _text(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
