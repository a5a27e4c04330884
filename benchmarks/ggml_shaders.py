#!/usr/bin/env python3
"""
Runs ggml's Vulkan shaders through decoder, printer, encoder, validators and interpreter.

    python benchmarks/ggml_shaders.py CHECKOUT [--scratch /tmp/ggml] [--only REGEX] [--every]
    python benchmarks/ggml_shaders.py CHECKOUT --trips     # only round trips and verdicts
    python benchmarks/ggml_shaders.py CHECKOUT --launches  # only the launches
    python benchmarks/ggml_shaders.py CHECKOUT --cost      # only the cost of the checks

CHECKOUT is a checkout of github.com/ggml-org/ggml (or the `ggml` folder of llama.cpp). The script
needs g++, glslang (`make glslang`), spirv-opt and PyPI's `gguf`.

ggml builds some 2,000 modules from 139 shaders; most modules differ in types only. Modules are of
one *kind* if shader, type of the first operand, operation, experts and use of cooperative matrices
are equal. The first module of each kind is run; `--every` runs all. A module is launched as ggml
launches it (grid, push constants, specialization constants) with all checks, and compared with
numpy. A launch with findings runs again with line numbers. Results go to
benchmarks/results/ggml.json, where they replace earlier results of the same modules. docs/ggml.md
explains the findings.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ggml import attention, elementwise, products, quants, sequences, windows
from ggml import rows as over_rows
from ggml.launch import Case, Modules, Outcome, run, run_module
from ggml.modules import BuildError, Checkout, Module
from ggml.trips import failures

from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.serialization.decode.decoder import decode

RESULT = Path(__file__).resolve().parent / "results" / "ggml.json"
FAMILIES = (elementwise, quants, over_rows, windows, sequences, attention, products)
APART = ("DATA_A_", "OP=", "COOPMAT", "MUL_MAT_ID=", "QBLOCK_X4", "SET_ROWS", "MMQ")
"""Preprocessor defines that distinguish modules of different kinds."""

PRODUCTS = {
    "f32": ("matmul_f32_f32_fp32", "scalar", "f32", "f32", 3e-6),
    "f16": ("matmul_f16", "scalar", "f16", "f16", 1.5e-3),
    "f16, cooperative": ("matmul_f16_cm1", "matrices", "f16", "f16", 1.5e-3),
}
"""Timed cases: module, tile sizes, types of both operands, tolerance."""

BARRIER = re.compile(r"barrier\(\);")


def kind(module: Module) -> tuple[str, ...]:
    """Returns a key that is equal for modules of the same kind."""
    return module.source, *(d[2:] for d in module.defines if d[2:].startswith(APART))


def cases() -> Iterator[Case]:
    """Yields the launches of all families."""
    for family in FAMILIES:
        for function in family.FAMILIES:
            yield from function()


def chosen(modules: Modules, only: str, *, every: bool) -> dict[str, list[Case]]:
    """Returns the launches by module: one module of each kind, or all modules."""
    wanted: dict[str, list[Case]] = {}
    taken: dict[tuple[str, ...], str] = {}
    for case in cases():
        if case.module not in modules:
            raise SystemExit(f"{case.module} is missing: build ggml at the commit in docs/ggml.md")
        first = taken.setdefault(kind(modules[case.module]), case.module)
        if (every or first == case.module) and re.search(only, case.module):
            wanted.setdefault(case.module, []).append(case)
    return wanted


def with_lines(modules: Modules, outcome: Outcome) -> Outcome:
    """Runs a launch with findings again, with line numbers."""
    if not outcome.findings:
        return outcome
    binary = modules.checkout.compile(modules[outcome.case.module], ["-g"])
    again = run_module(binary, decode(binary), outcome.case)
    return again if again.findings else outcome


def interpreted(modules: Modules, only: str, *, every: bool) -> Iterator[list[dict[str, Any]]]:
    """Yields the results of each module's launches, and prints them."""
    for name, launches in chosen(modules, only, every=every).items():
        table: list[dict[str, Any]] = []
        for case in launches:
            outcome = with_lines(modules, run(modules, case))
            facts = {**outcome.facts, "source": modules[name].source}
            table.append(facts)
            rules = ", ".join(f"{f.rule}" for f in outcome.findings)
            verdict = outcome.error or outcome.wrong or rules or "right"
            print(f"{name} ({case.note}): {verdict} in {outcome.seconds:.1f} s", flush=True)
        yield table


def tripped(modules: Modules, only: str, *, every: bool) -> Iterator[list[dict[str, Any]]]:
    """Yields the failures of each module's round trips, for one module of each kind or for all."""
    seen: set[tuple[str, ...]] = set()
    for name, module in modules.by_name.items():
        if not re.search(only, name) or (kind(module) in seen and not every):
            continue
        seen.add(kind(module))
        start = time.perf_counter()
        try:
            wrong = failures(modules.checkout.compile(module), module.target)
        except BuildError as error:
            wrong = [f"not compiled: {error}"]
        seconds = round(time.perf_counter() - start, 2)
        print(f"{name}: {wrong or 'right'} in {seconds} s", flush=True)
        yield [{**module.facts, "failures": wrong, "seconds": seconds}]


