"""The Vulkan runtime works on lavapipe without messages of the validation layer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.tools.main import main

if TYPE_CHECKING:
    from tests.conftest import RunOnLavapipe

pytestmark = pytest.mark.vulkan

SCENARIOS = Path(__file__).parent / "vulkan" / "scenarios.py"
SAFE = [
    "one_submission",
    "in_pieces",
    "once",
    "addresses",
    "features",
    "too_large",
    "a_lost_device",
    "kept_pipelines",
]
CONTROLS = ["leak", "no_barriers"]
HAZARDOUS = [
    *("a_kernel_that_never_ends", "a_driver_that_crashes"),
    *("an_interrupt", "a_killed_caller"),
]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = """
func.func @main(%A: tensor<{m}x{k}x{a}>, %B: tensor<{k}x{n}x{a}>) -> tensor<{m}x{n}x{c}> {{
  %zero = arith.constant {zero} : {c}
  %empty = tensor.empty() : tensor<{m}x{n}x{c}>
  %init = linalg.fill ins(%zero : {c}) outs(%empty : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  %r = linalg.matmul ins(%A, %B : tensor<{m}x{k}x{a}>, tensor<{k}x{n}x{a}>)
                     outs(%init : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  return %r : tensor<{m}x{n}x{c}>
}}
"""


@pytest.fixture(scope="module")
def on_lavapipe(lavapipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`on_lavapipe(*arguments)` runs Python on the driver with a separate cache."""
    cache = tmp_path_factory.mktemp("cache")

    def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [lavapipe, sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=1000,
            check=False,
            env=os.environ | {"XDSL_SPIRV_CACHE": str(cache)} | variables,
        )

    return run


def _facts(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def facts(on_lavapipe: Run, layered: dict[str, str]) -> dict[str, Any]:
    """Returns the results of all scenarios in one process, under the layer if it is installed."""
    return _facts(on_lavapipe(SCENARIOS, *SAFE, *(CONTROLS if layered else []), **layered))


def test_steps_run_in_one_submission(facts: dict[str, Any]):
    found = facts["one_submission"]
    assert found["right"] == [True, True]
    assert found["in_one_go"]
    assert len(found["times"]) == 6
    assert all(0 < time < 1e9 for time in found["times"])
    assert found["right_after_phases"]
    tracks = {track: [p for p in found["phases"] if p[0] == track] for track in ("host", "device")}
    assert [name for _, name, *_ in tracks["host"]] == ["upload", "submit", "wait", "download"]
    assert [step for *_, step in tracks["device"]] == [None, *range(6), None]
    assert all(nanoseconds > 0 for *_, nanoseconds, _ in found["phases"])
    *_, start, waited, _ = tracks["host"][2]
    assert tracks["device"][-1][2] + tracks["device"][-1][3] == pytest.approx(start + waited)
    assert len(found["times_of_runs"]) == 3
    assert all(0 < time < 1e9 for time in found["times_of_runs"])
    # Input, output and two buffers for the five temporaries.
    assert found["allocated"] == 4 * 4096
    assert found["live"]["Buffer"] == 8
    assert found["live"]["Memory"] == 2


def test_transfers_may_exceed_the_staging_buffer(facts: dict[str, Any]):
    found = facts["in_pieces"]
    assert not found["in_one_go"]
    assert found["staging"] == 1000
    assert found["y"]
    assert found["z"]


def test_results_of_weights_alone_are_computed_once(facts: dict[str, Any]):
    found = facts["once"]
    assert (found["y"], found["z"]) == ([True, True], [True, True])


def test_device_addresses(facts: dict[str, Any]):
    assert facts["addresses"]["right"]


def test_only_needed_features_are_enabled(facts: dict[str, Any]):
    welcome = ["computeFullSubgroups", "maintenance4", "scalarBlockLayout", "subgroupSizeControl"]
    assert facts["features"]["on"] == [*welcome, "vulkanMemoryModel"]
    assert facts["features"]["devices"] == 1


def test_out_of_memory_names_the_needed_bytes(facts: dict[str, Any]):
    found = facts["too_large"]
    assert "the buffer 'x' has 1024 GiB" in found["buffer"]
    assert "at most 128 MiB" in found["buffer"]
    assert "the program needs 117.2 GiB of device memory" in found["memory"]
    assert "free" in found["memory"]
    assert "1073741824 workgroups along x for scale (it takes 65535)" in found["grid"]
    assert found["size"].startswith("the buffer 'x' has 256 bytes, but the data has 4")
    assert "it is compiled for big" in found["subgroup"]
    assert "lacks subgroups of 128 invocations (it has 8)" in found["subgroup"]


def test_a_lost_device_is_reported_and_replaced(facts: dict[str, Any]):
    found = facts["a_lost_device"]
    first, second = found["said"]
    assert first.startswith("DeviceLostError: ")
    assert "returned VK_ERROR_DEVICE_LOST" in first
    assert "a kernel crashed the device or ran too long: open the device again" in first
    assert second.startswith("DeviceLostError: the device is lost")
    assert found["right"]
    assert found["devices"] == 2


@pytest.mark.long
def test_a_really_lost_device_is_reported(on_lavapipe: Run):
    script = Path(__file__).resolve().parents[2] / "scripts" / "device_lost.py"
    done = on_lavapipe(script, "--target", "lavapipe", "--seconds", "3")
    assert done.returncode == 0, done.stdout
    assert all(json.loads(done.stdout)["passed"].values())


def test_the_pipeline_cache_is_written_and_damage_is_ignored(facts: dict[str, Any]):
    found = facts["kept_pipelines"]
    assert found["kept"] > 32
    assert found["damaged"] == 0
    assert found["mended"]
    assert found["right"]
    assert found["beside"] == []


@pytest.mark.parametrize("name", SAFE)
def test_no_objects_are_left(name: str, facts: dict[str, Any]):
    assert facts[name]["left_at_last"] == {}
    assert facts["one_submission"]["left"] == {}


@pytest.mark.parametrize("name", SAFE)
def test_the_validation_layer_says_nothing(
    name: str, facts: dict[str, Any], layered: dict[str, str]
):
    if not layered:
        pytest.skip("no validation layer: delete .lavapipe and run `make lavapipe`")
    assert facts[name]["messages"] == []
    # The layer's message is received.
    assert "has not been destroyed" in "".join(facts["leak"]["messages"])
    assert "READ_AFTER_WRITE hazard detected" in "".join(facts["no_barriers"]["messages"])


def test_messages_about_other_layers_are_dropped(
    on_lavapipe: Run, layered: dict[str, str], tmp_path: Path
):
    """Desktops have implicit layers that may fail to load."""
    if not layered:
        pytest.skip("no validation layer beside lavapipe")
    layer = {
        "name": "VK_LAYER_TEST_not_loadable",
        "type": "INSTANCE",
        "library_path": str(tmp_path / "nowhere.so"),
        "api_version": "1.3.0",
        "implementation_version": "1",
        "description": "an implicit layer whose library is missing",
        "disable_environment": {"DISABLE_NOT_LOADABLE": "1"},
    }
    folder = tmp_path / "vulkan" / "implicit_layer.d"
    folder.mkdir(parents=True)
    manifest = {"file_format_version": "1.0.1", "layer": layer}
    (folder / "layer.json").write_text(json.dumps(manifest))
    variables = {
        "XDG_DATA_HOME": str(tmp_path),
        "VK_LOADER_DEBUG": "error",
        "VK_LOADER_LAYERS_ALLOW": layer["name"],  # `run` disables implicit layers.
    }
    done = on_lavapipe(SCENARIOS, "one_submission", **layered, **variables)
    assert "nowhere.so" in done.stderr, "the loader did not try to load the layer"
    assert _facts(done)["one_submission"]["messages"] == []


def test_jobs_of_all_tests_run_under_the_layer(
    run_on_lavapipe: RunOnLavapipe, layered: dict[str, str]
):
    if not layered:
        pytest.skip("no validation layer: delete .lavapipe and run `make lavapipe`")
    # A kernel that ends immediately, and the same with a pointer of the wrong type.
    ends = (SCENARIOS.parent / "forever.spvasm").read_text().replace("4294967295", "0")
    invalid = ends.replace("%flags %zero %zero", "%flags %zero")
    assert invalid != ends

    def run(text: str) -> None:
        flag = {(0, 0): np.zeros(1, np.uint32)}
        run_on_lavapipe([Dispatch(assemble(text).encode(), "forever", (1, 1, 1), flag)])
        assert flag[0, 0] == 1

    run(ends)
    with pytest.raises(AssertionError, match=r"(?s)validation layer says.*job 0 \(forever\)"):
        run(invalid)


@pytest.fixture(scope="module")
def hazards(on_lavapipe: Run) -> dict[str, Any]:
    """Returns the results of misbehaving kernels and drivers."""
    return _facts(on_lavapipe(SCENARIOS, *HAZARDOUS))


def test_an_endless_kernel_is_stopped(hazards: dict[str, Any]):
    found = hazards["a_kernel_that_never_ends"]
    assert found["error"] == "DeviceTimeoutError"
    assert "did not finish within 1 s" in found["text"]
    assert not found["alive"]


def test_a_crashing_driver_gives_an_error(hazards: dict[str, Any]):
    found = hazards["a_driver_that_crashes"]
    assert found["error"] == "DeviceLostError"
    assert "the driver's process died (SIGSEGV)" in found["text"]


def test_an_interrupt_leaves_no_process(hazards: dict[str, Any]):
    found = hazards["an_interrupt"]
    assert found["interrupted"]
    assert not found["alive"]


def test_a_killed_caller_leaves_no_process(hazards: dict[str, Any]):
    assert not hazards["a_killed_caller"]["alive"]


Programs = Callable[..., str]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """`programs(target, types, shape)` returns the folder of a compiled matmul."""
    made: dict[object, str] = {}

    def program(target: str, types: tuple[str, str], shape: tuple[int, int, int]) -> str:
        key = (target, types, shape)
        if key not in made:
            (a, c), (m, n, k) = types, shape
            zero = "0.0" if c.startswith("f") else "0"
            text = PROGRAM.format(m=m, n=n, k=k, a=a, c=c, zero=zero)
            folder = tmp_path_factory.mktemp("program") / "out"
            compile_module(parse_text(text), target).save(folder)
            made[key] = str(folder)
        return made[key]

    return program


HALF = ("f16", "f32")


MAIN = ("-m", "xdsl_spirv.tools.main", "run")


@pytest.mark.parametrize(
    ("types", "shape"),
    [(HALF, (33, 45, 70)), (("i8", "i32"), (40, 24, 16)), (("f32", "f32"), (9, 17, 5))],
)
def test_run_on_vulkan(
    types: tuple[str, str],
    shape: tuple[int, int, int],
    on_lavapipe: Run,
    layered: dict[str, str],
    programs: Programs,
    tmp_path: Path,
):
    program, output = programs("lavapipe", types, shape), tmp_path / "r.npz"
    arguments = ["--random", "3", "--check", "--device", "vulkan:0", "--time", "2", "-o", output]
    arguments.append("--statistics")
    done = on_lavapipe(*MAIN, program, *arguments, **layered)
    assert done.returncode == 0, done.stderr
    # Messages of the validation layer would be on standard error.
    assert done.stderr == ""
    assert "within the bound" in done.stdout
    assert "us in 1 dispatches" in done.stdout
    # lavapipe reports this value.
    assert ": the driver gives no statistics" in done.stdout
    there = tmp_path / "i.npz"
    assert main(["run", program, "--random", "3", "--device", "interpreter", "-o", str(there)]) == 0
    found, expected = np.load(output)["result0"], np.load(there)["result0"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("module", ["idle_subgroups", "idle_subgroups_of_one_loop"])
def test_dynamic_sizes_may_leave_subgroups_idle(module: str, on_lavapipe: Run, tmp_path: Path):
    """lavapipe crashes if a subgroup does not enter a loop that contains loops."""
    path = str(Path(__file__).parent / "vulkan" / f"{module}.mlir")
    program = str(tmp_path / "p")
    assert main(["compile", path, "--target", "lavapipe", "-o", program]) == 0
    for size in (1, 5, 100) if module == "idle_subgroups" else (5,):
        arguments = ("--random", "1", "--dim", f"x_0={size}", "--device", "vulkan", "--check")
        done = on_lavapipe(*MAIN, program, *arguments)
        assert done.returncode == 0, f"{size}: {done.stderr}"


def test_without_a_name_the_best_device_runs(on_lavapipe: Run, programs: Programs):
    program = programs("lavapipe", HALF, (33, 45, 70))
    done = on_lavapipe(*MAIN, program, "--random", "3", "--check", "--in-process")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("ran on vulkan:0 (llvmpipe")


def test_a_program_for_another_target(on_lavapipe: Run, programs: Programs):
    program = programs("nvidia-h200", HALF, (9, 9, 9))
    done = on_lavapipe(*MAIN, program, "--random", "3", "--device", "vulkan")
    assert done.returncode == 4
    assert done.stderr.startswith("error: llvmpipe")
    assert "it is compiled for nvidia-h200" in done.stderr
    assert "subgroups of 32 invocations (it has 8)" in done.stderr
    # Without --device, the interpreter runs the program and prints the reason.
    done = on_lavapipe(*MAIN, program, "--random", "3", "--check")
    assert done.returncode == 0
    assert done.stderr.startswith("note: llvmpipe")


def test_the_command_stops_an_endless_kernel(on_lavapipe: Run, programs: Programs, tmp_path: Path):
    program = tmp_path / "program"
    shutil.copytree(programs("lavapipe", HALF, (9, 9, 9)), program)
    (path,) = (program / "kernels").glob("*.spv")
    text = (SCENARIOS.parent / "forever.spvasm").read_text()
    text = text.replace('"forever"', f'"{path.stem}"')
    path.write_bytes(assemble(text).encode())
    arguments = ["--random", "3", "--device", "vulkan", "--timeout", "2", "--unsafe"]
    done = on_lavapipe(*MAIN, str(program), *arguments)
    assert done.returncode == 4
    assert done.stderr.startswith("error: ")
    assert "did not finish within 2 s" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_missing_device_is_refused(on_lavapipe: Run, programs: Programs):
    program = programs("lavapipe", HALF, (33, 45, 70))
    done = on_lavapipe(*MAIN, program, "--random", "3", "--device", "vulkan:7")
    assert done.returncode == 4
    assert "there is no device vulkan:7 (devices: vulkan:0 llvmpipe" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "vulkan:x"], "'vulkan:x' is not a Vulkan device; write vulkan or vulkan:N"),
        (["--device", "vulkan", "--time", "0"], "--time 0 is not a valid number of runs"),
        (["--device", "vulkan", "--timeout", "0"], "--timeout 0 is not a valid time"),
        (
            ["--device", "interpreter", "--time", "3"],
            "the interpreter cannot measure a device's times",
        ),
        (
            ["--device", "interpreter", "--statistics"],
            "--statistics needs a Vulkan driver; the interpreter has none",
        ),
        (["--device", "vulkan", "--sanitize", "all"], "cannot check for undefined behaviour"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], message: str, programs: Programs, capsys: pytest.CaptureFixture[str]
):
    program = programs("lavapipe", HALF, (33, 45, 70))
    assert main(["run", program, "--random", "3", *arguments]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert len(said.strip().splitlines()) == 1


def test_a_missing_loader_is_reported(
    programs: Programs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDSL_SPIRV_VULKAN_LIBRARY", "libnothing.so")
    program = programs("lavapipe", HALF, (33, 45, 70))
    assert main(["run", program, "--random", "3", "--device", "vulkan"]) == 4
    said = capsys.readouterr().err
    assert "there is no Vulkan loader (libnothing.so: cannot open" in said
    assert "XDSL_SPIRV_VULKAN_LIBRARY" in said
    # Without --device, the interpreter runs the program and prints so.
    assert main(["run", program, "--random", "3"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("note: there is no Vulkan loader")
    assert said.endswith("; running on the interpreter\n")


CALLS = """
import json, os, signal, threading, time
import numpy as np
import xdsl_spirv as xs
from xdsl_spirv.runtime.vulkan import kept

MATMUL = '''
func.func @main(%A: tensor<8x8xf32>, %B: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = linalg.matmul ins(%A, %B : tensor<8x8xf32>, tensor<8x8xf32>)
                     outs(%init : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}
'''
a = np.arange(64, dtype=np.float32).reshape(8, 8)
given = xs.compile(xs.parse(MATMUL), "lavapipe", weights={"B": a})
program = xs.compile(xs.parse(MATMUL), "lavapipe")
assert np.array_equal(program(a, a, device="vulkan"), a @ a)
(device,) = kept._devices.values()
first = device.worker.process.pid
seconds = []
for _ in range(200):
    start = time.perf_counter()
    program(a, a, device="vulkan")
    seconds.append(time.perf_counter() - start)
assert np.array_equal(given(a, device="vulkan"), a @ a)
given.weights["B"] = np.eye(8, dtype=np.float32)
assert np.array_equal(given(a, device="vulkan"), a)
threads = [threading.Thread(target=program, args=(a, a), kwargs={"device": "vulkan"})] * 1
threads += [threading.Thread(target=program, args=(a, a), kwargs={"device": "vulkan"})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert device.worker.process.pid == first and device.worker.alive
os.kill(first, signal.SIGKILL)
device.worker.process.wait()
assert np.array_equal(program(a, a, device="vulkan"), a @ a)
(again,) = kept._devices.values()
print(json.dumps([first, again.worker.process.pid, min(seconds)]))
"""


def test_calls_reuse_their_device_and_program(on_lavapipe: Run):
    done = on_lavapipe("-c", CALLS)
    assert done.returncode == 0, done.stderr
    first, again, seconds = json.loads(done.stdout)
    assert first != again
    assert seconds < 0.01  # A separate driver process for each call takes 0.4 s.
    for process in (first, again):
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
