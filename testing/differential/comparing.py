"""The job kind `differential`: compares a generated kernel on interpreter and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl_spirv.jobs.child import open_own_device
from xdsl_spirv.jobs.job import Wrong
from xdsl_spirv.testing.differential.families import generate
from xdsl_spirv.testing.differential.known import explanation
from xdsl_spirv.testing.differential.machine import machine
from xdsl_spirv.testing.differential.minimise import minimise
from xdsl_spirv.testing.differential.running import (
    Disagreement,
    choices,
    disagreements,
    interpret,
    job_of,
    module_of,
)
from xdsl_spirv.testing.dispatches import Dispatch, execute


def compare(data: Mapping[str, Any]) -> dict[str, Any]:
    """
    Compares one kernel. Returns its family, the number of compared outputs, and the known bugs that
    explain differences.

    Raises `Wrong` if a difference is neither legal nor a known bug. With `minimise`, the error
    contains the smallest kernel with the difference.
    """
    kernel = generate(data["seed"], data["family"], machine(data["target"]))
    module = module_of(kernel)
    expected = interpret(kernel, module)
    job = job_of(kernel, module)
    execute(open_own_device(), job)
    results = {binding: array for (_, binding), array in job.buffers.items()}
    known: list[str] = []
    unknown: list[str] = []
    for difference in disagreements(kernel, expected, results, choices(kernel, module)):
        cause = explanation(difference, device_name())
        if cause is not None:
            known.append(cause.anchor)
        else:
            unknown.append(_describe_difference(difference, data["minimise"]))
    value = {"family": kernel.family, "outputs": len(kernel.outputs), "known": known}
    if unknown:
        raise Wrong("\n".join(unknown), value | {"unknown": len(unknown)})
    return value


def device_name() -> str:
    """Returns the names of device and driver, which select known bugs."""
    info = open_own_device().info
    return f"{info.name}, {info.driver} {info.driver_version}"


def _describe_difference(difference: Disagreement, minimised: bool) -> str:
    text = str(difference)
    return f"{text}\n{minimise(difference, _run).text()}" if minimised else text


def _run(jobs: Sequence[Dispatch]) -> list[str]:
    for job in jobs:
        execute(open_own_device(), job)
    return [""] * len(jobs)
