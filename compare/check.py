"""
Checks that a program's results are as close to the reference as its types permit.

The reference is the source module, evaluated in binary64 and rounded once. The allowed difference
of a device is derived, not tuned (docs/numerics.md): by `bounds` for contractions, by `intervals`
for other operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.compare.bounds import Comparison, bound_of, compare, compare_result, contractions
from xdsl_spirv.compare.intervals import tolerances
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.dialects.program import states_of
from xdsl_spirv.interpreter import reference
from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.given import bind_inputs
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program


@stage("computing the reference")
def check(
    program: Program,
    inputs: Mapping[str, Array],
    results: Mapping[str, Array],
    states: Mapping[str, Array] | None = None,
) -> list[Comparison]:
    """
    Compares `results` of a program with its source on the same inputs.

    `states` are the contents of its states before the run, by default their first values. Raises
    `ProgramError` if the program contains no source, or a source without a known error bound.
    """
    if program.source is None:
        raise ProgramError(
            "the program contains no MLIR source to compute the expected results from",
            "program.json",
            "compile it again",
        )
    manifest = program.manifest
    module = parse_text(program.source, manifest.source or "source", context())
    values = bind_inputs(program, inputs) | program.weights
    values |= program.first_values() if states is None else states
    arguments = [values[name] for name in manifest.arguments]
    return check_module(module, manifest.function, arguments, manifest.results, results)


def check_module(
    module: ModuleOp,
    function: str,
    arguments: Sequence[Array],
    names: Sequence[str],
    results: Mapping[str, Array],
) -> list[Comparison]:
    """
    Compares `results` with the results of @`function`, which are called `names`.

    Raises the errors of `check`.
    """
    expected = reference(module, arguments, function)
    host = host_function(module, function)
    kept = set(states_of(host).values())
    outputs = [number for number in range(len(expected)) if number not in kept]
    expected = [expected[number] for number in outputs]
    try:
        multiplied = contractions(host)
        depths = [limit.k for limit in multiplied if isinstance(limit.k, int)]
        if len(depths) != len(multiplied):
            raise ProgramError(
                "the bound of a contraction with a dynamic number of products is unknown", ""
            )
    except ProgramError:
        # Intervals are wider than bounds, but support other operations than contractions.
        allowed = tolerances(module, function, arguments, expected, outputs)
        return [
            compare_result(name, results[name], centre, limit)
            for name, centre, limit in zip(names, expected, allowed, strict=True)
        ]
    magnitudes = reference(module, [np.abs(a) for a in arguments], function)
    magnitudes = [magnitudes[number] for number in outputs]
    bound = bound_of(multiplied, depths)
    return [
        compare(name, results[name], reference_result, magnitude, bound)
        for name, reference_result, magnitude in zip(names, expected, magnitudes, strict=True)
    ]
