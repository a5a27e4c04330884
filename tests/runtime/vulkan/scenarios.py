"""
Runs scenarios of the runtime on a device, in a separate process because a driver may crash.

    scenarios.py NAME...       runs each and prints its facts as JSON

test_vulkan.py checks the facts. With XDSL_SPIRV_VULKAN_VALIDATION=1 in the environment they
include the validation layer's messages.
"""

from __future__ import annotations

import ctypes as c
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan import cache, loaded
from xdsl_spirv.runtime.vulkan.device import VulkanDevice, open_device
from xdsl_spirv.runtime.vulkan.enums import Result
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.layout import array, pointer
from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer
from xdsl_spirv.runtime.vulkan.worker import open_isolated
from xdsl_spirv.serialization.text.assembler import assemble

HERE = Path(__file__).parent
GROUP = 64
TIMEOUT = 60.0


def kernel(name: str) -> bytes:
    return assemble((HERE / f"{name}.spvasm").read_text()).encode()


def scaled(source: str, result: str, factor: int, offset: int, groups: int = 1) -> Step:
    """Returns a step that computes result = source * factor + offset on each element."""
    return Step(
        kernel="scale",
        entry_point="scale",
        grid=(groups, 1, 1),
        bindings=((0, 0, source), (1, 2, result)),
        constants=((7, factor.to_bytes(4, "little")),),
        push=(5).to_bytes(4, "little") + bytes(4) + offset.to_bytes(4, "little"),
    )


