"""
Imports the nodes of a graph in order: folds each node, or calls its operator's function.

Small known values (shapes, axes, constants) and sizes are folded, so that shapes depend only on
the sizes of inputs. An operator without a function is expanded if ONNX defines it by other
operators. A refusal names the node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn, cast

import numpy as np
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr
from xdsl.ir import Block

from xdsl_spirv.dialects.schedule.symbolic_sizes import SymbolicSize, UnknownSizeError, surely_below
from xdsl_spirv.frontends.errors import UNFORESEEN, FrontendError
from xdsl_spirv.frontends.onnx import chosen
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.declared import OF_AXES, Sizes, declared_sizes, deduced, with_data
from xdsl_spirv.frontends.onnx.operand_sizes import check_operand_sizes
from xdsl_spirv.frontends.onnx.portions import portion_of, quotient_of
from xdsl_spirv.frontends.onnx.progressions import with_progressions
from xdsl_spirv.frontends.onnx.reading import chosen_by_data
from xdsl_spirv.frontends.onnx.registry import (
    DOMAINS,
    REFUSED,
    Operator,
    Results,
    is_evaluated,
    is_newest,
    lookup,
)
from xdsl_spirv.frontends.onnx.values import ELEMENTS, Chosen, Listed, Tensor, element_of
from xdsl_spirv.frontends.onnx.weights import array_of
from xdsl_spirv.frontends.onnx_file import ELEMENT_TYPES, Model
from xdsl_spirv.progress import stage

OLDEST = 7
"""First opset whose operators broadcast and read attributes like the current opset."""

SMALL = 1 << 14
"""Maximum number of elements of a result that is folded if all operands are known."""

RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial")
)

EXPANDING = frozenset(
    (
        *("BlackmanWindow", "ConstantOfShape", "EyeLike", "Expand", "HammingWindow", "HannWindow"),
        *("OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"),
    )
)
"""Operators whose results may be much larger than their operands."""

MOST_ELEMENTS = (1 << 31) - 1
"""Maximum number of elements of a tensor in a kernel."""

QUANTIZED = frozenset(("DequantizeLinear",))
"""Operators that are not folded, because integer contractions need integer weights."""


MOVES = frozenset(
    "Expand Flatten GatherElements GatherND ScatterElements ScatterND Split Tile Transpose".split()
)
"""Operators that move elements and compute nothing."""

MISJUDGED = frozenset(
    "AveragePool BatchNormalization CumSum Dropout GlobalAveragePool GlobalLpPool GlobalMaxPool"
    " Hardmax LRN LogSoftmax LpNormalization LpPool MaxPool MaxUnpool NegativeLogLikelihoodLoss"
    " ReduceSumSquare Resize Slice Softmax SoftmaxCrossEntropyLoss Unique Upsample".split()
)
"""Operators that onnx's evaluator refuses or computes wrongly in some opset or form."""


