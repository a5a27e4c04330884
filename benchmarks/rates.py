"""
Measures the rates of a target file's schedules with one workgroup on each compute unit.

    python benchmarks/rates.py --target nvidia-h200 -o rates.json
    python benchmarks/rates.py --target nvidia-h200 --write rates.json

A schedule's `rates` are the TFLOPS of large contractions, in which compute units run several
workgroups concurrently. `alone` are the TFLOPS of results with just enough tiles for one workgroup
on each unit. `rates` exclude the launch and the stores of results, because estimates add both
(stores by the file's `store_rates`). `assign-schedule` uses `rates` and `alone`. Only rates that
are 1 or missing in the target file are measured; `--all` measures all. Each schedule is compiled
with a target file that lists only that schedule, checked, and timed as in `contractions.py`.
`--write` stores measured rates in the target file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from contractions import matmul, measure
from device_runs import CUDA, Job, parser_of, run_jobs, torch

from xdsl_spirv.serialization.files import write_atomically

DEPTH = 4096
"""Size of K of all contractions, and of M and N of large ones."""

START_MS = 0.003
"""Milliseconds of an empty dispatch."""

MEASURED = {"f16 -> f16": "f16", "f16 -> f32": "f16", "s8 -> s32": "s8"}
"""Types whose rates are measured, with their operand types."""

SAME = {"bf16 -> f32": "f16 -> f32", "u8 -> u32": "s8 -> s32"}
"""Types that use the instructions of another type."""


def target_file(name: str) -> Path:
    """Returns the path of a target file, given the name of a packaged target or a path."""
    known = Path(str(files("xdsl_spirv.targets") / f"{name}.json"))
    return known if known.exists() else Path(name)


def grid_of(units: int) -> tuple[int, int]:
    """Returns rows and columns of a nearly square grid with at most `units` tiles."""
    rows = max(range(1, int(units**0.5) + 1), key=lambda r: (units // r * r, r))
    return rows, units // rows


def jobs(data: dict[str, Any], folder: Path, everything: bool) -> Iterator[Job]:
    """
    Yields a job for each schedule, type and rate of the target `data` that has no rate. With
    `everything`, yields all jobs. Each has its own target file.
    """
    for number, schedule in enumerate(data["schedules"]):
        path = folder / f"{number}.json"
        rates = dict.fromkeys(schedule.get("rates", {}), 1)
        path.write_text(json.dumps({**data, "schedules": [{**schedule, "rates": rates}]}))
        for types in (listed for listed in rates if listed in MEASURED):
            for rate in ("rates", "alone"):
                if everything or schedule.get(rate, {}).get(types, 0) <= 1:
                    yield job(data["compute_units"], schedule["tile"], path, (number, types, rate))


def job(units: int, tile: list[int], path: Path, key: tuple[int, str, str]) -> Job:
    """Returns the job of a schedule: a large contraction, or one with a tile per compute unit."""
    number, types, rate = key
    element, result = MEASURED[types], types.partition(" -> ")[2]
    rows, columns = (n * size for n, size in zip(grid_of(units), tile, strict=True))
    sizes = (rows, columns, DEPTH) if rate == "alone" else (DEPTH, DEPTH, DEPTH)
    case = matmul(sizes, (element, element, result), element == "s8")

    def run(device: Any, _: Any) -> Any:
        record = measure(device, case, str(path), None, case.inputs())
        return {"schedule_number": number, "types": types, "rate": rate, **record}

    return Job(run, lambda: None, case.flops, [None])


def net_of_stores(data: dict[str, Any], schedule: dict[str, Any], record: Any) -> float:
    """
    Returns the TFLOPS of a measured schedule, without the times of the launch and of the stores.
    """
    if record["rate"] == "alone":
        return record["tflops"]
    size = 2 if record["types"].endswith("f16") else 4
    n = data["cooperative_matrix"][0]["n"]
    way = "rows" if schedule.get("result") == "rows" else f"fragments {n * size}"
    rate = data.get("store_rates", {}).get(way)
    stores = 0.0 if rate is None else DEPTH * DEPTH * size / rate / 1e9
    operations = record["tflops"] * record["ms"]
    return operations / (record["ms"] - stores - START_MS)


def write(name: str, measured: Path) -> int:
    """Writes measured rates into the target file. Returns the exit status."""
    path = target_file(name)
    text = path.read_text()
    data = json.loads(text)
    for record in json.loads(measured.read_text())["records"]:
        if not record.get("ok"):
            continue
        schedule = data["schedules"][record["schedule_number"]]
        rates = schedule.setdefault(record["rate"], {})
        for types in schedule["rates"]:
            if SAME.get(types, types) == record["types"]:
                rates[types] = round(net_of_stores(data, schedule, record))
    head, mark, _ = text.partition('"schedules": [\n')
    lines = ",\n".join("    " + json.dumps(listed) for listed in data["schedules"])
    write_atomically(path, f"{head}{mark}{lines}\n  ]\n}}\n".encode())
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--write", type=Path, help="put these results into the target's file")
    parser.add_argument("--all", action="store_true", help="measure known rates again, too")
    options = parser.parse_args(arguments)
    if options.write is not None:
        return write(options.target, options.write)
    data = json.loads(target_file(options.target).read_text())
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-rates-") as folder:
        what = (__doc__ or "").strip().splitlines()[0]
        return run_jobs(
            options, jobs(data, Path(folder), options.all), what, torch if CUDA else None
        )


if __name__ == "__main__":
    sys.exit(main())
