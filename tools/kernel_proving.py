"""`xdsl-spirv prove`: a kernel never goes wrong, in any launch; or the launch in which it does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from time import process_time
from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.dialects.spirv.structure import AddressOfOp, GlobalVariableOp
from xdsl_spirv.dialects.spirv.types import RuntimeArrayType, StructType
from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.report import Finding
from xdsl_spirv.interpreter.context import symbol_name
from xdsl_spirv.interpreter.source.source_map import in_source
from xdsl_spirv.passes.spirv.specialize import specialize
from xdsl_spirv.prove.equivalence import entries
from xdsl_spirv.prove.kernel import Kernel
from xdsl_spirv.prove.premises import offer_premises, premise
from xdsl_spirv.prove.questions import Items, Proof, execute, find_launch, prove
from xdsl_spirv.prove.solvers import Limits
from xdsl_spirv.prove.values import Unsupported, z3
from xdsl_spirv.tools.kernel_test.contents import make
from xdsl_spirv.tools.kernel_test.description import SUFFIX, Contents, Given, KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.loading import load_kernel
from xdsl_spirv.tools.kernel_test.problems import Problem
from xdsl_spirv.tools.kernel_test.running import run_test
from xdsl_spirv.tools.kernel_test.toml_file import read_test
from xdsl_spirv.tools.report import note

ALWAYS = (
    "buffers are memory of their own and have less than 2^31 elements, the grid at most 65535 "
    "workgroups along an axis; loops end; specialization constants have the given values; "
    "a counter that atomics raise does not wrap around; all subgroups have one size, at most 128"
)
"""Premises of every proof."""

RULES = {
    "bounds": ("BOUNDS-",),
    "races": ("RACE-",),
    "barriers": ("BARRIER-",),
    "division": ("UNDEF-04", "UNDEF-05"),
    "shifts": ("UNDEF-03",),
}
"""The interpreter's findings that confirm the answer to a question."""

WORDS = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "i8": "u8", "i16": "u16",
         "i32": "u32", "i64": "u64"}  # fmt: skip


@dataclass
class Result:
    """The answer about a kernel: `verdict` is proved, refuted or unknown."""

    verdict: str
    lines: list[str] = field(default_factory=list[str])
    premises: list[str] = field(default_factory=list[str])
    offered: list[str] = field(default_factory=list[str])
    rules: list[str] = field(default_factory=list[str])
    """The interpreter's findings in the launch that refutes."""


def command(arguments: argparse.Namespace) -> int:
    """Exit status 0 if proved, 1 if refuted or unknown."""
    path = Path(arguments.kernel)
    test = read_test(path) if path.name.endswith(SUFFIX) else KernelTest(path, path)
    test = replace(test, entry=arguments.entry or test.entry)
    limits = Limits(arguments.seconds, work=int(arguments.seconds * 400_000))
    result = prove_kernel(test, tuple(arguments.assume or ()), limits)
    print(f"{arguments.kernel}: {result.verdict}")
    for line in result.lines:
        print(f"  {line}")
    if result.verdict == "proved":
        print(f"  premises of every proof: {ALWAYS}")
        for text in result.premises:
            print(f"  premise: {text}")
        for text in result.offered:
            print(f"  premise that you should check, and write under [assume]: {text}")
    note(verdict=result.verdict, reasons=result.lines, premises=result.premises,
         offered=result.offered, findings=result.rules)  # fmt: skip
    return int(result.verdict != "proved")


def prove_kernel(test: KernelTest, assumed: tuple[str, ...], limits: Limits) -> Result:
    """Proves or refutes a test's kernel."""
    module = load_kernel(test).module()
    given = {name: str(value).lower() for name, value in test.specialization.items()}
    specialize(module, given, defaults=True)
    named = [test.entry] if test.entry is not None else entries(module)
    if len(named) != 1:
        raise Misuse(f"the module has {len(named)} entry points", "", "choose one with --entry")
    proofs = list[Proof]()
    numbers = {name: n for name, n in test.push_constants.items() if type(n) is int}
    for fixed in ({}, numbers) if test.grid is not None and numbers else ({},):
        try:
            terms = {name: z3.BitVecVal(n, 64) for name, n in fixed.items()}
            kernel = execute(module, named[0], terms)
        except Unsupported as error:
            return Result("unknown", [because(error.reason, error.op)])
        except InterpreterError as error:
            return Result("unknown", [str(error).partition("\n")[0]])
        premises = {text: _premise(text, kernel) for text in (*test.assume, *assumed)}
        offers = offer_premises(kernel, _read_launch(test, kernel))
        until = process_time() + 8 * limits.seconds
        proof = prove(kernel, premises, offers, replace(limits, until=until))
        proofs.append(proof)
        if proof.result == "proved":
            proof.offered += [f"{name} == {n}" for name, n in fixed.items()]
            return judge(proof, test, limits)
    limits = replace(limits, until=process_time() + 8 * limits.seconds)
    result = judge(proofs[0], test, limits)
    if result.verdict == "unknown" and len(proofs) > 1:
        other = judge(proofs[1], test, limits)
        return other if other.verdict == "refuted" else result
    return result


def _premise(text: str, kernel: Kernel) -> Any:
    try:
        return premise(text, kernel)
    except ValueError as error:
        raise Misuse(str(error), f"the premise {text!r}", "write 'len(Output) >= n'") from error


