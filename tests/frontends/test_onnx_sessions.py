"""Prefill and decode steps of ONNX decoders in a session give onnxruntime's results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import xdsl_spirv
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.compiler.signature import argument_name
from xdsl_spirv.dialects.program import states_of
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import ImportedModel
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.interpreter import Options, reference
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.decoder_models import Decoder

if TYPE_CHECKING:
    from onnx import ModelProto


pytestmark = pytest.mark.skipif(
    find_spec("onnx") is None or find_spec("onnxruntime") is None,
    reason="onnx or onnxruntime is not installed",
)

CONTEXT = 16
STEPS = (5, 1, 1, 3)
"""Number of new tokens in each run."""


def by_onnxruntime(
    model: ModelProto, steps: Sequence[int] = STEPS, masks: Sequence[Array] = ()
) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
    """Yields onnxruntime's inputs and results of each step of a session."""
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    types = {value.name: value.type for value in session.get_inputs()}
    dtypes = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    outputs = [value.name for value in session.get_outputs()]
    batch = masks[0].shape[0] if masks else 1
    past = {
        value.name: np.zeros((batch, value.shape[1], 0, value.shape[3]), dtypes[value.type])
        for value in session.get_inputs()
        if value.name.startswith("past")
    }
    generator, before = np.random.default_rng(3), 0
    for number, count in enumerate(steps):
        total = before + count
        given = past | {
            "input_ids": generator.integers(0, 48, (batch, count)),
            "attention_mask": masks[number] if masks else np.ones((batch, total), np.int64),
            "position_ids": np.arange(before, total)[None],
            "seqlens_k": np.array([total - 1], np.int32),
            "total_sequence_length": np.array(total, np.int32),
        }
        given = {name: array for name, array in given.items() if name in types}
        results = dict(zip(outputs, session.run(outputs, given), strict=True))
        yield given, results
        past = {n.replace("present", "past_key_values"): results[n] for n in outputs[1:]}
        before = total


class OnWholeArrays:
    """A session that runs an imported model on whole arrays, without kernels."""

    def __init__(self, model: ImportedModel):
        self.model = model
        self.states: dict[str, Array] = {}

    def run(self, function: str, **given: Any) -> dict[str, Array]:
        host = host_function(self.model.module, function)
        names = [argument_name(argument, i) for i, argument in enumerate(host.body.block.args)]
        states = states_of(host)
        arguments: list[Array] = []
        for index, name in enumerate(names):
            type: Any = host.body.block.args[index].type
            if index in states:
                kind = np.float16 if type.element_type.bitwidth == 16 else np.float32
                self.states.setdefault(name, np.zeros(type.get_shape(), kind))
            values = {**self.model.weights, **given, **self.states}
            arguments.append(np.asarray(values[name]))
        results = reference(self.model.module, arguments, function, options=Options())
        self.states = {names[index]: results[number] for index, number in states.items()}
        return {"logits": results[0]}


def compare_steps(session: Any, model: ModelProto, tolerance: float) -> None:
    past = 0
    for given, expected in by_onnxruntime(model):
        tokens = given["input_ids"]
        function = "decode" if tokens.shape[1] == 1 else "prefill"
        results = session.run(function, input_ids=tokens, past=past)
        assert results["logits"].shape == expected["logits"].shape
        np.testing.assert_allclose(
            results["logits"].astype(np.float32), expected["logits"], atol=tolerance
        )
        past += tokens.shape[1]


FORMS = {
    "grouped": (Decoder(), 1e-5),
    "window": (Decoder(blocks=2, window=4), 1e-5),
    "f16": (Decoder(dtype=np.float16), 4e-2),
    "4 bits": (Decoder(bits=4), 1e-5),
    "8 bits": (Decoder(bits=8), 1e-4),
    "standard": (Decoder("standard", blocks=2), 1e-5),
    "plain": (Decoder("plain", blocks=2), 1e-5),
}


