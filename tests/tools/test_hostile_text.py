"""
Damaged MLIR text is read, or an error names the fault, without defects and hangs.

The texts are FileCheck inputs with randomly damaged tokens. Each passes the pipeline of its `RUN`
line, so that passes get damaged modules, too.
"""

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path

import pytest

from xdsl_spirv.testing.fuzzing.damage import damage_text
from xdsl_spirv.testing.fuzzing.seeds import texts
from xdsl_spirv.tools.main import main


@cache
def inputs() -> tuple[tuple[str, str], ...]:
    return tuple(texts())


def outcome(number: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> str | None:
    """Returns the fault caused by the damaged text with this index, or None."""
    rng = random.Random(number)
    text, passes = rng.choice(inputs())
    path = folder / "damaged.mlir"
    path.write_text(damage_text(rng, text))
    arguments = ["opt", str(path), *(["-p", passes] if passes and number % 2 else [])]
    depth = sys.getrecursionlimit()
    try:
        status = main(arguments)
    except Exception as error:
        return f"{number}: {' '.join(arguments)}: {type(error).__name__}: {error}"
    finally:
        sys.setrecursionlimit(depth)
    said = capsys.readouterr().err
    if (
        status not in (0, 1, 3)
        or "has a defect" in said
        or (status and not said.startswith("error: "))
    ):
        return f"{number}: {' '.join(arguments)}: {status}: {said[:300]}"
    return None


def test_damaged_text_is_read_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [o for number in range(100) if (o := outcome(number, tmp_path, capsys))] == []


@pytest.mark.long
def test_much_damaged_text_is_read_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = range(1000, 5000)
    assert [o for number in numbers if (o := outcome(number, tmp_path, capsys))] == []
