"""Rules of entry points (ENT) and execution modes (MOD)."""

from __future__ import annotations

from xdsl_spirv.grammar import grammar
from xdsl_spirv.serialization.validation import remedies
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import EntryPoint, Module
from xdsl_spirv.serialization.validation.registry import (
    Problem,
    Problems,
    instruction_rule,
    module_rule,
)
from xdsl_spirv.serialization.validation.types import enumerant

INTERFACE_OF_ALL = (1, 4)
"""
First version of SPIR-V in which an entry point's interface lists global variables of all storage
classes.
"""

VARIABLES = frozenset({"Variable", "UntypedVariableKHR"})


@module_rule("ENT-01", "2.16.1")
def has_entry_point(m: Module) -> Problems:
    """A module must have an entry point or declare Linkage."""
    if (
        not m.entry_points
        and not m.by_op.get("GraphEntryPointARM")
        and "Linkage" not in m.capabilities
    ):
        yield Problem("the module has no entry point", "add OpEntryPoint, or declare Linkage")


@instruction_rule("ENT-02", "3.49.5", "EntryPoint")
def entry_function(m: Module, i: Instruction) -> Problems:
    """The function of an entry point must have no parameters and return void."""
    entry = next((e for e in m.entry_points if e.at is i), None)
    if entry is None:
        return
    at = m.definitions.get(entry.function)
    if at is None:
        return
    if at.op != "Function":
        yield Problem(f"{m.spell(entry.function)} is not a function", remedies.FUNCTION)
        return
    if entry.model == "Kernel":
        return
    type_ = m.types.get(at.get("function_type"))
    if type_ is not None and type_.kind == "Function" and type_.members:
        yield Problem("an entry point cannot have parameters", "read Input variables instead")
    result = m.types.get(at.type_id)
    if result is not None and result.kind != "Void":
        yield Problem(
            f"an entry point cannot return {result}", "change the function's result to void"
        )


@module_rule("ENT-03", "3.49.5")
def entry_names(m: Module) -> Problems:
    """Entry points must differ in name or execution model, and must not be called."""
    seen: set[tuple[str, str]] = set()
    for entry in m.entry_points:
        if (entry.model, entry.name) in seen:
            yield Problem(
                f"two entry points have the name {entry.name!r}", "rename one entry point", entry.at
            )
        seen.add((entry.model, entry.name))
    functions = {e.function for e in m.entry_points}
    for call in m.by_op.get("FunctionCall", ()):
        if call.get("function") in functions:
            yield Problem(
                "an entry point cannot be called",
                "move the body into a function that both use",
                call,
            )


@module_rule("ENT-04", "3.49.5")
def interface_variables(m: Module) -> Problems:
    """
    An interface must list module variables. Before SPIR-V 1.4, these must be inputs or outputs.
    """
    for entry in m.entry_points:
        for id in entry.interface:
            at = m.definitions.get(id)
            if at is None:
                continue
            if at.op not in VARIABLES:
                yield Problem(
                    f"{m.spell(id)} is not a variable", "list results of OpVariable", entry.at
                )
                continue
            type_ = m.types.get(at.type_id)
            storage = "" if type_ is None else type_.storage
            if at.block is not None or storage == "Function":
                yield Problem(
                    f"the interface cannot list {m.spell(id)}", "list module variables", entry.at
                )
            elif m.version < INTERFACE_OF_ALL and storage not in ("Input", "Output"):
                yield Problem(
                    f"{m.spell(id)} is in {storage}, which interfaces list only from SPIR-V 1.4 on",
                    "remove the variable from the interface",
                    entry.at,
                )
        if m.version >= INTERFACE_OF_ALL and len(set(entry.interface)) < len(entry.interface):
            yield Problem("the interface cannot list a variable twice", "list it once", entry.at)


