"""Converts Triton's products, reductions, and operations on tensors, pointers and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.frontends.triton.converter import SUMS, Converter, converts, shape_of
from xdsl_spirv.frontends.triton.dialect import element_of
from xdsl_spirv.frontends.triton.elements import check_element, compute
from xdsl_spirv.frontends.triton.forms import Affine, Compare, Descriptor, Mask, Pointer
from xdsl_spirv.frontends.triton.memory import as_row, find_box, flat_numbers, load_box, narrow


@converts("arith.constant")
def _constant(c: Converter, op: Operation) -> None:
    value, result = op.properties["value"], op.results[0]
    shape, element = shape_of(result), element_of(result.type)
    if isinstance(value, DenseIntOrFPElementsAttr):
        values = value.get_values()
        if not value.is_splat():
            c.writer.refuse(
                "a constant tensor of different numbers is not supported", "load the numbers"
            )
        kind = IntegerAttr if isinstance(element, IntegerType) else FloatAttr
        value = kind(values[0], cast(Any, element))
    if element in SUMS:
        assert isinstance(value, IntegerAttr)
        c.forms[result] = Affine.uniform(value.value.data, shape)
    elif element == i1 and cast(IntegerAttr, value).value.data:
        c.forms[result] = Mask(shape, ())
    else:
        check_element(c.writer, element)
        made = c.writer.add(arith.ConstantOp(cast(Any, value)))
        c.define(result, c.writer.full(made, shape) if shape else made)


@converts("tt.get_num_programs", "tt.get_program_id")
def _program_id(c: Converter, op: Operation) -> None:
    (word,) = cast(ArrayAttr[StringAttr], op.attributes["words"])
    axis = "xyz".index(word.data)
    is_count = op.name == "tt.get_num_programs"

    def number() -> SSAValue:
        return c.writer.add(tile.ProgramIdOp(axis, is_count))

    total = c.writer.number(c.writer.once((op.name, axis), number), not_negative=True)
    c.forms[op.results[0]] = Affine.uniform(total)


@converts("tt.make_range")
def _make_range(c: Converter, op: Operation) -> None:
    first = cast(IntegerAttr, op.attributes["start"]).value.data
    (size,) = shape_of(op.results[0])
    c.forms[op.results[0]] = Affine((size,), first, (int(size > 1),))


@converts("tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.splat", "tt.trans")
def _move(c: Converter, op: Operation) -> None:
    """Converts splat, expand_dims, broadcast, trans and reshape."""
    w, form, result = c.writer, c.forms[op.operands[0]], op.results[0]
    before, after = shape_of(op.operands[0]), shape_of(result)
    axes = _axes(op, before, after)
    if isinstance(form, Affine) and axes is not None:
        c.forms[result] = form.move(after, axes)
    elif isinstance(form, Pointer) and axes is not None:
        rest = None if form.rest is None else _moved_tile(c, op, form.rest, after)
        c.forms[result] = Pointer(form.argument, form.offset.move(after, axes), rest)
    elif isinstance(form, Mask) and axes is not None:
        parts = [
            part if isinstance(part, SSAValue)
            else Compare(part.predicate, part.a.move(after, axes), part.b.move(after, axes))
            for part in form.parts
        ]  # fmt: skip
        c.forms[result] = Mask(after, tuple(parts))
    elif isinstance(form, Affine | Mask | SSAValue):
        made = c.operand(op.operands[0])
        is_one = not isinstance(made.type, tile.TileType)
        moved = w.full(made, after) if is_one else _moved_tile(c, op, made, after)
        c.define(result, moved)
    else:
        w.refuse(f"{op.name} of pointers is not supported")


def _axes(op: Operation, before: Sequence[int], after: Sequence[int]) -> list[int | None] | None:
    """Returns the old axis, if any, of each new axis of a reshape; None if axes are merged."""
    match op.name:
        case "tt.splat":
            return [None for _ in after]
        case "tt.expand_dims":
            axis = cast(IntegerAttr, op.attributes["axis"]).value.data
            old = list[int | None](range(len(before)))
            return [*old[:axis], None, *old[axis:]]
        case "tt.trans":
            return list(cast(DenseArrayBase, op.attributes["order"]).get_values())  # pyright: ignore
        case "tt.reshape":
            wide = iter([axis for axis, size in enumerate(before) if size > 1])
            if [n for n in before if n > 1] != [n for n in after if n > 1]:
                return None
            return [next(wide) if size > 1 else None for size in after]
        case _:
            return list(range(len(before)))


def _moved_tile(c: Converter, op: Operation, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    w = c.writer
    if op.name == "tt.trans":
        axes = _axes(op, shape, shape)
        if axes == list(range(len(shape))):
            return value
        if axes != list(range(len(shape)))[::-1]:
            w.refuse(
                f"a transposition to the order {axes} is not supported",
                "only .T of matrices is supported",
            )
        return w.add(tile.TransposeOp(value))
    if op.name == "tt.broadcast":
        return w.broadcast(value, shape)
    return w.reshape(value, shape)


@converts("tt.addptr")
def _add_pointer(c: Converter, op: Operation) -> None:
    pointer, added = c.forms[op.operands[0]], c.forms[op.operands[1]]
    if not isinstance(pointer, Pointer):
        c.writer.refuse(
            "a pointer loaded from memory is not supported", "pass buffers as arguments"
        )
    if isinstance(added, Affine):
        made = replace(pointer, offset=pointer.offset + added)
    elif pointer.rest is None:
        made = replace(pointer, rest=c.tile(op.operands[1]))
    else:
        sides = [narrow(c.writer, v) for v in (pointer.rest, c.tile(op.operands[1]))]
        add = lambda values: c.writer.add(arith.AddiOp(values[0], values[1]))  # noqa: E731
        rest = c.writer.map(pointer.offset.shape, i32, sides, add)
        made = replace(pointer, rest=rest)
    c.forms[op.results[0]] = made


def _access(c: Converter, op: Operation, mask: SSAValue | None) -> tuple[Pointer, Any]:
    """Returns pointers and mask of a load or store; a scalar access becomes a one-element row."""
    pointer, form = c.forms[op.operands[0]], None if mask is None else c.forms[mask]
    if not isinstance(pointer, Pointer):
        c.writer.refuse(
            "a pointer loaded from memory is not supported", "pass buffers as arguments"
        )
    if not pointer.offset.shape:
        return as_row(pointer, cast(Mask | None, form))
    return pointer, form


@converts("tt.load")
def _load(c: Converter, op: Operation) -> None:
    w, result = c.writer, op.results[0]
    mask, other = (*op.operands[1:], None, None)[:2]
    pointer, form = _access(c, op, mask)
    check_element(w, element_of(result.type))
    shape, element = pointer.offset.shape, element_of(result.type)
    outside = None if other is None else c.operand(other)
    box = None
    if form is None or isinstance(form, Mask):
        box = find_box(w, c.arguments, pointer, form)
    if box is not None:
        made = load_box(w, box, shape, outside)
        done = outside is None or isinstance(outside.owner, arith.ConstantOp) or not box.is_cut
    else:
        done = outside is None
        where = None if mask is None else c.tile(mask)
        gather = tile.GatherOp(_flat(c, pointer), flat_numbers(w, pointer), where)
        made = w.add(gather)
    if not done and mask is not None and outside is not None:
        condition = c.operand(mask)
        values = [condition, made, outside]
        made = w.map(shape, element, values, lambda v: w.add(arith.SelectOp(*v)))
    c.define(result, made if shape_of(result) else w.flatten(made))


@converts("tt.store")
def _store(c: Converter, op: Operation) -> None:
    w, mask = c.writer, (*op.operands[2:], None)[0]
    pointer, form = _access(c, op, mask)
    value = c.tile(op.operands[1])
    if not shape_of(op.operands[1]):
        value = w.full(value, (1,))
    box = None
    if form is None or isinstance(form, Mask):
        box = find_box(w, c.arguments, pointer, form)
    if box is not None:
        w.insert(tile.StoreOp(value, box.view, box.indices, box.is_cut))
        return
    where = None if mask is None else c.tile(mask)
    w.insert(tile.ScatterOp(value, _flat(c, pointer), flat_numbers(w, pointer), where))


def _flat(c: Converter, pointer: Pointer) -> SSAValue:
    return c.arguments[pointer.argument]


@converts("tt.make_tensor_descriptor")
def _make_descriptor(c: Converter, op: Operation) -> None:
    w, rank = c.writer, (len(op.operands) - 1) // 2
    base = c.forms[op.operands[0]]
    padding = op.attributes.get("padding")
    if not isinstance(base, Pointer):
        w.refuse("a descriptor of a pointer loaded from memory is not supported")
    numbers = [w.index(c.total(value)) for value in op.operands[1:]]
    made = tile.ViewOp(_flat(c, base), w.index(base.offset.start), numbers[:rank], numbers[rank:])
    is_nan = isinstance(padding, IntegerAttr) and padding.value.data == 2
    c.forms[op.results[0]] = Descriptor(w.add(made), is_nan)


def _find_descriptor(c: Converter, op: Operation, count: int) -> tuple[Descriptor, list[SSAValue]]:
    descriptor = c.forms[op.operands[0]]
    if not isinstance(descriptor, Descriptor):
        c.writer.refuse("a descriptor that a loop or branch changes is not supported")
    indices = [c.writer.index(c.total(value)) for value in op.operands[1 : 1 + count]]
    return descriptor, indices


@converts("tt.descriptor_load")
def _descriptor_load(c: Converter, op: Operation) -> None:
    descriptor, indices = _find_descriptor(c, op, len(op.operands) - 1)
    element = element_of(op.results[0].type)
    outside = (
        IntegerAttr(0, element) if isinstance(element, IntegerType)
        else FloatAttr(float("nan") if descriptor.nan else 0.0, cast(AnyFloat, element))
    )  # fmt: skip
    load = tile.LoadOp(descriptor.view, indices, shape_of(op.results[0]), outside)
    c.define(op.results[0], c.writer.add(load))


@converts("tt.descriptor_store")
def _descriptor_store(c: Converter, op: Operation) -> None:
    descriptor, indices = _find_descriptor(c, op, len(op.operands) - 2)
    c.writer.insert(tile.StoreOp(c.tile(op.operands[-1]), descriptor.view, indices, True))


@converts("tt.dot")
def _dot(c: Converter, op: Operation) -> None:
    a, b, total = (c.tile(value) for value in op.operands)
    if len(tile.tile_of(a).shape) != 2:
        c.writer.refuse("a product of batches is not supported", "multiply matrices in a loop")
    if tile.tile_of(a).element != tile.tile_of(b).element:
        c.writer.refuse(
            "factors of two different types are not supported", "convert one of the factors"
        )
    c.define(op.results[0], c.writer.add(tile.MultiplyAddOp(a, b, total)))


def _function(c: Converter, op: Operation, tiles: Sequence[SSAValue]) -> Block:
    """Converts the function of two elements of a reduction or scan."""
    w, source = c.writer, op.regions[0].blocks[0]
    block = Block(arg_types=[tile.tile_of(t).element for t in (*tiles, *tiles)])
    values: dict[SSAValue, SSAValue] = dict(zip(source.args, block.args, strict=True))
    with w.inside(block):
        for inner in source.ops:
            given = [values[v] if v in values else c.operand(v) for v in inner.operands]
            if inner.name == f"{op.name}.return":
                w.insert(tile.YieldOp(*given))
                break
            if inner.name == "arith.constant":
                values[inner.results[0]] = w.add(inner.clone())
            else:
                result = inner.results[0]
                values[result] = compute(w, inner, given, result.type)
    return block


@converts("tt.reduce", "tt.scan")
def _combine(c: Converter, op: Operation) -> None:
    tiles = [c.tile(value) for value in op.operands]
    given = {**op.attributes, **op.properties}
    axis, block = cast(IntegerAttr, given["axis"]).value.data, _function(c, op, tiles)
    if op.name == "tt.scan":
        made = tile.ScanOp(tiles, axis, block, bool(cast(IntegerAttr, given["reverse"]).value.data))
    else:
        made = tile.ReduceOp(tiles, axis, block)
    c.writer.add(made)
    for result, value in zip(op.results, made.results, strict=True):
        c.define(result, value)


ATOMICS = {
    "add": tile.AtomicKind.AddI, "and": tile.AtomicKind.And, "exch": tile.AtomicKind.Assign,
    "fadd": tile.AtomicKind.AddF, "max": tile.AtomicKind.MaxS, "min": tile.AtomicKind.MinS,
    "or": tile.AtomicKind.Or, "umax": tile.AtomicKind.MaxU, "umin": tile.AtomicKind.MinU,
    "xor": tile.AtomicKind.Xor,
}  # fmt: skip
"""Kinds of atomic operations, by Triton's names."""


