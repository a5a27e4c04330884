"""
Translates a host function of `linalg.generic` to a graph of TOSA operators.

A generic operation is one of three kinds: elementwise (each operation of its body becomes an
operator), a contraction (MatMul, Conv2D or DepthwiseConv2D, depending on the dimensions of each
operand), or a reduction (ReduceSum, MaxPool2D, ...). Transpose and Reshape bring operands into the
operator's layout. Consecutive transposes and reshapes that cancel out are removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.compiler.graph_builder import MAX_RANK, Array, GraphBuilder, Value, numpy_type
from xdsl_spirv.compiler.graph_files import GraphProgram
from xdsl_spirv.compiler.graph_forms import (
    COMBINERS,
    PRODUCTS,
    Access,
    Combiner,
    emit_scalar,
    gather,
    loop_numbers,
    loop_sizes,
    multiply,
    refusal,
)
from xdsl_spirv.compiler.graph_integers import (
    as_signed,
    multiply_integers,
    narrow_numbers,
    quantization,
    quantize,
    take_narrow,
    zero_points,
)
from xdsl_spirv.compiler.host import host_function
from xdsl_spirv.compiler.signature import argument_name
from xdsl_spirv.dialects.spirv import tosa
from xdsl_spirv.dialects.spirv.types_declared import TensorArmType
from xdsl_spirv.frontends.model import ImportedModel
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.runtime.errors import ProgramError


def graph_of_model(model: ImportedModel) -> GraphProgram:
    """
    Translates a model with fixed sizes to a graph.

    Raises `ProgramError` at an operation that TOSA lacks.
    """
    module = multiply_integers(model.module)
    host = host_function(module, model.function)
    block = host.body.block
    names = [argument_name(argument, k) for k, argument in enumerate(block.args)]
    inputs = {value.name: names.index(value.name) for value in model.inputs}
    for name in names:
        if name not in inputs and name not in model.weights:
            raise ProgramError("a graph has no states", name, "compile the model to kernels")
    wide = frozenset(name for name, k in inputs.items() if take_narrow(block.args[k]))
    narrow_numbers(module)
    types = [_type_of(block.args[k], f"the input {name!r}") for name, k in inputs.items()]
    translator = _Translator(GraphBuilder(types))
    given = zip(inputs.values(), translator.b.block.args, strict=True)
    translator.values |= {block.args[k]: argument for k, argument in given}
    for name, argument in zip(names, block.args, strict=True):
        if name not in inputs:
            weight = np.asarray(model.weights[name])
            if weight.dtype.kind == "u":  # unsigned operations reinterpret the bits
                weight = weight.view(f"i{weight.itemsize}")
            translator.values[argument] = _add_rank(weight)
    for op in host.body.block.ops:
        if isinstance(op, func.ReturnOp):
            results = [translator.value(v) for v in op.operands]
            outputs = [value.name for value in model.outputs]
            return replace(translator.b.finish(results, list(inputs), outputs), wide=wide)
        try:
            translator.translate(op)
        except KeyError as error:
            raise refusal(op, f"elements of type {error} are not supported") from error
    raise ProgramError(
        "the function does not return", str(host.sym_name), "end the function with func.return"
    )


def _add_rank(array: Array) -> Array:
    """Reshapes tensors of rank 0 to rank 1, because TOSA has no rank 0."""
    return array.reshape(array.shape or (1,))


def _shape(value: SSAValue) -> tuple[int, ...]:
    type_ = value.type
    assert isinstance(type_, TensorType)
    return tuple(type_.get_shape()) or (1,)


def _type_of(value: SSAValue, what: str) -> TensorArmType:
    type_ = value.type
    if not isinstance(type_, TensorType) or -1 in type_.get_shape() or min(_shape(value)) < 1:
        raise ProgramError(f"{what} has no fixed shape", str(type_), "give its sizes with --dim")
    try:
        numpy_type(type_.get_element_type())
    except KeyError:
        raise ProgramError(
            f"{what} is {type_}, which graphs do not support", "", "cast it"
        ) from None
    return TensorArmType(_shape(value), type_.get_element_type())


class _Translator:
    """Translates the operations of one function, in order."""

    def __init__(self, b: GraphBuilder):
        self.b = b
        self.values: dict[SSAValue, Value] = {}
        self.pieces: dict[SSAValue, tuple[Value | None, list[tuple[list[int], Value]]]] = {}
        """
        Tensors assembled by tensor.insert_slice: for each result, the base tensor and the inserted
        pieces as (offsets, piece).
        """

    def value(self, value: SSAValue) -> Value:
        if value in self.pieces:
            self.values[value] = self._assemble(value)
            del self.pieces[value]
        return self.values[value]

    def translate(self, op: Operation) -> None:
        handler = HANDLERS.get(op.name)
        if handler is None:
            raise refusal(op, f"{op.name} has no equivalent in TOSA")
        for result in op.results:
            if len(_shape(result) if isinstance(result.type, TensorType) else ()) > MAX_RANK:
                raise refusal(op, f"TOSA supports at most {MAX_RANK} dimensions")
        result = handler(self, op)
        if result is not None:
            self.values[op.results[0]] = result

    def constant(self, op: Operation) -> Value:
        value = op.properties["value"]
        if isinstance(value, DenseIntOrFPElementsAttr):
            return _add_rank(attribute_array(value))
        assert isinstance(value, IntegerAttr | FloatAttr)
        if str(value.type) == "index":
            return np.array([value.value.data], np.int32)
        return np.array([value.value.data], numpy_type(value.type))

    def empty(self, op: Operation) -> None:
        self.pieces[op.results[0]] = (None, [])

    def fill(self, op: Operation) -> Value:
        number, shape = self.value(op.operands[0]), _shape(op.results[0])
        if not isinstance(number, np.ndarray):
            raise refusal(op, "the value that fills a tensor must be a constant")
        return np.broadcast_to(number.reshape([1] * len(shape)), shape)

    def reshape(self, op: Operation) -> Value:
        return self.b.reshape(self.value(op.operands[0]), _shape(op.results[0]))

    def pad(self, op: Operation) -> Value:
        assert isinstance(op, tensor.PadOp)
        low, high = (tuple(op.properties[n].get_values()) for n in ("static_low", "static_high"))  # pyright: ignore
        yielded = op.regions[0].block.last_op
        assert yielded is not None
        fill = self.values.get(yielded.operands[0])
        if len(op.operands) > 1 or not isinstance(fill, np.ndarray) or min([*low, *high, 0]) < 0:
            raise refusal(
                op, "tensor.pad must have constant amounts of at least 0, and a constant fill value"
            )
        return self.b.pad(self.value(op.operands[0]), low, high, fill[0])

    def extract_slice(self, op: Operation) -> Value:
        whole = self.value(op.operands[0])
        offsets, sizes, strides = _static_slice(op, op.operands[1:])
        if set(strides) <= {1}:
            part = self.b.slice(whole, offsets, sizes)
        else:
            steps = zip(offsets, strides, strict=True)
            places = [loop_numbers(sizes, k) * n + o for k, (o, n) in enumerate(steps)]
            part = gather(self.b, whole, places, sizes)
        return self.b.reshape(part, _shape(op.results[0]))

    def insert_slice(self, op: Operation) -> None:
        offsets, sizes, strides = _static_slice(op, op.operands[2:])
        if set(strides) != {1}:
            raise refusal(op, "tensor.insert_slice with strides other than 1 is not supported")
        piece = self.b.reshape(self.value(op.operands[0]), sizes)
        target = op.operands[1]
        if target in self.pieces:
            below, pieces = self.pieces[target]
        else:
            below, pieces = self.values[target], []
        self.pieces[op.results[0]] = (below, [*pieces, (offsets, piece)])

    def _assemble(self, value: SSAValue) -> Value:
        """Joins adjacent slices by one Concat. Otherwise inserts the slices one by one."""
        b, shape = self.b, _shape(value)
        below, pieces = self.pieces[value]
        for axis in range(len(shape)):
            ordered = sorted(pieces, key=lambda piece: piece[0][axis])
            reached = 0
            for offsets, piece in ordered:
                others = [e for k, e in enumerate(b.shape(piece)) if k != axis]
                whole = others == [e for k, e in enumerate(shape) if k != axis]
                reached += b.shape(piece)[axis] if whole and offsets[axis] == reached else 1 << 40
            if pieces and reached == shape[axis]:
                return b.concat([piece for _, piece in ordered], axis)
        type_ = value.type
        assert isinstance(type_, TensorType)
        result: Value = (
            np.zeros(shape, numpy_type(type_.get_element_type())) if below is None else below
        )
        for offsets, piece in pieces:
            result = self._insert(result, offsets, piece)
        return result

    def _insert(self, whole: Value, offsets: Sequence[int], piece: Value, axis: int = 0) -> Value:
        """
        Returns `whole` with the part at `offsets` replaced by `piece`. Replaces along `axis` and
        each following dimension in turn.
        """
        b, shape = self.b, self.b.shape(whole)
        if axis == len(shape):
            return piece
        start, stop = offsets[axis], offsets[axis] + b.shape(piece)[axis]
        parts: list[Value] = []
        for begin, end in ((0, start), (start, stop), (stop, shape[axis])):
            if begin == end:
                continue
            at, size = [0] * len(shape), list(shape)
            at[axis], size[axis] = begin, end - begin
            part = b.slice(whole, at, size)
            inside = begin == start and end == stop
            parts.append(self._insert(part, offsets, piece, axis + 1) if inside else part)
        return b.concat(parts, axis)

    def generic(self, op: Operation) -> None:
        assert isinstance(op, GenericOp)
        if (by := quantization(op)) is not None:
            self.values[op.results[0]] = quantize(self.b, self.value(op.operands[0]), by)
            return
        for result, value in zip(op.results, _Generic(self, op).results(), strict=True):
            self.values[result] = value


class _Generic:
    """Translates one `linalg.generic`."""

    def __init__(self, translator: _Translator, op: GenericOp):
        self.translator, self.b, self.op = translator, translator.b, op
        self.maps = [Access(m.data) for m in op.indexing_maps]
        self.sizes = loop_sizes(op, self.maps)
        kinds = enumerate(op.iterator_types)
        self.parallel = [i for i, t in kinds if t.data is IteratorType.PARALLEL]

    def refusal(self, cause: str) -> ProgramError:
        return refusal(self.op, cause)

    def results(self) -> list[Value]:
        """Appends the operation's operators to the graph. Returns the values of its results."""
        op, maps = self.op, self.maps
        if len(self.parallel) == len(self.sizes):
            return self._elementwise()
        body = [inner for inner in op.body.block.ops][:-1]
        *inputs, accumulator = op.body.block.args
        if len(op.results) != 1 or not body or not _yields(op, body[-1]):
            raise self.refusal(
                "a reduction must have one result, computed by the last operation of its body"
            )
        last, kind = body[-1], COMBINERS.get(body[-1].name)
        if kind is None or accumulator not in last.operands:
            raise self.refusal(
                f"{last.name} is not supported as the combining operation of a reduction"
            )
        zeros = zero_points(op) if len(inputs) == 2 else None
        if zeros is not None or (len(inputs) == 2 and [o.name for o in body] in PRODUCTS):
            x, w = (self.translator.value(operand) for operand in op.operands[:2])
            factors = [
                (x, np.zeros(1, self.b.dtype(x))),
                (w, np.zeros(1, self.b.dtype(w))),
            ]
            if zeros is not None:
                factors = [as_signed(self.b, *one) for one in zip((x, w), zeros, strict=True)]
            result = self._contract(factors)
        elif maps[0].loops() is None:
            if len(body) > 1 or inputs[0] not in last.operands:
                raise self.refusal(
                    "a reduction over windows must combine elements, not computed values"
                )
            result = self._pool(self.translator.value(op.operands[0]), kind)
        else:
            (element,) = [operand for operand in last.operands if operand is not accumulator]
            result = self._reduce(self._evaluate(last)[element], kind)
        return [self._with_start(result, kind)]

    def _with_start(self, result: Value, kind: Combiner) -> Value:
        """
        Combines a reduction's result with the initial value, by the reduction's operation `kind`. A
        neutral initial value is left out.
        """
        start = self.translator.value(self.op.operands[-1])
        if isinstance(start, np.ndarray) and (start == kind.neutral(start.dtype)).all():
            return result
        return kind.combine(self.b, result, start)

    def _evaluate(self, end: Operation) -> dict[SSAValue, Value]:
        """
        Translates the operations of the body up to `end`. Returns all values of the body as tensors
        with a dimension for each loop.
        """
        op, sizes, given_values = self.op, self.sizes, self.translator.values
        values: dict[SSAValue, Value] = {}
        for argument, operand, access in zip(
            op.body.block.args, op.operands, self.maps, strict=True
        ):
            if any(use.operation is not end for use in argument.uses) or operand in op.inputs:
                values[argument] = self._in_loops(self.translator.value(operand), access)
        ones = [1] * max(len(sizes), 1)
        for inner in op.body.block.ops:
            if inner is end:
                break
            if isinstance(inner, arith.ConstantOp):
                values[inner.result] = self.b.reshape(self.translator.constant(inner), ones)
                continue
            if isinstance(inner, IndexOp):
                values[inner.result] = loop_numbers(sizes, inner.dim.value.data)
                continue
            scalars = inner.operands[isinstance(inner, tensor.ExtractOp) :]
            for outside in scalars:
                if outside not in values:
                    values[outside] = self.b.reshape(given_values[outside], ones)
            given = [values[operand] for operand in scalars]
            if isinstance(inner, tensor.ExtractOp):
                value = gather(self.b, self.translator.value(inner.tensor), given, sizes)
            else:
                value = emit_scalar(self.b, inner, given)
            values[inner.results[0]] = value
        return values

    def _elementwise(self) -> list[Value]:
        op, sizes = self.op, self.sizes
        last, ones = op.body.block.last_op, [1] * max(len(sizes), 1)
        assert last is not None
        values = self._evaluate(last)
        results: list[Value] = []
        outputs = self.maps[len(self.maps) - len(op.results) :]
        for yielded, access, result in zip(last.operands, outputs, op.results, strict=True):
            value = values.get(yielded)
            if value is None:
                value = self.b.reshape(self.translator.values[yielded], ones)
            value = self.b.broadcast(value, sizes or [1])
            order = access.all_loops()
            if order is None or len(order) != len(sizes):
                raise self.refusal("the result's map must be a permutation of the loops")
            value = self.b.transpose(value, order or [0])
            results.append(self.b.reshape(value, _shape(result)))
        return results

    def _in_loops(self, value: Value, access: Access) -> Value:
        """
        Transposes and reshapes an operand to a tensor with a dimension for each loop. A loop that
        does not index the operand gets size 1.
        """
        if not self.sizes:
            return value
        loops = access.loops()
        if loops is None:
            return gather(self.b, value, access.places(self.sizes), self.sizes)
        kept = [k for k, loop in enumerate(loops) if loop is not None]
        shape = self.b.shape(value)
        extents = [shape[k] for k in kept]
        if math.prod(extents) != math.prod(shape):
            start = [0 if loop is not None else access.constant[k] for k, loop in enumerate(loops)]
            size = [shape[k] if k in kept else 1 for k in range(len(shape))]
            value = self.b.slice(value, start, size)
        value = self.b.reshape(value, extents or [1])
        order = sorted(range(len(kept)), key=lambda k: cast("int", loops[kept[k]]))
        value = self.b.transpose(value, order) if kept else value
        whole = [1] * len(self.sizes)
        for k in kept:
            whole[cast("int", loops[k])] = shape[k]
        return self.b.reshape(value, whole)

    def _reduce(self, value: Value, kind: Combiner) -> Value:
        value = self.b.broadcast(value, self.sizes)
        shape = list(self.b.shape(value))
        for axis in range(len(shape)):
            if axis not in self.parallel:
                shape[axis] = 1
                value = self.b.emit(kind.reduce, [value], shape, axis=axis, **kind.parameters)
        return self._from_loops(value, self.parallel)

    def _pool(self, value: Value, kind: Combiner) -> Value:
        """
        Appends a MaxPool2D to the graph, or an AvgPool2D and a multiplication by the window's size.
        """
        op, read = self.op, self.maps[0]
        windows = read.windows(op, self.sizes)
        rest = [k for k in range(len(read.rows)) if k not in windows.dimensions]
        if kind.pool is None:
            raise self.refusal("a reduction over windows must be a sum or a maximum")
        if any(d != 1 for d in windows.dilation):
            raise self.refusal("a reduction over windows with a dilation is not supported")
        shape = self.b.shape(value)
        order = [*rest, *windows.dimensions]
        flat = math.prod(shape[k] for k in rest)
        images = self.b.reshape(self.b.transpose(value, order), [flat, *windows.of_two(shape), 1])
        images = self.b.slice(images, [0] * 4, [flat, *windows.used, 1])
        extents = [flat, *windows.places, 1]
        geometry: dict[str, Any] = {
            "kernel": windows.kernel,
            "stride": windows.stride,
            "pad": [0] * 4,
        }
        if kind.pool is tosa.TosaMaxPool2DOp:
            result = self.b.emit(kind.pool, [images], extents, **geometry, **kind.parameters)
        else:
            zero = np.zeros(1, self.b.dtype(value))
            result = self.b.emit(
                tosa.TosaAvgPool2DOp,
                [images, zero, zero],
                extents,
                **geometry,
                acc_type=tosa.AccType.FP32,
            )
            count = np.full([1] * 4, math.prod(windows.kernel), self.b.dtype(value))
            result = multiply(self.b, result, count)
        return self._from_loops(result, [read.single(op, k) for k in rest] + windows.outer)

    def _from_loops(self, value: Value, loops: Sequence[int]) -> Value:
        """Transposes and reshapes a value, whose dimensions are `loops`, to the result type."""
        wanted = self.maps[-1].all_loops()
        if wanted is None or sorted(wanted) != sorted(loops):
            raise self.refusal("the result's map must be a permutation of the loops")
        value = self.b.reshape(value, [self.sizes[loop] for loop in loops] or [1])
        order = [list(loops).index(loop) for loop in wanted]
        shape = _shape(self.op.results[0])
        return self.b.reshape(self.b.transpose(value, order or [0]), shape)

    def _contract(self, factors: Sequence[tuple[Value, Array]]) -> Value:
        """Appends a sum of products to the graph. Each factor is a value minus its zero point."""
        (x, x_zero), (w, w_zero) = factors
        (x_access, w_access), sizes, parallel = self.maps[:2], self.sizes, self.parallel
        if x_access.loops() is None or w_access.loops() is None:
            return self._convolve(factors)
        both = [i for i in range(len(sizes)) if i in x_access.used and i in w_access.used]
        batch = [i for i in both if i in parallel]
        inner = [i for i in both if i not in parallel]
        rows = [i for i in range(len(sizes)) if i in x_access.used and i not in both]
        columns = [i for i in range(len(sizes)) if i in w_access.used and i not in both]
        if any(i not in parallel for i in (*rows, *columns)):
            raise self.refusal(
                "a contraction cannot sum over a dimension that only one operand has"
            )
        count = [math.prod(sizes[i] for i in group) for group in (batch, rows, inner, columns)]
        a = self._group_loops(x, x_access, [*batch, *rows, *inner])
        c = self._group_loops(w, w_access, [*batch, *inner, *columns])
        operands = [
            self.b.reshape(a, count[:3]),
            self.b.reshape(c, [count[0], *count[2:]]),
            x_zero,
            w_zero,
        ]
        shape = [count[0], count[1], count[3]]
        product = self.b.emit(tosa.TosaMatMulOp, operands, shape, self._sum_type(a))
        return self._from_loops(product, [*batch, *rows, *columns])

    def _sum_type(self, factor: Value) -> np.dtype[Any]:
        dtype = self.b.dtype(factor)
        return np.dtype(np.int32) if dtype == np.int8 else dtype

    def _group_loops(self, value: Value, access: Access, loops: Sequence[int]) -> Value:
        """Transposes an operand so that the dimensions of these loops come first."""
        others = [i for i in range(len(self.sizes)) if i not in loops]
        return self.b.transpose(self._in_loops(value, access), [*loops, *others])

    def _convolve(self, factors: Sequence[tuple[Value, Array]]) -> Value:
        """
        Appends Conv2D to the graph, or DepthwiseConv2D if both operands share a parallel loop.
        """
        (x, x_zero), (w, w_zero) = factors
        op, maps, sizes, parallel = self.op, self.maps, self.sizes, self.parallel
        windows = maps[0].windows(op, sizes)
        rest = [k for k in range(len(maps[0].rows)) if k not in windows.dimensions]
        loops, w_loops = [maps[0].single(op, k) for k in rest], maps[1].all_loops()
        if w_loops is None:
            raise self.refusal(f"the map {maps[1].map} of a convolution's weights is not supported")
        shared = [i for i in loops if i in w_loops and i in parallel]
        summed = [i for i in loops if i not in parallel]
        batch = [i for i in loops if i in parallel and i not in w_loops]
        out = [i for i in w_loops if i in parallel and i not in shared]
        if (shared and summed) or any(i not in w_loops for i in (*summed, *windows.inner)):
            raise self.refusal("a grouped convolution must have one channel per group")
        shape = self.b.shape(x)
        channel = shared or summed
        by_loop = dict(zip(loops, rest, strict=True))
        order = [by_loop[i] for i in batch] + windows.dimensions + [by_loop[i] for i in channel]
        counts = [math.prod(sizes[i] for i in group) for group in (batch, channel, out)]
        image = self.b.reshape(
            self.b.transpose(x, order), [counts[0], *windows.of_two(shape), counts[1]]
        )
        image = self.b.slice(image, [0] * 4, [counts[0], *windows.used, counts[1]])
        first, last = (
            (windows.inner, [*shared, *out]) if shared else (out, [*windows.inner, *summed])
        )
        weight = self.b.transpose(w, [w_loops.index(i) for i in (*first, *last)])
        if shared:
            kernel_shape = [*windows.kernel, counts[1], counts[2]]
        else:
            kernel_shape = [counts[2], *windows.kernel, counts[1]]
        sums, made = self._sum_type(x), counts[1] * counts[2] if shared else counts[2]
        operands = [
            image,
            self.b.reshape(weight, kernel_shape),
            np.zeros(made, sums),
            x_zero,
            w_zero,
        ]
        result = self.b.emit(
            tosa.TosaDepthwiseConv2DOp if shared else tosa.TosaConv2DOp,
            operands,
            [counts[0], *windows.places, made],
            sums,
            pad=[0] * 4,
            stride=windows.stride,
            dilation=windows.dilation,
            acc_type=tosa.AccType.INT32 if sums.kind == "i" else tosa.AccType.FP32,
            local_bound=False,
        )
        return self._from_loops(result, [*batch, *windows.outer, *shared, *out])


def _yields(op: GenericOp, value: Operation) -> bool:
    last = op.body.block.last_op
    return last is not None and list(last.operands) == list(value.results)


def _static_slice(op: Operation, sizes: Sequence[SSAValue]) -> Sequence[list[int]]:
    """Returns a slice's offsets, sizes and strides. Raises `ProgramError` if not constant."""
    if sizes:
        raise refusal(op, "the offsets and sizes of a slice must be constants")
    return [
        [int(n) for n in cast("DenseArrayBase[IntegerType]", op.properties[name]).get_values()]
        for name in ("static_offsets", "static_sizes", "static_strides")
    ]


HANDLERS: Mapping[str, Callable[[_Translator, Operation], Value | None]] = {
    "arith.constant": _Translator.constant,
    "linalg.fill": _Translator.fill,
    "linalg.generic": _Translator.generic,
    "tensor.cast": _Translator.reshape,
    "tensor.collapse_shape": _Translator.reshape,
    "tensor.empty": _Translator.empty,
    "tensor.expand_shape": _Translator.reshape,
    "tensor.extract_slice": _Translator.extract_slice,
    "tensor.insert_slice": _Translator.insert_slice,
    "tensor.pad": _Translator.pad,
}
