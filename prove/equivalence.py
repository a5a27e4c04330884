"""
Checks if two modules compute the same results for all contents of their buffers.

Both kernels are executed invocation by invocation, on memory of bytes with symbolic contents. The
second kernel refines the first under this condition: wherever the first has defined behaviour and
stores a defined value, the second stores an equal value (two NaNs are equal). Addresses must not
depend on contents.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Literal

from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv import atomic, group, rotate
from xdsl_spirv.dialects.spirv.enums import Scope, StorageClass
from xdsl_spirv.dialects.spirv.layout import (
    array_stride,
    matrix_stride,
    member_offsets,
    scalar_bytes,
)
from xdsl_spirv.dialects.spirv.structure import FuncOp, GlobalVariableOp, ModuleOp
from xdsl_spirv.dialects.spirv.types import ArrayType, MatrixType, RuntimeArrayType, StructType
from xdsl_spirv.interpreter import Options
from xdsl_spirv.interpreter.batch import Geometry
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.spirv.module import find_entry, workgroup_size
from xdsl_spirv.prove.executing import Executor, Place
from xdsl_spirv.prove.meaning import SMAX, SMIN, UMAX, UMIN, is_float, same_number
from xdsl_spirv.prove.solvers import Answer, Limits, ask
from xdsl_spirv.prove.values import (
    ALWAYS,
    Scalar,
    Term,
    Terms,
    Unsupported,
    Value,
    both,
    build,
    constant_term,
    constants_of,
    either,
    known_number,
    negate,
    parts_of,
    width,
    z3,
)

Result = Literal["proved", "refuted", "unknown"]
INVOCATIONS = 256
"""Maximum number of invocations of a launch that are executed."""
WORD = 32
LANE = ("SubgroupLocalInvocationId", "SubgroupSize")
UPDATES: dict[type[Operation], Callable[..., Term]] = {
    atomic.AtomicIAddOp: lambda old, x: old + x,
    atomic.AtomicISubOp: lambda old, x: old - x,
    atomic.AtomicIIncrementOp: lambda old: old + 1,
    atomic.AtomicIDecrementOp: lambda old: old - 1,
    atomic.AtomicAndOp: lambda old, x: old & x,
    atomic.AtomicOrOp: lambda old, x: old | x,
    atomic.AtomicXorOp: lambda old, x: old ^ x,
    atomic.AtomicUMinOp: UMIN,
    atomic.AtomicUMaxOp: UMAX,
    atomic.AtomicSMinOp: SMIN,
    atomic.AtomicSMaxOp: SMAX,
    atomic.AtomicExchangeOp: lambda old, x: x,
    atomic.AtomicLoadOp: lambda old: old,
}
"""Maps each atomic instruction to the function that computes the new contents of memory."""

READABLE = (StorageClass.StorageBuffer, StorageClass.Uniform, StorageClass.PushConstant)


@dataclass
class Verdict:
    """The answer for two modules. `words` are buffer contents that give different results."""

    result: Result
    reason: str = ""
    words: dict[tuple[Hashable, int], int] = field(default_factory=dict[tuple[Hashable, int], int])
    solver: str = ""
    seconds: float = 0.0
    uninterpreted: int = 0
    """Number of instructions that are treated as uninterpreted functions."""
    kernels: tuple[ModuleOp, ...] = ()
    """The two kernels that `compare_programs` could not prove equal: before and after the pass."""


class Launch(Executor):
    """A launch whose invocations are executed in turn, on memory with symbolic contents."""

    def __init__(self, module: ModuleOp, terms: Terms, grid: Sequence[int]):
        super().__init__(module, terms)
        self.grid, self.ids, self.several = tuple(grid), dict[str, tuple[int, ...]](), False
        self.wrong: list[Term] = []
        self.premises: list[Term] = []
        self.written: dict[tuple[Hashable, int], Attribute] = {}

    def run(self, entry: str, invocations: int | None = None) -> None:
        """Executes an entry point for all invocations, or for the first `invocations`."""
        context = Context(self.module, Options(), Geometry((0, 0, 0), (1, 1, 1), 32))
        function = find_entry(self.module, entry)
        size = workgroup_size(context, function)
        places = list(_invocations(self.grid, size))[:invocations]
        if len(places) > INVOCATIONS:
            raise Unsupported(
                f"a launch of {len(places)} invocations is too large: give a smaller grid"
            )
        for self.ids in places:
            self.several = len(places) > 1
            self.guard = ALWAYS
            self.call(function, [])

    def initial(self, key: Hashable) -> Value:
        """Returns the initial value of memory: symbols for a buffer, undefined otherwise."""
        if not isinstance(key, tuple) or key[0] != "byte":
            op = self.symbols[str(key)]
            assert isinstance(op, GlobalVariableOp)
            return build(op.type.pointee, self.unset, self.length)
        _, root, place = key
        word = z3.BitVec(word_name(root, place // 4), WORD)
        low = 8 * (place % 4)
        return Scalar(z3.Extract(low + 7, low, word))

    def global_value(self, op: Operation) -> Value:
        """Returns a global variable's pointer. Buffers are identified by their bindings."""
        assert isinstance(op, GlobalVariableOp)
        type = op.type.pointee
        root: Hashable = op.sym_name.data
        if op.descriptor_set is not None and op.binding is not None:
            root = (op.descriptor_set.value.data, op.binding.value.data)
        if op.storage_class is StorageClass.PushConstant:
            root = "push constants"
        if op.built_in is not None:
            root = ("built-in", op.built_in.data)
        return Place(root, op.storage_class, type, (), type)

    def load(self, place: Place, op: Operation) -> Value:
        """Loads from memory, or reads a built-in variable."""
        if isinstance(place.root, tuple) and place.root[0] == "built-in":
            return self._built_in(place)
        if place.storage not in READABLE:
            raise Unsupported(f"memory of storage class {place.storage.name} is not supported", op)
        return self._read(place.root, self._offset(place), place.type)

    def _read(self, root: Hashable, offset: int, type: Attribute) -> Value:
        parts = self._parts(type)
        if parts is not None:
            return tuple(self._read(root, offset + at, part) for at, part in parts)
        octets = [
            self._value_in(self.state, ("byte", root, offset + n)) for n in range(_bytes(type))
        ]
        undefined = either([octet.undefined for octet in octets])
        joined = [octet.term for octet in reversed(octets)]
        term = z3.simplify(z3.Concat(*joined)) if len(joined) > 1 else joined[0]
        return Scalar(term, undefined)

    def store(self, place: Place, value: Value, op: Operation) -> None:
        """Stores to memory."""
        if place.storage not in READABLE:
            raise Unsupported(f"memory of storage class {place.storage.name} is not supported", op)
        self._write(place.root, self._offset(place), place.type, value)

    def _write(self, root: Hashable, offset: int, type: Attribute, value: Value) -> None:
        parts = self._parts(type)
        if parts is not None:
            for (at, part), inner in zip(parts, value, strict=True):
                self._write(root, offset + at, part, inner)
            return
        self.written[root, offset] = type
        for n in range(_bytes(type)):
            octet = z3.Extract(8 * n + 7, 8 * n, value.term)
            self.state["byte", root, offset + n] = Scalar(octet, value.undefined)

    def _parts(self, type: Attribute) -> list[tuple[int, Attribute]] | None:
        parts = parts_of(type, self.length)
        if parts is None:
            return None
        if isinstance(type, StructType):
            return list(zip(member_offsets(type), parts, strict=True))
        return [(number * _stride(type), part) for number, part in enumerate(parts)]

    def _offset(self, place: Place) -> int:
        offset, type = 0, place.whole
        for index in place.path:
            number = known_number(index.term)
            if number is None:
                raise Unsupported("addresses that depend on contents of buffers are not supported")
            if isinstance(type, StructType):
                offset += member_offsets(type)[number]
            else:
                sign = 1 << (index.term.size() - 1)
                offset += ((number ^ sign) - sign) * _stride(type)
            type = self.part_type(type, index)
        return offset

    def _built_in(self, place: Place) -> Value:
        assert isinstance(place.root, tuple)
        if place.root[1] in LANE:
            return Scalar(self._number(str(place.root[1])))
        numbers = self.ids.get(str(place.root[1]))
        if numbers is None:
            raise Unsupported(f"the built-in {place.root[1]} is not supported")
        leaves = [Scalar(constant_term(n, i32)) for n in numbers]
        if place.path:
            return leaves[known_number(place.path[0].term) or 0]
        return tuple(leaves) if isinstance(place.type, VectorType) else leaves[0]

    def act(self, op: Operation, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Updates memory by atomics, one invocation after another."""
        if isinstance(op, group.GroupNonUniformShuffleOp | rotate.GroupNonUniformRotateKHROp):
            return (self._value_of_another(op, operands),)
        update = UPDATES.get(type(op))
        if update is None:
            return super().act(op, operands)
        if self.several and any(result.uses for result in op.results):
            raise Unsupported("results that depend on the order of atomics are not supported", op)
        place = operands[0]
        old = self.read(place, op)
        unknown = either([x.undefined for x in (old, *operands[1:])])
        new = update(old.term, *[x.term for x in operands[1:]])
        self.write(place, Scalar(new, unknown), op)
        return (old,) if op.results else ()

    def _value_of_another(
        self, op: group.GroupNonUniformShuffleOp | rotate.GroupNonUniformRotateKHROp,
        operands: Sequence[Value],
    ) -> Value:  # fmt: skip
        """Returns another invocation's value, as an uninterpreted function of value and index."""
        value, number, *cluster = operands
        source = number.term
        if isinstance(op, rotate.GroupNonUniformRotateKHROp):
            whole = op.execution_scope.data is Scope.Workgroup
            names = ("LocalInvocationIndex", "WorkgroupSize") if whole else LANE
            lane = self._number(names[0])
            size = cluster[0].term if cluster else self._number(names[1])
            source = (lane & ~(size - 1)) | ((lane + source) & (size - 1))
        sort = value.term.sort()
        made = z3.Function("the value of invocation", sort, source.sort(), sort)
        return Scalar(made(value.term, source), either([value.undefined, number.undefined]))

    def _number(self, name: str) -> Term:
        """Returns the value of a built-in variable. The lane and the subgroup size are symbols."""
        if name not in LANE:
            return z3.BitVecVal(prod(self.ids[name]), WORD)
        lane, size = (z3.BitVec(each, WORD) for each in LANE)
        if not self.premises:
            powers = [size == 1 << n for n in range(8)]
            self.premises += [z3.ULT(lane, size), z3.Or(*powers)]
        return lane if name == LANE[0] else size

    def note_undefined(self, condition: Term, op: Operation) -> None:
        """Records a condition under which behaviour is undefined."""
        if not z3.is_false(condition):
            self.wrong.append(condition)


def word_name(root: Hashable, number: int) -> str:
    """Returns the name of the symbol for a word of a buffer."""
    return f"word {number} of {root}"


def _bytes(type: Attribute) -> int:
    if width(type) % 8:
        raise Unsupported("Booleans in memory are not supported")
    return scalar_bytes(type)


def _stride(type: Attribute) -> int:
    if isinstance(type, ArrayType | RuntimeArrayType):
        return array_stride(type)
    if isinstance(type, MatrixType):
        return matrix_stride(type)
    assert isinstance(type, VectorType)
    return scalar_bytes(type.element_type)


def _invocations(grid: Sequence[int], size: Sequence[int]) -> Iterator[dict[str, tuple[int, ...]]]:
    for numbers in product(*[range(n) for n in grid[::-1]]):
        for local in product(*[range(n) for n in size[::-1]]):
            workgroup, lane = numbers[::-1], local[::-1]
            index = lane[0] + size[0] * (lane[1] + size[1] * lane[2])
            yield {
                "NumWorkgroups": tuple(grid),
                "WorkgroupSize": tuple(size),
                "WorkgroupId": workgroup,
                "LocalInvocationId": lane,
                "GlobalInvocationId": tuple(
                    g * s + n for g, s, n in zip(workgroup, size, lane, strict=True)
                ),
                "LocalInvocationIndex": (index,),
            }


def compare_kernels(
    before: ModuleOp,
    after: ModuleOp,
    entry: str,
    grid: Sequence[int] = (1, 1, 1),
    limits: Limits = Limits(),
    invocations: int | None = None,
) -> Verdict:
    """
    Checks if `after` gives the same results as `before`, for all contents of buffers. The first
    check treats float operations as uninterpreted functions. If this gives no proof, a second
    check uses FP theory.
    """
    verdict = _compare(before, after, entry, grid, limits, invocations, Terms())
    if verdict.result == "proved" or verdict.uninterpreted == 0:
        return verdict
    exact = Terms(exact_floats=True)
    return _compare(before, after, entry, grid, limits, invocations, exact)


def _compare(
    before: ModuleOp,
    after: ModuleOp,
    entry: str,
    grid: Sequence[int],
    limits: Limits,
    invocations: int | None,
    terms: Terms,
) -> Verdict:
    sides = [Launch(module, terms, grid) for module in (before, after)]
    try:
        for side in sides:
            side.run(entry, invocations)
        different = either(list(_differences(*sides)))
    except Unsupported as error:
        return Verdict("unknown", _explain(error))
    held = [
        negate(either(sides[0].wrong)),
        *sides[0].premises,
        *sides[1].premises,
        *terms.definitions,
    ]
    symbols = constants_of([different, *held])
    words = sorted((c for c in symbols if str(c).startswith("word ")), key=str)
    verdict = _verdict(ask([different, *held], words, limits))
    verdict.uninterpreted = terms.uninterpreted
    return verdict


def _explain(error: Unsupported) -> str:
    name = getattr(error.op, "name", None)
    return f"{error.reason} ({name})" if name and name not in error.reason else error.reason


def _verdict(answer: Answer) -> Verdict:
    if answer.verdict == "never":
        return Verdict("proved", solver=answer.solver, seconds=answer.seconds)
    if answer.verdict == "unknown":
        return Verdict("unknown", answer.reason, seconds=answer.seconds)
    words: dict[tuple[Hashable, int], int] = {}
    for name, value in answer.values.items():
        _, number, root = name.strip("|").split(" ", 2)[0:3]
        words[root.removeprefix("of "), int(number)] = value
    return Verdict("refuted", "", words, answer.solver, answer.seconds)


def _differences(first: Launch, second: Launch) -> Iterator[Term]:
    """Yields conditions under which the second launch does not refine the first."""
    yield from second.wrong
    for key in {**first.written, **second.written}:
        root, offset = key
        type = first.written.get(key) or second.written[key]
        x, y = (side._read(root, offset, type) for side in (first, second))  # pyright: ignore
        defined = negate(x.undefined)
        same = same_number(x.term, y.term, type) if is_float(type) else x.term == y.term
        wrong = either([y.undefined, negate(z3.simplify(same))])
        yield both(defined, wrong)


def compare_programs(
    before: BuiltinModuleOp, after: BuiltinModuleOp, grid: Sequence[int], limits: Limits
) -> Verdict:
    """
    Compares each entry point of each `spirv.module`. Returns the first verdict without a proof.
    """
    pairs = [[op for op in m.walk() if isinstance(op, ModuleOp)] for m in (before, after)]
    if not pairs[0] or len(pairs[0]) != len(pairs[1]):
        return Verdict("unknown", "the programs have different numbers of spirv.modules")
    verdict = Verdict("unknown", "there is no entry point")
    for old, new in zip(*pairs, strict=True):
        for entry in entries(old):
            verdict = compare_kernels(old, new, entry, grid, limits)
            if verdict.result != "proved":
                verdict.kernels = (old, new)
                return verdict
    return verdict


def entries(module: ModuleOp) -> list[str]:
    """Returns the names of a module's entry points."""
    from xdsl_spirv.dialects.spirv.structure import EntryPointOp

    ops = list(module.body.block.ops)
    declared = [op.fn.string_value() for op in ops if isinstance(op, EntryPointOp)]
    marked = [
        op.sym_name.data
        for op in ops
        if isinstance(op, FuncOp) and "spirv.entry_point_abi" in op.attributes
    ]
    return declared or marked
