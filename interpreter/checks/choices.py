"""
Checks that results do not depend on choices that the specifications leave to an implementation.

The first workgroups of a launch run again, unchecked, with other choices. Their results are
compared with the results of the launch. (If atomics let other workgroups change the results, the
first workgroups run twice and both runs are compared.)

No bit of a result may depend on the component mapping (CM-18). Floats may depend on the order of a
MulAdd's additions and on bfloat16's rounding, within the error interval that docs/numerics.md
derives. The width of the interval follows from the length n of the longest sum, and from a run in
which every MulAdd computes |A| |B| + |C|. n is at most the number of executed MulAdds times their
K.

The interval is valid if all operations after the MulAdds are linear or clamp. For a kernel with
other functions of floats no interval is known, so only its integers are compared. A kernel that
stores only floats, and only moves them apart from its MulAdds, always stays in the interval. It is
not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import arithmetic, composite, conversion, glsl
from xdsl_spirv.dialects.spirv import cooperative_matrix as matrices
from xdsl_spirv.dialects.spirv import memory as memory_ops
from xdsl_spirv.dialects.spirv.atomic import AtomicOperation
from xdsl_spirv.dialects.spirv.attributes import ScopeAttr
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType, PointerType, UntypedPointerType
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.report import Finding
from xdsl_spirv.interpreter.component_maps import applies, count
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.interpreter.memories import Place, copy_buffers
from xdsl_spirv.interpreter.numbers import BFLOAT16, Array, is_float, scalar_dtype
from xdsl_spirv.interpreter.options import Accumulation, Options, mappings
from xdsl_spirv.interpreter.options import Mapping as ComponentMapping
from xdsl_spirv.interpreter.source.source_map import name_of_buffer

Run: TypeAlias = Callable[[Options, dict[Place, Array]], Context]
"""A function that runs the first workgroups with the given options on the given buffers."""

SAMPLE = 8
"""Number of workgroups that run again with other choices."""

LINEAR = (
    arithmetic.FAddOp,
    arithmetic.FSubOp,
    arithmetic.FMulOp,
    arithmetic.FNegateOp,
    arithmetic.MatrixTimesScalarOp,
    arithmetic.VectorTimesScalarOp,
    conversion.FConvertOp,
    matrices.CooperativeMatrixMulAddOp,
    glsl.GLFMaxOp,
    glsl.GLFMinOp,
    glsl.GLFClampOp,
    glsl.GLFmaOp,
)
"""Float operations that may follow a MulAdd. The error interval is valid for their results, too."""

_MOVING = ("Load", "Store", "Composite", "VectorShuffle", "Constant", "Copy", "Undef", "Variable")


class Choices:
    """Finds and tests the implementation choices on which a module's results may depend."""

    def __init__(self, module: Operation, options: Options):
        assert options.checks is not None
        self.options = options
        self.checks = options.checks
        self.plain = replace(options, checks=None, debug=None)
        operations = list(module.walk())
        self.atomic = any(isinstance(op, AtomicOperation) for op in operations)
        self.components = sees_components(module) if self.checks.launches_stand_alone else None
        self.sums = [op for op in operations if _sums_floats(op)]
        self.bfloat = next((op for op in operations if _makes_bfloat16(op)), None)
        self.length = 1
        self.mappings = mappings_of([module], options.subgroup_size)
        self.linear = all(map(_is_linear, operations))
        if self.linear and not any(map(_leaves_floats, operations)):
            self.sums, self.bfloat = [], None

    @property
    def any(self) -> bool:
        """True if the module can be run again with another choice."""
        return bool(self.components or self.sums or self.bfloat)

    def explore(
        self,
        buffers: Mapping[Place, Array],
        results: Mapping[Place, Array],
        workgroups: int,
        run: Run,
    ) -> None:
        """
        Runs the module with every choice, and reports results that differ from `results`.

        `buffers` are the contents before the launch, `results` the contents after it. Nothing is
        compared if the program fails even without checks. That failure is reported elsewhere.
        """
        tried = self.plain

        def outcome(options: Options) -> dict[Place, Array]:
            nonlocal tried
            tried = options
            copies = copy_buffers(buffers)
            context = run(options, copies)
            if options.accumulation == "magnitudes":
                self.length = max(1, context.products)
            return copies

        try:
            self._explore(buffers, results, workgroups, outcome)
        except InterpreterError as error:
            failed = tried
            try:
                outcome(self.plain)
            except InterpreterError:
                return
            self._fail(failed, error)

    def _explore(
        self,
        buffers: Mapping[Place, Array],
        results: Mapping[Place, Array],
        workgroups: int,
        outcome: Callable[[Options], dict[Place, Array]],
    ) -> None:
        self.before = buffers
        few = workgroups <= SAMPLE
        self.partial = not few and not self.atomic
        own = results if few or not self.atomic else outcome(self.plain)
        if self.components is not None:
            for mapping in self.mappings:
                if mapping != self.options.component_mapping:
                    other = outcome(replace(self.plain, component_mapping=mapping))
                    self._compare_bits(own, other, f"component mapping {mapping}")
        if not self.sums and self.bfloat is None:
            return
        sizes: dict[Place, Array] = {}
        if self.sums:
            sizes = outcome(replace(self.plain, accumulation="magnitudes"))
            orders: tuple[Accumulation, ...] = ("exact", "halves") if few else ("exact",)
            for order in orders:
                other = outcome(replace(self.plain, accumulation=order))
                what = f"sums {ORDERS[order]}"
                self._compare(own, other, sizes, "CHOICE-02", self.sums[0], what)
        if self.bfloat is not None:
            rounding = "toward-zero"
            if self.options.bfloat16_rounding == rounding:
                rounding = "nearest-even"
            other = outcome(replace(self.plain, bfloat16_rounding=rounding))
            self._compare(
                own, other, sizes, "CHOICE-03", self.bfloat, f"bfloat16 rounded {rounding}"
            )

    def _compare_bits(
        self,
        own: Mapping[Place, Array],
        other: Mapping[Place, Array],
        what: str,
    ) -> None:
        for place, array in own.items():
            different = self._different(place, array, other[place])
            if different.any():
                assert self.components is not None
                self._find(
                    "CHOICE-01", self.components, place, array, other[place], different, what
                )
                return

    def _compare(
        self,
        own: Mapping[Place, Array],
        other: Mapping[Place, Array],
        sizes: Mapping[Place, Array],
        rule: str,
        op: Operation,
        what: str,
    ) -> None:
        for place, array in own.items():
            different = self._different(place, array, other[place])
            if is_float(array.dtype) and different.any():
                if not self.linear:
                    continue
                changed = (array[different], other[place][different])
                magnitude = sizes.get(place, array)[different]
                different[different] = self._beyond(rule, *changed, magnitude)
            if different.any():
                self._find(rule, op, place, array, other[place], different, what)
                return

    def _different(self, place: Place, own: Array, other: Array) -> Array:
        """
        Returns a mask of the elements whose bits differ. Excludes elements that the repeated
        workgroups did not write.
        """
        different = _raw(own) != _raw(other)
        if self.partial and different.any():
            different &= _raw(other) != _raw(self.before[place])
        return different

    def _beyond(self, rule: str, own: Array, other: Array, magnitude: Array) -> Array:
        """
        Compares the floats of two runs, `own` and `other`. Returns a mask of the elements whose
        difference is larger than `rule` allows.

        `magnitude` is the result of the same operations on absolute values.
        """
        dtype = own.dtype
        own, other, magnitude = (x.astype(np.float64) for x in (own, other, magnitude))
        allowed = self._allowed(rule, own, np.abs(magnitude), dtype)
        same = (own == other) | (np.isnan(own) & np.isnan(other))
        return ~same & ~(np.abs(own - other) <= allowed) & np.isfinite(magnitude)

    def _allowed(self, rule: str, value: Array, magnitude: Array, dtype: Any) -> Array:
        """
        Returns the largest difference that `rule` allows between the two results of each element.
        """
        v = float(ml_dtypes.finfo(dtype).eps)
        size = magnitude + np.abs(value)
        if rule == "CHOICE-03":
            return 4 * float(ml_dtypes.finfo(BFLOAT16).eps) * size + 2 * v * np.abs(value)
        u, tiny = 0.0, 0.0
        for op in self.sums:
            component = scalar_dtype(op.result.type.element_type)  # pyright: ignore
            info = ml_dtypes.finfo(component)  # pyright: ignore
            u = max(u, float(info.eps))
            tiny = max(tiny, float(info.smallest_subnormal))
        length = self.length
        return 2 * ((length + 1) * u * size + v * np.abs(value) + (2 * length + 1) * tiny)

    def _find(
        self,
        rule: str,
        op: Operation,
        place: Place,
        own: Array,
        other: Array,
        different: Array,
        what: str,
    ) -> None:
        report = self.checks.report
        if report.seen(rule, op):
            return
        first = tuple(int(n) for n in np.argwhere(different)[0])
        count = int(different.sum())
        finding = Finding(
            rule,
            op.name,
            f"the result at {name_of_buffer(op, place)} changes with {what}",
            "make the result independent of an implementation's choice",
        )
        finding.values = [
            f"{count} elements differ, the first at {list(first)}: {own[first]} and {other[first]}"
        ]
        if is_float(own.dtype):
            spread = np.abs(own.astype(np.float64) - other.astype(np.float64))
            finding.values.append(f"largest difference: {np.nanmax(spread):g}")
        self._add(finding, op)

    def _fail(self, options: Options, error: InterpreterError) -> None:
        op, rule = self.components, "CHOICE-01"
        if options.accumulation != self.plain.accumulation:
            op, rule = self.sums[0], "CHOICE-02"
        elif options.bfloat16_rounding != self.plain.bfloat16_rounding:
            op, rule = self.bfloat, "CHOICE-03"
        assert op is not None
        message = f"the program fails with a choice that implementations may make: {error}"
        remedy = "do not let an address depend on an implementation's choice"
        self._add(Finding(rule, op.name, message, remedy), op)

    def _add(self, finding: Finding, op: Operation) -> None:
        places.locate(finding, op)
        self.checks.record(finding, op)


