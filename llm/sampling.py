"""
Samples the next token from the logits of all tokens.

Logits are divided by the temperature. Then the `top_k` likeliest tokens remain, and of these the
smallest set of likeliest tokens whose probabilities sum to `top_p`. Among equal logits, the token
with the lower id is likelier, so that a seed always gives the same text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError

PART = 128
"""Number of tokens in a part of the vocabulary. Searches first find the part, then the token."""


@dataclass(frozen=True)
class Prediction:
    """
    A prediction of the next token: the likeliest token and its logit.

    `read` returns the logits of all tokens. Call it before the model runs again.
    """

    likeliest: int
    highest: float
    read: Callable[[], Array]


@dataclass(frozen=True)
class Sampling:
    """
    Options for choosing a token. At temperature 0 the likeliest token is chosen, and the other
    options have no effect.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    def __post_init__(self):
        if not 0 <= self.temperature < math.inf:
            raise _refusal(f"temperature is {self.temperature}", "give 0 or more")
        if self.top_k is not None and self.top_k < 1:
            raise _refusal(f"top_k is {self.top_k}", "give at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise _refusal(f"top_p is {self.top_p}", "give a number above 0 and up to 1")
        if self.seed is not None and self.seed < 0:
            raise _refusal(f"seed is {self.seed}", "give 0 or more")
        if not self.temperature:
            for name in ("top_k", "top_p", "seed"):
                if getattr(self, name) is not None:
                    raise ProgramError(
                        f"{name} has no effect at temperature 0",
                        "sampling",
                        "give a temperature above 0",
                    )


def _refusal(cause: str, remedy: str) -> ProgramError:
    return ProgramError(cause, "sampling", remedy)


class Sampler:
    """A random choice of tokens by a distribution; `seed` makes the choices reproducible."""

    def __init__(self, sampling: Sampling):
        self._sampling = sampling
        self.seed = sampling.seed
        if self.seed is None and sampling.temperature:
            self.seed = np.random.SeedSequence().generate_state(1)[0].item()
        self._random = np.random.default_rng(self.seed)

    @property
    def is_greedy(self) -> bool:
        """True if the likeliest token is always chosen."""
        return not self._sampling.temperature

    def choose(self, prediction: Prediction) -> int:
        """Chooses the next token. Raises `ProgramError` if the highest logit is not finite."""
        if not math.isfinite(prediction.highest):
            raise ProgramError(
                f"the highest logit is {prediction.highest}, not a finite number",
                "the model's output",
                "compute in a wider type, or find the cause with --device interpreter",
            )
        if self.is_greedy:
            return prediction.likeliest
        tokens, probabilities = distribution(prediction.read(), self._sampling)
        return int(tokens[_find_place(probabilities, self._random.random())])


def _find_place(probabilities: Array, drawn: float) -> int:
    """Returns the first index at which the cumulative sum reaches `drawn` times the total."""
    starts = np.arange(0, len(probabilities), PART)
    below = np.cumsum(np.add.reduceat(probabilities, starts))
    # Because of rounding, the last sum may be slightly below the draw.
    part = min(int(np.searchsorted(below, drawn * below[-1], side="right")), len(starts) - 1)
    inside = np.cumsum(probabilities[starts[part] : starts[part] + PART])
    left = drawn * below[-1] - (below[part - 1] if part else 0.0)
    place = min(int(np.searchsorted(inside, left, side="right")), len(inside) - 1)
    return int(starts[part]) + place


def distribution(logits: Array, sampling: Sampling) -> tuple[Array, Array]:
    """Returns the tokens that may come next, and their probabilities in f64."""
    tokens = np.arange(len(logits))
    if sampling.top_k is not None and sampling.top_k < len(tokens):
        tokens = _sort_by_logit(logits, _find_likely(logits, sampling.top_k))[: sampling.top_k]
    scaled = logits[tokens].astype(np.float64) - logits.max()
    scaled /= sampling.temperature
    probabilities = np.exp(scaled, out=scaled)
    probabilities /= probabilities.sum()
    if sampling.top_p is None or sampling.top_p == 1:
        return tokens, probabilities
    # The sum of the probabilities of the other tokens is less than 1 - top_p.
    enough = np.flatnonzero(probabilities >= (1 - sampling.top_p) / len(tokens))
    if len(tokens) == len(logits):
        enough = _sort_by_logit(logits, enough)
    tokens, probabilities = tokens[enough], probabilities[enough]
    count = np.searchsorted(np.cumsum(probabilities), sampling.top_p) + 1
    tokens, probabilities = tokens[:count], probabilities[:count]
    return tokens, probabilities / probabilities.sum()


def _find_likely(logits: Array, count: int) -> Array:
    """Returns a superset of the `count` likeliest tokens, without sorting the vocabulary."""
    highest = logits[: len(logits) // PART * PART].reshape(-1, PART).max(1)
    if count > len(highest):
        return np.arange(len(logits))
    # At least `count` parts have a logit that is at least as high as this bound.
    return np.flatnonzero(logits >= np.partition(highest, -count)[-count])


def _sort_by_logit(logits: Array, tokens: Array) -> Array:
    """Sorts tokens by descending logit; equal logits by id."""
    # Integers of the same order, with the token in the low bits, sort faster than floats with a
    # stable sort. Adding 0 makes -0 equal to 0.
    bits = (logits[tokens].astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)
    keys = np.where(bits < 0, bits & 0x7FFFFFFF, ~bits) << 32 | tokens
    return np.sort(keys) & 0xFFFFFFFF
