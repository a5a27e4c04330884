"""
Programs with sizes that are known only when they run: one compilation, every size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.check import check
from xdsl_spirv.runtime.compiler import compile_module, parse_text
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.expressions import evaluate
from xdsl_spirv.runtime.program import Program

Shape = Sequence[int | str]


def tensor(shape: Shape, element: str) -> str:
    return f"tensor<{'x'.join('?' if isinstance(s, str) else str(s) for s in shape)}x{element}>"


def matmul(a: Shape, b: Shape, c: Shape, types: tuple[str, str], name: str = "matmul") -> str:
    """A product whose dimensions of one letter are equal and dynamic."""
    ta, tb, tc = tensor(a, types[0]), tensor(b, types[0]), tensor(c, types[1])
    lines: list[str] = []
    sizes: list[str] = []
    for axis, size in enumerate(c):
        if isinstance(size, str):
            source, shape, type = ("%A", a, ta) if size in a else ("%B", b, tb)
            lines += [
                f"%p{axis} = arith.constant {list(shape).index(size)} : index",
                f"%s{axis} = tensor.dim {source}, %p{axis} : {type}",
            ]
            sizes.append(f"%s{axis}")
    newline = "\n      "
    zero = "0" if types[1].startswith("i") else "0.0"
    return f"""
    func.func @main(%A: {ta}, %B: {tb}) -> {tc} {{
      {newline.join(lines)}
      %zero = arith.constant {zero} : {types[1]}
      %e = tensor.empty({", ".join(sizes)}) : {tc}
      %i = linalg.fill ins(%zero : {types[1]}) outs(%e : {tc}) -> {tc}
      %r = linalg.{name} ins(%A, %B : {ta}, {tb}) outs(%i : {tc}) -> {tc}
      return %r : {tc}
    }}"""


def inputs_of(program: Program, sizes: Mapping[str, int]) -> dict[str, Array]:
    generator = np.random.default_rng(1)
    found: dict[str, Array] = {}
    for buffer in program.manifest.inputs:
        shape = tuple(evaluate(size, sizes, buffer.name) for size in buffer.shape)
        dtype = dtype_of(buffer.type)
        if dtype.kind in "iu":
            found[buffer.name] = generator.integers(-8, 8, shape).astype(dtype)
        else:
            found[buffer.name] = generator.uniform(-1, 1, shape).astype(dtype)
    return found


def assert_right(program: Program, sizes: Mapping[str, int]) -> None:
    """The interpreter's results are within their bound, and its checks find nothing."""
    inputs = inputs_of(program, sizes)
    checks = Checks.of("all")
    results = run(program, inputs, checks=checks)
    assert not checks.report.findings, str(checks.report)
    for comparison in check(program, inputs, results):
        assert comparison.passed, f"{sizes}: {comparison}"


F16, F32, I8 = ("f16", "f32"), ("f32", "f32"), ("i8", "i32")

CASES: dict[str, tuple[str, list[dict[str, int]]]] = {
    "rows, matrices": (
        matmul(("m", 40), (40, 77), ("m", 77), F16),
        [{"A_0": m} for m in (1, 0, 45, 64)],
    ),
    "rows, multiply-adds": (matmul(("m", 20), (20, 12), ("m", 12), F32), [{"A_0": 1}, {"A_0": 9}]),
    "rows, dot products": (matmul(("m", 20), (20, 12), ("m", 12), I8), [{"A_0": 1}, {"A_0": 33}]),
    "columns": (matmul((33, 16), (16, "n"), (33, "n"), F16), [{"B_1": 1}, {"B_1": 45}]),
    "depth": (
        matmul((9, "k"), ("k", 12), (9, 12), F32),
        [{"A_1": 1}, {"A_1": 0}, {"A_1": 37}],
    ),
    "all": (
        matmul(("m", "k"), ("k", "n"), ("m", "n"), F16),
        [{"A_0": 1, "A_1": 1, "B_1": 1}, {"A_0": 17, "A_1": 33, "B_1": 9}],
    ),
    "batch and all": (
        matmul(("b", "m", 24), ("b", 24, "n"), ("b", "m", "n"), F16, "batch_matmul"),
        [{"A_0": 1, "A_1": 1, "B_2": 1}, {"A_0": 3, "A_1": 33, "B_2": 9}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_contractions(name: str):
    text, sizes = CASES[name]
    program = compile_module(parse_text(text), "lavapipe")
    assert program.manifest.version == 3
    for each in sizes:
        assert_right(program, each)


def test_inputs_that_disagree():
    program = compile_module(parse_text(CASES["depth"][0]), "lavapipe")
    a, b = np.zeros((9, 5), np.float32), np.zeros((7, 12), np.float32)
    with pytest.raises(ProgramError, match=r"'A' is 9x5 but 'B' is 7x12.*are both A_1, 5 and 7"):
        run(program, {"A": a, "B": b})


def test_too_many_elements():
    program = compile_module(parse_text(CASES["rows, multiply-adds"][0]), "lavapipe")
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2**28, 20), (0, 0))
    with pytest.raises(ProgramError, match="5368709120 elements at A_0 = 268435456"):
        run(program, {"A": huge, "B": np.zeros((20, 12), np.float32)})


def test_a_saved_program(tmp_path: Path):
    program = compile_module(parse_text(CASES["columns"][0]), "lavapipe")
    program.save(tmp_path / "program")
    loaded = Program.load(tmp_path / "program")
    assert loaded.manifest == program.manifest
    assert_right(loaded, {"B_1": 5})


def test_expressions():
    values = {"m": 7, "n_1": 3}
    assert evaluate("(m + 31) / 32 * n_1 - 1", values, "") == 2
    for wrong in ("m +", "(m", "m // 2", "k", "m / (n_1 - 3)", ""):
        with pytest.raises(ProgramError, match="is no size"):
            evaluate(wrong, values, "grid")
