"""
A fallback pass rewrites the selected integer widths. With `as_needed`, it rewrites only selected
widths that the target lacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from xdsl.context import Context
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.passes.spirv.fallback.lacking import LackingPass, SmallTypesPass
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.targets import Target, load

ROOT = Path(__file__).parents[4]
CALLS: list[tuple[str, frozenset[int]]] = []
FEATURES = {8: "int8", 16: "int16"}


@dataclass(frozen=True)
class NotePass(LackingPass):
    """Records the memory model of each module, and the widths to rewrite, in `CALLS`."""

    name = "note"
    FEATURES: ClassVar[dict[int, str]] = FEATURES

    def rewrite(self, module: ModuleOp, widths: frozenset[int]) -> None:
        CALLS.append((module.memory_model.data.name, widths))


@dataclass(frozen=True)
class NoteSmallPass(SmallTypesPass):
    name = "note-small"
    FEATURES: ClassVar[dict[int, str]] = FEATURES

    def rewrite(self, module: ModuleOp, widths: frozenset[int]) -> None:
        CALLS.append((module.memory_model.data.name, widths))


MODULES = """
module attributes {{{target}}} {{
  spirv.module Logical GLSL450 {{}}
  spirv.module Logical Vulkan {{}}
}}
"""


def run(made: LackingPass, target: str | None = "lavapipe") -> list[tuple[str, frozenset[int]]]:
    """Applies a pass to two modules for a target. Returns what the pass recorded in `CALLS`."""
    CALLS.clear()
    given = "" if target is None else f'schedule.target = "{target}"'
    made.apply(Context(), parse_text(MODULES.format(target=given)))
    return list(CALLS)


def lacking(*features: str) -> Target:
    """Returns lavapipe's target without some features."""
    target = load("lavapipe")
    return replace(target, features=target.features - set(features))


@pytest.mark.parametrize(
    ("features", "widths"),
    [((), ()), (("int8",), (8,)), (("int16", "int64"), (16,)), (("int8", "int16"), (8, 16))],
)
def test_a_target_lacks_widths_without_a_feature(features: Sequence[str], widths: Sequence[int]):
    assert NotePass.lacking(lacking(*features)) == tuple(widths)


def test_every_module_is_rewritten():
    both = frozenset((8, 16))
    assert run(NotePass()) == [("GLSL450", both), ("Vulkan", both)]
    assert run(NoteSmallPass(widths=(16,))) == [(m, frozenset((16,))) for m, _ in run(NotePass())]
    assert run(NoteSmallPass(widths=())) == []
    assert run(NotePass(), None) != [], "without `as_needed` no target is asked"


def test_a_pass_as_needed_asks_the_target():
    """lavapipe has integers of 8 and 16 bits."""
    assert NotePass.lacking(load("lavapipe")) == ()
    assert run(NotePass(as_needed=True)) == []
    assert run(NoteSmallPass(as_needed=True)) == []
    with pytest.raises(PassFailedException, match="note"):
        run(NotePass(as_needed=True), None)


def test_selected_widths_that_a_target_has_are_kept(tmp_path: Path):
    """
    The target has 16-bit but no 8-bit integers. If 8 and 16 bits are selected, only 8 are
    rewritten.
    """
    target = json.loads((ROOT / "targets" / "lavapipe.json").read_text())
    target["features"] = sorted(lacking("int8", "int64").features)
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(target | {"name": "bare"}))
    assert {widths for _, widths in run(NotePass(as_needed=True), str(path))} == {frozenset((8,))}
    assert run(NoteSmallPass(widths=(16,), as_needed=True), str(path)) == []
