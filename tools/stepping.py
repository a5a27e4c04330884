"""
Applies passes to a module step by step, forward and back, for `opt --interactive`.

A session is a list of passes (the plan) and a position: the passes before the position are
applied. Each pass runs on a copy of the module, so that a failing pass changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline

from xdsl_spirv.compiler.compiler import converting_pass_errors
from xdsl_spirv.compiler.pipeline import expand_pipelines
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import text_of, verify
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.tools.ir_diff import Row, diff
from xdsl_spirv.tools.trace import units_of

Passes = Mapping[str, Callable[[], type[ModulePass]]]


@dataclass(frozen=True)
class State:
    """A module after some passes, and the duration of the last pass in seconds."""

    module: ModuleOp
    ctx: Context
    seconds: float = 0.0


@dataclass(frozen=True)
class UnitDiff:
    """The change of a unit (a function or kernel) of a module between two states."""

    name: str
    old: list[str]
    new: list[str]
    rows: list[Row]


@dataclass
class Session:
    """
    A module and a plan of passes. The first `position` passes are applied.

    `states` are the modules computed so far, the source first.
    """

    source: ModuleOp
    ctx: Context
    passes: Passes
    plan: list[ModulePass] = field(default_factory=list[ModulePass])
    position: int = 0
    states: list[State] = field(default_factory=list[State])
    verifies: bool = True

    def __post_init__(self) -> None:
        self.states = [State(self.source, self.ctx)]

    # ---- position

    @property
    def state(self) -> State:
        return self.states[self.position]

    @property
    def module(self) -> ModuleOp:
        """Returns the module at the current position. The caller must not change it."""
        return self.state.module

    @property
    def last(self) -> str:
        """Returns the last applied pass in pipeline syntax; empty at the source."""
        return spec(self.plan[self.position - 1]) if self.position else ""

    @property
    def applied(self) -> str:
        """Returns the applied passes as a pipeline for `opt -p`."""
        return ",".join(map(spec, self.plan[: self.position]))

    # ---- forward and back

    def parse(self, pipeline: str) -> list[ModulePass]:
        """Parses a pipeline. Raises `ProgramError` for invalid text."""
        known = dict(self.passes)
        with converting_pass_errors(known):
            return expand_pipelines(PassPipeline.parse_spec(known, pipeline).passes)

    def load(self, pipeline: str) -> int:
        """Appends passes to the plan, and returns their number."""
        added = self.parse(pipeline)
        self.plan += added
        return len(added)

    def next(self) -> None:
        """Applies the next pass of the plan."""
        if self.position == len(self.plan):
            raise ProgramError(
                "the plan has no next pass",
                f"{self.position} of {len(self.plan)} are applied",
                "apply a pass: apply NAME",
            )
        if self.position + 1 == len(self.states):
            self.states.append(self._after(self.plan[self.position]))
        self.position += 1

    def apply(self, pipeline: str) -> int:
        """
        Inserts passes into the plan at the current position and applies them. Returns their
        number.

        If a pass fails, the session is unchanged.
        """
        added = self.parse(pipeline)
        with self._all_or_nothing():
            self.plan[self.position : self.position] = added
            del self.states[self.position + 1 :]
            for _ in added:
                self.next()
        return len(added)

    def undo(self, count: int = 1) -> None:
        """Undoes the last `count` passes, which remain in the plan."""
        if not 0 < count <= self.position:
            raise ProgramError(
                f"cannot undo {count} passes",
                f"only {self.position} passes are applied",
                "undo fewer",
            )
        self.position -= count

    def redo(self, count: int = 1) -> None:
        """Applies the next `count` undone passes again."""
        left = len(self.states) - 1 - self.position
        if not 0 < count <= left:
            raise ProgramError(
                f"cannot redo {count} passes",
                f"only {left} passes are undone",
                "apply the next pass: next",
            )
        self.position += count

    def skip(self) -> str:
        """Removes and returns the next pass of the plan."""
        if self.position == len(self.plan):
            raise ProgramError("the plan has no next pass", "", "there is nothing to skip")
        del self.states[self.position + 1 :]
        return spec(self.plan.pop(self.position))

    def jump(self, place: str) -> None:
        """
        Goes to the state after a pass, given by number or name, and applies passes if necessary.

        0 is the source. A name selects the next pass with that name, or else the last earlier pass
        with that name. If a pass fails, the session stops before that pass.
        """
        target = self._number(place)
        if target < self.position:
            self.position = target
        while self.position < target:
            self.next()

    def _number(self, place: str) -> int:
        if place.isdecimal():
            number = int(place)
            if number > len(self.plan):
                raise ProgramError(
                    f"the plan has no pass {number}", f"it has {len(self.plan)} passes", "see list"
                )
            return number
        names = [member.name for member in self.plan]
        ahead = [n for n, name in enumerate(names, 1) if name == place and n > self.position]
        behind = [n for n, name in enumerate(names, 1) if name == place and n <= self.position]
        if ahead or behind:
            return ahead[0] if ahead else behind[-1]
        otherwise = "list shows the plan" if names else "load a pipeline first"
        remedy = did_you_mean(place, dict.fromkeys(names), otherwise)
        raise ProgramError(f"{place!r} is not in the plan", "", remedy)

    @contextmanager
    def _all_or_nothing(self) -> Generator[None]:
        kept = list(self.plan), self.position, list(self.states)
        try:
            yield
        except BaseException:
            self.plan, self.position, self.states = kept
            raise

    def _after(self, member: ModulePass) -> State:
        ctx, module = self.state.ctx.clone(), self.module.clone()
        start = time.perf_counter()
        member.apply(ctx, module)
        seconds = time.perf_counter() - start
        if self.verifies:
            verify(module)
        return State(module, ctx, seconds)

    # ---- inspection

    def text(self, name: str | None = None) -> str:
        """Returns the text of the module, or of one of its functions or kernels."""
        if name is None:
            return text_of(self.module)
        units = units_of(self.module)
        name = name.removeprefix("@")
        if name not in units:
            remedy = did_you_mean(name, units, f"there are: {', '.join(units)}")
            raise ProgramError(f"the module has no {name!r}", "", remedy)
        return units[name]

    def changes(self, number: int | None = None) -> list[UnitDiff]:
        """Returns the changes by pass `number` of the plan (default: the last applied pass)."""
        number = self.position if number is None else number
        if not 0 < number < len(self.states):
            raise ProgramError(
                f"pass {number} was not applied", f"last: {len(self.states) - 1}", "see list"
            )
        before, after = (units_of(self.states[n].module) for n in (number - 1, number))
        return list(unit_diffs(before, after))


def spec(member: ModulePass) -> str:
    """Returns a pass and its options in pipeline syntax."""
    return str(member.pipeline_pass_spec())


def unit_diffs(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[UnitDiff]:
    """
    Returns the changed units: the removed ones, then the others in the order of the new module.
    """
    names = [name for name in before if name not in after]
    names += [name for name, text in after.items() if before.get(name) != text]
    for name in names:
        old, new = _lines(before.get(name)), _lines(after.get(name))
        rows = diff(old, new)
        yield UnitDiff(name, old, new, rows)


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.splitlines()
