"""
Serves a language model over HTTP with OpenAI's chat and completions API.

Errors are OpenAI's error objects. 400: an invalid or unsupported request; 401: a wrong token; 404:
an unknown model or path; 413: a body that is too large; 415: a body that is not JSON; 429: a full
queue; 500: a failure of the model.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.packages import needed
from xdsl_spirv.llm.prompts import Prompts
from xdsl_spirv.llm.queueing import Ended, Event, FullError, Queue, Request
from xdsl_spirv.llm.wishes import BadRequestError, Wish, read_wish
from xdsl_spirv.runtime.errors import ProgramError

MOST_BYTES = 4 << 20
"""Maximum size of a request's body, in bytes."""

POLLED = 0.2
"""Interval in seconds between checks that a waiting caller is still connected."""


class GoneError(Exception):
    """The caller has closed the connection."""


class Server:
    """The web application of a model; an ASGI server runs `app`."""

    def __init__(self, name: str, prompts: Prompts, context: int, queue: Queue, token: str | None):
        self.name = name
        self.prompts = prompts
        self.context = context
        self.queue = queue
        self.token = token
        self.replies: dict[int, int] = {}
        """Number of replies by status."""
        self.since = int(time.time())
        routing = needed("starlette.routing", "serve")
        middleware = needed("starlette.middleware", "serve")
        hosts = needed("starlette.middleware.trustedhost", "serve").TrustedHostMiddleware
        local = ["localhost", "127.0.0.1", "[::1]"]
        route = routing.Route
        self.app: Any = needed("starlette.applications", "serve").Starlette(
            routes=[
                route("/health", self._guard(self._health, open=True)),
                route("/metrics", self._guard(self._metrics)),
                route("/v1/models", self._guard(self._models)),
                route("/v1/chat/completions", self._guard(self._chat), methods=["POST"]),
                route("/v1/completions", self._guard(self._complete), methods=["POST"]),
            ],
            exception_handlers={404: self._missing, 405: self._missing},
            # Without a token, protects against web pages of other sites (DNS rebinding).
            middleware=[] if token else [middleware.Middleware(hosts, allowed_hosts=local)],
        )
        responses = needed("starlette.responses", "serve")
        self._json, self._text = responses.JSONResponse, responses.PlainTextResponse
        self._stream = responses.StreamingResponse

    # Requests

    def _guard(self, reply: Callable[[Any], Any], open: bool = False) -> Callable[[Any], Any]:
        """
        Wraps a handler `reply`: converts errors to replies, and requires the token unless `open`.
        """

        async def handle(request: Any) -> Any:
            try:
                if not open and not self._is_known(request):
                    raise BadRequestError(
                        "the bearer token is missing or wrong: send the server's token", status=401
                    )
                response = await reply(request)
            except BadRequestError as error:
                response = self._refusal(str(error), error.status, error.field)
            except FullError:
                message = f"{self.queue.waiting} requests are already waiting: try again later"
                response = self._refusal(message, 429, headers={"Retry-After": "1"})
            except GoneError:
                response = self._refusal("the caller has closed the connection", 499)
            except Exception as error:
                response = self._refusal(f"the model failed: {error}", 500)
            self.replies[response.status_code] = self.replies.get(response.status_code, 0) + 1
            return response

        return handle

    def _is_known(self, request: Any) -> bool:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self.token is None or hmac.compare_digest(given.encode(), self.token.encode())

    def _refusal(
        self,
        message: str,
        status: int,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        return self._json(_error(message, status, field), status, headers=headers)

    async def _missing(self, request: Any, error: Any) -> Any:
        return self._refusal(
            f"{request.method} {request.url.path} is not served", error.status_code
        )

    async def _health(self, request: Any) -> Any:
        return self._json({"status": "ok"})

    async def _models(self, request: Any) -> Any:
        model = {"id": self.name, "object": "model", "created": self.since, "owned_by": "local"}
        return self._json({"object": "list", "data": [model]})

    async def _metrics(self, request: Any) -> Any:
        return self._text("\n".join(self.metrics()) + "\n")

    def metrics(self) -> list[str]:
        """Returns the state of the server in Prometheus' text format."""
        counters = self.queue.counters
        numbers: dict[str, float] = {
            "requests_total": counters.requests,
            "requests_refused_total": counters.refused,
            "requests_cancelled_total": counters.cancelled,
            "requests_failed_total": counters.failed,
            "prompt_tokens_total": counters.prompt_tokens,
            "answer_tokens_total": counters.answer_tokens,
            "queue_seconds_total": counters.waited_seconds,
            "requests_active": self.queue.active,
            "requests_waiting": self.queue.waiting,
        }
        lines = {name: str(number) for name, number in numbers.items()}
        for function, seconds in counters.seconds.items():
            lines[f'model_seconds_total{{function="{function}"}}'] = str(seconds)
        for status, count in self.replies.items():
            lines[f'replies_total{{status="{status}"}}'] = str(count)
        return [f"xdsl_spirv_{name} {number}" for name, number in lines.items()]

    # Answers

    async def _chat(self, request: Any) -> Any:
        return await self._answer(request, chat=True)

    async def _complete(self, request: Any) -> Any:
        return await self._answer(request, chat=False)

    async def _answer(self, request: Any, chat: bool) -> Any:
        wish = read_wish(await _body_of(request), chat)
        if wish.model not in ("", self.name):
            raise BadRequestError(f"this server has only the model {self.name!r}", "model", 404)
        tokens = self._encode(wish, chat)
        events: asyncio.Queue[Event] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(event: Event) -> None:
            # The event loop is closed if the caller has closed the connection.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(events.put_nowait, event)

        asked = Request(tokens, tell, wish.limit, wish.sampling, chat, wish.stops)
        self.queue.submit(asked)
        form = _Form(self.name, chat, len(tokens))
        arriving = _stream_events(request, asked, events)
        if not wish.streams:
            texts, end = [], None
            async for event in arriving:
                texts, end = ([*texts, event], end) if isinstance(event, str) else (texts, event)
            assert end is not None
            return self._json(form.build("".join(texts), end))
        # Before the first piece of text, an error can still set the status.
        first = await anext(arriving)
        pieces = self._pieces(form, first, arriving, wish.counts)
        return self._stream(pieces, media_type="text/event-stream")

    def _encode(self, wish: Wish, chat: bool) -> list[int]:
        try:
            tokens = self.prompts.encode(wish.prompt, self.context, raw=not chat)
        except (FrontendError, ProgramError) as error:
            raise BadRequestError(str(error), "messages" if chat else "prompt") from error
        # The keys of the last token are not stored, so a text can have context + 1 tokens.
        room = self.context + 1 - len(tokens)
        if wish.limit is not None and wish.limit > room:
            raise BadRequestError(
                f"the prompt has {len(tokens)} tokens and max_tokens is {wish.limit}, but "
                f"the context of {self.context} has room only for {room} (the last token of an "
                "answer needs no room)",
                "max_tokens",
            )
        return tokens

    async def _pieces(
        self, form: _Form, first: str | Ended, arriving: AsyncIterator[str | Ended], counts: bool
    ) -> AsyncIterator[str]:
        try:
            yield _sent(form.start())
            end = first if isinstance(first, Ended) else None
            if end is None:
                yield _sent(form.piece(str(first)))
                async for event in arriving:
                    if isinstance(event, Ended):
                        end = event
                    else:
                        yield _sent(form.piece(event))
            assert end is not None
            yield _sent(form.piece("", end.reason))
            if counts:
                yield _sent(form.usage(end))
        except GoneError:
            return
        except Exception as error:
            yield _sent(_error(f"the model failed: {error}", 500))
        finally:
            await arriving.aclose()  # pyright: ignore
        yield "data: [DONE]\n\n"


async def _body_of(request: Any) -> bytes:
    """Returns a request's body. Raises `BadRequestError` if it is too large or not JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        # Browsers do not send JSON to other sites without permission (CORS).
        raise BadRequestError(f"content-type is {kind!r}: give application/json", status=415)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise BadRequestError(f"the body must have at most {MOST_BYTES:,} bytes", status=413)
    return body


async def _stream_events(
    request: Any, asked: Request, events: asyncio.Queue[Event]
) -> AsyncIterator[str | Ended]:
    """
    Yields the text and the end of an answer as they arrive.

    Raises `GoneError` if the caller has closed the connection, and any error of the model.
    """
    try:
        while True:
            try:
                event = await asyncio.wait_for(events.get(), POLLED)
            except TimeoutError:
                if await request.is_disconnected():
                    raise GoneError from None
                continue
            if isinstance(event, Exception):
                raise event
            yield event
            if isinstance(event, Ended):
                return
    finally:
        asked.cancelled = True


def _error(message: str, status: int, field: str | None = None) -> Mapping[str, Any]:
    kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error"}
    kind = kinds.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": field, "code": None}}


def _sent(value: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"


class _Form:
    """The common fields of OpenAI's JSON objects for one answer."""

    def __init__(self, model: str, chat: bool, prompt_tokens: int):
        self.chat = chat
        self.prompt_tokens = prompt_tokens
        number = uuid.uuid4().hex
        self.head = {
            "id": f"chatcmpl-{number}" if chat else f"cmpl-{number}",
            "created": int(time.time()),
            "model": model,
        }
        self.kind = "chat.completion" if chat else "text_completion"

    def build(self, text: str, end: Ended) -> Mapping[str, Any]:
        content = (
            {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        )
        return self._object(self.kind, content, end.reason) | {"usage": self._counts(end)}

    def start(self) -> Mapping[str, Any]:
        return self._chunk({"role": "assistant", "content": ""}, "", None)

    def piece(self, text: str, reason: str | None = None) -> Mapping[str, Any]:
        return self._chunk({"content": text} if text else {}, text, reason)

    def usage(self, end: Ended) -> Mapping[str, Any]:
        whole = self._chunk({}, "", None)
        return {**whole, "choices": [], "usage": self._counts(end)}

    def _chunk(self, delta: Mapping[str, str], text: str, reason: str | None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else self.kind
        return self._object(kind, {"delta": delta} if self.chat else {"text": text}, reason)

    def _object(self, kind: str, content: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, **content, "finish_reason": reason, "logprobs": None}
        return {**self.head, "object": kind, "choices": [choice]}

    def _counts(self, end: Ended) -> Mapping[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": end.tokens,
            "total_tokens": self.prompt_tokens + end.tokens,
        }
