"""Computes the logits of a model by llama.cpp on the CPU, as a reference for GGUF files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def _model_class(api: Any) -> Any:
    """
    Returns cyllama's model class, corrected: version 0.2.18 takes `n_vocab` from a wrong object.
    """

    class Model(api.LlamaModel):
        @property
        def n_vocab(self) -> int:
            return self.get_vocab().n_vocab

    return Model


class LlamaCpp:
    """A GGUF model in llama.cpp, by PyPI's `cyllama`, with keys and values in f32."""

    def __init__(self, path: str | os.PathLike[str], context: int):
        self.api: Any = import_module("cyllama.llama.llama_cpp")
        self.api.disable_logging()
        parameters = self.api.LlamaModelParams()
        parameters.n_gpu_layers = 0
        self.model = _model_class(self.api)(os.fspath(path), parameters, verbose=False)
        options = self.api.LlamaContextParams()
        options.n_ctx = context
        options.n_batch = options.n_ubatch = min(context, 512)
        options.n_threads = options.n_threads_batch = 1
        options.type_k = options.type_v = 0
        options.flash_attn_type = 0
        options.swa_full = True
        self.context = self.api.LlamaContext(self.model, options, verbose=False)
        self.past = 0

    def run(self, tokens: Sequence[int] | Array) -> Array:
        """Appends tokens to the context. Returns the logits of each token."""
        count = len(tokens)
        batch = self.api.LlamaBatch(n_tokens=count, embd=0, n_seq_max=1, verbose=False)
        for token in tokens:
            batch.add(int(token), self.past, [0], True)
            self.past += 1
        self.context.decode(batch)
        logits = [self.context.get_logits_ith(i) for i in range(count)]
        return np.array(logits, np.float32)
