"""
`gpu`: ids of invocations, and barriers.

Ids are `index` values; the ids of a grid whose second and third size is 1 are uniform there.
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
"""The built-in variable for each operation."""


@action(*IDS)
def identify(op: Any, context: Context) -> Function:
    """The built-in's component along the operation's axis."""
    axis = "xyz".index(op.dimension.data) if "dimension" in op.properties else 0
    components = BUILT_INS[IDS[type(op)]]
    return lambda batch: components(batch)[axis].astype(np.int64)


nothing_happens(gpu.BarrierOp)  # Invocations run in lockstep (batch.py).
