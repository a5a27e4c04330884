"""
Decodes texts on the Vulkan device, with and without following runs, and prints the tokens as JSON.

Each text grows by its likeliest token, and sometimes by a random one. At random times, and at the
end of the context, it is replaced by a new text.

    follow_tokens.py PROGRAM SLOTS CONTEXT
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from xdsl_spirv.llm.texts import DECODE, PREFILL, Texts, Work
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.device import VulkanDevice, open_device
from xdsl_spirv.runtime.vulkan.sessions import VulkanSession

program, slots, context = Program.load(sys.argv[1]), *map(int, sys.argv[2:])
found: dict[str, Any] = {"claimed": 0}


def decode(device: VulkanDevice, runs_ahead: bool) -> list[list[int]]:
    """Returns the likeliest tokens after each round."""
    rng, work, rounds = np.random.default_rng(4), {PREFILL: Work(), DECODE: Work()}, []
    with VulkanSession(program, device) as session:
        session.runs_ahead = runs_ahead
        was_started = session.loaded._was_started

        def claim(run: Any) -> bool:
            claimed = was_started(run)
            found["claimed"] += claimed
            return claimed

        session.loaded._was_started = claim
        texts = Texts(session, context, slots)
        active: dict[int, list[int]] = {}
        for number in range(60):
            for slot in range(slots):
                text = active.get(slot, [])
                if not text or len(text) >= context or rng.random() < 0.08:
                    active[slot] = text = rng.integers(0, 256, rng.integers(1, 6)).tolist()
                while texts.count_left(slot, text) > 1:
                    texts.read_part(slot, text[:-1], work)
            if number % 11 == 10 and slots > 1:
                # One text rests for a round.
                del active[int(rng.integers(slots))]
            given = {slot: (text, work) for slot, text in active.items()}
            predictions = texts.read_last(given, goes_on=True)
            rounds.append([prediction.likeliest for prediction in predictions.values()])
            for slot, prediction in predictions.items():
                chosen = prediction.likeliest if rng.random() < 0.9 else int(rng.integers(256))
                active[slot].append(chosen)
    return rounds


with open_device() as device:
    found["without"] = decode(device, False)
    found["ahead"] = decode(device, True)
    found["left"] = device.live
found["messages"] = device.messages
print(json.dumps(found))
