"""
Imports models in other tools' formats as `linalg` on tensors, with their weights.

    from xdsl_spirv.frontends import from_jax, import_onnx, import_stablehlo, import_torch

Names are imported on first use, because each importer has other dependencies: torch, onnxscript
and onnx for PyTorch, onnx for ONNX, jax for JAX and StableHLO.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from xdsl_spirv import import_on_use

if TYPE_CHECKING:
    from xdsl_spirv.frontends.errors import FrontendError
    from xdsl_spirv.frontends.jax_import import from_jax, import_stablehlo
    from xdsl_spirv.frontends.model import ImportedModel
    from xdsl_spirv.frontends.onnx.importer import import_onnx
    from xdsl_spirv.frontends.torch_import import from_torch, import_torch

__all__ = [
    "FrontendError",
    "ImportedModel",
    "from_jax",
    "from_torch",
    "import_onnx",
    "import_stablehlo",
    "import_torch",
    "is_gguf",
    "is_model",
    "is_onnx",
    "is_stablehlo",
]

__getattr__ = import_on_use(__name__)


def is_onnx(path: str | os.PathLike[str]) -> bool:
    """True if a file's name shows that it is an ONNX model."""
    return os.fspath(path).endswith(".onnx")


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """True if a file's name shows that it is a GGUF model."""
    return os.fspath(path).endswith(".gguf")


def is_stablehlo(path: str | os.PathLike[str]) -> bool:
    """True if a file is a StableHLO module, judging by its name and text."""
    if not os.fspath(path).endswith(".mlir") or not os.path.isfile(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return any("stablehlo." in line for line in file)


def is_model(path: str | os.PathLike[str]) -> bool:
    """True if a file's name shows that one of the frontends can import the file."""
    return is_onnx(path) or is_gguf(path)
