"""
Constants of the compiler's time estimates, read from the `model` section of a target file.

They are fitted to measurements of one device. A section may name another target as `like`, and give
only fields that differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdsl_spirv.targets.fields import Fields, TargetError, read_record

FITTED, FITTED_ON_PROCESSOR = "nvidia-h200", "lavapipe"
"""The targets whose models are used for files without a `model` section."""


@dataclass(frozen=True)
class Structure:
    """A way in which a subgroup processes keys if probabilities stay in registers, and its time."""

    strips: int
    key_fragments: int
    ahead: str
    rescale: str
    time: float
    """Time of one operation, relative to the best structure."""
    causal: float
    """Time of one operation with a mask by index, relative to the best structure."""
    pieces: float
    """Factor if keys are read unpacked, in wide pieces."""
    subgroups: int = 0
    """
    Subgroups of a workgroup that moves keys and values into Workgroup memory; 0 if each reads its
    own.
    """
    buffers: int = 1
    """Tiles in Workgroup memory at once."""
    least_head: int = 0
    """
    Smallest head size (elements of a value) for which the structure was measured to be faster.
    """


@dataclass(frozen=True)
class LanesModel:
    """The choice of an attention's schedule without matrices."""

    most_rows: int
    """Most rows of an invocation; more rows are divided among subgroups."""
    most_keys: int
    """Keys that are loaded at a time."""
    registers: int
    """32-bit registers of an invocation that queries and results may take."""
    resident_registers: int
    """As `registers`, if more subgroups should fit, to hide loads."""
    loaded_registers: int
    """32-bit registers of an invocation for keys and values that are being loaded."""
    least_bits: int
    """Least bits that an invocation moves at a time if more lanes share a key."""
    side_by_side: int
    """Bytes of a key that neighbouring invocations read: fewer waste memory bandwidth."""
    subgroups_across_rows: int
    """Subgroups of a workgroup that have different rows."""
    subgroups_across_keys: int
    """Subgroups of a workgroup that have different keys; more leave fewer parts to merge."""
    waves: int
    """Workgroups for each compute unit, of the usual number of subgroups."""
    fewest_steps: int
    """Fewest steps along the keys for which a separate part pays."""
    most_parts: int
    """Most parts that a merge reads for each row."""
    merging_subgroups: int
    """Most subgroups of a workgroup that merges parts."""
    long_past: int
    """Keys that are assumed if their number is dynamic."""


@dataclass(frozen=True)
class AttentionModel:
    lanes: LanesModel
    most_head: int
    """Elements of a query or value above which accumulators leave no room."""
    many_rows: int
    """Rows sharing keys, above which matrix products pay for passing scores through memory."""
    side_by_side: int
    """Subgroups that a compute unit executes without one delaying another."""
    registers: int
    """32-bit registers of an invocation for fragments; addresses and scalars take the rest."""
    most_registers: int
    """32-bit registers for fragments above which a schedule is refused; fewer may spill."""
    held: int
    """Registers for fragments if probabilities stay in registers."""
    held_reading: int
    """As `held`, if queries are read again for each tile of keys (the driver reads them early)."""
    most_held: int
    """As `held`, counting also the words that are read ahead."""
    spills: float
    """Factor of a kernel's time if it spills, times the ratio of needed to available registers."""
    late_reads: float
    """
    Factor of a kernel's time if the driver cannot keep the words that are read ahead in registers;
    multiplied by the square of their ratio to `most_held`.
    """
    subgroups: tuple[int, ...]
    """Subgroups of a workgroup, best first, if scores go through memory."""
    subgroups_in_registers: tuple[int, ...]
    """Subgroups of a workgroup, best first, if probabilities stay in registers."""
    strips: tuple[int, ...]
    """Strips of rows of a subgroup, best first."""
    key_fragments: tuple[int, ...]
    """Fragments of scores along a tile of keys, best first."""
    structures: tuple[Structure, ...]
    two_strips: float
    """Time of two strips, which share the fragments of keys and values, relative to one."""
    few_tiles: int
    """Tiles of queries up to which packing keys and values does not pay."""
    turned: float
    """Factor if values are read unpacked, in wide pieces, and must be transposed."""
    turned_by_one: float
    """As `turned`, if a subgroup has only one strip of rows."""
    key_parts: tuple[int, ...]
    """Number of subgroups that share rows if sizes are open."""
    merging: float
    """Factor if parts of keys are merged although there are enough workgroups without."""
    merging_values_ahead: float
    """As `merging`, if one strip's values are read ahead."""
    rate: float
    """TFLOPS assumed if the target's file gives no rate."""
    share: float
    """Share of the best rate of contractions with cooperative matrices that attention reaches."""