@module_rule("ENT-05", "3.49.5")
def interface_complete(m: Module) -> Problems:
    """
    The interface must list every used Input and Output variable. From SPIR-V 1.4 on, it must list
    every used global variable.
    """
    wanted = {
        i.result: i
        for i in m.outside
        if i.op in VARIABLES
        and (t := m.types.get(i.type_id)) is not None
        and (m.version >= INTERFACE_OF_ALL or t.storage in ("Input", "Output"))
    }
    if not wanted:
        return
    used: dict[int, set[int]] = {}
    for f in m.functions:
        used_ids: set[int] = set()
        for block in f.blocks:
            for i in block.instructions:
                used_ids.update(i.ids())
        used[f.id] = used_ids
    for entry in m.entry_points:
        seen = reachable(m, entry, used)
        missing = {v for f in seen for v in used.get(f, ()) if v in wanted} - set(entry.interface)
        for id in sorted(missing):
            yield Problem(
                f"the entry point {entry.name!r} uses {m.spell(id)}, which its interface lacks",
                "add the variable to the interface of OpEntryPoint",
                wanted[id],
            )


def reachable(m: Module, entry: EntryPoint, used: dict[int, set[int]] | None = None) -> list[int]:
    """
    Returns the functions that an entry point reaches by calls. `used` caches the ids that a
    function uses.
    """
    functions = [entry.function]
    seen = {entry.function}
    for function in functions:
        body = m.by_function.get(function)
        if body is None:
            continue
        calls = used.get(function) if used is not None else None
        if calls is None:
            calls = {id for b in body.blocks for i in b.instructions for id in i.ids()}
        for id in sorted(calls & m.by_function.keys()):
            if id not in seen:
                seen.add(id)
                functions.append(id)
    return functions


MODELS: dict[str, tuple[str, ...]] = {
    "LocalSize": ("Kernel", "GLCompute", "MeshNV", "TaskNV", "MeshEXT", "TaskEXT"),
    "LocalSizeId": ("Kernel", "GLCompute", "MeshNV", "TaskNV", "MeshEXT", "TaskEXT"),
    "LocalSizeHint": ("Kernel",),
    "LocalSizeHintId": ("Kernel",),
    "VecTypeHint": ("Kernel",),
    "ContractionOff": ("Kernel",),
    "SubgroupSize": ("Kernel",),
    "SubgroupsPerWorkgroup": ("Kernel",),
    "DerivativeGroupQuadsKHR": ("GLCompute", "MeshNV", "TaskNV", "MeshEXT", "TaskEXT"),
    "DerivativeGroupLinearKHR": ("GLCompute", "MeshNV", "TaskNV", "MeshEXT", "TaskEXT"),
    "OriginUpperLeft": ("Fragment",),
    "OriginLowerLeft": ("Fragment",),
    "PixelCenterInteger": ("Fragment",),
    "EarlyFragmentTests": ("Fragment",),
    "DepthReplacing": ("Fragment",),
    "DepthGreater": ("Fragment",),
    "DepthLess": ("Fragment",),
    "DepthUnchanged": ("Fragment",),
    "Invocations": ("Geometry",),
    "OutputPoints": ("Geometry", "MeshNV", "MeshEXT"),
}
"""Maps an execution mode to the execution models that allow it."""

ID_MODES = frozenset(
    {
        "FPFastMathDefault",
        "LocalSizeHintId",
        "LocalSizeId",
        "MaximumRegistersIdINTEL",
        "SubgroupsPerWorkgroupId",
    }
)
"""Execution modes with id operands, for OpExecutionModeId. Later extensions add more."""


@module_rule("MOD-01", "3.6")
def modes(m: Module) -> Problems:
    """An execution mode must belong to an entry point whose execution model allows the mode."""
    models: dict[int, list[str]] = {}
    for entry in m.entry_points:
        models.setdefault(entry.function, []).append(entry.model)
    for function, stated in m.modes.items():
        for name, _, at in stated:
            if function not in models:
                if at.index:
                    yield Problem(
                        f"{m.spell(function)} is not an entry point",
                        "name the function of an entry point",
                        at,
                    )
                continue
            allowed = MODELS.get(name)
            if allowed is not None and any(k not in allowed for k in models[function]):
                yield Problem(
                    f"{name} is not allowed for {models[function][0]}", "remove the mode", at
                )


@module_rule("MOD-02", "3.49.5")
def mode_instructions(m: Module) -> Problems:
    """Execution modes with id operands, and only these, must be in OpExecutionModeId."""
    for stated in m.modes.values():
        for name, operands, at in stated:
            by_id = name in ID_MODES or any(o.kind == "IdRef" for o in operands)
            if by_id != (at.op == "ExecutionModeId"):
                yield Problem(
                    f"{name} is not allowed in Op{at.op}",
                    f"use OpExecutionMode{'Id' if by_id else ''}",
                    at,
                )
            if at.op == "ExecutionModeId":
                yield from _mode_constants(
                    m, name, [int(o.value) for o in operands if o.kind == "IdRef"], at
                )


