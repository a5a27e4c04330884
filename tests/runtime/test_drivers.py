"""Targets and kernels agree with Mesa's compilers, if `scripts/fetch_drivers.py` fetched them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.compilers import Compiler, Driver, find, list_drivers, work_of
from xdsl_spirv.runtime.vulkan.describe import feature_names
from xdsl_spirv.targets import load
from xdsl_spirv.testing.driver_cases import PROGRAMS, fills_matrices, write_cases

SECONDS = 5.0
"""Time limit of a driver's compiler for one kernel."""


def _drivers() -> list[Driver]:
    try:
        return list_drivers()[0]
    except ProgramError:
        return []


QUICK = ("matmul_f16_f32", "matmul_i8_i32", "row_f16_f32", "conv_nhwc_f16", "softmax")
"""Programs that `make test` also compiles, on one device of each of two vendors."""


DEVICES = [driver.device for driver in _drivers()]
needs_drivers = pytest.mark.skipif(not DEVICES, reason="no drivers: scripts/fetch_drivers.py")


@pytest.fixture(scope="module", params=DEVICES or ["none"])
def compiler(request: pytest.FixtureRequest) -> Iterator[Compiler]:
    [driver] = [d for d in _drivers() if d.device == request.param]
    with Compiler(driver) as compiler:
        yield compiler


@needs_drivers
def test_a_target_claims_no_more_than_its_driver(compiler: Compiler):
    target, info = load(compiler.driver.target), compiler.info
    limits = {
        "invocations": (target.max_invocations, info.max_invocations),
        "Workgroup memory": (target.workgroup_memory_bytes, info.workgroup_memory_bytes),
        "storage buffers": (target.storage_buffer_max_bytes, info.storage_buffer_max_bytes),
        "push constants": (target.push_constant_bytes, info.push_constant_bytes),
    }
    sizes = zip(target.max_workgroup_size, info.max_workgroup_size, strict=True)
    limits |= {f"size {axis}": pair for axis, pair in zip("xyz", sizes, strict=True)}
    grids = zip(target.max_grid, info.max_grid, strict=True)
    limits |= {f"grid {axis}": pair for axis, pair in zip("xyz", grids, strict=True)}
    assert {name: pair for name, pair in limits.items() if pair[0] > pair[1]} == {}
    assert tuple(map(int, target.vulkan_version.split("."))) <= info.version
    assert target.subgroup_size_range == info.subgroup_size_range
    assert info.subgroup_size_range[0] <= target.subgroup_size <= info.subgroup_size_range[1]
    assert set(target.cooperative_matrix) <= set(info.matrices)
    assert target.features <= set(feature_names(info))


@pytest.mark.long
@needs_drivers
@pytest.mark.parametrize("program", PROGRAMS)
def test_standard_kernels_spill_nothing(compiler: Compiler, tmp_path: Path, program: str):
    path = next(path for name, path in write_cases(tmp_path) if name == program)
    _check_code(compiler, program, path)


@needs_drivers
@pytest.mark.parametrize("device", [d for d in DEVICES if d in ("amd:navi31", "intel:bmg")])
def test_some_kernels_spill_nothing(device: str, tmp_path: Path):
    found = dict(islice(write_cases(tmp_path), PROGRAMS.index(QUICK[-1]) + 1))
    with Compiler(find(device)) as compiler:
        for program in QUICK:
            _check_code(compiler, program, found[program])


def _check_code(compiler: Compiler, program: str, path: Path) -> None:
    """Checks a driver's code of a program: matrix instructions, compile time, and no spills."""
    target = load(compiler.driver.target)
    compiled = compile(path, target.name)
    codes = compiler.compile(work_of(compiled))
    assert [code.error for code in codes if code.error] == []
    assert {c.kernel: c.resources.spilled for c in codes if c.resources.spilled} == {}
    assert max(code.seconds for code in codes) < SECONDS
    if fills_matrices(program, target):
        assert any(code.matrix_instructions for code in codes)
