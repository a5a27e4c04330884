"""Measured schedules have priority over estimates if they belong to a contraction and fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv import targets
from xdsl_spirv.dialects.schedule import SCHEDULE
from xdsl_spirv.passes.analysis.contraction import Contraction, contraction_of
from xdsl_spirv.passes.schedule.assign_schedule import AssignSchedulePass
from xdsl_spirv.passes.schedule.tuned import (
    TUNED,
    VARIABLE,
    give_schedules,
    key_of,
    lookup,
    parse_schedule,
    path_for,
    read_entries,
)
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import TargetError, load

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct

LAVAPIPE = load("lavapipe")
PRODUCT = """
func.func @main(%a: tensor<16x32xf16>, %b: tensor<32x24xf16>, %c: tensor<16x24xf32>) -> tensor<16x24xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<16x32xf16>, tensor<32x24xf16>) outs(%c : tensor<16x24xf32>) -> tensor<16x24xf32>
  return %r : tensor<16x24xf32>
}
"""  # noqa: E501
ROUNDED = """
#mn = affine_map<(m, n) -> (m, n)>
func.func @main(%a: tensor<16x32xf16>, %b: tensor<32x24xf16>) -> tensor<16x24xf16> {
  %z = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<16x24xf32>
  %c = linalg.fill ins(%z : f32) outs(%i : tensor<16x24xf32>) -> tensor<16x24xf32>
  %r = linalg.matmul ins(%a, %b : tensor<16x32xf16>, tensor<32x24xf16>) outs(%c : tensor<16x24xf32>) -> tensor<16x24xf32>
  %e = tensor.empty() : tensor<16x24xf16>
  %h = linalg.generic {indexing_maps = [#mn, #mn], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<16x24xf32>) outs(%e : tensor<16x24xf16>) {
  ^bb0(%x: f32, %y: f16):
    %t = arith.truncf %x : f32 to f16
    linalg.yield %t : f16
  } -> tensor<16x24xf16>
  return %h : tensor<16x24xf16>
}
"""  # noqa: E501
KEY = (
    "f16 x f16 -> f32, loops 16x24x32 as 0+1+1+1, (d0, d1, d2) -> (d0, d2); "
    "(d0, d1, d2) -> (d2, d1); (d0, d1, d2) -> (d0, d1)"
)
SMALL = (
    "#schedule.contraction<workgroup_tile = [8, 8, 8], subgroups = [1, 1], instruction = "
    "coopmat 8x8x8, a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 8>>"
)
OTHER = SMALL.replace("[8, 8, 8]", "[16, 8, 8]")


def find_product(module: ModuleOp) -> LinalgStructuredOperation:
    (product,) = (op for op in module.walk() if isinstance(op, LinalgStructuredOperation))
    return product


@pytest.fixture
def product() -> Contraction:
    return contraction_of(find_product(parse_text(PRODUCT)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of tables, empty at first."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def write_table(folder: Path, schedule: str, key: str = KEY) -> None:
    content = {"schema_version": 1, "entries": {key: {"schedule": schedule}}}
    (folder / "lavapipe.json").write_text(json.dumps(content))


def test_the_key_has_types_loops_and_maps(product: Contraction, plan_product: PlanProduct):
    assert key_of(product) == KEY
    rest = "a = staged<>, b = staged<>", "fma 1x1x1"
    batches = key_of(plan_product("batches", "4, 2, 8", "1, 1", *rest).contraction)
    assert batches.startswith("f32 x f32 -> f32, loops 5x6x7x8 as 1+1+1+1, (d0, d1, d2, d3) -> ")
    unknown = key_of(plan_product("open_rows", "4, 2, 8", "1, 1", *rest).contraction)
    assert "loops ?x7x8 as 0+1+1+1" in unknown


def test_the_key_tells_weights():
    constant = "%b = arith.constant dense<1.0> : tensor<32x24xf16>"
    text = PRODUCT.replace("%b: tensor<32x24xf16>, ", "").replace("{\n", f"{{\n{constant}\n", 1)
    key = key_of(contraction_of(find_product(parse_text(text))))
    assert key == f"{KEY}; b is a weight"


def test_the_key_tells_the_types_that_are_stored():
    ctx = context()
    module = parse_text(ROUNDED, ctx=ctx)
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches").apply(ctx, module)
    ops = (op for op in module.walk() if isinstance(op, GenericOp))
    product = next(op for op in ops if op.get_num_loops() == 3)
    assert key_of(contraction_of(product)) == f"{KEY}; as f16"


def test_a_schedule_of_the_table_is_assigned(folder: Path):
    def assign() -> str:
        module = parse_text(PRODUCT)
        AssignSchedulePass("lavapipe").apply(context(), module)
        return str(find_product(module).attributes[SCHEDULE])

    estimated = assign()
    write_table(folder, SMALL)
    assert assign() == str(parse_schedule(SMALL)) != estimated


def test_schedules_of_other_contractions_or_that_do_not_fit_are_ignored(
    folder: Path, product: Contraction
):
    assert lookup(product, LAVAPIPE) is None, "no table"
    write_table(folder, SMALL)
    assert lookup(product, LAVAPIPE) == parse_schedule(SMALL)
    write_table(folder, SMALL, "another key")
    assert lookup(product, LAVAPIPE) is None
    write_table(folder, SMALL.replace("coopmat 8x8x8", "coopmat 8x8x4"))
    assert lookup(product, LAVAPIPE) is None
    write_table(folder, SMALL)
    assert lookup(product, replace(LAVAPIPE, name="another")) is None


def test_the_table_of_a_module_has_priority(folder: Path, product: Contraction):
    write_table(folder, OTHER)
    module = product.op.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    give_schedules(module, {key_of(product): parse_schedule(SMALL)})
    assert lookup(product, LAVAPIPE) == parse_schedule(SMALL)
    # The attribute can be printed, so that `xdsl-opt` accepts the same schedule.
    again = contraction_of(find_product(parse_text(str(module))))
    assert lookup(again, LAVAPIPE) == parse_schedule(SMALL)
    give_schedules(module, {"another key": parse_schedule(SMALL)})
    assert lookup(product, LAVAPIPE) == parse_schedule(OTHER)
    del module.attributes[TUNED]
    assert lookup(product, LAVAPIPE) == parse_schedule(OTHER)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("{", "is not a tuned table"),
        ("{}", "is not a tuned table"),
        ('{"schema_version": 7, "entries": {}}', "schema_version is 7, but this version reads 1"),
        ('{"schema_version": 1, "entries": {"key": {}}}', "is not a tuned table"),
        ("[]", "is not a tuned table"),
        ("[" * 100_000, "is not a tuned table"),
    ],
    ids=range(6),
)
def test_a_broken_table_is_named(content: str, cause: str, folder: Path, product: Contraction):
    path = folder / "lavapipe.json"
    path.write_text(content)
    with pytest.raises(TargetError, match=r"lavapipe\.json") as caught:
        lookup(product, LAVAPIPE)
    assert cause in str(caught.value)
    path.write_text('{"schema_version": 1, "entries": {"key": {"schedule": "text", "time": 1}}}')
    assert read_entries(path) == {"key": "text"}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("#schedule.nothing", "is not a schedule"),
        ("no", "is not a schedule"),
        ("1 : i32", "must be a #schedule.contraction"),
        ("#schedule.direct", "must be a #schedule.contraction"),
    ],
)
def test_other_texts_are_refused_as_schedules(text: str, cause: str):
    with pytest.raises(TargetError, match=cause):
        parse_schedule(text)


def test_tables_of_targets_are_in_one_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert path_for("lavapipe") == folder / "lavapipe.json"
    monkeypatch.delenv(VARIABLE)
    assert path_for("lavapipe") == Path(targets.__file__).parent / "tuned" / "lavapipe.json"
