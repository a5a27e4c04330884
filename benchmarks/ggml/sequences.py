"""Launches on sequences: rotary embeddings, state spaces, linear attention with a state."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ggml.launch import Array, Case
from ggml.tensors import TYPES, Tensor, binary_push, generator, numbers

HALF = 2e-3
MODES = {"norm": 0, "neox": 2, "multi": 8, "vision": 24}
NOTHING = np.zeros(1, np.float32)


def rope_push(mode: str, a: Tensor, d: Tensor, dims: int, **given: Any) -> dict[str, Any]:
    """
    Returns the push constants of rotary embeddings of the first `dims` channels, with base
    frequency 10000.
    """
    push: dict[str, Any] = {"rope_mode": MODES[mode], "nrows": a.ne[1] * a.ne[2] * a.ne[3]}
    push |= {"n_dims": dims, "n_offs": 0, "freq_scale": 1.0, "freq_base": 10000.0}
    push |= {"ext_factor": 0.0, "attn_factor": 1.0, "corr_dims": [3.0, 9.0]}
    push |= {"theta_scale": 10000.0 ** (-2 / dims), "has_ff": 0, "sections": [0, 0, 0, 0]}
    push |= {"is_imrope": 0, "is_back": 0, "set_rows_stride": 0, "ne00": a.ne[0], "ne01": a.ne[1]}
    push |= {"ne02": a.ne[2], "a_offset": a.offset, "d_offset": d.offset}
    for number, tensor in ((0, a), (1, d)):
        push |= {f"nb{number}{axis}": tensor.nb[axis] for axis in (1, 2, 3)}
    return push | given


def rotated(x: Array, angles: Array, kind: str, scale: Any = 1.0) -> Array:
    """
    Rotates pairs of channels of x (samples, tokens, heads, channels) by angles. In the kind `norm`,
    the channels of a pair are adjacent.
    """
    y = x.copy()
    pairs = angles.shape[1]
    cos, sin = (f(angles)[None, :, None] * scale for f in (np.cos, np.sin))
    if kind == "norm":
        one, two = x[..., : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
        y[..., : 2 * pairs : 2], y[..., 1 : 2 * pairs : 2] = (
            one * cos - two * sin,
            one * sin + two * cos,
        )
    else:
        one, two = x[..., :pairs], x[..., pairs : 2 * pairs]
        y[..., :pairs], y[..., pairs : 2 * pairs] = one * cos - two * sin, one * sin + two * cos
    return y


def rotations() -> Iterator[Case]:
    """Yields rotary embeddings of each mode, type and variant (such as the inverse)."""
    for mode, kind in itertools.product(MODES, ("f32", "f16", "f32_f16")):
        if mode == "vision" and kind == "f32_f16":
            continue
        for way in ("plain", "factors", "extrapolated", "back", "rows"):
            if mode in ("vision", "multi") and way == "rows":
                continue
            yield _rotation(mode, kind, way)


def _rotation(mode: str, kind: str, way: str) -> Case:
    random = generator(f"{mode}{kind}{way}")
    source, target = kind.split("_")[0], kind.split("_")[-1]
    channels, heads, tokens = 40, 3, 5
    dims = channels // 2 if mode == "vision" else 32
    a = Tensor(numbers(random, (2, tokens, heads, channels), source), order=(0, 2, 1, 3), offset=2)
    streams = {"multi": 4, "vision": 2}.get(mode, 1)
    positions = random.integers(0, 40, streams * tokens).astype(np.int32)
    factors = numbers(random, (channels,), low=0.5, high=2)
    given: dict[str, Any] = {}
    pairs = np.arange(dims if mode == "vision" else dims // 2)
    powers = 10000.0 ** (-2 / dims * pairs)
    theta = positions[:tokens, None] * powers
    if mode == "multi":
        sections = (4, 5, 5, 2)
        given["sections"] = list(sections)
        which = np.repeat(np.arange(4), sections)[pairs % 16]
        theta = positions.reshape(4, tokens)[which].T * powers
    elif mode == "vision":
        given["sections"] = [10, 10, 0, 0]
        first = pairs % 20 < 10
        stream = np.where(first, 0, 1)
        theta = positions.reshape(2, tokens)[stream].T * 10000.0 ** (-2 / dims * (pairs % 10))
    scale = 1.0
    if way == "factors":
        given["has_ff"] = 1
        theta = theta / factors[: len(pairs)]
    elif way == "extrapolated":
        given |= {"ext_factor": 0.5, "freq_scale": 0.25, "attn_factor": 1.1}
        ramp = 0.5 * (1 - np.clip((pairs - 3) / 6, 0, 1))
        theta, scale = theta * (0.25 * (1 - ramp) + ramp), 1.1 * (1 + 0.1 * np.log(4))
    elif way == "back":
        given["is_back"] = 1
        theta = -theta
    y = rotated(a.values, theta, mode, scale).astype(TYPES[target])
    push_name = "pc."
    indices = np.zeros((tokens, 2), np.uint32)
    if way == "rows":
        return _rotation_into_rows(mode, kind, a, y[:1], positions, dims)
    d = Tensor(y, spare=3, offset=1)
    push = rope_push(mode, a, d, dims, **given)
    rows = a.ne[1] * a.ne[2] * a.ne[3]
    tolerances = {"absolute": 1e-4} if target == "f32" else {"absolute": 4e-3, "relative": HALF}
    return Case(f"rope_{mode}_{kind}", (rows, 1, 1),
                {0: a.buffer, 1: positions, 2: factors, 3: d.blank, 4: indices}, {3: d.buffer},
                {push_name + key: value for key, value in push.items()}, **tolerances,
                note=way)  # fmt: skip


def _rotation_into_rows(
    mode: str, kind: str, a: Tensor, y: Array, positions: Array, dims: int
) -> Case:
    """Returns a case of a rotation that stores token t in row index[t] of another tensor."""
    a = Tensor(a.view[:1].copy())
    tokens, heads, channels = y.shape[1:]
    rows = np.array([4, 0, 6, 1, 3])
    indices = np.stack((rows, rows * 0), 1).astype(np.uint32)
    d = np.zeros((8, heads * channels), y.dtype)
    after = d.copy()
    after[rows] = y[0].reshape(tokens, -1)
    push = rope_push(mode, a, Tensor(y), dims, set_rows_stride=heads * channels)
    absolute = 1e-4 if y.dtype == np.float32 else 4e-3
    return Case(f"rope_{mode}_{kind}", (heads * tokens, 1, 1),
                {0: a.buffer, 1: positions, 2: NOTHING, 3: d, 4: indices}, {3: after},
                {"pc." + key: value for key, value in push.items()}, absolute=absolute,
                relative=HALF, note="rows by index")  # fmt: skip


def norms_rotated() -> Iterator[Case]:
    """Yields cases of a norm, a product and a rotary embedding in one launch."""
    for mode, target in itertools.product(("norm", "neox"), ("f32", "f16")):
        random = generator(f"fused{mode}{target}")
        a = Tensor(numbers(random, (2, 5, 3, 40)))
        b = Tensor(numbers(random, (1, 1, 1, 40)))
        positions = random.integers(0, 40, 5).astype(np.int32)
        scaled = a.values / np.sqrt(np.square(a.values).mean(3, keepdims=True) + 1e-5) * b.values
        theta = positions[:, None] * 10000.0 ** (-2 / 32 * np.arange(16))
        d = Tensor(rotated(scaled, theta, mode).astype(TYPES[target]))
        push = binary_push(a, b, d, (1e-5, 0.0, 0))
        rope = rope_push(mode, a, d, 32)
        buffers = {0: a.buffer, 1: b.buffer, 3: positions, 4: NOTHING, 5: d.blank}
        buffers[6] = np.zeros((5, 2), np.uint32)
        yield Case(f"rms_norm_mul_rope_f32_{target}", (3, 5, 2), buffers, {5: d.buffer},
                   push | {"rope": rope}, {0: False, 1: True}, absolute=1e-3 if target == "f32"
                   else 1e-2, relative=HALF, note=mode)  # fmt: skip


def state_spaces() -> Iterator[Case]:
    """Yields cases of selective scans, and of short convolutions of each channel."""
    for size, biased, gated in ((4, False, False), (3, False, True), (4, True, True)):
        random = generator(f"conv{size}")
        channels, tokens, samples = 40, 19, 2
        x = numbers(random, (samples, channels, tokens + size - 1))
        w, bias = numbers(random, (channels, size)), numbers(random, (channels,))
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), size, axis=2)
        y = np.einsum("sctk,ck->stc", windows, w.astype(float)) + bias * biased
        y = (y / (1 + np.exp(-y)) if gated else y).astype(np.float32)
        push = {"nb01": 4 * x.shape[2], "nb02": 4 * x[0].size, "nb11": 4 * size, "dst_nb0": 4}
        push |= {"dst_nb1": 4 * channels, "dst_nb2": 4 * channels * tokens, "nc": size}
        push |= {"ncs": x.shape[2], "nr": channels, "n_t": tokens, "n_s": samples}
        yield Case("ssm_conv_f32", (2, 2, samples), {0: x, 1: w, 2: bias, 3: y * 0}, {3: y}, push,
                   {0: 32, 1: 16, 2: biased, 3: gated}, absolute=1e-5,
                   note="bias " * biased + "gate" * gated)  # fmt: skip
    for name, lanes in itertools.product(("ssm_scan_f32", "ssm_scan_subgroup_f32"), (32, 64)):
        yield _scan(name, lanes)


def _scan(name: str, lanes: int) -> Case:
    random = generator("scan")
    state, width, heads, groups, tokens, samples = 128, 6, 4, 2, 5, 2
    s = numbers(random, (samples, heads, width, state))
    x = numbers(random, (samples, tokens, heads, width))
    dt = numbers(random, (samples, tokens, heads))
    a = -np.abs(numbers(random, (heads,)))
    b, c = (numbers(random, (samples, tokens, groups, state)) for _ in range(2))
    ids = np.array([1, 0], np.int32)
    step = np.logaddexp(dt.astype(float), 0)
    now, y = s[ids].astype(float), np.zeros(x.shape)
    wide = [np.repeat(array.astype(float), heads // groups, axis=2) for array in (b, c)]
    for t in range(tokens):
        decay = np.exp(step[:, t] * a)[..., None, None]
        now = now * decay + np.einsum("shd,shn->shdn", x[:, t] * step[:, t, :, None], wide[0][:, t])
        y[:, t] = np.einsum("shdn,shn->shd", now, wide[1][:, t])
    d = np.concatenate((y.ravel(), now.ravel())).astype(np.float32)
    push = {"nb02": 4 * width * state, "nb03": 4 * s[0].size, "nb12": 4 * heads * width}
    push |= {"nb13": 4 * x[0].size, "nb21": 4 * heads, "nb22": 4 * heads * tokens, "nb31": 4}
    push |= {"nb42": 4 * groups * state, "nb43": 4 * b[0].size, "nb52": 4 * groups * state}
    push |= {"nb53": 4 * c[0].size, "s_off": 4 * x.size, "n_head": heads, "d_head": width}
    push |= {"n_group": groups, "n_tok": tokens, "n_seq": samples, "K": 1}
    grid = (-(-heads * width * lanes // state), samples, 1)
    return Case(name, grid, {0: s, 1: x, 2: dt, 3: a, 4: b, 5: c, 6: ids, 7: d * 0}, {7: d},
                push, {0: state, 1: lanes}, lanes, absolute=1e-3,
                note=f"{lanes} lanes")  # fmt: skip


def linear_attention() -> Iterator[Case]:
    """Yields linear attention with a matrix state by head: RWKV 6 and 7, gated, delta rule."""
    size, heads, batches, tokens = 64, 2, 2, 3
    shape = (batches, tokens, heads, size)
    random = generator("linear")
    one = [numbers(random, shape, low=-1, high=1) for _ in range(3)]
    state = numbers(random, (batches, heads, size, size), low=-1, high=1)
    push = {"B": batches, "T": batches * tokens, "C": heads * size, "H": heads}
    grid = (batches * heads, 1, 1)

    def case(name: str, inputs: list[Array], y: Array, now: Array, **more: float) -> Case:
        d = np.concatenate((y.ravel(), now.ravel())).astype(np.float32)
        buffers = dict(enumerate([*inputs, state, d * 0]))
        return Case(name, grid, buffers, {len(inputs) + 1: d}, push | more, absolute=2e-4)

    k, v, r = one
    decay, bonus = numbers(random, shape, low=0, high=1), numbers(random, (heads, size))
    for name, inputs in (("rwkv_wkv6_f32", [k, v, r, bonus, decay]),
                         ("gated_linear_attn_f32", [k, v, r, decay])):  # fmt: skip
        now, y = state.astype(float), np.zeros(shape)
        for t in range(tokens):
            outer = np.einsum("bhi,bhj->bhij", k[:, t].astype(float), v[:, t].astype(float))
            seen = now + bonus[..., None] * outer
            now = now * decay[:, t, ..., None] + outer
            seen = seen if name == "rwkv_wkv6_f32" else 0.5 * now
            y[:, t] = np.einsum("bhi,bhij->bhj", r[:, t].astype(float), seen)
        yield case(name, inputs, y, now, **({} if "6" in name else {"scale": 0.5}))
    a, b = (numbers(random, shape, low=-0.1, high=0.1) for _ in range(2))
    now, y = state.astype(float), np.zeros(shape)
    for t in range(tokens):
        along = np.einsum("bhji,bhi->bhj", now, a[:, t].astype(float))
        now = now * decay[:, t, :, None, :] + np.einsum("bhj,bhi->bhji", v[:, t], k[:, t])
        now += np.einsum("bhj,bhi->bhji", along, b[:, t])
        y[:, t] = np.einsum("bhji,bhi->bhj", now, r[:, t].astype(float))
    yield case("rwkv_wkv7_f32", [r, decay, k, v, a, b], y, now)
    for (name, lanes), by_channel in itertools.product(
        (("gated_delta_net_f32", 8), ("gated_delta_net_f32_nocluster", 32),
         ("gated_delta_net_f32_shmem", 32)), (False, True)
    ):  # fmt: skip
        yield _delta(name, lanes, by_channel)


def _delta(name: str, lanes: int, by_channel: bool) -> Case:
    """
    Returns a case of the gated delta rule, whose state is (value, key) for each head. Gates differ
    by channel if `by_channel`.
    """
    random = generator(f"delta{by_channel}")
    size, heads, tokens, samples = 32, 2, 3, 2
    shape = (samples, tokens, heads, size)
    q, k, v = (numbers(random, shape, low=-0.5, high=0.5) for _ in range(3))
    g = numbers(random, shape if by_channel else shape[:3], low=-1, high=0)
    beta = numbers(random, shape[:3], low=0, high=1)
    state = numbers(random, (samples, heads, size, size), low=-1, high=1)
    now, y = state.astype(float), np.zeros(shape)
    for t in range(tokens):
        gate = np.exp(g[:, t].astype(float))
        now = now * (gate[:, :, None, :] if by_channel else gate[..., None, None])
        delta = (v[:, t] - np.einsum("shvk,shk->shv", now, k[:, t])) * beta[:, t, :, None]
        now = now + np.einsum("shv,shk->shvk", delta, k[:, t].astype(float))
        y[:, t] = 0.3 * np.einsum("shvk,shk->shv", now, q[:, t].astype(float))
    d = np.concatenate((y.ravel(), now.ravel())).astype(np.float32)
    push: dict[str, Any] = {"H": heads, "n_tokens": tokens, "n_seqs": samples, "s_off": y.size}
    push |= {f"s{kind}{n + 1}": size * (1, heads, heads * tokens)[n] for kind in "qv"
             for n in range(3)}  # fmt: skip
    push |= {"sb1": 1, "sb2": heads, "sb3": heads * tokens, "neq1": heads, "rq3": 1}
    push |= {"scale": 0.3, "K": 1}
    columns = 32 // lanes
    return Case(name, (heads, samples, size // columns),
                {0: q, 1: k, 2: v, 3: g, 4: beta, 5: state, 6: d * 0}, {6: d}, push,
                {0: size, 1: int(by_channel), 2: 32, 3: lanes}, absolute=1e-4,
                note="gates by channel" * by_channel)  # fmt: skip


FAMILIES = (rotations, norms_rotated, state_spaces, linear_attention)
