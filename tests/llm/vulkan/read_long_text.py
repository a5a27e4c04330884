"""
Reads a long text in parts on the Vulkan device, continues it, and stores each new token's logits.

    read_long_text.py PROGRAM TOKENS.npy COUNT CONTEXT ROOM KEEP WINDOW RESULT.npy
"""

from __future__ import annotations

import sys

import numpy as np

from xdsl_spirv.frontends.gguf.caches import Sliding
from xdsl_spirv.llm.sliding import SlidingSession
from xdsl_spirv.llm.texts import DECODE, PREFILL, Texts, Work
from xdsl_spirv.runtime.program import Program


def main() -> None:
    program, path, count, context, *sizes, result = sys.argv[1:]
    text, rows = np.load(path).tolist(), list[np.ndarray]()
    work = {PREFILL: Work(), DECODE: Work()}
    with Program.load(program).session("vulkan") as session:
        texts = Texts(SlidingSession(session, Sliding(*map(int, sizes))), int(context))
        for _ in range(int(count)):
            while (prediction := texts.read_part(0, text, work)) is None:
                pass
            rows.append(prediction.read().copy())
            text.append(int(rows[-1].argmax()))
    np.save(result, rows)


main()
