"""
Writes docs/instructions.md: the instructions that have an operation in the `spirv` dialect.

    python scripts/compute_instructions.py [--check]

Each instruction of the core grammar belongs to one of these sets:

1. Instructions that the dialect represents by another form than an operation (a type, an
   attribute, a block) are in `FORMS`, with the form.
2. Instructions for other execution models than GLCompute and Kernel, and of families that the
   dialect does not support, are in `GROUPS`. An instruction belongs to a group if its class does,
   or if all capabilities that enable the instruction do. `EXCEPTIONS` are assigned to a group by
   name.
3. All others are compute instructions and have an operation. `SHARED` instructions of a group
   have an operation, too, because MLIR has them.

A new instruction of the grammar counts as a compute instruction. Until it has an operation or an
entry here, tests/dialects/test_compute_instructions.py fails and names the instruction.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import OPERATIONS
from xdsl_spirv.dialects.spirv.base import EXTENDED_SETS, instruction_of
from xdsl_spirv.grammar import Instruction, grammar

PAGE = Path(__file__).resolve().parent.parent / "docs" / "instructions.md"


@dataclass(frozen=True)
class Group:
    """Instructions without an operation in the dialect, and the reason."""

    name: str
    reason: str
    capabilities: str
    """Regular expression for the full names of the group's capabilities."""
    families: tuple[str, ...] = ()
    """Classes of the grammar that belong to the group whatever their capabilities are."""


GROUPS: Sequence[Group] = (
    Group(
        "images and samplers",
        "kernels of neural networks keep their data in buffers, and no pass here uses images",
        r"Image.*|SparseResidency|LiteralSampler|Bindless.*|Texture.*QCOM|SubgroupImage.*",
        ("Image",),
    ),
    Group(
        "graphics stages",
        "compute shaders have no vertices, meshes, fragments, derivatives and tiles",
        r"Geometry.*|MeshShading.*|DerivativeControl|DemoteToHelperInvocation|FragmentMaskAMD"
        r"|FragmentShader.*|TileImage.*",
        ("Primitive", "Derivative"),
    ),
    Group(
        "ray tracing",
        "rays, queries, hit objects and micromaps",
        r"Ray.*|ShaderInvocationReorder.*|DisplacementMicromapNV",
    ),
    Group("pipes", "OpenCL's pipes", r"Pipes|PipeStorage|BlockingPipes.*"),
    Group(
        "kernels that start kernels",
        "device queues, events and node payloads",
        r"DeviceEnqueue|SubgroupDispatch|ShaderEnqueueAMDX",
    ),
    Group(
        "named barriers",
        "no Vulkan driver supports named barriers",
        r"NamedBarrier",
    ),
    Group(
        "descriptor heaps",
        "entry points bind buffers by descriptor set and binding here, not through heaps",
        r"DescriptorHeapEXT",
    ),
    Group("motion estimation", "Intel's video units", r"SubgroupAvc.*"),
    Group(
        "FPGAs",
        "arbitrary precision, registers, task sequences and memory kinds of FPGAs",
        r".*ALTERA|ArbitraryPrecision.*",
    ),
    Group(
        "Intel's other extensions",
        "for Intel's OpenCL compiler only; MLIR has no operations for them",
        r".*INTEL",
    ),
)

EXCEPTIONS: Mapping[str, str] = {
    "OpTerminateInvocation": "graphics stages",
    "OpTypeOpaque": "kernels that start kernels",
    "OpTypeEvent": "kernels that start kernels",
    "OpGroupAsyncCopy": "kernels that start kernels",
    "OpGroupWaitEvents": "kernels that start kernels",
    "OpUntypedGroupAsyncCopyKHR": "kernels that start kernels",
    "OpGroupIAddNonUniformAMD": "AMD's older groups",
    "OpGroupFAddNonUniformAMD": "AMD's older groups",
    "OpGroupFMinNonUniformAMD": "AMD's older groups",
    "OpGroupUMinNonUniformAMD": "AMD's older groups",
    "OpGroupSMinNonUniformAMD": "AMD's older groups",
    "OpGroupFMaxNonUniformAMD": "AMD's older groups",
    "OpGroupUMaxNonUniformAMD": "AMD's older groups",
    "OpGroupSMaxNonUniformAMD": "AMD's older groups",
    "OpImageTexelPointer": "images and samplers",
}
"""Maps instructions to their groups, if neither class nor capability assigns them."""

