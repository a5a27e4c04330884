"""
StableHLO, as JAX writes it, to `linalg` on tensors: torch-mlir's own tool does it in a process.

Weights do not pass through text if they are arguments of the function, as a JAX function's
parameters are: the first arguments take the values that are given.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.universe import Universe
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_spirv.dialects.program import FLOATS
from xdsl_spirv.frontends.children import with_parent
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.model import Array, ImportedModel, Value, annotate
from xdsl_spirv.upstream.caching_parser import CachingParser

TIMEOUT = 600.0
TOOL = "torch-mlir-opt"
PIPELINE = (
    "builtin.module(inline,symbol-dce,stablehlo-convert-to-signless,stablehlo-legalize-to-linalg,"
    "func.func(canonicalize,cse))"
)
UNSIGNED = re.compile(r"ui(8|16|32|64)$")
REASON = re.compile(r"error: (.+)")


def import_stablehlo(
    text: str, weights: Sequence[Any] = (), *, timeout: float = TIMEOUT
) -> ImportedModel:
    """
    Import the text of a StableHLO module whose public function is `@main`.

    `weights` are the values of its first arguments; the others are inputs: `arg3` is the fourth
    argument. Unsigned types of arguments and results are kept. Raises `FrontendError` for
    operations that the tool refuses.
    """
    import numpy as np

    module = _parse_linalg(_linalg(text, timeout))
    function = _main(module)
    arguments, results = _interface(text, function)
    annotate(function, arguments, results)
    function.attributes[FLOATS] = StringAttr("f64" if "f64" in text else "f32")
    given: dict[str, Array] = {}
    if len(weights) > len(arguments):
        raise FrontendError(
            f"{len(weights)} weights were given for {len(arguments)} arguments", "@main", ""
        )
    for value, weight in zip(arguments, weights, strict=False):
        array = np.asarray(weight)
        if array.shape != value.shape:
            raise FrontendError(
                f"the weight of {value} has the shape {list(array.shape)}",
                "@main",
                "give the first arguments' values in their order",
            )
        given[value.name] = array
    return ImportedModel(module, given, arguments[len(given) :], results)


def _linalg(text: str, timeout: float) -> str:
    command = with_parent([str(_tool()), f"--pass-pipeline={PIPELINE}", "--mlir-print-op-generic"])
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise FrontendError(
            f"{TOOL} did not finish within {timeout:g} s", "", "simplify the function", "timeout"
        ) from error
    if done.returncode != 0:
        reason = REASON.search(done.stderr)
        said = reason[1] if reason else f"status {done.returncode}"
        raise FrontendError(
            f"{TOOL} refuses the module: {said}", "StableHLO", "write the function in other words"
        )
    return done.stdout


def _tool() -> Path:
    package = importlib.util.find_spec("torch_mlir")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        tool = Path(folder, "_mlir_libs", TOOL)
        if tool.is_file():
            return tool
    raise FrontendError(
        f"{TOOL} is not installed", "", "pip install 'xdsl-spirv[stablehlo]'", "missing"
    )


def _main(module: ModuleOp) -> FuncOp:
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    if len(functions) != 1 or functions[0].sym_name.data != "main":
        names = ", ".join(f"@{op.sym_name.data}" for op in functions) or "none"
        raise FrontendError(
            "the module has more or other functions than @main", f"functions: {names}", ""
        )
    return functions[0]


def _interface(text: str, function: FuncOp) -> tuple[list[Value], list[Value]]:
    """Names and types of arguments and results; MLIR's lowering has lost their signs."""
    signature = re.search(r"func\.func (?:public )?@main\((.*?)\) *(?:->(.*?))?\{\n", text, re.S)
    inputs, outputs = (signature[1], signature[2] or "") if signature else ("", "")
    types = function.function_type
    return (
        _values("arg", inputs, list(types.inputs)),
        _values("result", outputs, list(types.outputs)),
    )


def _values(name: str, text: str, types: list[Attribute]) -> list[Value]:
    written = re.findall(r"tensor<([^>]*)>", text)
    values: list[Value] = []
    for number, type in enumerate(types):
        if not isinstance(type, TensorType):
            raise FrontendError(f"{name}{number} is of type {type}", "@main", "use arrays")
        element = str(type.element_type)
        if len(written) == len(types) and (sign := UNSIGNED.search(written[number])):
            element = sign[0]
        values.append(Value(f"{name}{number}", element, tuple(type.get_shape())))
    return values


def _parse_linalg(text: str) -> ModuleOp:
    """
    MLIR's generic form as torch-mlir prints it; raises `FrontendError` for text that xDSL cannot
    read.
    """
    ctx = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    # xDSL does not know the flags of a truncation; none is the only value that occurs.
    text = text.replace("<{overflowFlags = #arith.overflow<none>}>", "")
    text = text.replace("overflowFlags = #arith.overflow<none>, ", "")
    text = text.replace(", overflowFlags = #arith.overflow<none>", "")
    try:
        module = CachingParser(ctx, text, "the imported model").parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        first = str(error).strip().splitlines()
        cause = next((x.strip(" ^") for x in reversed(first) if x.strip(" ^~")), str(error))
        raise FrontendError(
            f"xDSL cannot read what torch-mlir made of the model: {cause}",
            "the imported model",
            "report it with the model",
            "parse",
        ) from error
    return module
