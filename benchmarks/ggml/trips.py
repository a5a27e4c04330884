"""
A module's trips: binary, dialect, text, dialect, binary; and the validators' verdicts.

`encode(decode(x))` is the canonical form (docs/binary.md). It must be its own, printed and parsed
or not, and spirv-val must accept it where it accepts the module; our validator's verdict must be
spirv-val's.
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
    """Returns what goes wrong on a module's trips, one line each; none if nothing does."""
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
        yield "the second trip gives other bytes"
    text = io.StringIO()
    Printer(text).print_op(module)
    parsed = parse_text(text.getvalue())
    if encode(find_module(parsed)) != once:
        yield "the printed module encodes to other bytes"
    if not theirs and (message := khronos.spirv_val(once, environment, *OPTIONS)):
        yield f"spirv-val refuses the canonical form: {message.splitlines()[0]}"
