"""A module names one target. Passes that need a target refuse a module without one."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.schedule.split_products import SplitProductsPass
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.targets import load

NAMED = 'builtin.module attributes {schedule.target = "lavapipe"} {}'


def test_the_module_names_its_target():
    module = parse_text(NAMED)
    assert target_of(module, "p") == load("lavapipe")
    assert SplitProductsPass().find_target(module) == load("lavapipe")
    assert SplitProductsPass("nvidia-h200").find_target(module) == load("nvidia-h200")


def test_a_module_without_a_target_is_refused_where_one_is_needed():
    module = parse_text("builtin.module {}")
    assert SplitProductsPass().find_target(module) is None
    with pytest.raises(PassFailedException, match="has no target: run assign-schedule"):
        target_of(module, "p")


def test_a_target_that_is_not_known_is_refused_by_the_pass():
    module = parse_text(NAMED.replace("lavapipe", "lavapope"))
    with pytest.raises(PassFailedException, match=r"^the-pass: .*lavapope"):
        target_of(module, "the-pass")
