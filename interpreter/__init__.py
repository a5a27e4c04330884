"""
What programs mean: `linalg` on tensors, the kernel-level IR and `spirv` modules, executed with
numpy.

    from xdsl_spirv.interpreter import dispatch, interpret, reference, InterpreterError, Options

`interpret(module, inputs)` runs the host function of a `builtin.module`. Tensor operations are
evaluated directly; a `gpu.launch_func` runs the `gpu.func` or the entry point of the `spirv.module`
that it names. `reference(module, inputs)` runs the host function of a module without kernels and
refuses launches: it is what a compiled program is compared with. `dispatch(module, entry, ...)`
runs one entry point of a `spirv.module` over buffers that it changes in place.

How it runs: a function is compiled once into closures over a list of values; each value is a numpy
array over (workgroup, subgroup, lane), of length 1 along an axis on which it is uniform, and one
instruction is one numpy operation over all invocations of many workgroups. docs/interpreter.md says
what is exact and which of the choices that SPIR-V leaves open are taken; `Options` selects others.
"""

from xdsl_spirv.interpreter.api import dispatch, interpret, reference
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.options import MemoryBudget, Options

__all__ = [
    "InterpreterError",
    "MemoryBudget",
    "Options",
    "dispatch",
    "interpret",
    "reference",
]
