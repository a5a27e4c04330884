"""
The families of language models that GGUF files name: each is a declaration.

An architecture chooses from parts that the graph has once: norms before and behind, attention,
rotation, activation, experts. `parameters.py` derives its tensors and `graph.py` its computation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from xdsl_spirv.frontends.errors import FrontendError


@dataclass(frozen=True)
class Window:
    """
    Some blocks attend to the last tokens only; `attention.sliding_window` says to how many.

    The last of every `period` blocks attends to all, unless the file has a pattern.
    """

    period: int
    base: float | None = None
    """`rope.freq_base` of blocks with a window; None if it is the same in blocks without one."""
    scaled: bool = True
    """Whether blocks with a window scale positions like blocks without one."""


@dataclass(frozen=True)
class Router:
    """Chooses and weights each token's experts."""

    scores: Literal["softmax", "sigmoid", "chosen"] = "softmax"
    """Function of the logits; with `chosen`, softmax of the chosen experts' logits alone."""
    normalized: bool = True
    """Whether the weights of a token's experts are divided by their sum."""
    biased: bool = False
    """Whether `exp_probs_b` is added to choose experts, not to weight them."""
    shared: Literal["", "added", "gated"] = ""
    """An expert that takes every token: its result is added, times a sigmoid if `gated`."""


@dataclass(frozen=True)
class Architecture:
    """A family of models that GGUF files name."""

    name: str
    neighbours: bool = False
    """
    Whether the two elements of a head that a position turns are neighbours.

    Else half of the turned part lies between them.
    """
    before: tuple[str, str] = ("attn_norm", "ffn_norm")
    """The norms before attention and before the layers; "" for none."""
    behind: tuple[str, str] = ("", "")
    """The norms of the results of attention and of the layers, before they are added."""
    normalized: Literal["", "heads", "rows"] = ""
    """Whether queries and keys are normalized, head by head or all heads at once."""
    activation: Literal["silu", "gelu", "clamped"] = "silu"
    fused: bool = False
    """Whether query, key and value are one matrix, and so are gate and up, called `ffn_up`."""
    turns_part: bool = True
    """Whether positions may turn the first elements of a head only."""
    unturned: int = 0
    """The last of each group of this many blocks has no rotary positions; 0: all have them."""
    factors: tuple[str, ...] = ()
    """Tensors of factors that frequencies are divided by; two are for short and long contexts."""
    window: Window | None = None
    sinks: bool = False
    """Whether each head has a score that takes part in the softmax's sum only."""
    root_of_width: bool = False
    """Whether the embedding is multiplied by the root of its width."""
    wide_scores: int = 0
    """From this many blocks on, scores are divided by the root of width / heads."""
    router: Router | None = None
    keys: frozenset[str] = frozenset()
    """Values that this architecture has beside the common ones."""
    fixed: Mapping[str, Collection[Any]] = field(default_factory=dict[str, Collection[Any]])
    """Keys for which only these values are supported."""


BEHIND = ("post_attention_norm", "post_ffw_norm")
CAPS = frozenset(("attn_logit_softcapping", "final_logit_softcapping"))
SCALES = frozenset(("embedding_scale", "residual_scale", "logit_scale", "attention.scale"))
LONG_AND_SHORT = ("rope_factors_short", "rope_factors_long")
TURNED = {"rope.scaling.finetuned": (True,)}
"""Keys that switch the rotation for llama.cpp, although the model may have none."""

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
    """The architecture that a file names; raises `FrontendError` for one that is not declared."""
    name = values.get("general.architecture")
    if name not in ARCHITECTURES:
        raise FrontendError(
            f"the architecture {name!r} is not known" if name else "the file names no architecture",
            f"{place}, general.architecture",
            f"use a model of {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]