@pytest.mark.parametrize(("decoder", "tolerance"), FORMS.values(), ids=FORMS)
def test_steps_of_a_session_give_the_results_of_onnxruntime(decoder: Decoder, tolerance: float):
    model = decoder.model()
    imported = import_onnx(model, context=CONTEXT)
    assert imported.functions == ("prefill", "decode")
    assert [value.name for value in imported.inputs] == ["input_ids", "past"]
    assert [value.name for value in imported.outputs] == ["logits"]
    compare_steps(OnWholeArrays(imported), model, tolerance)


def test_a_compiled_step_writes_keys_and_values_into_the_states():
    """Kernels write keys and values into the states, and refuse a past beyond the context."""
    model = Decoder().model()
    program = xdsl_spirv.compile(model, "lavapipe", context=CONTEXT, dims={"sequence_length": 1})
    with program.session("interpreter") as session:
        for past, (given, expected) in enumerate(by_onnxruntime(model, (1, 1, 1))):
            results = session.run("main", input_ids=given["input_ids"], past=past)
            np.testing.assert_allclose(results["logits"], expected["logits"], atol=1e-5)
        with pytest.raises(ProgramError, match=r"past \+ 1 is 17, but must be at most 16"):
            session.run("main", input_ids=np.array([[1]]), past=CONTEXT)
    # Kernels outside of the block: embedding, slices of the angles, final norm, logits.
    assert len(program.manifest.dispatches) <= 4 + 13


@pytest.mark.long
@pytest.mark.parametrize("bits", [0, 4])
def test_a_compiled_session(bits: int):
    model = Decoder(bits=bits).model()
    program = xdsl_spirv.compile(model, "lavapipe", context=CONTEXT)
    with program.session("interpreter") as session:
        compare_steps(session, model, 1e-5)


@pytest.mark.parametrize("window", [-1, 3])
def test_a_mask_may_give_the_lengths(window: int):
    model = Decoder(window=window).model()
    masks = [np.array([[1] * 4, [1, 1, 0, 0]]), np.array([[1] * 5, [1, 1, 1, 0, 0]])]
    imported = import_onnx(model, dynamic=True)
    for number, (given, expected) in enumerate(by_onnxruntime(model, (4, 1), masks)):
        results = run_reference(imported, given)
        known = [expected["logits"][0], expected["logits"][1, : 2 if number == 0 else 1]]
        ours = [results["logits"][0], results["logits"][1, : 2 if number == 0 else 1]]
        for one, other in zip(ours, known, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_an_integer_input_that_determines_sizes_is_a_python_number():
    model = Decoder(size_inputs=True).model()
    with pytest.raises(FrontendError, match="total"):
        import_onnx(model, dynamic=True)
    imported = import_onnx(model, {"total_sequence_length": None}, dynamic=True)
    assert "total_sequence_length: index" in map(str, imported.inputs)
    for given, expected in by_onnxruntime(model):
        results = run_reference(imported, given)
        np.testing.assert_allclose(results["logits"], expected["logits"], atol=1e-5)


def _without_past(onnx: ModuleType) -> ModelProto:
    helper = onnx.helper
    values = [helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_state_of_constant_size_is_replaced(onnx: ModuleType):
    """A named state is replaced completely by the last run's result."""
    imported = import_onnx(_without_past(onnx), state={"x": "y"})
    session = OnWholeArrays(imported)
    assert imported.functions == ()
    assert not imported.inputs
    session.states["x"] = np.zeros(4, np.float32)
    session.run("main")
    session.run("main")
    np.testing.assert_allclose(session.states["x"], np.full(4, np.e), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 8}, "no output is recognized by its name as the next value of an input"),
        ({"context": 0}, "a context of 0 tokens"),
        ({"state": {"z": "y"}}, "there is no input 'z'"),
        ({"state": {"x": "z"}}, "there is no output 'z'"),
    ],
)
def test_wrong_states_are_refused(onnx: ModuleType, options: dict[str, Any], message: str):
    with pytest.raises(FrontendError, match=message):
        import_onnx(_without_past(onnx), **options)


def test_a_state_that_grows_needs_room():
    with pytest.raises(FrontendError, match="context=N"):
        import_onnx(Decoder().model(), state={"past_key_values.0.key": "present.0.key"})
