"""Formats the outcomes of tests as text and JSON."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from xdsl_spirv.speech import counted
from xdsl_spirv.tools import settings
from xdsl_spirv.tools.kernel_test.problems import Outcome


def describe_launch(outcome: Outcome) -> str:
    """Returns a line with the verdict of a launch, followed by its problems."""
    verdict = "ok" if outcome.passed else "not run" if outcome.misuse else "FAILED"
    lines = [f"{outcome.name}: {verdict}{_passing_remark(outcome)}"]
    texts = [problem.text for problem in outcome.problems]
    if outcome.misuse:
        texts.append(outcome.misuse)
    lines += [_indent_text(text) for text in texts]
    lines += [_indent_text(f"note: {note}") for note in outcome.notes]
    if outcome.settings:
        lines.append(f"  {settings.describe_settings(outcome.settings)}")
    return "\n".join(lines)


VERDICT = re.compile(r"(?m)^(\S.*?: )(ok|FAILED|not run)")
RULE = re.compile(r"(?m)^(  )([A-Z]+(?:-\d+)?)(?=: )")
COLOURS = {"ok": "32", "FAILED": "1;31", "not run": "33"}


def colour_verdicts(text: str) -> str:
    """Returns a text with coloured verdicts and rules, if standard output is a terminal."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    text = VERDICT.sub(lambda m: f"{m[1]}\x1b[{COLOURS[m[2]]}m{m[2]}\x1b[0m", text)
    return RULE.sub("\\1\x1b[1;31m\\2\x1b[0m", text)


def _passing_remark(outcome: Outcome) -> str:
    """Returns the expected findings and the number of compared elements of a passed launch."""
    if not outcome.passed:
        return ""
    shown: list[str] = []
    if outcome.proof is not None:
        asked = ", ".join(outcome.test.prove)
        return f" ({asked}: refuted as expected)" if outcome.expected else f" (proved: {asked})"
    if outcome.expected:
        shown.append(f"found {', '.join(sorted({p.rule for p in outcome.expected}))} as expected")
    elif outcome.checked:
        shown.append("0 findings")
    else:
        shown.append("without checks")
    shown.append(f"{outcome.compared} elements compared" if outcome.compared else "none compared")
    return f" ({', '.join(shown)})"


def _indent_text(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def summary(outcomes: Sequence[Outcome], undescribed: int = 0) -> str:
    """Returns a summary such as `3 kernels, 5 launches: 1 failed`."""
    kernels = len({outcome.test.kernel for outcome in outcomes})
    launches = sum(o.subgroup_size is not None and not o.misuse for o in outcomes)
    failed = sum(bool(outcome.problems) for outcome in outcomes)
    idle = sum(bool(outcome.misuse) for outcome in outcomes)
    proofs = sum(o.proof is not None and not o.misuse for o in outcomes)
    parts = [f"{failed} failed"] * bool(failed) + [f"{idle} not run"] * bool(idle)
    verdict = ", ".join(parts) or ("all passed" if outcomes else "nothing was run")
    more = f" ({counted(undescribed, 'kernel')} without a description)" if undescribed else ""
    done = [counted(kernels, "kernel"), counted(launches, "launch")]
    done += [counted(proofs, "proof")] * bool(proofs)
    return f"{', '.join(done)}: {verdict}{more}"


def record(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns all outcomes as data for a JSON report."""
    launches = [
        {
            "test": str(outcome.test.source),
            "kernel": str(outcome.test.kernel),
            "subgroup_size": outcome.subgroup_size,
            "passed": outcome.passed,
            "seconds": round(outcome.seconds, 3),
            "compared": outcome.compared,
            "problems": [problem.as_dict() for problem in outcome.problems],
            "expected": [problem.as_dict() for problem in outcome.expected],
            "not_run": outcome.misuse,
            "notes": outcome.notes,
            "settings": outcome.settings,
            "proof": outcome.proof,
        }
        for outcome in outcomes
    ]
    return {"summary": summary(outcomes), "launches": launches}