def _read_launch(test: KernelTest, kernel: Kernel) -> dict[str, int]:
    """The grid, the push constants and the lengths of the launch that the test describes."""
    if test.grid is None:
        return {}
    values = {f"grid.{axis}": n for axis, n in zip("xyz", test.grid, strict=True)}
    pushed = {name: n for name, n in test.push_constants.items() if type(n) is int}
    values |= {name: pushed[name] for name in kernel.pushed if name in pushed}
    values["subgroup.size"] = test.subgroup_sizes[0] if len(test.subgroup_sizes) == 1 else 32
    for name, contents in test.buffers.items():
        parts = [contents, *contents.members.values()]
        sizes = [part.size for part in parts if part.size]
        if sizes and f"len({name})" in kernel.launch_numbers():
            values[f"len({name})"] = prod(sizes[-1])
        read = kernel.contents.get(name)
        if read and contents.type and contents.size and not contents.members:
            made = make(contents, contents.type, contents.size, name, test.source.parent)
            least, most = int(made.min()), int(made.max())
            values[f"all({name}) <= {most}"] = values[f"all({name}) >= {least}"] = 1
            if not (made == 0).any():
                values[f"all({name}) != 0"] = 1
    return values


def judge(proof: Proof, test: KernelTest, limits: Limits) -> Result:
    """The proof's answer, candidates being what the interpreter makes of them."""
    result = Result("proved", premises=proof.given, offered=proof.offered)
    unsure = [because(reason, op) for op, reason in proof.unreached.items()]
    tried = dict[str, list[Problem]]()
    for question in (q for q in proof.questions if q.result != "proved"):
        text = because(f"{question.name}: {question.what}", question.ops[0])
        if question.result != "candidate":
            unsure.append(f"{text}: {question.reason}")
            continue
        said = ""
        for held in question.ways:
            launch, items = find_launch(question, held, proof.kernel, limits)
            said = _describe(launch, items)
            if said not in tried:
                tried[said] = _run(launch, items, test, proof.kernel)
            found = [p for p in tried[said] if p.rule.startswith(RULES[question.name])]
            if found:
                shown = [f"refuted by the launch {said}", *found[0].text.splitlines()]
                return Result("refuted", [text, *shown], rules=[p.rule for p in found])
        unsure.append(f"{text}: a solver's launch shows nothing on the interpreter ({said})")
    if proof.result != "proved":
        unsure = unsure or ["it is proved in parts only: --seconds may give it more time"]
        result.verdict, result.lines = "unknown", unsure
    return result


def _describe(launch: dict[str, int], items: Items) -> str:
    """A launch in words."""
    said = [f"{name} = {value}" for name, value in launch.items()]
    said += [f"{name}[{n}] has the bits {bits:#x}" for name, some in items.items()
             for n, bits in sorted(some.items()) if bits]  # fmt: skip
    return ", ".join(said)


def because(reason: str, op: Operation | None) -> str:
    if op is None:
        return reason
    finding = Finding("UNDEF-01", op.name, in_source(op, reason))
    places.locate(finding, op)
    line = finding.source.line if finding.source is not None else finding.line
    return f"line {line}: {reason}" if line else f"{op.name}: {reason}"


def _run(values: dict[str, int], items: Items, test: KernelTest, kernel: Kernel) -> list[Problem]:
    """The interpreter's findings in a launch."""
    pushed = {name: value for name, value in values.items() if name in kernel.pushed}
    launched = replace(
        test,
        grid=(values["grid.x"], values["grid.y"], values["grid.z"]),
        push_constants={**test.push_constants, **pushed},
        buffers={name: contents for name, contents in _buffers(test, kernel, values, items)},
        findings=(), error=None, allow=(), checks="all", max_steps=10_000_000, timeout=20.0,
    )  # fmt: skip
    return [p for outcome in run_test(launched) for p in (*outcome.problems, *outcome.expected)]


def _buffers(
    test: KernelTest, kernel: Kernel, values: dict[str, int], items: Items
) -> Iterator[tuple[str, Contents]]:
    """Each used buffer with as many elements as a launch says; contents as described, or zeros."""
    used = {symbol_name(op.variable) for op in kernel.module.walk() if isinstance(op, AddressOfOp)}
    for op in kernel.module.body.block.ops:
        if not isinstance(op, GlobalVariableOp) or op.binding is None:
            continue
        if op.sym_name.data not in used:
            continue
        name = kernel.name_of(op.sym_name.data)
        given = test.buffers.get(name, Contents())
        plain = replace(given, expect=None, alias=None)
        length = values.get(f"len({name})")
        type = op.type.pointee
        if length is None or not isinstance(type, StructType) or given.members:
            yield name, replace(plain, content="zeros" if given.content is None else given.content)
            continue
        last = type.member_types[-1]
        assert isinstance(last, RuntimeArrayType)
        element = last.element_type
        rows = element.get_shape() if isinstance(element, VectorType) else ()
        kind = given.type or WORDS.get(str(element_of(element)).replace("si", "i"), "u32")
        content = given.content if isinstance(given.content, str) else "zeros"
        content = content if content in ("zeros", "ones", "range", "random") else "zeros"
        size = (length, *rows)
        if items.get(name) and content in ("zeros", "ones", "range", "random"):
            content = _with_items(replace(plain, type=kind, content=content), size, items[name])
        yield name, replace(plain, type=kind, size=size, content=content)


def _with_items(contents: Contents, size: tuple[int, ...], items: dict[int, int]) -> Given:
    """Replaces the bits of some elements in a buffer's contents."""
    assert contents.type is not None
    made = make(contents, contents.type, size, "", Path()).reshape(-1)
    words = made.view(f"u{made.dtype.itemsize}")
    for place, bits in items.items():
        if place < words.size:
            words[place] = bits
    return made.tolist()
