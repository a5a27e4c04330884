"""
The table of spirv-val's verdicts on programs that break a rule matches its verdicts.

A new version of spirv-val, or a new chunk of a rule's test, needs a new table: run
`python scripts/rules_oracle.py --spirv-val PATH ...` and read the difference.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "rules_oracle.py"


def test_table_is_true(spirv_val: str) -> None:
    """Also: spirv-val accepts every program that keeps the rules."""
    command = [sys.executable, str(SCRIPT), "--check", "--spirv-val", spirv_val]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
