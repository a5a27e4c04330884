"""
Implements ONNX's backend interface (`onnx.backend.base`), for its node tests and other harnesses.

    results = xdsl_spirv.onnx_backend.prepare(model, "VULKAN").run(inputs)
    runner = onnx.backend.test.BackendTest(xdsl_spirv.onnx_backend, __name__)

The device `CPU` is the interpreter; `VULKAN` or `VULKAN:1` is a Vulkan device. A model is compiled
for each set of input shapes on first use. A refused model raises the same error as `xs.compile`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto, NodeProto, helper
from onnx.backend import base
from onnx.reference import ReferenceEvaluator
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError

if TYPE_CHECKING:
    from xdsl_spirv.frontends.model import ImportedModel
    from xdsl_spirv.runtime.program import Program

DEVICES = {"CPU": "interpreter", "VULKAN": "vulkan"}
"""Maps ONNX's device names to this package's names."""
TARGET = "lavapipe"
"""The default target of programs that run on the interpreter."""
REFERENCE = "reference"
"""The target name for running the model as imported, on the interpreter."""
REFUSALS = (FrontendError, ProgramError, InterpreterError, DiagnosticException, VerifyException)
"""Errors for a model or an input that is not supported."""
SIZES = ("scales", "roi", "condition")
"""Names of inputs of operators that determine sizes, although they are floats or Booleans."""


class PreparedModel(base.BackendRep):
    """
    A model and its compiled programs.

    Programs are cached by the shapes of inputs, and by the values of inputs that determine sizes.
    """

    def __init__(self, model: ModelProto, device: str, target: str | None) -> None:
        self.model, self.device, self.target = model, device, target
        held = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input]
        self.inputs = [name for name in names if name not in held] or names
        self.programs: dict[Any, tuple[ImportedModel, Program | None]] = {}
        self.refusal: str | None = None
        """
        The reason why the last run compiled some inputs as constants. None if no input was compiled
        as a constant.
        """

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """
        Runs the model. Returns the results in the order of the outputs.

        `inputs` are arrays in the order of the model's inputs, or a mapping by name. If a model is
        refused because inputs determine sizes, it is compiled again with these inputs as
        constants. If the second compilation fails too, raises the first error.
        """
        given = self._by_name(inputs)
        self.refusal = None
        try:
            return self._run(given, {})
        except REFUSALS as error:
            constants = {name: a for name, a in given.items() if decides_sizes(name, a)}
            if not constants:
                raise
            refusal = error
        try:
            results = self._run({n: a for n, a in given.items() if n not in constants}, constants)
        except REFUSALS:
            raise refusal from None
        self.refusal = str(refusal)
        return results

    def _by_name(self, inputs: Any) -> dict[str, Array]:
        if not isinstance(inputs, Mapping):
            listed = list(inputs) if isinstance(inputs, Sequence) else [inputs]
            if len(listed) > len(self.inputs):
                raise ProgramError(
                    f"{len(listed)} inputs were given, but the model has {len(self.inputs)}",
                    ", ".join(self.inputs),
                    "omit the additional inputs",
                )
            inputs = dict(zip(self.inputs, listed, strict=False))
        return {
            name: np.asarray(value)
            for name, value in inputs.items()
            if value is not None and not isinstance(value, list | tuple | dict)
        }

    def _run(self, inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> tuple[Any, ...]:
        shapes = tuple((name, array.dtype.str, array.shape) for name, array in inputs.items())
        key = shapes, tuple((name, array.tobytes()) for name, array in constants.items())
        if key not in self.programs:
            self.programs[key] = self._compile(inputs, constants)
        model, program = self.programs[key]
        if program is None:
            from xdsl_spirv.compiler.model import run_reference

            results = run_reference(model, dict(inputs))
        else:
            from xdsl_spirv.runtime.default_device import run_on

            results = run_on(self.device, program, dict(inputs))
        return tuple(results[value.name] for value in model.outputs)

    def _compile(
        self, inputs: Mapping[str, Array], constants: Mapping[str, Array]
    ) -> tuple[ImportedModel, Program | None]:
        from xdsl_spirv.compiler.api import compile
        from xdsl_spirv.frontends import import_onnx

        shapes = {name: array.shape for name, array in inputs.items()}
        model = import_onnx(self.model, shapes=shapes, constants=dict(constants))
        return model, None if self.target == REFERENCE else compile(model, self.target)


class Backend(base.Backend):
    """The interface `onnx.backend.base.Backend`, implemented by this compiler."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for `CPU`, and for `VULKAN` and `VULKAN:N` if such a device exists."""
        kind, _, number = device.partition(":")
        if kind != "VULKAN":
            return kind in DEVICES
        from xdsl_spirv.surface import devices

        return int(number or 0) < len(devices())

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """True if the importer accepts the model without knowing shapes or values of inputs."""
        from xdsl_spirv.frontends import import_onnx

        try:
            import_onnx(model)
        except REFUSALS:
            return False
        return True

    @classmethod
    def prepare(
        cls, model: ModelProto, device: str = "CPU", target: str | None = None, **kwargs: Any
    ) -> PreparedModel:
        """
        Returns the model, ready to run repeatedly.

        `target` is the name or file of a target; by default it is the device's target. Ignores
        other options, such as `rtol`, which harnesses pass to every backend.
        """
        kind, colon, number = device.partition(":")
        if not cls.supports_device(device):
            raise ProgramError(
                f"there is no device {device!r}", "", f"devices: {', '.join(DEVICES)}"
            )
        if target is None and kind == "CPU":
            target = TARGET
        return PreparedModel(
            model, DEVICES[kind] + (colon + number if kind != "CPU" else ""), target
        )

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Returns the results of one operator. ONNX's evaluator infers types that are not given."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        arrays = [np.asarray(a) for a in (inputs if isinstance(inputs, list | tuple) else [inputs])]
        names = [name for name in node.input if name]
        given = dict(zip(names, arrays, strict=True))
        if outputs_info is None:
            results: Any = ReferenceEvaluator(node).run(None, given)
            outputs_info = [(result.dtype, result.shape) for result in results]
        pairs = zip(node.output, outputs_info, strict=True)
        graph = helper.make_graph(
            [node],
            "node",
            [_value(name, array.dtype, array.shape) for name, array in given.items()],
            [_value(name, dtype, shape) for name, (dtype, shape) in pairs],
        )
        version = kwargs.pop("opset_version", None)
        opsets = None if version is None else [helper.make_opsetid("", version)]
        model = helper.make_model(graph, opset_imports=opsets)
        return cls.prepare(model, device, **kwargs).run(arrays)


def decides_sizes(name: str, array: Array) -> bool:
    """
    True if an input may determine sizes: an integer, a vector of integers, or a vector with a name
    in `SIZES`.
    """
    integers = array.ndim <= 1 and array.dtype.name in ("int32", "int64")
    return integers or (name in SIZES and array.ndim == 1)


def _value(name: str, dtype: Any, shape: Sequence[int]) -> Any:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, element, list(shape))


is_compatible, prepare = Backend.is_compatible, Backend.prepare
run_model, run_node = Backend.run_model, Backend.run_node
supports_device = Backend.supports_device
