"""
`xdsl-spirv test`: exit status 0 if every launch passed, 1 if one failed, 2 if a test is described
wrongly or there was nothing to run.

A small test spends nearly all its time importing dialects and semantics. The garbage collector is
off meanwhile, because it takes a tenth of that time and finds no garbage.
"""

from __future__ import annotations

import argparse

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.description import MISUSED
from xdsl_spirv.upstream.collection import without_collection


def test(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv test`."""
    with without_collection():
        from xdsl_spirv.tools.kernel_test.suite import run_suite
    try:
        return run_suite(arguments)
    except ProgramError as error:
        error.status = MISUSED
        raise
