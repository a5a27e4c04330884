"""
Implements `xdsl-spirv prove`: proves that a kernel has no fault in any launch, or finds a launch
with a fault.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from pathlib import Path
from time import process_time
from typing import Any

from xdsl.ir import Operation

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.report import Finding
from xdsl_spirv.interpreter.source.source_map import in_source
from xdsl_spirv.passes.spirv.specialize import specialize
from xdsl_spirv.prove.addresses import DISTINCT
from xdsl_spirv.prove.equivalence import entries
from xdsl_spirv.prove.kernel import CONSECUTIVE, Kernel
from xdsl_spirv.prove.premises import offer_premises, premise
from xdsl_spirv.prove.questions import Asked, Proof, execute, find_launch, is_usual, prove
from xdsl_spirv.prove.solvers import Limits, ask
from xdsl_spirv.prove.together import find_unused
from xdsl_spirv.prove.values import Unsupported, z3
from xdsl_spirv.speech import counted
from xdsl_spirv.tools.kept_answers import open_answers
from xdsl_spirv.tools.kernel_test.arguments import ADDRESS, flat
from xdsl_spirv.tools.kernel_test.contents import make
from xdsl_spirv.tools.kernel_test.description import SUFFIX, Contents, KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.interface import Leaf
from xdsl_spirv.tools.kernel_test.loading import load_kernel
from xdsl_spirv.tools.kernel_test.problems import Problem
from xdsl_spirv.tools.kernel_test.toml_file import Table, questions, read_test
from xdsl_spirv.tools.proof_launches import (
    UNRUN,
    answers,
    array_length,
    describe,
    read_interface,
    try_launch,
)
from xdsl_spirv.tools.report import note

ALWAYS = (
    "buffers do not overlap and have less than 2^31 elements; physical addresses point to starts "
    "of unbound buffers; the grid has at most 65535 workgroups along an axis; loops end; "
    "specialization constants have the given values; a counter that atomics raise does not wrap "
    "around; all subgroups have the same size, at most 128"
)
"""Premises of every proof."""


@dataclass(frozen=True)
class Reason:
    """A reason why a kernel is not proved, and the instruction concerned."""

    text: str
    op: Operation | None = None

    @property
    def finding(self) -> Finding:
        """Returns the reason as a finding with a source location."""
        assert self.op is not None
        finding = Finding("UNDEF-01", self.op.name, in_source(self.op, self.text))
        places.locate(finding, self.op)
        return finding

    def __str__(self) -> str:
        if self.op is None:
            return self.text
        finding = self.finding
        line = finding.source.line if finding.source is not None else finding.line
        return f"line {line}: {self.text}" if line else f"{self.op.name}: {self.text}"


@dataclass
class Result:
    """The result of a proof; `verdict` is proved, refuted or unknown."""

    verdict: str
    reasons: list[Reason] = field(default_factory=list[Reason])
    premises: list[str] = field(default_factory=list[str])
    """Premises that the user gave. They are not proved."""
    unused: list[str] = field(default_factory=list[str])
    """Given premises that the proof does not need."""
    offered: list[str] = field(default_factory=list[str])
    """Premises that the proof needs and that the user did not give."""
    launch: str = ""
    """A launch in which the kernel has a fault."""
    found: list[Problem] = field(default_factory=list[Problem])
    """Findings of the interpreter in the faulty launch."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """Number of proof obligations of each question (such as races or bounds)."""
    reached: int = 0
    """Number of memory accesses that some launch is known to execute."""
    dead: list[Reason] = field(default_factory=list[Reason])
    """Accesses that no launch executes, and that the proof therefore does not cover."""

    @property
    def lines(self) -> list[str]:
        """Returns the reasons why the kernel is not proved, or the refuting launch, as lines."""
        lines = [str(reason) for reason in self.reasons]
        if self.found:
            lines += [f"refuted by the launch {self.launch}", *self.found[0].text.splitlines()]
        return lines

    @property
    def given(self) -> list[str]:
        """Returns a line for each premise that the user gave."""
        uses = {text: "not needed" for text in self.unused}
        return [f"premise, {uses.get(t, 'used but not proved')}: {t}" for t in self.premises]

    def __str__(self) -> str:
        told = list(self.lines)
        if self.verdict == "proved":
            told = [
                f"premises of every proof: {ALWAYS}",
                f"shown to be reached: {counted(self.reached, 'access')}",
                *map(str, self.dead),
                *self.given,
                *(f"unchecked premise (write it under [assume] if it is true): {text}"
                  for text in self.offered),
            ]  # fmt: skip
        depends = self.verdict == "proved" and (self.premises or self.offered)
        if_true = ", if the premises below are true" if depends else ""
        return "\n".join([self.verdict + if_true, *(f"  {line}" for line in told)])


def command(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv prove`. Returns 0 if the kernel is proved, 1 if refuted or undecided."""
    path = Path(arguments.kernel)
    test = read_test(path) if path.name.endswith(SUFFIX) else KernelTest(path, path)
    test = replace(test, entry=arguments.entry or test.entry)
    limits = limit_command(arguments)
    named = questions(Table({}, Path("command line")), "--question", arguments.question)
    asked = ask_about(named) if named else is_usual
    result = prove_kernel(test, tuple(arguments.assume or ()), limits, asked)
    print(f"{arguments.kernel}: {result}")
    note(verdict=result.verdict, reasons=result.lines, premises=result.premises,
         unused=result.unused, offered=result.offered, findings=[p.rule for p in result.found],
         reached=result.reached, dead=[str(reason) for reason in result.dead])  # fmt: skip
    return int(result.verdict != "proved")


