"""
Compiles a function into closures over a list of values.

Every SSA value has a slot in the list `env`. Slot 0 holds the batch. A step is a closure that reads
the slots of its operands and writes the slots of its results, so a running kernel needs no
dictionary look-ups and no type tests. When a value dies inside its block, a later value reuses its
slot, so the list holds only live arrays.

Another block may read a value for lanes for which the last execution did not define it. If the
lanes of the region have diverged, a new value is therefore merged with the old one in its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.binary16 import WidenedValues
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Merge, lane_bytes, merger
from xdsl_spirv.interpreter.semantics import Env, Function, semantics_of
from xdsl_spirv.interpreter.suspension import CallFrame, RunningRegion, Suspended

Step: TypeAlias = Callable[[Env], None]
Slots: TypeAlias = tuple[int, ...]

WAVE = 0
RETURNED = 1
"""Index of the slot with the function's result."""

TEMPORARIES = 4
"""Number of arrays of the largest value's size that one instruction may need temporarily."""

RETURNS = (
    "spirv.Return",
    "spirv.ReturnValue",
    "spirv.Kill",
    "spirv.RawTerminator",
    "gpu.return",
    "func.return",
    "spirv.mlir.break",
    "spirv.mlir.continue",
)
"""Terminators that return from the function or leave an enclosing construct."""


