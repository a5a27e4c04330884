"""Drivers that compile for missing devices are listed, and failing ones do no harm."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime import processes
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.vulkan import compilers, worker
from xdsl_spirv.runtime.vulkan.compilers import Compiler, find, list_drivers
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.probe import work
from xdsl_spirv.testing.driver_cases import MATMUL
from xdsl_spirv.tools.machine_code import report

ROOT = Path(__file__).parents[2]
LAVAPIPE = ROOT / ".lavapipe/run"
ON_LAVAPIPE = f'shift; exec {LAVAPIPE} "$@"'


def folder(place: Path, script: str = "exit 3") -> Path:
    """Writes a driver folder whose `run` is the script."""
    row = {"device": "acme:1", "driver": "Acme", "mesa": "99", "target": "lavapipe"}
    (place / "run").write_text(f"#!/bin/sh\n{script}\n")
    (place / "run").chmod(0o755)
    listed = {"devices": [row], "unavailable": {"other": "it was not packed"}}
    (place / "drivers.json").write_text(json.dumps(listed))
    return place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(compilers.VARIABLE, str(tmp_path))
    return folder(tmp_path)


def test_drivers_are_found_by_the_name_of_their_device(place: Path):
    [driver], unavailable = list_drivers()
    assert find("acme:1") == driver
    assert driver.launcher == (str(place / "run"), "acme:1")
    assert unavailable == {"other": "it was not packed"}
    said = re.escape("there is no driver of 'acme:2' (no other: it was not packed)")
    with pytest.raises(ProgramError, match=said):
        find("acme:2")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"devices": [{"device": 1}], "unavailable": {}}', '{"devices": 3}']
)
def test_a_list_that_cannot_be_read_is_an_error(place: Path, text: str):
    (place / "drivers.json").write_text(text)
    with pytest.raises(ProgramError, match="the list of drivers cannot be read"):
        list_drivers()


def test_a_missing_folder_says_what_fetches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(compilers.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProgramError, match=r"scripts/fetch_drivers\.py"):
        list_drivers()


def test_the_reason_for_missing_drivers_is_reported(place: Path):
    (place / "drivers.json").unlink()
    (place / "unavailable").write_text("this machine has no apt-get\n")
    assert list_drivers() == ([], {"drivers": "this machine has no apt-get"})


def test_a_driver_that_does_not_start_is_an_error(place: Path):
    said = re.escape("acme:1 (Acme of Mesa 99) does not start: the driver's process died")
    with pytest.raises(VulkanError, match=said + r" \(exit status 3\)"):
        Compiler(find("acme:1"))
    (place / "run").unlink()
    with pytest.raises(VulkanError, match=r"does not start: .*No such file"):
        Compiler(find("acme:1"))


@pytest.mark.skipif(not LAVAPIPE.exists(), reason="no lavapipe: scripts/fetch_lavapipe.py")
def test_a_driver_that_does_not_start_does_not_affect_others(
    place: Path, capsys: pytest.CaptureFixture[str]
):
    folder(place, f"[ $1 = acme:2 ] || exit 3; {ON_LAVAPIPE}")
    sizes = {"m": 8, "n": 8, "k": 8, "a": "f32", "c": "f32", "zero": "0.0"}
    program = compile(parse_text(MATMUL.format(**sizes)), "lavapipe")
    first = find("acme:1")
    assert report(program, [first, replace(first, device="acme:2")], None) == 1
    [*_, row, said] = capsys.readouterr().out.splitlines()
    assert row.startswith("matmul_8x8x8")
    assert said.startswith("acme:1 (Acme of Mesa 99) does not start: ")


@pytest.mark.skipif(not LAVAPIPE.exists(), reason="no lavapipe: scripts/fetch_lavapipe.py")
def test_kernels_are_compiled_and_not_run(place: Path):
    folder(place, ON_LAVAPIPE)
    twice = work(steps=2)
    with Compiler(find("acme:1")) as compiler:
        [code] = compiler.compile(twice)
        assert (code.kernel, code.error) == ("probe", "")
        assert code.seconds > 0
        assert compiler.info.name.startswith("llvmpipe")
        # A device without this subgroup size refuses the kernel and compiles others.
        refused, again = (compiler.compile(w)[0] for w in (_of_subgroups(3), twice))
        assert "subgroups of 3 invocations" in refused.error
        assert again.error == ""


def _of_subgroups(size: int) -> compilers.Work:
    one = work()
    return compilers.Work((), one.kernels, one.steps, size)


@pytest.mark.skipif(not LAVAPIPE.exists(), reason="no lavapipe: scripts/fetch_lavapipe.py")
@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("os.abort()", "the driver's process died (SIGABRT)"),
        pytest.param(
            "time.sleep(99)", "the driver did not answer within 6 s", marks=pytest.mark.long
        ),
        pytest.param("bytes(64 << 30)", "out of memory", marks=pytest.mark.long),
    ],
)
def test_a_driver_that_crashes_or_hangs_costs_one_kernel(
    place: Path, monkeypatch: pytest.MonkeyPatch, patch: str, said: str
):
    # The driver's process loads this module instead of the real command.
    hook = place / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os, time, pathlib\n"
        "from xdsl_spirv.runtime.vulkan import pipelines\n"
        "real, flag = pipelines.Pipelines.of, pathlib.Path(__file__).with_name('done')\n"
        "def of(*arguments):\n"
        "    if not flag.exists():\n"
        f"        flag.touch(); {patch}\n"
        "    return real(*arguments)\n"
        "pipelines.Pipelines.of = of\n"
    )
    folder(place, f"export PYTHONPATH={hook}:$PYTHONPATH; {ON_LAVAPIPE}")
    monkeypatch.setattr(worker, "START_SECONDS", 6.0)
    with Compiler(find("acme:1")) as compiler:
        assert compiler.compile(work())[0].error == said
        assert compiler.compile(work())[0].error == ""


def test_a_driver_may_close_the_file_that_messages_come_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "closing.py").write_text(
        "import os\n"
        "from xdsl_spirv.runtime.processes import serve\n"
        "def answer(message):\n"
        "    os.close(0)\n"
        "    os.open(os.devnull, os.O_RDONLY)\n"
        "    return message + 1\n"
        "serve(answer)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    process = processes.Process("closing")
    try:
        assert [process.ask(number, 20) for number in (1, 2)] == [2, 3]
    finally:
        process.kill()
