"""
Implements `xdsl-spirv generate`: answers a prompt with a language model.

The answer goes to standard output, all messages to standard error. Ctrl-C ends the answer after
the current token; a second Ctrl-C ends the process.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from types import FrameType
from typing import Any

import numpy as np

from xdsl_spirv.compiler import kept
from xdsl_spirv.llm.loading import INTERPRETER, ModelFile, Place, find_place
from xdsl_spirv.llm.model import Answer, LanguageModel
from xdsl_spirv.llm.sampling import Sampling
from xdsl_spirv.llm.sliding import NEAR
from xdsl_spirv.llm.speculation import Speculation
from xdsl_spirv.llm.texts import DECODE, PAST, PREFILL, PREFILLED, TOKEN
from xdsl_spirv.progress import heard_by
from xdsl_spirv.runtime.caches import cache_folder
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.session import Session
from xdsl_spirv.runtime.vulkan.worker import open_isolated
from xdsl_spirv.tools.options import jobs_of
from xdsl_spirv.tools.report import is_wanted, note, note_row, plain

ENDS = {
    "stop": "the model ended the answer",
    "limit": "--max-tokens",
    "capacity": "the context is full",
    "interrupted": "interrupted",
}


def generate(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv generate`. The exit status is 0 even if the user interrupts the answer."""
    if arguments.empty_cache:
        count, size = kept.empty()
        _say(f"removed {count} programs of {size:,} bytes from {cache_folder(kept.NAME)}")
        note(removed_programs=count, removed_bytes=size)
        if arguments.model is None:
            return 0
    sampling = Sampling(arguments.temperature, arguments.top_k, arguments.top_p, arguments.seed)
    jobs = jobs_of(arguments)
    prompt = _prompt_of(arguments)
    file = ModelFile.read(arguments.model, arguments.context, arguments.kv_type)
    file.prompts.encode(prompt, file.context, system=arguments.system, raw=arguments.raw)
    ahead = arguments.ahead if arguments.draft is not None else 0
    small = None if arguments.draft is None else file.read_draft(arguments.draft, ahead)
    place = find_place(arguments.device, arguments.target)
    file.refuse_beyond(place, beside=small)
    _say(f"running on {place.description}")
    with ExitStack() as sessions:
        opened: list[Program] = []

        def open_model(file: ModelFile, ahead: int) -> Session:
            kept = not arguments.no_cache
            program = file.program(place, _say, kept=kept, jobs=jobs, ahead=ahead, beside=opened)
            opened.append(program)
            session = program.session(place.device, isolated=not arguments.in_process)
            return sessions.enter_context(session)

        draft = None
        if small is not None:
            texts = small.texts(open_model(small, 0))
            model = LanguageModel(small.prompts, texts, small.context)
            draft = Speculation(model, ahead)
        texts = file.texts(open_model(file, ahead))
        answer = LanguageModel(file.prompts, texts, file.context, speculation=draft).generate(
            prompt,
            system=arguments.system,
            raw=arguments.raw,
            max_tokens=arguments.max_tokens,
            sampling=sampling,
        )
        # A progress line would erase the line of the answer.
        own_line = heard_by(None) if sys.stdout.isatty() else nullcontext()
        with _interrupting(answer), own_line:
            pieces: list[str] = []
            for piece in answer:
                pieces.append(piece)
                print(piece, end="", flush=True)
    print()
    note(answer="".join(pieces), device=place.device)
    program = opened[-1]
    _report(answer, program, file)
    if draft is not None:
        _say(f"draft: {draft.proposed} tokens proposed, {draft.accepted} of them accepted")
        note(proposed=draft.proposed, accepted=draft.accepted)
    if arguments.times:
        _report_times(program, place, len(answer.prompt), arguments.times)
    return 0


def _prompt_of(arguments: argparse.Namespace) -> str:
    """Checks the options and returns the prompt, before the model is loaded."""
    if arguments.model is None:
        raise ProgramError("no model is given", "generate", "give a .gguf file")
    if arguments.prompt is None:
        raise ProgramError(
            "there is no prompt",
            "generate",
            "give --prompt TEXT, or --prompt - to read it from standard input",
        )
    for option, number in (("max-tokens", arguments.max_tokens), ("times", arguments.times)):
        if number is not None and number < 1:
            raise ProgramError(f"--{option} {number} is too small", "", "give at least 1")
    return sys.stdin.read() if arguments.prompt == "-" else arguments.prompt


