"""Compares two explanations side by side."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.tools.comparison_data import ComparisonData, measure_of, pairs_of
from xdsl_spirv.tools.explanation_data import ExplanationData

SCHEMA = "xdsl-spirv-comparison"
VERSION = 1


@dataclass(frozen=True, repr=False)
class Comparison(ComparisonData):
    """A comparison of two explanations, with a text form (`print`) and an HTML form (notebooks)."""

    def __repr__(self) -> str:
        """Returns the comparison as a text table."""
        from xdsl_spirv.tools.comparison_text import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        from xdsl_spirv.tools.comparison_html import page_of
        from xdsl_spirv.tools.page import frame

        return frame(page_of(self), 700 + 60 * len(self.pairs))


def comparison_of(a: ExplanationData, b: ExplanationData) -> Comparison:
    """Compares two explanations of programs."""
    return Comparison(SCHEMA, VERSION, measure_of(a, b), tuple(pairs_of(a.layers, b.layers)), a, b)
