"""
Dispatches for tests on a device: a binary, a grid and buffers.

A driver may crash or hang. A dispatch therefore runs in a separate process: in a job (`jobs/`), or
in `tests/vulkan/device.py`, which reads dispatches from a folder.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.runtime.needs import Needs
from xdsl_spirv.runtime.vulkan.device import VulkanDevice
from xdsl_spirv.runtime.vulkan.loaded import LoadedWork
from xdsl_spirv.runtime.vulkan.work import Bound, Step, Work, WorkBuffer

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
SECONDS = 300.0
"""Time limit of a dispatch on the device in seconds."""
KERNEL = "kernel"


@dataclass
class Dispatch:
    """One dispatch. `buffers` maps (set, binding) to contents. A run updates the contents."""

    spirv: bytes
    entry_point: str
    groups: tuple[int, int, int]
    buffers: dict[tuple[int, ...], Array]
    subgroup_size: int | None = None
    spec_constants: Mapping[int, int] = field(default_factory=dict[int, int])
    push_constants: bytes = b""
    images: Mapping[tuple[int, ...], Image | Sampler] = field(
        default_factory=dict[tuple[int, ...], "Image | Sampler"]
    )


def write_jobs(folder: Path, jobs: Sequence[Dispatch]) -> None:
    """Writes the input of device.py: jobs.json, and the binary and buffers of each job."""
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
                "subgroup_size": job.subgroup_size,
                "spec_constants": dict(job.spec_constants),
                "push_constants": job.push_constants.hex(),
                "images": [
                    [place, type(one).__name__, asdict(one)] for place, one in job.images.items()
                ],
            }
        )
    (folder / "jobs.json").write_text(json.dumps(described))


def read_results(folder: Path, jobs: Sequence[Dispatch]) -> int:
    """Copies the device's results into the jobs' buffers. Returns the number of finished jobs."""
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


def load_jobs(folder: Path) -> list[tuple[Dispatch, dict[str, Any]]]:
    """Returns the jobs in a folder, each with its other settings (`repeat`, `time`)."""
    jobs: list[tuple[Dispatch, dict[str, Any]]] = []
    for number, table in enumerate(json.loads((folder / "jobs.json").read_text())):
        with np.load(folder / f"{number}.npz") as stored:
            arrays = [stored[f"arr_{i}"] for i in range(len(table["bindings"]))]
        job = Dispatch(
            Path(table["spirv"]).read_bytes(),
            table["entry_point"],
            tuple(table["groups"]),
            {tuple(place): a for place, a in zip(table["bindings"], arrays, strict=True)},
            subgroup_size=table.get("subgroup_size"),
            spec_constants={int(n): v for n, v in table.get("spec_constants", {}).items()},
            push_constants=bytes.fromhex(table.get("push_constants", "")),
            images={
                tuple(place): sampler_of(one) if kind == "Sampler" else image_of(one)
                for place, kind, one in table.get("images", ())
            },
        )
        jobs.append((job, table))
    return jobs


def image_of(table: dict[str, Any]) -> Image:
    """Parses an image's JSON."""
    sampler = table["sampler"] and sampler_of(table["sampler"])
    settings: dict[str, Any] = {**table, "size": tuple(table["size"]), "sampler": sampler}
    return Image(**settings)


def sampler_of(table: dict[str, Any]) -> Sampler:
    """Parses a sampler's JSON."""
    settings: dict[str, Any] = {**table, "address": tuple(table["address"])}
    return Sampler(**settings)


def work_of(job: Dispatch) -> Work:
    """Converts a dispatch to work with buffers named 0, 1, ... in the order of the bindings."""
    sizes = Needs.of(job.spirv).constants
    constants: list[tuple[int, bytes]] = []
    for number, value in job.spec_constants.items():
        # The driver ignores ids that no constant has.
        bits = 8 * sizes.get(number, 4)
        constants.append((number, (int(value) & (1 << bits) - 1).to_bytes(bits // 8, "little")))
    names = {place: str(i) for i, place in enumerate(job.buffers)}
    step = Step(
        kernel=KERNEL,
        entry_point=job.entry_point,
        grid=job.groups,
        bindings=tuple((p[0], p[1], str(i)) for p, i in names.items() if p not in job.images),
        images=tuple(
            Bound(place[0], place[1], sum(place[2:]), one, names.get(place))
            for place, one in job.images.items()
        ),
        constants=tuple(constants),
        push=job.push_constants,
    )
    return Work(
        buffers=tuple(
            WorkBuffer(str(i), array.nbytes, "output")
            for i, array in enumerate(job.buffers.values())
        ),
        kernels={KERNEL: job.spirv},
        steps=(step,),
        subgroup_size=job.subgroup_size,
    )


@contextmanager
def loaded(device: VulkanDevice, job: Dispatch) -> Generator[LoadedWork]:
    """Context manager that loads the dispatch on a device and uploads its buffers."""
    work = device.load(work_of(job))
    try:
        for i, array in enumerate(job.buffers.values()):
            work.write(str(i), array.tobytes(), SECONDS)
        yield work
    finally:
        device.unload(work)


def read_back(job: Dispatch, work: LoadedWork) -> None:
    """Copies the device's results into the job's buffers."""
    for i, array in enumerate(job.buffers.values()):
        data = work.read(str(i), SECONDS)[: array.nbytes]
        array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)


def execute(device: VulkanDevice, job: Dispatch) -> None:
    """Runs the dispatch on the device in this process. Updates its buffers."""
    with loaded(device, job) as work:
        work.repeat(SECONDS)
        read_back(job, work)
