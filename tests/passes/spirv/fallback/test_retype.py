"""A type is replaced in all positions. Values and names do not change."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    VectorType,
    bf16,
    f32,
    i16,
)
from xdsl.ir import Attribute

from xdsl_spirv.passes.spirv.fallback.retype import Retyping
from xdsl_spirv.runtime.modules import parse_text, text_of

MODULE = """
spirv.module Logical GLSL450 {
  spirv.GlobalVariable @x :
      !spirv.ptr<!spirv.array<4 x bf16>, Workgroup>
  spirv.func @f(%a: bf16, %b: vector<4xbf16>) -> bf16 "None" {
    spirv.ReturnValue %a : bf16
  }
}
"""


def as_bits(attribute: Attribute) -> Attribute | None:
    return i16 if isinstance(attribute, BFloat16Type) else None


def test_parts_of_attributes_are_replaced():
    retyping = Retyping(as_bits)
    vector = VectorType(bf16, [4])
    assert retyping(vector) == VectorType(i16, [4])
    assert retyping(ArrayAttr([vector, f32])) == ArrayAttr([VectorType(i16, [4]), f32])
    assert retyping(DictionaryAttr({"t": bf16})) == DictionaryAttr({"t": i16})
    number, name = IntegerAttr(3, i16), StringAttr("bf16")
    assert retyping(number) is number
    assert retyping(name) is name
    assert not retyping.changes(f32)
    assert retyping.changes(vector)


def test_a_module_has_the_new_type_everywhere():
    module = parse_text(MODULE)
    retyping = Retyping(as_bits)
    assert sum(map(retyping.touches, module.walk())) == 3, "variable, function, return"
    retyping.apply(module)
    assert text_of(module).strip() == text_of(parse_text(MODULE.replace("bf16", "i16"))).strip()
    assert not any(map(retyping.touches, module.walk()))
