"""
Find how many registers kernels for a target may fill, by asking a driver's compiler what it spills.

    scripts/fit_registers.py qualcomm:740

For each of the target's two numbers it tries the largest first: `scalar_results`, elements of a
product that an invocation computes without cooperative matrices, and `held_registers`, 32-bit
registers of an invocation for an attention's queries and results. It prints the largest of which
the driver spills nothing in any program, and the spills of the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import xdsl_spirv.targets
from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime.vulkan.compilers import Compiler, find, work_of
from xdsl_spirv.testing.driver_cases import write_cases

TRIED = {"scalar_results": (64, 32, 16, 8, 4), "held_registers": (128, 64, 32, 16)}
PROGRAMS = {"scalar_results": ("matmul", "conv"), "held_registers": ("attention",)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit a target's numbers of registers.")
    parser.add_argument("device", help="as `xdsl-spirv devices --drivers` lists it")
    driver = find(parser.parse_args().device)
    own = Path(xdsl_spirv.targets.__file__).parent / f"{driver.target}.json"
    fields = json.loads(own.read_text())
    fitted: dict[str, int | None] = {}
    with tempfile.TemporaryDirectory() as folder, Compiler(driver) as compiler:
        cases = list(write_cases(Path(folder)))
        for name, values in TRIED.items():
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


def fitted_so_far(fitted: dict[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in fitted.items() if value is not None}


def _spills(compiler: Compiler, programs: list[Path], target: str) -> str:
    """The first kernel that the driver spills of or has no code of; empty without one."""
    for path in programs:
        for code in compiler.compile(work_of(compile(path, target))):
            spilled = code.resources.spilled
            if spilled or code.error:
                return f"{path.stem}: {code.error or f'{spilled} spilled'}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
