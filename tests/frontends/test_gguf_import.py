"""Language models of GGUF files give numpy's results, and unknown parts are refused."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler import compile
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.signature import argument_name
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.file import read_file
from xdsl_spirv.frontends.gguf.importer import import_gguf
from xdsl_spirv.frontends.gguf.parameters import parameters_of
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.testing.gguf_header import gguf_header
from xdsl_spirv.tools.main import main

pytest.importorskip("gguf")

from xdsl_spirv.testing.gguf_models import Shape, Type, write_model
from xdsl_spirv.testing.gguf_session import Session
from xdsl_spirv.testing.llama_reference import Reference

ONE = Shape(blocks=1)
LARGE = replace(ONE, width=256, hidden=256, head=64, turned=64, tied=False)

SHAPES = {
    "llama": Shape(),
    "llama, heads of 24, no groups": replace(ONE, shared=4, head=24, turned=24, tied=False),
    "llama, frequencies by factors": replace(ONE, factors=True, biases=True),
    "llama, scaled positions": replace(ONE, scaling=4.0),
    "qwen2": replace(ONE, architecture="qwen2", biases=True),
    "qwen2, half of a head turned": replace(ONE, architecture="qwen2", turned=8, heads=6),
    "qwen3": replace(ONE, architecture="qwen3", head=40, turned=40, tied=False),
    "f16": replace(LARGE, weights=Type.F16, embedding=Type.BF16),
    **{t.name: replace(LARGE, weights=t, embedding=t) for t in (Type.Q4_0, Type.Q5_1, Type.Q6_K)},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.gguf"


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_logits_equal_the_logits_of_numpy(shape: Shape, path: Path):
    write_model(path, shape)
    session = Session(import_gguf(path, context=32, cache="f32", of_all=True))
    expected = Reference(path, cache=np.float32)
    tokens = np.random.default_rng(0).integers(0, shape.vocabulary, 9).astype(np.int32)
    for part in np.split(tokens, [5, 6]):
        want = expected.run(part)
        np.testing.assert_allclose(session.run(part), want, rtol=1e-4, atol=1e-5 * abs(want).max())


def test_keys_and_values_are_rounded_to_the_cache(path: Path):
    write_model(path, ONE)
    session, expected = Session(import_gguf(path)), Reference(path)
    tokens = np.arange(12, dtype=np.int32)
    for part in (tokens[:8], tokens[8:]):
        logits = session.run(part)
        want = expected.run(part)[-1:]
        assert logits.shape == want.shape
        np.testing.assert_allclose(logits, want, atol=2e-3 * abs(want).max())


def test_functions_share_weights_of_the_file(path: Path):
    write_model(path, replace(LARGE, weights=Type.Q4_K, embedding=Type.Q8_0, tied=True))
    model = import_gguf(path)
    assert model.functions == ("prefill", "decode")
    names = [
        {argument_name(a, i) for i, a in enumerate(host_function(model.module, f).body.block.args)}
        for f in model.functions
    ]
    assert names[0] == names[1] > set(model.weights)
    packed = sum(a.nbytes for n, a in model.weights.items() if ".weight." in n)
    # Six-bit scales become bytes: 256 weights take 148 bytes instead of 144.
    assert packed < path.stat().st_size * 1.03


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(SHAPES["qwen3"], marks=pytest.mark.long),
        replace(ONE, weights=Type.Q4_1, embedding=Type.Q8_0),
    ],
    ids=["qwen3", "llama in blocks"],
)
def test_a_session_runs_prefill_and_decode(shape: Shape, path: Path):
    write_model(path, shape)
    program = compile(path, "lavapipe", context=24)
    assert list(program.functions) == ["prefill", "decode"]
    expected = Reference(path)
    tokens = np.random.default_rng(0).integers(0, shape.vocabulary, 6).astype(np.int32)
    checks = Checks.of("all")
    with program.session() as session:
        past = 0
        for part in np.split(tokens, [3, 4]):
            function = "decode" if len(part) == 1 else "prefill"
            given = {"token": part, "past": past}
            best = session.run(function, given, checks=checks, outputs=("likeliest", "highest"))
            logits = session.read(function, "logits")
            np.testing.assert_array_equal(best["likeliest"], logits.argmax(1))
            np.testing.assert_array_equal(best["highest"], logits.max(1))
            past += len(part)
            want = expected.run(part)[-1:]
            np.testing.assert_allclose(logits, want, atol=2e-3 * abs(want).max())
        assert not checks.report.findings, str(checks.report)
        with pytest.raises(ProgramError, match=r"past \+ n .* at most 24"):
            session.run("prefill", token=tokens, past=20)
        with pytest.raises(ProgramError):
            session.run("prefill", token=tokens[:0], past=0)


def test_the_likeliest_token_of_nan_logits_is_in_the_vocabulary(path: Path):
    """The device may read this token's embedding before the host sees the NaN."""
    write_model(path, ONE)
    with compile(path, "lavapipe", context=24).session() as session:
        states = {name: np.full_like(array, np.nan) for name, array in session.state().items()}
        session._write(states)  # pyright: ignore[reportPrivateUsage]
        given = {"token": np.array([1], np.int32), "past": 3}
        best = session.run("decode", given, outputs=("likeliest", "highest"))
    assert np.isnan(best["highest"]).all()
    assert best["likeliest"].tolist() == [ONE.vocabulary - 1]


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200", "qualcomm-adreno"])
def test_attention_reads_the_cache_in_place(target: str, path: Path):
    """No dispatch copies the cached keys and values."""
    write_model(path, ONE)
    program = compile(path, target, context=24)
    # Norms of one row are fused into products if this is faster than a launch.
    norms = 0 if target != "lavapipe" else 3
    # At most three kernels find the likeliest token.
    for name, most in (("prefill", 19), ("decode", 13 + norms)):
        dispatches = program.functions[name].manifest.dispatches
        kernels = [d.entry_point.partition("_")[0] for d in dispatches]
        if (name, target) == ("prefill", "nvidia-h200"):
            continue
        assert not {"move", "batch"} & set(kernels)
        # There are too few keys to split them into two parts.
        assert kernels.count("attention") == 1
        assert len(kernels) <= most


