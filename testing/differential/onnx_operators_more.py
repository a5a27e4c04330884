"""Random nodes of ONNX's operators: windows, products, indices, images, quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.testing.differential.onnx_draws import TYPES, Draw, Operand
from xdsl_spirv.testing.differential.onnx_operators import record
from xdsl_spirv.testing.differential.onnx_references import NotComputed, tensor_type

# Windows


def window(d: Draw, rank: int, pool: bool = False) -> dict[str, Any]:
    """
    Returns random attributes of a window. It fits images of at least 8 elements in each dimension.
    """
    kernel = [d.number(1, 3) for _ in range(rank)]
    given: dict[str, Any] = {"kernel_shape": kernel}
    if d.chance(0.5):
        given["strides"] = [d.number(1, 3) for _ in range(rank)]
    if d.chance(0.3) and "dilations" in d.schema.attributes:
        given["dilations"] = [d.number(1, 2) for _ in range(rank)]
    way = d.pick(("none", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if way == "pads":
        given["pads"] = [d.number(0, k - 1) for k in kernel * 2]
    elif way != "none":
        given["auto_pad"] = way
        if pool and way.startswith("SAME"):
            given.pop("dilations", None)
            given["strides"] = [d.number(1, k) for k in kernel]
    if pool and d.chance(0.4) and "ceil_mode" in d.schema.attributes:
        given["ceil_mode"] = 1
    return given


def spatial(d: Draw, rank: int) -> list[int]:
    """
    Returns random sizes of an image's spatial dimensions. Dynamic sizes are large enough for the
    window.
    """
    if d.graph.open_sizes:
        d.graph.least_size = 7
        return [d.pick((11, 13, 17)) for _ in range(rank)]
    return [d.number(5, 9) for _ in range(rank)]


def _pool(d: Draw) -> None:
    rank = d.number(1, 3)
    given = window(d, rank, pool=True)
    x = d.values(0, (d.number(1, 2), d.number(1, 3), *spatial(d, rank)))
    outputs = 1
    if d.name == "MaxPool" and d.schema.since_version < 8 and d.dtype() != np.float32:
        raise NotComputed("no reference supports MaxPool of this type before opset 8")
    if d.name == "MaxPool" and d.schema.since_version >= 8:
        outputs = d.number(1, 2)
    if d.name == "LpPool" and (d.schema.since_version < 11 or d.dtype() == np.float64):
        raise NotComputed("LpPool is drawn only from opset 11 on, and not in f64")
    d.add(
        x,
        outputs=outputs,
        count_include_pad=(0, 1),
        storage_order=(0, 1) if outputs > 1 else None,
        p=(1, 2, 3),
        **given,
    )


def _conv(d: Draw) -> None:
    if d.graph.edges and d.dtype() == np.float64:
        raise NotComputed("onnx's evaluator skips products of padding with NaN or infinity")
    rank = d.number(1, 3) if d.name == "Conv" else d.number(1, 2)
    given = window(d, rank)
    groups, per_group, out = d.pick((1, 1, 2, 3)), d.number(1, 3), d.number(1, 3)
    x = d.values(0, (d.number(1, 2), groups * per_group, *spatial(d, rank)))
    transposed = d.name == "ConvTranspose"
    if transposed and "SAME" in given.get("auto_pad", ""):
        given["strides"] = given["kernel_shape"]
    shape = (groups * per_group, out) if transposed else (groups * out, per_group)
    w = d.values(1, (*shape, *given["kernel_shape"]), *((-4, 4) if transposed else ()))
    bias = [d.values(2, (groups * out,))] if d.chance(0.5) else []
    if transposed and "strides" in given and "auto_pad" not in given and d.chance(0.5):
        given["output_padding"] = [d.number(0, s - 1) for s in given["strides"]]
    if d.chance(0.3):
        del given["kernel_shape"]
    d.add(x, w, *bias, group=groups, **given)


def _global(d: Draw) -> None:
    by_evaluator = d.name == "GlobalMaxPool" and (d.graph.edges or d.dtype() == np.float64)
    rank = 2 if by_evaluator else d.number(1, 3)
    d.add(d.values(0, (d.size(), d.size(), *spatial(d, rank))), p=(1, 2, 3))


record("MaxPool", _pool, "exact")
record("AveragePool LpPool", _pool, "sum")
record("Conv ConvTranspose", _conv, "sum")
record("GlobalMaxPool", _global, "exact")
record("GlobalAveragePool GlobalLpPool", _global, "sum")


# Products


def products(d: Draw, batch: bool = True) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns random shapes of two matrices or stacks of matrices for a product."""
    m, k, n = d.size(), d.size() or 1, d.size()
    stack = tuple(d.size() for _ in range(d.number(0, 2))) if batch else ()
    a, b = (*stack, m, k), (*d.narrowed(stack), k, n)
    return (a[-1:] if batch and d.chance(0.1) else a), (b[-2:-1] if batch and d.chance(0.1) else b)


