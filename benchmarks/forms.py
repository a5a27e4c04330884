"""
Measures every form of contraction: speed on lavapipe, compile time and number of instructions.

Speed is compared with handwritten kernels (`hand_kernels.py`) of the simplest form for a CPU
driver: a subgroup multiplies 2 x 2 fragments from global memory, or each invocation computes 4 x 4
results by packed dot products. All run in one process, in turns; a figure is the fastest run.
Compile time is compared with iree-compile: whole processes in turns; a figure is the median.

    benchmarks/forms.py [--only matmul] [--runs 5] [--no-compile] [--no-device]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hand_kernels import GROUP, cooperative, packed_dot

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "forms.json"
DRIVER = "XDSL_SPIRV_FORMS_DRIVER"
IREE_FLAGS = ["--iree-hal-target-device=vulkan", "--iree-vulkan-target=ampere"]
TIMEOUT = 600.0
N = 512
SMALL = 128


@dataclass(frozen=True)
class Form:
    """A contraction: its operation, its types and the shapes of A, B and the result."""

    name: str
    operation: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    c: tuple[int, ...]
    types: tuple[str, str]
    products: int
    """Number of multiply-adds."""
    schedule: str = ""
    by_hand: str = ""
    """Name of the handwritten kernel for the same computation."""

    def text(self) -> str:
        """Returns `@main`. Without a schedule, iree-compile also accepts the text."""
        element, result = self.types
        a, b, c = (
            f"tensor<{'x'.join(map(str, shape))}x{kind}>"
            for shape, kind in ((self.a, element), (self.b, element), (self.c, result))
        )
        zero = "0" if result[0] == "i" else "0.0"
        given = f" {{schedule = {self.schedule}}}" if self.schedule else ""
        return f"""func.func @main(%A: {a}, %B: {b}) -> {c} {{
  %zero = arith.constant {zero} : {result}
  %empty = tensor.empty() : {c}
  %C = linalg.fill ins(%zero : {result}) outs(%empty : {c}) -> {c}
  %r = linalg.{self.operation}{given} ins(%A, %B : {a}, {b}) outs(%C : {c}) -> {c}
  return %r : {c}
}}
"""


def _matmul(
    name: str, element: str, result: str, schedule: str = "", by_hand: str = "", n: int = N
) -> Form:
    square = (n, n)
    return Form(name, "matmul", square, square, square, (element, result), n**3, schedule, by_hand)


DOT = (
    "#schedule.contraction<workgroup_tile = [16, 32, 64], subgroups = [1, 2], instruction = dot "
    "8x4x16, a = staged<padding = 16, vector = 16>, b = staged<padding = 16, vector = 16>>"
)
WINDOWS = "{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}"

FORMS = (
    _matmul("matmul f16 -> f32", "f16", "f32", by_hand="coopmat f16 -> f32"),
    _matmul("matmul s8 -> s32", "i8", "i32", by_hand="coopmat s8 -> s32"),
    Form(
        "matmul s8 -> s32 by packed dot, B transposed",
        "matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, "
        "affine_map<(m, n, k) -> (m, n)>]",
        (N, N), (N, N), (N, N), ("i8", "i32"), N**3, DOT, "packed dot s8 -> s32",
    ),
    _matmul("matmul f32 -> f32", "f32", "f32"),
    Form(
        "batch_matmul f16 -> f32", "batch_matmul", (8, SMALL, SMALL), (8, SMALL, SMALL),
        (8, SMALL, SMALL), ("f16", "f32"), 8 * SMALL**3,
    ),
    Form("matvec f32 -> f32", "matvec", (2048, 2048), (2048,), (2048,), ("f32", "f32"), 2048**2),
    Form(
        "conv_2d_nhwc_hwcf f16 -> f32", f"conv_2d_nhwc_hwcf {WINDOWS}", (1, 34, 34, 64),
        (3, 3, 64, 64), (1, 32, 32, 64), ("f16", "f32"), 32 * 32 * 64 * 9 * 64,
    ),
    Form(
        "conv_2d_nchw_fchw f32 -> f32", f"conv_2d_nchw_fchw {WINDOWS}", (1, 64, 34, 34),
        (64, 64, 3, 3), (1, 64, 32, 32), ("f32", "f32"), 32 * 32 * 64 * 9 * 64,
    ),
    Form(
        "conv_2d_nhwc_hwcf s8 -> s32", f"conv_2d_nhwc_hwcf {WINDOWS}", (1, 34, 34, 64),
        (3, 3, 64, 64), (1, 32, 32, 64), ("i8", "i32"), 32 * 32 * 64 * 9 * 64,
    ),
    Form(
        "depthwise_conv_2d_nhwc_hwc f32", f"depthwise_conv_2d_nhwc_hwc {WINDOWS}",
        (1, 66, 66, 128), (3, 3, 128), (1, 64, 64, 128), ("f32", "f32"), 64 * 64 * 128 * 9,
    ),
)  # fmt: skip

BY_HAND: dict[str, tuple[Callable[[], str], tuple[int, int, int], str, str]] = {
    # Its text, the grid, the elements of operands and result.
    "coopmat f16 -> f32": (
        lambda: cooperative(N, "f16", "f32"), (N // 16, N // 16, 1), "f16", "f32"
    ),
    "coopmat s8 -> s32": (lambda: cooperative(N, "i8", "i32"), (N // 16, N // 16, 1), "i8", "i32"),
    "packed dot s8 -> s32": (lambda: packed_dot(N), (N // GROUP, N // GROUP, 1), "i8", "i32"),
}  # fmt: skip
SIZES = {"i8": 1, "f16": 2, "f32": 4, "i32": 4}


def instructions(binary: bytes) -> int:
    """Returns the number of instructions in the functions of a module."""
    from xdsl_spirv.serialization.raw.binary import decode

    names = [row.name for row in decode(binary)]
    return len(names) - names.index("OpFunction")


def hand_work(name: str) -> Any:
    """Returns the launch of a handwritten kernel, in the form that a device executes."""
    from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
    from xdsl_spirv.runtime.modules import context, parse_text
    from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer
    from xdsl_spirv.serialization.encode.encoder import encode
    from xdsl_spirv.serialization.encode.target import find_module

    write, grid, element, result = BY_HAND[name]
    ctx = context()
    module = parse_text(write(), ctx=ctx)
    UpdateVCEPass().apply(ctx, module)
    binary = encode(find_module(module))
    count = N * N
    return Work(
        buffers=(
            WorkBuffer("A", count * SIZES[element], "input"),
            WorkBuffer("B", count * SIZES[element], "input"),
            WorkBuffer("C", count * SIZES[result], "output"),
        ),
        kernels={name: binary},
        steps=(Step(name, "main", grid, ((0, 0, "A"), (0, 1, "B"), (0, 2, "C"))),),
    )


def values(shape: tuple[int, ...], element: str, seed: int) -> Any:
    """Returns random small integers, whose sums are exact in every order."""
    import numpy as np

    kinds = {"i8": np.int8, "f16": np.float16, "f32": np.float32}
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(kinds[element])


def right(name: str, data: bytearray) -> bool:
    """True if a handwritten kernel computed the product. B of packed_dot is transposed."""
    import numpy as np

    _, _, element, result = BY_HAND[name]
    a, b = (values((N, N), element, seed).astype(np.float64) for seed in (1, 2))
    expected = a @ (b.T if name.startswith("packed") else b)
    kind = np.float32 if result == "f32" else np.int32
    return bool(np.array_equal(np.frombuffer(data, kind).reshape(N, N), expected))


def on_device(forms: list[Form], runs: int) -> list[dict[str, Any]]:
    """Returns GFLOP/s of each form and of each handwritten kernel, timed in turns."""
    from xdsl_spirv.compare.check import check
    from xdsl_spirv.compiler.compiler import compile_module
    from xdsl_spirv.runtime.modules import parse_text
    from xdsl_spirv.runtime.vulkan.device import open_device
    from xdsl_spirv.runtime.vulkan.programs import arrays_of

    records: list[dict[str, Any]] = []
    with open_device("vulkan", timeout=TIMEOUT) as device:
        rows: list[tuple[dict[str, Any], int, Any]] = []
        for form in forms:
            program = compile_module(parse_text(form.text()), "lavapipe")
            element = form.types[0]
            inputs = {"A": values(form.a, element, 1), "B": values(form.b, element, 2)}
            loaded = device.load(work_of(program))
            outputs = loaded.run({k: v.tobytes() for k, v in inputs.items()}, TIMEOUT)
            comparisons = check(program, inputs, arrays_of(program, outputs))
            record = {
                "form": form.name,
                "by_hand": form.by_hand,
                "kernels": len(program.code),
                "instructions": sum(instructions(x.binary) for x in program.code.values()),
                "right": all(comparison.passed for comparison in comparisons),
            }
            rows.append((record, form.products, loaded))
        for name in sorted({form.by_hand for form in forms} - {""}):
            work = hand_work(name)
            element = BY_HAND[name][2]
            inputs = {x: values((N, N), element, i) for i, x in ((1, "A"), (2, "B"))}
            loaded = device.load(work)
            outputs = loaded.run({k: v.tobytes() for k, v in inputs.items()}, TIMEOUT)
            record = {
                "form": name,
                "hand_written": True,
                "kernels": 1,
                "instructions": instructions(work.kernels[name]),
                "right": right(name, outputs["C"]),
            }
            rows.append((record, N**3, loaded))
        best = [float("inf")] * len(rows)
        for _ in range(runs):
            for index, (_, _, loaded) in enumerate(rows):
                started = time.perf_counter()
                loaded.repeat(TIMEOUT)
                best[index] = min(best[index], time.perf_counter() - started)
        for (record, products, _), seconds in zip(rows, best, strict=True):
            record |= {"ms": seconds * 1e3, "gflops": 2 * products / seconds / 1e9}
            records.append(record)
    hand = {
        comparison["form"]: comparison["gflops"]
        for comparison in records
        if comparison.get("hand_written")
    }
    for comparison in records:
        if comparison.get("by_hand"):
            comparison["ratio_to_hand_written"] = comparison["gflops"] / hand[comparison["by_hand"]]
    return records


def work_of(program: Any) -> Any:
    from xdsl_spirv.runtime.vulkan.programs import work_of

    return work_of(program)


def seconds_of(command: list[Any]) -> float | None:
    """Returns the wall-clock seconds of a process, or None if it fails."""
    started = time.perf_counter()
    done = subprocess.run([str(c) for c in command], capture_output=True, check=False)
    return time.perf_counter() - started if done.returncode == 0 else None


def compile_times(forms: list[Form], runs: int, iree: str | None) -> list[dict[str, Any]]:
    """Returns median compile times of whole processes: ours for two targets, and iree-compile's."""
    ours = Path(sys.executable).parent / "xdsl-spirv"
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, form in enumerate(forms):
            source = folder / f"{number}.mlir"
            source.write_text(form.text())
            commands: dict[str, list[Any]] = {
                target: [ours, "compile", source, "--target", target, "-o", folder / target]
                for target in ("nvidia-h200", "lavapipe")
                if not form.schedule or target == "lavapipe"
            }
            if iree is not None and not form.schedule:
                commands["iree-compile"] = [iree, source, *IREE_FLAGS, "-o", folder / "x.vmfb"]
            times: dict[str, list[float | None]] = {key: [] for key in commands}
            for _ in range(runs):
                for key, command in commands.items():
                    times[key].append(seconds_of(command))
            medians = {
                key: statistics.median(x for x in seconds if x is not None)
                if all(seconds)
                else None
                for key, seconds in times.items()
            }
            records.append({"form": form.name, "seconds": medians})
            print(form.name, medians, flush=True)
    return records


