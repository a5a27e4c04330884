"""`devices` and `doctor` work with a device, without a driver, and without a loader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from xdsl_spirv.targets import load
from xdsl_spirv.tools.main import main

WITHOUT_DRIVER = """
import os, sys
os.environ["VK_DRIVER_FILES"] = os.environ["VK_ICD_FILENAMES"] = "/nothing.json"
from xdsl_spirv.tools.main import main
sys.exit(main(sys.argv[1:]))
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(lavapipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`run(*arguments)` runs Python with lavapipe's driver."""
    cache = tmp_path_factory.mktemp("cache")

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [lavapipe, sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=1000,
            check=False,
            env=os.environ | {"XDSL_SPIRV_CACHE": str(cache)},
        )

    return run


COMMAND = ("-m", "xdsl_spirv.tools.main")


@pytest.mark.vulkan
def test_doctor_with_a_device(run: Run):
    done = run(*COMMAND, "doctor")
    assert done.returncode == 0, done.stdout
    assert "ok       a kernel ran, and its result is right" in done.stdout
    assert "4 cooperative-matrix shapes: 8x8x8 f16 x f16 + f16 -> f16" in done.stdout
    assert "runs programs for --target lavapipe" in done.stdout
    assert "FAILED" not in done.stdout


@pytest.mark.vulkan
def test_doctor_without_a_driver(run: Run):
    done = run("-c", WITHOUT_DRIVER, "doctor")
    assert done.returncode == 1
    assert "FAILED   the Vulkan loader finds no driver" in done.stdout
    assert "the driver manifest /nothing.json cannot be read: No such file" in done.stdout
    assert "install the device's driver" in done.stdout
    done = run("-c", WITHOUT_DRIVER, "devices")
    assert done.returncode == 4
    assert done.stderr.startswith("error: the Vulkan loader finds no driver")


def test_doctor_without_a_loader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDSL_SPIRV_VULKAN_LIBRARY", "libnothing.so")
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "XDSL_SPIRV_VULKAN_LIBRARY=libnothing.so" in printed
    assert "FAILED   there is no Vulkan loader" in printed
    assert "install it (Debian: libvulkan1" in printed
    assert main(["devices"]) == 4
    assert capsys.readouterr().err.startswith("error: there is no Vulkan loader")


@pytest.mark.vulkan
def test_a_target_file_of_a_device(run: Run, tmp_path: Path):
    done = run(*COMMAND, "devices", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["devices"]
    assert found["device"] == "vulkan:0"
    assert found["kind"] == "CPU"
    path = tmp_path / "mine.json"
    done = run(*COMMAND, "devices", "--write-target", path, "--compute-units", "3")
    assert done.returncode == 0, done.stderr
    mine, known = load(str(path)), load("lavapipe")
    assert mine.compute_units == 3
    assert mine.subgroup_size == known.subgroup_size
    assert mine.cooperative_matrix == known.cooperative_matrix
    assert mine.workgroup_memory_bytes == known.workgroup_memory_bytes
    # The package's target file for lavapipe agrees with lavapipe.
    assert known.features <= mine.features
    assert mine.schedules
    done = run(*COMMAND, "devices", "--device", "vulkan:4")
    assert done.returncode == 1
    assert "there is no device vulkan:4 (vulkan:0 llvmpipe" in done.stderr


OWN_TARGET = """
from dataclasses import replace
from xdsl_spirv.runtime.vulkan.worker import list_devices
from xdsl_spirv.targets import load
from xdsl_spirv.runtime.vulkan.own_target import target_for
info = list_devices().best_first()[0]
print(target_for(info))
print(load(target_for(replace(info, name="Some GPU", workgroup_memory_bytes=16384))).name)
"""


@pytest.mark.vulkan
def test_a_model_is_compiled_for_the_device_of_this_machine(run: Run):
    done = run("-c", OWN_TARGET)
    assert done.stdout.splitlines() == ["lavapipe", "some-gpu"], done.stderr
