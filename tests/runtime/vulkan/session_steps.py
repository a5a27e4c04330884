"""
Runs a session on a device, in a separate process because a driver may crash.

    session_steps.py PROGRAM STEPS STATE      prints the facts as JSON

STEPS is a JSON list of [function, rows, past]; `rows` of test_session.py makes the input x.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from xdsl_spirv.runtime.default_device import open_session
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.session import Following, Session
from xdsl_spirv.runtime.vulkan import resident
from xdsl_spirv.runtime.vulkan.device import open_device
from xdsl_spirv.runtime.vulkan.sessions import VulkanSession


def rows(n: int, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, (n, 8)).astype("f4")


def results(session: Session, steps: list[Any]) -> list[Any]:
    given = ((f, rows(n, past), past) for f, n, past in steps)
    return [session.run(f, x=x, past=past)["result0"].tolist() for f, x, past in given]


def run_ahead(session: VulkanSession) -> dict[str, Any]:
    """
    Decodes 12 rows, and announces a following run for each row. A result becomes the input of the
    ninth row. The fourth and the tenth run differ from the announced runs.
    """
    session.reset()
    session.runs_ahead = True
    work, claimed, x = session.loaded, list[bool](), rows(1, 0)
    was_started = work._was_started
    work._was_started = lambda run: claimed.append(was_started(run)) or claimed[-1]
    given, shown = list[Any](), list[Any]()
    for past in range(12):
        carried = {"x": "result0"} if past == 7 else {}
        following = Following({"past": past + 1}, carried)
        if past == 3:
            session.run("prefill", x=rows(2, 9), past=20)
        if past == 9:
            x = rows(1, 9)
        given.append(x.tolist())
        result = session.run("decode", {"x": x, "past": past}, following=following)["result0"]
        shown.append(result.tolist())
        x = result if carried else x
    refused = list[str]()
    for wrong in (
        lambda: session.read("decode", "result0"),
        lambda: session.run("decode", x=x, past=5, following=Following({}, {"x": "result0"})),
        lambda: session.run("decode", x=x, past=5, following=Following({}, {"x": "none"})),
        lambda: session.run("decode", x=x, past=31, following=Following({"past": 32}, {})),
    ):
        try:
            wrong()
        except ProgramError as error:
            refused.append(str(error))
    state = session.state()["k"].tolist()
    return {"x": given, "results": shown, "claimed": claimed, "state": state, "refused": refused}


def main(folder: str, steps: list[Any], file: str) -> dict[str, Any]:
    program = Program.load(folder)
    found: dict[str, Any] = {}
    with open_device() as device:
        with VulkanSession(program, device) as session:
            session.reserve("prefill", n=9)
            session.reserve("decode")
            place, given = device.place, []
            device.place = lambda *sizes: given.append(sizes) or place(*sizes)  # type: ignore[method-assign]
            found["results"] = results(session, steps)
            device.place = place  # type: ignore[method-assign]
            found["grown"] = len(given)
            found["state"] = session.state()["k"].tolist()
            session.save(file)
            session.reset()
            found["reset"] = float(np.abs(session.state()["k"]).max())
            found["again"] = results(session, steps)
            written: list[int] = []
            placed: list[int] = []
            recorder, place = session.loaded.recorders["decode"], device.place
            write = recorder._write_calls
            recorder._write_calls = lambda *given: written.append(1) or write(*given)
            device.place = lambda *given: placed.append(1) or place(*given)  # type: ignore[method-assign]
            x = rows(1, 0)
            counts: list[int] = []
            for past in range(10, 20):
                session.run("decode", x=x, past=past)
                counts.append(len(written))
            for past in (19, 19):
                session.run("decode", x=x, past=past)
                counts.append(len(written))
            found["written"] = counts
            session.run("prefill", {"x": rows(4, 2), "past": 5}, outputs=[])
            found["rows"] = session.read("prefill", "result0", 1, 2).tolist()
            found["all rows"] = session.read("prefill", "result0").tolist()
            found["placed"] = len(placed)
            try:
                session.run("decode", x=x, past=32)
            except ProgramError as error:
                found["refused"] = str(error)
            found["live"] = dict(device.live)
            found["ahead"] = run_ahead(session)
        found["left"] = device.live
        before, resident.STAGING_BYTES = resident.STAGING_BYTES, 48
        with VulkanSession(program, device) as session:
            found["in pieces"] = results(session, steps)
            found["in one go"] = session.loaded.recorders["prefill"].in_one_go
        resident.STAGING_BYTES = before
    found["messages"] = device.messages
    with open_session(program, "vulkan", isolated=True) as session:
        found["isolated"] = results(session, steps)
        session.load(file)
        found["loaded"] = session.state()["k"].tolist()
    found["once"] = program.functions["decode"](rows(1, 3), np.array(0), device="vulkan").tolist()
    return found


if __name__ == "__main__":
    folder, steps, file = sys.argv[1:]
    print(json.dumps(main(folder, json.loads(steps), file)))
