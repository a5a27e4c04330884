"""
Compiles a function so that every step also computes shadows (masks of undefined parts).

Each value has two slots: one for the value and the next one for its shadow. `CHECKED` lists the
checks by class of operation. Other operations follow the general rules of values.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import constants, control_flow
from xdsl_spirv.dialects.spirv.hints import PoisonOp
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.budget import BLOCKS, Budget
from xdsl_spirv.interpreter.checks.checker import Checker
from xdsl_spirv.interpreter.checks.report import Checks
from xdsl_spirv.interpreter.checks.shadow import filled, normal, shadow_form
from xdsl_spirv.interpreter.code import RETURNED, WAVE, Code, Compiler, Env, Slots, Step, Steps
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Mask, Merge, merger
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.semantics import Function, Key, key_of
from xdsl_spirv.interpreter.variables import VariablePointer

Checked: TypeAlias = Callable[[Batch, list[Any], list[Any]], tuple[Any, Any]]
"""A checked step: (batch, operands, masks of undefined parts) -> (result, its mask)."""

CheckedStage: TypeAlias = Callable[[Any, "CheckedCompiler", Function], Checked]
"""Function that builds a checked step from an operation, the compiler, and the unchecked step."""

MODULES = (
    "values",
    "variables",
    "groups",
    "matrices",
    "atomics",
    "synchronization",
    "copies",
    "tensors",
    "vendor",
    "images",
)
"""The modules of this package that define how operations are checked."""

CHECKED: dict[Key, CheckedStage] = {}
"""Maps an operation's class to its check. The modules of this package fill the table."""


GENERAL: dict[str, CheckedStage] = {}
"""
Maps a kind of operation to the check of operations that are not in `CHECKED`. values.py fills the
table.
"""


def checked(*ops: Key) -> Callable[[CheckedStage], CheckedStage]:
    """Registers the decorated function as the check of these operations."""

    def decorate(stage: CheckedStage) -> CheckedStage:
        for op in ops:
            CHECKED[op] = stage
        return stage

    return decorate


class CheckedCode(Code):
    """A compiled function that also takes and returns masks of undefined parts."""

    def call(
        self, batch: Batch, arguments: Sequence[Any], shadows: Sequence[Any]
    ) -> tuple[Any, Any]:
        """Runs the function. Returns its value and the mask of the value's undefined parts."""
        if batch.resuming:
            env = self.resume(batch)
            return env[RETURNED], env[RETURNED + 1]
        env = self.template.copy()
        env[WAVE] = batch
        for slot, argument, shadow in zip(self.arguments, arguments, shadows, strict=True):
            env[slot], env[slot + 1] = argument, shadow
        self.execute(env, batch, batch.mask, batch.partial)
        return env[RETURNED], env[RETURNED + 1]


