"""
Reads the parameters of a model from the metadata of a GGUF file, and checks its tensors.

Unknown metadata values and tensors are refused, because they could change the result.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeGuard

import numpy as np

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.architectures import Architecture, Router, architecture_of
from xdsl_spirv.frontends.gguf.file import DENSE, File, StoredTensor
from xdsl_spirv.frontends.gguf.rotary import KINDS, Rotation

AGAIN = "download or convert the file again"

READ = frozenset(
    "block_count context_length embedding_length feed_forward_length attention.head_count"
    " attention.head_count_kv attention.key_length attention.value_length"
    " attention.layer_norm_rms_epsilon rope.dimension_count rope.freq_base rope.scaling.type"
    " rope.scaling.factor rope.scale_linear rope.scaling.original_context_length"
    " rope.scaling.attn_factor rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor"
    " rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow".split()
)
"""Metadata keys, without prefix, that are read for every architecture."""
READ_OF_WINDOWS = frozenset(
    "attention.sliding_window attention.sliding_window_pattern rope.freq_base_swa".split()
)
READ_OF_EXPERTS = frozenset(
    "expert_count expert_used_count expert_feed_forward_length expert_shared_count"
    " expert_shared_feed_forward_length expert_weights_scale expert_weights_norm"
    " expert_gating_func leading_dense_block_count".split()
)

MEANINGLESS: Mapping[str, Collection[Any]] = {
    "vocab_size": (),
    "tensor_data_layout": (),
    "rope.scaling.finetuned": (),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1),
    "attention.causal": (True,),
    "use_parallel_residual": (False,),
}
"""Metadata keys that are not read, each with its supported values (any value if empty)."""


@dataclass(frozen=True)
class Experts:
    """The parameters of a mixture of experts: each token uses `used` of `count` experts."""

    count: int
    used: int
    hidden: int
    shared: int
    """Hidden size of the expert that every token uses; 0 for none."""
    scale: float
    """Factor of the weights of experts."""
    router: Router
    dense: int
    """Number of blocks without experts, which come first."""


@dataclass(frozen=True)
class Parameters:
    """The sizes and constants of a model."""

    architecture: Architecture
    blocks: int
    width: int
    hidden: int
    heads: int
    shared: int
    """Number of key heads, equal to the number of value heads."""
    head: int
    """Number of elements of a head."""
    turned: int
    """Number of elements of a head that are rotated by position; they come first."""
    vocabulary: int
    context: int
    """Length of the context in training, in tokens."""
    epsilon: float
    rotation: Rotation
    score_scale: float
    """Factor of the scores (products of queries and keys)."""
    window: int = 0
    """Number of tokens to which windowed blocks attend; 0 if no block is windowed."""
    local_rotation: Rotation | None = None
    """Rotation of windowed blocks."""
    pattern: tuple[bool, ...] = ()
    """For each block, True if its attention has a sliding window."""
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    """Factor of the results that are added to the residual."""
    logit_divisor: float = 1.0
    score_cap: float = 0.0
    """Limit of the scores, applied with tanh; 0 for none."""
    logit_cap: float = 0.0
    experts: Experts | None = None

    def has_experts(self, block: int) -> bool:
        return self.experts is not None and block >= self.experts.dense

    @property
    def queries(self) -> int:
        """Number of columns of all query heads."""
        return self.heads * self.head

    @property
    def keys(self) -> int:
        """Number of columns of all key heads."""
        return self.shared * self.head


def parameters_of(file: File) -> Parameters:
    """
    Reads the parameters of a model.

    Raises `FrontendError` for unknown or missing metadata values or tensors.
    """
    parts = file.values.get("split.count", 1)
    if parts != 1:
        raise FrontendError(
            f"the file is one of {parts} parts of a model",
            f"{file.place}, split.count",
            "join the parts into one file: llama-gguf-split --merge",
        )
    values = Values.read(file)
    values.refuse_unknown()
    parameters = values.parameters()
    _check_tensors(file, parameters)
    return parameters


class Values:
    """Reads and checks metadata values of an architecture."""

    def __init__(self, file: File, architecture: Architecture):
        self.file = file
        self.architecture = architecture
        self.prefix = f"{architecture.name}."

    @staticmethod
    def read(file: File) -> Values:
        """Selects the architecture that a file names. Raises `FrontendError` if it is unknown."""
        return Values(file, architecture_of(file.values, file.place))

    def refuse(
        self, key: str, cause: str, remedy: str = "download or convert the file again"
    ) -> NoReturn:
        raise FrontendError(cause, f"{self.file.place}, {self.prefix}{key}", remedy)

    def refuse_unknown(self) -> None:
        architecture = self.architecture
        read = READ | architecture.keys
        read |= READ_OF_WINDOWS if architecture.window else frozenset()
        read |= READ_OF_EXPERTS if architecture.router else frozenset()
        meaningless = {**MEANINGLESS, **architecture.fixed}
        own = [key for key in self.file.values if key.startswith(self.prefix)]
        for key in (key.removeprefix(self.prefix) for key in own):
            value = self.file.values[self.prefix + key]
            if key in read or (key in meaningless and value in (meaningless[key] or (value,))):
                continue
            self.refuse(
                key,
                f"{self.prefix}{key} = {value} is not supported",
                f"use a model without {key}",
            )

    def number(self, key: str, default: float | None = None) -> float:
        """Returns a positive number. In a list with a number per block, all must be equal."""
        value = self.file.values.get(self.prefix + key, default)
        if isinstance(value, list) and value:
            if any(v != value[0] for v in value):  # pyright: ignore[reportUnknownVariableType]
                self.refuse(
                    key,
                    f"the blocks have different values of {self.prefix}{key}",
                    "use a model in which all blocks have the same value",
                )
            value = value[0]  # pyright: ignore[reportUnknownVariableType]
        if value is None:
            self.refuse(key, f"{self.prefix}{key} is missing")
        if not _is_number(value) or not 0 < value < math.inf:
            self.refuse(key, f"{self.prefix}{key} is {value}, but must be a positive number")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if not isinstance(value, int):
            self.refuse(key, f"{self.prefix}{key} is {value}, but must be an integer")
        return value

    def optional(self, key: str, default: float = 0.0) -> float:
        """Returns a positive number, or the default if the number is missing or 0."""
        value = self.file.values.get(self.prefix + key)
        return default if value is None or (_is_number(value) and not value) else self.number(key)

    def parameters(self) -> Parameters:
        architecture = self.architecture
        width, heads = self.count("embedding_length"), self.count("attention.head_count")
        shared = self.count("attention.head_count_kv", heads)
        head = self.count("attention.key_length", width // heads)
        turned = self.count("rope.dimension_count", head)
        if heads % shared:
            self.refuse(
                "attention.head_count_kv",
                f"{heads} query heads cannot share {shared} key heads",
            )
        if self.count("attention.value_length", head) != head:
            self.refuse(
                "attention.value_length",
                f"a head's values must have {head} elements, as many as its keys",
            )
        if turned % 2 or turned > head or (turned < head and not architecture.turns_part):
            self.refuse(
                "rope.dimension_count",
                f"{turned} rotated elements do not fit a head of {head} elements",
            )
        blocks, tensors = self.count("block_count"), len(self.file.tensors)
        if blocks > tensors:
            self.refuse("block_count", f"there are {blocks} blocks, but only {tensors} tensors")
        embedding = self.file.tensors.get("token_embd.weight")
        wide = architecture.wide_scores and blocks == architecture.wide_scores
        scale = (width / heads if wide else head) ** -0.5
        rotation, window = self.rotation(turned), self.window()
        experts = self.experts()
        dense = experts is None or experts.dense
        return Parameters(
            architecture,
            blocks,
            width,
            self.count("feed_forward_length") if dense else 0,
            heads,
            shared,
            head,
            turned,
            embedding.shape[0] if embedding is not None and embedding.shape else 0,
            self.count("context_length"),
            self.number("attention.layer_norm_rms_epsilon"),
            rotation,
            self.optional("attention.scale", scale),
            window,
            self.local(rotation) if window else None,
            self.pattern(blocks) if window else (False,) * blocks,
            width**0.5 if architecture.root_of_width else self.optional("embedding_scale", 1.0),
            self.optional("residual_scale", 1.0),
            self.optional("logit_scale", 1.0),
            self.optional("attn_logit_softcapping"),
            self.optional("final_logit_softcapping"),
            experts,
        )

    def window(self) -> int:
        given = self.architecture.window and self.optional("attention.sliding_window")
        return self.count("attention.sliding_window") if given else 0

    def local(self, rotation: Rotation) -> Rotation:
        """Returns the rotation of windowed blocks."""
        window = self.architecture.window
        assert window is not None
        default = rotation.base if window.base is None else window.base
        base = float(self.number("rope.freq_base_swa", default))
        if window.scaled:
            return replace(rotation, base=base)
        return Rotation(rotation.turned, base)

    def pattern(self, blocks: int) -> tuple[bool, ...]:
        """Returns a flag for each block: True if the block has a window, according to the file."""
        assert self.architecture.window is not None
        key = "attention.sliding_window_pattern"
        given = self.file.values.get(self.prefix + key)
        if isinstance(given, list):
            flags: list[Any] = given
            if len(flags) != blocks or any(flag not in (0, 1) for flag in flags):
                self.refuse(
                    key, f"{self.prefix}{key} is {flags}, which does not fit {blocks} blocks"
                )
            return tuple(bool(flag) for flag in flags)
        period = self.count(key, self.architecture.window.period)
        return tuple(period == 1 or i % period < period - 1 for i in range(blocks))

    def experts(self) -> Experts | None:
        router = self.architecture.router
        if router is None or not self.file.values.get(f"{self.prefix}expert_count"):
            return None
        count, used = self.count("expert_count"), self.count("expert_used_count")
        if used > count:
            self.refuse("expert_used_count", f"a token cannot use {used} of {count} experts")
        named = f"{self.prefix}expert_feed_forward_length" in self.file.values
        key = "expert_feed_forward_length" if named else "feed_forward_length"
        hidden, shared = self.count(key), 0
        if router.shared:
            # Files give the total size of the shared experts, or their number.
            times = int(self.optional("expert_shared_count"))
            shared = int(self.optional("expert_shared_feed_forward_length", times * hidden))
        return Experts(
            count,
            used,
            hidden,
            shared,
            self.optional("expert_weights_scale", 1.0),
            self.router(router),
            int(self.optional("leading_dense_block_count")),
        )

    def router(self, router: Router) -> Router:
        """Returns the architecture's router with the file's options."""
        kinds = {0: router.scores, 1: "softmax", 2: "sigmoid", 3: "chosen"}
        kind = self.file.values.get(f"{self.prefix}expert_gating_func", 0)
        if kind not in kinds:
            self.refuse(
                "expert_gating_func",
                f"{self.prefix}expert_gating_func is {kind}, which is not supported",
            )
        norm = self.file.values.get(f"{self.prefix}expert_weights_norm", router.normalized)
        return replace(router, scores=kinds[kind], normalized=bool(norm))

    def rotation(self, turned: int) -> Rotation:
        kind = self.file.values.get(f"{self.prefix}rope.scaling.type", "linear")
        if kind not in KINDS:
            self.refuse(
                "rope.scaling.type",
                f"positions are scaled by {kind!r}, which is not supported",
                f"use a model with rope.scaling.type {', '.join(KINDS)}",
            )
        tensors = {
            f"{n}.weight": self.file.tensors.get(f"{n}.weight") for n in self.architecture.factors
        }
        factors = {n: t.numbers().astype(np.float64) for n, t in tensors.items() if _is_dense(t)}
        original = self.optional("rope.scaling.original_context_length")
        if not original and (kind == "yarn" or len(factors) > 1):
            original = self.count("context_length")
        if self.optional("rope.scaling.yarn_ext_factor", 1.0) != 1:
            self.refuse(
                "rope.scaling.yarn_ext_factor",
                "YaRN with a mix factor other than 1 is not supported",
            )
        magnitude = self.optional("rope.scaling.attn_factor", 1.0)
        return Rotation(
            turned,
            float(self.number("rope.freq_base", 10000.0)),
            kind,
            self.scaling(),
            int(original),
            magnitude * self.optional("rope.scaling.yarn_attn_factor", 1.0),
            (
                self.optional("rope.scaling.yarn_beta_fast", 32.0),
                self.optional("rope.scaling.yarn_beta_slow", 1.0),
            ),
            factors,
        )

    def scaling(self) -> float:
        """Returns the divisor of positions; 1 if positions are not scaled."""
        keys = ("rope.scaling.factor", "rope.scale_linear")
        given = (self.file.values.get(self.prefix + key) for key in keys)
        factor: Any = next((factor for factor in given if factor is not None), 0)
        if not _is_number(factor) or not 0 <= factor < math.inf:
            self.refuse(keys[0], f"{self.prefix}{keys[0]} is {factor}, but must not be negative")
        # Converters write 0 if positions are not scaled.
        return float(factor or 1.0)


def _is_dense(tensor: StoredTensor | None) -> TypeGuard[StoredTensor]:
    return tensor is not None and tensor.format in DENSE


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_tensors(file: File, p: Parameters) -> None:
    """Raises `FrontendError` for missing or unknown tensors, and for tensors of wrong sizes."""
    needed, possible = tensors_of(p)
    for name, shape in (needed | possible).items():
        tensor = file.tensors.get(name)
        if tensor is None and name in needed:
            raise _refusal(file, f"the tensor {name!r} is missing")
        if tensor is not None and tensor.shape != shape:
            wanted = StoredTensor(name, tensor.format, shape, tensor.data)
            raise _refusal(file, f"the tensor {name!r} is {tensor}, but must be {wanted}")
    for name in file.tensors:
        if name not in needed and name not in possible:
            raise FrontendError(
                f"the tensor {name!r} is unknown in {p.architecture.name}",
                file.place,
                "use a model without this tensor, or of another architecture",
            )


def _refusal(file: File, cause: str) -> FrontendError:
    return FrontendError(cause, file.place, AGAIN)


def tensors_of(p: Parameters) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Returns the shapes of a model's required tensors and of its optional tensors, by name."""
    architecture = p.architecture
    needed: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (p.vocabulary, p.width),
        "output_norm.weight": (p.width,),
    }
    possible: dict[str, tuple[int, ...]] = {
        "output.weight": (p.vocabulary, p.width),
        "output.bias": (p.vocabulary,),
        **{f"{name}.weight": (p.turned // 2,) for name in architecture.factors},
    }
    for block in range(p.blocks):
        matrices = {**_attention_matrices(p), **_layer_matrices(p, block)}
        vectors = {
            f"{n}.weight": (p.width,) for n in (*architecture.before, *architecture.behind) if n
        }
        if architecture.normalized:
            whole = architecture.normalized == "rows"
            vectors |= {
                "attn_q_norm.weight": (p.queries if whole else p.head,),
                "attn_k_norm.weight": (p.keys if whole else p.head,),
            }
        if architecture.sinks:
            vectors["attn_sinks.weight"] = (p.heads,)
        for name, shape in matrices.items():
            needed[f"blk.{block}.{name}.weight"] = shape
            if len(shape) > 1:
                possible[f"blk.{block}.{name}.bias"] = shape[:-1]
            if len(shape) == 2:
                possible[f"blk.{block}.{name}.scale"] = (1,)
        for name, shape in vectors.items():
            needed[f"blk.{block}.{name}"] = shape
        if p.has_experts(block) and architecture.router and architecture.router.biased:
            assert p.experts is not None
            possible[f"blk.{block}.exp_probs_b.bias"] = (p.experts.count,)
    return needed, possible


def _attention_matrices(p: Parameters) -> dict[str, tuple[int, ...]]:
    output = {"attn_output": (p.width, p.queries)}
    if p.architecture.fused:
        return {"attn_qkv": (p.queries + 2 * p.keys, p.width), **output}
    sizes = {"attn_q": p.queries, "attn_k": p.keys, "attn_v": p.keys}
    return {**{name: (size, p.width) for name, size in sizes.items()}, **output}


def _layer_matrices(p: Parameters, block: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a block's feed-forward matrices, including experts."""
    if not p.has_experts(block):
        return _network_matrices("", p.hidden, p.width, p.architecture.fused)
    assert p.experts is not None
    count, own = p.experts.count, _network_matrices("_exps", p.experts.hidden, p.width, False)
    matrices = {
        "ffn_gate_inp": (count, p.width),
        **{name: (count, *shape) for name, shape in own.items()},
    }
    if p.experts.shared:
        matrices |= _network_matrices("_shexp", p.experts.shared, p.width, False)
        if p.experts.router.shared == "gated":
            matrices["ffn_gate_inp_shexp"] = (p.width,)
    return matrices


def _network_matrices(
    kind: str, hidden: int, width: int, fused: bool
) -> dict[str, tuple[int, ...]]:
    down: dict[str, tuple[int, ...]] = {f"ffn_down{kind}": (width, hidden)}
    if fused:
        return {f"ffn_up{kind}": (2 * hidden, width), **down}
    return {f"ffn_gate{kind}": (hidden, width), f"ffn_up{kind}": (hidden, width), **down}
