"""
Operators of quantized numbers by what they mean: dequantize, compute, quantize.

QLinearConv and its kin, MatMulInteger and ConvInteger before a cast to floats, and what is
onnxruntime's own (`com.microsoft`) are replaced by DequantizeLinear, the operator on floats, and
QuantizeLinear. So there is one form of quantized model only, the one that
`linalg-quantized-to-contraction` makes integer contractions of: sums are of integers in the end,
whoever wrote them. The new nodes have the name of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx_graph import inferred
from xdsl_spirv.frontends.onnx_old import converted

OPSET = 13
"""The first in which a dequantization may have a scale of each channel."""

CONVERTED = 17
"""What older models are converted to."""

MICROSOFT = "com.microsoft"

Rule = Callable[["_Rewriter", Any], None]


@dataclass
class _Operand:
    """A quantized operand: numbers, their scale and their zero point (or "")."""

    numbers: str
    scale: str
    zero: str
    axis: int = 0


def expand_quantized(model: Any) -> Any:
    """
    The model with its quantized operators written out, which is the same one if it has none.

    Raises `FrontendError` for an operator of onnxruntime's that is not known.
    """
    known = {*_RULES, *_OWN_RULES}
    if not any(node.op_type in known or node.domain == MICROSOFT for node in model.graph.node):
        return _recentred(model)
    model = _converted(model)
    rewriter = _Rewriter(model)
    for node in list(model.graph.node):
        if node.domain == MICROSOFT:
            rule = _OWN_RULES.get(node.op_type)
            if rule is None:
                raise FrontendError(
                    f"the operator {MICROSOFT}.{node.op_type} is onnxruntime's own",
                    f"node {node.name!r}, operator {node.op_type}",
                    f"known are {', '.join(sorted(_OWN_RULES))}",
                    "refused",
                    node.op_type,
                )
        else:
            rule = _RULES.get(node.op_type)
        if rule is None:
            rewriter.made.append(node)
        else:
            rewriter.node = node
            rule(rewriter, node)
    rewriter.finish()
    return _recentred(model)


def _converted(model: Any) -> Any:
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions or versions[0] >= OPSET:
        return model
    return converted(model, CONVERTED)


def _constants(graph: Any) -> Iterator[tuple[str, Any]]:
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            yield node.output[0], node.attribute[0].t


@dataclass
class _Rewriter:
    """Collects the nodes of the new graph; `node` is the one that is being replaced."""

    model: Any
    made: list[Any] = field(default_factory=list)
    node: Any = None

    def __post_init__(self) -> None:
        self.helper: Any = import_module("onnx.helper")
        self.numpy_helper: Any = import_module("onnx.numpy_helper")
        self.types: Any = import_module("onnx").TensorProto
        graph = self.model.graph
        self.constants: dict[str, Any] = dict(_constants(graph))
        self.results = {value.name for value in graph.output}
        self.users: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self.users.setdefault(name, []).append(node)
        self.taken = {name for node in graph.node for name in (*node.input, *node.output)}
        known = inferred(self.model).graph
        self.ranks = {
            value.name: len(value.type.tensor_type.shape.dim)
            for value in (*graph.input, *known.value_info)
            if value.type.tensor_type.HasField("shape")
        } | {name: len(tensor.dims) for name, tensor in self.constants.items()}
        self.centred: dict[tuple[str, str], tuple[str, str]] = {}

    def finish(self) -> None:
        """Put the new nodes into the graph."""
        graph = self.model.graph
        del graph.node[:]
        for node in self.made:
            graph.node.append(node)
        kept = [entry for entry in self.model.opset_import if entry.domain != MICROSOFT]
        del self.model.opset_import[:]
        self.model.opset_import.extend(kept)

    def input(self, number: int) -> str:
        """The name of an input of the node, "" for one that is left out."""
        return self.node.input[number] if number < len(self.node.input) else ""

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute of the node."""
        found = [each for each in self.node.attribute if each.name == name]
        return self.helper.get_attribute_value(found[0]) if found else default

    def fresh(self, hint: str) -> str:
        """A name that nothing has."""
        number = 0
        name = f"{self.node.output[0]}.{hint}"
        while name in self.taken:
            number += 1
            name = f"{self.node.output[0]}.{hint}{number}"
        self.taken.add(name)
        return name

    def add(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """A node of ONNX's own; `output` is found if it is left out."""
        output = output or self.fresh(kind)
        node = self.helper.make_node(kind, inputs, [output], name=self.node.name, **attributes)
        self.made.append(node)
        return output

    def same(self, kind: str, inputs: list[str], output: str = "", without: tuple[str, ...] = ()):
        """A node with the attributes of the one that is replaced."""
        name = self.add(kind, inputs, output)
        self.made[-1].attribute.extend(a for a in self.node.attribute if a.name not in without)
        return name

    def axis(self, axis: int, name: str) -> int:
        """A dimension counted from the first one, where the tensor's rank is known."""
        rank = self.ranks.get(name)
        return axis + rank if axis < 0 and rank is not None and -rank <= axis else axis

    def is_known(self, name: str) -> bool:
        """Whether an input is constant or left out."""
        return not name or name in self.constants

    def is_float(self, node: Any) -> bool:
        """Whether casts to floats are all that reads a node's result."""
        name = node.output[0]
        users = self.users.get(name, [])
        casts = [u.op_type == "Cast" and u.attribute[0].i == self.types.FLOAT for u in users]
        return bool(casts) and all(casts) and name not in self.results

    def is_centred(self, user: Any, numbers: str, zero: str) -> bool:
        """Whether a sum of products takes numbers with their zero point, and is of floats."""
        given = [*user.input, "", ""]
        return (given[0], given[2]) == (numbers, zero) and self.is_float(user)

    def value(self, name: str) -> Any | None:
        """The array that a name is known to be."""
        tensor = self.constants.get(name)
        return None if tensor is None else self.numpy_helper.to_array(tensor)

    def constant(self, array: Any, hint: str) -> str:
        """A new initializer."""
        name = self.fresh(hint)
        tensor = self.numpy_helper.from_array(array, name)
        self.model.graph.initializer.append(tensor)
        self.constants[name] = tensor
        return name

    def scalar(self, name: str) -> str:
        """The name, or that of a scalar where it is a tensor of one element."""
        array = self.value(name) if name else None
        if array is None or array.ndim == 0 or array.size != 1:
            return name
        return self.constant(array.reshape(()), "scalar")

    def dequantized(self, operand: _Operand) -> str:
        """The floats of an operand."""
        scale, zero = self.scalar(operand.scale), self.scalar(operand.zero)
        inputs = [operand.numbers, scale] + ([zero] if zero else [])
        axis = self.axis(operand.axis, operand.numbers)
        return self.add("DequantizeLinear", inputs, axis=axis)

    def integers(self, numbers: str, zero: str, axis: int) -> str:
        """`numbers - zero` as floats."""
        import numpy as np

        known = self.value(zero) if zero else None
        shape = known.shape if known is not None and known.size > 1 else ()
        one = self.constant(np.ones(shape, np.float32), "one")
        return self.dequantized(_Operand(numbers, one, zero, axis))

    def row_zeros(self, numbers: str, zero: str, axis: int) -> str:
        """A zero point that is computed, for each index of a dimension."""
        import numpy as np

        shape = self.add("Shape", [numbers])
        first = self.constant(np.array([axis]), "axis")
        end = self.constant(np.array([axis + 1 or np.iinfo(np.int64).max]), "axis")
        zeros = self.add("Expand", [zero, self.add("Slice", [shape, first, end])])
        axis = self.axis(axis, numbers)
        one = self.constant(np.ones(1, np.float32), "one")
        ones = self.add("Expand", [one, self.add("Slice", [shape, first, end])])
        return self.add("DequantizeLinear", [numbers, ones, zeros], axis=axis)

    def quantized(self, floats: str, scale: str, zero: str) -> None:
        """The node's result, of floats."""
        inputs = [floats, self.scalar(scale)] + ([self.scalar(zero)] if zero else [])
        self.add("QuantizeLinear", inputs, self.node.output[0])

    def operand(self, first: int, axis: int = 0) -> _Operand:
        """The operand whose numbers, scale and zero point are inputs from `first` on."""
        return _Operand(self.input(first), self.input(first + 1), self.input(first + 2), axis)

    def bias(self, name: str, a: _Operand, b: _Operand) -> str:
        """An int32 bias, in steps of the product of the operands' scales."""
        import numpy as np

        known = self.value(a.scale), self.value(b.scale)
        if known[0] is not None and known[1] is not None:
            scale = (known[0].reshape(-1) * known[1].reshape(-1)).astype("float32")
            scale = scale if scale.size > 1 else scale.reshape(())
            made = self.constant(scale, "scale")
            zero = self.constant(np.zeros(scale.shape, np.int32), "zero")
            return self.add("DequantizeLinear", [name, made, zero], axis=0)
        floats = self.add("Cast", [name], to=self.types.FLOAT)
        return self.add("Mul", [floats, self.add("Mul", [a.scale, b.scale])])


def _convolution(it: _Rewriter, node: Any) -> None:
    a, b = it.operand(0), it.operand(3)
    inputs = [it.dequantized(a), it.dequantized(b)]
    if it.input(8):
        inputs.append(it.bias(it.input(8), a, b))
    it.quantized(it.same("Conv", inputs), it.input(6), it.input(7))


def _product(it: _Rewriter, node: Any) -> None:
    a, b = it.operand(0, -2), it.operand(3, -1)
    product = it.add("MatMul", [it.dequantized(a), it.dequantized(b)])
    it.quantized(product, it.input(6), it.input(7))


def _integer(kind: str, axes: tuple[int, int]) -> Rule:
    def rule(it: _Rewriter, node: Any) -> None:
        """Where casts to floats are all that reads the sums, they are floats from the start."""
        name = node.output[0]
        zeros = [it.input(n) for n in (2, 3)]
        centred = it.centred.get((it.input(0), zeros[0]))
        if not it.is_float(node) or (centred is None and not it.is_known(zeros[0])):
            it.made.append(node)
            return
        if centred is None:
            a = it.integers(it.input(0), zeros[0], axes[0])
        else:
            a = it.row_zeros(*centred, axes[0] if axes[0] < 0 else 0)
        # A cast of floats to floats is nothing.
        it.same(kind, [a, it.integers(it.input(1), zeros[1], axes[1])], name)

    return rule


def _dynamic(it: _Rewriter, node: Any) -> None:
    """The numbers of a tensor between its least and its largest, 128 less than ONNX has them."""
    import numpy as np

    x, (numbers, scale, zero) = node.input[0], node.output
    nought, steps = it.constant(np.float32(0), "nought"), it.constant(np.float32(255), "steps")
    largest = it.add("Max", [it.add("ReduceMax", [x], keepdims=0), nought])
    least = it.add("Min", [it.add("ReduceMin", [x], keepdims=0), nought])
    span = it.add("Div", [it.add("Sub", [largest, least]), steps])
    one = it.constant(np.float32(1), "one")
    it.add("Where", [it.add("Equal", [span, nought]), one, span], scale)
    ratio = it.add("Div", [it.add("Sub", [nought, least]), scale])
    zeros = it.add("Round", [it.add("Clip", [ratio, nought, steps])])
    quotient = it.add("Round", [it.add("Div", [x, scale])])
    rounded = it.add("Clip", [it.add("Add", [quotient, zeros]), nought, steps])
    half = it.constant(np.float32(128), "half")
    made = [
        it.add("Cast", [it.add("Sub", [value, half])], to=it.types.INT8)
        for value in (rounded, zeros)
    ]
    it.centred[numbers, zero] = (made[0], made[1])
    if x in it.ranks:
        it.ranks[made[0]] = it.ranks[x]
    for name, value in ((numbers, rounded), (zero, zeros)):
        read = name in it.results or any(
            user.op_type not in ("MatMulInteger", "ConvInteger")
            or not it.is_centred(user, numbers, zero)
            for user in it.users.get(name, [])
        )
        if read:
            wide = it.add("Cast", [value], to=it.types.INT32)
            it.add("Cast", [wide], name, to=it.types.UINT8)


def _pointwise(kind: str) -> Rule:
    def rule(it: _Rewriter, node: Any) -> None:
        a, b = it.dequantized(it.operand(0)), it.dequantized(it.operand(3))
        it.quantized(it.add(kind, [a, b]), it.input(6), it.input(7))

    return rule


def _unary(kind: str, without: tuple[str, ...] = ()) -> Rule:
    def rule(it: _Rewriter, node: Any) -> None:
        if it.attribute("channels_last", 0):
            raise FrontendError(
                f"{node.op_type} takes its channels last",
                f"node {node.name!r}, operator {node.op_type}",
                "quantize the model with channels first",
                operator=node.op_type,
            )
        made = it.same(kind, [it.dequantized(it.operand(0))], without=without)
        it.quantized(made, it.input(3), it.input(4))

    return rule


def _concatenation(it: _Rewriter, node: Any) -> None:
    parts = [it.dequantized(it.operand(n)) for n in range(2, len(node.input), 3)]
    it.quantized(it.same("Concat", parts), it.input(0), it.input(1))


def _gemm(it: _Rewriter, node: Any) -> None:
    a, b = it.operand(0, -2), it.operand(3, 0 if it.attribute("transB", 0) else 1)
    inputs = [it.dequantized(a), it.dequantized(b)]
    if it.input(6):
        inputs.append(it.bias(it.input(6), a, b))
    if not it.input(7):
        it.same("Gemm", inputs, node.output[0])
        return
    it.quantized(it.same("Gemm", inputs), it.input(7), it.input(8))


def _product_to_float(it: _Rewriter, node: Any) -> None:
    a = it.dequantized(_Operand(it.input(0), it.input(2), it.input(4), -2))
    b = it.dequantized(_Operand(it.input(1), it.input(3), it.input(5), -1))
    _with_bias(it, [a, b], it.input(6))


def _dynamic_product(it: _Rewriter, node: Any) -> None:
    names = [it.fresh(hint) for hint in ("numbers", "scale", "zero")]
    _dynamic(it, it.helper.make_node("DynamicQuantizeLinear", [it.input(0)], names))
    a = it.row_zeros(*it.centred[names[0], names[2]], -2)
    b = it.dequantized(_Operand(it.input(1), it.input(2), it.input(3), -1))
    product = it.add("MatMul", [a, b])
    scaled = it.add("Mul", [product, names[1]], "" if it.input(4) else node.output[0])
    if it.input(4):
        it.add("Add", [scaled, it.input(4)], node.output[0])


def _with_bias(it: _Rewriter, inputs: list[str], bias: str) -> None:
    if not bias:
        it.add("MatMul", inputs, it.node.output[0])
        return
    it.add("Add", [it.add("MatMul", inputs), bias], it.node.output[0])


def _as_onnx(it: _Rewriter, node: Any) -> None:
    """The same operator of ONNX's own."""
    node.domain = ""
    it.made.append(node)


_RULES: dict[str, Rule] = {
    "DynamicQuantizeLinear": _dynamic,
    "QLinearConv": _convolution,
    "QLinearMatMul": _product,
    "ConvInteger": _integer("Conv", (1, 0)),
    "MatMulInteger": _integer("MatMul", (-2, -1)),
}
"""ONNX's operators of quantized numbers."""

_OWN_RULES: dict[str, Rule] = {
    "QLinearAdd": _pointwise("Add"),
    "QLinearMul": _pointwise("Mul"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool", ("channels_last",)),
    "QLinearAveragePool": _unary("AveragePool", ("channels_last",)),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu"),
    "QLinearSoftmax": _unary("Softmax", ("opset",)),
    "QLinearConcat": _concatenation,
    "QGemm": _gemm,
    "MatMulIntegerToFloat": _product_to_float,
    "DynamicQuantizeMatMul": _dynamic_product,
    "QuantizeLinear": _as_onnx,
    "DequantizeLinear": _as_onnx,
}
"""onnxruntime's."""


def _recentred(model: Any) -> Any:
    """
    Constant bytes without a sign and with a zero point of each channel become bytes with one.

    torch-mlir takes such zero points as numbers with a sign.
    """
    numpy_helper: Any = import_module("onnx.numpy_helper")
    graph = model.graph
    constants = dict(_constants(graph))
    moved: dict[str, str] = {}

    def shifted(name: str) -> str:
        if name not in moved:
            array = numpy_helper.to_array(constants[name])
            moved[name] = f"{name}.signed"
            made = (array.astype("int16") - 128).astype("int8")
            graph.initializer.append(numpy_helper.from_array(made, moved[name]))
        return moved[name]

    for node in graph.node:
        if node.op_type != "DequantizeLinear" or len(node.input) < 3 or node.domain:
            continue
        tensors = [constants.get(node.input[n]) for n in (0, 2)]
        if any(t is None or numpy_helper.to_array(t).dtype != "uint8" for t in tensors):
            continue
        if numpy_helper.to_array(tensors[1]).ndim == 1:
            node.input[0], node.input[2] = shifted(node.input[0]), shifted(node.input[2])
    return model
