"""
Random typed programs: operations on earlier values, with selections, loops and variables.

Every operation has exactly one legal result (`chained` rules). Every eighth value and the last
values are outputs.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.testing.differential.float_rules import RULES
from xdsl_spirv.testing.differential.kernel import Kernel
from xdsl_spirv.testing.differential.legal import subnormal
from xdsl_spirv.testing.differential.rules import Rule
from xdsl_spirv.testing.differential.types import INTEGERS, Type, drawn

STATEMENTS = 24
OUTPUTS = 10
CHAINED = [rule for rule in RULES if rule.chained]


class Pool:
    """The values that a kernel has computed so far, by type."""

    def __init__(self, k: Kernel):
        self.k = k
        self.values: dict[Type, list[str]] = {}

    def add(self, type: Type, value: str) -> None:
        self.values.setdefault(type, []).append(value)

    def pick(self, type: Type) -> str:
        """Returns a random value of the type, preferably a recently added one."""
        values = self.values[type]
        return values[-1 - min(int(self.k.rng.geometric(0.35)) - 1, len(values) - 1)]


def programs(k: Kernel) -> None:
    """Fills the kernel with a sequence of operations, some of them in selections and loops."""
    pool = Pool(k)
    width = int(k.rng.integers(1, 5))
    scalars = {str(s) for s in k.rng.choice(INTEGERS, 2)} | {
        str(k.rng.choice(["f32", "f64", "f16"]))
    }
    for scalar in sorted(scalars):
        type = Type(scalar, width)
        for _ in range(2):
            values = drawn(k.rng, type, (k.invocations, width))
            unclear = subnormal(values)
            if not (k.machine.settled or type.scalar in INTEGERS):
                unclear |= np.isnan(
                    values
                )  # A driver may replace a comparison and a select by a minimum.
            pool.add(type, k.input(type, np.where(unclear, 0, values))[0])
        pool.add(type, k.constant(1 if scalar[0] == "i" else "1.5", type))
    statements: list[tuple[str, Type, str]] = []

    def add() -> None:
        del statements[added:]
        statements.append(_statement(k, pool))

    for added in range(STATEMENTS):
        k.draw(add)
        value, type, _ = statements[-1]
        pool.add(type, value)
    step = max(1, len(statements) // OUTPUTS)
    for value, type, what in statements[::-step][:OUTPUTS]:
        k.output(value, type, what)


def _statement(k: Kernel, pool: Pool) -> tuple[str, Type, str]:
    choice = k.rng.random()
    if choice < 0.12:
        value, type, what = _selection(k, pool)
    elif choice < 0.22:
        value, type, what = _loop(k, pool)
    else:
        value, type, what = _operation(k, pool)
    return value, type, what


def _operation(k: Kernel, pool: Pool) -> tuple[str, Type, str]:
    rule, type = _fitting(k, pool)
    value, result = rule.emit(k, type, [pool.pick(type) for _ in range(rule.operands)])
    return value, result, f"{rule.name} : {type}"


def _fitting(k: Kernel, pool: Pool) -> tuple[Rule, Type]:
    while True:
        rule = CHAINED[int(k.rng.integers(len(CHAINED)))]
        types = [t for t in pool.values if t.scalar in rule.scalars and t.count in rule.counts]
        if types:
            return rule, types[int(k.rng.integers(len(types)))]


def condition(k: Kernel) -> str:
    """Returns a condition that holds for some, all or no invocations."""
    bit = k.constant(int(k.rng.choice([1, 2, 4, 8, 32, 64])))
    masked = k.op(f"spirv.BitwiseAnd %id, {bit} : i32")
    return k.op(f"spirv.INotEqual {masked}, %zero : i32")


def _integer(k: Kernel, pool: Pool) -> Type:
    types = [t for t in pool.values if t.scalar in INTEGERS]
    return types[int(k.rng.integers(len(types)))]


def _selection(k: Kernel, pool: Pool) -> tuple[str, Type, str]:
    type = _integer(k, pool)
    a, b = pool.pick(type), pool.pick(type)
    first, second = k.rng.choice(["IAdd", "ISub", "IMul", "BitwiseXor"], 2)
    result, chosen = k.name(), condition(k)
    x, y, merged = k.name(), k.name(), k.name()
    number = result[1:]
    k.block(
        result,
        f"""{result} = spirv.mlir.selection -> {type} {{
          spirv.BranchConditional {chosen}, ^then{number}, ^else{number}
        ^then{number}:
          {x} = spirv.{first} {a}, {b} : {type}
          spirv.Branch ^merge{number}({x} : {type})
        ^else{number}:
          {y} = spirv.{second} {b}, {a} : {type}
          spirv.Branch ^merge{number}({y} : {type})
        ^merge{number}({merged}: {type}):
          spirv.mlir.merge {merged} : {type}
        }}""",
    )
    return result, type, f"selection of {first} and {second} : {type}"


def _loop(k: Kernel, pool: Pool) -> tuple[str, Type, str]:
    type = _integer(k, pool)
    start, step = pool.pick(type), pool.pick(type)
    name = str(k.rng.choice(["IAdd", "IMul", "BitwiseXor", "ISub"]))
    rounds = k.constant(int(k.rng.integers(0, 8)))
    if k.rng.random() < 0.6:
        rounds = k.op(f"spirv.BitwiseAnd %id, {rounds} : i32")
    result = k.name()
    number = result[1:]
    i, total, more, later, following = (k.name() for _ in range(5))
    k.block(
        result,
        f"""{result} = spirv.mlir.loop -> {type} {{
          spirv.Branch ^header{number}(%zero, {start} : i32, {type})
        ^header{number}({i}: i32, {total}: {type}):
          {more} = spirv.SLessThan {i}, {rounds} : i32
          spirv.BranchConditional {more}, ^body{number}, ^merge{number}
        ^body{number}:
          {later} = spirv.{name} {total}, {step} : {type}
          spirv.Branch ^continue{number}
        ^continue{number}:
          {following} = spirv.IAdd {i}, %one : i32
          spirv.Branch ^header{number}({following}, {later} : i32, {type})
        ^merge{number}:
          spirv.mlir.merge {total} : {type}
        }}""",
    )
    return result, type, f"loop of {name} : {type}"
