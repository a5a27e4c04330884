"""
Defines the semantics of `gpu`: ids of invocations, and barriers.

Ids are `index` values. If the grid's second and third sizes are 1, ids along these axes are
uniform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import gpu
from xdsl.ir import Operation

from xdsl_spirv.interpreter.built_ins import BUILT_INS
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.semantics import Function, action, nothing_happens

IDS: dict[type[Operation], str] = {
    gpu.ThreadIdOp: "LocalInvocationId",
    gpu.BlockIdOp: "WorkgroupId",
    gpu.GlobalIdOp: "GlobalInvocationId",
    gpu.BlockDimOp: "WorkgroupSize",
    gpu.GridDimOp: "NumWorkgroups",
    gpu.LaneIdOp: "SubgroupLocalInvocationId",
    gpu.SubgroupIdOp: "SubgroupId",
    gpu.SubgroupSizeOp: "SubgroupSize",
    gpu.NumSubgroupsOp: "NumSubgroups",
}
"""Maps an operation to the name of the built-in variable that it reads."""


@action(*IDS)
def identify(op: Any, context: Context) -> Function:
    """Returns the component of the built-in along the operation's axis."""
    axis = "xyz".index(op.dimension.data) if "dimension" in op.properties else 0
    components = BUILT_INS[IDS[type(op)]]
    return lambda batch: components(batch)[axis].astype(np.int64)


nothing_happens(gpu.BarrierOp)  # Invocations run in lockstep (batch.py).
