"""Models with quantized keys and values, or with a sliding window, give the reference's logits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")

from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.caches import CACHES, Sliding, state_bytes
from xdsl_spirv.frontends.gguf.file import read_file
from xdsl_spirv.frontends.gguf.importer import import_gguf
from xdsl_spirv.frontends.gguf.parameters import parameters_of
from xdsl_spirv.llm.sliding import SlidingSession
from xdsl_spirv.llm.texts import DECODE, PREFILL, Texts, Work
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.gguf_models import Shape, write_declared, write_model
from xdsl_spirv.testing.gguf_session import Session
from xdsl_spirv.testing.numpy_session import LogitsSession

VALUES: Mapping[str, Any] = {
    "vocab_size": 80,
    "block_count": 2,
    "context_length": 96,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.key_length": 16,
    "attention.value_length": 16,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "attention.sliding_window": 5,
    "rope.dimension_count": 16,
    "rope.freq_base": 1000.0,
}
EXPERTS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}
MODELS = {"gemma2": VALUES, "gemma3": {**VALUES, "block_count": 7}, "gpt-oss": VALUES | EXPERTS}
CONTEXT, CHUNK = 96, 8


class Reference(LogitsSession):
    """The reference interpreter as a session."""

    def __init__(self, model: Any):
        self.session = Session(model)

    def compute(self, function: str, /, **inputs: Any) -> Array:
        return self.session.call(function, **inputs)

    def reset(self) -> None:
        raise AssertionError("a run has failed")


def read(texts: Texts, slot: int, tokens: list[int]) -> Array:
    work = {PREFILL: Work(), DECODE: Work()}
    while (prediction := texts.read_part(slot, tokens, work)) is None:
        pass
    return prediction.read().copy()


def sessions(path: Path, slots: int = 1) -> tuple[Texts, Texts, Session]:
    """Returns `Texts` with full states, `Texts` with sliding states, and the latter's session."""
    whole = import_gguf(path, context=CONTEXT, cache="f32", slots=slots)
    cut = import_gguf(path, context=CONTEXT, cache="f32", slots=slots, chunk=CHUNK)
    sliding = Sliding.find(parameters_of(read_file(path)), CONTEXT, CHUNK)
    assert sliding is not None
    inner = Reference(cut)
    session = SlidingSession(inner, sliding, slots)
    texts = Texts(Reference(whole), CONTEXT, slots), Texts(session, CONTEXT, slots)
    return *texts, inner.session


