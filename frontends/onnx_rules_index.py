"""
Operators that choose elements by data, in terms of gathers, comparisons and sums.

Sizes that depend on data are taken from the shape that the model declares for the output.

    Compress(x, c)            Gather(x, place of the k-th true)
    Range(a, b, d)            a + d * (0, 1, ...)
    ScatterElements(x, i, u)  Where(some i == place, the u there, x)
"""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule

Attributes = dict[str, Any]

MOST = 1 << 22
"""Comparisons that a scatter may become: every place with every index."""


def compress(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """The places where the condition's running count reaches 1, 2, ..."""
    import numpy as np

    x, condition = node.input
    shape, length = graph.shape(x), graph.shape(condition)
    declared = graph.shape(node.output[0])
    if shape is None or length is None or declared is None:
        return False
    axis = attributes.get("axis")
    if axis is None:
        x, shape, axis = graph.reshape(x, [-1]), (prod(shape),), 0
    places = _places_of_true(graph, condition, length[0], declared[axis % len(shape)])
    graph.add("Gather", [x, places], node.output[0], axis=axis)
    return np.size(shape) > 0


def _places_of_true(graph: Graph, condition: str, length: int, count: int) -> str:
    """Where the first `count` true elements of a vector are."""
    import numpy as np

    ones = graph.cast(condition, graph.onnx.TensorProto.INT32)
    triangle = np.tril(np.ones((length, length), np.bool_))
    none = graph.constant(np.array(0, np.int32))
    upto = graph.add("Where", [graph.constant(triangle), ones, none])
    running = graph.reduce("ReduceSum", upto, [-1], False)
    numbers = graph.constant(np.arange(1, count + 1, dtype=np.int32)[:, None])
    reached = graph.cast(graph.add("Equal", [numbers, running]), graph.onnx.TensorProto.INT32)
    return graph.add("ArgMax", [reached], axis=1, keepdims=0)


def non_zero(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """The places that Compress would find, in every dimension."""
    import numpy as np

    shape, declared = graph.shape(node.input[0]), graph.shape(node.output[0])
    if not shape or declared is None:
        return False
    flat = graph.reshape(node.input[0], [-1])
    true = graph.cast(flat, graph.onnx.TensorProto.BOOL)
    places = _places_of_true(graph, true, prod(shape), declared[1])
    table = np.stack(np.unravel_index(np.arange(prod(shape)), shape)).astype(np.int64)
    graph.add("Gather", [graph.constant(table), places], node.output[0], axis=1)
    return True


def range_(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Of a type that torch-mlir has no range of, or of ends that are no constants."""
    import numpy as np

    declared = graph.shape(node.output[0])
    if declared is None or all(graph.value(name) is not None for name in node.input):
        return False
    start, _, delta = node.input
    kind = graph.type(start)
    assert kind is not None
    steps = graph.constant(np.arange(declared[0], dtype=np.int64))
    steps = graph.cast(steps, kind)
    graph.add("Add", [graph.add("Mul", [steps, delta]), start], node.output[0])
    return True


def scatter_elements(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Every place looks for the indices that name it."""
    import numpy as np

    x, indices, updates = node.input
    shape, given = graph.shape(x), graph.shape(indices)
    if shape is None or given is None or graph.type(x) == graph.onnx.TensorProto.BOOL:
        return False
    rank = len(shape)
    axis = attributes.get("axis", 0) % rank
    others_whole = all(given[i] == shape[i] for i in range(rank) if i != axis)
    if prod(given) * shape[axis] > MOST:
        return False
    # Dimension `axis` of x first, then what is summed over, then those after the axis.
    found = _wrapped(graph, indices, shape[axis])
    wide = graph.reshape(found, [*given[:axis], 1, *given[axis:]])
    values = graph.reshape(updates, [*given[:axis], 1, *given[axis:]])
    tail = [1] * (rank - axis - 1)
    places = np.arange(shape[axis], dtype=np.int64).reshape(shape[axis], 1, *tail)
    hits = graph.add("Equal", [wide, graph.constant(places)])
    if not others_whole:
        # What indices do not cover stays as it is.
        after = [
            shape[i] - given[i] if i < axis else 0 if i == axis else shape[i] - given[i]
            for i in range(rank)
        ]
        ends = graph.integers(*[0] * (rank + 1), *after[:axis], 0, 0, *after[axis + 1 :])
        whole = graph.cast(hits, graph.onnx.TensorProto.INT32)
        whole = graph.add("Pad", [whole, ends])
        hits = graph.cast(whole, graph.onnx.TensorProto.BOOL)
        around = graph.integers(*[0] * (rank + 1), *after[:axis], 0, 0, *after[axis + 1 :])
        values = graph.add("Pad", [values, around])
    mode = attributes.get("reduction", "none")
    _combine(graph, node, x, hits, values, axis + 1, mode)
    return True


def _wrapped(graph: Graph, indices: str, size: int) -> str:
    """Indices as i64, negative ones counted from the end."""
    import numpy as np

    whole = graph.cast(indices, graph.onnx.TensorProto.INT64)
    below = graph.add("Less", [whole, graph.constant(np.array(0, np.int64))])
    moved = graph.add("Add", [whole, graph.constant(np.array(size, np.int64))])
    return graph.add("Where", [below, moved, whole])


def _combine(graph: Graph, node: Any, x: str, hits: str, values: str, axis: int, mode: str) -> None:
    """x with the values that hit each place, which lie along `axis`."""
    output = node.output[0]
    if mode == "none":
        # Which of several indices wins is left open; their values are taken one by one.
        whole = graph.cast(hits, graph.onnx.TensorProto.INT32)
        last = graph.add("ArgMax", [whole], axis=axis, keepdims=1)
        some = graph.reduce("ReduceMax", whole, [axis], False)
        some = graph.cast(some, graph.onnx.TensorProto.BOOL)
        full = graph.add("Expand", [values, graph.add("Shape", [hits])])
        taken = graph.add("GatherElements", [full, last], axis=axis)
        taken = graph.add("Squeeze", [taken, graph.integers(axis)])
        graph.add("Where", [some, taken, x], output)
        return
    kinds = {"add": "ReduceSum", "mul": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
    joins = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
    neutral = {"add": 0, "mul": 1}.get(mode)
    wide = graph.add("Unsqueeze", [x, graph.integers(axis)])
    rest = wide if neutral is None else graph.scalar(neutral, x)
    chosen = graph.add("Where", [hits, values, rest])
    graph.add(joins[mode], [graph.reduce(kinds[mode], chosen, [axis], False), x], output)


def scatter_nd(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """As elements of the dimensions that an index names, flattened."""
    import numpy as np

    x, indices, updates = node.input
    shape, given = graph.shape(x), graph.shape(indices)
    if shape is None or given is None or graph.type(x) == graph.onnx.TensorProto.BOOL:
        return False
    depth = given[-1]
    named, inner = shape[:depth], shape[depth:]
    rows, count = prod(named), prod(given[:-1])
    if rows * count * prod(inner) > MOST:
        return False
    strides = np.array([prod(named[i + 1 :]) for i in range(depth)], np.int64)
    whole = graph.cast(indices, graph.onnx.TensorProto.INT64)
    below = graph.add("Less", [whole, graph.constant(np.array(0, np.int64))])
    sizes = graph.constant(np.array(named, np.int64))
    whole = graph.add("Where", [below, graph.add("Add", [whole, sizes]), whole])
    flat = graph.add("Mul", [whole, graph.constant(strides)])
    flat = graph.reshape(graph.reduce("ReduceSum", flat, [-1], False), [1, count, 1])
    places = graph.constant(np.arange(rows, dtype=np.int64).reshape(rows, 1, 1))
    hits = graph.add("Equal", [flat, places])
    values = graph.reshape(updates, [1, count, prod(inner)])
    table = graph.reshape(x, [rows, prod(inner)])
    hits = graph.add("Expand", [hits, graph.integers(rows, count, prod(inner))])
    made = graph.fresh("scattered")
    stand_in = graph.onnx.helper.make_node("ScatterND", [], [made])
    graph.note(table, x)
    _combine(graph, stand_in, table, hits, values, 1, attributes.get("reduction", "none"))
    graph.reshape(made, shape, node.output[0])
    return True


def max_unpool(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """A scatter over all elements of the declared output."""
    import numpy as np

    x, indices = node.input[:2]
    shape, declared = graph.shape(x), graph.shape(node.output[0])
    if shape is None or declared is None:
        return False
    sizes = _unpooled(shape, attributes)
    zeros = graph.constant(np.zeros(prod(sizes), graph.dtype(x)))
    flat = graph.add(
        "ScatterElements", [zeros, graph.reshape(indices, [-1]), graph.reshape(x, [-1])], axis=0
    )
    made = graph.reshape(flat, sizes)
    if declared == sizes:
        graph.add("Identity", [made], node.output[0])
        return True
    more = [b - a for a, b in zip(sizes, declared, strict=True)]
    around = graph.integers(*[0] * len(more), *more)
    graph.add("Pad", [made, around], node.output[0])
    return min(more) >= 0


def _unpooled(shape: tuple[int, ...], attributes: Attributes) -> tuple[int, ...]:
    """The size that a pooling would have had, by the formula of the specification."""
    kernel = attributes["kernel_shape"]
    rank = len(kernel)
    strides, pads = (
        attributes.get("strides") or [1] * rank,
        attributes.get("pads") or [0] * 2 * rank,
    )
    spatial = [
        (shape[i + 2] - 1) * strides[i] - pads[i] - pads[i + rank] + kernel[i] for i in range(rank)
    ]
    return (*shape[:2], *spatial)


def tensor_scatter(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Each batch's rows from its write index on: element i is update i - index, if there is one."""
    import numpy as np

    cache, update = (graph.shape(name) for name in node.input[:2])
    if cache is None or update is None:
        return False
    rank, axis = len(cache), attributes.get("axis", -2) % len(cache)
    size, rows = cache[axis], update[axis]
    shape = [1] * rank
    shape[axis] = size
    place = graph.constant(np.arange(size, dtype=np.int64).reshape(shape))
    zero = graph.constant(np.array(0, np.int64))
    if len(node.input) > 2 and node.input[2]:
        start = graph.reshape(node.input[2], [-1, *[1] * (rank - 1)])
        offset = graph.add("Sub", [place, start])
    else:
        offset = place
    if attributes.get("mode", "linear") == "circular":
        whole = graph.constant(np.array(size, np.int64))
        offset = graph.add("Mod", [graph.add("Add", [offset, whole]), whole])
    last = graph.constant(np.array(rows - 1, np.int64))
    inside = graph.add(
        "And",
        [graph.add("GreaterOrEqual", [offset, zero]), graph.add("LessOrEqual", [offset, last])],
    )
    limited = graph.add("Max", [graph.add("Min", [offset, last]), zero])
    wide = list(update)
    wide[axis] = size
    index = graph.add("Expand", [limited, graph.integers(*wide)])
    taken = graph.add("GatherElements", [node.input[1], index], axis=axis)
    graph.add("Where", [inside, taken, node.input[0]], node.output[0])
    return True


def array_feature(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Columns by number."""
    shape, count = graph.shape(node.input[0]), graph.shape(node.input[1])
    if shape is None or count is None:
        return False
    flat = graph.reshape(node.input[1], [-1])
    found = graph.add("Gather", [node.input[0], flat], axis=len(shape) - 1)
    if len(shape) > 1:
        graph.add("Identity", [found], node.output[0])
    else:
        graph.reshape(found, [1, prod(count)], node.output[0])
    return True


def binarizer(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """1 above the threshold, else 0."""
    x = node.input[0]
    limit = graph.scalar(attributes.get("threshold", 0.0), x)
    kind = graph.type(x)
    assert kind is not None
    graph.cast(graph.add("Greater", [x, limit]), kind, node.output[0])
    return True


def reverse_sequence(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Along the time axis, place t of a sequence is taken from length - 1 - t."""
    import numpy as np

    shape = graph.shape(node.input[0])
    if shape is None:
        return False
    time, batch = attributes.get("time_axis", 0), attributes.get("batch_axis", 1)
    rank = len(shape)
    along = [1] * rank
    along[time] = shape[time]
    place = graph.constant(np.arange(shape[time], dtype=np.int64).reshape(along))
    along = [1] * rank
    along[batch] = shape[batch]
    length = graph.reshape(node.input[1], along)
    last = graph.add("Sub", [length, graph.constant(np.array(1, np.int64))])
    turned = graph.add("Sub", [last, place])
    inside = graph.add("Less", [place, length])
    source = graph.add("Where", [inside, turned, place])
    index = graph.add("Expand", [source, graph.integers(*shape)])
    graph.add("GatherElements", [node.input[0], index], node.output[0], axis=time)
    return True


def one_hot(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Every place compares its number with the index; the declared output says how many."""
    import numpy as np

    given, declared = graph.shape(node.input[0]), graph.shape(node.output[0])
    if given is None or declared is None or len(declared) != len(given) + 1:
        return False
    axis = attributes.get("axis", -1) % len(declared)
    depth = declared[axis]
    index = _wrapped(graph, node.input[0], depth)
    wide = graph.add("Unsqueeze", [index, graph.integers(axis)])
    along = [1] * len(declared)
    along[axis] = depth
    places = graph.constant(np.arange(depth, dtype=np.int64).reshape(along))
    hits = graph.add("Equal", [wide, places])
    off, on = (graph.reshape(graph.slice(node.input[2], 0, i, i + 1), []) for i in range(2))
    graph.add("Where", [hits, on, off], node.output[0])
    return True


def _first(graph: Graph, hits: str, axis: int) -> str:
    """Where along an axis the one true element is."""
    whole = graph.cast(hits, graph.onnx.TensorProto.INT32)
    return graph.add("ArgMax", [whole], axis=axis, keepdims=0)


def top_k(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """The elements whose rank, by value and then by place, is below k."""
    import numpy as np

    shape, declared = graph.shape(node.input[0]), graph.shape(node.output[0])
    if shape is None or declared is None:
        return False
    axis = attributes.get("axis", -1) % len(shape)
    size, count = shape[axis], declared[axis]
    if prod(shape) * size > MOST:
        return False
    # Dimension `axis`: an element; the one after it: what it is compared with.
    one = graph.add("Unsqueeze", [node.input[0], graph.integers(axis + 1)])
    other = graph.add("Unsqueeze", [node.input[0], graph.integers(axis)])
    better = graph.add("Greater" if attributes.get("largest", 1) else "Less", [other, one])
    tail = [1] * (len(shape) - axis - 1)
    place = np.arange(size)
    earlier = (place[None, :] < place[:, None]).reshape(size, size, *tail)
    same = graph.add("And", [graph.add("Equal", [other, one]), graph.constant(earlier)])
    before = graph.cast(graph.add("Or", [better, same]), graph.onnx.TensorProto.INT32)
    rank = graph.reduce("ReduceSum", before, [axis + 1], False)
    wide = graph.add("Unsqueeze", [rank, graph.integers(axis)])
    ranks = graph.constant(np.arange(count, dtype=np.int32).reshape(count, 1, *tail))
    found = _first(graph, graph.add("Equal", [wide, ranks]), axis + 1)
    graph.add("GatherElements", [node.input[0], found], node.output[0], axis=axis)
    if len(node.output) > 1 and node.output[1]:
        graph.add("Identity", [found], node.output[1])
    return True


def unique(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Elements that no earlier one equals, in order; the declared output says how many."""
    import numpy as np

    shape, declared = graph.shape(node.input[0]), graph.shape(node.output[0])
    if shape is None or declared is None or attributes.get("axis") is not None:
        return False
    size, count = prod(shape), declared[0]
    if size * size > MOST:
        return False
    types = graph.onnx.TensorProto
    flat = graph.reshape(node.input[0], [-1])
    one, other = graph.reshape(flat, [size, 1]), graph.reshape(flat, [1, size])
    place = np.arange(size)
    equal = graph.add("Equal", [one, other])
    earlier = graph.add("And", [equal, graph.constant(place[None, :] < place[:, None])])
    repeats = graph.reduce("ReduceSum", graph.cast(earlier, types.INT32), [1], False)
    none = graph.scalar_of(0, types.INT32)
    is_first = graph.add("Equal", [repeats, none])
    row = graph.reshape(graph.cast(is_first, types.INT32), [1, size])
    if attributes.get("sorted", 1):
        less = graph.cast(graph.add("Less", [other, one]), types.INT32)
    else:
        # The place of the first element that is equal.
        first = _first(graph, equal, 1)
        mine, its = graph.reshape(first, [size, 1]), graph.reshape(first, [1, size])
        less = graph.cast(graph.add("Less", [its, mine]), types.INT32)
    # How many distinct values come before an element's own.
    number = graph.reduce("ReduceSum", graph.add("Mul", [less, row]), [1], False)
    numbers = graph.constant(np.arange(count, dtype=np.int32)[:, None])
    hits = graph.add("Equal", [graph.reshape(number, [1, size]), numbers])
    firsts = _first(graph, graph.add("And", [hits, graph.reshape(is_first, [1, size])]), 1)
    outputs = [*node.output, "", "", ""]
    graph.add("Gather", [flat, firsts], outputs[0] or None, axis=0)
    if outputs[1]:
        graph.add("Identity", [firsts], outputs[1])
    if outputs[2]:
        graph.cast(number, types.INT64, outputs[2])
    if outputs[3]:
        total = graph.reduce("ReduceSum", graph.cast(hits, types.INT32), [1], False)
        graph.cast(total, types.INT64, outputs[3])
    return True


def declared_shape(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Expand, Tile and Reshape to a shape that is no constant but that the output declares."""
    if len(node.input) < 2 or graph.value(node.input[1]) is not None:
        return False
    shape, declared = graph.shape(node.input[0]), graph.shape(node.output[0])
    if shape is None or declared is None or 0 in declared or 0 in shape:
        return False
    if node.op_type == "Tile":
        if len(shape) != len(declared):
            return False
        wanted = graph.integers(*(b // a for a, b in zip(shape, declared, strict=True)))
    else:
        wanted = graph.integers(*declared)
    attributes.pop("allowzero", None)
    graph.add(node.op_type, [node.input[0], wanted], node.output[0], **attributes)
    return True


RULES: dict[str, Rule] = {
    "Compress": compress,
    "NonZero": non_zero,
    "Range": range_,
    "ScatterElements": scatter_elements,
    "Scatter": scatter_elements,
    "ScatterND": scatter_nd,
    "ReverseSequence": reverse_sequence,
    "OneHot": one_hot,
    "TopK": top_k,
    "Unique": unique,
    **dict.fromkeys(("Expand", "Tile", "Reshape"), declared_shape),
    "MaxUnpool": max_unpool,
    "TensorScatter": tensor_scatter,
    "ArrayFeatureExtractor": array_feature,
    "Binarizer": binarizer,
}
