"""The example, rules and functions in docs/kernel-tests.md agree with the command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xdsl_spirv.tools.kernel_test.expressions import Evaluator
from xdsl_spirv.tools.kernel_test.limits import RULES as LIMITS
from xdsl_spirv.tools.kernel_test.problems import RULES
from xdsl_spirv.tools.main import main

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "kernel-tests.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def assert_printed(printed: str, shown: str) -> None:
    """Compares the output with the page's text, in which `...` matches any lines."""
    parts = [re.escape(part) for part in re.split(r"^ *\.\.\.\n", shown, flags=re.MULTILINE)]
    assert re.fullmatch("(?:.*\n)*?".join(parts), printed), printed


def test_the_example(
    glslang: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    (kernel, blur), (description, blurred) = blocks("glsl"), blocks("toml")
    Path("sum.comp").write_text(kernel)
    Path("sum.kernel.toml").write_text(description)
    failed, passed, sharp = blocks("text")
    assert main(["test", "sum.comp"]) == 1
    assert_printed(capsys.readouterr().out, failed)
    assert (ROOT / "examples" / "sum.comp").read_text() == kernel
    assert (ROOT / "examples" / "sum.kernel.toml").read_text() == description
    lines = kernel.splitlines()
    Path("sum.comp").write_text("\n".join([*lines[:10], "    barrier();", *lines[10:]]))
    assert main(["test", "sum.comp"]) == 0
    assert_printed(capsys.readouterr().out, passed)
    Path("blur.comp").write_text(blur)
    Path("blur.kernel.toml").write_text(blurred)
    assert main(["test", "blur.comp"]) == 0
    assert_printed(capsys.readouterr().out, sharp)
    namespace: dict[str, object] = {}
    exec(blocks("python")[0], namespace)
    assert capsys.readouterr().out == "1 True\n64 True\n65 True\n100 True\n"


def listed(name: str) -> str:
    return PAGE.partition(f"<!-- {name} -->\n")[2].partition("<!-- end")[0]


def test_the_page_has_every_rule():
    rows = "".join(f"| {rule} | {says} |\n" for rule, says in {**RULES, **LIMITS}.items())
    assert listed("rules") == rows


def test_the_page_has_every_function():
    assert re.findall(r"\w+", listed("functions")) == sorted(Evaluator({}, "").functions)
