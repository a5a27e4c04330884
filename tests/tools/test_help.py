"""Help has examples that can be typed, and errors are short."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import ModuleType

import pytest

from xdsl_spirv.tools.examples import EXAMPLES
from xdsl_spirv.tools.kernel_test.description import QUESTIONS
from xdsl_spirv.tools.main import COMMANDS, main, parser

MATMUL = Path(__file__).parents[2] / "examples" / "matmul.mlir"


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"opt", "doctor"}))
def test_the_help_of_a_command_ends_in_examples(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: xdsl-spirv {name} ")
    for example in EXAMPLES[name]:
        assert example in shown
        if "$(" not in example:
            assert parser().parse_args(shlex.split(example)).command


def test_the_help_of_prove_names_every_question(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["prove", "--help"])
    shown = capsys.readouterr().out
    assert [name for name in QUESTIONS if name not in shown] == []


def test_the_usage_of_opt_names_the_command(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["opt", "--help"])
    assert capsys.readouterr().out.startswith("usage: xdsl-spirv opt [-h]")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("explain x.mlir --inputs", "--inputs is not an option: did you mean '--list'?"),
        ("run x.onnx --outputs", "--outputs is not an option: did you mean '--list'?"),
        ("run x.onnx --divice vulkan", "--divice is not an option: did you mean '--device'?"),
        ("compil x.mlir", "invalid choice: 'compil'; did you mean 'compile'?"),
        ("convert x.onnx --to fp16", "did you mean 'f16'?"),
    ],
)
def test_an_error_is_short_and_names_the_option(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as status:
        main(words.split())
    assert status.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 2
    assert "--help` lists all options" in error


@pytest.mark.parametrize("command", ["run", "explain"])
def test_inputs_and_outputs_are_listed_alike(command: str, capsys: pytest.CaptureFixture[str]):
    target = ["--target", "lavapipe"]
    assert main([command, str(MATMUL), *target, "--list"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[1:] == [
        "main",
        "  input   A: 40x30xf16",
        "  input   B: 30x21xf16",
        "  output  result0: 40x21xf32",
    ]


def test_a_module_is_run_and_checked_in_one_go(capsys: pytest.CaptureFixture[str]):
    words = ["run", str(MATMUL), "--target", "lavapipe", "--device", "interpreter"]
    assert main([*words, "--check", "--sanitize", "races,bounds"]) == 0
    shown = capsys.readouterr().out
    assert "within the bound" in shown
    assert "0 findings" in shown
    assert main([*words[:-1], "reference", "--check"]) == 1
    assert "the reference runs no kernels that can be checked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "shape"), [((), "batch x 16 x f32"), (("--dim", "batch=3"), "3x16xf32")]
)
def test_the_sizes_of_a_model_need_not_be_known_to_list_it(
    options: tuple[str, ...], shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    onnx: ModuleType = pytest.importorskip("onnx")
    make, float32 = onnx.helper, onnx.TensorProto.FLOAT
    x, y = (make.make_tensor_value_info(name, float32, ["batch", 16]) for name in "xy")
    graph = make.make_graph([make.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    path = tmp_path / "x.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=9), path)
    assert main(["run", str(path), "--list", *options]) == 0
    assert f"  input   x: {shape}\n" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["interpret", "run", "validate", "explain", "disassemble"])
def test_only_some_commands_read_glsl(command: str, capsys: pytest.CaptureFixture[str]):
    assert main([command, "x.comp"]) == 1
    assert (
        "only `xdsl-spirv test`, `debug` and `prove` read source files (x.comp)"
        in capsys.readouterr().err
    )


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["help", "run"])
    assert capsys.readouterr().out.startswith("usage: xdsl-spirv run ")