def _matmul(d: Draw) -> None:
    a, b = products(d)
    d.add(d.values(0, a, *_small(d)), d.values(1, b, *_small(d)))


def _small(d: Draw) -> tuple[Any, Any]:
    return (-9, 9) if d.dtype().kind in "iu" else (None, None)


def _gemm(d: Draw) -> None:
    a, b = products(d, batch=False)
    m, n = a[0], b[1]
    ta, tb = d.number(0, 1), d.number(0, 1)
    shapes = a[::-1] if ta else a, b[::-1] if tb else b
    if d.dtype().kind in "iu":
        raise NotComputed("Gemm is not drawn with integers")
    third = d.values(2, d.pick([(n,), (m, n), (1, n), (m, 1), (1,), ()]))
    has_third = d.chance(0.7) or d.schema.since_version < 11
    d.add(
        d.values(0, shapes[0]),
        d.values(1, shapes[1]),
        third if has_third else None,
        transA=ta,
        transB=tb,
        alpha=(1.0, 0.5, -2.0, 0.0),
        beta=(1.0, 0.5, 0.0),
    )


EQUATIONS = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "ij,ij->",
    "ij->ji",
    "ij->j",
    "bhid,bhjd->bhij",
    "i,j->ij",
    "ij,jk",
    "...ij,...jk->...ik",
    "ii->i",
    "ii",
    "bi,ij,bj->b",
    "ij,kj->ki",
    "bij,j->bi",
)


def _einsum(d: Draw) -> None:
    equation = d.pick(EQUATIONS)
    sizes = {c: d.size() or 1 for c in "abcdefghijk"}
    stack = [d.size() or 1 for _ in range(d.number(0, 2))]
    operands: list[Operand] = []
    for term in equation.split("->")[0].split(","):
        shape = [*(stack if "..." in term else []), *(sizes[c] for c in term.replace("...", ""))]
        operands.append(d.values(0, shape, *_small(d)))
    d.add(*operands, equation=equation)


record("MatMul", _matmul, "sum")
record("Gemm", _gemm, "sum")
record("Einsum", _einsum, "sum")
record("Det", lambda d: d.add(d.values(0, (*d.shape(0, 2), *[d.number(1, 4)] * 2))), "sum")


# Indices


def indices(d: Draw, position: int, shape: Any, size: int, dtype: Any = None) -> Operand:
    """
    Returns random indices into a dimension of `size` elements. Some are negative, counted from the
    end.
    """
    if not size:
        raise NotComputed("an empty dimension cannot be indexed")
    kind = np.dtype(dtype) if dtype is not None else d.dtype(position)
    low = -size if d.schema.since_version >= 11 else 0
    return d.values(position, shape, low, size - 1, kind)


def _gather(d: Draw) -> None:
    x = d.main(least=1)
    axis = d.axis(x.rank)
    axis = axis % x.rank if d.schema.since_version < 11 else axis
    d.add(x, indices(d, 1, d.shape(0, 2), x.shape[axis]), axis=axis)


def _gather_elements(d: Draw) -> None:
    x = d.main(least=1)
    axis = d.axis(x.rank)
    shape = [
        d.size() if i == axis % x.rank else (d.number(1, s) if s and d.chance(0.3) else s)
        for i, s in enumerate(x.shape)
    ]
    d.add(x, indices(d, 1, shape, x.shape[axis]), axis=axis)


def _places(d: Draw, outer: Any, sizes: Any) -> Operand:
    columns = [indices(d, 1, outer, s, np.int64).array for s in sizes]
    table = np.stack(columns, -1) if columns else np.zeros((*outer, 0), np.int64)
    return Operand(table, lambda shape: table)


