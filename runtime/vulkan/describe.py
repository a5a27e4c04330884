"""
Describes a device as data: for `xdsl-spirv devices`, and as a target file for the compiler.

Properties that Vulkan does not report (the number of concurrent workgroups, fast tiles) are
derived from other properties. `provenance` in the file lists them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from xdsl_spirv.runtime.needs import Feature
from xdsl_spirv.runtime.vulkan.fit import SPIRV_OF_VULKAN
from xdsl_spirv.targets import ELEMENT_TYPES, SCHEMA_VERSION, CooperativeMatrixProperty

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.physical import DeviceInfo

_P = "VkPhysicalDevice"
_11, _12, _13, _14 = (f"{_P}Vulkan{n}Features" for n in (11, 12, 13, 14))
_EXPLICIT = f"{_P}WorkgroupMemoryExplicitLayoutFeaturesKHR"
_ROTATE = f"{_P}ShaderSubgroupRotateFeatures"
_MATRIX_2 = f"{_P}CooperativeMatrix2FeaturesNV"
_MAINTENANCE = f"{_P}CooperativeMatrixMaintenance1FeaturesEXT"
_BF16 = f"{_P}ShaderBfloat16FeaturesKHR"

NAMES: dict[str, tuple[Feature, ...]] = {
    "bfloat16-cooperative-matrix": (Feature(_BF16, "shaderBFloat16CooperativeMatrix"),),
    "bfloat16-dot-product": (Feature(_BF16, "shaderBFloat16DotProduct"),),
    "bfloat16-type": (Feature(_BF16, "shaderBFloat16Type"),),
    "buffer-device-address": (Feature(_12, "bufferDeviceAddress"),),
    "cooperative-matrix": (Feature(f"{_P}CooperativeMatrixFeaturesKHR", "cooperativeMatrix"),),
    "cooperative-matrix-conversions": (
        Feature(_MATRIX_2, "cooperativeMatrixConversions"),
        Feature(_MAINTENANCE, "cooperativeMatrixConversions"),
    ),
    "cooperative-matrix-per-element-operations": (
        Feature(_MATRIX_2, "cooperativeMatrixPerElementOperations"),
        Feature(_MAINTENANCE, "cooperativeMatrixPerElementOperations"),
    ),
    "cooperative-matrix-reductions": (
        Feature(_MATRIX_2, "cooperativeMatrixReductions"),
        Feature(_MAINTENANCE, "cooperativeMatrixReductions"),
    ),
    "float-controls-2": (
        Feature(_14, "shaderFloatControls2"),
        Feature(f"{_P}ShaderFloatControls2Features", "shaderFloatControls2"),
    ),
    "float16": (Feature(_12, "shaderFloat16"),),
    "float64": (Feature(f"{_P}Features", "shaderFloat64"),),
    "float8-type": (Feature(f"{_P}ShaderFloat8FeaturesEXT", "shaderFloat8"),),
    "int16": (Feature(f"{_P}Features", "shaderInt16"),),
    "int64": (Feature(f"{_P}Features", "shaderInt64"),),
    "int8": (Feature(_12, "shaderInt8"),),
    "integer-dot-product": (Feature(_13, "shaderIntegerDotProduct"),),
    "scalar-block-layout": (Feature(_12, "scalarBlockLayout"),),
    "storage-16-bit": (Feature(_11, "storageBuffer16BitAccess"),),
    "storage-8-bit": (Feature(_12, "storageBuffer8BitAccess"),),
    "subgroup-rotate": (
        Feature(_14, "shaderSubgroupRotate"),
        Feature(_ROTATE, "shaderSubgroupRotate"),
    ),
    "subgroup-rotate-clustered": (
        Feature(_14, "shaderSubgroupRotateClustered"),
        Feature(_ROTATE, "shaderSubgroupRotateClustered"),
    ),
    "subgroup-size-control": (Feature(_13, "subgroupSizeControl"),),
    "vulkan-memory-model": (Feature(_12, "vulkanMemoryModel"),),
    "vulkan-memory-model-device-scope": (Feature(_12, "vulkanMemoryModelDeviceScope"),),
    "workgroup-memory-explicit-layout": (Feature(_EXPLICIT, "workgroupMemoryExplicitLayout"),),
    "workgroup-memory-explicit-layout-16-bit": (
        Feature(_EXPLICIT, "workgroupMemoryExplicitLayout16BitAccess"),
    ),
    "workgroup-memory-explicit-layout-8-bit": (
        Feature(_EXPLICIT, "workgroupMemoryExplicitLayout8BitAccess"),
    ),
}
"""For each feature of a target file, alternative Vulkan features that provide it."""

OPERATIONS = {"subgroup-arithmetic": "arithmetic", "subgroup-shuffle": "shuffle"}
"""Features of a target file that are kinds of subgroup operations."""

NEEDED = ("vulkan-memory-model", "storage-16-bit", "storage-8-bit", "float16", "int8")
"""Features that most kernels use. A device without them can run only some kernels."""

TILES = [(128, 128), (128, 64), (64, 128), (64, 64), (32, 64), (64, 32), (32, 32), (16, 32),
         (32, 16), (16, 16), (16, 8), (8, 16), (8, 8)]  # fmt: skip
"""Sizes of a workgroup's result tile for untuned devices, in order of preference."""

ALIGNMENT = (
    "VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986: pointer and stride are aligned to "
    "min(16, bytes of a row or column)"
)
LARGEST = 2**31 - 1


def feature_names(info: DeviceInfo) -> list[str]:
    """Returns the device's features under the names that target files use, sorted."""
    names = [name for name, grants in NAMES.items() if set(grants) & info.offer.features]
    names += [name for name, op in OPERATIONS.items() if op in info.subgroup_operations]
    return sorted(names)