@contextmanager
def _interrupting(answer: Answer) -> Generator[None]:
    """Ends an answer, not the process, at the first Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        answer.interrupt()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _report(answer: Answer, program: Program, file: ModelFile) -> None:
    seed = "" if answer.seed is None else f"; seed {answer.seed}"
    end = ENDS[answer.end] if answer.end else "unfinished"
    _say(f"{len(answer.prompt)} tokens, answered with {len(answer.tokens)} ({end}){seed}")
    for name, work in answer.work.items():
        if work.tokens:
            _say(f"{name}: {work.tokens} tokens in {work.seconds:.2f} s, {work.rate:.2f} tokens/s")
    weights = sum(array.nbytes for array in program.weights.values())
    between = _between_kernels(program, len(answer.prompt))
    _say(
        f"memory: {weights:,} bytes of weights, {file.state_bytes:,} for {file.context:,} "
        f"tokens of context, {between:,} between kernels"
    )
    note(prompt_tokens=len(answer.prompt), answer_tokens=len(answer.tokens))
    note(end=answer.end, seed=answer.seed, context=file.context)
    note(weight_bytes=weights, state_bytes=file.state_bytes, temporary_bytes=between)
    note(work={name: {**plain(work), "rate": work.rate} for name, work in answer.work.items()})


def _report_times(program: Program, place: Place, past: int, runs: int) -> None:
    """
    Prints the median device time of one token after `past` tokens, in total and for each kind of
    kernel.
    """
    function, inputs = _place_tokens(program, DECODE, 1, past)
    if place.device == INTERPRETER:
        seconds: list[float] = []
        run(function, inputs, times=seconds)
    else:
        with open_isolated(place.device) as device:
            device.execute(function, inputs)
            seconds = [time.median / 1e9 for time in device.times(function, runs)]
    by_kind: dict[str, list[float]] = {}
    for layer, taken in zip(function.layers, seconds, strict=True):
        by_kind.setdefault(layer.path, []).append(taken)
    for kind, taken in by_kind.items():
        note_row("kernels", {"kind": kind, "count": len(taken), "seconds": sum(taken)})
    total = sum(seconds)
    shares = [
        f"{kind} {100 * sum(taken) / total:.0f} % ({len(taken)})"
        for kind, taken in sorted(by_kind.items(), key=lambda item: -sum(item[1]))
    ]
    _say(
        f"a token after {past}: {1e3 * total:.1f} ms in {len(seconds)} kernels: "
        + ", ".join(shares)
    )


def _place_tokens(
    program: Program, name: str, count: int, past: int
) -> tuple[Program, dict[str, np.ndarray[Any, Any]]]:
    """Returns a function specialized for `count` tokens after `past` tokens, and its inputs."""
    function = program.function(name)
    inputs: dict[str, np.ndarray[Any, Any]] = {
        TOKEN: np.zeros(count, np.int32),
        PAST: np.array(past),
    }
    if any(buffer.name == NEAR for buffer in function.manifest.buffers):
        states = [buffer for buffer in function.manifest.buffers if buffer.kind == "state"]
        room = min(int(buffer.shape[2]) for buffer in states)
        inputs[NEAR] = np.array(min(past, room - count))
    return function.at(inputs), inputs


def _between_kernels(program: Program, prompt: int) -> int:
    """Returns the bytes of temporaries for the largest number of tokens that are read at once."""
    count = min(prompt, PREFILLED)
    function, _ = _place_tokens(program, PREFILL if count > 1 else DECODE, count, 0)
    manifest = function.manifest
    temporaries = [buffer.bytes for buffer in manifest.buffers if buffer.kind == "temporary"]
    return sum(temporaries) if manifest.memory is None else manifest.memory


def _say(text: str) -> None:
    """Prints a message to standard error, if no JSON report is requested."""
    if not is_wanted():
        print(text, file=sys.stderr, flush=True)
