"""
Random ONNX models of convolutions and other operators on images.

Convolutions have one to three dimensions and may have every attribute. They may be grouped,
depthwise or transposed. Some of the other operators keep an image's layout. Values are small
integers, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class RandomConvolutions:
    """A model, its inputs, and a text that describes its operations."""

    proto: Any
    inputs: Mapping[str, Array]
    words: str
    open_sizes: tuple[str, ...] = ()


class _Graph:
    def __init__(self, rng: np.random.Generator, element: str):
        from onnx import helper

        self.helper: Any = helper
        self.rng, self.element = rng, np.dtype(element)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.words: list[str] = []

    def pick(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def numbers(self, *shape: int) -> Array:
        return self.rng.integers(-2, 3, shape).astype(self.element)

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        result = f"v{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, inputs, [result], **attributes))
        words = " ".join(f"{key}={value}" for key, value in attributes.items())
        self.words.append(f"{kind} {words}".strip())
        return result

    def weight(self, array: Array) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def convolution(self, x: str, shape: list[int]) -> tuple[str, list[int]]:
        channels, image = shape[1], shape[2:]
        rank, pick = len(image), self.pick
        transposed = self.rng.random() < 0.4
        group = pick(1, 1, channels, *(n for n in (2, 3, 4) if channels % n == 0))
        per_group = pick(1, 2, 3, 8)
        kernel = [pick(1, 2, 3, 4, 5) for _ in image]
        apart = [pick(1, 1, 2) for _ in image]
        kernel = [k if (k - 1) * d < n else 1 for k, d, n in zip(kernel, apart, image, strict=True)]
        steps = [pick(1, 1, 2, 3) for _ in image]
        attributes: dict[str, Any] = {"group": group, "strides": steps, "dilations": apart}
        reach = [(k - 1) * d for k, d in zip(kernel, apart, strict=True)]
        padding = pick("none", "even", "any", "SAME_UPPER", "SAME_LOWER", "VALID")
        if padding in ("even", "any"):
            low = [int(self.rng.integers(r + 1)) for r in reach]
            high = low if padding == "even" else [int(self.rng.integers(r + 1)) for r in reach]
            attributes["pads"] = [*low, *high]
        elif padding != "none" and (not transposed or padding == "VALID"):
            attributes["auto_pad"] = padding
            if padding.startswith("SAME"):
                # onnxruntime does not support dilation in these convolutions.
                attributes["dilations"] = [1] * rank
                reach = [k - 1 for k in kernel]
        if transposed:
            weights = self.numbers(channels, per_group, *kernel)
            if max(steps) > 1 and pick(True, False):
                attributes["output_padding"] = [int(self.rng.integers(s)) for s in steps]
        else:
            weights = self.numbers(group * per_group, channels // group, *kernel)
        inputs = [x, self.weight(weights)]
        if pick(True, False):
            inputs.append(self.weight(self.numbers(group * per_group)))
        kind = "ConvTranspose" if transposed else "Conv"
        self.words.append(f"[{shape} by {weights.shape}]")
        name = self.node(kind, inputs, **attributes)
        pads = attributes.get("pads", [0] * 2 * rank)
        extra = attributes.get("output_padding", [0] * rank)
        sizes: list[int] = []
        for i, n in enumerate(image):
            if transposed:
                whole = (n - 1) * steps[i] + reach[i] + 1 + extra[i]
                sizes.append(whole - pads[i] - pads[rank + i])
            elif attributes.get("auto_pad", "VALID") != "VALID":
                sizes.append(-(-n // steps[i]))
            else:
                sizes.append((n + pads[i] + pads[rank + i] - reach[i] - 1) // steps[i] + 1)
        return name, [shape[0], group * per_group, *sizes]

    def other(self, x: str, shape: list[int]) -> tuple[str, list[int]]:
        """
        Appends one random operator other than a convolution.

        Some of these operators work in any layout of the image, others only in the layout of the
        model.
        """
        rank, pick = len(shape) - 2, self.pick
        match pick("Relu", "Add", "bias", "MaxPool", "Concat", "Slice", "Transpose", "mean", "Pad"):
            case "Add":
                return self.node("Add", [x, self.node("Neg", [x])]), shape
            case "bias":
                bias = self.weight(self.numbers(shape[1], *[1] * rank))
                return self.node("Mul", [x, bias]), shape
            case "MaxPool" if min(shape[2:]) > 2:
                pooled = self.node("MaxPool", [x], kernel_shape=[2] * rank, strides=[2] * rank)
                return pooled, [*shape[:2], *(n // 2 for n in shape[2:])]
            case "Concat":
                axis = pick(1, 2)
                joined = self.node("Concat", [x, self.node("Abs", [x])], axis=axis)
                return joined, [n * 2 if i == axis else n for i, n in enumerate(shape)]
            case "Slice" if shape[1] > 1:
                ends = [self.weight(np.array([n], np.int64)) for n in (1, shape[1], 1)]
                sliced = self.node("Slice", [x, *ends])
                return sliced, [shape[0], shape[1] - 1, *shape[2:]]
            case "Transpose" if rank > 1:
                order = [0, 1, *range(3, 2 + rank), 2]
                return self.node("Transpose", [x], perm=order), [shape[i] for i in order]
            case "mean":
                total = self.node("ReduceMax", [x], keepdims=1, axes=list(range(2, 2 + rank)))
                return self.node("Sub", [x, total]), shape
            case "Pad":
                pads = [0, 0, *[1] * rank, 0, 0, *[0] * rank]
                padded = self.node("Pad", [x, self.weight(np.array(pads, np.int64))])
                return padded, [*shape[:2], *(n + 1 for n in shape[2:])]
            case _:
                return self.node("Relu", [x]), shape


def random_convolutions(seed: int, number: int, element: str = "float32") -> RandomConvolutions:
    """Returns model number `number` of a seed. It is equal in every process."""
    import onnx

    rng = np.random.default_rng((seed, number))
    graph = _Graph(rng, element)
    helper: Any = graph.helper
    rank = graph.pick(1, 2, 2, 2, 3)
    most = {1: 20, 2: 10, 3: 6}[rank]
    shape = [graph.pick(1, 2), graph.pick(1, 3, 4, 6, 8)]
    shape += [int(n) for n in rng.integers(3, most, rank)]
    x = graph.numbers(*shape)
    name, own = "x", shape
    for _ in range(graph.pick(1, 2, 3)):
        after, sizes = graph.convolution(name, own)
        if min(sizes) < 1:
            graph.nodes.pop()
            continue
        name, own = after, sizes
        for _ in range(graph.pick(0, 1, 2)):
            name, own = graph.other(name, own)
    name = graph.node("Identity", [name])
    kind = helper.np_dtype_to_tensor_dtype(graph.element)
    open_sizes = graph.pick(True, False, False)
    given = [f"d{i}" if open_sizes and i != 1 else n for i, n in enumerate(shape)]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "convolutions",
            [helper.make_tensor_value_info("x", kind, given)],
            [helper.make_tensor_value_info(name, kind, [None] * len(own))],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", 13)],
    )
    model.ir_version = 8
    onnx.checker.check_model(model)
    words = f"{seed}:{number} {given}: {'; '.join(graph.words)}"
    names = tuple(size for size in given if isinstance(size, str))
    return RandomConvolutions(model, {"x": x}, words, names)
