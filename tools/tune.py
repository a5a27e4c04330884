"""
`xdsl-spirv tune`: search schedules on a device, and write the tuned table.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TypeVar

from xdsl_spirv.passes.schedule.tuned import path_for
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.targets import load
from xdsl_spirv.tools.tuning.results import (
    MARGIN,
    STATUSES,
    Outcome,
    best_of,
    deserves_entry,
    gain_of,
    write_table,
)
from xdsl_spirv.tools.tuning.search import Search

TYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32")
SHAPE = re.compile(r"(\d+)x(\d+)x(\d+):(\w+)(?:x(\w+))?->(\w+)")
SOURCE = """
func.func @main(%A: tensor<{m}x{k}x{a}>, %B: tensor<{k}x{n}x{b}>) -> tensor<{m}x{n}x{c}> {{
  %zero = arith.constant {zero} : {c}
  %empty = tensor.empty() : tensor<{m}x{n}x{c}>
  %init = linalg.fill ins(%zero : {c}) outs(%empty : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  %r = linalg.matmul ins(%A, %B : tensor<{m}x{k}x{a}>, tensor<{k}x{n}x{b}>)
                     outs(%init : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  return %r : tensor<{m}x{n}x{c}>
}}
"""


def tune(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv tune`: exit status 1 if no candidate of some contraction is right."""
    target = load(arguments.target)
    table = Path(arguments.output) if arguments.output else path_for(target.name)
    results = Path(arguments.results or table.with_suffix(".jsonl").name)
    search = Search(
        _source(arguments),
        target,
        arguments.target,
        arguments.device,
        results,
        runs=_positive(arguments.runs, "--runs"),
        most=_positive(arguments.candidates, "--candidates"),
        timeout=_positive(arguments.timeout, "--timeout"),
        jobs=_positive(arguments.jobs, "--jobs"),
        seconds=None if arguments.seconds is None else _positive(arguments.seconds, "--seconds"),
        prune=not arguments.no_prune,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    outcomes = search.run()
    write_table(table, target.name, outcomes)
    return 0 if all([_report(key, tried) for key, tried in outcomes.items()]) else 1


def _report(key: str, tried: list[Outcome]) -> bool:
    """Say what was found for a contraction; whether anything was."""
    print(key)
    counts = {status: sum(o.status == status for o in tried) for status in STATUSES}
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    print(f"  {len(tried)} candidates: {said}")
    best = best_of(tried)
    if best is None:
        print("  none of them is right")
        return False
    held = str(heaviest(best.statistics))
    print(f"  {best.latest:.2f} us  {best.schedule}{held and f' ({held})'}")
    gain = gain_of(tried)
    if gain is not None:
        print(f"  {gain:.2f} times as fast as without the table ({tried[0].latest:.2f} us)")
    if not deserves_entry(tried):
        print(f"  no entry in the table: the default is not beaten by {MARGIN:.0%} twice")
    return True


Number = TypeVar("Number", int, float)


def _positive(value: Number, option: str) -> Number:
    if value <= 0:
        raise ProgramError(f"{option} {value:g} is no number", "", "give more than 0")
    return value


def _source(arguments: argparse.Namespace) -> str:
    """The module's text: a file's, or a matmul's."""
    if (arguments.input is None) == (arguments.contraction is None):
        raise ProgramError("what to tune is not said", "", "give an .mlir file or --contraction")
    if arguments.input is not None:
        try:
            return Path(arguments.input).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ProgramError(
                f"cannot read the input: {error}", arguments.input, "give an .mlir file"
            ) from error
    shape = SHAPE.fullmatch(arguments.contraction.replace(" ", ""))
    if shape is None or not {shape[4], shape[5] or shape[4], shape[6]} <= set(TYPES):
        raise ProgramError(
            f"--contraction {arguments.contraction} is no contraction",
            f"types: {', '.join(TYPES)}",
            "write MxNxK:type->result, as in 4096x4096x4096:f16->f32",
        )
    m, n, k, a, b, c = shape.groups()
    zero = "0.0" if "f" in c else "0"
    return SOURCE.format(m=m, n=n, k=k, a=a, b=b or a, c=c, zero=zero)
