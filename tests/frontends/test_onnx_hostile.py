"""
Broken or hostile models are computed right, or an error names the fault, quickly and without
output.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends import FrontendError, import_onnx
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.main import main

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

SECONDS = 1.0
"""Limit of processor time for a refusal, after all imports."""

Make = Callable[[ModuleType, Path], "ModelProto | bytes"]
HOSTILE: dict[str, tuple[str, Make]] = {}
"""Maps each case to the expected message, and to the function that makes the model."""


def hostile(said: str) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        HOSTILE[make.__name__] = (said, make)
        return make

    return register


def value(
    onnx: ModuleType, name: str, shape: Sequence[int] | None = (3,), kind: int = 1
) -> ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, kind, shape)


def model(
    onnx: ModuleType,
    nodes: list[NodeProto],
    inputs: Sequence[str | ValueInfoProto] = ("x",),
    outputs: Sequence[str | ValueInfoProto] = ("y",),
    initializers: Sequence[TensorProto] = (),
    functions: Sequence[FunctionProto] = (),
    domains: tuple[str, ...] = (),
) -> ModelProto:
    values = [
        [value(onnx, v) if isinstance(v, str) else v for v in some] for some in (inputs, outputs)
    ]
    graph = onnx.helper.make_graph(nodes, "g", *values, list(initializers))
    opsets = [onnx.helper.make_opsetid("", 17)]
    opsets += [onnx.helper.make_opsetid(domain, 1) for domain in domains]
    return onnx.helper.make_model(
        graph, opset_imports=opsets, ir_version=9, functions=list(functions)
    )


def node(onnx: ModuleType, kind: str, inputs: list[str], *outputs: str, **given: Any) -> NodeProto:
    return onnx.helper.make_node(kind, inputs, list(outputs or ("y",)), **given)


def relu(onnx: ModuleType) -> NodeProto:
    return node(onnx, "Relu", ["x"], name="the/relu")


def tensor(
    onnx: ModuleType, name: str, dims: Sequence[int] = (3,), raw: bytes = bytes(12)
) -> TensorProto:
    return onnx.TensorProto(name=name, dims=dims, data_type=1, raw_data=raw)


def external(onnx: ModuleType, location: str, **entries: int | str) -> ModelProto:
    """Returns a weight `w` of three floats stored in another file."""
    weight = onnx.TensorProto(name="w", dims=[3], data_type=1, data_location=1)
    for key, text in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=str(text))
    return model(onnx, [node(onnx, "Add", ["x", "w"])], initializers=[weight])


# The file


@hostile("not an ONNX model")
def truncated(onnx: ModuleType, folder: Path) -> bytes:
    data = model(onnx, [relu(onnx)]).SerializeToString()
    return data[: len(data) * 2 // 3]


@hostile("nowhere.bin, which is not a file")
def external_data_that_is_absent(onnx: ModuleType, folder: Path) -> ModelProto:
    return external(onnx, "nowhere.bin")


@hostile("the data needs 12 bytes at offset 0")
def external_data_that_is_too_short(onnx: ModuleType, folder: Path) -> ModelProto:
    Path(folder, "short.bin").write_bytes(bytes(5))
    return external(onnx, "short.bin")


@hostile("the data needs 12 bytes")
def external_data_from_beyond_the_end(onnx: ModuleType, folder: Path) -> ModelProto:
    Path(folder, "short.bin").write_bytes(bytes(12))
    return external(onnx, "short.bin", offset=1 << 50, length=12)


@hostile("the data is in 'w\\x00', which is not a file name")
def external_data_whose_name_holds_a_nul(onnx: ModuleType, folder: Path) -> ModelProto:
    return external(onnx, "w\0")


@hostile("which is not a file")
def external_data_whose_name_is_too_long(onnx: ModuleType, folder: Path) -> ModelProto:
    return external(onnx, "w" * 5000)


@hostile("the data must begin at an offset in bytes, not 'junk'")
def external_data_from_a_word(onnx: ModuleType, folder: Path) -> ModelProto:
    Path(folder, "w.bin").write_bytes(bytes(12))
    return external(onnx, "w.bin", offset="junk")


@hostile("the input 'x' is a tensor without a rank")
def an_input_without_a_rank(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [relu(onnx)], inputs=(value(onnx, "x", None),))


@hostile("the data is in a file outside")
def external_data_outside_of_the_folder(onnx: ModuleType, folder: Path) -> ModelProto:
    Path(folder.parent, "outside.bin").write_bytes(bytes(12))
    return external(onnx, "../outside.bin")


@hostile("/etc/passwd")
def external_data_anywhere(onnx: ModuleType, folder: Path) -> ModelProto:
    return external(onnx, "/etc/passwd", length=12)


@hostile("linked.bin")
def external_data_behind_a_link(onnx: ModuleType, folder: Path) -> ModelProto:
    Path(folder, "linked.bin").symlink_to("/etc/passwd")
    return external(onnx, "linked.bin", length=12)


@hostile("the data is in a file outside")
def external_data_of_a_node(onnx: ModuleType, folder: Path) -> ModelProto:
    constant = onnx.TensorProto(name="inner", dims=[3], data_type=1, data_location=1)
    constant.external_data.add(key="location", value="/etc/passwd")
    nodes = [node(onnx, "Constant", [], "c", value=constant), node(onnx, "Add", ["x", "c"])]
    return model(onnx, nodes)


# Tensors


@hostile("tensor name: w")
def too_little_data(onnx: ModuleType, folder: Path) -> ModelProto:
    weight = tensor(onnx, "w", raw=bytes(7))
    return model(onnx, [node(onnx, "Add", ["x", "w"])], initializers=[weight])


@hostile("the data is text")
def a_weight_of_text(onnx: ModuleType, folder: Path) -> ModelProto:
    weight = onnx.helper.make_tensor("w", 8, [3], [b"a", b"b", b"c"])
    return model(onnx, [relu(onnx)], initializers=[weight])


@hostile("elements of the type string are not supported (input 'x'); convert the text to numbers")
def an_input_of_text(onnx: ModuleType, folder: Path) -> ModelProto:
    x, y = ([value(onnx, name, kind=8)] for name in "xy")
    return model(onnx, [node(onnx, "Identity", ["x"])], x, y)


@hostile("tensor name: w")
def a_weight_of_2_to_40_elements(onnx: ModuleType, folder: Path) -> ModelProto:
    weight = tensor(onnx, "w", dims=[1 << 20, 1 << 20])
    return model(onnx, [node(onnx, "Add", ["x", "w"])], initializers=[weight])


@hostile("the input 'x' is too large")
def an_input_of_2_to_40_elements(onnx: ModuleType, folder: Path) -> ModelProto:
    huge = [value(onnx, name, [1 << 20, 1 << 20]) for name in "xy"]
    return model(onnx, [relu(onnx)], huge[:1], huge[1:])


@hostile("ConstantOfShape: the result")
def a_constant_of_2_to_40_elements(onnx: ModuleType, folder: Path) -> ModelProto:
    shape = onnx.helper.make_tensor("s", 7, [2], [1 << 20, 1 << 20])
    nodes = [node(onnx, "ConstantOfShape", ["s"], "c"), node(onnx, "Add", ["x", "c"])]
    return model(onnx, nodes, initializers=[shape])


@hostile("Expand: the result")
def an_expansion_to_2_to_60_elements(onnx: ModuleType, folder: Path) -> ModelProto:
    shape = onnx.helper.make_tensor("s", 7, [3], [1 << 30, 1 << 30, 3])
    return model(onnx, [node(onnx, "Expand", ["x", "s"])], initializers=[shape])


@hostile("Expand: the result")
def an_expansion_to_3_gigabytes(onnx: ModuleType, folder: Path) -> ModelProto:
    shape = onnx.helper.make_tensor("s", 7, [3], [1 << 14, 1 << 16, 3])
    nodes = [node(onnx, "Expand", ["w", "s"], "z"), node(onnx, "ReduceSum", ["z"])]
    return model(onnx, nodes, initializers=[shape, tensor(onnx, "w")])


@hostile("Negative dimension value (tensor name: w)")
def a_negative_size(onnx: ModuleType, folder: Path) -> ModelProto:
    weight = tensor(onnx, "w", dims=[-3])
    return model(onnx, [node(onnx, "Add", ["x", "w"])], initializers=[weight])


# Names and edges


@hostile("a")
def a_cycle(onnx: ModuleType, folder: Path) -> ModelProto:
    nodes = [node(onnx, "Add", ["x", "b"], "a"), node(onnx, "Relu", ["a"], "b")]
    return model(onnx, [*nodes, node(onnx, "Relu", ["b"])])


@hostile("nowhere")
def a_value_that_nobody_defines(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [node(onnx, "Add", ["x", "nowhere"])])


@hostile("nowhere")
def a_value_that_nobody_defines_inside_of_a_branch(onnx: ModuleType, folder: Path) -> ModelProto:
    sides = [
        onnx.helper.make_graph([node(onnx, "Relu", [of], "r")], of, [], [value(onnx, "r")])
        for of in ("x", "nowhere")
    ]
    given = {"then_branch": sides[0], "else_branch": sides[1]}
    condition = value(onnx, "c", (), 9)
    return model(onnx, [node(onnx, "If", ["c"], **given)], ["x", condition])


@hostile("nowhere")
def an_output_that_nobody_computes(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [relu(onnx)], outputs=["nowhere"])


@hostile("the input 'x' and an input have the same name")
def the_same_input_twice(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [relu(onnx)], inputs=["x", "x"])


@hostile("the output 'y' and an output have the same name")
def the_same_output_twice(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [relu(onnx)], outputs=["y", "y"])


@hostile("w")
def the_same_weight_twice(onnx: ModuleType, folder: Path) -> ModelProto:
    weights = [tensor(onnx, "w"), tensor(onnx, "w")]
    return model(onnx, [node(onnx, "Add", ["x", "w"])], initializers=weights)


@hostile("a")
def the_same_result_twice(onnx: ModuleType, folder: Path) -> ModelProto:
    nodes = [node(onnx, "Relu", ["x"], "a"), node(onnx, "Neg", ["x"], "a")]
    return model(onnx, [*nodes, node(onnx, "Relu", ["a"])])


# Meaning


@hostile("the output 'y' is declared as i64, but computed as f32")
def an_output_of_another_type(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [relu(onnx)], outputs=[value(onnx, "y", kind=7)])


@hostile("somebody")
def an_operator_of_an_unknown_domain(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [node(onnx, "Frob", ["x"], domain="somebody")], domains=("somebody",))


@hostile("nobody")
def a_domain_that_is_not_declared(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [node(onnx, "Frob", ["x"], domain="nobody")])


@hostile("Add")
def sizes_that_do_not_fit(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [node(onnx, "Add", ["x", "z"])], inputs=["x", value(onnx, "z", (4,))])


@hostile("Frob")
def a_function_that_calls_itself(onnx: ModuleType, folder: Path) -> ModelProto:
    body = [node(onnx, "Frob", ["a"], "b", domain="own")]
    opsets = [onnx.helper.make_opsetid("own", 1)]
    function = onnx.helper.make_function("own", "Frob", ["a"], ["b"], body, opsets)
    nodes = [node(onnx, "Frob", ["x"], domain="own")]
    return model(onnx, nodes, functions=[function], domains=("own",))


@hostile("the input 'x' and an output have the same name")
def an_output_that_is_an_input(onnx: ModuleType, folder: Path) -> ModelProto:
    return model(onnx, [relu(onnx)], outputs=["y", "x"])


@hostile("not an ONNX model")
def a_thousand_graphs_inside_of_each_other(onnx: ModuleType, folder: Path) -> bytes:
    return nested(onnx, 1000)


def nested(onnx: ModuleType, depth: int) -> bytes:
    """Returns a model of nested branches as bytes. protobuf writes only messages to depth 100."""
    result, condition = value(onnx, "y"), value(onnx, "c", (), 9)
    side = onnx.helper.make_graph([relu(onnx)], "side", [], [result])
    inner = side.SerializeToString()
    for number in range(depth):
        outer = node(onnx, "If", ["c"], name=f"if{number}", else_branch=side)
        branch = onnx.AttributeProto(name="then_branch", type=5).SerializeToString()
        around = outer.SerializeToString() + field(5, branch + field(6, inner))
        empty = onnx.helper.make_graph([], "side", [], [result])
        if number == depth - 1:
            empty.input.extend([value(onnx, "x"), condition])
        inner = empty.SerializeToString() + field(1, around)
    return wrapped(onnx, inner)


def wrapped(onnx: ModuleType, graph: bytes) -> bytes:
    opsets = [onnx.helper.make_opsetid("", 17)]
    bare = onnx.ModelProto(ir_version=9, opset_import=opsets).SerializeToString()
    return bare + field(7, graph)


def field(number: int, data: bytes) -> bytes:
    """Returns a length-delimited protobuf field."""
    size, length = bytearray(), len(data)
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + data


def written(onnx: ModuleType, make: Make, folder: Path) -> Path:
    made = make(onnx, folder)
    path = folder / "model.onnx"
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return path


@pytest.fixture(scope="module")
def warm(onnx: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Imports all modules that compilation uses."""
    folder = tmp_path_factory.mktemp("good")
    path = folder / "model.onnx"
    onnx.save(model(onnx, [relu(onnx)]), path)
    assert main(["compile", str(path), "--target", "lavapipe", "-o", str(folder / "out")]) == 0


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_is_refused_by_name(
    name: str, onnx: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said, make = HOSTILE[name]
    folder = tmp_path / "models"
    folder.mkdir()
    path = written(onnx, make, folder)
    started = time.process_time()
    status = main(["compile", str(path), "--target", "lavapipe", "-o", str(tmp_path / "out")])
    seconds = time.process_time() - started
    message = capsys.readouterr().err
    assert status == 1
    assert message.startswith("error: ")
    assert "has a defect" not in message
    assert said in message
    assert message.count("\n") == 1
    assert seconds < SECONDS
    assert not (tmp_path / "out").exists()


LOCATIONS = ("./w.bin", "w\0", "", ".", "..", "/", "sub/", "w" * 300, "ẃ.bin", "sub/../w.bin")
NUMBERS = ("0", "4", "12", "16", "-4", "junk", "", "1e1", "0x4", " 4", str(1 << 70))


@pytest.mark.parametrize("seed", range(60))
def test_external_data_of_any_words_is_read_or_refused_by_name(
    seed: int, onnx: ModuleType, tmp_path: Path
):
    drawn = random.Random(seed)
    data = np.arange(7, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(data.tobytes())
    (tmp_path / "sub").mkdir()
    location = drawn.choice(LOCATIONS) if seed % 2 else "w.bin"
    entries = {key: drawn.choice(NUMBERS) for key in ("offset", "length") if drawn.random() < 0.6}
    weight = onnx.TensorProto(name="w", dims=[3], data_type=1, data_location=1)
    for key, text in {"location": location, **entries}.items():
        entry = weight.external_data.add()
        entry.key, entry.value = key, text
    path = tmp_path / "model.onnx"
    path.write_bytes(
        model(onnx, [node(onnx, "Add", ["x", "w"])], initializers=[weight]).SerializeToString()
    )
    (result,), refusal = [np.zeros(0, np.float32)], ""
    try:
        (result,) = run_reference(import_onnx(path), {"x": np.zeros(3, np.float32)}).values()
    except FrontendError as error:
        refusal = str(error)
    if refusal:
        assert "'w'" in refusal
        assert location != "w.bin" or entries
        return
    first = int(entries.get("offset") or 0) // 4
    np.testing.assert_array_equal(result, data[first : first + 3])


LIMITED = """
import resource, sys, time
from xdsl_spirv.frontends import FrontendError, import_onnx
import onnx.reference
onnx.checker.check_model(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [])))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.process_time()
try:
    import_onnx(sys.argv[1])
except FrontendError as error:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(error.operator, time.process_time() - started, grown)
"""


@pytest.mark.parametrize(
    ("make", "operator"),
    [(a_constant_of_2_to_40_elements, "ConstantOfShape"), (an_expansion_to_3_gigabytes, "Expand")],
)
def test_large_declarations_take_neither_time_nor_memory(
    make: Make, operator: str, onnx: ModuleType, tmp_path: Path
):
    path = written(onnx, make, tmp_path)
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    refused, seconds, kilobytes = done.stdout.split()
    assert refused == operator
    assert float(seconds) < SECONDS
    assert int(kilobytes) < 200_000


NAMES = ("a/b", "../../up", 'quo"ted', "it's", "<script>alert(1)</script>", "two\nlines", "a b:0")


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_kept_and_harmless(name: str, onnx: ModuleType, tmp_path: Path):
    names = {part: f"{part}{name}" for part in "xwyn"}
    weight = onnx.numpy_helper.from_array(np.arange(600, dtype=np.float32), names["w"])
    values = [value(onnx, names[part], (600,)) for part in "xy"]
    nodes = [node(onnx, "Add", [names["x"], names["w"]], names["y"], name=names["n"])]
    folder = tmp_path / "inner" / "folder"
    folder.mkdir(parents=True)
    path = folder / "model.onnx"
    onnx.save(model(onnx, nodes, values[:1], values[1:], [weight]), path)
    before = sorted(tmp_path.rglob("*"))
    compiled = ["compile", str(path), "--target", "lavapipe", "-o", str(folder / "out")]
    assert main(compiled) == 0
    page = folder / "page.html"
    assert main(["explain", str(path), "--target", "lavapipe", "-o", str(page)]) == 0
    assert "<script>alert" not in page.read_text()
    assert all(
        folder / "out" in (p, *p.parents) or p == page
        for p in tmp_path.rglob("*")
        if p not in before
    )
    program = Program.load(folder / "out")
    x = np.ones(600, np.float32)
    results = run(program, {names["x"]: x})
    assert np.array_equal(results[names["y"]], x + np.arange(600))


def test_a_result_may_be_a_weight(onnx: ModuleType):
    weight = onnx.numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    proto = model(onnx, [relu(onnx)], outputs=["y", "w"], initializers=[weight])
    results = run(compile_model(import_onnx(proto), "lavapipe"), {"x": np.ones(3, np.float32)})
    assert results["w"].tolist() == [0, 1, 2]


def test_a_wrong_shape_of_a_result_does_not_count(onnx: ModuleType):
    proto = model(onnx, [relu(onnx)], outputs=[value(onnx, "y", (7, 7))])
    results = run(compile_model(import_onnx(proto), "lavapipe"), {"x": np.ones(3, np.float32)})
    assert results["y"].tolist() == [1, 1, 1]


def test_nested_graphs_are_computed_or_refused(onnx: ModuleType, tmp_path: Path):
    proto = onnx.ModelProto.FromString(nested(onnx, 20))
    x = np.array([1, -1, 2], np.float32)
    for condition in (True, False):
        (result,) = run_reference(import_onnx(proto), {"x": x, "c": np.array(condition)}).values()
        assert result.tolist() == [1, 0, 2]


def test_a_long_chain_takes_linear_time(onnx: ModuleType):
    seconds: list[float] = []
    for count in (1000, 5000):
        nodes = [
            node(onnx, "Neg", [f"v{i}" if i else "x"], f"v{i + 1}" if i + 1 < count else "y")
            for i in range(count)
        ]
        proto = model(onnx, nodes)
        started = time.process_time()
        import_onnx(proto)
        seconds.append(time.process_time() - started)
    assert seconds[1] < 10 * seconds[0]