@dataclass(frozen=True)
class ScalarModel:
    """
    The times of products by multiply-adds.

    Only targets whose file gives the rate `fma f32` use them; other targets estimate these products
    like other tiles.
    """

    rate: float
    """TFLOPS of a compute unit that does nothing but multiply-adds."""
    operand_weight: float
    """Cost of each row or column of an invocation's tile, in multiply-adds."""
    tile_weight: float
    """Cost of each row or column of a workgroup's tile, in multiply-adds."""
    wait: float
    """Seconds that a subgroup waits in each step along K; only other subgroups can hide them."""
    product: float
    """Seconds of one multiply-add by all invocations of a subgroup alone on a unit."""


@dataclass(frozen=True)
class ContractionModel:
    load_weight: float
    """Cost of fetching a row or column of a tile, in multiplications, if no rate is known."""
    unrated: float
    """TFLOPS of a tile without other costs than multiplications, if no rate is known."""
    across_k: float
    """Share of an 8-bit rate that remains if a tile is stored across K in Workgroup memory."""
    accumulators: int
    """Accumulators of an invocation up to which `residency.subgroups` share a compute unit."""
    unpacked: float
    """Share of a rate that remains if an operand is unpacked on its way, where not measured."""
    long_loop: int
    """K tiles of a loop from which an incomplete last tile gets code of its own."""
    most_residents: int
    """Workgroups of a compute unit up to which the time of partial occupancy is known."""
    narrow: Mapping[str, float]
    """
    Share of a rate that remains if an operand moves by that many bytes at a time, instead of 16.
    """
    scalar: ScalarModel


@dataclass(frozen=True)
class ProcessorRowsModel:
    """The choice of a schedule of few rows on a CPU."""

    least_products: int
    """Least products for which the longest code pays, as it takes longer to compile."""
    most_integer_sums: int
    """Most sums of an invocation for integers: the code to quantize each sum is long."""
    most_elements: int
    """Most elements of a step for each row: limits the code."""
    most_straight: int
    """
    Most elements of a column whose code without a loop, two or three instructions for each, fits in
    the cache of decoded instructions.
    """
    often: int
    """Least number of columns that share such code, so that fetching it costs little."""
    turns: int
    """Subgroups of a workgroup, which the CPU runs in turn."""


@dataclass(frozen=True)
class RowsModel:
    few: int
    """Most rows of a contraction with few rows; with more, operands are worth staging."""
    few_for_matrices: int
    """As `few`, for types that matrices multiply at a rate that the target's file does not give."""
    much: int
    """A contraction has few rows if it has at least this many times as many columns."""
    conversion: float
    """Time to convert a streamed element to a float, in multiply-adds."""
    conversion_of_packed: float
    """Time to convert a streamed packed element to a float, in multiply-adds."""
    product: float
    """Time to multiply an element by a row, in multiply-adds."""
    busy: int
    """Subgroups that keep a compute unit busy while they only wait for memory."""
    banks: int
    """Words of Workgroup memory that are read at a time, each from a bank of its own."""
    most_rows: int
    """Most rows of an invocation; with more, registers do not suffice."""
    most_sums: int
    """Most sums of an invocation."""
    under_way: int
    """Loads of an invocation in flight at a time."""
    most_spread: int
    """Most elements of a unit if lanes take neighbouring units, to keep reads of rows close."""
    most_beside: int
    """Most elements of the rows that an invocation holds for a unit."""
    subgroups: int
    """Subgroups of a workgroup that divide K at most."""
    resident: int
    """Subgroups that run side by side on a compute unit if they have 64 registers each."""
    most_bits: int
    """Most bits of packed weights for which arithmetic limits a kernel, not memory."""
    most_of_digits: int
    """Most rows for which making digits costs less than making floats of the weights."""
    sharing: tuple[int, ...]
    """Subgroups of a workgroup that make digits together."""
    least_sharing: int
    """Fewest subgroups along K for which making digits together pays."""
    shared_width: int
    """Columns in a group if invocations share digits."""
    few_groups: int
    """Groups of columns of which two are read ahead; more would not fit in registers."""
    least_in_groups: int
    """Least columns of an invocation for which computing digits of the rows' elements pays."""
    least_in_narrow_groups: int
    """As `least_in_groups`, for one row, in groups of half as many columns with shorter code."""
    most_folded: int
    """Most elements that every workgroup of a product adds up or computes again."""
    norm_readers: int
    """Most products that compute the norm of their rows, each for itself."""
    on_processor: ProcessorRowsModel | None = None
    """None for devices that are no CPU."""


