"""
Mesa's drivers have the bugs in docs/targets.md. A test fails when a driver has fixed its bug.

The kernels are in `tests/vulkan/driver_bugs`; `scripts/fetch_drivers.py` fetches the drivers.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.compilers import Compiler, Driver, find
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.probe import work
from xdsl_spirv.runtime.vulkan.statistics import Code
from xdsl_spirv.runtime.vulkan.work import Step, Work
from xdsl_spirv.runtime.vulkan.worker import Worker

KERNELS = Path(__file__).parents[1] / "vulkan/driver_bugs"
INTEL = ("intel:dg2", "intel:lnl", "intel:bmg")
BINDINGS = tuple((0, number, str(number)) for number in range(3))

pytestmark = pytest.mark.long


def _driver(device: str) -> Driver:
    try:
        return find(device)
    except ProgramError as error:
        pytest.skip(str(error))


def _kernel(glslang: list[str], place: Path, name: str, *macros: str) -> Work:
    binary = place / f"{name}.spv"
    options = ["-V", "--target-env", "vulkan1.3", *(f"-D{macro}" for macro in macros)]
    command = [*glslang, *options, str(KERNELS / f"{name}.comp"), "-o", str(binary)]
    subprocess.run(command, check=True, capture_output=True)
    return Work((), {name: binary.read_bytes()}, (Step(name, "main", (1, 1, 1), BINDINGS),))


def _code(driver: Driver, one: Work) -> Code:
    with Compiler(driver) as compiler:
        [code] = compiler.compile(one)
    return code


def test_turnip_on_a_shim_makes_no_second_device(glslang: list[str], tmp_path: Path):
    worker = Worker(_driver("qualcomm:740").launcher)
    try:
        worker.call("open", "vulkan", 60.0, False)
        worker.call("compile", work())
        with pytest.raises(VulkanError, match="vkCreateDevice returned VK_ERROR_OUT_OF_HOST_MEM"):
            worker.call("compile", _kernel(glslang, tmp_path, "half"))
    finally:
        worker.kill()


def test_turnip_on_a_shim_loses_its_device_by_a_kernel_that_spills(
    glslang: list[str], tmp_path: Path
):
    kernel = _kernel(glslang, tmp_path, "live_values", "VALUES=200")
    assert "VK_ERROR_DEVICE_LOST" in _code(_driver("qualcomm:740"), kernel).error


@pytest.mark.parametrize("device", INTEL)
def test_anv_reports_no_registers_of_a_kernel_that_spills(
    device: str, glslang: list[str], tmp_path: Path
):
    [table] = _code(_driver(device), _kernel(glslang, tmp_path, "live_values", "VALUES=200")).tables
    assert table["Spills"] > 0
    assert table["GRF registers"] == 0


@pytest.mark.parametrize("device", INTEL[1:])
def test_anv_loads_ahead_until_it_spills(device: str, glslang: list[str], tmp_path: Path):
    driver = _driver(device)
    kernels = [_kernel(glslang, tmp_path, "windows", f"NEIGHBOURS={n}") for n in (4, 8)]
    four, eight = (_code(driver, replace(one, subgroup_size=32)).resources for one in kernels)
    assert four.spilled == 0
    assert (eight.spilled or 0) > 100


def test_panvk_compiles_for_longer_than_in_proportion_to_what_it_spills(
    glslang: list[str], tmp_path: Path
):
    driver = _driver("arm:g610")
    kernels = [_kernel(glslang, tmp_path, "live_values", f"VALUES={n}") for n in (400, 1600)]
    few, many = (_code(driver, one) for one in kernels)
    assert (few.resources.spilled or 0) > 100
    assert many.seconds > 8 * few.seconds
