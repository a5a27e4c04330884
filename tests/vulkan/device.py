"""
Runs dispatches that other programs describe, on the best Vulkan device, with runtime/vulkan.

An unsupported dispatch may crash or hang a driver. So a test writes jobs into a folder, starts
this program on the driver with a timeout, and reads the results. The program needs only the
checkout and numpy.

    device.py describe        the device as JSON, with its cooperative matrices
    device.py run FOLDER      FOLDER/jobs.json; buffers in N.npz, results in N.out.npz

A job is `{"spirv": file, "entry_point": name, "groups": [x, y, z], "bindings": [[set, binding]],
"spec_constants": {id: number}, "push_constants": hex, "subgroup_size": size or null, "repeat":
number, "time": number}`. With "repeat" a job is submitted that many times on the same buffers, and
N.seconds.json contains the time of each. With "time" it runs that many more times, and
N.nanoseconds.json contains the device times.
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
    """Runs one job. `base` is the path of its files without suffixes."""
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
    """Runs all jobs of the folder on one device. Returns the validation layer's messages."""
    said: list[str] = []
    device = open_device()
    with device:
        for number, (job, table) in enumerate(load_jobs(folder)):
            run_job(device, job, table, folder / str(number))
            new = device.messages[len(said) :]
            said += [f"job {number} ({job.entry_point}): {message}" for message in new]
    # Messages during destruction count, too.
    return said + device.messages[len(said) :]


def describe() -> dict[str, Any]:
    """Returns the device's name, and its supported matrix products."""
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
