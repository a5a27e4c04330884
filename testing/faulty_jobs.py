"""A job kind that fails in a requested way, to test the effect on other jobs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from xdsl_spirv.jobs.job import KINDS, Kind, Wrong
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.errors import DeviceLostError

FAULTY = "faulty"
KINDS[FAULTY] = Kind("xdsl_spirv.testing.faulty_jobs:faulty")


def faulty(data: dict[str, Any]) -> Any:
    """
    Appends a line to the file `log`. Then performs the action `data["do"]`, which usually fails.
    """
    if "log" in data:
        with Path(data["log"]).open("a") as file:
            file.write(f"{data.get('n', '')}\n")
    match data["do"]:
        case "return":
            time.sleep(data.get("sleep", 0.0))
            return data.get("value", os.getpid())
        case "meet":
            folder = Path(data["folder"])
            (folder / str(data["n"])).touch()
            while len(list(folder.iterdir())) < data["count"]:
                time.sleep(0.01)
        case "never end":
            never_end()
        case "hang":
            time.sleep(1000)
        case "signal":
            os.kill(os.getpid(), getattr(signal, data["name"]))
        case "kill the first time":
            marker = Path(data["marker"])
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return "done"
        case "kill the worker":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1000)
        case "exit":
            os._exit(7)
        case "allocate":
            return len(bytearray(data["bytes"]))
        case "wrong":
            raise Wrong("3 elements differ", {"elements": 3})
        case "refuse":
            raise ProgramError("the data is bad", "the job", "give other data")
        case "lose the device":
            raise DeviceLostError("the device was lost")
        case "return what is not data":
            return object()
        case what:
            raise KeyError(what)


def never_end() -> None:
    """Runs an endless kernel. Imports its modules locally, because most tests do not need them."""
    import numpy as np

    from xdsl_spirv.jobs.child import open_own_device
    from xdsl_spirv.serialization.text.assembler import assemble
    from xdsl_spirv.testing.dispatches import Dispatch, execute
    from xdsl_spirv.testing.endless_kernels import FOREVER

    kernel = assemble(FOREVER.replace("NAME", "main")).encode()
    execute(
        open_own_device(), Dispatch(kernel, "main", (1, 1, 1), {(0, 2): np.zeros(4, np.uint32)})
    )