@pytest.mark.parametrize(
    "name", [n if n == "gemma2" else pytest.param(n, marks=pytest.mark.long) for n in MODELS]
)
def test_sliding_states_give_the_logits_of_full_states(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Logits are equal for a text that grows, is truncated, or starts again."""
    monkeypatch.setattr("xdsl_spirv.llm.texts.PREFILLED", CHUNK)
    path = tmp_path / "x.gguf"
    write_declared(path, name, MODELS[name])
    whole, cut, session = sessions(path)
    tokens = np.random.default_rng(0).integers(0, 80, 90).tolist()
    for count in (50, 51, 52, 60, 61, 58, 75, 20, 90):
        text = tokens[:count] if count != 58 else [*tokens[:57], 3]
        np.testing.assert_allclose(read(cut, 0, text), read(whole, 0, text), rtol=2e-5, atol=1e-5)
    rows = {state.shape[2] for state in session.states.values()}
    assert rows == {CONTEXT, 5 - 1 + 16 + CHUNK}
    monkeypatch.setattr("xdsl_spirv.llm.texts.PREFILLED", 2 * CHUNK + 16)
    with pytest.raises(ProgramError, match="32 tokens are too many for one run"):
        read(cut, 0, tokens[50:])


@pytest.mark.parametrize("slots", [1, 2])
def test_states_slide_between_runs_that_start_ahead(
    slots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("xdsl_spirv.llm.texts.PREFILLED", CHUNK)
    path = tmp_path / "x.gguf"
    write_declared(path, "gemma2", VALUES)
    found: list[list[list[int]]] = []
    for texts in sessions(path, slots)[:2]:
        outer = texts.session
        inner = outer.session if isinstance(outer, SlidingSession) else outer
        assert isinstance(inner, LogitsSession)
        inner.runs_ahead = True
        work = {PREFILL: Work(), DECODE: Work()}
        lists = {slot: [5 + slot] * (20 + 7 * slot) for slot in range(slots)}
        for slot, tokens in lists.items():
            while texts.count_left(slot, tokens) > 1:
                texts.read_part(slot, tokens, work)
        for _ in range(50):
            given = {slot: (tokens, work) for slot, tokens in lists.items()}
            for slot, prediction in texts.read_last(given, goes_on=True).items():
                lists[slot].append(prediction.likeliest)
        assert inner.claimed > 30
        assert inner.dropped <= 1
        found.append(list(lists.values()))
    assert found[0] == found[1]


def test_slots_slide_independently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("xdsl_spirv.llm.texts.PREFILLED", CHUNK)
    path = tmp_path / "x.gguf"
    write_declared(path, "gemma2", VALUES)
    whole, cut, _ = sessions(path, slots=3)
    draw = np.random.default_rng(0)
    lists = {slot: draw.integers(0, 80, n).tolist() for slot, n in enumerate((24, 3, 40))}
    for texts in (whole, cut):
        for slot, tokens in lists.items():
            read(texts, slot, tokens)
    for _ in range(12):
        logits: list[Mapping[int, Array]] = []
        for slot in lists:
            lists[slot].append(int(draw.integers(80)))
        for texts in (whole, cut):
            work = {PREFILL: Work(), DECODE: Work()}
            last = texts.read_last({slot: (lists[slot], work) for slot in (0, 2)})
            logits.append({slot: prediction.read().copy() for slot, prediction in last.items()})
            read(texts, 1, lists[1])
        for slot in (0, 2):
            np.testing.assert_allclose(logits[1][slot], logits[0][slot], rtol=2e-5, atol=1e-5)


LEAST = {"f8E4M3FN": 0.98, "f8E5M2": 0.95, "i8": 0.9995}


@pytest.mark.parametrize("cache", LEAST)
def test_quantized_keys_and_values_give_nearly_the_logits_of_f16(cache: str, tmp_path: Path):
    path = tmp_path / "x.gguf"
    write_model(path, Shape())
    tokens = np.random.default_rng(0).integers(0, 80, 40).astype(np.int32)
    logits: list[Any] = []
    for name in ("f16", cache):
        session = Session(import_gguf(path, context=48, cache=name, of_all=True))
        logits.append(np.concatenate([session.run(part) for part in np.split(tokens, [30, 31])]))
    norms = np.linalg.norm(logits[0], axis=1) * np.linalg.norm(logits[1], axis=1)
    cosine = ((logits[0] * logits[1]).sum(1) / norms).min()
    print(cache, cosine)
    assert LEAST[cache] <= cosine < 0.9999999
    p = parameters_of(read_file(path))
    assert state_bytes(p, 48, cache) < 0.57 * state_bytes(p, 48, "f16")


def test_quantized_keys_and_values_are_read_in_place(tmp_path: Path):
    """8-bit floats need no more kernels than f16. Integers need kernels for new scales."""
    path, counts = tmp_path / "x.gguf", dict[str, int]()
    write_model(path, Shape(blocks=1))
    for cache in ("f16", "f8E5M2", "i8"):
        program = compile_model(import_gguf(path, context=48, cache=cache), "lavapipe")
        names = [layer.entry_point for layer in program.function("decode").layers]
        counts[cache] = len(names)
        assert not [name for name in names if name.startswith("elementwise_1x2xDx")], names
    assert counts["f8E5M2"] == counts["f16"] == counts["i8"] - 3


@pytest.mark.long
@pytest.mark.vulkan
@pytest.mark.parametrize("cache", LEAST)
def test_lavapipe_supports_quantized_keys_and_values(cache: str, lavapipe: Path, tmp_path: Path):
    """Logits of a prompt and of later tokens are near the logits of an f16 cache."""
    path, result = tmp_path / "x.gguf", tmp_path / "result.npz"
    write_model(path, Shape())
    tokens = np.random.default_rng(0).integers(0, 80, 40).astype(np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    model = import_gguf(path, context=48, cache=cache, of_all=True)
    compile_model(model, "lavapipe").save(tmp_path / "program")
    script = Path(__file__).parent.parent / "llm" / "vulkan" / "logits_and_answer.py"
    command = [sys.executable, script, tmp_path / "program", tmp_path / "tokens.npy", "30", "8"]
    subprocess.run([lavapipe, *command, result], check=True, timeout=1000)
    there = np.load(result)
    for name, least in (("f16", LEAST[cache]), (cache, 0.998)):
        session = Session(import_gguf(path, context=48, cache=name, of_all=True))
        logits = session.run(tokens)
        norms = np.linalg.norm(logits, axis=1) * np.linalg.norm(there["logits"], axis=1)
        cosine = ((logits * there["logits"]).sum(1) / norms).min()
        print(cache, name, cosine)
        assert cosine >= least
    assert len(there["following"]) == 8


def test_states_beyond_the_largest_tensor_are_refused(tmp_path: Path):
    path = tmp_path / "x.gguf"
    write_declared(path, "gemma2", {**VALUES, "context_length": 1 << 20})
    with pytest.raises(FrontendError, match="a tensor would have 2,147,483,648 elements"):
        import_gguf(path, context=1 << 20, slots=64)


@pytest.mark.long
@pytest.mark.vulkan
def test_a_text_of_33_000_tokens_is_read_as_by_llama_cpp(lavapipe: Path, tmp_path: Path):
    judging = pytest.importorskip("xdsl_spirv.testing.llama_cpp")
    context, path = 40960, tmp_path / "x.gguf"
    values = {**VALUES, "context_length": context, "attention.sliding_window": 200}
    values |= {"attention.head_count": 1, "attention.head_count_kv": 1, "embedding_length": 32}
    values |= {"feed_forward_length": 32, "rope.freq_base": 10000.0}
    write_declared(path, "gemma2", values)
    sliding = Sliding.find(parameters_of(read_file(path)), context)
    assert sliding is not None
    program = compile_model(import_gguf(path, context=context), "lavapipe")
    inputs = {"token": np.zeros(512, np.int32), "past": np.array(context - 512)}
    manifest = program.function("prefill").at({**inputs, "near": np.array(sliding.keep)}).manifest
    rows = {buffer.shape[2] for buffer in manifest.buffers if buffer.kind == "state"}
    assert rows == {context, 200 - 1 + 16 + 512}
    assert manifest.memory is not None
    assert manifest.memory < 1 << 20
    program.save(tmp_path / "program")
    tokens = np.random.default_rng(0).integers(0, 80, 33_000).astype(np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    script = Path(__file__).parent.parent / "llm" / "vulkan" / "read_long_text.py"
    command = [sys.executable, script, tmp_path / "program", tmp_path / "tokens.npy", "8"]
    command += map(str, (context, sliding.room, sliding.keep, sliding.window))
    subprocess.run([lavapipe, *command, tmp_path / "result.npy"], check=True, timeout=1500)
    judge = judging.LlamaCpp(path, context)
    parts = np.split(tokens, list(range(512, len(tokens), 512)))
    *_, last = (judge.run(part)[-1] for part in parts)
    for ours in np.load(tmp_path / "result.npy"):
        assert ours @ last >= 0.9999 * np.linalg.norm(ours) * np.linalg.norm(last)
        assert ours.argmax() == last.argmax()
        last = judge.run(last.argmax(keepdims=True).astype(np.int32))[-1]


def test_other_types_of_keys_and_values_are_refused(tmp_path: Path):
    path = tmp_path / "x.gguf"
    write_model(path, Shape())
    with pytest.raises(FrontendError, match="keys and values of the type 'f64'") as refused:
        import_gguf(path, cache="f64")
    assert ", ".join(CACHES) in str(refused.value)
