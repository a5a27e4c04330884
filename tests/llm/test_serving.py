"""The server answers OpenAI's client, and refuses requests with the right status."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib import import_module
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request as HTTPRequest
from urllib.request import urlopen

import numpy as np
import pytest

from xdsl_spirv.runtime.elements import Array

pytest.importorskip("openai")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("tokenizers")

from xdsl_spirv.llm.chat import KEY
from xdsl_spirv.llm.model import LanguageModel
from xdsl_spirv.llm.prompts import Prompts
from xdsl_spirv.llm.queueing import Ended, FullError, Queue, Request, Stops
from xdsl_spirv.llm.serving import Server
from xdsl_spirv.llm.texts import Texts
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.numpy_session import NumpySession
from xdsl_spirv.testing.vocabularies import byte_pair_metadata
from xdsl_spirv.tools.main import main

openai: Any = import_module("openai")

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
CONTEXT = 64
LONG = "x" * 20


class Gated(NumpySession):
    """A session that waits before each run until the test permits the run."""

    def __init__(self, vocabulary: int, context: int, slots: int = 1):
        super().__init__(vocabulary, context, slots)
        self.gate = threading.Event()
        self.gate.set()

    def compute(self, function: str, /, **inputs: Any) -> Array:
        assert self.gate.wait(60)
        logits = super().compute(function, **inputs)
        # Answers have the length that the caller requested.
        logits[:, -4:] = -np.inf
        return logits


def models_of(count: int) -> tuple[list[LanguageModel], Gated]:
    """Returns models that share a session with `count` slots."""
    prompts = Prompts(byte_pair_metadata([]) | {KEY: TEMPLATE}, "x.gguf")
    session = Gated(len(prompts.tokenizer.vocabulary.tokens), CONTEXT, count)
    texts = Texts(session, CONTEXT, count)
    return [LanguageModel(prompts, texts, CONTEXT, slot) for slot in range(count)], session


@dataclass
class Served:
    server: Server
    session: Gated
    url: str

    def client(self, key: str = "secret") -> Any:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)

    def wait_until(self, test: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not test():
            assert time.monotonic() < end, self.server.metrics()
            time.sleep(0.01)


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    uvicorn = import_module("uvicorn")
    (model,), session = models_of(1)
    queue = Queue([model], waiting=1)
    server = Server("tiny", model.prompts, CONTEXT, queue, "secret")
    runner = uvicorn.Server(uvicorn.Config(server.app, port=0, log_level="error"))
    thread = threading.Thread(target=runner.run)
    thread.start()
    while not runner.started:
        time.sleep(0.01)
    port = runner.servers[0].sockets[0].getsockname()[1]
    yield Served(server, session, f"http://127.0.0.1:{port}")
    runner.should_exit = True
    thread.join()
    queue.close()


def answer_of(prompt: str, count: int, **options: Any) -> str:
    (model,), _ = models_of(1)
    return "".join(model.generate(prompt, max_tokens=count, **options))


def test_a_chat_and_a_completion_return_the_models_text(service: Served):
    client = service.client()
    messages = [{"role": "user", "content": "Hello"}]
    asked: dict[str, Any] = {"model": "tiny", "temperature": 0, "max_tokens": 8}
    whole = client.chat.completions.create(messages=messages, **asked)
    assert whole.choices[0].message.content == answer_of("Hello", 8)
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.completion_tokens == 8
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(messages=messages, **asked, **options))
    texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    text = client.completions.create(prompt="Hello", **asked).choices[0].text
    assert text == answer_of("Hello", 8, raw=True)
    stop = text[3:5]
    cut = client.completions.create(prompt="Hello", stop=[stop], **asked).choices[0]
    assert (cut.text, cut.finish_reason) == (text[: text.index(stop)], "stop")
    drawn = [
        client.completions.create(model="tiny", prompt="Hello", seed=3, max_tokens=8)
        .choices[0]
        .text
        for _ in range(2)
    ]
    assert drawn[0] == drawn[1]
    assert [model.id for model in client.models.list()] == ["tiny"]


USER = [{"role": "user", "content": "Hello"}]
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"messages": USER, "model": "other"}, 404, "this server has only the model 'tiny'"),
    ({"messages": []}, 400, "`messages` must be a list"),
    ({"messages": [{"role": "tool", "content": "x"}]}, 400, "the role 'tool'"),
    ({"messages": [{"role": "user", "content": ""}]}, 400, "the message of the user is empty"),
    ({"messages": [{"role": "user", "content": "x" * 99}]}, 400, "more than the context of 64"),
    ({"messages": USER, "max_tokens": 60}, 400, "the last token of an answer needs no room"),
    ({"messages": USER, "max_tokens": 0}, 400, "max_tokens is 0"),
    ({"messages": USER, "temperature": "hot"}, 400, "temperature is 'hot'"),
    ({"messages": USER, "top_p": 2}, 400, "top_p is 2"),
    ({"messages": USER, "n": 2}, 400, "n is not supported"),
    ({"messages": USER, "logprobs": True}, 400, "logprobs is not supported"),
    ({"messages": USER, "logprobs": 0}, 400, "logprobs is not supported"),
    ({"messages": USER, "n": True}, 400, "n is not supported"),
    ({"messages": USER, "temperature": 10**400}, 400, "temperature is inf"),
    ({"messages": [{"role": [], "content": "x"}]}, 400, "the role [] must be one of"),
    ({"messages": USER, "reasoning": 1}, 400, "reasoning is not supported"),
    (
        {"messages": USER, "stop": ["a"] * 5},
        400,
        "stop must be a text or a list of at most 4 texts",
    ),
    ({"messages": USER, "stream": 1}, 400, "stream must be true or false"),
]


def reply_to(url: str, headers: Mapping[str, str], body: bytes | None = None) -> tuple[int, str]:
    """Returns status and text of a reply. A request with a body is a POST."""
    try:
        with urlopen(HTTPRequest(url, body, dict(headers))) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


KEY_GIVEN = {"Authorization": "Bearer secret"}
JSON = {**KEY_GIVEN, "Content-Type": "application/json"}


@pytest.mark.parametrize(("body", "status", "message"), REFUSED)
def test_bad_requests_are_refused(service: Served, body: Any, status: int, message: str):
    got, text = reply_to(f"{service.url}/v1/chat/completions", JSON, json.dumps(body).encode())
    assert got == status
    assert message in json.loads(text)["error"]["message"]


def test_other_refusals_have_their_status(service: Served):
    url = f"{service.url}/v1/chat/completions"
    with pytest.raises(openai.AuthenticationError):
        service.client("wrong").models.list()
    assert reply_to(url, KEY_GIVEN, b"{")[0] == 415
    assert reply_to(url, JSON, b"{")[0] == 400
    assert reply_to(url, JSON, b" " * (5 << 20))[0] == 413
    assert reply_to(f"{service.url}/v2", KEY_GIVEN)[0] == 404
    assert reply_to(url, KEY_GIVEN)[0] == 405
    assert reply_to(f"{service.url}/health", {})[0] == 200
    assert reply_to(f"{service.url}/metrics", {})[0] == 401
    metrics = reply_to(f"{service.url}/metrics", KEY_GIVEN)[1]
    assert 'xdsl_spirv_replies_total{status="413"} 1' in metrics.splitlines()


def test_a_full_queue_refuses_and_a_disconnected_caller_is_dropped(service: Served):
    client = service.client()
    cancelled = service.server.queue.counters.cancelled
    asked: dict[str, Any] = {"model": "tiny", "prompt": LONG, "temperature": 0, "max_tokens": 40}
    service.session.gate.clear()
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(client.completions.create(**asked)))
    thread.start()
    service.wait_until(lambda: service.server.queue.active == 1)
    # The second client waits and disconnects. Another one waits in its place.
    connection = HTTPConnection(service.url.removeprefix("http://"))
    connection.request("POST", "/v1/completions", json.dumps(asked), JSON)
    service.wait_until(lambda: service.server.queue.waiting == 1)
    connection.close()
    service.wait_until(lambda: service.server.replies.get(499, 0) == 1)
    other = threading.Thread(target=lambda: replies.append(client.completions.create(**asked)))
    other.start()
    service.wait_until(lambda: service.server.queue.waiting == 1)
    with pytest.raises(openai.RateLimitError, match="try again later"):
        client.completions.create(**asked)
    service.session.gate.set()
    for waited in (thread, other):
        waited.join()
    assert [r.choices[0].text for r in replies] == [answer_of(LONG, 40, raw=True)] * 2
    assert service.server.queue.counters.cancelled == cancelled + 1
    # If a stream's reader disconnects, the stream ends after the current token.
    stream = client.completions.create(**asked, stream=True)
    next(iter(stream))
    service.session.gate.clear()
    stream.close()
    service.session.gate.set()
    service.wait_until(lambda: service.server.queue.active == 0)


def test_a_failing_model_is_a_server_error(service: Served):
    asked: dict[str, Any] = {"model": "tiny", "prompt": "Hello", "max_tokens": 4, "temperature": 0}
    service.session.fails = True
    for streams in (False, True):
        with pytest.raises(openai.InternalServerError, match="the device is lost"):
            service.client().completions.create(**asked, stream=streams)
    service.session.fails = False
    text = service.client().completions.create(**asked).choices[0].text
    assert text == answer_of("Hello", 4, raw=True)


class Listener:
    """A record of the events of requests in order."""

    def __init__(self, count: int):
        self.order: list[int] = []
        self.events: list[list[Any]] = [[] for _ in range(count)]
        self.done = threading.Event()

    def tell(self, number: int) -> Callable[[Any], None]:
        def listen(event: Any) -> None:
            self.order.append(number)
            self.events[number].append(event)
            if all(e and not isinstance(e[-1], str) for e in self.events):
                self.done.set()

        return listen


@pytest.mark.parametrize("runs_ahead", [False, True])
def test_answers_advance_together_token_by_token(runs_ahead: bool):
    models, session = models_of(2)
    session.runs_ahead = runs_ahead
    queue = Queue(models, waiting=4)
    session.gate.clear()
    heard = Listener(3)
    encode = models[0].prompts.tokenizer.encode
    for number, text in enumerate(("abc", "xyz", "third")):
        queue.submit(Request(encode(text), heard.tell(number), limit=12))
    session.gate.set()
    assert heard.done.wait(60)
    queue.close()
    for number, text in enumerate(("abc", "xyz", "third")):
        assert "".join(heard.events[number][:-1]) == answer_of(text, 12, raw=True)
        assert heard.events[number][-1] == Ended("length", 12)
    # The third request waits until one of the two has ended.
    assert {0, 1} == set(heard.order[: heard.order.index(2)])
    assert [run[0] for run in session.runs].count("decode_batch") >= 10
    if runs_ahead:
        # No run is computed in vain: answers end at their limits, and prompts are read before.
        assert session.claimed >= 10
        assert session.dropped == 0
    with pytest.raises(FullError):
        queue.submit(Request(encode("late"), heard.tell(0)))


@pytest.mark.parametrize("runs_ahead", [False, True])
def test_a_batch_loses_nothing_when_requests_come_go_and_fail(
    runs_ahead: bool, monkeypatch: pytest.MonkeyPatch
):
    """All other answers are complete if one of 32 requests disconnects and one cannot start."""
    monkeypatch.setattr("xdsl_spirv.llm.texts.PREFILLED", 4)
    models, session = models_of(5)
    session.runs_ahead = runs_ahead
    queue, heard = Queue(models, waiting=64), Listener(32)
    encode = models[0].prompts.tokenizer.encode
    texts = ["ab" * (1 + number % 9) + str(number) for number in range(32)]
    requests = [
        Request(encode(text), heard.tell(number), limit=1 + number % 17)
        for number, text in enumerate(texts)
    ]
    # No sampler can be made from these options.
    requests[3].sampling = object()  # pyright: ignore[reportAttributeAccessIssue]
    session.gate.clear()
    for request in requests:
        queue.submit(request)
    requests[7].cancelled = True
    heard.events[7].append(None)
    session.gate.set()
    assert heard.done.wait(60)
    assert isinstance(heard.events[3][0], AttributeError)
    for number in set(range(32)) - {3, 7}:
        expected = answer_of(texts[number], 1 + number % 17, raw=True)
        assert "".join(heard.events[number][:-1]) == expected
    # A failed run ends its requests, and the slots are read again.
    session.fails, failed = True, Listener(2)
    for number in range(2):
        queue.submit(Request(encode(texts[number]), failed.tell(number), limit=4))
    assert failed.done.wait(60)
    assert all(isinstance(events[-1], ProgramError) for events in failed.events)
    session.fails, again = False, Listener(1)
    queue.submit(Request(encode(texts[8]), again.tell(0), limit=4))
    assert again.done.wait(60)
    assert "".join(again.events[0][:-1]) == answer_of(texts[8], 4, raw=True)
    queue.close()
    assert queue.counters.failed == 3
    assert (queue.counters.cancelled, queue.active) == (1, 0)


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_stop_is_found_across_pieces(cut: int):
    text = "aababcd"
    stops = Stops(["abc", "zz"])
    parts = [stops.push(part) for part in (text[:cut], text[cut:])]
    assert "".join(part for part, _ in parts) == "aab"
    assert parts[-1][1]
    held = Stops(["abc"])
    assert held.push("xab") == ("x", False)
    assert held.finish() == "ab"


def test_other_machines_need_a_token(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "x.gguf", "--host", "0.0.0.0"]) != 0
    assert "give --token-file FILE" in capsys.readouterr().err


@pytest.mark.long
def test_many_clients_lose_nothing(service: Served):
    """Each of 32 clients gets its answers. Refused requests are repeated."""
    wrong: list[Any] = []

    def ask(number: int) -> None:
        client = openai.OpenAI(base_url=f"{service.url}/v1", api_key="secret", max_retries=1000)
        for turn in range(8):
            prompt = f"{number} {turn}"
            asked: dict[str, Any] = {"prompt": prompt, "temperature": 0, "max_tokens": 12}
            answer = client.completions.create(model="tiny", **asked)
            if answer.choices[0].text != answer_of(prompt, 12, raw=True):
                wrong.append((prompt, answer))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert (service.server.queue.active, service.server.queue.waiting) == (0, 0)
