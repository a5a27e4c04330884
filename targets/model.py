"""
Reads the constants of the compiler's time estimates, the `model` section of a target file.

The constants are fitted to measurements of one device. A section may name another target as
`like`, and state only the fields that differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdsl_spirv.targets.fields import Fields, TargetError, read_record

FITTED, FITTED_ON_PROCESSOR = "nvidia-h200", "lavapipe"
"""Targets whose models are the defaults: for GPUs, and for CPUs."""


@dataclass(frozen=True)
class Structure:
    """A variant of an attention kernel with probabilities in registers, and its measured time."""

    strips: int
    key_fragments: int
    ahead: str
    rescale: str
    time: float
    """Time of one operation, relative to the fastest variant."""
    causal: float
    """Time of one operation with a mask computed from indices, relative to the fastest variant."""
    pieces: float
    """Time factor if keys are not packed and are read as vectors."""
    subgroups: int = 0
    """
    Number of subgroups in a workgroup that stages keys and values in Workgroup memory; 0 without
    staging.
    """
    buffers: int = 1
    """Number of tiles in Workgroup memory at the same time."""
    least_head: int = 0
    """Minimum head size (elements of a value) for which the variant is faster than others."""


@dataclass(frozen=True)
class LanesModel:
    """Constants for the schedule of an attention without matrix instructions."""

    most_rows: int
    """Maximum rows of an invocation. If there are more rows, several subgroups share them."""
    most_keys: int
    """Number of keys that an invocation loads at a time."""
    registers: int
    """Maximum 32-bit registers of an invocation for queries and results."""
    resident_registers: int
    """Like `registers`, for kernels that need more concurrent subgroups to hide load latency."""
    loaded_registers: int
    """Maximum 32-bit registers of an invocation for keys and values that are being loaded."""
    least_bits: int
    """Minimum bits of a load. Limits the number of lanes that share a key."""
    side_by_side: int
    """
    Bytes of a key that adjacent invocations read together. Fewer bytes waste memory bandwidth.
    """
    subgroups_across_rows: int
    """Number of subgroups in a workgroup if the subgroups process different rows."""
    subgroups_across_keys: int
    """Number of subgroups in a workgroup if the subgroups process different keys."""
    waves: int
    """Number of workgroups for each compute unit."""
    fewest_steps: int
    """Minimum number of steps over keys in each part, if the keys are divided into parts."""
    most_parts: int
    """
    Maximum number of parts into which keys are divided. A merging dispatch reads the results of all
    parts for each row.
    """
    long_past: int
    """Assumed number of keys if the number is not known at compile time."""


@dataclass(frozen=True)
class AttentionModel:
    lanes: LanesModel
    most_head: int
    """Maximum elements of a query or value for which accumulators fit in registers."""
    many_rows: int
    """Number of rows with the same keys above which matrix instructions are faster."""
    side_by_side: int
    """Number of subgroups that a compute unit executes without delaying one another."""
    registers: int
    """32-bit registers of an invocation for fragments. Addresses and scalars take the rest."""
    most_registers: int
    """Maximum 32-bit registers for fragments. A schedule with more is refused."""
    held: int
    """Like `registers`, for kernels whose probabilities stay in registers."""
    held_reading: int
    """
    Like `held`, for kernels that read the queries again for each tile of keys.

    The limit is lower because drivers move these reads forward.
    """
    most_held: int
    """Maximum 32-bit registers for fragments and prefetched words."""
    spills: float
    """
    Time factor of a kernel that spills. The factor is multiplied by needed / available registers.
    """
    late_reads: float
    """
    Time factor if a kernel needs more than `most_held` registers. The factor is multiplied by the
    squared ratio of needed registers to `most_held`.
    """
    subgroups: tuple[int, ...]
    """Candidate numbers of subgroups in a workgroup, best first, if scores go through memory."""
    subgroups_in_registers: tuple[int, ...]
    """
    Candidate numbers of subgroups in a workgroup, best first, if probabilities stay in registers.
    """
    strips: tuple[int, ...]
    """
    Candidate numbers of query strips (rows of fragments) that a subgroup computes, best first.
    """
    key_fragments: tuple[int, ...]
    """Candidate numbers of score fragments along a tile of keys, best first."""
    structures: tuple[Structure, ...]
    two_strips: float
    """Time with two strips of query rows in a subgroup, relative to the time with one strip."""
    few_tiles: int
    """Maximum query tiles for which packing keys and values is not worthwhile."""
    turned: float
    """Time factor if values are not packed, are read as vectors and must be transposed."""
    turned_by_one: float
    """Like `turned`, for subgroups that have only one strip of rows."""
    key_parts: tuple[int, ...]
    """
    Candidate numbers of subgroups that divide the keys of the same rows, if sizes are dynamic.
    """
    merging: float
    """
    Time factor of an attention with dynamic sizes whose subgroups divide the keys and merge their
    results.
    """
    merging_values_ahead: float
    """Like `merging`, for kernels that prefetch the values of a strip."""
    rate: float
    """Assumed TFLOPS if the target file states no rate."""
    share: float
    """Rate of an attention, relative to the best rate of contractions with matrix instructions."""


@dataclass(frozen=True)
class ScalarModel:
    """
    Constants for the time of products by multiply-adds.

    They apply to targets whose file states the rate `fma f32`. Other targets estimate these
    products like other tiles.
    """

    rate: float
    """TFLOPS of a compute unit that executes only multiply-adds."""
    operand_weight: float
    """Cost of each row or column of an invocation's tile, in multiply-adds."""
    tile_weight: float
    """Cost of each row or column of a workgroup's tile, in multiply-adds."""
    wait: float
    """
    Seconds that a subgroup waits in each step along K, unless other subgroups hide the latency.
    """
    product: float
    """
    Seconds in which a subgroup that is alone on a compute unit executes one multiply-add in each
    invocation.
    """


