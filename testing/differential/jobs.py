"""
Dispatches that a process of its own runs on a device, because a driver may crash or hang.

Jobs go into a folder that `tests/vulkan/device.py` reads. When the process dies, the job that it
was at is marked as failed and the rest is run by another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Job:
    """One dispatch on the device: `buffers` by (set, binding), what they hold before and after."""

    spirv: bytes
    entry_point: str
    groups: tuple[int, int, int]
    buffers: dict[tuple[int, int], Array]
    cooperative_matrix: Sequence[tuple[int | str, ...]] = ()
    subgroup_size: int | None = None
    spec_constants: Mapping[int, int] = field(default_factory=dict[int, int])
    push_constants: bytes = b""


def write_jobs(folder: Path, jobs: Sequence[Job]) -> None:
    """What device.py reads: jobs.json, a binary and the buffers of each job."""
    described: list[dict[str, object]] = []
    for number, job in enumerate(jobs):
        spirv = folder / f"{number}.spv"
        spirv.write_bytes(job.spirv)
        np.savez(folder / f"{number}.npz", *job.buffers.values())
        described.append(
            {
                "spirv": str(spirv),
                "entry_point": job.entry_point,
                "groups": job.groups,
                "bindings": list(job.buffers),
                "cooperative_matrix": list(job.cooperative_matrix),
                "subgroup_size": job.subgroup_size,
                "spec_constants": dict(job.spec_constants),
                "push_constants": job.push_constants.hex(),
            }
        )
    (folder / "jobs.json").write_text(json.dumps(described))


def read_results(folder: Path, jobs: Sequence[Job]) -> int:
    """Put what the device wrote into the jobs' buffers; how many of the jobs it finished."""
    for number, job in enumerate(jobs):
        path = folder / f"{number}.out.npz"
        if not path.exists():
            return number
        try:
            with np.load(path) as stored:
                for i, buffer in enumerate(job.buffers.values()):
                    buffer[...] = stored[f"arr_{i}"].view(buffer.dtype)
        except (OSError, ValueError, EOFError, KeyError):
            return number
    return len(jobs)


def run_jobs(
    jobs: Sequence[Job], launcher: Sequence[str | Path], runner: Path, timeout: float = 60
) -> list[str]:
    """
    Run jobs in place; for each why it failed, or "".

    `launcher` starts a Python program on the driver, `runner` is device.py; `timeout` seconds are
    allowed for all, and again for what is left after a failure.
    """
    failures: list[str] = []
    while len(failures) < len(jobs):
        left = jobs[len(failures) :]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_jobs(folder, left)
            command = [*launcher, sys.executable, runner, "run", folder]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=timeout, check=False
                )
                cause = f"exit status {done.returncode}: {done.stderr[-2000:]}"
            except subprocess.TimeoutExpired:
                cause = f"not finished within {timeout} s"
            finished = read_results(folder, left)
        failures += [""] * finished
        if finished < len(left):
            failures.append(cause)
    return failures
