"""Random control flow of host functions, nested `scf` and branching blocks, executes correctly."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from xdsl_spirv.interpreter import interpret
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import parse_text

T = "tensor<4xi32>"
Step = Callable[[Array, int], Array]
"""Maps the last tensor and the loop's counter to the next tensor."""


class Nest:
    """Random statements as text and as a Python function. Loop counters determine `scf.if`."""

    def __init__(self, drawn: random.Random):
        self.drawn = drawn
        self.named = 0

    def name(self, kind: str) -> str:
        self.named += 1
        return f"%{kind}_{self.named}"

    def statements(self, value: str, counter: str, depth: int) -> tuple[str, str, Step]:
        """
        Returns one to three random statements: their text, the name of the last value, and their
        meaning.
        """
        lines, steps = list[str](), list[Step]()
        for _ in range(self.drawn.randint(1, 3)):
            kinds = [self.operation, *([self.loop, self.choice, self.count] if depth else [])]
            text, value, step = self.drawn.choice(kinds)(value, counter, depth - 1)
            lines.append(text)
            steps.append(step)

        def run(x: Array, i: int) -> Array:
            for step in steps:
                x = step(x, i)
            return x

        return "\n".join(lines), value, run

    def operation(self, value: str, counter: str, depth: int) -> tuple[str, str, Step]:
        result, number = self.name("v"), self.drawn.randint(-3, 3)
        kind = self.drawn.choice(["add", "mul", "sub"])
        made = self.name("c")
        text = f"""{made} = arith.constant dense<{number}> : {T}
          {result} = linalg.{kind} ins({value}, {made} : {T}, {T}) outs(%e : {T}) -> {T}"""
        function = {"add": np.add, "mul": np.multiply, "sub": np.subtract}[kind]
        return text, result, lambda x, i: function(x, np.int32(number))

    def loop(self, value: str, counter: str, depth: int) -> tuple[str, str, Step]:
        """
        Returns an `scf.while` that contains random statements: its text, its result's name, and its
        meaning.
        """
        result, i, j, v, w = (self.name(kind) for kind in "rijvw")
        rounds, before = self.drawn.randint(0, 3), self.statements(v, i, 0)
        inside = self.statements(w, j, depth)
        c, n, limit = (self.name(kind) for kind in "cnl")
        text = f"""{limit} = arith.constant {rounds} : index
          {result}:2 = scf.while ({i} = %c0, {v} = {value}) : (index, {T}) -> (index, {T}) {{
            {before[0]}
            {c} = arith.cmpi slt, {i}, {limit} : index
            scf.condition({c}) {i}, {before[1]} : index, {T}
          }} do {{
          ^bb0({j}: index, {w}: {T}):
            {inside[0]}
            {n} = arith.addi {j}, %c1 : index
            scf.yield {n}, {inside[1]} : index, {T}
          }}"""

        def run(x: Array, i: int) -> Array:
            for k in range(rounds):
                x = inside[2](before[2](x, k), k)
            return before[2](x, rounds)

        return text, f"{result}#1", run

    def count(self, value: str, counter: str, depth: int) -> tuple[str, str, Step]:
        result, i, v, limit = (self.name(kind) for kind in "rivl")
        rounds, inside = self.drawn.randint(0, 3), self.statements(v, i, depth)
        text = f"""{limit} = arith.constant {rounds} : index
          {result} = scf.for {i} = %c0 to {limit} step %c1 iter_args({v} = {value}) -> ({T}) {{
            {inside[0]}
            scf.yield {inside[1]} : {T}
          }}"""

        def run(x: Array, i: int) -> Array:
            for k in range(rounds):
                x = inside[2](x, k)
            return x

        return text, result, run

    def choice(self, value: str, counter: str, depth: int) -> tuple[str, str, Step]:
        result, c = self.name("r"), self.name("c")
        yes, no = (self.statements(value, counter, depth) for _ in range(2))
        text = f"""{c} = arith.cmpi slt, {counter}, %c1 : index
          {result} = scf.if {c} -> ({T}) {{
            {yes[0]}
            scf.yield {yes[1]} : {T}
          }} else {{
            {no[0]}
            scf.yield {no[1]} : {T}
          }}"""
        return text, result, lambda x, i: (yes if i < 1 else no)[2](x, i)


CONSTANTS = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 9))


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 100))]


@pytest.mark.parametrize("seed", SEEDS)
def test_nested_loops_and_branches_execute_correctly(seed: int):
    text, result, meaning = Nest(random.Random(seed)).statements("%x", "%c0", 3)
    module = f"""func.func @main(%x: {T}) -> {T} {{
      {CONSTANTS}
      %e = tensor.empty() : {T}
      {text}
      return {result} : {T}
    }}"""
    x = np.arange(4, dtype=np.int32)
    (got,) = interpret(parse_text(module), [x])
    np.testing.assert_array_equal(got, meaning(x, 0))


BLOCKS = 6


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_that_branch_to_each_other(seed: int):
    """Blocks of a host function may branch to each other in any order."""
    drawn = random.Random(seed)
    odd, even = ([drawn.randrange(BLOCKS) for _ in range(BLOCKS)] for _ in range(2))
    numbers = [drawn.randint(-3, 3) for _ in range(BLOCKS)]
    kinds = [drawn.choice(["add", "mul"]) for _ in range(BLOCKS)]
    blocks = [
        f"""^step{k}(%n{k}: index, %v{k}: {T}):
      %k{k} = arith.constant dense<{numbers[k]}> : {T}
      %w{k} = linalg.{kinds[k]} ins(%v{k}, %k{k} : {T}, {T}) outs(%e : {T}) -> {T}
      %m{k} = arith.addi %n{k}, %c1 : index
      %go{k} = arith.cmpi slt, %m{k}, %c9 : index
      cf.cond_br %go{k}, ^next{k}, ^end(%w{k} : {T})
    ^next{k}:
      %rest{k} = arith.remui %m{k}, %c2 : index
      %odd{k} = arith.cmpi eq, %rest{k}, %c1 : index
      cf.cond_br %odd{k}, ^step{odd[k]}(%m{k}, %w{k} : index, {T}),
        ^step{even[k]}(%m{k}, %w{k} : index, {T})"""
        for k in range(BLOCKS)
    ]
    module = f"""func.func @main(%x: {T}) -> {T} {{
      {CONSTANTS}
      %e = tensor.empty() : {T}
      cf.br ^step0(%c0, %x : index, {T})
    {chr(10).join(blocks)}
    ^end(%r: {T}):
      return %r : {T}
    }}"""
    x = np.arange(4, dtype=np.int32)
    wanted, k = x, 0
    for count in range(1, 10):
        wanted = wanted + numbers[k] if kinds[k] == "add" else wanted * numbers[k]
        k = odd[k] if count % 2 else even[k]
    (got,) = interpret(parse_text(module), [x])
    np.testing.assert_array_equal(got, wanted)
