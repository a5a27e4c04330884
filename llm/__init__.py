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

from typing import TYPE_CHECKING

from xdsl_spirv import import_on_use

if TYPE_CHECKING:
    from xdsl_spirv.llm.model import LanguageModel
    from xdsl_spirv.llm.sampling import Sampling
    from xdsl_spirv.llm.tokenizer import Tokenizer

__all__ = ["LanguageModel", "Sampling", "Tokenizer"]

__getattr__ = import_on_use(__name__)
