"""
The table of spirv-val's verdicts on programs that break a rule is up to date.

After a new version of spirv-val or a new chunk of a rule's test, run `python
scripts/rules_oracle.py --spirv-val PATH ...` and review the difference.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "rules_oracle.py"


def test_the_table_has_the_verdicts_of_spirv_val(spirv_val: str) -> None:
    """spirv-val also accepts every program that keeps all rules."""
    command = [sys.executable, str(SCRIPT), "--check", "--spirv-val", spirv_val]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
