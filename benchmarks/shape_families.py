"""
Contractions of known networks by family, for fitting on some families and testing on the others.

Weights are packed once, and results are stored in 16 bits, as in compiled networks. Products of
few rows multiply by several matrices that are together larger than any cache.
"""

from __future__ import annotations

from dataclasses import replace

from ceiling import COPIES, Product, batched, matmul, rows
from contractions import BF16, F16, F32, S8, Case

MOST_ROWS = 128
"""Products with at most this many rows are bound by reading weights."""


def weighted(m: int, n: int, k: int) -> Product:
    if m > MOST_ROWS:
        return matmul(m, n, k, F32, "f16")
    product = rows(m, n, k)
    return replace(product, count=min(COPIES, product.count))


def convolution(batch: int, extent: int, channels: int, filters: int) -> Product:
    """Returns a 3 x 3 convolution of a padded input."""
    sizes = {"i": batch, "y": extent, "x": extent, "f": filters, "r": 3, "s": 3, "c": channels}
    name = f"conv 3x3 {batch}x{extent}x{extent}x{channels} -> {filters} f16 -> f32"
    case = Case(name, F32, sizes, "iyxc", "rscf", "iyxf", (("y", "r"), ("x", "s")))
    return Product(case, "f16")


def families() -> dict[str, list[Product]]:
    """Returns products by family."""
    return {
        "squares": [
            matmul(n, n, n, types, stored)
            for n in (512, 1000, 1024, 1536, 2048, 3072, 4096)
            for types, stored in ((F16, "f16"), (F32, "f16"), (BF16, "f32"))
        ],
        "bytes": [
            *(matmul(n, n, n, S8) for n in (512, 1000, 1024, 2048, 3072, 4096)),
            *(matmul(m, n, k, S8) for m in (128, 512, 4096) for n, k in ((768, 768), (768, 3072))),
            *(
                matmul(m, n, k, S8)
                for m, n, k in ((3136, 64, 256), (784, 512, 128), (6272, 64, 64))
            ),
        ],
        "BERT base": [
            weighted(m, n, k)
            for m in (64, 128, 256, 512, 1024, 4096)
            for n, k in ((768, 768), (2304, 768), (3072, 768), (768, 3072))
        ],
        "GPT-2 medium": [
            weighted(m, n, k)
            for m in (32, 200, 1024, 2048)
            for n, k in ((1024, 1024), (3072, 1024), (4096, 1024), (1024, 4096))
        ],
        "Llama 8B": [
            weighted(m, n, k)
            for m in (16, 64, 128, 256, 512, 2048)
            for n, k in ((6144, 4096), (4096, 4096), (14336, 4096), (4096, 14336))
        ],
        "ViT": [
            weighted(m, n, k)
            for m in (197, 1576, 6304)
            for n, k in ((384, 384), (1536, 384), (384, 1536), (768, 768), (768, 3072))
        ],
        "ResNet 1x1": [
            weighted(batch * extent**2, n, k)
            for batch in (1, 8, 32)
            for extent, n, k in (
                *((56, 64, 64), (56, 256, 64), (56, 64, 256), (28, 128, 512), (28, 512, 128)),
                *((14, 256, 1024), (14, 1024, 256), (7, 512, 2048), (7, 2048, 512)),
            )
        ],
        "ResNet 3x3": [
            convolution(batch, extent, channels, channels)
            for batch in (1, 8, 32)
            for extent, channels in ((56, 64), (28, 128), (14, 256), (7, 512))
        ],
        "MobileNet 1x1": [
            weighted(batch * extent**2, n, k)
            for batch in (1, 16)
            for extent, n, k in (
                *((112, 16, 32), (112, 96, 16), (56, 24, 96), (56, 144, 24), (28, 32, 144)),
                *((28, 192, 32), (14, 96, 384), (14, 576, 96), (7, 160, 960), (7, 960, 160)),
            )
        ],
        "attention": [
            batched(heads, m, n, k)
            for heads in (12, 64)
            for m, n, k in ((128, 128, 64), (128, 64, 128), (512, 512, 64), (512, 64, 512))
        ],
    }
