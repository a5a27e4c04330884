"""
Detects loops that wait for other invocations, and iterations without progress.

A loop may wait if one of its branches depends on memory that the module writes. Other loops are not
watched. The branches of a loop depend on loop-carried values, variables and reads. If all of these
equal the values in an earlier iteration, for the same invocations, the iteration made no progress.
Such an iteration repeats until another invocation writes. A counter on which no branch depends may
change. A loop that ends after a fixed number of iterations never counts as waiting, since its
branch depends on a counter.

A batch without progress stops (`Suspended`), and others run (turns.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.code import Compiler, Env
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Composite, Form, Mask, Plain, spread
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import I64, Array
from xdsl_spirv.interpreter.pointers import Root, is_shared, probable_root, root_of, storage_of
from xdsl_spirv.interpreter.suspension import Suspended
from xdsl_spirv.interpreter.variables import VariablePointer

FIRST = 16
"""Number of iterations of a loop before iterations are compared."""
WINDOW = 64
"""
Number of iterations that are compared with a stored one. Iterations 1, 2, 4, 8, ... are stored.
"""
QUIET = 32
"""
Number of iterations with equal reads after which other batches are run, even if the loop makes
progress.
"""

DECIDING = {spv.BranchConditionalOp, spv.SwitchOp}
BRANCHES = {spv.BranchOp, spv.BreakOp, spv.ContinueOp, *DECIDING}
WRITING = {spv.StoreOp, spv.CopyMemoryOp, spv.GLModfOp, spv.GLFrexpOp, spv.FunctionCallOp}
"""Instructions that may write variables of the invocation."""

Variable: TypeAlias = SSAValue | str
"""A variable of a function (an SSA value), or a variable of the module (a symbol)."""
State: TypeAlias = tuple[Any, Form]
"""A run-time value and its representation (forms.py)."""


def edges(op: Operation) -> list[tuple[Block, Sequence[SSAValue]]]:
    """
    Returns the successor blocks of a terminator, each with the operands that become the block's
    arguments.
    """
    if isinstance(op, spv.ExitOp):
        return [] if op.target is None else [(op.target, op.arguments)]
    return op.edges if isinstance(op, spv.Branching) else []


class Slice:
    """
    The program slice that determines the branches of a loop.

    `needed` are its values. `reads` maps those that are read from shared memory to their pointers.
    `clocks` are those that are read from a clock. `variables` are the invocation's own variables in
    the slice. `sources` are the calls, and the pointers to shared memory that is read.
    """

    def __init__(self, blocks: Sequence[Block], context: Context):
        self.context = context
        self.blocks = set(blocks)
        self.needed: set[SSAValue] = set()
        self.reads: dict[SSAValue, SSAValue | None] = {}
        self.clocks: list[SSAValue] = []
        self.sources: list[SSAValue | spv.FunctionCallOp] = []
        self.variables: set[Root] = set()
        self._incoming: dict[Block, list[Sequence[SSAValue]]] = {}
        self._stores: dict[Root, list[Operation]] = {}
        pending: list[SSAValue] = []
        for op in (op for block in blocks for op in block.walk()):
            if op.regions:
                self.blocks.update(block for region in op.regions for block in region.blocks)
            kind = type(op)
            if kind in BRANCHES:
                for target, operands in edges(op):
                    self._incoming.setdefault(target, []).append(operands)
                if kind in DECIDING:
                    pending.append(op.operands[0])
            elif kind in WRITING:
                for variable in written_by(op):
                    self._stores.setdefault(variable, []).append(op)
        while pending:
            value = pending.pop()
            if value not in self.needed:
                self.needed.add(value)
                pending += self._behind(value)

    def _behind(self, value: SSAValue) -> list[SSAValue]:
        if isinstance(value, BlockArgument):
            if value.owner not in self.blocks:
                return []
            return [operands[value.index] for operands in self._incoming.get(value.owner, ())]
        op = value.owner
        assert isinstance(op, Operation)
        if op.parent not in self.blocks:
            return []
        if isinstance(op, spv.Construct):
            end = None if op.merge_block is None else op.merge_block.last_op
            return [end.arguments[op.results.index(value)]] if isinstance(end, spv.MergeOp) else []
        if isinstance(op, spv.ReadClockOp):
            self.clocks.append(value)
        return [*op.operands, *self._read(op, value)]

    def _read(self, op: Operation, value: SSAValue) -> list[SSAValue]:
        """
        Adds the memory that an operation reads to the slice. For each of the invocation's own
        variables that it reads, returns the operands of all stores to the variable.
        """
        shared = next((operand for operand in op.operands if is_shared(operand)), None)
        if isinstance(op, spv.FunctionCallOp):
            self._call(op)
        elif shared is not None and not is_shared(value):
            self.reads[value] = shared
            self.sources.append(shared)
        behind: list[SSAValue] = []
        for operand in op.operands:
            variable = variable_of(operand)
            if variable is None or variable in self.variables:
                continue
            self.variables.add(variable)
            for store in self._stores.get(variable, ()):
                behind += store.operands
                if isinstance(store, spv.FunctionCallOp):
                    self._call(store)
                elif isinstance(store, spv.CopyMemoryOp) and is_shared(store.source):
                    self.sources.append(store.source)
        return behind

    def _call(self, op: spv.FunctionCallOp) -> None:
        """Adds a call to the slice. The call counts as a read of any memory."""
        self.sources.append(op)
        for result in op.results:
            self.reads[result] = None

    def has(self, value: SSAValue) -> bool:
        """True if a value is defined in the loop."""
        return value.owner.parent in self.blocks if isinstance(value.owner, Operation) else False

    def may_wait(self) -> bool:
        """True if the loop reads memory that the module may write."""
        return any(map(self._is_written, self.sources))

    def for_workgroups(self) -> bool:
        """True if the loop may wait for an invocation of another workgroup."""
        written = [source for source in self.sources if self._is_written(source)]
        classes = [s.type.storage_class.data for s in written if isinstance(s, SSAValue)]  # pyright: ignore
        return len(classes) < len(written) or set(classes) != {spv.StorageClass.Workgroup}

    def _is_written(self, source: SSAValue | spv.FunctionCallOp) -> bool:
        if isinstance(source, spv.FunctionCallOp):
            return reads_shared(self.context.symbol(source.callee), self.context, set())
        root, written = root_of(source), self.context.written
        return root is None or written is None or root in written


def variable_of(pointer: SSAValue) -> Root | None:
    """Returns the invocation's own variable that a pointer refers to, or None."""
    return None if storage_of(pointer) is None or is_shared(pointer) else probable_root(pointer)


