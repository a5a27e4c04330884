"""
Times schedules of a target file on many contractions, as data for fitting learned rates.

    python benchmarks/schedule_samples.py --target nvidia-h200 --seconds 110 -o samples.json

For every contraction of `shape_families.py` the schedules with the least estimates are timed, and
a random sample of the rest. Contractions come in random order, so that an interrupted run covers
all families. A reference kernel is timed before every contraction (`reference_us`) to detect clock
drift. Results are compared with those of the first schedule.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from ceiling import Product, compiled, matmul
from contractions import DTYPES
from cost_model import contraction
from device_runs import parser_of
from shape_families import families

from xdsl_spirv.passes.schedule.contraction_candidates import candidates_of
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan.device import open_device
from xdsl_spirv.runtime.vulkan.programs import bytes_of, work_of
from xdsl_spirv.targets import load

LIKELY, OTHERS = 12, 6
"""Number of schedules with the least estimates, and of random ones, for each contraction."""
FAR = 3.0
"""Schedules with estimates above this multiple of the least one are not sampled."""
WARM_UP = 0.01
RUNS = 9


def schedules(product: Product, target: str) -> list[str]:
    """Returns sampled schedules of a product, empty if the product is no contraction."""
    one, device = contraction(product), load(target)
    if one is None:
        return []
    estimates: dict[str, float] = {}
    for candidates in candidates_of(one, device):
        for planned in candidates:
            if not any(planned.problems()):
                estimates.setdefault(str(planned.schedule), planned.seconds)
        if estimates:
            break
    ranked = sorted(estimates, key=lambda schedule: estimates[schedule])
    least = estimates[ranked[0]]
    others = [s for s in ranked[LIKELY:] if estimates[s] < FAR * least]
    drawn = random.Random(str(product)).sample(others, min(OTHERS, len(others)))
    return [*ranked[:LIKELY], *drawn]


def programs(product: Product, target: str) -> list[tuple[str, Program | str]]:
    """Returns every sample of a product as a program or an error message."""
    return [(one, compiled(product, target, one)) for one in schedules(product, target)]


def values(product: Product) -> tuple[bytes, dict[str, Any]]:
    """Returns A's bytes and the matrices by name."""
    generator = np.random.default_rng(1)

    def array(operand: str, type: str) -> Any:
        shape = product.case.shape(operand)
        if type == "s8":
            return generator.integers(-128, 128, shape, np.int8)
        return (generator.random(shape, np.float32) * 2 - 1).astype(DTYPES[type])

    b = array("b", product.case.types[1])
    return bytes_of(array("a", product.case.types[0])), {
        name: b if number == 0 else b.copy() for number, name in enumerate(matrices(product))
    }


def matrices(product: Product) -> list[str]:
    return [f"B{number}_B" for number in range(product.count)]


def measured(device: Any, product: Product, program: Program, data: tuple[bytes, Any]) -> Any:
    """Returns the microseconds of a product and of packing, and part of the first result."""
    a, named = data
    given = {"A": a}
    if product.is_weight:
        program.weights.update(named)
    else:
        given |= {name: bytes_of(value) for name, value in named.items()}
    loaded = device.load(work_of(program))
    try:
        output = next(iter(loaded.run(given, 20.0).values()))
        times = loaded.time(RUNS, 20.0, WARM_UP)
    finally:
        device.unload(loaded)
    timed = list(zip(times, program.manifest.dispatches, strict=True))
    often = [(t.median, t.entry_point.startswith("pack_")) for t, d in timed if not d.once]
    kind = DTYPES[product.stored]
    return {
        "us": round(sum(t for t, packs in often if not packs) / product.count / 1e3, 3),
        "pack_us": round(sum(t for t, packs in often if packs) / product.count / 1e3, 3),
    }, np.frombuffer(output, kind)[:: max(1, len(output) // 50_000)].astype(np.float64)


def records(options: Any, end: float) -> Iterator[dict[str, Any]]:
    chosen = [(f, p) for f, listed in families().items() for p in listed]
    if options.small:
        chosen = [("small", p) for p in (matmul(40, 48, 72), matmul(64, 48, 80))]
    random.Random(0).shuffle(chosen)
    device: Any = open_device(options.device)
    yield {"device": device.info.name, "driver": device.info.driver_version}
    reference = matmul(1024, 1024, 1024)
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as pool:
        jobs = [(f, p, pool.submit(programs, p, options.target)) for f, p in chosen]
        standard = compiled(reference, options.target, None)
        assert isinstance(standard, Program)
        standard_data = values(reference)
        for family, product, job in jobs:
            if time.monotonic() > end:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            beside, _ = measured(device, reference, standard, standard_data)
            data, first = values(product), None
            for schedule, program in job.result():
                record = {"family": family, "case": str(product), "schedule": schedule}
                if isinstance(program, str):
                    yield record | {"error": program}
                    continue
                try:
                    times, result = measured(device, product, program, data)
                except Exception as error:
                    yield record | {"error": f"{type(error).__name__}: {error}"[:300]}
                    device.close()
                    device = open_device(options.device)
                    continue
                first = result if first is None else first
                scale = float(np.abs(first).max())
                close = bool(np.abs(result - first).max() <= 0.01 * scale)
                yield record | times | {"ok": close, "reference_us": beside["us"]}
    device.close()


def main(arguments: list[str] | None = None) -> int:
    options = parser_of(__doc__).parse_args(arguments)
    begin = time.monotonic()
    rows: list[dict[str, Any]] = []
    for record in records(options, begin + options.seconds):
        rows.append(record)
        print(json.dumps(record), flush=True)
    print(f"{len(rows)} in {time.monotonic() - begin:.1f} s", file=sys.stderr)
    if options.output is not None:
        document = {
            "what": "Schedules of the target's file on contractions of known networks",
            "date": time.strftime("%Y-%m-%d"),
            "target": options.target,
            **rows[0],
            "records": rows[1:],
        }
        Path(options.output).write_text(json.dumps(document, indent=0))
    return 0 if all(r.get("ok") for r in rows[1:]) else 1


if __name__ == "__main__":
    sys.exit(main())
