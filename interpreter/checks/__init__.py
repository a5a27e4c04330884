"""
Checks: find, at run time, actions of a program that the specifications leave undefined.

    checks = Checks.all()
    dispatch(module, "main", grid, buffers, options=Options(checks=checks))
    print(checks.report)

Without checks a function is compiled by `Compiler` and nothing of this package runs. With them
`CheckedCompiler` (compiler.py) compiles it: slots come in pairs, the value's and its *shadow*'s,
and a step sees both.

A shadow says which parts of a value are undefined. None, the common case, means that every part is
defined. Otherwise it is a uint8 array in the value's shape (a tuple of arrays for a composite): 0
where a part is defined, elsewhere the number of the instruction that made it undefined (`Origin`).
So a finding can name both the place where an undefined value matters and the place where it comes
from. Instructions that only move parts (an extract, a shuffle, a transposition) are run on the
shadows in place of the values. For others, a part of the result is undefined where the same part of
an operand is (shadow.py), and tables list the operand values that make a result undefined
(sources.py). Memory that has bytes has shadow bytes (memory.py); a variable without bytes has a
shadow beside its value.

An undefined value is reported where it first matters: at a branch, in an address, in a store to a
buffer, in an operand that the scope must agree on. A copy of undefined memory that is not used is
not a finding.

Races are found from the order that the Vulkan memory model guarantees, not from the order of
execution: the lanes run in lockstep here, but no device promises that. Each granule of shared
memory remembers its last writer and readers with a time stamp (history.py); a barrier moves its
scope's horizon, before which accesses are ordered (horizons.py). For accesses that the horizons do
not order, the order that atomics give is computed (races.py, knowledge.py).

A finding is recorded once for each (check, instruction). After it the run goes on with the value
that docs/interpreter.md gives, so that one run finds several bugs. docs/checks.md lists the rules
and the bugs that the tests seed.
"""

from xdsl_spirv.interpreter.checks.report import CHECKS, Allowed, Checks, Finding, Report

__all__ = ["CHECKS", "Allowed", "Checks", "Finding", "Report"]
