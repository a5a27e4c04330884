"""Attributes that are read once equal the ones that xDSL's own parser reads every time."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_spirv.runtime.modules import context
from xdsl_spirv.upstream.caching_parser import CachingParser
from xdsl_spirv.upstream.equality import is_same

MODULE = """
#map = affine_map<(d0, d1) -> (d0, d1)>
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4x8xf32>) -> tensor<4x8xf32>, sym_name = "f"}> ({
  ^bb0(%a: tensor<4x8xf32>):
    %c = "arith.constant"() <{value = dense<1.0> : tensor<4x8xf32>}> : () -> tensor<4x8xf32>
    %d = "arith.constant"() <{value = dense<2.0> : tensor<4x8xf32>}> : () -> tensor<4x8xf32> // %d
    %e = "tensor.empty"() : () -> tensor<4x8xf32>
    %r = "linalg.generic"(%a, %c, %e) <{indexing_maps = [#map, #map, #map], iterator_types =
      [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>],
      operandSegmentSizes = array<i32: 2, 1>}> ({
    ^bb0(%x: f32, %y: f32, %z: f32):
      %s = "arith.addf"(%x, %y) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "linalg.yield"(%s) : (f32) -> ()
    }) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %t = "arith.addf"(%r, %d) <{fastmath = #arith.fastmath<none>}> {note = {deep = "}>"}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %u = "arith.addf"(%t, %d) <{fastmath = #arith.fastmath<none>}> : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %v = "test.op"(%u) <{text = "a }> \\" b", nested = {k = 1 : i32}}> : (tensor<4x8xf32>) -> ((tensor<4x8xf32>) -> i1)
    %w = "test.op"(%u) <{text = "a }> \\" b", nested = {k = 2 : i32}}> : (tensor<4x8xf32>) -> ((tensor<4x8xf32>) -> i8)
    "func.return"(%u) : (tensor<4x8xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""  # noqa: E501


def test_equal_to_the_parser_of_xdsl():
    """Comments, strings that look like an end, nested dictionaries and types in types included."""
    expected = Parser(context(), MODULE).parse_module()
    assert is_same(CachingParser(context(), MODULE).parse_module(), expected)


def test_properties_are_not_shared():
    """Operations have dictionaries of their own: to change one leaves the others."""
    module = CachingParser(context(), MODULE).parse_module()
    first, second, *_ = [op for op in module.walk() if op.name == "arith.addf"]
    first.properties.clear()
    assert second.properties


@pytest.mark.parametrize(
    "text",
    [
        '"test.op"() <{a = 1 : i32}> : () -> tensor<4xf32\n',
        '"test.op"() <{a = 1 : i32, a = 2 : i32}> : () -> ()\n',
        '"test.op"() <{a = }> : () -> ()\n',
        '%0 = "test.op"() : () -> tensor<4xf99>\n%1 = "test.op"() : () -> tensor<4xf99>\n',
        '%0 = "arith.constant"() <{value = dense<1> : tensor<?xi32>}> : () -> tensor<?xi32>\n',
    ],
)
def test_errors_stay(text: str):
    """Texts that xDSL refuses are refused with the same message."""
    messages: list[str] = []
    for parser in (Parser, CachingParser):
        with pytest.raises(ParseError) as error:
            parser(context(), text).parse_module()
        messages.append(str(error.value))
    assert messages[0] == messages[1]
