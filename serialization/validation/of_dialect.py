"""
Validates a `spirv.module`: runs the dialect's verifiers, then the rules on the encoded binary.

A finding in the binary refers to an operation: the one that was encoded as the instruction
(`encode/origins.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.rules_types import RuleViolation
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.serialization.encode import SPIRVEncodeError
from xdsl_spirv.serialization.encode.encoder import ModuleEncoder
from xdsl_spirv.serialization.encode.origins import Origins
from xdsl_spirv.serialization.validation.registry import Severity
from xdsl_spirv.serialization.validation.validator import VERIFIER, WRITABLE, Finding, validate


def validate_operation(
    module: ModuleOp, target_env: str | None = None
) -> tuple[list[Finding], bytes | None]:
    """
    Returns the findings in a `spirv.module`, and its binary (None if it cannot be encoded). Each
    finding contains an operation's text.
    """
    findings = list(_verifier_findings(module))
    origins = Origins()
    try:
        binary = ModuleEncoder(module, names=True, lines=True, origins=origins).encode()
    except (SPIRVEncodeError, VerifyException, OverflowError) as error:
        cause = str(error).strip().splitlines()[0]
        remedy = "replace the operation by operations that have SPIR-V instructions"
        return [*findings, _finding(WRITABLE, cause, remedy, None)], None
    reported = {(f.rule, f.operation) for f in findings}
    for finding in validate(binary, target_env):
        op = origins.operation(finding.id, finding.word)
        finding = replace(finding, operation=None if op is None else text_of(op))
        if (finding.rule, finding.operation) not in reported:
            findings.append(finding)
    return findings, binary


def _verifier_findings(module: ModuleOp) -> Iterator[Finding]:
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            yield _refusal(error, op)


def parse_finding(error: VerifyException, file: str, line: int) -> Finding:
    """Returns the finding for a type or attribute that the parser rejects."""
    return replace(_refusal(error, None), operation=f"{file}:{line}")


def _refusal(error: VerifyException, op: Operation | None) -> Finding:
    """
    Creates a finding from a verifier's error. If the error names no rule, the finding's rule is
    `VERIFIER`.
    """
    if isinstance(error, RuleViolation):
        return _finding(error.rule, error.cause, error.remedy, op)
    cause = str(error).strip().splitlines()[-1]
    what = "type" if op is None else "operation"
    return _finding(VERIFIER, cause, f"write the {what} as docs/syntax.md shows it", op)


def _finding(rule: str, cause: str, remedy: str, op: Operation | None) -> Finding:
    text = None if op is None else text_of(op)
    return Finding(rule, Severity.ERROR, cause, remedy, -1, 0, operation=text)


def text_of(op: Operation) -> str:
    """Returns the first line of an operation's text."""
    first, _, rest = str(op).partition("\n")
    return first + (" ..." if rest else "")