def limit_work(seconds: float, timeout: float = inf) -> Limits:
    """Returns limits for one solver call (`timeout`) and for all work from now on, in seconds."""
    return Limits(seconds, work=int(seconds * 400_000), end=process_time() + timeout)


def limit_command(arguments: argparse.Namespace) -> Limits:
    """Returns the limits that a command's options set, with the cache of solver answers."""
    limits = limit_work(arguments.seconds, arguments.timeout)
    answers = None if arguments.no_cache else open_answers()
    return replace(limits, megabytes=arguments.memory, answers=answers)


def ask_about(names: Sequence[str]) -> Asked:
    """
    Returns a filter that selects the questions `names` (such as races or bounds) for a proof.

    The question about barriers is added to questions about the order of accesses, because a
    barrier orders accesses only if all invocations reach the barrier.
    """
    ordered = not {"races", "initialization"}.isdisjoint(names)
    return lambda question: question.name in (*names, *["barriers"] * ordered)


def prove_kernel(
    test: KernelTest,
    assumed: tuple[str, ...],
    limits: Limits,
    asked: Asked = is_usual,
) -> Result:
    """
    Proves or refutes a test's kernel for the questions (such as races) that `asked` selects.

    `assumed` are premises in addition to the test's premises.
    """
    try:
        return _prove_or_refute(test, (*test.assume, *assumed), limits, asked)
    except Unsupported as error:
        return Result("unknown", [Reason(error.reason, error.op)])
    except InterpreterError as error:
        return Result("unknown", [Reason(str(error).partition("\n")[0])])


def _prove_or_refute(
    test: KernelTest, texts: tuple[str, ...], limits: Limits, asked: Asked
) -> Result:
    proofs, numbers = list[Proof](), _list_known(texts)
    launched = dict(spell_numbers("", test.push_constants)) if test.grid is not None else {}
    ways = [numbers] if numbers.keys() >= launched.keys() else [numbers, launched | numbers]
    for fixed in ways:
        try:
            kernel = _execute(test, fixed, limits)
            if fixed is numbers:
                refuse_contradiction(kernel, texts, limits)
            offers = offer_premises(kernel, _read_launch(test, kernel))
            proof = _prove_with(kernel, texts, offers, limits, asked)
        except Unsupported:
            if not proofs:
                raise
            break  # The time limit is reached. The first attempt may have found a fault.
        proofs.append(proof)
        if proof.result == "proved":
            proof.offered += [f"{name} == {n}" for name, n in fixed.items() if name not in numbers]
            _drop_numbers(proof, test, texts, limits, asked)
            given = {text: _premise(text, kernel) for text in texts}
            known = {text: term for offer in offers for text, term in offer.items()}
            added = {text: known[text] for text in proof.offered if text in known}
            proof.unused = find_unused(kernel, proof.questions, given, added, limits.restart())
            return judge(proof, test, limits)
    result = judge(proofs[0], test, limits.restart())
    if result.verdict == "unknown" and len(proofs) > 1:
        other = judge(proofs[1], test, limits.restart())
        return other if other.verdict == "refuted" else result
    return result


