"""
Defines sessions: runs of a program that share weights and states on a device.

    with program.session("vulkan") as session:
        logits = session.run("prefill", tokens=prompt, past=0)
        logits = session.run("decode", token=next, past=len(prompt))
        session.reset()

A session belongs to one program and one device. A refused run changes nothing. A run that fails
later (because the device is lost) leaves unknown states, so the session refuses further runs until
it is reset or loaded.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.closing import Closing
from xdsl_spirv.runtime.concrete_sizes import check_limits
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run_in_place
from xdsl_spirv.runtime.expressions import evaluate, names_in
from xdsl_spirv.runtime.given import bind_inputs
from xdsl_spirv.runtime.manifest import SHARED, Buffer
from xdsl_spirv.runtime.memory import refuse_beyond_memory
from xdsl_spirv.speech import did_you_mean

if TYPE_CHECKING:
    from xdsl_spirv.interpreter.checks import Checks
    from xdsl_spirv.runtime.program import Program

STATE_SCHEMA = "xdsl-spirv-state"
STATE_FILE_VERSION = 1
SAMPLED = 1 << 16
"""Number of bytes of each weight that are hashed to identify a program."""


@dataclass(frozen=True)
class Later:
    """A likely next run. `carried` maps its inputs to results of the present run."""

    inputs: Mapping[str, Array]
    sizes: Mapping[str, int]
    carried: Mapping[str, str]


@dataclass(frozen=True)
class Following:
    """
    The likely next run of the same function: `inputs` that differ from the present run's, and
    `carried` inputs that are results of the present run, both by name.
    """

    inputs: Mapping[str, Any]
    carried: Mapping[str, str]


class Session(Closing, ABC):
    """A program on a device, with its states. A context manager."""

    def __init__(self, program: Program):
        self.program = program
        self.states: dict[str, Buffer] = {
            buffer.name: buffer
            for function in program.functions.values()
            for buffer in function.manifest.states
        }
        self._is_lost = False
        self._ran: dict[str, Mapping[str, int]] = {}
        """The sizes of each function's last run."""

    def run(
        self,
        function: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        checks: Checks | None = None,
        outputs: Collection[str] | None = None,
        following: Following | None = None,
        **named: Any,
    ) -> dict[str, Array]:
        """
        Runs a function on inputs given by name. Without a function, runs the program's only one.

        Returns its results by name, or only the ones in `outputs`. `read` returns the others until
        the function runs again. On the interpreter, `checks` detect undefined behaviour. Raises
        `ProgramError` for inputs that do not fit, and the device's errors.

        `following` describes the likely next run. A GPU starts it before the host has the results
        of this run, and thus does not wait for the host. The device executes `following` even if
        the next run is a different one, so `following` must not change a state that other runs
        read. The results outside of `outputs` cannot be read then.
        """
        if self._is_lost:
            raise ProgramError(
                "an earlier run failed, so the states are unknown", "", "reset first"
            )
        if isinstance(function, Mapping):
            raise ProgramError(
                "inputs were given in place of a function's name", "", "write run(**inputs)"
            )
        chosen = self.program.function(function)
        given = {**(inputs or {}), **named}
        self._refuse(checks)
        wanted = [b.name for b in chosen.manifest.outputs]
        if outputs is not None:
            self._refuse_unknown(chosen, outputs)
            wanted = [name for name in wanted if name in outputs]
        arrays = bind_inputs(chosen, given)
        sizes = chosen.check_sizes(arrays)
        self._prepare(chosen, sizes)
        after = None
        if following is not None:
            # A carried input has the type and shape of the present one.
            later = bind_inputs(chosen, {**given, **following.inputs})
            after = Later(later, chosen.check_sizes(later), following.carried)
            _check_carried(chosen, after, sizes, wanted)
            self._prepare(chosen, after.sizes)
        self._is_lost = bool(self.states)
        results = self._run(chosen, arrays, sizes, checks, wanted, after)
        self._is_lost = False
        self._ran.pop(chosen.manifest.function, None)
        if after is None:
            self._ran[chosen.manifest.function] = sizes
        return results

    def read(self, function: str, output: str, first: int = 0, count: int | None = None) -> Array:
        """
        Returns a result of a function's last run: `count` rows from row `first` on.

        Raises `ProgramError` if the function has no such result or has not run.
        """
        chosen = self.program.function(function)
        self._refuse_unknown(chosen, [output])
        if self._is_lost or function not in self._ran:
            raise ProgramError(
                f"{function!r} has not run, or a following run overwrites the results",
                f"result {output!r}",
                "run it first, without a following run",
            )
        return self._read_rows(chosen, output, slice(first, count and first + count))

    def _refuse_unknown(self, function: Program, outputs: Collection[str]) -> None:
        known = [b.name for b in function.manifest.outputs]
        for name in set(outputs) - set(known):
            raise ProgramError(
                f"there is no result {name!r}",
                f"results of {function.manifest.function}: {', '.join(known)}",
                did_you_mean(name, known, "name one of them"),
            )

    def reserve(self, function: str | None = None, /, **sizes: int) -> None:
        """
        Reserves memory for runs of a function at the named sizes. Scalar inputs default to 0.

        Raises `ProgramError` for an unknown, missing or too large size, and if memory is
        insufficient.
        """
        chosen = self.program.function(function)
        names = {n for b in chosen.manifest.inputs for size in b.shape for n in names_in(size)}
        numbers = {b.name for b in chosen.manifest.inputs if b.kind == "scalar"}
        given = dict.fromkeys(numbers, 0) | sizes
        if set(given) != names | numbers:
            raise ProgramError(
                f"the names of the given sizes are wrong: {', '.join(sorted(sizes)) or 'none'}",
                f"sizes of {chosen.manifest.function}: {', '.join(sorted(names)) or 'none'}",
                "give a value for each size of the function",
            )
        check_limits(chosen.manifest, given)
        self._prepare(chosen, given)

    def reset(self) -> None:
        """Sets every state to its first value."""
        self._write(self.program.first_values())
        self._is_lost = False

    def state(self) -> dict[str, Array]:
        """Returns copies of the states."""
        return self._read()

    @stage("writing the states")
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the states to a safetensors file. Raises `ProgramError` if this fails."""
        from safetensors.numpy import save

        header = {
            "schema": STATE_SCHEMA,
            "version": str(STATE_FILE_VERSION),
            "program": fingerprint(self.program),
        }
        contents = {name: np.asarray(array, order="C") for name, array in self._read().items()}
        target = Path(path)
        scratch = target.with_name(f".{target.name}.new")
        try:
            scratch.write_bytes(save(contents, header))
            scratch.replace(target)
        except OSError as error:
            raise ProgramError(
                f"cannot write the state: {error.strerror}",
                str(error.filename or target),
                "choose another path",
            ) from error

    @stage("reading the states")
    def load(self, path: str | os.PathLike[str]) -> None:
        """
        Reads the states from a file that `save` wrote.

        Raises `ProgramError` for a damaged file, and for the states of another program.
        """
        self._write(load_states(self.program, self.states, Path(path)))
        self._is_lost = False

    def _refuse(self, checks: Checks | None) -> None:
        """Raises `ProgramError` for checks that the device does not support."""

    def _prepare(self, function: Program, sizes: Mapping[str, int]) -> None:
        """Allocates memory for a run with these sizes. Raises `ProgramError` if this fails."""

    @abstractmethod
    def _run(
        self,
        function: Program,
        inputs: Mapping[str, Array],
        sizes: Mapping[str, int],
        checks: Checks | None,
        outputs: Sequence[str],
        later: Later | None = None,
    ) -> dict[str, Array]: ...

    @abstractmethod
    def _read_rows(self, function: Program, output: str, rows: slice) -> Array: ...

    @abstractmethod
    def _read(self) -> dict[str, Array]: ...

    @abstractmethod
    def _write(self, states: Mapping[str, Array]) -> None: ...


def _check_carried(
    function: Program, later: Later, sizes: Mapping[str, int], wanted: Collection[str]
) -> None:
    """
    Raises `ProgramError` if `later` carries a result that is not in `wanted`, or whose type or
    shape differs from the input's.
    """
    results = {b.name: b for b in function.manifest.outputs if b.name in wanted}
    for name, result in later.carried.items():
        taken, buffer = later.inputs.get(name), results.get(result)
        if taken is not None and buffer is not None and dtype_of(buffer.type) == taken.dtype:
            if tuple(evaluate(size, sizes, buffer.name) for size in buffer.shape) == taken.shape:
                continue
        raise ProgramError(
            f"the result {result!r} cannot be the input {name!r} of the following run",
            f"function {function.manifest.function!r}",
            "carry a result of this run that has the input's type and shape",
        )


class InterpreterSession(Session):
    """A session on the interpreter, whose states are arrays."""

    def __init__(self, program: Program):
        super().__init__(program)
        refuse_beyond_memory(self.states.values())
        self._arrays = program.first_values()
        self._results: dict[str, dict[str, Array]] = {}

    def _prepare(self, function: Program, sizes: Mapping[str, int]) -> None:
        manifest = function.at_these(sizes).manifest
        refuse_beyond_memory(b for b in manifest.buffers if b.offset is None)

    def _run(
        self,
        function: Program,
        inputs: Mapping[str, Array],
        sizes: Mapping[str, int],
        checks: Checks | None,
        outputs: Sequence[str],
        later: Later | None = None,
    ) -> dict[str, Array]:
        states = {buffer.name: self._arrays[buffer.name] for buffer in function.manifest.states}
        results = run_in_place(function, inputs, states, checks)
        self._results[function.manifest.function] = results
        return {name: results[name] for name in outputs}

    def _read_rows(self, function: Program, output: str, rows: slice) -> Array:
        return np.atleast_1d(self._results[function.manifest.function][output])[rows]

    def _read(self) -> dict[str, Array]:
        return {name: array.copy() for name, array in self._arrays.items()}

    def _write(self, states: Mapping[str, Array]) -> None:
        self._arrays = dict(states)


def fingerprint(program: Program) -> str:
    """Returns a hash that distinguishes programs with equal states but different weights."""
    from hashlib import blake2b

    digest = blake2b(digest_size=16)
    functions = program.functions.values()
    shared = {b.name: b for f in functions for b in f.manifest.buffers if b.kind in SHARED}
    for name, buffer in sorted(shared.items()):
        digest.update(json.dumps([name, buffer.kind, str(buffer)]).encode())
        if name in program.weights:
            flat = program.weights[name].reshape(-1)
            digest.update(flat[: SAMPLED // max(1, flat.itemsize)].tobytes())
    return digest.hexdigest()


def load_states(program: Program, states: Mapping[str, Buffer], path: Path) -> dict[str, Array]:
    """Reads states from a file. Raises `ProgramError` if they are not the program's states."""
    from safetensors import SafetensorError, safe_open

    from xdsl_spirv.runtime.weights import load_weights

    arrays = load_weights(path, "state")
    try:
        with safe_open(path, framework="np") as file:
            header = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise ProgramError(
            f"cannot read the state: {error}", str(path), "give a file that `Session.save` wrote"
        ) from error
    known = header.get("schema"), header.get("version")
    if known != (STATE_SCHEMA, str(STATE_FILE_VERSION)):
        raise ProgramError(
            f"expected the schema {STATE_SCHEMA!r} in version {STATE_FILE_VERSION}, but "
            f"found {known}",
            str(path),
            "give a file that `Session.save` of this version wrote",
        )
    for name, buffer in states.items():
        array = arrays.get(name)
        given_state = "nothing" if array is None else f"{list(array.shape)} of {array.dtype}"
        if array is None or array.shape != buffer.shape or array.dtype != dtype_of(buffer.type):
            raise ProgramError(
                f"the state {name!r} must be {buffer}, but found {given_state}",
                str(path),
                "save the states again, because the program was compiled with another capacity",
            )
    if set(arrays) != set(states) or header.get("program") != fingerprint(program):
        raise ProgramError(
            "the state belongs to another program",
            str(path),
            "give a file that this program's session saved",
        )
    return {name: arrays[name].copy() for name in states}
