"""
Finds the inputs and outputs of a model that are states, and the inputs that can be derived.

    past_key_values.0.key: 1 x 2 x past x 64   ->   %state: 1 x 2 x context x 64
    present.0.key: 1 x 2 x total x 64               new keys, written after the past keys

States are found by name: the output's name has `present` where the input's name has `past`. The
number of past tokens is the argument `past`. Masks and positions that follow from the numbers of
tokens are removed from the inputs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl_spirv.frontends import onnx_file
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.speech import did_you_mean

PAST = "past"
"""Name of the argument for the number of past tokens."""

MASK = "attention_mask"
POSITIONS = "position_ids"
DERIVED = (MASK, POSITIONS)
"""Inputs that are derived from the number of tokens: a mask of ones, and positions."""

TOKENS = ("input_ids", "inputs_embeds")
"""Inputs whose second dimension is the number of new tokens."""

FOLLOWING = (("past_key_values", "present"), ("past_key_values", "present_key_values"),
             ("past", "present"))  # fmt: skip
"""Parts of input names, such as `past`, and the corresponding parts of output names."""


@dataclass(frozen=True)
class Held:
    """
    A state: the tensor `output` of a run is the tensor `input` of the next run. The state grows
    along `axis`.
    """

    input: str
    output: str
    axis: int | None


@dataclass(frozen=True)
class Session:
    """The states of a model, for at most `context` tokens."""

    held: Mapping[str, Held]
    """States by input name."""
    context: int

    @property
    def outputs(self) -> frozenset[str]:
        """Returns the names of the outputs that are new values of states."""
        return frozenset(state.output for state in self.held.values())


def session_of(model: Any, context: int | None, pairs: Mapping[str, str] | None) -> Session | None:
    """
    Returns the states of a model for `context` tokens: the given `pairs` of input and output, or
    pairs found by name. Returns None if neither is given.

    Raises `FrontendError` for pairs that do not match.
    """
    if context is None and pairs is None:
        return None
    if context is not None and context < 1:
        raise FrontendError(
            f"a context of {context} tokens is not valid", "--context", "use at least one token"
        )
    inputs = {value.name: value for value in onnx_file.inputs_of(model)}
    outputs = {value.name: value for value in model.graph.output}
    if pairs is None:
        pairs = {name: output for name in inputs if (output := _following(name, outputs))}
    if not pairs:
        raise FrontendError(
            "no output is recognized by its name as the next value of an input",
            f"inputs: {', '.join(inputs)}; outputs: {', '.join(outputs)}",
            "name the pairs: --state INPUT=OUTPUT",
        )
    held: dict[str, Held] = {}
    for name, output in pairs.items():
        for side, known, one in (("input", inputs, name), ("output", outputs, output)):
            if one not in known:
                raise FrontendError(
                    f"there is no {side} {one!r}",
                    f"{side}s: {', '.join(known)}",
                    did_you_mean(one, known, "correct the name"),
                )
        held[name] = Held(name, output, _growing(inputs[name]))
    if context is None and any(state.axis is not None for state in held.values()):
        raise FrontendError(
            f"the state {next(s.input for s in held.values() if s.axis is not None)!r} "
            "grows from run to run",
            "the states of the model",
            "give the maximum number of tokens: --context N",
        )
    return Session(held, context or 0)


def _following(name: str, outputs: Mapping[str, Any]) -> str:
    """Returns the name of the output that is an input's next value, or an empty text."""
    candidates = (name.replace(past, present, 1) for past, present in FOLLOWING if past in name)
    return next((one for one in candidates if one in outputs and one != name), "")


def _growing(value: Any) -> int | None:
    """
    Returns the axis along which a state grows: the only dynamic axis, else the only dynamic axis
    whose size is named after `past`, else the second to last.
    """
    fields = value.type.tensor_type.shape.dim
    open_axes = [i for i, field in enumerate(fields) if not field.HasField("dim_value")]
    if len(open_axes) > 1:
        named = [i for i in open_axes if PAST in fields[i].dim_param]
        open_axes = named if len(named) == 1 else [i for i in open_axes if i == len(fields) - 2]
    return open_axes[0] if open_axes and open_axes != [0] else None


def fix_session(model: Any, session: Session, head_size: int | None) -> None:
    """
    Sets the sizes of a session: one sequence, and states as large as the context.

    The number of new tokens stays dynamic. Raises `FrontendError` for states with other dynamic
    dimensions.
    """
    for value in onnx_file.inputs_of(model):
        fields = value.type.tensor_type.shape.dim
        state = session.held.get(value.name)
        if fields and not fields[0].HasField("dim_value"):
            _fix(fields[0], 1)
        if state is None:
            continue
        if state.axis is not None:
            _fix(fields[state.axis], session.context)
        if head_size is not None and len(fields) == 4 and not fields[3].HasField("dim_value"):
            _fix(fields[3], head_size)
        missing = [
            onnx_file.dimension_name(value, i)
            for i, field in enumerate(fields)
            if not field.HasField("dim_value")
        ]
        if missing:
            raise FrontendError(
                f"the state {value.name!r} has dimensions without a size: {', '.join(missing)}",
                f"input {onnx_file.describe(value)}",
                f"give --dim {missing[0]}=N",
            )


def _fix(field: Any, size: int) -> None:
    field.Clear()
    field.dim_value = size


def token_input(model: Any) -> Any:
    """Returns the input whose axis 1 is the new tokens. Raises `FrontendError` without one."""
    inputs = onnx_file.inputs_of(model)
    for value in inputs:
        if value.name in TOKENS and len(onnx_file.shape_of(value)) > 1:
            return value
    raise FrontendError(
        "no input determines the number of new tokens",
        ", ".join(onnx_file.describe(value) for value in inputs),
        f"rename the input of shape 1 x tokens to {TOKENS[0]}",
    )


def head_size_beside(model: Any) -> int | None:
    """Returns the head size in the onnxruntime-genai file next to the model, or None."""
    if not isinstance(model, str | os.PathLike):
        return None
    try:
        text = Path(os.fspath(model)).with_name("genai_config.json").read_text()
        return int(json.loads(text)["model"]["decoder"]["head_size"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
