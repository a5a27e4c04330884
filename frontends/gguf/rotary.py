"""
Computes the angles of rotary positions, with scaling for long contexts.

Angles are computed in f64, because f32 is inexact for large positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from xdsl_spirv.frontends.onnx.values import Array

KINDS = ("none", "linear", "yarn", "longrope")
"""Supported values of `rope.scaling.type`."""


@dataclass(frozen=True)
class Rotation:
    """Parameters of the rotary embedding, for windowed blocks or for blocks without a window."""

    turned: int
    """Number of elements of a head that are rotated; they come first."""
    base: float
    kind: str = "none"
    factor: float = 1.0
    """Length of the context divided by `original`."""
    original: int = 0
    """Context length of the original training, in tokens."""
    magnitude: float = 1.0
    """Factor of cosines and sines."""
    turns: tuple[float, float] = (32.0, 1.0)
    """
    YaRN: a pair that rotates more often than `turns[0]` within the original context is not scaled;
    a pair that rotates less often than `turns[1]` is scaled by the whole factor.
    """
    factors: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Divisors of the frequencies by tensor name; the last tensor is for long contexts."""

    def frequencies(self, context: int) -> Array:
        """Returns the angle per position of each pair, in radians and f64."""
        half = self.turned // 2
        angles = self.base ** (-np.arange(half) / half)
        factors = list(self.factors.values())
        if factors:
            angles = angles / factors[-1 if context > self.original else 0]
        if self.kind == "linear":
            return angles / self.factor
        if self.kind == "yarn":
            kept = self._share_unscaled()
            return angles * kept + angles / self.factor * (1 - kept)
        return angles

    def _share_unscaled(self) -> Array:
        """Returns the unscaled fraction of each pair's frequency."""
        low, high = (
            self.turned
            * math.log(self.original / (turns * 2 * math.pi))
            / (2 * math.log(self.base))
            for turns in self.turns
        )
        low, high = max(0, math.floor(low)), min(self.turned - 1, math.ceil(high))
        pairs = np.arange(self.turned // 2)
        return 1 - np.clip((pairs - low) / max(0.001, high - low), 0, 1)

    def tables(self, context: int) -> Mapping[str, Array]:
        """Returns cosines and sines by name; each array is positions x pairs."""
        angles = np.arange(context)[:, None] * self.frequencies(context)
        wide = self.magnitude * (1 + 0.1 * math.log(self.factor) if self.kind == "yarn" else 1.0)
        return {
            "cos": (np.cos(angles) * wide).astype(np.float32),
            "sin": (np.sin(angles) * wide).astype(np.float32),
        }
