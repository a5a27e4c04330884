"""Loads a kernel's file as a SPIR-V binary and a module."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.validation.environment import ENVIRONMENTS
from xdsl_spirv.serialization.validation.module import Module
from xdsl_spirv.serialization.validation.validator import environment_of
from xdsl_spirv.tools.kernel_test.description import KERNELS, SOURCES, KernelTest, Misuse, suggest

if TYPE_CHECKING:
    from xdsl_spirv.dialects.spirv.structure import ModuleOp

MAX_BYTES = 256 << 20
"""Maximum size of a kernel's file, in bytes."""


@dataclass
class Kernel:
    """A kernel as a binary and as a module."""

    path: Path
    binary: bytes
    environment: str
    """Target environment of the validation, such as `vulkan1.3`."""
    index: Module
    parsed: ModuleOp | None = None
    """The module of an MLIR file, with the line of each operation; None for other files."""

    def module(self) -> ModuleOp:
        """Returns a copy of the module for a launch, because specialization changes the module."""
        if self.parsed is not None:
            return _clone_with_lines(self.parsed)
        from xdsl_spirv.serialization.decode.decoder import decode as decode_module

        return decode_module(self.binary)


def _clone_with_lines(module: ModuleOp) -> ModuleOp:
    """Copies a module, including the source line of each operation."""
    from xdsl_spirv.interpreter.checks.places import LINES

    clone = module.clone()
    for op, copy in zip(module.walk(), clone.walk(), strict=True):
        if op in LINES:
            LINES[copy] = LINES[op]
    return clone


def load_kernel(test: KernelTest) -> Kernel:
    """
    Loads the kernel of a test.

    Raises `Misuse` for a file that cannot be tested, and `CompileError`, `SPIRVDecodeError`,
    `SPIRVAssemblyError` or xDSL's errors for an invalid file.
    """
    path, parsed = test.kernel, None
    _refuse_environment(test.compile.target_env)
    if path.suffix in SOURCES:
        from xdsl_spirv.tools.kernel_test.compilers import compile_source

        _read(path)
        binary = compile_source(path, test.compile, test.entry)
    elif path.suffix == ".spvasm":
        from xdsl_spirv.serialization.text.assembler import assemble

        text = _read(path).decode("utf-8", "surrogateescape")
        binary = assemble(text).encode()
        if "OpLine" not in text:
            binary = assemble(_with_lines(text, path)).encode()
    elif path.suffix == ".mlir":
        parsed, binary = _parse(path)
    elif path.suffix == ".ttir":
        binary = _lower_triton(path, test)
    elif path.suffix == ".spv":
        binary = _read(path)
    else:
        raise Misuse(
            f"{path} is not a kernel", "", f"give a file that ends in {', '.join(KERNELS)}"
        )
    raw = decode(binary)
    environment = test.compile.target_env or environment_of(raw).name
    return Kernel(path, binary, environment, Module(raw, ENVIRONMENTS[environment]), parsed)


def _refuse_environment(chosen: str | None) -> None:
    if chosen is not None and chosen not in ENVIRONMENTS:
        known = suggest(chosen, tuple(ENVIRONMENTS))
        raise Misuse(
            f"the target environment {chosen!r} does not exist", "compile.target-env", known
        )


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise Misuse(f"{path} is not a file", "", "give the path of a kernel")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Misuse(
            f"cannot read the kernel: {error.strerror}", str(path), "name a file"
        ) from error
    if len(data) > MAX_BYTES:
        raise Misuse(f"{path} has more than {MAX_BYTES} bytes", "", "give a smaller file")
    return data


INSTRUCTION = re.compile(r"\s*(?:%\S+\s*=\s*)?(Op[A-Z]\w*)")
PREAMBLE = re.compile(
    r"Op(Capability|Extension|ExtInstImport|MemoryModel|EntryPoint|ExecutionMode)"
)
UNPLACED = re.compile(r"Op(Function(Parameter|End)?|Label)$")
"""Matches instructions that never get a source line."""


def _with_lines(assembly: str, path: Path) -> str:
    """Returns assembly with OpLine instructions for the line numbers of the assembly file."""
    lines: list[str] = []
    named = inside = merging = False
    for number, line in enumerate(assembly.split("\n"), 1):
        match = INSTRUCTION.match(line)
        name = match[1] if match else ""
        if name and not named and not PREAMBLE.match(name):
            named = True
            lines.append(f"%xdsl_spirv_file = OpString {json.dumps(str(path), ensure_ascii=False)}")
        inside = name == "OpFunction" or (inside and name != "OpFunctionEnd")
        if name and inside and not merging and not UNPLACED.match(name):
            lines.append(f"OpLine %xdsl_spirv_file {number} 0")
        merging = name in ("OpSelectionMerge", "OpLoopMerge") or (merging and not name)
        lines.append(line)
    return "\n".join(lines)


def _lower_triton(path: Path, test: KernelTest) -> bytes:
    """Compiles a Triton kernel to a binary for the test's target."""
    from xdsl_spirv.compiler.tiles import named_binary
    from xdsl_spirv.frontends.triton.convert import convert, kernel_of
    from xdsl_spirv.frontends.triton.reading import read

    if test.target is None:
        raise Misuse(
            "compiling a Triton kernel requires a target", str(path), 'write target = "nvidia-h200"'
        )
    made = convert(kernel_of(read(_read(path).decode(errors="replace"), str(path)), test.entry))
    return named_binary(made.program, [p.name for p in made.parameters], test.target)


def _parse(path: Path) -> tuple[ModuleOp, bytes]:
    from xdsl_spirv.runtime.modules import context, parse
    from xdsl_spirv.serialization.encode import SPIRVEncodeError
    from xdsl_spirv.serialization.encode.encoder import encode
    from xdsl_spirv.serialization.encode.target import find_module
    from xdsl_spirv.tools.debugging import LocatingParser

    try:
        module = find_module(parse(str(path), context(), LocatingParser))
        return module, encode(module, names=True, lines=True)
    except SPIRVEncodeError as error:
        raise ProgramError(str(error), str(path), "") from error
