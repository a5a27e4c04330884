"""Programs for every described device compile, validate, fit and compute right results."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import dtype_of
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.needs import Needs
from xdsl_spirv.runtime.vulkan.describe import NAMES, OPERATIONS
from xdsl_spirv.targets import Target, TargetError, load, names

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries

FOLDER = Path(__file__).resolve().parents[2] / "targets"
M, N, K = 20, 36, 40
SOURCE = """
func.func @main(%A: tensor<{m}x{k}x{a}>, %B: tensor<{k}x{n}x{a}>) -> tensor<{m}x{n}x{c}> {{
  %zero = arith.constant {zero} : {c}
  %empty = tensor.empty() : tensor<{m}x{n}x{c}>
  %init = linalg.fill ins(%zero : {c}) outs(%empty : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  %r = linalg.matmul ins(%A, %B : tensor<{m}x{k}x{a}>, tensor<{k}x{n}x{a}>)
                     outs(%init : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  return %r : tensor<{m}x{n}x{c}>
}}
"""
TYPES = [
    ("f16", "f32"),
    ("i8", "i32"),
    pytest.param("f16", "f16", marks=pytest.mark.long),
    pytest.param("f32", "f32", marks=pytest.mark.long),
]


def source(a: str, c: str) -> str:
    zero = "0" if c == "i32" else "0.0"
    return SOURCE.format(m=M, n=N, k=K, a=a, c=c, zero=zero)


def test_every_documented_device_has_a_target():
    promised = {"amd-rdna3", "amd-rdna4", "intel-xe2", "arm-mali", "qualcomm-adreno", "nvidia-ada"}
    assert promised | {"lavapipe", "nvidia-h200"} <= set(names())


@pytest.mark.parametrize("name", names())
def test_a_file_says_where_its_numbers_come_from(name: str):
    target = load(name)
    assert target.name == name
    assert target.provenance["kind"] in ("measured", "documented")
    assert len(target.provenance["how"]) > 40
    if target.provenance["kind"] == "documented":
        assert "Not run here" in target.provenance["how"]
    least, most = target.subgroup_size_range
    assert least <= target.subgroup_size <= most
    # Features have the names that `xdsl-spirv devices --write-target` writes.
    assert target.features <= {*NAMES, *OPERATIONS}
    assert bool(target.cooperative_matrix) == ("cooperative-matrix" in target.features)
    listed = json.loads((FOLDER / f"{name}.json").read_text())["cooperative_matrix"]
    assert len({json.dumps(row) for row in listed}) == len(listed)


@pytest.mark.parametrize(("a", "c"), TYPES)
@pytest.mark.parametrize("name", names())
def test_programs_fit_the_device(name: str, a: str, c: str, check_binaries: CheckBinaries):
    target = load(name)
    program = compile_module(parse_text(source(a, c)), name)
    check_binaries(program)
    (code,) = program.code.values()
    needs = Needs.of(code.binary)
    assert needs.matrices <= set(target.cooperative_matrix)
    types = (a, a, c) if a != "i8" else ("s8", "s8", "s32")
    assert bool(needs.matrices) == bool(target.properties_for(types))
    for entry in needs.entry_points.values():
        assert entry.workgroup_size is not None
        assert np.prod(entry.workgroup_size) <= target.max_invocations
        assert np.prod(entry.workgroup_size) % target.subgroup_size == 0
        assert entry.workgroup_bytes <= target.workgroup_memory_bytes
    assert program.manifest.subgroup_size == target.subgroup_size
    generator = np.random.default_rng(1)
    inputs = {
        buffer.name: generator.integers(-3, 4, buffer.sizes).astype(dtype_of(buffer.type))
        for buffer in program.manifest.inputs
    }
    assert all(found.passed for found in check(program, inputs, run(program, inputs)))


def test_the_order_of_words_depends_on_the_type(tmp_path: Path):
    with pytest.raises(TargetError, match="word_order is 16: use a value of type dict"):
        read_with(tmp_path / "t.json", word_order=16)


def read_with(path: Path, **fields: object) -> Target:
    """Returns the target of lavapipe's file with changed fields. None removes a field."""
    data = json.loads((FOLDER / "lavapipe.json").read_text()) | fields
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return load(str(path))


@pytest.mark.parametrize("name", names())
def test_a_model_says_which_scripts_fitted_it(name: str):
    fitted = load(name).model.fitted
    assert fitted.date.startswith("20")
    scripts = re.findall(r"benchmarks/\w+\.py", fitted.how)
    assert scripts
    assert all((FOLDER.parent / script).exists() for script in scripts)


def test_a_model_takes_from_another_what_it_does_not_give(tmp_path: Path):
    own = read_with(tmp_path / "own.json", model={"like": "lavapipe", "rows": {"busy": 3}})
    base = load("lavapipe").model
    assert own.model == replace(base, rows=replace(base.rows, busy=3))
    assert read_with(tmp_path / "none.json", model=None).model == load("lavapipe").model
    gpu = read_with(tmp_path / "gpu.json", model=None, processor=False)
    assert gpu.model == load("nvidia-h200").model
    assert not gpu.processor
    assert read_with(tmp_path / "one.json", processor=None).processor


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ({"dispatch_seconds": 1e-6}, "model.fitted is missing"),
        ({"like": "nvidia-h200"}, "model.rows.on_processor is missing: copy"),
        ({"like": "../lavapipe"}, "model.like is '../lavapipe': name a target of this package"),
        (
            {"like": "nvidia-h200", "rows": {"bussy": 1}},
            "model.rows has the unknown field 'bussy': use",
        ),
        ({"like": "nvidia-h200", "rows": {"busy": 0}}, "model.rows.busy is 0: use at least 1"),
        (
            {"like": "nvidia-h200", "reductions": {"cached": "2"}},
            "model.reductions.cached is '2', but must be a positive number",
        ),
        (
            {"like": "nvidia-h200", "attention": {"structures": [{"strips": 1}]}},
            r"model.attention.structures\[0\].key_fragments is missing",
        ),
    ],
)
def test_a_model_that_is_wrong_is_refused_by_name(
    tmp_path: Path, model: dict[str, object], problem: str
):
    with pytest.raises(TargetError, match=problem):
        read_with(tmp_path / "t.json", model=model)
