"""
Pooling in the forms that importers have wrong: places of the largest, and windows cut off.

    MaxPool(x) -> y, place    ArgMax over the windows, gathered by a table of constants
    AveragePool(ceil_mode)    ReduceSum of the windows / how many of their places count
    LpPool                    (ReduceSum of the windows' |x|^p)^(1/p)

A window is a row of places in the image, flattened; one outside of it names a zero that stands
behind the image, or, where the largest is looked for, another place of the window.
Rows are constants: sizes have to be known, and there may be 2^22 of places in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl_spirv.frontends.onnx_graph import Graph, Rule

Attributes = dict[str, Any]

MOST = 1 << 22
"""Elements of a table, or of all windows together."""


@dataclass(frozen=True)
class Windows:
    """Every window of a pooling as a row of places; -1 is outside of the image."""

    places: Any
    """[windows, taps] of places in the flattened image."""
    padded: Any
    """[windows]: how many taps are within the image and its padding."""
    sizes: tuple[int, ...]
    """The result's spatial sizes."""


def windows_of(image: tuple[int, ...], result: tuple[int, ...], attributes: Attributes) -> Windows:
    """The windows of a pooling whose image and result are of these spatial sizes."""
    import numpy as np

    rank = len(image)
    kernel = attributes["kernel_shape"]
    strides, dilations = (attributes.get(k) or [1] * rank for k in ("strides", "dilations"))
    before, after = paddings_of(image, result, kernel, attributes) or ([], [])
    at: Any = np.zeros((1, 1), np.int64)
    inside: Any = np.ones((1, 1), np.bool_)
    counted: Any = np.ones((1, 1), np.bool_)
    for i in range(rank):
        place = np.arange(result[i])[:, None] * strides[i] - before[i]
        place = place + np.arange(kernel[i])[None, :] * dilations[i]
        within = (place >= 0) & (place < image[i])
        known = place < image[i] + after[i]
        at = _outer(at * image[i], place, np.add)
        inside = _outer(inside, within, np.logical_and)
        counted = _outer(counted, known, np.logical_and)
    return Windows(np.where(inside, at, -1), counted.sum(1), result)


def _outer(rows: Any, more: Any, join: Any) -> Any:
    """Rows of all windows and taps, with those of one more dimension."""
    made = join(rows[:, None, :, None], more[None, :, None, :])
    return made.reshape(rows.shape[0] * more.shape[0], -1)


