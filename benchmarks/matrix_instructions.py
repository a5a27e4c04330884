"""
Times matrix instructions that reduce, convert or access elements, and code without them.

    python benchmarks/matrix_instructions.py -o benchmarks/results/h200-matrix-instructions.json

Attention runs with three schedules: the default, `probabilities = converted`, and probabilities in
Workgroup memory. A product with bias and GELU runs with the default, `result = elements` and
`result = fragments`. Every result is compared in the same process with the reference of
benchmarks/attention.py or in binary64. PyTorch runs in a CUDA graph.

`--count N` first checks N random attentions and N products with elementwise chains. They are
compiled for the target without its fragment layouts, so that these instructions are the default.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import attention
import numpy as np
from attention import IN_GRAPH
from device_runs import CUDA, WARM_UP, Job, parser_of, run_jobs, torch, torch_median
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv import targets
from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.runtime.vulkan import open_isolated
from xdsl_spirv.targets import load
from xdsl_spirv.testing.attention_workloads import AttentionWorkload, attention_workload
from xdsl_spirv.testing.fused_workloads import FusedWorkload, fused_workload

STRUCTURES = {
    "16x16x16": (
        "query_tile = 128, key_tile = 32, subgroups = 4, rescale = seldom",
        "query_tile = 64, key_tile = 32, subgroups = 4, rescale = seldom",
        "query_tile = 64, key_tile = 64, subgroups = 4, rescale = seldom",
        "query_tile = 64, key_tile = 64, subgroups = 4, rescale = always",
    ),
    "8x8x8": (
        "query_tile = 8, key_tile = 16, subgroups = 1, rescale = seldom",
        "query_tile = 8, key_tile = 16, subgroups = 1, rescale = always",
    ),
}
"""Maps a matrix instruction to fields of attention schedules with `probabilities = converted`."""

SMALL, LARGE = 24, 200
"""Largest sizes of random cases: with and without `--small`."""

EXTENSION = b"SPV_NV_cooperative_matrix2"

BESIDE = 2
"""Number of the first cases that also run through Workgroup memory."""


def attention_schedules(case: AttentionWorkload, target: str) -> list[str | None]:
    shape = "x".join(map(str, load(target).properties_for(("f16", "f16", "f32"))[0].shape))
    structures = STRUCTURES[shape]
    whole = case.m % 128 == 0
    paths = "q = rows, k = direct, v = direct" if whole else "q = direct, k = direct, v = direct"
    return [
        None,
        *(
            f"#schedule.attention<{structure}, instruction = coopmat {shape}, {paths}, "
            f"probabilities = {place}>"
            for place, count in (("converted", len(structures)), ("memory", BESIDE))
            for structure in structures[:count]
        ),
    ]


def attention_cases() -> list[AttentionWorkload]:
    plain = [
        AttentionWorkload(4, 16, 2048, 2048, head, head, mask=mask)
        for head in (64, 128)
        for mask in ("none", "causal")
    ]
    return [*plain, AttentionWorkload(4, 16, 2000, 2039, 64, 64)]


def small() -> list[AttentionWorkload]:
    larger = AttentionWorkload(1, 2, 256, 256, 32, 32)
    return [*attention.small(), larger, replace(larger, mask="causal")]


@dataclass(frozen=True)
class Product:
    """gelu(a b + bias) with f16 operands and result, and f32 sums."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"matmul {self.m}x{self.n}x{self.k} f16, bias, GELU"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    def text(self, schedule: str | None) -> str:
        m, n, k = self.m, self.n, self.k
        attribute = f"{{schedule = {schedule}}} " if schedule else ""
        here = "affine_map<(i, j) -> (i, j)>"
        return f"""func.func @main(%A: tensor<{m}x{k}xf16>, %B: tensor<{k}x{n}xf16>,
    %C: tensor<{n}xf32>) -> tensor<{m}x{n}xf16> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %p = linalg.matmul {attribute}ins(%A, %B : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>)
      outs(%f : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %g = tensor.empty() : tensor<{m}x{n}xf16>
  %r = linalg.generic {{indexing_maps = [{here}, affine_map<(i, j) -> (j)>, {here}],
      iterator_types = ["parallel", "parallel"]}}
      ins(%p, %C : tensor<{m}x{n}xf32>, tensor<{n}xf32>) outs(%g : tensor<{m}x{n}xf16>) {{
  ^bb0(%s: f32, %b: f32, %o: f16):
    %half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %root = arith.constant 0.70710678118654752 : f32
    %x = arith.addf %s, %b : f32
    %t = arith.mulf %x, %root : f32
    %u = math.erf %t : f32
    %v = arith.addf %u, %one : f32
    %h = arith.mulf %x, %half : f32
    %w = arith.mulf %h, %v : f32
    %y = arith.truncf %w : f32 to f16
    linalg.yield %y : f16
  }} -> tensor<{m}x{n}xf16>
  func.return %r : tensor<{m}x{n}xf16>
}}
"""

    def compiled(self, target: str, schedule: str | None) -> Any:
        ctx = context()
        module = parse_text(self.text(schedule), self.name, ctx)
        if schedule is not None:
            passes = Universe.get_multiverse().all_passes
            spec = "linalg-to-contraction,form-dispatches"
            PassPipeline.parse_spec(passes, spec).apply(ctx, module)
        return compile_module(module, target)

    def inputs(self) -> dict[str, Any]:
        generator = np.random.default_rng(1)
        shapes = {"A": (self.m, self.k), "B": (self.k, self.n), "C": (self.n,)}
        numbers = {n: generator.standard_normal(s, np.float32) for n, s in shapes.items()}
        # The scale keeps most arguments in the range where GELU is neither 0 nor the identity.
        numbers["B"] /= math.sqrt(self.k)
        return {n: x if n == "C" else x.astype(np.float16) for n, x in numbers.items()}

    def reference(self, inputs: dict[str, Any]) -> tuple[Any, Any]:
        """Returns the result in binary64, and a bound for the error of f32 sums."""
        if CUDA:
            a, b, c = (torch.from_numpy(x).cuda().double() for x in inputs.values())
            total, sizes = a @ b + c, abs(a) @ abs(b) + abs(c)
            exact = torch.nn.functional.gelu(total)
            return exact.cpu().numpy(), sizes.cpu().numpy() * (self.k + 16) * 2.0**-23
        a, b, c = (x.astype(np.float64) for x in inputs.values())
        total, sizes = a @ b + c, abs(a) @ abs(b) + abs(c)
        erf = np.vectorize(math.erf)(total * math.sqrt(0.5))
        return 0.5 * total * (1 + erf), sizes * (self.k + 16) * 2.0**-23

    def torch_ms(self, inputs: dict[str, Any]) -> float | None:
        if not CUDA:
            return None
        a, b, c = (torch.from_numpy(x).cuda().half() for x in inputs.values())

        def run() -> Any:
            return torch.nn.functional.gelu(torch.addmm(c, a, b))

        for _ in range(3):
            run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(IN_GRAPH):
                run()
        return torch_median(torch, graph.replay) / IN_GRAPH

    def schedules(self, target: str) -> list[str | None]:
        """Returns None for the default, and the default schedule with other `result` options."""
        default = next(
            layer.schedule for layer in self.compiled(target, None).layers if layer.schedule
        )
        own = re.sub(r", result = \w+", "", default)
        ways = (own, f"{own[:-1]}, result = elements>")
        return [None, *(way for way in ways if way != default)]


