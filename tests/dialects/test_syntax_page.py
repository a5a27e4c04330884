"""docs/syntax.md lists exactly the operations that MLIR does not have."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from xdsl_spirv.dialects.spirv import OPERATIONS

PAGE = Path(__file__).parent.parent.parent / "docs" / "syntax.md"
MLIR_OPT = shutil.which("mlir-opt-22")


def listed() -> set[str]:
    section = PAGE.read_text().partition("## Instructions that MLIR does not have")[2]
    return set(re.findall(r"`(spirv\.[\w.]+)`", section.partition("\n## ")[0]))


def test_listed_operations_exist():
    assert listed() <= {op.name for op in OPERATIONS}


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")
def test_mlir_has_every_operation_that_is_not_listed():
    done = subprocess.run(
        [str(MLIR_OPT), "--split-input-file"],
        input="\n// -----\n".join(op.name for op in OPERATIONS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(re.findall(r"custom op '(spirv\.[\w.]+)' is unknown", done.stderr)) == listed()
