"""
Imports JAX functions and StableHLO modules with the help of `jax.jit` and jaxlib's parser.

Arrays that a function closes over become weights, which share JAX's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError, import_needed
from xdsl_spirv.frontends.model import ImportedModel


def from_jax(function: Callable[..., Any], *examples: Any) -> ImportedModel:
    """
    Imports a function of arrays, as JAX traces it with `examples`.

    Examples are trees of arrays or of `jax.ShapeDtypeStruct`, whose sizes may be symbolic
    (`jax.export.symbolic_shape`). The inputs `arg0`, `arg1`, ... are the leaves of the examples;
    the results `result0`, `result1`, ... are the leaves of the function's result. Arrays that the
    function closes over are weights:

        model = xs.from_jax(functools.partial(module.apply, parameters), x)

    Layers are named by their lines of Python. Raises `FrontendError` for a function that JAX
    cannot trace, and for unsupported operations.
    """
    jax: Any = import_needed("jax", "jax")
    try:
        traced = jax.make_jaxpr(function)(*examples)
        shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in traced.jaxpr.invars]

        def main(weights: Sequence[Any], *inputs: Any) -> Any:
            return jax.core.eval_jaxpr(traced.jaxpr, weights, *inputs)

        jitted = jax.jit(main, keep_unused=True)
        if all(isinstance(size, int) for shape in shapes for size in shape.shape):
            module = jitted.lower(traced.consts, *shapes).compiler_ir("stablehlo")
        else:
            exported = import_module("jax.export").export(jitted)(traced.consts, *shapes)
            module = exported.mlir_module_serialized
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        raise FrontendError(
            f"JAX cannot lower the function: {said}",
            "jax.jit",
            "change the function until `jax.jit` accepts it",
        ) from error
    from xdsl_spirv.frontends.stablehlo import import_module_of

    return import_module_of(module, traced.consts, len(traced.consts))


def import_stablehlo(source: str | bytes, weights: Sequence[Any] = ()) -> ImportedModel:
    """
    Imports a StableHLO module: its text, or a serialized artifact (`jax.export`'s
    `mlir_module_serialized`).

    The public function must be `@main`. `weights` are the values of its first arguments. The other
    arguments are inputs, named by position: `arg3` is the fourth argument. Raises `FrontendError`
    for a module that jaxlib cannot read, and for unsupported operations.
    """
    from xdsl_spirv.frontends.stablehlo import import_module_of

    return import_module_of(source, weights)