@dataclass(frozen=True)
class ContractionModel:
    load_weight: float
    """Cost of fetching a row or column of a tile, in multiplications, if no rate is known."""
    unrated: float
    """Assumed TFLOPS of the multiplications of a tile, if no rate is known."""
    across_k: float
    """
    Factor of the rate of 8-bit elements if a tile in Workgroup memory is not contiguous along K.
    """
    accumulators: int
    """
    Maximum accumulators of an invocation for which `residency.subgroups` subgroups fit on a compute
    unit.
    """
    unpacked: float
    """
    Factor of the known rate if the kernel dequantizes an operand and this case was not measured.
    """
    long_loop: int
    """Minimum K tiles of a loop for which an incomplete last tile gets separate code."""
    most_residents: int
    """
    Maximum concurrent workgroups of a compute unit for which the time with fewer workgroups can be
    estimated.
    """
    most_fragments: int
    """Maximum result fragments of a subgroup that tuning tries. With more, registers spill."""
    exchanged_bytes: int
    """Maximum bytes of Workgroup memory through which slices of K exchange sums at a time."""
    full_channels: int
    """Number of channels in a group of a convolution that is enough to fill a matrix."""
    narrow: Mapping[str, float]
    """Maps the size of an operand's loads (below 16 bytes) to a factor of the rate."""
    scalar: ScalarModel


@dataclass(frozen=True)
class ProcessorRowsModel:
    """Constants for the schedule of a product of few rows on a CPU."""

    least_products: int
    """Minimum products for which the longest code is worth its compile time."""
    most_integer_sums: int
    """Maximum integer sums of an invocation: the code that quantizes each sum is long."""
    most_elements: int
    """
    Maximum elements that an invocation loads for a row in one step of the loop. Limits the code
    size.
    """
    most_straight: int
    """
    Maximum elements of a column for code without a loop. Each element takes two or three
    instructions, and all should fit in the CPU's cache of decoded instructions.
    """
    most_straight_words: int
    """
    Maximum 32-bit words in a subgroup's columns for code without a loop. Each word takes about nine
    instructions.
    """
    often: int
    """
    Minimum columns for code without a loop. With fewer columns, fetching the long code takes longer
    than it saves.
    """
    turns: int
    """Number of subgroups of a workgroup, which the CPU runs one after another."""


@dataclass(frozen=True)
class RowsModel:
    few: int
    """Maximum rows of a contraction with few rows. With more rows, staging operands is faster."""
    few_for_matrices: int
    """Like `few`, for element types whose rate with matrix instructions is not known."""
    much: int
    """Minimum ratio of columns to rows for which a contraction counts as having few rows."""
    conversion: float
    """Time to convert a streamed element to a float, in multiply-adds."""
    conversion_of_packed: float
    """Time to convert a streamed packed element to a float, in multiply-adds."""
    product: float
    """
    Time to multiply an element of the streamed operand by an element of one row, in multiply-adds.
    """
    busy: int
    """Number of subgroups that occupy a compute unit while they only wait for memory."""
    banks: int
    """Number of banks of Workgroup memory: words that are read at the same time."""
    most_rows: int
    """Maximum rows of an invocation. More rows do not fit in registers."""
    most_sums: int
    """Maximum number of sums that an invocation accumulates."""
    under_way: int
    """Number of loads of an invocation in flight."""
    most_spread: int
    """Maximum elements of a load if adjacent lanes take adjacent loads along K."""
    most_beside: int
    """
    Maximum elements of the smaller operand (the one with few rows) that an invocation holds for
    each load of the larger operand.
    """
    subgroups: int
    """Maximum subgroups of a workgroup that share the work along K."""
    resident: int
    """
    Number of subgroups that are resident on a compute unit if each invocation has 64 registers.
    """
    most_bits: int
    """Maximum bits of a packed weight for which arithmetic, not memory, limits a kernel."""
    most_of_digits: int
    """
    Maximum rows for which splitting row elements into 8-bit integers is faster than multiplying
    floats.
    """
    sharing: tuple[int, ...]
    """
    Candidate numbers of subgroups in a workgroup that together split row elements into 8-bit
    integers.
    """
    least_sharing: int
    """
    Minimum subgroups along K for which the subgroups should share row elements split into 8-bit
    integers.
    """
    shared_width: int
    """Columns of a group if subgroups share row elements split into 8-bit integers."""
    few_groups: int
    """Maximum groups of columns for which registers have room for two prefetched groups."""
    least_in_groups: int
    """Minimum columns of an invocation for which row elements are split into 8-bit integers."""
    least_in_narrow_groups: int
    """Like `least_in_groups`, for a single row and groups of half as many columns."""
    most_folded: int
    """
    Maximum result elements of an operation that is fused into a product. All workgroups of the
    product recompute the operation.
    """
    norm_readers: int
    """Maximum products that each recompute the norm of their rows."""
    on_processor: ProcessorRowsModel | None = None
    """Constants for CPUs; None for other devices."""


