"""CM-18: component mappings agree with measurements on drivers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv import targets
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Scope
from xdsl_spirv.interpreter import InterpreterError, Options
from xdsl_spirv.interpreter.component_maps import applies, count, fragment, positions
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.targets import Fragment, load
from xdsl_spirv.testing.differential.machine import machine

MEASURED = json.loads((Path(__file__).parent / "data" / "component_maps.json").read_text())
USES = {
    "A": CooperativeMatrixUse.MatrixAKHR,
    "B": CooperativeMatrixUse.MatrixBKHR,
    "Acc": CooperativeMatrixUse.MatrixAccumulatorKHR,
}
DTYPES = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32}


def form_of(case: dict[str, Any]) -> CooperativeMatrix:
    dtype = np.dtype(DTYPES[case["element"]])
    return CooperativeMatrix(
        dtype, case["rows"], case["columns"], Scope.Subgroup, USES[case["use"]]
    )


@pytest.mark.parametrize(
    "case",
    MEASURED["cases"],
    ids=lambda c: f"{c['driver']}-{c['rows']}x{c['columns']}x{c['element']}-{c['use']}",
)
def test_maps_agree_with_measurements(case: dict[str, Any]) -> None:
    held = np.array(case["held"])
    lanes, components = held.shape
    lane, index = np.arange(lanes)[:, None], np.arange(components)
    assert (positions(case["driver"], form_of(case), lanes, lane, index) == held).all()


@pytest.mark.parametrize("case", MEASURED["cases"])
def test_target_files_have_the_measured_maps(case: dict[str, Any]) -> None:
    held = np.array(case["held"])
    name = {"nvidia": "nvidia-h200"}.get(case["driver"], case["driver"])
    path = Path(targets.__file__).parent / f"{name}.json"
    known = fragment(str(path), form_of(case), len(held))
    assert known is not None
    assert (known == held).all()


@pytest.mark.parametrize("mapping", ["row-major", "column-major", "opaque", "nvidia"])
def test_every_element_has_one_component(mapping: Any) -> None:
    form = CooperativeMatrix(np.dtype(np.float16), 16, 32, Scope.Subgroup)
    lane, index = np.arange(32)[:, None], np.arange(16)
    found = positions(mapping, form, 32, lane, index)
    assert sorted(found.reshape(-1).tolist()) == list(range(512))


DOCUMENTED = [(name, each) for name in targets.names() for each in load(name).component_map]
WIDTHS = {8: np.int8, 16: np.float16, 32: np.float32}


def held(mapping: Any, each: Fragment, bits: int) -> Array:
    """Returns row and column of each component: (lanes, components, 2)."""
    form = CooperativeMatrix(
        np.dtype(WIDTHS[bits]), each.rows, each.columns, Scope.Subgroup, USES[each.use]
    )
    lanes = each.lanes
    components = count(mapping, form, lanes)
    found = positions(mapping, form, lanes, np.arange(lanes)[:, None], np.arange(components))
    return np.stack(np.divmod(found, each.columns), axis=-1)


@pytest.mark.parametrize(
    ("name", "each"),
    DOCUMENTED,
    ids=lambda v: f"{v.use}-{v.rows}x{v.columns}-{v.lanes}" if isinstance(v, Fragment) else v,
)
def test_documented_maps_hold_every_component_equally_often(name: str, each: Fragment) -> None:
    """Each component is stored once, or in A and B of RDNA 3 once for every 16 lanes."""
    replicated = name.startswith("amd-rdna3") and each.use != "Acc"
    times = each.lanes // 16 if replicated else 1
    for bits in each.component_bits:
        places = held(name, each, bits).reshape(-1, 2)
        found, counts = np.unique(places, axis=0, return_counts=True)
        assert len(found) == each.rows * each.columns
        assert (counts == times).all()
        if replicated:
            again = held(name, each, bits).reshape(-1, 16, 16, 2)
            assert (again == again[0]).all()


def one(name: str, use: str, bits: int, lanes: int, columns: int = 16) -> Array:
    """Returns the only map of a use in a data file."""
    (each,) = [
        each
        for mapping, each in DOCUMENTED
        if (mapping, each.use, each.lanes, each.columns) == (name, use, lanes, columns)
        and bits in each.component_bits
    ]
    return held(name, each, bits)


def test_the_map_of_rdna3_is_that_of_gpuopen() -> None:
    """
    The map equals the one in GPUOpen's article on RDNA 3.

    The article has `a_frag[e] = a[16 * (lane % 16) + e]` and `b_frag[e] = b[16 * e + lane % 16]`.
    The result has row 2 * e + lane / 16 and column lane % 16 for 32 invocations.
    """
    lane, element = np.ogrid[:32, :16]
    a, b, c = (one("amd-rdna3", use, 16, 32) for use in ("A", "B", "Acc"))
    assert (16 * a[..., 0] + a[..., 1] == 16 * (lane % 16) + element).all()
    assert (16 * b[..., 0] + b[..., 1] == 16 * element + lane % 16).all()
    assert (c[..., 0] == 2 * element[:, :8] + lane // 16).all()
    assert (c[..., 1] == lane % 16).all()
    wide = one("amd-rdna3", "Acc", 32, 64)
    lane, element = np.ogrid[:64, :4]
    assert (wide[..., 0] == 4 * element + lane // 16).all()


def test_the_map_of_rdna4_is_that_of_mesa() -> None:
    """The map equals Mesa's diagram of the first element of every 16 invocations."""
    rows = {32: [0, 8], 64: [0, 8, 4, 12]}
    for lanes, first in rows.items():
        for use, axis in (("Acc", 0), ("B", 0), ("A", 1)):
            found = one("amd-rdna4", use, 16, lanes)
            lane, element = np.ogrid[:lanes, : found.shape[1]]
            assert (found[..., axis] == np.repeat(first, 16)[:, None] + element).all()
            assert (found[..., 1 - axis] == lane % 16).all()


