"""
Describes a host function to callers: names and element types, and sizes that must be equal.

A loop of a `linalg` operation has one size, so all dimensions indexed by this loop alone are
equal. The dimensions that a concatenation does not join are equal, too. Sizes that are always
equal get one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    MemRefType,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.compiler.size_limits import limits_of
from xdsl_spirv.dialects.places import place
from xdsl_spirv.dialects.program import NAME, SIZES, TYPE, VALUE
from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, format_size, is_dynamic
from xdsl_spirv.passes.analysis.sizes import (
    computed_extent,
    extent,
    extents,
    is_size_check,
    kept_dimensions,
    listed_sizes,
    number,
)
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import Number, is_name
from xdsl_spirv.runtime.manifest import Equation, Limit


def _note(name: str, argument: SSAValue) -> DictionaryAttr:
    return DictionaryAttr({NAME: StringAttr(name), TYPE: StringAttr(_element(argument.type))})


def add_weight(
    function: FuncOp, name: str, hint: str, type: Attribute, value: Attribute
) -> BlockArgument:
    """Adds an argument for a weight after all other arguments."""
    block = function.body.block
    known = _noted_names(function)
    argument = block.insert_arg(type, len(block.args))
    argument.name_hint = hint
    note = DictionaryAttr({**_note(name, argument).data, VALUE: value})
    function.properties["arg_attrs"] = ArrayAttr([*known, note])
    function.update_function_type()
    return argument


def note_names(function: FuncOp) -> None:
    """Stores the names of all arguments as attributes, so that their positions may change."""
    function.properties["arg_attrs"] = ArrayAttr(_noted_names(function))


def note_attributes(function: FuncOp, key: str, values: Mapping[int, Attribute]) -> None:
    """Adds an attribute to arguments by position, and stores the names of all arguments."""
    if not values:
        return
    entries = _noted_names(function)
    for index, value in values.items():
        entries[index] = DictionaryAttr({**entries[index].data, key: value})
    function.properties["arg_attrs"] = ArrayAttr(entries)


def _noted_names(function: FuncOp) -> list[DictionaryAttr]:
    known = list(function.arg_attrs or ())
    arguments = list(enumerate(function.body.block.args))
    return known + [_note(argument_name(a, i), a) for i, a in arguments[len(known) :]]


def argument_name(value: SSAValue, index: int) -> str:
    """
    Returns the name of a host function's argument for callers.

    xDSL does not store a number at the end of a name (`%w_0`, `%w_1`). Such arguments are named as
    xDSL prints them: `w`, `w_1`.
    """
    noted, hint, block = _noted_value(value, index, NAME), value.name_hint, value.owner
    if noted or hint is None or not isinstance(block, Block):
        return noted or hint or f"arg{index}"
    namesakes = sum(argument.name_hint == hint for argument in block.args[:index])
    return f"{hint}_{namesakes}" if namesakes else hint


def argument_type(value: SSAValue, index: int) -> str:
    """Returns the element type of an argument for callers, with its signedness if it is stored."""
    return _noted_value(value, index, TYPE) or _element(value.type)


def result_name(function: FuncOp, index: int) -> str:
    """Returns the name of a host function's result for callers."""
    return _entry(function.res_attrs, index, NAME) or f"result{index}"


def result_type(function: FuncOp, index: int) -> str:
    """Returns the element type of a host function's result for callers."""
    noted = _entry(function.res_attrs, index, TYPE)
    return noted or _element(function.function_type.outputs.data[index])


def _noted_value(value: SSAValue, index: int, key: str) -> str | None:
    block = value.owner
    function = block.parent_op() if isinstance(block, Block) else None
    return _entry(function.arg_attrs, index, key) if isinstance(function, FuncOp) else None


def _entry(attributes: ArrayAttr[DictionaryAttr] | None, index: int, key: str) -> str | None:
    """Returns a string attribute that a front end stored for an argument or result, or None."""
    if attributes is None or index >= len(attributes):
        return None
    entry = attributes.data[index].data.get(key)
    return entry.data if isinstance(entry, StringAttr) else None


