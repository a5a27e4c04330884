"""Implements `--driver` of `compile` and `explain`: compiles for GPUs that are not present."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.errors import ProgramError

if TYPE_CHECKING:
    from xdsl_spirv.runtime.program import Program
    from xdsl_spirv.runtime.vulkan.compilers import Driver
    from xdsl_spirv.tools.explanation_data import KernelCode


def drivers_of(arguments: argparse.Namespace) -> list[Driver]:
    """Returns the drivers that `--driver` names."""
    if not arguments.drivers:
        if arguments.disassembly:
            raise ProgramError(
                "--disassembly needs a driver", "--disassembly", "give --driver DEVICE, too"
            )
        return []
    from xdsl_spirv.runtime.vulkan.compilers import find

    return [find(name) for name in dict.fromkeys(arguments.drivers)]


def codes_of(
    program: Program, drivers: Sequence[Driver], disassembly: str | None = None
) -> tuple[KernelCode, ...]:
    """
    Compiles each kernel with each driver, and returns the results sorted by kernel.

    A driver that does not start gets one entry without a kernel. Raises `VulkanError` if no driver
    starts.
    """
    from xdsl_spirv.runtime.vulkan.compilers import Compiler, work_of
    from xdsl_spirv.runtime.vulkan.errors import VulkanError
    from xdsl_spirv.runtime.vulkan.statistics import Code
    from xdsl_spirv.tools.explanation_data import KernelCode
    from xdsl_spirv.tools.output import write

    work = work_of(program)
    found: list[KernelCode] = []
    for driver in drivers:
        try:
            with Compiler(driver) as compiler:
                codes = compiler.compile(work)
        except VulkanError as error:
            if len(drivers) == 1:
                raise
            codes = [Code("", 0.0, error=error.cause)]
        for code in codes:
            found.append(
                KernelCode(
                    *(code.kernel, driver.device, str(driver), code.seconds, code.resources),
                    code.error,
                )
            )
            if disassembly and code.assembly:
                folder = Path(disassembly, driver.device.replace(":", "-"))
                folder.mkdir(parents=True, exist_ok=True)
                write(str(folder / f"{code.kernel}.txt"), code.assembly.encode())
    order = list(dict.fromkeys(code.kernel for code in found))
    return tuple(sorted(found, key=lambda code: order.index(code.kernel)))


def report(program: Program, drivers: Sequence[Driver], disassembly: str | None) -> int:
    """Prints the machine code of a program's kernels. Returns 1 if a driver fails."""
    from xdsl_spirv.tools.explain_text import code_text
    from xdsl_spirv.tools.report import note

    codes = codes_of(program, drivers, disassembly)
    note(code=codes)
    print(code_text(codes))
    return 1 if any(code.error for code in codes) else 0
