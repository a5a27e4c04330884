"""
How contractions are to be computed, and what stands between `linalg` and `spirv`.
"""

from xdsl.ir import Dialect

from xdsl_spirv.dialects.schedule.attention import FOR_ATTENTION, AttentionAttr, AttentionOp
from xdsl_spirv.dialects.schedule.attributes import (
    CONSIDERED,
    SCHEDULE,
    ConsideredAttr,
    ContractionAttr,
    DirectAttr,
    InstructionAttr,
    PackingAttr,
    StagedAttr,
)
from xdsl_spirv.dialects.schedule.loops import LoopsAttr
from xdsl_spirv.dialects.schedule.operations import (
    CollectiveOp,
    DispatchOp,
    ElementPtrOp,
    FlatViewOp,
    PackedViewOp,
    PackOp,
    PaddedViewOp,
    YieldOp,
    bit_width,
)
from xdsl_spirv.dialects.schedule.window import WindowAttr

__all__ = [
    "CONSIDERED",
    "FOR_ATTENTION",
    "SCHEDULE",
    "AttentionAttr",
    "AttentionOp",
    "CollectiveOp",
    "ConsideredAttr",
    "ContractionAttr",
    "DirectAttr",
    "DispatchOp",
    "ElementPtrOp",
    "FlatViewOp",
    "InstructionAttr",
    "LoopsAttr",
    "PackOp",
    "PackedViewOp",
    "PackingAttr",
    "PaddedViewOp",
    "Schedule",
    "StagedAttr",
    "WindowAttr",
    "YieldOp",
    "bit_width",
]

Schedule = Dialect(
    "schedule",
    [
        AttentionOp,
        CollectiveOp,
        DispatchOp,
        ElementPtrOp,
        FlatViewOp,
        PackOp,
        PackedViewOp,
        PaddedViewOp,
        YieldOp,
    ],
    [
        AttentionAttr,
        StagedAttr,
        DirectAttr,
        PackingAttr,
        InstructionAttr,
        ContractionAttr,
        ConsideredAttr,
        LoopsAttr,
        WindowAttr,
    ],
)