def _gather_nd(d: Draw) -> None:
    x = d.main(least=1)
    batch = d.number(0, min(1, x.rank - 1)) if d.schema.since_version >= 12 else 0
    depth = d.number(1, x.rank - batch)
    outer = (*x.shape[:batch], *d.shape(1, 2))
    d.add(x, _places(d, outer, x.shape[batch : batch + depth]), batch_dims=batch)


def _combinations(d: Draw) -> tuple[str, ...]:
    """Returns the reductions of a scatter for which all references give the same results."""
    return ("none", "add", "mul", *(() if d.graph.edges else ("max", "min")))


def _scatter_elements(d: Draw) -> None:
    x = d.main(least=1)
    axis = d.axis(x.rank)
    size = x.shape[axis]
    if not size:
        raise NotComputed("an empty dimension cannot be indexed")
    new = d.schema.since_version >= 16
    reduction = d.pick(_combinations(d)) if new else None
    shape = [d.number(1, s) if s and d.chance(0.4) else s for s in x.shape]
    rng = np.random.default_rng(d.number(0, 1 << 30))
    # Without a reduction, no position is written twice.
    places = rng.permuted(
        np.broadcast_to(
            _along_axis(np.arange(size), axis, x.rank),
            [size if i == axis % x.rank else s for i, s in enumerate(shape)],
        ),
        axis=axis,
    )
    places = np.take(places, range(shape[axis]), axis)
    if reduction not in (None, "none"):
        places = rng.integers(0, size, shape)
    kind = d.pick((np.int32, np.int64))
    places = np.where(rng.random(shape) < 0.3, places - size, places).astype(kind)
    d.add(
        x,
        Operand(places, lambda _: places),
        d.values(2, shape),
        axis=axis,
        reduction=reduction if reduction != "none" else None,
    )


def _along_axis(numbers: Any, axis: int, rank: int) -> Any:
    return numbers.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def _scatter_nd(d: Draw) -> None:
    x = d.main(least=1, most=3)
    depth = d.number(1, x.rank)
    if 0 in x.shape:
        raise NotComputed("an empty dimension cannot be indexed")
    new = d.schema.since_version >= 16
    reduction = d.pick(_combinations(d)) if new else "none"
    total = int(np.prod(x.shape[:depth]))
    count = d.number(1, total)
    chosen = d.rng.choice(total, count, replace=reduction != "none")
    places = np.stack(np.unravel_index(chosen, x.shape[:depth]), -1).astype(np.int64)
    if d.chance(0.3):
        places = places - np.array(x.shape[:depth])
    d.add(
        x,
        Operand(places, lambda _: places),
        d.values(2, (count, *x.shape[depth:])),
        reduction=(reduction if reduction != "none" else None),
    )


def _top_k(d: Draw) -> None:
    x = d.main(least=1)
    axis = d.axis(x.rank)
    old = d.schema.since_version < 11
    k = np.array([d.number(0 if d.chance(0.1) else min(1, x.shape[axis]), x.shape[axis])])
    d.add(
        x,
        outputs=2,
        axis=axis % x.rank if old else axis,
        largest=(0, 1),
        sorted=1,
        **({"K": k} if d.schema.since_version >= 10 else {"k": int(k[0])}),
    )


def _one_hot(d: Draw) -> None:
    depth = d.number(1, 5)
    kind = d.dtype(0)
    low = 0 if kind.kind == "u" else -depth - 1
    count = np.array(depth).astype(d.dtype(1))
    whole = np.dtype(kind if kind.kind in "iu" else np.int32)
    places = d.values(0, d.shape(0, 3), low, depth, whole)
    x = Operand(places.array.astype(kind), lambda shape: places.remake(shape).astype(kind))
    d.add(x, d.graph.constant(count), d.values(2, (2,)), axis=(d.number(-x.rank - 1, x.rank),))


def _reverse_sequence(d: Draw) -> None:
    x = d.main(least=2)
    batch = d.number(0, 1)
    length = d.values(1, (x.shape[batch],), min(1, x.shape[1 - batch]), x.shape[1 - batch])
    d.add(x, length, batch_axis=batch, time_axis=1 - batch)


def _compress(d: Draw) -> None:
    x = d.main(least=1)
    if d.graph.open_sizes:
        raise NotComputed("a condition of Compress may be longer than a dynamic dimension")
    axis = d.axis(x.rank) if d.chance(0.7) else None
    axis = axis % x.rank if axis is not None and d.schema.since_version < 11 else axis
    count = int(np.prod(x.shape)) if axis is None else x.shape[axis]
    d.add(x, d.graph.constant(d.rng.random(max(1, d.number(0, count))) < 0.5), axis=axis)


