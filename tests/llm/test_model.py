"""Generation reads each token once, ends where required, and returns whole characters."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.chat import KEY
from xdsl_spirv.llm.model import LanguageModel
from xdsl_spirv.llm.prompts import Prompts
from xdsl_spirv.llm.sampling import Sampling
from xdsl_spirv.llm.texts import DECODE, PREFILL, PREFILLED
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.numpy_session import NumpySession
from xdsl_spirv.testing.vocabularies import byte_pair_metadata

pytest.importorskip("tokenizers", reason="tokenizers is not installed (pip install '.[llm]')")

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
CONTEXT = 64


def logits_of(tokens: list[int], session: NumpySession) -> Array:
    """Returns the logits of a whole text."""
    mixed = np.tanh(session.embedding[tokens] * session.places[: len(tokens)]).sum(0)
    return (mixed @ session.output).astype(np.float32)


def model_of(context: int = CONTEXT, **values: Any) -> tuple[LanguageModel, NumpySession]:
    metadata = byte_pair_metadata([], **values) | {KEY: TEMPLATE}
    prompts = Prompts(metadata, "x.gguf")
    session = NumpySession(len(prompts.tokenizer.vocabulary.tokens), context)
    return LanguageModel(prompts, session, context), session


def greedy(prompt: list[int], session: NumpySession, stops: frozenset[int]) -> list[int]:
    """Returns the likeliest continuation, computed from the whole text for each token."""
    tokens = list(prompt)
    while len(tokens) <= CONTEXT:
        token = int(np.argmax(logits_of(tokens, session)))
        if token in stops:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


@pytest.mark.parametrize("runs_ahead", [False, True])
@pytest.mark.parametrize("prompt", ["a", "Hello", "zz top", "€uro"])
def test_the_text_is_the_likeliest_continuation(prompt: str, runs_ahead: bool):
    model, session = model_of()
    session.runs_ahead = runs_ahead
    answer = model.generate(prompt, raw=True)
    text = "".join(answer)
    tokenizer = model.prompts.tokenizer
    tokens = greedy(list(answer.prompt), session, tokenizer.vocabulary.stops)
    assert answer.tokens == tokens
    assert text == tokenizer.decode(tokens)
    if runs_ahead:
        # All tokens but the first two are computed ahead.
        assert session.claimed >= len(tokens) - 2
        assert session.dropped == 0


def test_every_token_is_read_once():
    model, session = model_of()
    answer = model.generate("Hello", raw=True)
    text = "".join(answer)
    assert answer.end in ("capacity", "stop")
    count = len(answer.tokens)
    decoded = count if answer.end == "stop" else count - 1
    assert session.runs == [(PREFILL, 5, 0), *((DECODE, 1, 5 + i) for i in range(decoded))]
    assert answer.work[PREFILL].tokens == 5
    assert answer.work[DECODE].tokens == decoded
    assert answer.work[DECODE].seconds > 0
    assert text


def test_only_the_rest_of_a_text_with_the_same_start_is_read():
    model, session = model_of()
    first = model.generate("Hello", raw=True, max_tokens=4)
    list(first)
    session.runs.clear()
    again = model.generate("Hello", raw=True, max_tokens=4)
    list(again)
    assert again.tokens == first.tokens
    assert session.runs[0] == (DECODE, 1, 4)
    session.runs.clear()
    list(model.generate("Help", raw=True, max_tokens=1))
    assert session.runs == [(DECODE, 1, 3)]
    session.runs.clear()
    list(model.generate("Helpless", raw=True, max_tokens=1))
    assert session.runs == [(PREFILL, 4, 4)]


def test_answers_may_alternate():
    model, _ = model_of()
    alone = [model.generate(text, raw=True, max_tokens=6) for text in ("one", "two")]
    expected = [list(answer) and answer.tokens for answer in alone]
    together = [model.generate(text, raw=True, max_tokens=6) for text in ("one", "two")]
    while not all(answer.end for answer in together):
        for answer in together:
            next(answer, None)
    assert [answer.tokens for answer in together] == expected


def test_all_tokens_are_read_again_after_a_failed_run():
    model, session = model_of()
    list(model.generate("Hello", raw=True, max_tokens=1))
    session.fails = True
    with pytest.raises(ProgramError, match="the device is lost"):
        list(model.generate("Help", raw=True, max_tokens=1))
    session.fails = False
    session.runs.clear()
    answer = model.generate("Help", raw=True, max_tokens=1)
    list(answer)
    assert session.runs == [(PREFILL, 4, 0)]
    assert answer.tokens == [int(np.argmax(logits_of(list(answer.prompt), session)))]


def test_long_prompts_are_read_in_parts():
    context = 2 * PREFILLED + 8
    model, session = model_of(context)
    list(model.generate("x" * (2 * PREFILLED + 1), raw=True, max_tokens=1))
    parts = [(PREFILL, PREFILLED, 0), (PREFILL, PREFILLED, PREFILLED), (DECODE, 1, 2 * PREFILLED)]
    assert session.runs == parts


def test_an_answer_ends_before_a_stop_token():
    model, session = model_of()
    stop = next(iter(model.prompts.tokenizer.vocabulary.stops))
    session.output[:, stop] += 10 * session.output[:, :256].sum(1)
    texts = {text: model.generate(text, raw=True) for text in "abcdefghij"}
    pieces = {text: list(answer) for text, answer in texts.items()}
    ended = [text for text, answer in texts.items() if answer.end == "stop"]
    assert ended
    for text in ended:
        assert stop not in texts[text].tokens
        assert "".join(pieces[text]) == model.prompts.tokenizer.decode(texts[text].tokens)


@pytest.mark.parametrize("length", [1, 60, 63, 64])
def test_an_answer_ends_with_the_context(length: int):
    model, session = model_of()
    session.output[:, 256:259] = 0  # A stop token is never the likeliest one.
    answer = model.generate("x" * length, raw=True)
    list(answer)
    assert answer.end == "capacity"
    assert len(answer.tokens) == CONTEXT - length + 1
    assert max(past + count for _, count, past in session.runs) == CONTEXT


def test_an_answer_ends_at_the_callers_limit():
    model, _ = model_of()
    answer = model.generate("x", raw=True, max_tokens=3)
    list(answer)
    assert (answer.end, len(answer.tokens)) == ("limit", 3)


def test_an_interrupted_answer_ends_after_the_current_token():
    model, _ = model_of()
    answer = model.generate("x", raw=True)
    pieces = list(islice(answer, 2))
    answer.interrupt()
    count = len(answer.tokens)
    rest = list(answer)
    assert answer.end == "interrupted"
    assert len(answer.tokens) == count
    assert rest in ([], ["\ufffd"])
    assert "".join([*pieces, *rest]) == model.prompts.tokenizer.decode(answer.tokens)


def test_a_seed_gives_the_same_answer():
    model, _ = model_of()
    answers = [
        model.generate("x", raw=True, max_tokens=20, sampling=Sampling(2.0, seed=seed))
        for seed in (1, 1, 2)
    ]
    texts = ["".join(answer) for answer in answers]
    assert texts[0] == texts[1] != texts[2]


def test_a_conversation_goes_through_the_template():
    model, _ = model_of()
    tokenizer = model.prompts.tokenizer
    answer = model.generate("Hi", system="Obey.", max_tokens=1)
    expected = "system: Obey.<|im_end|>user: Hi<|im_end|>"
    assert list(answer.prompt) == tokenizer.encode(expected, control=True)
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    assert tokenizer.decode(model.generate(turns).prompt) == "user: Hiassistant: Yes?"


def test_a_raw_prompt_may_write_control_tokens():
    model, _ = model_of()
    stops = model.prompts.tokenizer.vocabulary.stops
    assert set(model.generate("a<|im_end|>b", raw=True).prompt) & stops


@pytest.mark.parametrize(
    ("prompt", "options", "cause"),
    [
        ("", {"raw": True}, "the prompt is empty"),
        ("", {}, "the message of the user is empty"),
        (" \n", {}, "the message of the user is empty"),
        ([], {}, "the message of the user is empty"),
        ("x", {"system": ""}, "the message of the system is empty"),
        ("x" * 65, {"raw": True}, "the prompt has 65 tokens, more than the context of 64"),
        ("x", {"raw": True, "system": "y"}, "a raw prompt must be one text"),
        ("x", {"raw": True, "max_tokens": 0}, "max_tokens is 0"),
        ("\udcff", {"raw": True}, "not valid Unicode"),
    ],
)
def test_impossible_prompts_are_refused_before_anything_runs(
    prompt: str, options: dict[str, Any], cause: str
):
    model, session = model_of()
    with pytest.raises((ProgramError, FrontendError), match=cause) as error:
        model.generate(prompt, **options)
    assert error.value.remedy
    assert session.runs == []
