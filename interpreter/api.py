"""Entry points of the interpreter: run a host function, run a reference, and run one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from xdsl_spirv.dialects.program import first_value_of, inputs_of
from xdsl_spirv.dialects.spirv.structure import ModuleOp as SPIRVModuleOp
from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.host.machine import Host, check_input
from xdsl_spirv.interpreter.memories import Place
from xdsl_spirv.interpreter.options import Options, options_for
from xdsl_spirv.interpreter.spirv.module import Buffers, Compiled, Launch
from xdsl_spirv.interpreter.structs import PushConstants

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def _options(
    options: Options | None, subgroup_size: int | None, module: Operation | None = None
) -> Options:
    if options is None:
        return options_for(module, subgroup_size)
    return options if subgroup_size is None else replace(options, subgroup_size=subgroup_size)


def interpret(
    module: ModuleOp,
    inputs: Sequence[Array],
    function: str = "main",
    subgroup_size: int | None = None,
    *,
    options: Options | None = None,
) -> list[Array]:
    """
    Runs `func.func @function` on `inputs` and returns its results.

    Each input must have the shape and the element type of the argument's tensor type (bfloat16 and
    float8 are `ml_dtypes`' dtypes). Signed and unsigned integers of the right width are accepted.
    The inputs are not changed. Arguments that are weights (`program.value`) may be left out.
    `subgroup_size` replaces the option of that name. Without `subgroup_size` and `options`, the
    subgroup size is that of the module's target, or 32 (`options_for`).

    Raises `InterpreterError` for a wrong input, an operation without semantics, or an access
    outside a buffer.
    """
    chosen = _options(options, subgroup_size, module)
    return _run(module, inputs, function, chosen, launches=True)


def reference(
    module: ModuleOp,
    inputs: Sequence[Array],
    function: str = "main",
    *,
    options: Options | None = None,
) -> list[Array]:
    """
    Runs a host function on tensors, without kernels, for comparison with compiled programs.

    A contraction of floats is accumulated in binary64 and rounded once to the result's type, which
    gives the centre of the results of all accumulation orders. Integers are exact modulo 2^N. A
    launch raises `InterpreterError`.
    """
    return _run(module, inputs, function, _options(options, None), launches=False)


def dispatch(
    spirv_module: Operation,
    entry: str,
    grid: tuple[int, int, int],
    buffers: Buffers,
    spec_constants: Mapping[int, int | float | bool] | None = None,
    push_constants: PushConstants = b"",
    subgroup_size: int | None = None,
    *,
    options: Options | None = None,
    compiled: Compiled | None = None,
    images: Mapping[Place, Image | Sampler] | None = None,
) -> None:
    """
    Runs the entry point `entry` of a `spirv.module` on `grid` workgroups.

    - `buffers` maps (descriptor set, binding) to a C-contiguous array of any dtype, which is
      changed in place. For an array of buffers, the key is (set, binding, index in the array).
    - `spec_constants` maps SpecId to the value that replaces the default.
    - `push_constants` are bytes, or the values of all members by name (`structs.pack_struct`).
    - `compiled` caches code for launches of the same module with equal constants and options.
    - `images` describes the samplers and the buffers that hold texels of images.

    Raises `InterpreterError` for an unknown entry point, a missing or read-only buffer, push
    constants that are missing or too short, an operation without semantics, or an access outside a
    buffer.
    """
    if not isinstance(spirv_module, SPIRVModuleOp):
        raise InterpreterError(
            f"{spirv_module.name} is not a spirv.module",
            "spirv_module",
            "pass the spirv.module itself, not an operation that contains it",
        )
    Launch(
        spirv_module,
        entry,
        grid,
        buffers,
        spec_constants or {},
        push_constants,
        _options(options, subgroup_size, spirv_module),
        compiled=compiled,
        images=images or {},
    ).run()


def with_first_values(function: FuncOp, inputs: Sequence[Array]) -> Sequence[Array]:
    """
    Returns one value for each argument of a host function. Takes the stored values of weights and
    states, and `inputs` for the other arguments.

    Returns `inputs` unchanged if their number differs from the number of the other arguments.
    """
    given = inputs_of(function)
    if len(given) != len(inputs):
        return inputs
    named = dict(zip(given, inputs, strict=True))
    values = [first_value_of(function, i) for i in range(len(function.function_type.inputs))]
    return [named[i] if v is None else attribute_array(v) for i, v in enumerate(values)]


def _run(
    module: ModuleOp, inputs: Sequence[Array], function: str, options: Options, launches: bool
) -> list[Array]:
    machine = Host(module, options, launches)
    called = machine.function(function)
    types = called.function_type.inputs.data
    inputs = with_first_values(called, inputs)
    if len(types) != len(inputs):
        raise InterpreterError(
            f"{len(inputs)} inputs were given, but @{function} takes {len(types)}",
            "inputs",
            f"their types are: {', '.join(map(str, types)) or 'none'}",
        )
    arguments = [
        check_input(value, type, f"input {number} of @{function}")
        for number, (value, type) in enumerate(zip(inputs, types, strict=True))
    ]
    with np.errstate(all="ignore"):
        checks = options.checks
        if checks is None or not checks.undefined:
            return machine.call(function, arguments)
        from xdsl_spirv.interpreter.host.poison import Poison, find_poison

        machine.context.poison = Poison()
        results = machine.call(function, arguments)
        find_poison(machine, function, arguments, results, checks)
        return results
