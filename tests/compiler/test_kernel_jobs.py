"""Several processes lower kernels to the same results as one process."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import gpu
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.compiler import kernel_jobs
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.pipeline import OUTLINED, linalg_to_spirv, split_after
from xdsl_spirv.passes.spirv.kernel_to_spirv import KernelToSPIRVPass
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.tools.main import main

forks = pytest.mark.skipif(sys.platform != "linux", reason="kernels are lowered in forks on Linux")

LAYERS = 12
KINDS = ("addf", "mulf", "subf", "maximumf")
DOES = (np.add, np.multiply, np.subtract, np.maximum)
MAP = "affine_map<(d0, d1) -> (d0, d1)>"


def network(rows: str = "8") -> str:
    """Returns matmuls of two widths, each followed by one of four elementwise operations."""
    widths = [16] * 7 + [20] * (LAYERS - 6)
    given = [f"%w{n}: tensor<{widths[n]}x{widths[n + 1]}xf32>" for n in range(LAYERS)]
    lines = ["%zero = arith.constant 0.0 : f32"]
    size = ""
    if rows == "?":
        lines += ["%d = arith.constant 0 : index"]
        lines += [f"%rows = tensor.dim %v0, %d : tensor<?x{widths[0]}xf32>"]
        size = "%rows"
    for n in range(LAYERS):
        source, weights = f"tensor<{rows}x{widths[n]}xf32>", given[n].partition(": ")[2]
        made = f"tensor<{rows}x{widths[n + 1]}xf32>"
        lines += [
            f"%e{n} = tensor.empty({size}) : {made}",
            f"%f{n} = linalg.fill ins(%zero : f32) outs(%e{n} : {made}) -> {made}",
            f"%m{n} = linalg.matmul ins(%v{n}, %w{n} : {source}, {weights}) "
            f"outs(%f{n} : {made}) -> {made}",
            f"%h{n} = arith.constant 0.{n + 1} : f32",
            f"%v{n + 1} = linalg.generic {{indexing_maps = [{MAP}, {MAP}], "
            f'iterator_types = ["parallel", "parallel"]}} ins(%m{n} : {made}) outs(%e{n} : {made}) '
            f"{{ ^bb0(%x: f32, %y: f32): %z = arith.{KINDS[n % 4]} %x, %h{n} : f32 "
            f"linalg.yield %z : f32 }} -> {made}",
        ]
    body = "\n".join(lines)
    first, last = f"tensor<{rows}x{widths[0]}xf32>", f"tensor<{rows}x{widths[-1]}xf32>"
    return (
        f"func.func @main(%v0: {first}, {', '.join(given)}) -> {last} {{\n{body}\n"
        f"return %v{LAYERS} : {last}\n}}"
    )


def files_of(program: Program, folder: Path) -> dict[str, bytes]:
    program.save(folder)
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@forks
@pytest.mark.parametrize("rows", ["8", "?"])
def test_the_program_does_not_depend_on_the_number(rows: str, tmp_path: Path):
    one = compile_module(parse_text(network(rows)), "lavapipe")
    many = compile_module(parse_text(network(rows)), "lavapipe", jobs=3)
    assert rows == "?" or 4 < len(one.code) < len(one.manifest.dispatches)
    assert any(d.push_constants for d in one.manifest.dispatches)
    assert files_of(one, tmp_path / "one") == files_of(many, tmp_path / "many")


@forks
def test_forks_lower_all_kernels(monkeypatch: pytest.MonkeyPatch):
    """No pass runs in this process, and the kernels of the forks are right."""
    here: list[int] = []
    apply = KernelToSPIRVPass.apply
    monkeypatch.setattr(
        KernelToSPIRVPass, "apply", lambda *args: (here.append(os.getpid()), apply(*args))[1]
    )
    program = compile_module(parse_text(network()), "lavapipe", jobs=2)
    assert not here
    random = np.random.default_rng(3)
    shapes = {b.name: b.shape for b in program.manifest.buffers if b.kind == "input"}
    inputs = {
        name: random.normal(0, 0.2, [int(size) for size in shape]).astype(np.float32)
        for name, shape in shapes.items()
    }
    (found,) = run(program, inputs).values()
    value = inputs["v0"].astype(np.float64)
    for n in range(LAYERS):
        value = DOES[n % 4](value @ inputs[f"w{n}"], float(f"0.{n + 1}"))
    np.testing.assert_allclose(found, value, rtol=1e-4)


@forks
@pytest.mark.parametrize("how", ["raises", "dies"])
def test_a_failing_fork_gives_the_error_of_one_process(how: str, monkeypatch: pytest.MonkeyPatch):
    """A kernel that a fork cannot lower is lowered again in this process, with the same error."""
    parent = os.getpid()
    apply = KernelToSPIRVPass.apply

    def fails(*args: object) -> None:
        if how == "raises":
            raise PassFailedException("no such kernel")
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        apply(*args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(KernelToSPIRVPass, "apply", fails)
    if how == "raises":
        with pytest.raises(PassFailedException, match="no such kernel"):
            compile_module(parse_text(network()), "lavapipe", jobs=2)
        return
    program = compile_module(parse_text(network()), "lavapipe", jobs=2)
    assert program.code == compile_module(parse_text(network()), "lavapipe").code


@forks
def test_kernels_are_lowered_here_if_no_fork_can_start(monkeypatch: pytest.MonkeyPatch):
    fork = os.fork
    children: list[int] = []

    def one_only() -> int:
        if children:
            raise BlockingIOError("Resource temporarily unavailable")
        child = fork()
        children.append(child)
        return child

    monkeypatch.setattr(os, "fork", one_only)
    program = compile_module(parse_text(network()), "lavapipe", jobs=3)
    assert program.manifest.dispatches
    assert_ended(children, 1)


@forks
def test_forks_leave_no_processes_and_files(monkeypatch: pytest.MonkeyPatch):
    """Neither processes nor open files remain."""
    fork = os.fork
    children: list[int] = []

    def noted() -> int:
        child = fork()
        children.append(child)
        return child

    monkeypatch.setattr(os, "fork", noted)
    before = sorted(os.listdir("/proc/self/fd"))
    compile_module(parse_text(network()), "lavapipe", jobs=3)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert_ended(children, 3)


def assert_ended(children: list[int], count: int) -> None:
    """Checks that `count` of the children started and that each was waited for."""
    assert len(children) == count
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_few_kernels_need_no_forks(monkeypatch: pytest.MonkeyPatch):
    """A fork costs as much as lowering a few kernels."""
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"), raising=False)
    text = "func.func @main(%a: tensor<4x4xf32>, %o: tensor<4x4xf32>) -> tensor<4x4xf32> {\n"
    text += "%r = linalg.matmul ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) "
    text += "outs(%o : tensor<4x4xf32>) -> tensor<4x4xf32>\nreturn %r : tensor<4x4xf32>\n}"
    assert len(compile_module(parse_text(text), "lavapipe", jobs=8).code) == 1


def test_equal_kernels_are_lowered_by_one_process():
    """The kernels are divided among three processes, and equal kernels are in one part."""
    module, ctx = parse_text(network()), context()
    passes = linalg_to_spirv("lavapipe")
    for each in split_after(passes, OUTLINED)[0]:
        each.apply(ctx, module)
    functions = [op for op in module.walk() if isinstance(op, gpu.FuncOp)]
    parts = kernel_jobs.parts_of(functions, 3)
    assert sum(map(len, parts)) == len(functions)
    assert len(parts) == 3
    homes = [part for part in parts for _ in {kernel_jobs.likeness(each) for each in part}]
    assert len(homes) == len({kernel_jobs.likeness(each) for each in functions})


def test_a_wrong_number_of_jobs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "m.mlir").write_text(network())
    given = ["compile", str(tmp_path / "m.mlir"), "--target", "lavapipe", "-o", str(tmp_path / "p")]
    assert main([*given, "--jobs", "0"]) == 1
    assert "--jobs 0 is not a number of processes; give 1 or more" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()
