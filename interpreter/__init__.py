"""
The meaning of programs: `linalg` on tensors, the kernel-level IR and `spirv` modules, run with
numpy.

    from xdsl_spirv.interpreter import dispatch, interpret, reference, InterpreterError, Options

`interpret(module, inputs)` runs the host function of a `builtin.module`. Tensor operations are
evaluated directly; a `gpu.launch_func` runs the `gpu.func` or the entry point of the `spirv.module`
that it names. `reference(module, inputs)` runs the host function of a module without kernels and
refuses launches: it is what a compiled program is compared with. `dispatch(module, entry, ...)`
runs one entry point of a `spirv.module` over buffers that it changes in place.

Execution: a function is compiled once into closures over a list of values; each value is a numpy
array over (workgroup, subgroup, lane), of length 1 along an axis on which it is uniform, and one
instruction is one numpy operation over all invocations of many workgroups. docs/interpreter.md says
what is exact and which of the choices that SPIR-V leaves open are taken; `Options` selects others.

Names are imported on first use: code that only needs an error class or an option does not load the
interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

_HOMES = {
    **dict.fromkeys(("dispatch", "interpret", "reference"), "interpreter.api"),
    **dict.fromkeys(("MemoryBudget", "Options"), "interpreter.options"),
    **dict.fromkeys(("Image", "Sampler"), "images"),
    "InterpreterError": "interpreter.errors",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"xdsl_spirv.{_HOMES[name]}"), name)
