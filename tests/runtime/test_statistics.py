"""Drivers' statistics of kernels are read in their own formats and interpreted."""

from __future__ import annotations

import pytest

from xdsl_spirv.runtime.vulkan.statistics import Resources, heaviest, problem, resources_of

NVIDIA = {
    "Register Count": 253,
    "Binary Size": 14976,
    "Stack Size": 0,
    "Local Memory Size": 0,
    "Shared Memory Size": 18432,
}
RADV = {
    "SGPRs": 128,
    "VGPRs": 96,
    "Spilled SGPRs": 0,
    "Spilled VGPRs": 12,
    "Code size": 4096,
    "LDS size": 8192,
    "Scratch size": 3072,
    "Subgroups per SIMD": 10,
}
ANV = {
    "Instruction Count": 812,
    "SEND Count": 60,
    "Cycle Count": 5000,
    "Spill Count": 3,
    "Fill Count": 4,
    "Scratch Memory Size": 1024,
    "Max live registers": 120,
}


# Statistics of a 1024^3 matmul from newer Mesa drivers.
ANV_26 = {
    "Instructions": 12389,
    "Cycles": 1125620,
    "Spills": 1086,
    "Fills": 1069,
    "Scratch Memory Size": 0,
    "GRF registers": 0,
    "Max live registers": 1697,
    "Workgroup Memory Size": 18944,
}
NVK = {
    "Instruction count": 576,
    "Static cycle count": 11100,
    "Max warps/SM": 16,
    "Spills to memory": 0,
    "Number of GPRs": 128,
    "SLM size": 0,
}
TURNIP = {
    "Max Waves Per Core": 6,
    "Instruction Count": 586,
    "Registers used": 32,
    "STP Count": 2,
    "LDP Count": 3,
}


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (NVIDIA, Resources(253, 0, 18432, None, 14976, 0)),
        (RADV, Resources(96, 12, 8192, 10, 4096, 3072)),
        (ANV, Resources(120, 3, scratch_bytes=1024, instructions=812, cycles=5000)),
        (ANV_26, Resources(1697, 1086, 18944, None, None, 0, 12389, None, 1125620)),
        (NVK, Resources(128, 0, None, 16, None, 0, 576, None, 11100)),
        (TURNIP, Resources(32, 3, None, 6, instructions=586)),
        ({"Something Else": 7, "Usage": True}, Resources()),
        ({}, Resources()),
    ],
)
def test_statistics_are_read_in_the_format_of_each_driver(table: dict[str, int], found: Resources):
    assert resources_of(table) == found


def test_the_maximum_over_several_programs_is_taken():
    found = heaviest([{"Register Count": 40, "Shared Memory Size": 9}, RADV, {}])
    assert found == Resources(96, 12, 8192, 10, 4096, 3072)
    assert heaviest([{"Occupancy": 4}, {"Occupancy": 12}]).subgroups == 4
    assert heaviest([]) == Resources()
    assert str(heaviest([])) == ""
    assert str(resources_of(NVIDIA)) == (
        "253 registers, 0 spilled, 18432 B of Workgroup memory, 14976 B of code"
    )


@pytest.mark.parametrize(
    ("found", "least", "why"),
    [
        (Resources(255, 48), Resources(253, 0), "spills 48 beside its 255 registers"),
        (Resources(None, 1), Resources(), "spills 1"),
        (Resources(255, 48), Resources(255, 48), ""),
        (Resources(99, 0, 24577), Resources(99, 0, 9000), "uses 24577 bytes of Workgroup memory"),
        (Resources(99, 0, 24576), Resources(99, 0, 9000), ""),
        # The default uses as many registers, so that they are not the cause.
        (Resources(99, 0, 30000), Resources(99, 0, 30000), ""),
        (
            Resources(subgroups=3),
            Resources(subgroups=8),
            "permits 3 concurrent subgroups, fewer than 8",
        ),
        (Resources(subgroups=4), Resources(subgroups=8), ""),
        (Resources(), Resources(253, 0, 18432, 8), ""),
    ],
)
def test_kernels_that_are_not_worth_timing_are_named(found: Resources, least: Resources, why: str):
    said = problem(found, least, 24576)
    assert said.startswith(why)
    assert bool(said) == bool(why)