class Steps:
    """
    The steps of a block, in order. An error in a step names its operation.

    `ends` contains the steps after which all lanes may have returned from the function. In this
    case, the rest of the block is not executed.
    """

    __slots__ = ("ends", "ops", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.ops: list[Operation] = []
        self.ends: set[Step] = set()

    def add(self, step: Step, op: Operation, may_return: bool = False) -> None:
        """Appends the step of `op`."""
        self.steps.append(step)
        self.ops.append(op)
        if may_return:
            self.ends.add(step)

    def replace(self, step: Step) -> None:
        """Replaces the last step."""
        if self.steps[-1] in self.ends:
            self.ends.add(step)
        self.steps[-1] = step

    def run(self, env: Env) -> None:
        """Executes the steps for the lanes of the batch's mask."""
        self._run(env, self.steps)

    def run_from(self, env: Env, number: int) -> None:
        """Executes the steps from index `number` on."""
        self._run(env, self.steps[number:])

    def _run(self, env: Env, steps: Sequence[Step]) -> None:
        step = None
        try:
            if not self.ends:
                for step in steps:
                    step(env)
                return
            for step in steps:
                step(env)
                if step in self.ends and env[WAVE].nobody:
                    return
        except Suspended as suspended:
            suspended.at = 0 if step is None else self.steps.index(step)
            raise
        except InterpreterError as error:
            raise error.at(self._op(step)) from None
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
            op = self._op(step)
            raise InterpreterError(
                f"{op.name} failed: {type(error).__name__}: {error}",
                op,
                "this is a defect of the interpreter, or the IR was not verified",
            ) from error

    def _op(self, step: Step | None) -> Operation:
        return self.ops[self.steps.index(step) if step is not None else 0]


class Code:
    """A compiled function, called with a batch and the arguments."""

    def __init__(self, compiler: Compiler, arguments: Slots, body: Function):
        self.template = compiler.template
        self.arguments = arguments
        self.body = body
        self.lane_bytes = compiler.lane_bytes + TEMPORARIES * compiler.largest

    def __call__(self, batch: Batch, arguments: Sequence[Any]) -> Any:
        """Calls the function and returns its value, or None. Restores the caller's mask."""
        if batch.resuming:
            return self.resume(batch)[RETURNED]
        env = self.template.copy()
        env[WAVE] = batch
        for slot, argument in zip(self.arguments, arguments, strict=True):
            env[slot] = argument
        self.execute(env, batch, batch.mask, batch.partial)
        return env[RETURNED]

    def resume(self, batch: Batch) -> Env:
        """Continues a suspended batch and returns its slots."""
        frame = batch.resuming.pop()
        assert isinstance(frame, CallFrame)
        if frame.finished:
            batch.mask, batch.partial = frame.mask, frame.partial
        else:
            self.execute(frame.env, batch, frame.mask, frame.partial)
        return frame.env

    def execute(self, env: Env, batch: Batch, mask: Mask, partial: bool) -> None:
        """Runs the body from the start, or from its suspension. Then restores the caller's mask."""
        try:
            self.body(env)
        except Suspended as suspended:
            suspended.leave_call(env, mask, partial)
            raise
        batch.mask, batch.partial, batch.nobody = mask, partial, False


class Compiler:
    """Allocates the slots of one function's values, and compiles its steps."""

    def __init__(self, context: Context):
        self.context = context
        self.template: Env = [None, None]
        self.lane_bytes = 0.0
        self.largest = 8.0
        self.widened = WidenedValues(context, self._widens_binary16())
        self.flows: dict[Region, RunningRegion] = {}
        self._slots: dict[SSAValue, int] = {}
        self._free: list[int] = []
        self._escaping: set[SSAValue] = set()
        self._returning: set[Operation] = set()
        """Operations with a region in which lanes may return from the function."""

    def _widens_binary16(self) -> bool:
        """
        True if binary16 values may be stored as binary32. False for a debugger, which shows the
        values.
        """
        return self.context.debug is None

    def new_slot(self, initial: Any = None) -> int:
        """Allocates a slot that is never reused for another value."""
        self.template.append(initial)
        return len(self.template) - 1

    def define(self, value: SSAValue, lasting: bool = False) -> int:
        """Allocates the slot of a new value. A `lasting` value outlives one run of its block."""
        if lasting or not self._free:
            slot = self.new_slot()
            size = lane_bytes(self.context.form(value.type), self.context.geometry.lanes)
            self.lane_bytes += size * (1 + self.widened.held(value))
            self.largest = max(self.largest, size)
        else:
            slot = self._free.pop()
        self._slots[value] = slot
        return slot

    def slot(self, value: SSAValue) -> int:
        """Returns the slot of a value that has been defined."""
        return self._slots[value]

    def slots(self, values: Sequence[SSAValue]) -> Slots:
        """Returns the slots of values that have been defined."""
        return tuple(self._slots[value] for value in values)

    def keep(self, value: SSAValue) -> int:
        """
        Allocates the slot of a block argument. Several edges write the argument, so the slot is not
        reused.
        """
        self._escaping.add(value)
        return self.define(value, lasting=True)

    def outside(self, value: SSAValue) -> int:
        """
        Allocates the slot of a value that is computed outside the function and stored by the
        caller.
        """
        self._escaping.add(value)
        slot = self._slots[value] = self.new_slot()
        return slot

    def preserve(self, value: SSAValue) -> None:
        """Prevents reuse of a value's slot for other values."""
        self._escaping.add(value)

    def known(self, value: SSAValue) -> bool:
        """True if the value has been defined."""
        return value in self._slots

    def escapes(self, value: SSAValue) -> bool:
        """True if a value is used outside of its block. Its slot is then not reused."""
        return value in self._escaping

    def merges(self, values: Sequence[SSAValue]) -> list[Merge | None]:
        """
        Returns the merge function of each value. It is None for a value that no other block uses.
        """
        return [
            merger(self.context.form(value.type)) if self.escapes(value) else None
            for value in values
        ]

    def code(self, arguments: Slots, body: Function) -> Code:
        """Returns the compiled function."""
        return Code(self, arguments, body)

    def reader(self, slots: Slots) -> Callable[[Env], Any]:
        """
        Returns a function that reads the values in slots. Pass the values to the function of
        `assigner`.
        """
        return lambda env: [env[slot] for slot in slots]

    def mover(
        self, sources: Sequence[SSAValue], targets: Sequence[SSAValue]
    ) -> Callable[[Env], Any]:
        """Returns a function that reads source values and converts them for their targets."""
        slots, converts = self.slots(sources), self.widened.moves(sources, targets)
        if not any(converts):
            return self.reader(slots)
        pairs = list(zip(slots, converts, strict=True))
        return lambda env: [env[s] if convert is None else convert(env[s]) for s, convert in pairs]

    def assigner(self, slots: Slots, merges: Sequence[Merge | None]) -> Callable[[Env, Any], None]:
        """Returns a function that writes the values of a `reader` to slots."""
        return assigner(slots, merges)

    def terminator(self, op: Operation, terminate: Callable[[Env], Any]) -> Callable[[Env], Any]:
        """
        Returns the closure that ends a block. If the number of steps is limited, the closure counts
        the block.
        """
        if self.context.debug is not None:
            terminate = self.context.debug.attach_end(op, terminate, self)
        steps = self.context.steps
        if steps is None:
            return terminate

        def counted(env: Env) -> Any:
            steps.take(op)
            return terminate(env)

        return counted

    def leave_out(self, op: Operation) -> None:
        """Skips an operation without effect, whose results need no slots."""
        self._escaping.update(op.results)

    def slot_if_any(self, value: SSAValue) -> int | None:
        """Returns the slot of a value, or None if it has no slot yet."""
        return self._slots.get(value)

    def release(self, values: Sequence[SSAValue]) -> None:
        """
        Frees the slots of values after their last use. With a debugger, which may read them, keeps
        them.
        """
        if self.context.debug is not None:
            return
        for value in values:
            if not self.escapes(value):
                self._free.append(self._slots[value])

    def block(self, block: Block) -> tuple[Steps, list[SSAValue]]:
        """
        Compiles a block without its terminator. The block's arguments must have slots.

        Also returns the values whose last use is the terminator. The caller frees their slots.
        """
        steps = Steps()
        order = {op: index for index, op in enumerate(block.ops)}
        dying: dict[int, list[SSAValue]] = {}
        for index, op in enumerate(block.ops):
            if op.next_op is None and op.has_trait(IsTerminator):
                if op.name in RETURNS:
                    self._note_return_in(op)
                break
            for result in op.results:
                last = self._last_use(result, block, order)
                if last is None:
                    self._escaping.add(result)
                else:
                    dying.setdefault(max(last, index), []).append(result)
            self._operation(op, steps)
            self.release(dying.pop(index, ()))
        return steps, [value for values in dying.values() for value in values]

    def _note_return_in(self, op: Operation) -> None:
        """Records that lanes may return inside the operation around `op`."""
        parent = op.parent_op()
        if parent is not None:
            self._returning.add(parent)

    def _last_use(self, value: SSAValue, block: Block, order: dict[Operation, int]) -> int | None:
        """
        Returns the index of a value's last use in the block. Returns None if another block uses the
        value.
        """
        last = 0
        for use in value.uses:
            user: Operation | None = use.operation
            if user.parent is not block:
                user = block.find_ancestor_op_in_block(user)
            if user is None:
                return None
            last = max(last, order[user])
        return last

    def _operation(self, op: Operation, steps: Steps) -> None:
        semantics = semantics_of(op)
        count = len(steps.steps)
        try:
            self._compile(op, semantics.kind, semantics.stage, steps)
        except InterpreterError as error:
            raise error.at(op) from None
        if self.context.debug is not None and len(steps.steps) > count:
            steps.replace(self.context.debug.attach(op, steps.steps[-1], self))

    def _compile(self, op: Operation, kind: str, stage: Callable[..., Any], steps: Steps) -> None:
        if kind == "constant":
            constant = stage(op, self.context)
            for result in op.results:
                self._slots[result] = self.new_slot(constant)
                self._escaping.add(result)
            return
        if kind == "control":
            step = stage(op, self)
            if step is not None:
                returning = op in self._returning
                steps.add(step, op, may_return=returning)
                if returning:
                    self._note_return_in(op)
            return
        function = stage(op, self.context)
        if function is None:
            self.leave_out(op)
            return
        arguments = self.slots(op.operands)
        results = tuple(self.define(result, self.escapes(result)) for result in op.results)
        if kind == "action":
            arguments = (WAVE, *arguments)
        elif self.context.poison is not None:
            function = self.context.poison.watch(op, self.context, function)
        function = self.widened.adapt(op, function, len(arguments) - len(op.operands))
        steps.add(link(function, arguments, results, self.merges(op.results)), op)


def link(function: Function, arguments: Slots, results: Slots, merges: list[Merge | None]) -> Step:
    """Compiles a step that calls a function on slots and writes its results to slots."""
    call = _caller(function, arguments)
    if not results:
        return call
    if len(results) == 1 and merges[0] is None:
        return _single(function, arguments, results[0])
    assign = assigner(results, merges)
    if len(results) == 1:
        return lambda env: assign(env, (call(env),))
    return lambda env: assign(env, call(env))


def assigner(slots: Slots, merges: Sequence[Merge | None]) -> Callable[[Env, Sequence[Any]], None]:
    """
    Returns `assign(env, values)`, which writes values to slots. If lanes have diverged, it writes
    only the active lanes.
    """
    targets = list(zip(slots, merges, strict=True))

    def assign(env: Env, values: Sequence[Any]) -> None:
        batch: Batch = env[WAVE]
        partial = batch.partial
        for (slot, merge), value in zip(targets, values, strict=True):
            if partial and merge is not None and env[slot] is not None:
                value = merge(batch.mask, value, env[slot])
            env[slot] = value

    return assign


def _caller(function: Function, slots: Slots) -> Callable[[Env], Any]:
    match slots:
        case ():
            return lambda env: function()
        case (a,):
            return lambda env: function(env[a])
        case (a, b):
            return lambda env: function(env[a], env[b])
        case (a, b, c):
            return lambda env: function(env[a], env[b], env[c])
        case (a, b, c, d):
            return lambda env: function(env[a], env[b], env[c], env[d])
        case _:
            return lambda env: function(*[env[slot] for slot in slots])


def _single(function: Function, slots: Slots, result: int) -> Step:
    """Compiles the step of a function with one result. This common case needs no loop."""
    match slots:
        case (a,):

            def unary(env: Env) -> None:
                env[result] = function(env[a])

            return unary
        case (a, b):

            def binary(env: Env) -> None:
                env[result] = function(env[a], env[b])

            return binary
        case (a, b, c):

            def ternary(env: Env) -> None:
                env[result] = function(env[a], env[b], env[c])

            return ternary
        case _:
            call = _caller(function, slots)

            def general(env: Env) -> None:
                env[result] = call(env)

            return general