OTHER_REASONS: Mapping[str, str] = {
    "AMD's older groups": "replaced by OpGroupNonUniform* with SPIR-V 1.3",
}

SHARED: frozenset[str] = frozenset(
    {
        "OpControlBarrierArriveINTEL",
        "OpControlBarrierWaitINTEL",
        "OpConvertFToBF16INTEL",
        "OpConvertBF16ToFINTEL",
        "OpRoundFToTF32INTEL",
        "OpSubgroupBlockReadINTEL",
        "OpSubgroupBlockWriteINTEL",
    }
)
"""Instructions of a group that have an operation, because MLIR has this operation."""

_TYPE, _MODULE = "a type", "an attribute or a symbol of `spirv.module`"
_BLOCK, _DEBUG = "blocks and regions", "a location, a name, or a raw instruction"
_DECORATION, _CONSTANT = "an attribute of the decorated operation", "`spirv.Constant`"

FORMS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "OpTypeVoid OpTypeBool OpTypeInt OpTypeFloat OpTypeVector OpTypeMatrix OpTypeArray "
            "OpTypeRuntimeArray OpTypeStruct OpTypePointer OpTypeForwardPointer OpTypeFunction "
            "OpTypeUntypedPointerKHR OpTypeCooperativeMatrixKHR OpTypeCooperativeMatrixNV "
            "OpTypeCooperativeVectorNV OpTypeTensorLayoutNV OpTypeTensorViewNV OpTypeTensorARM "
            "OpTypeImage OpTypeSampledImage OpTypeSampler"
        ).split(),
        _TYPE,
    ),
    **dict.fromkeys("OpCapability OpExtension OpMemoryModel OpExtInstImport".split(), _MODULE),
    "OpTypeGraphARM": "the type of `spirv.ARM.Graph`",
    "OpGraphInputARM": "an argument of `spirv.ARM.Graph`",
    "OpGraphSetOutputARM": "`spirv.ARM.GraphOutputs`",
    "OpGraphEndARM": "`spirv.ARM.GraphOutputs`",
    "OpExtInst": "an operation of the instruction set, such as `spirv.GL.Exp`",
    "OpExecutionModeId": "`spirv.ExecutionMode`",
    "OpExtInstWithForwardRefsKHR": _DEBUG,
    **dict.fromkeys(
        (
            "OpSourceContinued OpSource OpSourceExtension OpName OpMemberName OpString OpLine "
            "OpNoLine OpModuleProcessed"
        ).split(),
        _DEBUG,
    ),
    **dict.fromkeys(
        (
            "OpDecorate OpMemberDecorate OpDecorationGroup OpGroupDecorate OpGroupMemberDecorate "
            "OpDecorateId OpDecorateString OpMemberDecorateString"
        ).split(),
        _DECORATION,
    ),
    **dict.fromkeys("OpConstantTrue OpConstantFalse OpConstantComposite".split(), _CONSTANT),
    "OpSpecConstantTrue": "`spirv.SpecConstant`",
    "OpSpecConstantFalse": "`spirv.SpecConstant`",
    "OpSpecConstantOp": "`spirv.SpecConstantOperation`",
    "OpFunction": "`spirv.func`",
    "OpFunctionParameter": "`spirv.func`",
    "OpFunctionEnd": "`spirv.func`",
    **dict.fromkeys("OpLabel OpPhi OpLoopMerge OpSelectionMerge".split(), _BLOCK),
}
"""Instruction -> its form in the dialect, if it has no operation."""


def group_of(instruction: Instruction) -> str | None:
    """Returns the group of an instruction, or None for a compute instruction."""
    if instruction.name in EXCEPTIONS:
        return EXCEPTIONS[instruction.name]
    for group in GROUPS:
        if instruction.family in group.families:
            return group.name
        capabilities = instruction.capabilities
        if capabilities and all(re.fullmatch(group.capabilities, c) for c in capabilities):
            return group.name
    return None