@converts("tt.atomic_rmw")
def _update(c: Converter, op: Operation) -> None:
    w, result = c.writer, op.results[0]
    words = [word.data for word in cast(ArrayAttr[StringAttr], op.attributes["words"])]
    mask = op.operands[2] if len(op.operands) > 2 else None
    pointer, form = _access(c, op, mask)
    element, shape = element_of(result.type), pointer.offset.shape
    if _width(element) not in (32, 64):
        w.refuse(f"atomic operations on {element} are not supported", "use 32-bit elements")
    value, where = c.operand(op.operands[1]), None
    if mask is not None and form != Mask(shape, ()):
        where = _spread(c, c.operand(mask), shape)
    view, numbers = _flat(c, pointer), flat_numbers(w, pointer)
    made = w.add(tile.AtomicOp(ATOMICS[words[0]], _spread(c, value, shape), view, numbers, where))
    if result.uses:
        c.define(result, made if shape_of(result) else w.flatten(made))


def _width(element: Attribute) -> int:
    return element.bitwidth if isinstance(element, FixedBitwidthType) else 0


def _spread(c: Converter, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """Returns a tile of a shape: the value, or one that is filled with the value."""
    return value if isinstance(value.type, tile.TileType) else c.writer.full(value, shape)


@converts("gpu.barrier", "ttg.barrier")
def _wait(c: Converter, op: Operation) -> None:
    c.writer.insert(tile.BarrierOp())


@converts("tt.join")
def _join(c: Converter, op: Operation) -> None:
    """Joins two tiles along a new last axis."""
    w, shape = c.writer, shape_of(op.results[0])
    sides = [w.broadcast(w.reshape(c.tile(v), (*shape[:-1], 1)), shape) for v in op.operands]
    index = w.tile(Affine(shape, 0, (*[0] * (len(shape) - 1), 1)), i32)

    def choose(values: list[SSAValue]) -> SSAValue:
        zero = w.add(arith.ConstantOp(IntegerAttr(0, i32)))
        first = w.add(arith.CmpiOp(values[0], zero, "eq"))
        return w.add(arith.SelectOp(first, values[1], values[2]))

    made = w.map(shape, element_of(op.results[0].type), [index, *sides], choose)
    c.define(op.results[0], made)


@converts("tt.split")
def _split(c: Converter, op: Operation) -> None:
    """Splits a tile along its last axis of size 2: the element with the least or largest index."""
    w, value, shape = c.writer, c.tile(op.operands[0]), shape_of(op.operands[0])
    index = w.tile(Affine(shape, 0, (*[0] * (len(shape) - 1), 1)), i32)
    element = tile.tile_of(value).element
    for predicate, result in zip(("slt", "sgt"), op.results, strict=True):
        block = Block(arg_types=[element, i32, element, i32])
        a, place, b, other = block.args
        with w.inside(block):
            first = w.add(arith.CmpiOp(place, other, predicate))
            chosen = [w.add(arith.SelectOp(first, *pair)) for pair in ((a, b), (place, other))]
            w.insert(tile.YieldOp(*chosen))
        made = tile.ReduceOp([value, index], len(shape) - 1, block)
        w.add(made)
        c.define(result, made.results[0])


@converts("tt.unsplat")
def _unsplat(c: Converter, op: Operation) -> None:
    """Returns the element of a tile with one element."""
    c.define(op.results[0], c.writer.flatten(c.tile(op.operands[0])))


@converts("llvm.intr.assume")
def _assume(c: Converter, op: Operation) -> None:
    """Records `tl.assume` if it says that a sum is not negative; ignores other assumptions."""
    form = c.forms[op.operands[0]]
    for part in form.parts if isinstance(form, Mask) else ():
        said = c.writer.compared.get(part) if isinstance(part, SSAValue) else None
        least = said.b.start if said else None
        if said and isinstance(least, int) and least >= 0 and said.predicate in ("sge", "sgt"):
            c.writer.assumed.add(said.a.start)