def written_by(op: Operation) -> Iterable[Root]:
    """Returns the variables that an operation may write."""
    pointers: Sequence[SSAValue] = ()
    if isinstance(op, spv.StoreOp | spv.GLPointerForm):
        pointers = (op.pointer,)
    elif isinstance(op, spv.CopyMemoryOp):
        pointers = (op.target,)
    elif isinstance(op, spv.FunctionCallOp):
        pointers = op.operands
    variables = (variable_of(pointer) for pointer in pointers)
    return [variable for variable in variables if variable is not None]


class Tracker:
    """The values recorded while a loop is executed once."""

    __slots__ = ("count", "kept", "last", "mask", "period", "quiet", "since", "stopped", "stuck")

    def __init__(self) -> None:
        self.count = 0
        self.since = 0
        self.kept: list[State] | None = None
        self.last: list[State] = []
        self.quiet = 0
        self.mask: Mask = None
        self.stuck = False
        self.stopped = False
        self.period = 0


class Watch:
    """
    Detects iterations of one loop that make no progress, by comparing the loop's values with the
    values of earlier iterations. Stops the batch at such an iteration (`Suspended`).

    `op` is the branch back to the loop's header. `decisive` has the values, variables and reads on
    which the loop's branches depend.
    """

    def __init__(self, op: Operation, header: Block, decisive: Slice, compiler: Compiler):
        self.op = op
        self.decisive = decisive
        self.slot = compiler.new_slot()
        (carried,) = [operands for target, operands in edges(op) if target is header][:1]
        self.carried = [
            operand
            for argument, operand in zip(header.args, carried, strict=True)
            if argument in decisive.needed
        ]
        # A clock is not a read, because it changes without other invocations.
        self.carried += decisive.clocks
        for value in decisive.clocks:
            compiler.preserve(value)
        for value, pointer in decisive.reads.items():
            compiler.preserve(value)
            if pointer is not None:
                compiler.preserve(pointer)

    def locate(self, compiler: Compiler) -> None:
        """Looks up the slots of the values. Called after the region was compiled."""
        known, context, decisive = compiler.known, compiler.context, self.decisive
        reads = [value for value in decisive.reads if known(value)]
        self.carried = [value for value in self.carried if known(value)]
        values, self.reads = [*self.carried, *reads], len(reads)
        self.values = [(compiler.slot(value), context.form(value.type)) for value in values]
        own = [v for v in decisive.variables if not isinstance(v, str) and known(v)]
        self.variables = [compiler.slot(v) for v in own if not decisive.has(v)]
        slots = context.global_slots
        self.globals = [slots[v] for v in decisive.variables if isinstance(v, str) and v in slots]
        self.pointers = {
            value: compiler.slot(pointer)
            for value, pointer in decisive.reads.items()
            if pointer is not None and known(pointer)
        }

    def before(self, terminate: Callable[[Env], Any]) -> Callable[[Env], Any]:
        """Wraps the branch back to the header so that the iterations of the loop are compared."""
        slot = self.slot

        def call(env: Env) -> Any:
            tracker: Tracker | None = env[slot]
            if tracker is None:
                tracker = env[slot] = Tracker()
            if tracker.stopped:
                tracker.stopped = False
                return terminate(env)
            tracker.count += 1
            if tracker.count >= FIRST and env[0].pauses:
                self._compare(env, tracker)
            return terminate(env)

        return call

    def _compare(self, env: Env, tracker: Tracker) -> None:
        """
        Stops the batch if an iteration repeats an earlier one, or if reads have stayed equal for
        many iterations.
        """
        batch: Batch = env[0]
        number = tracker.count - FIRST + 1
        doubled = number & (number - 1) == 0
        tracker.since += 1
        if tracker.since > WINDOW and not doubled:
            return
        state = self.state(env, batch)
        if tracker.kept is not None and same(state, batch.mask, tracker.kept, tracker.mask):
            idle, tracker.stuck, tracker.stopped = tracker.stuck, True, True
            tracker.period, tracker.since, tracker.count = tracker.since, 0, FIRST - 1
            raise Suspended(self, idle)
        if tracker.stuck and tracker.since < tracker.period:
            return
        if tracker.stuck:
            tracker.stuck, tracker.count, doubled = False, FIRST, True
        if doubled:
            tracker.kept, tracker.mask, tracker.since = state, batch.mask, 0
        reads = state[len(self.carried) :][: self.reads]
        quiet = same(reads, batch.mask, tracker.last, batch.mask) if tracker.last else False
        tracker.last, tracker.quiet = reads, tracker.quiet + 1 if quiet else 0
        if tracker.quiet >= QUIET:
            tracker.quiet, tracker.count, tracker.kept = 0, FIRST - 1, None
            tracker.stopped = True
            raise Suspended(self, repeats=False)

    def state(self, env: Env, batch: Batch) -> list[State]:
        """Returns the values on which the loop's branches depend, with their representations."""
        pointers = (
            *(env[slot] for slot in self.variables),
            *(batch.globals[slot] for slot in self.globals),
        )
        variables = [p.variable for p in pointers if isinstance(p, VariablePointer)]
        return [
            *((env[slot], form) for slot, form in self.values),
            *((variable.value, variable.form) for variable in variables),
        ]