def paddings_of(
    image: Sequence[int | None], result: Sequence[int | None], kernel: list[int], given: Attributes
) -> tuple[list[int], list[int]] | None:
    """What surrounds an image before and after it; None where that needs sizes that are open."""
    rank = len(kernel)
    pads = list(given.get("pads") or [0] * 2 * rank)
    auto = given.get("auto_pad", "NOTSET")
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return pads[:rank], pads[rank:]
    strides, dilations = (given.get(k) or [1] * rank for k in ("strides", "dilations"))
    totals: list[int] = []
    for i, (size, made) in enumerate(zip(image, result, strict=True)):
        if size is None or made is None:
            return None
        reached = (made - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
        totals.append(max(reached - size, 0))
    if len(totals) < rank:
        return None
    less = [total // 2 for total in totals]
    more = [total - half for total, half in zip(totals, less, strict=True)]
    return (less, more) if auto == "SAME_UPPER" else (more, less)


def _windows(graph: Graph, node: Any, attributes: Attributes) -> Windows | None:
    """The windows of a node, where all sizes are known and there are not too many."""
    shape, result = graph.shape(node.input[0]), graph.shape(node.output[0] or node.output[1])
    if shape is None or result is None or 0 in (*shape, *result):
        return None
    if prod(result) * prod(attributes["kernel_shape"]) > MOST:
        return None
    return windows_of(shape[2:], result[2:], attributes)


def _gathered(graph: Graph, x: str, places: Any, zero: bool) -> str:
    """The windows' elements, [n, c, windows, taps]; -1 is `zero`."""
    import numpy as np

    count = prod((graph.shape(x) or ())[2:])
    # 0: as many images and channels as there are.
    flat = graph.reshape(x, [0, 0, count])
    if zero:
        flat = graph.add("Pad", [flat, graph.integers(0, 0, 0, 0, 0, 1)])
    at = graph.constant(np.where(places < 0, count, places))
    return graph.add("Gather", [flat, at], axis=2)


def max_pool(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """The places of the largest elements, counted over all images and channels; or odd windows."""
    import numpy as np

    if is_plain_max(graph, node, attributes):
        return False
    indices = len(node.output) > 1 and node.output[1]
    windows = _windows(graph, node, attributes)
    if windows is None or (windows.places < 0).all(1).any():
        return False
    # A place outside of the image is the window's first one inside: that changes no largest.
    places = windows.places
    first = np.take_along_axis(places, (places >= 0).argmax(1)[:, None], 1)
    places = np.where(places < 0, first, places)
    elements = _gathered(graph, node.input[0], places, zero=False)
    n, c, *image = graph.shape(node.input[0]) or (0, 0)
    shape = [0, 0, *windows.sizes]
    if node.output[0]:
        graph.note(elements, node.input[0])
        graph.reshape(graph.reduce("ReduceMax", elements, [3], False), shape, node.output[0])
    if not indices:
        return True
    tap = graph.add("ArgMax", [elements], axis=3, keepdims=1)
    if attributes.get("storage_order", 0):
        places = np.ravel_multi_index(np.unravel_index(places, image)[::-1], image[::-1])
    wide = graph.integers(n, c, *places.shape)
    table = graph.add("Expand", [graph.constant(places), wide])
    place = graph.add("GatherElements", [table, tap], axis=3)
    base = np.arange(n * c, dtype=np.int64).reshape(n, c, 1, 1) * prod(image)
    graph.reshape(graph.add("Add", [place, graph.constant(base)]), shape, node.output[1])
    return True


def is_plain_max(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Whether no places are asked for, no window is cut off, and no integers are surrounded."""
    types = graph.onnx.TensorProto
    floats = (types.FLOAT, types.FLOAT16, types.DOUBLE)
    padded = any(attributes.get("pads") or ()) or "SAME" in attributes.get("auto_pad", "")
    cut = attributes.get("ceil_mode", 0) or (padded and graph.type(node.input[0]) not in floats)
    return not cut and not (len(node.output) > 1 and node.output[1])


def is_plain_average(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Whether no window is cut off, and both sides are surrounded by the same."""
    pads = attributes.get("pads") or [0]
    plain = not attributes.get("ceil_mode", 0) and attributes.get("auto_pad", "NOTSET") == "NOTSET"
    even = list(pads[: len(pads) // 2]) == list(pads[len(pads) // 2 :]) or not any(pads)
    return plain and even and all(d == 1 for d in attributes.get("dilations") or [1])


def is_plain_norm(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Whether nothing surrounds the image."""
    return {"p", "kernel_shape", "strides"} >= attributes.keys()


def average_pool(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """Where the last window reaches beyond the padding, which does not count."""
    import numpy as np

    if is_plain_average(graph, node, attributes):
        return False
    windows = _windows(graph, node, attributes)
    if windows is None:
        return False
    elements = _gathered(graph, node.input[0], windows.places, zero=True)
    include = attributes.get("count_include_pad", 0)
    count = windows.padded if include else (windows.places >= 0).sum(1)
    total = graph.reduce("ReduceSum", elements, [3], False)
    counts = graph.constant(np.maximum(count, 1).astype(graph.dtype(node.input[0])))
    mean = graph.add("Div", [total, counts])
    graph.reshape(mean, [0, 0, *windows.sizes], node.output[0])
    return True


def lp_pool(graph: Graph, node: Any, attributes: Attributes) -> bool:
    """The p-th root of the windows' sums of p-th powers."""
    if is_plain_norm(graph, node, attributes):
        return False
    windows = _windows(graph, node, attributes)
    if windows is None:
        return False
    x, types = node.input[0], graph.onnx.TensorProto
    kind = graph.type(x) or types.FLOAT
    power = attributes.get("p", 2)
    elements = graph.cast(graph.add("Abs", [_gathered(graph, x, windows.places, zero=True)]), 1)
    raised = graph.add("Pow", [elements, graph.scalar_of(power, types.FLOAT)])
    sums = graph.reduce("ReduceSum", raised, [3], False)
    root = graph.add("Pow", [sums, graph.scalar_of(1 / power, types.FLOAT)])
    graph.cast(graph.reshape(root, [0, 0, *windows.sizes]), kind, node.output[0])
    return True


RULES: dict[str, Rule] = {"MaxPool": max_pool, "AveragePool": average_pool, "LpPool": lp_pool}