def reason_for(group: str) -> str:
    """
    Returns the reason why a group's instructions have no operations.

    Raises `KeyError` for unknown groups.
    """
    return {g.name: g.reason for g in GROUPS}.get(group) or OTHER_REASONS[group]


def compute_instructions() -> list[Instruction]:
    """Returns the instructions with an operation, in the grammar's order."""
    table = grammar()
    instructions: list[Instruction] = []
    for name in table.instruction_names:
        instruction = table.instruction(name)
        if name in FORMS:
            continue
        if name in SHARED or group_of(instruction) is None:
            instructions.append(instruction)
    return instructions


def left_out() -> dict[str, list[str]]:
    """Returns, for each group, the instructions that have no operation."""
    table = grammar()
    groups: dict[str, list[str]] = {}
    for name in table.instruction_names:
        group = group_of(table.instruction(name))
        if group is not None and name not in FORMS and name not in SHARED:
            groups.setdefault(group, []).append(name)
    return groups


def operations_by_name() -> dict[str, type[Operation]]:
    """Returns the operation of each core instruction."""
    operations: dict[str, type[Operation]] = {}
    table = grammar()
    for cls in OPERATIONS:
        in_set, name = instruction_of(cls)
        if in_set is None and name in table:
            operations.setdefault(table.instruction(name).name, cls)
    return operations


def _family(name: str) -> str:
    """Returns the origin of an instruction: the core, or the vendor of its extension."""
    suffix = re.search(r"(KHR|EXT|NV|INTEL|ARM|QCOM|VALVE)$", name)
    return suffix.group(1) if suffix else "core"


def page() -> str:
    compute = compute_instructions()
    counts = Counter(_family(i.name) for i in compute)
    total = len(grammar().instruction_names)
    sets = ", ".join(
        f"{sum(instruction_of(cls)[0] == name for cls in OPERATIONS)} of {name}"
        for name in EXTENDED_SETS.values()
    )
    lines = [
        "# Instructions with an operation in the dialect, and instructions without",
        "",
        "This page lists the SPIR-V instructions that are operations of the `spirv` dialect, "
        "and the instructions that are not, with the reason.",
        "`python scripts/compute_instructions.py` writes the page; the script explains the groups.",
        "",
        f"{len(compute)} of {total} core instructions have an operation "
        f"({', '.join(f'{n} {who}' for who, n in counts.most_common())}).",
        f"Extended instructions with an operation: {sets}.",
        f"{len(FORMS)} core instructions have another form in the dialect. The other "
        f"{sum(map(len, left_out().values()))} are kept as raw instructions.",
        "A module with `...ContinuedINTEL` instructions or conditional sections is refused.",
        "",
        "## Without an operation",
        "",
        "| group | number of instructions | contents, or reason |",
        "|---|---|---|",
    ]
    groups = left_out()
    lines += [f"| {g} | {len(groups[g])} | {reason_for(g)} |" for g in groups]
    lines += ["", "## In another form", "", "| form | instructions |", "|---|---|"]
    forms: dict[str, list[str]] = {}
    for name, form in FORMS.items():
        forms.setdefault(form, []).append(f"`{name}`")
    lines += [f"| {form} | {', '.join(names)} |" for form, names in forms.items()]
    operations = operations_by_name()
    lines += ["", "## With an operation", "", "| class | operations |", "|---|---|"]
    families: dict[str, list[str]] = {}
    for instruction in compute:
        family = instruction.family.replace("@exclude", "Other").replace("Reserved", "Other")
        families.setdefault(family.replace("_", " "), []).append(
            f"`{operations[instruction.name].name}`"
        )
    lines += [f"| {family} | {', '.join(names)} |" for family, names in sorted(families.items())]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text)
        return 0
    if PAGE.read_text() == text:
        return 0
    print(f"{PAGE.name} is stale: run python scripts/compute_instructions.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
