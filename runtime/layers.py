"""Defines the records of a program's layers, one for each dispatch: the file `layers.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import from_json, to_json

SCHEMA = "xdsl-spirv-layers"


VERSION = 1


@dataclass(frozen=True)
class Considered:
    """
    A kind of kernel (`path`) that was considered, whether it was chosen (`taken`), and the reason
    for or against it.
    """

    path: str
    taken: bool
    reason: str


@dataclass(frozen=True)
class Layer:
    """
    One dispatch, as `explain` describes it.

    - `nodes`: the model's nodes that it computes. If the source is MLIR: the names of its results.
    - `operators`: the operators of these nodes.
    - `operations`: number of scalar operations, with a multiply-add counted as two.
    - `bytes`: size of all its buffers, each counted once: any kernel accesses at least these.
    - `ends`: for each result, the node that the dispatch completes, or "" if later dispatches
      continue it.

    `operations` and `bytes` are None if a size is not known at compile time.
    """

    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    path: str
    types: str
    computes: str
    schedule: str
    considered: tuple[Considered, ...]
    operations: int | None
    bytes: int | None
    results: int
    entry_point: str = ""
    ends: tuple[str, ...] = field(default=(), metadata={"sparse": True})

    @property
    def name(self) -> str:
        return " + ".join(self.nodes) if self.nodes else self.entry_point

    @property
    def why(self) -> str:
        """The reasons against faster kinds of kernels, "" if none was considered."""
        return "; ".join(f"{c.path}: {c.reason}" for c in self.considered if not c.taken)


@dataclass(frozen=True)
class Layers:
    """The contents of `layers.json`, with one entry for each dispatch, in order."""

    schema: str
    version: int
    layers: tuple[Layer, ...]


def to_text(layers: Iterable[Layer]) -> str:
    """Returns the contents of `layers.json`."""
    return json.dumps(to_json(Layers(SCHEMA, VERSION, tuple(layers))), indent=1) + "\n"


def from_text(text: str, place: str) -> tuple[Layer, ...]:
    """Parses `layers.json`. Raises `ProgramError` if the text is not such a file."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramError(
            f"the file is not JSON: {error}", place, "compile the program again"
        ) from error
    records = from_json(Layers, data, place)
    if (records.schema, records.version) != (SCHEMA, VERSION):
        raise ProgramError(
            f"expected the schema {SCHEMA!r} in version {VERSION}, but found "
            f"{records.schema!r} in version {records.version}",
            place,
            "compile the program again with this version of xdsl-spirv",
        )
    return records.layers
