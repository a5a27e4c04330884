"""A module refers to its weights, which are written as text only when the module is printed."""

from __future__ import annotations

import gc
import json
import weakref
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from xdsl_spirv import targets
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.compiler.compiler import pipeline_of
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.weights import give_weights, weights_of
from xdsl_spirv.interpreter import reference
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse_text

ADD = """
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.add ins(%x, %w : tensor<4xf32>, tensor<4xf32>)
                  outs(%e : tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
"""

W = "0x04000000" + np.arange(4, dtype=np.float32).tobytes().hex()


def with_resource(key: str, blob: str = "") -> ModuleOp:
    """Returns a function whose weight is a resource. Use a new `key` in each call."""
    body = ADD.replace(
        ", %w: tensor<4xf32>) -> tensor<4xf32> {",
        ") -> tensor<4xf32> {\n  %w = arith.constant dense_resource<KEY> : tensor<4xf32>",
    )
    resources = f'{{-# dialect_resources: {{ builtin: {{ {key}: "{blob}" }} }} #-}}'
    return parse_text(body.replace("KEY", key) + (resources if blob else ""))


def printed(module: ModuleOp) -> str:
    ctx, output = context(), StringIO()
    ctx.get_dialect("builtin")
    printer = Printer(output)
    printer.print_op(module)
    printer.print_metadata(ctx.loaded_dialects)
    return output.getvalue()


def given(array: Array) -> ModuleOp:
    module = parse_text(ADD)
    give_weights(host_function(module), {"w": array})
    return module


def test_the_program_has_the_array_that_was_given():
    w = np.arange(4, dtype=np.float32)
    assert compile_module(parse_text(ADD), "lavapipe", weights={"w": w}).weights["w"] is w


def test_a_clone_has_the_same_array_and_the_interpreter_reads_it():
    w = np.arange(4, dtype=np.float32)
    module = given(w).clone()
    assert weights_of(host_function(module))["w"] is w
    (result,) = reference(module, [np.ones(4, np.float32)])
    assert result.tolist() == [1, 2, 3, 4]


def test_text_contains_the_elements_while_the_array_exists():
    array = np.arange(4, dtype=np.float32)
    module = given(array)
    text = printed(module)
    assert "program.value = dense_resource<main.w>" in text
    assert f'main.w: "{W}"' in text
    held = weakref.ref(array)
    del array, module
    gc.collect()
    assert held() is None


def test_passes_accept_a_resource_without_data_and_programs_refuse_it():
    module = with_resource("absent_1")
    pipeline_of("linalg-to-spirv{target=lavapipe}").apply(context(), module)
    with pytest.raises(ProgramError, match="has no data"):
        compile_module(with_resource("absent_2"), "lavapipe")


def test_a_resource_of_the_text_is_a_weight():
    program = compile_module(with_resource("present", W), "lavapipe")
    assert program.weights["w"].tolist() == [0, 1, 2, 3]


def test_an_unknown_weight_is_refused():
    with pytest.raises(ProgramError, match="does not match any argument"):
        compile_module(parse_text(ADD), "lavapipe", weights={"v": np.ones(4, np.float32)})


def test_arguments_that_differ_in_a_number_are_told_apart() -> None:
    """xDSL reads `%w_0` and `%w_1` as two values with the name hint `w`."""
    text = """func.func @main(%w_0: tensor<4xf32>, %x: tensor<4xf32>, %w_1: tensor<4xf32>) -> tensor<4xf32> {
      %e = tensor.empty() : tensor<4xf32>
      %s = linalg.sub ins(%w_0, %w_1 : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      %r = linalg.mul ins(%s, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      func.return %r : tensor<4xf32>
    }"""  # noqa: E501
    program = compile_module(parse_text(text), "lavapipe")
    assert [buffer.name for buffer in program.manifest.inputs] == ["w", "x", "w_1"]
    first, x, second = (np.array([n, 2, 3, 4], np.float32) for n in (1, 5, 9))
    assert np.array_equal(program(first, x, second), (first - second) * x)


FORMS = {
    "add": ("tensor<{n}x4xf32>", "add", "tensor<{n}x4xf32>", "tensor<{n}x4xf32>"),
    "matmul": ("tensor<3x{n}xf32>", "matmul", "tensor<{n}x4xf32>", "tensor<3x4xf32>"),
    "matvec": ("tensor<{n}x4xf32>", "matvec", "tensor<4xf32>", "tensor<{n}xf32>"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_weight_beyond_the_targets_buffers_is_refused_with_the_number(form: str, tmp_path: Path):
    data = json.loads((Path(targets.__file__).parent / "lavapipe.json").read_text())
    small = data | {"name": "small", "storage_buffer_max_bytes": 4096}
    (tmp_path / "small.json").write_text(json.dumps(small))
    x, name, w, out = FORMS[form]
    text = f"""
    func.func @main(%x: {x}, %w: {w}) -> {out} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {out}
      %i = linalg.fill ins(%zero : f32) outs(%e : {out}) -> {out}
      %y = linalg.{name} ins(%x, %w : {x}, {w}) outs(%i : {out}) -> {out}
      return %y : {out}
    }}"""
    for n in (255, 256, 257, 300):
        weight = "x" if form == "matvec" else "w"
        module = parse_text(text.replace("{n}", str(n)))
        array = np.ones((n, 4), np.float32)
        if n > 256:
            size = f"{n * 16:,}".replace(",", ",?")
            said = rf"{size} bytes.*small.* 4,?096"
            with pytest.raises(ProgramError, match=said):
                compile_module(module, str(tmp_path / "small.json"), weights={weight: array})
            continue
        compile_module(module, str(tmp_path / "small.json"), weights={weight: array})