def is_proved(
    test: KernelTest, texts: Sequence[str], limits: Limits, asked: Asked = is_usual
) -> bool:
    """
    True if a kernel is proved for the questions that `asked` selects, under no other premises than
    `texts`.
    """
    try:
        kernel = _execute(test, _list_known(texts), limits)
        return _prove_with(kernel, texts, (), limits, asked).result == "proved"
    except (Unsupported, InterpreterError):
        return False


def _execute(test: KernelTest, fixed: Mapping[str, int], limits: Limits) -> Kernel:
    module = load_kernel(test).module()
    given = {name: str(value).lower() for name, value in test.specialization.items()}
    specialize(module, given, defaults=True)
    named = [test.entry] if test.entry is not None else entries(module)
    if len(named) != 1:
        raise Misuse(
            f"the module has {len(named)} entry points, but a proof is about a single entry point",
            "",
            "choose one with --entry",
        )
    numbers = {name: z3.BitVecVal(n, 64) for name, n in fixed.items()}
    return execute(module, named[0], numbers, limits=limits)


def _prove_with(
    kernel: Kernel, texts: Sequence[str], offers: Sequence[dict[str, Any]], limits: Limits,
    asked: Asked,
) -> Proof:  # fmt: skip
    premises = {text: _premise(text, kernel) for text in texts}
    return prove(kernel, premises, offers, limits.restart(), asked)


def refuse_contradiction(kernel: Kernel, texts: Sequence[str], limits: Limits) -> None:
    """Raises `Misuse` if no launch fulfils all premises, because they would prove everything."""
    answer = ask(kernel.facts, (), limits, [_premise(text, kernel) for text in texts])
    if texts and answer.verdict == "never":
        needed = {texts[n] for n in answer.needed}
        # The execution already replaced the names of these premises by numbers.
        needed |= {t for t in texts for name in _list_known([t]) if any(name in n for n in needed)}
        raise Misuse(
            "no launch fulfils these premises together, so they would prove everything",
            ", ".join(text for text in texts if text in needed),
            "correct or remove one of them",
        )


def _list_known(texts: Sequence[str]) -> dict[str, int]:
    """Returns the values that premises such as `columns == 32` fix, by name."""
    found = [re.fullmatch(r"\s*([\w.()\[\]]+) == (\d+)\s*", text) for text in texts]
    known = {match[1]: int(match[2]) for match in found if match is not None}
    return known | ({CONSECUTIVE: 1} if CONSECUTIVE in texts else {})


def _drop_numbers(
    proof: Proof, test: KernelTest, texts: Sequence[str], limits: Limits, asked: Asked
) -> None:
    """Removes the offered premises about push constants without which the proof still succeeds."""
    for text in list(proof.offered):
        name, equal, _ = text.partition(" == ")
        rest = [t for t in proof.offered if t != text]
        unread = equal and "." not in name and name not in proof.kernel.pushed
        if unread or (
            name in proof.kernel.pushed and is_proved(test, (*texts, *rest), limits, asked)
        ):
            proof.offered = rest


def spell_numbers(name: str, value: Any, kind: type[Any] = int) -> Iterator[tuple[str, Any]]:
    """
    Yields (name, number) for each number of type `kind` in the value of a push constant.

    A member of a mapping has the name `name.key`, an element of a list `name[index]`.
    """
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from spell_numbers(f"{name}.{key}" if name else str(key), part, kind)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from spell_numbers(f"{name}[{number}]", part, kind)
    elif type(value) is kind:
        yield name, value


