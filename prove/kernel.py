"""
Executes a kernel once for any invocation of any launch. Records accesses, barriers and demands.

Symbols have levels. Symbols of the launch (grid, lengths, push constants, contents that are never
written) are equal for all invocations. Symbols of a workgroup are equal within the workgroup.
Symbols of an iteration are equal between the iteration's barriers. All other symbols belong to one
invocation. For a second invocation, the same terms are used with its own symbols. Each access is in
an interval between barriers. A cooperative matrix in memory is accessed by its subgroup: any
invocation may access any of its elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntegerType, Signedness, VectorType, i32
from xdsl.ir import Attribute, Operation
from xdsl.traits import Pure

from xdsl_spirv.dialects.spirv import memory
from xdsl_spirv.dialects.spirv.atomic import AtomicLoadOp, AtomicOperation, AtomicStoreOp
from xdsl_spirv.dialects.spirv.barrier import ControlBarrierOp, MemoryBarrierOp
from xdsl_spirv.dialects.spirv.conversion import ConvertPtrToUOp, ConvertUToPtrOp
from xdsl_spirv.dialects.spirv.cooperative_matrix import (
    CooperativeMatrixLengthOp,
    CooperativeMatrixLoadOp,
    CooperativeMatrixStoreOp,
)
from xdsl_spirv.dialects.spirv.enums import Scope, StorageClass
from xdsl_spirv.dialects.spirv.group import GroupNonUniformElectOp, GroupNonUniformOperation
from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp, ModuleOp
from xdsl_spirv.dialects.spirv.types import (
    CooperativeMatrixType,
    PointerType,
    RuntimeArrayType,
    StructType,
)
from xdsl_spirv.interpreter import Options
from xdsl_spirv.interpreter.batch import Geometry
from xdsl_spirv.interpreter.checks.accessors import SAME_INVOCATION, SAME_SUBGROUP, SAME_WORKGROUP
from xdsl_spirv.interpreter.checks.memory_model import (
    BUFFERS,
    IMAGES,
    WORKGROUPS,
    MemoryModel,
    Semantics,
)
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.pointers import accessed_pointer, is_write, root_of, storage_of
from xdsl_spirv.interpreter.spirv.module import find_entry, workgroup_size
from xdsl_spirv.interpreter.spirv.specialization import specialize
from xdsl_spirv.prove.accesses import Access, Demand, Order, Ticket, find_counters
from xdsl_spirv.prove.addresses import ALL, PHYSICAL, Address, AddressExecutor, is_address
from xdsl_spirv.prove.deciding import find_deciding
from xdsl_spirv.prove.executing import INVOCATION, Place
from xdsl_spirv.prove.images import is_image
from xdsl_spirv.prove.loops import (
    INTERVAL,
    LAUNCH,
    NEAR,
    ONE,
    WORKGROUP,
    Contents,
    Log,
    is_number,
    map_leaves,
)
from xdsl_spirv.prove.meaning import UNDEFINED, resize
from xdsl_spirv.prove.places import find_aliases, find_offset, leaf_offsets
from xdsl_spirv.prove.solvers import Limits
from xdsl_spirv.prove.values import (
    ALWAYS,
    Scalar,
    Term,
    Unsupported,
    Value,
    both,
    build,
    choose_term,
    known_number,
    parts_of,
    scalars,
    width,
    z3,
)

MOST_GROUPS = 65535
MOST_LANES = 128
CONSECUTIVE = "subgroups.consecutive"
"""The premise that subgroups are consecutive invocations, all of them full except the last."""
SHARED = (StorageClass.Workgroup, StorageClass.StorageBuffer, StorageClass.Uniform, PHYSICAL)


class Kernel(AddressExecutor):
    """
    Executes an entry point symbolically. Records its accesses to shared memory, its barriers, and
    its demands: conditions that every invocation must meet, such as an index in bounds.
    """

    def __init__(
        self, module: ModuleOp, entry: str, fixed: Mapping[str, Term], limits: Limits = Limits()
    ):
        super().__init__(module, limits)
        self.fixed = fixed
        self.exact = False
        """True if a program launches the kernel only with the values in `fixed`."""
        context = Context(module, Options(), Geometry((0, 0, 0), (1, 1, 1), 32))
        specialize(context, {})
        self.model = MemoryModel(context)
        self.function = find_entry(module, entry)
        self.deciding = find_deciding(module)
        self.size = workgroup_size(context, self.function)
        names = Counter(
            getattr(getattr(op.type.pointee, "identifier", None), "data", "")
            for op in module.body.block.ops
            if isinstance(op, GlobalVariableOp)
        )
        self.shared_names = {name for name, times in names.items() if times > 1}
        self.accesses: list[Access] = []
        self.barriers: list[tuple[ControlBarrierOp, Term]] = []
        self.demands: list[Demand] = []
        self.lengths: dict[str, Term] = {}
        """Maps names in premises to lengths of runtime arrays and sizes of images."""
        self.read_lengths = set[str]()
        self.pushed: dict[str, Term] = {}
        self.members: dict[str, Term] = {}
        """Integers in blocks that are never written, by name (`Block.member`)."""
        self.contents: dict[str, list[tuple[Term, bool]]] = {}
        """
        Maps the name of each buffer that is never written to the integers that are read from it,
        each with True if it is signed.
        """
        self.elements: dict[str, tuple[str, int, list[int]]] = {}
        """
        Maps the name of an uninterpreted function, which stands for a buffer's contents, to the
        buffer's name, the byte offset, and the byte stride of each argument (index).
        """
        self.renamings: dict[int, Callable[[Term], Term]] = {}
        """Maps a level to a function that renames its symbols for another invocation."""
        self.tickets: list[Ticket] = []
        self.elected: list[tuple[Term, Term]] = []
        """(guard, result) of each instruction that elects one invocation of a subgroup."""
        self.orders = [
            [self._find_order(kind, level) for kind in (WORKGROUPS, BUFFERS, IMAGES)]
            for level in (SAME_SUBGROUP, SAME_WORKGROUP)
        ]
        self.addresses: dict[str, Address] = {}
        self.written = {
            ALL if storage_of(pointer) is PHYSICAL else root_of(pointer)
            for op in module.walk()
            if is_write(op)
            and (pointer := accessed_pointer(op, True)) is not None
            and storage_of(pointer) not in INVOCATION
        }
        self.aliased = find_aliases(self.symbols)
        """Variables that share memory, so that a store to one may change the others."""
        changed = {self.aliased.get(root) for root in self.written} - {None}
        self.written |= {root for root, memory in self.aliased.items() if memory in changed}
        self.counters = find_counters(self.module, self.written) - self.aliased.keys()
        self.grid = [self._number(f"grid.{axis}", LAUNCH) for axis in "xyz"]
        self.group = self._number_places("workgroup", WORKGROUP, map(known_number, self.grid))
        self.local = self._number_places("local", ONE, self.size)
        for group, local, grid, size in zip(
            self.group, self.local, self.grid, self.size, strict=True
        ):
            self.facts += [z3.ULT(group, grid), z3.ULT(local, size), z3.ULE(grid, MOST_GROUPS)]

        self._count_subgroups()
        self.facts_of_launches = len(self.facts)
        """
        Number of facts about the launch alone. They come first in the list; all others follow from
        the kernel's code.
        """

    def _count_subgroups(self) -> None:
        """Creates the terms of the subgroup, the lane, the subgroup size and the subgroup count."""
        threads, size = prod(self.size), self._number("subgroup.size", LAUNCH)
        given, known = CONSECUTIVE in self.fixed, known_number(size)
        if given and known:
            # Subgroup and lane are computed from the local index, so that ranges bound them.
            number: Term = z3.BitVecVal(-(-threads // known), 32)
            self.subgroup, lane = z3.UDiv(self.index(), size), z3.URem(self.index(), size)
        else:
            number = self._number("subgroups", LAUNCH)
            self.subgroup, lane = (self._number(name, ONE) for name in ("subgroup", "lane"))
        self.built_ins = {
            "SubgroupId": self.subgroup,
            "SubgroupLocalInvocationId": lane,
            "SubgroupSize": size,
            "NumSubgroups": number,
        }
        self.facts += [
            *(z3.ULT(lane, size), z3.ULT(self.subgroup, number), size & (size - 1) == 0),
            *(z3.ULE(size, MOST_LANES), z3.ULE(number, threads), z3.UGE(size * number, threads)),
        ]
        blocks = self.subgroup * size + lane == self.index()
        self.consecutive = z3.And(
            z3.Bool(CONSECUTIVE), blocks, z3.ULT(number * size, size + threads)
        )
        """Condition that subgroups are consecutive invocations of the workgroup."""
        self.facts += [self.consecutive] * given

    def _number_places(self, name: str, level: int, sizes: Iterable[int | None]) -> list[Term]:
        """
        Creates a symbol for an id's component along each axis. The component is 0 if the axis has
        length 1.
        """
        return [
            z3.BitVecVal(0, 32) if size == 1 else self._number(f"{name}.{axis}", level)
            for axis, size in zip("xyz", sizes, strict=True)
        ]

    def _number(self, name: str, level: int, type: Attribute = i32) -> Term:
        """Returns a number of the launch: the fixed number if there is one, otherwise a symbol."""
        given = self.fixed.get(name)
        if given is None or not isinstance(type, IntegerType):
            return self.symbol(name, type, level)
        return z3.simplify(resize(given, width(type), False))

    def launch_numbers(self) -> dict[str, Term]:
        """Returns the launch's numbers by name: grid, push constants, array lengths."""
        grid = {f"grid.{axis}": term for axis, term in zip("xyz", self.grid, strict=True)}
        pushed = {name: t for name, t in self.pushed.items() if name not in self.addresses}
        return grid | pushed | self.lengths

    def unread_numbers(self) -> dict[str, Term]:
        """Returns the push constants that the kernel declares and does not read."""
        found, read = dict[str, Term](), set(self.pushed)
        for op in self.symbols.values():
            if isinstance(op, GlobalVariableOp) and op.storage_class is StorageClass.PushConstant:
                self._push("", op.type.pointee)
        for name in set(self.pushed) - read:
            found[name] = self.pushed.pop(name)
        return found

    def index(self) -> Term:
        """Returns LocalInvocationIndex."""
        x, y, z = self.local
        return z3.simplify(x + y * self.size[0] + z * (self.size[0] * self.size[1]))

    def _find_order(self, kind: int, level: int) -> Order:
        """Returns the order that all control barriers of a scope guarantee."""
        scopes = [Scope.Workgroup] + [Scope.Subgroup] * (level == SAME_SUBGROUP)
        said = [
            self._semantics(op)
            for op in self.module.walk()
            if isinstance(op, ControlBarrierOp) and op.execution_scope.data in scopes
        ]
        return Order(
            level,
            all(s.both >> kind & 1 and s.scope >= level for s in said),
            all(s.available >= level for s in said),
            all(s.visible >= level for s in said),
        )

    def _semantics(self, op: ControlBarrierOp) -> Semantics:
        """Returns a barrier's semantics, combined with adjacent memory barriers."""
        own = self.model.semantics(op)
        before, behind = (self._fence(op, back) for back in (True, False))
        if before is None or behind is None:
            return own
        return replace(
            own,
            release=own.release | before.release,
            acquire=own.acquire | behind.acquire,
            available=max(own.available, before.available),
            visible=max(own.visible, behind.visible),
            scope=max(own.scope, min(before.scope, behind.scope)),
        )

    def _fence(self, op: Operation, back: bool) -> Semantics | None:
        beside = op.prev_op if back else op.next_op
        while beside is not None and beside.has_trait(Pure):
            beside = beside.prev_op if back else beside.next_op
        return self.model.semantics(beside) if isinstance(beside, MemoryBarrierOp) else None

    def run(self) -> None:
        """Executes the entry point."""
        if any("aliased" in op.attributes for op in self.module.body.block.ops):
            raise Unsupported("buffers that may alias (decoration Aliased) are not supported")
        self.state = {INTERVAL: self.interval(), NEAR: self.interval()}
        self.state |= {("stores", root): Log() for root in self.written - {None, ALL}}
        self.call(self.function, [])

    def record(self) -> tuple[list[Any], ...]:
        """
        Returns the lists to which execution appends: accesses, barriers, demands, tickets and
        elected invocations.
        """
        return (self.accesses, self.barriers, self.demands, self.tickets, self.elected)

    def initial(self, key: Hashable) -> Value:
        """Returns the initial value of a variable: an arbitrary (symbolic) value if Private."""
        if isinstance(key, tuple):
            return Log()
        op = self.symbols[str(key)]
        assert isinstance(op, GlobalVariableOp)
        self.state[key] = self.fresh(op.type.pointee, ONE, "private")
        return self.state[key]

    def global_value(self, op: Operation) -> Value:
        """Returns the pointer to a module variable."""
        if not isinstance(op, GlobalVariableOp):
            raise Unsupported(f"{op.name} is not supported")
        if op.built_in is not None:
            type = op.type.pointee
            return Place(("built-in", op.built_in.data), op.storage_class, type, (), type)
        return super().global_value(op)

    def load(self, place: Place, op: Operation) -> Value:
        """Returns a number of the launch, the contents of a buffer, or an unknown value."""
        if isinstance(place.root, tuple):
            return self._built_in(str(place.root[1]), place)
        if place.storage is StorageClass.PushConstant:
            return self._read_push_constant(place)
        if is_image(place.type):
            return place
        self.check_path(place, op)
        if place.storage not in SHARED:
            raise Unsupported(f"memory of storage class {place.storage.name} is not supported", op)
        self.access(place, op, False)
        memory = ALL if isinstance(place.root, Address) else place.root
        unwritten = not {memory, None} & self.written
        if is_address(place.type):
            return self.read_address(place, op, unwritten)
        if unwritten and place.storage is not StorageClass.Workgroup:
            self.contents.setdefault(self.name_of(place.root), [])
        if not self.decides(op):
            return self.anything(place.type)
        if place.storage is not StorageClass.Workgroup and unwritten:
            contents = Contents(place)
            value = build(place.type, contents, self.length)
            if isinstance(place.root, Address):
                return value
            first, steps = find_offset(place.whole, place.path)
            for label, offset in zip(contents.labels, leaf_offsets(place.type), strict=True):
                self.elements[label] = (self.name_of(place.root), first + offset, steps)
            self.name_members(place, value)
            element = element_of(place.type)
            if isinstance(element, IntegerType) and element.width.data > 1:
                signed = element.signedness.data is Signedness.SIGNED
                read = self.contents[self.name_of(place.root)]
                read += [(leaf.term, signed) for leaf in scalars(value)]
            return value
        if isinstance(place.root, Address):
            return self.fresh(place.type, ONE, "load")
        return self.read_shared(place)

    def store(self, place: Place, value: Value, op: Operation) -> None:
        """Records a write."""
        if place.storage not in SHARED:
            raise Unsupported(f"memory of storage class {place.storage.name} is not supported", op)
        self.check_path(place, op)
        self.access(place, op, True)
        if not isinstance(place.root, Address):
            self.keep_store(place, value)

    def access(
        self, place: Place, op: Operation, write: bool, matrix: Attribute | None = None,
        free: tuple[Term, ...] = (),
    ) -> None:  # fmt: skip
        if self.quiet:
            return
        facts, atomic = self.model.facts(op, write), isinstance(op, AtomicOperation)
        if place.storage is PHYSICAL and not atomic and not self.model.vulkan:
            # Without the Vulkan memory model, physical memory may not be coherent.
            facts = replace(facts, available=SAME_INVOCATION, visible=SAME_INVOCATION, plain=True)
        between = (self.state[INTERVAL], self.state[NEAR])
        made = Access(op, place, self.guard, write, atomic, facts, *between, matrix, free=free)
        self.accesses.append(made)

    def check_path(self, place: Place, op: Operation) -> None:
        """Records that every index of an access path must be in bounds."""
        if place.storage is StorageClass.Image:
            return  # The instruction that creates the pointer has this demand.
        if isinstance(place.root, Address):
            return self.demand_address(place, op)
        type = place.whole
        for depth, index in enumerate(place.path):
            if isinstance(type, RuntimeArrayType):
                self.demand_index(index, self.array_length(place.root, depth), op)
            elif not isinstance(type, StructType):
                self.check_index(index, len(parts_of(type, self.length) or []), op)
            type = self.part_type(type, index)

    def array_length(self, root: Hashable, depth: int) -> Term:
        """Returns the symbol of a runtime array's length."""
        if depth > 1:
            raise Unsupported("a runtime array outside of a buffer's block is not supported")
        return self.length_of(f"len({self.name_of(root)})")

    def length_of(self, name: str) -> Term:
        """Returns the symbol of a length or size. `name` is its name in premises."""
        if name not in self.lengths:
            self.lengths[name] = self._number(name, LAUNCH)
            self.facts.append(z3.ULE(self.lengths[name], (1 << 31) - 1))
        return self.lengths[name]

    def name_of(self, root: Hashable) -> str:
        """Returns the source name of a buffer's block, or its symbol if blocks share a name."""
        if isinstance(root, Address):
            return root.name
        op = self.symbols[str(root)]
        assert isinstance(op, GlobalVariableOp)
        name = getattr(getattr(op.type.pointee, "identifier", None), "data", "")
        return name if name and name not in self.shared_names else str(root)

    def check_index(self, index: Scalar, count: int, op: Operation) -> None:
        """Records that an index must be below a known length."""
        if known_number(index.term) is None or (known_number(index.term) or 0) >= count:
            self.demand_index(index, z3.BitVecVal(count, 32), op)

    def demand_index(self, index: Scalar, length: Term, op: Operation) -> None:
        size = index.term.size()
        term = index.term if size >= 32 else z3.SignExt(32 - size, index.term)
        most = z3.ZeroExt(size - 32, length) if size > 32 else length
        symbol = None if z3.is_bv_value(length) else length
        count = known_number(most)
        if count is not None and self.ranges_under(self.guard).find(term)[1] < count:
            return
        most_is = length if length.num_args() == 0 else "its length"
        self.demand("bounds", f"index below {most_is}", op, z3.UGE(term, most), symbol)

    def demand(
        self, question: str, what: str, op: Operation, wrong: Term, length: Term | None = None
    ) -> None:
        wrong = z3.simplify(wrong)
        if not self.quiet and not z3.is_false(wrong):
            self.demands.append(Demand(question, what, op, both(self.guard, wrong), length))

    def _read_push_constant(self, place: Place) -> Value:
        name, type = "", place.whole
        for index in place.path:
            number = known_number(index.term)
            if number is None:
                raise Unsupported("an unknown index into push constants is not supported")
            name, type = self.name_parts(name, type)[number]
        return self._push(name, place.type)

    def _push(self, name: str, type: Attribute) -> Value:
        """Returns the symbols of a push constant, with the source names of its members."""
        if is_address(type):
            return self.address(name, None, type)
        if parts_of(type, self.length) is not None:
            return tuple(self._push(*part) for part in self.name_parts(name, type))
        if name not in self.pushed:
            self.pushed[name] = self._number(name, LAUNCH, type)
        return Scalar(self.pushed[name])

    def _built_in(self, name: str, place: Place) -> Value:
        group, local, size = self.group, self.local, self.size
        triples = {
            "NumWorkgroups": self.grid,
            "WorkgroupId": group,
            "LocalInvocationId": local,
            "WorkgroupSize": [z3.BitVecVal(n, 32) for n in size],
            "GlobalInvocationId": [
                g * n + x if n > 1 else g for g, n, x in zip(group, size, local, strict=True)
            ],
        }
        if name == "LocalInvocationIndex":
            return Scalar(self.index())
        if name in self.built_ins:
            return Scalar(self.built_ins[name])
        if name not in triples:
            return self.fresh(place.type, ONE, name)
        leaves = tuple(Scalar(term) for term in triples[name])
        if place.path:
            return leaves[known_number(place.path[0].term) or 0]
        return leaves if isinstance(place.type, VectorType) else leaves[0]

    def unset(self, type: Attribute) -> Value:
        """
        Returns the value of unwritten memory: an arbitrary number, or a pointer without target.
        """
        if isinstance(type, PointerType):
            return None
        if isinstance(type, CooperativeMatrixType):
            return ()
        return Scalar(self.symbol(f"unset!{next(self.numbers)}", type, ONE))

    def settle(self, results: Sequence[Value]) -> Sequence[Value]:
        """Replaces undefined results by arbitrary numbers."""
        return [map_leaves(r, self._settle_leaf) if is_number(r) else r for r in results]

    def _settle_leaf(self, leaf: Scalar) -> Scalar:
        if z3.is_false(leaf.undefined):
            return leaf
        name = f"undefined!{next(self.numbers)}"
        self.levels[name] = ONE
        anything = z3.Const(name, leaf.term.sort())
        return Scalar(choose_term(leaf.undefined, anything, leaf.term))

    def see(self, op: Operation, operands: Sequence[Value]) -> None:
        """Records that divisions and shifts must have a defined result."""
        undefined = UNDEFINED.get(type(op))
        if undefined is None:
            return
        columns = [list(scalars(operand)) for operand in operands]
        question = "shifts" if "Shift" in op.name else "division"
        if not columns[0]:
            self.demand(
                question,
                "components of a cooperative matrix",
                op,
                ALWAYS,
            )
        for row in zip(*columns, strict=False):
            wrong = undefined(*[leaf.term for leaf in row])
            self.demand(question, "operands with a result", op, wrong)

    def act(self, op: Operation, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Executes barriers, atomics and group operations."""
        if isinstance(op, ControlBarrierOp):
            self._barrier(op)
            return ()
        if isinstance(op, MemoryBarrierOp):
            return ()
        if isinstance(op, AtomicOperation):
            place = operands[0]
            if not isinstance(place, Place):
                raise Unsupported("a pointer to an unknown variable is not supported", op)
            self.check_path(place, op)
            for write in [False] * (not isinstance(op, AtomicStoreOp)) + [True] * (
                not isinstance(op, AtomicLoadOp)
            ):
                self.access(place, op, write)
            if not isinstance(op, AtomicLoadOp) and not isinstance(place.root, Address):
                self.keep_store(place, None)
            return self._atomic_results(op, place)
        elif isinstance(op, CooperativeMatrixLoadOp | CooperativeMatrixStoreOp):
            self.access_matrix(operands[0], op, operands)
        elif isinstance(op, memory.ArrayLengthOp):
            place = operands[0]
            length = self.array_length(place.root, 1)
            self.read_lengths.add(str(length))
            return (Scalar(length),)
        elif not isinstance(op, GroupNonUniformOperation):
            raise Unsupported(f"{op.name} is not supported", op)
        results = tuple(self.fresh(result.type, ONE, op.name) for result in op.results)
        if isinstance(op, GroupNonUniformElectOp) and not self.quiet and not self.inside:
            self.elected.append((self.guard, results[0].term))
        return results

    def _atomic_results(self, op: Operation, place: Place) -> tuple[Value, ...]:
        """Returns unknown numbers. Results of a counter that only grows are unique tickets."""
        results = tuple(self.fresh(result.type, ONE, op.name) for result in op.results)
        if results and place.root in self.counters and not self.quiet:
            self.tickets.append(Ticket(results[0].term, self.guard, place))
        return results

    def _compute(self, op: Operation, operands: Sequence[Value]) -> Sequence[Value]:
        """Computes an operation. Components of cooperative matrices stay unknown."""
        if isinstance(op, CooperativeMatrixLengthOp):
            name = f"elements of {op.cooperative_matrix_type}"
            return (Scalar(self.symbol(name, i32, LAUNCH)),)
        if isinstance(op, RawOp):
            return self.execute_image(op, operands)
        if isinstance(op, ConvertPtrToUOp | ConvertUToPtrOp):
            return self.convert_address(op, operands)
        if not self.decides(op) and op.has_trait(Pure):
            return [self.anything(result.type) for result in op.results]
        types = [value.type for value in (*op.results, *op.operands)]
        memory_op = isinstance(op, CooperativeMatrixLoadOp | CooperativeMatrixStoreOp)
        if any(isinstance(t, CooperativeMatrixType) for t in types) and not memory_op:
            return [self.fresh(result.type, ONE, op.name) for result in op.results]
        return super()._compute(op, operands)

    def decides(self, op: Operation) -> bool:
        """True if an answer about a bug may depend on a result of the operation."""
        return not self.deciding.isdisjoint(op.results)

    def anything(self, type: Attribute) -> Value:
        """Returns an arbitrary value, for results on which no answer depends."""

        def leaf(t: Attribute) -> Value:
            if isinstance(t, CooperativeMatrixType):
                return ()
            return Scalar(self.symbol(f"any {t}", t, ONE))

        return build(type, leaf, self.length)

    def _barrier(self, op: ControlBarrierOp) -> None:
        scope = op.execution_scope.data
        if scope not in (Scope.Workgroup, Scope.Subgroup):
            return
        if not self.quiet:
            self.barriers.append((op, self.guard))
        if scope is Scope.Workgroup:
            self.cross_barrier(near=False)
            self.cut_iteration()
        else:
            self.cross_barrier(near=True)
