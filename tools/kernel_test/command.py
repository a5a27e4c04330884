"""Implements `xdsl-spirv test`, without garbage collection (10 % of a small test's time)."""

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
