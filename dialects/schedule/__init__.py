"""The `schedule` dialect: schedules, and the operations between `linalg` and `spirv`."""

from xdsl.ir import Dialect

from xdsl_spirv.dialects.schedule import attention, attributes, operations, packing, paths
from xdsl_spirv.dialects.schedule.attention import KEEP_LOOP, AttentionAttr, AttentionOp
from xdsl_spirv.dialects.schedule.attributes import (
    CONSIDERED,
    SCHEDULE,
    SUMMED,
    ConsideredAttr,
    ContractionAttr,
    DirectAttr,
    InstructionAttr,
    ScheduleAttr,
    StagedAttr,
    schedule_of,
)
from xdsl_spirv.dialects.schedule.operations import (
    UPDATES,
    CollectiveOp,
    DispatchOp,
    EachElementOp,
    ElementPtrOp,
    FlatViewOp,
    PaddedViewOp,
    ReduceRowsOp,
    SelectedViewOp,
    YieldOp,
    bit_width,
    memref_of,
    shaped_of,
)
from xdsl_spirv.dialects.schedule.packing import (
    PackedSizes,
    PackedViewOp,
    PackingAttr,
    PackOp,
    consecutive,
)
from xdsl_spirv.dialects.schedule.paths import AttentionLanesAttr, LoopsAttr, RowsAttr, WindowAttr
from xdsl_spirv.upstream.on_demand import attributes_of, operations_of

__all__ = [
    "CONSIDERED",
    "KEEP_LOOP",
    "SCHEDULE",
    "SUMMED",
    "UPDATES",
    "AttentionAttr",
    "AttentionLanesAttr",
    "AttentionOp",
    "CollectiveOp",
    "ConsideredAttr",
    "ContractionAttr",
    "DirectAttr",
    "DispatchOp",
    "EachElementOp",
    "ElementPtrOp",
    "FlatViewOp",
    "InstructionAttr",
    "LoopsAttr",
    "PackOp",
    "PackedSizes",
    "PackedViewOp",
    "PackingAttr",
    "PaddedViewOp",
    "ReduceRowsOp",
    "RowsAttr",
    "Schedule",
    "ScheduleAttr",
    "SelectedViewOp",
    "StagedAttr",
    "WindowAttr",
    "YieldOp",
    "bit_width",
    "consecutive",
    "memref_of",
    "schedule_of",
    "shaped_of",
]

MODULES = (
    attention,
    attributes,
    operations,
    packing,
    paths,
)

Schedule = Dialect("schedule", operations_of(MODULES), attributes_of(MODULES))
