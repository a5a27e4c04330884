"""
Compares runs of random texts in the slots of a program on the Vulkan device with separate runs.

Each slot's runs are repeated with the other slots empty. Prints the number of logits, and how many
differ.

    repeat_slots.py PROGRAM SLOTS CONTEXT
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.program import Program

Run = tuple[Array, dict[int, int]]
"""Tokens of a run, and a map from each slot that the run uses to its number of past tokens."""


def draw_runs(slots: int, context: int, count: int) -> list[Run]:
    draw, read, runs = np.random.default_rng(2), [0] * slots, list[Run]()
    while len(runs) < count:
        slot, length = int(draw.integers(slots)), int(draw.integers(1, 9))
        # Some texts continue, others start again, or after the first half of the previous text.
        past = int(draw.choice([read[slot], read[slot] // 2, 0]))
        if draw.random() < 0.4 and past + length < context:
            read[slot] = past + length
            runs.append((draw.integers(0, 256, length).astype(np.int32), {slot: past}))
        elif max(read) < context:
            tokens = draw.integers(0, 256, slots).astype(np.int32)
            runs.append((tokens, dict(enumerate(read))))
            read = [past + 1 for past in read]
    return runs


def main() -> None:
    slots, context = map(int, sys.argv[2:])
    program, runs = Program.load(sys.argv[1]), draw_runs(slots, context, 60)

    def compute(only: int | None) -> list[Array]:
        """Returns logits of all runs by slot. With `only`, the other slots read the token 0."""
        results: list[Any] = []
        with program.session("vulkan") as session:
            for tokens, pasts in runs:
                if len(pasts) == 1:
                    ((slot, past),) = pasts.items()
                    if only in (None, slot):
                        name = "prefill" if len(tokens) > 1 else "decode"
                        logits = session.run(name, token=tokens, past=past, slot=slot)["logits"]
                        results.append({slot: logits[0].copy()})
                    else:
                        results.append({})
                    continue
                own = [past if only in (None, s) else 0 for s, past in pasts.items()]
                token = np.where([only in (None, s) for s in pasts], tokens, 0).astype(np.int32)
                position = np.array(own, np.int32)
                numbers = {f"past_{s}": past for s, past in enumerate(own)}
                numbers["past"] = max(pasts.values())
                given: dict[str, Any] = {"token": token, "position": position, **numbers}
                logits = session.run("decode_batch", **given)["logits"]
                results.append(dict(enumerate(logits.copy())))
        return results

    together = compute(None)
    pairs = [
        (logits[slot], alone[slot])
        for slot in range(slots)
        for logits, alone in zip(together, compute(slot), strict=True)
        if slot in logits
    ]
    print(len(pairs), sum(not np.array_equal(*pair) for pair in pairs))


main()
