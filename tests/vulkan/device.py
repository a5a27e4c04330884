"""
Dispatches that other programs describe, on the best Vulkan device there is: runtime/vulkan as a
program of its own.

A driver that is given something it does not support may crash or hang, so a test never runs it in
its own process: it writes jobs into a folder, starts this program on the driver with a timeout, and
reads what came out. Beside the checkout it needs numpy only.

    device.py describe        the device as JSON, its cooperative matrices among it
    device.py run FOLDER      FOLDER/jobs.json; buffers in N.npz, results in N.out.npz

A job is `{"spirv": file, "entry_point": name, "groups": [x, y, z], "bindings": [[set, binding]],
"spec_constants": {id: number}, "push_constants": hex, "subgroup_size": size or null,
"repeat": number, "time": number}`. A job that says "repeat" is submitted that often, on the same
buffers, and N.seconds.json has how long each took; one that says "time" is run that often more, and
N.nanoseconds.json has the device's own times.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.needs import Needs
from xdsl_spirv.runtime.vulkan.device import VulkanDevice, open_device
from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer

TIMEOUT = 300.0
"""Seconds that a job may take."""
KERNEL = "kernel"


def work_of(job: dict[str, Any], sizes: Sequence[int]) -> Work:
    """A job as work; its buffers are called 0, 1, ... in the order of its bindings."""
    spirv = Path(job["spirv"]).read_bytes()
    sizes_of_constants = Needs.of(spirv).constants
    constants: list[tuple[int, bytes]] = []
    for number, value in job.get("spec_constants", {}).items():
        # A number that no constant has is passed over by the driver.
        bits = 8 * sizes_of_constants.get(int(number), 4)
        data = (int(value) & (1 << bits) - 1).to_bytes(bits // 8, "little")
        constants.append((int(number), data))
    x, y, z = job["groups"]
    return Work(
        buffers=tuple(WorkBuffer(str(i), size, "output") for i, size in enumerate(sizes)),
        kernels={KERNEL: spirv},
        steps=(
            Step(
                kernel=KERNEL,
                entry_point=job["entry_point"],
                grid=(x, y, z),
                bindings=tuple((s, b, str(i)) for i, (s, b) in enumerate(job["bindings"])),
                constants=tuple(constants),
                push=bytes.fromhex(job.get("push_constants", "")),
            ),
        ),
        subgroup_size=job.get("subgroup_size"),
    )


def run_job(device: VulkanDevice, job: dict[str, Any], base: Path) -> None:
    """Run one job; `base` is its files' path without what follows the first full stop."""
    with np.load(f"{base}.npz") as stored:
        arrays = [stored[f"arr_{i}"] for i in range(len(job["bindings"]))]
    loaded = device.load(work_of(job, [array.nbytes for array in arrays]))
    try:
        for i, array in enumerate(arrays):
            loaded.write(str(i), array.tobytes(), TIMEOUT)
        seconds: list[float] = []
        for _ in range(job.get("repeat", 1)):
            begun = time.perf_counter()
            loaded.repeat(TIMEOUT)
            seconds.append(time.perf_counter() - begun)
        results = [
            np.frombuffer(loaded.read(str(i), TIMEOUT)[: a.nbytes], a.dtype).reshape(a.shape)
            for i, a in enumerate(arrays)
        ]
        np.savez(f"{base}.out.npz", *results)
        if "repeat" in job:
            Path(f"{base}.seconds.json").write_text(json.dumps(seconds))
        if "time" in job:
            (times,) = loaded.time(job["time"], TIMEOUT, 0.15)
            Path(f"{base}.nanoseconds.json").write_text(json.dumps(times.nanoseconds))
    finally:
        device.unload(loaded)


def run_jobs(folder: Path) -> list[str]:
    """Run every job of the folder, in order, on one device; what a validation layer says of it."""
    said: list[str] = []
    device = open_device()
    with device:
        for number, job in enumerate(json.loads((folder / "jobs.json").read_text())):
            run_job(device, job, folder / str(number))
            new = device.messages[len(said) :]
            said += [f"job {number} ({job['entry_point']}): {message}" for message in new]
    # What is said while everything is destroyed counts too.
    return said + device.messages[len(said) :]


def describe() -> dict[str, Any]:
    """What the device is and multiplies."""
    with open_device() as device:
        info = device.info
        return {
            "name": info.name,
            "driver": f"{info.driver} {info.driver_version}",
            "api_version": list(info.version[:2]),
            "subgroup_size": info.subgroup_size,
            "cooperative_matrix": [
                (p.m, p.n, p.k, *p.types)
                for p in info.matrices
                if p.scope == "Subgroup" and not p.saturating
            ],
            "features": sorted({feature.member for feature in info.offer.features}),
        }


def main(arguments: Sequence[str]) -> int:
    try:
        if arguments[:1] == ["describe"]:
            print(json.dumps(describe()))
        else:
            messages = run_jobs(Path(arguments[1]))
            if messages:
                print("the validation layer says:", *messages, sep="\n", file=sys.stderr)
                return 1
    except (ProgramError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
