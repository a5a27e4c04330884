"""
Describes each dispatch of a program: its computation, model nodes, and the reasons for its path.

A layer is a dispatch. Its record is created right before the dispatch is moved out of the host
function. Schedules are known then, and operations are still on tensors. The reasons are the ones
that `assign-schedule` attached to the operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType, IndexType, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp, YieldOp
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects.places import labels_of, node_of, nodes_of
from xdsl_spirv.dialects.program import step_of
from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionOp,
    DispatchOp,
    PackOp,
    bit_width,
    schedule_of,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    as_contraction,
    contraction_of,
    element_type,
)
from xdsl_spirv.passes.analysis.sizes import loop_extents
from xdsl_spirv.passes.analysis.sizes import number as size_of
from xdsl_spirv.passes.schedule.kinds import KINDS, kind_of, root_of
from xdsl_spirv.passes.schedule.paths import LOOPS, PATHS, considered_before
from xdsl_spirv.runtime.layers import Considered, Layer

FREE = (
    arith.ConstantOp,
    arith.ExtFOp,
    arith.TruncFOp,
    arith.ExtSIOp,
    arith.ExtUIOp,
    arith.TruncIOp,
)
"""Scalar operations that do not count as work."""


def layers_of(module: Operation, operators: Mapping[str, str] | None = None) -> list[Layer]:
    """Returns the layers of scheduled dispatches. `operators` maps nodes to model operators."""
    layers: list[Layer] = []
    for op in module.walk():
        if isinstance(op, DispatchOp):
            layers.append(_layer(op, operators or {}))
        elif isinstance(op, func.CallOp) and isinstance(module, func.FuncOp):
            layers += layers_of(step_of(op), operators)
    return layers


def relies_on_component_map(module: Operation) -> bool:
    """
    True if a kernel depends on the target's map from cooperative-matrix components to invocations.
    Vulkan leaves this map to the implementation, so the program may be wrong on other devices.
    """
    return any(map(_relies, module.walk()))


def _relies(op: Operation) -> bool:
    """
    True if the kernel of an operation accesses single components of cooperative matrices, and
    depends on their positions.
    """
    schedule = schedule_of(op)
    if schedule is None or schedule.uses_components or not schedule.direct:
        return schedule is not None and schedule.uses_components
    assert isinstance(op, LinalgStructuredOperation)
    unpackings = contraction_of(op, schedule.is_transposed).unpackings
    return any(unpackings[operand] is not None for operand in schedule.direct)


def _considered_paths(op: Operation) -> list[Considered]:
    """Returns the kinds of kernels (paths) that `assign-schedule` considered for an operation."""
    return [
        Considered(entry.path.data, bool(entry.taken), entry.reason.data)
        for entry in considered_before(op)
    ]


def _layer(dispatch: DispatchOp, operators: Mapping[str, str]) -> Layer:
    body = list(dispatch.body.block.ops)
    noted = [entry for op in body for entry in _considered_paths(op)]
    contraction = next(filter(None, map(_contraction, body)), None)
    attention = next((op for op in body if isinstance(op, AttentionOp)), None)
    root = root_of(dispatch)
    kind = root and kind_of(root)
    path = KINDS[kind].path if kind else LOOPS
    schedule = root and root.attributes.get(SCHEDULE)
    if path == LOOPS:
        noted = _considered_paths(max(body, key=lambda op: _operations(op, contraction) or 0))
    else:
        noted = [entry for entry in noted if entry.path != LOOPS]
    nodes = labels_of(dispatch)
    return Layer(
        nodes=nodes,
        operators=tuple(operators.get(node, "") for node in nodes) if operators else (),
        path=path,
        types=_types(dispatch, contraction, attention),
        computes=_computes(body, contraction),
        schedule=str(schedule) if schedule is not None else "",
        considered=tuple(sorted(noted, key=_speed)),
        operations=_sum(_operations(op, contraction) for op in body),
        bytes=_sum(_bytes(type) for type in _moved_types(dispatch)),
        results=len(dispatch.outputs),
        ends=tuple(map(_end, dispatch.yielded, dispatch.outputs)),
    )


def _moved_types(dispatch: DispatchOp) -> list[Attribute]:
    """
    Returns the types of the values that a dispatch reads and writes.

    If the dispatch updates parts of a tensor in place, or reads only slices of dynamic size,
    returns the types of these parts or slices instead of the tensor's type.
    """
    moved: list[Attribute] = []
    for value, argument in zip(dispatch.inputs, dispatch.body.block.args, strict=True):
        slices = [use.operation for use in argument.uses]
        read = [op.result for op in slices if isinstance(op, tensor.ExtractSliceOp)]
        if argument.index in dispatch.updates.values():
            continue
        is_open = any(DYNAMIC_INDEX in part.type.get_shape() for part in read)
        sliced = is_open and len(read) == len(slices)
        moved += [part.type for part in read] if sliced else [value.type]
    for number, (value, yielded) in enumerate(zip(dispatch.outputs, dispatch.yielded, strict=True)):
        if number not in dispatch.updates:
            moved.append(value.type)
            continue
        while isinstance(yielded.owner, tensor.InsertSliceOp):
            moved.append(yielded.owner.source.type)
            yielded = yielded.owner.dest
    return [type for type in moved if not isinstance(type, IndexType)]


def _end(yielded: SSAValue, result: SSAValue) -> str:
    """
    Returns the name of the model node whose last operation computes `yielded`, a value that a
    dispatch returns as `result`. Returns "" if a later operation computes another part of the node.
    """
    name = node_of(yielded.owner) if isinstance(yielded.owner, Operation) else None
    waiting = [use.operation for use in result.uses]
    while waiting:
        user = waiting.pop()
        if name in nodes_of(user):
            return ""
        if not isinstance(user, DispatchOp):
            waiting += [use.operation for value in user.results for use in value.uses]
    return name or ""


def _speed(considered: Considered) -> int:
    return PATHS.index(considered.path) if considered.path in PATHS else len(PATHS)


def _computes(body: Sequence[Operation], contraction: Contraction | None) -> str:
    if contraction is None:
        return _kinds(body)
    fused = _kinds(op for op in body if op is not contraction.op)
    return f"{contraction} with {fused}" if fused else str(contraction)


def _contraction(op: Operation) -> Contraction | None:
    return as_contraction(op) if SCHEDULE in op.attributes else None


def _types(
    dispatch: DispatchOp, contraction: Contraction | None, attention: AttentionOp | None
) -> str:
    """Returns `f16 x f16 -> f32` for a product or attention, otherwise the result types."""
    if contraction is not None:
        a, b, result = contraction.types
        return f"{a} x {b} -> {result}"
    if attention is not None:
        q, k = element_type(attention.query), element_type(attention.key)
        return f"{q} x {k} -> f32"
    return ", ".join(sorted({str(value.type.element_type) for value in dispatch.outputs}))


def _kinds(body: Iterable[Operation]) -> str:
    """Returns the distinct kinds of operations of a dispatch without a contraction."""
    kinds: dict[str, None] = {}
    for op in body:
        if isinstance(op, LinalgStructuredOperation) and not isinstance(op, FillOp):
            names = [inner.name.partition(".")[2] for inner in op.walk() if _is_work(inner)]
            reduces = any(str(iterator.data) == "reduction" for iterator in op.get_iterator_types())
            what = ", ".join(dict.fromkeys(names)) or "copy"
            kinds[f"reduce({what})" if reduces else what] = None
        elif op.name.startswith("tensor.") and op.name != "tensor.empty":
            kinds[op.name.partition(".")[2]] = None
        elif isinstance(op, PackOp):
            kinds["pack"] = None
        elif isinstance(op, AttentionOp):
            sizes = op.sized(list(map(size_of, op.numbers)))
            known = ("?" if is_dynamic(size) else size for size in (sizes.batch, *sizes.extents))
            batch, m, n, d, e = known
            kinds[f"attention of {batch} x {m} queries, {n} keys of {d}, values of {e}"] = None
    return "; ".join(kinds)


def _is_work(op: Operation) -> bool:
    return op.name.startswith(("arith.", "math.")) and not isinstance(op, FREE)


def _operations(op: Operation, contraction: Contraction | None) -> int | None:
    if isinstance(op, AttentionOp):
        sizes = op.sized(list(map(size_of, op.numbers)))
        m, n, d, e = sizes.extents
        products = sizes.batch * m * n * (d + e)
        return None if is_dynamic(products) else 2 * products
    if not isinstance(op, LinalgStructuredOperation) or isinstance(op, FillOp):
        return 0
    if contraction is not None and op is contraction.op:
        products = contraction.batch * contraction.m * contraction.n * contraction.k
        return None if is_dynamic(products) else 2 * products
    types = [value.type for value in op.operands]
    if any(not isinstance(type, TensorType) or not type.has_static_shape() for type in types):
        return None
    loops = [extent for extent in loop_extents(op) if isinstance(extent, int)]
    if len(loops) < len(op.get_iterator_types()):
        return None
    body = [inner for inner in op.walk() if inner is not op and not isinstance(inner, YieldOp)]
    return prod(loops) * sum(map(_is_work, body))


def _bytes(type: Attribute) -> int | None:
    if not isinstance(type, TensorType) or DYNAMIC_INDEX in type.get_shape():
        return None
    if not isinstance(type.element_type, FixedBitwidthType):
        return None
    return prod(type.get_shape()) * max(8, bit_width(type.element_type)) // 8


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for count in numbers:
        if count is None:
            return None
        total += count
    return total
