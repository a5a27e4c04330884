"""
Estimates the time of a schedule, to choose among the schedules that fit.

Compute units execute workgroups in rounds. A round takes the multiplications of a tile divided by
the candidate's rate in the target file. All rounds together take at least the time of a single
workgroup that has a compute unit for itself. If the kernel dequantizes fragments, an incomplete
last round is estimated between these two times.

Without a measured rate, the rate is estimated from the elements that a tile fetches for each
multiplication. The time to store results is added, at the file's rate for this kind of store. The
file may contain factors that were fitted to measurements of other contractions (`corrections`).
Packing an operand costs the time of a copy. Packing a weight costs nothing, since weights are
packed once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2, prod

from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import static, typical
from xdsl_spirv.passes.analysis.contraction import bytes_of, packing_of
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.schedule.plan import Plan, Rates, ceil_div
from xdsl_spirv.passes.schedule.tiles import StagedTile, UnitTile
from xdsl_spirv.targets.model import ContractionModel, ScalarModel


def cost(plan: Plan, rates: Rates | None = None) -> float:
    """Estimates a contraction's seconds, at the plan's rates or at the given ones."""
    rate, alone, stream = rates or plan.rates
    seconds = multiplying(plan, rate, alone) * correction(plan)
    if stream is not None:
        weights = filter(is_weight, (plan.contraction.a, plan.contraction.b))
        seconds = max(seconds, sum(map(bytes_of, weights)) / (stream * 1e12))
    return seconds + _packing(plan) + _storing(plan)


def multiplying(plan: Plan, rate: float | None, alone: float | None = None) -> float:
    """
    Estimates the seconds of multiplying all tiles, without packing, storing and corrections. `rate`
    and `alone` are the rates as in `Rates`.
    """
    if plan.schedule.kind == "fma" and "fma f32" in plan.target.rates:
        return _by_invocations(plan, plan.target.model.contraction.scalar)
    tile_m, tile_n, tile_k = plan.schedule.tile
    units = plan.target.compute_units
    rounds = ceil_div(_workgroups(plan), units)
    depth = ceil_div(typical(plan.contraction.k), tile_k) * tile_k
    tile = 2.0 * tile_m * tile_n * depth
    share = prod(_share(tile, plan.target.model.contraction) for tile in plan.staged)
    rate = rate or _guess(plan)
    work = units * tile / (share * 1e12)
    residents = _residents(plan)
    if alone is not None and residents <= plan.target.model.contraction.most_residents:
        if any(isinstance(tile, UnitTile) for tile in (plan.a, plan.b)):
            return work * _in_waves(rounds, residents, rate, alone)
    shared = rounds * work / rate if rounds > 1 or alone is None else 0.0
    return max(shared, work / (alone or rate))


def _by_invocations(plan: Plan, model: ScalarModel) -> float:
    """
    Estimates the seconds of multiply-adds by invocations.

    A compute unit takes at least the time of all its multiply-adds, and at least the latency of
    one subgroup, which waits in each step along K. If these two bounds are similar, waits overlap
    only partly with multiply-adds, and the estimate exceeds both bounds.
    """
    m, n, _ = plan.schedule.instruction.sizes
    tile_m, tile_n, _ = plan.schedule.tile
    steps = _k_tiles(plan) * plan.schedule.tile[2]
    share = prod(_share(tile, plan.target.model.contraction) for tile in plan.staged)
    share *= m * n / (m * n + model.operand_weight * (m + n))
    share *= tile_m * tile_n / (tile_m * tile_n + model.tile_weight * (tile_m + tile_n))
    rounds = ceil_div(_workgroups(plan), plan.target.compute_units)
    together = rounds * 2.0 * tile_m * tile_n * steps / (model.rate * 1e12 * share)
    alone = steps * (model.wait + model.product * m * n)
    return (together**3 + alone**3) ** (1 / 3)


def _in_waves(rounds: int, residents: int, rate: float, alone: float) -> float:
    """
    Returns the time in which a compute unit executes `rounds` workgroups, `residents` at a time.

    The unit of time is the time of one workgroup at a rate of 1. `rate` is the rate of a compute
    unit with `residents` workgroups, `alone` is its rate with one workgroup.

    An incomplete last wave is estimated as the mean of a lower and an upper bound.
    """
    rest = rounds % residents
    if rounds == 1:
        return 1 / alone
    if not rest:
        return rounds / rate
    least = max(rest / rate, 1 / alone)
    more = (residents / rate - 1 / alone) / max(1, residents - 1)
    most = max(least, 1 / alone + (rest - 1) * more)
    return (rounds - rest) / rate + (least + most) / 2


def _residents(plan: Plan) -> int:
    rows, columns, _ = plan.schedule.tile
    accumulators = rows * columns // prod(plan.schedule.grid) // plan.target.subgroup_size
    of_each = plan.schedule.subgroup_count * accumulators
    most = plan.target.model.contraction.accumulators
    return max(1, plan.target.residency.subgroups * most // of_each)


def _workgroups(plan: Plan) -> int:
    rows, columns = plan.tiles
    return typical(rows * columns * plan.contraction.batch)


def _k_tiles(plan: Plan) -> int:
    return ceil_div(typical(plan.contraction.k), plan.schedule.tile[2])


FEATURES: dict[str, Callable[[Plan], float]] = {
    "two stages": lambda plan: float(plan.pipeline.read > 0),
    "few K tiles": lambda plan: 1 / _k_tiles(plan),
    "slices": lambda plan: log2(plan.schedule.slices),
    "slices of few K tiles": lambda plan: log2(plan.schedule.slices) / _k_tiles(plan),
    "idle units": lambda plan: log2(max(1, plan.target.compute_units / _workgroups(plan))),
    "rounds": lambda plan: log2(max(1, _workgroups(plan) / plan.target.compute_units)),
    "large tile": lambda plan: log2(prod(plan.schedule.tile[:2]) / 4096),
    "wide tile": lambda plan: log2(plan.schedule.tile[1] / plan.schedule.tile[0]),
    "subgroups": lambda plan: log2(plan.schedule.subgroup_count),
    "direct": lambda plan: float(len(plan.staged) < 2),
    "direct, few K tiles": lambda plan: float(len(plan.staged) < 2) / _k_tiles(plan),
    "rows": lambda plan: float(plan.result.stores_rows),
}
"""
Maps the name of a correction factor in target files to a function. The function returns the
factor's exponent for a plan.
"""


def correction(plan: Plan) -> float:
    """Returns the product of the target file's correction factors."""
    if not plan.schedule.is_cooperative:
        return 1.0
    factors = plan.target.corrections
    return prod(factor ** FEATURES[name](plan) for name, factor in factors.items())


