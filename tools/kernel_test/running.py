"""
Runs a test: validates the kernel, launches it once per subgroup size, and compares buffers.

An invalid module still runs if it can be decoded, and a launch with exceeded limits still runs, so
that the report shows all problems. A description that does not fit the kernel (`Misuse`) ends the
test.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.utils.exceptions import ParseError

from xdsl_spirv.interpreter.source import SourceLocation
from xdsl_spirv.runtime.patience import time_limit
from xdsl_spirv.serialization.raw.errors import SPIRVAssemblyError
from xdsl_spirv.serialization.validation.types import enumerant
from xdsl_spirv.targets import Target, TargetError, load
from xdsl_spirv.tools.kernel_test.arguments import Arguments, Buffer, Part, prepare
from xdsl_spirv.tools.kernel_test.comparing import compare, expected, names_of
from xdsl_spirv.tools.kernel_test.constants import Constants
from xdsl_spirv.tools.kernel_test.contents import Array
from xdsl_spirv.tools.kernel_test.description import KernelTest, Misuse
from xdsl_spirv.tools.kernel_test.interface import Interface, choose_entry
from xdsl_spirv.tools.kernel_test.limits import Launch, breaches, unknown_capabilities
from xdsl_spirv.tools.kernel_test.loading import Kernel, load_kernel
from xdsl_spirv.tools.kernel_test.problems import (
    COMPILE,
    LAUNCH,
    MISMATCH,
    RULES,
    UNMET,
    Location,
    Outcome,
    Problem,
    Sources,
    of_finding,
)
from xdsl_spirv.tools.settings import settings, size_origin

if TYPE_CHECKING:
    from xdsl_spirv.dialects.spirv.structure import ModuleOp
    from xdsl_spirv.interpreter import InterpreterError, Options

DEFAULT_SUBGROUP = 32

RULE = re.compile(r"([A-Z]+(?:-[0-9]+)?): ")
"""Matches the rule at the start of an error text: `STEP-01: more than ...`."""


def run_test(test: KernelTest) -> list[Outcome]:
    """Runs a test, and returns an outcome for each launch, or one outcome with the error."""
    start = time.perf_counter()
    outcome = Outcome(test)
    try:
        _refuse_failures(test.allow)
        return list(_launches(test))
    except Misuse as error:
        outcome.problems = settle_expected(test, _report_refusal(test, error, outcome), outcome)
    except Exception as error:
        outcome.problems = settle_expected(test, [fail_loading(test, error)], outcome)
    outcome.seconds = time.perf_counter() - start
    return [outcome]


def _refuse_failures(allowed: tuple[str, ...]) -> None:
    """Raises `Misuse` if `allow` names a rule that is not a finding of the checks."""
    for text in allowed:
        rule = text.partition(":")[0]
        if rule in RULES:
            raise Misuse(
                f"allow {text!r}: {rule} is not a finding", "",
                'leave the entry out; write error = "..." under [expect] for a refused launch',
            )  # fmt: skip


def subgroup_sizes(test: KernelTest) -> tuple[int, ...]:
    """Returns the subgroup sizes to test."""
    if test.subgroup_sizes:
        return test.subgroup_sizes
    target = target_of(test)
    return (DEFAULT_SUBGROUP if target is None else target.subgroup_size,)


def target_of(test: KernelTest) -> Target | None:
    """Returns the target whose limits apply to the test, or None."""
    if test.target is None:
        return None
    beside = test.source.parent / test.target
    try:
        return load(str(beside) if beside.is_file() else test.target)
    except TargetError as error:
        raise Misuse(str(error), "", "") from error


def _launches(test: KernelTest) -> Iterator[Outcome]:
    sizes, target = subgroup_sizes(test), target_of(test)
    kernel = load_kernel(test)
    invalid, notes = _validate(test, kernel)
    for size in sizes:
        start = time.perf_counter()
        outcome = Outcome(test, size, notes=list(notes))
        origin = size_origin(test.subgroup_sizes, target)
        outcome.settings = settings(
            size, origin, target, test.checks, test.robust, test.specialization
        )
        try:
            problems = [*invalid, *_launch(test, kernel, size, target, outcome)]
        except Misuse as error:
            problems = [*invalid, *_report_refusal(test, error, outcome)]
        outcome.problems = settle_expected(test, problems, outcome)
        outcome.seconds = time.perf_counter() - start
        yield outcome
        if outcome.misuse:
            return  # Other subgroup sizes would fail for the same reason.


def _report_refusal(test: KernelTest, error: Misuse, outcome: Outcome) -> list[Problem]:
    """Returns an expected error as a problem. Records other errors in `outcome.misuse`."""
    text = str(error)
    if test.error is None or test.error not in text:
        outcome.misuse = text
        return []
    return [Problem(LAUNCH, text.partition("\n")[0], text, "", Location(str(test.source)))]


def settle_expected(test: KernelTest, problems: list[Problem], outcome: Outcome) -> list[Problem]:
    """
    Removes the expected problems, and adds a problem for each expectation that is not fulfilled.

    The expectation `UNDEF-01|UNDEF-02` accepts either rule, because an optimizer may replace one
    fault by the other.
    """
    from xdsl_spirv.tools.kernel_test.compilers import faults_of_compiler

    left, faults = list[Problem](), faults_of_compiler(test.kernel)
    asked = [set(rules.split("|")) for rules in test.findings]
    for problem in problems:
        if _is_allowed(test, problem):
            outcome.notes.append(f"allowed: {problem.rule}: {problem.message}")
            continue
        if problem.rule in faults:
            outcome.notes.append(f"the compiler's fault: {problem.rule}: {problem.message}")
            continue
        wanted = any(problem.rule in rules for rules in asked) or (
            test.error is not None and problem.rule in (LAUNCH, COMPILE)
            and test.error in problem.text
        )  # fmt: skip
        (outcome.expected if wanted else left).append(problem)
    if outcome.misuse:
        return left
    expected_rules = {p.rule for p in outcome.expected}
    for rules, text in zip(asked, test.findings, strict=True):
        if not rules & expected_rules:
            left.append(_unmet(test, f"the expected finding {text} did not occur"))
    if test.error is not None and not expected_rules & {LAUNCH, COMPILE}:
        left.append(_unmet(test, f"the expected error {test.error!r} did not occur"))
    return left


def _is_allowed(test: KernelTest, problem: Problem) -> bool:
    """True if the test's `allow` list contains the problem's rule and a part of its text."""
    pairs = (text.partition(":") for text in test.allow)
    return any(rule == problem.rule and part in problem.text for rule, _, part in pairs)


def _unmet(test: KernelTest, cause: str) -> Problem:
    remedy = "the kernel does not have the bug, or the expectation is wrong"
    place = Location(str(test.source))
    return Problem(UNMET, cause, f"{UNMET}: {cause}\n  {remedy}", remedy, place)


def fail_loading(test: KernelTest, error: Exception) -> Problem:
    """Converts an error that a kernel can cause to a problem; raises any other error."""
    from xdsl_spirv.tools.kernel_test.compilers import CompileError
    from xdsl_spirv.tools.messages import message

    place = Location(str(test.kernel))
    source = getattr(error, "source", None)
    if isinstance(source, SourceLocation):
        place = Location(source.file, source.line, source.column, source.text)
    if isinstance(error, SPIRVAssemblyError):
        text = f"{test.kernel}:{error.line}:{error.column}: {error.cause}"
        return Problem(COMPILE, error.cause, text, "", Location(place.file, error.line))
    if isinstance(error, CompileError):
        return Problem(COMPILE, error.cause, str(error), "", Location(error.file, error.line))
    if isinstance(error, ParseError) and isinstance(error.span.input.content, str):
        line = error.span.input.content.count("\n", 0, error.span.start) + 1
        return Problem(COMPILE, error.msg, str(message(error)), "", Location(place.file, line))
    text = message(error)
    if text is None:
        raise error
    from xdsl_spirv.interpreter import InterpreterError

    rule = LAUNCH if isinstance(error, InterpreterError | MemoryError) else COMPILE
    named = RULE.match(text)
    if named:
        cause = text.partition("\n")[0].removeprefix(named[0])
        return Problem(named[1], cause, text, "", place)
    return Problem(rule, text.partition("\n")[0], f"{rule}: {text}", "", place)


# Validation.


def _validate(test: KernelTest, kernel: Kernel) -> tuple[list[Problem], list[str]]:
    """Validates a kernel, and returns problems and notes."""
    from xdsl_spirv.serialization.validation import Severity, validate
    from xdsl_spirv.serialization.validation.differences import known_difference
    from xdsl_spirv.tools import khronos

    sources = Sources(kernel.path)
    problems: list[Problem] = []
    for finding in validate(kernel.index.raw, kernel.environment):
        if finding.severity is Severity.ERROR:
            file, line = _split(finding.source)
            place = sources.location(file, line) if line else Location(str(kernel.path))
            text = str(finding).removeprefix(f"{finding.severity}: ")
            problems.append(Problem(finding.rule, finding.cause, text, finding.remedy, place))
    if problems or khronos.find("spirv-val") is None:
        return problems, []
    said = khronos.spirv_val(kernel.binary, kernel.environment)
    if not said:
        return [], []
    known = known_difference("", said, kernel.environment)
    if known:
        return [], [f"spirv-val refuses the module: {said.splitlines()[0]} ({known})"]
    cause = said.splitlines()[0]
    return [Problem("spirv-val", cause, f"spirv-val: {said}", "", Location(str(kernel.path)))], []


def _split(source: str | None) -> tuple[str, int]:
    """Splits `file:line:column` into file and line."""
    parts = (source or "").rsplit(":", 2)
    return (parts[0], int(parts[1])) if len(parts) == 3 and parts[1].isdecimal() else ("", 0)


# A launch.


@dataclass(frozen=True)
class Plan:
    """A launch that is ready to run, and the expected contents of its buffers."""

    test: KernelTest
    kernel: Kernel
    interface: Interface
    arguments: Arguments
    wanted: list[tuple[Buffer, Part, Array]]

    def module(self) -> ModuleOp:
        """Returns the specialized module."""
        from xdsl_spirv.passes.spirv.specialize import specialize

        module, constants = self.kernel.module(), self.interface.constants
        specialize(module, {str(id): _text(v) for id, v in constants.values.items()}, defaults=True)
        return module

    def run(self, module: ModuleOp, options: Options) -> None:
        """Launches the kernel. Raises `InterpreterError` for a fault that ends the launch."""
        from xdsl_spirv.interpreter import dispatch

        assert self.test.grid is not None
        dispatch(
            module,
            self.interface.entry.name,
            self.test.grid,
            self.arguments.arrays(),
            push_constants=self.arguments.push_constants,
            options=options,
            images=self.arguments.images(),
        )

    def mismatches(self) -> Iterator[Problem]:
        """Yields a problem for each buffer that differs from the expected contents."""
        for buffer, part, array in self.wanted:
            mismatch = compare(part.label, part.view(buffer.data), array, part.contents.tolerance)
            if mismatch is not None:
                text = f"{MISMATCH}: {mismatch}"
                cause, place = text.partition("\n")[0], Location(str(self.kernel.path))
                yield Problem(MISMATCH, cause, text, "", place)


def plan_launch(test: KernelTest, kernel: Kernel) -> Plan:
    """Makes the arguments of a launch. Raises `Misuse` if the description does not fit."""
    constants = Constants(kernel.index, test.specialization)
    interface = Interface(kernel.index, choose_entry(kernel.index, test.entry), constants)
    if test.grid is None:
        described = test.source != test.kernel
        raise Misuse(
            "the number of workgroups is not given", str(test.source),
            "write grid = [1, 1, 1]" if described
            else "--init writes a description to fill in; or give --grid, --buffer and --push",
        )  # fmt: skip
    arguments = prepare(interface, test.buffers, test.push_constants, test.source.parent)
    _refuse_idle(interface, arguments)
    values = names_of(arguments.buffers, arguments.push_values, _named_values(constants))
    base = test.source.parent
    wanted = [
        (buffer, part, array)
        for buffer in arguments.buffers
        for part in buffer.parts
        if (array := expected(part, values, base)) is not None
    ]
    return Plan(test, kernel, interface, arguments, wanted)


def _launch(
    test: KernelTest, kernel: Kernel, size: int, target: Target | None, outcome: Outcome
) -> Iterator[Problem]:
    plan = plan_launch(test, kernel)
    outcome.arguments = plan.arguments
    if target is not None and (unknown := unknown_capabilities(plan.interface, target)):
        outcome.notes.append(
            f"the file of target {target.name} does not tell if it supports {', '.join(unknown)}"
        )
    if test.checks == "none" and not plan.wanted and not test.findings:
        raise Misuse(
            "the test has no checks and no expected values", str(test.source),
            'leave checks = "none" out, or give a buffer an expected value (expect = ...)',
        )  # fmt: skip
    yield from _limits(plan, size, target)
    yield from _run(plan, size, outcome)
    if outcome.ran:
        outcome.compared += sum(part.view(buffer.data).size for buffer, part, _ in plan.wanted)
        yield from plan.mismatches()


def _refuse_idle(interface: Interface, arguments: Arguments) -> None:
    """Raises `Misuse` for a kernel without buffers, which has no results."""
    if not arguments.buffers and not interface.resources:
        raise Misuse(
            f"the entry point {interface.entry.name!r} uses no buffer", "",
            "a test needs a buffer with results",
        )  # fmt: skip


def _named_values(constants: Constants) -> dict[str, Any]:
    """Returns the values of specialization constants by name."""
    return {c.name: constants.values.get(c.id, c.default) for c in constants.specialized if c.name}


def _limits(plan: Plan, size: int, target: Target | None) -> Iterator[Problem]:
    assert plan.test.grid is not None
    interface = plan.interface
    bytes_of = {b.name: b.bytes for b in plan.arguments.buffers if b.image is None}
    launch = Launch(plan.test.grid, workgroup_size(interface), size, bytes_of)
    for breach in breaches(interface, launch, target):
        text = f"{breach.rule}: {breach.cause}\n  {breach.remedy}"
        place = Location(str(plan.kernel.path))
        yield Problem(breach.rule, breach.cause, text, breach.remedy, place)


def workgroup_size(interface: Interface) -> tuple[int, int, int]:
    """Returns the workgroup size from the WorkgroupSize built-in, LocalSizeId or LocalSize."""
    m, constants = interface.module, interface.constants
    for id, decorations in m.decorations.items():
        built_ins = [enumerant("BuiltIn", int(d.parameters[0])) for d in decorations
                     if d.name == "BuiltIn"]  # fmt: skip
        if "WorkgroupSize" in built_ins:
            x, y, z = constants.parts(id)
            return x, y, z
    for name, operands, _ in m.modes[interface.entry.function]:
        numbers = [int(o.value) for o in operands]
        if name == "LocalSizeId":
            numbers = [int(constants.value(id)) for id in numbers]
        if name in ("LocalSize", "LocalSizeId"):
            x, y, z = numbers
            return x, y, z
    raise Misuse(
        f"the entry point {interface.entry.name!r} has no workgroup size", "",
        "declare a workgroup size, such as layout(local_size_x = 64) in",
    )  # fmt: skip


def _run(plan: Plan, size: int, outcome: Outcome) -> list[Problem]:
    from xdsl_spirv.interpreter import InterpreterError

    test = plan.test
    try:
        options = options_of(test, size)
    except InterpreterError as error:
        raise Misuse(error.cause, str(error.place), error.remedy) from error
    checks, module = options.checks, plan.module()
    outcome.checked = checks is not None
    refused: list[Problem] = []
    try:
        with time_limit(test.timeout, _late(test.timeout)):
            plan.run(module, options)
        outcome.ran = True
    except InterpreterError as error:
        refused.append(fail_loading(test, error))
    if checks is None:
        return refused
    sources = Sources(plan.kernel.path)
    return [*(of_finding(finding, sources) for finding in checks.report.findings), *refused]


def _late(seconds: float) -> InterpreterError:
    from xdsl_spirv.interpreter import InterpreterError

    return InterpreterError(
        f"the launch takes more than {seconds:g} s",
        "",
        "check if a loop never ends, launch fewer workgroups, or raise the time limit (timeout)",
    )


def options_of(test: KernelTest, size: int) -> Options:
    """Returns interpreter options for a subgroup size; `InterpreterError` for unknown checks."""
    from xdsl_spirv.interpreter import Options
    from xdsl_spirv.interpreter.checks import Checks

    checks = None
    if test.checks != "none":
        checks = Checks.of(test.checks)
    return Options(
        subgroup_size=size,
        checks=checks,
        max_steps=test.max_steps,
        robust=test.robust,
        seconds=test.timeout,
    )


def _text(value: Any) -> str:
    """Formats a value for the parser of `specialize`."""
    return str(value).lower() if isinstance(value, bool) else repr(value)