class Nodes(TensorBuilder):
    """Imports nodes into a block; `values` maps names to tensors; `node` is the current node."""

    def __init__(self, entry: Block, model: Model):
        super().__init__(entry)
        self.model = model
        self.versions = {DOMAINS.get(o.domain, o.domain): o.version for o in model.opset_import}
        self.values: dict[str, Tensor] = {}
        self.declared = declared_sizes(model.graph)
        self.node: Any = None
        self.folded: set[str] = set()
        """Names of folded nodes."""
        self.written = 0
        """Number of imported nodes in subgraphs."""
        self._once: dict[int, tuple[Any, dict[str, Tensor]]] = {}
        self.slices: dict[tuple[object, ...], Tensor] = {}
        """Slices of tables that several nodes read."""

    def refuse(self, cause: str, remedy: str) -> NoReturn:
        """Raises `FrontendError` for the current node."""
        node = self.node
        raise FrontendError(
            f"{node.op_type}: {cause}",
            f"node {node.name!r}, operator {node.op_type}",
            remedy,
            operator=node.op_type,
            node=node.name,
        )

    def once(self, graph: Any, compute: Callable[[Any], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Computes a subgraph's loop-invariant tensors at the first call, and caches them."""
        if id(graph) not in self._once:
            # Holds the graph, so that no other object gets its id.
            self._once[id(graph)] = graph, compute(graph)
        return self._once[id(graph)][1]

    def run(self, nodes: Sequence[Any]) -> None:
        """Imports nodes in order."""
        with stage("importing nodes", len(nodes)) as progress:
            for node in nodes:
                progress.step(f"{node.op_type} {node.name}")
                self._run(node)

    def _run(self, node: Any) -> None:
        self.node = node
        self.location = NameLoc(StringAttr(node.name), NoneAttr())
        results = self._understood(node)
        self._refuse_huge(results)
        self._define(node.output, results)
        if all(t is None or (not isinstance(t, Listed) and t.known is not None) for t in results):
            self.folded.add(node.name)

    def _refuse_huge(self, results: Sequence[Tensor | None]) -> None:
        for t in results:
            if t is not None and not isinstance(t, Listed) and least_count(t) > MOST_ELEMENTS:
                self.refuse(f"the result {t} is too large", f"use at most {MOST_ELEMENTS} elements")

    def _define(self, names: Sequence[str], results: Sequence[Tensor | None]) -> None:
        for name, result in zip(names, results, strict=False):
            if name and result is not None:
                self.values[name] = result
        for name in list(names)[len(results) :]:
            if name:
                self.refuse(f"the output {name!r} is not computed", "leave the output out")

    def _understood(self, node: Any) -> Sequence[Tensor | None]:
        """Returns the results of a node. Converts exceptions for bad nodes to `FrontendError`."""
        try:
            return self._results(node)
        except UNFORESEEN as error:
            said = str(error).strip().partition("\n")[0]
            self.refuse(
                f"the node is not valid ONNX ({type(error).__name__}: {said})",
                "compare the node with ONNX's definition of the operator, or cut the model here",
            )

    def _results(self, node: Any) -> Sequence[Tensor | None]:
        inputs = [self.values[name] if name else None for name in node.input]
        attributes = attributes_of(node)
        domain = node.domain if node.domain != "ai.onnx" else ""
        if any(isinstance(t, Chosen) for t in inputs):

            def compute(operator: str, given: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
                other = type(node)()
                other.CopyFrom(node)
                other.op_type = operator
                return self._imported(other, domain, given, attributes)

            return chosen.apply(self, node.op_type, inputs, attributes, compute)
        possible = [] if domain else deduced(node.op_type, inputs, self.declared_result, attributes)
        if not possible:
            return self._imported(node, domain, inputs, attributes)
        given = [with_data(inputs, data) for data in possible]
        results = [self._imported(node, domain, operands, attributes) for operands in given]
        if len(results) == 1:
            return results[0]
        number, operands = max(possible[0]), cast("Sequence[Tensor]", inputs)
        tensors = [cast("Tensor", result[0]) for result in results]
        rank = operands[0].rank if node.op_type in OF_AXES else None
        lists = [data[number] for data in possible]
        return [chosen_by_data(self, operands[number], lists, rank, tensors)]

    @property
    def declared_result(self) -> Sizes | None:
        """Returns the declared sizes of the node's first result, if all are static."""
        declared = self.declared.get(self.node.output[0], (None,))
        sizes = tuple(size for size in declared if size is not None)
        return sizes if len(sizes) == len(declared) else None

    def _imported(
        self,
        node: Any,
        domain: str,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
    ) -> Sequence[Tensor | None]:
        entry = lookup(domain, node.op_type, self.versions.get(domain, 1))
        known = self._computed(node, entry, inputs, attributes)
        if known is not None:
            return known
        if entry is None:
            return self._expanded(node, inputs)
        given, options = self._arguments(entry, inputs, attributes)
        try:
            check_operand_sizes(self, entry, given, options)
            results = entry(self, *given, **options)
        except UnknownSizeError as error:
            self.refuse(
                f"the import depends on a dynamic size: {error}", "give the sizes of inputs: --dim"
            )
        except (ValueError, TypeError, IndexError) as error:
            self.refuse(
                str(error),
                "compare the node with ONNX's definition of the operator, or cut the model here",
            )
        if domain:
            return _several(results)
        return with_progressions(node.op_type, inputs, attributes, _several(results))

    def apply(self, name: str, *tensors: Tensor | None, opset: int = 0, **attributes: Any) -> Any:
        """Imports a standard operator, by default of the model's opset. Returns its results."""
        entry = lookup("", name, opset or self.versions.get("", 1))
        assert entry is not None
        return entry(self, *tensors, **attributes)

    def _arguments(
        self, entry: Operator, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any]
    ) -> tuple[list[Tensor | None], dict[str, Any]]:
        """Returns inputs and attributes. Raises `FrontendError` for an unknown attribute."""
        given = list(inputs)
        options: dict[str, Any] = {}
        for name, value in attributes.items():
            if name in entry.attributes or entry.takes_all_attributes:
                options[name] = value
            elif name in entry.inputs:
                position = entry.inputs.index(name)
                given += [None] * (position + 1 - len(given))
                given[position] = self._as_input(value)
            else:
                remedy = "leave the attribute out"
                if self.versions.get("", OLDEST) < OLDEST:
                    remedy = f"convert the model to opset {OLDEST} or later"
                self.refuse(f"the attribute {name!r} is unknown", remedy)
        if len(given) > len(entry.inputs) and not entry.is_variadic:
            if any(t is not None for t in given[len(entry.inputs) :]):
                self.refuse(
                    f"the node has {len(given)} inputs, more than the operator takes",
                    "compare the node with ONNX's definition of the operator",
                )
            given = given[: len(entry.inputs)]
        return given, options

    def _as_input(self, value: Any) -> Tensor:
        array = np.array(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        return Tensor.of(array)

    # Known values

    def _computed(
        self,
        node: Any,
        entry: Operator | None,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
    ) -> Sequence[Tensor | None] | None:
        """Folds the node if all operands are known and small; returns None otherwise."""
        given = [t for t in inputs if t is not None]
        if not given or any(isinstance(t, Listed) or t.known is None for t in given):
            return None
        symbolic = any(t.numbers is None for t in given)
        if symbolic:
            if node.op_type in MOVES:
                return self._move_sizes(node, inputs)
            if entry is None or entry.fold is None:
                return None
            last = given[0 if node.op_type != "Where" else -1].element
            element = element_numbered(attributes["to"]) if node.op_type == "Cast" else last
            try:
                arrays = [None if t is None else exact_numbers(t) for t in inputs]
                array = np.asarray(self._fold_sizes(node, entry, arrays, attributes), object)
            except (UnknownSizeError, TypeError):
                # A required number is dynamic. The operator's function reports it.
                return None
            if array.size and all(isinstance(item, bool) for item in array.flat):
                return [Tensor.of(array.astype(np.bool_))]
            return [Tensor(element, array.shape, known=array)]
        if node.op_type in RANDOM or sum(_count(t) for t in given) > SMALL or has_graph(node):
            return None
        if node.op_type in MISJUDGED:
            return self._folded(entry, inputs, attributes)
        if entry is not None and not (is_newest(entry) and is_evaluated(entry)):
            return None
        if node.op_type in QUANTIZED and given[0].element.bits <= 8:
            return None
        if node.op_type in EXPANDING and self._inferred_count(node, given) > SMALL:
            return None
        try:
            results = self._evaluated(node, inputs)
        except Exception:
            # The operator's function reports the problem.
            return None
        if any(isinstance(r, list) or np.asarray(r).size > SMALL for r in results):
            return None
        tensors = [Tensor.of(np.asarray(array)) for array in results]
        return self._as_declared(node, given, tensors)

    def _fold_sizes(
        self, node: Any, entry: Operator, arrays: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """
        Folds a node whose operands are symbolic sizes.

        If the node rounds a quotient toward zero, a run requires that the dividend is not negative.
        """
        assert entry.fold is not None
        is_cut = node.op_type == "Div" or (node.op_type == "Mod" and attributes.get("fmod"))
        if node.op_type == "Div" and self.values[node.input[0]].element.is_float:
            return np.frompyfunc(quotient_of, 2, 1)(*arrays)
        result = entry.fold(*arrays, **attributes)
        if node.op_type == "Mod":
            for x, y in np.broadcast(*(np.asarray(array, object) for array in arrays)):
                if isinstance(y, SymbolicSize) and not isinstance(x, SymbolicSize):
                    if is_cut and x < 0:
                        raise UnknownSizeError(
                            f"the remainder of the negative {x} is not supported"
                        )
                    self.insist_natural(y - 1 - x)
                    self.insist_natural(y + x)
        if not is_cut:
            return result
        for size in np.asarray(arrays[0], object).flat:
            if node.op_type == "Mod" or not surely_below(size, 1):
                self.insist_natural(size)
        return result

    def _as_declared(
        self, node: Any, inputs: Sequence[Tensor], results: Sequence[Tensor]
    ) -> list[Tensor]:
        """Converts results to ONNX's types, because the evaluator returns wider floats."""
        if not any(t.element.is_float and t.element.bits < 32 for t in inputs):
            return list(results)
        inferred = self._inferred(node, inputs)
        types = [inferred.get(name) for name in node.output if name]
        numbers = [0 if type is None else type.tensor_type.elem_type for type in types]
        return [
            self.convert(t, element_numbered(number)) if number and t.element.is_float else t
            for t, number in zip(results, numbers, strict=True)
        ]

    def _inferred_count(self, node: Any, inputs: Sequence[Tensor]) -> int:
        """Returns the number of elements that ONNX infers for the result, or 0 if it is unknown."""
        inferred = self._inferred(node, inputs)
        fields = [f for t in inferred.values() for f in t.tensor_type.shape.dim]
        return math.prod(field.dim_value or 1 for field in fields)

    def _inferred(self, node: Any, inputs: Sequence[Tensor]) -> Mapping[str, Any]:
        """Returns the types and shapes that ONNX infers for the node's results, by name."""
        onnx: Any = import_module("onnx")
        names = dict.fromkeys(name for name in node.input if name)
        known = dict(zip([name for name in node.input if name], inputs, strict=True))
        types = {name: _type_proto(known[name]) for name in names}
        data = {n: onnx.numpy_helper.from_array(t.numbers) for n, t in known.items()}
        try:
            schema = onnx.defs.get_schema(node.op_type, self.versions.get("", 1))
            return onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=list(self.model.opset_import)
            )
        except Exception:
            # The operator's function reports a node that does not fit ONNX's definition.
            return {}

    def _folded(
        self,
        entry: Operator | None,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
    ) -> Sequence[Tensor] | None:
        """
        Folds the node with the fold function of its operator. Returns None if no such function
        applies.
        """
        if entry is None or entry.fold is None:
            return None
        arrays = [None if t is None else t.numbers for t in inputs]
        try:
            return [Tensor.of(np.asarray(entry.fold(*arrays, **attributes)))]
        except (ValueError, TypeError, IndexError):
            return None

    def _move_sizes(self, node: Any, inputs: Sequence[Tensor | None]) -> list[Tensor] | None:
        """
        Folds a node that only moves elements, if the elements are symbolic sizes.

        onnx's evaluator moves the indices of the sizes in a list, because it cannot move the sizes.
        """
        onnx: Any = import_module("onnx")
        schema = onnx.defs.get_schema(node.op_type, self.versions.get("", 1))
        items: list[Any] = []
        given: list[Tensor | None] = []
        for t, formal in zip(inputs, schema.inputs, strict=False):
            if t is not None and formal.type_str == schema.outputs[0].type_str:
                assert t.known is not None
                first = len(items)
                items.extend(t.known.flat)
                t = Tensor.of(np.arange(first, len(items)).reshape(t.known.shape))
            given.append(t)
        if any(t is not None and t.numbers is None for t in given):
            return None
        present = [t for t in given if t is not None]
        if node.op_type in EXPANDING and self._inferred_count(node, present) > SMALL:
            return None
        try:
            places = self._evaluated(node, given)
        except Exception:
            return None
        data = np.array(items, object)
        element = next(t.element for t in inputs if t is not None)
        return [Tensor(element, at.shape, known=data[at]) for at in map(np.asarray, places)]

    def _evaluated(self, node: Any, inputs: Sequence[Tensor | None]) -> list[Any]:
        """Computes the results of a node with onnx's evaluator."""
        onnx: Any = import_module("onnx")
        helper = onnx.helper
        arrays = {
            name: t.numbers
            for name, t in zip(node.input, inputs, strict=True)
            if t is not None and t.numbers is not None
        }
        values = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in arrays.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", values, outputs)
        model = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=8)
        evaluator = import_module("onnx.reference").ReferenceEvaluator(model)
        with np.errstate(all="ignore"):
            return evaluator.run(None, arrays)

    # Operators that ONNX defines by others

    def _expanded(self, node: Any, inputs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Imports the nodes by which the model or ONNX defines the operator."""
        body, defaults = self._model_function(node), []
        if body is None:
            body, defaults = self._standard_function(node, inputs)
        if body is None:
            domain = f" of the domain {node.domain!r}" if node.domain else ""
            cause = f"the operator{domain} is not supported"
            remedy = "replace the node by other nodes, or cut the model before it"
            known = REFUSED.get(node.domain) or REFUSED.get(node.op_type)
            self.refuse(*(known or (cause, remedy)))
        values, versions, around = self.values, self.versions, self.node
        declared, self.declared = self.declared, {}
        self.values = {
            name: t for name, t in zip(body.input, inputs, strict=False) if t is not None
        }
        self.versions = {o.domain: o.version for o in body.opset_import} or versions
        try:
            for inner in _with_attributes(body, node, defaults):
                self.node = inner
                self._define(inner.output, self._results(inner))
            return [self.values.get(name) for name in body.output]
        finally:
            self.values, self.versions, self.node = values, versions, around
            self.declared = declared

    def _model_function(self, node: Any) -> Any | None:
        return next(
            (f for f in self.model.functions if f.name == node.op_type and f.domain == node.domain),
            None,
        )

    def _standard_function(
        self, node: Any, inputs: Sequence[Tensor | None]
    ) -> tuple[Any | None, list[Any]]:
        """Returns ONNX's definition of the operator as nodes, and default attributes."""
        onnx: Any = import_module("onnx")
        version = self.versions.get(node.domain, 1)
        if not onnx.defs.has(node.op_type, node.domain):
            return None, []
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        defaults = [a.default_value for a in schema.attributes.values() if a.default_value.name]
        if schema.has_function:
            return schema.function_body, defaults
        if not schema.has_context_dependent_function:
            return None, []
        types = [b"" if t is None else _type_proto(t).SerializeToString() for t in inputs]
        body = onnx.FunctionProto()
        data = schema.get_context_dependent_function(node.SerializeToString(), types)
        body.ParseFromString(data)
        return body, defaults


def least_count(t: Tensor) -> int:
    """Returns the minimum number of elements of a tensor; dynamic sizes count as 1."""
    return math.prod(size if isinstance(size, int) else 1 for size in t.sizes)


def _type_proto(t: Tensor) -> Any:
    onnx: Any = import_module("onnx")
    sizes = [s if isinstance(s, int) else None for s in t.sizes]
    return onnx.helper.make_tensor_type_proto(number_of(t.element.name), sizes)


def number_of(name: str) -> int:
    """Returns ONNX's code of an element type, given MLIR's name."""
    onnx: Any = import_module("onnx")
    code = next(code for code, known in ELEMENT_TYPES.items() if known == name)
    return onnx.TensorProto.DataType.Value(code)


def element_numbered(number: int) -> Any:
    """Returns the element type with an ONNX code. Raises `ValueError` for an unsupported type."""
    onnx: Any = import_module("onnx")
    code = onnx.TensorProto.DataType.Name(number)
    name = ELEMENT_TYPES.get(code, "")
    if name not in ELEMENTS:
        raise ValueError(f"elements of the type {code.lower()} are not supported")
    return ELEMENTS[name]


def attributes_of(node: Any) -> dict[str, Any]:
    """Returns attributes as Python values: strings as `str`, tensors as arrays, graphs as given."""
    onnx: Any = import_module("onnx")
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, onnx.TensorProto):
            value = array_of(value)
        elif attribute.type == attribute.STRINGS:
            value = [text.decode() for text in value]
        values[attribute.name] = value
    return values


def has_graph(node: Any) -> bool:
    """True if a node contains subgraphs."""
    return any(a.HasField("g") or a.graphs for a in node.attribute)


def _with_attributes(body: Any, node: Any, defaults: Sequence[Any]) -> list[Any]:
    """Returns the nodes of a function's body, with the attributes of the call substituted."""
    given = {a.name: a for a in [*defaults, *body.attribute_proto, *node.attribute]}
    nodes: list[Any] = []
    for inner in body.node:
        copy = type(inner)()
        copy.CopyFrom(inner)
        copy.name = node.name
        del copy.attribute[:]
        for attribute in inner.attribute:
            source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
            if source is not None:
                written = copy.attribute.add()
                written.CopyFrom(source)
                written.name = attribute.name
                written.ref_attr_name = ""
        nodes.append(copy)
    return nodes


def exact_numbers(t: Tensor) -> Any:
    """Converts known data to exact sizes and quotients. Raises `TypeError` for inexact floats."""
    numbers = t.numbers
    if numbers is None or not t.element.is_float:
        return t.known
    exact = [int(n) if n == np.trunc(n) else portion_of(n) for n in numbers.flat]
    return np.array(exact, object).reshape(numbers.shape)


def _count(t: Tensor) -> int:
    return 0 if t.known is None else t.known.size


def _several(results: Results) -> Sequence[Tensor | None]:
    return [results] if isinstance(results, Tensor) else list(results)


__all__ = ["Nodes", "SymbolicSize", "attributes_of", "element_numbered", "element_of", "number_of"]
