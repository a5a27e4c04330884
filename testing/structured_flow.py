"""
Generates GLSL with nested selections and loops whose values are used after every kind of exit.

`generate(seed)` returns one shader. A variable is read only if every path has assigned it. An
optimizer can therefore replace variables by values (`spirv-opt --ssa-rewrite`). A value is then
used directly after the construct that defines it. The construct may be left by break, continue or
return, or together with outer constructs. Every loop ends, because its exits depend on a counter
that every iteration increments.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TypeAlias

VARIABLES = 6
INVOCATIONS = 8
RESULTS = 4
DEEPEST = 3

KEYS = (3, 5, 3, 7, 5, 2, 0, 1)
"""Contents of the buffer `key`, one element for each invocation."""
TABLE = (9, 4, 7, 1, 8, 2, 6, 5)
"""Contents of the buffer `table`, which expressions read."""

Assigned: TypeAlias = "frozenset[str] | None"
"""
Variables that every path to a statement has assigned. None for a statement that is unreachable.
"""

OPTIMIZATIONS: dict[str, tuple[str, ...]] = {
    "O": ("-O",),
    "Os": ("-Os",),
    "ssa": ("--ssa-rewrite",),
    "inline": (
        *("--merge-return", "--inline-entry-points-exhaustive", "--eliminate-dead-functions"),
        *("--ssa-rewrite", "--simplify-instructions", "--eliminate-dead-branches"),
    ),
    "loops": (
        *("--merge-return", "--inline-entry-points-exhaustive", "--ssa-rewrite"),
        *("--loop-unswitch", "--loop-invariant-code-motion", "--loop-peeling", "--ccp"),
    ),
    "redundancy": (
        *("--ssa-rewrite", "--local-redundancy-elimination", "--redundancy-elimination"),
        *("--combine-access-chains", "--code-sink", "--reduce-load-size"),
    ),
    "blocks": (
        *("--ssa-rewrite", "--if-conversion", "--eliminate-dead-branches", "--merge-blocks"),
        *("--eliminate-dead-code-aggressive", "--cfg-cleanup"),
    ),
}
"""
Lists of spirv-opt's passes. The first ones optimize in general, the others make one kind of change.
"""

HEAD = f"""#version 450
layout(local_size_x = {INVOCATIONS}) in;
layout(std430, binding = 0) readonly buffer Keys {{ uint key[]; }};
layout(std430, binding = 1) readonly buffer Table {{ uint table[]; }};
layout(std430, binding = 2) writeonly buffer Results {{ uint results[]; }};
"""


def meet(*ways: Assigned) -> Assigned:
    """Returns the variables that all paths have assigned. Ignores unreachable paths."""
    known = [way for way in ways if way is not None]
    return frozenset.intersection(*known) if known else None


@dataclass
class Around:
    """A loop or a switch, with the variables that are assigned on each path to its exits."""

    is_loop: bool
    breaks: list[Assigned] = field(default_factory=list[Assigned])
    continues: list[Assigned] = field(default_factory=list[Assigned])


def generate(seed: int) -> str:
    """Returns a compute shader for one workgroup of `INVOCATIONS`."""
    return _Shader(random.Random(seed)).text()


class _Shader:
    def __init__(self, rng: random.Random):
        self.rng = rng
        self.lines: list[str] = []
        self.around: list[Around] = []
        self.counters: list[str] = []
        self.named = 0
        self.in_main = False

    def text(self) -> str:
        functions = self.rng.randint(0, 2)
        parts = [self._function(f"f{n}") for n in range(functions)]
        return HEAD + "".join(parts) + self._main(functions)

    def _function(self, name: str) -> str:
        self.in_main = False
        self.lines = [f"uint {name}(uint k, uint l) {{"]
        after = self._body(self._declare())
        if after is not None:
            self._line(f"return {self._expression(after)};")
        return "\n".join([*self.lines, "}\n"])

    def _main(self, functions: int) -> str:
        self.in_main = True
        self.lines = ["void main() {", "uint l = gl_LocalInvocationIndex, k = key[l];"]
        for n in range(RESULTS):
            self._line(f"results[{n} * {INVOCATIONS} + l] = 77u;")
        assigned = self._declare()
        for n in range(functions):
            self._line(f"v{n} = f{n}(k + {self.rng.randint(0, 2)}u, l);")
            assigned |= {f"v{n}"}
        after = self._body(assigned)
        if after is not None:
            for n in range(RESULTS):
                self._line(f"results[{n} * {INVOCATIONS} + l] = {self._expression(after)};")
        return "\n".join([*self.lines, "}\n"])

    def _declare(self) -> frozenset[str]:
        self.around, self.counters = [], []
        initial = frozenset(f"v{n}" for n in range(VARIABLES) if self.rng.random() < 0.2)
        for n in range(VARIABLES):
            self._line(f"uint v{n}{f' = {self.rng.randint(0, 9)}u' if f'v{n}' in initial else ''};")
        return initial

    def _body(self, assigned: Assigned) -> Assigned:
        for _ in range(self.rng.randint(1, 2)):
            assigned = self._loop(assigned, 1) if assigned is not None else None
            assigned = self._statements(assigned, 1)
        return assigned

    # Statements. Each method takes the variables assigned before and returns those assigned after.

    def _line(self, text: str) -> None:
        self.lines.append(text)

    def _statements(self, assigned: Assigned, depth: int, exits: bool = True) -> Assigned:
        for _ in range(self.rng.randint(1, 3)):
            if assigned is None:
                break
            kind = self.rng.random()
            if depth >= DEEPEST or kind < 0.35:
                assigned = self._assign(assigned)
            elif kind < 0.6:
                assigned = self._if(assigned, depth, exits)
            elif kind < 0.75:
                assigned = self._switch(assigned, depth, exits)
            elif kind < 0.9:
                assigned = self._loop(assigned, depth)
            elif exits:
                assigned = self._maybe_exit(assigned)
        return assigned

    def _assign(self, assigned: frozenset[str]) -> frozenset[str]:
        variable = f"v{self.rng.randrange(VARIABLES)}"
        self._line(f"{variable} = {self._expression(assigned)};")
        return assigned | {variable}

    def _if(self, assigned: frozenset[str], depth: int, exits: bool) -> Assigned:
        self._line(f"if ({self._condition(assigned)}) {{")
        first = self._statements(assigned, depth + 1, exits)
        first = self._maybe_exit(first, always=True) if exits and self.rng.random() < 0.3 else first
        second: Assigned = assigned
        if self.rng.random() < 0.6:
            self._line("} else {")
            second = self._statements(assigned, depth + 1, exits)
        self._line("}")
        return meet(first, second)

    def _switch(self, assigned: frozenset[str], depth: int, exits: bool) -> Assigned:
        around = Around(is_loop=False)
        self.around.append(around)
        self._line(f"switch ({self._expression(assigned)} & 3u) {{")
        falling: Assigned = None
        labels = [f"case {n}u:" for n in range(self.rng.randint(1, 3))]
        has_default = self.rng.random() < 0.5
        for label in [*labels, "default:"] if has_default else labels:
            self._line(label)
            falling = meet(falling, assigned)
            falling = self._statements(falling, depth + 1, exits)
            if falling is not None and self.rng.random() < 0.7:
                self._line("break;")
                around.breaks.append(falling)
                falling = None
        self._line("}")
        self.around.pop()
        return meet(falling, *around.breaks, None if has_default else assigned)

    def _loop(self, assigned: frozenset[str], depth: int) -> Assigned:
        around, outer = Around(is_loop=True), self.counters
        counter = f"i{self.named}"
        self.named += 1
        bound = self.rng.choice(("k", "2u", "(k & 3u)", f"({self._expression(assigned)} & 3u)"))
        kind = self.rng.choice(("endless", "endless", "counted", "do"))
        if kind == "do":
            self._line(f"uint {counter} = 0u; do {{ ++{counter};")
        else:
            condition = f"{counter} < {bound}" if kind == "counted" else ""
            self._line(f"for (uint {counter} = 0u; {condition}; ++{counter}) {{")
        self.around.append(around)
        self.counters = [*outer, counter]
        after = self._leave(assigned, counter, bound) if kind == "endless" else assigned
        after = self._statements(after, depth + 1)
        self.around.pop()
        behind = assigned if kind == "counted" else None
        if kind == "do":
            behind = meet(after, *around.continues)
            # The condition must be written even if it is unreachable.
            self._line(f"}} while ({counter} < {bound});")
        else:
            self._line("}")
        self.counters = outer
        return meet(behind, *around.breaks)

    def _leave(self, assigned: frozenset[str], counter: str, bound: str) -> Assigned:
        """Writes the exit of an endless loop. It is taken when the counter reaches the bound."""
        if self.rng.random() < 0.5:
            self._line(f"if ({counter} >= {bound}) {{")
            self._exits(self._assign(assigned), self.rng.randint(0, 2))
            self._line("}")
            return assigned
        self._line(f"if ({counter} >= 1u) {{")
        inner = self._statements(assigned, DEEPEST, exits=False)
        inner = self._assign(inner or assigned)
        self._line(f"if ({counter} >= {bound}) {{")
        self._exits(inner, self.rng.randint(0, 1))
        self._line("}")
        behind = self._statements(inner, DEEPEST, exits=False)
        self._line("}")
        return meet(assigned, behind)

    def _exits(self, assigned: frozenset[str], forks: int) -> None:
        if forks == 0:
            self._exit(self._assign(assigned), ("break", "break", "break", "return"))
            return
        if self.rng.random() < 0.6:
            self._line(f"if ({self._condition(assigned)}) {{")
            self._exits(self._assign(assigned), forks - 1)
            self._line("} else {")
            self._exits(assigned, forks - 1)
            self._line("}")
            return
        self._line(f"switch ({self._expression(assigned)} & 1u) {{ case 0u:")
        # A break here would leave only the switch.
        self._exit(self._assign(assigned), ("return",))
        self._line("default: break; }")
        self._exits(assigned, forks - 1)

    def _maybe_exit(self, assigned: Assigned, always: bool = False) -> Assigned:
        if assigned is None:
            return None
        ways = ["return"]
        if self.around:
            ways += ["break"] * 3
        if any(around.is_loop for around in self.around):
            ways += ["continue"] * 3
        if always:
            self._exit(assigned, ways)
            return None
        self._line(f"if ({self._condition(assigned)}) {{")
        self._exit(self._assign(assigned), ways)
        self._line("}")
        return assigned

    def _exit(self, assigned: frozenset[str], ways: tuple[str, ...] | list[str]) -> None:
        way = self.rng.choice(ways)
        if way == "break":
            self.around[-1].breaks.append(assigned)
        elif way == "continue":
            next(a for a in reversed(self.around) if a.is_loop).continues.append(assigned)
        elif self.in_main:
            self._line(f"results[l] = {self._expression(assigned)};")
        else:
            way = f"return {self._expression(assigned)}"
        self._line(f"{way};")

    # Expressions

    def _term(self, assigned: frozenset[str]) -> str:
        terms = [*sorted(assigned), *self.counters]
        if terms and self.rng.random() < 0.7:
            return self.rng.choice(terms)
        return self.rng.choice(("k", "l", f"{self.rng.randint(0, 9)}u"))

    def _expression(self, assigned: frozenset[str]) -> str:
        first, second = self._term(assigned), self._term(assigned)
        form = self.rng.choice(("{} * 3u + {}", "{} + {}", "{} ^ {}", "table[({} + {}) & 7u]"))
        return f"({form.format(first, second)})"

    def _condition(self, assigned: frozenset[str]) -> str:
        sign = self.rng.choice(("<", ">=", "==", "!="))
        return f"({self._expression(assigned)} & 3u) {sign} ({self._term(assigned)} & 3u)"