ORDERS: dict[Accumulation, str] = {
    "halves": "a MulAdd that adds C first and sums in two halves",
    "exact": "a MulAdd that is exact and rounded once",
}


def _raw(array: Array) -> Array:
    flat = np.ascontiguousarray(array)
    return flat.view(f"u{array.dtype.itemsize}") if array.dtype.kind != "u" else flat


def _matrix(type: Any) -> bool:
    return isinstance(type, CooperativeMatrixType)


SKIPPED_TARGETS = ("lavapipe", "nvidia-h200", "amd-rdna3.5", "intel-lnl")
"""Targets that need no test of their own: another target has the same component mapping."""


def mappings_of(modules: Sequence[Operation], lanes: int) -> list[ComponentMapping]:
    """
    Returns the component mappings that apply to every matrix of the modules, for subgroups of
    `lanes` lanes.

    Some mappings store a component in several invocations. These mappings are included only if a
    module reads the number of an invocation's components (OpCooperativeMatrixLengthKHR).
    """
    operations = [op for module in modules for op in module.walk()]
    asks = any(isinstance(op, matrices.CooperativeMatrixLengthOp) for op in operations)
    forms = {_form(r.type) for op in operations for r in op.results if _matrix(r.type)}
    chosen: list[ComponentMapping] = ["row-major", "column-major", "opaque"]
    for mapping in mappings():
        if mapping in (*chosen, *SKIPPED_TARGETS) or None in forms:
            continue
        known = [form for form in forms if form is not None and applies(mapping, form, lanes)]
        shared = (count(mapping, f, lanes) * lanes == f.rows * f.columns for f in known)
        if len(known) == len(forms) and (asks or all(shared)):
            chosen.append(mapping)
    return chosen