def test_the_command_compiles_a_file(path: Path, capsys: pytest.CaptureFixture[str]):
    write_model(path, ONE)
    output = str(path.parent / "program")
    command = ["compile", str(path), "--target", "lavapipe", "--jobs", "1", "-o", output]
    assert main([*command, "--context", "16"]) == 0
    assert Program.load(output).function("decode").manifest.states[0].shape == (1, 2, 16, 16)
    assert main([*command, "--context", "65"]) != 0
    assert (
        "a context of 65 tokens is requested, but the model was trained on 64"
        in capsys.readouterr().err
    )


def edited(path: Path, shape: Shape = Shape(), **changes: Any) -> None:
    """Writes a model, then replaces bytes of its header."""
    write_model(path, shape)
    data = path.read_bytes()
    for old, new in changes.items():
        assert old.encode() in data
        data = data.replace(old.encode(), new.encode())
    path.write_bytes(data)


CHANGES: Mapping[str, tuple[dict[str, str], str]] = {
    "architecture": ({"llama": "gemma"}, "the architecture 'gemma' is not known"),
    "value": ({"context_length": "context_lengti"}, "context_lengti = 64 is not supported"),
    "missing tensor": ({"blk.1.ffn_up": "blk.1.ffn_op"}, "'blk.1.ffn_up.weight' is missing"),
    "unknown tensor": ({"rope_freqs": "rope_frets"}, "'rope_frets.weight' is unknown in llama"),
    "double tensor": ({"blk.1.ffn_up": "blk.0.ffn_up"}, "'blk.0.ffn_up.weight' is listed twice"),
}

VALUES: Mapping[str, tuple[Any, str]] = {
    "split.count": (2, "the file is one of 2 parts of a model"),
    "llama.block_count": (2**32 - 1, "4294967295 blocks, but only 20 tensors"),
    "llama.context_length": ([[64]], r"context_length is \[64\]"),
    "llama.rope.freq_base": (np.inf, "freq_base is inf"),
    "llama.rope.scaling.factor": ("two", "factor is two"),
    "llama.rope.scale_linear": ([], r"factor is \[\]"),
    "llama.expert_count": (8, "llama.expert_used_count is missing"),
    "llama.attention.sliding_window": (5, "llama.attention.sliding_window = 5 is not supported"),
    "llama.rope.scaling.type": ("longer", "positions are scaled by 'longer'"),
    "llama.rope.scaling.yarn_ext_factor": (0.5, "mix factor other than 1"),
}