def _storing(plan: Plan) -> float:
    if not plan.schedule.is_cooperative or plan.contraction.is_dynamic:
        return 0.0
    _, n, _ = plan.schedule.instruction.sizes
    seconds = 0.0
    for result in plan.contraction.epilogue.results:
        size = bit_width(result.element_type) // 8
        way = "rows" if plan.result.stores_rows else f"fragments {n * size}"
        if rate := plan.target.store_rates.get(way):
            seconds += prod(static(result.shape)) * size / (rate * 1e12)
    return seconds


def _guess(plan: Plan) -> float:
    tile_m, tile_n, _ = plan.schedule.tile
    resident = plan.target.residency.bytes_for(plan.schedule.subgroup_count)
    crowded = 2 if plan.workgroup_bytes > resident else 1
    products, model = tile_m * tile_n, plan.target.model.contraction
    fetched = model.load_weight * (tile_m + tile_n)
    return model.unrated * products / (products + fetched) / crowded


def _share(tile: StagedTile, model: ContractionModel) -> float:
    """Returns the factor by which a tile's vector width and layout change a rate."""
    if tile.in_fragments:
        return 1.0
    share = model.across_k if tile.k_axis == 0 and tile.element_bytes == 1 else 1.0
    return share * model.narrow.get(str(tile.vector * tile.element_bytes), 1.0)


def _packing(plan: Plan) -> float:
    seconds = 0.0
    for value, tile in ((plan.contraction.a, plan.a), (plan.contraction.b, plan.b)):
        if tile.packing is None or packing_of(value) or is_weight(value):
            continue
        seconds += plan.target.model.dispatch_seconds
        seconds += 2 * bytes_of(value) / plan.target.copy_bytes_per_second
    return seconds
