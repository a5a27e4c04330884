"""
Finds actions of a running program that the specifications leave undefined.

    checks = Checks.all()
    dispatch(module, "main", grid, buffers, options=Options(checks=checks))
    print(checks.report)

Without checks, `Compiler` compiles a function and nothing of this package runs. With checks,
`CheckedCompiler` (compiler.py) compiles it: each value has a second slot for its *shadow*, and
each step reads and writes both.

A shadow marks the undefined parts of a value. None, the common case, means that every part is
defined. Otherwise the shadow is a uint8 array in the value's shape (a tuple of arrays for a
composite): 0 where a part is defined, otherwise the index of the instruction that made it
undefined (`Origin`). A finding can therefore name the place where an undefined value matters and
the place where it comes from. Instructions that only move parts (extract, shuffle, transpose) are
run on the shadows, too. For other instructions, a part of the result is undefined where the same
part of an operand is undefined (shadow.py). Tables list the operand values that make a result
undefined (sources.py). Memory that has bytes has shadow bytes (memory.py). A variable without
bytes stores its shadow next to its value.

An undefined value is reported at its first use that matters: in a branch condition, an address, a
store to a buffer, or an operand that must be uniform. A copy of undefined memory that is not used
is not a finding.

Races are found from the order that the Vulkan memory model guarantees. The order of execution here
is not used, because no device promises lockstep. Each granule of shared memory stores its last
writer and readers with a time stamp (history.py). A barrier advances the horizon of its scope:
accesses before the horizon are ordered (horizons.py). For accesses that the horizons do not order,
the order by atomics is computed (races.py, knowledge.py).

A finding is recorded once for each pair of check and instruction. The run then continues with the
value that docs/interpreter.md gives, so one run finds several bugs. docs/checks.md lists the rules
and the bugs that the tests seed.
"""

from xdsl_spirv.interpreter.checks.report import CHECKS, Allowed, Checks, Finding, Report

__all__ = ["CHECKS", "Allowed", "Checks", "Finding", "Report"]
