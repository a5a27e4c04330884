"""
Imports JAX functions and StableHLO: `jax.jit` lowers a function, jaxlib's parser reads the module.

Arrays that a function closes over become weights: they share JAX's memory, and are not converted to
text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import ImportedModel


def from_jax(function: Callable[..., Any], *examples: Any) -> ImportedModel:
    """
    Import a function of arrays, as JAX traces it with `examples`: trees of arrays or of
    `jax.ShapeDtypeStruct`.

    Inputs are the leaves of the examples: `arg0`, `arg1`, ... Results are the leaves of the
    function's result: `result0`, `result1`, ... Arrays that the function closes over are weights:

        model = xs.from_jax(functools.partial(module.apply, parameters), x)

    Layers are named by their lines of Python. Raises `FrontendError` for a function that JAX cannot
    trace, and for unsupported operations, with the line.
    """
    try:
        jax: Any = import_module("jax")
    except ImportError as error:
        raise FrontendError(
            f"jax cannot be imported: {error}", "", "pip install 'xdsl-spirv[jax]'", "missing"
        ) from error
    try:
        traced = jax.make_jaxpr(function)(*examples)
        shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in traced.jaxpr.invars]

        def main(weights: Sequence[Any], *inputs: Any) -> Any:
            return jax.core.eval_jaxpr(traced.jaxpr, weights, *inputs)

        lowered = jax.jit(main, keep_unused=True).lower(traced.consts, *shapes)
        module = lowered.compiler_ir("stablehlo")
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        raise FrontendError(
            f"JAX cannot lower the function: {said}",
            "jax.jit",
            "rewrite what the message names, until `jax.jit` accepts it",
        ) from error
    from xdsl_spirv.frontends.stablehlo import import_module_of

    return import_module_of(module, traced.consts, len(traced.consts))


def import_stablehlo(source: str | bytes, weights: Sequence[Any] = ()) -> ImportedModel:
    """
    Import StableHLO whose public function is `@main`: its text in any form, or a serialized
    artifact (`jax.export`'s `mlir_module_serialized`).

    `weights` are the values of its first arguments; the others are inputs: `arg3` is the fourth
    argument. Raises `FrontendError` for a module that jaxlib cannot read, and for unsupported
    operations.
    """
    from xdsl_spirv.frontends.stablehlo import import_module_of

    return import_module_of(source, weights)
