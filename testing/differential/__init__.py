"""
Differential testing: generates kernels whose results must agree between two executions.

    from xdsl_spirv.testing.differential import generate, interpret, disagreements
    kernel = generate(seed)                  # a typed program without undefined behaviour
    expected = interpret(kernel)             # on the interpreter
    found = ...                              # on a device: `execute(device, job_of(kernel))`
    disagreements(kernel, expected, found)   # exact for integers, an interval for floats

A seed always gives the same kernel. See docs/differential.md.
"""

from xdsl_spirv.testing.differential.families import FAMILIES, generate
from xdsl_spirv.testing.differential.kernel import Kernel, Output
from xdsl_spirv.testing.differential.running import Disagreement, disagreements, interpret

__all__ = [
    "FAMILIES",
    "Disagreement",
    "Kernel",
    "Output",
    "disagreements",
    "generate",
    "interpret",
]
