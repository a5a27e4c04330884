"""The grammar table agrees with Khronos' package, and finds entries by name."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from xdsl_spirv.dialects.spirv import enums
from xdsl_spirv.grammar import Category, grammar, snake_case

ROOT = Path(__file__).resolve().parents[2]


def test_generated_files_are_current():
    table = grammar()
    package, version = table.source.split()
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if installed != version:
        pytest.skip(f"{package} {installed} is installed, the table is from {version}")
    command = [sys.executable, str(ROOT / "scripts" / "generate_grammar.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_instruction_by_name_alias_and_opcode():
    table = grammar()
    dot = table.instruction("OpSDot")
    assert table.instruction("OpSDotKHR") == dot
    assert table.by_opcode(dot.opcode) is dot
    assert [o.field for o in dot.inputs] == ["vector_1", "vector_2", "packed_vector_format"]
    assert [o.quantifier for o in dot.inputs] == ["", "", "?"]
    assert dot.has_result
    assert dot.has_result_type
    assert dot.version == (1, 6)
    assert table.by_opcode(0xFFFF) is None
    assert "OpSDotKHR" in table
    with pytest.raises(KeyError):
        table.instruction("OpNothing")


def test_kind_by_name_alias_and_member():
    capability = grammar().kind("Capability")
    assert capability["DotProductKHR"] is capability["DotProduct"]
    assert capability[enums.Capability.DotProduct] is capability["DotProduct"]
    assert capability["CooperativeMatrixKHR"].version is None
    assert capability["CooperativeMatrixKHR"].extensions == ("SPV_KHR_cooperative_matrix",)
    access = grammar().kind("MemoryAccess")
    assert access.category is Category.BITS
    mask = enums.MemoryAccess.Aligned | enums.MemoryAccess.Volatile
    assert [e.name for e in access.used(mask)] == ["Volatile", "Aligned"]
    assert [p.kind for p in access["MakePointerVisible"].parameters] == ["IdScope"]


def test_implied_capabilities_are_transitive():
    implied = grammar().implied("BFloat16CooperativeMatrixKHR")
    assert implied == {"BFloat16TypeKHR", "CooperativeMatrixKHR"}
    assert "Matrix" in grammar().implied("StorageImageExtendedFormats")
    assert grammar().implied("GroupNonUniformRotateKHR") == {"GroupNonUniform"}


def test_extended_set():
    exp = grammar().instruction("Exp", "GLSL.std.450")
    assert [o.field for o in exp.operands] == ["x"]
    assert exp.name in grammar().extended_names("GLSL.std.450")


def test_generated_enumerations_agree_with_the_table():
    for name in grammar().kind_names:
        kind = grammar().kind(name)
        if kind.category not in (Category.VALUE, Category.BITS):
            continue
        members = getattr(enums, name).__members__.values()
        assert {int(m) for m in members} == {kind[n].value for n in kind.names}


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("Vector 1", "vector_1"),
        ("ClusterSize", "cluster_size"),
        ("MemoryLayout", "memory_layout"),
        ("Argument 0, Argument 1, ...", "arguments"),
        ("Member 0 type, member 1 type, ...", "member_0_types"),
        ("D~ref~", "d_ref"),
        ("LUTIndex", "lut_index"),
    ],
)
def test_snake_case(name: str, field: str):
    assert snake_case(name) == field
