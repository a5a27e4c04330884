"""
Reads the constants of the compiler's time estimates, the `model` section of a target file.

The constants are fitted to measurements of one device. A section may name another target as `like`.
It then states only the fields that differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdsl_spirv.targets.fields import Fields, TargetError, read_record

FITTED, FITTED_ON_PROCESSOR = "nvidia-h200", "lavapipe"
"""Targets whose models are the defaults: the first one for GPUs, the second one for CPUs."""


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
    """Factor of the time if keys are not packed but read as vectors."""
    subgroups: int = 0
    """
    Number of subgroups in a workgroup that stages keys and values in Workgroup memory. 0 if nothing
    is staged.
    """
    buffers: int = 1
    """Number of tiles in Workgroup memory at the same time."""
    least_head: int = 0
    """Minimum head size (elements of a value) from which the variant is faster than others."""


@dataclass(frozen=True)
class LanesModel:
    """Constants for the schedule of an attention without matrix instructions."""

    most_rows: int
    """Maximum rows of an invocation. If a workgroup has more rows, several subgroups share them."""
    most_keys: int
    """Number of keys that an invocation loads at a time."""
    registers: int
    """Maximum 32-bit registers of an invocation for queries and results."""
    resident_registers: int
    """Like `registers`, for kernels that need more concurrent subgroups to hide load latency."""
    loaded_registers: int
    """Maximum 32-bit registers of an invocation for keys and values that are being loaded."""
    least_bits: int
    """Minimum bits of a load. It limits the number of lanes that share a key."""
    side_by_side: int
    """
    Number of adjacent bytes of a key that neighbouring invocations should read together. Fewer
    bytes waste memory bandwidth.
    """
    subgroups_across_rows: int
    """Number of subgroups in a workgroup if each subgroup processes other rows."""
    subgroups_across_keys: int
    """Number of subgroups in a workgroup if each subgroup processes other keys."""
    waves: int
    """Number of workgroups per compute unit that a launch should have."""
    fewest_steps: int
    """Minimum number of steps over keys in each part if the keys are divided into parts."""
    most_parts: int
    """
    Maximum number of parts into which keys are divided. A further dispatch merges the results, and
    reads all parts for each row.
    """
    long_past: int
    """Number of keys that is assumed if it is not known at compile time."""


@dataclass(frozen=True)
class AttentionModel:
    lanes: LanesModel
    most_head: int
    """Maximum elements of a query or value for which the accumulators fit in registers."""
    many_rows: int
    """Number of rows with the same keys from which on matrix instructions are faster."""
    side_by_side: int
    """
    Number of subgroups that a compute unit executes at the same time without delaying any of them.
    """
    registers: int
    """
    32-bit registers of an invocation that fragments may use. Addresses and scalars take the rest.
    """
    most_registers: int
    """Maximum 32-bit registers for fragments. A schedule that needs more is refused."""
    held: int
    """Like `registers`, for kernels whose probabilities stay in registers."""
    held_reading: int
    """
    Like `held`, for kernels that read the queries again for each tile of keys.

    The limit is lower because drivers move these reads to an earlier place.
    """
    most_held: int
    """Maximum 32-bit registers for fragments and prefetched words."""
    spills: float
    """
    Factor of the time of a kernel that spills. It is multiplied by the ratio of needed to available
    registers.
    """
    late_reads: float
    """
    Factor of the time of a kernel that needs more than `most_held` registers. It is multiplied by
    the square of the ratio of needed registers to `most_held`.
    """
    subgroups: tuple[int, ...]
    """Possible numbers of subgroups in a workgroup if scores go through memory, best first."""
    subgroups_in_registers: tuple[int, ...]
    """
    Possible numbers of subgroups in a workgroup if probabilities stay in registers, best first.
    """
    strips: tuple[int, ...]
    """Possible numbers of query strips (rows of fragments) per subgroup, best first."""
    key_fragments: tuple[int, ...]
    """Possible numbers of score fragments along a tile of keys, best first."""
    structures: tuple[Structure, ...]
    two_strips: float
    """Time with two query strips in a subgroup, relative to the time with one."""
    few_tiles: int
    """Number of query tiles up to which packing keys and values is not worthwhile."""
    turned: float
    """Factor of the time if values are not packed, but read as vectors and transposed."""
    turned_by_one: float
    """Like `turned`, for subgroups that have only one query strip."""
    key_parts: tuple[int, ...]
    """Possible numbers of subgroups that divide the keys of the same rows, if sizes are dynamic."""
    merging: float
    """
    Factor of the time of an attention with dynamic sizes, if its subgroups divide the keys and
    merge their results.
    """
    merging_values_ahead: float
    """Like `merging`, for kernels that prefetch the values of a query strip."""
    rate: float
    """TFLOPS that are assumed if the target file states no rate."""
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
    """Seconds that a subgroup waits in each step along K if no other subgroups hide the latency."""
    product: float
    """
    Seconds that a subgroup needs to execute one multiply-add in each invocation if it is alone on a
    compute unit.
    """


@dataclass(frozen=True)
class ContractionModel:
    load_weight: float
    """
    Cost of fetching a row or column of a tile, as a number of multiplications. Used if no rate is
    known.
    """
    unrated: float
    """TFLOPS that are assumed for the multiplications of a tile if no rate is known."""
    across_k: float
    """
    Factor of the rate for 8-bit elements if a tile in Workgroup memory is not contiguous along K.
    """
    accumulators: int
    """
    Number of accumulators of an invocation up to which `residency.subgroups` subgroups fit on a
    compute unit.
    """
    unpacked: float
    """
    Factor of the known rate for a kernel that dequantizes an operand. Used if this case was not
    measured.
    """
    long_loop: int
    """
    Minimum number of K tiles in a loop for which an incomplete last tile gets code of its own.
    """
    most_residents: int
    """
    Number of concurrent workgroups of a compute unit up to which the time with fewer workgroups can
    be estimated.
    """
    most_fragments: int
    """
    Maximum result fragments of a subgroup that tuning tries. With more fragments, registers spill.
    """
    exchanged_bytes: int
    """Maximum bytes of Workgroup memory that slices of K use at a time to exchange sums."""
    full_channels: int
    """Least number of channels in a group of a convolution that fills a matrix operand."""
    narrow: Mapping[str, float]
    """Maps the size of an operand's loads, if below 16 bytes, to a factor of the rate."""
    scalar: ScalarModel


