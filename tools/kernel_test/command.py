"""
Implements `xdsl-spirv test`.

The garbage collector is off, because imports take most of a small test's time and the collector
would add 10 % to it.
"""

from __future__ import annotations

import argparse

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.kernel_test.description import MISUSED
from xdsl_spirv.upstream.collection import without_collection


def test(arguments: argparse.Namespace) -> int:
    """
    Runs `xdsl-spirv test`. Returns 0 if all launches pass, 1 if one fails, 2 if a description is
    wrong or there is no test.
    """
    with without_collection():
        from xdsl_spirv.tools.kernel_test.suite import run_suite
    try:
        return run_suite(arguments)
    except ProgramError as error:
        error.status = MISUSED
        raise