def _element(type: Attribute) -> str:
    return str(type.element_type) if isinstance(type, TensorType | MemRefType) else str(type)


EQUAL = 0
"""Predicate of `arith.cmpi eq`."""

Key = tuple[int, int]
"""(index of an argument, dimension of this argument): names one dynamic size."""


@dataclass
class Names:
    """
    Names of the dynamic sizes of a function's arguments, and the conditions that the sizes must
    satisfy.
    """

    of: dict[Key, Number] = field(default_factory=dict[Key, Number])
    """Maps each size to its name, or to the value that it must have."""
    equations: list[Equation] = field(default_factory=list[Equation])
    limits: list[Limit] = field(default_factory=list[Limit])

    def name(self, extent: Extent) -> Number:
        """Returns the name of a size. Raises `ProgramError` if it is not an argument's size."""
        if isinstance(extent.value, BlockArgument):
            name = self.of.get((extent.value.index, extent.dimension))
            if name is not None:
                return name
        owner = extent.value.owner
        raise ProgramError(
            "a size depends on a value that a kernel computes",
            place(owner) if isinstance(owner, Operation) else "the host function",
            "let all sizes follow from the sizes of the inputs",
        )


def names_of(function: FuncOp) -> Names:
    """Returns the names of a function's dynamic sizes, and the conditions on them."""
    arguments = function.body.block.args
    keys = [
        (argument.index, dimension)
        for argument in arguments
        if isinstance(argument.type, TensorType)
        for dimension, size in enumerate(argument.type.get_shape())
        if size == DYNAMIC_INDEX
    ]
    scalars = {
        (argument.index, 0): argument_name(argument, argument.index)
        for argument in arguments
        if isinstance(argument.type, IndexType)
    }
    if not keys and not scalars:
        return Names()
    equalities = _Equalities(keys)
    for left, right, op in _equal_sizes(function):
        equalities.add(left, right, op)
    static, others = equalities.numbers()
    names = Names()
    names.of |= scalars
    by_root: dict[Key, Number] = dict(scalars)
    for key in keys:
        representative = equalities.root(key)
        if representative not in by_root:
            equal = [k for k in keys if equalities.root(k) == representative]
            wanted = next(filter(None, (_given_name(arguments[k[0]], k) for k in equal)), "")
            index, dimension = representative
            wanted = wanted or f"{argument_name(arguments[index], index)}_{dimension}"
            by_root[representative] = (
                static[representative] if representative in static else _free(wanted, by_root)
            )
        names.of[key] = by_root[representative]
    seen: set[tuple[Number, Number]] = set()
    for left, right, op in others:
        pair = format_size(left, names.name), format_size(right, names.name)
        if pair[0] != pair[1] and pair not in seen:
            seen.add(pair)
            names.equations.append(Equation(*pair, because=place(op)))
    names.limits = limits_of(function, names.name)
    return names


class _Equalities:
    """Dynamic sizes that are equal to each other or to numbers."""

    def __init__(self, keys: Sequence[Key]):
        self.parents = {key: key for key in keys}
        self._numbers: list[tuple[Key, int, Operation]] = []
        self._others: list[tuple[Size, Size, Operation]] = []

    def root(self, key: Key) -> Key:
        """Returns the representative of all sizes that are equal to this one."""
        while self.parents[key] != key:
            key = self.parents[key]
        return key

    def add(self, left: Size, right: Size, op: Operation) -> None:
        """Records that an operation requires two sizes to be equal."""
        first, second = _key(left, self.parents), _key(right, self.parents)
        if first is not None and second is not None:
            low, high = sorted((self.root(first), self.root(second)))
            self.parents[high] = low
        elif first is not None and not is_dynamic(right):
            self._numbers.append((first, right, op))
        elif second is not None and not is_dynamic(left):
            self._numbers.append((second, left, op))
        else:
            self._others.append((left, right, op))

    def numbers(self) -> tuple[dict[Key, int], list[tuple[Size, Size, Operation]]]:
        """
        Returns the known size of each class of equal sizes, and the pairs of sizes to check later.
        """
        static: dict[Key, int] = {}
        contradictions: list[tuple[Size, Size, Operation]] = []
        for key, size, op in self._numbers:
            known = static.setdefault(self.root(key), size)
            if known != size:
                contradictions.append((known, size, op))
        return static, self._others + contradictions