def chain(length: int, elements: int) -> Work:
    """Returns `length` steps x * 3 + 1 with a temporary between any two."""
    names = ["x", *(f"t{i}" for i in range(length - 1)), "y"]
    kinds = {"x": "input", "y": "output"}
    return Work(
        buffers=tuple(
            WorkBuffer(n, 4 * elements, kinds.get(n, "temporary"))  # pyright: ignore[reportArgumentType]
            for n in names
        ),
        kernels={"scale": kernel("scale")},
        steps=tuple(scaled(a, b, 3, 1, elements // GROUP) for a, b in pairwise(names)),
    )


def expected(x: Array, length: int) -> Array:
    for _ in range(length):
        x = x * np.uint32(3) + np.uint32(1)
    return x


def numbers(elements: int) -> Array:
    return np.random.default_rng(elements).integers(0, 1 << 20, elements).astype(np.uint32)


def one_submission(device: VulkanDevice) -> dict[str, Any]:
    """Runs a chain with temporaries twice. Returns results and remaining objects."""
    work = device.load(chain(6, 1024))
    x = numbers(1024)
    results = [work.run({"x": x.tobytes()}, TIMEOUT) for _ in range(2)]
    same = [bool((np.frombuffer(r["y"], np.uint32) == expected(x, 6)).all()) for r in results]
    assert work.buffers is not None
    taken = work.buffers.allocated
    times = work.time(3, TIMEOUT)
    of_runs = work.time_runs(2, 3, TIMEOUT)
    phases = work.phases({"x": x.tobytes()}, 3, TIMEOUT)
    after = work.read("y", TIMEOUT)
    live = dict(device.live)
    device.unload(work)
    return {
        "right": same,
        "allocated": taken,
        "in_one_go": work.in_one_go,
        "times": [min(t.nanoseconds) for t in times],
        "times_of_runs": of_runs,
        "phases": [(p.track, p.name, p.start, p.nanoseconds, p.dispatch) for p in phases],
        "right_after_phases": bytes(after) == expected(x, 6).tobytes(),
        "live": live,
        "left": device.live,
    }


def in_pieces(device: VulkanDevice) -> dict[str, Any]:
    """Transfers inputs, outputs and weights that are larger than the staging buffer."""
    before, loaded.STAGING_BYTES = loaded.STAGING_BYTES, 1000
    try:
        x, w = numbers(4096), numbers(2048)
        work = Work(
            buffers=(
                WorkBuffer("x", x.nbytes, "input"),
                WorkBuffer("w", w.nbytes, "weight"),
                WorkBuffer("y", x.nbytes, "output"),
                WorkBuffer("z", w.nbytes, "output"),
            ),
            kernels={"scale": kernel("scale")},
            steps=(scaled("x", "y", 5, 2, 64), scaled("w", "z", 1, 9, 32)),
            weights={"w": w.tobytes()},
        )
        ready = device.load(work)
        results = ready.run({"x": x.tobytes()}, TIMEOUT)
        assert ready.staging is not None
        return {
            "in_one_go": ready.in_one_go,
            "staging": ready.staging.size,
            "y": bool((np.frombuffer(results["y"], np.uint32) == x * 5 + 2).all()),
            "z": bool((np.frombuffer(results["z"], np.uint32) == w + 9).all()),
        }
    finally:
        loaded.STAGING_BYTES = before


def once(device: VulkanDevice) -> dict[str, Any]:
    """Changes the weight of a `once` step between two runs. Returns the results of both runs."""
    w, x = numbers(64), numbers(128)[:64].copy()
    kinds = {"w": "weight", "t": "temporary", "u": "temporary", "x": "input"}
    work = Work(
        buffers=tuple(
            WorkBuffer(name, 256, kinds.get(name, "output"))  # pyright: ignore[reportArgumentType]
            for name in "wtuxyz"
        ),
        kernels={"scale": kernel("scale")},
        steps=(
            scaled("x", "u", 3, 1),
            scaled("u", "y", 3, 1),
            replace(scaled("w", "t", 3, 1), once=True),
            scaled("t", "z", 3, 1),
        ),
        weights={"w": w.tobytes()},
    )
    ready = device.load(work)
    results = [ready.run({"x": x.tobytes()}, TIMEOUT)]
    ready.write("w", bytes(256), TIMEOUT)
    results.append(ready.run({"x": x.tobytes()}, TIMEOUT))
    device.unload(ready)
    return {
        name: [bool((np.frombuffer(r[name], np.uint32) == expected(v, 2)).all()) for r in results]
        for name, v in (("y", x), ("z", w))
    }


def addresses(device: VulkanDevice) -> dict[str, Any]:
    """Passes buffers by device address in push constants."""
    x = numbers(8)
    work = Work(
        buffers=(WorkBuffer("x", 32, "input"), WorkBuffer("y", 32, "output")),
        kernels={"address": kernel("address")},
        steps=(
            Step(
                "address", "address", (1, 1, 1), (), push=bytes(16), addresses=((0, "x"), (8, "y"))
            ),
        ),
    )
    results = device.load(work).run({"x": x.tobytes()}, TIMEOUT)
    return {"right": bool((np.frombuffer(results["y"], np.uint32) == x + 1).all())}


def features(device: VulkanDevice) -> dict[str, Any]:
    """Loads a program twice. Returns the names of enabled features and the number of devices."""
    device.load(chain(1, 64))
    device.load(chain(1, 64))
    on = sorted({f.member for logical in device.logical for f in logical.features})
    return {"on": on, "devices": len(device.logical)}


def refused(device: VulkanDevice, work: Work) -> str:
    try:
        device.unload(device.load(work))
    except ProgramError as error:
        return str(error)
    return ""


def too_large(device: VulkanDevice) -> dict[str, Any]:
    """Requests too large buffers and grids, and passes an input of another size."""
    one = chain(1, 64)
    huge = WorkBuffer("x", 1 << 40, "input")
    many = tuple(WorkBuffer(f"m{i}", 120 << 20, "output") for i in range(1000))
    wide = Step("scale", "scale", (1 << 30, 1, 1), one.steps[0].bindings, one.steps[0].constants,
                one.steps[0].push)  # fmt: skip
    ready = device.load(one)
    try:
        ready.run({"x": b"1234"}, TIMEOUT)
        size = ""
    except ProgramError as error:
        size = str(error)
    return {
        "buffer": refused(device, Work((huge, one.buffers[1]), one.kernels, one.steps)),
        "memory": refused(device, Work((*one.buffers, *many), one.kernels, one.steps)),
        "grid": refused(device, Work(one.buffers, one.kernels, (wide,))),
        "size": size,
        "subgroup": refused(device, Work(one.buffers, one.kernels, one.steps, 128, "big")),
    }


class Lost:
    """A simulated device that is lost during its next wait."""

    def __init__(self, call: Any):
        self.call = call

    def __call__(self, name: str, *arguments: Any) -> Any:
        if name in ("vkGetFenceStatus", "vkWaitForFences"):
            self.call("vkWaitForFences", *self.waits(name, arguments))
            raise VulkanError.of(name, Result.ERROR_DEVICE_LOST)
        return self.call(name, *arguments)

    def waits(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the arguments of a call that waits for the driver's work for up to 10 s."""
        if name == "vkWaitForFences":
            return (*arguments[:-1], 10**10)
        device, fence = arguments
        return device, 1, pointer(array(c.c_uint64, [fence])), 1, 10**10

    def __getattr__(self, name: str) -> Any:
        return getattr(self.call, name)


def a_lost_device(device: VulkanDevice) -> dict[str, Any]:
    """Returns the error of a lost device. Its objects are invalid, and a new device works."""
    work = device.load(chain(2, 64))
    (logical,) = device.logical
    lost: Any = Lost(logical.call)
    logical.call = lost
    said: list[str] = []
    for _ in range(2):
        try:
            work.run({"x": bytes(256)}, TIMEOUT)
        except ProgramError as error:
            said.append(f"{type(error).__name__}: {error}")
    x = numbers(64)
    results = device.load(chain(2, 64)).run({"x": x.tobytes()}, TIMEOUT)
    right = bool((np.frombuffer(results["y"], np.uint32) == expected(x, 2)).all())
    return {"said": said, "right": right, "devices": len(device.logical)}


def kept_pipelines(device: VulkanDevice) -> dict[str, Any]:
    """Returns facts about the cache file: it exists after closing, and damage is ignored."""
    path = cache.path_for(device.info)
    assert path is not None
    with open_device() as other:
        other.load(chain(1, 64))
    first = path.read_bytes()
    path.write_bytes(first[:-1] + bytes([first[-1] ^ 1]))
    damaged = cache.load(device.info)
    with open_device() as other:
        right = (
            other.load(chain(1, 64)).run({"x": bytes(256)}, TIMEOUT)["y"].startswith(b"\1\0\0\0")
        )
    return {
        "kept": len(first),
        "damaged": len(damaged),
        "mended": len(cache.load(device.info)) > 0,
        "right": right,
        "beside": [p.name for p in path.parent.iterdir() if p != path],
    }


def a_kernel_that_never_ends() -> dict[str, Any]:
    """Runs an endless kernel. The worker is killed, and the caller gets an error."""
    forever = Work(
        (WorkBuffer("x", 4, "input"),),
        {"forever": kernel("forever")},
        (Step("forever", "forever", (1, 1, 1), ((0, 0, "x"),)),),
    )
    found: dict[str, Any] = {}
    try:
        with open_isolated(timeout=1.0) as device:
            found["process"] = device.worker.process.pid
            device.load(forever).run({"x": bytes(4)}, 1.0)
    except ProgramError as error:
        found |= {"error": type(error).__name__, "text": str(error)}
    return found | {"alive": _alive(found["process"])}


def a_driver_that_crashes() -> dict[str, Any]:
    """Ends the worker process during a run."""
    forever = Work(
        (WorkBuffer("x", 4, "input"),),
        {"forever": kernel("forever")},
        (Step("forever", "forever", (1, 1, 1), ((0, 0, "x"),)),),
    )
    with open_isolated() as device:
        ready = device.load(forever)
        threading.Timer(1.0, os.kill, (device.worker.process.pid, signal.SIGSEGV)).start()
        try:
            ready.run({"x": bytes(4)}, TIMEOUT)
        except ProgramError as error:
            return {"error": type(error).__name__, "text": str(error)}
    return {}


def an_interrupt() -> dict[str, Any]:
    """Sends SIGINT during a kernel. No process may remain."""
    return signalled(signal.SIGINT)


def a_killed_caller() -> dict[str, Any]:
    """Kills the caller, which cannot clean up. No process may remain."""
    return signalled(signal.SIGKILL)


def signalled(number: signal.Signals) -> dict[str, Any]:
    """Sends a signal to a process while its worker's kernel runs. Returns the outcome."""
    code = (
        # Tests started in the background ignore interrupts.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sys; sys.path.insert(0, sys.argv[1]); import scenarios as s\n"
        "from xdsl_spirv.runtime.vulkan.worker import open_isolated\n"
        "with open_isolated() as device:\n"
        "    print(device.worker.process.pid, flush=True)\n"
        "    work = s.Work((s.WorkBuffer('x', 4, 'input'),), {'forever': s.kernel('forever')},\n"
        "        (s.Step('forever', 'forever', (1, 1, 1), ((0, 0, 'x'),)),))\n"
        "    ready = device.load(work)\n"
        "    print('running', flush=True)\n"
        "    ready.run({'x': bytes(4)}, 3600.0)\n"
    )
    from xdsl_spirv.runtime.processes import python_command

    with subprocess.Popen(
        [*python_command(), "-c", code, str(HERE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        worker = int(process.stdout.readline())
        process.stdout.readline()
        loading = _ticks(worker)
        while _ticks(worker) < loading + SPINNING:
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(PATIENCE)
        end = time.perf_counter() + PATIENCE
        while _alive(worker) and time.perf_counter() < end:
            time.sleep(0.1)
        said = process.stderr.read()
    return {"interrupted": "KeyboardInterrupt" in said, "alive": _alive(worker)}


PATIENCE = 600
"""Seconds for work that ends immediately, far less than the kernel's limit."""

SPINNING = 20
"""Clock ticks of processor time after which the worker's kernel certainly runs."""


def _ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def leak(device: VulkanDevice) -> dict[str, Any]:
    """Returns the validation layer's message about a buffer that is not destroyed."""
    device.load(chain(1, 64))
    (logical,) = device.logical
    logical.call("vkDestroyDevice", logical.handle, None)
    device.logical.clear()
    device.loaded.clear()
    return {}


def no_barriers(device: VulkanDevice) -> dict[str, Any]:
    """Returns messages of the synchronization checks for unordered steps."""
    work = device.load(chain(3, 64))
    work.order = [False] * len(work.order)
    work.run({"x": bytes(256)}, TIMEOUT)
    return {}


ON_A_DEVICE: dict[str, Callable[[VulkanDevice], dict[str, Any]]] = {
    f.__name__: f
    for f in (
        *(one_submission, in_pieces, once, addresses, features, too_large, a_lost_device),
        kept_pipelines,
        *(leak, no_barriers),
    )
}
ALONE = {
    f.__name__: f
    for f in (
        *(a_kernel_that_never_ends, a_driver_that_crashes),
        *(an_interrupt, a_killed_caller),
    )
}


def run(name: str) -> dict[str, Any]:
    if name in ALONE:
        return ALONE[name]()
    device = open_device()
    with device:
        found = ON_A_DEVICE[name](device)
    # Messages during destruction count, too.
    return found | {"messages": device.messages, "left_at_last": device.live}


if __name__ == "__main__":
    print(json.dumps({name: run(name) for name in sys.argv[1:]}))
