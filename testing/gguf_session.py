"""Runs imported language models on the reference interpreter, before any pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType

from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.signature import argument_name
from xdsl_spirv.frontends.model import ImportedModel
from xdsl_spirv.interpreter import Options, reference

Array = np.ndarray[Any, np.dtype[Any]]


class Session:
    """Runs the functions of an imported model on whole arrays, and stores its states."""

    def __init__(self, model: ImportedModel):
        self.model = model
        self.states: dict[str, Array] = {}
        self.past = 0

    def run(self, tokens: Array) -> Array:
        """Returns the logits for tokens. A single token uses the function `decode`."""
        name = "decode" if len(tokens) == 1 else "prefill"
        logits = self.call(name, token=tokens, past=self.past)
        self.past += len(tokens)
        return logits

    def call(self, name: str, **inputs: Any) -> Array:
        """Returns the logits of a function for the given inputs."""
        values: dict[str, Any] = {**inputs, **self.model.weights}
        given, held = list[Any](), list[str]()
        for number, argument in enumerate(host_function(self.model.module, name).body.block.args):
            called = argument_name(argument, number)
            if called not in values:
                assert isinstance(argument.type, TensorType)
                element = argument.type.element_type
                kind = "i" if isinstance(element, IntegerType) else "f"
                empty = np.zeros(argument.type.get_shape(), f"{kind}{element.size}")  # pyright: ignore
                values[called] = self.states.setdefault(called, empty)
                held.append(called)
            given.append(values[called])
        results = reference(self.model.module, given, name, options=Options())
        self.states |= dict(zip(held, results[len(results) - len(held) :], strict=True))
        return results[0]
