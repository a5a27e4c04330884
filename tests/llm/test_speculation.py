"""A draft model's proposals never change an answer. Accepted ones save runs of the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.loading import ModelFile
from xdsl_spirv.llm.model import LanguageModel
from xdsl_spirv.llm.prompts import Prompts
from xdsl_spirv.llm.sampling import Sampling
from xdsl_spirv.llm.speculation import Speculation, refuse_other_tokens
from xdsl_spirv.llm.texts import DECODE, VERIFY, common_start
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.numpy_session import NumpySession
from xdsl_spirv.testing.vocabularies import byte_pair_metadata

pytest.importorskip("tokenizers", reason="tokenizers is not installed (pip install '.[llm]')")

CONTEXT, AHEAD = 64, 3
GREEDY, DRAWN = Sampling(), Sampling(1.5, top_k=20, top_p=0.95, seed=8)


def prompts_of(*merges: str) -> Prompts:
    return Prompts(byte_pair_metadata(list(merges)), "x.gguf")


def answer_of(seed: int | None, sampling: Sampling, **options: Any) -> tuple[Any, Any, Any]:
    """Returns an answer with a draft model (or none if `seed` is None), and both sessions."""
    prompts = prompts_of()
    count = len(prompts.tokenizer.vocabulary.tokens)
    session, speculation = NumpySession(count, CONTEXT), None
    if seed is not None:
        draft = LanguageModel(prompts, NumpySession(count, CONTEXT, seed=seed), CONTEXT)
        speculation = Speculation(draft, AHEAD)
    model = LanguageModel(prompts, session, CONTEXT, speculation=speculation)
    answer = model.generate("Hello", raw=True, sampling=sampling, **options)
    list(answer)
    return answer, session, speculation


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("seed", [5, 6, 7])
@pytest.mark.parametrize("limit", [None, 1, 6])
def test_a_draft_does_not_change_an_answer(seed: int, sampling: Sampling, limit: int | None):
    plain, _, _ = answer_of(None, sampling, max_tokens=limit)
    answer, _, _ = answer_of(seed, sampling, max_tokens=limit)
    assert answer.tokens == plain.tokens
    assert answer.end == plain.end
    assert answer.work[DECODE].tokens == plain.work[DECODE].tokens


def test_a_draft_that_is_right_saves_runs():
    plain, session, _ = answer_of(None, GREEDY)
    before = [function for function, *_ in session.runs].count(DECODE)
    answer, session, speculation = answer_of(5, GREEDY)
    runs = [function for function, *_ in session.runs]
    verified = runs.count(VERIFY)
    assert speculation.proposed == AHEAD * verified
    assert speculation.accepted > speculation.proposed - AHEAD
    # At the end of the context there is no room for proposals.
    assert verified + runs.count(DECODE) <= before / (AHEAD + 1) + AHEAD + 1
    assert all(past + count <= CONTEXT for _, count, past in session.runs)
    assert len(answer.tokens) == len(plain.tokens)


def test_a_draft_that_is_wrong_is_dropped():
    _, session, speculation = answer_of(6, GREEDY)
    assert speculation.accepted < speculation.proposed / 2
    assert all(past + count <= CONTEXT for _, count, past in session.runs)


@pytest.mark.parametrize("seed", [5, 6])
def test_texts_are_compared_only_from_their_last_tokens_on(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    """The comparisons of a token do not grow with the text, even if proposals are wrong."""
    compared: list[int] = []

    def common_start_counted(one: Sequence[int], other: Sequence[int]) -> int:
        compared.append(min(len(one), len(other)))
        return common_start(one, other)

    monkeypatch.setattr("xdsl_spirv.llm.texts.common_start", common_start_counted)
    prompts = prompts_of()
    count = len(prompts.tokenizer.vocabulary.tokens)
    draft = LanguageModel(prompts, NumpySession(count, 500, seed=seed), 500)
    speculation = Speculation(draft, AHEAD)
    model = LanguageModel(prompts, NumpySession(count, 500), 500, speculation=speculation)
    answer = model.generate("Hello" * 80, raw=True, max_tokens=40)
    list(answer)
    assert len(answer.tokens) == 40
    assert len(compared) > 80
    assert sum(compared) < 3 * len(answer.prompt) + 5 * len(compared)


def test_a_draft_does_not_change_alternating_answers():
    prompts = prompts_of()
    count = len(prompts.tokenizer.vocabulary.tokens)
    draft = LanguageModel(prompts, NumpySession(count, CONTEXT), CONTEXT)
    own = NumpySession(count, CONTEXT)
    model = LanguageModel(prompts, own, CONTEXT, speculation=Speculation(draft, AHEAD))
    alone = LanguageModel(prompts, NumpySession(count, CONTEXT), CONTEXT)
    texts = ("Hello", "zz top")
    answers = [model.generate(text, raw=True, max_tokens=9) for text in texts]
    for _ in range(12):
        for answer in answers:
            answer.step()
    for text, answer in zip(texts, answers, strict=True):
        expected = alone.generate(text, raw=True, max_tokens=9)
        list(expected)
        assert answer.tokens == expected.tokens


def test_a_draft_of_other_tokens_is_refused():
    with pytest.raises(FrontendError, match="a draft of the same model family"):
        refuse_other_tokens(prompts_of(), prompts_of("a b"), "y.gguf")


def test_a_draft_does_not_change_the_answer_of_a_compiled_model(tmp_path: Path):
    gguf = pytest.importorskip("gguf")
    from xdsl_spirv.testing.gguf_models import write_declared

    values = {
        "vocab_size": 80,
        "block_count": 1,
        "context_length": 32,
        "embedding_length": 32,
        "feed_forward_length": 48,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "attention.key_length": 16,
        "attention.value_length": 16,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": 16,
        "rope.freq_base": 1000.0,
    }
    from xdsl_spirv.compiler.model import compile_model
    from xdsl_spirv.frontends.gguf.importer import import_gguf
    from xdsl_spirv.llm.texts import Texts, Work

    def session_of(name: str, ahead: int) -> Any:
        path = tmp_path / f"{name}.gguf"
        write_declared(path, name, values, lambda _: gguf.GGMLQuantizationType.F32)
        return compile_model(import_gguf(path, context=32, ahead=ahead), "nvidia-h200").session()

    text = [3, 41, 7, 20]
    work = {"prefill": Work(), "decode": Work()}
    plain, spoken = Texts(session_of("llama", 0), 32), Texts(session_of("llama", AHEAD), 32)
    draft = LanguageModel(prompts_of(), session_of("qwen3", 0), 32)
    speculation = Speculation(draft, AHEAD)
    for texts in (plain, spoken):
        texts.read_part(0, text[:-1], work)
    for _ in range(10):
        expected = plain.read_part(0, text, work)
        prediction = speculation.find(text, work)
        if prediction is None:
            prediction = speculation.read(spoken, 0, text, work)
        assert prediction is not None
        assert expected is not None
        logits = expected.read()
        np.testing.assert_allclose(prediction.read(), logits, atol=1e-4 * abs(logits).max())
        assert prediction.likeliest == expected.likeliest == logits.argmax()
        text.append(expected.likeliest)
    assert speculation.proposed >= AHEAD


@pytest.mark.parametrize("ahead", [0, 16, 100])
def test_impossible_numbers_are_refused(ahead: int):
    file = ModelFile("x.gguf", prompts_of(), None, CONTEXT, 0)  # pyright: ignore
    with pytest.raises(ProgramError, match=f"a draft of {ahead} tokens"):
        file.read_draft("y.gguf", ahead)
