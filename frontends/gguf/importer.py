"""
Imports a language model of a GGUF file as functions of `linalg` on tensors.

- `prefill` reads some tokens after the past tokens, `decode` reads one. They take the `token`s and
  the number of `past` tokens. They return the `logits` for the next token, the `likeliest` token,
  and its logit `highest`.
- `verify`, if requested, reads a few tokens like `prefill`, and returns the logits after each.
- `decode_batch`, with several slots, computes one token of each text. It takes the numbers of past
  tokens as the i32 tensor `position` and as the numbers `past_S`, and their maximum as `past`.
  `prefill` and `decode` then take the `slot` of the text.
- `slide`, if states of windowed blocks slide (`caches.Sliding`), moves a text's rows to the front,
  beginning with row `first`. All functions then take `near`, the number of past tokens that these
  states still hold.

The functions share weights, and the states `k.N` and `v.N` (keys and values of block N).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.batch import BatchStep
from xdsl_spirv.frontends.gguf.caches import CACHES, CHUNK, Cache, Sliding, cache_of
from xdsl_spirv.frontends.gguf.file import read_file
from xdsl_spirv.frontends.gguf.graph import STATES, Step, Weights
from xdsl_spirv.frontends.gguf.parameters import Parameters, parameters_of
from xdsl_spirv.frontends.model import ImportedModel, Value
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.functions import value_of, write_function
from xdsl_spirv.frontends.onnx.values import ELEMENTS, F16, F32, I8, I32, Array, Element, Tensor
from xdsl_spirv.frontends.states import tie_states
from xdsl_spirv.progress import stage
from xdsl_spirv.upstream.collection import without_collection

PREFILL, DECODE, BATCH, VERIFY = "prefill", "decode", "decode_batch", "verify"
SLIDE = "slide"
TOKEN, PAST, LOGITS = "token", "past", "logits"
LIKELIEST, HIGHEST = "likeliest", "highest"
SLOT, POSITION, NEAR, FIRST = "slot", "position", "near", "first"

CONTEXT = 2048
"""Default number of tokens for which states have room."""
MANY = 8
"""
Minimum number of texts in a batch for products of the type `products`, as in `prefill`. Smaller
batches compute in f32 (benchmarks/model_steps.py).
"""
LARGEST = (1 << 31) - 1
"""Maximum number of elements of a tensor in a kernel."""


@without_collection()
@stage("importing the model")
def import_gguf(
    path: str | os.PathLike[str],
    *,
    context: int | None = None,
    cache: str = "f16",
    products: str = "f32",
    of_all: bool = False,
    slots: int = 1,
    ahead: int = 0,
    chunk: int = CHUNK,
) -> ImportedModel:
    """
    Imports the language model of a GGUF file.

    - `context`: number of tokens for which the states have room
    - `cache`: type of keys and values: f16, f32, f8E4M3FN, f8E5M2, or i8 with an f16 scale per row
    - `products`: type (f16 or f32) of products with weights in `prefill`, and in `decode_batch` of
      at least 8 texts; other products use f32
    - `of_all`: let `prefill` return the logits after each token
    - `slots`: number of texts in the states
    - `ahead`: number of proposed tokens that `verify` reads after one token; 0 for no `verify`
    - `chunk`: maximum number of tokens of a run, if states hold only the last tokens

    Raises `FrontendError` for a malformed or unsupported file, and for a context longer than in
    training.
    """
    file = read_file(path)
    parameters = parameters_of(file)
    context = context_of(parameters, context, file.place, slots)
    weights = Weights(file, parameters, context)
    if cache not in CACHES:
        raise FrontendError(
            f"keys and values of the type {cache!r} are not supported",
            "",
            f"use {', '.join(CACHES)}",
        )
    sliding = Sliding.find(parameters, context, chunk)
    common = _Common(weights, CACHES[cache_of(cache)], slots, sliding)
    built = {
        PREFILL: _function(PREFILL, common, _float(products), None, of_all),
        DECODE: _function(DECODE, common, F32, 1, False),
    }
    if ahead:
        built[VERIFY] = _function(VERIFY, common, F32, ahead + 1, True)
    if slots > 1:
        built[BATCH] = _batch_function(common, _float(products) if slots >= MANY else F32)
    functions = {name: function for name, (function, _) in built.items()}
    if sliding is not None:
        functions[SLIDE] = _slide_function(common, sliding)
    inputs = [Value(TOKEN, I32.name, (-1,)), Value(PAST, "index", ())]
    return ImportedModel(
        ModuleOp(list(functions.values())),
        {name: weight for _, names in built.values() for name, weight in names.items()},
        inputs
        + [Value(NEAR, "index", ())] * (sliding is not None)
        + [Value(SLOT, "index", ())] * (slots > 1),
        [
            Value(LOGITS, F32.name, (-1 if of_all else 1, parameters.vocabulary)),
            Value(LIKELIEST, I32.name, (-1 if of_all else 1,)),
            Value(HIGHEST, F32.name, (-1 if of_all else 1,)),
        ],
        function=PREFILL,
        functions=tuple(functions),
    )


def context_of(p: Parameters, wanted: int | None, place: str, slots: int = 1) -> int:
    """
    Returns the number of tokens for which the states have room: `wanted`, or the default.

    Raises `FrontendError` if the model was trained on fewer tokens.
    """
    context = min(p.context, CONTEXT) if wanted is None else wanted
    if not 1 <= context <= p.context:
        raise FrontendError(
            f"a context of {context} tokens is requested, but the model was trained on {p.context}",
            f"{place}, {p.architecture.name}.context_length",
            f"use 1 to {p.context}",
        )
    elements = max(slots * context * p.keys, p.vocabulary * p.width, p.hidden * p.width)
    if elements > LARGEST:
        raise FrontendError(
            f"a tensor would have {elements:,} elements, too many for a kernel",
            place,
            f"use tensors of at most {LARGEST:,}",
        )
    return context


def _float(name: str) -> Element:
    if name not in (F16.name, F32.name):
        raise FrontendError(f"products of type {name!r} are not supported", "", "use f16 or f32")
    return ELEMENTS[name]


@dataclass(frozen=True)
class _Common:
    weights: Weights
    cache: Cache
    slots: int
    sliding: Sliding | None


def _function(
    name: str, common: _Common, products: Element, count: int | None, of_all: bool
) -> tuple[FuncOp, Mapping[str, Array]]:
    """
    Builds a function that reads `count` tokens (None: any number). With `of_all`, it returns the
    logits after each token. Returns the function and its weights.
    """
    block = Block()
    token = block.insert_arg(TensorType(I32.type, [DYNAMIC_INDEX if count is None else count]), 0)
    length: Size = symbol(Extent(token, 0, "n")) if count is None else count
    arguments = [Value(TOKEN, I32.name, (count or -1,))]
    past, slot = _number(block, arguments, PAST), 0
    near = _number(block, arguments, NEAR) if common.sliding is not None else None
    if common.slots > 1:
        slot = _number(block, arguments, SLOT)
    states = _states(block, common)
    step = Step(
        TensorBuilder(block),
        common.weights,
        products,
        Tensor(I32, [length], token),
        past,
        dict(states),
        common.cache,
        slot,
        near,
    )
    return _finish(name, step, states, arguments, of_all)


def _batch_function(common: _Common, products: Element) -> tuple[FuncOp, Mapping[str, Array]]:
    """Builds the function `decode_batch`. Returns the function and its weights."""
    block, count = Block(), common.slots
    slides = common.sliding is not None
    called = [TOKEN, POSITION, *([f"{NEAR}_{POSITION}"] if slides else [])]
    given = [block.insert_arg(TensorType(I32.type, [count]), i) for i in range(len(called))]
    arguments = [Value(name, I32.name, (count,)) for name in called]
    longest = _number(block, arguments, PAST)
    pasts = [_number(block, arguments, f"{PAST}_{i}") for i in range(count)]
    near = _number(block, arguments, NEAR) if slides else None
    nears = [_number(block, arguments, f"{NEAR}_{i}") for i in range(count if slides else 0)]
    states = _states(block, common)
    tokens, positions, *rest = (Tensor(I32, [count], argument) for argument in given)
    step = BatchStep(
        TensorBuilder(block),
        common.weights,
        products,
        tokens,
        longest,
        dict(states),
        common.cache,
        near=near,
        positions=positions,
        pasts=pasts,
        near_positions=rest[0] if rest else None,
        nears=nears,
    )
    return _finish(BATCH, step, states, arguments, True)


def _number(block: Block, arguments: list[Value], name: str) -> Size:
    """Appends a function argument for a number that the caller passes. Returns the number."""
    arguments.append(Value(name, "index", ()))
    return symbol(Extent(block.insert_arg(IndexType(), len(block.args)), 0, name))


def _finish(
    name: str, step: Step, states: Mapping[str, Tensor], arguments: list[Value], of_all: bool
) -> tuple[FuncOp, Mapping[str, Array]]:
    """
    Completes a function with the logits and the likeliest token. Returns the function and its
    weights.
    """
    logits = step.logits(of_all)
    likeliest, highest = step.likeliest(logits)
    results = {LOGITS: logits, LIKELIEST: likeliest, HIGHEST: highest, **step.states}
    sizes = {} if isinstance(step, BatchStep) else {TOKEN: ["n"]}
    return _write_function(name, step.b, states, results, arguments, sizes), step.b.weights


def _write_function(
    name: str,
    b: TensorBuilder,
    states: Mapping[str, Tensor],
    results: Mapping[str, Tensor],
    arguments: list[Value],
    sizes: Mapping[str, Sequence[str]],
) -> FuncOp:
    """Makes a function with these arguments, states and weights, and stores their names."""
    arguments += [_describe(name, t) for name, t in states.items()]
    function = write_function(b, name, arguments, results, F32.name, sizes, _describe)
    tie_states(function, {name: name for name in states})
    return function


def _describe(name: str, t: Tensor) -> Value:
    """Describes an argument or result of a function; 8-bit floats are passed as bytes."""
    return value_of(name, Tensor(I8, t.sizes) if t.element.narrow else t)


def _states(block: Block, common: _Common, slide: bool = False) -> dict[str, Tensor]:
    """
    Appends arguments for keys and values of blocks: slots x heads x rows x head size each.

    With `slide`, only blocks with sliding states get arguments.
    """
    p, states = common.weights.parameters, dict[str, Tensor]()
    for number in range(p.blocks):
        slides = common.sliding is not None and p.pattern[number]
        if slide and not slides:
            continue
        rows = common.sliding.room if common.sliding and slides else common.weights.context
        for part in STATES:
            for suffix, (element, length) in common.cache.parts(p.head).items():
                sizes = [common.slots, p.shared, rows, length]
                argument = block.insert_arg(TensorType(element.type, sizes), len(block.args))
                states[f"{part}{suffix}.{number}"] = Tensor(element, sizes, argument)
    return states


def _slide_function(common: _Common, sliding: Sliding) -> FuncOp:
    """Builds the function `slide`, which moves the retained rows of a text to the front."""
    block, arguments = Block(), list[Value]()
    first, slot = _number(block, arguments, FIRST), 0
    if common.slots > 1:
        slot = _number(block, arguments, SLOT)
    states = _states(block, common, slide=True)
    b, moved = TensorBuilder(block), dict[str, Tensor]()
    for name, state in states.items():
        sizes = [1, state.sizes[1], sliding.keep, state.sizes[3]]
        rows = b.slice(state, [slot, 0, first, 0], sizes)
        whole = b.insert_slice(rows, b.value(state), [slot, 0, 0, 0])
        moved[name] = Tensor(state.element, state.sizes, whole)
    return _write_function(SLIDE, b, states, moved, arguments, {})
