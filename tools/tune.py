"""Implements `xdsl-spirv tune`: searches for fast schedules, and writes a tuned table."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import LAVAPIPE
from xdsl_spirv.jobs.options import open_engine, resource
from xdsl_spirv.jobs.store import Record, Store
from xdsl_spirv.passes.schedule.tuned import path_for
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.targets import Target, load
from xdsl_spirv.tools.report import note, note_row
from xdsl_spirv.tools.tuning.bench import MEASURE, DeviceBench, Replay
from xdsl_spirv.tools.tuning.candidates import Source
from xdsl_spirv.tools.tuning.results import (
    ESTIMATED_MARGIN,
    MARGIN,
    STATUSES,
    Known,
    Outcome,
    best_of,
    deserves_entry,
    gain_of,
    time_of,
    write_table,
)
from xdsl_spirv.tools.tuning.search import Options
from xdsl_spirv.tools.tuning.together import Together, sources_of

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.compilers import Driver

AT_ONCE = 3
"""Number of contractions to search at the same time per device."""

TYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32")
SHAPE = re.compile(r"(\d+)x(\d+)x(\d+):(\w+)(?:x(\w+))?->(\w+)")
SOURCE = """
func.func @main(%A: tensor<{m}x{k}x{a}>, %B: tensor<{k}x{n}x{b}>) -> tensor<{m}x{n}x{c}> {{
  %zero = arith.constant {zero} : {c}
  %empty = tensor.empty() : tensor<{m}x{n}x{c}>
  %init = linalg.fill ins(%zero : {c}) outs(%empty : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  %r = linalg.matmul ins(%A, %B : tensor<{m}x{k}x{a}>, tensor<{k}x{n}x{b}>)
                     outs(%init : tensor<{m}x{n}x{c}>) -> tensor<{m}x{n}x{c}>
  return %r : tensor<{m}x{n}x{c}>
}}
"""


def tune(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv tune`. Returns 1 if a contraction has no correct candidate."""
    driver = _driver(arguments)
    target = load(arguments.target)
    table = Path(arguments.output) if arguments.output else path_for(target.name)
    options = Options(
        runs=_positive(arguments.runs, "--runs"),
        most=_positive(arguments.candidates, "--candidates"),
        timeout=_positive(arguments.timeout, "--timeout"),
        seconds=None if arguments.seconds is None else _positive(arguments.seconds, "--seconds"),
        prune=not arguments.no_prune,
        load_ahead=arguments.load_ahead,
        until_gain=_share(arguments.until_gain),
    )
    if driver is not None:
        searched = _estimate_outcomes(arguments, options, driver)
    elif arguments.replay is not None:
        searched = _replay_outcomes(arguments, options)
    else:
        searched = _search_outcomes(arguments, options, target)
    outcomes, together = searched
    write_table(table, target.name, outcomes)
    note(table=table, outcomes=outcomes)
    if arguments.page is not None:
        from xdsl_spirv.tools.tuning.page import write_page

        write_page(Path(arguments.page), target.name, outcomes, together.searches)
    return 0 if all([_report(key, tried) for key, tried in outcomes.items()]) else 1


def _driver(arguments: argparse.Namespace) -> Driver | None:
    """Returns the driver of `--driver`, and makes its target the default."""
    if arguments.driver is None:
        if arguments.target is None:
            raise ProgramError("no target is given", "", "give --target, or --driver")
        return None
    for option in ("device", "replay"):
        if getattr(arguments, option) is not None:
            raise ProgramError(
                f"--driver only estimates times, so it cannot be combined with --{option}",
                "",
                "leave out one of the options",
            )
    from xdsl_spirv.runtime.vulkan.compilers import find

    driver = find(arguments.driver)
    arguments.target = arguments.target or driver.target
    return driver


def _estimate_outcomes(
    arguments: argparse.Namespace, options: Options, driver: Driver
) -> tuple[Mapping[str, list[Outcome]], Together]:
    """Returns outcomes with times that are estimated from a driver's machine code."""
    from xdsl_spirv.runtime.vulkan.compilers import Compiler
    from xdsl_spirv.tools.tuning.static import StaticBench

    with Compiler(driver) as compiler:
        bench = StaticBench.on(compiler)
        together = Together(lambda source: bench, options, _say)
        outcomes = together.run(_sources(arguments))
    print(f"estimates at 1 GHz by the code of {driver}: nothing ran")
    return outcomes, together


def _search_outcomes(
    arguments: argparse.Namespace, options: Options, target: Target
) -> tuple[Mapping[str, list[Outcome]], Together]:
    """Returns outcomes with times that are measured on devices."""
    sources = _sources(arguments)
    path = Path(arguments.store or f"{target.name}.db")
    with _engine(arguments) as (engine, resource, count), Store(path) as store:
        place = engine.place(resource)
        known = Known.of(store.records(MEASURE), place.device, place.driver)
        for line in known.told():
            _say(f"measured again: {line}")
        together = Together(
            lambda source: DeviceBench(engine, resource, options, store, known),
            options,
            _say,
            min(len(sources), AT_ONCE * count) or 1,
        )
        return together.run(sources), together


@contextmanager
def _engine(arguments: argparse.Namespace) -> Generator[tuple[Engine, str, int]]:
    """Yields the engine for jobs, the resource for measurements, and its number of devices."""
    cores = _positive(arguments.jobs, "--jobs")
    with open_engine(arguments.scheduler, cores, arguments.device) as engine:
        name = _resource(engine, arguments.device)
        yield engine, name, 1 if name == LAVAPIPE else engine.resources()[name]


def _resource(engine: Engine, device: str | None) -> str:
    """Returns the resource for `--device`: by default the most common GPU, or lavapipe."""
    if device not in (None, "vulkan"):
        return resource(engine, device)
    offered = engine.resources()
    gpus = Counter({name: count for name, count in offered.items() if name != LAVAPIPE})
    for name, _ in (gpus or offered).most_common(1):
        return name
    raise ProgramError("there is no device to tune on", "", "see `xdsl-spirv doctor`")


def _replay_outcomes(
    arguments: argparse.Namespace, options: Options
) -> tuple[Mapping[str, list[Outcome]], Together]:
    """Repeats a search with only the measurements of a store, without a device."""
    path = Path(arguments.replay)
    if not path.is_file():
        raise ProgramError(
            "the store of results does not exist", str(path), "name a file that --store has written"
        )
    with Store(path) as store:
        records = [r for r in store.records(MEASURE) if r.data["target"] == arguments.target]
    device, driver = _device_of(records, arguments.device, path)
    known = Known.of(records, device, driver)
    if arguments.input is None and not arguments.contraction:
        sources = _recorded_sources(records)
    else:
        sources = _sources(arguments)
    bench = Replay(known, device, driver)
    together = Together(lambda source: bench, options, _say)
    outcomes = {
        key: list(({o.schedule: o for o in tried} | known.of_contraction(key)).values())
        for key, tried in together.run(sources).items()
    }
    print(
        f"from {path}: {device}, {driver}; {len(known.unusual)} times under unusual clock or load"
    )
    for line in known.told():
        print(f"  {line}")
    for key, missing in bench.missing.items():
        print(f"{key}: {len(missing)} candidates were never measured")
        for schedule in missing:
            print(f"  {schedule}")
    return outcomes, together


def _recorded_sources(records: Sequence[Record]) -> list[Source]:
    """
    Returns the measured contractions. A contraction is left out if lowering its module no longer
    produces it.
    """
    measured = dict.fromkeys(map(source_of_record, records))
    modules = dict.fromkeys((s.text, s.target, s.weights) for s in measured)
    met = {source for module in modules for source in sources_of(*module, _say)}
    for source in measured:
        if source not in met:
            _say(f"{source.key}: the lowered module no longer has this contraction")
    return [source for source in measured if source in met]


def source_of_record(record: Record) -> Source:
    """Returns the contraction that a record measures."""
    data = record.data
    return Source(data["text"], data["target"], data["contraction"], tuple(data["weights"]))


def _device_of(records: Sequence[Record], wanted: str | None, path: Path) -> tuple[str, str]:
    """Returns the device and driver of most records, restricted to device `wanted` if given."""
    devices = Counter(
        (r.result.device, r.result.driver)
        for r in records
        if wanted in (None, "vulkan", r.result.device)
    )
    if not devices:
        raise ProgramError(
            "the store has no measurement for this target and device",
            str(path),
            "name another store, target or device",
        )
    return devices.most_common(1)[0][0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _report(key: str, tried: list[Outcome]) -> bool:
    """Prints the result for a contraction. Returns True if a candidate is correct."""
    print(key)
    counts = {status: sum(o.status == status for o in tried) for status in STATUSES}
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    print(f"  {len(tried)} candidates: {said}")
    best, gain = best_of(tried), gain_of(tried)
    note_row(
        "contractions",
        {
            "contraction": key,
            "candidates": len(tried),
            "statuses": counts,
            "schedule": best and best.schedule,
            "microseconds": best and time_of(tried),
            "default_microseconds": tried[0].microseconds,
            "gain": gain,
            "entered": best is not None and deserves_entry(tried),
        },
    )
    if best is None:
        print("  none of them is correct")
        return False
    held = str(heaviest(best.statistics))
    print(f"  {time_of(tried):.2f} us  {best.schedule}{held and f' ({held})'}")
    if gain is not None:
        print(f"  {gain:.2f} times as fast as without the table ({tried[0].microseconds:.2f} us)")
    if not deserves_entry(tried):
        margin = ESTIMATED_MARGIN if best.estimated else MARGIN
        print(
            "  no entry in the table: the best is not faster than the default by "
            f"{margin:.0%} in both measurements"
        )
    return True


Number = TypeVar("Number", int, float)


def _positive(value: Number, option: str) -> Number:
    if value <= 0:
        raise ProgramError(f"{option} {value:g} is not valid", "", "give a number above 0")
    return value


def _share(text: str) -> float:
    """Parses a fraction such as `1%` or `0.01`."""
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise ProgramError(f"--until-gain {text} is not a fraction", "", "write it as 1%") from None


def _sources(arguments: argparse.Namespace) -> list[Source]:
    """Returns the contractions of the input file and of `--contraction`."""
    if (arguments.input is None) == (not arguments.contraction):
        raise ProgramError("there is nothing to tune", "", "give an .mlir file or --contraction")
    texts = [matmul(shape) for shape in arguments.contraction]
    if arguments.input is not None:
        try:
            texts = [Path(arguments.input).read_text()]
        except (OSError, UnicodeDecodeError) as error:
            raise ProgramError(
                f"cannot read the input: {error}", arguments.input, "give an .mlir file"
            ) from error
    weights = tuple(arguments.weight)
    sources = (s for t in texts for s in sources_of(t, arguments.target, weights, _say))
    return list(dict.fromkeys(sources))


def matmul(contraction: str) -> str:
    """Returns the MLIR text of a module with one matmul."""
    shape = SHAPE.fullmatch(contraction.replace(" ", ""))
    if shape is None or not {shape[4], shape[5] or shape[4], shape[6]} <= set(TYPES):
        raise ProgramError(
            f"--contraction {contraction} is not a contraction",
            f"types: {', '.join(TYPES)}",
            "write MxNxK:type->result, as in 4096x4096x4096:f16->f32",
        )
    m, n, k, a, b, c = shape.groups()
    zero = "0.0" if "f" in c else "0"
    return SOURCE.format(m=m, n=n, k=k, a=a, b=b or a, c=c, zero=zero)
