"""`check-passes --prove` proves, refutes with a confirmed input, or answers unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl.context import Context  # noqa: E402
from xdsl.dialects.builtin import ModuleOp  # noqa: E402

from xdsl_spirv.dialects.spirv import arithmetic  # noqa: E402
from xdsl_spirv.passes.spirv.fallback.int64_to_words import Int64ToWordsPass  # noqa: E402
from xdsl_spirv.tools.main import main  # noqa: E402

BUFFER = "!spirv.ptr<!spirv.struct<(!spirv.rtarray<i64, stride=8> [0]), Block>, StorageBuffer>"
ELEMENT = "!spirv.ptr<i64, StorageBuffer>"
COUNTER = "!spirv.ptr<i32, Function>"
KERNEL = f"""
spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader, Int64], []> {{
  spirv.GlobalVariable @x bind(0, 0) : {BUFFER}
  spirv.GlobalVariable @id built_in("LocalInvocationIndex") : !spirv.ptr<i32, Input>
  spirv.func @main() "None" {{
    %zero = spirv.Constant 0 : i32
    %one = spirv.Constant 1 : i32
    %three = spirv.Constant 2 : i32
    %address = spirv.mlir.addressof @id : !spirv.ptr<i32, Input>
    %i = spirv.Load "Input" %address : i32
    %x = spirv.mlir.addressof @x : {BUFFER}
    %p = spirv.AccessChain %x[%zero, %i] : {BUFFER}, i32, i32 -> {ELEMENT}
    %n = spirv.Variable init(%zero) : {COUNTER}
    spirv.mlir.loop {{
      spirv.Branch ^header
    ^header:
      %count = spirv.Load "Function" %n : i32
      %more = spirv.ULessThan %count, %three : i32
      spirv.BranchConditional %more, ^body, ^merge
    ^body:
      %old = spirv.Load "StorageBuffer" %p : i64
      %shift = spirv.Constant 5 : i64
      %half = spirv.ShiftRightLogical %old, %shift : i64, i64
      %new = spirv.BitwiseXor %old, %half : i64
      spirv.Store "StorageBuffer" %p, %new : i64
      spirv.Branch ^continue
    ^continue:
      %next = spirv.IAdd %count, %one : i32
      spirv.Store "Function" %n, %next : i32
      spirv.Branch ^header
    ^merge:
      spirv.mlir.merge
    }}
    %last = spirv.Load "StorageBuffer" %p : i64
    %thousand = spirv.Constant 1000 : i64
    %less = spirv.ISub %last, %thousand : i64
    spirv.Store "StorageBuffer" %p, %less : i64
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 1, 1, 1
}}
"""


NAMED = KERNEL.replace("spirv.module", "spirv.module @kernel")
OTHER = KERNEL.replace("spirv.module", "spirv.module @other").replace("ISub", "IAdd")
DISPATCHED = f"""
builtin.module {{
  func.func @host() {{
    func.return
  }}
  {OTHER}
  {NAMED}
}}
"""
"""A host function and two kernels with the same binding."""


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    path = tmp_path / "kernel.mlir"
    path.write_text(KERNEL)
    return str(path)


def prove(kernel: str, *more: str) -> int:
    return main(["check-passes", kernel, "-p", "spirv-int64-to-words", "--prove", *more])


def test_a_loop_over_words_is_proved(kernel: str, capsys: pytest.CaptureFixture[str]):
    assert prove(kernel) == 0
    assert "spirv-int64-to-words: proved" in capsys.readouterr().out


@pytest.mark.parametrize("text", [KERNEL, DISPATCHED])
def test_a_lost_borrow_is_refuted_with_its_input(
    text: str, kernel: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The faulty rule does not subtract the borrow between words."""
    sound = Int64ToWordsPass.apply

    def apply(self: Int64ToWordsPass, ctx: Context, op: ModuleOp) -> None:
        sound(self, ctx, op)
        for inner in op.walk():
            if isinstance(inner, arithmetic.ISubBorrowOp):
                inner.operands[1] = inner.operands[0]

    monkeypatch.setattr(Int64ToWordsPass, "apply", apply)
    Path(kernel).write_text(text)
    assert prove(kernel) == 1
    told = capsys.readouterr().out
    assert "spirv-int64-to-words: refuted: for (0, 0) word" in told
    assert "the interpreter gives a different @x" in told


@pytest.mark.parametrize("option", ["--function", "--output"])
def test_an_option_that_selects_nothing_to_prove_is_refused(
    option: str, kernel: str, capsys: pytest.CaptureFixture[str]
):
    assert prove(kernel, option, "main") == 1
    assert f"--prove does not take {option}" in capsys.readouterr().err


def test_a_launch_that_is_too_large_is_unknown(kernel: str, capsys: pytest.CaptureFixture[str]):
    assert prove(kernel, "--grid", "1000") == 1
    assert "unknown: a launch of 1000 invocations is too large" in capsys.readouterr().out
