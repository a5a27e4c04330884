"""
Runs a language model on the Vulkan device: logits of a text, and an answer to its first tokens.

    logits_and_answer.py PROGRAM TOKENS.npy FIRST COUNT RESULT.npz
"""

from __future__ import annotations

import sys

import numpy as np

from xdsl_spirv.runtime.program import Program


def main() -> None:
    program, path, first, count, result = sys.argv[1:]
    tokens = np.load(path)
    following: list[int] = []
    with Program.load(program).session("vulkan") as session:
        logits = session.run("prefill", token=tokens, past=0)["logits"]
        session.reset()
        last = session.run("prefill", token=tokens[: int(first)], past=0)["logits"][-1]
        for past in range(int(first), int(first) + int(count)):
            following.append(int(last.argmax()))
            token = np.array(following[-1:], np.int32)
            last = session.run("decode", token=token, past=past)["logits"][-1]
    np.savez(result, logits=logits, following=following)


main()
