"""
Runs language models: converts text to tokens, runs a program with states, and converts tokens to
text.

    from xdsl_spirv.llm import LanguageModel

    model = LanguageModel.load("model.gguf")
    for piece in model.generate("Why is the sky blue?"):
        print(piece, end="", flush=True)

Names are imported on first use, which keeps `xdsl-spirv --help` fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl_spirv.llm.model import LanguageModel
    from xdsl_spirv.llm.sampling import Sampling
    from xdsl_spirv.llm.tokenizer import Tokenizer

__all__ = ["LanguageModel", "Sampling", "Tokenizer"]

_HOMES = {"LanguageModel": "model", "Sampling": "sampling", "Tokenizer": "tokenizer"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"xdsl_spirv.llm.{_HOMES[name]}"), name)
