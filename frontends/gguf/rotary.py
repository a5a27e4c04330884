"""
Angles by which positions rotate pairs of a head's elements, and their scaling for long contexts.

Angles are computed in f64: f32 would not be exact for large products of position and frequency.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from xdsl_spirv.frontends.onnx.values import Array

KINDS = ("none", "linear", "yarn", "longrope")
"""Values of `rope.scaling.type`."""


@dataclass(frozen=True)
class Rotation:
    """Parameters of the rotary embedding, for the blocks with a window or for those without."""

    turned: int
    """Number of a head's first elements that are rotated by positions."""
    base: float
    kind: str = "none"
    factor: float = 1.0
    """Ratio of the context's length to `original`."""
    original: int = 0
    """Length in tokens of the context that the model was first trained on."""
    magnitude: float = 1.0
    """Factor of cosines and sines."""
    turns: tuple[float, float] = (32.0, 1.0)
    """
    YaRN: pairs that rotate more often than the first number within the original context are not
    scaled; pairs that rotate less often than the second are scaled entirely.
    """
    factors: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Divisors of the frequencies, by their tensor; the last one is for long contexts."""

    def frequencies(self, context: int) -> Array:
        """
        Returns the angle of a position, in radians, for each pair of rotated elements; in f64.
        """
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
        """Returns the share of each pair's frequency that is not scaled."""
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
        """Returns cosines and sines, positions x pairs."""
        angles = np.arange(context)[:, None] * self.frequencies(context)
        wide = self.magnitude * (1 + 0.1 * math.log(self.factor) if self.kind == "yarn" else 1.0)
        return {
            "cos": (np.cos(angles) * wide).astype(np.float32),
            "sin": (np.sin(angles) * wide).astype(np.float32),
        }