def products(small: bool) -> Sequence[Product]:
    if small:
        return [Product(64, 64, 32), Product(40, 47, 33)]
    return [Product(4096, 4096, 4096), Product(2000, 2039, 1024), Product(4096, 1536, 384)]


def unmapped(target: str, folder: Path) -> str:
    """Writes a copy of a target file without fragment layouts. Returns its path."""
    data = json.loads((Path(targets.__file__).parent / f"{target}.json").read_text())
    data = {key: value for key, value in data.items() if key != "component_map"}
    path = folder / "unmapped.json"
    path.write_text(json.dumps({**data, "name": f"{target}-unmapped"}))
    return str(path)


def random_cases(count: int, largest: int) -> Iterator[AttentionWorkload | FusedWorkload]:
    for seed in range(count):
        generator = np.random.default_rng(seed)
        if seed % 2:
            yield fused_workload(seed, largest=largest)
        else:
            yield attention_workload(generator, "f16", largest=largest)


def check_random(device: Any, target: str, count: int, largest: int) -> Iterator[dict[str, Any]]:
    """Checks random cases, and records whether a kernel uses the timed matrix instructions."""
    for number, case in enumerate(random_cases(count, largest)):
        record: dict[str, Any] = {"case": f"random {number}", "workload": str(case)}
        try:
            program = compile_module(parse_text(case.text()), target)
            binaries = [code.binary for code in program.code.values()]
            record["instructions"] = any(EXTENSION in binary for binary in binaries)
            inputs = case.inputs(np.random.default_rng(number))
            results = device.execute(program, inputs)
            record["ok"] = all(bool(c.passed) for c in check(program, inputs, results))
        except Exception as error:
            record["error"] = f"{type(error).__name__}: {error}"[:300]
        yield record


