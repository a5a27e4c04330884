"""Runs the models of `testing/edges.py` on a driver and prints differences from the interpreter."""

from __future__ import annotations

import json

import numpy as np

from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.vulkan.worker import open_isolated
from xdsl_spirv.testing.edges import AT_EDGES, differences, edge_program

differ: list[str] = []
executed = 0
with np.errstate(all="ignore"), open_isolated() as device:
    for name, edge in AT_EDGES.items():
        expected = run_reference(import_onnx(edge.model()), edge.inputs())["r"]
        (result,) = device.execute(edge_program(name, "lavapipe"), edge.inputs()).values()
        differ += [f"{name}: {where}" for where in differences(edge, result, expected)]
        executed += 1
print(json.dumps({"executed": executed, "differ": differ}))