def _given_name(argument: BlockArgument, key: Key) -> str:
    function = argument.owner.parent_op()
    assert isinstance(function, FuncOp)
    attributes = function.arg_attrs.data[argument.index].data if function.arg_attrs else {}
    listed = attributes.get(SIZES)
    if listed is None:
        return ""
    text = list(listed)[key[1]]  # pyright: ignore
    return text.data if isinstance(text, StringAttr) else ""


def _free(name: str, taken: dict[Key, Number]) -> str:
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    plain = plain if is_name(plain) else f"_{plain}"
    free, number = plain, 1
    while free in taken.values():
        free, number = f"{plain}_{number}", number + 1
    return free


def _key(size: Size, known: dict[Key, Key]) -> Key | None:
    """
    Returns the argument dimension whose size equals `size`. Returns None if no such dimension is
    known.
    """
    if not is_dynamic(size) or len(size.terms) != 1:
        return None
    ((atoms, factor),) = size.terms
    if factor != 1 or len(atoms) != 1 or not isinstance(atoms[0], Extent):
        return None
    value = atoms[0].value
    key = (value.index, atoms[0].dimension) if isinstance(value, BlockArgument) else None
    return key if key in known else None


def _equal_sizes(function: FuncOp) -> Iterator[tuple[Size, Size, Operation]]:
    """Yields (size, size, operation) for each operation that requires equal sizes."""
    for op in function.body.block.ops:
        if isinstance(op, LinalgStructuredOperation) and not isinstance(op, FillOp):
            yield from _of_loops(op)
        elif isinstance(op, cf.AssertOp) and isinstance(op.arg.owner, arith.CmpiOp):
            compared = op.arg.owner
            if is_size_check(op) and compared.predicate.value.data == EQUAL:
                yield number(compared.lhs), number(compared.rhs), op
        elif isinstance(op, tensor.ConcatOp):
            axis = op.dim.value.data
            for value in op.inputs[1:]:
                for dimension in range(len(_shape(value))):
                    if dimension != axis:
                        yield extent(op.inputs[0], dimension), extent(value, dimension), op
        for left, right in _of_type(op):
            if left != right and _are_given(left) and _are_given(right):
                yield left, right, op


def _of_type(op: Operation) -> Iterator[tuple[Size, Size]]:
    """Yields the pairs of sizes that an operation's types require to be equal."""
    if isinstance(op, tensor.CastOp | tensor.CollapseShapeOp | tensor.ConcatOp | tensor.PadOp):
        for dimension, size in enumerate(_shape(op.results[0])):
            if size != DYNAMIC_INDEX:
                yield size, computed_extent(op.results[0], dimension)
    if isinstance(op, tensor.ExpandShapeOp):
        sizes = extents(op.result)
        for dimension, group in enumerate(op.reassociation.data):
            split = prod(sizes[axis.value.data] for axis in group.data)
            yield extent(op.src, dimension), split
    if isinstance(op, tensor.InsertSliceOp):
        sizes = listed_sizes(op.static_sizes, op.sizes)
        for dimension, kept in enumerate(kept_dimensions(sizes, _shape(op.source))):
            yield extent(op.source, dimension), sizes[kept]


def _are_given(size: Size) -> bool:
    """True if a size is a constant, or is computed only from sizes of arguments and constants."""
    extents = size.extents if is_dynamic(size) else ()
    return all(isinstance(extent.value, BlockArgument) for extent in extents)


def _of_loops(op: LinalgStructuredOperation) -> Iterator[tuple[Size, Size, Operation]]:
    known: dict[int, Size] = {}
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    for value, map in zip((*op.inputs, *op.outputs), maps, strict=True):
        if not isinstance(value.type, TensorType):
            continue
        for dimension, expression in enumerate(map.results):
            if not isinstance(expression, AffineDimExpr):
                continue
            size = extent(value, dimension)
            first = known.setdefault(expression.position, size)
            if first != size:
                yield first, size, op


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.get_shape()
