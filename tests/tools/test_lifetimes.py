"""Lifetimes of buffers are computed and drawn as charts of a run and its memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xdsl_spirv import compile as compile_program
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import load
from xdsl_spirv.tools.explain_html import page_of
from xdsl_spirv.tools.explanation import explanation_of
from xdsl_spirv.tools.lifetimes import Lifetime, in_use, lifetimes_of


@pytest.fixture(scope="module")
def chain() -> Program:
    """Returns a program of four products, each with the previous result as operand."""
    return compile_program(Path(__file__).with_name("chain.mlir"), "lavapipe")


def test_a_temporary_lives_from_its_first_to_its_last_use(chain: Program):
    lives = lifetimes_of(chain.manifest)
    spans = [(life.first, life.last) for life in lives if life.kind == "temporary"]
    assert sorted(spans) == [(0, 1), (1, 2), (2, 3)]
    assert {(life.first, life.last) for life in lives if life.kind != "temporary"} == {(0, 3)}
    assert in_use(lives, 4) == [512, 1024, 1024, 512]


def test_unknown_sizes_are_not_summed():
    known = Lifetime("a", "temporary", "4xf32", 16, 0, 0, 1)
    unknown = Lifetime("b", "temporary", "?xf32", None, None, 1, 1)
    assert in_use([known], 2) == [16, 16]
    assert in_use([known, unknown], 2) == []


def test_charts_show_every_dispatch_and_every_temporary(chain: Program):
    seconds = [0.001, 0.002, 0.003, 0.004]
    explained = explanation_of(
        chain, "<chain>", load("lavapipe"), measured=seconds, device="vulkan:0 (<name>)"
    )
    page = page_of(explained)
    assert "<chain>" not in page
    assert "<name>" not in page
    timeline = page[page.index('id="timeline"') : page.index("</svg>")]
    widths = [float(w) for w in re.findall(r'width="([\d.]+)" height="26"', timeline)]
    assert widths == pytest.approx([100, 200, 300, 400])
    memory = page[page.index('id="memory"') :].split("</svg>")[0]
    assert memory.count("<rect") == 3
    assert "1.02 kB" in page


def test_reasons_are_numbered_once(chain: Program):
    text = repr(explanation_of(chain, "chain", load("lavapipe")))
    notes = re.findall(r"^  \((\d+)\) ", text, re.MULTILINE)
    assert notes == [str(n) for n in range(1, len(notes) + 1)]
    assert len(notes) >= 1
