"""
Tests a proof about a kernel by random launches that satisfy its premises.

A finding that contradicts the proof means that the proof is wrong. Grids and contents are random.
Push constants are often small, and buffers as short as the premises allow, because bounds fail
there first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from xdsl_spirv.prove.kernel import CONSECUTIVE
from xdsl_spirv.tools.kernel_proving import spell_numbers
from xdsl_spirv.tools.kernel_test.arguments import flat
from xdsl_spirv.tools.kernel_test.constants import Constants
from xdsl_spirv.tools.kernel_test.description import QUESTIONS, Compile, Contents, KernelTest
from xdsl_spirv.tools.kernel_test.interface import (
    Interface,
    Leaf,
    Node,
    Resource,
    Struct,
    Structs,
    choose_entry,
)
from xdsl_spirv.tools.kernel_test.loading import load_kernel
from xdsl_spirv.tools.kernel_test.problems import Problem
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.proof_launches import (
    UNRUN,
    answers,
    block_size,
    fill_buffer,
    fill_image,
    find_sizes,
    runtime_array,
)

LONGEST = 1 << 16
"""Maximum length of a runtime array."""

USUAL = tuple(name for name in QUESTIONS if name != "initialization")
SUBGROUPS = (8, 16, 32, 64)
NUMBERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 255, 256, 1000, (1 << 31) - 1)


def find_bugs(
    test: KernelTest,
    premises: Sequence[str],
    number: int,
    seed: int = 0,
    questions: Sequence[str] = USUAL,
) -> tuple[int, list[tuple[KernelTest, Problem]]]:
    """
    Makes up to `number` launches that satisfy the premises. Returns how many launches were
    executed, and the findings that contradict the proof, each with its launch.
    """
    ran, found, random = 0, list[tuple[KernelTest, Problem]](), Random(seed)
    kernel = load_kernel(test)
    constants = Constants(kernel.index, test.specialization)
    interface = Interface(kernel.index, choose_entry(kernel.index, test.entry), constants)
    texts = [text for text in premises if text != CONSECUTIVE]
    with TemporaryDirectory() as folder:
        compiled = Path(folder, "kernel.spv")
        compiled.write_bytes(kernel.binary)
        test = replace(test, kernel=compiled, compile=Compile(kernel.environment))
        for _ in range(number):
            try:
                launch = _choose_launch(test, interface, texts, random)
            except NameError:
                return (
                    ran,
                    found,
                )  # Premises about addresses cannot be satisfied by random numbers.
            if launch is None:
                continue
            outcomes = run_test(launch)
            problems = [p for o in outcomes for p in (*o.problems, *o.expected)]
            refused = any(o.misuse for o in outcomes) or any(p.rule in UNRUN for p in problems)
            ran += not refused
            found += [(launch, p) for p in problems if any(answers(q, p) for q in questions)]
    return ran, found


def _choose_launch(
    test: KernelTest, interface: Interface, premises: Sequence[str], random: Random
) -> KernelTest | None:
    lengths, fixed = list[str](), dict[str, int]()
    members = dict[str, tuple[Resource, int]]()
    for resource in interface.resources:
        name = resource.names[0]
        if resource.texture is not None:
            lengths += [f"size({name}).{axis}" for axis in "xyz"[: len(resource.texture.axes)]]
        elif runtime_array(resource.block) is not None:
            lengths.append(f"len({name})")
        found = {n: (resource, at) for n, at in _list_members(name, resource.block)}
        members |= {n: place for n, place in found.items() if any(n in t for t in premises)}
    used = [text for text in premises if "all(" not in text]
    for text in used:
        name, equal, value = text.partition(" == ")
        if equal and value.lstrip("-").isdecimal():
            fixed[name] = int(value)
    for _ in range(300):
        pushed = _choose_pushed(interface.push_constants, fixed, random)
        size = fixed.get("subgroup.size", random.choice(SUBGROUPS))
        values = {name: n for name, n in spell_numbers("", pushed)}
        values |= {name: random.choice((*NUMBERS, random.randrange(200))) for name in members}
        values |= {f"grid.{axis}": random.choice((1, 1, 2, 3)) for axis in "xyz"}
        values |= {"subgroup.size": size, **dict.fromkeys(lengths, LONGEST)} | fixed
        if all(_holds(text, values) for text in used):
            break
    else:
        return None
    for name in random.sample(lengths, len(lengths)):
        values[name] = _shortest(name, values, used) + random.choice((0, 0, 0, 1, 5))
        if not all(_holds(text, values) for text in used):
            return None
    contents = dict[str, Contents]()
    for r in interface.resources:
        name, items = r.names[0], dict[int, tuple[int, int]]()
        items = {at: (values[n], 32) for n, (owner, at) in members.items() if owner is r}
        if r.texture is not None:
            contents[name] = fill_image(r.texture, Contents(), find_sizes(r, values))
            continue
        contents[name] = _choose_contents(name, r.block, values, premises, random)
        if items:
            length = values.get(f"len({name})")
            contents[name] = fill_buffer(r, contents[name], length, items, ())
    return replace(
        test, grid=(values["grid.x"], values["grid.y"], values["grid.z"]), subgroup_sizes=(size,),
        push_constants=pushed, buffers=contents, findings=(), error=None, allow=(), checks="all",
        target=None, max_steps=2_000_000, timeout=60.0,
    )  # fmt: skip


def _list_members(name: str, node: Node, offset: int = 0) -> Iterator[tuple[str, int]]:
    """
    Yields the name of each 32-bit integer of a block, as premises write it, and its offset in
    bytes.
    """
    if isinstance(node, Struct):
        for member in node.members:
            yield from _list_members(f"{name}.{member.name}", member.node, offset + member.offset)
    elif isinstance(node, Leaf) and node.scalar in ("i32", "u32") and None not in node.shape:
        for place in product(*map(range, (n or 0 for n in node.shape))):
            at = sum(n * stride for n, stride in zip(place, node.strides, strict=True))
            yield name + "".join(f"[{n}]" for n in place), offset + at


def _shortest(name: str, values: Mapping[str, int], premises: Sequence[str]) -> int:
    """Returns the smallest length of an array for which the premises hold."""
    low, high = 1, values[name]
    while low < high:
        middle = (low + high) // 2
        held = all(_holds(text, {**values, name: middle}) for text in premises)
        low, high = (low, middle) if held else (middle + 1, high)
    return high


def _choose_pushed(block: Struct | None, fixed: Mapping[str, int], random: Random) -> Any:
    def choose(node: Node) -> Any:
        if isinstance(node, Struct):
            return {m.name: fixed.get(m.name, choose(m.node)) for m in node.members}
        if isinstance(node, Structs):
            return [choose(node.element) for _ in range(node.count or 0)]
        return fill(node, list(node.shape))

    def fill(leaf: Leaf, shape: list[int | None]) -> Any:
        if shape:
            return [fill(leaf, shape[1:]) for _ in range(shape[0] or 0)]
        if leaf.scalar.startswith(("f", "b")):
            return random.choice((0.0, 1.0, -2.5, 1e9))
        number = random.choice((random.choice(NUMBERS), random.randrange(200)))
        number %= 1 << (8 * leaf.itemsize - 1)
        return -number if leaf.scalar.startswith("i") and random.random() < 0.2 else number

    return {} if block is None else choose(block)


def _choose_contents(
    name: str, block: Node, values: Mapping[str, int], premises: Sequence[str], random: Random
) -> Contents:
    """Returns random contents (of the block's type, or words) that satisfy the premises."""
    whole = flat(block)
    scalar = whole[1].scalar if whole is not None and whole[1].packed else "u32"
    least = -8 if scalar.startswith("i") else 0
    bits = 8 * Leaf(scalar).itemsize - scalar.startswith("i")
    pool = [n for n in (least, *NUMBERS, (1 << bits) - 1) if n < 1 << bits]
    about = [text for text in premises if f"all({name})" in text]
    good = [n for n in pool if all(_holds(t, {**values, f"all({name})": n}) for t in about)]
    low, high = sorted(random.choices(good or [0], k=2))
    if random.random() < 0.5 and not about:
        low, high = 0, random.choice((1, 7, 63))
    if any(low <= n <= high and n not in good for n in pool):
        high = low
    octets = block_size(block, values.get(f"len({name})", 0))
    size = -(-octets // Leaf(scalar).itemsize)
    return Contents(scalar, (size,), "random", random.randrange(1 << 30), low, high)


def _holds(text: str, values: Mapping[str, int]) -> bool:
    names = {name: f"v{n}" for n, name in enumerate(values)}

    class Names(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            spelled = ast.unparse(node) if isinstance(node, ast.expr) else ""
            if spelled in names:
                return ast.copy_location(ast.Name(names[spelled], ast.Load()), node)
            return self.generic_visit(node)

    parsed = ast.fix_missing_locations(Names().visit(ast.parse(text, mode="eval")))
    known = {names[name]: value for name, value in values.items()}
    names_only: dict[str, Any] = {"__builtins__": {}}
    return bool(eval(compile(parsed, "premise", "eval"), names_only, known))


def tell(launch: KernelTest, problem: Problem) -> Iterator[str]:
    """Yields lines that describe a launch and its finding."""
    yield f"grid = {launch.grid}, subgroups of {launch.subgroup_sizes}, {launch.push_constants}"
    for name, contents in launch.buffers.items():
        yield f"  {name}: {contents.size} {contents.type} in [{contents.low}, {contents.high}]"
    yield from problem.text.splitlines()
