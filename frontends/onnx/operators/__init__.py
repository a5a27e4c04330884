"""Functions that import ONNX operators, in files by kind."""

from importlib import import_module

FILES = (
    "elementwise",
    "experts",
    "shapes",
    "reductions",
    "products",
    "transposed",
    "windows",
    "indexing",
    "borders",
    "images",
    "sampling",
    "signals",
    "updates",
    "quantized",
    "quantized_contrib",
    "recurrent",
    "control",
    "sequences",
    "training",
    "classical",
    "support_vectors",
    "attention",
    "contrib_attention",
    "rotary",
    "grouped_attention",
    "contrib_norms",
    "contrib",
)


def load() -> None:
    """Registers all operators."""
    for name in FILES:
        import_module(f"{__name__}.{name}")
