"""
Declares the families of language models that GGUF files may contain.

A declaration selects norms, attention, rotation, activation and experts. `parameters.py` derives
the tensors from it, and `graph.py` the computation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from xdsl_spirv.frontends.errors import FrontendError


@dataclass(frozen=True)
class Window:
    """
    Sliding-window attention: some transformer blocks attend only to the last tokens.

    The file gives the number of tokens, and may give the pattern of blocks. By default, the last
    of every `period` blocks attends to all tokens.
    """

    period: int
    base: float | None = None
    """`rope.freq_base` of blocks with a window; None if it is the same for all blocks."""
    scaled: bool = True
    """True if the scaling of positions also applies to blocks with a window."""


@dataclass(frozen=True)
class Router:
    """Options for choosing and weighting each token's experts."""

    scores: Literal["softmax", "sigmoid", "chosen"] = "softmax"
    """Function that converts logits to scores. `chosen` is a softmax over the chosen experts."""
    normalized: bool = True
    """True if the weights of a token's experts are divided by their sum."""
    biased: bool = False
    """True if `exp_probs_b` is added to the scores for choosing experts, but not to the weights."""
    shared: Literal["", "added", "gated"] = ""
    """
    Kind of the expert that every token uses additionally; "" for none. The result of a `gated` one
    is multiplied by a sigmoid.
    """


@dataclass(frozen=True)
class Architecture:
    """A family of language models that GGUF files may contain."""

    name: str
    neighbours: bool = False
    """
    True if a rotated pair consists of adjacent elements of a head. Otherwise the distance of the
    two elements is half the number of rotated elements.
    """
    before: tuple[str, str] = ("attn_norm", "ffn_norm")
    """Names of the norms before attention and before the feed-forward layers; "" for no norm."""
    behind: tuple[str, str] = ("", "")
    """Names of the norms after attention and after the feed-forward layers; "" for no norm."""
    normalized: Literal["", "heads", "rows"] = ""
    """Normalization of queries and keys: none, for each head, or over all heads of a row."""
    activation: Literal["silu", "gelu", "clamped"] = "silu"
    fused: bool = False
    """True if query, key and value are one matrix, and gate and up are one matrix `ffn_up`."""
    turns_part: bool = True
    """True if a file may restrict rotary positions to the first elements of a head."""
    unturned: int = 0
    """
    A number n: every n-th block, counted from 1, has no rotary positions. 0 if all blocks have
    them.
    """
    factors: tuple[str, ...] = ()
    """Names of tensors that divide rotary frequencies: one, or two for short and long contexts."""
    window: Window | None = None
    sinks: bool = False
    """True if each head has an extra score that only enlarges the denominator of the softmax."""
    root_of_width: bool = False
    """True if the embedding is multiplied by the square root of its width."""
    wide_scores: int = 0
    """Number of blocks for which scores are divided by sqrt(width / heads); 0 for none."""
    router: Router | None = None
    keys: frozenset[str] = frozenset()
    """Metadata keys that only this architecture has."""
    fixed: Mapping[str, Collection[Any]] = field(default_factory=dict[str, Collection[Any]])
    """Metadata keys, each with its only supported values."""


BEHIND = ("post_attention_norm", "post_ffw_norm")
CAPS = frozenset(("attn_logit_softcapping", "final_logit_softcapping"))
SCALES = frozenset(("embedding_scale", "residual_scale", "logit_scale", "attention.scale"))
LONG_AND_SHORT = ("rope_factors_short", "rope_factors_long")
TURNED = {"rope.scaling.finetuned": (True,)}
"""Metadata keys that llama.cpp writes for rotation, with values that have no effect."""

ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture(
            "llama", neighbours=True, turns_part=False, factors=("rope_freqs",), router=Router()
        ),
        Architecture("qwen2"),
        Architecture("qwen2moe", router=Router(normalized=False, shared="gated")),
        Architecture("qwen3", normalized="heads"),
        Architecture("qwen3moe", normalized="heads", router=Router()),
        Architecture(
            "gemma2",
            behind=BEHIND,
            activation="gelu",
            window=Window(2),
            root_of_width=True,
            wide_scores=46,
            keys=CAPS,
        ),
        Architecture(
            "gemma3",
            behind=BEHIND,
            normalized="heads",
            activation="gelu",
            window=Window(6, base=10000.0, scaled=False),
            root_of_width=True,
            wide_scores=62,
            keys=frozenset(("final_logit_softcapping",)),
        ),
        Architecture("phi3", fused=True, factors=LONG_AND_SHORT, window=Window(1)),
        Architecture("smollm3", neighbours=True, turns_part=False, unturned=4),
        Architecture(
            "olmo2",
            before=("", ""),
            behind=BEHIND,
            normalized="rows",
            turns_part=False,
            window=Window(4, scaled=False),
        ),
        Architecture(
            "granite",
            neighbours=True,
            turns_part=False,
            factors=("rope_freqs",),
            keys=SCALES,
            fixed=TURNED,
        ),
        Architecture(
            "granitemoe",
            neighbours=True,
            turns_part=False,
            factors=("rope_freqs",),
            router=Router(shared="added"),
            keys=SCALES,
            fixed=TURNED,
        ),
        Architecture(
            "gpt-oss",
            before=("attn_norm", "post_attention_norm"),
            activation="clamped",
            turns_part=False,
            window=Window(2),
            sinks=True,
            router=Router(scores="chosen", normalized=False),
        ),
        Architecture(
            "dots1",
            normalized="heads",
            turns_part=False,
            router=Router(scores="sigmoid", biased=True, shared="added"),
        ),
    )
}


def architecture_of(values: Mapping[str, Any], place: str) -> Architecture:
    """Returns the architecture that a file names. Raises `FrontendError` for an unknown name."""
    name = values.get("general.architecture")
    if name not in ARCHITECTURES:
        raise FrontendError(
            f"the architecture {name!r} is not known" if name else "the file names no architecture",
            f"{place}, general.architecture",
            f"use a model of {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]