def timed(module: bytes, case: Case, checks: Checks) -> tuple[Outcome, float]:
    """Returns the outcome of a launch and its processor seconds."""
    decoded = decode(module)
    start = time.process_time()
    outcome = run_module(module, decoded, case, checks)
    return outcome, time.process_time() - start


def costs(modules: Modules, size: int = 256) -> list[dict[str, Any]]:
    """Returns seconds of a product: unchecked, with all checks, and up to the report of a race."""
    table: list[dict[str, Any]] = []
    for name, (module, tiles, a, b, precision) in PRODUCTS.items():
        case = products.product(module, tiles, (size,) * 3, a, b, True, precision)
        binary = modules.checkout.compile(modules[module])
        plain, without = timed(binary, case, Checks())
        checked, with_all = timed(binary, case, Checks.all())
        race, until = timed(racing(modules, module), case, Checks.all(stop=True))
        facts = {
            "product": name,
            "module": module,
            "size": size,
            "plain": round(without, 2),
            "checked": round(with_all, 2),
            "times": round(with_all / without, 2),
            "findings": [finding.rule for finding in checked.findings],
            "equal": not (plain.error or plain.wrong or checked.error or checked.wrong),
            "race": round(until, 2),
            "reported": race.error.splitlines()[0] if race.error else "",
        }
        table.append(facts)
        print(facts, flush=True)
    return table


def racing(modules: Modules, name: str) -> bytes:
    """Returns a product's module without the barrier between writing and reading its tiles."""
    module = modules[name]
    text = module.path.read_text()
    marks = [m for m in BARRIER.finditer(text) if "pos_a +=" in text[m.end() : m.end() + 60]]
    if len(marks) != 1:
        raise SystemExit(f"{module.source} has {len(marks)} barriers before its product, not 1")
    changed = modules.checkout.scratch / f"racing-{module.source}"
    changed.write_text(text[: marks[0].start()] + text[marks[0].end() :])
    return modules.checkout.compile(module, source=changed)


def summary(facts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Counts launches and right modules, and lists wrong modules and modules with findings."""
    table = list(facts)
    names = {row["module"] for row in table}
    bad = {row["module"] for row in table if not row["executed"] or not row["equal"]}
    with_findings = {row["module"] for row in table if row["findings"]}
    return {
        "launches": len(table),
        "modules": len(names),
        "shaders": len({row["source"] for row in table}),
        "right": len(names - bad),
        "right without a finding": len(names - bad - with_findings),
        "wrong or not executed": sorted(bad),
        "with findings": sorted(with_findings),
    }


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Returns the results with new entries in place of old entries of the same modules."""
    names = {row[key] for row in new}
    return sorted([row for row in old if row[key] not in names] + new, key=lambda row: row[key])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/ggml-shaders"))
    parser.add_argument("--only", default="", help="a regular expression of modules' names")
    parser.add_argument("--every", action="store_true", help="every module, not one of a kind")
    parser.add_argument("--trips", action="store_true", help="only the trips")
    parser.add_argument("--launches", action="store_true", help="only the launches")
    parser.add_argument("--cost", action="store_true", help="only the cost of the checks")
    parser.add_argument("--output", type=Path, default=RESULT)
    given = parser.parse_args()
    try:
        modules = Modules(Checkout(given.checkout.resolve(), given.scratch))
    except BuildError as error:
        sys.exit(str(error))
    parts = {"trips": given.trips, "launches": given.launches, "cost": given.cost}
    if not any(parts.values()):
        parts = dict.fromkeys(parts, True)
    result: dict[str, Any] = json.loads(given.output.read_text()) if given.output.exists() else {}
    result |= {"date": datetime.date.today().isoformat(), "cpu": platform.processor()}
    result |= {"cores": os.cpu_count(), "built": len(modules.by_name)}
    result["kinds"] = len({kind(module) for module in modules.by_name.values()})
    if parts["trips"]:
        for rows in tripped(modules, given.only, every=given.every):
            result["trips"] = merged(result.get("trips", []), rows, "name")
            write(given.output, result)
    if parts["launches"]:
        for rows in interpreted(modules, given.only, every=given.every):
            result["launches"] = merged(result.get("launches", []), rows, "module")
            result["summary"] = summary(result["launches"])
            write(given.output, result)
        print(json.dumps(result.get("summary"), indent=1))
    if parts["cost"]:
        result["cost"] = costs(modules)
        write(given.output, result)


def write(path: Path, result: dict[str, Any]) -> None:
    """Writes the results collected so far."""
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
