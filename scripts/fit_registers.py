"""
Fits a target's register limits to a driver's compiler: the largest kernels without spills.

    scripts/fit_registers.py qualcomm:740
    scripts/fit_registers.py intel:bmg --only registers

`registers` belong to a subgroup. Candidates for products with cooperative matrices are compiled
for each type. `kept` is the difference between all registers and the largest fragments without
spills, in bytes. Two other limits are tried from the largest value downwards: `scalar_results`
(elements of a product that an invocation computes without cooperative matrices) and
`held_registers` (32-bit registers of an invocation for an attention's queries and results). The
script prints the largest values without spills in any program, and the spills of larger values.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import xdsl_spirv.targets
from xdsl_spirv.compiler.api import compile
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.space import candidates
from xdsl_spirv.runtime.vulkan.compilers import Compiler, find, work_of
from xdsl_spirv.targets import load
from xdsl_spirv.testing.driver_cases import write_cases
from xdsl_spirv.tools.tune import matmul
from xdsl_spirv.tools.tuning.kinds import pricing_of
from xdsl_spirv.tools.tuning.static import StaticBench
from xdsl_spirv.tools.tuning.together import sources_of

TRIED = {
    "scalar_depth": (16, 8, 4),
    "scalar_results": (64, 32, 16, 8, 4),
    "held_registers": (128, 64, 32, 16, 8),
}
WORDS = {"RADV": 256, "ANV": 128, "NVK": 255}
"""32-bit registers of an invocation by driver, for kernels with cooperative matrices."""
NAMES = {"f16": "f16", "bf16": "bf16", "f32": "f32", "s8": "i8", "s32": "i32"}
SCALAR = ("matmul", "conv")
PROGRAMS = {
    "scalar_depth": SCALAR,
    "scalar_results": SCALAR,
    "held_registers": ("attention", "q4_row", "row"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit a target's numbers of registers.")
    parser.add_argument("device", help="as `xdsl-spirv devices --drivers` lists it")
    parser.add_argument("--only", choices=(*TRIED, "registers"), help="only this number")
    parser.add_argument("--candidates", type=int, default=32, metavar="N", help="of a product (32)")
    arguments = parser.parse_args()
    driver = find(arguments.device)
    own = Path(xdsl_spirv.targets.__file__).parent / f"{driver.target}.json"
    fields = json.loads(own.read_text())
    fitted: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, Compiler(driver) as compiler:
        if arguments.only in (None, "registers") and fields["cooperative_matrix"]:
            trials = [_write_trial(Path(folder), fields, times) for times in (1, 2)]
            fitted |= _fit_registers(compiler, trials, arguments.candidates)
        cases = list(write_cases(Path(folder)))
        for name, values in TRIED.items():
            if arguments.only not in (None, name):
                continue
            programs = [path for case, path in cases if case.startswith(PROGRAMS[name])]
            fitted[name] = None
            for value in values:
                trial = Path(folder, f"{name}-{value}.json")
                trial.write_text(json.dumps(fields | fitted_so_far(fitted) | {name: value}))
                bad = _spills(compiler, programs, str(trial))
                print(f"{name} = {value}: {bad or 'nothing is spilled'}", flush=True)
                if not bad:
                    fitted[name] = value
                    break
    print(json.dumps(fitted), f"by {driver}")
    return 0 if None not in fitted.values() else 1


def _write_trial(folder: Path, fields: dict[str, Any], times: int) -> str:
    """Writes a target without `registers`, with all schedules' `k_bytes` multiplied by `times`."""
    schedules = [s | {"k_bytes": times * s["k_bytes"]} for s in fields["schedules"]]
    trial = {k: v for k, v in fields.items() if k != "registers"} | {"schedules": schedules}
    path = folder / f"registers-{times}.json"
    path.write_text(json.dumps(trial))
    return str(path)


def _fit_registers(compiler: Compiler, targets: list[str], most: int) -> dict[str, Any]:
    """
    Returns the section `registers` of a target file, or an empty one if the driver spills no
    candidate.

    `most` limits the number of candidates per type and target.
    """
    tried = [row for target in targets for row in _try_products(compiler, target, most)]
    bytes = 4 * WORDS[compiler.driver.title] * load(targets[0]).subgroup_size
    least = min((needed for needed, cause in tried if cause), default=0)
    good = [needed for needed, cause in tried if not cause]
    if not least:
        print(f"registers: no spills up to {max(good, default=0)} bytes of {bytes}")
        return {}
    beyond = sum(needed >= least for needed in good)
    print(f"registers: {len(tried)} tried, {beyond} larger than the first with spills do not spill")
    room = max((needed for needed in good if needed < least), default=0)
    how = f"scripts/fit_registers.py {compiler.driver.device}, Mesa {compiler.driver.mesa}"
    fit = {"date": date.today().isoformat(), "how": how}
    return {"registers": {"bytes": bytes, "kept": bytes - room, "fitted": fit}}


def _try_products(compiler: Compiler, target: str, most: int) -> Iterator[tuple[int, str]]:
    """
    Yields (bytes of fragments, reason for a failure or "") of at most `most` candidates per type.
    """
    device = load(target)
    for types in dict.fromkeys((p.a, p.b, p.result) for p in device.cooperative_matrix):
        if types[0] != types[1] or not {types[0], types[2]} <= NAMES.keys():
            continue
        text = matmul(f"1024x1024x1024:{NAMES[types[0]]}->{NAMES[types[2]]}")
        [source] = sources_of(text, target, (), print)
        pricing, bench = pricing_of(source), StaticBench.on(compiler)
        if not device.properties_for(pricing.contraction.types):
            continue
        for schedule in candidates(pricing.contraction, device, most):
            [outcome] = bench.measure(source, [str(schedule)], 1)
            needed = Plan(pricing.contraction, schedule, device).fragment_bytes
            print(f"{needed} bytes: {outcome.cause or 'nothing is spilled'} {schedule}", flush=True)
            yield needed, outcome.cause


def fitted_so_far(fitted: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fitted.items() if value is not None}


def _spills(compiler: Compiler, programs: list[Path], target: str) -> str:
    """
    Returns the first kernel of the programs that spills or fails to compile, or an empty string.
    """
    for path in programs:
        for code in compiler.compile(work_of(compile(path, target))):
            spilled = code.resources.spilled
            if spilled or code.error:
                return f"{path.stem}: {code.error or f'{spilled} spilled'}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
