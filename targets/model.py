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
    most_residents: int
    """Workgroups of a compute unit up to which the time of partial occupancy is known."""
    narrow: Mapping[str, float]
    """
    Share of a rate that remains if an operand moves by that many bytes at a time, instead of 16.
    """
    scalar: ScalarModel


@dataclass(frozen=True)
class RowsModel:
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


def read_model(target: Fields, processor: bool) -> Model:
    """The model of a target file; `like` provides the fields that its section lacks."""
    like = FITTED_ON_PROCESSOR if processor else FITTED
    section = target.fields("model") if "model" in target.data else Fields({"like": like}, "")
    base = _model_of(section.text("like")) if "like" in section.data else None
    return read_record(Model, section.drop_field("like"), base)


@cache
def _model_of(name: str) -> Model:
    path = Path(__file__).parent / f"{name}.json"
    if Path(name).name != name or not path.is_file():
        raise TargetError(f"model.like is {name!r}, not a target of this package")
    return read_model(Fields(json.loads(path.read_text()), ""), False)
