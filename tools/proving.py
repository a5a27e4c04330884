"""Implements `check-passes --prove`: proves that passes do not change the results of kernels."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from xdsl_spirv.compare.translation.subjects import KernelSubject
from xdsl_spirv.compiler.compiler import pipeline_of
from xdsl_spirv.compiler.pipeline import expand_pipelines
from xdsl_spirv.interpreter import InterpreterError, Options
from xdsl_spirv.prove.equivalence import Verdict, compare_programs
from xdsl_spirv.prove.solvers import Limits
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse
from xdsl_spirv.tools.grid import parse_grid
from xdsl_spirv.tools.report import note
from xdsl_spirv.upstream.equality import is_same

PREMISES = (
    "it assumes the given grid, invocations that run one after another, bindings that do not "
    "overlap, IEEE floats, and accesses within the bounds of their buffers"
)


def prove_passes(arguments: argparse.Namespace) -> int:
    """
    Proves each pass of the pipeline. Returns 1 if a pass is refuted or not proved.

    Raises `ProgramError` if `arguments` select a function or a file of inputs.
    """
    for option, given, reason in (
        ("--function", arguments.function, "it proves each kernel, not a host function"),
        ("--output", arguments.output, "it has no inputs to write"),
    ):
        if given is not None:
            raise ProgramError(f"--prove does not take {option}: {reason}", "", f"omit {option}")
    ctx, grid = context(), parse_grid(arguments.grid)
    module = parse(arguments.input, ctx)
    options = Options(subgroup_size=arguments.subgroup_size or 32)
    told: list[dict[str, str]] = []
    for current in expand_pipelines(pipeline_of(arguments.passes).passes):
        before = module.clone()
        current.apply(ctx, module)
        name = str(current.pipeline_pass_spec())
        if is_same(before, module):
            verdict = Verdict("proved", "changes nothing")
        else:
            verdict = compare_programs(before, module, grid, Limits())
        if verdict.result == "refuted":
            _confirm(verdict, options, grid, arguments.length)
        print(f"{name}: {verdict.result}{verdict.reason and ': '}{verdict.reason}")
        told.append({"pass": name, "result": verdict.result, "reason": verdict.reason})
        if verdict.result == "refuted":
            break
    print(f"A proof covers all contents of buffers; {PREMISES}.")
    note(proofs=told)
    return int(any(line["result"] != "proved" for line in told))


def _confirm(verdict: Verdict, options: Options, grid: tuple[int, int, int], length: int) -> None:
    """
    Runs both kernels of a verdict on the solver's counterexample, and changes the verdict: only
    different results refute the pass.
    """
    subject = KernelSubject.of(verdict.kernels[0], options, grid, length)
    values = [_fill(subject, n, verdict.words) for n in range(len(subject.inputs))]
    shown = ", ".join(f"{root} word {n} = {v:#x}" for (root, n), v in verdict.words.items())
    try:
        results = [subject.run(kernel, values) for kernel in verdict.kernels]
    except InterpreterError as error:
        verdict.result, verdict.reason = "unknown", f"the interpreter refuses the input: {error}"
        return
    for name, array in results[0].items():
        same = np.array_equal(array, results[1][name], equal_nan=array.dtype.kind == "f")
        if not same:
            verdict.reason = f"for {shown} the interpreter gives a different {name}"
            return
    verdict.result = "unknown"
    verdict.reason = f"a solver finds a difference for {shown}, but the interpreter does not"


def _fill(subject: KernelSubject, number: int, words: Mapping[Any, int]) -> np.ndarray[Any, Any]:
    """Returns the contents of a buffer: the counterexample's words, and zeros elsewhere."""
    given, place = subject.inputs[number], subject.places[number]
    array = np.zeros(given.shape, given.dtype)
    octets = array.reshape(-1).view(np.uint8)
    for (root, word), value in words.items():
        if root == str(place):
            part = octets[4 * word : 4 * word + 4]
            part[:] = np.frombuffer(value.to_bytes(4, "little"), np.uint8)[: part.size]
    return array
