"""
Shaders compiled by glslang give lavapipe's results.

Every shader of `glsl/` reads 1,024 words, some of them edge values, at binding 0, and writes words
at binding 1. Comments at its head describe the launch: `// grid: 2,1,2`, `// specialization:
{SpecId: value}`, `// push: {member: value}`, `// tolerance: 1e-4` for float results that devices
round differently, `// since: vulkan1.2` for the least version. Each is compiled directly for an
old Vulkan and through spirv-opt for a new one, decoded, encoded, and run with all checks, which
must find nothing.
"""

from __future__ import annotations

import ast
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.spirv.module import push_constant_bytes
from xdsl_spirv.passes.spirv.fallback.int64_to_words import Int64ToWordsPass
from xdsl_spirv.passes.spirv.fallback.small_integers_to_32_bits import SmallIntegersTo32BitsPass
from xdsl_spirv.passes.spirv.fallback.small_storage_to_words import SmallStorageToWordsPass
from xdsl_spirv.passes.spirv.update_vce import update
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.tools import khronos

if TYPE_CHECKING:
    from tests.conftest import RunOnLavapipe

SHADERS = sorted((Path(__file__).parent / "glsl").glob("*.comp"))
SETTINGS = (("vulkan1.1", False), ("vulkan1.3", True))
"""Target environment, and True for spirv-opt -O."""
LANES = 8
WORDS = 1 << 14
EDGES = (0, 1, 2, 0xFFFFFFFF, 1 << 31, 0x7FFFFFFF, 31, 32, 0xFFFFFFFE, 7, 255, 256, 0xFFFF, 1 << 16)


@dataclass
class Launch:
    name: str
    binary: bytes
    environment: str
    head: dict[str, str]

    @property
    def grid(self) -> tuple[int, int, int]:
        x, y, z = map(int, self.head.get("grid", "2,1,1").split(","))
        return x, y, z

    @property
    def specialization(self) -> dict[int, Any]:
        return ast.literal_eval(self.head.get("specialization", "{}"))

    @property
    def validation(self) -> list[str]:
        """Options that enable the shader's features in spirv-val."""
        return self.head.get("validation", "").split()

    @property
    def push(self) -> dict[str, Any]:
        return ast.literal_eval(self.head.get("push", "{}"))


def _buffers() -> dict[tuple[int, int], Array]:
    words = np.random.default_rng(1).integers(0, 1 << 32, 1024, np.uint32)
    words[: len(EDGES)] = EDGES
    words[64:128] &= 0xFF
    return {(0, 0): words, (0, 1): np.zeros(WORDS, np.uint32)}


@pytest.fixture(scope="module", params=[0, pytest.param(1, marks=pytest.mark.long)])
def turn(request: pytest.FixtureRequest) -> int:
    """Returns the index of the setting. Quick and long tests use different settings."""
    return request.param


@pytest.fixture(scope="module")
def launches(
    turn: int, glslang: list[str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Launch]:
    """Returns every shader, compiled for at least the Vulkan version in its first comments."""
    folder = tmp_path_factory.mktemp("glsl")
    optimizer = khronos.find("spirv-opt")
    found: dict[str, Launch] = {}
    for number, shader in enumerate(SHADERS):
        head = dict(re.findall(r"^// (\w+): (.*)$", shader.read_text(), re.MULTILINE))
        environment, optimized = SETTINGS[(number + turn) % len(SETTINGS)]
        environment = max(environment, head.get("since", ""))
        output = folder / f"{shader.stem}.spv"
        line = [*glslang, "-V", "--target-env", environment, shader, "-o", output]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if "extension not supported" in done.stdout:
            continue
        assert done.returncode == 0, done.stdout
        if optimized and optimizer is not None:
            subprocess.run([optimizer, "-O", output, "-o", output], check=True)
        found[shader.stem] = Launch(shader.stem, output.read_bytes(), environment, head)
    return found


@pytest.fixture(scope="module")
def devices_results(
    launches: dict[str, Launch], run_on_lavapipe: RunOnLavapipe
) -> dict[str, Array]:
    """Returns the buffers that lavapipe writes under the validation layer."""
    jobs = {
        name: Dispatch(
            launch.binary,
            "main",
            launch.grid,
            _buffers(),
            subgroup_size=LANES,
            spec_constants=launch.specialization,
            push_constants=push_constant_bytes(decode(launch.binary), launch.push),
        )
        for name, launch in launches.items()
    }
    run_on_lavapipe(list(jobs.values()))
    return {name: one.buffers[0, 1] for name, one in jobs.items()}


def _launch(launches: dict[str, Launch], name: str) -> Launch:
    if name not in launches:
        pytest.skip(f"this glslang cannot compile {name}.comp")
    return launches[name]


NAMES = [shader.stem for shader in SHADERS]


@pytest.mark.parametrize("name", NAMES)
def test_a_shader_gives_lavapipes_results(
    name: str, launches: dict[str, Launch], devices_results: dict[str, Array]
):
    launch = _launch(launches, name)
    module = decode(launch.binary)
    module.verify()
    assert "spirv.Raw " not in str(module)
    buffers, checks = _buffers(), Checks.all()
    options = Options(subgroup_size=LANES, checks=checks)
    dispatch(
        module, "main", launch.grid, buffers, launch.specialization, launch.push, options=options
    )
    assert not checks.report.findings, str(checks.report)
    found, wanted = buffers[0, 1], devices_results[launch.name]
    assert found.any()
    if "tolerance" in launch.head:
        tolerance = float(launch.head["tolerance"])
        same = np.isclose(found.view("f4"), wanted.view("f4"), tolerance, tolerance, equal_nan=True)
        assert (same | (found == wanted)).all()
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "name",
    ["int_int8_t", "int_uint16_t", "int_int64_t", "storage8_16", "sg_int8_t", "sg_int64_t", "pack"],
)
def test_a_shader_gives_the_same_results_in_words_of_32_bits(
    name: str, launches: dict[str, Launch], devices_results: dict[str, Array], spirv_val: str
):
    """Results stay equal on a device without integers and storage of 8, 16 and 64 bits."""
    launch = _launch(launches, name)
    module = decode(launch.binary)
    for lower in (Int64ToWordsPass, SmallStorageToWordsPass, SmallIntegersTo32BitsPass):
        lower().apply(context(), ModuleOp([module]))
        module.detach()
    update(module, (1, 5))
    module.verify()
    assert module.vce_triple is not None
    declared = {c.data.name for c in module.vce_triple.capabilities}
    assert declared.isdisjoint({"Int8", "Int16", "Int64"})
    assert not any("BitAccess" in name for name in declared)
    assert khronos.spirv_val(encode(module), "vulkan1.2", *launch.validation) == ""
    buffers, checks = _buffers(), Checks.all()
    options = Options(subgroup_size=LANES, checks=checks)
    dispatch(module, "main", launch.grid, buffers, {}, launch.push, options=options)
    assert not checks.report.findings, str(checks.report)
    np.testing.assert_array_equal(buffers[0, 1], devices_results[launch.name])


@pytest.mark.parametrize("name", NAMES)
def test_an_encoded_shader_is_valid(name: str, launches: dict[str, Launch], spirv_val: str):
    launch = _launch(launches, name)
    for binary in (launch.binary, encode(decode(launch.binary))):
        assert khronos.spirv_val(binary, launch.environment, *launch.validation) == ""
