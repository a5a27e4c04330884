"""
The small nests of one kernel run in different workgroups, and give numpy's results.

Covers: loops/to_invocations.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter.checks.report import Checks
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import parse_text


def test_small_nests_of_a_kernel_run_in_different_workgroups() -> None:
    sizes = (16, 48, 33, 8, 160)
    arguments = ", ".join(f"%x{n}: tensor<{size}xf32>" for n, size in enumerate(sizes))
    whole = f"tensor<{sum(sizes)}xf32>"
    text = f"func.func @main({arguments}) -> {whole} {{\n  %t0 = tensor.empty() : {whole}\n"
    for n, size in enumerate(sizes):
        begin = sum(sizes[:n])
        text += (
            f"  %t{n + 1} = tensor.insert_slice %x{n} into %t{n}[{begin}] [{size}] [1] : "
            f"tensor<{size}xf32> into {whole}\n"
        )
    text += f"  return %t{len(sizes)} : {whole}\n}}"
    program = compile_module(parse_text(text), "nvidia-h200")
    assert len(program.manifest.dispatches) == 1
    arrays = [
        np.random.default_rng(n).normal(size=s).astype(np.float32) for n, s in enumerate(sizes)
    ]
    checks = Checks.all()
    given = {f"x{n}": array for n, array in enumerate(arrays)}
    (result,) = run(program, given, checks=checks).values()
    assert not checks.report, str(checks.report)
    np.testing.assert_array_equal(result, np.concatenate(arrays))
    (kernel,) = program.code.values()
    # Each nest after the first in a tree of branches subtracts its first invocation.
    assert kernel.text.count("spirv.ISub") >= 3
