"""
Runs a launch of a module with all checks and compares its results.

A case has the initial bytes of every buffer and the expected values of the buffers that the module
writes. All other buffers must not change. Buffers are exactly as large as their tensors, so that
the checks find every access out of bounds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ggml.interface import Value, push_constants, specialization_ids
from ggml.modules import Checkout, Module
from xdsl_spirv.dialects.spirv.structure import ModuleOp
from xdsl_spirv.interpreter import InterpreterError, Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.checks.report import Finding
from xdsl_spirv.serialization.decode.decoder import decode

Array = np.ndarray[Any, np.dtype[Any]]
Grid = tuple[int, int, int]
SHOWN = 3


@dataclass(frozen=True)
class Address:
    """A push constant that contains the physical address of a buffer."""

    binding: int


@dataclass
class Case:
    """
    A launch with the expected values by binding.

    An element of a floating-point buffer may differ by `absolute` and `relative`; the tolerance is
    relative to the magnitude of the expected value. Integer buffers must be equal. `scratch`
    buffers are not compared.
    """

    module: str
    grid: Grid
    buffers: dict[int, Array]
    expected: dict[int, Array]
    push: Mapping[str, Value | Address] = field(default_factory=dict[str, "Value | Address"])
    constants: Mapping[int, int | float | bool] = field(
        default_factory=dict[int, int | float | bool]
    )
    subgroup: int = 32
    absolute: float = 1e-6
    relative: float = 1e-5
    note: str = ""
    scratch: frozenset[int] = frozenset()


@dataclass
class Outcome:
    """The result of a case. `error` is the message of a refusal, `wrong` describes a difference."""

    case: Case
    seconds: float
    error: str = ""
    wrong: str = ""
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def facts(self) -> dict[str, Any]:
        """Returns the launch's entry in the results file."""
        return {
            "module": self.case.module,
            "variant": self.case.note,
            "grid": list(self.case.grid),
            "subgroup": self.case.subgroup,
            "executed": not self.error,
            "equal": not self.error and not self.wrong,
            "seconds": round(self.seconds, 2),
            "error": self.error,
            "wrong": self.wrong,
            "findings": [
                {"rule": f.rule, "line": f.line, "message": f.message, "count": f.count}
                for f in self.findings
            ],
        }


class Modules:
    """The modules of a checkout. Each module is compiled and decoded once."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self.by_name = {module.name: module for module in checkout.modules()}
        self._decoded: dict[str, tuple[bytes, ModuleOp]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def __getitem__(self, name: str) -> Module:
        return self.by_name[name]

    def decoded(self, name: str) -> tuple[bytes, ModuleOp]:
        """Returns the binary of a module and its decoded form."""
        if name not in self._decoded:
            binary = self.checkout.compile(self.by_name[name])
            self._decoded[name] = binary, decode(binary)
        return self._decoded[name]


def run(modules: Modules, case: Case, checks: Checks | None = None) -> Outcome:
    """Runs a case of ggml's module and compares the results. Uses all checks by default."""
    binary, module = modules.decoded(case.module)
    return run_module(binary, module, case, checks)


def run_module(
    binary: bytes, module: ModuleOp, case: Case, checks: Checks | None = None
) -> Outcome:
    """Runs a case with another module than ggml's and compares the results."""
    chosen = Checks.all() if checks is None else checks
    options = Options(subgroup_size=case.subgroup, checks=chosen)
    buffers = {(0, binding): array.copy() for binding, array in case.buffers.items()}
    start = time.perf_counter()
    try:
        given = {
            name: buffers[0, value.binding].ctypes.data if isinstance(value, Address) else value
            for name, value in case.push.items()
        }
        push, known = push_constants(binary, given), specialization_ids(binary)
        dispatch(
            module,
            "main",
            case.grid,
            buffers,
            {number: value for number, value in case.constants.items() if number in known},
            push,
            options=options,
        )
    except InterpreterError as error:
        return Outcome(case, time.perf_counter() - start, error=str(error))
    outcome = Outcome(case, time.perf_counter() - start, findings=chosen.report.findings)
    for binding, before in case.buffers.items():
        if binding in case.scratch:
            continue
        wanted = case.expected.get(binding, before)
        if wrong := _difference(buffers[0, binding], wanted, case):
            outcome.wrong = f"binding {binding}: {wrong}"
            break
    return outcome


def _difference(result: Array, wanted: Array, case: Case) -> str:
    if result.dtype.kind == "f" and wanted.dtype.kind == "f":
        there, here = result.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
        with np.errstate(all="ignore"):
            room = case.absolute + case.relative * np.abs(here)
            same = (np.abs(there - here) <= room) | (there == here)
        same |= np.isnan(there) & np.isnan(here)
    else:
        there, here = result.view(np.uint8).ravel(), wanted.view(np.uint8).ravel()
        same = there == here
    places = np.flatnonzero(~same)
    if not len(places):
        return ""
    first = ", ".join(f"[{n}] {there[n]} instead of {here[n]}" for n in places[:SHOWN])
    return f"{len(places)} of {len(same)} differ: {first}"
