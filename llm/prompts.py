"""Converts prompts to tokens, and refuses prompts that do not fit the context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from xdsl_spirv.llm.chat import Chat, Message
from xdsl_spirv.llm.tokenizer import Tokenizer
from xdsl_spirv.llm.vocabulary import vocabulary_of
from xdsl_spirv.runtime.errors import ProgramError

Prompt: TypeAlias = str | Sequence[Message]
"""The user's message, or a conversation."""


class Prompts:
    """The tokenizer and the chat template of a model file."""

    def __init__(self, metadata: Mapping[str, Any], place: str):
        """Raises `FrontendError` for a missing, malformed or unsupported vocabulary."""
        self.metadata = metadata
        self.place = place
        self.tokenizer = Tokenizer(vocabulary_of(metadata, place), place)

    @cached_property
    def chat(self) -> Chat:
        """Returns the chat template. Raises `FrontendError` if there is none."""
        return Chat(self.metadata, self.tokenizer, self.place)

    def encode(
        self, prompt: Prompt, context: int, *, system: str | None = None, raw: bool = False
    ) -> list[int]:
        """
        Returns the tokens of a prompt, at most `context`; `raw` omits the chat template.

        Raises `FrontendError` for messages that the template refuses, and `ProgramError` for a
        malformed, empty or too long prompt.
        """
        tokens = self._raw(prompt, system) if raw else self._conversation(prompt, system)
        if len(tokens) > context:
            raise ProgramError(
                f"the prompt has {len(tokens):,} tokens, more than the context of {context:,}",
                "the prompt",
                "shorten the prompt, or give a longer --context",
            )
        return tokens

    def _raw(self, prompt: Prompt, system: str | None) -> list[int]:
        if not isinstance(prompt, str) or system is not None:
            raise ProgramError(
                "a raw prompt must be one text without a system message",
                "the prompt",
                "put the system message into the text",
            )
        tokens = self.tokenizer.encode(prompt, control=True)
        if not prompt:
            raise _empty("the prompt is empty")
        return tokens

    def _conversation(self, prompt: Prompt, system: str | None) -> list[int]:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*prompt]
        for number, message in enumerate(messages):
            for field in ("role", "content"):
                if not isinstance(_entry(message, field), str):
                    raise ProgramError(
                        f"message {number} (counted from 0) has no text as its {field!r}",
                        "the prompt",
                        'give messages such as {"role": "user", "content": "Hello"}',
                    )
        if system is not None:
            messages = [{"role": "system", "content": system}, *messages]
        for message in messages or [{"role": "user", "content": ""}]:
            if not message["content"].strip():
                raise _empty(f"the message of the {message['role']} is empty")
        return self.chat.encode(messages)


def _entry(message: Any, field: str) -> Any:
    return message.get(field) if isinstance(message, Mapping) else None


def _empty(cause: str) -> ProgramError:
    return ProgramError(cause, "the prompt", "give some text")
