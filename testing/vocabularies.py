"""Small vocabularies as metadata of a GGUF file."""

from __future__ import annotations

import random
from typing import Any

from xdsl_spirv.llm.byte_pairs import CHARACTERS
from xdsl_spirv.llm.vocabulary import Kind

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER_DEFINED = ("<think>",)


def byte_pair_metadata(
    merges: list[str], splitting: str = "gpt-2", /, **values: Any
) -> dict[str, Any]:
    """Returns a vocabulary of all bytes, the results of some merges, and special tokens."""
    words = [*CHARACTERS.values(), *(merge.replace(" ", "", 1) for merge in merges)]
    tokens = [*words, *CONTROL, *USER_DEFINED]
    kinds = [Kind.NORMAL] * len(words) + [Kind.CONTROL] * len(CONTROL)
    kinds += [Kind.USER_DEFINED] * len(USER_DEFINED)
    first = len(words)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": splitting,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": first,
        "tokenizer.ggml.eos_token_id": first + 2,
        "tokenizer.ggml.add_bos_token": False,
        **{f"tokenizer.ggml.{name}": value for name, value in values.items()},
    }


def sentence_piece_metadata(seed: int = 0, **values: Any) -> dict[str, Any]:
    """
    Returns a vocabulary of all bytes and of short pieces. Pieces have random scores; some scores
    are equal.
    """
    generator = random.Random(seed)
    letters = "abcé▁"
    pieces = sorted(
        {"".join(generator.choices(letters, k=generator.randint(2, 5))) for _ in range(120)}
    )
    normal = [*letters, *pieces]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_, *normal]
    kinds = [Kind.UNKNOWN, Kind.CONTROL, Kind.CONTROL, *[Kind.BYTE] * 256]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [*kinds, *[Kind.NORMAL] * len(normal)],
        "tokenizer.ggml.scores": [float(generator.randint(-40, 0)) for _ in tokens],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **{f"tokenizer.ggml.{name}": value for name, value in values.items()},
    }