@dataclass(frozen=True)
class ProcessorRowsModel:
    """Constants for the schedule of a product of few rows on a CPU."""

    least_products: int
    """Minimum number of products for which the longest code is worth its compile time."""
    most_integer_sums: int
    """
    Maximum integer sums of an invocation. The limit exists because the code that quantizes each sum
    is long.
    """
    most_elements: int
    """
    Maximum elements of a row that an invocation loads in one step of the loop. It limits the code
    size.
    """
    most_straight: int
    """
    Maximum elements of a column for which the code has no loop. Each element takes two or three
    instructions, and all of them should fit in the CPU's cache of decoded instructions.
    """
    most_straight_words: int
    """
    Maximum 32-bit words in the columns of a subgroup for which the code has no loop. Each word
    takes about nine instructions.
    """
    often: int
    """
    Minimum number of columns for which the code has no loop. With fewer columns, fetching the long
    code takes more time than it saves.
    """
    turns: int
    """Number of subgroups of a workgroup, which the CPU runs one after another."""


@dataclass(frozen=True)
class RowsModel:
    few: int
    """
    Maximum rows of a contraction that counts as having few rows. With more rows, staging operands
    is faster.
    """
    few_for_matrices: int
    """Like `few`, for element types whose rate with matrix instructions is unknown."""
    much: int
    """Minimum ratio of columns to rows for which a contraction counts as having few rows."""
    conversion: float
    """Time to convert an element of the larger operand to a float, as a number of multiply-adds."""
    conversion_of_packed: float
    """
    Time to convert a packed element of the larger operand to a float, as a number of multiply-adds.
    """
    product: float
    """
    Time to multiply an element of the larger operand by an element of one row, as a number of
    multiply-adds.
    """
    busy: int
    """Number of subgroups that occupy a compute unit while they only wait for memory."""
    banks: int
    """
    Number of banks of Workgroup memory, which is the number of words that can be read at the same
    time.
    """
    most_rows: int
    """Maximum rows of an invocation. More rows would not fit in registers."""
    most_sums: int
    """Maximum number of sums that an invocation accumulates."""
    under_way: int
    """Number of loads that an invocation has in flight."""
    most_spread: int
    """Maximum elements of a load if neighbouring lanes read neighbouring loads along K."""
    most_beside: int
    """
    Maximum elements of the smaller operand (the one with few rows) that an invocation keeps for
    each load of the larger operand.
    """
    subgroups: int
    """Maximum number of subgroups in a workgroup that divide K."""
    resident: int
    """Number of subgroups that fit on a compute unit if each invocation has 64 registers."""
    most_bits: int
    """
    Number of bits of a packed weight up to which arithmetic limits a kernel. With more bits, memory
    does.
    """
    most_of_digits: int
    """
    Maximum rows for which it is faster to split row elements into 8-bit integers than to multiply
    floats.
    """
    sharing: tuple[int, ...]
    """
    Possible numbers of subgroups in a workgroup that together split row elements into 8-bit
    integers.
    """
    least_sharing: int
    """
    Minimum number of subgroups along K for which subgroups should share the row elements that are
    split into 8-bit integers.
    """
    shared_width: int
    """
    Number of columns in a group if subgroups share row elements that are split into 8-bit integers.
    """
    few_groups: int
    """
    Number of groups of columns up to which two groups are prefetched. With more groups, registers
    have room for only one.
    """
    least_in_groups: int
    """Minimum columns of an invocation for which row elements are split into 8-bit integers."""
    least_in_narrow_groups: int
    """Like `least_in_groups`, for a single row and groups of half as many columns."""
    most_folded: int
    """
    Maximum result elements of an operation that is fused into a product. Every workgroup of the
    product recomputes the operation.
    """
    norm_readers: int
    """Maximum number of products that each recompute the norm of their rows."""
    on_processor: ProcessorRowsModel | None = None
    """Constants for CPUs. None for other devices."""


