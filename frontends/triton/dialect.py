"""
Defines the syntax of the operations and types of Triton's dialect `tt` that kernels use.

Operations have operands, attributes and results, but no verifiers, because Triton has verified the
kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntAttr,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.dialects.utils import parse_func_op_like
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

Types: TypeAlias = tuple[Sequence[Attribute], Sequence[Attribute]]
"""Types of the operands, and types of the results."""

Typing: TypeAlias = Callable[[int, list[Attribute]], Types]
"""
Function that returns all types of an operation, from the number of operands and the types in the
text.
"""


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """A pointer to elements: `!tt.ptr<f16>`, or with an address space `!tt.ptr<f16, 1>`."""

    name = "tt.ptr"
    pointee: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            if parser.parse_optional_punctuation(","):
                parser.parse_integer()
        return (pointee,)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)


@irdl_attr_definition
class DescriptorType(ParametrizedAttribute, TypeAttribute):
    """A descriptor of an array that is accessed in boxes: `!tt.tensordesc<64x32xf16>`."""

    name = "tt.tensordesc"
    sizes: ArrayAttr[IntAttr]
    element: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("tensor"):  # The syntax before Triton 3.7
                return cls.parse_parameters(parser)
            shape, element = parser.parse_ranked_shape()
        return ArrayAttr([IntAttr(size) for size in shape]), element

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{size.data}x" for size in self.sizes))
            printer.print_attribute(self.element)


@irdl_attr_definition
class CachePolicyAttr(ParametrizedAttribute):
    """Cache hints, without effect: `#tt.cache_policy<cache_modifier = cg, ...>`."""

    name = "tt.cache_policy"
    hints: DictionaryAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def hint() -> tuple[str, Attribute]:
            key = parser.parse_identifier()
            parser.parse_punctuation("=")
            return key, StringAttr(parser.parse_identifier())

        angle = parser.Delimiter.ANGLE
        return (DictionaryAttr(dict(parser.parse_comma_separated_list(angle, hint))),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            hints = cast(dict[str, StringAttr], self.hints.data)
            printer.print_string(", ".join(f"{key} = {h.data}" for key, h in hints.items()))


def shaped_like(type: Attribute, element: Attribute) -> Attribute:
    """Returns the element type with the shape of another type."""
    return TensorType(element, type.get_shape()) if isinstance(type, TensorType) else element


def element_of(type: Attribute) -> Attribute:
    """Returns the element type of a tensor type, or any other type unchanged."""
    return type.element_type if isinstance(type, TensorType) else type


def _pointee(type: Attribute) -> Attribute:
    pointer = element_of(type)
    return shaped_like(type, pointer.pointee) if isinstance(pointer, PointerType) else type


class TritonOperation(IRDLOperation):
    """Base class of Triton's operations."""

    given = var_operand_def()
    made = var_result_def()
    inside = var_region_def()


def _scan(parser: Parser) -> tuple[list[Any], dict[str, Attribute]]:
    """Parses operands, words (`x`), settings (`a = b`) and a dictionary, up to the types."""
    names: list[Any] = []
    words: list[Attribute] = []
    settings: dict[str, Attribute] = {}
    while parser._current_token.text != "loc":  # pyright: ignore[reportPrivateUsage]
        if (name := parser.parse_optional_unresolved_operand()) is not None:
            names.append(name)
        elif (word := parser.parse_optional_identifier()) is not None:
            if parser.parse_optional_punctuation("="):
                settings[word] = StringAttr(parser.parse_identifier())
            elif parser.parse_optional_punctuation("<") is None:
                words.append(StringAttr(word))
        elif not any(map(parser.parse_optional_punctuation, (",", "[", "]", ">"))):  # pyright: ignore
            break
    return names, {"words": ArrayAttr(words), **settings, **parser.parse_optional_attr_dict()}


