"""
Proves that Workgroup memory is written before it is read.

A read is safe if a write to its element happens before the read: an earlier write by the same
invocation, or a write by another invocation with a barrier between them. The other invocation is
found by solving the write's index for an invocation id, and solvers check the result. Only facts
that hold for all invocations are assumed about it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import VectorType

from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp
from xdsl_spirv.dialects.spirv.types import ArrayType, MatrixType
from xdsl_spirv.prove.accesses import Access, Demand
from xdsl_spirv.prove.digits import list_addends
from xdsl_spirv.prove.kernel import CONSECUTIVE, Kernel
from xdsl_spirv.prove.loops import ONE, equal
from xdsl_spirv.prove.meaning import resize
from xdsl_spirv.prove.values import Scalar, Term, constants_of, known_number, negate, parts_of, z3

QUESTION, WHAT = "initialization", "Workgroup memory is written before it is read"
INDEX = 32
"""Number of bits of an index into Workgroup memory."""


@dataclass(frozen=True)
class Piece:
    """A part of an integer: `(number / scale) % count`."""

    number: Term
    scale: int = 1
    count: int = 1 << INDEX


def ask_initialization(kernel: Kernel) -> Iterator[Demand]:
    """
    Yields a demand for each read of a Workgroup variable without initializer: the element must have
    been written before.
    """
    groups: dict[Hashable, list[Access]] = {}
    for access in kernel.accesses:
        variable = kernel.symbols.get(str(access.place.root))
        plain = isinstance(variable, GlobalVariableOp) and variable.initializer is None
        if plain and access.place.storage is StorageClass.Workgroup:
            groups.setdefault(access.place.root, []).append(access)
    for accesses in groups.values():
        yield from _ask_variable(kernel, accesses)


def _ask_variable(kernel: Kernel, accesses: Sequence[Access]) -> Iterator[Demand]:
    order, written = kernel.orders[1][accesses[0].kind], dict[int, list[tuple[Term, Term]]]()
    for number, read in enumerate(accesses):
        kernel.limits.check()
        if read.write:
            continue
        path, inside = _extend_path(kernel, read)
        indexes = [z3.BitVec(f"element {n}", INDEX) for n, _ in enumerate(path)]
        met = [equal(i, p.term) for i, p in zip(indexes, path, strict=True)]
        unwritten = [read.guard, *inside, *met]
        for earlier, write in enumerate(accesses[:number]):
            if not write.write or len(write.place.path) > len(path):
                continue
            unwritten.append(negate(z3.And(write.guard, *_same(write, indexes, ()))))
            if order.holds(write, read) and write.intervals.isdisjoint(read.intervals):
                if earlier not in written:
                    written[earlier] = list(_find_writers(kernel, write, indexes))
                unwritten += [term for pair in written[earlier] for term in pair]
        yield Demand(QUESTION, WHAT, read.op, z3.And(*unwritten))


def _extend_path(kernel: Kernel, read: Access) -> tuple[list[Scalar], list[Term]]:
    """
    Extends the path of a read by symbolic indices until it selects one scalar. Returns the path,
    and the conditions that these indices are in bounds.
    """
    path, type, inside = list(read.place.path), read.place.type, list[Term]()
    while isinstance(type, VectorType | ArrayType | MatrixType):
        parts = parts_of(type, kernel.length) or []
        part = z3.BitVec(f"part {len(path)}", INDEX)
        inside.append(z3.ULT(part, len(parts)))
        path.append(Scalar(part))
        type = parts[0]
    return path, inside


def _same(write: Access, indexes: Sequence[Term], renamed: Sequence[tuple[Term, Term]]):
    """
    Returns the conditions that a write covers the element at the indices `indexes`. `renamed` are
    replacements of symbols in the write's indices.
    """
    pairs = zip(write.place.path, indexes, strict=False)
    return [equal(z3.substitute(p.term, *renamed), i) for p, i in pairs]


def _find_writers(
    kernel: Kernel, write: Access, indexes: Sequence[Term]
) -> Iterator[tuple[Term, Term]]:
    """
    Yields candidates for the invocation that writes an element. Each is a pair: facts about the
    candidate, and the condition that it does not write the element.
    """
    solved = _solve(kernel, write, indexes)
    axes = [axis for axis, size in zip(kernel.local, kernel.size, strict=True) if size > 1]
    tried = list[list[Term]]()
    # Along axes that the index does not determine, the writer's id is the reader's or 0.
    for default in (lambda symbol: symbol, lambda symbol: z3.BitVecVal(0, INDEX)):
        chosen = {symbol: default(symbol) for symbol in kernel.local}
        chosen |= _to_local(kernel, solved, default(kernel.built_ins["SubgroupLocalInvocationId"]))
        place = [chosen[axis] for axis in axes]
        if not any(all(map(z3.ExprRef.eq, place, other)) for other in tried):
            tried.append(place)
            yield from _place_writer(kernel, write, indexes, chosen)


def _to_local(kernel: Kernel, chosen: Mapping[Term, Term], lane: Term) -> dict[Term, Term]:
    """
    Computes the local id of an invocation from its index in the workgroup, or from its subgroup and
    lane.

    `chosen` maps built-ins of the invocation to values. The result maps the local id's components,
    in place of index, subgroup and lane.
    """
    found = dict(chosen)
    lane = found.pop(kernel.built_ins["SubgroupLocalInvocationId"], lane)
    subgroup, index = found.pop(kernel.subgroup, None), found.pop(kernel.index(), None)
    if subgroup is not None:
        index = subgroup * kernel.built_ins["SubgroupSize"] + lane
    if index is not None:
        x, y, _ = kernel.size
        places = (z3.URem(index, x), z3.URem(z3.UDiv(index, z3.BitVecVal(x, 32)), y),
                  z3.UDiv(index, z3.BitVecVal(x * y, 32)))  # fmt: skip
        found |= dict(zip(kernel.local, places, strict=True))
    return found


def _place_writer(
    kernel: Kernel, write: Access, indexes: Sequence[Term], chosen: Mapping[Term, Term]
) -> Iterator[tuple[Term, Term]]:
    number = next(kernel.numbers)
    facts = [*kernel.facts, z3.Implies(z3.Bool(CONSECUTIVE), kernel.consecutive)]
    symbols = constants_of([write.guard, *facts, *(p.term for p in write.place.path)])
    renamed = [
        (c, chosen.get(c, z3.Const(f"{c} of writer {number}", c.sort())))
        for c in symbols
        if kernel.levels.get(str(c), -1) >= ONE
    ]
    exists = [
        z3.ULT(chosen[symbol], size) for symbol, size in zip(kernel.local, kernel.size, strict=True)
    ]
    # Each element of a matrix is written, so its row and column may be chosen, too.
    free = [c for c in chosen if not any(c.eq(symbol) for symbol in kernel.local)]
    for fact in kernel.facts if free else ():
        if any(c.eq(f) for c in constants_of([fact]) for f in free):
            exists.append(z3.substitute(fact, *renamed))
    known = z3.And(*(z3.substitute(fact, *renamed) for fact in facts))
    wrote = z3.And(z3.substitute(write.guard, *renamed), *_same(write, indexes, renamed))
    yield z3.Implies(z3.And(*exists), known), negate(z3.And(*exists, wrote))


def _solve(kernel: Kernel, write: Access, indexes: Sequence[Term]) -> dict[Term, Term]:
    """
    Solves a write's indices for the ids of the writing invocation. Returns the values of ids that
    the indices determine.
    """
    lane = kernel.built_ins["SubgroupLocalInvocationId"]
    numbers = [*kernel.local, kernel.index(), kernel.subgroup, lane, *write.free]
    values: dict[Term, list[tuple[int, Term]]] = {}
    for scalar, index in zip(write.place.path, indexes, strict=False):
        fixed, digits = z3.BitVecVal(0, INDEX), list[tuple[int, Piece]]()
        flat = any(scalar.term.eq(n) for n in numbers)
        for factor, term in [(1, scalar.term)] if flat else list_addends(scalar.term):
            piece = _find_piece(term, numbers)
            if piece is not None:
                digits.append((factor, piece))
            elif all(kernel.levels.get(str(c), ONE) < ONE for c in constants_of([term])):
                fixed = fixed + resize(term, INDEX, True) * factor
        rest = index - fixed
        for factor, piece in sorted(digits, key=lambda digit: -digit[0]):
            digit = z3.UDiv(rest, z3.BitVecVal(factor, INDEX))
            rest = z3.URem(rest, factor)
            values.setdefault(piece.number, []).append((piece.scale, digit))
    return {
        number: sum((digit * scale for scale, digit in digits[1:]), digits[0][1] * digits[0][0])
        for number, digits in values.items()
    }


def _find_piece(term: Term, numbers: Sequence[Term]) -> Piece | None:
    """Returns the part of one of `numbers` that a term computes. Returns None for other terms."""
    found = next((n for n in numbers if n.eq(term)), None)
    if found is not None:
        return Piece(found)
    kind, parts = term.decl().kind(), term.children()
    by = known_number(parts[1]) if len(parts) == 2 and z3.is_bv(parts[1]) else None
    if kind == z3.Z3_OP_ZERO_EXT:
        return _find_piece(parts[0], numbers)
    if by is None or (inner := _find_piece(parts[0], numbers)) is None:
        return None
    if kind == z3.Z3_OP_BLSHR and by < INDEX:
        by, kind = 1 << by, z3.Z3_OP_BUDIV
    if kind == z3.Z3_OP_BAND and by & (by + 1) == 0:
        by, kind = by + 1, z3.Z3_OP_BUREM
    if kind in (z3.Z3_OP_BUDIV, z3.Z3_OP_BUDIV_I) and by:
        return Piece(inner.number, inner.scale * by, -(-inner.count // by))
    if kind in (z3.Z3_OP_BUREM, z3.Z3_OP_BUREM_I) and by:
        return Piece(inner.number, inner.scale, by)
    return None