def _form(type: Any) -> CooperativeMatrix | None:
    """
    Returns the representation of a subgroup matrix. Returns None if its sizes or scope are unknown.
    """
    assert isinstance(type, CooperativeMatrixType)
    dtype = scalar_dtype(type.element_type)
    sizes, scope = (type.rows, type.columns), type.scope
    if dtype is None or not all(isinstance(size, IntAttr) for size in sizes):
        return None
    if not isinstance(scope, ScopeAttr) or scope.data != Scope.Subgroup:
        return None
    rows, columns = (size.data for size in sizes)  # pyright: ignore
    return CooperativeMatrix(dtype, rows, columns, scope.data, type.use.data)  # pyright: ignore


def sees_components(module: Operation) -> Operation | None:
    """Returns the first operation that accesses single components of a matrix, or None."""
    return next((op for op in module.walk() if _sees_components(op)), None)


def _sees_components(op: Operation) -> bool:
    if isinstance(op, matrices.CooperativeMatrixLengthOp):
        return True
    if isinstance(op, composite.CompositeExtractOp | composite.CompositeInsertOp):
        return _matrix(op.composite.type)
    if isinstance(op, memory_ops.AccessChainOp | memory_ops.InBoundsAccessChainOp):
        base = op.base.type
        return isinstance(base, PointerType) and _matrix(base.pointee)
    return False