def _types(parser: Parser) -> list[Attribute]:
    """Parses types; a function type gives its inputs and outputs."""
    if parser.parse_optional_punctuation(":") is None:
        return []
    found: list[Attribute] = []
    while True:
        if (type := parser.parse_optional_type()) is None:  # `<f16>`, without the type's name
            kind = DescriptorType if found else PointerType
            type = kind.new(kind.parse_parameters(parser))
        if isinstance(type, FunctionType):
            found += [*type.inputs, *type.outputs]
        else:
            found.append(type)
        separated = any(map(parser.parse_optional_punctuation, (",", "->", "*")))  # pyright: ignore
        if not separated and parser.parse_optional_keyword("to") is None:
            return found


def _operation(name: str, typing: Typing, *traits: Any) -> type[Operation]:
    def parse(cls: type[TritonOperation], parser: Parser) -> Operation:
        names, attributes = _scan(parser)
        inputs, outputs = typing(len(names), _types(parser))
        operands = [parser.resolve_operand(n, t) for n, t in zip(names, inputs, strict=True)]
        return cls.create(operands=operands, result_types=outputs, attributes=attributes)

    members: dict[str, Any] = {"name": name, "parse": classmethod(parse), "__module__": __name__}
    members["traits"] = traits_def(*traits)
    return irdl_op_definition(type(name.replace(".", "_"), (TritonOperation,), members))


@irdl_op_definition
class FunctionOp(TritonOperation):
    """A kernel."""

    name = "tt.func"

    @classmethod
    def parse(cls, parser: Parser) -> FunctionOp:
        parser.parse_optional_visibility_keyword()
        reserved = ("sym_name", "function_type", "sym_visibility")
        name, _, _, region, *_ = parse_func_op_like(parser, reserved_attr_names=reserved)
        return cls.create(regions=[region], attributes={"sym_name": StringAttr(name)})


def _list_types(count: int, types: list[Attribute]) -> Types:
    return types[:count], types[count:]


def _converting(count: int, types: list[Attribute]) -> Types:
    return [types[0]] * count, [types[-1]]


def _load(count: int, types: list[Attribute]) -> Types:
    (type,) = types
    return [type, shaped_like(type, i1), _pointee(type)][:count], [_pointee(type)]


def _store(count: int, types: list[Attribute]) -> Types:
    (type,) = types
    return [type, _pointee(type), shaped_like(type, i1)][:count], []


def _make_descriptor(count: int, types: list[Attribute]) -> Types:
    rank = (count - 1) // 2
    return [types[0], *[i32] * rank, *[i64] * rank], types[1:]


def _index_types(count: int, types: list[Attribute]) -> Types:
    return [types[0], *[i32] * (count - 1)], types[1:]


def _index_store_types(count: int, types: list[Attribute]) -> Types:
    return [types[0], *[i32] * (count - 2), types[1]], []


_SYNTAX: dict[Typing, str] = {
    _list_types: "atomic_rmw get_program_id get_num_programs make_range reduce scan "
    "extern_elementwise",
    _converting: "splat expand_dims broadcast trans reshape fp_to_fp bitcast clampf join "
    "mulhiui precise_sqrt precise_divf",
    lambda count, types: (types, types[:1]): "addptr",
    lambda count, types: (types, types[2:]): "dot",
    lambda count, types: (types[:1], types[1:] * 2): "split",
    lambda count, types: (types, [element_of(types[0])]): "unsplat",
    _load: "load",
    _store: "store",
    _make_descriptor: "make_tensor_descriptor",
    _index_types: "descriptor_load",
    _index_store_types: "descriptor_store",
}

_OPERATIONS: list[type[Operation]] = [
    FunctionOp,
    _operation("tt.return", _list_types, IsTerminator()),
    _operation("tt.reduce.return", _list_types, IsTerminator()),
    _operation("tt.scan.return", _list_types, IsTerminator()),
    *(_operation(f"tt.{n}", typing) for typing, names in _SYNTAX.items() for n in names.split()),
]

Triton = Dialect("tt", _OPERATIONS, [PointerType, DescriptorType, CachePolicyAttr])

OTHERS = {
    name.partition(".")[0]: Dialect(name.partition(".")[0], [_operation(name, _list_types)])
    for name in ("gpu.barrier", "llvm.intr.assume", "ttg.barrier")
}
"""Dialects of which Triton's kernels use one operation. Before Triton 3.7 barriers are `gpu`'s."""
