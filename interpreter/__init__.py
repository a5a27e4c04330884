"""
Executes programs with numpy: `linalg` on tensors, kernel-level IR and `spirv` modules.

    from xdsl_spirv.interpreter import dispatch, interpret, reference, InterpreterError, Options

`interpret(module, inputs)` runs the host function of a `builtin.module`. It evaluates tensor
operations directly. For a `gpu.launch_func` it runs the `gpu.func` or the `spirv.module` entry
point that the launch names. `reference(module, inputs)` runs a host function that has no kernels,
and refuses launches. Tests compare compiled programs with `reference`. `dispatch(module,
entry, ...)` runs one entry point of a `spirv.module` over buffers, which it changes in place.

A function is compiled once into closures over a list of values. Each value is a numpy array with
the axes (workgroup, subgroup, lane). An axis has length 1 if the value is uniform along it. One
numpy operation executes an instruction for all invocations of many workgroups. docs/interpreter.md
lists the results that are exact and the default choices where SPIR-V permits several. `Options`
selects other choices.

Names are imported on first use, so code that only needs an error class or an option does not load
the interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl_spirv import import_on_use

if TYPE_CHECKING:
    from xdsl_spirv.images import Image, Sampler
    from xdsl_spirv.interpreter.api import dispatch, interpret, reference
    from xdsl_spirv.interpreter.errors import InterpreterError
    from xdsl_spirv.interpreter.options import MemoryBudget, Options

__all__ = [
    "Image",
    "InterpreterError",
    "MemoryBudget",
    "Options",
    "Sampler",
    "dispatch",
    "interpret",
    "reference",
]

__getattr__ = import_on_use(__name__)
