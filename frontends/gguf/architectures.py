"""
Declares the families of language models that GGUF files name.

An architecture selects from common parts: norms before and after a layer, attention, rotation,
activation, experts. From the declaration `parameters.py` derives the tensors, and `graph.py` the
computation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from xdsl_spirv.frontends.errors import FrontendError


@dataclass(frozen=True)
class Window:
    """
    Sliding-window attention: some blocks attend only to the last `attention.sliding_window` tokens.

    The last of every `period` blocks attends to all tokens, unless the file has a pattern.
    """

    period: int
    base: float | None = None
    """`rope.freq_base` of blocks with a window; None if all blocks have the same."""
    scaled: bool = True
    """True if blocks with a window scale positions like the other blocks."""


@dataclass(frozen=True)
class Router:
    """Chooses and weights each token's experts."""

    scores: Literal["softmax", "sigmoid", "chosen"] = "softmax"
    """
    Function that turns logits into scores. With `chosen`, the softmax is over the chosen experts'
    logits only.
    """
    normalized: bool = True
    """True if the weights of a token's experts are divided by their sum."""
    biased: bool = False
    """
    True if `exp_probs_b` is added to the scores that choose experts, but not to their weights.
    """
    shared: Literal["", "added", "gated"] = ""
    """An additional expert for every token: its result is added, times a sigmoid if `gated`."""


@dataclass(frozen=True)
class Architecture:
    """A family of models that GGUF files name."""

    name: str
    neighbours: bool = False
    """
    True if the two elements of a head that form a rotated pair are neighbours.

    Otherwise they are half of the rotated part apart.
    """
    before: tuple[str, str] = ("attn_norm", "ffn_norm")
    """Names of the norms before attention and before the layers; "" for none."""
    behind: tuple[str, str] = ("", "")
    """Names of the norms of the results of attention and of the layers, before they are added."""
    normalized: Literal["", "heads", "rows"] = ""
    """Normalization of queries and keys, if any: head by head or all heads at once."""
    activation: Literal["silu", "gelu", "clamped"] = "silu"
    fused: bool = False
    """True if query, key and value are one matrix, and also gate and up, called `ffn_up`."""
    turns_part: bool = True
    """True if positions may rotate only the first elements of a head."""
    unturned: int = 0
    """
    Size of groups of blocks whose last block has no rotary positions; 0 if all blocks have them.
    """
    factors: tuple[str, ...] = ()
    """
    Tensors of divisors for the rotary frequencies; two tensors are for short and long contexts.
    """
    window: Window | None = None
    sinks: bool = False
    """True if each head has an extra score that only takes part in the softmax's sum."""
    root_of_width: bool = False
    """True if the embedding is multiplied by the square root of its width."""
    wide_scores: int = 0
    """Number of blocks from which scores are divided by sqrt(width / heads)."""
    router: Router | None = None
    keys: frozenset[str] = frozenset()
    """Keys that this architecture has in addition to the common ones."""
    fixed: Mapping[str, Collection[Any]] = field(default_factory=dict[str, Collection[Any]])
    """Keys for which only these values are supported."""


BEHIND = ("post_attention_norm", "post_ffw_norm")
CAPS = frozenset(("attn_logit_softcapping", "final_logit_softcapping"))
SCALES = frozenset(("embedding_scale", "residual_scale", "logit_scale", "attention.scale"))
LONG_AND_SHORT = ("rope_factors_short", "rope_factors_long")
TURNED = {"rope.scaling.finetuned": (True,)}
"""Keys for llama.cpp's rotation; they may be in the file although the model has none."""

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
    """Returns the architecture that a file names; raises `FrontendError` for an unknown one."""
    name = values.get("general.architecture")
    if name not in ARCHITECTURES:
        raise FrontendError(
            f"the architecture {name!r} is not known" if name else "the file names no architecture",
            f"{place}, general.architecture",
            f"use a model of {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]
