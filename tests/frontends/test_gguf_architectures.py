"""Every declared architecture of GGUF files gives llama.cpp's logits for the same file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("cyllama")

from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends.gguf.architectures import ARCHITECTURES
from xdsl_spirv.frontends.gguf.importer import import_gguf
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.testing.gguf_models import Type, write_declared, write_dequantized
from xdsl_spirv.testing.gguf_session import Session
from xdsl_spirv.testing.llama_cpp import LlamaCpp

COMMON: Mapping[str, Any] = {
    "vocab_size": 80,
    "block_count": 2,
    "context_length": 64,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 16,
    "attention.value_length": 16,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.dimension_count": 16,
    "rope.freq_base": 1000.0,
}
YARN: Mapping[str, Any] = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 16,
}
EXPERTS: Mapping[str, Any] = {
    "expert_count": 8,
    "expert_used_count": 3,
    "expert_feed_forward_length": 32,
}


def of_experts(type: Any) -> Callable[[str], Any]:
    return lambda name: type if "exps" in name else Type.F32


def is_bias(name: str) -> bool:
    return name.endswith(".bias") and name != "output.bias" and "exp_probs" not in name


def is_bias_of_heads(name: str) -> bool:
    return any(f"attn_{n}.bias" in name for n in "qkv")


@dataclass(frozen=True)
class Model:
    """Metadata of a model in addition to `COMMON`, and its optional tensors."""

    architecture: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    optional: Callable[[str], bool] = lambda name: False
    types: Callable[[str], Any] = lambda name: Type.F32


MODELS = {
    "llama, YaRN": Model("llama", YARN, lambda name: name == "output.weight"),
    "mixtral": Model("llama", {**EXPERTS, "feed_forward_length": 32}),
    "qwen2moe": Model(
        "qwen2moe",
        {**EXPERTS, "expert_shared_feed_forward_length": 48},
        lambda name: name == "output.weight" or is_bias_of_heads(name),
    ),
    "qwen2": Model("qwen2", optional=is_bias_of_heads),
    "qwen3": Model("qwen3"),
    "qwen3moe": Model("qwen3moe", EXPERTS),
    "gemma2": Model(
        "gemma2",
        {
            "attention.sliding_window": 5,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": Model(
        "gemma3",
        {
            "block_count": 7,
            "attention.sliding_window": 5,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
            "rope.freq_base": 1e6,
        },
    ),
    "phi3": Model(
        "phi3",
        {
            "rope.dimension_count": 12,
            "rope.scaling.original_context_length": 16,
            "rope.scaling.attn_factor": 1.25,
        },
        lambda name: name.startswith("rope_factors") or name == "output.weight",
    ),
    "smollm3": Model("smollm3", {"block_count": 5}),
    "olmo2": Model("olmo2", optional=lambda name: name == "output.weight"),
    "olmo3": Model(
        "olmo2",
        {**YARN, "attention.sliding_window": 5, "block_count": 4},
        lambda name: name == "output.weight",
    ),
    "granite": Model(
        "granite",
        {
            "embedding_scale": 12.0,
            "residual_scale": 0.22,
            "logit_scale": 8.0,
            "attention.scale": 0.03,
        },
    ),
    "granitemoe": Model(
        "granitemoe",
        {
            **{k: v for k, v in EXPERTS.items() if "length" not in k},
            "feed_forward_length": 32,
            "expert_shared_feed_forward_length": 48,
            "logit_scale": 8.0,
            "embedding_scale": 12.0,
            "residual_scale": 0.22,
            "attention.scale": 0.03,
        },
    ),
    "gpt-oss": Model(
        "gpt-oss",
        {**YARN, **EXPERTS, "attention.sliding_window": 5, "block_count": 4},
        lambda name: is_bias(name) or name == "output.weight",
    ),
    "dots1": Model(
        "dots1",
        {
            **EXPERTS,
            "attention.head_count_kv": 4,
            "expert_shared_count": 2,
            "expert_weights_scale": 1.5,
            "expert_weights_norm": True,
            "expert_gating_func": 2,
            "leading_dense_block_count": 1,
        },
        lambda name: name == "output.weight" or "exp_probs" in name,
    ),
}
TOKENS = 24
LONG = {
    "mixtral",
    "qwen2",
    "qwen2moe",
    "dots1",
    "olmo3",
    "qwen3",
    "smollm3",
    "olmo2",
    "granite",
    "granitemoe",
    "qwen3moe",
    "llama, YaRN",
}


def test_each_architecture_is_compared():
    assert {model.architecture for model in MODELS.values()} == set(ARCHITECTURES)


def compare(name: str, path: Path | str) -> tuple[float, float]:
    """Returns the least cosine with llama.cpp's logits, and the largest relative difference."""
    model = MODELS[name]
    values = {**COMMON, **model.values}
    write_declared(path, model.architecture, values, model.types, model.optional)
    session = Session(import_gguf(path, context=48, cache="f32", of_all=True))
    judge = LlamaCpp(path, 48)
    tokens = np.random.default_rng(0).integers(0, 80, TOKENS).astype(np.int32)
    parts = np.split(tokens, [TOKENS - 3, TOKENS - 2])
    ours = np.concatenate([session.run(part) for part in parts[:2]])
    theirs = np.concatenate([judge.run(part) for part in parts[:2]])
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    assert theirs.std() > 0.01
    cosine = float(((ours * theirs).sum(1) / norms).min())
    return cosine, float(abs(ours - theirs).max() / abs(theirs).max())


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] if n in LONG else []) for n in MODELS]
)
def test_logits_equal_the_logits_of_llama_cpp(name: str, tmp_path: Path):
    cosine, _ = compare(name, tmp_path / "x.gguf")
    assert cosine >= 0.9999


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_equal_the_tokens_of_llama_cpp(name: str, tmp_path: Path):
    path, model = tmp_path / "x.gguf", MODELS[name]
    write_declared(
        path, model.architecture, {**COMMON, **model.values}, model.types, model.optional
    )
    session, judge = Session(import_gguf(path, context=48, cache="f32")), LlamaCpp(path, 48)
    tokens = np.arange(1, 9, dtype=np.int32)
    for _ in range(32):
        ours, theirs = session.run(tokens)[-1], judge.run(tokens)[-1]
        assert ours.argmax() == theirs.argmax()
        assert ours @ theirs >= 0.9999 * np.linalg.norm(ours) * np.linalg.norm(theirs)
        tokens = ours.argmax(keepdims=True).astype(np.int32)


