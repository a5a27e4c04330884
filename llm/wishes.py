"""
Parses the bodies of requests in OpenAI's format.

An unsupported field that would change the answer is refused.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl_spirv.llm.chat import Message
from xdsl_spirv.llm.sampling import Sampling

IGNORED = frozenset(
    "user metadata store service_tier parallel_tool_calls safety_identifier"
    " prompt_cache_key".split()
)
"""Fields that do not change the text of an answer."""

ONLY: Mapping[str, Sequence[Any]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "suffix": ("",),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
}
"""Fields that are supported with certain values only, and these values."""

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
MOST_STOPS = 4


class BadRequestError(Exception):
    """A refused body: the reason, the field, and the HTTP status."""

    def __init__(self, message: str, field: str | None = None, status: int = 400):
        super().__init__(message)
        self.field = field
        self.status = status


@dataclass(frozen=True)
class Wish:
    """A request; `prompt` is a text to continue or a conversation."""

    model: str
    prompt: str | list[Message]
    limit: int | None
    sampling: Sampling
    stops: Sequence[str]
    streams: bool
    counts: bool
    """True if a stream ends with the numbers of tokens."""


def read_wish(body: bytes, chat: bool) -> Wish:
    """Parses a request's body. Raises `BadRequestError`."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadRequestError("the body must be a JSON object")
    # A null field counts as missing.
    fields = _Fields({str(k): v for k, v in given.items() if v is not None})  # pyright: ignore
    prompt = fields.conversation() if chat else fields.text("prompt")
    sampling = fields.sampling()
    limit = fields.number("max_tokens", int, None, 1)
    wish = Wish(
        fields.text("model", ""),
        prompt,
        fields.number("max_completion_tokens", int, limit, 1) if chat else limit,
        sampling,
        fields.stops(),
        fields.flag(fields.values.pop("stream", False), "stream"),
        fields.counts(),
    )
    fields.refuse_rest()
    return wish


class _Fields:
    """The fields of a body; each field is removed when it is read."""

    def __init__(self, values: dict[str, Any]):
        self.values = values

    def text(self, name: str, default: str | None = None) -> str:
        value = self.values.pop(name, default)
        if not isinstance(value, str):
            cause = "is missing" if value is None else "is not a text"
            raise BadRequestError(f"{name} {cause}", name)
        return value

    def flag(self, value: Any, name: str) -> bool:
        if not isinstance(value, bool):
            raise BadRequestError(f"{name} must be true or false", name)
        return value

    def number(self, name: str, kind: type, default: Any, least: float) -> Any:
        value = self.values.pop(name, default)
        if value is None:
            return None
        if type(value) is int and kind is float:
            value = float(value) if abs(value) < sys.float_info.max else math.inf
        if type(value) is not kind or not least <= value < math.inf:
            raise BadRequestError(f"{name} is {value!r}: give a number of at least {least}", name)
        return value

    def sampling(self) -> Sampling:
        temperature = self.number("temperature", float, 1.0, 0)
        top_p = self.number("top_p", float, None, 0)
        seed = self.number("seed", int, None, 0)
        top_k = self.number("top_k", int, None, 1)
        if top_p is not None and not 0 < top_p <= 1:
            raise BadRequestError(f"top_p is {top_p}: give a number above 0 and up to 1", "top_p")
        return Sampling(temperature, top_k, top_p, seed) if temperature else Sampling()

    def stops(self) -> Sequence[str]:
        given: Any = self.values.pop("stop", [])
        stops: list[Any] = [given] if isinstance(given, str) else given
        texts = isinstance(stops, list) and all(isinstance(s, str) and s for s in stops)  # pyright: ignore
        if not texts or len(stops) > MOST_STOPS:
            raise BadRequestError(
                f"stop must be a text or a list of at most {MOST_STOPS} texts", "stop"
            )
        return stops

    def counts(self) -> bool:
        options: Any = self.values.pop("stream_options", {})
        if not isinstance(options, dict) or set(options) - {"include_usage"}:  # pyright: ignore
            raise BadRequestError("stream_options may only have include_usage", "stream_options")
        return self.flag(options.get("include_usage", False), "stream_options")  # pyright: ignore

    def conversation(self) -> list[Message]:
        messages: Any = self.values.pop("messages", None)
        if not isinstance(messages, list) or not messages:
            raise BadRequestError("`messages` must be a list of one or more messages", "messages")
        return [_message_of(message) for message in messages]  # pyright: ignore[reportUnknownVariableType]

    def refuse_rest(self) -> None:
        for name, value in self.values.items():
            known = any(
                isinstance(value, bool) == isinstance(one, bool) and value == one
                for one in ONLY.get(name, ())
            )
            if name not in IGNORED and not known:
                raise BadRequestError(f"{name} is not supported: leave it out", name)


def _message_of(message: Any) -> Message:
    if not isinstance(message, dict):
        raise BadRequestError("a message must be a JSON object", "messages")
    given: dict[str, Any] = {k: v for k, v in message.items() if v is not None}  # pyright: ignore
    role, content = given.pop("role", None), given.pop("content", None)
    given.pop("name", None)
    if not isinstance(role, str) or role not in ROLES:
        raise BadRequestError(f"the role {role!r} must be one of {', '.join(ROLES)}", "messages")
    if isinstance(content, list):
        parts: list[Any] = content
        texts = [
            p.get("text") if isinstance(p, dict) and p.get("type") == "text" else None
            for p in parts
        ]  # pyright: ignore
        content = None if None in texts else "".join(map(str, texts))  # pyright: ignore
    if not isinstance(content, str):
        raise BadRequestError("the content of a message must be text", "messages")
    if given:
        raise BadRequestError(
            f"{next(iter(given))} of a message is not supported: leave it out", "messages"
        )
    return {"role": ROLES[role], "content": content}