def main() -> int:
    parser = argparse.ArgumentParser(description="Contractions by form: speed and compile time.")
    parser.add_argument("--only", default="", help="forms whose names contain this")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true", help="no compile times")
    parser.add_argument("--no-device", action="store_true", help="nothing on lavapipe")
    parser.add_argument("--iree", default=None, help="iree-compile (from iree-base-compiler)")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    forms = [form for form in FORMS if arguments.only in form.name]
    if not arguments.no_device and DRIVER not in os.environ:
        run = ROOT / ".lavapipe" / "run"
        if not run.exists():
            sys.exit(f"error: {run} does not exist; run `make lavapipe`")
        os.environ[DRIVER] = "1"
        return subprocess.run([run, sys.executable, *sys.argv], check=False).returncode
    result: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": os.getloadavg(),
        "runs": arguments.runs,
    }
    if not arguments.no_device:
        result["device"] = on_device(forms, arguments.runs)
        for row in result["device"]:
            ratio = row.get("ratio_to_hand_written")
            beside = f", {ratio:.2f} of by hand" if ratio else ""
            wrong = "" if row["right"] else ", WRONG"
            print(
                f"{row['form']:46} {row['gflops']:8.2f} GFLOP/s, {row['instructions']:5} "
                f"instructions{beside}{wrong}"
            )
    if not arguments.no_compile:
        beside = Path(sys.executable).parent / "iree-compile"
        iree = arguments.iree or (str(beside) if beside.exists() else shutil.which("iree-compile"))
        result["iree_flags"] = IREE_FLAGS if iree else None
        result["compile"] = compile_times(forms, arguments.runs, iree)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row["right"] for row in result.get("device", [])) else 1


if __name__ == "__main__":
    sys.exit(main())
