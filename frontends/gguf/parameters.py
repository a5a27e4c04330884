"""
Describes the supported models of GGUF files: the sizes that their values give, and the tensors they
have.

A value or a tensor that is not listed is refused by its name, for it would mean something.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

import numpy as np

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.file import File, StoredTensor
from xdsl_spirv.frontends.onnx.values import Array


@dataclass(frozen=True)
class Architecture:
    """A family of models that GGUF files name."""

    name: str
    neighbours: bool
    """
    Whether the two elements of a head that a position turns are neighbours.

    Else half of the turned part lies between them.
    """
    normalizes_heads: bool = False
    """Whether queries and keys are normalized head by head."""
    turns_part: bool = True
    """Whether positions may turn the first elements of a head only."""
    has_factors: bool = False
    """Whether a file may have factors that frequencies are divided by."""


ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture("llama", neighbours=True, turns_part=False, has_factors=True),
        Architecture("qwen2", neighbours=False),
        Architecture("qwen3", neighbours=False, normalizes_heads=True),
    )
}

FACTORS = "rope_freqs.weight"
AGAIN = "download or convert it again"

READ = frozenset(
    "block_count context_length embedding_length feed_forward_length attention.head_count"
    " attention.head_count_kv attention.key_length attention.value_length"
    " attention.layer_norm_rms_epsilon rope.dimension_count rope.freq_base rope.scaling.type"
    " rope.scaling.factor rope.scale_linear".split()
)
"""The values of an architecture that are read."""

MEANINGLESS: Mapping[str, Collection[Any]] = {
    "vocab_size": (),
    "tensor_data_layout": (),
    "rope.scaling.finetuned": (),
    "rope.scaling.original_context_length": (),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "attention.causal": (True,),
    "use_parallel_residual": (False,),
}
"""Values that change nothing: all of them where none is listed."""


@dataclass(frozen=True)
class Parameters:
    """The sizes of a model and the numbers that it computes with."""

    architecture: Architecture
    blocks: int
    width: int
    hidden: int
    heads: int
    shared: int
    """Heads of keys and values, each for as many heads of queries."""
    head: int
    """Elements of a head."""
    turned: int
    """Elements of a head that positions turn: its first ones."""
    vocabulary: int
    context: int
    """Tokens that the model was trained on."""
    epsilon: float
    frequencies: Array
    """The angle of a position, in radians, for each pair of turned elements; in f64."""

    @property
    def queries(self) -> int:
        """The columns of all heads of queries."""
        return self.heads * self.head

    @property
    def keys(self) -> int:
        """The columns of all heads of keys, and of values."""
        return self.shared * self.head


def parameters_of(file: File) -> Parameters:
    """
    The sizes of a model; raises `FrontendError` for unknown or missing values.

    The tensors are those that the sizes ask for, and no others.
    """
    name = file.values.get("general.architecture")
    if name not in ARCHITECTURES:
        raise FrontendError(
            f"the architecture {name!r} is not known" if name else "the file names no architecture",
            f"{file.place}, general.architecture",
            f"use a model of {', '.join(ARCHITECTURES)}",
        )
    parts = file.values.get("split.count", 1)
    if parts != 1:
        raise FrontendError(
            f"the model is in {parts} files, and this is one of them",
            f"{file.place}, split.count",
            "make one file of them: llama-gguf-split --merge",
        )
    values = _Values(file, ARCHITECTURES[name])
    values.refuse_unknown()
    parameters = values.parameters()
    _check_tensors(file, parameters)
    return parameters


class _Values:
    """The values of an architecture."""

    def __init__(self, file: File, architecture: Architecture):
        self.file = file
        self.architecture = architecture
        self.prefix = f"{architecture.name}."

    def refuse(
        self, key: str, cause: str, remedy: str = "download or convert it again"
    ) -> NoReturn:
        raise FrontendError(cause, f"{self.file.place}, {self.prefix}{key}", remedy)

    def refuse_unknown(self) -> None:
        own = [key for key in self.file.values if key.startswith(self.prefix)]
        for key in (key.removeprefix(self.prefix) for key in own):
            value = self.file.values[self.prefix + key]
            if key in READ or (key in MEANINGLESS and value in (MEANINGLESS[key] or (value,))):
                continue
            self.refuse(
                key,
                f"{self.prefix}{key} = {value} is not supported",
                "use a model without it",
            )

    def number(self, key: str, default: float | None = None) -> float:
        """A number above 0, for all blocks alike."""
        value = self.file.values.get(self.prefix + key, default)
        if isinstance(value, list) and value:
            if any(v != value[0] for v in value):  # pyright: ignore[reportUnknownVariableType]
                self.refuse(key, f"blocks differ in {self.prefix}{key}", "use another model")
            value = value[0]  # pyright: ignore[reportUnknownVariableType]
        if value is None:
            self.refuse(key, f"{self.prefix}{key} is missing")
        if not _is_number(value) or not 0 < value < math.inf:
            self.refuse(key, f"{self.prefix}{key} is {value}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if not isinstance(value, int):
            self.refuse(key, f"{self.prefix}{key} is {value}")
        return value

    def parameters(self) -> Parameters:
        width, heads = self.count("embedding_length"), self.count("attention.head_count")
        shared = self.count("attention.head_count_kv", heads)
        head = self.count("attention.key_length", width // heads)
        turned = self.count("rope.dimension_count", head)
        if heads % shared:
            self.refuse("attention.head_count_kv", f"{heads} heads of queries share {shared}")
        if self.count("attention.value_length", head) != head:
            self.refuse("attention.value_length", f"values are not as long as keys, {head}")
        partly = self.architecture.turns_part
        if turned % 2 or turned > head or (turned < head and not partly):
            self.refuse("rope.dimension_count", f"{turned} of {head} elements of a head are turned")
        blocks, tensors = self.count("block_count"), len(self.file.tensors)
        if blocks > tensors:
            self.refuse("block_count", f"{blocks} blocks, but {tensors} tensors")
        embedding = self.file.tensors.get("token_embd.weight")
        return Parameters(
            self.architecture,
            blocks,
            width,
            self.count("feed_forward_length"),
            heads,
            shared,
            head,
            turned,
            embedding.shape[0] if embedding is not None and embedding.shape else 0,
            self.count("context_length"),
            self.number("attention.layer_norm_rms_epsilon"),
            self.frequencies(turned),
        )

    def frequencies(self, turned: int) -> Array:
        half = turned // 2
        angles = self.number("rope.freq_base", 10000.0) ** (-np.arange(half) / half)
        factors = self.file.tensors.get(FACTORS)
        if factors is not None and factors.shape == (half,):
            angles = angles / factors.numbers().astype(np.float64)
        return angles / self.scaling()

    def scaling(self) -> float:
        """The divisor of positions."""
        kind = self.file.values.get(f"{self.prefix}rope.scaling.type", "linear")
        if kind not in ("none", "linear"):
            self.refuse(
                "rope.scaling.type",
                f"positions are scaled by {kind!r}",
                "use a model with rope.scaling.type none or linear",
            )
        keys = ("rope.scaling.factor", "rope.scale_linear")
        given = (self.file.values.get(self.prefix + key) for key in keys)
        factor: Any = next((factor for factor in given if factor is not None), 0)
        if not _is_number(factor) or not 0 <= factor < math.inf:
            self.refuse(keys[0], f"{self.prefix}{keys[0]} is {factor}")
        # Converters write 0 for positions that are not scaled.
        return factor if kind == "linear" and factor else 1.0


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_tensors(file: File, p: Parameters) -> None:
    """Raises for a tensor that is missing, is of other sizes, or is not known."""
    needed, possible = _tensors_of(p)
    for name, shape in (needed | possible).items():
        tensor = file.tensors.get(name)
        if tensor is None and name in needed:
            raise _refusal(file, f"the tensor {name!r} is missing")
        if tensor is not None and tensor.shape != shape:
            wanted = StoredTensor(name, tensor.format, shape, tensor.data)
            raise _refusal(file, f"the tensor {name!r} is {tensor}, and should be {wanted}")
    for name in file.tensors:
        if name not in needed and name not in possible:
            raise FrontendError(
                f"the tensor {name!r} is not known in {p.architecture.name}",
                file.place,
                "use a model without it: no experts, adapters or fused projections",
            )


def _refusal(file: File, cause: str) -> FrontendError:
    return FrontendError(cause, file.place, AGAIN)


def _tensors_of(p: Parameters) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """The shapes of the tensors that a model has, and of those that it may have."""
    matrices = {
        "attn_q": (p.queries, p.width),
        "attn_k": (p.keys, p.width),
        "attn_v": (p.keys, p.width),
        "attn_output": (p.width, p.queries),
        "ffn_gate": (p.hidden, p.width),
        "ffn_up": (p.hidden, p.width),
        "ffn_down": (p.width, p.hidden),
    }
    vectors = {"attn_norm": (p.width,), "ffn_norm": (p.width,)}
    if p.architecture.normalizes_heads:
        vectors |= {"attn_q_norm": (p.head,), "attn_k_norm": (p.head,)}
    needed: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (p.vocabulary, p.width),
        "output_norm.weight": (p.width,),
    }
    possible: dict[str, tuple[int, ...]] = {
        "output.weight": (p.vocabulary, p.width),
        "output.bias": (p.vocabulary,),
    }
    if p.architecture.has_factors:
        possible[FACTORS] = (p.turned // 2,)
    for block in range(p.blocks):
        for name, shape in {**matrices, **vectors}.items():
            needed[f"blk.{block}.{name}.weight"] = shape
        for name, (rows, _) in matrices.items():
            possible[f"blk.{block}.{name}.bias"] = (rows,)
    return needed, possible