def _premise(text: str, kernel: Kernel) -> Any:
    try:
        return premise(text, kernel)
    except ValueError as error:
        raise Misuse(
            f"the premise cannot be read: {error}", repr(text), "write 'len(Output) >= n'"
        ) from error


def _read_launch(test: KernelTest, kernel: Kernel) -> dict[str, int]:
    """Returns the grid, push constants and buffer lengths of the launch that a test describes."""
    if test.grid is None:
        return {}
    values = {f"grid.{axis}": n for axis, n in zip("xyz", test.grid, strict=True)}
    pushed = dict(spell_numbers("", test.push_constants))
    values |= {name: pushed[name] for name in kernel.pushed if name in pushed}
    values["subgroup.size"] = test.subgroup_sizes[0] if len(test.subgroup_sizes) == 1 else 32
    values |= _read_addresses(test, kernel)
    interface, given = read_interface(test)
    for resource in interface.resources:
        contents = given.get(resource.names[-1], Contents())
        length = array_length(resource.block, contents)
        for name in resource.names:
            if length is not None and f"len({name})" in kernel.launch_numbers():
                values[f"len({name})"] = length
            read, whole = kernel.contents.get(name), flat(resource.block)
            alike = whole is not None and whole[1].scalar == contents.type
            if read and alike and contents.type and contents.size and not contents.members:
                made = make(contents, contents.type, contents.size, name, test.source.parent)
                least, most = int(made.min()), int(made.max())
                values[f"all({name}) <= {most}"] = values[f"all({name}) >= {least}"] = 1
                if not (made == 0).any():
                    values[f"all({name}) != 0"] = 1
    return values


def _read_addresses(test: KernelTest, kernel: Kernel) -> dict[str, int]:
    """Returns the lengths of the buffers that a test passes by physical address."""
    values, led = dict[str, int](), dict(spell_numbers("", test.push_constants, str))
    for name, address in kernel.addresses.items():
        contents = test.buffers.get(led.get(name, "").removeprefix(ADDRESS))
        if contents is not None and contents.type is not None and contents.size is not None:
            octets = prod(contents.size) * Leaf(contents.type).itemsize
            values[f"len({name})"] = (octets - address.header) // address.stride
    memories = [led.get(name, "") for name in kernel.addresses]
    return values | ({DISTINCT: 1} if len(set(memories)) == len(memories) > 1 else {})


def judge(proof: Proof, test: KernelTest, limits: Limits) -> Result:
    """Runs the counterexamples of a proof on the interpreter, and returns the verdict."""
    result = Result("proved", [], proof.given, proof.unused, proof.offered)
    result.asked = Counter(question.name for question in proof.questions)
    result.reached = proof.reached
    result.dead = [Reason("no launch reaches this access", op) for op in proof.dead]
    unsure = [Reason(reason, op) for op, reason in proof.unreached.items()]
    tried = dict[str, list[Problem]]()
    for question in (q for q in proof.questions if q.result != "proved"):
        text, op = f"{question.name}: {question.what}", question.ops[0]
        if question.result != "candidate":
            unsure.append(Reason(f"{text}: {question.reason}", op))
            continue
        said = ""
        for held in question.ways:
            launch, items = find_launch(question, held, proof.kernel, limits)
            said = describe(launch, items)
            if said not in tried:
                tried[said] = try_launch(launch, items, test, proof.kernel)
            found = [p for p in tried[said] if answers(question.name, p)]
            if found:
                return replace(
                    result, verdict="refuted", reasons=[Reason(text, op)], launch=said, found=found
                )
        refused = [p.message for p in tried.get(said, ()) if p.rule in UNRUN]
        shown = refused[0] if refused else "the interpreter finds no fault in the counterexample"
        unsure.append(Reason(f"{text}: a solver's launch: {shown} ({said})", op))
    if proof.result != "proved":
        parts = Reason("the time limit was reached before the proof was complete: raise --seconds")
        result.verdict, result.reasons = "unknown", unsure or [parts]
    return result
