"""
Checks: find, at run time, actions of a program that the specifications leave undefined.

    checks = Checks.all()
    dispatch(module, "main", grid, buffers, options=Options(checks=checks))
    print(checks.report)

Without checks a function is compiled by `Compiler` and nothing of this package runs. With them
`CheckedCompiler` (compiler.py) compiles it: slots come in pairs, the value's and its *shadow*'s,
and a step sees both.

A shadow says which parts of a value are undefined. None, the common case, says that no part is;
else it is a uint8 array in the value's shape (a tuple of them for a composite), 0 where a part is
defined and elsewhere the number of the instruction that made it undefined (`Origin`), so that a
finding names both where an undefined value matters and where it comes from. Instructions that move
parts about (an extract, a shuffle, a transposition) are given the shadows in the place of the
values; for others a part of the result is undefined where a part of an operand is (shadow.py), and
tables say which operands make a defined value undefined (sources.py). Memory that has bytes has
shadow bytes (memory.py); a variable without bytes has a shadow beside its value.

An undefined value is reported where it first matters: at a branch, in an address, in a store to a
buffer, in an operand that the scope must agree on. A copy of undefined memory that is not used is
not a finding.

Races are found by the order that the Vulkan memory model gives, not by the order of execution:
lanes run in lockstep here, but that is not an ordering. Each granule of shared memory remembers its
last writer and readers with a time stamp (history.py); a barrier moves its scope's horizon, before
which accesses are ordered (horizons.py). The order that atomics give is worked out for the accesses
that horizons leave open (races.py, knowledge.py).

A finding is recorded once for each (check, instruction). After it the run goes on with the value
that docs/interpreter.md gives, so that one run finds several bugs. docs/checks.md lists the rules
and the bugs that the tests seed.
"""

from xdsl_spirv.interpreter.checks.report import CHECKS, Allowed, Checks, Finding, Report

__all__ = ["CHECKS", "Allowed", "Checks", "Finding", "Report"]
