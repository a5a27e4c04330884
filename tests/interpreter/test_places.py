"""Findings and livelocks name invocations by their index in the whole launch."""

from __future__ import annotations

import numpy as np

from xdsl_spirv.interpreter.batch import Batch, Geometry
from xdsl_spirv.interpreter.checks.places import place
from xdsl_spirv.interpreter.checks.report import Place


def test_invocations_of_any_workgroups_have_their_index_in_the_launch():
    batch = Batch.of(Geometry((3, 4, 1), (64, 1, 1), 16), np.array([1, 7, 8]))
    assert place(batch, 1, 3, 5) == Place((1, 2, 0), 53)
    part = batch.subgroups_only(np.array([0, 2]))
    assert place(part, 2, 1, 5) == Place((2, 2, 0), 37)
