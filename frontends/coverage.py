"""
What hinders a model that cannot be imported: every kind of node is tried by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from xdsl_spirv.frontends import onnx_file
from xdsl_spirv.frontends.culprit import alone_by_kind
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx_import import import_onnx
from xdsl_spirv.frontends.torch_mlir_process import TorchMLIR

SECONDS = 120.0
"""How long to look."""

EACH = 30.0
"""Seconds for one node."""


def refused_nodes(
    path: str | os.PathLike[str],
    dims: Mapping[str, int | None],
    shapes: Mapping[str, tuple[int, ...]],
) -> tuple[dict[str, str], frozenset[str]]:
    """Why nodes are refused, by their names, and the names of all nodes that were tried."""
    model = onnx_file.read_model(path)
    onnx_file.fix_dimensions(model, dims, shapes)
    onnx_file.name_nodes(model)
    reasons: dict[str, str] = {}
    tried: set[str] = set()
    end = time.monotonic() + SECONDS
    with TorchMLIR(EACH) as worker:
        for nodes, alone in alone_by_kind(model):
            if time.monotonic() > end:
                break
            names = [node.name for node in nodes]
            tried.update(names)
            try:
                import_onnx(alone, worker=worker, find_crashes=False, dynamic=True)
            except FrontendError as error:
                reasons |= dict.fromkeys(names, error.cause)
    tried.update(node.name for node in model.graph.node if node.op_type == "Constant")
    return reasons, frozenset(tried)
