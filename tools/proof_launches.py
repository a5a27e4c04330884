"""Makes launches from a solver's counterexamples, and runs the launches with all checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_spirv.images import Sampler
from xdsl_spirv.prove.kernel import Kernel
from xdsl_spirv.prove.questions import Items
from xdsl_spirv.tools.kernel_test.arguments import flat
from xdsl_spirv.tools.kernel_test.constants import Constants
from xdsl_spirv.tools.kernel_test.contents import make
from xdsl_spirv.tools.kernel_test.description import PATTERNS, QUESTIONS, Contents, KernelTest
from xdsl_spirv.tools.kernel_test.images import Texture
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
from xdsl_spirv.tools.kernel_test.problems import LAUNCH, Problem
from xdsl_spirv.tools.kernel_test.running import run_test

UNRUN = ("LAUNCH", "COMPILE", "STEP-01", "TIME-01")
"""Rules of problems that prevent a launch from completing."""


def answers(question: str, problem: Problem) -> bool:
    """True if a finding of the interpreter shows the fault that a question is about."""
    # The rule also covers unset variables, about which this question does not ask.
    shared = question != "initialization" or "before it was written" in problem.text
    return shared and problem.rule.startswith(QUESTIONS[question])


def describe(launch: Mapping[str, int], items: Items) -> str:
    """Describes a launch in one line: its sizes, constants and buffer elements."""
    said = [f"{name} = {value}" for name, value in launch.items()]
    said += [f"{name}: {size} bits at {place} are {bits:#x}" for name, some in items.items()
             for place, (bits, size) in sorted(some.items()) if bits]  # fmt: skip
    return ", ".join(said)


def try_launch(
    values: Mapping[str, int], items: Items, test: KernelTest, kernel: Kernel
) -> list[Problem]:
    """
    Runs the launch with these sizes and constants (`values`) and buffer elements (`items`). Returns
    the findings. A launch that cannot be made is a problem, too.
    """
    interface, given = read_interface(test)
    sizes = {name.removeprefix("len(")[:-1]: n for name, n in values.items() if "len(" in name}
    buffers = dict[str, Contents]()
    for resource in interface.resources:
        name = next((n for n in resource.names if n in (*sizes, *items)), resource.names[0])
        there = given.get(resource.names[-1], Contents())
        made = fill_buffer(
            resource, there, sizes.get(name), items.get(name, {}), find_sizes(resource, values)
        )
        buffers[resource.names[-1]] = made
    block = interface.push_constants
    pushed = dict[str, int | str](values)
    for name, address in kernel.addresses.items():
        memory = re.sub(r"\W", "_", f"memory of {name}")
        size = address.header + address.stride * max(1, sizes.get(name, 1))
        buffers[memory] = Contents("u8", (size,), "zeros")
        pushed[name] = f"&{memory}"
    launched = replace(
        test, grid=(values["grid.x"], values["grid.y"], values["grid.z"]), buffers=buffers,
        push_constants={} if block is None else _push(block, "", test.push_constants, pushed),
        findings=(), error=None, allow=(), checks="all", max_steps=10_000_000, timeout=20.0,
    )  # fmt: skip
    outcomes = run_test(launched)
    problems = [p for outcome in outcomes for p in (*outcome.problems, *outcome.expected)]
    refused = [o.misuse for o in outcomes if o.misuse]
    return problems + [Problem(LAUNCH, text.partition("\n")[0], text) for text in refused]


def find_sizes(resource: Resource, values: Mapping[str, int]) -> list[int]:
    """Returns the sizes of an image in a launch; unknown sizes are 1."""
    axes = "xyz"[: len(resource.texture.axes)] if resource.texture is not None else ""
    named = [[values.get(f"size({name}).{axis}", 1) for name in resource.names] for axis in axes]
    return [max(1, *along) for along in named]


def read_interface(test: KernelTest) -> tuple[Interface, dict[str, Contents]]:
    """Returns a kernel's interface, and the test's buffers by set and binding."""
    index = load_kernel(test).index
    entry = choose_entry(index, test.entry)
    interface = Interface(index, entry, Constants(index, test.specialization))
    names = {name: r.names[-1] for r in interface.resources for name in r.names}
    return interface, {names[name]: c for name, c in test.buffers.items() if name in names}


def runtime_array(node: Node) -> tuple[int, int] | None:
    """Returns offset and stride in bytes of a block's runtime array; None without one."""
    offset = 0
    while isinstance(node, Struct) and node.members:
        last = node.members[-1]
        offset, node = offset + last.offset, last.node
    if isinstance(node, Structs) and node.count is None:
        return offset, node.stride
    if isinstance(node, Leaf) and node.shape[:1] == (None,):
        return offset, node.strides[0]
    return None


