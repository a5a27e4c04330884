"""
The standard set of kernels on the drivers of GPUs that are not here, as a Markdown table.

    scripts/driver_table.py                        every driver that is there, each with its target
    scripts/driver_table.py intel:bmg --only conv  one of them, some kernels
    scripts/driver_table.py intel:bmg --target my-xe2.json
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime.vulkan.compilers import Compiler, find, list_drivers, work_of
from xdsl_spirv.testing.driver_cases import write_cases

HEAD = ("device", "program", "kernel", "seconds", "instructions", "on matrices", "registers")
MORE = ("spilled", "private", "Workgroup", "side by side", "cycles")


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what drivers make of standard kernels.")
    parser.add_argument("devices", nargs="*", help="as `devices --drivers` lists them (all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name has it")
    parser.add_argument("--target", metavar="NAME|FILE", help="instead of the drivers' own")
    arguments = parser.parse_args()
    drivers = [find(name) for name in arguments.devices] or list_drivers()[0]
    print("|", " | ".join((*HEAD, *MORE)), "|\n" + "|---" * len((*HEAD, *MORE)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        cases = [c for c in write_cases(Path(folder)) if arguments.only in c[0]]
        for driver in drivers:
            with Compiler(driver) as compiler:
                for name, path in cases:
                    _print_rows(compiler, name, path, arguments.target or driver.target)
    return 0


def _print_rows(compiler: Compiler, name: str, path: Path, target: str) -> None:
    """The kernels of one program."""
    for code in compiler.compile(work_of(compile(path, target))):
        r = code.resources
        numbers = (r.instructions, r.matrix_instructions, r.registers, r.spilled, r.scratch_bytes)
        numbers += (r.workgroup_bytes, r.subgroups, r.cycles)
        shown = ["" if n is None else str(n) for n in numbers]
        cells = [f"**{code.error}**"] if code.error else [f"{code.seconds:.2f}", *shown]
        print("|", " | ".join([compiler.driver.device, name, code.kernel, *cells]), "|", flush=True)


if __name__ == "__main__":
    sys.exit(main())
