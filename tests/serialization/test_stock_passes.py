"""
xDSL's own passes keep the results of kernels that glslang compiled.

`canonicalize`, `cse` and `dce` run on the decoded module. The result verifies, encodes to a valid
binary, and gives the results that the kernel's test expects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from xdsl_spirv.passes.spirv.specialize import specialize
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.tools import khronos
from xdsl_spirv.tools.kernel_test.description import SUFFIX
from xdsl_spirv.tools.kernel_test.loading import load_kernel
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.toml_file import read_test

ROOT = Path(__file__).resolve().parents[2]
KERNELS = [
    path
    for path in sorted((ROOT / "tests" / "kernels").glob(f"*/*{SUFFIX}"))
    if not path.name.startswith("broken")
]


def simplify(binary: bytes, *, freeze: bool = False) -> tuple[bytes, int, int]:
    """Returns the binary after stock passes, and the number of operations before and after."""
    module = decode(binary)
    before = count(module.walk())
    if freeze:
        specialize(module, {}, defaults=True)
    whole = ModuleOp([module])
    for stage in (CanonicalizePass(), CommonSubexpressionElimination(), DeadCodeElimination()):
        stage.apply(context(), whole)
        whole.verify()
    return encode(module, names=True), before, count(module.walk())


def count(operations: Iterable[Operation]) -> int:
    return sum(1 for _ in operations)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.long] if number % 3 else [])
        for number, path in enumerate(KERNELS)
    ],
    ids=name_of,
)
def test_kernels_keep_their_expected_results(
    path: Path, spirv_val: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fetched = ROOT / ".glslang" / "bin" / "glslang"
    if not fetched.exists():
        pytest.skip("glslang is not fetched: make glslang")
    monkeypatch.setenv("GLSLANG", str(fetched))
    test = read_test(path)
    kernel = load_kernel(test)
    binary, before, after = simplify(kernel.binary)
    assert after <= before
    assert khronos.spirv_val(binary, kernel.environment) == ""
    simplified = tmp_path / "kernel.spv"
    simplified.write_bytes(binary)
    for outcome in run_test(replace(test, kernel=simplified)):
        assert outcome.passed, str(outcome)


@pytest.mark.parametrize("freeze", [False, True], ids=["", "specialized"])
def test_shaders_stay_valid(glsl_modules: dict[str, bytes], spirv_val: str, freeze: bool):
    smaller = 0
    for name, original in glsl_modules.items():
        if khronos.spirv_val(original, "vulkan1.3"):
            continue
        binary, before, after = simplify(original, freeze=freeze)
        assert khronos.spirv_val(binary, "vulkan1.3") == "", name
        smaller += after < before
    assert smaller
