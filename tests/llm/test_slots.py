"""Texts in the slots of a compiled model do not affect each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends.gguf.importer import import_gguf
from xdsl_spirv.llm.loading import ModelFile
from xdsl_spirv.llm.model import Answer, LanguageModel
from xdsl_spirv.llm.prompts import Prompts
from xdsl_spirv.llm.queueing import Event, Queue, Request
from xdsl_spirv.llm.sampling import Prediction, Sampler, Sampling
from xdsl_spirv.llm.texts import Session, Texts
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.testing import gguf_session
from xdsl_spirv.testing.gguf_models import Shape, write_model
from xdsl_spirv.testing.numpy_session import LogitsSession, predict_by
from xdsl_spirv.testing.vocabularies import byte_pair_metadata

CONTEXT, SLOTS = 24, 4


class Reference(LogitsSession):
    """The reference interpreter as a session, with one summation order in all functions."""

    def __init__(self, path: Path):
        model = import_gguf(path, context=CONTEXT, cache="f32", slots=SLOTS)
        self.session = gguf_session.Session(model)

    def compute(self, function: str, /, **inputs: Any) -> Array:
        return self.session.call(function, **inputs)

    def reset(self) -> None:
        raise AssertionError("a run has failed")


class RecordedAnswer(Answer):
    """An answer that records the logits of its tokens."""

    sampling: Sampling
    logits: list[Array]

    def step(self, prediction: Prediction | None = None) -> str | None:
        if prediction is not None:
            self.logits.append(prediction.read().copy())
        return super().step(prediction)


class RecordedModel(LanguageModel):
    answers: dict[int, RecordedAnswer]
    """Answers of all slots by seed."""

    def answer(
        self, prompt: Sequence[int], limit: int | None, sampling: Sampling, *, begins: bool
    ) -> Answer:
        answer = RecordedAnswer(self, prompt, limit, Sampler(sampling), begins=begins)
        answer.sampling, answer.logits = sampling, []
        assert answer.seed is not None
        self.answers[answer.seed] = answer
        return answer


def answer_crowd(
    session: Session, prompts: Prompts, slots: int, count: int, starts: Sequence[str]
) -> tuple[Mapping[int, RecordedAnswer], Mapping[int, list[Event]]]:
    """
    Returns the answers to `count` requests by seed, and the events of their callers.

    Requests arrive during other answers, often with the start of an earlier one. Every fourth
    caller leaves.
    """
    texts, draw = Texts(session, CONTEXT, slots), np.random.default_rng(3)
    models = [RecordedModel(prompts, texts, CONTEXT, slot) for slot in range(slots)]
    answers: dict[int, RecordedAnswer] = {}
    for model in models:
        model.answers = answers
    queue, events = Queue(models, waiting=count), {number: list[Event]() for number in range(count)}
    coming = iter(range(count))

    def submit_next() -> None:
        if (number := next(coming, None)) is None:
            return
        text = starts[int(draw.integers(len(starts)))] + "abcdefghijkl"[: draw.integers(1, 13)]
        sampling = Sampling(float(draw.choice([0.7, 1e-3])), seed=number)
        leaves = int(draw.integers(1, 5)) if number % 4 == 3 else CONTEXT

        def tell(event: Event) -> None:
            events[number].append(event)
            request.cancelled = len(events[number]) >= leaves
            if request.cancelled or not isinstance(event, str) or draw.random() < 0.1:
                submit_next()

        tokens = prompts.tokenizer.encode(text)
        request = Request(tokens, tell, int(draw.integers(1, 13)), sampling, begins=False)
        queue.submit(request)

    for _ in range(slots + 1):
        submit_next()
    end = time.monotonic() + 120
    while queue.waiting or queue.active:
        assert time.monotonic() < end, "requests are never answered"
        time.sleep(0.01)
    queue.close()
    assert queue.counters.failed == 0
    assert queue.counters.requests == count
    assert queue.counters.cancelled > count // 8
    return answers, events


def write_small_model(path: Path) -> None:
    metadata = byte_pair_metadata([])
    count = len(metadata["tokenizer.ggml.tokens"])
    shape = Shape(
        blocks=1, width=32, hidden=32, heads=2, shared=1, vocabulary=count, context=CONTEXT
    )
    write_model(path, shape, values=metadata)


def test_concurrent_texts_get_the_logits_of_separate_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Texts that run together get the logits and tokens of separate runs, bit by bit."""
    monkeypatch.setattr("xdsl_spirv.llm.texts.PREFILLED", 4)
    path = tmp_path / "x.gguf"
    write_small_model(path)
    prompts = ModelFile.read(path, CONTEXT).prompts
    starts = ("The cat", "The dog ", "1 2 3", "")
    answers, events = answer_crowd(Reference(path), prompts, SLOTS, 40, starts)
    assert any(answer.end == "capacity" for answer in answers.values())
    alone = import_gguf(path, context=CONTEXT, cache="f32", of_all=True)
    for number, answer in answers.items():
        logits = gguf_session.Session(alone).run(np.array(answer.text[:CONTEXT], np.int32))
        expected = logits[len(answer.prompt) - 1 :][: len(answer.logits)]
        np.testing.assert_array_equal(answer.logits, expected, f"request {number}")
        sampler, stream = Sampler(answer.sampling), prompts.tokenizer.stream(begins=False)
        chosen = [sampler.choose(predict_by(row)) for row in expected]
        assert chosen[: len(answer.tokens)] == answer.tokens
        text = "".join(map(stream.push, answer.tokens)) + stream.finish()
        heard = "".join(event for event in events[number] if isinstance(event, str))
        assert heard == text or (text.startswith(heard) and number % 4 == 3)


@pytest.mark.vulkan
@pytest.mark.parametrize("slots", [1, 3])
def test_a_device_that_runs_ahead_gives_the_same_tokens(
    slots: int, lavapipe: Path, layered: dict[str, str], tmp_path: Path
):
    path = tmp_path / "x.gguf"
    write_small_model(path)
    model = import_gguf(path, context=CONTEXT, slots=slots)
    compile_model(model, "lavapipe").save(tmp_path / "program")
    script = Path(__file__).parent / "vulkan" / "follow_tokens.py"
    command = [lavapipe, sys.executable, script, tmp_path / "program", str(slots), str(CONTEXT)]
    run = subprocess.run(
        command, check=True, timeout=600, capture_output=True, text=True, env=os.environ | layered
    )
    found = json.loads(run.stdout)
    assert found["ahead"] == found["without"]
    assert found["claimed"] > 20
    assert (found["left"], found["messages"]) == ({}, [])


@pytest.mark.long
@pytest.mark.vulkan
@pytest.mark.parametrize(("slots", "type"), [(4, "f32"), (4, "f16"), (8, "f16")])
def test_the_results_of_a_slot_do_not_depend_on_other_slots(
    slots: int, type: str, lavapipe: Path, tmp_path: Path
):
    path = tmp_path / "x.gguf"
    write_small_model(path)
    model = import_gguf(path, context=CONTEXT, cache=type, products=type, slots=slots)
    compile_model(model, "lavapipe").save(tmp_path / "program")
    script = Path(__file__).parent / "vulkan" / "repeat_slots.py"
    command = [lavapipe, sys.executable, script, tmp_path / "program", str(slots), str(CONTEXT)]
    run = subprocess.run(command, check=True, timeout=600, capture_output=True, text=True)
    count, different = map(int, run.stdout.split())
    assert count > 100
    assert different == 0
