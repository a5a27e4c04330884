"""Implements `xdsl-spirv disassemble` and `assemble`, which convert between binary and assembly."""

from __future__ import annotations

import argparse
import re

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.raw.errors import SPIRVAssemblyError, SPIRVDecodeError
from xdsl_spirv.serialization.text.assembler import assemble as assemble_text
from xdsl_spirv.serialization.text.disassembler import disassemble as disassemble_module
from xdsl_spirv.tools.binaries import read_input
from xdsl_spirv.tools.output import check_place, write


def disassemble(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv disassemble`."""
    check_place(arguments.output)
    try:
        text = disassemble_module(
            decode(read_input(arguments.input)),
            raw_ids=arguments.raw_id,
            header=not arguments.no_header,
            indent=not arguments.no_indent,
            offsets=arguments.offsets,
            tolerant=arguments.tolerant,
        )
    except SPIRVDecodeError as error:
        remedy = "give a SPIR-V binary, or --tolerant to see the readable part"
        raise ProgramError(str(error), arguments.input, remedy) from error
    write(arguments.output, text.encode("utf-8", "surrogateescape"))
    return 0


def assemble(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv assemble`."""
    check_place(arguments.output)
    text = read_input(arguments.input).decode("utf-8", "surrogateescape")
    version = _version(arguments.version_of_spirv)
    try:
        module = assemble_text(text, version=version, preserve_numeric_ids=not arguments.renumber)
    except SPIRVAssemblyError as error:
        place = f"{arguments.input}:{error.line}:{error.column}"
        raise ProgramError(error.cause, place, "correct the text") from error
    write(arguments.output, module.encode())
    return 0


def _version(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,2})", text)
    if match is None:
        raise ProgramError(f"{text!r} is not a SPIR-V version", "", "write it like 1.6")
    return int(match[1]), int(match[2])
