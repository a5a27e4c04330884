"""
Every code block and every link in the documentation is valid.

Python blocks of a page run in sequence, and their output is the following `text` block. Options,
passes, files and extras of commands exist; commands of the README, the tour and the cookbook run
in tests/test_readme.py. MLIR, JSON and TOML are parsed. A block that does not run here names its
test.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.testing.page_blocks import (
    ROOT,
    Block,
    blocks_of,
    commands,
    indented_code,
    problem_of,
)
from xdsl_spirv.tools.main import parser

PAGES = [
    "README.md",
    *(
        str(path.relative_to(ROOT))
        for pages in ("examples/*/README.md", "docs/*.md", "docs/passes/*.md")
        for path in sorted(ROOT.glob(pages))
    ),
]
"""Pages whose code is tested here. tests/test_walks.py runs CONTRIBUTING.md."""

LANGUAGES = {"c", "glsl", "json", "mermaid", "mlir", "python", "sh", "text", "toml", "yaml"}

ELSEWHERE = {
    ("docs/interpreter.md", "from xdsl_spirv.interpreter import Image, Sampler"): (
        "tests/interpreter/checks/test_images.py::test_findings"
    ),
    ("docs/kernel-tests.md", "from dataclasses import replace"): (
        "tests/tools/kernel_test/test_documentation.py::test_the_example"
    ),
    ("docs/language-models.md", "from openai import OpenAI"): (
        "tests/llm/test_serving.py::test_a_chat_and_a_completion_return_the_models_text"
    ),
    ("docs/language-models.md", "from xdsl_spirv.llm import LanguageModel, Sampling"): (
        "tests/llm/test_smollm2.py::test_logits_and_answer_of_smollm2_are_right"
    ),
    ("docs/onnx.md", "import onnx.backend.test"): (
        "tests/frontends/test_onnx_backend.py::test_onnx_judges_the_backend"
    ),
    ("docs/onnx.md", "exported = torch.export.export(module, (x,))  # pip install '.[torch]'"): (
        "tests/frontends/test_recipes.py::test_torch"
    ),
    (
        "docs/onnx.md",
        'program = xdsl_spirv.compile("model.onnx", target="lavapipe", context=2048)',
    ): "tests/frontends/test_onnx_sessions.py::test_a_compiled_session",
    (
        "docs/pytorch.md",
        "class Given(transformers.Cache):"
        "  # a static cache: writes new keys and values at the token's position",
    ): "tests/frontends/test_recipes.py::test_transformers",
    ("docs/triton.md", "import numpy as np"): (
        "tests/frontends/triton/test_triton.py::test_the_code_of_the_page_runs"
    ),
    ("docs/runtime.md", "from xdsl_spirv.runtime.vulkan import open_device"): (
        "tests/runtime/test_vulkan.py::test_steps_run_in_one_submission"
    ),
}
"""Page and first line of a Python block that does not run here -> the test that runs it."""


def blocks(page: str, language: str) -> list[Block]:
    return [block for block in blocks_of(page) if block.language == language]


def having(language: str) -> list[str]:
    return [page for page in PAGES if blocks(page, language)]


def test_every_argument_of_a_command_is_explained():
    top = parser()
    (commands,) = (a.choices for a in top._actions if isinstance(a.choices, dict))
    for command in commands.values():
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            command.parse_args(["--help"])
    unexplained = [
        f"{name}: {action.option_strings or action.dest}"
        for name, command in commands.items()
        for action in command._actions
        if not action.help
    ]
    assert unexplained == []


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_code_name_their_language(page: str):
    assert indented_code(page) == []
    assert {block.language for block in blocks_of(page)} <= LANGUAGES


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that translates links for the site."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "pages"))
    yield import_module("links")
    sys.modules.pop("links")


@pytest.mark.parametrize("page", [*PAGES[1:], "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_lead_to_files_and_to_pages_of_the_site(links: ModuleType, page: str):
    """GitHub shows the repository. The site shows pages, files, and a page for some folders."""
    text = (ROOT / page).read_text()
    dead = {
        path for path in links.targets(text, links.site_place(page)) if not on_both(links, path)
    }
    assert dead == set()


def on_both(links: ModuleType, path: str) -> bool:
    return (ROOT / path).is_file() or ((ROOT / path).is_dir() and path in links.SHOWN)


@pytest.mark.parametrize(
    ("written", "on_the_site"),
    [
        ("the [tutorials](../tutorials)", "the [tutorials](tutorials/index.md)"),
        ("[elsewhere](../jobs)", "[elsewhere](../jobs)"),
        (
            "[its page](../tools), [a](prove.md#b)",
            "[its page](commands/index.md), [a](prove.md#b)",
        ),
        ("[a file](../tools/main.py)", "[a file](repository/tools/main.py.md)"),
        ("`[code](../tools)`", "`[code](../tools)`"),
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(
    links: ModuleType, written: str, on_the_site: str
):
    assert links.rewritten(written, "a.md") == on_the_site


@pytest.mark.parametrize("page", having("sh"))
def test_commands_can_be_typed(page: str):
    problems = [
        f"{block}: {' '.join(words)}: {problem}"
        for block in blocks(page, "sh")
        for words in commands(block)
        if (problem := problem_of(words, page))
    ]
    assert problems == []


@pytest.mark.parametrize(
    "page", [page for page in having("mlir") if not page.startswith("docs/passes/")]
)
def test_mlir_on_pages_is_parsed(page: str):
    for block in blocks(page, "mlir"):
        parse_text(block.text)


@pytest.mark.parametrize("page", sorted({*having("json"), *having("toml")}))
def test_json_and_toml_on_pages_are_parsed(page: str):
    for block in blocks(page, "json"):
        json.loads(block.text)
    for block in blocks(page, "toml"):
        tomllib.loads(block.text)


Setup = Callable[[Path, pytest.MonkeyPatch], Mapping[str, Any]]


def no_names(folder: Path, patch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    return {}


KERNEL = """
from xdsl_spirv import kernels as k