def summary(info: DeviceInfo) -> dict[str, Any]:
    """Returns everything that the loader reports about a device, for `devices --json`."""
    return {
        "device": f"vulkan:{info.index}",
        "name": info.name,
        "kind": info.kind,
        "driver": info.driver,
        "driver_version": info.driver_version,
        "vulkan": ".".join(map(str, info.version)),
        "uuid": info.device_uuid,
        "subgroup_size": {
            "default": info.subgroup_size,
            "min": info.subgroup_size_range[0],
            "max": info.subgroup_size_range[1],
            "control": info.subgroup_size_control,
        },
        "subgroup_operations": list(info.subgroup_operations),
        "workgroup": {
            "max_invocations": info.max_invocations,
            "max_size": list(info.max_workgroup_size),
            "memory_bytes": info.workgroup_memory_bytes,
        },
        "memory_bytes": info.device_memory,
        "storage_buffer_max_bytes": info.storage_buffer_max_bytes,
        "push_constant_bytes": info.push_constant_bytes,
        "compute_units": info.compute_units,
        "timestamps": {
            "bits": info.queue.timestamp_bits if info.queue else 0,
            "period_ns": info.timestamp_period,
        },
        "features": feature_names(info),
        "accelerated_dot": list(info.accelerated_dot),
        "cooperative_matrix": [_row(p) for p in info.matrices],
        "flexible_cooperative_matrix": [
            {**_row(p), "workgroup_invocations": n} for p, n in info.flexible_matrices
        ],
    }


def _row(p: CooperativeMatrixProperty) -> dict[str, Any]:
    return {
        **{"m": p.m, "n": p.n, "k": p.k, "a": p.a, "b": p.b, "c": p.c, "result": p.result},
        "saturating": p.saturating,
        "scope": p.scope,
    }


def target_of(info: DeviceInfo, date: str, compute_units: int | None = None) -> dict[str, Any]:
    """
    Returns the target file of a device (docs/targets.md), with `date` as the date of its figures.

    Vulkan does not report the number of compute units: it is estimated if `compute_units` is None.
    Cooperative matrices of types that no kernel uses are left out.
    """
    units = compute_units or info.compute_units
    derived = ["residency", "schedules"]
    if units is None:
        derived.append("compute_units")
        units = os.cpu_count() or 1 if info.kind == "CPU" else 16
    size, processor = info.subgroup_size, info.kind == "CPU"
    rows = [p for p in info.matrices if {*p.types} <= {*ELEMENT_TYPES} and p.scope == "Subgroup"]
    spirv = SPIRV_OF_VULKAN.get(info.version[:2], (1, 6))
    return {
        "schema_version": SCHEMA_VERSION,
        "name": re.sub(r"[^a-z0-9]+", "-", info.name.lower()).strip("-"),
        "description": info.name,
        "provenance": {
            "kind": "measured",
            "date": date,
            "how": (
                f"xdsl-spirv devices --write-target, driver {info.driver} "
                f"{info.driver_version}, Vulkan {'.'.join(map(str, info.version))}; derived, "
                f"not measured: {', '.join(derived)}"
            ),
        },
        "spirv_version": ".".join(map(str, spirv)),
        "vulkan_version": ".".join(map(str, info.version[:2])),
        "subgroup_size": {
            "default": size,
            "min": info.subgroup_size_range[0],
            "max": info.subgroup_size_range[1],
        },
        "workgroup": {
            "max_invocations": info.max_invocations,
            "max_size": list(info.max_workgroup_size),
            "memory_bytes": info.workgroup_memory_bytes,
        },
        "residency": {
            "memory_bytes": info.workgroup_memory_bytes,
            "subgroups": 1 if processor else 8,
        },
        "processor": processor,
        "grid": {"max_count": [min(n, LARGEST) for n in info.max_grid]},
        "compute_units": units,
        "storage_buffer_max_bytes": info.storage_buffer_max_bytes,
        "push_constant_bytes": info.push_constant_bytes,
        "cooperative_matrix_alignment": {"max_bytes": 16, "source": ALIGNMENT},
        "cooperative_matrix": [_row(p) for p in rows],
        "features": feature_names(info),
        "schedules": schedules(rows, size, info.max_invocations),
    }


def schedules(
    rows: Iterable[CooperativeMatrixProperty], subgroup_size: int, invocations: int
) -> list[dict[str, Any]]:
    """
    Returns schedules for an untuned device with the matrices `rows`. Their tiles are multiples of
    the smallest matrix, and their workgroups have at most this number of invocations.
    """
    shapes = {(p.m, p.n) for p in rows} or {(8, 8)}
    least = min(m for m, _ in shapes), min(n for _, n in shapes)
    entries: list[dict[str, Any]] = []
    for tile in TILES:
        m, n = tile[0] // least[0], tile[1] // least[1]
        if tile[0] % least[0] or tile[1] % least[1]:
            continue
        grid = min(2, m), min(2, n)
        if tile[0] * tile[1] < 32 * 64:
            grid = (1, min(2, n)) if n >= m else (min(2, m), 1)
        if grid[0] * grid[1] * subgroup_size <= invocations:
            entries.append({"tile": list(tile), "subgroups": list(grid), "k_bytes": 64})
    return entries


def text_of(target: dict[str, Any]) -> str:
    """Formats a target file, with one line for each field and for each record of a list."""
    lines: list[str] = []
    for key, value in target.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inner = ",\n".join(f"    {json.dumps(row)}" for row in value)
            lines.append(f"  {json.dumps(key)}: [\n{inner}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
