"""
Too large numbers in a given schedule are refused within the time of a compilation.

Covers: schedule/contraction_candidates.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from xdsl.utils.exceptions import DiagnosticException, ParseError

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text

SECONDS = 60
"""Time limit. A compilation takes less than a second on an idle machine."""
PRODUCT = """
func.func @main(%a: tensor<{m}x64x{t}>, %b: tensor<64x64x{t}>) -> tensor<{m}x64x{r}> {{
  %z = arith.constant {zero} : {r}
  %e = tensor.empty() : tensor<{m}x64x{r}>
  %i = linalg.fill ins(%z : {r}) outs(%e : tensor<{m}x64x{r}>) -> tensor<{m}x64x{r}>
  %r = linalg.matmul {s} ins(%a, %b : tensor<{m}x64x{t}>, tensor<64x64x{t}>)
      outs(%i : tensor<{m}x64x{r}>) -> tensor<{m}x64x{r}>
  return %r : tensor<{m}x64x{r}>
}}"""
SUMS = """
func.func @main(%x: tensor<64x96xf32>) -> tensor<64xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}} ins(%x : tensor<64x96xf32>)
      outs(%i : tensor<64xf32>) attrs = {s} {{
  ^bb0(%v: f32, %o: f32):
    %y = arith.addf %o, %v : f32
    linalg.yield %y : f32
  }} -> tensor<64xf32>
  return %r : tensor<64xf32>
}}"""
KINDS = {
    "fma": (PRODUCT, 64, "f32", "f32", "lavapipe"),
    "rows": (PRODUCT, 4, "f32", "f32", "lavapipe"),
    "matrices": (PRODUCT, 64, "f16", "f32", "nvidia-h200"),
    "dot": (PRODUCT, 64, "i8", "i32", "arm-mali"),
    "loops": (SUMS, 64, "f32", "f32", "lavapipe"),
}
HUGE = (1 << 12, 1 << 20, 1_000_003, 0x7FC00000, (1 << 31) - 1, 1 << 40)


@contextmanager
def limit_time() -> Generator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def write(kind: str, schedule: str) -> str:
    text, m, t, r, _ = KINDS[kind]
    given = f"{{schedule = {schedule}}}" if schedule else "{}"
    return text.format(m=m, t=t, r=r, zero="0" if r == "i32" else "0.0", s=given)


@pytest.mark.parametrize("kind", KINDS)
def test_huge_numbers_of_schedules_are_refused_in_time(kind: str):
    target, draw = KINDS[kind][-1], random.Random(f"huge {kind}")
    schedule = compile_module(parse_text(write(kind, "")), target).layers[0].schedule
    refused = 0
    numbers = list(re.finditer(r"(?<![\w.])\d+|(?<=x)\d+", schedule))
    assert numbers
    for number in numbers:
        huge = str(draw.choice(HUGE))
        changed = schedule[: number.start()] + huge + schedule[number.end() :]
        with limit_time():
            try:
                compile_module(parse_text(write(kind, changed)), target)
            except (DiagnosticException, ParseError, ProgramError):
                refused += 1
    assert refused >= len(numbers) // 2