@k.kernel(workgroup=64)
def main(x=k.buffer(k.f32, read_only=True), y=k.buffer(k.f32)):
    sum = x[k.local_id()] + 1.0
    y[k.local_id()] = sum
"""
SUM = ("%9", "%sum")
"""Name of a sum in a module's text, and the name by which a page shows the sum."""


def a_kernel(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Writes a `spirv.module`, its binary, and the arguments of its launch."""
    names: dict[str, Any] = {}
    run(Block("kernel", 1, "python", KERNEL), names)
    written, x = names["main"], np.arange(64, dtype=np.float32)
    text = written.text.replace(*SUM)
    kernel = next(op for op in parse_text(text).ops if op.name == "spirv.module")
    return {"kernel": kernel, "data": written.binary, "x": x, "y": np.zeros_like(x)}


def a_product(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Writes a module of linalg on tensors, and its operands."""
    import xdsl_spirv as xs
    from xdsl_spirv.compiler.pipeline import linalg_to_spirv
    from xdsl_spirv.runtime.modules import context

    text = (ROOT / "examples" / "matmul.mlir").read_text().replace("40x", "8x")
    a, b = np.ones((8, 30), np.float16), np.ones((30, 21), np.float16)
    passes = linalg_to_spirv("lavapipe")[:18]
    return {"module": xs.parse(text), "a": a, "b": b, "passes": passes, "ctx": context()}


def the_interpreter(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    from xdsl_spirv.interpreter import semantics

    names = a_kernel(folder, patch) | a_product(folder, patch)
    semantics.load()
    patch.setattr(semantics, "TABLE", dict(semantics.TABLE))
    from xdsl_spirv.dialects.spirv.arithmetic import IAddOp

    del semantics.TABLE[IAddOp]
    return names


def an_onnx_model(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    onnx: ModuleType = pytest.importorskip("onnx")
    make = onnx.helper.make_tensor_value_info
    values = [make(name, onnx.TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "model", values[:1], values[1:])
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), folder / "model.onnx")
    return {"x": np.ones((1, 4), np.float32)}


def a_language_model(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    pytest.importorskip("gguf")
    import xdsl_spirv as xs
    from xdsl_spirv.testing.gguf_models import Shape, write_model

    write_model(folder / "model.gguf", Shape(blocks=1, context=2048))
    prompt = np.array([1, 2, 3], np.int32)
    return {"xdsl_spirv": xs, "prompt": prompt, "following": prompt[:1]}


def a_program(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    names = a_language_model(folder, patch)
    names["xdsl_spirv"].compile("model.gguf", target="lavapipe", context=2048).save("DIR")
    return names


def packages(*needed: str) -> Setup:
    """Returns a setup that skips a page if one of the packages is missing."""

    def import_them(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
        for package in needed:
            pytest.importorskip(package)
        return {}

    return import_them


NOTATION = {"docs/packed-weights.md"}
"""Pages whose `text` blocks after Python are notation, not output."""

SETUP: dict[str, Setup] = {
    "docs/binary.md": a_kernel,
    "docs/check-passes.md": a_product,
    "docs/checks.md": a_kernel,
    "docs/interpreter.md": the_interpreter,
    "docs/jax.md": packages("jax"),
    "docs/language-models.md": a_language_model,
    "docs/onnx.md": an_onnx_model,
    "docs/pytorch.md": packages("torch", "onnxscript"),
    "docs/runtime.md": a_program,
    "docs/text.md": a_kernel,
}
"""Setup of each page: files in the folder, and names that its Python uses."""


def run(block: Block, names: dict[str, Any]) -> None:
    """Runs a block as a file with known lines."""
    file = f"<{block}>"
    lines = block.text.splitlines(keepends=True)
    linecache.cache[file] = (len(block.text), None, lines, file)
    exec(compile(block.text, file, "exec"), names)


SLOW = {"docs/language-models.md", "docs/runtime.md"}
"""Pages that compile a language model. `make site-test` runs them."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.long] * (page in SLOW)) for page in having("python")],
)
def test_python_on_pages_runs(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Sessions on the best device use the interpreter in this test."""
    if "examples/sum.comp" in (text := (ROOT / page).read_text()) and "k.launch(" in text:
        find_glslang_or_skip()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names = dict(SETUP.get(page, no_names)(tmp_path, monkeypatch))
    shown: list[Block] = []
    before = None
    for block in blocks_of(page):
        if block.language == "python" and (page, block.text.partition("\n")[0]) not in ELSEWHERE:
            here = block.text.replace('session("vulkan")', 'session("interpreter")')
            run(Block(page, block.line, "python", here), names)
        if block.language == "text" and before == "python" and page not in NOTATION:
            shown.append(block)
        before = block.language
    printed = capsys.readouterr().out
    for block in shown:
        assert [line for line in block.text.splitlines() if line not in printed] == []


def find_glslang_or_skip() -> None:
    from xdsl_spirv.tools.kernel_test.compilers import find_glslang
    from xdsl_spirv.tools.kernel_test.description import Misuse

    try:
        find_glslang()
    except Misuse as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(("place", "test"), ELSEWHERE.items(), ids=str)
def test_tests_named_elsewhere_exist(place: tuple[str, str], test: str):
    page, first = place
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
    assert first in [block.text.partition("\n")[0] for block in blocks(page, "python")]
