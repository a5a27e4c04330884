"""The header of a GGUF file is read completely, or refused with cause and location."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.metadata import read_metadata
from xdsl_spirv.testing.gguf_header import gguf_header

VALUES = {
    "general.architecture": "llama",
    "llama.block_count": 30,
    "a.float": 0.5,
    "a.flag": True,
    "tokenizer.ggml.tokens": ["Ġthe", "", "日本", "\n"],
    "tokenizer.ggml.token_type": [1, 3, -1],
    "tokenizer.ggml.scores": [0.25, -1.5],
    "nested": [[1, 2], []],
}


def read(data: bytes, folder: Path):
    path = folder / "x.gguf"
    path.write_bytes(data)
    return read_metadata(path)


def test_values_of_all_kinds_are_read(tmp_path: Path):
    assert read(gguf_header(VALUES), tmp_path) == VALUES


def test_headers_that_the_gguf_package_writes_are_read(tmp_path: Path):
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint64("u64", 2**40)
    writer.add_int8("i8", -5)
    writer.add_float64("f64", 1e300)
    writer.add_array("strings", ["a", "ü"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    expected = {"u64": 2**40, "i8": -5, "f64": 1e300, "strings": ["a", "ü"]}
    assert read_metadata(path) == {"general.architecture": "llama", **expected}


WHOLE = gguf_header(VALUES)


@pytest.mark.parametrize("length", range(1, len(WHOLE), 7))
def test_a_truncated_header_is_refused(length: int, tmp_path: Path):
    with pytest.raises(FrontendError, match=r"ends within its header|not a GGUF file"):
        read(WHOLE[:length], tmp_path)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "empty"),
        (b"PK\3\4" + WHOLE, "not a GGUF file"),
        (b"GGUF" + struct.pack("<I", 1) + WHOLE[8:], "GGUF version 1 is unknown"),
        (b"GGUF" + struct.pack(">I", 3) + WHOLE[8:], "big-endian"),
        (gguf_header({"k": "abc"}).replace(b"abc", b"\xff\xfe\xfd"), "not UTF-8"),
        (gguf_header({"k": 1})[:-8] + struct.pack("<II", 99, 1), "unknown type 99"),
        # An array of 2^63 bytes.
        (gguf_header({"k": 1})[:-8] + struct.pack("<IIQ", 9, 0, 2**63), "ends within"),
        (gguf_header({"k": [[[[[1]]]]]}), "unknown type 9"),
        (gguf_header({"k": 1, "j": 1}).replace(b"j", b"k"), "k is listed twice"),
        (gguf_header({"general.architecture": ["llama"]}), "architecture must be of type str"),
        (gguf_header({"tokenizer.ggml.tokens": "a"}), "tokens must be of type list of str"),
        (gguf_header({"tokenizer.ggml.scores": [1, 2]}), "scores must be of type list of float"),
        (gguf_header({"tokenizer.ggml.eos_token_id": True}), "eos_token_id must be of type int"),
        (gguf_header({"tokenizer.ggml.add_bos_token": 0}), "add_bos_token must be of type bool"),
    ],
)
def test_a_broken_header_is_refused_by_its_cause(data: bytes, cause: str, tmp_path: Path):
    with pytest.raises(FrontendError, match=cause) as error:
        read(data, tmp_path)
    assert "x.gguf" in error.value.place
    assert error.value.remedy


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(FrontendError, match="No such file"):
        read_metadata(tmp_path / "missing.gguf")