@pytest.mark.parametrize("key", VALUES)
def test_meaningless_metadata_is_refused(key: str, path: Path):
    value, message = VALUES[key]
    write_model(path, Shape())
    file = read_file(path)
    with pytest.raises(FrontendError, match=message):
        parameters_of(replace(file, values={**file.values, key: value}))


def test_a_factor_of_0_scales_no_position(path: Path):
    write_model(path, Shape())
    file = read_file(path)
    values = {**file.values, "llama.rope.scaling.factor": 0.0, "llama.rope.scale_linear": 4.0}
    plain, scaled = parameters_of(file), parameters_of(replace(file, values=values))
    assert plain.rotation == scaled.rotation


@pytest.mark.parametrize(
    ("offset", "message"),
    [(17, "begins at 17, which is not a multiple of 32"), (0, "begins within")],
)
def test_a_tensor_outside_of_the_file_is_refused(offset: int, message: str, path: Path):
    write_model(path, ONE)
    data = path.read_bytes()
    name = b"blk.0.ffn_up.weight"
    # The number of dimensions, two dimensions and the format precede the offset.
    at = data.index(name) + len(name) + 4 + 2 * 8 + 4
    path.write_bytes(data[:at] + struct.pack("<Q", offset) + data[at + 8 :])
    with pytest.raises(FrontendError, match=message):
        import_gguf(path)


@pytest.mark.parametrize(("changes", "message"), CHANGES.values(), ids=CHANGES)
def test_unknown_parts_are_refused_by_name(changes: dict[str, str], message: str, path: Path):
    edited(path, Shape(factors=True), **changes)
    with pytest.raises(FrontendError, match=message) as error:
        import_gguf(path)
    assert "x.gguf" in error.value.place
    assert error.value.remedy


WRONG: Mapping[str, tuple[Shape, str]] = {
    "part of llama's heads": (
        Shape(turned=8),
        "8 rotated elements do not fit a head of 16 elements",
    ),
    "odd groups": (Shape(heads=4, shared=3), "4 query heads cannot share 3"),
}


@pytest.mark.parametrize(("shape", "message"), WRONG.values(), ids=WRONG)
def test_sizes_that_do_not_fit_are_refused(shape: Shape, message: str, path: Path):
    write_model(path, shape)
    with pytest.raises(FrontendError, match=message):
        import_gguf(path)


@pytest.mark.parametrize("context", [0, 65, -1])
def test_a_context_that_was_not_trained_is_refused(context: int, path: Path):
    write_model(path, Shape())
    with pytest.raises(FrontendError, match=f"a context of {context} tokens .* on 64"):
        import_gguf(path, context=context)


def test_a_file_that_ends_early_is_refused(path: Path):
    write_model(path, Shape())
    data = path.read_bytes()
    for length in (len(data) - 1, len(data) - 10000, len(data) // 2):
        path.write_bytes(data[:length])
        with pytest.raises(FrontendError, match="the file ends within the tensor"):
            import_gguf(path)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (struct.pack("<IQQIQ", 2, 64, 80, 16, 0), "'x' has the unsupported format IQ2_XXS"),
        (struct.pack("<IQQIQ", 2, 64, 80, 42, 0), "'x' has the unsupported format Q2_0"),
        (struct.pack("<IQQIQ", 2, 64, 80, 4000, 0), "'x' has the unsupported format type 4000"),
        (
            struct.pack("<IQQIQ", 2, 63, 80, 2, 0),
            "'x' has 63 columns, which is not a multiple of the block size 32",
        ),
        (struct.pack("<IQQIQ", 2, 2**60, 2**60, 0, 0), "ends within the tensor 'x'"),
        (struct.pack("<IQQIQ", 2, 64, 80, 0, 2**64 - 1), "ends within the tensor 'x'"),
        (struct.pack("<I", 5), "'x' has 5 dimensions"),
        (b"", "ends within its header"),
    ],
)
def test_a_broken_tensor_is_refused(info: bytes, message: str, path: Path):
    head = bytearray(gguf_header({"general.architecture": "llama"}))
    head[8:16] = struct.pack("<Q", 1)
    path.write_bytes(bytes(head) + struct.pack("<Q", 1) + b"x" + info)
    with pytest.raises(FrontendError, match=message):
        import_gguf(path)
