"""Types without kernels are refused, with a suggested type."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.passes.graph.computable import change_notes, refuse_types
from xdsl_spirv.runtime.modules import parse_text


def function_of(text: str) -> FuncOp:
    (function,) = (op for op in parse_text(text).body.block.ops if isinstance(op, FuncOp))
    return function


@pytest.mark.parametrize(
    ("type", "remedy"),
    [
        ("tensor<4xi12>", "use i16"),
        ("i3", "use i8"),
        ("tensor<4xi128>", "use integers of 64 bits or fewer"),
        ("tensor<4xindex>", "use i32 or i64, and arith.index_cast in bodies"),
        ("tensor<4xcomplex<f32>>", "use separate tensors for the real and the imaginary parts"),
    ],
)
def test_a_type_without_kernels_is_refused(type: str, remedy: str):
    function = function_of(f"func.func @f(%x: {type}) {{ return }}")
    with pytest.raises(PassFailedException) as refusal:
        refuse_types(function, "the-pass")
    assert f"kernels cannot compute with {type}: {remedy}" in str(refusal.value)
    assert str(refusal.value).startswith("the-pass: ")


def test_scalar_indices_and_other_types_are_allowed():
    refuse_types(function_of("func.func @f(%n: index, %x: tensor<4xi1>, %y: f64) { return }"), "p")


def test_attributes_of_arguments_are_changed_by_type():
    function = function_of(
        'func.func @f(%x: tensor<4xi8> {a.note = "old"}, %n: index) -> index { return %n : index }'
    )

    def change(type: Attribute, note: dict[str, Attribute]) -> None:
        note["a.note"] = StringAttr(str(type))
        note["a.size"] = IntegerAttr(len(note), i64)

    change_notes(function, change)
    notes = function.arg_attrs
    assert isinstance(notes, ArrayAttr)
    assert [entry.data["a.note"] for entry in notes] == [
        StringAttr("tensor<4xi8>"),
        StringAttr("index"),
    ]
    assert function.res_attrs is not None
    assert len(function.res_attrs) == 1
