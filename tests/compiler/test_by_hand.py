"""Kernels of benchmarks/by_hand.py read our packed operands, and their schedules fit."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ROOT / "benchmarks" / "variants-h200.json"

TEXT = """layout(set=0,binding=0) readonly restrict buffer BA{uvec4 A[];};
uint64_t pB=qb+16ul*uint64_t((x*16u)*32u+lane);
rb0_0=BV(pB).v[8192];
[[dont_unroll]] for(uint it=0;it<32u;it++){
pB+=1048576ul;}
"""


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("by_hand")


def test_versions_of_a_kernel_differ_in_one_thing(by_hand: ModuleType):
    versions = by_hand.versions(TEXT)
    assert versions[""] == TEXT
    assert versions["-unrolled"] == TEXT.replace("[[dont_unroll]]", "")
    lines = versions["-descriptors"].splitlines()
    assert "binding=1) readonly restrict buffer BB{uvec4 Bd[];};" in lines[0]
    assert lines[1] == "uint iB=(x*16u)*32u+lane;"
    assert lines[2] == "rb0_0=Bd[iB+8192u];"
    assert lines[4] == "iB+=65536u;}"


def test_a_kernel_without_a_binding_for_a_descriptor_has_no_version_with_one(by_hand: ModuleType):
    assert list(by_hand.versions(TEXT.replace("binding=0", "binding=7"))) == ["", "-unrolled"]


def test_a_handwritten_kernel_replaces_only_the_multiplication(by_hand: ModuleType):
    hand = next(h for h in by_hand.hands() if h.file == "skinny_16x4096x4096")
    pack = Step("pack", "pack_b", (4, 1, 1), ((0, 0, "B"), (0, 1, "packed")))
    multiply = Step("own", "matmul", (8, 1, 1), ((0, 0, "A"), (0, 1, "packed"), (0, 2, "result")))
    buffers = (WorkBuffer("A", 64, "input"), WorkBuffer("packed", 64, "temporary"))
    work = Work(buffers, {"pack": b"p", "own": b"o"}, (pack, multiply))
    changed = by_hand.work_by_hand(work, hand, b"code")
    assert changed.steps[0] == pack
    step = changed.steps[1]
    assert (step.entry_point, step.grid) == ("main", (256, 1, 1))
    assert step.bindings == ((0, 2, "result"),)
    assert step.addresses == ((0, "A"), (8, "packed"))
    assert changed.kernels == {"pack": b"p", "own": b"code"}
    # The kernel prefetches beyond packed operands, but not beyond the caller's buffers.
    assert [buffer.size for buffer in changed.buffers] == [64, 64 + by_hand.BEYOND]


@pytest.mark.long
def test_schedules_that_were_not_measured_yet_fit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("ceiling", None)
    ceiling = importlib.import_module("ceiling")
    for case, schedules in json.loads(VARIANTS.read_text()).items():
        for schedule in schedules:
            program = ceiling.compiled(ceiling.named(case), "nvidia-h200", schedule)
            assert not isinstance(program, str), f"{case}: {schedule}: {program}"