def _mode_constants(m: Module, name: str, ids: list[int], at: Instruction) -> Problems:
    for id in ids:
        if id in m.definitions and not m.is_constant(id) and id not in m.types:
            yield Problem(f"{m.spell(id)} is not a constant", remedies.CONSTANT, at)
        elif name == "LocalSizeId" and m.is_constant(id):
            type_ = m.type_of(id)
            if type_ is not None and type_.kind != "Int":
                yield Problem(f"{m.spell(id)} cannot be {type_}", "name an integer constant", at)


@module_rule("MOD-03", "3.6")
def exclusive_modes(m: Module) -> Problems:
    """An entry point must not repeat an execution mode, or have modes that exclude each other."""
    for listed in m.modes.values():
        seen: set[object] = set()
        for name, operands, at in listed:
            # Float controls may be repeated for other widths.
            per_width = operands[0].value if operands and name in PER_OPERAND else 0
            key = (name, per_width)
            if key in seen and name in ONCE:
                yield Problem(f"{name} cannot be stated twice", "state it once", at)
            seen.add(key)
        names = {k[0]: k for k in seen if isinstance(k, tuple)}
        if {"LocalSize", "LocalSizeId"} <= names.keys():
            yield Problem(
                "an entry point cannot have both LocalSize and LocalSizeId",
                "remove LocalSize or LocalSizeId",
                listed[0][2],
            )


PER_OPERAND = frozenset(
    {
        "DenormPreserve",
        "DenormFlushToZero",
        "SignedZeroInfNanPreserve",
        "RoundingModeRTE",
        "RoundingModeRTZ",
        "FPFastMathDefault",
    }
)
ONCE = PER_OPERAND | {"LocalSize", "LocalSizeId"}


@module_rule("MOD-04", "Vulkan")
def local_size(m: Module) -> Problems:
    """A compute entry point must have a workgroup size: LocalSize, LocalSizeId or WorkgroupSize."""
    shared = any(
        (scope := m.integer(i.get("scope"))) is not None
        and enumerant("Scope", scope) == "Workgroup"
        for i in m.by_op.get("TypeCooperativeMatrixKHR", ())
        if len(i.words) > 3
    )
    sized = any(
        d.name == "BuiltIn" and d.parameters[:1] == (_workgroup_size(),)
        for stated in m.decorations.values()
        for d in stated
    )
    for entry in m.entry_points:
        if entry.model not in ("GLCompute", "MeshEXT", "TaskEXT", "MeshNV", "TaskNV") or sized:
            continue
        if not m.environment.vulkan and not shared:
            continue
        names = {name for name, _, _ in m.modes.get(entry.function, ())}
        if entry.model == "GLCompute" and names.isdisjoint(
            {"LocalSize", "LocalSizeId", "TileShadingRateQCOM"}
        ):
            yield Problem(
                f"the entry point {entry.name!r} has no workgroup size",
                "add OpExecutionMode LocalSize with three sizes",
                entry.at,
            )


def _workgroup_size() -> int:
    return grammar().kind("BuiltIn")["WorkgroupSize"].value


@module_rule("MOD-05", "3.6")
def sizes(m: Module) -> Problems:
    """A workgroup size must be at least 1 in every dimension."""
    for id, decorations in m.decorations.items():
        at = m.definitions.get(id)
        built = any(
            d.name == "BuiltIn" and d.parameters[:1] == (_workgroup_size(),) for d in decorations
        )
        if built and at is not None and at.op == "ConstantComposite":
            if any(m.integer(part) == 0 for part in at.words[3:]):
                yield Problem("a workgroup size cannot be 0", "use at least 1", at)
    for stated in m.modes.values():
        for name, operands, at in stated:
            if name == "LocalSize" and any(o.value == 0 for o in operands):
                yield Problem("a workgroup size cannot be 0", "use at least 1", at)
            elif name == "LocalSizeId":
                values = [m.integer(int(o.value)) for o in operands]
                if 0 in values:
                    yield Problem("a workgroup size cannot be 0", "use at least 1", at)


