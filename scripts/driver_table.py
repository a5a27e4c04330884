"""
Compiles standard kernels by drivers without their GPUs, and prints a Markdown table.

    scripts/driver_table.py                        every installed driver, each with its target
    scripts/driver_table.py intel:bmg --only conv  one driver, some kernels
    scripts/driver_table.py intel:bmg --target my-xe2.json
    scripts/driver_table.py --summary              one row a device, with the kernels that fail
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.compilers import Compiler, Driver, find, list_drivers, work_of
from xdsl_spirv.runtime.vulkan.statistics import Code
from xdsl_spirv.targets import Target, TargetError, load
from xdsl_spirv.testing.driver_cases import PROGRAMS, fills_matrices, write_cases

HEAD = ("device", "program", "kernel", "seconds", "instructions", "on matrices", "registers")
MORE = ("spilled", "private", "Workgroup", "side by side", "cycles")
SUMMARY = (
    *("device", "driver", "kernels", "with spills", "slowest compile (s)", "refused"),
    "matrix instructions missing",
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what drivers make of standard kernels.")
    parser.add_argument("devices", nargs="*", help="as `devices --drivers` lists them (all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name has it")
    parser.add_argument("--target", metavar="NAME|FILE", help="instead of the drivers' own")
    parser.add_argument("--summary", action="store_true", help="one row a device")
    arguments = parser.parse_args()
    if not any(arguments.only in name for name in PROGRAMS):
        parser.error(f"no program has {arguments.only!r} in its name: {', '.join(PROGRAMS)}")
    try:
        drivers = [find(name) for name in arguments.devices] or list_drivers()[0]
        targets = [arguments.target or driver.target for driver in drivers]
        for target in targets:
            load(target)
    except (ProgramError, TargetError) as error:
        parser.error(str(error))
    head = SUMMARY if arguments.summary else (*HEAD, *MORE)
    _print_row(head)
    print("|" + "---|" * len(head))
    with tempfile.TemporaryDirectory() as folder:
        cases = [c for c in write_cases(Path(folder)) if arguments.only in c[0]]
        failed = 0
        for driver, target in zip(drivers, targets, strict=True):
            try:
                with Compiler(driver) as compiler:
                    _print_device(compiler, cases, target, arguments.summary)
            except ProgramError as error:
                print(f"{driver.device}: {error}", file=sys.stderr)
                failed = 1
    return failed


def _print_device(
    compiler: Compiler, cases: list[tuple[str, Path]], target: str, summary: bool
) -> None:
    found = _compile_cases(compiler, cases, target)
    if summary:
        _print_row(_summary(compiler.driver, list(found), load(target)))
        return
    for name, codes in found:
        for code in codes:
            _print_row((compiler.driver.device, name, code.kernel, *_cells(code)))


def _compile_cases(
    compiler: Compiler, cases: list[tuple[str, Path]], target: str
) -> Iterator[tuple[str, list[Code]]]:
    """Yields the kernels of each program. A refused program yields one code with the reason."""
    for name, path in cases:
        try:
            yield name, compiler.compile(work_of(compile(path, target)))
        except (ProgramError, DiagnosticException) as error:
            yield name, [Code(name, 0.0, error=str(error).splitlines()[0])]


def _cells(code: Code) -> list[str]:
    """Returns compile seconds and statistics of a kernel, or the reason why it has none."""
    r = code.resources
    numbers = (r.instructions, r.matrix_instructions, r.registers, r.spilled, r.scratch_bytes)
    numbers += (r.workgroup_bytes, r.subgroups, r.cycles)
    shown = ["" if n is None else str(n) for n in numbers]
    return [f"**{code.error}**"] if code.error else [f"{code.seconds:.2f}", *shown]


def _summary(driver: Driver, found: list[tuple[str, list[Code]]], target: Target) -> list[str]:
    """Returns a device's row: kernels, spills, slowest kernel, refusals, missing instructions."""
    pairs = [(name, code) for name, codes in found for code in codes]
    spilled = [name for name, code in pairs if code.resources.spilled]
    refused = [name for name, code in pairs if code.error]
    without = [
        name
        for name, codes in found
        if fills_matrices(name, target)
        and not any(code.error or code.matrix_instructions for code in codes)
    ]
    slowest = max(((code.seconds, name) for name, code in pairs), default=(0.0, ""))
    return [
        *(driver.device, f"{driver.title} of Mesa {driver.mesa}", str(len(pairs))),
        *(_count(spilled), f"{slowest[0]:.2f} ({slowest[1]})", _count(refused), _count(without)),
    ]


def _count(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(dict.fromkeys(names))}" if names else "0"


def _print_row(cells: Iterable[str]) -> None:
    print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    sys.exit(main())
