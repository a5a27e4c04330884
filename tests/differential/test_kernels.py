"""Generated kernels give equal results on lavapipe and on the interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.jobs.engine import Here
from xdsl_spirv.jobs.job import LAVAPIPE, Job
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.testing.differential import FAMILIES, Kernel, disagreements, generate, interpret
from xdsl_spirv.testing.differential.families import ORDER
from xdsl_spirv.testing.differential.float_rules import RULES
from xdsl_spirv.testing.differential.known import KNOWN
from xdsl_spirv.testing.differential.legal import Legal, within
from xdsl_spirv.testing.differential.minimise import minimise
from xdsl_spirv.testing.differential.running import job_of, module_of
from xdsl_spirv.testing.differential.types import I32, Type
from xdsl_spirv.testing.dispatches import Dispatch
from xdsl_spirv.tools import khronos

ROOT = Path(__file__).resolve().parents[2]
KERNELS, QUICK = 300, 160
CHUNK = 20
VALIDATED = 2 * len(ORDER)


@pytest.mark.vulkan
@pytest.mark.usefixtures("lavapipe")
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(start, marks=[pytest.mark.long] * (start >= QUICK))
        for start in range(0, KERNELS, CHUNK)
    ],
)
def test_lavapipe_agrees(start: int, here: Here):
    common = {"family": None, "target": "lavapipe", "minimise": False}
    jobs = [
        Job("differential", {"seed": seed, **common}, LAVAPIPE)
        for seed in range(start, start + CHUNK)
    ]
    results = [(job.data["seed"], result) for job, result in here.run(jobs)]
    assert [f"seed {seed}: {result.cause}" for seed, result in results if not result.ok] == []
    assert sum(result.value["outputs"] for _, result in results) >= CHUNK


@pytest.mark.parametrize("seed", range(VALIDATED))
def test_generated_kernels_are_valid(seed: int, spirv_val: str):
    kernel = generate(seed)
    assert khronos.spirv_val(encode(module_of(kernel))) == "", f"{kernel.family} {seed}"


def test_a_seed_names_one_kernel():
    for seed in range(0, 40, 7):
        first, second = generate(seed), generate(seed)
        assert first.text() == second.text()
        for a, b in zip(first.buffers, second.buffers, strict=True):
            assert a.array.tobytes() == b.array.tobytes()


def test_every_family_and_every_operation_is_generated():
    kernels = [generate(seed) for seed in range(KERNELS)]
    assert Counter(kernel.family for kernel in kernels).keys() == set(ORDER)
    names = {output.what.split(" : ")[0] for kernel in kernels for output in kernel.outputs}
    missing = {rule.name for rule in RULES} - names
    assert len(missing) < len(RULES) / 5, sorted(missing)


def changed(truth: dict[int, np.ndarray], buffer: int) -> dict[int, np.ndarray]:
    """Returns results with one changed number in a buffer."""
    found = truth | {buffer: truth[buffer].copy()}
    flat = found[buffer].reshape(-1)
    with np.errstate(over="ignore"):
        flat[0] = flat[0] + 1 if flat.dtype.kind in "iu" else flat[0] * 1.5 + 100
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_result_is_found(family: str):
    kernel = generate(3, family)
    truth = interpret(kernel)
    assert disagreements(kernel, truth, truth) == []
    caught = 0
    for output in kernel.outputs:
        differences = disagreements(kernel, truth, changed(truth, output.buffer))
        assert [d.output for d in differences] in ([output], [])
        caught += len(differences)
    assert caught > len(kernel.outputs) / 2


def test_legal_results_are_accepted():
    x = np.array([1.0, np.inf, np.nan, 0.0, 65504.0], np.float16)
    y = np.array([1.001, np.inf, np.nan, -0.0, np.inf], np.float16)
    assert within(y, x, np.zeros(5)).tolist() == [False, True, True, True, False]
    assert within(y, x, np.full(5, 0.01)).tolist() == [True, True, True, True, True]
    integers = np.array([1, 2])
    assert within(integers, np.array([1, 3]), np.full(2, 10.0)).tolist() == [True, False]


def test_known_bugs_are_documented():
    page = (ROOT / "docs" / "differential.md").read_text()
    for known in KNOWN:
        assert f"### {known.anchor}\n" in page, known.anchor


class Broken(Dispatch):
    """A job on a simulated device, which adds 1 to the results of kernels with `operation`."""

    kernel: Kernel

    def run(self, operation: str) -> None:
        found = interpret(self.kernel)
        for (_, binding), array in self.buffers.items():
            array[...] = found[binding]
        for output in self.kernel.outputs:
            if operation in self.kernel.text() and (0, output.buffer) in self.buffers:
                self.buffers[0, output.buffer].reshape(-1)[0] += 1


def broken_job(kernel: Kernel, module: object = None) -> Broken:
    made = job_of(kernel)
    job = Broken(made.spirv, made.entry_point, made.groups, made.buffers)
    job.kernel = kernel
    return job


def test_a_difference_is_reduced_to_its_operation(monkeypatch: pytest.MonkeyPatch):
    """A program in which only BitCount is wrong is reduced to this operation."""
    kernel = Kernel("test", 0)
    a, b = (kernel.input(I32)[0] for _ in range(2))
    total = kernel.op(f"spirv.IAdd {a}, {b} : i32")
    for name in ("IMul", "ISub", "BitwiseXor"):
        total = kernel.op(f"spirv.{name} {total}, {a} : i32")
    kernel.output(total, I32, "before")
    counted = kernel.op(f"spirv.BitCount {total} : i32")
    kernel.output(kernel.op(f"spirv.IMul {counted}, {b} : i32"), I32, "after")
    kernel.output(kernel.op(f"spirv.IAdd {a}, {a} : i32"), I32, "beside")

    def run(jobs: Sequence[Dispatch]) -> list[str]:
        for job in jobs:
            assert isinstance(job, Broken)
            job.run("spirv.BitCount")
        return [""] * len(jobs)

    monkeypatch.setattr("xdsl_spirv.testing.differential.minimise.job_of", broken_job)
    first = broken_job(kernel)
    run([first])
    found = {binding: array for (_, binding), array in first.buffers.items()}
    difference = next(d for d in disagreements(kernel, interpret(kernel), found)
                      if d.output.what == "after")  # fmt: skip
    smallest = minimise(difference, run)
    text = smallest.text()
    assert "spirv.BitCount" in text
    assert not any(f"spirv.{name} " in text for name in ("IAdd", "ISub", "BitwiseXor", "IMul"))


def test_unneeded_statements_are_removed():
    kernel = Kernel("test", 1)
    a, _ = kernel.input(Type("i32", 2))
    kernel.op(f"spirv.IMul {a}, {a} : vector<2xi32>")
    kernel.output(a, Type("i32", 2), "kept", Legal())
    cut = kernel.without(set())
    assert "IMul" not in cut.text()
    assert len(cut.body) == len(kernel.body) - 1
    assert interpret(cut)[1].any()