@module_rule("MOD-06", "3.6")
def origins(m: Module) -> Problems:
    """A fragment entry point must have exactly one origin. Vulkan requires OriginUpperLeft."""
    for entry in m.entry_points:
        if entry.model != "Fragment":
            continue
        names = {name for name, _, _ in m.modes.get(entry.function, ())}
        origin = names & {"OriginUpperLeft", "OriginLowerLeft"}
        if len(origin) != 1:
            yield Problem(
                f"the entry point needs 1 origin, not {len(origin)}",
                "state OriginUpperLeft",
                entry.at,
            )
        elif m.environment.vulkan and "OriginLowerLeft" in names:
            yield Problem("Vulkan has no OriginLowerLeft", "use OriginUpperLeft", entry.at)


@module_rule("MOD-07", "3.3")
def memory_model(m: Module) -> Problems:
    """The memory model must be Vulkan if and only if VulkanMemoryModel is declared."""
    if not m.memory_models:
        return
    at = m.memory_models[0]
    if m.is_vulkan_model and "VulkanMemoryModel" not in m.capabilities:
        yield Problem(
            "VulkanMemoryModel is not declared", remedies.declare("VulkanMemoryModel"), at
        )
    if not m.is_vulkan_model and "VulkanMemoryModel" in m.declared:
        rule = "CM-02" if "CooperativeMatrixKHR" in m.capabilities else ""
        yield Problem(
            "VulkanMemoryModel is declared, but the memory model is not Vulkan",
            "state OpMemoryModel Logical Vulkan",
            at,
            rule,
        )
    if m.environment.vulkan:
        if m.addressing_model not in ("Logical", "PhysicalStorageBuffer64"):
            yield Problem(
                f"Vulkan has no addressing model {m.addressing_model}",
                "state the addressing model Logical or PhysicalStorageBuffer64",
                at,
            )
        if m.memory_model not in ("Simple", "GLSL450", "Vulkan"):
            yield Problem(
                f"Vulkan has no memory model {m.memory_model}", "state Vulkan or GLSL450", at
            )


FRAGMENT = ("Fragment",)
DERIVATIVES = ("Fragment", "GLCompute", "MeshEXT", "TaskEXT", "MeshNV", "TaskNV")
ONLY_IN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Kill", "TerminateInvocation", "DemoteToHelperInvocation"), FRAGMENT),
    **dict.fromkeys(("BeginInvocationInterlockEXT", "EndInvocationInterlockEXT"), FRAGMENT),
    "IsHelperInvocationEXT": FRAGMENT,
    **dict.fromkeys(
        (
            "DPdx DPdy Fwidth DPdxFine DPdyFine FwidthFine DPdxCoarse DPdyCoarse FwidthCoarse "
            "ImageSampleImplicitLod ImageSampleDrefImplicitLod ImageSampleProjImplicitLod "
            "ImageSampleProjDrefImplicitLod ImageQueryLod"
        ).split(),
        DERIVATIVES,
    ),
    **dict.fromkeys(("EmitVertex", "EndPrimitive", "EmitStreamVertex", "EndStreamPrimitive"),
                    ("Geometry",)),
    "ControlBarrier": (
        "GLCompute", "Kernel", "TessellationControl", "TaskNV", "MeshNV", "TaskEXT", "MeshEXT",
    ),
}  # fmt: skip
"""
Maps an instruction to the execution models that allow it. Instructions that all models allow are
left out.
"""


@module_rule("MOD-08", "3.49")
def limited(m: Module) -> Problems:
    """Only entry points whose execution model allows an instruction may reach it."""
    if not any(op in m.by_op for op in ONLY_IN):
        return
    for entry in m.entry_points:
        names = {name for name, _, _ in m.modes.get(entry.function, ())}
        grouped = bool(names & {"DerivativeGroupQuadsKHR", "DerivativeGroupLinearKHR"})
        inside = set(reachable(m, entry))
        for op, models in ONLY_IN.items():
            allowed = entry.model in models
            if models is DERIVATIVES and entry.model != "Fragment":
                allowed = allowed and grouped
            if op == "ControlBarrier" and m.version >= (1, 3):
                allowed = True
            if allowed:
                continue
            for i in m.by_op.get(op, ()):
                if i.block is not None and i.block.function.id in inside:
                    yield Problem(
                        f"Op{op} is not allowed in {entry.model}, but {entry.name!r} reaches it",
                        f"use the instruction only in entry points of {models[0]}",
                        i,
                    )
