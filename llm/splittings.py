r"""
Defines the patterns by which pre-tokenizers split text into words, by name in GGUF files.

With a wrong pattern, a model still answers, but worse. Unknown names are therefore refused. The
patterns are from the models' `tokenizer.json`. Several patterns are applied in order, each to the
text between the matches of earlier patterns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Splitting:
    """Patterns of words, and other settings of a pre-tokenizer."""

    patterns: tuple[str, ...]
    whole: bool = False
    """True if a word that is a token becomes this token without merges."""
    adds_start: bool = False
    """True if a text begins with the start token, unless the file says otherwise."""


GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
"""Pattern of English endings after an apostrophe."""
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
REST_WITH_SLASH = REST.replace(r"[\r\n]*", r"[\r\n/]*")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
"""Pattern of a character that may precede the letters of a word."""


def _letters(digits: str) -> str:
    return rf"{ENDINGS}|{BEFORE}\p{{L}}+|{digits}|{REST}"


def _cased_words(ending: str, digits: str) -> str:
    """
    Returns a pattern of words that end where a small letter precedes a capital letter. Words may
    end in `ending`. Numbers match `digits`.
    """
    return (
        rf"{BEFORE}{UPPER}*{LOWER}+{ending}|{BEFORE}{UPPER}+{LOWER}*{ending}"
        rf"|{digits}|{REST_WITH_SLASH}"
    )


_FAMILIES: Mapping[tuple[str, ...], Splitting] = {
    ("gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion", "exaone4"): Splitting((GPT2,)),
    (
        *("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
    ): Splitting((r"\p{N}", GPT2)),
    ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"): Splitting(
        (_letters(r"\p{N}{1,3}"),), whole=True, adds_start=True
    ),
    ("dbrx", "smaug-bpe"): Splitting((_letters(r"\p{N}{1,3}"),)),
    (*("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo"),): Splitting(
        (_letters(r"\p{N}"),)
    ),
    ("tekken",): Splitting((_cased_words("", r"\p{N}"),), whole=True, adds_start=True),
    ("gpt-4o", "llama4"): Splitting((_cased_words(f"{ENDINGS}?", r"\p{N}{1,3}"),)),
    ("deepseek-v3",): Splitting(
        (
            r"\p{N}{1,3}",
            r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
            r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+",
        )
    ),
    ("default",): Splitting(
        (r"[\p{P}\$\+<=>\^~\|]+", GPT2.removesuffix(r"|\s+"), r"\p{N}+", r"[0-9][0-9][0-9]")
    ),
}

SPLITTINGS = {name: splitting for names, splitting in _FAMILIES.items() for name in names}
