"""
Implements functions of `import xdsl_spirv as xs`, except compiling and launching.

Functions take a module as the `bytes` of a binary, the path of a file, or an xDSL operation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xdsl_spirv.serialization.validation.validator import Finding

if TYPE_CHECKING:
    from xdsl_spirv.dialects.spirv.module import ModuleOp as SPIRVModuleOp
    from xdsl_spirv.frontends.model import ImportedModel
    from xdsl_spirv.interpreter.checks import Checks
    from xdsl_spirv.runtime.elements import Array
    from xdsl_spirv.runtime.program import Program
    from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
    from xdsl_spirv.tools.explanation import Explanation

Source: TypeAlias = Operation | bytes | str | os.PathLike[str]


def parse(source: str | os.PathLike[str]) -> ModuleOp:
    """
    Parses a file of MLIR, or MLIR text that has several lines.

    Knows all dialects that `xdsl-opt` knows. Raises `ProgramError` for a file that cannot be read,
    and xDSL's errors for malformed text.
    """
    from xdsl_spirv.runtime.modules import parse as parse_file
    from xdsl_spirv.runtime.modules import parse_text

    if isinstance(source, str) and "\n" in source:
        return parse_text(source)
    return parse_file(source)


def decode(source: bytes | str | os.PathLike[str]) -> SPIRVModuleOp:
    """
    Decodes a binary, or a file (`.spv`, `.spvasm`, GLSL), to a `spirv.module`.

    `print` shows the module in the dialect's syntax. Raises `SPIRVDecodeError` for damaged bytes.
    """
    from xdsl_spirv.serialization.decode.decoder import decode as decode_binary

    return decode_binary(_binary(source))


def encode(module: Operation, *, names: bool = True) -> bytes:
    """
    Encodes a `spirv.module`, or a module that contains exactly one, as a binary.

    Raises `SPIRVEncodeError` for operations without an encoding.
    """
    from xdsl_spirv.serialization.encode.encoder import encode as encode_module
    from xdsl_spirv.serialization.encode.target import find_module

    return encode_module(_spirv(find_module, module), names=names)


class Findings(list[Finding]):
    """The faults of a module that `validate` found. The list is empty for a valid module."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "valid: no findings"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def validate(source: Source, environment: str | None = None) -> Findings:
    """
    Returns the faults of a module, each with its rule, location and remedy.

    `environment` is `vulkan1.3`, `universal1.6`, ...; by default it is the version in the module.
    Raises `SPIRVDecodeError` for bytes that are not a module.
    """
    from xdsl_spirv.serialization.validation import validate as validate_binary

    if isinstance(source, Operation):
        from xdsl_spirv.serialization.encode.target import find_module
        from xdsl_spirv.serialization.validation.of_dialect import validate_operation

        return Findings(validate_operation(_spirv(find_module, source), environment)[0])
    return Findings(validate_binary(_binary(source), environment))


def disassemble(source: Source) -> str:
    """Returns a module in Khronos' assembly language."""
    from xdsl_spirv.serialization.raw.binary import decode as decode_words
    from xdsl_spirv.serialization.text.disassembler import disassemble as to_text

    return to_text(decode_words(_binary(source)))


def assemble(text: str) -> bytes:
    """
    Assembles Khronos' assembly language to a binary.

    Raises `SPIRVAssemblyError` with line and column for malformed text.
    """
    from xdsl_spirv.serialization.text.assembler import assemble as assemble_text

    return assemble_text(text).encode()


def interpret(
    source: ModuleOp | str | os.PathLike[str],
    inputs: Sequence[Any],
    *,
    passes: str = "",
    function: str = "main",
    subgroup_size: int | None = None,
    checks: Checks | None = None,
) -> list[Array]:
    """
    Runs a host function on the interpreter, at any stage of the lowering. Returns its results.

    `source` is a module, a file of MLIR or its text. `passes` is a pipeline in the form of
    `xdsl-opt -p`, which runs first. Inputs are arrays, or lists if the module states the
    argument's type. `checks` find undefined behaviour and fill their report.

    Raises `InterpreterError`, and the errors of the passes.
    """
    import numpy as np

    from xdsl_spirv.interpreter import interpret as run
    from xdsl_spirv.interpreter.options import options_for

    module = source.clone() if isinstance(source, ModuleOp) else parse(source)
    if passes:
        from xdsl_spirv.compiler.compiler import pipeline_of
        from xdsl_spirv.runtime.modules import context

        pipeline_of(passes).apply(context(), module)
    options = options_for(module, subgroup_size, checks=checks)
    arrays = [np.asarray(value) for value in inputs]
    return run(module, arrays, function, options=options)


def explain(
    model: Program | ImportedModel | ModuleOp | str | os.PathLike[str],
    target: str | None = None,
    *,
    dims: Mapping[str, int | None] | None = None,
    **options: Any,
) -> Explanation:
    """
    Explains each layer of a model: how and why it is compiled, and its least time on a target.

    `model` is a program, or a model with the options of `compile`. The default `target` is the
    target of the program, or the best device of this machine for a model. `print` shows the result
    as a table, and a notebook shows it as a page.
    """
    from xdsl_spirv.compiler.api import compile
    from xdsl_spirv.runtime.program import Program
    from xdsl_spirv.targets import known, load
    from xdsl_spirv.tools.explain import original_nodes
    from xdsl_spirv.tools.explanation import explanation_of

    name = os.fspath(model) if isinstance(model, str | os.PathLike) else "the model"
    if isinstance(model, Program):
        program = model
    elif isinstance(model, str | os.PathLike) and Path(model).is_dir():
        program = Program.load(model)
    else:
        program = compile(model, target, dims=dims, **options)
    chosen = load(target or known(program.manifest.target))
    nodes = original_nodes(name) if isinstance(model, str | os.PathLike) else []
    return explanation_of(program, name, chosen, nodes)


def devices() -> list[DeviceInfo]:
    """
    Returns the Vulkan devices of this machine, the best first.

    If there are none, `xdsl-spirv doctor` prints the cause.
    """
    from xdsl_spirv.runtime.vulkan.errors import NoVulkanError

    try:
        from xdsl_spirv.runtime.vulkan.worker import list_devices

        return list_devices().best_first()
    except NoVulkanError:
        return []


def target_names() -> list[str]:
    """Returns the names of the targets for which programs can be compiled."""
    from xdsl_spirv.targets import names

    return names()


def _binary(source: Source) -> bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, Operation):
        return encode(source)
    from xdsl_spirv.kernels.launch import binary_of

    return binary_of(source)


def _spirv(find: Any, module: Operation) -> SPIRVModuleOp:
    from xdsl_spirv.dialects.spirv.module import ModuleOp as SPIRVModuleOp

    return module if isinstance(module, SPIRVModuleOp) else find(module)