@dataclass(frozen=True)
class PackingModel:
    """Constants for the kernels that pack operands."""

    subgroups: int
    """Maximum subgroups of a workgroup along M or N."""
    depth: int
    """Maximum fragments along K that a subgroup packs."""
    tile_bytes: int
    """Maximum bytes of a panel (see `PackingAttr`) that a workgroup transposes at a time."""


@dataclass(frozen=True)
class ReductionsModel:
    least_depth: int
    """
    Minimum number of products in a part of a split sum. In a shorter part, its start and its end
    take most of the time.
    """
    usual_tile: int
    """
    Rows and columns of a workgroup's tile that are assumed for estimating the number of workgroups.
    """
    worthwhile: float
    """
    Ratio of the time with a split to the time without. A sum is split if the ratio is at most this
    number.
    """
    worthwhile_of_blocks: float
    """Like `worthwhile`, for an operand of block-quantized weights."""
    cached: float
    """
    Rate of storing and adding partial sums, relative to the rate of a copy. They are often in
    caches.
    """


@dataclass(frozen=True)
class WindowModel:
    """
    Constants for the time of windows that slide over rows in registers, as in depthwise
    convolutions.
    """

    cached: float
    """Rate of repeated reads from the cache, relative to the rate of a copy."""
    rotated: float
    """Time to compute one result, relative to the time of reading an element."""
    most_filters: int
    """Maximum filters of a channel for which matrix instructions would be mostly idle."""


@dataclass(frozen=True)
class LoopsModel:
    """Constants for the schedules of all operations that are not contractions."""

    workgroup: int
    """Workgroup size if each invocation computes its own elements."""
    large_workgroup: int
    """
    Workgroup size if a workgroup reduces a row together, or if there are many short workgroups.
    """
    busy: int
    """Number of invocations that keep a compute unit busy."""
    many: int
    """Multiple of `busy` above which more invocations do not make a kernel faster."""
    short: int
    """Maximum number of steps of a reduction that one invocation should do alone."""
    long: int
    """Minimum number of steps of a contiguous reduction that several invocations should share."""
    windows_held: int
    """
    Registers for windows and their weights, as a multiple of `Target.held_registers`.

    Drivers load all 5 x 5 windows of 4 adjacent elements before they multiply.
    """
    least_beside: int
    """Minimum number of neighbouring rows for which reading them together is faster."""
    beside_bits: int
    """Number of contiguous bits that a workgroup reads at a time from neighbouring rows."""
    few: int
    """
    Neighbouring rows are read together only if at least one in `few` compute units gets a
    workgroup.
    """
    least_steps: int
    """Minimum elements of a row for each invocation, if invocations share a row."""
    cached: int
    """Size of rows, in bytes, above which they may leave the cache between two passes."""


@dataclass(frozen=True)
class Fit:
    date: str
    how: str
    """The scripts and results from which the constants come."""


@dataclass(frozen=True)
class Model:
    fitted: Fit
    dispatch_seconds: float
    """Seconds that a further dispatch takes if it is empty, including the barrier after it."""
    most_bound: int
    """Maximum number of buffers of a kernel that fuses a dispatch with its readers."""
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
