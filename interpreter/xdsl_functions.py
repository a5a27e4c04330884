"""
Provides the semantics of host functions as xDSL's `InterpreterFunctions`, so that xDSL's
`Interpreter` runs programs.

    interpreter = Interpreter(module)
    register_implementations(interpreter)
    interpreter.call_op("main", (a, b))

Values are numpy arrays, as in `interpret`. The kernel of a `gpu.launch_func` runs compiled into
closures, because xDSL's interpreter looks up each operation whenever it runs, which is too slow for
kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, OpImplResult, PythonValues
from xdsl.interpreters.func import FuncFunctions
from xdsl.ir import Operation
from xdsl.ir.region_utils import used_values_defined_above
from xdsl.traits import IsTerminator
from xdsl.universe import Universe

from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.host import machine
from xdsl_spirv.interpreter.host.machine import Host
from xdsl_spirv.interpreter.options import Options

DIALECTS = ("linalg", "tensor", "arith", "math", "memref", "bufferization", "scf", "gpu")
"""The dialects whose operations can occur in host functions."""


class HostFunctions(InterpreterFunctions):
    """Runs the operations of a host function on numpy arrays. `options` apply to its kernels."""

    def __init__(self, options: Options | None = None):
        self.options = options or Options()

    @classmethod
    def _impls(cls) -> Iterable[tuple[type[Operation], Any]]:
        return {op: _implementation for op in _operations()}.items()

    @classmethod
    def _cast_impls(cls) -> Iterable[Any]:
        return ()

    @classmethod
    def _attr_impls(cls) -> Iterable[Any]:
        return ()

    @classmethod
    def _ext_impls(cls) -> Iterable[Any]:
        return ()

    @classmethod
    def _callable_impls(cls) -> Iterable[Any]:
        return ()

    def host(self, interpreter: Interpreter) -> Host:
        """Returns the host of an interpreter's module."""
        return interpreter.get_data(
            type(self), "host", lambda: Host(interpreter.module, self.options)
        )


@cache
def _operations() -> set[type[Operation]]:
    """
    Returns all operation classes that `Host` runs. Includes subclasses, because xDSL does not look
    up base classes.
    """
    dialects = Universe.get_multiverse().all_dialects
    offered = {op for name in DIALECTS for op in dialects[name]().operations}
    # A dialect may have a class that only parses text and creates operations of its base class.
    listed = {base for op in offered for base in op.__mro__ if _names(base, op.name)}
    semantics.load()
    values = {op for op, meaning in semantics.TABLE.items() if meaning.kind == "value"}
    operations = values | {op for op in listed | set(machine.TABLE) if machine.find(op) is not None}
    own = {op for op, _ in FuncFunctions._impls()}  # pyright: ignore[reportPrivateUsage]
    concrete = {op for op in operations - own if hasattr(op, "traits")}
    return {op for op in concrete if not op.has_trait(IsTerminator)}


def _names(base: type, name: str) -> bool:
    return issubclass(base, Operation) and base.__dict__.get("name", name) == name


def _implementation(
    functions: HostFunctions, interpreter: Interpreter, op: Operation, values: PythonValues
) -> OpImplResult:
    host = functions.host(interpreter)
    captured = {value for region in op.regions for value in used_values_defined_above(region)}
    around = {value: interpreter.get_values((value,))[0] for value in captured}
    with np.errstate(all="ignore"), host.frame(around):
        return OpImplResult(tuple(host.evaluate(op, values)), None)


def register_implementations(interpreter: Interpreter, options: Options | None = None) -> None:
    """Lets xDSL's interpreter run host functions and the kernels that they launch."""
    interpreter.register_implementations(FuncFunctions())
    interpreter.register_implementations(HostFunctions(options))
