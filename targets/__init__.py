"""
Reads target files: a JSON file for each device becomes typed records.

Passes never check a device's name. They read the numbers of a `Target`. A new device is a new file
in this folder, or any file whose path is given instead of a name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.targets.fields import ELEMENT_TYPES as ELEMENT_TYPES
from xdsl_spirv.targets.fields import Fields, read_record
from xdsl_spirv.targets.fields import TargetError as TargetError
from xdsl_spirv.targets.linear import Linear
from xdsl_spirv.targets.model import Fit, Model, read_model

SCHEMA_VERSION = 1

MAX_BYTES = 1 << 20
"""Maximum size of a target file. The largest file of this folder has 20 kB."""


@dataclass(frozen=True)
class CooperativeMatrixProperty:
    """A supported combination of matrices: result (m x n) = a (m x k) * b (k x n) + c."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    result: str
    saturating: bool
    scope: str

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    @property
    def types(self) -> tuple[str, str, str, str]:
        return self.a, self.b, self.c, self.result

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} {self.a} x {self.b} + {self.c} -> {self.result}"


CONVERSIONS = "cooperative-matrix-conversions"
PER_ELEMENT = "cooperative-matrix-per-element-operations"
REDUCTIONS = "cooperative-matrix-reductions"
"""
Feature for reductions of cooperative matrices. On a device without it, kernels reduce a matrix
through memory.
"""

DEFAULT_COPY = 100_000_000_000
"""Default rate of a copy in bytes per second, for target files that do not state it."""

CORRECTIONS = (
    *("two stages", "few K tiles", "slices", "slices of few K tiles", "idle units", "rounds"),
    *("large tile", "wide tile", "subgroups", "direct", "direct, few K tiles", "rows"),
)
"""
Names of the terms of a time estimate that a correction factor may scale
(`passes/schedule/cost.py`).
"""

SCALAR_RESULTS = 64
"""
Maximum elements of a result that an invocation computes by multiply-adds. Default of
`scalar_results`.
"""

SCALAR_DEPTH = 16
"""
Number of K elements that a workgroup without matrix instructions stages at a time. Default of
`scalar_depth`.
"""


@dataclass(frozen=True)
class ScheduleCandidate:
    """
    A schedule that the default heuristic may choose: a workgroup tile and a grid of subgroups.

    - `tile`: rows and columns
    - `subgroups`: rows, columns, and optionally slices of K
    - `direct`: operands (`b` or `ab`) packed into fragments and read without Workgroup memory
    - `fragments`: operands packed into fragments and staged in Workgroup memory
    - `panels`: operands packed tile by tile (into panels), whatever their layout
    - `ahead`, `staged_ahead` (for staged operands), `stages`, `buffers`, `group`, `first` and
      `result`: options of the schedule (docs/passes/assign-schedule.md)
    - `edges`: replaces `result` if the edges of the result are not whole fragments
    - `rates`: TFLOPS of large contractions by types (`f16 -> f32`). If given, the candidate is only
      used for these types
    - `alone`: TFLOPS of a contraction with one workgroup for each compute unit
    - `streams`: TB/s of reading uncached weights, if different from the target's
    - `rows`: an operand that is read row by row. The other operand must be `direct` and quantized
    - `operands`: `ba` for the transposed product, with the operands in reverse order
    - `most_m`: the largest number of rows for which the candidate is used; 0 for any number
    """

    tile: tuple[int, int]
    subgroups: tuple[int, ...]
    k_bytes: int
    accumulator_bits: int | None = None
    direct: str = ""
    ahead: int = 0
    stages: int = 1
    buffers: int = 1
    group: int = 1
    rates: dict[str, float] = field(default_factory=dict)
    alone: dict[str, float] = field(default_factory=dict)
    fragments: str = ""
    panels: str = ""
    staged_ahead: int = 0
    first: str = "load"
    result: str = "fragments"
    streams: dict[str, float] = field(default_factory=dict)
    edges: str = ""
    rows: str = ""
    most_m: int = 0
    operands: str = "ab"


@dataclass(frozen=True)
class Residency:
    """The Workgroup memory of a compute unit, and the number of subgroups that occupy it fully."""

    memory_bytes: int
    subgroups: int

    def bytes_for(self, subgroups: int) -> int:
        """
        Returns the bytes of Workgroup memory that each workgroup may use if the compute unit is to
        be occupied fully. A workgroup has `subgroups` subgroups.
        """
        return self.memory_bytes * min(subgroups, self.subgroups) // self.subgroups


