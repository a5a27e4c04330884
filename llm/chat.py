"""
Formats a conversation with the chat template of a model file.

Templates are Jinja2 programs, which run in Jinja2's sandbox. A template that uses undefined names
or leaves out a message is refused, because the model would answer an incomplete conversation.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.tokenizer import Tokenizer, guard_for
from xdsl_spirv.runtime.patience import time_limit

Message: TypeAlias = Mapping[str, str]
"""A message with a `role` (system, user, assistant) and its `content`."""

SECONDS = 10.0
"""Time limit of a template in seconds; usual templates take a millisecond."""

KEY = "tokenizer.chat_template"

OF_TEMPLATES = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError),
    *(TimeoutError, ValueError),
)
"""Exceptions that the expressions of a template may raise."""


class Chat:
    """The chat template of a model."""

    def __init__(self, metadata: Mapping[str, Any], tokenizer: Tokenizer, place: str):
        """Raises `FrontendError` if the file has no template or a malformed template."""
        self._place = f"{place}, {KEY}"
        self._tokenizer = tokenizer
        source = metadata.get(KEY)
        if not source:
            raise FrontendError(
                "the model has no chat template",
                self._place,
                "give the prompt without a template (--raw)",
            )
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise FrontendError(
                f"the chat template cannot be parsed: {error.message}",
                f"{self._place}, line {error.lineno}",
                "give the prompt without a template (--raw)",
            ) from error
        self._start = _text_of(metadata, "bos", tokenizer)
        self._end = _text_of(metadata, "eos", tokenizer)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """
        Returns the tokens of a conversation, up to the start of the answer.

        Control tokens in the text of a message are not recognised. Raises `FrontendError`.
        """
        guard = guard_for(message["content"] for message in messages)
        guarded = [
            {**message, "content": self._tokenizer.guarded(message["content"], guard)}
            for message in messages
        ]
        text = self.render(guarded)
        return self._tokenizer.encode(text, control=True, guard=guard)

    def render(self, messages: Sequence[Message]) -> str:
        """Returns the text of a conversation. Raises `FrontendError`."""
        try:
            with time_limit(
                SECONDS, TimeoutError(f"the chat template takes more than {SECONDS:g} s")
            ):
                text = self._template.render(
                    messages=messages,
                    add_generation_prompt=True,
                    bos_token=self._start,
                    eos_token=self._end,
                    tools=None,
                    documents=None,
                )
        except (jinja2.TemplateError, *OF_TEMPLATES) as error:
            raise FrontendError(
                f"the chat template refuses the conversation: {error}",
                self._place,
                "change the roles or their order (many templates refuse a system message), or give "
                "the prompt without a template (--raw)",
            ) from error
        for message in messages:
            if message["content"].strip() not in text:
                raise FrontendError(
                    f"the chat template leaves out the message of the {message['role']}",
                    self._place,
                    "put the text into another message, or use a prompt without a template (--raw)",
                )
        return text


def _text_of(metadata: Mapping[str, Any], role: str, tokenizer: Tokenizer) -> str:
    """Returns the text of a special token (such as bos); "" if the file does not define it."""
    number: int | None = metadata.get(f"tokenizer.ggml.{role}_token_id")
    return "" if number is None else tokenizer.vocabulary.tokens[number]


def _environment() -> Any:
    class Missing(jinja2.Undefined):
        """An undefined name in a template, which can be tested, but not printed or iterated."""

        __str__ = __iter__ = __len__ = jinja2.Undefined._fail_with_undefined_error

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=Missing,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters["tojson"] = _to_json
    functions: dict[str, Any] = {"raise_exception": _refuse, "strftime_now": _now}
    environment.globals.update(functions)
    return environment


def _to_json(value: Any, indent: int | None = None) -> str:
    """Converts a value to JSON. Unlike Jinja2's filter, does not escape HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _now(format: str) -> str:
    return datetime.datetime.now().strftime(format)
