"""
`spirv-update-vce`: derives a module's version, capabilities and extensions from its contents.

The pass replaces the module's triple. If any of several capabilities suffices, the pass takes one
that the module needs anyway or declared before, else the one that implies the fewest others. A
capability that another capability implies is not listed. An extension is declared only if the
version does not include its feature.

A shader with cooperative matrices needs the Vulkan memory model (CM-02), so a GLSL450 module with
cooperative matrices is converted, including its barriers and shared accesses.

If the module was lowered for a target (`schedule.target`), the pass refuses an operation that
needs a capability that the target does not list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from xdsl_spirv.dialects.spirv.abi import VerCapExtAttr
from xdsl_spirv.dialects.spirv.enums import Capability, MemoryModel
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.grammar import RULES, WRITTEN_FOR, Version, grammar
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.target import TARGET, target_of
from xdsl_spirv.passes.spirv.requirements import Need, needs_of, requirements
from xdsl_spirv.targets import Target

VULKAN_1_3: Version = (1, 6)
"""The latest version of SPIR-V that Vulkan 1.3 accepts."""


@dataclass(frozen=True)
class UpdateVCEPass(ModulePass):
    """Derives the version, capabilities and extensions of every `spirv.module`."""

    name = "spirv-update-vce"

    version: str | float = 1.6
    """The SPIR-V version to declare. Vulkan 1.3 accepts up to 1.6."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        version = parse_version(str(self.version))
        target = target_of(op, self.name) if TARGET in op.attributes else None
        for module in op.walk():
            if isinstance(module, ModuleOp):
                update(module, version)
                if target is not None:
                    refuse_what_lacks(self.name, module, target)


def parse_version(text: str) -> Version:
    """Parses `1.6` or `v1.6`. Raises `DiagnosticException` for any other text."""
    major, _, minor = text.removeprefix("v").partition(".")
    if not major.isdecimal() or not minor.isdecimal():
        raise DiagnosticException(f"spirv-update-vce: {text!r} is not a version such as 1.6")
    return int(major), int(minor)


def update(module: ModuleOp, version: Version = VULKAN_1_3) -> None:
    """Sets the triple and the memory model that a module's contents need."""
    if needs_vulkan_memory_model(module):
        from xdsl_spirv.passes.spirv.vulkan_memory_model import use_vulkan_memory_model

        use_vulkan_memory_model(module)
    module.vce_triple = deduce(module, version)


def needs_vulkan_memory_model(module: ModuleOp) -> bool:
    """True if a shader needs the Vulkan memory model (CM-02) and declares another one."""
    if module.memory_model.data not in (MemoryModel.GLSL450, MemoryModel.Simple):
        return False
    needs = Solution(VULKAN_1_3, module)
    needs.choose(requirements(module))
    closure = needs.declared
    return not closure.isdisjoint(
        {Capability.CooperativeMatrixKHR.name, Capability.VulkanMemoryModel.name}
    )


def deduce(module: ModuleOp, version: Version = VULKAN_1_3) -> VerCapExtAttr:
    """
    Returns the triple that a module needs at a version of SPIR-V.

    Raises `DiagnosticException` if neither the version nor an extension provides a feature.
    """
    needs = requirements(module)
    solution = Solution(version, module)
    solution.choose(needs)
    solution.check_least_versions()
    for need, what in needs.items():
        solution.provide(need, what)
    for name in sorted(solution.declared):
        solution.provide_capability(name)
    return VerCapExtAttr(version, solution.capabilities, sorted(solution.extensions))


