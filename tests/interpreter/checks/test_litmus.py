"""The race check agrees with the Vulkan memory model on litmus tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.serialization.encode.target import find_module

if TYPE_CHECKING:
    from tests.interpreter.conftest import Parse

SOURCE = Path(__file__).parent / "litmus.txt"
LANES = 4
SCOPES = {"subgroup": "Subgroup", "workgroup": "Workgroup", "queue": "QueueFamily"}
SCOPES["device"] = "Device"
STORAGES = {"b": "UniformMemory", "w": "WorkgroupMemory"}

APPROXIMATED: dict[str, str] = {}
"""Maps each test that the race check judges wrongly to the wrong verdict."""


@dataclass
class Event:
    """An action of some invocations."""

    who: list[tuple[int, int, int]]
    kind: str
    location: str
    words: list[str]

    def scope(self) -> str:
        """Scope of the event in SPIR-V."""
        return next(SCOPES[word] for word in self.words if word in SCOPES)

    def semantics(self) -> str:
        """Memory semantics of the event in SPIR-V."""
        order = [word for word in ("acquire", "release") if word in self.words]
        if not order:
            return "None"
        storages = self.words[self.words.index("of") + 1]
        names = ["".join(word.capitalize() for word in order)]
        names += [STORAGES[storage] for storage in storages]
        names += [w.title().replace("-", "") for w in self.words if w.startswith("make-")]
        return "|".join(names)

    def operand(self) -> str:
        """Memory operand of a plain access."""
        if "private" in self.words:
            return ""
        made = {"write": "MakePointerAvailable", "read": "MakePointerVisible"}[self.kind]
        if {"available", "visible"}.isdisjoint(self.words):
            return '["NonPrivatePointer"]'
        return f'["{made}|NonPrivatePointer", scope(<{self.scope()}>)]'


@dataclass
class Litmus:
    """A program and its verdict."""

    name: str
    verdict: str
    aliases: dict[str, str]
    events: list[Event] = field(default_factory=list)

    def shared(self) -> dict[str, bool]:
        """Locations, with True for Workgroup memory."""
        found: dict[str, bool] = {}
        for name in sorted({event.location for event in self.events if event.location}):
            users = [e for e in self.events if e.location == name]
            one = len({who[0] for e in users for who in e.who}) == 1
            declared = any(":w" in w for e in users for w in e.words)
            found[name] = one and declared and name not in {*self.aliases, *self.aliases.values()}
        return found


def parse(text: str) -> list[Litmus]:
    """Returns the programs of a file."""
    found: list[Litmus] = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            name, verdict, *aliases = line.split()
            pairs = dict(alias.split("=") for alias in aliases)
            found.append(Litmus(name, verdict, pairs))
            continue
        who, kind, *words = line.split()
        numbers = [tuple(int(n) for n in one.split(".")) for one in who.split("+")]
        location = words[0].partition(":")[0] if ":" in words[0] else ""
        found[-1].events.append(Event(numbers, kind, location, words))  # pyright: ignore
    return found


def instruction(event: Event, pointer: str, type: str, number: int) -> str:
    """Returns the event in SPIR-V."""
    if event.kind == "barrier":
        scope = event.scope()
        return f"spirv.ControlBarrier <{scope}>, <{scope}>, <{event.semantics()}>"
    if event.kind == "fence":
        return f"spirv.MemoryBarrier <{event.scope()}>, <{event.semantics()}>"
    storage = re.search(r", (\w+)>$", type)
    assert storage is not None
    if "atomic" not in event.words:
        name = storage[1]
        if event.kind == "write":
            return f'spirv.Store "{name}" {pointer}, %one {event.operand()} : i32'
        return f'%r{number} = spirv.Load "{name}" {pointer} {event.operand()} : i32'
    head = f"<{event.scope()}> <{event.semantics()}> {pointer}"
    match event.kind:
        case "write":
            return f"spirv.AtomicStore {head}, %one : {type}"
        case "read":
            return f"%r{number} = spirv.AtomicLoad {head} : {type}"
        case _:
            return f"%r{number} = spirv.AtomicIAdd {head}, %one : {type}"


BLOCK = "!spirv.ptr<!spirv.struct<(i32 [0]), Block>, StorageBuffer>"


def module_of(litmus: Litmus) -> str:
    """Returns the program as a module. A branch limits each event to its invocations."""
    lines = ["spirv.module Logical Vulkan {"]
    body: list[str] = []
    types: dict[str, str] = {}
    for number, (name, shared) in enumerate(litmus.shared().items()):
        if shared:
            types[name] = "!spirv.ptr<i32, Workgroup>"
            lines.append(f"spirv.GlobalVariable @{name} : {types[name]}")
            body.append(f"%p_{name} = spirv.mlir.addressof @{name} : {types[name]}")
            continue
        types[name] = "!spirv.ptr<i32, StorageBuffer>"
        lines.append(f"spirv.GlobalVariable @{name} bind(0, {number}) : {BLOCK}")
        body.append(f"%b_{name} = spirv.mlir.addressof @{name} : {BLOCK}")
        body.append(
            f"%p_{name} = spirv.AccessChain %b_{name}[%zero] : {BLOCK}, i32 -> {types[name]}"
        )
    vector = "!spirv.ptr<vector<3xi32>, Input>"
    lines.append(f'spirv.GlobalVariable @id built_in("GlobalInvocationId") : {vector}')
    body.append(f"%id_ptr = spirv.mlir.addressof @id : {vector}")
    body.append('%id_all = spirv.Load "Input" %id_ptr : vector<3xi32>')
    body.append("%id = spirv.CompositeExtract %id_all[0 : i32] : vector<3xi32>")
    size = LANES * subgroups_of(litmus)
    for number, event in enumerate(litmus.events):
        tests = []
        for w, s, lane in event.who:
            test = f"%t{number}_{len(tests)}"
            constant = f"{test}_c"
            body.append(f"{constant} = spirv.Constant {w * size + s * LANES + lane} : i32")
            body.append(f"{test} = spirv.IEqual %id, {constant} : i32")
            tests.append(test)
        while len(tests) > 1:
            joined = f"{tests[0]}_or"
            body.append(f"{joined} = spirv.LogicalOr {tests[0]}, {tests[1]} : i1")
            tests[:2] = [joined]
        pointer = f"%p_{event.location}"
        type = types.get(event.location, "")
        body.append(f"""
          spirv.mlir.selection {{
            spirv.BranchConditional {tests[0]}, ^yes, ^merge
          ^yes:
            {instruction(event, pointer, type, number)}
            spirv.Branch ^merge
          ^merge:
            spirv.mlir.merge
          }}""")
    return "\n".join(
        [
            *lines,
            'spirv.func @main() "None" {',
            "%zero = spirv.Constant 0 : i32",
            "%one = spirv.Constant 1 : i32",
            *body,
            "spirv.Return",
            "}",
            'spirv.EntryPoint "GLCompute" @main',
            f'spirv.ExecutionMode @main "LocalSize", {size}, 1, 1',
            "}",
        ]
    )


def subgroups_of(litmus: Litmus) -> int:
    """Returns the number of subgroups in a workgroup."""
    return 1 + max(s for event in litmus.events for _, s, _ in event.who)


def find_races(litmus: Litmus, parse: Parse) -> Checks:
    module = find_module(parse(module_of(litmus)))
    buffers: dict[tuple[int, int], Any] = {}
    names: dict[str, Any] = {}
    for number, (name, shared) in enumerate(litmus.shared().items()):
        if not shared:
            names[name] = np.zeros(1, np.int32)
            buffers[0, number] = names[name]
    numbers = {name: (0, number) for number, name in enumerate(litmus.shared())}
    for one, other in litmus.aliases.items():
        buffers[numbers[other]] = names[one]
    checks = Checks(races=True)
    grid = 1 + max(w for event in litmus.events for w, _, _ in event.who)
    dispatch(
        module, "main", (grid, 1, 1), buffers, options=Options(subgroup_size=LANES, checks=checks)
    )
    return checks


PROGRAMS: Sequence[Litmus] = parse(SOURCE.read_text())


@pytest.mark.parametrize("litmus", PROGRAMS, ids=lambda litmus: litmus.name)
def test_the_race_check_agrees_with_the_memory_model(litmus: Litmus, parse: Parse) -> None:
    checks = find_races(litmus, parse)
    verdict = "race" if checks.report.findings else "ordered"
    expected = APPROXIMATED.get(litmus.name, litmus.verdict)
    assert verdict == expected, f"{module_of(litmus)}\n{checks.report}"


def test_the_missing_synchronization_is_named(parse: Parse) -> None:
    """The report names the barriers whose scope does not include both invocations."""
    (litmus,) = (program for program in PROGRAMS if program.name == "fencefencebroken")
    (finding,) = find_races(litmus, parse).report
    assert finding.rule == "RACE-03"
    assert "not ordered by the atomics between them" in finding.message
    text = "\n".join(finding.notes)
    assert "their scopes do not include both invocations" in text
    assert text.count("spirv.MemoryBarrier") == 2


def test_the_programs_have_both_verdicts() -> None:
    assert {litmus.verdict for litmus in PROGRAMS} == {"ordered", "race"}
    assert len(PROGRAMS) >= 50
    assert {*APPROXIMATED} <= {litmus.name for litmus in PROGRAMS}