@dataclass(frozen=True)
class ReductionsModel:
    least_depth: int
    """Fewest products of a part; with fewer, a kernel's start and end dominate."""
    usual_tile: int
    """Rows and columns of a workgroup's tile, assumed to estimate the number of workgroups."""
    worthwhile: float
    """A product is split if its estimated time falls to at most this share."""
    worthwhile_of_blocks: float
    """As `worthwhile`, if an operand is in packed planes and both ways run on matrices."""
    cached: float
    """Rate at which parts are stored and summed, relative to a copy; caches make it faster."""


@dataclass(frozen=True)
class WindowModel:
    """The estimate of windows that slide over rows in registers."""

    cached: float
    """Speed of reading elements again from the cache, relative to a copy."""
    rotated: float
    """Elements that could be read in the time that a result takes besides its reads."""
    most_filters: int
    """Filters of a channel up to which matrices would be mostly empty."""


@dataclass(frozen=True)
class LoopsModel:
    """The choice of a schedule of everything that is not a contraction."""

    workgroup: int
    """Invocations of a workgroup that compute elements on their own."""
    large_workgroup: int
    """
    Invocations of a workgroup that reduces a row together; also of others, if starting workgroups
    would cost the most.
    """
    busy: int
    """Invocations that keep a compute unit busy."""
    many: int
    """Multiple of `busy` beyond which more invocations are not faster."""
    short: int
    """Most steps of a reduction that an invocation should do by itself."""
    long: int
    """
    Steps of a reduction from which neighbouring invocations would read places too far apart, where
    each reduced a row by itself and rows do not lie side by side.
    """
    windows_held: int
    """
    Registers that windows and their weights may take for each of a target's `held_registers`:
    drivers load windows of 5 x 5 of 4 neighbours before they multiply.
    """
    least_beside: int
    """Rows that lie side by side which are worth being read together."""
    beside_bits: int
    """Bits of rows side by side that a workgroup reads at a time."""
    few: int
    """Factor of more workgroups for which an eighth of a memory transfer is read at a time."""
    least_steps: int
    """Least elements of a row for each of several invocations that share it."""
    cached: int
    """Bytes of rows above which they may leave the cache between two passes over a row."""


@dataclass(frozen=True)
class Fit:
    date: str
    how: str
    """The scripts and results that the numbers come from."""


@dataclass(frozen=True)
class Model:
    fitted: Fit
    dispatch_seconds: float
    """Seconds of a separate dispatch, however small, and the barrier after it."""
    attention: AttentionModel
    contraction: ContractionModel
    rows: RowsModel
    reductions: ReductionsModel
    window: WindowModel
    loops: LoopsModel


def read_model(target: Fields, processor: bool) -> Model:
    """The model of a target file; `like` provides the fields that its section lacks."""
    like = FITTED_ON_PROCESSOR if processor else FITTED
    section = target.fields("model") if "model" in target.data else Fields({"like": like}, "")
    base = _model_of(section.text("like")) if "like" in section.data else None
    model = read_record(Model, section.drop_field("like"), base)
    if processor and model.rows.on_processor is None:
        raise TargetError("model.rows.on_processor is missing: the model of lavapipe has it")
    return model


@cache
def _model_of(name: str) -> Model:
    path = Path(__file__).parent / f"{name}.json"
    if Path(name).name != name or not path.is_file():
        raise TargetError(f"model.like is {name!r}, not a target of this package")
    return read_model(Fields(json.loads(path.read_text()), ""), False)
