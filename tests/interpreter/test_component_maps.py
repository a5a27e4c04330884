"""CM-18: the component mappings, against what drivers were measured to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Scope
from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.component_maps import positions
from xdsl_spirv.interpreter.forms import CooperativeMatrix

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
def test_measured(case: dict[str, Any]) -> None:
    held = np.array(case["held"])
    lanes, components = held.shape
    lane, index = np.arange(lanes)[:, None], np.arange(components)
    assert (positions(case["driver"], form_of(case), lanes, lane, index) == held).all()


@pytest.mark.parametrize("mapping", ["row-major", "column-major", "opaque", "nvidia"])
def test_every_component_is_held_once(mapping: Any) -> None:
    form = CooperativeMatrix(np.dtype(np.float16), 16, 32, Scope.Subgroup)
    lane, index = np.arange(32)[:, None], np.arange(16)
    found = positions(mapping, form, 32, lane, index)
    assert sorted(found.reshape(-1).tolist()) == list(range(512))


def test_what_was_not_measured_is_refused() -> None:
    form = CooperativeMatrix(np.dtype(np.float16), 12, 16, Scope.Subgroup)
    with pytest.raises(InterpreterError, match="not known for 12x16"):
        positions("nvidia", form, 32, np.zeros(1, np.int64), np.zeros(1, np.int64))