@dataclass(frozen=True)
class PackingModel:
    """Constants for the kernels that pack operands."""

    subgroups: int
    """Maximum subgroups of a workgroup along M or N."""
    depth: int
    """Maximum fragments along K that a subgroup packs."""
    tile_bytes: int
    """Maximum bytes of a panel that a workgroup transposes at a time."""


@dataclass(frozen=True)
class ReductionsModel:
    least_depth: int
    """
    Minimum products in a part of a split sum. In shorter parts, start and end take most of the
    time.
    """
    usual_tile: int
    """Assumed rows and columns of a workgroup's tile, to estimate the number of workgroups."""
    worthwhile: float
    """
    Largest ratio of the time with a split to the time without a split for which a sum is split.
    """
    worthwhile_of_blocks: float
    """Like `worthwhile`, for an operand in packed planes."""
    cached: float
    """Rate of storing and adding partial sums (often in caches), relative to a copy."""


@dataclass(frozen=True)
class WindowModel:
    """Constants for the time of windows that slide over rows in registers."""

    cached: float
    """Rate of repeated reads from the cache, relative to the rate of a copy."""
    rotated: float
    """Time to compute one result, as a number of element reads."""
    most_filters: int
    """Maximum filters of a channel for which matrices would be mostly empty."""


@dataclass(frozen=True)
class LoopsModel:
    """Constants for the schedules of all operations that are not contractions."""

    workgroup: int
    """Workgroup size if each invocation computes separate elements."""
    large_workgroup: int
    """Workgroup size if a workgroup reduces a row, or if there are many short workgroups."""
    busy: int
    """Number of invocations that occupy a compute unit."""
    many: int
    """Multiple of `busy` beyond which more invocations are not faster."""
    short: int
    """Maximum steps of a reduction that one invocation should do."""
    long: int
    """Minimum steps of a contiguous reduction that several invocations should share."""
    windows_held: int
    """
    Registers for windows and their weights, as a multiple of `Target.held_registers`.

    Drivers load all 5 x 5 windows of 4 adjacent elements before they multiply.
    """
    least_beside: int
    """Minimum number of adjacent rows for which reading them together is faster."""
    beside_bits: int
    """Number of contiguous bits, from adjacent rows, that a workgroup reads at a time."""
    few: int
    """
    Adjacent rows are read together only if at least 1 / `few` of the compute units get a workgroup.
    """
    least_steps: int
    """Minimum elements of a row for each of the invocations that share a row."""
    cached: int
    """Bytes of rows above which the rows may leave the cache between two passes."""


@dataclass(frozen=True)
class Fit:
    date: str
    how: str
    """The scripts and results that the constants come from."""


@dataclass(frozen=True)
class Model:
    fitted: Fit
    dispatch_seconds: float
    """Seconds of an empty separate dispatch and the barrier after it."""
    most_bound: int
    """Maximum buffers of a kernel that fuses a dispatch with its readers."""
    attention: AttentionModel
    contraction: ContractionModel
    packing: PackingModel
    rows: RowsModel
    reductions: ReductionsModel
    window: WindowModel
    loops: LoopsModel


def read_model(target: Fields, processor: bool) -> Model:
    """Reads the model of a target file. The target `like` provides missing fields."""
    like = FITTED_ON_PROCESSOR if processor else FITTED
    section = target.fields("model") if "model" in target.data else Fields({"like": like}, "")
    base = _model_of(section.text("like")) if "like" in section.data else None
    model = read_record(Model, section.drop_field("like"), base)
    if processor and model.rows.on_processor is None:
        raise TargetError("model.rows.on_processor is missing: copy it from lavapipe")
    return model


@cache
def _model_of(name: str) -> Model:
    path = Path(__file__).parent / f"{name}.json"
    if Path(name).name != name or not path.is_file():
        raise TargetError(f"model.like is {name!r}: name a target of this package")
    return read_model(Fields(json.loads(path.read_text()), ""), False)
