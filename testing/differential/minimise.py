"""
Minimises a kernel with a difference: one output and as few statements as possible.

Almost every intermediate result of a family is an output, so reducing the kernel to one output
usually leaves a single operation. Then each statement is removed in turn, and its value replaced
by another one of the same type. All candidates of a round run on the device in one batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.differential.kernel import Kernel, Statement
from xdsl_spirv.testing.differential.running import (
    Buffers,
    Disagreement,
    choices,
    disagreements,
    interpret,
    job_of,
    module_of,
)
from xdsl_spirv.testing.dispatches import Dispatch

Run = Callable[[Sequence[Dispatch]], Sequence[str]]
"""
Function that runs jobs on the device and updates their buffers. Returns the error of each job, or
"".
"""

ROUNDS = 30
TYPE = re.compile(r": (?:.*(?:->|to) )?([^:]+)$")
BROKEN = (ParseError, VerifyException, DiagnosticException, ProgramError, InterpreterError)


def only(kernel: Kernel, buffer: int) -> Kernel:
    """Returns the kernel with a single output and the statements that it needs."""
    outputs = [output for output in kernel.outputs if output.buffer == buffer]
    others = {output.buffer for output in kernel.outputs} - {buffer}
    written = {
        number
        for number, statement in enumerate(kernel.body)
        if statement.effect and _stores_to(kernel, statement) in others
    }
    return replace(kernel.without(written), outputs=outputs)


def _stores_to(kernel: Kernel, statement: Statement) -> int | None:
    pointers = {s.result: s.text for s in kernel.body if s.result}
    if "Store" not in statement.text:
        return None
    for name in statement.needs:
        base = re.search(r"AccessChain (%\w+)\[", pointers.get(name, ""))
        if base is None:
            continue
        variable = re.search(r"addressof @b(\d+) ", pointers.get(base.group(1), ""))
        if variable is not None:
            return int(variable.group(1))
    return None


def smaller(kernel: Kernel) -> list[Kernel]:
    """Returns the kernels that result from removing one statement of a kernel."""
    candidates: list[Kernel] = []
    for number, statement in enumerate(kernel.body):
        if statement.effect and statement.result is None:
            candidate = kernel.without({number})
            if len(candidate.body) > 1:
                candidates.append(candidate)
            continue
        candidates += [
            _substitute_value(kernel, number, name) for name in _stand_ins(kernel, number)
        ]
    return candidates


def _stand_ins(kernel: Kernel, number: int) -> list[str]:
    """
    Returns values that can replace a statement's value: its operands of the same type, and the
    first earlier value of that type.
    """
    statement = kernel.body[number]
    type = _type(statement)
    if type is None:
        return []
    earlier = [s.result for s in kernel.body[:number] if s.result and _type(s) == type]
    operands = [name for name in earlier if name in statement.needs]
    return list(dict.fromkeys([*operands, *earlier[:1]]))


def _type(statement: Statement) -> str | None:
    if "\n" in statement.text or statement.result is None:
        return None
    type = TYPE.search(statement.text)
    return type.group(1).strip() if type else None


def _substitute_value(kernel: Kernel, number: int, name: str) -> Kernel:
    dropped = kernel.body[number].result
    assert dropped is not None
    word = re.compile(rf"{re.escape(dropped)}\b")
    body = [
        replace(statement, text=word.sub(name, statement.text))
        for i, statement in enumerate(kernel.body)
        if i != number
    ]
    return replace(kernel, body=body).without(set())


def minimise(disagreement: Disagreement, run: Run) -> Kernel:
    """
    Returns the smallest kernel found, with one output, for which device and interpreter still
    disagree.
    """
    best = only(disagreement.kernel, disagreement.output.buffer)
    if not _disagreeing([best], run):
        return disagreement.kernel
    for _ in range(ROUNDS):
        candidates = _disagreeing(smaller(best), run)
        if not candidates:
            break
        best = min(candidates, key=lambda kernel: len(kernel.body))
    return best


def _disagreeing(kernels: Sequence[Kernel], run: Run) -> list[Kernel]:
    tried: list[tuple[Kernel, Dispatch]] = []
    expected: list[tuple[Buffers, list[Buffers]]] = []
    for kernel in kernels:
        try:
            module = module_of(kernel)
            expected.append((interpret(kernel, module), choices(kernel, module)))
            tried.append((kernel, job_of(kernel, module)))
        except BROKEN:
            continue
    failures = run([job for _, job in tried])
    left: list[Kernel] = []
    for (kernel, job), (truth, others), failure in zip(tried, expected, failures, strict=True):
        results = {binding: array for (_, binding), array in job.buffers.items()}
        if failure or disagreements(kernel, truth, results, others):
            left.append(kernel)
    return left