def same(state: Sequence[State], mask: Mask, kept: Sequence[State], before: Mask) -> bool:
    """True if two states have equal masks, and equal values in the lanes of the mask."""
    if mask is not before and not np.array_equal(mask, before):
        return False
    pairs = zip(state, kept, strict=True)
    return all(_equal(a, b, form, mask) for (a, form), (b, _) in pairs)


def _equal(a: Any, b: Any, form: Form, mask: Mask) -> bool:
    if a is b:
        return True
    if isinstance(form, Composite):
        parts = zip(a, b, form.members, strict=True)
        return all(_equal(x, y, part, mask) for x, y, part in parts)
    if isinstance(a, Pointer) and isinstance(b, Pointer):
        address = Plain(I64)
        return a.memory is b.memory and _equal(a.address(), b.address(), address, mask)
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return False
    different: Array = _bits(a) != _bits(b)  # pyright: ignore
    if mask is not None and different.any():
        different = different & spread(mask, form)
    return not different.any()


def _bits(array: Array) -> Array:
    """Reinterprets numbers as bits, so that a NaN equals the same NaN."""
    return array if array.dtype.kind in "biu" else array.view(f"u{array.dtype.itemsize}")


def watches(order: Sequence[Block], compiler: Compiler) -> dict[Operation, Watch]:
    """Maps each branch back to the start of a loop to its `Watch`, if the loop may wait."""
    numbers = {block: number for number, block in enumerate(order)}
    watches_of_branches: dict[Operation, Watch] = {}
    for number, block in enumerate(order):
        op = block.last_op
        if op is None:
            continue
        headers = [target for target, _ in edges(op) if numbers.get(target, number + 1) <= number]
        for header in headers[:1]:
            decisive = Slice(order[numbers[header] : number + 1], compiler.context)
            if decisive.may_wait():
                compiler.context.may_wait |= decisive.for_workgroups()
                watches_of_branches[op] = Watch(op, header, decisive, compiler)
    return watches_of_branches


def reads_shared(function: Operation, context: Context, seen: set[Operation]) -> bool:
    """
    True if a function, or a function that it calls, reads memory that other invocations may write.
    """
    seen.add(function)
    for op in function.walk():
        if isinstance(op, spv.AtomicOperation | spv.LoadOp | spv.CopyMemoryOp):
            if any(is_shared(operand) for operand in op.operands):
                return True
        elif isinstance(op, spv.FunctionCallOp):
            callee = context.symbol(op.callee)
            if callee not in seen and reads_shared(callee, context, seen):
                return True
    return False
