"""A group of operations becomes one dispatch without a cycle, and cheap values are copied."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.schedule import DispatchOp
from xdsl_spirv.passes.graph.grouping import Group, is_cheap, is_computed, typical_size
from xdsl_spirv.runtime.modules import parse_text

# Arrows to the right: %a -> %b -> %d, %a -> %c -> %d, and %d -> %e. %side does not depend on %a.
TEXT = """
func.func @main(%x: tensor<4xf32>, %n: f32, %open: tensor<?xf32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %one = arith.constant 1.0 : f32
  %numbers = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %same = arith.constant dense<2.0> : tensor<4xf32>
  %o = tensor.empty() : tensor<4xf32>
  %ones = linalg.fill ins(%one : f32) outs(%o : tensor<4xf32>) -> tensor<4xf32>
  %given = linalg.fill ins(%n : f32) outs(%o : tensor<4xf32>) -> tensor<4xf32>
  %a = linalg.add ins(%x, %ones : tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>)
    -> tensor<4xf32>
  %side = linalg.exp ins(%x : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
  %b = linalg.mul ins(%a, %numbers : tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>)
    -> tensor<4xf32>
  %c = linalg.negf ins(%a : tensor<4xf32>) outs(%o : tensor<4xf32>) -> tensor<4xf32>
  %d = linalg.add ins(%b, %c : tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>)
    -> tensor<4xf32>
  %e = linalg.sub ins(%d, %side : tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>)
    -> tensor<4xf32>
  return %e, %b : tensor<4xf32>, tensor<4xf32>
}
"""


def parse() -> tuple[ModuleOp, dict[str, SSAValue]]:
    """Returns the module, and its values by name."""
    module = parse_text(TEXT)
    values = [result for op in module.walk() for result in op.results]
    values += [a for op in module.ops for region in op.regions for a in region.block.args]
    return module, {value.name_hint or "": value for value in values}


def owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def group_of(
    values: dict[str, SSAValue], root: str, accepts: Callable[[str], bool]
) -> tuple[Group, list[str | None]]:
    """
    Grows a group from `root` by the operations that `accepts` names. Returns the group, and the
    names of its values in the block's order.
    """
    group = Group(owner(values[root]))
    group.grow(lambda op: bool(op.results) and accepts(op.results[0].name_hint or ""))
    return group, [op.results[0].name_hint for op in group.ordered()]


def test_a_group_grows_by_its_readers():
    _, values = parse()
    _, names = group_of(values, "a", lambda name: True)
    assert names == ["a", "b", "c", "d", "e"]
    assert group_of(values, "d", lambda name: True)[1] == ["d", "e"]


def test_a_group_has_no_gap():
    """%c is not accepted, so %d and %e, which depend on the group through %c, stay outside."""
    _, values = parse()
    group, names = group_of(values, "a", lambda name: name != "c")
    assert names == ["a", "b"]
    assert {value.name_hint for value in group.results()} == {"a", "b"}
    assert owner(values["b"]) in group
    assert group.produces(values["b"])
    assert not group.produces(values["c"])
    outside = [value.name_hint for value in group.outside(owner(values["b"]))]
    assert outside == ["numbers", "o"]


def test_a_dispatch_has_the_inputs_and_results_of_its_group():
    """Constants and fills with constants are copied."""
    module, values = parse()
    group, _ = group_of(values, "a", lambda name: name != "e")
    dispatch = group.contract()
    module.verify()
    assert [value.name_hint for value in dispatch.inputs] == ["x", "numbers"]
    assert [value.name_hint for value in dispatch.results] == ["b", "d"]
    body = [op.results[0].name_hint for op in dispatch.body.block.ops if op.results]
    assert body[-4:] == ["a", "b", "c", "d"]
    assert {"one", "o", "ones"} == set(body[:-4])
    names = [op.results[0].name_hint for op in module.walk() if op.name == "linalg.fill"]
    assert names == ["given", "ones"], "outside of the dispatch no operation reads %ones"


def test_an_operation_between_members_that_reads_one_is_moved_behind():
    """%c reads the group but is not in it, and stands between two members."""
    module, values = parse()
    group = Group(owner(values["a"]))
    group.add(owner(values["b"]))
    group.add(owner(values["a"]))
    negated, product = owner(values["c"]), owner(values["b"])
    negated.detach()
    assert group.block.first_op is not None
    group.block.insert_op_before(negated, product)
    dispatch = group.contract()
    module.verify()
    names = [
        "dispatch" if op is dispatch else op.results[0].name_hint
        for op in group.block.ops
        if isinstance(op, DispatchOp) or (op.results and op.results[0].name_hint in ("c", "d"))
    ]
    assert names == ["dispatch", "c", "d"]


@pytest.mark.parametrize(
    ("name", "cheap"),
    [
        ("one", True),
        ("same", True),
        ("numbers", False),
        ("o", True),
        ("ones", True),
        ("given", False),
        ("a", False),
        ("x", False),
        ("n", False),
    ],
)
def test_values_of_constants_are_cheap(name: str, cheap: bool):
    _, values = parse()
    assert is_cheap(values[name]) == cheap


def test_scalars_that_are_not_constant_are_computed():
    _, values = parse()
    assert [name for name in ("one", "n", "x", "same") if is_computed(values[name])] == ["n"]
    assert typical_size(values["x"]) == 4
    assert typical_size(values["open"]) > 4
