"""The runtime's tables of Vulkan agree with the registry in every member and number."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from xdsl_spirv.runtime.vulkan import enums, features, loader, structures
from xdsl_spirv.runtime.vulkan.layout import Chained, Plain

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "scripts" / "generate_vulkan.py"
    spec = importlib.util.spec_from_file_location("generate_vulkan", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _executed(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "<generated>", "exec", dont_inherit=True), names)
    return names


def _laid_out(kind: type[Plain]) -> list[tuple[str, int, int]]:
    return [
        (name, getattr(kind, name).offset, getattr(kind, name).size) for name, *_ in kind._fields_
    ]


def test_structures_agree_with_the_registry(generator: ModuleType):
    fresh = _executed(generator.structures())
    names = [n for n, kind in vars(structures).items() if _is_structure(kind)]
    assert set(names) == set(generator.STRUCTURES)
    for name in names:
        mine: Any = getattr(structures, name)
        assert _laid_out(mine) == _laid_out(fresh[name]), name
        assert getattr(mine, "STYPE", None) == getattr(fresh[name], "STYPE", None), name


def _is_structure(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Plain) and kind not in (Plain, Chained)


def test_structures_have_the_sizes_of_a_c_compiler():
    """The sizes are those that a C compiler computes from vulkan_core.h on a 64-bit machine."""
    for kind, size in (
        (structures.PhysicalDeviceLimits, 504),
        (structures.PhysicalDeviceProperties, 824),
        (structures.ComputePipelineCreateInfo, 96),
        (structures.SubmitInfo, 72),
        (structures.WriteDescriptorSet, 64),
        (structures.PhysicalDeviceMemoryProperties, 520),
    ):
        assert ctypes.sizeof(kind) == size, kind.__name__


def test_enumerations_agree_with_the_registry(generator: ModuleType):
    """A newer registry may have more enumerants, but no different ones."""
    fresh = _executed(generator.enums())
    for name, kind in vars(enums).items():
        if isinstance(kind, type) and kind.__module__ == enums.__name__:
            assert issubclass(kind, IntEnum | int)
            mine: Any = kind
            for member, value in mine.__members__.items():
                assert fresh[name][member] == value, f"{name}.{member}"


def test_commands_agree_with_the_registry(generator: ModuleType):
    assert loader.prototypes() == generator.commands()


def test_features_agree_with_the_registry(generator: ModuleType):
    known, fresh = features.tables(), json.loads(json.dumps(generator.features()))
    for name, row in known["structures"].items():
        assert row["members"] == fresh["structures"][name]["members"], name
        assert row["type"] == fresh["structures"][name]["type"], name
    for table in ("capabilities", "extensions"):
        for name, rows in known[table].items():
            for row in rows:
                assert row in fresh[table][name], name


def test_a_member_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="BufferCreateInfo has no member usages"):
        structures.BufferCreateInfo(usages=1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vkCmdPipelineBarrier", (1 << 11, 3, 0, 1, (1 << 47) - 8, 0, None, 0, None)),
        ("vkCmdBindDescriptorSets", (1, (1 << 64) - 1, 0, 1, (1 << 46) + 1, 0, None)),
        ("vkCmdPushConstants", ((1 << 63) + 5, 0x20, 4, 128, 1 << 40)),
        ("vkCmdDispatch", ((1 << 32) - 1, 0, 7)),
    ],
)
def test_converted_arguments_arrive_unchanged(name: str, arguments: tuple[int | None, ...]):
    types = [loader.TYPES[p] for p in loader.prototypes()[name]["parameters"]]
    received: list[Any] = []
    command = ctypes.PYFUNCTYPE(None, *types)(lambda *given: received.append(given))
    address = ctypes.cast(command, ctypes.c_void_p).value
    assert address is not None
    quick = ctypes.PYFUNCTYPE(None)(address)
    quick(ctypes.c_void_p(1 << 45), *loader.Commands.convert(name, *arguments))
    assert received == [(1 << 45, *arguments)]
