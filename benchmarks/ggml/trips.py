"""
Checks the round trips of a module (binary, dialect, text) and compares the validators' verdicts.

`encode(decode(x))` is the canonical form (docs/binary.md). The canonical form must be a fixed
point, with and without printing and parsing. spirv-val must accept it if it accepts the module,
and our validator's verdict must be equal to spirv-val's.
"""

from __future__ import annotations

import io

from xdsl.printer import Printer

from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.serialization.validation import Severity, validate
from xdsl_spirv.tools import khronos

OPTIONS = ("--allow-localsizeid",)


def failures(binary: bytes, environment: str) -> list[str]:
    """Returns one line for each failure of a module's round trips."""
    try:
        return list(_failures(binary, environment))
    except Exception as error:
        return [f"{type(error).__name__}: {error}".splitlines()[0][:300]]


def _failures(binary: bytes, environment: str):
    theirs = khronos.spirv_val(binary, environment, *OPTIONS)
    ours = [f for f in validate(binary, environment) if f.severity is Severity.ERROR]
    if theirs:
        yield f"spirv-val: {theirs.splitlines()[0]}"
    if ours:
        yield f"validate: {ours[0]}"
    module = decode(binary)
    once = encode(module)
    if encode(decode(once)) != once:
        yield "decoding and encoding the canonical form changes its bytes"
    text = io.StringIO()
    Printer(text).print_op(module)
    parsed = parse_text(text.getvalue())
    if encode(find_module(parsed)) != once:
        yield "printing and parsing the canonical form changes its bytes"
    if not theirs and (message := khronos.spirv_val(once, environment, *OPTIONS)):
        yield f"spirv-val refuses the canonical form: {message.splitlines()[0]}"