@pytest.mark.parametrize(
    "name", [n if n == "gemma2" else pytest.param(n, marks=pytest.mark.long) for n in MODELS]
)
def test_texts_of_a_batch_get_the_logits_of_single_texts(name: str, tmp_path: Path):
    path, model = tmp_path / "x.gguf", MODELS[name]
    write_declared(
        path, model.architecture, {**COMMON, **model.values}, model.types, model.optional
    )
    alone = import_gguf(path, context=48, cache="f32")
    together = Session(import_gguf(path, context=48, cache="f32", slots=3))
    lengths, tokens, expected = (9, 2, 14), list[int](), list[Any]()
    for slot, length in enumerate(lengths):
        text, session = np.arange(3 * slot, 3 * slot + length, dtype=np.int32), Session(alone)
        logits = session.run(text)
        given = {"token": text, "past": 0, "slot": slot}
        np.testing.assert_allclose(together.call("prefill", **given), logits, rtol=1e-5)
        tokens.append(int(logits[-1].argmax()))
        expected += [*session.run(np.array(tokens[-1:], np.int32))]
    logits = together.call(
        "decode_batch",
        token=np.array(tokens, np.int32),
        position=np.array(lengths, np.int32),
        past=max(lengths),
        **{f"past_{slot}": length for slot, length in enumerate(lengths)},
    )
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.long
@pytest.mark.vulkan
@pytest.mark.parametrize("name", MODELS)
def test_lavapipe_answers_as_the_interpreter(name: str, lavapipe: Path, tmp_path: Path):
    path, model = tmp_path / "x.gguf", MODELS[name]
    write_declared(
        path, model.architecture, {**COMMON, **model.values}, model.types, model.optional
    )
    tokens = np.random.default_rng(1).integers(0, 80, 14).astype(np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    compile_model(import_gguf(path, context=48, of_all=True), "lavapipe").save(tmp_path / "program")
    imported = import_gguf(path, context=48, of_all=True)
    script = Path(__file__).parent.parent / "llm" / "vulkan" / "logits_and_answer.py"
    result = tmp_path / "result.npz"
    command = [sys.executable, script, tmp_path / "program", tmp_path / "tokens.npy", "11", "8"]
    subprocess.run([lavapipe, *command, result], check=True, timeout=1000)
    there = np.load(result)
    logits = Session(imported).run(tokens)
    np.testing.assert_allclose(there["logits"], logits, atol=2e-3 * abs(logits).max())
    session = Session(imported)
    last = session.run(tokens[:11])[-1]
    for token in there["following"]:
        # Two tokens may be equally likely within the tolerance.
        assert last[token] >= last.max() - 4e-3 * abs(last).max()
        last = session.run(np.array([token], np.int32))[-1]


@pytest.mark.parametrize(
    "format",
    ["MXFP4", "NVFP4", *(pytest.param(n, marks=pytest.mark.long) for n in ("Q4_K", "IQ4_XS"))],
)
def test_experts_in_block_formats_are_dequantized(format: str, tmp_path: Path):
    """llama.cpp gets dequantized weights, because it rounds activations of block formats."""
    packed, plain = tmp_path / "x.gguf", tmp_path / "y.gguf"
    values = {**COMMON, **EXPERTS, "embedding_length": 256, "expert_feed_forward_length": 256}
    write_declared(packed, "qwen3moe", values, of_experts(getattr(Type, format)))
    write_dequantized(packed, plain)
    tokens = np.arange(6, dtype=np.int32)
    ours = Session(import_gguf(packed, context=8, cache="f32", of_all=True)).run(tokens)
    theirs = LlamaCpp(plain, 8).run(tokens)
    np.testing.assert_allclose(ours, theirs, atol=2e-5 * abs(theirs).max())


def test_a_matrix_in_f4_has_an_own_scale(tmp_path: Path):
    packed, plain = tmp_path / "x.gguf", tmp_path / "y.gguf"
    values = {**COMMON, "embedding_length": 64, "feed_forward_length": 128}
    write_declared(
        packed,
        "llama",
        values,
        lambda name: Type.NVFP4 if "blk" in name else Type.F32,
        lambda name: name.endswith("scale"),
    )
    write_dequantized(packed, plain)
    tokens = np.arange(6, dtype=np.int32)
    ours = Session(import_gguf(packed, context=8, cache="f32", of_all=True)).run(tokens)
    theirs = LlamaCpp(plain, 8).run(tokens)
    np.testing.assert_allclose(ours, theirs, atol=2e-5 * abs(theirs).max())


def test_kernels_of_experts_give_the_functions_logits(tmp_path: Path):
    """
    The target computes norms and activations in products.

    Gates and activation are one kernel, the products of a token's experts another, and the norms
    of all heads a third. Three more kernels find the likeliest token.
    """
    path = tmp_path / "x.gguf"
    values = {**COMMON, **EXPERTS, "block_count": 1, "embedding_length": 256}
    write_declared(path, "qwen3moe", values, of_experts(Type.MXFP4))
    program = compile_model(import_gguf(path, context=8), "nvidia-h200")
    ours, theirs = program.session(), Session(import_gguf(path, context=8))
    names = [layer.entry_point for layer in program.function("decode").layers]
    assert len(names) == 11 + 3, names
    assert [name for name in names if "matmul_1x192x256" in name], names
    for past, token in enumerate((3, 41, 7)):
        given = np.array([token], np.int32)
        logits = ours.run("decode", token=given, past=past)["logits"]
        expected = theirs.run(given)
        np.testing.assert_allclose(logits, expected, atol=2e-3 * abs(expected).max())


def test_attention_with_sinks_is_one_kernel(tmp_path: Path):
    """No scores are in memory. All checks pass for a prompt and a following token."""
    path, model = tmp_path / "x.gguf", MODELS["gpt-oss"]
    values = {**COMMON, **model.values, "block_count": 2}
    write_declared(path, model.architecture, values, model.types, model.optional)
    program = compile_model(import_gguf(path, context=48, cache="f32"), "lavapipe")
    ours, theirs = program.session(), Session(import_gguf(path, context=48, cache="f32"))
    checks = Checks.all()
    for past, length in ((0, 11), (11, 1)):
        name = "prefill" if length > 1 else "decode"
        names = [layer.entry_point for layer in program.function(name).layers]
        assert len([n for n in names if "attention" in n]) == 2, names
        tokens = np.arange(past, past + length, dtype=np.int32)
        logits = ours.run(name, token=tokens, past=past, checks=checks)["logits"]
        expected = theirs.run(tokens)[-1:]
        np.testing.assert_allclose(logits, expected, atol=1e-5 * abs(expected).max())
    assert not checks.report, str(checks.report)
