"""A real model gives numpy's logits and answer on the available driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends.gguf.importer import import_gguf
from xdsl_spirv.frontends.gguf.metadata import read_metadata
from xdsl_spirv.llm.tokenizer import Tokenizer
from xdsl_spirv.llm.vocabulary import vocabulary_of

pytest.importorskip("gguf")

from xdsl_spirv.testing.llama_reference import Reference

pytestmark = [pytest.mark.long, pytest.mark.vulkan]

TEXT = """\
The history of the lighthouse begins long before the first towers were built of stone. Fires were \
lit on hilltops to guide sailors home, and later they were placed on platforms so that the flame \
could be seen from farther away. The most famous of the ancient lighthouses stood at the entrance \
of the harbour of Alexandria, where it was counted among the wonders of the world."""


def test_logits_and_answer_of_smollm2_are_right(smollm2: Path, lavapipe: Path, tmp_path: Path):
    pytest.importorskip("tokenizers")
    tokenizer = Tokenizer(vocabulary_of(read_metadata(smollm2), str(smollm2)))
    tokens = np.array(tokenizer.encode(TEXT)[:64], np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    program = compile_model(import_gguf(smollm2, context=128, of_all=True), "lavapipe")
    program.save(tmp_path / "program")
    script = Path(__file__).parent / "vulkan" / "logits_and_answer.py"
    result = tmp_path / "result.npz"
    command = [sys.executable, script, tmp_path / "program", tmp_path / "tokens.npy", "16", "32"]
    subprocess.run([lavapipe, *command, result], check=True, timeout=1000)
    found, expected = np.load(result), Reference(smollm2)
    logits, want = found["logits"], expected.run(tokens)
    lengths = np.linalg.norm(logits, axis=1) * np.linalg.norm(want, axis=1)
    assert ((logits * want).sum(1) / lengths).min() >= 0.9999
    following = expected.greedy([int(token) for token in tokens[:16]], 32)
    assert found["following"].tolist() == following