def _trilu(d: Draw) -> None:
    x = d.main(least=2)
    k = np.array(d.number(-3, 3)) if d.chance(0.6) else None
    d.add(x, k, upper=(0, 1))


def _eye_like(d: Draw) -> None:
    to = d.pick([t for t in TYPES.values() if t.itemsize > 1 and t.name != "bfloat16"])
    d.add(d.main(2, 2), k=(d.number(-3, 3),), dtype=(tensor_type(np.empty(0, to)),))


def _constant_input(d: Draw, **named: Any) -> None:
    """Turns an input into a constant if its contents determine a shape."""
    x = d.values(0, d.shape(1, 3), -3, 3)
    d.add(d.graph.constant(x.array), **named)


record("Gather", _gather, "exact")
record("GatherElements", _gather_elements, "exact")
record("GatherND", _gather_nd, "exact")
record("ScatterElements", _scatter_elements)
record("Scatter", _scatter_elements)
record("ScatterND", _scatter_nd)
record("TopK", _top_k, "exact")
record("OneHot", _one_hot, chains=False)
record("ReverseSequence", _reverse_sequence, "exact")
record("Compress", _compress, "exact")
record("Trilu", _trilu, "exact")
record("EyeLike", _eye_like, "exact")
record("NonZero", _constant_input, "exact", chains=False)
record("Unique", lambda d: _constant_input(d, sorted=(0, 1), outputs=4), "exact", chains=False)


# Images

COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "tf_crop_and_resize",
)


MIXED = [np.dtype(name) for name in ("float32", "float16", "int32", "int8", "uint8")]
"""Element types that onnxruntime allows to differ between operands."""


def _resize(d: Draw) -> None:
    version = d.schema.since_version
    mode = d.pick(("nearest", "linear", "cubic") if version >= 11 else ("nearest", "linear"))
    rank = 2 if mode == "cubic" or d.chance(0.6) else d.pick((1, 3)) if version >= 11 else 2
    if mode != "nearest" and d.dtype() not in MIXED:
        raise NotComputed("the only reference for Resize of this type rounds differently")
    factors = (1.0, 2.0, 3.0, 0.5, 1.5, 0.6, 2.7)
    if d.dtype() not in MIXED:
        # onnx's evaluator rounds positions in f64, onnxruntime in f32.
        factors = (1.0, 2.0, 0.5)
    most = 99 if mode != "nearest" else 1 << 50
    bounds = {"low": -most, "high": most} if d.dtype().kind in "iu" else {}
    x = d.values(0, (d.number(1, 2), d.number(1, 2), *spatial(d, rank)), **bounds)
    if mode == "cubic" and version < 11:
        raise NotComputed("the mode cubic of Resize needs opset 11")
    way = d.pick(COORDINATES)
    scales = [1.0, 1.0] + [float(d.pick(factors)) for _ in range(rank)]
    if way == "half_pixel_symmetric" and (mode == "nearest" or d.dtype().kind in "iu"):
        raise NotComputed("rounding errors of Resize may select an adjacent element")
    if way == "align_corners" and d.dtype().kind in "iu":
        scales = [float(max(1, round(s))) for s in scales]
    if version < 11:
        if d.name == "Upsample":
            scales = [max(1.0, s) for s in scales]
        given = np.array(scales, np.float32)
        named = {"scales": given} if "scales" in d.schema.attributes else {}
        d.add(x, *([] if named else [given]), mode=mode, **named)
        return
    named: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": way}
    roi = None
    if way == "tf_crop_and_resize":
        roi = np.array([0.1] * (rank + 2) + [0.8] * (rank + 2), np.float32)
        whole = np.array(scales) == 1
        roi[: rank + 2][whole], roi[rank + 2 :][whole] = 0, 1
        named["extrapolation_value"] = 0.5
        if d.dtype() != np.float32:
            raise NotComputed("the generator makes Resize with a region only in f32")
    if mode == "nearest":
        named["nearest_mode"] = ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
    if mode == "cubic":
        named |= {"cubic_coeff_a": (-0.75, -0.5), "exclude_outside": (0, 1)}
    may_filter = mode != "nearest" and version >= 18 and d.dtype() != np.int8
    if may_filter and way == "half_pixel" and d.chance(0.3):
        named["antialias"] = 1
    sizes = [int(s * f) for s, f in zip(x.shape, scales, strict=True)]
    if d.chance(0.5):
        d.add(x, roi, np.array(scales, np.float32), **named)
    else:
        policy = ("stretch", "not_larger", "not_smaller") if way == "half_pixel" else None
        d.add(x, roi, None, np.array(sizes), **named, keep_aspect_ratio_policy=policy)


