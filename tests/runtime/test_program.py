"""A program is written to disk completely or not at all, and checked when read and run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv.compare.bounds import compare, contraction_bound
from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.passes.graph import join_dispatches
from xdsl_spirv.runtime import Program, ProgramError, run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.weights import load_weights, save_weights
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.upstream.equality import is_same

SHAPE = (9, 5, 17)


def matmul(m: int, n: int, k: int, weights: str = "") -> str:
    """Returns an f16 x f16 -> f32 matmul. `weights` is a literal for the second operand."""
    b = f"tensor<{k}x{n}xf16>"
    argument = "" if weights else f", %B: {b}"
    constant = f"%B = arith.constant {weights} : {b}" if weights else ""
    return f"""
    func.func @main(%A: tensor<{m}x{k}xf16>{argument}) -> tensor<{m}x{n}xf32> {{
      {constant}
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<{m}x{n}xf32>
      %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      %r = linalg.matmul ins(%A, %B : tensor<{m}x{k}xf16>, {b})
                         outs(%init : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
      return %r : tensor<{m}x{n}xf32>
    }}"""


def inputs(m: int, n: int, k: int) -> dict[str, Array]:
    generator = np.random.default_rng(7)
    shapes = {"A": (m, k), "B": (k, n)}
    return {x: generator.uniform(-1, 1, s).astype(np.float16) for x, s in shapes.items()}


@pytest.fixture
def program() -> Program:
    return compile_module(parse_text(matmul(*SHAPE)), "lavapipe")


@pytest.fixture
def saved(program: Program, tmp_path: Path) -> Path:
    program.save(tmp_path / "program")
    return tmp_path / "program"


def test_a_saved_program_is_loaded_unchanged(program: Program, saved: Path):
    again = Program.load(saved)
    assert again == program
    values = inputs(*SHAPE)
    results = run(again, values)["result0"]
    exact = values["A"].astype(np.float64) @ values["B"].astype(np.float64)
    assert np.abs(results - exact).max() < 1e-5
    assert [c.passed for c in check(again, values, {"result0": results})] == [True]


def test_the_text_of_kernels_is_never_read(program: Program, tmp_path: Path):
    """The text is written only on request, and is never read."""
    program.save(tmp_path / "plain")
    assert not list((tmp_path / "plain" / "kernels").glob("*.mlir"))
    assert '"text"' not in (tmp_path / "plain" / "program.json").read_text()
    program.save(tmp_path / "p", text=True)
    loaded = Program.load(tmp_path / "p")
    (kernel,) = loaded.manifest.kernels
    assert kernel.text is not None
    assert kernel.text == f"kernels/{kernel.name}.mlir"
    path = tmp_path / "p" / kernel.text
    text = path.read_text()
    assert is_same(find_module(parse_text(text)), decode(loaded.code[kernel.name].binary))
    path.unlink()
    values = inputs(*SHAPE)
    again = run(Program.load(tmp_path / "p"), values)["result0"]
    assert np.array_equal(again, run(program, values)["result0"])


def test_the_interpreter_runs_the_binary(program: Program, tmp_path: Path):
    program.save(tmp_path / "p")
    (kernel,) = program.manifest.kernels
    text = program.code[kernel.name].text
    wrong = text.replace("spirv.Constant dense<0.0", "spirv.Constant dense<1.0")
    path = tmp_path / "p" / kernel.binary
    values = inputs(*SHAPE)
    path.write_bytes(encode(find_module(parse_text(wrong)), names=True))
    changed = run(Program.load(tmp_path / "p"), values)["result0"]
    assert np.allclose(changed, run(program, values)["result0"] + 1)
    path.write_bytes(program.code[kernel.name].binary[:-8])
    with pytest.raises(ProgramError, match=kernel.binary):
        run(Program.load(tmp_path / "p"), values)


def test_the_check_finds_a_wrong_element(program: Program):
    values = inputs(*SHAPE)
    results = run(program, values)
    results["result0"][3, 2] += 1e-3
    (comparison,) = check(program, values, results)
    assert not comparison.passed
    assert "BEYOND the bound" in str(comparison)
    assert comparison.max_abs == pytest.approx(1e-3, rel=1e-2)


def test_constants_become_weights(tmp_path: Path):
    values = inputs(*SHAPE)
    literal = f"dense<{values['B'].astype(float).tolist()}>"
    compiled = compile_module(parse_text(matmul(*SHAPE, weights=literal)), "nvidia-h200")
    assert np.array_equal(compiled.weights["B"], values["B"])
    assert [b.name for b in compiled.manifest.inputs] == ["A"]
    compiled.save(tmp_path / "p")
    assert sorted(p.name for p in (tmp_path / "p").iterdir()) == [
        "kernels",
        "layers.json",
        "program.json",
        "source.mlir",
        "weights.safetensors",
    ]
    again = Program.load(tmp_path / "p")
    results = run(again, {"A": values["A"]})
    assert check(again, {"A": values["A"]}, results)[0].passed


def test_kernels_of_several_shapes_have_different_names(monkeypatch: pytest.MonkeyPatch):
    text = Path(__file__).with_name("three_shapes.mlir").read_text()
    # Otherwise they would be one launch.
    monkeypatch.setattr(join_dispatches, "SMALL", 0)
    program = compile_module(parse_text(text), "lavapipe")
    assert len({d.entry_point for d in program.manifest.dispatches}) == 3
    given = {"a": np.float32(3), "b": np.float32(5), "c": np.ones(1, np.float32)}
    found = run(program, {name: np.asarray(value) for name, value in given.items()})
    assert [float(each.ravel()[0]) for each in found.values()] == [6, 25, 0]


def test_weights_may_be_given(tmp_path: Path):
    values = inputs(*SHAPE)
    save_weights(tmp_path / "w.safetensors", {"B": values["B"]})
    weights = load_weights(tmp_path / "w.safetensors")
    compiled = compile_module(parse_text(matmul(*SHAPE)), "lavapipe", weights=weights)
    whole = compile_module(parse_text(matmul(*SHAPE)), "lavapipe")
    separate = run(compiled, {"A": values["A"]})["result0"]
    assert np.array_equal(separate, run(whole, values)["result0"])
    with pytest.raises(ProgramError, match="the weight 'W' does not match any argument"):
        compile_module(parse_text(matmul(*SHAPE)), "lavapipe", weights={"W": values["B"]})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, "i1"])
def test_weights_keep_their_types(dtype: DTypeLike, tmp_path: Path):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    save_weights(tmp_path / "w", {"w": array, "scalar": array[1, 1].reshape(())})
    found = load_weights(tmp_path / "w")
    assert found["w"].dtype == array.dtype
    assert np.array_equal(found["w"], array)
    assert found["scalar"].shape == ()


EDITS: list[tuple[str, Callable[[Any], object]]] = [
    ("version 99 is unknown", lambda m: m.update(version=99)),
    ("unknown field 'colour'", lambda m: m.update(colour="red")),
    ("the field 'target' is missing", lambda m: m.pop("target")),
    ("expected int, but found 'eight'", lambda m: m.update(subgroup_size="eight")),
    ("expected a list of 3", lambda m: m["dispatches"][0].update(grid=[1, 1])),
    ("must be positive", lambda m: m["dispatches"][0].update(grid=[1, 0, 1])),
    ("there is no kernel 'x'", lambda m: m["dispatches"][0].update(kernel="x")),
    ("there is no entry point 'x'", lambda m: m["dispatches"][0].update(entry_point="x")),
    ("there is no buffer 'x'", lambda m: m.update(results=["x"])),
    ("two buffers have the same name", lambda m: m["buffers"][1].update(name="A")),
    ("f17 is not an element type", lambda m: m["buffers"][1].update(type="f17")),
    ("a size is negative", lambda m: m["buffers"][1].update(shape=[-1, 5])),
    ("is outside the program's directory", lambda m: m["kernels"][0].update(binary="../x.spv")),
    ("is outside the program's directory", lambda m: m["kernels"][0].update(text="/etc/passwd")),
    ("the program cannot be read", lambda m: m["kernels"][0].update(binary="kernels/none.spv")),
]


@pytest.mark.parametrize(("message", "edit"), EDITS, ids=[str(i) for i in range(len(EDITS))])
def test_damaged_manifests_are_refused(message: str, edit: Callable[[Any], object], saved: Path):
    path = saved / "program.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(ProgramError, match=message):
        Program.load(saved)


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_file_that_is_not_a_manifest_is_refused(text: str, saved: Path):
    (saved / "program.json").write_text(text)
    with pytest.raises(ProgramError, match=r"program\.json"):
        Program.load(saved)


def test_other_contents_of_a_directory_are_kept(program: Program, tmp_path: Path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.tex").write_text("x")
    with pytest.raises(ProgramError, match="contains something other than a program"):
        program.save(folder)
    assert os.listdir(tmp_path) == ["mine"]
    assert os.listdir(folder) == ["thesis.tex"]
    with pytest.raises(ProgramError, match="is not a directory"):
        program.save(folder / "thesis.tex")


def test_an_older_program_is_replaced(program: Program, saved: Path, tmp_path: Path):
    (saved / "left-over").write_text("x")
    program.save(saved)
    assert Program.load(saved) == program
    assert not (saved / "left-over").exists()
    assert os.listdir(tmp_path) == ["program"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": None}, "the input 'A' is missing"),
        ({"C": np.zeros(1)}, "there is no input 'C'"),
        ({"A": np.zeros((17, 9), np.float16)}, "'A' must be 9x17xf16, but found"),
        ({"A": np.zeros((9, 17), np.float32)}, "'A' must be 9x17xf16, but found"),
    ],
)
def test_wrong_inputs_are_refused(change: dict[str, Any], message: str, program: Program):
    values = {k: v for k, v in (inputs(*SHAPE) | change).items() if v is not None}
    with pytest.raises(ProgramError, match=message):
        run(program, values)


def test_an_unknown_device_is_refused(program: Program):
    with pytest.raises(ProgramError, match="there is no device 'tpu'; use one of interpreter"):
        run(program, inputs(*SHAPE), "tpu")


def test_integers_are_compared_exactly():
    found, truth = np.array([2**62 + 1], np.int64), np.array([2**62], np.int64)
    comparison = compare("r", found, truth, truth, contraction_bound(4, "s64"))
    assert not comparison.passed
    assert comparison.max_abs == 1
    assert compare("r", truth, truth, truth, contraction_bound(4, "s64")).passed


def test_infinities_and_nans_are_compared_as_such():
    nan, inf = float("nan"), float("inf")
    bound = contraction_bound(1, "f32")

    def passed(found: float, truth: float) -> bool:
        a, b = (np.array([x], np.float32) for x in (found, truth))
        return compare("r", a, b, np.array([1.0]), bound).passed

    assert passed(nan, nan)
    assert passed(inf, inf)
    assert not passed(nan, 1.0)
    assert not passed(inf, 1.0)
    assert not passed(1.0, inf)


def test_kernels_that_differ_in_a_type_are_two():
    rounded = """
  %e{0} = tensor.empty() : tensor<8xf32>
  %r{0} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
                          iterator_types = ["parallel"]}}
      ins(%x{0} : tensor<8xf32>) outs(%e{0} : tensor<8xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %n = arith.truncf %a : f32 to {1}
    %w = arith.extf %n : {1} to f32
    linalg.yield %w : f32
  }} -> tensor<8xf32>"""
    text = f"""
func.func @main(%x0: tensor<8xf32>, %x1: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {{
  {rounded.format(0, "f16")}
  {rounded.format(1, "bf16")}
  return %r0, %r1 : tensor<8xf32>, tensor<8xf32>
}}"""
    program = compile_module(parse_text(text), "nvidia-h200")
    x = np.linspace(1, 2, 8, dtype=np.float32)
    half, brain = run(program, {"x0": x, "x1": x}).values()
    assert np.array_equal(half, x.astype(np.float16).astype(np.float32))
    assert np.array_equal(brain, x.astype(ml_dtypes.bfloat16).astype(np.float32))
