"""
How contractions are to be computed, and what stands between `linalg` and `spirv`.
"""

from xdsl.ir import Dialect

from xdsl_spirv.dialects.schedule.attributes import (
    SCHEDULE,
    ContractionAttr,
    InstructionAttr,
    StagedAttr,
)
from xdsl_spirv.dialects.schedule.operations import (
    CollectiveOp,
    DispatchOp,
    ElementPtrOp,
    FlatViewOp,
    PaddedViewOp,
    YieldOp,
    bit_width,
)

__all__ = [
    "SCHEDULE",
    "CollectiveOp",
    "ContractionAttr",
    "DispatchOp",
    "ElementPtrOp",
    "FlatViewOp",
    "InstructionAttr",
    "PaddedViewOp",
    "Schedule",
    "StagedAttr",
    "YieldOp",
    "bit_width",
]

Schedule = Dialect(
    "schedule",
    [CollectiveOp, DispatchOp, ElementPtrOp, FlatViewOp, PaddedViewOp, YieldOp],
    [StagedAttr, InstructionAttr, ContractionAttr],
)