def test_the_map_of_xe2_is_that_of_mesa() -> None:
    """Components of C are rows. A word packs elements of a row of A, or of a column of B (VNNI)."""
    c = one("intel-xe2", "Acc", 32, 16)
    lane, element = np.ogrid[:16, :8]
    assert (c[..., 0] == element).all()
    assert (c[..., 1] == lane).all()
    for bits, columns in ((16, 16), (8, 32)):
        packed, words = 32 // bits, columns * bits // 32
        a = one("intel-xe2", "A", bits, 16, columns)
        lane, element = np.ogrid[:16, : a.shape[1]]
        # The first word of invocation 1 has columns 2 and 3 of row 0, 16 bits each.
        assert (a[..., 1] == lane % words * packed + element % packed).all()
        assert (a[..., 0] == lane // words + element // packed * (16 // words)).all()
        b = one("intel-xe2", "B", bits, 16)
        lane, element = np.ogrid[:16, : b.shape[1]]
        assert (b[..., 0] == element).all()
        assert (b[..., 1] == lane).all()


def test_listed_shapes_are_known() -> None:
    """Every matrix shape in a target file has a map."""
    for name in {name for name, _ in DOCUMENTED}:
        target = machine(name)
        kinds = {"A": target.shapes("A"), "B": target.shapes("B"), "Acc": target.shapes("Acc")}
        for use, components in kinds.items():
            for component, shapes in components.items():
                dtype = np.dtype(f"i{int(component.lstrip('ifb')) // 8}")
                for shape in shapes:
                    form = CooperativeMatrix(dtype, *shape, Scope.Subgroup, USES[use])
                    assert applies(name, form, target.subgroup), (name, use, component, shape)  # pyright: ignore


def test_unmeasured_mappings_are_refused() -> None:
    form = CooperativeMatrix(np.dtype(np.float16), 12, 16, Scope.Subgroup)
    with pytest.raises(InterpreterError, match="not known for 12x16"):
        positions("nvidia", form, 32, np.zeros(1, np.int64), np.zeros(1, np.int64))


def test_an_unknown_mapping_is_refused_by_name():
    with pytest.raises(InterpreterError, match="no component mapping 'nvidia-ada'") as refused:
        Options(component_mapping="nvidia-ada")
    assert "amd-rdna3" in str(refused.value)
