"""Integer instructions accept and return integers of one width and any signedness."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode

MIXED = (
    "spirv.IAdd %u, %s : (i32, si32) -> i32",
    "spirv.ISub %s, %u : (si32, i32) -> si32",
    "spirv.IMul %s, %s : (si32, si32) -> i32",
    "spirv.SDiv %u, %u : (i32, i32) -> si32",
    "spirv.SRem %u, %s : (i32, si32) -> si32",
    "spirv.SMod %s, %u : (si32, i32) -> i32",
    "spirv.BitwiseAnd %u, %s : (i32, si32) -> si32",
    "spirv.BitwiseOr %v, %w : (vector<2xi32>, vector<2xsi32>) -> vector<2xi32>",
    "spirv.SNegate %u : (i32) -> si32",
    "spirv.Not %s : (si32) -> i32",
    "spirv.BitCount %u : (i32) -> si32",
    "spirv.BitCount %l : (i64) -> i32",
    "spirv.ShiftLeftLogical %u, %s : i32, si32 -> si32",
    "spirv.ShiftRightArithmetic %v, %w : vector<2xi32>, vector<2xsi32> -> vector<2xsi32>",
    "spirv.SLessThan %u, %s : (i32, si32)",
    "spirv.IEqual %v, %w : (vector<2xi32>, vector<2xsi32>)",
    "spirv.GL.FindUMsb %u : (i32) -> si32",
    "spirv.GL.SAbs %s : (si32) -> i32",
    "spirv.GL.UMin %u, %s : (i32, si32) -> i32",
    "spirv.GL.SClamp %u, %s, %s : (i32, si32, si32) -> si32",
)
ONE_TYPE = (
    "spirv.IAdd %s, %s : si32",
    "spirv.ShiftLeftLogical %u, %s : i32, si32",
    "spirv.SLessThan %s, %s : si32",
    "spirv.Not %u : i32",
    "spirv.GL.SMax %v, %v : vector<2xi32>",
)
REFUSED = {
    "spirv.IAdd %u, %l : (i32, i64) -> i32": "equal widths and numbers of components",
    "spirv.BitwiseXor %u, %v : (i32, vector<2xi32>) -> i32": "equal widths",
    "spirv.Not %u : (i32) -> i64": "equal widths",
    "spirv.IAdd %u, %f : (i32, f32) -> i32": "takes integer scalars",
    "spirv.ShiftLeftLogical %u, %s : i32, si32 -> i64": "equal widths",
    "spirv.SLessThan %u, %l : (i32, i64)": "must compare values of equal types",
    "spirv.BitCount %v : (vector<2xi32>) -> i32": "cannot change the number of components",
    "spirv.GL.FindUMsb %u : (i32) -> f32": "takes integer scalars",
}


def _parse(*lines: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, SPIRV):
        context.load_dialect(dialect)
    body = "\n".join(f"%r{i} = {line}" for i, line in enumerate(lines))
    text = f"""
    spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader, Int64, Linkage], []> {{
      spirv.func @f(%u: i32, %s: si32, %l: i64, %f: f32, %v: vector<2xi32>, %w: vector<2xsi32>)
          "None" {{
        {body}
        spirv.Return
      }}
    }}"""
    return Parser(context, text).parse_module()


@pytest.mark.parametrize("line", MIXED + ONE_TYPE)
def test_the_printed_form_is_what_was_parsed(line: str):
    module = _parse(line)
    module.verify()
    assert f"= {line}\n" in str(module)


def test_a_binary_is_read_as_these_operations():
    module = _parse(*MIXED, *ONE_TYPE)
    (inner,) = module.ops
    data = encode(inner)  # pyright: ignore[reportArgumentType]
    decoded = decode(data)
    assert "spirv.Raw " not in str(decoded)
    assert encode(decoded) == data


@pytest.mark.parametrize("line", REFUSED)
def test_types_that_differ_in_more_than_sign_are_refused(line: str):
    with pytest.raises(VerifyException, match=REFUSED[line]):
        _parse(line).verify()
