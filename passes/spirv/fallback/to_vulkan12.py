"""
`spirv-to-vulkan12`: replaces instructions that a device lacks by code for Vulkan 1.2.

Each fallback runs if the module uses a feature that the target file does not list; without a
target all fallbacks run. The order matters: cooperative matrices of bfloat16 become arrays of
bfloat16 before bfloat16 is rewritten. The result needs shuffles if the module has rotations.
Without a target it also needs 8- or 16-bit storage and arithmetic, if the module does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, IntegerType
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.spirv.fallback.bfloat16_to_bits import BFloat16ToBitsPass
from xdsl_spirv.passes.spirv.fallback.cooperative_matrix_to_invocations import (
    CooperativeMatrixToInvocationsPass,
    MatrixPass,
)
from xdsl_spirv.passes.spirv.fallback.dot_to_shifts import DotToShiftsPass
from xdsl_spirv.passes.spirv.fallback.glsl450_memory_model import GLSL450MemoryModelPass
from xdsl_spirv.passes.spirv.fallback.int64_to_words import Int64ToWordsPass
from xdsl_spirv.passes.spirv.fallback.rotate_to_shuffle import RotateToShufflePass
from xdsl_spirv.passes.spirv.fallback.small_integers_to_32_bits import SmallIntegersTo32BitsPass
from xdsl_spirv.passes.spirv.fallback.small_storage_to_words import SmallStorageToWordsPass
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass, refuse_what_lacks
from xdsl_spirv.targets import Target, TargetError, load

NAME = "spirv-to-vulkan12"
SPIRV_OF_VULKAN_12 = 1.5

FLAGS = spv.CooperativeMatrixOperands
SIGNS = (
    FLAGS.MatrixASignedComponentsKHR,
    FLAGS.MatrixBSignedComponentsKHR,
    FLAGS.MatrixCSignedComponentsKHR,
    FLAGS.MatrixResultSignedComponentsKHR,
)


@dataclass(frozen=True)
class ToVulkan12Pass(MatrixPass):
    """
    Runs the fallbacks that a target needs, then spirv-update-vce.

    `spirv-cooperative-matrix-to-invocations` describes all options except `target`.
    """

    name = NAME

    target: str = ""
    """A device name or a target file. If empty, the pass assumes only features of Vulkan 1.2."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        target = None
        if self.target:
            try:
                target = load(self.target)
            except TargetError as error:
                raise PassFailedException(f"{NAME}: {error}") from error
        for fallback in self.passes(op, target):
            fallback.apply(ctx, op)
        for module in op.walk():
            if target is not None and isinstance(module, spv.ModuleOp):
                refuse_what_lacks(NAME, module, target)

    def passes(self, op: BuiltinModuleOp, target: Target | None) -> Iterator[ModulePass]:
        """Yields the passes to run, in their order."""
        has = frozenset[str]() if target is None else target.features
        if not {"subgroup-rotate", "subgroup-rotate-clustered"} <= has:
            yield RotateToShufflePass()
        if "integer-dot-product" not in has:
            yield DotToShiftsPass()
        if target is None or not matrices_listed(op, target):
            memory = self.workgroup_memory
            if not memory and target is not None:
                memory = target.workgroup_memory_bytes
            yield CooperativeMatrixToInvocationsPass(
                self.subgroup_size, self.subgroups, memory, self.assume_uniform
            )
        if "bfloat16-type" not in has or (
            "bfloat16-dot-product" not in has and has_bfloat16_dot_products(op)
        ):
            yield BFloat16ToBitsPass()
        if "int64" not in has:
            yield Int64ToWordsPass()
        version = SPIRV_OF_VULKAN_12
        if target is not None:
            version = float(target.spirv_version)
        if "vulkan-memory-model" not in has:
            yield GLSL450MemoryModelPass()
        if target is not None:
            for fallback in (SmallStorageToWordsPass, SmallIntegersTo32BitsPass):
                yield fallback(widths=fallback.lacking(target))
        yield UpdateVCEPass(version)


def has_bfloat16_dot_products(op: BuiltinModuleOp) -> bool:
    """True if a module has OpDot on bfloat16."""
    return any(
        isinstance(inner, spv.DotOp)
        and isinstance(spv.element_of(inner.vector_1.type), BFloat16Type)
        for inner in op.walk()
    )


def matrices_listed(op: BuiltinModuleOp, target: Target) -> bool:
    """True if the target supports every MulAdd and the types of all cooperative matrices."""
    has = target.features
    for inner in op.walk():
        types = [v.type for v in (*inner.operands, *inner.results)]
        for type_ in types:
            if not isinstance(type_, spv.CooperativeMatrixType):
                continue
            if "cooperative-matrix" not in has:
                return False
            bfloat16 = isinstance(type_.element_type, BFloat16Type)
            if bfloat16 and "bfloat16-cooperative-matrix" not in has:
                return False
        if isinstance(inner, spv.CooperativeMatrixMulAddOp) and not _is_listed(inner, target):
            return False
    return True


def _is_listed(op: spv.CooperativeMatrixMulAddOp, target: Target) -> bool:
    flags = FLAGS(0) if op.matrix_operands is None else FLAGS(op.matrix_operands.data)
    values = (op.a, op.b, op.c, op.result)
    matrices = [v.type for v in values if isinstance(v.type, spv.CooperativeMatrixType)]
    a, b, *_ = matrices
    shape = (spv.known_size(a.rows), spv.known_size(b.columns), spv.known_size(a.columns))
    scope = a.scope
    if None in shape or not isinstance(scope, spv.ScopeAttr):
        # The shape depends on a specialization constant, whose value is chosen for the device.
        return True
    types = tuple(
        _name(m.element_type, signed=bool(flags & sign))
        for m, sign in zip(matrices, SIGNS, strict=True)
    )
    saturating = bool(flags & FLAGS.SaturatingAccumulationKHR)
    return any(
        (p.shape, p.types, p.saturating, p.scope) == (shape, types, saturating, scope.data.name)
        for p in target.cooperative_matrix
    )


def _name(element: Attribute, *, signed: bool) -> str:
    if isinstance(element, IntegerType):
        return f"{'s' if signed else 'u'}{element.width.data}"
    return str(element)
