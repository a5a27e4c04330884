"""Launches on windows of images: im2col, convolutions, pools, resizing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ggml.launch import Address, Array, Case
from ggml.tensors import TYPES, Tensor, cover, fast_division, generator, numbers

HALF = 2e-3


def patches(
    image: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    fill: float = 0.0,
) -> Array:
    """Returns the windows of an image with padding. Shape: (..., output axes, kernel axes)."""
    count = len(kernel)
    around = [(0, 0)] * (image.ndim - count) + [(p, p) for p in pads]
    padded = np.pad(image, around, constant_values=fill)
    indices: list[Array] = []
    sizes = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(
        image.shape[-count:], pads, dilations, kernel, strides, strict=True)]  # fmt: skip
    for axis in range(count):
        place = np.arange(sizes[axis])[:, None] * strides[axis]
        place = place + np.arange(kernel[axis]) * dilations[axis]
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = place.shape
        indices.append(place.reshape(shape))
    return padded[(..., *indices)]


def columns() -> Iterator[Case]:
    """Yields im2col cases in two and three dimensions, with buffers by binding and by address."""
    for target, way in itertools.product(("f32", "f16"), ("", "_bda")):
        random = generator(f"columns{target}")
        image = numbers(random, (2, 3, 11, 13))
        strides, pads, dilations, kernel = (2, 1), (1, 2), (1, 2), (3, 2)
        windows = patches(image, kernel, strides, pads, dilations)
        d = windows.transpose(0, 2, 3, 1, 4, 5)
        oh, ow = d.shape[1:3]
        d = np.ascontiguousarray(d).astype(TYPES[target])
        push: dict[str, Any] = {"batch_offset": 3 * 143, "offset_delta": 143, "IC": 3, "IW": 13}
        push |= {"IH": 11, "OW": ow, "OH": oh, "KW": 2, "KH": 3, "OH_batch": 2 * oh, "CHW": 18}
        push |= {"s0": 1, "s1": 2, "p0": 2, "p1": 1, "d0": 2, "d1": 1, "batch_IC": 6}
        suffix = "_f32" + "_f16" * (target == "f16") + way
        push["dst_addr"] = Address(1) if way else [0, 0]
        yield Case(f"im2col{suffix}", (1, ow, 2 * oh), {0: image, 1: d * 0}, {1: d}, push,
                   {0: 32}, relative=HALF)  # fmt: skip
        yield _columns_3d(suffix, target)


def _columns_3d(suffix: str, target: str) -> Case:
    image = numbers(generator("3d"), (2, 3, 5, 6, 7))
    strides, pads, dilations, kernel = (1, 2, 1), (1, 0, 2), (2, 1, 1), (2, 3, 2)
    windows = patches(image, kernel, strides, pads, dilations)
    d = np.ascontiguousarray(windows.transpose(0, 2, 3, 4, 1, 5, 6, 7)).astype(TYPES[target])
    _, od, oh, ow, *_ = d.shape
    window = 3 * 12
    push: dict[str, Any] = {
        "nb10": 1,
        "nb11": 7,
        "nb12": 42,
        "nb13": 210,
        "s0": 1,
        "s1": 2,
        "s2": 1,
        "p0": 2,
    }
    push |= {"p1": 0, "p2": 1, "d0": 1, "d1": 1, "d2": 2, "IW": 7, "IH": 6, "ID": 5, "IC": 3}
    push |= {"KW": 2, "OH": oh, "KD_KH_KW": 12, "KH_KW": 6, "IC_KD_KH_KW": window}
    push |= {"N_OD_OH": 2 * od * oh, "OD_OH": od * oh, "misalign_offsets": 0}
    push |= {"OD_OH_OW_IC_KD_KH_KW": od * oh * ow * window, "OH_OW_IC_KD_KH_KW": oh * ow * window}
    push |= {"OW_IC_KD_KH_KW": ow * window}
    grid = (1, ow, 2 * od * oh)
    push["dst_addr"] = Address(1) if "bda" in suffix else [0, 0]
    return Case(f"im2col_3d{suffix}", grid, {0: image, 1: d * 0}, {1: d}, push, {0: 512},
                relative=HALF)  # fmt: skip


def pools() -> Iterator[Case]:
    """Yields max and mean pools, with windows that reach over the border."""
    for kind in (0, 1):
        random = generator(f"pools{kind}")
        line = numbers(random, (6, 50))
        windows = patches(line, (4,), (3,), (2,), (1,), np.nan)
        with_edges = np.nanmax(windows, -1) if kind == 0 else np.nanmean(windows, -1)
        d = with_edges.astype(np.float32)
        push = {"IL": 50, "OL": d.shape[1], "OC": 6, "pelements": d.size, "op": kind}
        yield Case("pool1d_f32", cover(d.size), {0: line, 1: d * 0}, {1: d},
                   push | {"k0": 4, "s0": 3, "p0": 2}, note=("max", "mean")[kind])  # fmt: skip
        image = numbers(random, (2, 3, 17, 19))
        # ggml's k0, s0, p0 belong to the innermost axis.
        windows = patches(image, (3, 4), (2, 3), (1, 2), (1, 1), np.nan)
        flat = windows.reshape(*windows.shape[:4], 12)
        d = np.nanmax(flat, -1) if kind == 0 else np.nansum(flat, -1) / 12
        d = d.astype(np.float32)
        push = {"IW": 19, "IH": 17, "OW": d.shape[3], "OH": d.shape[2], "OC": 3, "op": kind}
        push |= {"pelements": d.size, "k0": 3, "k1": 4, "s0": 2, "s1": 3, "p0": 1, "p1": 2}
        yield Case("pool2d_f32", cover(d.size), {0: image, 1: d * 0}, {1: d}, push,
                   note=("max", "mean")[kind])  # fmt: skip


def lines() -> Iterator[Case]:
    """Yields transposed 1D convolutions, col2im steps and snake activations."""
    random = generator("lines")
    for stride, size, length in ((2, 5, 9), (3, 4, 140)):
        kernel, line = numbers(random, (3, 2, size)), numbers(random, (3, length))
        d = np.zeros((2, (length - 1) * stride + size))
        for place in range(length):
            window = d[:, place * stride : place * stride + size]
            window += np.einsum("iok,i->ok", kernel.astype(float), line[:, place].astype(float))
        push = {"Cout": 2, "Cin": 3, "K": size, "L": length, "KL": d.shape[1], "nb01": size}
        push |= {"nb02": 2 * size, "nb11": length, "nb1": d.shape[1], "s0": stride}
        wanted = d.astype(np.float32)
        yield Case("conv_transpose_1d_f32", (2, 1, 1), {0: kernel, 1: line, 2: wanted * 0},
                   {2: wanted}, push, absolute=1e-5)  # fmt: skip
    for type in ("f32", "f16", "bf16"):
        a = numbers(random, (40, 3 * 5), type)
        d = np.zeros((3, 39 * 2 + 5))
        for place in range(40):
            d[:, 2 * place : 2 * place + 5] += a[place].astype(float).reshape(3, 5)
        wanted = np.ascontiguousarray(d[:, 1:-1]).astype(TYPES[type])
        push = {"T_out": wanted.shape[1], "OC": 3, "K_OC": 15, "T_in": 40, "K": 5, "stride": 2}
        yield Case(f"col2im_1d_{type}", (1, 3, 1), {0: a, 1: wanted * 0}, {1: wanted},
                   push | {"p0": 1}, relative=1e-5 if type == "f32" else 1e-2)  # fmt: skip
        x, a = numbers(random, (3, 300), type), numbers(random, (3,))
        b = numbers(random, (3,))
        y = x.astype(float) + np.sin(a[:, None] * x.astype(float)) ** 2 * b[:, None]
        wanted = y.astype(TYPES[type])
        yield Case(f"snake_{type}", (2, 3, 1), {0: x, 1: a, 2: b, 3: wanted * 0}, {3: wanted},
                   {"ne0": 300, "ne1": 3}, relative=1e-5 if type == "f32" else 1e-2)  # fmt: skip


def by_channel() -> Iterator[Case]:
    """Yields depthwise convolutions, with channels outermost or innermost."""
    for layout, kind in itertools.product(("whcn", "cwhn"), ("f32", "f16_f32")):
        random = generator(layout + kind)
        image = numbers(random, (2, 3, 9, 11))
        kernel = numbers(random, (3, 3, 2), kind.split("_")[0])
        windows = patches(image, (3, 2), (1, 2), (1, 2), (2, 1))
        d = np.einsum("ncyxkl,ckl->ncyx", windows.astype(float), kernel.astype(float))
        d = d.astype(np.float32)
        push = {"ne": d.size, "batches": 2, "channels": 3, "dst_w": d.shape[3]}
        push |= {"dst_h": d.shape[2], "src_w": 11, "src_h": 9, "knl_w": 2, "knl_h": 3}
        push |= {"stride_x": 2, "stride_y": 1, "pad_x": 2, "pad_y": 1, "dilation_x": 1}
        data = (kernel, image, d)
        if layout == "cwhn":
            data = (kernel.transpose(1, 2, 0), image.transpose(0, 2, 3, 1), d.transpose(0, 2, 3, 1))
        kernel, image, d = (np.ascontiguousarray(array) for array in data)
        yield Case(f"conv2d_dw_{layout}_{kind}", cover(d.size), {0: kernel, 1: image, 2: d * 0},
                   {2: d}, push | {"dilation_y": 2})  # fmt: skip


def convolutions() -> Iterator[Case]:
    """Yields convolutions as matrix products: 2D and 3D, transposed, every tiling."""
    for kind, way in itertools.product(("f32", "f16_f32"), ("", "_unroll", "_cm1", "_cm2")):
        for collective in (0, 1) if "cm" not in way else (0,):
            yield _convolution(kind, way, collective, transposed=False)
        yield _convolution(kind, way, 0, transposed=True)
        yield _convolution_3d(kind, way)


def _blocks(way: str) -> tuple[list[int], list[int], dict[str, float]]:
    if way == "_cm2":
        return [256, 64, 32, 32, 4], [1, 16, 16], {"relative": 1e-2, "absolute": 3e-2}
    if way == "_cm1":
        return [256, 64, 32, 32, 4], [1, 16, 16], {"relative": 1e-2, "absolute": 3e-2}
    return [128, 64, 32, 32, 4], [0], {"absolute": 1e-4}


def _convolution(kind: str, way: str, collective: int, *, transposed: bool) -> Case:
    random = generator(f"conv{kind}{transposed}")
    image = numbers(random, (2, 3, 9, 11))
    strides, pads, dilations = (2, 1), (1, 2), (1, 2)
    kernel = numbers(random, (3, 70, 3, 2) if transposed else (70, 3, 3, 2), kind.split("_")[0])
    if transposed:
        strides, pads, dilations = (2, 2), (0, 0), (1, 1)
        d = np.zeros((2, 70, 8 * 2 + 3, 10 * 2 + 2))
        for y, x in np.ndindex(9, 11):
            window = d[:, :, 2 * y : 2 * y + 3, 2 * x : 2 * x + 2]
            window += np.einsum("ni,iokl->nokl", image[:, :, y, x].astype(float), kernel)
    else:
        windows = patches(image, (3, 2), strides, pads, dilations)
        d = np.einsum("niyxkl,oikl->noyx", windows.astype(float), kernel.astype(float))
    d = d.astype(np.float32)
    k, i, o = Tensor(kernel), Tensor(image), Tensor(d)
    push = {"Cout": 70, "Cin": 3, "N": 2, "W": 11, "H": 9, "OW": o.ne[0], "OH": o.ne[1]}
    push |= {f"nb0{n}": k.nb[n] for n in (1, 2, 3)} | {f"nb1{n}": i.nb[n] for n in (1, 2, 3)}
    push |= {f"nb{n}": o.nb[n] for n in (1, 2, 3)}
    push["OWmp"], push["OWL"] = fast_division(o.ne[0])
    push["OWOHmp"], push["OWOHL"] = fast_division(o.ne[0] * o.ne[1])
    first, last, tolerances = _blocks(way)
    constants = [*first, collective, 8 if "cm" in way else 4, strides[1], strides[0], pads[1]]
    constants += [pads[0], dilations[1], dilations[0], 2, 3, 0, *last]
    name = f"{'conv_transpose_2d' if transposed else 'conv2d'}_{kind}{way}"
    return Case(name, (2, -(-d[:, 0].size // 32), 1), {0: kernel, 1: image, 2: d * 0}, {2: d},
                push, dict(enumerate(constants)), **tolerances,
                note="indices shared by shuffles" * collective)  # fmt: skip


def _convolution_3d(kind: str, way: str) -> Case:
    random = generator(f"conv3d{kind}")
    image = numbers(random, (2, 3, 5, 6, 7))
    kernel = numbers(random, (70, 3, 2, 3, 2), kind.split("_")[0])
    windows = patches(image, (2, 3, 2), (1, 2, 1), (1, 0, 2), (2, 1, 1))
    d = np.einsum("nizyxjkl,oijkl->nozyx", windows.astype(float), kernel.astype(float))
    d = d.astype(np.float32)
    _, _, od, oh, ow = d.shape
    push = {"OC": 70, "IC": 3, "N": 2, "IW": 7, "IH": 6, "ID": 5, "OW": ow, "OH": oh, "OD": od}
    push |= {"nb01": 2, "nb02": 6, "nb03": 12, "nb11": 7, "nb12": 42, "nb13": 210}
    push |= {"nb1": ow, "nb2": ow * oh, "nb3": ow * oh * od}
    for name, size in (("OW", ow), ("OWOH", ow * oh), ("OWOHOD", ow * oh * od)):
        push[f"{name}mp"], push[f"{name}L"] = fast_division(size)
    first, last, tolerances = _blocks(way)
    constants = [*first, 8 if "cm" in way else 4, 1, 2, 1, 2, 0, 1, 1, 1, 2, 2, 3, 2, 0, *last]
    return Case(f"conv3d_{kind}{way}", (2, -(-d[:, 0].size // 32), 1),
                {0: kernel, 1: image, 2: d * 0}, {2: d}, push, dict(enumerate(constants)),
                **tolerances)  # fmt: skip


def sizes() -> Iterator[Case]:
    """Yields image resizing: nearest, linear, cubic, linear with antialiasing."""
    for mode, (height, width), aligned in itertools.product(
        (0, 1, 2, 513), ((13, 22), (5, 4)), (False, True)
    ):
        if mode in (0, 513) and aligned:
            continue
        image = numbers(generator("sizes"), (2, 3, 7, 9))
        factors, offset = [width / 9, height / 7, 1.0, 1.0], 0.5
        if aligned:
            factors, offset = [(width - 1) / 8, (height - 1) / 6, 1.0, 1.0], 0.0
        rows = _weights(mode, 7, height, factors[1], offset)
        across = _weights(mode, 9, width, factors[0], offset)
        d = np.einsum("ya,ncab,xb->ncyx", rows, image.astype(float), across).astype(np.float32)
        push = {"ne": d.size, "a_offset": 0, "d_offset": 0, "ne00": 9, "ne01": 7, "nb00": 1}
        push |= {"nb01": 9, "nb02": 63, "nb03": 189, "ne10": width, "ne11": height, "ne12": 3}
        push |= {"ne13": 2} | {f"sf{n}": factor for n, factor in enumerate(factors)}
        yield Case("upscale_f32", cover(d.size), {0: image, 1: d * 0}, {1: d},
                   push | {"pixel_offset": offset}, {0: mode}, absolute=1e-4,
                   note=f"mode {mode}, {height} x {width}" + ", corners" * aligned)  # fmt: skip


def _weights(mode: int, before: int, after: int, factor: float, offset: float) -> Array:
    """
    Returns the matrix (outputs x inputs) that resizes an axis from `before` to `after` elements.
    """
    weights = np.zeros((after, before))
    factor = float(np.float32(factor))
    for place in range(after):
        centre = (place + offset) / factor - offset
        low, part = int(np.floor(centre)), centre - np.floor(centre)
        if mode == 0:
            weights[place, int(place / factor)] = 1
        elif mode == 1:
            weights[place, max(low, 0)] += 1 - part
            weights[place, min(low + 1, before - 1)] += part
        elif mode == 2:
            for step, distance in ((-1, 1 + part), (0, part), (1, 1 - part), (2, 2 - part)):
                near = distance <= 1
                cubic = (1.25, -2.25, 0, 1) if near else (-0.75, 3.75, -6, 3)
                value = np.polyval(cubic, distance)
                weights[place, min(max(low + step, 0), before - 1)] += value
        else:
            reach = max(1.0, 1 / factor)
            middle = (place + offset) / factor
            first, last = (
                max(int(middle - reach + offset), 0),
                min(int(middle + reach + offset), before),
            )
            for source in range(first, last):
                distance = abs(source - middle + offset) / reach
                weights[place, source] = max(1 - distance, 0)
            weights[place] /= weights[place].sum()
    return weights


FAMILIES = (columns, pools, lines, by_channel, convolutions, sizes)