def _grid_sample(d: Draw) -> None:
    is_float = d.dtype().kind == "f"
    rank = 2 if d.schema.since_version < 20 else d.number(2, 3)
    batch = d.number(1, 2)
    x = d.values(0, (batch, d.number(1, 2), *spatial(d, rank)))
    modes = ("bilinear", "nearest") if d.schema.since_version < 20 else ("linear", "nearest")
    grid = d.values(1, (batch, *[d.number(1, 4) for _ in range(rank)], rank), -1.3, 1.3, np.float32)
    if rank == 2:
        modes += ("cubic" if d.schema.since_version >= 20 else "bicubic",)
    d.add(
        x,
        grid,
        mode=d.pick(modes if is_float else ("nearest",)),
        align_corners=(0, 1),
        padding_mode=("zeros", "border", "reflection"),
    )


def _roi_align(d: Draw) -> None:
    x = d.values(0, (2, 2, *spatial(d, 2)))
    count = d.number(1, 3)
    corners = d.rng.random((count, 4)) * 4
    corners[:, 2:] += corners[:, :2] + 0.5
    rois = corners.astype(d.dtype())
    d.add(
        x,
        Operand(rois, lambda _: rois),
        d.values(2, (count,), 0, 1, np.int64),
        mode=("max", "avg"),
        sampling_ratio=(0, 1, 2),
        output_height=(1, 2),
        output_width=(1, 3),
        spatial_scale=(1.0, 0.5),
        coordinate_transformation_mode=("half_pixel",),
    )


def _affine_grid(d: Draw) -> None:
    rank = d.number(2, 3)
    corners = d.number(0, 1)
    sizes = np.array([d.number(1, 2), 2, *[d.number(1 + corners, 4) for _ in range(rank)]])
    d.add(d.values(0, (int(sizes[0]), rank, rank + 1)), sizes, align_corners=corners)


def _col2im(d: Draw) -> None:
    image, block = [d.number(3, 6), d.number(3, 6)], [d.number(1, 3), d.number(1, 2)]
    count = [i - b + 1 for i, b in zip(image, block, strict=True)]
    shape = (d.number(1, 2), d.number(1, 2) * block[0] * block[1], count[0] * count[1])
    d.add(d.values(0, shape), np.array(image), np.array(block))


def _max_unpool(d: Draw) -> None:
    shape = (1, d.number(1, 2), 2, 3)
    total = 4 * 6
    places = np.stack([d.rng.permutation(total)[:6].reshape(2, 3) for _ in range(shape[1])])
    at = (places + total * np.arange(shape[1])[:, None, None])[None].astype(np.int64)
    d.add(d.values(0, shape), Operand(at, lambda _: at), kernel_shape=[2, 2], strides=[2, 2])


def _deform_conv(d: Draw) -> None:
    x = d.values(0, (1, 2, 6, 6))
    d.add(
        x,
        d.values(1, (3, 2, 3, 3)),
        d.values(2, (1, 18, 4, 4), -1, 1),
        *([d.values(3, (3,))] if d.chance(0.5) else []),
        kernel_shape=[3, 3],
    )


record("Resize Upsample", _resize, "step")
record("GridSample", _grid_sample, "sum")
record("RoiAlign", _roi_align, "sum", chains=False)
record("MaxRoiPool", lambda d: _max_roi(d), "exact", chains=False)
record("AffineGrid", _affine_grid, "sum", chains=False)
record("Col2Im", _col2im, "sum", chains=False)
record("MaxUnpool", _max_unpool, "exact", chains=False)
record("DeformConv", _deform_conv, "sum", chains=False)


def _max_roi(d: Draw) -> None:
    rois = np.array([[0, 0, 0, 3, 3], [0, 1, 1, 4, 5]], np.float32).astype(d.dtype())
    d.add(d.values(0, (1, 2, 6, 7)), Operand(rois, lambda _: rois), pooled_shape=[2, 2])
