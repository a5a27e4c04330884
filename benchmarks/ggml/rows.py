"""Launches on rows: norms, softmax, sums, argmax, sorting, top-k."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ggml.launch import Array, Case
from ggml.tensors import (
    TYPES,
    Tensor,
    binary_push,
    cover,
    fast_division,
    generator,
    numbers,
    unary_push,
)

EPSILON = 1e-5
ROWS = ((1, 2, 3, 70), (2, 1, 2, 1100))


def plain_push(kx: int, ky: int, *parameters: float) -> dict[str, float]:
    """
    Returns the push constants of operations on contiguous rows: the sizes, then up to four
    parameters.
    """
    given = [*parameters, *[0.0] * (4 - len(parameters))]
    return {"KX": kx, "KY": ky} | {f"param{n + 1}": value for n, value in enumerate(given)}


def norms() -> Iterator[Case]:
    """Yields norms of rows and of groups of rows, scaled norms, and a norm's gradient."""
    random = generator("norms")
    for shape in ROWS:
        a = Tensor(numbers(random, shape), order=(0, 2, 1, 3), offset=1)
        x = a.values
        centred = (x - x.mean(3, keepdims=True)) / np.sqrt(x.var(3, keepdims=True) + EPSILON)
        lengths = np.maximum(np.sqrt(np.square(x).sum(3, keepdims=True)), EPSILON)
        for name, y in (("norm_f32", centred), ("l2_norm_f32", x / lengths)):
            d = Tensor(y.astype(np.float32), spare=2)
            yield Case(name, cover(math.prod(shape[:3]), 1), {0: a.buffer, 1: d.blank},
                       {1: d.buffer}, unary_push(a, d, (EPSILON,)), absolute=1e-5)  # fmt: skip
        yield from _scaled_norms(random, shape)
        g = numbers(random, shape)
        values = numbers(random, shape)
        mean = np.square(values, dtype=float).mean(3, keepdims=True)
        inner = (values.astype(float) * g).sum(3, keepdims=True)
        scale = 1 / np.sqrt(mean + EPSILON)
        back = scale * g - scale * inner / (shape[3] * (mean + EPSILON)) * values
        yield Case("rms_norm_back_f32", cover(math.prod(shape[:3]), 1),
                   {0: g, 1: values, 2: g * 0}, {2: back.astype(np.float32)},
                   plain_push(shape[3], 1, EPSILON), absolute=1e-5)  # fmt: skip
    groups = numbers(random, (6, 1300))
    y = (groups - groups.mean(1, keepdims=True)) / np.sqrt(groups.var(1, keepdims=True) + EPSILON)
    yield Case("group_norm_f32", (6, 1, 1), {0: groups, 1: groups * 0},
               {1: y.astype(np.float32)}, plain_push(1300, 1, EPSILON), absolute=1e-4)  # fmt: skip