@dataclass(frozen=True)
class Registers:
    """
    Registers of a subgroup, in bytes.

    Kernels spill if matrix fragments leave less than `kept` bytes for all other values.
    """

    bytes: int
    kept: int
    fitted: Fit
    """Date and driver of the measurement that `kept` comes from (scripts/fit_registers.py)."""


@dataclass(frozen=True)
class Fragment:
    """
    Maps the components that each of `lanes` invocations stores to rows and columns of a matrix.

    The map is valid for components of `component_bits` bits. Each bit of the lane index (`lane`)
    and of the component index (`component`) adds an offset to the row or the column. If a bit of
    the lane index adds no offset, the lanes that differ only in this bit store the same components.
    """

    use: str
    rows: int
    columns: int
    component_bits: tuple[int, ...]
    lanes: int
    lane: Linear
    component: Linear

    @property
    def components(self) -> int:
        """Number of components of each invocation."""
        return self.component.size

    def position(self, lane: int, component: int) -> tuple[int, int]:
        """Returns the row and the column of a lane's component."""
        (row, column), (more_rows, more_columns) = self.lane.at(lane), self.component.at(component)
        return row + more_rows, column + more_columns


@dataclass(frozen=True, repr=False)
class Target:
    """
    The properties of one device. Sizes are in bytes, counts in invocations or workgroups.

    `subgroup_size` is the size that kernels are compiled for. `compute_units` is the number of
    units that run workgroups independently of each other.
    """

    name: str
    description: str
    provenance: Mapping[str, str]
    spirv_version: str
    vulkan_version: str
    subgroup_size: int
    subgroup_size_range: tuple[int, int]
    max_invocations: int
    max_workgroup_size: tuple[int, ...]
    workgroup_memory_bytes: int
    residency: Residency
    max_grid: tuple[int, ...]
    compute_units: int
    storage_buffer_max_bytes: int
    push_constant_bytes: int
    cooperative_matrix_alignment: int
    cooperative_matrix: tuple[CooperativeMatrixProperty, ...]
    copy_bytes_per_second: int
    """Bytes per second that a copy in device memory reads and writes, added up."""
    measured_copy: int | None
    """The measured value of `copy_bytes_per_second`. None if it is the default."""
    corrections: Mapping[str, float]
    """
    Factors for terms of a time estimate, by name (see `CORRECTIONS`). They are learned from
    measurements.
    """
    store_rates: Mapping[str, float]
    """
    TB/s of storing results from registers. The key `rows` is for storing row by row, `fragments 32`
    for fragments whose rows have 32 bytes. The time of stores without a rate is not estimated.
    """
    streams: Mapping[str, float]
    """
    TB/s of reading uncached weights into tiles, by types. A candidate's `streams` overrides it.
    """
    merged_parts: Mapping[str, float]
    """
    The limits `most` and `elements` for dividing the keys of an attention. Empty if not measured.

    If the keys are divided into more than `most` parts, each with at least `elements` result
    elements, the number of parts is halved.
    """
    rates: Mapping[str, float]
    """TFLOPS of the fastest measured kernels without matrix instructions: `fma f32`, `dot`."""
    even_fragments: bool
    """
    True if all invocations of a subgroup store the same number of components of each fragment.
    """
    signed_matrices: bool
    """False if the driver converts negative components of signless integer matrices wrongly."""
    processor: bool
    """
    True if the driver runs kernels on the CPU: subgroups run in turn, and nothing hides latency.
    """
    keep_loops: bool
    """True if loops are marked DontUnroll, because unrolling slows down the driver's compiler."""
    idle_subgroups: bool
    """False if the driver crashes when a subgroup skips nested loops that read memory."""
    exact_division: bool
    """True if float division is correctly rounded. Vulkan allows 2.5 units in the last place."""
    selected_halves: bool
    """False if the driver miscompiles multiplying an f16 by a select of the same value."""
    scalar_results: int
    """Maximum elements of a contraction's result that an invocation computes by multiply-adds."""
    scalar_depth: int
    """
    Number of K elements (or 32-bit words of packed elements) that a workgroup without matrix
    instructions stages at a time.

    Larger values need more registers, because drivers keep an address in a register for each
    element that an invocation reads.
    """
    model: Model
    """Constants of the time estimates."""
    held_registers: int | None
    """
    Maximum number of 32-bit registers of an invocation for values that stay in registers. An
    attention without matrix instructions keeps its queries and results there. None if not measured.
    """
    registers: Registers | None
    """The registers of a subgroup. None if not measured."""
    features: frozenset[str]
    schedules: tuple[ScheduleCandidate, ...]
    word_order: Mapping[str, tuple[int, ...]]
    """
    Order in which matrix instructions read the words of a lane, by operand (`A`, `B`).

    An operand without an entry is read in the order of its components. If an operand is packed in
    the order of the instruction, no moves between registers are needed.
    """
    component_map: tuple[Fragment, ...]
    """Maps of the components of cooperative matrices to invocations (CM-18). Empty if not known."""

    def __repr__(self) -> str:
        return f"<target {self.name}: {self.description}>"

    def properties_for(self, types: tuple[str, str, str]) -> list[CooperativeMatrixProperty]:
        """
        Returns the non-saturating combinations with these types of A, B and result. The best one is
        first.
        """
        return [
            p
            for p in self.cooperative_matrix
            if not p.saturating and p.types == (*types, types[2]) and p.scope == "Subgroup"
        ]

    def count_aligned(self, columns: int, bits: int) -> int:
        """
        Returns the alignment that cooperative loads and stores need, in elements, if a row has
        `columns` elements of `bits` bits.
        """
        return max(1, 8 * min(self.cooperative_matrix_alignment, columns * bits // 8) // bits)

    def fragment(self, use: str, shape: tuple[int, int], bits: int) -> Fragment | None:
        """
        Returns the component map of matrices with this use, shape and width. Returns None if it is
        not known.
        """
        for known in self.component_map:
            matrix = known.use, (known.rows, known.columns), known.lanes
            if matrix == (use, shape, self.subgroup_size) and bits in known.component_bits:
                return known
        return None


def names() -> list[str]:
    """Returns the names of the devices that this package describes."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.json"))


_loaded: dict[str, str] = {}
"""
Maps the name of a target, as its file gives it, to the path of the file that this process has read.
"""


def known(name: str) -> str:
    """
    Checks the name or path of a target that comes from a user's file, and returns it.

    Raises `TargetError` unless the target is built in or this process has read its file: a name in
    a user's file must not open other files.
    """
    if name in _loaded:
        return _loaded[name]
    if name not in names():
        raise TargetError(f"the target {name!r} is not known; name its file with --target")
    return name


@cache
def load(name_or_path: str) -> Target:
    """
    Loads a target by name or from a JSON file.

    Raises `TargetError` for an unknown name (the message lists the known names), or for a file
    that does not follow the schema (the message names the field).
    """
    path = Path(__file__).parent / f"{name_or_path}.json"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        raise TargetError(
            f"there is no target {name_or_path!r}: known targets are {', '.join(names())}; "
            + did_you_mean(
                name_or_path,
                names(),
                "give one of these, or the path of a target file",
            )
        )
    if path.stat().st_size > MAX_BYTES:
        raise TargetError(f"{path} has more than {MAX_BYTES} bytes: name a target file")
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror}") from error
    except (RecursionError, ValueError) as error:
        raise TargetError(f"{path} is not JSON: {error}") from error
    try:
        target = _target(Fields(data, ""))
        if target.name not in names():
            _loaded[target.name] = str(path.absolute())
        return target
    except TargetError as error:
        raise TargetError(f"{path}: {error}") from error


def _property(fields: Fields) -> CooperativeMatrixProperty:
    for key in ("a", "b", "c", "result"):
        fields.element_type(key)
    return read_record(CooperativeMatrixProperty, fields)


def _fragment(fields: Fields) -> Fragment:
    rows, columns = fields.positive("rows"), fields.positive("columns")
    length = (rows | columns).bit_length()
    places = {f"{axis}{bit}": (1 << bit, 0) for axis in "r" for bit in range(length)}
    places |= {f"c{bit}": (0, 1 << bit) for bit in range(length)}
    places["-"] = 0, 0
    names = {key: fields.texts(key) for key in ("lane", "component")}
    for key, bits in names.items():
        unknown = set(bits) - places.keys()
        if unknown:
            raise TargetError(
                f"{fields.where}.{key} has {min(unknown)!r}: write r2 for bit 2 of the row, c2 for "
                "bit 2 of the column, or -"
            )
    used = [name for bits in names.values() for name in bits if name != "-"]
    if len(set(used)) < len(used):
        twice = next(name for name in used if used.count(name) > 1)
        raise TargetError(f"{fields.where} has the bit {twice!r} twice: name each bit once")
    lane, component = (Linear(tuple(places[name] for name in bits)) for bits in names.values())
    lanes = fields.positive("lanes")
    if lanes != lane.size:
        raise TargetError(
            f"{fields.where}.lane has bits for {lane.size} lanes, but lanes is {lanes}"
        )
    bits = fields.positives("component_bits")
    return Fragment(fields.text("use"), rows, columns, bits, lanes, lane, component)


def _candidate(fields: Fields) -> ScheduleCandidate:
    candidate = read_record(ScheduleCandidate, fields)
    if len(candidate.subgroups) not in (2, 3):
        raise TargetError(
            f"{fields.where}.subgroups is {list(candidate.subgroups)}: write 2 or 3 numbers"
        )
    return candidate


def _corrections(fields: Fields) -> Mapping[str, float]:
    if "corrections" not in fields.data:
        return {}
    factors = fields.fields("corrections").numbers("factors")
    unknown = factors.keys() - set(CORRECTIONS)
    if unknown:
        raise TargetError(
            f"corrections.factors has the unknown field {min(unknown)!r}: use "
            f"{', '.join(CORRECTIONS)}"
        )
    fields.fields("corrections").text("evidence")
    return factors


def _target(fields: Fields) -> Target:
    version = fields.positive("schema_version")
    if version != SCHEMA_VERSION:
        raise TargetError(f"schema_version is {version}, but must be {SCHEMA_VERSION}")
    provenance = fields.fields("provenance")
    subgroup, workgroup = fields.fields("subgroup_size"), fields.fields("workgroup")
    residency = fields.fields("residency")
    order, known_map = fields.fields("word_order", {}), fields.fields("component_map", {})
    alignment = fields.fields("cooperative_matrix_alignment")
    processor = fields.flag("processor", residency.positive("subgroups") == 1)
    copy = "copy_bytes_per_second"
    measured_copy = fields.positive(copy) if copy in fields.data else None
    return Target(
        name=fields.text("name"),
        description=fields.text("description", ""),
        provenance={key: provenance.text(key) for key in ("kind", "date", "how")},
        spirv_version=fields.text("spirv_version"),
        vulkan_version=fields.text("vulkan_version"),
        subgroup_size=subgroup.positive("default"),
        subgroup_size_range=(subgroup.positive("min"), subgroup.positive("max")),
        max_invocations=workgroup.positive("max_invocations"),
        max_workgroup_size=workgroup.positives("max_size", 3),
        workgroup_memory_bytes=workgroup.positive("memory_bytes"),
        residency=read_record(Residency, residency),
        max_grid=fields.fields("grid").positives("max_count", 3),
        compute_units=fields.positive("compute_units"),
        storage_buffer_max_bytes=fields.positive("storage_buffer_max_bytes"),
        push_constant_bytes=fields.positive("push_constant_bytes"),
        cooperative_matrix_alignment=alignment.positive("max_bytes"),
        cooperative_matrix=tuple(_property(p) for p in fields.objects("cooperative_matrix")),
        copy_bytes_per_second=measured_copy or DEFAULT_COPY,
        measured_copy=measured_copy,
        corrections=_corrections(fields),
        store_rates=fields.numbers("store_rates", {}),
        streams=fields.numbers("streams", {}),
        merged_parts=fields.numbers("merged_parts", {}),
        rates=fields.numbers("rates", {}),
        even_fragments=fields.flag("even_fragments", default=False),
        signed_matrices=fields.flag("signed_matrices", default=True),
        processor=processor,
        keep_loops=fields.flag("keep_loops", default=False),
        idle_subgroups=fields.flag("idle_subgroups", default=True),
        exact_division=fields.flag("exact_division", default=False),
        selected_halves=fields.flag("selected_halves", default=True),
        scalar_results=fields.positive("scalar_results", SCALAR_RESULTS),
        scalar_depth=fields.positive("scalar_depth", SCALAR_DEPTH),
        model=read_model(fields, processor),
        held_registers=(
            fields.positive("held_registers") if "held_registers" in fields.data else None
        ),
        registers=(
            read_record(Registers, fields.fields("registers"))
            if "registers" in fields.data
            else None
        ),
        features=frozenset(fields.texts("features")),
        schedules=tuple(_candidate(c) for c in fields.objects("schedules")),
        word_order={key: order.indices(key) for key in order.data},
        component_map=tuple(map(_fragment, known_map.objects("fragments", []))),
    )