def array_length(node: Node, given: Contents) -> int | None:
    """Returns the length of a block's runtime array for the size in `given`. None if unknown."""
    array = runtime_array(node)
    while given.members and isinstance(node, Struct):
        last = node.members[-1]
        node, given = last.node, given.members.get(last.name, Contents())
        array = None if array is None else (array[0] - last.offset, array[1])
    whole = flat(node)
    scalar = given.type or (whole[1].scalar if whole is not None else None)
    if array is None or given.size is None or scalar is None:
        return None
    if whole is not None and whole[1].scalar == scalar and not whole[1].packed:
        return prod(given.size) // prod(n or 1 for n in whole[1].shape)
    return max(0, prod(given.size) * Leaf(scalar).itemsize - array[0]) // array[1]


def block_size(node: Node, length: int) -> int:
    """Returns the size of a block in bytes, if its runtime array has `length` elements."""
    array = runtime_array(node)
    return node.size if array is None else max(array[0] + array[1] * length, node.size)


def fill_buffer(
    resource: Resource, given: Contents, length: int | None, items: Mapping[int, tuple[int, int]],
    sizes: Sequence[int],
) -> Contents:  # fmt: skip
    """
    Makes a buffer or image as `given` describes it, or of zeros. Then stores the elements in
    `items`.
    """
    plain = replace(given, expect=None, alias=None)
    if resource.texture is not None:
        return fill_image(resource.texture, plain, sizes)
    if given.members and not items:
        return plain
    if length is None and given != Contents() and not items:
        return replace(plain, content=given.content or "zeros")
    octets, whole = block_size(resource.block, length or 1), flat(resource.block)
    typed = whole is not None and not whole[0] and whole[1].packed
    scalar = given.type or (whole[1].scalar if typed and whole is not None else "u8")
    scalar = scalar if octets % Leaf(scalar).itemsize == 0 else "u8"
    named = isinstance(given.content, str) and given.content in PATTERNS
    content = given.content if named and not given.members else "zeros"
    made = Contents(scalar, (octets // Leaf(scalar).itemsize,), content, given.seed, given.low,
                    given.high)  # fmt: skip
    if not items:
        return made
    array = make(made, scalar, made.size or (), "", Path())
    data = array.view(np.uint8)
    for place, (bits, size) in items.items():
        number = np.frombuffer(bits.to_bytes(size // 8, "little"), np.uint8)
        data[place : place + size // 8] = number[: max(0, data.size - place)]
    return Contents("u8", (octets,), data.tolist())


def fill_image(texture: Texture, given: Contents, sizes: Sequence[int]) -> Contents:
    """Completes the description of an image or sampler with format, sizes and contents."""
    sampler = given.sampler or (Sampler() if texture.sampler else None)
    if texture.image is None:
        return replace(given, sampler=sampler)
    type = texture.image.sampled_type
    integers = "rgba32i" if type is not None and type.signed else "rgba32ui"
    plain = integers if type is not None and type.kind == "Int" else "rgba32f"
    format = given.format or texture.format or plain
    return replace(given, format=format, size=tuple(sizes), sampler=sampler,
                   content=given.content if given.size == tuple(sizes) else "zeros")  # fmt: skip


def _push(node: Node, name: str, given: Any, values: Mapping[str, int | str]) -> Any:
    """Returns a push constant: the solver's value, else the described value, else 0."""
    if isinstance(node, Struct):
        described = given if isinstance(given, Mapping) else {}
        return {
            m.name: _push(m.node, f"{name}.{m.name}" if name else m.name,
                          described.get(m.name), values)
            for m in node.members
        }  # fmt: skip
    shape = node.shape if isinstance(node, Leaf) else (node.count,)
    if shape:
        rest = replace(node, shape=shape[1:], strides=node.strides[1:]) if isinstance(
            node, Leaf) else node.element  # fmt: skip
        listed = given if isinstance(given, list) else [None] * (shape[0] or 0)
        return [_push(rest, f"{name}[{n}]", one, values) for n, one in enumerate(listed)]
    assert isinstance(node, Leaf)
    value = values.get(name)
    if value is None:
        return 0 if given is None else given
    return value if isinstance(value, str) else _number(node, value)


def _number(leaf: Leaf, bits: int) -> int | float:
    """Reinterprets bits as a number of the leaf's type."""
    if leaf.scalar.startswith("u"):
        return bits
    if leaf.scalar == "bf16":
        return _number(Leaf("f32"), bits << 16)
    kind = np.dtype(f"{leaf.scalar[0]}{leaf.itemsize}")
    return np.frombuffer(bits.to_bytes(leaf.itemsize, "little"), kind)[0].item()
