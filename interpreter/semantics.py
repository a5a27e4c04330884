"""
Registers and finds the semantics of operations.

Semantics has two stages. The first stage receives the operation once, when its function is
compiled. It returns the second stage, which receives only arrays, each time it runs:

    @value(IAddOp)
    def integer_add(op: IAddOp, context: Context) -> Function:
        return np.add

| decorator | second stage | for |
|---|---|---|
| `value` | `(*operands) -> result` | results that depend only on the operands, lane by lane |
| `constant` | none: the first stage returns the value | values known before the run |
| `action` | `(batch, *operands) -> result` | memory, groups, built-ins: need invocations |
| `control` | `(env) -> None` | regions |
| `terminator` | `(env) -> Leaving` | operations that end a block and choose the next |

Several results are returned as a tuple. Operands of inactive lanes are arbitrary, and results of
inactive lanes are never used. Only an `action` reads the mask. The table is keyed by exact
operation class, as in xDSL's `InterpreterFunctions`. A `value` can be used there as `lambda
interpreter, op, operands: (stage(op, context)(*operands),)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, TypeAlias, TypeVar

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.interpreter.errors import InterpreterError

Env: TypeAlias = list[Any]
"""The list of slots of a running function (code.py)."""

Function: TypeAlias = Callable[..., Any]
"""The function that a `Stage` returns. It computes an operation on arrays."""

Stage: TypeAlias = Callable[..., Any]
"""A function that compiles an operation, given a `Context` (for control flow, a `Compiler`)."""

Kind: TypeAlias = Literal["value", "constant", "action", "control", "terminator"]

StageT = TypeVar("StageT", bound=Stage)


@dataclass(frozen=True)
class Semantics:
    """The function that compiles an operation (`stage`), and the kind of the compiled function."""

    kind: Kind
    stage: Stage


Key: TypeAlias = type[Operation] | str
"""An operation class, or the name of an instruction that `spirv.Raw` represents."""

TABLE: dict[type[Operation], Semantics] = {}
"""Maps an operation class to its semantics in a kernel. `load()` fills the table."""

CARRIED: dict[str, Semantics] = {}
"""Maps the name of an instruction in a `spirv.Raw` to its semantics."""

PACKAGES = ("kernel", "spirv", "host")
"""Subpackages whose modules define semantics."""


@cache
def load() -> None:
    """Imports every module of `PACKAGES`, which fills `TABLE`."""
    for folder in PACKAGES:
        package = import_module(f"xdsl_spirv.interpreter.{folder}")
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def _register(kind: Kind, ops: Iterable[Key], stage: Stage) -> None:
    for op in ops:
        table: dict[Any, Semantics] = CARRIED if isinstance(op, str) else TABLE
        if op in table:
            raise ValueError(f"{op} has semantics already: {table[op].stage.__qualname__}")
        table[op] = Semantics(kind, stage)


@dataclass(frozen=True)
class Decorator:
    """
    Decorator that registers a function as the semantics of operations, as in `@value(IAddOp,
    ISubOp)`.
    """

    kind: Kind
    of_operands: bool = False
    """
    True if the decorated function computes on operands directly, without a first stage that reads
    the operation.
    """

    def __call__(self, *ops: Key) -> Callable[[StageT], StageT]:
        def decorate(stage: StageT) -> StageT:
            _register(self.kind, ops, _regardless(stage) if self.of_operands else stage)
            return stage

        return decorate


value = Decorator("value")
constant = Decorator("constant")
action = Decorator("action")
value_of = Decorator("value", of_operands=True)
action_of = Decorator("action", of_operands=True)
control = Decorator("control")
terminator = Decorator("terminator")


def value_table(functions: Mapping[type[Operation], Function]) -> None:
    """
    Registers a function of operands for each operation. Suitable if the operation's properties do
    not matter.
    """
    for op, function in functions.items():
        _register("value", (op,), _regardless(function))


def same(operand: Any) -> Any:
    """
    Returns the operand unchanged. This is the semantics of an operation that only changes a type.
    """
    return operand


def nothing_happens(*ops: type[Operation]) -> None:
    """Registers operations without an effect and without results."""
    _register("action", ops, _regardless(lambda batch, *operands: None))


def _regardless(function: Function) -> Stage:
    def stage(op: Operation, context: object) -> Function:
        return function

    stage.__qualname__ = getattr(function, "__qualname__", repr(function))
    return stage


def key_of(op: Operation) -> Key:
    """Returns the key of an operation in the tables."""
    name = op.instruction.data if isinstance(op, RawOp) else ""
    return name if name in CARRIED else type(op)


def semantics_of(op: Operation) -> Semantics:
    """Returns the semantics of an operation. Raises `InterpreterError` if there are none."""
    key = key_of(op)
    semantics = CARRIED.get(key) if isinstance(key, str) else TABLE.get(key)
    if semantics is None:
        raise InterpreterError(
            f"{op.name} has no semantics in a kernel",
            op,
            "tests/interpreter/test_coverage.py lists the unsupported operations",
        )
    return semantics
