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
from xdsl_spirv.runtime.vulkan.device import VulkanDevice, open_device
from xdsl_spirv.testing.dispatches import SECONDS, Dispatch, load_jobs, loaded, read_back


def run_job(device: VulkanDevice, job: Dispatch, table: dict[str, Any], base: Path) -> None:
    """Run one job; `base` is its files' path without the suffixes."""
    with loaded(device, job) as work:
        seconds: list[float] = []
        for _ in range(table.get("repeat", 1)):
            begun = time.perf_counter()
            work.repeat(SECONDS)
            seconds.append(time.perf_counter() - begun)
        read_back(job, work)
        np.savez(f"{base}.out.npz", *job.buffers.values())
        if "repeat" in table:
            Path(f"{base}.seconds.json").write_text(json.dumps(seconds))
        if "time" in table:
            (times,) = work.time(table["time"], SECONDS, 0.15)
            Path(f"{base}.nanoseconds.json").write_text(json.dumps(times.nanoseconds))


def run_jobs(folder: Path) -> list[str]:
    """
    Run every job of the folder, in order, on one device; returns the validation layer's messages.
    """
    said: list[str] = []
    device = open_device()
    with device:
        for number, (job, table) in enumerate(load_jobs(folder)):
            run_job(device, job, table, folder / str(number))
            new = device.messages[len(said) :]
            said += [f"job {number} ({job.entry_point}): {message}" for message in new]
    # Messages while everything is destroyed count too.
    return said + device.messages[len(said) :]


def describe() -> dict[str, Any]:
    """The device's name, and the products it can compute."""
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
