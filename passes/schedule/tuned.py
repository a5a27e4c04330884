"""
Looks up measured schedules, which have priority over estimates, in a table for each target.

`targets/tuned/NAME.json` (or the folder in XDSL_SPIRV_TUNED) maps a contraction's key (types,
loops and index maps) to the text of the schedule that `xdsl-spirv tune` found to be the fastest. A
schedule that no longer fits is ignored, for example after an epilogue was fused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_spirv import targets
from xdsl_spirv.dialects.schedule import ContractionAttr, Schedule
from xdsl_spirv.passes.analysis.contraction import Contraction
from xdsl_spirv.passes.analysis.epilogue import NotFused
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.targets import Target, TargetError

SCHEMA_VERSION = 1
VARIABLE = "XDSL_SPIRV_TUNED"

TUNED = "schedule.tuned"
"""Module attribute with a table of schedules, which is preferred to the target's table."""


def key_of(contraction: Contraction) -> str:
    """
    Returns the key of a contraction: types, loop sizes, index maps, weights and stored types.

    Weights matter because they are packed only once; stored types affect the time.
    """
    a, b, result = contraction.types
    loops = "x".join(map(str, contraction.sizes))
    batch, m, n, k = contraction.counts
    maps = "; ".join(map(str, contraction.maps))
    key = f"{a} x {b} -> {result}, loops {loops} as {batch}+{m}+{n}+{k}, {maps}"
    weights = [name for name, v in zip("ab", (contraction.a, contraction.b)) if is_weight(v)]
    parts = [key, *(f"{name} is a weight" for name in weights)]
    with suppress(NotFused):
        stored = [str(result.element_type) for result in contraction.epilogue.results]
        if stored != [str(contraction.element_types[2])]:
            parts.append(f"as {', '.join(stored)}")
    return "; ".join(parts)


def folder() -> Path:
    """Returns the folder of the tables."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(targets.__file__).parent / "tuned"


def path_for(target: str) -> Path:
    return folder() / f"{target}.json"


@cache
def _read(path: Path, _changed: int) -> Mapping[str, str]:
    return read_entries(path)


def read_entries(path: Path) -> Mapping[str, str]:
    """Reads a table of schedules by key; raises `TargetError` for a malformed file."""
    try:
        table = json.loads(path.read_text())
        if table["schema_version"] != SCHEMA_VERSION:
            raise TargetError(
                f"{path}: schema_version is {table['schema_version']}, but this version reads "
                f"{SCHEMA_VERSION}: tune again"
            )
        entries: Mapping[str, Any] = table["entries"]
        return {key: str(entry["schedule"]) for key, entry in entries.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise TargetError(f"{path} is not a tuned table: {error}: tune again") from error


def parse_schedule(text: str) -> ContractionAttr:
    """Parses a schedule. Raises `TargetError` if the text is not a schedule."""
    context = Context()
    context.load_dialect(Schedule)
    try:
        schedule = Parser(context, text).parse_attribute()
    except (ParseError, VerifyException) as error:
        raise TargetError(f"{text!r} is not a schedule: {error}: tune again") from error
    if not isinstance(schedule, ContractionAttr):
        raise TargetError(
            f"a tuned schedule must be a #schedule.contraction, not {text!r}: tune again"
        )
    return schedule


def lookup(contraction: Contraction, target: Target) -> ContractionAttr | None:
    """Returns the measured schedule of a contraction if it fits, else None."""
    key, path = key_of(contraction), path_for(target.name)
    module = contraction.op.get_toplevel_object()
    table = module.attributes.get(TUNED) if isinstance(module, Operation) else None
    schedule = table.data.get(key) if isinstance(table, DictionaryAttr) else None
    if not isinstance(schedule, ContractionAttr):
        text = _read(path, path.stat().st_mtime_ns).get(key) if path.is_file() else None
        schedule = None if text is None else parse_schedule(text)
    if schedule is None or any(Plan(contraction, schedule, target).problems()):
        return None
    return schedule


def give_schedules(module: ModuleOp, schedules: Mapping[str, ContractionAttr]) -> None:
    """Sets the table of schedules of a module, to compile a tuner's candidate."""
    module.attributes[TUNED] = DictionaryAttr(schedules)
