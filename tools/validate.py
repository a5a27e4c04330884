"""
Implements `xdsl-spirv validate`: prints the findings. The exit status is 1 if there is an error.

A file name that ends in `.mlir` is read as MLIR, any other file as a binary.
"""

from __future__ import annotations

import argparse

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.serialization.validation import ENVIRONMENTS, Finding, Severity
from xdsl_spirv.serialization.validation import validate as validate_binary
from xdsl_spirv.serialization.validation.differences import known_difference
from xdsl_spirv.serialization.validation.validator import environment_of
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.tools import khronos
from xdsl_spirv.tools.binaries import read_input
from xdsl_spirv.tools.report import note

MEMORY_OF_ALL = "VUL-10"
"""Rule for the Workgroup memory that every device supports."""


def validate(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv validate`."""
    environment: str | None = arguments.target_env
    if environment is not None and environment not in ENVIRONMENTS:
        raise ProgramError(
            f"the target environment {environment!r} does not exist",
            "--target-env",
            did_you_mean(environment, ENVIRONMENTS, f"use one of {', '.join(ENVIRONMENTS)}"),
        )
    if arguments.input.endswith(".mlir"):
        findings, binary = _mlir(arguments.input, arguments.module, environment)
    else:
        binary = read_input(arguments.input)
        findings = _binary(arguments.input, binary, environment)
    if arguments.target and binary is not None:
        # The target's limit replaces the limit that applies to all devices.
        findings = [f for f in findings if f.rule != MEMORY_OF_ALL]
        findings += _beyond_target(binary, arguments.target)
    oracle = None
    if arguments.spirv_val and binary is not None:
        oracle = _compare(binary, environment, findings)
    note(findings=[finding.as_dict() for finding in findings])
    for finding in findings:
        print(f"{arguments.input}: {finding}")
    if oracle is not None:
        note(spirv_val=oracle)
        for line in oracle["differences"]:
            print(f"{arguments.input}: difference: {line}")
    return int(any(f.severity is Severity.ERROR for f in findings))


def _binary(path: str, binary: bytes, environment: str | None) -> list[Finding]:
    try:
        return validate_binary(binary, environment)
    except SPIRVDecodeError as error:
        raise ProgramError(str(error), path, "give a SPIR-V binary") from error


def _beyond_target(binary: bytes, name: str) -> list[Finding]:
    """Returns findings for entry points that exceed a target's Workgroup memory."""
    from xdsl_spirv.serialization.validation.validator import beyond_memory
    from xdsl_spirv.targets import load

    target = load(name)
    limit = target.workgroup_memory_bytes
    return beyond_memory(decode(binary), limit, f"{target.name} has {limit}")


def _mlir(
    path: str, name: str | None, environment: str | None
) -> tuple[list[Finding], bytes | None]:
    """Returns the findings of an MLIR file's module, and its binary if it can be encoded."""
    from xdsl.utils.exceptions import VerifyException

    from xdsl_spirv.runtime.modules import ModuleParser, context
    from xdsl_spirv.serialization.encode.target import find_module
    from xdsl_spirv.serialization.validation.of_dialect import parse_finding, validate_operation

    text = read_input(path).decode("utf-8", "replace")
    parser = ModuleParser(context(), text, path)
    try:
        program = parser.parse_module()
    except VerifyException as error:
        # The parser verifies attributes and types.
        return [parse_finding(error, path, text.count("\n", 0, parser.pos) + 1)], None
    module = find_module(program, name)
    return validate_operation(module, environment)


def _compare(
    binary: bytes, environment: str | None, findings: list[Finding]
) -> dict[str, list[str] | str]:
    """Returns the findings of `spirv-val`, and their differences from this package's findings."""
    name = environment or environment_of(decode(binary)).name
    try:
        theirs = khronos.spirv_val(binary, name)
    except khronos.ToolMissing as error:
        raise ProgramError(
            str(error), "--spirv-val", "install the tool, or leave the option out"
        ) from error
    ours = [f for f in findings if f.severity is Severity.ERROR]
    differences: list[str] = []
    if ours and not theirs:
        for finding in ours:
            known = known_difference(finding.rule, finding.cause, name)
            mark = f"known: {known}" if known else "unknown"
            differences.append(f"{finding.rule}: refused here, but accepted by spirv-val ({mark})")
    elif theirs and not ours:
        known = known_difference("", theirs, name)
        mark = f"known: {known}" if known else "unknown"
        first = theirs.splitlines()[0]
        differences.append(f"accepted here, but refused by spirv-val: {first} ({mark})")
    return {"message": theirs, "differences": differences}
