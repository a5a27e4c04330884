"""Operations of a host function that no pass lowers are refused with their name and a remedy."""

from __future__ import annotations

import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text

T = "tensor<4xf32>"
M = "memref<4xf32>"
REFUSED = {
    "tosa": (
        f"func.func @main(%x: {T}) -> {T} {{ %r = tosa.add %x, %x : ({T}, {T}) -> {T} "
        f"return %r : {T} }}",
        r"tosa\.add .*tosa-to-linalg",
    ),
    "call": (
        f"func.func private @f(%x: {T}) -> {T} {{ return %x : {T} }}"
        f"func.func @main(%x: {T}) -> {T} {{ %r = call @f(%x) : ({T}) -> {T} return %r : {T} }}",
        r"func\.call .*-inline",
    ),
    "memref": (
        f"func.func @main(%x: {M}, %y: {M}) {{ linalg.exp ins(%x : {M}) outs(%y : {M}) return }}",
        r"memrefs, .*on tensors",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_operation_that_no_pass_lowers_is_named(name: str):
    text, message = REFUSED[name]
    with pytest.raises(ProgramError, match=message):
        compile_module(parse_text(text), "lavapipe")
