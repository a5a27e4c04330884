"""Launches of ggml's matrix products: with vectors, with matrices, in all formats, with experts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ggml.formats import FORMATS, PLAIN, QUANTIZED, random_matrix
from ggml.launch import Array, Case
from ggml.quants import bytes_of_dots
from ggml.tensors import generator

DOTS = ("q2_0", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
        "mxfp4")  # fmt: skip
"""Formats that ggml multiplies with int8 by packed dot products."""

EXPERTS = 5
KINDS = {"f32": np.float32, "f16": np.float16}


def bound(a: Array, b: Array, precision: float) -> float:
    """
    Returns an absolute tolerance for sums of products of `a` and `b`, from the relative error
    `precision`.
    """
    return precision * float((np.abs(a) @ np.abs(b).T).max()) + 1e-6


def vectors() -> Iterator[Case]:
    """Yields products of a matrix in each format by one or three vectors of f32 or f16."""
    for (name, format), kind, way in itertools.product(
        FORMATS.items(), ("f32", "f16"), ("", "_subgroup", "_subgroup_no_shmem")
    ):
        random = generator("vectors" + name)
        columns, rows = 3 * format.size if format.size > 1 else 206, 7
        columns = max(columns, 256) if format.size > 32 else columns
        blocks, matrix = random_matrix(name, random, rows, columns)
        size = 32 if way == "_subgroup_no_shmem" else 64
        for count, per_group in ((1, 1), (3, 2)):
            b = random.uniform(-1, 1, (count, columns)).astype(KINDS[kind])
            d = (b.astype(float) @ matrix.T).astype(np.float32)
            yield _vectors(
                f"mul_mat_vec_{name}_{kind}_f32{way}",
                (columns, rows, count, per_group, size),
                (blocks, b, d),
                bound(matrix, b.astype(float), 3e-6),
            )
    yield from vectors_of_dots()


def _vectors(
    module: str,
    sizes: tuple[int, int, int, int, int],
    data: tuple[Array, Array, Array],
    tolerance: float,
) -> Case:
    """
    Returns a case in which one launch multiplies a matrix by several vectors.

    `sizes` are columns, rows, vectors, rows per workgroup, and invocations per workgroup. `data`
    are the matrix in blocks, the vectors, and the result.
    """
    columns, rows, count, per_group, size = sizes
    blocks, b, d = data
    push = {"ncols": columns, "stride_a": columns, "stride_b": columns, "stride_d": rows}
    push |= {"batch_stride_a": 0, "batch_stride_b": columns, "batch_stride_d": rows}
    push |= {"fusion_flags": 0, "base_work_group_y": 0, "ne02": 1, "ne12": 1}
    push |= {"broadcast2": 1, "broadcast3": 1}
    nothing = np.zeros(1, np.float32)
    return Case(
        module, (-(-rows // per_group), 1, 1),
        {0: blocks, 1: b, 2: d * 0, 3: nothing, 4: nothing}, {2: d}, push,
        {0: size, 1: per_group, 2: count}, absolute=tolerance,
        note=f"{count} vectors, {per_group} rows a workgroup of {size}",
    )  # fmt: skip


def vectors_of_dots() -> Iterator[Case]:
    """Yields products by few vectors with packed dot products. B is in q8_1 blocks."""
    for name, way in itertools.product(
        (*DOTS, "iq1_s", "iq1_m"), ("", "_subgroup", "_subgroup_no_shmem")
    ):
        random = generator("dots" + name)
        columns, rows = max(QUANTIZED[name].size, 128) * 3, 5
        blocks, matrix = random_matrix(name, random, rows, columns)
        size = 32 if way == "_subgroup_no_shmem" else 64
        for count, per_group in ((1, 1), (2, 2)):
            b = random.uniform(-1, 1, (count, columns))
            packed = bytes_of_dots(b, by_four=True)
            exact = unpacked(b)
            d = (exact @ matrix.T).astype(np.float32)
            yield _vectors(
                f"mul_mat_vec_{name}_q8_1_f32{way}",
                (columns, rows, count, per_group, size),
                (blocks, packed, d),
                bound(matrix, exact, 1e-3),
            )


def unpacked(values: Array) -> Array:
    """Returns `values` quantized to q8_1 and dequantized."""
    rows = bytes_of_dots(values, by_four=False).reshape(-1, 36)
    scale = np.ascontiguousarray(rows[:, :2]).view("<f2").astype(float)
    quant = np.ascontiguousarray(rows[:, 4:]).view(np.int8).astype(float)
    return (quant * scale).reshape(values.shape)


def vectors_of_experts() -> Iterator[Case]:
    """Yields products of one token's vectors by the matrices of its experts, selected by ids."""
    for (name, format), way in itertools.product(
        FORMATS.items(), ("", "_subgroup", "_subgroup_no_shmem")
    ):
        random = generator("experts" + name)
        columns, rows, used = max(format.size, 256), 5, 3
        blocks, matrix = random_matrix(name, random, EXPERTS * rows, columns)
        experts = random.integers(0, EXPERTS, (2, used)).astype(np.int32)
        size = 32 if way == "_subgroup_no_shmem" else 64
        for kind in ("f32", "q8_1") if name in (*DOTS, "iq1_s", "iq1_m") else ("f32",):
            b = random.uniform(-1, 1, (2, used, columns)).astype(np.float32)
            exact = unpacked(b) if kind == "q8_1" else b.astype(float)
            data = bytes_of_dots(b, by_four=True) if kind == "q8_1" else b
            chosen = matrix.reshape(EXPERTS, rows, columns)[experts[1]]
            d = np.zeros((2, used, rows), np.float32)
            after = d.copy()
            after[1] = np.einsum("erc,ec->er", chosen, exact[1])
            push = {"ncols": columns, "stride_a": columns, "stride_b": columns, "stride_d": rows}
            push |= {"batch_stride_a": rows * columns, "batch_stride_b": used * columns}
            push |= {"batch_stride_d": used * rows, "fusion_flags": 0, "nei0": used, "ne11": used}
            push |= {"expert_i1": 1, "nbi1": used}
            nothing = np.zeros(1, np.float32)
            buffers = {0: blocks, 1: data, 2: d, 3: nothing, 4: nothing, 5: experts}
            yield Case(
                f"mul_mat_vec_id_{name}_{kind}{'_f32'}{way}", (-(-rows // 2), used, 1), buffers,
                {2: after}, push, {0: size, 1: 2, 2: 1},
                absolute=bound(matrix, exact[1], 1e-3 if kind == "q8_1" else 3e-6),
            )  # fmt: skip


def other_vectors() -> Iterator[Case]:
    """Yields products by f16 matrices that are permuted views (p021) or not contiguous (nc)."""
    for way, ratio, columns in itertools.product(("", "_subgroup_add"), (1, 2), (150, 256)):
        random = generator(f"p021{ratio}{columns}")
        channels, rows = 3, 5
        a = random.uniform(-1, 1, (rows, channels, columns)).astype(np.float16)
        b = random.uniform(-1, 1, (channels * ratio, columns)).astype(np.float32)
        wide = np.repeat(a.astype(float), ratio, axis=1)
        d = np.einsum("rkc,kc->kr", wide, b).astype(np.float32)
        push = {"ncols_x": columns, "nrows_x": rows, "nchannels_x": channels}
        push |= {"nchannels_y": channels * ratio, "b_offset": 0, "d_offset": 0, "fusion_flags": 0}
        nothing = np.zeros(1, np.float32)
        yield Case(
            f"mul_mat_vec_p021_f16_f32{way}", (1, rows, channels),
            {0: a, 1: b, 2: d * 0, 3: nothing, 4: nothing}, {2: d}, push, {0: 32, 1: ratio},
            absolute=1e-4, note=f"{ratio} queries a key",
        ) if ratio > 1 else Case(
            f"mul_mat_vec_p021_f16_f32{way}", (1, rows, channels),
            {0: a, 1: b, 2: d * 0, 3: nothing, 4: nothing}, {2: d}, push, {0: 32, 1: 1},
            absolute=1e-4,
        )  # fmt: skip
    for columns in (150, 384):
        random = generator(f"nc{columns}")
        a = random.uniform(-1, 1, (2, 3, 5, columns)).astype(np.float16)
        b = random.uniform(-1, 1, (2, 6, columns)).astype(np.float32)
        wide = np.repeat(a.astype(float), 2, axis=1)
        d = np.einsum("bkrc,bkc->bkr", wide, b).astype(np.float32)
        push = {"ncols_x": columns, "nrows_x": 5, "row_stride_x": columns}
        push |= {"channel_stride_x": 5 * columns, "channel_stride_y": columns}
        push |= {"channel_x_divisor": 2, "ne12": 6, "b_offset": 0, "d_offset": 0}
        push |= {"nb03": 15 * columns, "nb13": 6 * columns, "nb23": 30, "fusion_flags": 0}
        yield Case(
            "mul_mat_vec_nc_f16_f32", (2, 5, 6),
            {0: a, 1: b, 2: d * 0, 3: np.zeros(1, np.float32), 4: np.zeros(1, np.float32)},
            {2: d}, push, absolute=1e-4,
        )  # fmt: skip


def tiles(kind: str, aligned: bool = False) -> tuple[dict[int, int], int, int]:
    """
    Returns ggml's specialization constants for a kind of kernel with 32 lanes, and the tile's rows
    and columns.
    """
    table = {
        "scalar": (128, 64, 64, 16, 32, 32, 2, 4, 2, 1, 32, int(aligned)),
        "small": (32, 32, 32, 16, 32, 32, 2, 2, 2, 1, 32, int(aligned)),
        "quantized": (32, 32, 32, 32, 32, 32, 2, 2, 2, 1, 32, int(aligned)),
        "dots": (32, 32, 32, 32, 32, 32, 2, 2, 1, 1, 32, int(aligned)),
        "dots_k": (32, 32, 32, 32, 32, 32, 1, 2, 1, 1, 32, int(aligned)),
        "matrices": (64, 32, 64, 32, 32, 32, 2, 16, 16, 16, 32, int(aligned)),
        "tensors": (128, 64, 64, 64, 0, int(aligned), 32),
    }
    constants = dict(enumerate(table[kind]))
    return constants, constants[1], constants[2]


def product(
    module: str,
    kind: str,
    shape: tuple[int, int, int],
    format: str,
    b_kind: str,
    aligned: bool = False,
    precision: float = 3e-6,
    split: int = 1,
    note: str = "",
) -> Case:
    """
    Returns a case of D[n, m] = sum over k of A[m, k] B[n, k], with K split into `split` parts.

    A has a block format, B the type `b_kind`. `kind` selects the tiles, and `precision` is the
    relative error.
    """
    m, n, k = shape
    random = generator(f"{module}{shape}")
    blocks, matrix = random_matrix(format, random, m, k)
    b: Any = random.uniform(-1, 1, (n, k))
    data: Any
    if b_kind == "q8_1":
        data, b = bytes_of_dots(b, by_four=True), unpacked(b)
    elif b_kind == "bf16":
        data = (b.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        b = (data.astype(np.uint32) << 16).view(np.float32)
    else:
        data = b = b.astype(KINDS[b_kind])
    constants, rows, columns = tiles(kind, aligned)
    # ggml pads rows of B to whole tiles where the shader does not check bounds.
    if b_kind == "q8_1":
        data = np.concatenate((data, np.zeros(-n % columns * k // 32 * 36, np.uint8)))
    elif kind == "tensors":
        data = np.pad(data, ((0, -n % columns), (0, 0)))
    part = -(-k // split)
    parts = [b[:, p : p + part].astype(float) @ matrix[:, p : p + part].T
             for p in range(0, k, part)]  # fmt: skip
    d = np.array(parts, np.float32)
    push = {"M": m, "N": n, "K": k, "stride_a": k, "stride_b": k, "stride_d": m}
    push |= {"batch_stride_a": m * k, "batch_stride_b": n * k, "batch_stride_d": m * n}
    push |= {"base_work_group_z": 0, "num_batches": 1, "k_split": part, "ne02": 1, "ne12": 1}
    push |= {"broadcast2": 1, "broadcast3": 1}
    if kind == "tensors":
        push["padded_N"] = n + -n % columns
    return Case(
        module, (-(-m // rows) * split, -(-n // columns), 1), {0: blocks, 1: data, 2: d * 0},
        {2: d}, push, constants, absolute=bound(matrix, b.astype(float), precision),
        note=note or f"{m} x {n} x {k}",
    )  # fmt: skip


def matrices() -> Iterator[Case]:
    """Yields products by a matrix, with partial tiles where the shader checks bounds."""
    for suffix, precision in (("_fp32", 3e-6), ("", 1.5e-3), ("_f16acc", 1e-2)):
        for name, b_kind in (("f32_f32", "f32"), ("f32_f16", "f16"), ("f16", "f16"),
                             ("f16_f32", "f32"), ("bf16", "bf16")):  # fmt: skip
            format = name.split("_")[0]
            module = f"matmul_{name}{suffix}"
            yield product(module, "small", (45, 37, 50), format, b_kind, precision=precision)
            yield product(module, "small", (32, 64, 64), format, b_kind, True, precision)
        for name, b_kind in itertools.product(QUANTIZED, ("f32", "f16")):
            k = max(QUANTIZED[name].size, 64)
            yield product(f"matmul_{name}_{b_kind}{suffix}", "quantized", (32, 37, k),
                          name, b_kind, precision=precision)  # fmt: skip
    yield product("matmul_f32_f32_fp32", "scalar", (64, 64, 96), "f32", "f32", True, split=3,
                  note="split in three")  # fmt: skip


def matrices_of_dots() -> Iterator[Case]:
    """Yields products by packed dot products."""
    for name, suffix in itertools.product(DOTS, ("", "_fp32")):
        kind = "dots_k" if name.endswith("_k") else "dots"
        k = max(QUANTIZED[name].size, 128)
        yield product(f"matmul_{name}_q8_1{suffix}", kind, (32, 37, k), name, "q8_1",
                      precision=2e-3)  # fmt: skip


def matrices_of_subgroups() -> Iterator[Case]:
    """Yields products by cooperative matrices of subgroups."""
    for suffix, precision in (("_cm1", 1.5e-3), ("_f16acc_cm1", 1e-2)):
        for name, b_kind in (("f32_f32", "f32"), ("f32_f16", "f16"), ("f16", "f16"),
                             ("f16_f32", "f32"), ("bf16", "bf16")):  # fmt: skip
            format = name.split("_")[0]
            module = f"matmul_{name}{suffix}"
            slack = 1e-2 if format == "bf16" else precision
            yield product(module, "matrices", (45, 37, 50), format, b_kind, False, slack)
            yield product(module, "matrices", (32, 64, 64), format, b_kind, True, slack)
        for name, b_kind in itertools.product(QUANTIZED, ("f32", "f16")):
            k = max(QUANTIZED[name].size, 64)
            yield product(f"matmul_{name}_{b_kind}{suffix}", "matrices", (32, 37, k), name, b_kind,
                          precision=precision)  # fmt: skip


def matrices_of_workgroups() -> Iterator[Case]:
    """Yields products by workgroup-scope cooperative matrices, loaded by tensor layouts."""
    for suffix, precision in (("_cm2", 1.5e-3), ("_f16acc_cm2", 1e-2)):
        for name in ("f16", "bf16"):
            format = name.split("_")[0]
            slack = 1e-2 if format == "bf16" else precision
            b_kind = "bf16" if format == "bf16" else "f16"
            module = f"matmul_{name}{suffix}"
            yield product(module, "tensors", (45, 37, 50), format, b_kind, False, slack)
            yield product(module, "tensors", (64, 64, 64), format, b_kind, True, slack)
        for name in QUANTIZED:
            k = max(QUANTIZED[name].size, 64)
            module = f"matmul_{name}_f16{suffix}"
            yield product(module, "tensors", (64, 37, k), name, "f16", precision=precision)
    for name in QUANTIZED:
        yield _experts(f"matmul_id_subgroup_{name}_f16_cm2", "tensors", name, "f16", 1.5e-3)


def matrices_of_experts() -> Iterator[Case]:
    """Yields products of each row of B by the matrices of the row's experts."""
    for way, suffix in itertools.product(("_subgroup", ""), ("_fp32", "")):
        precision = 3e-6 if suffix else 1.5e-3
        for name in ("f32", "f16", "bf16", *QUANTIZED):
            b_kind = "bf16" if name == "bf16" else "f32"
            full = name if name == "bf16" else f"{name}_f32"
            kind = "small" if name in PLAIN else "quantized"
            yield _experts(f"matmul_id{way}_{full}{suffix}", kind, name, b_kind, precision)
        for name in DOTS:
            kind = "dots_k" if name.endswith("_k") else "dots"
            yield _experts(f"matmul_id{way}_{name}_q8_1{suffix}", kind, name, "q8_1", 2e-3)
    for name in ("f32", "f16", *QUANTIZED):
        yield _experts(f"matmul_id_subgroup_{name}_f32_cm1", "matrices", name, "f32", 1.5e-3)


def _experts(module: str, kind: str, format: str, b_kind: str, precision: float) -> Case:
    random = generator(module)
    m, used, tokens = 32, 2, 19 if "subgroup" in module else 7
    k = max(FORMATS[format].size, 128 if b_kind == "q8_1" else 64)
    blocks, matrix = random_matrix(format, random, 3 * m, k)
    matrix = matrix.reshape(3, m, k)
    ids = np.array([random.permutation(3)[:used] for _ in range(tokens)], np.int32)
    b: Any = random.uniform(-1, 1, (tokens, used, k)).astype(np.float32)
    data: Any = b
    if b_kind == "q8_1":
        data, b = bytes_of_dots(b, by_four=True), unpacked(b)
    elif b_kind == "bf16":
        data = (b.view(np.uint32) >> 16).astype(np.uint16)
        b = (data.astype(np.uint32) << 16).view(np.float32)
    elif b_kind == "f16":
        data = b = b.astype(np.float16)
    d = np.einsum("tumk,tuk->tum", matrix[ids], b.astype(float)).astype(np.float32)
    counts = np.bincount(ids.ravel(), minlength=3).astype(np.int32)
    constants, rows, columns = tiles(kind)
    push = {"M": m, "N": tokens, "K": k, "stride_a": k, "stride_b": k, "stride_d": m}
    push |= {"batch_stride_a": m * k, "batch_stride_b": used * k, "batch_stride_d": used * m}
    push |= {"nei0": used, "nei1": tokens, "nbi1": used, "ne11": used}
    if kind == "tensors":
        push["padded_N"] = tokens
    return Case(
        module, (-(-m // rows), -(-tokens // columns), 3),
        {0: blocks, 1: data, 2: d * 0, 3: ids, 4: counts}, {2: d}, push, constants,
        absolute=bound(matrix.reshape(3 * m, k), b.reshape(-1, k).astype(float), precision),
        note="experts",
    )  # fmt: skip


def split_sums() -> Iterator[Case]:
    """Yields cases that sum the parts of a product split along K."""
    for count in (1024, 333):
        parts = generator("split").uniform(-1, 1, (3, count)).astype(np.float32)
        yield Case(
            "split_k_reduce", (-(-count // 1024), 1, 1), {0: parts, 1: np.zeros(count, np.float32)},
            {1: parts.sum(0, dtype=float).astype(np.float32)}, {"ne": count, "k_num": 3},
        )  # fmt: skip


FAMILIES = (
    vectors,
    vectors_of_experts,
    other_vectors,
    matrices,
    matrices_of_dots,
    matrices_of_subgroups,
    matrices_of_workgroups,
    matrices_of_experts,
    split_sums,
)