class CheckedCompiler(Compiler):
    """Compiles one function together with its checks."""

    def __init__(self, context: Context, checker: Checker):
        super().__init__(context)
        self.template = [None, None, None]
        self.checker = checker

    def _widens_binary16(self) -> bool:
        """Returns False, because checks need every value in its own type."""
        return False

    def new_slot(self, initial: Any = None) -> int:
        """
        Adds a slot for a value and one for its undefined parts. Returns the first slot's index.
        """
        self.template += [initial, None]
        return len(self.template) - 2

    def code(self, arguments: Slots, body: Function) -> Code:
        """Wraps a compiled body in a `CheckedCode`."""
        return CheckedCode(self, arguments, body)

    def reader(self, slots: Slots) -> Callable[[Env], Any]:
        """Returns a function that reads values from slots, with their undefined parts."""
        return lambda env: [(env[slot], env[slot + 1]) for slot in slots]

    def assigner(self, slots: Slots, merges: Sequence[Merge | None]) -> Callable[[Env, Any], None]:
        """Returns `assign(env, values)`: stores values, with undefined parts, in active lanes."""
        targets = list(zip(slots, merges, strict=True))

        def assign(env: Env, pairs: Sequence[tuple[Any, Any]]) -> None:
            batch: Batch = env[WAVE]
            partial = batch.partial
            for (slot, merge), (value, shadow) in zip(targets, pairs, strict=True):
                if partial and merge is not None and env[slot] is not None:
                    shadow = merge_shadows(merge, batch.mask, value, shadow, env[slot + 1])
                    value = merge(batch.mask, value, env[slot])
                env[slot], env[slot + 1] = value, shadow

        return assign

    def _compile(self, op: Operation, kind: str, stage: Callable[..., Any], steps: Steps) -> None:
        if kind == "constant":
            super()._compile(op, kind, stage, steps)
            if isinstance(op, constants.UndefOp | PoisonOp) and self.checker.checks.undefined:
                number = self.checker.origin(
                    op, "UNDEF-02", "an instruction that creates an undefined value"
                )
                shadow = filled(shadow_form(self.context.form(op.result.type)), number)
                self.template[self.slot(op.result) + 1] = shadow
            return
        if kind == "control":
            super()._compile(op, kind, stage, steps)
            if op.results and not isinstance(op, control_flow.LoopOp | control_flow.SelectionOp):
                steps.add(self._define(self.slots(op.results)), op)
            return
        function = stage(op, self.context)
        if function is None:
            self.leave_out(op)
            return
        arguments = self.slots(op.operands)
        check = stage_of(op, kind)(op, self, function)
        results = tuple(self.define(result, self.escapes(result)) for result in op.results)
        steps.add(self._step(op, check, arguments, results), op)

    @staticmethod
    def _define(slots: Slots) -> Step:
        """Returns a step that marks the results of unchecked code as defined."""

        def define(env: Env) -> None:
            for slot in slots:
                env[slot + 1] = None

        return define

    def _step(self, op: Operation, check: Checked, arguments: Slots, results: Slots) -> Step:
        pairs = [(slot, slot + 1) for slot in arguments]
        checker = self.checker

        def run(env: Env) -> tuple[Any, Any]:
            values = [env[slot] for slot, _ in pairs]
            return check(env[WAVE], values, [env[slot] for _, slot in pairs])

        if not results:

            def effect(env: Env) -> None:
                run(env)

            return effect
        if len(results) > 1:
            assign = self.assigner(results, self.merges(op.results))
            return lambda env: assign(env, [(value, None) for value in run(env)[0]])
        result = next(iter(results))
        form = self.context.form(op.results[0].type)
        count = None if checker.counters is None else checker.counters.stage(op, form)
        if count is not None:
            uncounted = run

            def run(env: Env) -> tuple[Any, Any]:
                value, shadow = uncounted(env)
                classes = count([env[slot] for slot, _ in pairs], value)
                checker.counters.count(op, form, env[WAVE].mask, classes)  # pyright: ignore
                return value, shadow

        merges = self.merges(op.results)
        if merges[0] is None:

            def single(env: Env) -> None:
                env[result], env[result + 1] = run(env)

            return single
        assign = self.assigner(results, merges)
        return lambda env: assign(env, (run(env),))

    def terminator(self, op: Operation, terminate: Callable[[Env], Any]) -> Callable[[Env], Any]:
        """Wraps the terminator of a block so that it checks conditions and records divergence."""
        terminate = super().terminator(op, terminate)
        if isinstance(op, control_flow.ReturnValueOp):
            return self._return_value(op, terminate)
        if not isinstance(op, control_flow.BranchConditionalOp | control_flow.SwitchOp):
            return terminate
        checker = self.checker
        decides = op.operands[0]
        slot, form = self.slot(decides) + 1, self.context.form(decides.type)
        undefined = checker.checks.undefined

        def call(env: Env) -> Any:
            shadow = env[slot]
            if undefined and shadow is not None:
                checker.find_undefined(
                    op, "the condition of a branch", shadow, env[WAVE].mask, form
                )
            leaving = terminate(env)
            if not isinstance(leaving, int):
                checker.note_parting(op, [mask for _, mask in leaving])
            return leaving

        return call

    def _return_value(
        self, op: control_flow.ReturnValueOp, terminate: Callable[[Env], Any]
    ) -> Callable[[Env], Any]:
        slot = self.slot(op.value) + 1
        merge = merger(self.context.form(op.value.type))

        def call(env: Env) -> Any:
            batch: Batch = env[WAVE]
            shadow = env[slot]
            if env[RETURNED] is not None:
                shadow = merge_shadows(
                    merge, batch.active(), env[slot - 1], shadow, env[RETURNED + 1]
                )
            env[RETURNED + 1] = shadow
            return terminate(env)

        return call


def merge_shadows(merge: Merge, mask: Mask, value: Any, new: Any, old: Any) -> Any:
    """Merges two masks of undefined parts. A pointer's mask has one entry for each lane."""
    if new is None and old is None:
        return None
    new = defined_like(old) if new is None else new
    old = defined_like(new) if old is None else old
    if isinstance(value, Pointer | VariablePointer):
        return normal(np.where(mask, new, old))
    return normal(merge(mask, new, old))


def defined_like(shadow: Any) -> Any:
    """Returns a mask of undefined parts with no part set, which broadcasts with `shadow`."""
    if isinstance(shadow, tuple):
        return tuple(defined_like(part) for part in shadow)  # pyright: ignore
    return np.uint8(0)


@cache
def load() -> None:
    """Imports the modules that define checks, which fills the tables."""
    for name in MODULES:
        import_module(f"xdsl_spirv.interpreter.checks.{name}")


def stage_of(op: Operation, kind: str) -> CheckedStage:
    """Returns the check of an operation: the specific one, or the general one of its kind."""
    load()
    return CHECKED.get(key_of(op), GENERAL[kind])


def observe(context: Context, checks: Checks) -> None:
    """Enables checks for a module's SPIR-V functions. Kernels before lowering are not checked."""
    checker = context.checker = Checker(context, checks)
    context.steps = context.steps or Budget(BLOCKS)

    def compiler(function: Operation) -> Compiler:
        return (
            CheckedCompiler(context, checker) if isinstance(function, FuncOp) else Compiler(context)
        )

    context.compiler = compiler