def measure_product(
    device: Any, case: Product, target: str, schedule: str | None, inputs: Any, exact: Any
) -> dict[str, Any]:
    record: dict[str, Any] = {"case": case.name, "schedule": schedule or "default"}
    try:
        begin = time.perf_counter()
        program = case.compiled(target, schedule)
        record["compile_s"] = round(time.perf_counter() - begin, 3)
        (result,) = device.execute(program, inputs).values()
        value, error = exact
        allowed = 1.13 * error + 2.0**-10 * np.abs(value) + 2.0**-22
        share = float((np.abs(result.astype(np.float64) - value) / allowed).max())
        record["ok"], record["share_of_bound"] = share <= 1.0, round(share, 4)
        *packs, last = device.times(program, 15, WARM_UP)
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {error}"[:300]
        return record
    record["pack_ms"] = round(sum(timing.median for timing in packs) / 1e6, 5)
    record["ms"] = round(last.median / 1e6, 5)
    record["tflops"] = round(case.flops / last.median / 1e3, 2)
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--count", type=int, default=0, help="random cases that are checked first")
    options = parser.parse_args(arguments)
    if options.count:
        with tempfile.TemporaryDirectory() as folder:
            target, device = unmapped(options.target, Path(folder)), open_isolated(options.device)
            largest = SMALL if options.small else LARGE
            records = list(check_random(device, target, options.count, largest))
            device.close()
        wrong = [record for record in records if not record.get("ok")]
        used = sum(bool(record.get("instructions")) for record in records)
        print(json.dumps(wrong, indent=1))
        print(f"{len(records) - len(wrong)} right of {len(records)}, {used} with the instructions")
    attentions = small() if options.small else attention_cases()

    def jobs() -> Iterator[Job]:
        for case in attentions:
            if options.only not in attention.name_of(case):
                continue
            inputs = case.inputs(np.random.default_rng(1))
            yield Job(
                lambda device, schedule, case=case, inputs=inputs: attention.measure(
                    device, case, options.target, schedule, inputs
                ),
                lambda case=case, inputs=inputs: attention.torch_ms(case, inputs),
                case.flops,
                attention_schedules(case, options.target),
            )
        for product in products(options.small):
            if options.only not in product.name:
                continue
            inputs = product.inputs()
            exact = product.reference(inputs)
            yield Job(
                lambda device, schedule, case=product, inputs=inputs, exact=exact: measure_product(
                    device, case, options.target, schedule, inputs, exact
                ),
                lambda case=product, inputs=inputs: case.torch_ms(inputs),
                product.flops,
                product.schedules(options.target),
            )

    return run_jobs(options, jobs(), (__doc__ or "").strip().splitlines()[0], torch)


if __name__ == "__main__":
    sys.exit(main())
