"""
`xdsl-spirv test`: exit status 0 if every launch did what it should, 1 if one did not, 2 if a test
is described wrongly or there was nothing to run.

A small test spends nearly all its time importing dialects and semantics. The garbage collector is
off meanwhile: it takes a tenth of that time and finds nothing.
"""

from __future__ import annotations

import argparse

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.description import MISUSED
from xdsl_spirv.upstream.collection import without_collection


def test(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv test`."""
    with without_collection():
        from xdsl_spirv.tools.kernel_test.suite import run_suite
    try:
        return run_suite(arguments)
    except ProgramError as error:
        error.status = MISUSED
        raise
