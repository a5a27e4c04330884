"""A run without checks names integer results that buffer contents make undefined."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.errors import UndefinedResultWarning
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.main import main

LEAST = -(2**31)
CASES = {
    "divsi": "UNDEF-04",
    "divui": "UNDEF-04",
    "remsi": "UNDEF-04",
    "remui": "UNDEF-04",
    "shli": "UNDEF-03",
    "shrsi": "UNDEF-03",
    "fptosi": "UNDEF-06",
}
"""For each operation, the rule that makes its result undefined."""

GIVEN = {"a": [7, 7, 8], "b": [1, 0, 2], "c": [1, 32, 2], "d": [7, 3e9, 8]}
"""Inputs by name. The second element makes the result of each operation undefined."""


def program_of(guarded: bool) -> Program:
    """Returns the operations on each element. If `guarded`, only defined results are selected."""
    maps = ", ".join(["affine_map<(i) -> (i)>"] * 5)
    whole, floats = "tensor<3xi32>", "tensor<3xf32>"
    results = ""
    for operation in CASES:
        second = "%z" if operation.startswith("sh") else "%y"
        of = "%f : f32 to i32" if operation == "fptosi" else f"%x, {second} : i32"
        results += f"""
        %{operation} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
            ins(%a, %b, %c, %d : {whole}, {whole}, {whole}, {floats}) outs(%e : {whole}) {{
        ^bb0(%x: i32, %y: i32, %z: i32, %f: f32, %o: i32):
          %zero = arith.constant 0 : i32
          %defined = arith.cmpi ne, %y, %zero : i32
          %q = arith.{operation} {of}
          %s = arith.select %defined, %q, %zero : i32
          linalg.yield %{"s" if guarded else "q"} : i32
        }} -> {whole}"""
    names, types = ", ".join(f"%{name}" for name in CASES), ", ".join([whole] * len(CASES))
    return compile_module(
        parse_text(f"""
        func.func @f(%a: {whole}, %b: {whole}, %c: {whole}, %d: {floats}) -> ({types}) {{
        %e = tensor.empty() : {whole}{results}
        return {names} : {types}
        }}"""),
        "lavapipe",
    )


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(guarded=False)


def inputs(*elements: int) -> dict[str, np.ndarray]:
    arrays = {
        name: np.array(values, "f4" if name == "d" else "i4") for name, values in GIVEN.items()
    }
    return {name: array[[*elements]] for name, array in arrays.items()}


def test_a_run_without_checks_names_undefined_integers(program: Program):
    with pytest.warns(UndefinedResultWarning) as caught:
        run(program, inputs(0, 1, 2))
    (warning,) = caught
    assert isinstance(warning.message, UndefinedResultWarning)
    assert warning.filename == __file__
    rules = [finding.rule for finding in warning.message.report]
    assert sorted(rules) == sorted(CASES.values())


def test_defined_integers_are_not_reported(program: Program):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(program, inputs(0, 2, 0))
        run(program_of(guarded=True), inputs(0, 1, 2))


def test_the_command_prints_the_findings_and_fails(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    program.save(tmp_path / "p")
    given = inputs(0, 1, 2) | {"a": np.array([LEAST, 5, 6], "i4"), "b": np.array([-1, 5, 6], "i4")}
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array)
    files = [f"--input={name}={tmp_path / name}.npy" for name in given]
    assert main(["run", str(tmp_path / "p"), *files, "--device", "interpreter"]) == 1
    output = capsys.readouterr().out
    assert "UNDEF-05" in output
    assert "5 findings" in output
    assert "result0: 3xint32" in output