def _sums_floats(op: Operation) -> bool:
    if not isinstance(op, matrices.CooperativeMatrixMulAddOp):
        return False
    type = op.result.type
    assert isinstance(type, CooperativeMatrixType)
    dtype = scalar_dtype(type.element_type)
    return dtype is not None and is_float(dtype)


def _component(type: Any) -> Any:
    while True:
        inner = getattr(type, "element_type", None) or getattr(type, "column_type", None)
        if inner is None:
            return scalar_dtype(type)
        type = inner


def _makes_bfloat16(op: Operation) -> bool:
    rounds = isinstance(
        op,
        conversion.FConvertOp
        | conversion.ConvertSToFOp
        | conversion.ConvertUToFOp
        | arithmetic.DotOp
        | matrices.CooperativeMatrixMulAddOp,
    )
    return rounds and _component(op.results[0].type) == BFLOAT16


def _leaves_floats(op: Operation) -> bool:
    """
    True if an operation has float operands but a result (or stored value) that is not a float.
    """
    if any(isinstance(operand.type, UntypedPointerType) for operand in op.operands):
        return True
    if isinstance(op, matrices.CooperativeMatrixStoreOp):
        pointer = op.pointer.type
        assert isinstance(pointer, PointerType)
        return _float(op.object.type) and not _float(pointer.pointee)
    taken = any(_float(operand.type) for operand in op.operands)
    moved = any(part in op.name for part in _MOVING)
    return taken and not moved and any(not _float(result.type) for result in op.results)


def _float(type: Any) -> bool:
    dtype = _component(type)
    return dtype is not None and is_float(dtype)


def _is_linear(op: Operation) -> bool:
    """
    True if an operation is linear in its float operands. The error intervals of the operands then
    give the interval of the result.
    """
    if not op.results or isinstance(op, LINEAR):
        return True
    if any(part in op.name for part in _MOVING) or not op.name.startswith("spirv."):
        return True
    dtype = _component(op.results[0].type)
    if dtype is None or not is_float(dtype):
        return True
    return op.name.startswith(("spirv.mlir.", "spirv.FunctionCall", "spirv.Bitcast"))