class Solution:
    """Chooses capabilities that satisfy a module's needs, and their extensions."""

    def __init__(self, version: Version, module: ModuleOp):
        self.version = version
        self.extensions: set[str] = set()
        self._chosen: set[str] = set()
        self.declared: set[str] = set()
        """The chosen capabilities and all capabilities that they imply."""
        self._before: set[str] = set()
        self._extensions_before: set[str] = set()
        if module.vce_triple is not None:
            self._before = {c.data.name for c in module.vce_triple.capabilities}
            self._extensions_before = {e.data for e in module.vce_triple.extensions}
        kernel = module.memory_model.data is MemoryModel.OpenCL or (
            Capability.Kernel.name in self._before and Capability.Shader.name not in self._before
        )
        environments = (Capability.Shader.name, Capability.Kernel.name)
        self._environment, self._other = reversed(environments) if kernel else environments

    @property
    def capabilities(self) -> list[Capability]:
        """
        The chosen capabilities that no other chosen capability implies, sorted by enumerant value.
        """
        implied = set[str]().union(*(grammar().implied(c) for c in self._chosen))
        names = self._chosen - implied
        return sorted(Capability[n] for n in names)

    def choose(self, needs: Iterable[Need]) -> None:
        """
        Chooses capabilities until every requirement is satisfied.

        Requirements without an alternative come first. Then the best alternative is chosen
        repeatedly: one that the module declared before, else the one that satisfies most open
        requirements, else the one that implies the fewest other capabilities.
        """
        self._take(self._environment)
        choices = [self._alternatives(n.capabilities) for n in needs if n.capabilities]
        for choice in choices:
            if len(choice) == 1:
                self._take(choice[0])
        while open_choices := [c for c in choices if self.declared.isdisjoint(c)]:
            candidates = list(dict.fromkeys(name for choice in open_choices for name in choice))
            self._take(
                min(
                    candidates,
                    key=lambda name: (
                        name not in self._before,
                        -sum(name in choice for choice in open_choices),
                        len(grammar().implied(name) - self.declared),
                        candidates.index(name),
                    ),
                )
            )

    def _alternatives(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Drops Kernel in shaders and Shader in kernels from the alternatives, if others remain."""
        return tuple(n for n in names if n != self._other) or names

    def _take(self, name: str) -> None:
        name = Capability[name].name
        self._chosen.add(name)
        self.declared |= {name, *grammar().implied(name)}

    def check_least_versions(self) -> None:
        """Checks that the version is high enough for the module's extensions (CM-01, ROT-01)."""
        for name in sorted(self.declared & RULES.keys()):
            for extension in grammar().kind("Capability")[name].extensions:
                least = WRITTEN_FOR.get(extension, self.version)
                if self.version < least:
                    self._refuse(f"{RULES[name]}: the capability {name}", least)

    def provide_capability(self, name: str) -> None:
        """Declares a capability's extension if the version lacks the capability."""
        entry = grammar().kind("Capability")[name]
        self.provide(Need((), entry.extensions, entry.version), f"the capability {name}")

    def provide(self, need: Need, what: str) -> None:
        """Declares an extension for a requirement, unless the module's version satisfies it."""
        if need.version is not None and need.version <= self.version:
            return
        if not need.extensions:
            if need.version is not None:
                self._refuse(what, need.version)
            return
        if self.extensions.isdisjoint(need.extensions):
            named = [e for e in need.extensions if e in self._extensions_before]
            named += [e for e in need.extensions if e.startswith("SPV_KHR_")]
            self.extensions.add((*named, *need.extensions)[0])

    def _refuse(self, what: str, least: Version) -> None:
        raise DiagnosticException(
            f"{what} needs SPIR-V {least[0]}.{least[1]}, but the module is for "
            f"{self.version[0]}.{self.version[1]}; raise the option version of spirv-update-vce"
        )


def missing(module: ModuleOp) -> str | None:
    """
    Returns the first requirement that the module's triple does not satisfy; None if there is none.
    """
    triple = module.vce_triple
    if triple is None:
        return None
    declared = {c.data.name for c in triple.capabilities}
    declared |= set[str]().union(*(grammar().implied(c) for c in declared))
    extensions = {e.data for e in triple.extensions}
    version = triple.version.data
    for need, what in requirements(module).items():
        if need.capabilities and declared.isdisjoint(need.capabilities):
            return f"{what} needs the capability {' or '.join(need.capabilities)}"
        in_core = need.version is not None and need.version <= version
        if not in_core and need.extensions and extensions.isdisjoint(need.extensions):
            return f"{what} needs the extension {' or '.join(need.extensions)}"
    return None


# Features that a target lists

FEATURES: Mapping[Capability, str] = {
    Capability.BFloat16CooperativeMatrixKHR: "bfloat16-cooperative-matrix",
    Capability.BFloat16DotProductKHR: "bfloat16-dot-product",
    Capability.BFloat16TypeKHR: "bfloat16-type",
    Capability.CooperativeMatrixConversionsEXT: "cooperative-matrix-conversions",
    Capability.CooperativeMatrixConversionsNV: "cooperative-matrix-conversions",
    Capability.CooperativeMatrixKHR: "cooperative-matrix",
    Capability.CooperativeMatrixPerElementOperationsNV: "cooperative-matrix-per-element-operations",
    Capability.CooperativeMatrixReductionsNV: "cooperative-matrix-reductions",
    Capability.DotProduct: "integer-dot-product",
    Capability.DotProductInput4x8Bit: "integer-dot-product",
    Capability.DotProductInput4x8BitPacked: "integer-dot-product",
    Capability.DotProductInputAll: "integer-dot-product",
    Capability.Float16: "float16",
    Capability.Float64: "float64",
    Capability.Float8EXT: "float8-type",
    Capability.FloatControls2: "float-controls-2",
    Capability.GroupNonUniformArithmetic: "subgroup-arithmetic",
    Capability.GroupNonUniformRotateKHR: "subgroup-rotate",
    Capability.GroupNonUniformShuffle: "subgroup-shuffle",
    Capability.Int16: "int16",
    Capability.Int64: "int64",
    Capability.Int8: "int8",
    Capability.PhysicalStorageBufferAddresses: "buffer-device-address",
    Capability.StorageBuffer16BitAccess: "storage-16-bit",
    Capability.StorageBuffer8BitAccess: "storage-8-bit",
    Capability.VulkanMemoryModel: "vulkan-memory-model",
    Capability.VulkanMemoryModelDeviceScope: "vulkan-memory-model-device-scope",
    Capability.WorkgroupMemoryExplicitLayout16BitAccessKHR: (
        "workgroup-memory-explicit-layout-16-bit"
    ),
    Capability.WorkgroupMemoryExplicitLayout8BitAccessKHR: "workgroup-memory-explicit-layout-8-bit",
    Capability.WorkgroupMemoryExplicitLayoutKHR: "workgroup-memory-explicit-layout",
}
"""The feature in a target file for each capability. Other capabilities are not checked."""

FLOATS = ("bfloat16-type", "float16", "float64", "float8-type")


def refuse_what_lacks(pass_name: str, module: ModuleOp, target: Target) -> None:
    """Refuses the first operation that needs a capability that the target does not list."""
    triple = module.vce_triple
    declared = {c.data for c in triple.capabilities} if triple is not None else set[Capability]()
    for capability in sorted(declared):
        for name in (capability.name, *sorted(grammar().implied(capability.name))):
            feature = FEATURES.get(Capability[name])
            if feature is not None and feature not in target.features:
                op = _first_with(module, name) or module
                remedy = ", or compute in f32 in the model" if feature in FLOATS else ""
                refuse(
                    pass_name,
                    op,
                    f"the operation needs the capability {name}, and {target.name} has no "
                    f"{feature}: compile for a device with {feature}{remedy}",
                )


def _first_with(module: ModuleOp, capability: str) -> Operation | None:
    for moves in (False, True):
        for op in module.walk():
            for need in needs_of(op, moves=moves) if op is not module else ():
                wanted = {name for c in need.capabilities for name in (c, *grammar().implied(c))}
                if capability in wanted:
                    return op
    return None