def _scaled_norms(random: np.random.Generator, shape: Sequence[int]) -> Iterator[Case]:
    a = Tensor(numbers(random, shape), order=(0, 2, 1, 3), offset=1)
    rms = a.values / np.sqrt(np.square(a.values).mean(3, keepdims=True) + EPSILON)
    for multiplied, width in ((False, shape[3]), (True, shape[3]), (True, shape[3] // 2)):
        b = Tensor(numbers(random, (1, 1, 1, width)))
        factor = np.tile(b.values, (1, 1, 1, shape[3] // width)) if multiplied else 1.0
        d = Tensor((rms * factor).astype(np.float32))
        push = binary_push(a, b, d, (EPSILON, 0.0, 0))
        yield Case("rms_norm_f32", (shape[2], shape[1], shape[0]),
                   {0: a.buffer, 1: b.buffer, 2: d.blank}, {2: d.buffer}, push,
                   {0: False, 1: multiplied}, absolute=1e-5,
                   note=f"times {width}" if multiplied else "alone")  # fmt: skip
    a = Tensor(numbers(random, (1, 1, 1, 900)))
    parts = np.square(a.values).reshape(-1, 450).sum(1).astype(np.float32)
    parts = np.resize(parts, 40) * (np.arange(40) < 2).astype(np.float32)
    b = Tensor(numbers(random, (1, 1, 1, 900)))
    rms = a.values / np.sqrt(np.square(a.values).mean() + EPSILON) * b.values
    d = Tensor(rms.astype(np.float32))
    yield Case("rms_norm_partials_f32", (8, 1, 1),
               {0: a.buffer, 1: b.buffer, 2: d.blank, 3: parts}, {2: d.buffer},
               binary_push(a, b, d, (EPSILON, 0.0, 40)), {0: False, 1: True},
               absolute=1e-5)  # fmt: skip


def several_added() -> Iterator[Case]:
    """Yields sums of three tensors, also with sums of squares for the following norm."""
    for name, sums in (("multi_add_f32", False), ("multi_add_rms_f32", True)):
        random = generator(name)
        sources = [
            Tensor(numbers(random, (1, 2, 3, 190)), order=(0, o, 3 - o, 3)) for o in (1, 2, 1)
        ]
        total = sum(s.values for s in sources)
        d = Tensor(np.asarray(total).astype(np.float32))
        strides = [list(t.nb) for t in (*sources, d)] + [[0] * 4] * 8
        push = {f"ne2{n}": d.ne[n] for n in range(4)}
        buffers = {n: s.buffer for n, s in enumerate(sources)} | {3: d.blank}
        nothing = np.zeros(1, np.float32)
        buffers |= {n: nothing for n in range(4, 12)}
        after = {3: d.buffer}
        if sums:
            squares = np.zeros(3 * 512)
            squares[: d.count] = np.square(d.values.ravel())
            buffers[4] = np.zeros(3, np.float32)
            after[4] = squares.reshape(3, 512).sum(1).astype(np.float32)
        yield Case(name, cover(d.count), buffers, after,
                   push | {"nb": strides, "rms_partials": int(sums)}, {0: 3})  # fmt: skip


def added_by_expert() -> Iterator[Case]:
    """Yields cases that add each row to a row selected by an id."""
    random = generator("add_id")
    a, b = numbers(random, (2, 5, 700)), numbers(random, (4, 700))
    ids = random.integers(0, 4, (2, 8)).astype(np.int32)
    d = a + b[ids[:, :5]]
    push = {"ne0": 700, "ne1": 5, "s01": 700, "s02": 3500, "s11": 700, "s21": 8}
    yield Case("add_id_f32", (5, 2, 1), {0: a, 1: b, 2: ids, 3: d * 0}, {3: d}, push)


def soft_maxima() -> Iterator[Case]:
    """Yields softmax with and without mask, slopes and sinks. Long rows take three launches."""
    for kind, block, options in itertools.product(
        ("f32", "f16"), (32, 512), ((False, False, False), (True, True, False), (True, False, True))
    ):
        columns = 70 if block == 32 else 1300
        name = "soft_max_f32" if kind == "f32" else "soft_max_f32_f16"
        yield soft_max(name, kind, block, columns, options)[0]
    for kind in ("f32", "f16"):
        suffix = "f32" if kind == "f32" else "f32_f16"
        case, (scores, sinks) = soft_max(f"soft_max_large1_{suffix}", kind, 128, 1300,
                                          (True, True, True))  # fmt: skip
        yield from _long(case, suffix, scores, sinks)
    random = generator("soft_max_back")
    g, y = numbers(random, (6, 70)), numbers(random, (6, 70))
    back = 0.7 * (g - (g.astype(float) * y).sum(1, keepdims=True)) * y
    yield Case("soft_max_back_f32", (6, 1, 1), {0: g, 1: y, 2: g * 0},
               {2: back.astype(np.float32)}, plain_push(70, 6, 0.7), {0: 32})  # fmt: skip


def soft_max(
    name: str, kind: str, block: int, columns: int, options: tuple[bool, bool, bool]
) -> tuple[Case, tuple[Array, Array]]:
    masked, biased, with_sinks = options
    random = generator(f"{name}{options}{block}")
    shape = (2, 3, 4, columns)
    a = numbers(random, shape, low=-4, high=4)
    mask = Tensor(numbers(random, (1, 1, 4, columns), kind), spare=2)
    sinks = numbers(random, (3,))
    heads = 1 << int(math.log2(shape[1]))
    bias = 8.0 if biased else 0.0
    m0, m1 = 2 ** (-bias / heads), 2 ** (-bias / 2 / heads)
    slopes = [m0 ** (h + 1) if h < heads else m1 ** (2 * (h - heads) + 1) for h in range(3)]
    slope = np.array(slopes if biased else [1.0] * 3).reshape(1, 3, 1, 1)
    scores = a * 0.5 + (slope * mask.values if masked else 0.0)
    top = scores.max(3, keepdims=True)
    extra = 0.0
    if with_sinks:
        top = np.maximum(top, sinks.reshape(1, 3, 1, 1))
        extra = np.exp(sinks.reshape(1, 3, 1, 1) - top)
    powers = np.exp(scores - top)
    d = (powers / (powers.sum(3, keepdims=True) + extra)).astype(np.float32)
    push: dict[str, Any] = {"KX": columns, "KY": 4 * masked, "ne00": columns, "ne01": 4, "ne02": 3}
    push |= {"ne12": 1, "ne13": 1, "nb11": mask.nb[1], "nb12": mask.nb[2], "nb13": mask.nb[3]}
    push |= {"scale": 0.5, "max_bias": bias, "m0": m0, "m1": m1, "n_head_log2": heads}
    push |= {"nrows_x": 24, "has_sinks": int(with_sinks)}
    case = Case(name, (24, 1, 1), {0: a, 1: mask.buffer, 2: sinks, 3: d * 0}, {3: d}, push,
                {0: block},
                note="mask" * masked + " biases" * biased + " sinks" * with_sinks)  # fmt: skip
    return case, (scores, sinks)


def _long(case: Case, suffix: str, scores: Array, sinks: Array) -> Iterator[Case]:
    """
    Yields the three launches for long rows: maxima of parts, powers with their sums, quotients.

    `scores` are the inputs of the softmax, and `sinks` its additional scores.
    """
    rows = scores.reshape(24, -1)
    sink = np.tile(np.repeat(sinks, 4), 2)[:, None].astype(float)
    parts = [rows[:, p : p + 512] for p in range(0, rows.shape[1], 512)]
    maxima = np.maximum(np.stack([part.max(1) for part in parts], 1), sink)
    top = maxima.max(1, keepdims=True)
    sums = np.stack([np.exp(part - top).sum(1) for part in parts], 1).astype(np.float32)
    powers = np.exp(rows - top).astype(np.float32)
    maxima = maxima.astype(np.float32)
    grid, blank = (len(parts), 24, 1), maxima * 0
    first = replace(case, grid=grid, constants={0: 128, 1: 4}, note="maxima of parts")
    yield replace(first, buffers=case.buffers | {4: blank, 5: blank}, expected={4: maxima})
    yield _rising(first, suffix, rows, maxima)
    # The second launch combines the maxima of some parts only, the third one the maxima of all
    # (docs/ggml.md). In this case every part has the global maximum.
    yield replace(first, module=f"soft_max_large2_{suffix}", note="powers and sums",
                  buffers=case.buffers | {4: np.broadcast_to(top, maxima.shape).astype(np.float32),
                                          5: blank},
                  expected={3: powers.reshape(case.expected[3].shape), 5: sums})  # fmt: skip
    yield replace(first, module=f"soft_max_large3_{suffix}", note="quotients",
                  buffers=case.buffers | {3: powers.reshape(case.expected[3].shape),
                                          4: np.broadcast_to(top, maxima.shape).astype(np.float32),
                                          5: sums})  # fmt: skip


def _rising(first: Case, suffix: str, scores: Array, maxima: Array) -> Case:
    raised = scores + 200 * (np.arange(scores.shape[1]) >= 1024)
    given = first.buffers[0].reshape(24, -1) + 400 * (np.arange(scores.shape[1]) >= 1024)
    maxima = maxima + 200 * (np.arange(maxima.shape[1]) == 2)
    top = maxima.max(1, keepdims=True)
    powers = np.exp(raised - top)
    parts = [powers[:, p : p + 512].sum(1) for p in range(0, powers.shape[1], 512)]
    buffers = first.buffers | {0: given.astype(np.float32), 4: maxima.astype(np.float32)}
    expected = {3: powers.astype(np.float32).reshape(first.buffers[3].shape)}
    expected[5] = np.stack(parts, 1).astype(np.float32)
    return replace(first, module=f"soft_max_large2_{suffix}", expected=expected,
                   buffers=buffers | {5: expected[5] * 0}, relative=1e-3,
                   note="the largest scores in the third part")  # fmt: skip


def sums_push(a: Tensor, d: Tensor, weight: float) -> dict[str, Any]:
    """
    Returns the push constants of sums over the rows of `a` into `d`, each multiplied by `weight`.
    """
    push: dict[str, Any] = {"n_cols": a.ne[0], "ne01": a.ne[1], "ne02": a.ne[2], "weight": weight}
    for number, tensor in ((0, a), (1, d)):
        push |= {f"nb{number}{axis}": tensor.nb[axis] for axis in (1, 2, 3)}
    push["misalign_offsets"] = a.offset << 16 | d.offset
    push["ne0_12mp"], push["ne0_12L"] = fast_division(a.ne[1] * a.ne[2])
    push["ne0_1mp"], push["ne0_1L"] = fast_division(a.ne[1])
    return push


def sums() -> Iterator[Case]:
    """Yields sums and running sums of rows, counts of equal elements and counts of expert ids."""
    random = generator("sums")
    for columns in (70, 1300):
        a = Tensor(numbers(random, (2, 3, 4, columns)), order=(0, 2, 1, 3), offset=1)
        d = Tensor((0.5 * a.values.sum(3, keepdims=True)).astype(np.float32), offset=1)
        yield Case("sum_rows_f32", (24, 1, 1), {0: a.buffer, 1: d.blank}, {1: d.buffer},
                   sums_push(a, d, 0.5), {0: 32}, absolute=1e-4)  # fmt: skip
        for lanes, (block, elements) in itertools.product((32, 64), ((256, 4), (128, 1))):
            d = Tensor(a.values.cumsum(3).astype(np.float32), offset=2)
            yield Case("cumsum_f32", (24, 1, 1), {0: a.buffer, 1: d.blank}, {1: d.buffer},
                       sums_push(a, d, 1.0), {0: block, 1: lanes, 2: elements}, lanes,
                       absolute=1e-4, note=f"{block} times {elements} of {lanes}")  # fmt: skip
    yield from _running(random)
    one, two = (random.integers(0, 3, 1300).astype(np.int32) for _ in range(2))
    yield Case("count_equal_i32", (3, 1, 1), {0: one, 1: two, 2: np.array([5], np.int32)},
               {2: np.array([5 + (one == two).sum()], np.int32)}, plain_push(1300, 1),
               {0: 32})  # fmt: skip
    ids = random.integers(0, 7, (60, 10)).astype(np.uint32)
    counts = np.bincount(ids[:, :6].ravel(), minlength=7).astype(np.uint32)
    push = {"ne00": 6, "ne01": 60, "nb00": 1, "nb01": 10, "a_offset": 0}
    yield Case("count_experts", (7, 1, 1), {0: ids, 1: counts * 0}, {1: counts}, push)


def _running(random: np.random.Generator) -> Iterator[Case]:
    a = Tensor(numbers(random, (1, 1, 2, 1300)))
    padded = np.pad(a.values[0, 0], ((0, 0), (0, 236))).reshape(2, 6, 256)
    within, totals = padded.cumsum(2), padded.sum(2).astype(np.float32)
    first = within.reshape(2, -1)[:, :1300].astype(np.float32)
    whole = a.values.cumsum(3).astype(np.float32)
    d = Tensor(whole)
    push = sums_push(a, d, 1.0)
    for lanes in (32, 64):
        case = Case("cumsum_multipass1_f32", (6, 2, 1), {0: a.buffer, 1: d.blank, 2: totals * 0},
                    {1: first, 2: totals}, push, {0: 256, 1: lanes}, lanes,
                    absolute=1e-4)  # fmt: skip
        yield case
        yield replace(case, module="cumsum_multipass2_f32", expected={1: whole},
                      buffers={0: a.buffer, 1: first, 2: totals})  # fmt: skip


def places() -> Iterator[Case]:
    """Yields cases of argmax, argsort and top-k."""
    for columns, lanes in ((70, 32), (20, 32), (300, 64)):
        a = numbers(generator(f"argmax{columns}"), (5, columns))
        yield Case("argmax_f32", (5, 1, 1), {0: a, 1: np.zeros(5, np.int32)},
                   {1: a.argmax(1).astype(np.int32)}, plain_push(columns, 5), {0: lanes},
                   lanes)  # fmt: skip
    for columns, order in itertools.product((64, 50), (0, 1)):
        yield _sorted("argsort_f32", columns, order)
        yield _sorted("argsort_large_f32", columns, order)
    for columns, k in ((64, 5), (50, 1), (50, 7), (64, 1)):
        for low in (0.5, -2.0):
            yield _chosen("topk_argsort_f32", columns, k, low, {0: 64, 1: 6})
            yield _chosen("topk_nary_search_f32", columns, k, low, {0: 64, 1: 32, 2: 5})


def _sorted(module: str, columns: int, order: int) -> Case:
    a = numbers(generator(f"sort{columns}"), (3, columns))
    place = a.argsort(1)
    d = (place[:, ::-1] if order else place).astype(np.int32)
    push = {"ncols": columns, "ncols_padded": 64, "ncols_padded_log2": 6, "nrows": 3}
    push |= {"order": order, "outer_start": 0, "outer_end": 6, "inner_start": 0, "inner_end": 100}
    note = f"{columns} columns, {'descending' if order else 'ascending'}"
    buffers = {0: a, 2: d * 0}
    if module == "argsort_f32":
        return Case(module, (1, 3, 1), buffers, {2: d}, push, {0: 64, 1: 6}, note=note)
    return Case(module, (1, 3, 1), buffers | {1: np.zeros((3, 64, 2), np.int32)}, {2: d}, push,
                {0: 32, 1: 2}, note=note, scratch=frozenset({1}))  # fmt: skip


def _chosen(module: str, columns: int, k: int, low: float, constants: dict[int, int]) -> Case:
    """Returns a top-k case. ggml's order is arbitrary, so the inputs make the result unique."""
    a = numbers(generator(f"choose{columns}{k}{low}"), (3, columns), low=low, high=abs(low))
    if low < 0 and k == 1:
        a = -np.abs(a)
    place = np.argsort(-a, 1)[:, :k]
    if module == "topk_nary_search_f32" and k > 1:
        place = np.sort(place, 1)
    push = {"orig_ncols": columns, "ncols_input": columns, "ncols_output": k, "k": k, "nrows": 3}
    push |= {"first_pass": 1, "last_pass": 1}
    negative = ", all negative" if low < 0 and k == 1 else ""
    return Case(module, (1, 3, 1), {0: a, 1: np.zeros((3, k), np.int32)},
                {1: place.astype(np.int32)}, push, constants,
                note=f"{k} of {columns}{negative}")  # fmt: skip


def choices_of_experts() -> Iterator[Case]:
    """Yields choices of a token's experts with four gating functions, with and without biases."""
    for experts, (way, biased, normed) in itertools.product(
        (64, 40), ((0, False, True), (0, False, False), (1, True, True), (2, False, False),
                   (3, True, True))
    ):  # fmt: skip
        random = generator(f"experts{experts}{way}")
        logits, bias = numbers(random, (6, experts), low=-4, high=4), numbers(random, (experts,))
        x = logits.astype(float)
        powers = np.exp(x - x.max(1, keepdims=True))
        probabilities = (powers / powers.sum(1, keepdims=True), 1 / (1 + np.exp(-x)), x,
                         np.sqrt(np.logaddexp(x, 0)))[way]  # fmt: skip
        order = np.argsort(-(probabilities + bias * biased), 1)[:, :4]
        weights = np.take_along_axis(probabilities, order, 1)
        if normed:
            weights = weights / np.clip(weights.sum(1, keepdims=True), 1e-3, 1e3)
        if way == 2:
            weights = np.exp(weights - weights.max(1, keepdims=True))
            weights = weights / weights.sum(1, keepdims=True)
        ids = np.zeros((6, experts), np.uint32)
        after = ids.copy()
        after[:, :4] = order
        push = {"n_rows": 6, "n_experts_push": experts, "n_expert_used": 4, "clamp_min": 1e-3}
        push |= {"clamp_max": 1e3, "gating_func": way, "has_bias": int(biased)}
        push |= {"with_norm": int(normed), "output_scale": 2.0, "output_bias": 0.0}
        wanted = (2 * weights).astype(np.float32)
        yield Case("topk_moe_f32", (2, 1, 1), {0: logits, 1: bias, 2: wanted * 0, 3: ids},
                   {2: wanted, 3: after}, push, {0: 32, 1: 64, 2: experts != 64},
                   note=f"way {way} of {experts}")  # fmt: skip


def transforms() -> Iterator[Case]:
    """Yields causal masks, Walsh-Hadamard transforms, timestep embeddings and outer products."""
    random = generator("transforms")
    a = numbers(random, (2, 5, 700))
    columns, rows = np.arange(700), np.arange(5)[:, None]
    masked = np.where(columns > 3 + rows, -np.inf, a).astype(np.float32)
    push = {"ncols": 700, "rows_per_channel": 5, "n_past": 3}
    yield Case("diag_mask_inf_f32", (10, 2, 1), {0: a, 1: a * 0}, {1: masked}, push)
    for name, size in itertools.product(("fwht_f32", "fwht_shmem_f32"), (64, 256)):
        a = numbers(random, (7, size))
        matrix = np.array([[1.0]])
        while len(matrix) < size:
            matrix = np.block([[matrix, matrix], [matrix, -matrix]])
        push = {"n_rows": 7, "src_offset": 0, "dst_offset": 0, "scale": 0.125}
        yield Case(name, (2, 1, 1), {0: a, 1: a * 0}, {1: (0.125 * a @ matrix).astype(np.float32)},
                   push, {0: 32, 1: size}, absolute=1e-5)  # fmt: skip
    for dimension in (320, 33):
        steps, half = numbers(random, (3,), low=0, high=40), dimension // 2
        angles = steps[:, None].astype(float) * np.exp(-math.log(10000) * np.arange(half) / half)
        d = Tensor(np.zeros((3, dimension), np.float32), spare=3)
        d.view[0, 0, :, :half], d.view[0, 0, :, half : 2 * half] = np.cos(angles), np.sin(angles)
        groups = -(-((dimension + 1) // 2) // 256)
        yield Case("timestep_embedding_f32", (groups, 3, 1), {0: steps, 1: d.blank},
                   {1: d.buffer}, {"nb1": d.nb[1], "dim": dimension, "max_period": 10000},
                   absolute=2e-4)  # fmt: skip
    a = Tensor(numbers(random, (1, 2, 6, 20)), order=(1, 0, 2, 3))
    b = Tensor(numbers(random, (1, 4, 6, 30)), offset=1)
    wide = np.repeat(a.values, 2, axis=1)
    d = Tensor(np.einsum("xyki,xykj->xyji", wide, b.values).astype(np.float32))
    yield Case("out_prod_f32", cover(d.count, 256), {0: a.buffer, 1: b.buffer, 2: d.blank},
               {2: d.buffer}, binary_push(a, b, d))  # fmt: skip


def solved() -> Iterator[Case]:
    """Yields triangular systems with several right-hand sides."""
    random = generator("solved")
    n, k = 20, 7
    a = Tensor((np.tril(numbers(random, (2, 3, n, n), low=-0.3, high=0.3)) + 2 * np.eye(n))
               .astype(np.float32))  # fmt: skip
    b = Tensor(numbers(random, (2, 3, n, k)))
    d = Tensor(np.linalg.solve(a.values, b.values).astype(TYPES["f32"]))
    yield Case("solve_tri_f32", (6, 1, 1), {0: a.buffer, 1: b.buffer, 2: d.blank}, {2: d.buffer},
               binary_push(a, b, d), {0: 0, 1: n, 2: k, 3: 8, 4: 128}, absolute=1e-5)  # fmt: skip


FAMILIES = (
    norms,
    several_added,
    added_by_expert,
    soft_maxima,
    sums,
    places,
    choices_of_experts,
    transforms,
    solved,
)
