"""
Runs contractions of random sizes with random schedule structures on a Vulkan device.

    python benchmarks/structures.py --target nvidia-h200 --count 400 -o results.json
    .lavapipe/run python benchmarks/structures.py --target lavapipe --count 20

Schedules are drawn, not chosen by the compiler: panels with prefetched tiles, staged fragments,
slices of K, results stored by rows or by element functions, and mixtures. Sizes are not multiples
of tiles. `--only` runs only schedules that contain a text. Operands are small integers, so that
sums and the comparison with numpy are exact.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from contractions import BF16, F16, F32, S8, Case, compiled
from device_runs import parser_of

from xdsl_spirv.runtime.vulkan import open_isolated
from xdsl_spirv.targets import PER_ELEMENT, load

TYPES = (F16, F32, BF16, S8)


def case_of(random: random.Random, target: str) -> tuple[Case, str]:
    """Returns a random contraction and a schedule."""
    listed = load(target)
    types = random.choice(
        [listed_types for listed_types in TYPES if listed.properties_for(listed_types)]
    )
    m, n, k = random.choice(listed.properties_for(types)).shape
    rows, columns = random.choice(((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 2)))
    tile_m, tile_n = m * rows * random.choice((1, 2, 4)), n * columns * random.choice((1, 2, 3))
    steps = random.choice((1, 2, 4))
    slices = random.choice((1, 1, 2, 4, 8))
    by_rows = slices == 1 and random.random() < 0.4
    most_sizes = tile_m, tile_n, 5 * k * slices
    size_m, size_n, size_k = (random.randint(1, 3 * most) for most in most_sizes)
    if by_rows:
        size_m, size_n = -(-size_m // m) * m, -(-size_n // 16) * 16
    turned = types == S8 or random.random() < 0.5
    sizes = {"m": size_m, "n": size_n, "k": size_k}
    a, b = random.choice(("mk", "km")), "nk" if turned else "kn"
    name = f"{size_m}x{size_n}x{size_k} {types[0]} -> {types[2]} {a},{b}"
    size = 1 if types == S8 else 2
    wide = min(16 // size, k)
    share = m * k // listed.subgroup_size
    panels = f"staged<padding = {16 // size}, vector = {wide}"
    more: list[str] = []
    if random.random() < 0.4:
        more = [f"stages = {random.randint(2, 5)}"]
        path_a = path_b = f"{panels}, buffers = 2, ahead = 1, layout = panels>"
    else:
        buffers = random.choice((1, 2))
        if buffers == 2 or random.random() < 0.5:
            more = ["stages = 2"]
        twice = ", buffers = 2" if buffers == 2 else ""
        path_a = random.choice(
            (
                f"staged<vector = {share}{twice}, layout = fragments>",
                f"{panels}{twice}, layout = panels>",
                f"staged<padding = {16 // size}{twice}>",
            )
        )
        path_b = f"direct<ahead = {random.randint(0, steps)}>".replace("<ahead = 0>", "")
    if more and random.random() < 0.5:
        more.append("first = store")
    if by_rows:
        more.append("result = rows")
    elif PER_ELEMENT in listed.features and random.random() < 0.3:
        more.append("result = elements")
    parts = [
        f"workgroup_tile = [{tile_m}, {tile_n}, {steps * k * slices}]",
        f"subgroups = {[rows, columns, slices][: 3 if slices > 1 else 2]}",
        f"instruction = coopmat {m}x{n}x{k}",
        f"a = {path_a}",
        f"b = {path_b}",
        *more,
    ]
    case = Case(name, types, sizes, a, b, "mn")
    return case, f"#schedule.contraction<{', '.join(parts)}>"


def program_of(case: Case, schedule: str, target: str) -> Any:
    """Returns the program of a case with a schedule, or the error message."""
    try:
        return compiled(case, target, schedule)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]


def inputs_of(case: Case, generator: np.random.Generator) -> dict[str, Any]:
    from contractions import DTYPES

    return {
        name: generator.integers(-2, 3, case.shape(name.lower())).astype(DTYPES[type])
        for name, type in zip("AB", case.types, strict=False)
    }


def exact(case: Case, inputs: dict[str, Any]) -> Any:
    a, b = (inputs[name].astype(np.float64) for name in "AB")
    return np.einsum(f"{case.a},{case.b}->{case.out}", a, b, optimize=True)


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    chooser = random.Random(options.seed)
    drawn = [case_of(chooser, options.target) for _ in range(options.count)]
    cases = [case for case in drawn if options.only in case[1]]
    counts = {"right": 0, "refused": 0, "wrong": 0, "failed": 0}
    wrong: list[str] = []
    device: Any = open_isolated(options.device)

    def programs(pool: ProcessPoolExecutor) -> Iterator[tuple[Case, str, Any]]:
        jobs = [pool.submit(program_of, *given, options.target) for given in cases]
        for given, job in zip(cases, jobs, strict=True):
            yield *given, job.result()

    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for case, schedule, program in programs(pool):
            if isinstance(program, str):
                refused = "assign-schedule" in program or "multiple" in program
                counts["refused" if refused else "failed"] += 1
                if not refused:
                    wrong.append(f"{case.name} {schedule}: {program}")
                continue
            inputs = inputs_of(case, np.random.default_rng(options.seed))
            try:
                (result,) = device.execute(program, inputs).values()
                right = bool(np.array_equal(result.astype(np.float64), exact(case, inputs)))
            except Exception as error:
                counts["failed"] += 1
                wrong.append(f"{case.name} {schedule}: {error}"[:600])
                device.close()
                device = open_isolated(options.device)
                continue
            counts["right" if right else "wrong"] += 1
            if not right:
                wrong.append(f"{case.name} {schedule}")
    print(json.dumps(counts), flush=True)
    for given in wrong[:20]:
        print(given)
    if options.output is not None:
        document = {"what": (__doc__ or "").strip().splitlines()[0], "seed": options.seed}
        document |= {"device": device.info.name, "counts": counts, "wrong": wrong}
        options.output.write_text(json.dumps(document, indent=1))
    device.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
